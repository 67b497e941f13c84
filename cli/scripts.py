"""Programs of users that a command runs: with their own folder first on the path, and errors of theirs told as Python tells them."""

from __future__ import annotations

import runpy
import sys
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import TilewrightError

__all__ = ["ScriptFailed", "run_script", "running"]


class ScriptFailed(Exception):
    """A program ended by an exception. text: the end of its traceback, from the program's first line on."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


@contextmanager
def running(path: str) -> Generator[None]:
    """Run code of a program. Raises ScriptFailed for an exception that is none of tilewright's."""
    folders = sys.path
    sys.path = [str(Path(path).resolve().parent), *sys.path]
    try:
        yield
    except TilewrightError:
        raise
    except Exception as error:
        text = _traceback_text(error, path)
        if not text:
            raise
        raise ScriptFailed(text) from error
    finally:
        sys.path = folders


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
    if frame is None and not isinstance(error, SyntaxError):
        return ""
    text = "".join(traceback.TracebackException(type(error), error, frame).format()).rstrip()
    if frame is not None:
        return text
    text = text.removeprefix("Traceback (most recent call last):\n")
    return text if path in text else f'  File "{path}"\n{text}'
