"""Dense layers of weights in 4 or 8 bits: read once, unpacked in registers, multiplied as whole numbers.

for b, group:  peak, whole numbers and their sum                    # of x, before the others
for panel of 16 rows (in parallel):
    for group:
        levels = packed[panel, group] >> 4 & 15                     # in registers
        for b:  sums = 0;  for quad:  sums += dot4(x[b, quad], levels[quad])
                y.lanes[b] += float(sums - shift) * scale of x * scale of w
    y[b, panel] = y.lanes[b] ...                                    # with what follows element by element
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import te
from ...ir.expr import IterVar
from ...schedule import Stage
from ...te.intrinsics.byte_units import LEVEL_DOTS
from ...te.operation import Operation
from ...te.shape import constant_extent
from ...topi.nn.weight_only import GROUP, PANEL, QUAD
from .lanes import CHAINS, VECTORS

if TYPE_CHECKING:
    from ..groups import Group

__all__ = ["weight_only_dense"]


def weight_only_dense(group: Group) -> None:
    """The rule."""
    s, anchor = group.s, group.anchor
    parts: dict[str, Operation] = {part.algorithm.removeprefix("weight_only_dense."): part for part in group.parts}
    group.inline_cheap_heads()
    if group.output is anchor:
        sums = s[s.cache_write(anchor.output(0), "local")]
    else:
        sums = s[anchor]
        sums.set_scope("local")
    stage = s[group.output]
    b, n = stage.op.axis
    panel, i = stage.split(n, factor=PANEL)
    batches, b = stage.split(b, factor=VECTORS)
    stage.reorder(batches, panel, b, i)
    task = stage.fuse(batches, panel)
    stage.parallel(task)
    stage.vectorize(i)
    sums.compute_at(stage, task)
    b, n = sums.op.axis
    (g,) = sums.op.reduce_axis
    if constant_extent(group.anchor.axis[0]) == 1:
        pairs, g = sums.split(g, factor=CHAINS)
        sums.reorder(pairs, g, b, n)
        sums.unroll(g)
    else:
        sums.reorder(g, b, n)
    sums.unroll(b)
    sums.vectorize(n)
    _dots(group, parts, sums, g)
    _round(group, parts)


def _dots(group: Group, parts: dict[str, Operation], sums: Stage, g: IterVar) -> None:
    """Dot products of one group of weights: levels unpacked, and their products with x."""
    s = group.s
    dots, levels = s[parts["sums"]], s[parts["levels"]]
    dots.compute_at(sums, g)
    dots.set_scope("local")
    p, unit, b, i = dots.op.axis
    (r,) = dots.op.reduce_axis
    quad, r = dots.split(r, factor=QUAD)
    dots.reorder(p, unit, quad, b, i, r)
    dots.unroll(quad)
    dots.unroll(b)
    dots.tensorize(i, te.intrinsics.get(LEVEL_DOTS))
    levels.compute_at(sums, g)
    levels.set_scope("local")
    *_, quad, i, t = levels.op.axis
    levels.unroll(quad)
    levels.vectorize(levels.fuse(i, t))


def _round(group: Group, parts: dict[str, Operation]) -> None:
    """x, a group at a time, half of it in lanes. It is small beside the weights."""
    s = group.s
    for name in ("peak", "shift"):
        part = s[parts[name]]
        _, lane = part.split(part.op.reduce_axis[0], factor=GROUP // 2)
        partial = s[s.rfactor(parts[name].output(0), lane, -1)]
        partial.compute_at(s[parts[name]], s[parts[name]].op.axis[-1])
        *data, lane = partial.op.axis
        partial.reorder(*data, *partial.op.reduce_axis, lane)
        partial.vectorize(lane)
    rounded = s[parts["rounded"]]
    rounded.vectorize(rounded.op.axis[-1])
