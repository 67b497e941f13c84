"""Reductions with reuse: a tile of results stays in registers while the reduction runs over it.

    for outer (fused) in parallel:              # what is packed here is shared by all tiles below
        for mid ...:
            tile = 0
            for k ...:  for inner (unrolled):  for v in vectorized:  tile += A * B
            C[...] = tile
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

from ...ir.expr import IterVar, ProducerLoad
from ...te import Tensor
from ...te.operation import Operation
from ..operations import axes_in, fixed_extent, loads_of
from .derivation import Derivation
from .space import Rejected, Split

__all__ = ["TileRule", "tile_sizes"]

MAX_UNROLLED = 128
"""Vector operations in the unrolled body, which bounds the time that a candidate takes to compile."""
MAX_PERMUTED = 3


class TileRule:
    """The rule for one reduction `op`, whose tiles are stored by `anchor`: itself, or the last of its tail."""

    def __init__(self, derivation: Derivation, op: Operation, anchor: Operation) -> None:
        self.derivation, self.op, self.anchor = derivation, op, anchor
        self.s, self.cfg = derivation.s, derivation.cfg
        self.vector = derivation.vectors[op]
        self.lanes = derivation.lanes(op)
        self.data = [at for at, axis in enumerate(op.axis) if fixed_extent(axis) > 1] or [len(op.axis) - 1]

    def run(self) -> None:
        """Schedules both, and gives the anchor's sites."""
        s, name = self.s, self.op.name
        self._define()
        splits: dict[int, Split] = {at: self.cfg[f"{name} tile {at}"] for at in self.data}
        unrolled = self.cfg[f"{name} unroll"].val
        self._check(splits, unrolled)
        own = s[self.op]
        axes = list(own.op.axis)
        own.reorder(*[axis for at, axis in enumerate(axes) if at != self.vector], axes[self.vector])
        tile = s.cache_write(self.op.output(0), "local")
        if self.anchor is not self.op:
            for member in (self.op, *self.derivation.tails[self.op][:-1]):
                s[member].compute_inline()
        outer, mid = self._store(splits)
        s[tile].compute_at(s[self.anchor], mid)
        self._accumulate(tile, unrolled)
        self.derivation.sites[self.anchor] = [outer, mid]
        for source in self._packable():
            self._pack(source, tile, outer, mid, splits)

    def _define(self) -> None:
        name, cfg = self.op.name, self.cfg
        for at in self.data:
            extent = fixed_extent(self.op.axis[at])
            sizes = tile_sizes(extent, self.lanes if at == self.vector else 0)
            cfg.define_split(f"{name} tile {at}", extent, "candidate", num_outputs=3, candidate=sizes)
        cfg.define_knob(f"{name} order", _orders(len(self.data)))
        cfg.define_knob(f"{name} reduce order", _orders(len(self.op.reduce_axis)))
        extents = [fixed_extent(axis) for axis in self.op.reduce_axis]
        cfg.define_knob(f"{name} unroll", [many for many in (1, 2, 3, 4, 8) if any(extent % many == 0 for extent in extents)])
        for source in self._packable():
            cfg.define_knob(f"{name} pack {source.name}", ["no", "outer", *self._layouts(source)])

    def _check(self, splits: dict[int, Split], unrolled: int) -> None:
        """Leaves out tiles that no register file holds, before anything is built."""
        rows = vectors = 1
        for at, split in splits.items():
            if at == self.vector:
                vectors = -(-split.size[-1] // self.lanes)
            else:
                rows *= split.size[-1]
        if rows * vectors > self.derivation.target.vector_registers or rows * vectors * unrolled > MAX_UNROLLED:
            raise Rejected

    def _store(self, splits: dict[int, Split]) -> tuple[IterVar, IterVar]:
        """The loops of the anchor; returns those at which things are computed: the outermost, and around the tile."""
        stage = self.s[self.anchor]
        axes = list(stage.op.axis)
        order = self.cfg[f"{self.op.name} order"].val
        parts = {at: splits[at].apply(self.s, self.anchor, axes[at]) for at in self.data}
        single = [axis for at, axis in enumerate(axes) if at not in self.data]
        outers, mids = ([parts[self.data[place]][level] for place in order] for level in (0, 1))
        inners = [parts[at][2] for at in self.data]
        stage.reorder(*single, *outers, *mids, *inners)
        outer = stage.fuse(*single, *outers) if len(single) + len(outers) > 1 else outers[0]
        self.derivation.parallel(stage, outer)
        stage.vectorize(inners[-1])
        return outer, mids[-1]

    def _accumulate(self, tile: Tensor, unrolled: int) -> None:
        stage = self.s[tile]
        *rows, lanes = stage.op.axis
        order: Sequence[int] = self.cfg[f"{self.op.name} reduce order"].val
        reduce_axes = [stage.op.reduce_axis[at] for at in order]
        innermost: Sequence[IterVar] = ()
        if fixed_extent(reduce_axes[-1]) % unrolled:
            raise Rejected
        if unrolled > 1:
            outer, inner = stage.split(reduce_axes[-1], factor=unrolled)
            reduce_axes[-1], innermost = outer, (inner,)
            stage.unroll(inner)
        stage.reorder(*reduce_axes, *innermost, *rows, lanes)
        for row in rows:
            stage.unroll(row)
        stage.vectorize(lanes)

    # Packing

    def _packable(self) -> list[Tensor]:
        """What it reads that is there before the kernel runs."""
        return [tensor for tensor in self.op.input_tensors if tensor.op.is_given]

    def _layouts(self, source: Tensor) -> list[str]:
        return ["layout"] if self._lane_dimension(source) is not None else []

    def _lane_dimension(self, source: Tensor) -> int | None:
        """The dimension that the lanes walk along, where it is not the last, and everything else walks along others."""
        axis = self.op.axis[self.vector]
        loads: list[ProducerLoad] = [load for load in loads_of(self.op) if load.producer is source]
        if len(loads) != 1 or source.ndim < 2:
            return None
        places = [at for at, index in enumerate(loads[0].indices) if axis in axes_in(index)]
        dimension = places[0] if len(places) == 1 and loads[0].indices[places[0]] is axis else None
        return dimension if dimension is not None and dimension != source.ndim - 1 else None

    def _pack(self, source: Tensor, tile: Tensor, outer: IterVar, mid: IterVar, splits: dict[int, Split]) -> None:
        s, way = self.s, self.cfg[f"{self.op.name} pack {source.name}"].val
        if way == "no":
            return
        copy = s.cache_read(source, "global", s[tile])
        if way == "outer":
            s[copy].compute_at(s[self.anchor], outer)
            s[copy].vectorize(s[copy].op.axis[-1])
            return
        dimension = self._lane_dimension(source)
        assert dimension is not None
        lane_outer, lanes = s[copy].split(s[copy].op.axis[dimension], factor=splits[self.vector].size[-1])
        rest = [axis for at, axis in enumerate(s[copy].op.axis) if at != dimension]
        s[copy].reorder(lane_outer, *rest, lanes)
        panels = s.cache_write(copy, "global")
        s[copy].compute_inline()
        loops = list(s[panels].op.axis)
        s[panels].vectorize(loops[-1])
        self.derivation.parallel(s[panels], s[panels].fuse(*loops[:2]))


def _orders(count: int) -> list[tuple[int, ...]]:
    """Orders of `count` loops: all of few, of many the given one and its rotations."""
    if count <= MAX_PERMUTED:
        return list(permutations(range(count)))
    return [tuple((at + shift) % count for at in range(count)) for shift in range(count)]


def tile_sizes(extent: int, lanes: int) -> list[tuple[int, int, int]]:
    """Extents (-1, mid, inner) for an axis. lanes: of a vector register, where the axis is vectorized; else 0."""
    divisors = [number for number in range(1, extent + 1) if extent % number == 0]
    if lanes:
        inner = {divisor for divisor in divisors if lanes // 2 <= divisor <= 4 * lanes} or {extent}
        if extent % lanes and extent > 8 * lanes:   # guarded tails are worth it where they are few
            inner |= {lanes * many for many in (1, 2, 3, 4)}
    else:
        inner = {divisor for divisor in divisors if divisor <= 16}
        inner |= set(range(1, min(extent, 8) + 1)) if len(inner) < 4 else set()
    sizes: list[tuple[int, int, int]] = []
    for size in sorted(inner):
        rest = -(-extent // size)
        mids = {number for number in range(1, rest + 1) if rest % number == 0}
        mids |= {1 << bit for bit in range(rest.bit_length())} if len(mids) < 4 else set()
        sizes += [(-1, mid, size) for mid in sorted(mids)]
    return sizes
