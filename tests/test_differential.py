"""The test that judges the compiler: drawn programs under drawn schedules.

Each primitive either raises a typed error and changes nothing, or is taken; then lowering either raises a typed error, or
the kernel does what the interpreter's run of the unscheduled program and numpy do. On the way: the interpreter's checks
(bounds, unwritten reads, races) on the scheduled program, the verifier after every pass, the text and the records.

    python tests/test_differential.py --seed 7 --cases 120:121      # one case again, in this process
    python tests/test_differential.py --seed 7 --cases 0:5000 --workers 2
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import drawn
import drawn_oracle
import drawn_workers

SCRIPT = Path(__file__).resolve()


class Tally:
    """What came of the cases."""

    def __init__(self) -> None:
        self.count = self.whole = 0
        self.failures: list[str] = []
        self.programs: Counter[str] = Counter()
        self.tried: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.codes: Counter[str] = Counter()
        self.slowest: list[tuple[float, int]] = []

    def add(self, report: dict[str, Any]) -> None:
        self.count += 1
        self.programs[report["name"]] += 1
        self.tried.update(report["tried"])
        for primitive, codes in report["refused"].items():
            self.refused[primitive] += len(codes)
            self.codes.update(codes)
        if report["lowering"]:
            self.codes[f"{report['lowering']} (lower)"] += 1
        if report["failure"]:
            self.failures.append(f"case {report['case']}: {report['failure']}")
        elif not report["refused"] and not report["lowering"]:
            self.whole += 1
        self.slowest = sorted([*self.slowest, (round(report.get("seconds", 0), 1), report["case"])], reverse=True)[:5]

    def __str__(self) -> str:
        parts = [
            f"seed {drawn.SEED}: {self.count} cases, {len(self.failures)} failed, {self.whole} schedules accepted in full "
            f"({self.whole / max(self.count, 1):.0%})",
            f"  primitives tried {sum(self.tried.values())}, refused {sum(self.refused.values())}: {dict(self.refused)}",
            f"  codes: {dict(self.codes)}", f"  programs: {dict(self.programs)}", f"  slowest (s, case): {self.slowest}",
        ]
        return "\n".join(parts)


def run(cases: Iterable[int], workers: int) -> Tally:
    tally = Tally()
    for report in drawn_workers.run_all(SCRIPT, drawn.SEED, cases, workers):
        tally.add(report)
    return tally


def test_drawn_programs_under_drawn_schedules() -> None:
    count = drawn.count(300, 20_000)
    tally = run(range(count), workers=2)
    print(tally)
    assert tally.count == count
    assert not tally.failures, f"{tally}\n\n" + "\n\n".join(tally.failures[:3])
    assert tally.whole * 4 >= count, str(tally)
    assert tally.codes[f"{drawn_oracle.TOO_SLOW} (lower)"] * 20 <= count, str(tally)
    assert len(tally.programs) >= 10, str(tally)
    primitives = {"split", "fuse", "reorder", "tile", "parallel", "vectorize", "unroll", "bind", "compute_at", "compute_inline",
                  "cache_read", "cache_write", "rfactor", "storage_align", "set_store_predicate", "set_scope"}
    assert primitives <= set(tally.tried), str(tally)


def main() -> int:
    parser = argparse.ArgumentParser(description="Run cases of the differential test.")
    parser.add_argument("--seed", type=int, default=drawn.SEED)
    parser.add_argument("--cases", default="0:300", help="first:last, last excluded")
    parser.add_argument("--workers", type=int, default=0, help="0: in this process")
    parser.add_argument("--serve", action="store_true", help="read case numbers from standard input, answer in JSON")
    parser.add_argument("--show", type=int, default=4000, help="characters of each failure")
    options = parser.parse_args()
    drawn.SEED = options.seed
    if options.serve:
        drawn_workers.serve(drawn_oracle.run_case)
        return 0
    os.environ.setdefault("TILEWRIGHT_VERIFY", "1")
    first, last = map(int, options.cases.split(":"))
    tally = Tally()
    reports = (drawn_workers.run_all(SCRIPT, drawn.SEED, range(first, last), options.workers) if options.workers
               else map(drawn_oracle.run_case, range(first, last)))
    for report in reports:
        tally.add(report)
        if report["failure"]:
            print(f"FAIL {report['case']} {report['name']}: {report['failure'][: options.show]}\n", flush=True)
    print(tally)
    return bool(tally.failures)


if __name__ == "__main__":
    sys.exit(main())
