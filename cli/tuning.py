"""The command `tilewright tune`. What it needs is imported when it runs: other commands start faster so."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from ..autotune.errors import BadTuningFile
from ..base.arguments import is_sequence
from ..base.errors import user_source
from ..base.untrusted_input import printable
from .database import DATABASE
from .models import SUFFIXES, add_shape, read_model
from .scripts import call_function, run_script

if TYPE_CHECKING:
    from ..autotune.task import Task
    from ..autotune.tuner import PartedResult

__all__ = ["add_commands", "find_task"]


def add_commands(commands: Any) -> None:
    """Add the command to argparse's subparsers."""
    tune = commands.add_parser(
        "tune",
        help="search for the fastest schedule of a function",
        description=(
            "Calls `function` of FILE.py without arguments; it returns the tensors of a function (inputs, then outputs), or a "
            "template's task, for which schedules are then looked for. Of a model (.onnx, .pt2, .safetensors, or a graph's text) the "
            "kernels share the trials. Running it again goes on where it stopped."
        ),
    )
    tune.add_argument("what", metavar="FILE.py:function|MODEL")
    add_shape(tune)
    tune.add_argument("--trials", type=_positive, default=64, help="measured candidates in all (default: 64)")
    tune.add_argument("--database", "-d", default=DATABASE, help=f"database of the results (default: {DATABASE})")
    tune.add_argument("--target", default="llvm", help='default: "llvm", this machine')
    tune.add_argument(
        "--runner",
        metavar="WHERE",
        help=(
            "measure there: ssh://user@board, for which --target names the board's processor, or the scheduler of a Dask fleet, "
            "tcp://host:port or tls://host:port (default: this machine)"
        ),
    )
    tune.add_argument("--search", choices=("evolution", "random"), default="evolution", help="default: evolution")
    tune.add_argument("--seed", type=int, default=0, help="of the search (default: 0)")
    tune.set_defaults(command=_tune)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("expected a positive number")
    return number


def _tune(options: argparse.Namespace) -> int:
    from ..autotune.progress import readable
    from ..autotune.tuner import tune

    how: dict[str, Any] = {
        "trials": options.trials,
        "database": options.database,
        "search": options.search,
        "seed": options.seed,
        "runner": options.runner,
    }
    console = Console(highlight=False, soft_wrap=True)
    try:
        if Path(options.what).suffix in SUFFIXES:
            _tell_kernels(tune(read_model(options.what, dict(options.shape)), options.target, **how), console)
            return 0
        task = find_task(options.what, options.target)
        result = tune(task, **how)
    except KeyboardInterrupt:
        Console(stderr=True).print(f"interrupted; every trial so far is in {options.database}, run it again to go on")
        # 128 + SIGINT, as shells have it
        return 130
    gain = f", {result.baseline / result.best.seconds:.1f} x the unscheduled program" if result.baseline else ""
    best, trials = readable(result.best.seconds), len(result.history)
    rest = f"; no more were found, {options.trials} were asked for" if result.is_exhausted else ""
    space = printable(task.key.space_name)
    console.print(f"{printable(task.name)}: {best}{gain}, after {trials} trials of {space}{rest}", markup=False)
    if result.comparison is not None:
        console.print(str(result.comparison), markup=False)
    console.print(printable(result.schedule.as_python(), lines=True), markup=False)
    console.print(f"recorded in {Path(options.database).absolute()}", markup=False)
    return 0


def _tell_kernels(result: PartedResult, console: Console) -> None:
    from ..autotune.progress import readable

    for name, one in result.results.items():
        times = f"{readable(one.best.seconds)} each, {result.counts[name]} in a call, after {len(one.history)} trials"
        console.print(f"{printable(name)}: {times}", markup=False)
    console.print(f"{readable(result.seconds)} in all", markup=False)


def find_task(what: str, target: str) -> Task:
    """The task that FILE.py:function gives. Raises BadTuningFile."""
    from ..autotune.task import Task
    from ..autotune.templates import Template

    path, colon, name = what.rpartition(":")
    if not colon or not name:
        raise _bad(what, "it names no function", "FILE.py:function")
    if not os.path.isfile(path):
        raise _bad(what, f"there is no file {path}", "the path of a Python file")
    scope = run_script(path, "__tilewright_tune__")
    function = scope.get(name)
    if is_sequence(function):
        return Task.of(function, target, name=name)
    if not callable(function):
        names = [key for key, value in scope.items() if callable(value) and not key.startswith("_")]
        raise _bad(what, f"{path} has no function {name!r}", ", ".join(names))
    if isinstance(function, Template):
        return function.task(target=target)
    declared: Any = call_function(function, path)
    return declared if isinstance(declared, Task) else Task.of(declared, target, name=name)


def _bad(what: str, reason: str, allowed: str) -> BadTuningFile:
    return BadTuningFile(
        f"cannot tune {what!r}",
        reason=reason,
        called=user_source(),
        allowed=allowed,
        fix="tilewright tune program.py:matmul, where matmul() returns [A, B, C]",
    )
