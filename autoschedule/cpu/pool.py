"""Pooling of whole images: a reduction, for which height and width are one axis, in lanes.

    for n, c (parallel):
        for vectors of the image:  partial[lanes] += image[...]
        sum over lanes
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...te.shape import constant_extent
from ..operations import contiguous, loads_of
from .gemm import gemm
from .injective import worth_threads

if TYPE_CHECKING:
    from ..groups import Group

__all__ = ["whole"]

VECTORS = 4
"""Vectors of partial results, for large images."""


def whole(group: Group) -> None:
    """The rule; where images are not contiguous or too small for a vector, that of any reduction."""
    s, anchor = group.s, group.anchor
    lanes = group.machine.lanes(anchor.output(0).dtype.bits)
    high, wide = anchor.reduce_axis
    size = (constant_extent(high) or 0) * (constant_extent(wide) or 0)
    if group.heads or size < 2 * lanes or wide not in {axis for load in loads_of(anchor) for axis in contiguous(load)}:
        gemm(group)
        return
    parallel = worth_threads((*anchor.axis, *anchor.reduce_axis))
    image = s[anchor].fuse(high, wide)
    _, lane = s[anchor].split(image, factor=lanes * (VECTORS if size >= 4 * VECTORS * lanes else 1))
    partial = s.rfactor(list(anchor.outputs), lane, -1)[0].op
    *data, last = s[partial].op.axis
    s[partial].reorder(*data, *s[partial].op.reduce_axis, last)
    s[partial].vectorize(last)
    stage = s[group.output]
    channel = stage.fuse(*stage.op.axis)
    if parallel:
        stage.parallel(channel)
    if anchor is not group.output:
        s[anchor].compute_at(stage, channel)
    s[partial].compute_at(stage, channel)
