"""The commands `tilewright db`, and the page about a database that `tilewright report` writes.

What they need is imported when they run: other commands start faster so. What a database says is shown without control
characters, whoever wrote it.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from ..autotune.errors import NoRecord
from ..base.errors import user_source
from ..base.untrusted_input import printable
from .scripts import run_script

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..autotune.records import Database, TunedTask
    from ..autotune.templates import Template

__all__ = ["DATABASE", "add_commands", "report_database"]

DATABASE = "tune.sqlite"


def add_commands(commands: Any) -> None:
    """Add the commands to argparse's subparsers."""
    db = commands.add_parser(
        "db", help="inspect a database of tuning results", description="Lists, shows, moves and checks results."
    )
    actions = db.add_subparsers(title="actions", required=True, metavar="ACTION")
    for name, text, action in (
        ("ls", "list the tasks", _list),
        ("best", "print the best schedule of each task, as code", _best),
        ("export", "write every trial as a line of JSON", _export),
        ("import", "add trials from logs, which hold lines of JSON: of `db export`, or of TVM's tuners", _import),
        ("merge", "add the trials of other databases", _merge),
        ("gc", "remove what was measured by other versions of tilewright or LLVM, which is never used again", _collect),
        ("check", "look at every value of every trial, and at the file", _check),
    ):
        parser = actions.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        if name in ("import", "merge"):
            parser.add_argument("--database", "-d", default=DATABASE, help=f"to add them to (default: {DATABASE})")
        else:
            parser.add_argument("database", nargs="?", default=DATABASE, help=f"the file (default: {DATABASE})")
        if name == "best":
            parser.add_argument("--task", default="", help="only this: its name, or the beginning of its key")
            parser.add_argument(
                "--of",
                default="",
                metavar="FILE.py:FUNCTION",
                help="of the tensors, or the template's task, that this returns: code with their names",
            )
            parser.add_argument("--target", default="llvm", help='of --of (default: "llvm", this machine)')
        elif name == "export":
            parser.add_argument("--out", "-o", default="-", metavar="FILE", help="default: the standard output")
        elif name == "import":
            parser.add_argument(
                "logs", nargs="*", default=["-"], metavar="LOG", help="JSON lines (default: the standard input)"
            )
            parser.add_argument(
                "--program",
                metavar="FILE.py",
                help=(
                    "run this, which registers the templates of an AutoTVM log, or the workloads of an auto_scheduler log"
                ),
            )
            parser.add_argument(
                "--target", default="llvm", help='of --program: results are for it (default: "llvm", this machine)'
            )
        elif name == "merge":
            parser.add_argument("databases", nargs="+", metavar="DATABASE")
        parser.set_defaults(command=action)


def _list(options: argparse.Namespace) -> int:
    from ..autotune.progress import readable
    from ..autotune.records import Database

    with Database(options.database, must_exist=True) as database:
        tasks = database.tasks()
        if not tasks:
            raise _no_task(options.database, "", database)
        for task in tasks:
            best, baseline = (readable(time) if time else "-" for time in (task.best, task.baseline))
            _print(
                f"{printable(task.name)}  {task.key.digest}  {task.trials} trials, {task.failures} failed, best {best}, "
                f"unscheduled {baseline}"
            )
            key = task.key
            _print(f"    {printable(f'{key.space_name}; {key.target}; {key.machine}; {key.versions}')}")
    return 0


def _print(text: str) -> None:
    """Print the text as it is, however narrow the terminal."""
    Console(soft_wrap=True, highlight=False).print(text, markup=False)


def _say(text: str) -> None:
    Console(stderr=True, soft_wrap=True, highlight=False).print(printable(text), markup=False)


def _choose_tasks(database: Database, wanted: str) -> list[TunedTask]:
    return [
        task for task in database.tasks() if not wanted or task.name == wanted or task.key.digest.startswith(wanted)
    ]


def _no_task(path: str, wanted: str, database: Database) -> NoRecord:
    what, known = f"task {wanted!r}" if wanted else "tasks", ", ".join(task.name for task in database.tasks())
    return NoRecord(
        f"{path!r} has no {what}",
        called=user_source(),
        allowed=known,
        fix="" if known else f"tilewright tune FILE.py:FUNCTION -d {path} adds one",
    )


