"""Stencils in passes: rows are filtered along themselves, then columns of what that gives.

    for blocks of ROWS rows (parallel):
        for vectors along a row:
            rows of the first pass, ROWS + reach above and below (unrolled), in registers
            ROWS rows of the result (unrolled)

What the first pass makes is never stored: it is made again for neighbouring blocks, which costs less than memory does.
"""

from __future__ import annotations

from math import lcm
from typing import TYPE_CHECKING

from ...te.shape import constant_extent
from .injective import worth_threads

if TYPE_CHECKING:
    from ..groups import Group

__all__ = ["stencil"]

ROWS = 8
"""Rows computed together: the more, the less is made twice."""
FEW = 4
"""Rows computed together at least, though not all of them fit into the registers."""
SPARE = 8
"""Registers for constants and intermediate values."""


def stencil(group: Group) -> None:
    """The rule. The anchor's attrs say how many dimensions come before height ("lead"), and how many rows above and below the
    first pass reaches ("reach")."""
    s, anchor = group.s, group.anchor
    for head in group.heads:
        s[head].compute_inline()
    at, reach = anchor.attrs["lead"], anchor.attrs["reach"]
    stage = s[group.output]
    lead, (high, *flat) = stage.op.axis[:at], stage.op.axis[at:]
    width = stage.fuse(*flat) if len(flat) > 1 else flat[0]
    widest = max((part.output(0).dtype.bits for part in (*group.parts, anchor) if part.values), default=32)
    lanes = group.machine.lanes(widest)
    step = lcm(lanes, constant_extent(flat[1]) or 1) if len(flat) > 1 else lanes  # whole pixels, whole vectors
    room = (group.machine.registers - SPARE) // (step // lanes) - 2 * reach
    rows = max(1, min(ROWS, max(room, FEW), constant_extent(high) or ROWS))
    block, row = stage.split(high, factor=rows)
    vector, lane = stage.split(width, factor=step)
    stage.reorder(*lead, block, vector, row, lane)
    stage.unroll(row)
    stage.vectorize(lane)
    if worth_threads(anchor.axis, 4 * (2 * reach + 1)):
        stage.parallel(stage.fuse(*lead, block) if lead else block)
    for part in group.parts:
        s[part].compute_at(stage, vector)
        *_, y, x = s[part].op.axis
        s[part].unroll(y)
        s[part].vectorize(x)
    if group.anchor is not group.output:
        s[anchor].compute_at(stage, vector)
        *_, x = s[anchor].op.axis
        s[anchor].vectorize(x)
