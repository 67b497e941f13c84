"""Outcomes of the cases of a run."""

from __future__ import annotations

from collections import Counter
from typing import Any

from .coverage import Coverage

__all__ = ["Tally"]


class Tally:
    """Add up reports. whole: cases whose every primitive was accepted, and which lowered; exact: whose schedule keeps
    every bit. choices: of schedules that rules choose, how many were compared, by what was asked of them."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.count = self.whole = self.exact = 0
        self.failures: list[dict[str, Any]] = []
        self.programs: Counter[str] = Counter()
        self.targets: Counter[str] = Counter()
        self.tried: Counter[str] = Counter()
        self.choices: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.codes: Counter[str] = Counter()
        self.slowest: list[tuple[float, int]] = []
        self.coverage = Coverage()

    def add(self, report: dict[str, Any]) -> None:
        self.count += 1
        self.programs[report["name"]] += 1
        self.targets[report.get("target", "?")] += 1
        self.tried.update(report["tried"])
        self.choices.update(report.get("choices", {}))
        for primitive, codes in report["refused"].items():
            self.refused[primitive] += len(codes)
            self.codes.update(codes)
        if report["lowering"]:
            self.codes[f"{report['lowering']} (lower)"] += 1
        if report["failure"]:
            self.failures.append(report)
        elif not report["refused"] and not report["lowering"]:
            self.whole += 1
        self.exact += bool(report.get("exact"))
        self.coverage.add(report.get("cells", ()))
        self.slowest = sorted([*self.slowest, (round(report.get("seconds", 0), 1), report["case"])], reverse=True)[:5]

    def plain(self) -> dict[str, Any]:
        """The run as plain data."""
        return {
            "seed": self.seed,
            "cases": self.count,
            "exact": self.exact,
            "failed": [failure["case"] for failure in self.failures],
            "choices": dict(self.choices),
            "programs": dict(self.programs),
            "targets": dict(self.targets),
            "tried": dict(self.tried),
            "refused": dict(self.refused),
            "codes": dict(self.codes),
            "coverage": self.coverage.plain(),
        }

    def __str__(self) -> str:
        parts = [
            f"seed {self.seed}: {self.count} cases, {len(self.failures)} failed, {self.whole} schedules accepted in full "
            f"({self.whole / max(self.count, 1):.0%})",
            f"  schedules that keep every bit: {self.exact} ({self.exact / max(self.count, 1):.0%})",
            *(
                [f"  choices compared: {', '.join(f'{many} {what}' for what, many in sorted(self.choices.items()))}"]
                if self.choices
                else []
            ),
            f"  primitives tried {sum(self.tried.values())}, refused {sum(self.refused.values())}: {dict(self.refused)}",
            f"  codes: {dict(self.codes)}",
            f"  programs: {dict(self.programs)}",
            f"  targets: {dict(self.targets)}",
            f"  slowest (s, case): {self.slowest}",
        ]
        return "\n".join(parts)
