"""Operations that are loops already, hybrid scripts and scatters: where their loops run.

    for r in rows:               # iterations write elements of their own: threads share them
        for i in n:              # carries something from one iteration to the next: stays as it is
            ...

    for j in n:                          for j in n:
        c[j] = 0                             c[j] = 0
        for k in m:               →      for k in m:                     # lies side by side along j, which no sum waits for
            c[j] += A[k, j]                  for j in n:
                                                 c[j] += A[k, j]

What a script reads is inlined into it where that costs little. Of loops directly inside each other the innermost one is one along
which all lies side by side, where one is, and dependences allow it; loops that stand around such ones with other statements are parted
for that. Where an innermost loop adds up terms and no other one can be innermost, lanes of vectors add them, in another order; with
`exact` each element takes up its terms in their order. Iterations around loops that read the same rows share passes of them.

Of each nest the outermost loop whose iterations never meet (`ir.analysis.dependence` proves it) is parallel; on GPUs all such loops
from the outermost on are bound to threads, and a nest that has none runs on one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ..ir.analysis.lane_strides import neighbour_distance
from ..ir.analysis.linear import is_index
from ..ir.buffer import Buffer
from ..ir.expr import Add, BufferLoad, Call, Expr, IfThenElse, IterVar, Max, Min, Mul, ProducerLoad, StringImm, Sub, Var
from ..ir.passes.common.loop_partition import HINT
from ..ir.passes.cpu.reassociation import REASSOCIATE
from ..ir.passes.cpu.unroll_and_jam import JAM
from ..ir.stmt import BufferStore, For, If, LoopKind, Seq, Stmt, While
from ..ir.structural import equal
from ..ir.visit import free_vars, stores, walk
from ..schedule.errors import BadReorder
from ..schedule.model.checks import find_place, refuse_swapped
from ..schedule.model.hybrid_errors import HybridLoopCarries
from ..schedule.model.hybrid_loops import check_reordered
from ..schedule.primitives.fission import can_part, split_iteration
from ..schedule.primitives.sink import can_sink
from ..te.axis import thread_axis
from ..te.shape import constant_extent
from .accesses import dimension
from .merging import choose_merged, is_free

if TYPE_CHECKING:
    from ..schedule.model.stage import Stage
    from .groups import Group

__all__ = ["schedule_in_order", "schedule_on_cores", "schedule_on_gpu"]

THREADS = 64
"""Threads of a block: iterations of a script's loop take long, so that few of them fill a machine."""
LEAST = 8
"""Terms of a sum from which on lanes share them: they take a few additions to be added up themselves."""
MOST_EXPANDED = 4096
"""Iterations of a loop each of which gets an element for a scalar of its own: they stay in a cache."""
COLUMNS = 64
"""Elements next to each other that one thread walks over, where loops around carry something."""


def schedule_on_cores(group: Group) -> None:
    """The rule for CPUs."""
    _schedule(group, "schedule_on_cores", _order_and_add)


def schedule_in_order(group: Group) -> None:
    """The rule for CPUs where each element takes up its terms in their order."""
    _schedule(group, "schedule_in_order", _order_loops)


def _schedule(group: Group, rule: str, order: Callable[[Group, Stage], None]) -> None:
    """Take the loops of a script apart, and put them in an order, merged or not."""
    stage = _begin(group)
    part_loops(stage)
    sink_triangles(stage)
    choose_merged(group, stage, rule, partial(order, group, stage))


def _order_and_add(group: Group, stage: Stage) -> None:
    """Order the loops of a script, and have lanes add up its sums."""
    _order_loops(group, stage, lanes_add=True)
    for axis in list(stage.op.axis):
        if _is_sum(stage, axis):
            stage.pragma(axis, REASSOCIATE)


