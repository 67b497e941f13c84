"""prefetch: at each iteration of a loop, ask for what a later one will read of a tensor.

    for i in 64:                         for i in 64:
        for j in 32:                         for line in 2:
            C[i, j] = A[i, j]      →             if i + 1 < 64: prefetch(&A[i + 1, line * 16])
                                             for j in 32:
                                                 C[i, j] = A[i, j]

Of a stage that is computed at a loop, `around` asks for what the same iteration reads in a later one of that loop: a row of
which each step asks for its part of the next row.

With `share`, a stage of many steps asks for what a whole iteration of a loop further out will read, each step for its share, so
that memory is busy all the time and not only where something is read first:

    for panel in 8:                             for panel in 8:
        for rows in 10:                             for rows in 10:
            for k in 64:                                for k in 64:
                C[...] += A[...] * B[panel, k]   →          prefetch(&B[panel + 1] + 64 * ((rows * 64 + k) // 10))   # bytes
                                                            C[...] += A[...] * B[panel, k]

Into the second cache (level 2) it asks as streams do, for what follows in memory: past the end of a row that is the next one.

One prefetch for each cache line of a row. A hint: targets without prefetches leave it out, and what it asks for lies
within the tensor.
"""

# pyright: reportUnnecessaryIsInstance=false
from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from ...base import dataclass, replace, user_source
from ...ir import Call, Evaluate, Expr, For, If, IntImm, IterVar, LoopKind, Range, Seq, Stmt, Var, substitute
from ...ir.analysis.regions import Span, union
from ...ir.arith.analyzer import Analyzer
from ...ir.dtype import INT32
from ...ir.ops import cast, conjunction, const, floordiv, floormod, index_ceildiv, integer_value, maximum, minimum
from ...ir.passes.gpu.remove_prefetches import PREFETCH
from ...ir.pointers import READS, pointer
from ...te.tensor import Tensor
from ..errors import BadPrefetch
from ..lowering.computation import Loop
from ..lowering.errors import PrefetchUnread
from ..lowering.extension import Extension
from ..lowering.nest import Nest
from ..lowering.spans import find_read_spans, find_span, relax_span
from ..model.attributes import LoopNote
from ..model.checks import find_leaf, outline, refusal
from ..model.foreign import AXIS, FLAG, LARGEST, TENSORS, integer
from ..model.hybrid_loops import refuse_hybrid
from ..model.methods import StagePrimitives
from ..model.primitive import Attempt, Drawer, Try, primitive
from ..model.stage import Stage

__all__ = ["prefetch"]

_LINE_BYTES = 64
"""A cache line of the processors that code is made for."""


@dataclass(frozen=True)
class _Ahead(LoopNote):
    """Elements of a tensor that iteration `offset` further on reads; around: of the loop that the stage is computed at. level: of the
    cache that it goes into. share: of the loop that many loops out, 1 being that at which the stage is computed, what all of its
    iteration reads, of which each step asks for a part; 0: none of that."""

    tensor: Tensor
    offset: int
    around: bool = False
    level: int = 1
    share: int = 0

    def __str__(self) -> str:
        return f"prefetches {self.tensor.name}"


class _Prefetches(Extension):
    """The statements that prefetch at a loop. Raises PrefetchUnread (TW0353)."""

    def begin(self, nest: Nest, loop: Loop) -> Sequence[Stmt]:
        return [_prefetch(nest, loop, note) for note in loop.attr.notes if isinstance(note, _Ahead)]


