"""Sweeps over time: scans and their readers step by step (te/sweep.py), columns in lanes, blocks of columns for each thread.

    for columns in parallel:
        for t:
            for j in lanes:  F = last[j] + x[t, j];  y[t, j] = F - G;  last[j] = F

Rows of the last steps stay in the nearest cache, or in one near enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from ...ir.expr import IterVar
from ...schedule import Stage
from ...te.shape import constant_extent
from ..groups import Group
from ..loops import split_longer
from ..plan import Candidate
from .streams import LINES
from .threads import worth_threads

__all__ = ["sweep"]


def sweep(group: Group) -> None:
    """The rule."""
    group.choose("sweep", [Candidate("columns in lanes, one step after the other", lambda: _schedule(group))])


def _schedule(group: Group) -> None:
    """Share columns among threads, and make the innermost ones lanes: of steps that are written out, and of those in the loop over time."""
    group.inline_cheap_heads()
    stage, machine = group.s[group.anchor], group.machine
    nests = stage.op.declared_loops.nests
    outer = next((nest for nest in nests.values() if nest), ())
    main = max((nest for nest in nests if nest != outer), key=len)
    shares = machine.cores > 1 and worth_threads([*outer, *main], len(stage.op.declared_loops.bound_variables))
    lanes = machine.lanes(max(tensor.dtype.bits for tensor in stage.op.outputs))
    if outer and shares:
        stage.parallel(outer[0])
    for nest in [nest for nest in nests if nest != outer]:
        lane = nest[-1]
        if nest is main and not outer and shares:
            lane = _share_columns(group, stage, nest)
        stage.vectorize(split_longer(stage, lane, constant_extent(lane), lanes)[1])


def _share_columns(group: Group, stage: Stage, nest: Sequence[IterVar]) -> IterVar:
    """Share the outermost columns of the nest of the loop over time among threads; the innermost loop."""
    time, column, *inner = nest
    block = column
    if not inner:
        line = LINES * group.machine.line // min(tensor.dtype.bytes for tensor in stage.op.outputs)
        extent = constant_extent(column) or line
        block, lane = stage.split(column, factor=ceil(extent / group.machine.cores / line) * line)
        inner = [lane]
    stage.reorder(block, time, *inner)
    stage.parallel(block)
    return inner[-1]
