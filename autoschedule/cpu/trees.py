"""Ensembles of decision trees: several trees of a row in lanes, all steps of them in registers.

    for trees (a few vectors; tables of theirs stay in cache), rows (in parallel):
        for row:
            step1 = after[root, ...]                  # lanes over trees: each looks up its node
            step2 = after[step1, ...]
            y[row, trees] = after[step2, ...] ...     # with what follows element by element

Where there are fewer trees than lanes, lanes lie over rows.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from ...te.shape import constant_extent
from ..accesses import ASSUMED
from .lanes import VECTORS
from .threads import worth_threads

if TYPE_CHECKING:
    from ..groups import Group

__all__ = ["walk_trees"]

ROWS = 64
"""Of a task."""
OPERATORS = 16
"""Of a step, by what it takes: four gathers."""


def walk_trees(group: Group) -> None:
    """The rule."""
    anchor, stage = group.anchor, group.s[group.output]
    group.inline_cheap_heads()
    row, tree = stage.op.axis
    rows, trees = (constant_extent(axis) or ASSUMED for axis in (row, tree))
    lanes = group.machine.lanes(32)
    if trees >= lanes or rows < lanes:
        vectors = ceil(trees / lanes)
        blocks, tree = stage.split(tree, factor=lanes * ceil(vectors / ceil(vectors / VECTORS)))
        some, row = stage.split(row, factor=ROWS)
        stage.reorder(blocks, some, row, tree)
        task, at, side = stage.fuse(blocks, some), row, 1
    else:
        task, row = stage.split(row, factor=lanes * VECTORS)
        stage.reorder(task, tree, row)
        at, side = tree, 0
    stage.vectorize((row, tree)[side])
    if worth_threads(anchor.axis, OPERATORS * (len(group.parts) + 1)):
        stage.parallel(task)
    for op in (*group.parts, *(() if group.output is anchor else (anchor,))):
        step = group.s[op]
        step.set_scope("local")
        step.compute_at(stage, at)
        step.vectorize(step.op.axis[side])
