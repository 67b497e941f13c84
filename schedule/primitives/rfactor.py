"""rfactor: a reduction in two stages, partial results for each value of one reduce loop, then their reduction."""

# pyright: reportUnnecessaryIsInstance=false
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import overload

from ...base.errors import user_source
from ...ir import Expr, IterVar, ProducerLoad, Range, Reduce, Var, free_vars, substitute
from ...ir.accesses import reads_memory
from ...ir.combine import captured_axes
from ...ir.ops import TRUE, conjunction, const, if_then_else, is_const, likely
from ...te.operation import ComputeOp
from ...te.tensor import Tensor
from ...te.tensor_compute import intrinsic_call
from ..errors import BadRfactor
from ..model.checks import (
    declared_ranges,
    dependences,
    find_leaf,
    find_place,
    mixes_data_and_reduce,
    outline,
    refuse_lost_annotation,
    related_axes,
)
from ..model.foreign import AXIS, TENSORS, integer
from ..model.layout import (
    add_root_axis,
    check_outputs,
    first_then,
    move_attachments,
    range_conditions,
    refuse_dangling_predicate,
    refuse_tied_reduction,
    retire,
)
from ..model.methods import SchedulePrimitives
from ..model.primitive import Attempt, Drawer, Try, primitive
from ..model.relations import pass_up_value
from ..model.schedule import Schedule
from ..model.stage import Stage
from ..model.term_order import laws_of_reduction, refuse_split

__all__ = ["rfactor"]


def _tries(stage: Stage) -> Iterator[Try]:
    for axis in stage.leaf_iter_vars:
        if axis.kind == "reduce":
            yield axis.name, lambda one, axis=axis: one.schedule.rfactor(list(one.op.outputs), axis)


def _draw(drawer: Drawer) -> Attempt | None:
    def factorable(stage: Stage) -> list[IterVar]:
        return [
            axis
            for axis in stage.leaf_iter_vars
            if axis.kind == "reduce" and drawer.begins_at_zero(stage, axis) and stage.attr(axis).kind == "serial"
        ]

    stage = drawer.some_stage(factorable)
    if stage is None:
        return None
    axis, place = drawer.pick(factorable(stage)), drawer.below(len(stage.op.axis) + 1)
    outputs = list(stage.op.outputs)
    return (
        f"rfactor({stage.name}, {axis.name}, {place})",
        lambda: drawer.s.rfactor(outputs[0] if len(outputs) == 1 else outputs, axis, place),
    )


