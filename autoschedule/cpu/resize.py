"""Resizing: a row of the result at a time, in vectors of numbers that are taken from near one place.

tables of the columns                                          # once for all rows
for rows (parallel):
    the rows of the image around it, as one, in vectors        # stays in the cache
    for f.outer:  for f.inner in lanes:  result = sum over taps of  row[start[f.outer] + offset[tap, f]] * weight[tap, f]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...te.shape import constant_extent
from ..loops import fuse_axes
from .lanes import VECTORS
from .threads import worth_threads

if TYPE_CHECKING:
    from ..groups import Group

__all__ = ["resize"]


def resize(group: Group) -> None:
    """The rule. The anchor's attrs say how many numbers lie near one place ("group"), how many dimensions come before height
    ("lead"), and whether rows are the image's own ("as_it_stands")."""
    s, anchor = group.s, group.anchor
    group.inline_heads()
    group.inline_anchor()
    stage = s[group.output]
    lead = anchor.attrs["lead"]
    axes = list(stage.op.axis)
    outer, flat = axes[: lead + 1], axes[lead + 1 :]
    row = fuse_axes(stage, outer)
    _, lane = stage.split(fuse_axes(stage, flat), factor=anchor.attrs["group"])
    stage.vectorize(lane)
    if worth_threads(anchor.axis, 8):
        stage.parallel(row)
    for part in group.parts:
        if part.algorithm == "resize.rows" and anchor.attrs["as_it_stands"]:
            s[part].compute_inline()
            continue
        if part.algorithm == "resize.rows":
            s[part].compute_at(stage, row)
        *_, last = s[part].op.axis
        if constant_extent(last) != 0:
            s[part].vectorize(s[part].split(last, factor=group.machine.lanes(32) * VECTORS)[1])
