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

__all__ = ["main"]

_ENOUGH = 20
"""So many failures end a run: more would say the same."""


def main(options: argparse.Namespace) -> int:
    """Run the command with its options; return 1 where a case failed, else 0."""
    from .modes import runner
    from .tally import Tally
    from .workers import run_cases

    seed = options.seed if options.seed is not None else int(time.time())
    os.environ.setdefault("TILEWRIGHT_VERIFY", "1")
    seconds = options.seconds if options.seconds is not None else (60.0 if options.cases is None else None)
    known = _read_log(options.log)
    asked = itertools.count() if options.cases is None else options.cases
    cases = _limit_cases((case for case in asked if case not in known), seconds)
    target = options.target if options.mode == "schedules" else f"{options.mode}:{options.target}"
    run_case = runner(target)
    reports = (
        run_cases(seed, target, cases, options.workers)
        if options.workers
        else (run_case(seed, case, options.target) for case in cases)
    )
    tally, console, folder, began = (
        Tally(seed),
        Console(highlight=False, soft_wrap=True),
        Path(options.out),
        time.monotonic(),
    )
    if options.aim and options.mode == "schedules":
        reports = _then_aimed(reports, tally)
    for report in itertools.chain(known.values(), _log_reports(reports, options.log)):
        tally.add(report)
        if report["failure"]:
            console.print(
                f"FAILED {_write_reproduction(folder, seed, report)}\n{report['failure'][:3000]}\n", markup=False
            )
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


def _read_log(log: str | None) -> dict[int, dict[str, Any]]:
    """The reports that a log has, by case."""
    lines = Path(log).read_text().splitlines() if log is not None and Path(log).exists() else []
    reports = (json.loads(line) for line in lines if line.endswith("}"))  # the last may have been cut off
    return {report["case"]: report for report in reports}


def _log_reports(reports: Iterable[dict[str, Any]], log: str | None) -> Iterator[dict[str, Any]]:
    """The reports, each of which is in the log before it is looked at."""
    for report in reports:
        if log is not None:
            with Path(log).open("a") as file:
                file.write(json.dumps(report) + "\n")
        yield report


def _then_aimed(reports: Iterable[dict[str, Any]], tally: Tally) -> Iterator[dict[str, Any]]:
    """The reports, and when all of them are in the tally those of cases that aim at what is empty there."""
    from .aim import aimed_cases

    begin = 0
    for report in reports:
        begin = max(begin, report["case"] + 1)
        yield report
    yield from aimed_cases(tally.seed, tally.coverage, begin)


def _limit_cases(cases: Iterable[int], seconds: float | None) -> Iterator[int]:
    until = None if seconds is None else time.monotonic() + seconds
    return itertools.takewhile(lambda _: until is None or time.monotonic() < until, cases)


def _write_reproduction(folder: Path, seed: int, report: dict[str, Any]) -> str:
    """Write the program that repeats a failure; return its path, or what tells why there is none."""
    if not report.get("python"):
        return f"case {report['case']}"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"seed{seed}_case{report['case']}.py"
    path.write_text(report["python"])
    return str(path)
