"""cache_read: a copy of a tensor, in memory that is closer, for those that read it."""

# pyright: reportUnnecessaryIsInstance=false
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...errors import user_source
from ...ir.expr import ProducerLoad
from ...te.operation import ComputeOp
from ...te.shape import axes_over
from ...te.tensor import Tensor
from ..errors import BadCacheRead
from ..model.checks import as_list, check_scope
from ..model.foreign import SCOPE, TENSORS
from ..model.methods import SchedulePrimitives
from ..model.primitive import Attempt, Drawer, Try, primitive
from ..model.schedule import Schedule
from ..model.stage import Stage
from .trials import readers_of

__all__ = ["cache_read"]


def _tries(stage: Stage) -> Iterator[Try]:
    readers = readers_of(stage)
    if readers:
        names = ", ".join(op.name for op in readers)
        yield f"for {names}", lambda one: one.schedule.cache_read(one.op.output(0), "local", readers)


def _draw(drawer: Drawer) -> Attempt | None:
    stage = drawer.some_stage(lambda stage: stage.op.input_tensors)
    if stage is None:
        return None
    tensor = drawer.pick(stage.op.input_tensors)
    everyone = drawer.s.in_order(other for other in drawer.s[tensor].readers if _reads(other, tensor))
    readers = everyone if drawer.chance(0.5) else [stage]
    scope = drawer.pick(["local", "shared", "global"])
    ops = [reader.op for reader in readers]
    return f"cache_read({tensor.name}, {scope}, {readers})", lambda: drawer.s.cache_read(tensor, scope, ops)


@primitive(SchedulePrimitives, "stages", tries=_tries, draw=_draw, weight=5,
           foreign={"tensor": TENSORS, "scope": SCOPE, "readers": TENSORS})
def cache_read(schedule: Schedule, tensor: Tensor, scope: str, readers: Any) -> Tensor:
    """A copy of `tensor` in the memory `scope`, which `readers` read in its place.

        for i in 64:                       for i in 64:                   # cache_read(A, "local", [C])
            C[i] = A[i] * 2        →           A.local[i] = A[i]
                                           for i in 64:
                                               C[i] = A.local[i] * 2

    scope: "global", "shared", "local", "warp" or "" (the default of its place). readers: a tensor, operation or stage that
    reads the tensor, or a list of these. Returns the copy, "A.local", of the tensor's shape and dtype: a stage of its own,
    of which what is needed is computed where it is placed.

    Raises BadCacheRead (TW0219), UnknownScope (TW0216), UnknownStage (TW0201).
    """
    if not isinstance(tensor, Tensor):
        raise BadCacheRead(
            f"cannot cache reads of {tensor!r}"[:200],
            called=user_source(),
            reason=f"a tensor is asked for, {type(tensor).__name__} was given",
            fix="pass what te.compute returned",
        )
    check_scope(scope, f"cannot cache reads of {tensor.name} in {scope!r}")
    source = schedule[tensor]
    current = source.op.output(tensor.value_index)
    stages = _reader_stages(schedule, current, readers)
    with schedule.compound("cache_read", tensor=tensor, scope=scope, readers=tuple(stages)):
        cache = _copy_of(current, scope)
        schedule.insert_stage(schedule.place_of(source) + 1, cache.op, source).scope = scope
        schedule.rewrite({stage: stage.op.replace_inputs({current: cache}) for stage in stages})
    return cache


def _copy_of(tensor: Tensor, scope: str) -> Tensor:
    axis = axes_over(tensor.shape, "ax")
    name = f"{tensor.name}.{scope or 'global'}"
    return ComputeOp(name=name, source=user_source(), axis=axis, body=(ProducerLoad(tensor, axis),)).output(0)


def _reader_stages(schedule: Schedule, tensor: Tensor, readers: Any) -> list[Stage]:
    """The stages of the readers, each once. Raises BadCacheRead where one does not read the tensor."""
    given = as_list(readers)
    stages = [reader if isinstance(reader, Stage) else schedule[reader] for reader in given]
    wrong = next((stage for stage in stages if not _reads(stage, tensor)), None)
    if wrong is not None or not stages:
        actual = [stage.name for stage in schedule.in_order(schedule[tensor].readers) if _reads(stage, tensor)]
        known = f"{tensor.name} is read by {', '.join(actual)}" if actual else f"no stage reads {tensor.name} now"
        reason = "no readers were given" if wrong is None else f"stage {wrong.name} does not read {tensor.name}"
        if wrong is not None and wrong.origin_op is not wrong.op:
            reason += " any more: " + ", ".join(tensor.name for tensor in wrong.op.input_tensors) + " is what it reads"
        raise BadCacheRead(
            f"cannot cache reads of {tensor.name}",
            reason=reason,
            declared=tensor.source,
            called=user_source(),
            allowed=known,
            fix=f's.cache_read({tensor.name}, "local", [{actual[0]}])' if actual else "",
        )
    return list(dict.fromkeys(stages))


def _reads(stage: Stage, tensor: Tensor) -> bool:
    return any(read is tensor for read in stage.op.input_tensors)