@overload
def rfactor(schedule: Schedule, tensor: Tensor, axis: IterVar, factor_axis: int = 0) -> Tensor: ...
@overload
def rfactor(schedule: Schedule, tensor: Sequence[Tensor], axis: IterVar, factor_axis: int = 0) -> list[Tensor]: ...
@primitive(
    SchedulePrimitives,
    "stages",
    tries=_tries,
    draw=_draw,
    weight=4,
    rare=True,
    foreign={"tensor": TENSORS, "axis": AXIS, "factor_axis": integer(-64, 64)},
)
def rfactor(
    schedule: Schedule, tensor: Tensor | Sequence[Tensor], axis: IterVar, factor_axis: int = 0
) -> Tensor | list[Tensor]:
    """Reduce in two stages: partial results, with a dimension for the reduce loop `axis`, and the tensor over that dimension.

        for k.o in 4:                      for k.i in 8:                  # rfactor(C, k.i)
            for k.i in 8:          →           for k.o in 4:
                C += A[k.o * 8 + k.i]              C.rf[k.i] += A[k.o * 8 + k.i]
                                           for k.i.v in 8:
                                               C += C.rf[k.i.v]

    Both stages start with their loops as declared; the tensor keeps its data axes.

    Parameters
    ----------
    tensor : Tensor or sequence of Tensor
        A reduction, or all outputs of one.
    axis : IterVar
        A reduce loop of it that counts from 0, not fused with data axes.
    factor_axis : int, default 0
        The place of the new dimension among those of the tensor, from the end where it is negative.

    Returns
    -------
    Tensor or list of Tensor
        The partial results, "C.rf", of the same dtype: a list for several outputs or for a list.

    Raises
    ------
    BadRfactor (TW0221)
        The reduction cannot be factored over this axis.
    AxisIsNoLoop (TW0205)
        The loop was split or fused.
    NotAnAxisOfStage (TW0202)
        The axis belongs to another stage.
    WrongArgument (TW0222)
        An argument is of another kind.
    AnnotationWouldBeLost (TW0213)
        A loop of the stage is annotated.
    UnknownStage (TW0201)
        The schedule does not compute the tensor.
    UnsplitReduction (TW0234)
        The combiner is not associative, or its identity is none.
    """
    stage, tensors = check_outputs(schedule, tensor, BadRfactor, "cannot factor the reduction")
    op, reduction = _check(stage, axis)
    place = _checked_place(stage, axis, op, factor_axis)
    _check_attachments(stage, axis)
    ranges = declared_ranges(stage)
    refuse_split(stage, axis, reduction, "cannot factor over")
    exactly = laws_of_reduction(reduction).splits_exactly(bool(reduction.init))
    with schedule.compound("rfactor", tensor=tensor, axis=axis, factor_axis=factor_axis):
        new = _new_axes(stage, op, axis, ranges)
        partial_op = _partial_op(stage, op, reduction, ranges, new, axis, place)
        final_op = _final_op(op, reduction, partial_op, new[axis], place)
        partial = schedule.insert_stage(schedule.find_place(stage), partial_op, stage)
        moved = {before: after for before, after in new.items() if before.kind == "reduce"}
        move_attachments(stage, op.axis, partial, moved)
        gone = [var for var in stage.all_iter_vars if not any(var is kept for kept in op.axis)]
        retire(
            schedule,
            gone,
            f"was an axis of {stage.name} until rfactor made two stages of it{{at}}: "
            f"{partial.name} over {', '.join(leaf.name for leaf in partial.leaf_iter_vars)}, and {stage.name}",
        )
        schedule.rewrite({}, anew={stage: final_op})
        if not exactly:
            schedule.losses.append(f"partial results of {stage.name} are added instead of its terms")
    if isinstance(tensor, Tensor):
        return partial_op.output(0) if partial_op.num_outputs == 1 else list(partial_op.outputs)
    return [partial_op.output(tensor.value_index) for tensor in tensors]


def _bad(stage: Stage, axis: IterVar, reason: str, fix: str) -> BadRfactor:
    return BadRfactor(
        f"cannot factor the reduction {stage.name} over '{axis.name}'",
        reason=reason,
        declared=stage.op.source,
        called=user_source(),
        loops=outline(stage, [axis]),
        fix=fix,
    )


