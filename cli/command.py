"""The command `tilewright`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from rich.console import Console

from .. import __version__
from ..base.arguments import is_sequence, to_list
from ..base.errors import TilewrightError, user_source
from ..base.untrusted_input import printable
from .database import DATABASE, report_database
from .database import add_commands as add_database_commands
from .development import add_commands as add_development_commands
from .export import add_commands as add_export_commands
from .models import SUFFIXES, add_shape, report_model
from .models import add_commands as add_model_commands
from .passes import add_commands as add_pass_commands
from .scripts import ScriptFailed, call_function, run_script
from .tuning import add_commands as add_tuning_commands

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns 0, 1 (failed) or 2 (usage)."""
    options, started = _parser().parse_args(arguments), user_source()
    if options.verbose:
        _log_to_stderr()
    try:
        return options.command(options)
    except TilewrightError as error:
        if error.called == started:
            error.called = None  # the line that runs the command is nobody's to mend
        _say("\n".join([error.render(), *error.__notes__]))
        return 1
    except ScriptFailed as failed:
        _say(failed.text)
        return 1
    except BrokenPipeError:  # whoever read the output has ended, such as `head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tilewright", description="Declare what to compute, say how by schedule primitives, get fast kernels."
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    parser.add_argument("--verbose", "-v", action="store_true", help="log long steps to standard error")

    doctor = commands.add_parser(
        "doctor",
        help="list the parts that tilewright finds on this machine, and those that are missing",
        description=(
            "Lists Python, LLVM, the CPU, threads, CUDA parts, compilers and versions as tilewright finds them, and why "
            "something is not found. --calibrate measures what schedules depend on, in a few seconds, and keeps it for this machine in "
            "the cache folder; TILEWRIGHT_CALIBRATION names another file, or is 0 for doing without."
        ),
    )
    doctor.add_argument(
        "--calibrate",
        action="store_true",
        help="measure this machine, keep the result, and show how it differs from what is known of its processor",
    )
    doctor.set_defaults(command=_doctor)

    explanation = commands.add_parser(
        "explain",
        help="explain an error by its code",
        description=("Prints what an error means, a program that raises it, what it says, and what to change."),
    )
    explanation.add_argument("code", metavar="CODE", help="the code at the start of the message: TW0203")
    explanation.set_defaults(command=_explain)

    run = commands.add_parser(
        "run",
        help="run a Python file, or the demo",
        description=(
            "Runs FILE.py as a program, or the demo: a matrix product in six steps and a photograph sharpened."
        ),
    )
    what = run.add_mutually_exclusive_group(required=True)
    what.add_argument("file", nargs="?", metavar="FILE.py")
    what.add_argument("--demo", action="store_true", help="run the demo")
    run.add_argument(
        "--out", default="out", metavar="FOLDER", help="folder for the pictures of the demo (default: out)"
    )
    run.add_argument("--time-passes", action="store_true", help="print the time of each compiler pass")
    run.add_argument("rest", nargs=argparse.REMAINDER, metavar="...", help="arguments of FILE.py")
    run.set_defaults(command=_run)

    add_export_commands(commands)
    add_tuning_commands(commands)
    add_database_commands(commands)

    report = commands.add_parser(
        "report",
        help="write a page about a schedule, a model, or a database of results",
        description=(
            "Writes one HTML file. Of FILE.py:NAME, a schedule or a function that returns one ((schedule, args) or a list of tensors "
            "will do), or of the last schedule that FILE.py makes: its records, its loops with what they cost, and the assembly, "
            "linked; what each primitive changed; its stages. Of a model (.onnx, .pt2, .safetensors, or a graph's text): its "
            "kernels with the time of each, and its graph. Of a database of results: for each task the tuning curve, the best "
            "schedule, and what failed."
        ),
    )
    report.add_argument(
        "what", nargs="?", default=DATABASE, metavar="FILE.py[:NAME] | MODEL | DATABASE", help=f"default: {DATABASE}"
    )
    report.add_argument("--out", "-o", default="report.html", metavar="FILE", help="default: report.html")
    report.add_argument(
        "--target", default="llvm", help='target of the assembly that is shown (default: "llvm", this machine)'
    )
    add_shape(report)
    report.set_defaults(command=_report)
    add_model_commands(commands)
    add_pass_commands(commands)
    add_development_commands(commands)

    cache = commands.add_parser(
        "cache",
        help="show or clear the folder of built kernels",
        description=(
            "Shows where built kernels are kept for other processes, and how much they take; --clear removes them. "
            "TILEWRIGHT_CACHE_DIR chooses the folder, TILEWRIGHT_CACHE_MB its size, TILEWRIGHT_CACHE=0 turns it off."
        ),
    )
    cache.add_argument("--clear", action="store_true", help="remove every kept kernel")
    cache.set_defaults(command=_cache)

    completion = commands.add_parser(
        "completion",
        help="print a script that completes this command in a shell",
        description=(
            'Prints the script: eval "$(tilewright completion bash)" in ~/.bashrc; for zsh, write it to _tilewright in a folder '
            "of $fpath. Needs pip install 'tilewright[completion]'."
        ),
    )
    completion.add_argument("shell", choices=("bash", "zsh", "tcsh"))
    completion.set_defaults(command=_complete)
    return parser


