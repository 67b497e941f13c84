"""Programs of users that a command runs: with their own folder first on the path, and errors of theirs told as Python tells them."""

from __future__ import annotations

import runpy
import sys
import traceback
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from inspect import signature
from pathlib import Path
from typing import Any

from ..base.errors import TilewrightError

__all__ = ["ArgumentsDoNotFit", "ScriptFailed", "call_function", "run_script", "running"]


class ScriptFailed(Exception):
    """A program ended by an exception. text: the end of its traceback, from the program's first line on."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class ArgumentsDoNotFit(ScriptFailed):
    """A function of a program takes other arguments than it is given. reason: what Python says of them."""

    def __init__(self, path: str, name: str, reason: str) -> None:
        super().__init__(f"{path}: {name} cannot be called with what is given: {reason}")
        self.reason = reason


@contextmanager
def running(path: str) -> Generator[None]:
    """Run code of a program. Raises ScriptFailed for an exception that is none of tilewright's."""
    # as `python FILE.py` does, so that a program finds the modules beside it
    folders = sys.path
    sys.path = [str(Path(path).resolve().parent), *sys.path]
    try:
        yield
    except TilewrightError:
        raise
    except Exception as error:
        text = _traceback_text(error, path)
        # no line of the program was reached: the error is of something before it
        if not text:
            raise
        raise ScriptFailed(text) from error
    finally:
        sys.path = folders


def call_function(function: Callable[..., Any], path: str, arguments: Mapping[str, Any] | None = None) -> Any:
    """Return what a function of a program does. Raises ScriptFailed, ArgumentsDoNotFit."""
    # asked before the call, since a TypeError inside of the function would look the same
    with suppress(ValueError):  # of what has no signature
        try:
            signature(function).bind(**(arguments or {}))
        except TypeError as error:
            name = getattr(function, "__name__", type(function).__name__)
            raise ArgumentsDoNotFit(path, name, str(error)) from None
    with running(path):
        return function(**(arguments or {}))


def run_script(path: str, run_name: str) -> dict[str, Any]:
    """Run a Python file; returns its names with their values. Raises ScriptFailed."""
    with running(path):
        return runpy.run_path(path, run_name=run_name)


def _traceback_text(error: Exception, path: str) -> str:
    """The traceback of `python FILE.py`: without the frames that led to the program, and for a file that is no Python the place.
    Empty for what went wrong before the program began."""
    frame = error.__traceback__
    while frame is not None and frame.tb_frame.f_code.co_filename != path:
        frame = frame.tb_next
    if (
        frame is None and isinstance(error, ValueError) and "null bytes" in str(error)
    ):  # a SyntaxError since Python 3.11.4
        error = SyntaxError(str(error))
    if frame is None and not isinstance(error, SyntaxError):
        return ""
    text = "".join(traceback.TracebackException(type(error), error, frame).format()).rstrip()
    if frame is not None:
        return text
    text = text.removeprefix("Traceback (most recent call last):\n")
    return text if path in text else f'  File "{path}"\n{text}'
