"""Operations that are loops already, hybrid scripts and scatters: where their loops run.

    for r in rows:               # iterations write elements of their own: threads share them
        for i in n:              # carries something from one iteration to the next: stays as it is
            ...

What a script reads is inlined into it where that costs little. Of each nest the outermost loop whose iterations never meet
(`ir.analysis.dependence` proves it) is parallel; on GPUs all such loops from the outermost on are bound to threads, and a
nest that has none runs on one thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ir.expr import Call, IterVar, StringImm
from ..ir.stmt import For, If
from ..ir.visit import walk
from ..schedule.model.hybrid_errors import HybridLoopCarries
from ..schedule.model.hybrid_loops import check_independent, check_reordered
from ..te.axis import thread_axis

if TYPE_CHECKING:
    from ..schedule.model.stage import Stage
    from .groups import Group

__all__ = ["on_cores", "on_gpu"]

THREADS = 64
"""Threads of a block: iterations of a script's loop take long, so that few of them fill a machine."""
COLUMNS = 64
"""Elements next to each other that one thread walks over, where loops around carry something."""


def on_cores(group: Group) -> None:
    """The rule for CPUs."""
    stage = _begin(group)
    for nest in _outermost(group, stage):
        free = [axis for axis in nest if _is_free(stage, axis)]
        if free and free[0] is nest[0]:
            stage.parallel(free[0])
        elif free and _moves_out(stage, free[:1], nest):  # threads share columns, a line of the cache or more at a time
            outer, inner = stage.split(free[0], factor=COLUMNS)
            stage.reorder(outer, *(inner if axis is free[0] else axis for axis in nest))
            stage.parallel(outer)


def on_gpu(group: Group) -> None:
    """The rule for GPUs. Nests after each other wait for each other, which the threads of one block can."""
    stage = _begin(group)
    nests = _outermost(group, stage)
    found = [[axis for axis in nest if _is_free(stage, axis)] for nest in nests]
    free = [shared if _moves_out(stage, shared, nest) else [] for nest, shared in zip(nests, found, strict=True)]
    for nest, shared in zip(nests, free, strict=True):
        if not all(free):
            thread, _ = stage.split(nest[0], nparts=1)
        else:
            stage.reorder(*shared, *(axis for axis in nest if axis not in shared))
            block, thread = stage.split(stage.fuse(*shared), factor=THREADS)
            if len(nests) == 1:
                stage.bind(block, thread_axis("blockIdx.x"))
        stage.bind(thread, thread_axis("threadIdx.x"))


def _begin(group: Group) -> Stage:
    """The stage, what it reads inlined into it where it is read once or costs nothing."""
    group.inline_cheap_heads()
    return group.s[group.anchor]


def _outermost(group: Group, stage: Stage) -> list[tuple[IterVar, ...]]:
    """The nests that stand in no other loop, of what the target runs."""
    elsewhere: set[IterVar] = set()
    for node in walk(stage.op.declared_loops.body) if stage.op.declared_loops.body is not None else ():
        if isinstance(node, If) and isinstance(node.condition, Call) and node.condition.name == "target_has":
            feature = node.condition.args[0]
            has = isinstance(feature, StringImm) and group.target.backend.has(group.target, feature.value)
            left_out = node.else_body if has else node.then_body
            elsewhere.update(
                ()
                if left_out is None
                else (loop.var for loop in walk(left_out) if isinstance(loop, For) and isinstance(loop.var, IterVar))
            )
    return [
        nest
        for nest, outer in stage.op.declared_loops.nests.items()
        if not outer and elsewhere.isdisjoint(nest) and all(stage.attr(axis).kind == "serial" for axis in nest)
    ]


def _moves_out(stage: Stage, axes: list[IterVar], nest: tuple[IterVar, ...]) -> bool:
    """Return whether these loops may stand around the others of their nest: what an iteration of one reads of another's neighbours, a step
    of the loop around it before, keeps it inside."""
    order = [*axes, *(axis for axis in nest if axis not in axes)]
    ordered = iter(order)
    try:
        check_reordered(stage, [next(ordered) if leaf in nest else leaf for leaf in stage.leaf_iter_vars], order)
    except HybridLoopCarries:
        return False
    return True


def _is_free(stage: Stage, axis: IterVar) -> bool:
    """Return whether the iterations of a loop never meet in an element."""
    try:
        check_independent(stage, axis, "cannot share")
    except HybridLoopCarries:
        return False
    return True
