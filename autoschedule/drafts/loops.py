"""Loops of a draft's stage over its own axes: trips, the parts of several axes as one, what an iteration takes."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod
from typing import TYPE_CHECKING

from ...ir.expr import IterVar, Var
from .draft import DraftStage
from .frames import Digits, Frame, divide

if TYPE_CHECKING:
    from .nests import Nests

__all__ = ["StageLoops"]


class StageLoops:
    """The loops of one run of a stage. narrow: those that have other iterations than their parts say, in the last step of a split."""

    def __init__(self, nests: Nests, stage: DraftStage, frame: Frame) -> None:
        self.nests, self.stage, self.frame, self.machine = nests, stage, frame, nests.machine
        self.leaves = stage.leaf_iter_vars
        self.value = nests.value(stage)
        self.summed = self.value.own is not None
        self.narrow: dict[IterVar, Digits] = {}
        self.begin = self.find_body()
        if not self.summed:
            self.value = nests.specialize(self.value, self.find_written_axes())
        reduce = [at for at in range(self.begin) if self.reduces(self.leaves[at])]
        data = [at for at in range(self.begin) if not self.reduces(self.leaves[at])]
        self.last_data = data[-1] + 1 if data else 0
        self.resumed = bool(reduce) and reduce[0] < self.last_data

    def find_body(self) -> int:
        begin = len(self.leaves)
        while begin and self.stage.kinds.get(self.leaves[begin - 1]) in ("unroll", "vectorize"):
            if (id(self.stage), self.leaves[begin - 1]) in self.nests.placed:
                break
            begin -= 1
        return begin

    def find_written_axes(self) -> list[IterVar]:
        """The declared axes all of whose values are written out."""
        return [
            leaf
            for leaf in self.leaves[self.begin :]
            if self.stage.kinds.get(leaf) == "unroll" and leaf not in self.stage.parts and leaf in self.stage.own
        ]

    def reduces(self, leaf: IterVar) -> bool:
        return self.summed and leaf.kind == "reduce"

    def digits(self, leaf: IterVar) -> Digits:
        """A loop as loops over own axes."""
        known = self.narrow.get(leaf)
        if known is not None:
            return known
        part = self.stage.parts.get(leaf)
        if part is None:
            return [(leaf, self.frame.widths.get(leaf, 1))]
        whole = [digit for each in part.of for digit in self.digits(each)]
        if not part.factor:
            return whole
        if not part.inner and self.values(leaf) == 1:  # a reader takes no more of several axes, though it crosses a row
            return []
        outer, inner = self.divide(whole, part.factor)
        return inner if part.inner else outer

    def divide(self, whole: Digits, factor: int) -> tuple[Digits, Digits]:
        """The steps of so many iterations, and these."""
        return divide(whole, factor)

    def find_rest(self, leaf: IterVar) -> tuple[IterVar, int] | None:
        """The lanes whose steps a loop counts, and how many are left for the last step; None where it costs what others do."""
        part = self.stage.parts.get(leaf)
        if part is None or not part.factor or part.inner:
            return None
        lanes = [
            inner
            for inner, other in self.stage.parts.items()
            if other.inner
            and other.of[0] is part.of[0]
            and len(other.of) == 1
            and any(inner is leaf for leaf in self.leaves[self.begin :])
        ]
        whole = [digit for each in part.of for digit in self.digits(each)]
        if not lanes or self.stage.kinds.get(lanes[0]) != "vectorize" or len(whole) != 1:
            return None
        few = whole[0][1] % part.factor
        width = self.machine.lanes(self.stage.op.output(0).dtype.bits)
        fewer = not self.machine.masks or ceil(few / width) < ceil(part.factor / width)
        return (lanes[0], few) if few and whole[0][1] > part.factor and fewer else None

    def find_share(self, at: int) -> float:
        """The part of a loop's iterations that are computed: of what is mirrored, those up to the diagonal."""
        if self.stage.mirrored is None:
            return 1.0
        row, column = self.stage.mirrored
        over_rows = [
            place for place in range(self.begin) if any(axis is row for axis, _ in self.digits(self.leaves[place]))
        ]
        if at != max(over_rows, default=None):
            return 1.0
        inner = self.inner_values(self.begin)
        extent = self.frame.widths.get(row, 1)
        return min((1 + (inner.get(row, 1) + inner.get(column, 1)) / max(extent, 1)) / 2, 1.0)

    def inner_values(self, begin: int) -> dict[Var, int]:
        """The values of own axes that loops from a place on take."""
        values: dict[Var, int] = {}
        for leaf in self.leaves[begin:]:
            for axis, trips in self.digits(leaf):
                values[axis] = values.get(axis, 1) * trips
        return {axis: min(count, self.frame.widths.get(axis, count)) for axis, count in values.items()}

    def name(self, axis: Var) -> Var:
        return self.frame.names.get(axis, axis)

    def moved_axes(self, begin: int) -> frozenset[Var]:
        """The own axes that the loop around moves: the last with more than one iteration."""
        for leaf in reversed(self.leaves[:begin]):
            for axis, trips in reversed(self.digits(leaf)):
                if trips > 1:
                    return frozenset({axis})
        return self.frame.around

    def values(self, leaf: IterVar) -> int:
        """The iterations of a loop, of one over several axes too."""
        part = self.stage.parts.get(leaf)
        if part is None:
            return self.frame.widths.get(leaf, 1)
        run = self.frame.runs.get(tuple(map(id, part.of)))
        whole = run if run is not None else prod(map(self.values, part.of))
        return whole if not part.factor else min(part.factor, whole) if part.inner else ceil(whole / part.factor)

    def find_runs(self, at: int) -> dict[tuple[int, ...], int]:
        """The values that loops from a place on take of several axes as one."""
        runs = dict(self.frame.runs)
        inside = [(leaf, part) for leaf in self.leaves[at:] if (part := self.stage.parts.get(leaf)) is not None]
        steps = {part.of for _, part in inside if part.factor and not part.inner}  # whose iterations take all runs
        for leaf, part in inside:
            axes = self.find_run_axes(part.of) if part.inner and part.of not in steps else ()
            if len(axes) > 1:
                runs[tuple(map(id, axes))] = self.values(leaf)
        return runs

    def find_run_axes(self, loops: Sequence[IterVar]) -> tuple[IterVar, ...]:
        """The own axes that loops are made of, where they are all of these."""
        axes: list[IterVar] = []
        for loop in loops:
            part = self.stage.parts.get(loop)
            if part is not None and part.factor:
                return ()
            axes += [loop] if part is None else self.find_run_axes(part.of)
        return tuple(axes)
