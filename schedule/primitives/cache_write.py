"""cache_write: a tensor is computed into memory that is closer, and copied from there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import overload

from ...base.errors import user_source
from ...ir.expr import Expr, IterVar, ProducerLoad, Range
from ...ir.ops import cast, const, is_const
from ...te.operation import ComputeOp, Operation
from ...te.rewrite import substitute_axes
from ...te.tensor import Tensor
from ...te.tensor_compute import intrinsic_call
from ..errors import BadCacheWrite
from ..model.checks import check_scope, declared_ranges, mixes_data_and_reduce, outline, refusal, refuse_lost_annotation
from ..model.foreign import SCOPE, TENSORS
from ..model.hybrid_loops import refuse_hybrid
from ..model.layout import (
    add_root_axis,
    check_outputs,
    guard_value,
    move_attachments,
    range_conditions,
    refuse_dangling_predicate,
    refuse_tied_reduction,
    retire,
)
from ..model.methods import SchedulePrimitives
from ..model.primitive import Attempt, Drawer, Try, primitive
from ..model.relations import Relation, pass_down_value, pass_up_value, spread_down
from ..model.schedule import Schedule
from ..model.stage import Stage

__all__ = ["cache_write"]


def _tries(stage: Stage) -> Iterator[Try]:
    if not stage.op.is_given:
        yield "", lambda one: one.schedule.cache_write(list(one.op.outputs), "local")


def _draw(drawer: Drawer) -> Attempt | None:
    def bare(stage: Stage) -> bool:
        return all(axis in stage.op.axis or stage.attr(axis).kind == "serial" for axis in stage.leaf_iter_vars)

    stage = drawer.some_stage(bare)
    if stage is None:
        return None
    outputs = list(stage.op.outputs)
    scope = drawer.pick(["local", "global", "shared"])
    return (
        f"cache_write({stage.name}, {scope})",
        lambda: drawer.s.cache_write(outputs[0] if len(outputs) == 1 else outputs, scope),
    )


@overload
def cache_write(schedule: Schedule, tensor: Tensor, scope: str) -> Tensor: ...
@overload
def cache_write(schedule: Schedule, tensor: Sequence[Tensor], scope: str) -> list[Tensor]: ...
@primitive(
    SchedulePrimitives, "stages", tries=_tries, draw=_draw, weight=5, foreign={"tensor": TENSORS, "scope": SCOPE}
)
def cache_write(schedule: Schedule, tensor: Tensor | Sequence[Tensor], scope: str) -> Tensor | list[Tensor]:
    """Compute `tensor` into a cache in the memory `scope` first; its stage becomes a copy of the cache, with its loops anew.

        for i in 64:                       for i.c in 64:                 # cache_write(C, "local")
            C[i] = A[i] * 2        →           C.local[i.c] = A[i.c] * 2
                                           for i in 64:
                                               C[i] = C.local[i]

    tensor: or a list of all outputs of one operation. scope: "global", "shared", "local", "warp" or "". Splits and reorders
    made before define the layout of the cache: a dimension for each loop over data, in their order; what was done to reduce
    axes moves to the cache. Stages attached at loops that vanish move to the cache's. Returns the cache, "C.local" for C in
    "local", of the same dtype, or a list for a list.

    Raises BadCacheWrite (TW0220), AnnotationWouldBeLost (TW0213), UnknownScope (TW0216), UnknownStage (TW0201),
    NotOfHybridStages (TW0282).
    """
    stage, tensors = check_outputs(schedule, tensor, BadCacheWrite, "cannot cache writes of")
    check_scope(scope, f"cannot cache writes of {stage.name} in {scope!r}")
    op = _check_cacheable(stage, tensors)
    ranges = declared_ranges(stage)
    data = [axis for axis in stage.leaf_iter_vars if axis.kind != "reduce"]
    fresh = {axis: add_root_axis(axis, ranges[axis], f"{axis.name}.c", "data") for axis in data}
    with schedule.compound("cache_write", tensor=tensor, scope=scope):
        cache_op = _cache_op(stage, op, ranges, fresh, scope)
        copy_op = _copy_op(stage, op, ranges, data, cache_op)
        cache = schedule.insert_stage(schedule.find_place(stage), cache_op, stage)
        cache.scope = scope
        _move_loops(stage, op, cache, fresh)
        _become_copy(stage, cache, copy_op, fresh)
    caches = [cache_op.output(tensor.value_index) for tensor in tensors]
    return caches[0] if isinstance(tensor, Tensor) else caches


def _check_cacheable(stage: Stage, tensors: Sequence[Tensor]) -> ComputeOp:
    op, name = stage.op.as_compute, stage.name
    refuse_hybrid(
        stage,
        "cannot cache writes of",
        "it writes where, and when, its statements say",
        f's.cache_read({name}, "local", readers), or allocate(shape, dtype, "local") in the script',
    )

    bad = partial(refusal, BadCacheWrite, stage, f"cannot cache writes of {name}", ())

    if op is None:
        raise bad(f"{name} is a {stage.op.kind}: nothing writes it", f's.cache_read({name}, "local", readers)')
    if sorted(tensor.value_index for tensor in tensors) != list(range(op.num_outputs)):
        names = ", ".join(tensor.name for tensor in op.outputs)
        raise bad(
            f"its operation has {op.num_outputs} outputs, which are written together",
            f"pass each of them once: s.cache_write([{names}], scope)",
        )
    mixed = next((axis for axis in stage.leaf_iter_vars if mixes_data_and_reduce(stage, axis)), None)
    if mixed is not None:
        raise bad(
            f"{mixed.name} runs over data and reduce axes at once, and the loops define the cache's layout",
            "call cache_write before that fuse",
        )
    for axis in stage.leaf_iter_vars:
        if axis.kind != "reduce" and not any(axis is root for root in op.axis):
            refuse_lost_annotation(
                stage,
                axis,
                f"cannot cache writes of {name}: the loop",
                "call cache_write first, then annotate the loops of the cache or of the copy",
            )
    refuse_dangling_predicate(stage, op.axis, BadCacheWrite, "cannot cache writes of")
    refuse_tied_reduction(
        stage, BadCacheWrite, "cannot cache writes of", "call cache_write first, then rotate the cache's loops"
    )
    return op


def _cache_op(
    stage: Stage,
    op: ComputeOp,
    ranges: dict[IterVar, Range],
    fresh: dict[IterVar, IterVar],
    scope: str,
) -> ComputeOp:
    """Return the body of the operation, at the data loops as dimensions."""
    at_loops: dict[IterVar, Expr] = {
        axis: const(0, axis.dtype) if is_const(ranges[axis].extent, 1) else new for axis, new in fresh.items()
    }
    values = pass_up_value(stage.relations, ranges, at_loops)
    conditions = range_conditions(stage.relations, ranges, values)
    indices = [values[axis] for axis in op.axis]
    moved = op.rewritten(lambda value: substitute_axes(value, op.axis, indices))
    name, axis = f"{op.name}.{scope or 'global'}", tuple(fresh.values())
    call = intrinsic_call(moved)
    if call is not None:
        dims = tuple(call.axis[dim] for dim in call.out_dims)
        if conditions or any(dim not in fresh for dim in dims):
            split = next((dim.name for dim in dims if dim not in fresh), "a loop")
            raise BadCacheWrite(
                f"cannot cache writes of {stage.name}",
                declared=op.source,
                called=user_source(),
                loops=outline(stage),
                reason=f"{split} was split, and the tensor intrinsic {call.intrinsic.name} gives whole parts of the cache",
                fix="call cache_write first, then split the loops of the cache, by factors that divide, or of the copy",
            )
        return replace(
            call,
            name=name,
            source=user_source(),
            axis=axis,
            tensor_axis=tuple(fresh[axis] for axis in call.tensor_axis),
            out_dims=tuple(axis.index(fresh[dim]) for dim in dims),
        )
    return ComputeOp(
        name=name,
        tag=op.tag,
        attrs=op.attrs,
        source=user_source(),
        axis=axis,
        body=tuple(guard_value(value, conditions) for value in moved.body),
    )


def _copy_op(
    stage: Stage,
    op: ComputeOp,
    ranges: dict[IterVar, Range],
    data: Sequence[IterVar],
    cache_op: ComputeOp,
) -> ComputeOp:
    """The operation as a copy of its cache."""
    values = pass_down_value(stage.relations, ranges, {axis: axis for axis in op.axis})
    indices = tuple(cast(values[axis], axis.dtype) for axis in data)
    body = tuple(ProducerLoad(tensor, indices) for tensor in cache_op.outputs)
    return ComputeOp(name=op.name, tag=op.tag, attrs=op.attrs, source=op.source, axis=op.axis, body=body)


def _move_loops(stage: Stage, op: ComputeOp, cache: Stage, fresh: dict[IterVar, IterVar]) -> None:
    """Give the cache the loops over reduce axes, with what was done to them, in the order of all loops."""
    reduce_axes = spread_down(stage.relations, dict.fromkeys(op.reduce_axis, True), lambda a, b: a or b)
    kept: list[Relation] = [
        relation for relation in stage.relations if relation.parents and relation.parents[0] in reduce_axes
    ]
    new_roots = cache.op.reduce_axis
    cache.relations = kept
    cache.all_iter_vars = [*cache.op.axis, *op.reduce_axis, *(child for each in kept for child in each.children)]
    cache.leaf_iter_vars = [fresh.get(axis, axis) for axis in stage.leaf_iter_vars]
    cache.iter_var_attrs = {axis: attr for axis, attr in stage.iter_var_attrs.items() if axis in reduce_axes}
    for axis in stage.leaf_iter_vars:
        if stage.attr(axis).kind == "tensorized":  # what computes goes along
            stage.schedule.keep(stage)
            cache.iter_var_attrs[fresh.get(axis, axis)] = stage.iter_var_attrs.pop(axis)
    renamed = {old: new for old, new in zip(op.reduce_axis, new_roots, strict=True) if old is not new}
    if renamed:
        cache.rename_axes(renamed)
        fresh.update(renamed)


def _become_copy(stage: Stage, cache: Stage, copy_op: Operation, fresh: dict[IterVar, IterVar]) -> None:
    """The original stage starts anew as the copy, over its own data axes."""
    schedule, kept = stage.schedule, list(copy_op.axis)
    moved = {axis: fresh.get(axis, axis) for axis in stage.leaf_iter_vars}
    move_attachments(stage, kept, cache, moved)
    gone = [axis for axis in stage.all_iter_vars if axis.kind != "reduce" and not any(axis is each for each in kept)]
    retire(
        schedule, gone, f"was a loop of {stage.name} until cache_write made it part of the layout of {cache.name}{{at}}"
    )
    schedule.rewrite({}, anew={stage: copy_op})