def _log_to_stderr() -> None:
    """Print what is logged under "tilewright"."""
    import logging  # other runs of the command do without

    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s: %(message)s", "%H:%M:%S"))
    logger = logging.getLogger(__package__.partition(".")[0] if __package__ else "tilewright")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)


def _say(text: str) -> None:
    """Write to the standard error output as it is: lines and carets stay where they are, however narrow the terminal."""
    Console(stderr=True).print(printable(text, lines=True), markup=False, highlight=False, soft_wrap=True)


def _doctor(options: argparse.Namespace) -> int:
    if options.calibrate:
        from .calibration import calibrate

        return calibrate(Console())
    from .doctor import report

    report(Console())
    return 0


def _explain(options: argparse.Namespace) -> int:
    from .explain import explain

    problem = explain(options.code, Console())
    if problem:
        _say(f"tilewright explain: {problem}")
    return 1 if problem else 0


def _cache(options: argparse.Namespace) -> int:
    from ..driver.cache.store import off_reason, open_store

    store = open_store()
    if store is None:
        print(f"off: {off_reason()}")
        return 0
    removed = store.clear() if options.clear else 0
    usage = store.usage()
    if options.clear and (removed or not usage.problem):
        print(f"removed {removed} kernels from {store.folder}")
    if usage.problem:
        _say(f"tilewright cache: {usage.problem}")
        return 1
    print(f"{usage.folder}: {usage.entries} kernels, {usage.size / 2**20:.1f} of {usage.limit >> 20} MB")
    return 0


def _complete(options: argparse.Namespace) -> int:
    try:
        shtab = import_module("shtab")
    except ImportError:
        _say("tilewright completion: it needs shtab: pip install 'tilewright[completion]'")
        return 1
    print(shtab.complete(_parser(), options.shell))
    return 0


def _run(options: argparse.Namespace) -> int:
    from ..ir.passes.common.runner import pass_times

    with pass_times() as times:
        status = _run_demo(options.out) if options.demo else _run_file(options.file, options.rest)
    if options.time_passes:
        from .doctor import time_table

        Console(stderr=True).print(time_table(times))
    return status


def _report(options: argparse.Namespace) -> int:
    what: str = options.what
    if not what.endswith(".py") and ".py:" not in what:
        print(
            report_model(what, options.out, options.target, dict(options.shape))
            if what.endswith(SUFFIXES)
            else report_database(what, options.out)
        )
        return 0
    schedule = _find_schedule(what, options.target)
    if schedule is None:
        return 2
    from ..views.report import write_page

    print(write_page(schedule, options.out, options.target))
    return 0


def _find_schedule(source: str, target: str) -> Any:
    """The schedule that FILE.py:NAME is or returns, or that is built for the target of the tensors that it is or returns, or the
    last that FILE.py makes; None, having said why, for none."""
    from ..codegen.target import Target
    from ..driver.lower import scheduled
    from ..schedule import Schedule

    path, _, name = source.rpartition(":") if not source.endswith(".py") else (source, "", "")
    if not os.path.isfile(path):
        _say(f"tilewright report: no file {path}")
        return None
    names = run_script(path, "__tilewright_report__")
    if name and name not in names:
        own = [
            each
            for each, value in names.items()
            if isinstance(value, (Schedule, list, tuple)) or getattr(value, "__module__", "") == "__tilewright_report__"
        ]
        _say(f"tilewright report: {path} has no {name!r}" + (f": it has {', '.join(own)}" if own else ""))
        return None
    made = names[name] if name else [value for value in names.values() if isinstance(value, Schedule)][-1:]
    schedule = call_function(made, path) if callable(made) else made
    given: list[Any] = to_list(schedule)
    if given and is_sequence(schedule):
        schedule = given[0] if isinstance(given[0], Schedule) else scheduled(given, Target.parse(target), exact=False)
    if not isinstance(schedule, Schedule):
        _say(f"tilewright report: {source} gives no schedule" + ("" if name else "; name it: FILE.py:NAME"))
        return None
    return schedule


def _run_demo(folder: str) -> int:
    from ..demo import main as demo

    return demo(folder)


def _run_file(path: str, rest: list[str]) -> int:
    """Run a program as Python does: with its own arguments, and with its folder first on the path."""
    if not os.path.isfile(path):
        _say(f"tilewright run: no file {path}")
        return 2
    arguments, sys.argv = sys.argv, [path, *rest]
    try:
        run_script(path, "__main__")
    finally:
        sys.argv = arguments
    return 0
