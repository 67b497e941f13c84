"""The choices of the rules, with their candidates and reasons: `s.plan`.

    rule          anchor  fused       chosen                     of   time     bound by
    conv2d_nchw   conv    pad, relu   channels, tile 6 x 2 x 8   31   1.2 ms   fma throughput

A rule that chooses says what it chooses from, `group.choose(name, candidates)`: a candidate knows its estimate and how it applies
itself to the group's schedule. Whoever asks for a schedule may choose otherwise (`chooser`), from the very same candidates, so what
searches begins at the rules' choice. A plan stands beside a schedule and is no part of its records: a replayed one,
like one by hand, has a row for each stage at root, with the estimate of its loops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import overload

from ..base.dataclass import dataclass
from ..codegen.gpus import Gpu
from ..codegen.machine import Machine
from ..te.operation import Operation
from .cost.doubts import ALIKE
from .cost.estimate import Estimate, soonest

__all__ = ["Candidate", "Chooser", "Decision", "Plan", "cheapest", "decide", "table_text", "time_text"]


@dataclass(frozen=True, repr=False)
class Candidate:
    """Candidate schedule of a group.

    description: what it is, in a few words, by which those of one decision are told apart. apply: gives the group its
    schedule. estimate: its time, where the rule knows it beforehand. reason: why it uses less of the machine than such a rule's
    schedules do elsewhere, by the data that it is about; empty where it does not. further: whether only who searches looks at
    it.
    """

    description: str
    apply: Callable[[], None]
    estimate: Estimate | None = None
    reason: str = ""
    further: bool = False

    @property
    def seconds(self) -> float:
        """Its time as estimated; 0 where that is not known."""
        return 0.0 if self.estimate is None else self.estimate.seconds

    def __repr__(self) -> str:
        time = time_text(None if self.estimate is None else self.estimate.seconds)
        return f"Candidate({self.description}{f', {time}' if time else ''})"


@dataclass(frozen=True, repr=False)
class Decision:
    """A row of a plan: what a rule chose for a group. anchor, fused: the names of the operation that the rule is about, and of
    those that are computed with it. output: the operation that the group stores. candidates: each with its estimate, where the
    rule made one; chosen: the place of the one taken among them. estimate: of what was taken, on the machine that it is for;
    reason: why that uses less of the machine than it could, "x by 4 bytes: windows". gpu: that it is for; None for a processor."""

    rule: str
    anchor: str
    fused: tuple[str, ...]
    output: Operation
    machine: Machine
    candidates: tuple[tuple[str, Estimate | None], ...]
    chosen: int
    estimate: Estimate | None
    reason: str = ""
    gpu: Gpu | None = None

    @property
    def description(self) -> str:
        """Description of the candidate that was taken."""
        return self.candidates[self.chosen][0]

    @property
    def seconds(self) -> float | None:
        """Return the estimated time; None where nothing is."""
        return None if self.estimate is None else self.estimate.seconds

    @property
    def binds(self) -> str:
        """Resource that takes most of the time; empty where nothing is estimated."""
        return "" if self.estimate is None else self.estimate.binds

    def __repr__(self) -> str:
        time = f", {time_text(self.seconds)} by {self.binds}" if self.estimate is not None else ""
        return f"Decision({self.rule} of {self.anchor}: {self.description}, of {len(self.candidates)}{time})"


Chooser = Callable[[str, Sequence[Candidate]], int]
"""(name of the decision, candidates) -> the place of the one to take."""


def cheapest(_: str, candidates: Sequence[Candidate]) -> int:
    """The chooser of rules: the least estimate, the first of those that are about equal; the first where some have none. What only
    who searches looks at is left out."""
    usual = [at for at, candidate in enumerate(candidates) if not candidate.further]
    times = [time for at in usual if (time := candidates[at].estimate) is not None]
    return usual[soonest(times, ALIKE)] if len(times) == len(usual) else usual[0]


def decide(
    rule: str,
    anchor: Operation,
    candidates: Sequence[Candidate],
    chooser: Chooser,
    machine: Machine,
    *,
    title: str = "",
    fused: tuple[str, ...] = (),
    output: Operation | None = None,
    gpu: Gpu | None = None,
) -> Decision:
    """Have one of the candidates chosen, which is left to apply. title: the name of the decision, if not "RULE of ANCHOR"; output: the
    operation that is stored, if not the anchor."""
    chosen = chooser(title or f"{rule} of {anchor.name}", candidates)
    taken = candidates[chosen]
    described = tuple((candidate.description, candidate.estimate) for candidate in candidates)
    return Decision(
        rule, anchor.name, fused, output or anchor, machine, described, chosen, taken.estimate, taken.reason, gpu
    )


@dataclass(frozen=True, repr=False)
class Plan(Sequence[Decision]):
    """The decisions about a schedule, in the order in which they were made: a sequence of rows, and a table to print."""

    decisions: tuple[Decision, ...] = ()

    def __len__(self) -> int:
        return len(self.decisions)

    @overload
    def __getitem__(self, at: int) -> Decision: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Decision]: ...

    def __getitem__(self, at: int | slice) -> Decision | Sequence[Decision]:
        return self.decisions[at]

    def __iter__(self) -> Iterator[Decision]:
        return iter(self.decisions)

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """Rows to print, with the titles."""
        titles = ("rule", "anchor", "fused", "chosen", "of", "time", "bound by")
        rows = [
            titles,
            *(
                (
                    row.rule,
                    row.anchor,
                    ", ".join(row.fused),
                    row.description,
                    str(len(row.candidates)),
                    time_text(row.seconds),
                    row.binds,
                )
                for row in self.decisions
            ),
        ]
        if not any(row.reason for row in self.decisions):
            return rows
        return [
            (*row, reason)
            for row, reason in zip(rows, ("reason", *(row.reason for row in self.decisions)), strict=True)
        ]

    def __str__(self) -> str:
        if not self.decisions:
            return "no rule chose anything"
        return table_text(self.rows)

    __repr__ = __str__


def table_text(rows: Sequence[Sequence[str]]) -> str:
    """Rows as lines, their columns side by side."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def time_text(seconds: float | None) -> str:
    """A time with a unit that suits it."""
    if seconds is None:
        return ""
    unit, scale = next(
        ((unit, scale) for unit, scale in (("s", 1.0), ("ms", 1e3)) if seconds * scale >= 1), ("us", 1e6)
    )
    return f"{seconds * scale:.3g} {unit}"