def _order_loops(group: Group, stage: Stage, lanes_add: bool = False) -> None:
    """Interchange, share and mark the loops of a script. lanes_add: sums are added up by lanes afterwards."""
    orders = {nest: interchange(stage, nest, lanes_add) for nest in stage.op.declared_loops.nests}
    for nest in (orders[nest] for nest in _outermost(group, stage)):
        free = [axis for axis in nest if is_free(stage, axis)]
        if free and free[0] is nest[0]:
            stage.parallel(_split_lanes(group, stage, nest[0]) if _fills_lanes(group, stage, nest[0]) else nest[0])
        elif free and _is_hoistable(
            stage, free[:1], nest
        ):  # threads share columns, a line of the cache or more at a time
            outer, inner = stage.split(free[0], factor=COLUMNS)
            stage.reorder(outer, *(inner if axis is free[0] else axis for axis in nest))
            stage.parallel(outer)
    for axis in stage.leaf_iter_vars:
        if axis in stage.op.declared_loops.loops and _is_around_rows(stage, axis):
            stage.pragma(axis, JAM)
    for *around, innermost in orders.values():
        if innermost not in stage.leaf_iter_vars:
            continue  # cut into columns, whose length is known
        if around and around[-1] in stage.leaf_iter_vars and _updates_again(stage, around[-1], innermost):
            stage.pragma(around[-1], JAM)
        if _has_clamped_neighbours(stage, innermost):
            stage.pragma(innermost, HINT)
    for axis in list(stage.leaf_iter_vars):
        if axis in stage.op.declared_loops.loops and _fills_lanes(group, stage, axis):
            _split_lanes(group, stage, axis)


def schedule_on_gpu(group: Group) -> None:
    """The rule for GPUs. Nests after each other wait for each other, which the threads of one block can."""
    stage = _begin(group)
    nests = _outermost(group, stage)
    found = [_find_rectangle(stage, [axis for axis in nest if is_free(stage, axis)]) for nest in nests]
    free = [shared if _is_hoistable(stage, shared, nest) else [] for nest, shared in zip(nests, found, strict=True)]
    for nest, shared in zip(nests, free, strict=True):
        if not all(free):
            thread, _ = stage.split(nest[0], nparts=1)
        else:
            stage.reorder(*shared, *(axis for axis in nest if axis not in shared))
            block, thread = stage.split(stage.fuse(*shared), factor=THREADS)
            if len(nests) == 1:
                stage.bind(block, thread_axis("blockIdx.x"))
        stage.bind(thread, thread_axis("threadIdx.x"))


def _find_rectangle(stage: Stage, axes: Sequence[IterVar]) -> list[IterVar]:
    """The loops of which none says how many iterations another has, outer ones first: these can be fused."""
    kept: list[IterVar] = []
    for axis in axes:
        loop = stage.op.declared_loops.loop(axis)
        if not any(_depends((loop.begin, loop.extent), outer) for outer in kept):
            kept.append(axis)
    return kept


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


def part_loops(stage: Stage) -> None:
    """Part the loops that can be innermost in a nest that stands in them with other statements."""
    tried = set[IterVar]()
    while True:
        axis = next(
            (axis for axis in stage.leaf_iter_vars if axis not in tried and _gains_by_parting(stage, axis)), None
        )
        if axis is None:
            return
        tried.add(axis)
        with stage.schedule.attempt() as attempt:
            parts = stage.fission(axis)
            nests = [stage.op.declared_loops.axis_chain(part) for part in parts]
            gained = any(_gains_by_sinking(stage, part) for part in parts) or any(
                _best_order(stage, nest) != nest for nest in nests
            )
        if not gained:
            stage.schedule.undo(attempt)


def sink_triangles(stage: Stage) -> None:
    """Exchange the loops of triangles that lie better so, though something stands behind the inner one."""
    for axis in list(stage.leaf_iter_vars):
        if axis in stage.op.declared_loops.loops and _gains_by_sinking(stage, axis):
            stage.sink(axis)


def _gains_by_sinking(stage: Stage, axis: IterVar) -> bool:
    """Return whether a loop is a triangle, with something behind the inner loop, along which all of that lies side by side."""
    within = stage.op.declared_loops.loop(axis).body
    inner = within.body[0] if isinstance(within, Seq) and within.body else None
    return (
        isinstance(inner, For)
        and count_scattered(inner, axis) == 0 < count_scattered(inner, _innermost(inner))
        and can_sink(stage, axis)  # last: a proof takes longer than counts
    )


def _gains_by_parting(stage: Stage, axis: IterVar) -> bool:
    """Return whether a loop lies better innermost than the innermost one of a nest in it, beside which there are other statements."""
    declared = stage.op.declared_loops
    if axis not in declared.loops:
        return False
    memory, statements = split_iteration(declared.loop(axis))
    inner = [each for each in statements if isinstance(each, For)]
    return (
        (not memory or (constant_extent(axis) or MOST_EXPANDED) <= MOST_EXPANDED)
        and any(count_scattered(each, axis, memory) == 0 < count_scattered(each, _innermost(each)) for each in inner)
        and can_part(stage, axis)  # last: a proof takes longer than counts
    )