def _check(stage: Stage, axis: IterVar) -> tuple[ComputeOp, Reduce]:
    op = stage.op.as_compute
    if op is None or op.reduction is None:
        raise BadRfactor(
            f"cannot factor stage {stage.name}",
            reason=f"{stage.name} is not a reduction",
            declared=stage.op.source,
            called=user_source(),
            fix="factor the stage that reduces (after cache_write that is the cache)",
        )
    call = intrinsic_call(op)
    if call is not None:
        raise _bad(
            stage,
            axis,
            f"the tensor intrinsic {call.intrinsic.name} adds up whole parts of {stage.name}, one by one",
            "declare the partial results as a te.compute of their own, by the same intrinsic, and add them up in another",
        )
    find_leaf(stage, axis, "cannot factor over")
    names = ", ".join(leaf.name for leaf in stage.leaf_iter_vars if leaf.kind == "reduce")
    if axis.kind != "reduce":
        raise _bad(stage, axis, f"{axis.name} is a data axis", f"factor over a reduce axis: {names}")
    read = captured_axes(op.reduction)
    if read:
        raise _bad(
            stage,
            axis,
            f"its combiner reads the axis {read[0].name}, and would combine partial results by another",
            "let the reduced values read the axis, not the combiner",
        )
    touched = related_axes(stage, axis)
    mixed = next(
        (leaf for leaf in stage.leaf_iter_vars if leaf in touched and mixes_data_and_reduce(stage, leaf)), None
    )
    if mixed is not None:
        raise _bad(
            stage,
            axis,
            f"{mixed.name} runs over data and reduce axes at once",
            "call rfactor before fusing a reduce axis with a data axis",
        )
    within = declared_ranges(stage)[axis]
    if not is_const(within.begin, 0):
        raise _bad(
            stage,
            axis,
            f"{axis.name} begins at {within.begin}, and the partial results are counted from 0",
            f"declare the axis from 0, or split {axis.name} and factor over a part",
        )
    if any(var is axis for var in free_vars(within.extent) for axis in (*op.axis, *op.reduce_axis)):
        raise _bad(
            stage,
            axis,
            f"its extent {within.extent} changes with other axes, so the partial results have no shape",
            f"split {axis.name} by a constant factor and factor over the inner part",
        )
    for leaf in stage.leaf_iter_vars:
        if not any(leaf is root for root in op.axis):
            refuse_lost_annotation(
                stage,
                leaf,
                f"cannot factor the reduction {stage.name}: the loop",
                "call rfactor first, then annotate the loops of the two stages",
            )
    refuse_dangling_predicate(stage, op.axis, BadRfactor, "cannot factor the reduction")
    refuse_tied_reduction(
        stage, BadRfactor, "cannot factor the reduction", "call rfactor first, then rotate loops of the two stages"
    )
    return op, op.reduction


def _checked_place(stage: Stage, axis: IterVar, op: ComputeOp, factor_axis: int) -> int:
    rank = len(op.axis)
    if isinstance(factor_axis, bool) or not isinstance(factor_axis, int) or not -rank - 1 <= factor_axis <= rank:
        raise _bad(
            stage,
            axis,
            f"factor_axis is {factor_axis!r}: the place of the new dimension among those of {stage.name}",
            f"give a place from 0 to {rank}, or from -1 (last) to {-rank - 1}",
        )
    return factor_axis if factor_axis >= 0 else factor_axis + rank + 1


def _check_attachments(stage: Stage, axis: IterVar) -> None:
    """Some loops vanish without another that stands for them: those over split or fused axes that are not factored."""
    touched, roots = related_axes(stage, axis), stage.root_iter_vars
    for other in stage.schedule.find_placed(stage):
        at = other.own_placement.loop
        if at is not None and at not in touched and find_place(roots, at) < 0:
            raise _bad(
                stage,
                at,
                f"{other.name} is computed at {at.name}, which would vanish",
                f"call rfactor first, or compute_root() of {other.name}",
            )


def _new_axes(stage: Stage, op: ComputeOp, axis: IterVar, ranges: dict[IterVar, Range]) -> dict[IterVar, IterVar]:
    """Return the axes of the first stage for each data axis and each reduce loop of the whole."""
    new = {axis: add_root_axis(axis, ranges[axis], axis.name, "data") for axis in op.axis}
    touched = related_axes(stage, axis)
    later: dict[IterVar, bool] = {}
    for first, second in dependences(
        stage
    ):  # in the order of the second ones: what depends on such a one is such a one
        if second not in touched and (first in touched or first in later):
            later[second] = True
    untouched = [axis for axis in op.reduce_axis if axis not in touched and axis not in later]
    loops = [leaf for leaf in stage.leaf_iter_vars if leaf in touched and leaf is not axis]
    for item in [*untouched, *loops]:
        new[item] = _rebuild_axis(item, ranges[item], {**new})
    new[axis] = add_root_axis(axis, ranges[axis], axis.name, "data")
    if later:
        values = pass_up_value(stage.relations, ranges, {**new})
        conditions = range_conditions(stage.relations, ranges, values)
        at: dict[Var, Expr] = {**new}
        at |= {axis: substitute(values[axis], at) for axis in op.reduce_axis if axis in touched}
        inside = conjunction(*(substitute(condition, at) for condition in conditions))
        for each in later:
            new[each] = _rebuild_axis(each, ranges[each], at, inside)
            at[each] = new[each]
    return new


