"""cache_read and cache_write: copies of tensors, in memory that is closer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...errors import user_source
from ...ir.expr import Expr, IterVar, ProducerLoad, Range
from ...ir.ops import cast, const, is_const
from ...te.operation import ComputeOp, Operation
from ...te.rewrite import substitute_axes
from ...te.shape import zero_based
from ...te.tensor import Tensor
from ...te.tensor_compute import TensorComputeOp
from ..errors import BadCacheRead, BadCacheWrite
from ..model.axes import declared_ranges, mixes_data_and_reduce, outline, refuse_lost_annotation
from ..model.hybrid_loops import refuse_hybrid
from ..model.layout import as_axis, check_outputs, guarded, inexact_splits, move_attachments, refuse_dangling_predicate, retire
from ..model.redirect import Redirection, rename_axes
from ..model.relations import Relation, pass_down_value, pass_up_value, spread_down
from .storage import check_scope

if TYPE_CHECKING:
    from ..model.schedule import Schedule
    from ..model.stage import Stage

__all__ = ["cache_read", "cache_write"]


def cache_read(schedule: Schedule, given: Tensor, scope: str, readers: Any) -> Tensor:
    """See Schedule.cache_read."""
    if not isinstance(given, Tensor):
        raise BadCacheRead(
            f"cannot cache reads of {given!r}"[:200],
            called=user_source(),
            reason=f"a tensor is asked for, {type(given).__name__} was given",
            fix="pass what te.compute returned",
        )
    check_scope(scope, f"cannot cache reads of {given.name} in {scope!r}")
    source = schedule[given]
    tensor = source.op.output(given.value_index)
    stages = _reader_stages(schedule, tensor, readers)
    with schedule.compound("cache_read", tensor=given, scope=scope, readers=tuple(stages)):
        cache = _copy_of(tensor, scope)
        redirection = Redirection(schedule)
        place = schedule.place_of(source)
        for stage in schedule.stages[place + 1 :]:
            redirection.follow(stage)
            if any(stage is reader for reader in stages):
                redirection.change(stage, stage.op.replace_inputs({tensor: cache}))
        schedule.insert_stage(place + 1, cache.op, source).scope = scope
    return cache


def _copy_of(tensor: Tensor, scope: str) -> Tensor:
    axis = tuple(
        IterVar(f"ax{at}", (dom := zero_based(extent)).begin.dtype, dom) for at, extent in enumerate(tensor.shape)
    )
    name = f"{tensor.name}.{scope or 'global'}"
    return ComputeOp(name=name, source=user_source(), axis=axis, body=(ProducerLoad(tensor, axis),)).output(0)


def _reader_stages(schedule: Schedule, tensor: Tensor, readers: Any) -> list[Stage]:
    """The stages of the readers, each once. Raises BadCacheRead where one does not read the tensor."""
    from ..model.stage import Stage

    given = list(readers) if isinstance(readers, (list, tuple)) else [readers]
    stages = [one if isinstance(one, Stage) else schedule[one] for one in given]
    actual = [stage.name for stage in schedule.stages if any(one is tensor for one in stage.op.input_tensors)]
    known = f"{tensor.name} is read by {', '.join(actual)}" if actual else f"no stage reads {tensor.name} now"
    wrong = next((one for one in stages if not any(input_ is tensor for input_ in one.op.input_tensors)), None)
    if wrong is not None or not stages:
        reason = "no readers were given" if wrong is None else f"stage {wrong.name} does not read {tensor.name}"
        if wrong is not None and wrong.origin_op is not wrong.op:
            reason += " any more: " + ", ".join(one.name for one in wrong.op.input_tensors) + " is what it reads"
        raise BadCacheRead(
            f"cannot cache reads of {tensor.name}",
            reason=reason,
            declared=tensor.source,
            called=user_source(),
            allowed=known,
            fix=f's.cache_read({tensor.name}, "local", [{actual[0]}])' if actual else "",
        )
    return list(dict.fromkeys(stages))


def cache_write(schedule: Schedule, given: Tensor | Sequence[Tensor], scope: str) -> Tensor | list[Tensor]:
    """See Schedule.cache_write."""
    stage, tensors = check_outputs(schedule, given, BadCacheWrite, "cannot cache writes of")
    check_scope(scope, f"cannot cache writes of {stage.name} in {scope!r}")
    op = _check_cacheable(stage, tensors)
    ranges = declared_ranges(stage)
    data = [axis for axis in stage.leaf_iter_vars if axis.kind != "reduce"]
    fresh = {axis: as_axis(axis, ranges[axis], f"{axis.name}.c", "data") for axis in data}
    with schedule.compound("cache_write", tensor=given, scope=scope):
        cache_op = _cache_op(stage, op, ranges, fresh, scope)
        copy_op = _copy_op(stage, op, ranges, data, cache_op)
        cache = schedule.insert_stage(schedule.place_of(stage), cache_op, stage)
        cache.scope = scope
        _take_over(stage, op, cache, fresh)
        _become_copy(stage, cache, copy_op, fresh)
    made = [cache_op.output(tensor.value_index) for tensor in tensors]
    return made[0] if isinstance(given, Tensor) else made


def _check_cacheable(stage: Stage, tensors: Sequence[Tensor]) -> ComputeOp:
    op, name = stage.op, stage.name
    refuse_hybrid(stage, "cannot cache writes of", "it writes where, and when, its statements say",
                  f's.cache_read({name}, "local", readers), or allocate(shape, dtype, "local") in the script')

    def bad(reason: str, fix: str) -> BadCacheWrite:
        return BadCacheWrite(f"cannot cache writes of {name}", reason=reason, declared=op.source, called=user_source(),
                             loops=outline(stage), fix=fix)

    if not isinstance(op, ComputeOp):
        raise bad(f"{name} is a {op.kind}: nothing writes it", f's.cache_read({name}, "local", readers)')
    if sorted(tensor.value_index for tensor in tensors) != list(range(op.num_outputs)):
        names = ", ".join(tensor.name for tensor in op.outputs)
        raise bad(f"its operation has {op.num_outputs} outputs, which are written together",
                  f"pass each of them once: s.cache_write([{names}], scope)")
    mixed = next((axis for axis in stage.leaf_iter_vars if mixes_data_and_reduce(stage, axis)), None)
    if mixed is not None:
        raise bad(f"{mixed.name} runs over data and reduce axes at once, and the loops define the cache's layout",
                  "call cache_write before that fuse")
    for axis in stage.leaf_iter_vars:
        if axis.kind != "reduce" and not any(axis is root for root in op.axis):
            refuse_lost_annotation(stage, axis, f"cannot cache writes of {name}: the loop",
                                   "call cache_write first, then annotate the loops of the cache or of the copy")
    refuse_dangling_predicate(stage, op.axis, BadCacheWrite, "cannot cache writes of")
    return op


def _cache_op(
    stage: Stage, op: ComputeOp, ranges: dict[IterVar, Range], fresh: dict[IterVar, IterVar], scope: str,
) -> ComputeOp:
    """What the operation computes, at the data loops as dimensions."""
    at_loops: dict[IterVar, Expr] = {
        axis: const(0, axis.dtype) if is_const(ranges[axis].extent, 1) else new for axis, new in fresh.items()}
    values = pass_up_value(stage.relations, ranges, at_loops)
    conditions = inexact_splits(stage.relations, ranges, values)
    indices = [values[axis] for axis in op.axis]
    moved = op.rewritten(lambda value: substitute_axes(value, op.axis, indices))
    name, axis = f"{op.name}.{scope or 'global'}", tuple(fresh.values())
    if isinstance(op, TensorComputeOp) and isinstance(moved, TensorComputeOp):
        dims = tuple(moved.axis[dim] for dim in moved.out_dims)
        if conditions or any(dim not in fresh for dim in dims):
            split = next((dim.name for dim in dims if dim not in fresh), "a loop")
            raise BadCacheWrite(
                f"cannot cache writes of {stage.name}", declared=op.source, called=user_source(), loops=outline(stage),
                reason=f"{split} was split, and the tensor intrinsic {moved.intrinsic.name} gives whole parts of the cache",
                fix="call cache_write first, then split the loops of the cache, by factors that divide, or of the copy")
        return replace(moved, name=name, source=user_source(), axis=axis, tensor_axis=tuple(fresh[one] for one in op.tensor_axis),
                       out_dims=tuple(axis.index(fresh[dim]) for dim in dims))
    return ComputeOp(
        name=name, tag=op.tag, attrs=op.attrs, source=user_source(), axis=axis,
        body=tuple(guarded(value, conditions) for value in moved.body),
    )


def _copy_op(
    stage: Stage, op: ComputeOp, ranges: dict[IterVar, Range], data: Sequence[IterVar], cache_op: ComputeOp,
) -> ComputeOp:
    """The operation as a copy of its cache."""
    values = pass_down_value(stage.relations, ranges, {axis: axis for axis in op.axis})
    indices = tuple(cast(values[axis], axis.dtype) for axis in data)
    body = tuple(ProducerLoad(tensor, indices) for tensor in cache_op.outputs)
    return ComputeOp(name=op.name, tag=op.tag, attrs=op.attrs, source=op.source, axis=op.axis, body=body)


def _take_over(stage: Stage, op: ComputeOp, cache: Stage, fresh: dict[IterVar, IterVar]) -> None:
    """Give the cache the loops over reduce axes, with what was done to them, in the order of all loops."""
    reduce_axes = spread_down(stage.relations, dict.fromkeys(op.reduce_axis, True), lambda a, b: a or b)
    kept: list[Relation] = [one for one in stage.relations if one.parents and one.parents[0] in reduce_axes]
    new_roots = cache.op.reduce_axis
    cache.relations = kept
    cache.all_iter_vars = [*cache.op.axis, *op.reduce_axis, *(child for one in kept for child in one.children)]
    cache.leaf_iter_vars = [fresh.get(axis, axis) for axis in stage.leaf_iter_vars]
    cache.iter_attrs = {axis: attr for axis, attr in stage.iter_attrs.items() if axis in reduce_axes}
    for axis in stage.leaf_iter_vars:
        if stage.attr(axis).kind == "tensorized":  # what computes goes along
            cache.iter_attrs[fresh.get(axis, axis)] = stage.iter_attrs.pop(axis)
    renamed = {old: new for old, new in zip(op.reduce_axis, new_roots, strict=True) if old is not new}
    if renamed:
        rename_axes(cache, renamed)
        fresh.update(renamed)


def _become_copy(stage: Stage, cache: Stage, copy_op: Operation, fresh: dict[IterVar, IterVar]) -> None:
    """The original stage starts anew as the copy, over its own data axes."""
    schedule, kept = stage.schedule, list(copy_op.axis)
    moved = {axis: fresh.get(axis, axis) for axis in stage.leaf_iter_vars}
    move_attachments(stage, kept, cache, moved)
    gone = [axis for axis in stage.all_iter_vars if axis.kind != "reduce" and not any(axis is one for one in kept)]
    retire(
        schedule, gone, f"was a loop of {stage.name} until cache_write made it part of the layout of {cache.name}{{at}}"
    )
    redirection = Redirection(schedule)
    redirection.replace_whole(stage, copy_op)
    redirection.follow_all(schedule.place_of(stage) + 1)
