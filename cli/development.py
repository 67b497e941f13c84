"""The commands `tilewright fuzz`, `reduce` and `bench`, whose parts are in the source tree and not in what pip installs."""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.console import Console

from ..runtime.threads import available_cpus
from .models import add_shape

__all__ = ["add_commands"]


def add_commands(commands: Any) -> None:
    """Add the commands to argparse's subparsers."""
    _add_fuzz(commands)
    _add_reduce(commands)
    _add_bench(commands)


def _add_fuzz(commands: Any) -> None:
    fuzz = commands.add_parser(
        "fuzz",
        help="search for schedules that compute a wrong result",
        description=(
            "Draws programs and schedules of them; each must be refused by a typed error, or compute on arrays between guard "
            "pages what the unscheduled program, interpreted, and numpy do. A failure is made smaller and written as a Python "
            "file that repeats it. Prints what was reached: operation x dtype x primitive. Status 1 where a case failed."
        ),
    )
    fuzz.add_argument(
        "--mode",
        choices=("schedules", "operators", "selections", "kernels"),
        default="schedules",
        help="drawn schedules of drawn programs, compositions of topi's operators under topi.schedule, all that "
        "autoschedule may choose for drawn programs, or kernels for GPUs by rules and by hand, in three orders "
        "and compiled (default: schedules)",
    )
    fuzz.add_argument("--seconds", type=float, help="time limit in seconds (default: 60 without --cases)")
    fuzz.add_argument("--seed", type=int, help="of all draws (default: the time)")
    fuzz.add_argument(
        "--cases", type=_range, metavar="N or A:B", help="number of cases, or the range from A to B, B excluded"
    )
    fuzz.add_argument(
        "--workers",
        type=int,
        default=available_cpus(),
        help="number of processes, 0 for none besides this one (default: one for each core)",
    )
    fuzz.add_argument("--aim", action="store_true", help="afterwards aim at what no schedule has reached")
    fuzz.add_argument(
        "--target",
        choices=("llvm", "c", "cuda", "all"),
        default="all",
        help="cuda is the emulated GPU; all is llvm and cuda (default: all)",
    )
    fuzz.add_argument(
        "--log", metavar="FILE", help="a line for each case; cases that have one there already are not run again"
    )
    fuzz.add_argument(
        "--out", default="out/fuzz", metavar="FOLDER", help="folder for failures and the table (default: out/fuzz)"
    )
    fuzz.set_defaults(command=_fuzz)


def _add_reduce(commands: Any) -> None:
    reduce = commands.add_parser(
        "reduce",
        help="make a failing schedule or model smaller",
        description=(
            "Takes a schedule or a graph (tw.graph) from a Python file, or a model, that fails to build, computes something else than "
            "it declares, or ends the process; leaves out primitives, operations and elements as long as it fails in the same "
            "way; and writes a small program that does, reduced.py. Status 1 where nothing fails."
        ),
    )
    reduce.add_argument(
        "what",
        metavar="FILE.py[:NAME] | MODEL",
        help="NAME is a schedule, a graph, or a function that returns one (default: the last that FILE.py makes)",
    )
    reduce.add_argument("--target", default="llvm", help="target to build for (default: llvm)")
    add_shape(reduce)
    reduce.add_argument("--seconds", type=float, default=60.0, help="time limit of the search in seconds (default: 60)")
    reduce.add_argument("--out", "-o", default="out/reduced", metavar="FOLDER", help="default: out/reduced")
    reduce.set_defaults(command=_reduce)


def _add_bench(commands: Any) -> None:
    bench = commands.add_parser(
        "bench",
        help="time kernels against other libraries",
        description=(
            'Times the cases of each group (or of "GROUP SHAPE") against every peer that is installed, in turn, on one thread and '
            "on two; prints a table and writes JSON and a page with a roofline. Without names it lists what there is. The peers: "
            "pip install 'tilewright[bench]'."
        ),
    )
    bench.add_argument("names", nargs="*", metavar="GROUP", help="gemm, conv, ... (none: list them)")
    bench.add_argument("--all", action="store_true", help="every group")
    bench.add_argument(
        "--threads", type=_counts, default=[1, 2], metavar="N,...", help="numbers of threads (default: 1,2)"
    )
    bench.add_argument("--realtime", action="store_true", help="run with realtime priority (needs the permission)")
    bench.add_argument(
        "--seed", type=int, default=0, metavar="N", help="of the shapes that are drawn, group declared (default: 0)"
    )
    bench.add_argument(
        "--out", default="out", metavar="FOLDER", help="folder for the JSON file and the page (default: out)"
    )
    bench.set_defaults(command=_bench)


def _range(text: str) -> range:
    first, colon, last = text.partition(":")
    try:
        cases = range(int(first), int(last)) if colon else range(int(first))
    except ValueError:
        raise argparse.ArgumentTypeError("expected a number of cases, or first:last") from None
    return cases


def _counts(text: str) -> list[int]:
    """Numbers of threads, as `--threads 1,2` gives them."""
    counts = [int(part) for part in text.split(",")]
    if min(counts) < 1:
        raise ValueError(text)
    return counts


def _fuzz(options: argparse.Namespace) -> int:
    if not _tools_are_here("fuzz"):
        return 2
    from ..tools.fuzz.cli import main

    return main(options)


def _reduce(options: argparse.Namespace) -> int:
    if not _tools_are_here("reduce"):
        return 2
    from ..tools.fuzz.reduce_command import main

    return main(options)


def _bench(options: argparse.Namespace) -> int:
    if not _tools_are_here("bench"):
        return 2
    from ..tools.benchmarks.harness import main

    return main(
        options.names,
        everything=options.all,
        out=Path(options.out),
        threads=options.threads,
        realtime=options.realtime,
        seed=options.seed,
    )


def _tools_are_here(command: str) -> bool:
    """Return whether this is the source tree; where it is not, says how to get it."""
    if find_spec("tilewright.tools") is not None:
        return True
    Console(file=sys.stderr).print(
        f"tilewright {command}: this is part of the source tree, which an installed package leaves out. In a copy of the tree:\n"
        f"    pip install --editable '.[dev,bench]' && tilewright {command}",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
    return False
