"""clone_in: a tensor that some of its readers compute for themselves.

    for i:  B[i] = f(A[i])                        for i:  C[i] = f(A[i]) + 1          # B.clone, computed at C
    for i:  C[i] = B[i] + 1              →        for i:  B[i] = f(A[i])
    for i:  D[i] = B[i] * 2                       for i:  D[i] = B[i] * 2

A stage stands in one place, below all that reads it. Readers in loop nests of their own can each have it there only if there
are two of it (Halide has Func.clone_in for that).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, overload

from ...base.errors import user_source
from ...ir import Expr, IterVar, Range, Reduce, Var, substitute
from ...te.operation import ComputeOp, Operation
from ...te.tensor import Tensor
from ..errors import BadClone
from ..model.checks import require_list
from ..model.foreign import TENSORS
from ..model.layout import add_root_axis, check_outputs
from ..model.methods import SchedulePrimitives
from ..model.primitive import Attempt, Drawer, Try, primitive
from ..model.schedule import Schedule
from ..model.stage import Stage
from .trials import find_readers

__all__ = ["clone_in"]


def _tries(stage: Stage) -> Iterator[Try]:
    readers = find_readers(stage)
    if readers:
        yield f"for {readers[-1].name}", lambda one: one.schedule.clone_in(list(one.op.outputs), readers[-1:])


def _draw(drawer: Drawer) -> Attempt | None:
    stage = drawer.some_stage(lambda stage: stage.op.values and len(drawer.readers(stage)) + stage.is_output > 1)
    if stage is None:
        return None
    readers = drawer.readers(stage)
    chosen = drawer.some(readers, 1 + drawer.below(len(readers)))
    outputs = list(stage.op.outputs)
    return (
        f"clone_in({stage.name}, {chosen})",
        lambda: drawer.s.clone_in(outputs[0] if len(outputs) == 1 else outputs, chosen),
    )


@overload
def clone_in(
    schedule: Schedule, tensor: Tensor, readers: Tensor | Operation | Stage | Sequence[Tensor | Operation | Stage]
) -> Tensor: ...
@overload
def clone_in(
    schedule: Schedule,
    tensor: Sequence[Tensor],
    readers: Tensor | Operation | Stage | Sequence[Tensor | Operation | Stage],
) -> list[Tensor]: ...
@primitive(
    SchedulePrimitives,
    "stages",
    tries=_tries,
    draw=_draw,
    weight=1.5,
    rare=True,
    foreign={"tensor": TENSORS, "readers": TENSORS},
)
def clone_in(
    schedule: Schedule,
    tensor: Tensor | Sequence[Tensor],
    readers: Tensor | Operation | Stage | Sequence[Tensor | Operation | Stage],
) -> Any:
    """A second stage, "B.clone", that computes `tensor` again; `readers` read it in its place.

        for i:  B[i] = f(A[i])                        for i:  B[i] = f(A[i])          # clone_in(B, [C])
        for i:  C[i] = B[i] + 1              →        for i:  B.clone[i] = f(A[i])
        for i:  D[i] = B[i] * 2                       for i:  C[i] = B.clone[i] + 1
                                                      for i:  D[i] = B[i] * 2

    tensor: or a list of all outputs of one operation; somebody else reads it, or it is an output. readers: a tensor,
    operation or stage that reads it, or a list of these. The clone has its loops as they are declared, and its own place:
    readers far apart can each have theirs near. Returns the clone, of the same shape and dtype (a list for a list).

    Raises BadClone (TW0254), UnknownStage (TW0201).
    """
    stage, tensors = check_outputs(schedule, tensor, BadClone, "cannot clone")
    op = stage.op.as_compute
    if op is None or op.calls_intrinsic:
        what = "is computed by a tensor intrinsic" if stage.op.calls_intrinsic else f"is a {stage.op.kind}"
        raise BadClone(
            f"cannot clone {stage.name}",
            declared=stage.op.source,
            called=user_source(),
            reason=f"{stage.name} {what}, and what te.compute declares is cloned",
            fix=f's.cache_read({stage.name}, "local", readers)',
        )
    chosen = _reader_stages(schedule, stage, readers)
    with schedule.compound("clone_in", tensor=tensor, readers=tuple(chosen)):
        clone = _rebuild(op)
        schedule.insert_stage(schedule.find_place(stage) + 1, clone, stage).scope = stage.scope
        pairs = dict(zip(op.outputs, clone.outputs, strict=True))
        schedule.rewrite({reader: reader.op.replace_inputs(pairs) for reader in chosen})
    clones = [clone.output(tensor.value_index) for tensor in tensors]
    return clones[0] if isinstance(tensor, Tensor) else clones


def _rebuild(op: ComputeOp) -> ComputeOp:
    """The same over axes of its own, which it has to itself wherever it is put."""
    renamed: dict[Var, Expr] = {}

    def fresh(axis: IterVar) -> IterVar:
        assert axis.dom is not None
        dom = Range(substitute(axis.dom.begin, renamed), substitute(axis.dom.extent, renamed))
        renamed[axis] = renewed = add_root_axis(axis, dom, axis.name, axis.kind)
        return renewed

    axes = tuple(map(fresh, op.axis))
    first = op.body[0]
    if isinstance(first, Reduce):
        reduced = tuple(map(fresh, first.axes))
        again = replace(substitute(first, renamed), axes=reduced)
        body: tuple[Expr, ...] = tuple(replace(again, value_index=at) for at in range(len(op.body)))
    else:
        body = tuple(substitute(value, renamed) for value in op.body)
    return ComputeOp(
        name=f"{op.name}.clone",
        tag=op.tag,
        algorithm=op.algorithm,
        attrs=op.attrs,
        source=user_source(),
        axis=axes,
        body=body,
    )


def _reader_stages(schedule: Schedule, stage: Stage, readers: Any) -> list[Stage]:
    """The stages of the readers, each once. Raises BadClone where one does not read the stage, or nobody else is left."""
    given = require_list(readers)
    chosen = list(dict.fromkeys(reader if isinstance(reader, Stage) else schedule[reader] for reader in given))
    actual = schedule.sort_stages(stage.readers)
    wrong = next((reader for reader in chosen if reader not in actual), None)
    alone = not stage.is_output and set(actual) <= set(chosen)
    if chosen and wrong is None and not alone:
        return chosen
    if wrong is not None:
        reason = f"stage {wrong.name} does not read {stage.name}"
    else:
        reason = (
            "no readers were given"
            if not chosen
            else f"nobody else reads {stage.name}: the clone would be all there is"
        )
    names = [reader.name for reader in actual]
    raise BadClone(
        f"cannot clone {stage.name}",
        reason=reason,
        declared=stage.op.source,
        called=user_source(),
        allowed=f"{stage.name} is read by {', '.join(names)}" if names else f"no stage reads {stage.name}",
        fix=f"s.clone_in({stage.name}, [{names[0]}])"
        if len(names) > 1 or names and stage.is_output
        else "leave it as it is",
    )