def _innermost(loop: For) -> Var:
    """The variable of the innermost of loops directly inside each other."""
    while isinstance(loop.body, For):
        loop = loop.body
    return loop.var


def interchange(stage: Stage, nest: tuple[IterVar, ...], lanes_add: bool = False) -> tuple[IterVar, ...]:
    """Put a loop along which all lies side by side innermost where none such is, and return the order of the nest. lanes_add: or one that
    adds up what does."""
    order = _best_order(stage, nest, lanes_add)
    if order != nest:
        stage.reorder(*order)
    return order


def _best_order(stage: Stage, nest: tuple[IterVar, ...], lanes_add: bool = False) -> tuple[IterVar, ...]:
    """The order of a nest with such a loop innermost; as it is where it is one, or there is none that may be."""
    loop = stage.op.declared_loops.loop(nest[-1])
    if len(nest) > 1 and all(stage.attr(axis).kind == "serial" for axis in nest) and count_scattered(loop, nest[-1]):
        for stored in (1, 0) if lanes_add else (1,):
            for axis in reversed(nest[:-1]):
                order = (*(other for other in nest if other is not axis), axis)
                if not count_scattered(loop, axis, stored=stored) and _may_stand(stage, order):
                    return order
    return nest


def _updates_again(stage: Stage, outer: IterVar, inner: IterVar) -> bool:
    """Return whether iterations of the loop around an innermost one store to the same elements, all of which lie side by side."""
    loop = stage.op.declared_loops.loop(stage.op.declared_loops.axis_chain(inner)[-1])
    if any(isinstance(node, For | While | If) for node in walk(loop.body)) or count_scattered(loop.body, inner):
        return False
    return any(not _depends(store.indices, outer) for store in stores(loop.body))


def _is_around_rows(stage: Stage, axis: IterVar) -> bool:
    """Return whether iterations of a loop around loops store to other elements, and read in the innermost one what others do."""
    body = stage.op.declared_loops.loop(axis).body
    loops = [node for node in walk(body) if isinstance(node, For)]
    innermost = [loop for loop in loops if not any(isinstance(node, For) for node in walk(loop.body))]
    if len(innermost) == len(loops) or any(isinstance(node, While | If) for node in walk(body)):
        return False
    return any(
        any(_depends(store.indices, axis) for store in stores(loop.body))
        and any(
            isinstance(node, BufferLoad | ProducerLoad)
            and _depends(node.indices, loop.var)
            and not any(index is axis for index in node.indices)
            for node in walk(loop.body)
        )
        for loop in innermost
    )


def _has_clamped_neighbours(stage: Stage, axis: IterVar) -> bool:
    """Return whether an innermost loop reads neighbours by clamped indices, which lanes would gather; at its ends alone they are."""
    body = stage.op.declared_loops.loop(axis).body
    loads = [node for node in walk(body) if isinstance(node, BufferLoad | ProducerLoad)]
    return not any(isinstance(node, For | While) for node in walk(body)) and any(
        isinstance(node, Min | Max) and is_index(node) and axis in free_vars(node)
        for load in loads
        for index in load.indices
        for node in walk(index)
    )


def _is_sum(stage: Stage, axis: IterVar) -> bool:
    """Return whether a loop does nothing but add up floats, or take the least or the greatest, for long enough."""
    declared = stage.op.declared_loops
    innermost = [leaf for leaf in stage.leaf_iter_vars if leaf in declared.axis_chain(axis)][-1:]
    if axis not in declared.loops or innermost != [axis] or stage.attr(axis).kind != "serial":
        return False
    body = declared.loop(declared.axis_chain(axis)[-1]).body  # which the loops may stand around in another order
    nodes, stored = list(walk(body)), list(stores(body))
    if (
        any(isinstance(node, For | If | While | IfThenElse) for node in nodes)
        or (constant_extent(axis) or LEAST) < LEAST
    ):
        return False
    sums = [store for store in stored if not _depends(store.indices, axis)]
    loads = [node for node in nodes if isinstance(node, BufferLoad)]
    carried = [load for load in loads if any(_is_place(load, store) for store in sums)]
    return (
        any(store.buffer.dtype.is_float and store.buffer.dtype.bits >= 32 for store in sums)
        and len(carried) == len(sums)
        and all(map(_takes_up, sums))
        and not any(
            dimension(index).mentions(axis)
            for node in nodes
            if isinstance(node, BufferLoad | ProducerLoad)
            for index in node.indices
        )
    )


