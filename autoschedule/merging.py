"""Loops of a script after each other over the same rows, merged where that takes less time by the estimate.

    for i in n:                              b: float32[2, m]
        for k in m: b[i, k] = f(a[i, k])     for i in n:
    for i in n - 1:                     →        for k in m: b[i % 2, k] = f(a[i, k])
        for k in m:                              if i >= 1:
            c[i, k] = b[i + 1, k] - b[i, k]          for k in m: c[i - 1, k] = b[i % 2, k] - b[(i - 1) % 2, k]

What one of them stores is read while it is still near, and memory between them is as large as the rows that are needed at once.
Loops stay apart whose iterations threads share, where the merged one has iterations that take from each other and the estimate
says that the threads are worth more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from ..base.errors import LoweringError
from ..ir.expr import BufferLoad, IterVar, Node, ProducerLoad, Var
from ..ir.stmt import Allocate, BufferStore, For, Stmt, While
from ..ir.visit import children, free_vars, walk
from ..schedule.model.hybrid_errors import HybridLoopCarries
from ..schedule.model.hybrid_loops import check_independent
from ..schedule.primitives.contract import can_contract
from ..schedule.primitives.merge import find_shift, neighbour
from .lowered_nests import estimate_schedule
from .plan import Candidate

if TYPE_CHECKING:
    from ..schedule.model.stage import Stage
    from .cost.estimate import Estimate
    from .groups import Group

__all__ = ["choose_merged", "is_free"]

MOST_LAG = 8
"""Iterations that a merged loop lags at most: the rows between are to stay in a cache."""


def choose_merged(group: Group, stage: Stage, rule: str, order: Callable[[], None]) -> None:
    """Put the loops of a script in order, after some are merged if the estimate says so. rule: names the decision."""
    if next(_merging(stage), None) is None:
        order()
        return

    def merged(keeps_free: bool) -> None:
        _merge_loops(stage, keeps_free)
        order()

    ways = [("loops after each other", order), ("merged loops", partial(merged, False))]
    if group.machine.cores > 1:
        ways.append(("merged loops that threads share", partial(merged, True)))
    candidates = [Candidate(text, way, _estimate(group, way)) for text, way in ways]
    replace(group, begun=-1).choose(rule, candidates)


def _estimate(group: Group, way: Callable[[], None]) -> Estimate | None:
    """The time of the program with a script scheduled so, which is undone; None where other stages are not whole yet."""
    time: Estimate | None = None
    with group.s.attempt() as attempt:
        way()
        with suppress(LoweringError):
            time = estimate_schedule(group.s, group.machine)
    group.s.undo(attempt)
    return time


def _merge_loops(stage: Stage, keeps_free: bool) -> None:
    """Merge loops over rows, and keep of memory between them what is needed at once. keeps_free: where threads may share the merged loop
    as they may those that it is made of."""
    apart = set[IterVar]()
    while (axis := next((axis for axis in _merging(stage) if axis not in apart), None)) is not None:
        behind = neighbour(stage, axis)
        assert behind is not None and isinstance(behind.var, IterVar)
        shared = keeps_free and any(_is_shared(stage, each) for each in (axis, behind.var))
        with stage.schedule.attempt() as attempt:
            merged = stage.merge(axis)
            loses = shared and not is_free(stage, merged)
        if loses:
            stage.schedule.undo(attempt)
            apart.add(axis)
    for axis in reversed(stage.leaf_iter_vars):  # outer ones first
        if can_contract(stage, axis):
            with stage.schedule.attempt() as attempt:
                shared = keeps_free and _is_shared(stage, axis)
                stage.contract(axis)
                loses = shared and not is_free(stage, axis)
            if loses:
                stage.schedule.undo(attempt)


def _is_shared(stage: Stage, axis: IterVar) -> bool:
    """Return whether threads may share a loop: it stands in no other one, and its iterations never meet."""
    declared = stage.op.declared_loops
    chain = declared.axis_chain(axis)
    return bool(chain) and chain[0] is axis and not declared.around(chain) and is_free(stage, axis)


def _merging(stage: Stage) -> Iterator[IterVar]:
    """The loops over rows that may be merged with those behind them, which touch the same memory a few rows away."""
    for axis in stage.leaf_iter_vars:
        behind = neighbour(stage, axis)
        if behind is None or not isinstance(behind.var, IterVar):
            continue
        loop = stage.op.declared_loops.loop(axis)
        if _stores_rows(loop) and _stores_rows(behind) and _find_memory(loop) & _find_memory(behind):
            lag = find_shift(stage, axis)
            if isinstance(lag, int) and abs(lag) <= MOST_LAG:
                yield axis


def _stores_rows(loop: For) -> bool:
    """Return whether a loop is around others, and stores to each element once: sums have other ways of staying in a cache."""
    stack: list[tuple[Node, tuple[Var, ...]]] = [(loop, ())]
    is_around = False
    while stack:
        node, around = stack.pop()
        if isinstance(node, While | Allocate):
            return False
        if isinstance(node, BufferStore) and not all(
            any(var in free_vars(index) for index in node.indices) for var in around
        ):
            return False
        if isinstance(node, For):
            is_around, around = is_around or bool(around), (*around, node.var)
        stack += [(child, around) for child in children(node) if isinstance(child, Stmt)]
    return is_around


def _find_memory(loop: For) -> set[object]:
    """The memory and the tensors that a loop reads or stores to."""
    nodes = [node for node in walk(loop) if isinstance(node, BufferLoad | BufferStore | ProducerLoad)]
    return {node.producer if isinstance(node, ProducerLoad) else node.buffer for node in nodes}


def is_free(stage: Stage, axis: IterVar) -> bool:
    """Return whether the iterations of a loop never meet in an element."""
    try:
        check_independent(stage, axis, "cannot share")
    except HybridLoopCarries:
        return False
    return True
