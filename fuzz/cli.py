"""The command `tilewright fuzz`."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

if TYPE_CHECKING:
    from .tally import Tally

__all__ = ["add_command"]

_ENOUGH = 20
"""So many failures end a run: more would say the same."""


def add_command(commands: Any) -> None:
    """Adds the command to argparse's subparsers."""
    fuzz = commands.add_parser("fuzz", help="look for schedules that compute something else", description=(
        "Draws programs and schedules of them; each must be refused by a typed error, or compute on arrays between guard "
        "pages what the unscheduled program, interpreted, and numpy do. A failure is made smaller and written as a Python "
        "file that repeats it. Prints what was reached: operation x dtype x primitive. Status 1 where a case failed."))
    fuzz.add_argument("--mode", choices=("schedules", "operators"), default="schedules",
                      help="drawn schedules of drawn programs, or compositions of topi's operators under topi.schedule")
    fuzz.add_argument("--seconds", type=float, help="how long (default: 60, where --cases does not say how many)")
    fuzz.add_argument("--seed", type=int, help="of all draws (default: the time)")
    fuzz.add_argument("--cases", type=_range, metavar="N or A:B", help="how many cases, or which: from A up to B, B excluded")
    fuzz.add_argument("--workers", type=int, default=os.cpu_count() or 1,
                      help="processes; 0: in this one (default: one for each core)")
    fuzz.add_argument("--aim", action="store_true", help="afterwards aim at what no schedule has reached")
    fuzz.add_argument("--target", choices=("llvm", "c", "cuda", "all"), default="all",
                      help="cuda is the emulated GPU; all is llvm and cuda (default: all)")
    fuzz.add_argument("--out", default="out/fuzz", metavar="FOLDER", help="where failures and the table go (default: out/fuzz)")
    fuzz.set_defaults(command=_fuzz)


def _range(text: str) -> range:
    first, colon, last = text.partition(":")
    try:
        cases = range(int(first), int(last)) if colon else range(int(first))
    except ValueError:
        raise argparse.ArgumentTypeError("a number of cases, or first:last, is asked for") from None
    return cases


def _fuzz(options: argparse.Namespace) -> int:
    from .modes import runner
    from .tally import Tally
    from .workers import run_cases

    seed = options.seed if options.seed is not None else int(time.time())
    os.environ.setdefault("TILEWRIGHT_VERIFY", "1")
    seconds = options.seconds if options.seconds is not None else (60.0 if options.cases is None else None)
    cases = _within(itertools.count() if options.cases is None else options.cases, seconds)
    target = options.target if options.mode == "schedules" else f"{options.mode}:{options.target}"
    run_case = runner(target)
    reports = (run_cases(seed, target, cases, options.workers) if options.workers
               else (run_case(seed, case, options.target) for case in cases))
    tally, console, folder, began = Tally(seed), Console(highlight=False, soft_wrap=True), Path(options.out), time.monotonic()
    if options.aim and options.mode == "schedules":
        reports = _then_aimed(reports, tally)
    for report in reports:
        tally.add(report)
        if report["failure"]:
            console.print(f"FAILED {_written(folder, seed, report)}\n{report['failure'][:3000]}\n", markup=False)
            if len(tally.failures) >= _ENOUGH:
                break
    console.print(str(tally), markup=False)
    if options.mode == "schedules":
        console.print(str(tally.coverage), markup=False)
    folder.mkdir(parents=True, exist_ok=True)
    table = folder / "coverage.json"
    table.write_text(json.dumps(tally.plain(), indent=1) + "\n")
    rate = tally.count / max(time.monotonic() - began, 1e-9)
    console.print(f"{rate:.1f} cases/s; the table is in {table}", markup=False)
    return int(bool(tally.failures))


def _then_aimed(reports: Iterable[dict[str, Any]], tally: Tally) -> Iterator[dict[str, Any]]:
    """The reports, and when all of them are in the tally those of cases that aim at what is empty there."""
    from .covering import aimed_cases

    begin = 0
    for report in reports:
        begin = max(begin, report["case"] + 1)
        yield report
    yield from aimed_cases(tally.seed, tally.coverage, begin)


def _within(cases: Iterable[int], seconds: float | None) -> Iterator[int]:
    until = None if seconds is None else time.monotonic() + seconds
    return itertools.takewhile(lambda _: until is None or time.monotonic() < until, cases)


def _written(folder: Path, seed: int, report: dict[str, Any]) -> str:
    """Writes the program that repeats a failure; its path, or what tells why there is none."""
    if not report.get("python"):
        return f"case {report['case']}"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"seed{seed}_case{report['case']}.py"
    path.write_text(report["python"])
    return str(path)
