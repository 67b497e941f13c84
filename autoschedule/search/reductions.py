"""Reductions without reuse: what counts is that memory is read in vectors, by several accumulators.

rfactor makes the lanes of a contiguous reduce axis partial results; where a data axis is contiguous, it is the lanes.
"""

from __future__ import annotations

from typing import Any

from ...ir.expr import IterVar
from ...te.operation import Operation
from ..operations import contiguous, fixed_extent, loads_of
from .derivation import Derivation

__all__ = ["ReductionRule"]


class ReductionRule:
    """The rule for one reduction."""

    def __init__(self, derivation: Derivation, op: Operation) -> None:
        self.derivation, self.op, self.s, self.cfg = derivation, op, derivation.s, derivation.cfg
        along = {axis for load in loads_of(op) for axis in contiguous(load)}
        self.lane_axis = next((axis for axis in reversed(op.reduce_axis) if axis in along and fixed_extent(axis) >= 8), None)
        last = op.axis[-1] if op.axis else None
        self.data_axis = last if last is not None and last in along and fixed_extent(last) >= 8 else None
        lanes = derivation.lanes(op)
        ways = [f"lanes {lanes * many}" for many in (4, 2, 1, 8)] if self.lane_axis is not None else []
        self.ways = [*ways, *(["data"] if self.data_axis is not None else []), "plain"]

    def _way(self) -> tuple[str, int]:
        name = f"{self.op.name} reduce"
        self.cfg.define_knob(name, self.ways)
        kind, _, count = self.cfg[name].val.partition(" ")
        return kind, int(count or 0)

    def attached(self, anchor: Operation, site: IterVar) -> None:
        """The loops of a stage that is computed at a loop of another."""
        kind, lanes = self._way()
        stage = self.s[self.op]
        if kind == "lanes":
            self.s[self._lanes(self.op, lanes)].compute_at(self.s[anchor], site)
        elif kind == "data":
            *data, last = stage.op.axis
            stage.reorder(*data, *stage.op.reduce_axis, last)
            stage.vectorize(last)

    def at_root(self) -> list[IterVar]:
        """The loops of a stage of its own; returns its sites."""
        if not [axis for axis in self.op.axis if fixed_extent(axis) > 1]:
            self._whole()
            return []
        kind, lanes = self._way()
        name, s = self.op.name, self.s
        if kind == "data":
            assert self.data_axis is not None
            unit = self.derivation.lanes(self.op)
            self.cfg.define_knob(f"{name} chunk", [unit * many for many in (1, 2, 4, 8, 16)])
            stage = s[self.op]
            *data, last = stage.op.axis
            chunk, inner = stage.split(last, factor=self.cfg[f"{name} chunk"].val)
            stage.reorder(*data, chunk, *stage.op.reduce_axis, inner)
            stage.vectorize(inner)
            outer = stage.fuse(*data, chunk) if data else chunk
            self.derivation.parallel(stage, outer)
            return [outer]
        self.cfg.define_knob(f"{name} rows", [1, 4, 16, 64])
        partial = self._lanes(self.op, lanes) if kind == "lanes" else None
        stage = s[self.op]
        axes = list(stage.op.axis)
        outer = stage.fuse(*axes) if len(axes) > 1 else axes[0]
        outer, inner = stage.split(outer, factor=self.cfg[f"{name} rows"].val)
        self.derivation.parallel(stage, outer)
        if partial is not None:
            s[partial].compute_at(stage, inner)
        return [outer]

    def _whole(self) -> None:
        """A reduction of everything: chunks for the threads first, then lanes within each."""
        name, s = self.op.name, self.s
        lanes = self._way()[1] if self.lane_axis is not None else 0
        axis = self.op.reduce_axis[0]
        self.cfg.define_knob(f"{name} chunks", [
            chunks for chunks in (8, 2, 4, 16, 32, 64) if chunks * 2 <= fixed_extent(axis)] or [1])
        chunk, _ = s[self.op].split(axis, nparts=self.cfg[f"{name} chunks"].val)
        partial = _operation(s.rfactor(list(self.op.outputs), chunk))
        stage = s[partial]
        shared = stage.op.axis[0]
        if lanes:
            within = _operation(s.rfactor(list(partial.outputs), stage.split(stage.op.reduce_axis[-1], factor=lanes)[1], -1))
            _vectors(s, within)
            s[within].compute_at(s[partial], s[partial].op.axis[0])
            shared = s[partial].op.axis[0]
        self.derivation.parallel(s[partial], shared)

    def _lanes(self, op: Operation, lanes: int) -> Operation:
        """Partial results in `lanes` lanes; returns what computes them."""
        assert self.lane_axis is not None
        s = self.s
        _, inner = s[op].split(self.lane_axis, factor=min(lanes, fixed_extent(self.lane_axis)))
        partial = _operation(s.rfactor(list(op.outputs), inner, -1))
        _vectors(s, partial)
        return partial


def _operation(made: Any) -> Operation:
    return made[0].op


def _vectors(s: Any, partial: Operation) -> None:
    """The last dimension of partial results innermost, in vectors."""
    stage = s[partial]
    *data, lanes = stage.op.axis
    stage.reorder(*data, *stage.op.reduce_axis, lanes)
    stage.vectorize(lanes)