def _rebuild_axis(axis: IterVar, within: Range, at: Mapping[Var, Expr], inside: Expr = TRUE) -> IterVar:
    """A reduce axis over its domain in terms of new axes; a whole axis goes on under its own name. inside: where other axes
    are within theirs: elsewhere a domain must not be read from memory."""
    begin, extent = substitute(within.begin, at), substitute(within.extent, at)
    if axis.dom is not None and begin is axis.dom.begin and extent is axis.dom.extent:
        return axis
    if not is_const(inside, 1):
        begin, extent = (
            if_then_else(inside, bound, const(0, bound.dtype)) if reads_memory(bound) else bound
            for bound in (begin, extent)
        )
    return add_root_axis(axis, Range(begin, extent), axis.name, "reduce")


def _partial_op(
    stage: Stage,
    op: ComputeOp,
    reduction: Reduce,
    ranges: dict[IterVar, Range],
    new: dict[IterVar, IterVar],
    axis: IterVar,
    place: int,
) -> ComputeOp:
    """The partial results: a dimension for `axis`, reduced over the rest."""
    at_loops: dict[IterVar, Expr] = {
        axis: renewed.dom.begin if renewed.dom is not None and is_const(renewed.dom.extent, 1) else renewed
        for axis, renewed in new.items()
    }
    values = pass_up_value(stage.relations, ranges, at_loops)
    at_axes: dict[Var, Expr] = {**new}
    conditions = [substitute(condition, at_axes) for condition in range_conditions(stage.relations, ranges, values)]
    # The begin of a reduce axis may speak of data axes, which have become others.
    at_roots: dict[Var, Expr] = {axis: substitute(values[axis], at_axes) for axis in (*op.axis, *op.reduce_axis)}
    rest = tuple(renewed for item, renewed in new.items() if item.kind == "reduce" and item is not axis)
    condition = substitute(reduction.condition, at_roots)
    if conditions:
        condition = first_then(likely(conjunction(*conditions)), condition)
    sources = tuple(substitute(source, at_roots) for source in reduction.sources)
    if rest:
        whole = Reduce(reduction.combiner, sources, rest, condition, fused=reduction.fused)
        body: tuple[Expr, ...] = tuple(replace(whole, value_index=at) for at in range(len(sources)))
    else:  # one element each: nothing is left to reduce in this stage
        body = tuple(
            if_then_else(condition, source, identity)
            for source, identity in zip(sources, reduction.combiner.identity, strict=True)
        )
    data = [new[axis] for axis in op.axis]
    data.insert(place, new[axis])
    return ComputeOp(
        name=f"{op.name}.rf", tag=op.tag, attrs=op.attrs, source=user_source(), axis=tuple(data), body=body
    )


def _final_op(op: ComputeOp, reduction: Reduce, partial_op: ComputeOp, factored: IterVar, place: int) -> ComputeOp:
    """The reduction of the partial results."""
    assert factored.dom is not None
    axis = add_root_axis(factored, factored.dom, f"{factored.name}.v", "reduce")
    indices = [*op.axis]
    indices.insert(place, axis)
    loads = tuple(ProducerLoad(tensor, tuple(indices)) for tensor in partial_op.outputs)
    whole = Reduce(reduction.combiner, loads, (axis,), TRUE, reduction.init)
    body = tuple(replace(whole, value_index=at) for at in range(len(loads)))
    return ComputeOp(name=op.name, tag=op.tag, attrs=op.attrs, source=op.source, axis=op.axis, body=body)
