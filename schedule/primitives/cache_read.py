"""cache_read: a copy of a tensor, in memory that is closer, for those that read it."""

# pyright: reportUnnecessaryIsInstance=false
from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...base.errors import user_source
from ...ir import Expr, IfThenElse, IterVar, Node, ProducerLoad, Reduce, Var, post_order, rewrite, substitute
from ...ir.ops import is_const
from ...ir.structural import structural_key
from ...te.factors import guarded_load
from ...te.operation import ComputeOp, Operation
from ...te.shape import declare_axes
from ...te.tensor import Tensor
from ..errors import BadCacheRead
from ..model.checks import check_scope, require_list
from ..model.foreign import SCOPE, TENSORS, require_one
from ..model.layout import add_root_axis
from ..model.methods import SchedulePrimitives
from ..model.primitive import Attempt, Drawer, Try, primitive
from ..model.schedule import Schedule
from ..model.stage import Stage
from .trials import find_readers

__all__ = ["cache_read"]


def _tries(stage: Stage) -> Iterator[Try]:
    readers = find_readers(stage)
    if readers:
        names = ", ".join(op.name for op in readers)
        yield f"for {names}", lambda one: one.schedule.cache_read(one.op.output(0), "local", readers)


def _draw(drawer: Drawer) -> Attempt | None:
    stage = drawer.some_stage(lambda stage: stage.op.input_tensors)
    if stage is None:
        return None
    tensor = drawer.pick(stage.op.input_tensors)
    everyone = drawer.s.sort_stages(other for other in list(drawer.s[tensor].readers) if _reads(other, tensor))
    readers = everyone if drawer.chance(0.5) else [stage]
    scope = drawer.pick(["local", "shared", "global"])
    ops = [reader.op for reader in readers]
    return f"cache_read({tensor.name}, {scope}, {readers})", lambda: drawer.s.cache_read(tensor, scope, ops)


@primitive(
    SchedulePrimitives,
    "stages",
    tries=_tries,
    draw=_draw,
    weight=5,
    foreign={"tensor": TENSORS, "scope": SCOPE, "readers": TENSORS, "reindex": require_one(True, False)},
)
def cache_read(
    schedule: Schedule,
    tensor: Tensor,
    scope: str,
    readers: Tensor | Operation | Stage | Sequence[Tensor | Operation | Stage] = (),
    reindex: bool = False,
) -> Tensor:
    """A copy of `tensor` in the memory `scope`, which `readers` read in its place.

        for i in 64:                       for i in 64:                   # cache_read(A, "local", [C])
            C[i] = A[i] * 2        →           A.local[i] = A[i]
                                           for i in 64:
                                               C[i] = A.local[i] * 2

        for i in 62:                       for i in 62:                   # cache_read(A, "local", [C], reindex=True)
          for k in 3:                        for k in 3:
            C[i] += A[i + k] * W[k]  →         A.local[i, k] = A[i + k]
                                           for i in 62:
                                             for k in 3:
                                               C[i] += A.local[i, k] * W[k]

    The copy is a stage of its own, of which what is needed is computed where it is placed.

    Parameters
    ----------
    tensor : Tensor
        The tensor to copy.
    scope : str
        "global", "shared", "local", "warp" or "" (the default of its place).
    readers : Tensor, Operation, Stage or sequence of these, default ()
        Who reads the copy; all that read the tensor where none is given.
    reindex : bool, default False
        Whether the copy has a dimension for each axis of the one reader that its indices depend on, in the order of its axes, and
        holds what is read at each: windows side by side. Where the tensor is read at several places, it holds what is read at the
        first. A guarded read (`te.if_then_else(0 < i, A[i - 1], 0.0)`) is copied with its guard; other lazy reads are not.

    Returns
    -------
    Tensor
        The copy, "A.local", of the tensor's dtype, and of its shape unless it is reindexed.

    Raises
    ------
    BadCacheRead (TW0219)
        Nothing reads the tensor, or a reader does not.
    UnknownScope (TW0216)
        There is no such memory.
    UnknownStage (TW0201)
        The schedule has no such tensor or reader.
    """
    if not isinstance(tensor, Tensor):
        raise BadCacheRead(
            f"cannot cache reads of {tensor!r}"[:200],
            called=user_source(),
            reason=f"expected a tensor, got {type(tensor).__name__}",
            fix="pass what te.compute returned",
        )
    check_scope(scope, f"cannot cache reads of {tensor.name} in {scope!r}")
    source = schedule[tensor]
    current = source.op.output(tensor.value_index)
    stages = _reader_stages(schedule, current, readers)
    read = _first_read(stages, current) if reindex else None
    with schedule.compound("cache_read", tensor=tensor, scope=scope, readers=tuple(stages), reindex=reindex):
        cache, at = (
            (_build_copy(current, scope), ()) if read is None else _copy_of_reads(stages[0], current, read, scope)
        )
        schedule.insert_stage(schedule.find_place(source) + 1, cache.op, source).scope = scope
        schedule.rewrite(
            {
                stage: stage.op.replace_inputs({current: cache})
                if read is None
                else _reading(stage.op, read, cache, at)
                for stage in stages
            }
        )
    return cache


