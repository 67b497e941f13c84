"""The command `tilewright opt`: named compiler passes over the text of a loop IR function."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.untrusted_input import read_regular

if TYPE_CHECKING:
    from ..ir.passes.common.runner import Pass, Watcher
    from ..ir.stmt import Function

__all__ = ["add_commands"]

_MOST_BYTES = 1 << 28
"""Size limit of an IR text."""


def add_commands(commands: Any) -> None:
    """Add the command to argparse's subparsers."""
    opt = commands.add_parser(
        "opt",
        help="run compiler passes over IR text",
        description=(
            "Reads a function of the loop IR, as print(tw.lower(s, args)) shows it and TILEWRIGHT_DUMP=FOLDER writes it, runs "
            "passes over it, and prints the result, which `opt` reads again. The function is verified before the first pass and "
            "after each. Status 1 where a pass leaves a function that is not well formed."
        ),
    )
    opt.add_argument("file", nargs="?", metavar="FILE.ir", help="- is the standard input")
    opt.add_argument(
        "--passes", metavar="NAME,...", help="passes to run, in this order (default: the whole pipeline of the target)"
    )
    opt.add_argument("--target", default="llvm", help='pipeline to take passes from: "llvm ..." or "c" (default: llvm)')
    opt.add_argument("--bounds-check", action="store_true", help="add the pass that bounds_check=True adds")
    opt.add_argument("--print-each", action="store_true", help="print the function after each pass that changes it")
    opt.add_argument("--out", "-o", metavar="FILE.ir", help="write the result to a file")
    opt.add_argument("--list", action="store_true", help="list the passes of the pipeline, in order")
    opt.set_defaults(command=_opt, usage_error=opt.error)


def _opt(options: argparse.Namespace) -> int:
    from ..ir.passes.common.runner import Verifying, run_pipeline
    from ..ir.text.parser import parse
    from ..ir.text.printer import file_text

    # the target decides which passes there are, so --list and --passes need it first
    passes = _target_pipeline(options)
    if options.list:
        print("\n".join(step.name for step in passes))
        return 0
    file: str = options.file or ""
    if not file:
        options.usage_error("FILE.ir is missing")
    if options.passes is not None:
        passes = _named_passes(options, passes)
    # a usage error and no traceback: the path is what the user typed
    if file != "-" and not Path(file).is_file():
        options.usage_error(f"no file {file}")
    try:
        text = sys.stdin.read() if file == "-" else read_regular(file, _MOST_BYTES).decode()
    except UnicodeDecodeError:
        return options.usage_error(f"{file} is not text in UTF-8")
    # text that people edit: a malformed function is told at the pass that made it
    watchers: list[Watcher] = [Verifying()]
    if options.print_each:
        watchers.append(_print_changes())
    function = run_pipeline(parse(text), passes, watchers)
    if options.out is not None:
        Path(options.out).write_text(file_text(function))
    elif not options.print_each:
        print(function)
    return 0


def _target_pipeline(options: argparse.Namespace) -> tuple[Pass, ...]:
    """Return the passes that a build for the target runs, in order."""
    from ..codegen.c.pipeline import c_pipeline
    from ..codegen.llvm.pipeline import build_pipeline
    from ..codegen.target import Target
    from ..ir.passes.common.options import AS_USUAL

    target = Target.parse(options.target)
    if target.kind == "llvm":
        return build_pipeline(target, options.bounds_check)
    if target.kind == "c":
        return c_pipeline(options.bounds_check, AS_USUAL, target.fuses)
    options.usage_error(f"the passes of target {target.kind!r} do not run on one function alone: choose llvm or c")
    raise AssertionError("unreachable: usage_error exits")


def _named_passes(options: argparse.Namespace, pipeline: tuple[Pass, ...]) -> tuple[Pass, ...]:
    """Return the passes of a pipeline that the user names, in the user's order."""
    known = {step.name: step for step in pipeline}
    wanted = [name.strip() for name in options.passes.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in known]
    if unknown:
        options.usage_error(f"unknown pass {', '.join(unknown)}: the pipeline has {', '.join(known)}")
    return tuple(known[name] for name in wanted)


def _print_changes() -> Watcher:
    """Return a watcher that prints the function after each pass that has changed it."""
    last = ""

    def watch(name: str, function: Function, seconds: float) -> None:
        del seconds
        nonlocal last
        text = str(function)
        print(f"# {name}" + (" (no change)" if text == last else f"\n{text}\n"))
        last = text

    return watch
