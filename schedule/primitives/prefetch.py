"""prefetch: at each iteration of a loop, ask for what a later one will read of a tensor."""

# pyright: reportUnnecessaryIsInstance=false
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ...errors import user_source
from ...ir.expr import IntImm, IterVar
from ...te.tensor import Tensor
from ..errors import BadPrefetch
from ..model.attributes import Ahead
from ..model.axes import find_leaf, outline
from ..model.foreign import AXIS, FLAG, LARGEST, TENSORS, integer
from ..model.hybrid_loops import refuse_hybrid
from ..model.methods import StagePrimitives
from ..model.primitive import Attempt, Drawer, Try, primitive
from ..model.stage import Stage

__all__ = ["prefetch"]


def _tries(stage: Stage) -> Iterator[Try]:
    for tensor in stage.op.input_tensors:
        for axis in stage.leaf_iter_vars:
            yield f"{tensor.name}, {axis.name}", lambda one, axis=axis, tensor=tensor: one.prefetch(tensor, axis, 1)


def _draw(drawer: Drawer) -> Attempt | None:
    stage = drawer.some_stage(lambda stage: stage.op.input_tensors and drawer.plain(stage))
    if stage is None:
        return None
    tensor, axis, offset = drawer.pick(stage.op.input_tensors), drawer.pick(drawer.plain(stage)), drawer.pick([1, 2, 4, -3])
    return f"prefetch({tensor.name}, {axis.name}, {offset}) of {stage.name}", lambda: stage.prefetch(tensor, axis, offset)


@primitive(StagePrimitives, "storage", named=("offset", "around", "level"), tries=_tries, draw=_draw, weight=2,
           foreign={"tensor": TENSORS, "axis": AXIS, "offset": integer(-LARGEST, LARGEST), "around": FLAG, "level": integer(1, 2)})
def prefetch(stage: Stage, tensor: Tensor, axis: IterVar, offset: Any, around: bool = False, level: int = 1) -> None:
    """At each iteration of the loop `axis`, ask the cache for what the iteration `offset` further on reads of `tensor`.

        for i in 64:                       for i in 64:                   # prefetch(A, i, 1)
            for j in 32:                       for line in 2:
                C[i, j] = A[i, j]      →           if i + 1 < 64: prefetch(&A[i + 1, line * 16])
                                               for j in 32:
                                                   C[i, j] = A[i, j]

    A hint, which means nothing to what is computed, and which targets other than CPUs leave out. tensor: one that the stage
    reads. axis: a loop of the stage. offset: an integer, in iterations. around: what this iteration reads when the loop that
    the stage is computed at is `offset` iterations further on. level: 1 asks the first cache; 2 the second one, for streams
    from memory: where a row ends, for the one that follows it.

    Raises BadPrefetch (TW0251), AxisIsNoLoop (TW0205), NotAnAxisOfStage (TW0202), WrongArgument (TW0222), UnknownStage
    (TW0201), NotOfHybridStages (TW0282).
    """
    find_leaf(stage, axis, "cannot prefetch at")
    refuse_hybrid(stage, f"cannot prefetch at '{axis.name}' of", "which part of a tensor an iteration reads is up to its ifs",
                  "leave it to the processor, which sees the loads coming")
    headline = f"cannot prefetch at '{axis.name}' of stage {stage.name}"

    def bad(reason: str, fix: str) -> BadPrefetch:
        return BadPrefetch(headline, reason=reason, declared=stage.op.source, called=user_source(),
                           loops=outline(stage, [axis]), fix=fix)

    read = ", ".join(tensor.name for tensor in stage.op.input_tensors) or "nothing"
    if not isinstance(tensor, Tensor):
        raise bad(f"a tensor is asked for, {type(tensor).__name__} was given", f"prefetch what {stage.name} reads: {read}")
    source = stage.schedule[tensor]
    if not any(read is source.op.output(tensor.value_index) for read in stage.op.input_tensors):
        raise bad(f"{stage.name} does not read {tensor.name}", f"prefetch what it reads: {read}")
    distance = offset.value if isinstance(offset, IntImm) else offset
    if isinstance(distance, bool) or not isinstance(distance, int):
        raise bad(f"the offset is {offset!r}, no integer"[:200], f"s[{stage.name}].prefetch({tensor.name}, {axis.name}, 1): "
                  "how many iterations ahead")
    if isinstance(level, bool) or level not in (1, 2):
        raise bad(f"the level is {level!r}, neither 1 nor 2"[:200], f"s[{stage.name}].prefetch({tensor.name}, {axis.name}, "
                  f"{distance}, level=2): which cache it is fetched into")
    more = {**({"around": True} if around else {}), **({"level": 2} if level == 2 else {})}
    stage.schedule.record("prefetch", stage, tensor=tensor, axis=axis, offset=distance, **more)
    attr = stage.attr(axis)
    stage.iter_var_attrs[axis] = replace(attr, prefetches=(*attr.prefetches, Ahead(tensor, distance, bool(around), level)))