def _prefetch(nest: Nest, loop: Loop, wanted: _Ahead) -> Stmt:
    stage, analyzer, given = nest.computation.stage, nest.analyzer, wanted.tensor
    tensor = stage.schedule[given].op.output(given.value_index)
    spans = find_read_spans(nest.stage_bounds, loop, nest.computation.reads.get(tensor, ()), analyzer)
    if not spans:
        raise PrefetchUnread(
            f"cannot prefetch {given.name} at '{loop.axis.name}' of stage {stage.name}",
            declared=stage.op.source,
            called=user_source(),
            reason=f"{stage.name} does not read {tensor.name} now: it is inlined, or a copy is read",
            loops=outline(stage, [loop.axis]),
            fix="prefetch what the stage reads, when all caches are made",
        )
    if wanted.share:
        return _share(nest, loop, wanted, tensor)
    counted = _count_loops(nest, loop, given)[-1] if wanted.around else loop
    if _lives_in_iteration(nest, counted, tensor):
        raise PrefetchUnread(
            f"cannot prefetch {given.name} at '{loop.axis.name}' of stage {stage.name}",
            declared=stage.op.source,
            called=user_source(),
            reason=f"{tensor.name} is computed within an iteration of '{counted.axis.name}': what a later "
            "one reads of it is nowhere yet",
            loops=outline(stage, [loop.axis]),
            fix=f"prefetch at a loop inside, or what {tensor.name} is computed from",
        )
    if counted.var is None:  # a single iteration: nothing is ahead
        return Seq(())
    ahead: dict[Var, Expr] = {counted.var: counted.var + wanted.offset}
    buffer, origin = nest.storage.buffers[tensor], nest.storage.origins.get(tensor)
    parts = [
        (Span.of(const(0, whole.dtype), whole) if span is None else span, whole)
        for span, whole in zip(spans, buffer.shape, strict=True)
    ]
    loops: list[tuple[Var, Expr]] = []
    indices: list[Expr] = []
    conditions: list[Expr] = []
    steps = _steps([within for within, _ in parts], buffer.shape, tensor.dtype.bytes, nest)
    for at, (within, whole) in enumerate(parts):
        low = substitute(within.low, ahead)
        extent = _extent(within, whole, nest)
        count = analyzer.simplify(index_ceildiv(extent, steps[at]))
        var = Var(f"line{at}" if steps[at] > 1 else f"ahead{at}", whole.dtype)
        index = cast(low, whole.dtype)
        if not (isinstance(count, IntImm) and count.value == 1):
            loops.append((var, count))
            analyzer.bind(var, Range(const(0, var.dtype), count))
            index = index + var * steps[at]
        if origin is not None:
            index = index - cast(origin[at], whole.dtype)
        indices.append(analyzer.simplify(nest.value(index, {})))
    if wanted.level > 1:
        indices = _carry_indices(indices, buffer.shape, analyzer)
    for index, whole in zip(indices, buffer.shape, strict=True):
        conditions += [condition for condition in (index >= 0, index < whole) if not analyzer.can_prove(condition)]
    operands = (pointer(buffer, indices, const(0), READS), *((const(wanted.level),) if wanted.level > 1 else ()))
    body: Stmt = Evaluate(Call(PREFETCH, operands, INT32))
    if conditions:
        body = If(analyzer.simplify(conjunction(*conditions)), body)
    return _nest_loops(loops, body)


def _carry_indices(indices: Sequence[Expr], shape: Sequence[Expr], analyzer: Analyzer) -> list[Expr]:
    """The indices of the same place in memory where one that is past the end of its dimension counts on in the one before."""
    carried = list(indices)
    for at in range(len(carried) - 1, 0, -1):
        if isinstance(shape[at], IntImm) and not analyzer.can_prove(carried[at] < shape[at]):
            carry = floordiv(carried[at], shape[at])
            carried[at - 1] = analyzer.simplify(carried[at - 1] + cast(carry, carried[at - 1].dtype))
            carried[at] = analyzer.simplify(floormod(carried[at], shape[at]))
    return carried