def _build_copy(tensor: Tensor, scope: str) -> Tensor:
    axis = declare_axes(tensor.shape, "ax")
    name = f"{tensor.name}.{scope or 'global'}"
    return ComputeOp(name=name, source=user_source(), axis=axis, body=(ProducerLoad(tensor, axis),)).output(0)


def _copy_of_reads(stage: Stage, tensor: Tensor, read: Expr, scope: str) -> tuple[Tensor, tuple[IterVar, ...]]:
    """A tensor of what a stage reads of another at each of its axes, and those of them that it depends on."""
    used = set(post_order(read))
    at = tuple(axis for axis in (*stage.op.axis, *stage.op.reduce_axis) if axis in used)
    fresh: dict[Var, Expr] = {
        axis: add_root_axis(axis, axis.dom, axis.name, "data") for axis in at if axis.dom is not None
    }
    axis = tuple(each for each in fresh.values() if isinstance(each, IterVar))
    name = f"{tensor.name}.{scope or 'global'}"
    return ComputeOp(name=name, source=user_source(), axis=axis, body=(substitute(read, fresh),)).output(0), at


def _reading(op: Operation, read: Expr, cache: Tensor, at: tuple[IterVar, ...]) -> Operation:
    """The operation that reads the copy at its axes, where it read at the place of this load, or of its guard."""
    place, kind = structural_key(read), type(read)

    def rule(node: Node) -> Node | None:
        return ProducerLoad(cache, at) if isinstance(node, kind) and structural_key(node) == place else None

    def moved(value: Expr) -> Expr:
        return rewrite(value, rule)

    return op.rewritten(moved)


def _first_read(stages: list[Stage], tensor: Tensor) -> Expr:
    """The first read of a tensor by one stage, with its guard. Raises BadCacheRead where others read it, or where its loops do not
    say which elements are read."""
    op = stages[0].op
    nodes = [node for value in op.values for node in post_order(value)]
    loads = [node for node in nodes if isinstance(node, ProducerLoad) and node.producer is tensor]
    lazy = [
        node for node in nodes if isinstance(node, IfThenElse) and any(inner in loads[:1] for inner in post_order(node))
    ]
    read: Expr | None = lazy[0] if lazy else loads[0] if loads else None
    axes = {*op.axis, *op.reduce_axis}
    used = {node for node in post_order(read) if isinstance(node, IterVar)} if read is not None else set[IterVar]()
    reason = ""
    if len(stages) > 1:
        reason = f"{len(stages)} stages read it"
    elif not loads:
        reason = f"{stages[0].name} is loops of its own, which do not say what is read at each place"
    elif any(
        not axes.issuperset(used)
        or axis.dom is None
        or not is_const(axis.dom.begin, 0)
        or any(isinstance(node, IterVar) for node in post_order(axis.dom.extent))
        for axis in used
    ):
        reason = "it is read along axes that begin elsewhere than at 0, or whose extents depend on others"
    elif not all(guarded_load(node) is loads[0] for node in lazy) or any(
        isinstance(node, Reduce) and not is_const(node.condition, 1) for node in nodes
    ):
        reason = f"{stages[0].name} reads it only where a condition holds"
    elif any(isinstance(node, ProducerLoad) for index in loads[0].indices for node in post_order(index)):
        reason = "its indices are read from memory"
    if reason or read is None:
        raise BadCacheRead(
            f"cannot cache reads of {tensor.name} by the axes of {stages[0].name}",
            reason=reason,
            declared=tensor.source,
            called=user_source(),
            fix="leave out reindex=True",
        )
    return read


def _reader_stages(schedule: Schedule, tensor: Tensor, readers: Any) -> list[Stage]:
    """The stages of the readers, or of all, each once. Raises BadCacheRead where one does not read the tensor."""
    candidates = list(schedule[tensor].readers)  # now: to look at one may make it anew, and then it enters itself again
    given = require_list(readers) or schedule.sort_stages(stage for stage in candidates if _reads(stage, tensor))
    stages = [reader if isinstance(reader, Stage) else schedule[reader] for reader in given]
    wrong = next((stage for stage in stages if not _reads(stage, tensor)), None)
    if wrong is not None or not stages:
        actual = [stage.name for stage in schedule.sort_stages(candidates) if _reads(stage, tensor)]
        known = f"{tensor.name} is read by {', '.join(actual)}" if actual else f"no stage reads {tensor.name} now"
        reason = "nothing reads it" if wrong is None else f"stage {wrong.name} does not read {tensor.name}"
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