def _best(options: argparse.Namespace) -> int:
    from ..autotune.progress import readable
    from ..autotune.records import Database
    from ..schedule import from_json
    from ..schedule.model.positional_code import write_positional_code

    if options.of:
        return _find_best(options)
    with Database(options.database, must_exist=True) as database:
        tasks = _choose_tasks(database, options.task)
        if not tasks:
            raise _no_task(options.database, options.task, database)
        for task in tasks:
            best = database.best(task.key)
            time = readable(best.time) if best is not None and best.time is not None else "nothing succeeded"
            _print(f"# {printable(task.name)} ({task.key.digest}), of {printable(task.key.space_name)}: {time}")
            if best is not None:
                _print(printable(write_positional_code(from_json(best.records, foreign=True)), lines=True))
    return 0


def _find_best(options: argparse.Namespace) -> int:
    """The best schedule of a program that is at hand."""
    from ..autotune.progress import readable
    from ..autotune.record_lookup import best_schedule
    from .tuning import find_task

    task = find_task(options.of, options.target)
    schedule, trial = best_schedule(task, options.database, any_space=task.is_derived)
    _print(f"# {printable(task.name)} ({task.key.digest}): {readable(trial.time or 0.0)}")
    _print(printable(schedule.as_python(), lines=True))
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
        _say(f"{len(lines)} trials in {Path(options.out).absolute()}")
    return 0


def _import(options: argparse.Namespace) -> int:
    from ..autotune.json_lines import read_lines
    from ..autotune.records import Database
    from ..autotune.templates import Template

    missing = next((log for log in options.logs if log != "-" and not os.path.isfile(log)), None)
    if missing is not None:
        raise NoRecord(f"there is no file {missing!r}", called=user_source(), fix="tilewright db export writes one")
    templates = (
        []
        if options.program is None
        else [
            each for each in run_script(options.program, "__tilewright_tune__").values() if isinstance(each, Template)
        ]
    )
    with Database(options.database) as database:
        for log in options.logs:
            with sys.stdin.buffer if log == "-" else Path(log).open("rb") as file:
                lines = read_lines(file)
                new = database.import_lines(
                    lines if options.program is None else _read_tvm_log(lines, options.target, templates)
                )
            _say(
                f"{new} new trials from {'the standard input' if log == '-' else log} in {Path(options.database).absolute()}"
            )
    return 0


def _read_tvm_log(lines: Iterator[str], target: str, templates: list[Template]) -> Iterator[str]:
    """The lines of a log of TVM's as lines of ours; tells which were left out, and why."""
    from ..autotune.json_lines import Line, write_line
    from ..compat.tvm.logs import imported

    found = imported(lines, target, templates)
    for reason, count in found.left.items():
        _say(f"{count} lines left out: {reason}")
    for task, trial in found.trials:
        yield write_line(Line(task.key, task.name, None, trial))


def _merge(options: argparse.Namespace) -> int:
    from ..autotune.records import Database

    for other in options.databases:
        with Database(other, must_exist=True) as added, Database(options.database) as database:
            _say(f"{database.merge(added)} new trials from {other} in {Path(options.database).absolute()}")
    return 0


def _collect(options: argparse.Namespace) -> int:
    from ..autotune.records import Database
    from ..autotune.task import versions_text

    with Database(options.database, must_exist=True) as database:
        _say(f"removed {database.keep_versions(versions_text())} trials of other versions than {versions_text()}")
    return 0


def _check(options: argparse.Namespace) -> int:
    from ..autotune.records import Database

    with Database(options.database, must_exist=True) as database:
        trials, marked, faults = 0, 0, 0
        for key, trial, fault in database.check():
            trials += 1
            marked += database.is_marked(key, trial)
            if fault:
                faults += 1
                _print(printable(f"{trial.uid}: {fault}"))
    _print(
        f"{trials} trials: {faults} that would be refused; {marked} were checked on this machine, others are when they are used"
    )
    return 1 if faults else 0


def report_database(path: str, out: str) -> Path:
    """Write the page about a database: for each task the tuning curve, the best schedule, and what failed."""
    from ..autotune.records import Database
    from ..autotune.report import write_report

    with Database(path, must_exist=True) as database:
        return write_report(database, out)
