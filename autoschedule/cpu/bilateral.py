"""Slicing a bilateral grid: a row of pixels at a time.

for y (parallel):
    the grid between its two rows of cells                        # some KiB, for the whole row
    for vectors of pixels:
        weights of the depths, in lanes
        for z:  for d, o, c (unrolled):  affine[o, c, lanes] += rows[.., z, o, c] * weight     # all coefficients in registers
        result[o, lanes]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ir.expr import IterVar
from ...schedule import Schedule, Stage
from ...te.operation import Operation
from .depthwise import accumulator
from .injective import worth_threads

if TYPE_CHECKING:
    from ..groups import Group

__all__ = ["bilateral_slice"]


def bilateral_slice(group: Group) -> None:
    """The rule."""
    s, anchor = group.s, group.anchor
    for head in group.heads:
        s[head].compute_inline()
    parts: dict[str, Operation] = {part.tag.partition(".")[2]: part for part in group.parts}
    stage, lanes = s[group.output], group.machine.lanes(anchor.output(0).dtype.bits)
    threads = worth_threads((*anchor.axis, *anchor.reduce_axis), 64)
    s[parts["ones"]].compute_inline()
    y, vector = _pixels(s, group.output, accumulator(group), parts["affine"], lanes, threads)
    near = s[parts["near"]]
    near.compute_at(stage, vector)
    near.unroll(near.op.axis[0])
    near.vectorize(near.op.axis[2])
    rows = s[parts["rows"]]
    rows.compute_at(stage, y)
    rows.vectorize(rows.fuse(*rows.op.axis[1:]))
    around = s[parts["around"]]
    around.vectorize(around.fuse(*around.op.axis[2:]))


def _pixels(
    s: Schedule,
    output: Operation,
    sums: Operation,
    affine: Operation,
    lanes: int,
    threads: bool,
) -> tuple[IterVar, IterVar]:
    """A slice by vectors of pixels, for which the coefficients are made. Returns the loops over rows and over vectors."""
    stage = s[output]
    o, y, x = stage.op.axis
    vector, lane = stage.split(x, factor=lanes)
    stage.reorder(y, vector, o, lane)
    stage.unroll(o)
    stage.vectorize(lane)
    if threads:
        stage.parallel(y)
    s[sums].compute_at(stage, vector)
    sum_o, sum_y, sum_x = s[sums].op.axis
    (k,) = s[sums].op.reduce_axis
    s[sums].reorder(sum_y, k, sum_o, sum_x)
    s[sums].unroll(k)
    s[sums].unroll(sum_o)
    s[sums].vectorize(sum_x)
    _coefficients(s[affine])
    s[affine].compute_at(stage, vector)
    return y, vector


def _coefficients(stage: Stage) -> None:
    """The affine transforms of a vector of pixels, in registers."""
    o, c, y, x = stage.op.axis
    z, d = stage.op.reduce_axis
    stage.reorder(y, z, d, o, c, x)
    for axis in (d, o, c):
        stage.unroll(axis)
    stage.vectorize(x)