def _lanes(group: Group, stage: Stage) -> int:
    return group.machine.lanes(max(tensor.dtype.bits for tensor in stage.op.outputs))


def _split_lanes(group: Group, stage: Stage, axis: IterVar) -> IterVar:
    """Make iterations lanes; the loop over vectors of them."""
    outer, lane = stage.split(axis, factor=_lanes(group, stage))
    stage.vectorize(lane)
    return outer


def _fills_lanes(group: Group, stage: Stage, axis: IterVar) -> bool:
    """Return whether the iterations of a loop, each of which runs loops that carry something, are lanes: they never meet, take the same
    steps, and what they read lies side by side or at places that are data."""
    loop = stage.op.declared_loops.loop(axis)
    nodes = list(walk(loop.body))
    within = stage.leaf_iter_vars[find_place(stage.leaf_iter_vars, axis) + 1 :]  # loops may stand in another order now
    inner = [node for node in nodes if isinstance(node, For) and find_place(within, node.var) >= 0]
    if not inner or stage.attr(axis).kind != "serial" or any(isinstance(node, If | While) for node in nodes):
        return False
    if (constant_extent(axis) or LEAST) < _lanes(group, stage) or any(
        each.kind is not LoopKind.SERIAL or _depends((each.begin, each.extent), axis) for each in inner
    ):
        return False
    apart = [
        node
        for node in nodes
        if isinstance(node, BufferStore | BufferLoad | ProducerLoad)
        and node.indices
        and neighbour_distance(node.indices, axis) not in ((1,) if isinstance(node, BufferStore) else (0, 1))
        and all(map(is_index, node.indices))
    ]
    carries = all(isinstance(each.var, IterVar) and not is_free(stage, each.var) for each in inner)
    return not apart and carries and is_free(stage, axis)


def _takes_up(store: BufferStore) -> bool:
    """Return whether an element is stored that takes up one term more."""
    value = store.value
    if not isinstance(value, Add | Sub | Mul | Min | Max):
        return False
    operands = (value.a,) if isinstance(value, Sub) else (value.a, value.b)
    return any(isinstance(operand, BufferLoad) and _is_place(operand, store) for operand in operands)


def _is_place(load: BufferLoad, store: BufferStore) -> bool:
    return load.buffer is store.buffer and all(map(equal, load.indices, store.indices))


def _depends(indices: Sequence[Expr], var: Var) -> bool:
    return any(var in free_vars(index) for index in indices)


def count_scattered(statement: Stmt, var: Var, memory: Sequence[Buffer] = (), stored: int = 1) -> int:
    """The number of accesses of a statement that are neither side by side in neighbouring iterations of a loop nor at one place, and of
    elements that are stored to again and again.

    memory: of an iteration, which fission would make an element of that of all. stored: the distance of what is stored to; 0 for sums."""
    return sum(
        neighbour_distance(node.indices, var) not in ((stored,) if isinstance(node, BufferStore) else (0, 1))
        for node in walk(statement)
        if isinstance(node, ProducerLoad)
        or isinstance(node, BufferLoad | BufferStore)
        and (node.indices or node.buffer not in memory)
    )


def _is_hoistable(stage: Stage, axes: list[IterVar], nest: tuple[IterVar, ...]) -> bool:
    """Return whether these loops may stand around the others of their nest: what an iteration of one reads of another's neighbours, a step
    of the loop around it before, keeps it inside."""
    return _may_stand(stage, [*axes, *(axis for axis in nest if axis not in axes)])


def _may_stand(stage: Stage, order: Sequence[IterVar]) -> bool:
    """Return whether the loops of a nest may stand in this order."""
    ordered = iter(order)
    leaves = [next(ordered) if leaf in order else leaf for leaf in stage.leaf_iter_vars]
    try:
        refuse_swapped(stage, leaves, "cannot reorder")
        check_reordered(stage, leaves, order)
    except (BadReorder, HybridLoopCarries):
        return False
    return True
