"""The nest of a stage that reduces: init, update and, across threads, the final store.

Init stands just before the first loop that is related to a reduce axis, over the remaining data loops, of which it has
its own copies (of the same kinds) and its own guards. The update reads and writes the element in place.

A store predicate guards the stores. Where it speaks of a thread axis that a reduce loop is bound to (TVM's
`set_store_predicate(thread.var.equal(0))`), every thread takes part in the reduction and the predicate chooses who stores
the result: the reduction then runs in a temporary of its own, and a third nest, over the data loops and the threads,
stores it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import is_

from ...ir import Allocate, Buffer, BufferLoad, BufferStore, Expr, If, IterVar, LetStmt, Mul, Reduce, Stmt, Var
from ...ir.combine import captured_axes, combine_values, is_fused
from ...ir.ops import const, is_const
from ...ir.visit import free_vars, post_order, seq, substitute
from ..model.relations import Fuse
from .bounds import plain_loop
from .computation import Loop, StageBounds
from .invariant_components import Alike, alike_values
from .nest import Nest

__all__ = ["reduction_nest"]


def reduction_nest(nest: Nest, reduction: Reduce) -> Stmt:
    """The statement that computes the region of a stage that reduces."""
    bounds = nest.stage_bounds
    first = bounds.first_reduce_loop
    common, inner = bounds.loops[:first], bounds.loops[first:]
    data = _data_loops(bounds, inner)
    # a thread's partial result is joined by a pass, so its loop is told apart
    across = [loop for loop in inner if loop.thread and bounds.marks[loop.axis] & 2]
    alike = alike_values(nest, reduction, inner) if not across else None
    if alike is not None:
        outer = inner[: len(inner) - len(alike.within)]
        update = _update_alike(nest, reduction, outer, alike)
        body = seq(_init(nest, reduction, data, nest.buffers), update, _spread(nest, data, alike))
    elif not _predicate_chooses_thread(nest, across):
        body = seq(_init(nest, reduction, data, nest.buffers), _update(nest, reduction, inner, data, nest.buffers))
    else:
        body = _reduce_in_temporary(nest, reduction, inner, data, across)
    return nest.loops(common, body, attach=True)


def _data_loops(bounds: StageBounds, inner: Sequence[Loop]) -> list[Loop]:
    """The loops over data among `inner`. Where data and reduce axes were fused, plain loops over the data axes stand in
    place of the fused ones: those run no time where the reduction is empty, and init must not."""
    stage = bounds.computation.stage
    fused = [
        parent
        for relation in stage.relations
        if isinstance(relation, Fuse) and bounds.marks[relation.fused] == 3
        for parent in relation.parents
        if bounds.marks[parent] == 1
    ]
    loops: list[Loop] = []
    for loop in inner:
        mark = bounds.marks.get(loop.axis, 0)
        if mark == 1:  # 2 marks reduce axes, 3 what mixes both
            loops.append(loop)
        elif mark == 3:
            loops += [plain_loop(stage, axis, bounds.ranges[axis].extent) for axis in fused]
            fused = []
    return loops


def _predicate_chooses_thread(nest: Nest, across: Sequence[Loop]) -> bool:
    predicate = nest.computation.stage.store_predicate
    if predicate is None or not across:
        return False
    tags = {loop.thread for loop in across}
    return any(isinstance(node, IterVar) and node.thread_tag in tags for node in post_order(predicate))


def _init(nest: Nest, reduction: Reduce, data: list[Loop], temporaries: Sequence[Buffer]) -> Stmt:
    """The elements set to the identity, or to `init=`."""
    offsets = nest.rename(data)
    axes = nest.axis_values(offsets)
    values = [nest.value(value, axes) for value in reduction.init or reduction.combiner.identity]
    if temporaries is nest.buffers:  # a temporary has its own places, and no predicate
        body = nest.predicate(nest.stores(values, offsets), offsets)
    else:
        place = _place(data, offsets)
        body = seq(*(BufferStore(buffer, value, place) for buffer, value in zip(temporaries, values, strict=True)))
    # guards of reduce axes say nothing of init
    only_reduce = frozenset(axis for axis, mark in nest.stage_bounds.marks.items() if mark == 2)
    init = nest.loops(data, nest.guard(body, offsets, only_reduce), attach=False)
    nest.renamed = {}
    return init


def _place(data: list[Loop], offsets: Mapping[IterVar, Expr]) -> tuple[Expr, ...]:
    """The element of a temporary that an iteration of the data loops owns."""
    return tuple(offsets[loop.axis] for loop in data if loop.var is not None)


def _update(
    nest: Nest,
    reduction: Reduce,
    loops: Sequence[Loop],
    data: list[Loop],
    buffers: Sequence[Buffer],
) -> Stmt:
    """The elements combined with the next sources."""
    bounds = nest.stage_bounds
    if buffers is nest.buffers:
        places = [nest.indices(bounds.offsets, tensor) for tensor in nest.computation.op.outputs]
    else:
        places = [_place(data, bounds.offsets)] * len(buffers)
    body = _combine(nest, reduction, loops, buffers, places, range(len(buffers)))
    return nest.loops(loops, nest.guard(body, bounds.offsets), attach=True)


def _update_alike(nest: Nest, reduction: Reduce, outer: Sequence[Loop], alike: Alike) -> Stmt:
    """The elements combined with the next sources: those that change along the innermost loops, and then, once, those that do not,
    which all of the others have read."""
    bounds = nest.stage_bounds
    # values that are alike are kept at the first element
    first: dict[Var, Expr] = {loop.var: const(0, loop.var.dtype) for loop in alike.across if loop.var is not None}
    offsets = {axis: substitute(value, first) for axis, value in bounds.offsets.items()}
    places = [
        nest.indices(offsets if at in alike.values else bounds.offsets, tensor)
        for at, tensor in enumerate(nest.computation.op.outputs)
    ]
    changing = [at for at in range(len(places)) if at not in alike.values]
    parts = [
        _combine(nest, reduction, alike.within, nest.buffers, places, each) for each in (changing, sorted(alike.values))
    ]
    own = nest.loops(alike.within, nest.guard(parts[0], bounds.offsets), attach=True)
    renamed: dict[Var, Expr] = {
        loop.var: Var(loop.var.name, loop.var.dtype) for loop in alike.beside if loop.var is not None
    }
    once = substitute(nest.guard(parts[1], offsets, alike.axes), renamed)
    nest.renamed = {
        loop: each for loop in alike.beside if loop.var is not None and isinstance(each := renamed[loop.var], Var)
    }
    once = nest.loops(alike.beside, once, attach=False)
    nest.renamed = {}
    # the others must have read the alike values before these change
    return nest.loops(outer, seq(own, once), attach=True)


def _spread(nest: Nest, data: list[Loop], alike: Alike) -> Stmt:
    """Return the value combined once, for each element."""
    offsets = nest.rename(data)
    first: dict[Var, Expr] = {
        nest.renamed[loop]: const(0, loop.var.dtype) for loop in alike.across if loop.var is not None
    }
    one = {axis: substitute(value, first) for axis, value in offsets.items()}
    copies: list[Stmt] = []
    for at in sorted(alike.values):
        tensor, buffer = nest.computation.op.outputs[at], nest.buffers[at]
        copies.append(BufferStore(buffer, BufferLoad(buffer, nest.indices(one, tensor)), nest.indices(offsets, tensor)))
    only_reduce = frozenset(axis for axis, mark in nest.stage_bounds.marks.items() if mark == 2)
    spread = nest.loops(data, nest.guard(seq(*copies), offsets, only_reduce), attach=False)
    nest.renamed = {}
    return spread


def _combine(
    nest: Nest,
    reduction: Reduce,
    loops: Sequence[Loop],
    buffers: Sequence[Buffer],
    places: Sequence[tuple[Expr, ...]],
    stored: Sequence[int],
) -> Stmt:
    """The elements at these places combined with the next sources, those of `stored` among the values."""
    bounds = nest.stage_bounds
    axes = nest.axis_values(bounds.offsets)
    loads: list[Expr] = [BufferLoad(buffer, place) for buffer, place in zip(buffers, places, strict=True)]
    sources = [nest.value(source, axes) for source in reduction.sources]
    bindings: list[tuple[Var, Expr]] = []
    across = any(loop.thread and bounds.marks[loop.axis] & 2 for loop in loops)
    if len(sources) > 1 or across:  # every source is read before any element changes, and threads combine named values
        for at, (buffer, source) in enumerate(zip(buffers, sources, strict=True)):
            sources[at] = _name_sources(source, buffer.name, bindings, is_fused(reduction, at))
    if captured_axes(reduction):
        result = tuple(nest.value(value, axes) for value in reduction.combiner.result)
        reduction = replace(reduction, combiner=replace(reduction.combiner, result=result))
    results = combine_values(reduction, loads, sources)
    if len(results) > 1:  # and every result is computed before any element changes
        for at in stored:
            named = Var(f"{buffers[at].name}.next", results[at].dtype)
            bindings.append((named, results[at]))
            results[at] = named
    body = seq(*(BufferStore(buffers[at], results[at], places[at]) for at in stored))
    for var, value in reversed(bindings):
        if len(stored) == len(buffers) or var in free_vars(body):  # another value's source may read what is not here
            body = LetStmt(var, value, body)
    if all(map(is_, buffers, nest.buffers)):  # temporaries are stored whatever the predicate says
        body = nest.predicate(body, bounds.offsets)
    condition = nest.value(reduction.condition, axes)
    return body if is_const(condition, 1) else If(condition, body)


def _name_sources(source: Expr, name: str, bindings: list[tuple[Var, Expr]], fused: bool) -> Expr:
    """A source by a name for its value; of a product that is fused each factor gets one, and the product stays."""
    if fused and isinstance(source, Mul):  # the factors of a fused product are rounded once, with the sum
        return Mul(_bound(f"{name}.left", source.a, bindings), _bound(f"{name}.right", source.b, bindings))
    return _bound(f"{name}.source", source, bindings)


def _bound(name: str, value: Expr, bindings: list[tuple[Var, Expr]]) -> Var:
    bindings.append((Var(name, value.dtype), value))
    return bindings[-1][0]


def _reduce_in_temporary(
    nest: Nest, reduction: Reduce, loops: Sequence[Loop], data: list[Loop], across: list[Loop]
) -> Stmt:
    """The reduction in temporaries, then the stores by the threads that the predicate chooses."""
    shape = tuple(loop.extent for loop in data if loop.var is not None)
    temporaries = [Buffer(f"{buffer.name}.partial", shape, buffer.dtype, scope="local") for buffer in nest.buffers]
    init = _init(nest, reduction, data, temporaries)
    update = _update(nest, reduction, loops, data, temporaries)
    offsets = nest.rename([*data, *across])
    place = _place(data, offsets)
    values = [BufferLoad(buffer, place) for buffer in temporaries]
    stored = nest.predicate(nest.stores(values, offsets), offsets)
    only_reduce = frozenset(axis for axis, mark in nest.stage_bounds.marks.items() if mark == 2)
    final = nest.loops([*data, *across], nest.guard(stored, offsets, only_reduce), attach=False)
    nest.renamed = {}
    body = seq(init, update, final)
    for buffer in temporaries:  # innermost allocation first: none depends on another
        body = Allocate(buffer, body)
    return body
