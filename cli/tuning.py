"""The commands `tilewright tune` and `tilewright db`, and the page about a database that `tilewright report` writes.

What they need is imported when they run: other commands start faster so.
"""

from __future__ import annotations

import argparse
import runpy
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from ..autotune.errors import BadTuningFile, NoRecord
from ..errors import user_source

if TYPE_CHECKING:
    from ..autotune.records import Database, TunedTask
    from ..autotune.task import Task

__all__ = ["DATABASE", "add_commands", "report_database"]

DATABASE = "tune.sqlite"


def add_commands(commands: Any) -> None:
    """Adds the commands to argparse's subparsers."""
    tune = commands.add_parser("tune", help="look for the fastest schedule of a function", description=(
        "Calls `function` of FILE.py without arguments; it returns the tensors of a function (inputs, then outputs), or a "
        "template's task, for which schedules are then looked for. Running it again goes on where it stopped."))
    tune.add_argument("what", metavar="FILE.py:function")
    tune.add_argument("--trials", type=_positive, default=64, help="measured candidates in all (default: 64)")
    tune.add_argument("--database", "-d", default=DATABASE, help=f"where results are kept (default: {DATABASE})")
    tune.add_argument("--target", default="llvm", help='default: "llvm", this machine')
    tune.add_argument("--search", choices=("evolution", "random"), default="evolution", help="default: evolution")
    tune.add_argument("--seed", type=int, default=0, help="of the search (default: 0)")
    tune.set_defaults(command=_tune)

    db = commands.add_parser("db", help="look into a database of results", description="Lists, shows, exports and imports results.")
    actions = db.add_subparsers(title="actions", required=True, metavar="ACTION")
    for name, text, action in (
        ("ls", "list the tasks", _list), ("best", "print the best schedule of each task", _best),
        ("export", "write every trial as a line of JSON", _export), ("import", "add trials from lines of JSON", _import),
    ):
        parser = actions.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        _add_database(parser)
        if name == "best":
            parser.add_argument("--task", default="", help="only this: its name, or the beginning of its key")
        elif name == "export":
            parser.add_argument("--out", "-o", default="-", metavar="FILE", help="default: the standard output")
        elif name == "import":
            parser.add_argument("file", nargs="?", default="-", help="JSON lines (default: the standard input)")
        parser.set_defaults(command=action)


def _add_database(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("database", nargs="?", default=DATABASE, help=f"the file (default: {DATABASE})")


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("a positive number is asked for")
    return number


def _tune(options: argparse.Namespace) -> int:
    from ..autotune.progress import readable
    from ..autotune.tuner import tune

    task = _task_of(options.what, options.target)
    try:
        result = tune(task, trials=options.trials, database=options.database, search=options.search, seed=options.seed)
    except KeyboardInterrupt:
        Console(stderr=True).print(f"interrupted; every trial so far is in {options.database}, run it again to go on")
        return 130
    console = Console(highlight=False, soft_wrap=True)
    gain = f", {result.baseline / result.best.seconds:.1f} x the unscheduled program" if result.baseline else ""
    console.print(f"{task.name}: {readable(result.best.seconds)}{gain}, after {len(result.history)} trials", markup=False)
    console.print(result.schedule.as_python(), markup=False)
    console.print(f"recorded in {Path(options.database).absolute()}", markup=False)
    return 0


def _task_of(what: str, target: str) -> Task:
    """The task that FILE.py:function gives. Raises BadTuningFile."""
    from ..autotune.task import Task
    from ..autotune.templates import Template

    path, colon, name = what.rpartition(":")
    if not colon or not name:
        raise _bad(what, "it names no function", "FILE.py:function")
    if not Path(path).is_file():
        raise _bad(what, f"there is no file {path}", "the path of a Python file")
    folder = str(Path(path).resolve().parent)
    sys.path.insert(0, folder)   # as when the file is run: it may import its neighbours
    try:
        scope = runpy.run_path(path, run_name="__tilewright_tune__")
    finally:
        sys.path.remove(folder)
    function = scope.get(name)
    if not callable(function):
        names = [key for key, value in scope.items() if callable(value) and not key.startswith("_")]
        raise _bad(what, f"{path} has no function {name!r}", ", ".join(names))
    if isinstance(function, Template):
        return function.task(target=target)
    declared: Any = function()
    return declared if isinstance(declared, Task) else Task.of(declared, target, name=name)


def _bad(what: str, reason: str, allowed: str) -> BadTuningFile:
    return BadTuningFile(f"cannot tune {what!r}", reason=reason, called=user_source(), allowed=allowed,
                         fix="tilewright tune program.py:matmul, where matmul() returns [A, B, C]")


# The database


def _list(options: argparse.Namespace) -> int:
    from ..autotune.progress import readable
    from ..autotune.records import Database

    console = Console(soft_wrap=True, highlight=False)
    with Database(options.database, must_exist=True) as database:
        for task in database.tasks():
            best, baseline = (readable(time) if time else "-" for time in (task.best, task.baseline))
            console.print(f"{task.name}  {task.key.digest}  {task.trials} trials, {task.failures} failed, best {best}, "
                          f"unscheduled {baseline}", markup=False)
            console.print(f"    {task.key.target}; {task.key.machine}; {task.key.versions}", markup=False)
    return 0


def _chosen(database: Database, wanted: str) -> list[TunedTask]:
    return [task for task in database.tasks() if not wanted or task.name == wanted or task.key.digest.startswith(wanted)]


def _best(options: argparse.Namespace) -> int:
    from ..autotune.progress import readable
    from ..autotune.records import Database
    from ..schedule import from_json

    console = Console(highlight=False, soft_wrap=True)
    with Database(options.database, must_exist=True) as database:
        tasks = _chosen(database, options.task)
        if not tasks:
            raise NoRecord(f"{options.database!r} has no task {options.task!r}", called=user_source(),
                           allowed=", ".join(task.name for task in database.tasks()))
        for task in tasks:
            best = database.best(task.key)
            time = readable(best.time) if best is not None and best.time is not None else "nothing succeeded"
            console.print(f"{task.name} ({task.key.digest}): {time}", markup=False)
            for record in from_json(best.records) if best is not None else ():
                console.print(f"  {record!r}", markup=False)
    return 0


def _export(options: argparse.Namespace) -> int:
    from ..autotune.records import Database

    with Database(options.database, must_exist=True) as database:
        lines = list(database.export_lines())
    text = "".join(f"{line}\n" for line in lines)
    if options.out == "-":
        sys.stdout.write(text)
    else:
        Path(options.out).write_text(text, encoding="utf-8")
        Console(stderr=True).print(f"{len(lines)} trials in {Path(options.out).absolute()}", soft_wrap=True)
    return 0


def _import(options: argparse.Namespace) -> int:
    from ..autotune.records import Database

    if options.file != "-" and not Path(options.file).is_file():
        raise NoRecord(f"there is no file {options.file!r}", called=user_source(), fix="tilewright db export writes one")
    lines = (sys.stdin.read() if options.file == "-" else Path(options.file).read_text(encoding="utf-8")).splitlines()
    with Database(options.database) as database:
        new = database.import_lines(lines)
    Console(stderr=True).print(f"{new} new trials of {len(lines)} in {Path(options.database).absolute()}", soft_wrap=True)
    return 0


def report_database(path: str, out: str) -> Path:
    """Writes the page about a database: for each task the tuning curve, the best schedule, and what failed."""
    from ..autotune.records import Database
    from ..autotune.report import write_report

    with Database(path, must_exist=True) as database:
        return write_report(database, out)
