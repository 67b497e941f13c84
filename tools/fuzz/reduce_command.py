"""Implementation of the command `tilewright reduce`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from ...base.arguments import is_sequence, to_list
from ...cli.models import SUFFIXES, read_model
from ...cli.scripts import ScriptFailed, call_function, running
from ...graph import Graph
from ...runtime.cuda_errors import DriverMissing, GpuMissing, PycudaMissing
from ...schedule import Schedule
from .reducer import GraphSubject, ScheduleSubject, Subject, failure_kind, reduce_subject

__all__ = ["find_subject", "main"]


def main(options: argparse.Namespace) -> int:
    """Run the command; returns 0, 1 (nothing fails) or 2 (there is nothing to reduce)."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    shape = dict(options.shape)
    found = find_subject(options.what, options.target, shape, lambda text: console.print(text, markup=False))
    if isinstance(found, str):
        console.print(f"tilewright reduce: {found}", markup=False)
        return 2
    failure, candidate = reduce_subject(found, options.seconds)
    if not failure:
        console.print(f"tilewright reduce: {options.what} builds, and computes what it declares", markup=False)
        return 1
    if failure in (DriverMissing.code, GpuMissing.code, PycudaMissing.code):
        console.print(
            f'tilewright reduce: {options.what} builds, and no GPU is here to run it: --target "cuda -emulate"',
            markup=False,
        )
        return 2
    path = found.write(candidate, Path(options.out), failure)
    Console(highlight=False, soft_wrap=True).print(f"{failure}: {path}", markup=False)
    return 0


def find_subject(
    what: str, target: str, shape: dict[str, Any] | None = None, print_line: Callable[[str], None] = print
) -> Subject | str:
    """Return the subject that the user names, or the reason why there is none."""
    if what.endswith(SUFFIXES):
        made: Any = read_model(what, shape or {})
    else:
        path, _, name = (what, "", "") if what.endswith(".py") else what.rpartition(":")
        if not os.path.isfile(path):
            return f"no file {path or what}"
        ended = failure_kind(lambda: _run(path, {}))
        if ended.startswith(("signal", "no end")):
            return f"{path} ends with {ended} when it runs: name a function in it that makes the schedule, FILE.py:NAME"
        names: dict[str, Any] = {}
        try:
            _run(path, names)
        except Exception as error:  # noqa: BLE001 - the failure may be what is reduced
            print_line(f"{path} ends before its last line: {_first_line(error)}")
        if name and name not in names:
            return f"{path} has no {name!r}"
        last = [value for value in names.values() if isinstance(value, (Schedule, Graph))][-1:]
        made = names[name] if name else (last[0] if last else None)
        made = call_function(made, path) if callable(made) else made
    if is_sequence(made):
        made = next((each for each in to_list(made) if isinstance(each, (Schedule, Graph))), None)
    if isinstance(made, Schedule):
        return ScheduleSubject(made, target, os.path.abspath(what))
    if isinstance(made, Graph):
        if not all(kind.is_static for kind in made.inputs.values()):
            return "the model has inputs of any size: give numbers, --shape NAME=1,3,224,224"
        return GraphSubject(made, target)
    return f"{what} gives neither a schedule nor a graph; name it: FILE.py:NAME"


def _first_line(error: Exception) -> str:
    """Return an error in a line; Python's own, which stand last in their tracebacks, as Python prints them."""
    if isinstance(error, ScriptFailed):
        return error.text.splitlines()[-1]
    return str(error).partition("\n")[0]


def _run(path: str, names: dict[str, Any]) -> None:
    """Run a Python file in these names, which stay when it raises."""
    names |= {"__name__": "__tilewright_reduce__", "__file__": path}
    code = compile(Path(path).read_bytes(), path, "exec")
    with running(path):
        exec(code, names)
