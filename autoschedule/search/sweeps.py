"""Operations without a reduction: rows, or bands of them, over the threads; vectors along the last axis.

What the row needs may be computed in front of it (softmax: the greatest element, the exponentials, their sum), while
the row is still in the cache.
"""

from __future__ import annotations

from ...ir.expr import IterVar
from ...te import Tensor
from ...te.operation import Operation
from ..operations import fixed_extent, loads_of
from .derivation import Derivation

__all__ = ["SweepRule"]


class SweepRule:
    """The rule for one operation at root."""

    def __init__(self, derivation: Derivation, op: Operation) -> None:
        self.derivation, self.op, self.s, self.cfg = derivation, op, derivation.s, derivation.cfg

    def run(self) -> list[IterVar]:
        """Schedules the operation; returns its sites."""
        op, name = self.op, self.op.name
        stage = self.s[op]
        lanes, last = self.derivation.lanes(op), len(op.axis) - 1
        kept = sorted(self._kept())
        sizes: dict[int, int] = {}
        for at in kept:
            extent = fixed_extent(op.axis[at])
            wanted = [lanes * many for many in (1, 2, 4, 8, 16, 64, 256)] if at == last else [1, 2, 4, 8, 16, 32, 64]
            self.cfg.define_knob(f"{name} band {at}", [width for width in wanted if width <= extent] or [extent])
            sizes[at] = self.cfg[f"{name} band {at}"].val
        outers: list[IterVar] = []
        inners: list[IterVar] = []
        for at, axis in enumerate(list(stage.op.axis)):
            if at in sizes and (sizes[at] > 1 or at == last):
                outer, inner = stage.split(axis, factor=sizes[at])
                outers.append(outer)
                inners.append(inner)
            else:
                (outers if at in kept else inners).append(axis)
        stage.reorder(*outers, *inners)
        outermost = stage.fuse(*outers) if len(outers) > 1 else outers[0]
        self.derivation.parallel(stage, outermost)
        if inners:
            stage.vectorize(self._innermost(inners))
        return [outermost]

    def _innermost(self, inners: list[IterVar]) -> IterVar:
        """The loop of the lanes: the last, with the one before it where the last alone is short of a vector."""
        op, name = self.op, self.op.name
        short = fixed_extent(op.axis[-1]) % self.derivation.lanes(op) != 0
        self.cfg.define_knob(f"{name} fuse last", [True, False] if short and len(op.axis) > 1 else [False])
        if self.cfg[f"{name} fuse last"].val and len(inners) > 1:
            return self.s[op].fuse(*inners[-2:])
        return inners[-1]

    def _kept(self) -> set[int]:
        """The places of the axes that reductions before it share with it: one of their results serves a whole sweep over
        the others. Without any, the first axis that is longer than one."""
        places: dict[Operation, dict[IterVar, int]] = {self.op: {axis: at for at, axis in enumerate(self.op.axis)}}
        kept: set[int] = set()
        for reader in reversed(self.derivation.graph.ops):
            if reader not in places:
                continue
            for load in loads_of(reader):
                source = load.producer.op if isinstance(load.producer, Tensor) else None
                if source is None or not source.values or source in places:
                    continue
                moved = {axis: places[reader][index] for axis, index in zip(source.axis, load.indices, strict=True)
                         if isinstance(index, IterVar) and index in places[reader]}
                places[source] = moved
                if source.reduction is not None and len(moved) == len(source.axis):
                    kept.update(moved.values())
        long = [at for at, axis in enumerate(self.op.axis) if fixed_extent(axis) > 1]
        return kept or set(long[:1] or [0])