def _steps(spans: Sequence[Span], shape: Sequence[Expr], size: int, nest: Nest) -> list[int]:
    """Return the distance, in each dimension, of the elements to prefetch: a line in the last one, and where that is shorter
    and wholly read, so that its rows fill a line together, in the one before it."""
    steps = [1] * len(shape)
    line = max(_LINE_BYTES // size, 1)
    for at in reversed(range(len(shape))):
        steps[at], whole = line, shape[at]
        if not (
            isinstance(whole, IntImm)
            and 0 < whole.value <= line
            and line % whole.value == 0
            and nest.analyzer.can_prove_equal(_extent(spans[at], whole, nest), whole)
        ):
            break
        line //= whole.value
    return steps


def _share(nest: Nest, loop: Loop, wanted: _Ahead, tensor: Tensor) -> Stmt:
    """The line that is a step's share of what a later iteration of a loop around reads: steps are counted through the loops
    between. Nothing where what is read does not lie together, or how much it is the call decides; the last iterations, behind
    which there is nothing, ask for their own again."""
    analyzer, own = nest.analyzer, nest.stage_bounds
    outer = _count_loops(nest, loop, wanted.tensor)
    within = (*outer[len(outer) - wanted.share + 1 :], *own.loops[: own.loops.index(loop) + 1])
    counted = outer[max(len(outer) - wanted.share, 0)]
    buffer, origin = nest.storage.buffers[tensor], nest.storage.origins.get(tensor)
    if (
        wanted.share > len(outer)
        or counted.var is None
        or origin is not None
        or _lives_in_iteration(nest, counted, tensor)
    ):
        return Seq(())
    step, steps = _number(within)
    spans: list[Span | None] = []
    for indices in zip(*nest.computation.reads[tensor], strict=True):
        parts = [span for index in indices if (span := find_span(own, index, analyzer)) is not None]
        whole = relax_span(union(parts, analyzer), outer[len(outer) - wanted.share + 1 :], analyzer)
        spans.append(whole if len(parts) == len(indices) else None)
    begin, elements = _find_box(spans, buffer.shape, nest)
    lines = -(-elements * tensor.dtype.bytes // _LINE_BYTES)
    if not lines or not steps:
        return Seq(())
    ahead: dict[Var, Expr] = {counted.var: counted.var + wanted.offset}
    places = [
        analyzer.simplify(
            nest.value(maximum(minimum(substitute(low, ahead), whole - width), const(0, whole.dtype)), {})
        )
        for (low, width), whole in zip(begin, buffer.shape, strict=True)
    ]
    each = -(-lines // steps)
    var = Var("line", step.dtype)
    first = floordiv(step, steps // lines) if each == 1 else step * each
    number = minimum(first + var if each > 1 else first, const(lines - 1, step.dtype)) * (
        _LINE_BYTES // tensor.dtype.bytes
    )
    operands = (
        pointer(buffer, places, analyzer.simplify(number), READS),
        *((const(wanted.level),) if wanted.level > 1 else ()),
    )
    return _nest_loops([(var, const(each, step.dtype))] if each > 1 else [], Evaluate(Call(PREFETCH, operands, INT32)))


def _number(loops: Sequence[Loop]) -> tuple[Expr, int]:
    """The number of an iteration of these loops, and how many there are; 0 where the call decides."""
    number, count = const(0, "int32"), 1
    for loop in loops:
        if not isinstance(loop.extent, IntImm):
            return number, 0
        count *= loop.extent.value
        number = number * loop.extent.value + (cast(loop.var, "int32") if loop.var is not None else 0)
    return number, count if count < 1 << 31 else 0


def _find_box(spans: Sequence[Span | None], shape: Sequence[Expr], nest: Nest) -> tuple[list[tuple[Expr, int]], int]:
    """Return the begin and the length of a box in each dimension, and its elements, which lie one behind the other in memory; 0 where
    they do not."""
    begin: list[tuple[Expr, int]] = []
    elements, whole = 1, True
    for span, extent in reversed(list(zip(spans, shape, strict=True))):
        width = nest.analyzer.simplify(span.high - span.low + 1) if span is not None else extent
        size = integer_value(width, None if span is None else span.width)
        if size is None or not isinstance(extent, IntImm) or (not whole and size > 1):
            return begin, 0
        size = min(size, extent.value)
        begin.insert(0, (span.low if span is not None else const(0, extent.dtype), size))
        elements, whole = elements * size, whole and size == extent.value
    return begin, elements


def _count_loops(nest: Nest, loop: Loop, given: Tensor) -> Sequence[Loop]:
    """The loops around the stage, the last of which is that at which it is computed."""
    own = nest.computation
    if own.parent is None or own.in_step:
        raise PrefetchUnread(
            f"cannot prefetch {given.name} at '{loop.axis.name}' of stage {own.name}",
            declared=own.op.source,
            called=user_source(),
            reason=f"{own.name} is computed at no loop, of which a later iteration could be meant",
            loops=outline(own.stage, [loop.axis]),
            fix=f"s[{own.name}].prefetch({given.name}, {loop.axis.name}, 1)",
        )
    return nest.bounds.of[own.parent].loops[: own.place + 1]


def _lives_in_iteration(nest: Nest, loop: Loop, tensor: Tensor) -> bool:
    """Return whether the tensor's memory is that of one iteration of the loop, which is the nest's or the one around it."""
    computation, own = nest.dataflow.by_op.get(tensor.op), nest.computation
    while computation is not None and computation.parent is not None:
        if computation.parent.stage is loop.stage:
            return computation.place >= nest.bounds.of[computation.parent].loops.index(loop)
        if computation.parent is own:
            return True
        computation = computation.parent
    return False


def _extent(within: Span, whole: Expr, nest: Nest) -> Expr:
    """Return the number of values that a span holds, and no more than the dimension."""
    extent = nest.analyzer.simplify(cast(within.high - within.low + 1, whole.dtype))
    if not isinstance(extent, IntImm) and within.width is not None:
        if within.width > whole.dtype.greatest:
            return whole
        extent = const(within.width, whole.dtype)
    return whole if nest.analyzer.can_prove(extent >= whole) else extent


def _nest_loops(loops: Sequence[tuple[Var, Expr]], body: Stmt) -> Stmt:
    for var, count in reversed(loops):
        body = For(var, const(0, var.dtype), count, LoopKind.SERIAL, body)
    return body


# The primitive


def _tries(stage: Stage) -> Iterator[Try]:
    for tensor in stage.op.input_tensors:
        for axis in stage.leaf_iter_vars:
            yield f"{tensor.name}, {axis.name}", lambda one, axis=axis, tensor=tensor: one.prefetch(tensor, axis, 1)


def _draw(drawer: Drawer) -> Attempt | None:
    stage = drawer.some_stage(lambda stage: stage.op.input_tensors and drawer.plain(stage))
    if stage is None:
        return None
    tensor, axis, offset = (
        drawer.pick(stage.op.input_tensors),
        drawer.pick(drawer.plain(stage)),
        drawer.pick([1, 2, 4, -3]),
    )
    share = drawer.pick([0, 1, 2]) if stage.attach_type == "at" else 0
    return (
        f"prefetch({tensor.name}, {axis.name}, {offset}, share={share}) of {stage.name}",
        lambda: stage.prefetch(tensor, axis, offset, share=share),
    )


@primitive(
    StagePrimitives,
    "storage",
    named=("offset", "around", "level", "share"),
    tries=_tries,
    draw=_draw,
    weight=2,
    foreign={
        "tensor": TENSORS,
        "axis": AXIS,
        "offset": integer(-LARGEST, LARGEST),
        "around": FLAG,
        "level": integer(1, 2),
        "share": integer(0, LARGEST),
    },
    lowering=_Prefetches,
)
def prefetch(
    stage: Stage, tensor: Tensor, axis: IterVar, offset: int, around: bool = False, level: int = 1, share: int = 0
) -> None:
    """Ask the cache, at each iteration of the loop `axis`, for what the iteration `offset` further on reads of `tensor`.

        for i in 64:                       for i in 64:                   # prefetch(A, i, 1)
            for j in 32:                       for line in 2:
                C[i, j] = A[i, j]      →           if i + 1 < 64: prefetch(&A[i + 1, line * 16])
                                               for j in 32:
                                                   C[i, j] = A[i, j]

    A hint, which means nothing to what is computed, and which targets other than CPUs leave out.

    Parameters
    ----------
    tensor : Tensor
        One that the stage reads.
    axis : IterVar
        A loop of the stage.
    offset : int
        In iterations.
    around : bool, default False
        Whether to ask for what this iteration reads when the loop that the stage is computed at is `offset` iterations further on.
    level : int, default 1
        1 asks the first cache; 2 the second one, for streams from memory: where a row ends, for the one that follows it.
    share : int, default 0
        Asks for what the loop that many loops out reads in its iteration `offset` further on, 1 being the loop at which this stage is
        computed: each step asks for its share of the cache lines, so that these come evenly while the stage computes. It is for what
        is read many times in an iteration and lies together in memory; nothing is asked for otherwise.

    Raises
    ------
    BadPrefetch (TW0251)
        The stage does not read the tensor, or a number is not to be.
    AxisIsNoLoop (TW0205)
        The loop was split or fused.
    NotAnAxisOfStage (TW0202)
        The axis belongs to another stage.
    WrongArgument (TW0222)
        An argument is of another kind.
    UnknownStage (TW0201)
        The schedule has no such tensor.
    NotOfHybridStages (TW0282)
        The stage is a hybrid script.
    """
    find_leaf(stage, axis, "cannot prefetch at")
    refuse_hybrid(
        stage,
        f"cannot prefetch at '{axis.name}' of",
        "which part of a tensor an iteration reads is up to its ifs",
        "leave it to the processor, which sees the loads coming",
    )
    headline = f"cannot prefetch at '{axis.name}' of stage {stage.name}"

    bad = partial(refusal, BadPrefetch, stage, headline, [axis])

    read = ", ".join(tensor.name for tensor in stage.op.input_tensors) or "nothing"
    if not isinstance(tensor, Tensor):
        raise bad(f"expected a tensor, got {type(tensor).__name__}", f"prefetch what {stage.name} reads: {read}")
    source = stage.schedule[tensor]
    if not any(read is source.op.output(tensor.value_index) for read in stage.op.input_tensors):
        raise bad(f"{stage.name} does not read {tensor.name}", f"prefetch what it reads: {read}")
    distance = integer_value(offset, offset)
    if isinstance(distance, bool) or not isinstance(distance, int) or abs(distance) > LARGEST:
        raise bad(
            f"the offset is {offset!r}, not an integer of 32 bits"[:200],
            f"s[{stage.name}].prefetch({tensor.name}, {axis.name}, 1): how many iterations ahead",
        )
    if isinstance(level, bool) or level not in (1, 2):
        raise bad(
            f"the level is {level!r}, neither 1 nor 2"[:200],
            f"s[{stage.name}].prefetch({tensor.name}, {axis.name}, "
            f"{distance}, level=2): which cache it is fetched into",
        )
    if isinstance(share, bool) or not isinstance(share, int) or share < 0 or (share and around):
        raise bad(
            f"the share is {share!r}, {'and around is given too' if around else 'no number of loops'}"[:200],
            f"s[{stage.name}].prefetch({tensor.name}, {axis.name}, {distance}, share=1): of the loop that it is computed at",
        )
    more = {
        **({"share": share} if share else {}),
        **({"around": True} if around else {}),
        **({"level": 2} if level == 2 else {}),
    }
    stage.schedule.record("prefetch", stage, tensor=tensor, axis=axis, offset=distance, **more)
    attr = stage.attr(axis)
    stage.iter_var_attrs[axis] = replace(
        attr, notes=(*attr.notes, _Ahead(tensor, distance, bool(around), level, share))
    )
