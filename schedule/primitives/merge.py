"""merge: two loops of a script after each other as one, the second so many iterations behind as its dependences need.

    for i in n:                              for t in n + 1:                                # merge(i)
        for k in m: b[i, k] = f(a[i, k])         if t < n:
    for i.1 in n - 1:                 →              for k in m: b[t, k] = f(a[t, k])
        for k in m:                              if t >= 1 and t < n:
            c[i.1, k] = b[i.1 + 1, k]                for k in m: c[t - 1, k] = b[t, k]

So what the first one stores is read while it is still near (loop fusion with shifts: N. Manjikian, T. Abdelrahman, "Fusion of Loops for
Parallelism and Locality", IEEE TPDS 1997).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import cast

from ...base import dataclass, replace, user_source
from ...ir import Allocate, Assert, Buffer, Expr, For, If, IntImm, IterVar, LoopKind, Range, Seq, Stmt, Var
from ...ir.analysis.dependence import Accesses, Indices, Iterations, Meets, accesses_of, solve
from ...ir.analysis.linear import expression, is_index, linear
from ...ir.arith.interval import EVERYTHING
from ...ir.arith.linear import LinearForm, single
from ...ir.ops import conjunction, const
from ...ir.visit import rewrite, seq, substitute, walk
from ...te.hybrid.op import HybridOp
from ...te.hybrid.zeros import needs_zeros
from ..model.checks import find_leaf, outline
from ..model.foreign import AXIS
from ..model.hybrid_errors import HybridLoopCarries, HybridLoopsApart
from ..model.hybrid_loops import compared_iterations
from ..model.methods import StagePrimitives
from ..model.primitive import Attempt, Drawer, primitive
from ..model.stage import Stage
from .fission import RenamedLoops, ReplacedLoop
from .trials import each_loop

__all__ = ["find_shift", "merge", "neighbour", "written_memory"]


def _draw(drawer: Drawer) -> Attempt | None:
    stage = drawer.some_stage(lambda stage: next(_merging(stage), None) is not None)
    if stage is None:
        return None
    axis = drawer.pick(list(_merging(stage)))
    return f"merge({stage.name}, {axis.name})", lambda: stage.merge(axis)


def _merging(stage: Stage) -> Iterator[IterVar]:
    """The loops that it may be called with."""
    return (axis for axis in stage.leaf_iter_vars if isinstance(find_shift(stage, axis), int))


def neighbour(stage: Stage, axis: IterVar) -> For | None:
    """The loop that stands directly behind that of `axis`; None where something else does."""
    body, loop = stage.op.declared_loops.body, stage.op.declared_loops.loops.get(axis)
    for node in () if loop is None or body is None else walk(body):
        if isinstance(node, Seq):
            place = next((at for at, each in enumerate(node.body[:-1]) if each is loop), None)
            if place is not None:
                behind = node.body[place + 1]
                return behind if isinstance(behind, For) else None
    return None


def find_shift(stage: Stage, axis: IterVar) -> int | str | Buffer:
    """The number of iterations that the loop behind that of `axis` has to lag; where they stay apart, the reason, or the buffer whose
    elements may be touched however far apart."""
    loop, behind = stage.op.declared_loops.loops.get(axis), neighbour(stage, axis)
    if loop is None or behind is None or not stage.is_untouched():
        return "no unscheduled loop of the script stands directly behind it"
    inside = [node for each in (loop, behind) for node in walk(each) if isinstance(node, For)]
    if any(each.kind is not LoopKind.SERIAL or each.pragmas for each in (loop, behind)) or any(
        each.var in stage.iter_var_attrs for each in inside
    ):
        return "one of them is not serial, or a loop in them is annotated"
    if not isinstance(behind.var, IterVar) or behind.var.dtype != loop.var.dtype:
        return "the bounds of one are read from memory, or of another type"
    if _difference(loop.begin, behind.begin) is None or _difference(_end(loop), _end(behind)) is None:
        return "their bounds do not lie a number apart"
    before, after = accesses_of(loop.body), accesses_of(behind.body)
    if before.opaque or after.opaque or any(isinstance(node, Assert) for each in (loop, behind) for node in walk(each)):
        return "something in them does more than compute"
    iterations = _pair_iterations(stage, loop, behind, before, after)
    shift: int | None = None
    for buffer, first, second in _pairs(before, after, {behind.var: loop.var}):
        lag = _lag(iterations, first, second)
        if lag is None:
            return buffer
        if lag is not False:
            shift = lag if shift is None else max(shift, lag)
    return shift or 0


def _end(loop: For) -> Expr:
    return loop.begin + loop.extent


def _difference(a: Expr, b: Expr) -> int | None:
    """The second index less the first; None where that varies."""
    form = linear(b).plus(linear(a), -1)
    return None if form.coeffs or not is_index(a) or not is_index(b) else form.const


def _pair_iterations(stage: Stage, loop: For, behind: For, before: Accesses, after: Accesses) -> Iterations:
    """Iterations of the loop, and those of the one behind as iterations of it."""
    own: dict[Var, Range | None] = {loop.var: None}
    ends = [linear(each) for each in (loop.begin, behind.begin, _end(loop), _end(behind))]
    if not any(end.coeffs for end in ends):
        low, high = min(end.const for end in ends[:2]), max(end.const for end in ends[2:])
        own[loop.var] = Range(const(low, loop.var.dtype), const(high - low, loop.var.dtype))
    own.update(before.bound)
    for var, within in after.bound.items():
        values = {behind.var: loop.var}
        own[var] = within and Range(substitute(within.begin, values), substitute(within.extent, values))
    constant = {*before.loaded, *after.loaded} - {*before.stored, *after.stored}
    assert isinstance(loop.var, IterVar)
    analyzer = compared_iterations(stage, loop.var).analyzer
    return Iterations(loop.var, own, constant=constant, analyzer=analyzer)


def _pairs(first: Accesses, second: Accesses, values: Mapping[Var, Expr]) -> Iterator[tuple[Buffer, Indices, Indices]]:
    """The accesses of one buffer, one of each, one of which stores. values: the second one's loop as the first one's."""
    for buffer in ({*first.stored, *first.loaded} & {*second.stored, *second.loaded}) - first.private - second.private:
        stored, loaded = (
            [tuple([substitute(index, values) for index in indices]) for indices in accesses.get(buffer, ())]
            for accesses in (second.stored, second.loaded)
        )
        yield from ((buffer, a, b) for a in first.stored.get(buffer, ()) for b in (*stored, *loaded))
        yield from ((buffer, a, b) for a in first.loaded.get(buffer, ()) for b in stored)


def _lag(iterations: Iterations, first: Indices, second: Indices) -> int | bool | None:
    """The iterations that the second access has to lag to come behind the first; False where they never meet, None where no number
    is enough."""
    between = iterations.between(first, second)
    if between.meets is Meets.NEVER:
        return False
    if between.distance is not None:
        return -between.distance
    given = iterations.equations(first, second)
    if given is None:
        return False
    bounds = solve(*given)
    low = (bounds or {}).get(("apart", iterations.loop), EVERYTHING).lo
    within = None if iterations.loop is None else iterations.own[iterations.loop]
    if low is None or within is not None and isinstance(within.extent, IntImm) and -low >= within.extent.value - 1:
        return None
    return -low


@dataclass(frozen=True)
class _Part:
    """A loop as a part of the merged one: its iteration t - lag runs in iteration t."""

    loop: For
    lag: int

    @property
    def bounds(self) -> tuple[LinearForm, LinearForm]:
        """The iterations of the merged loop in which it runs."""
        return linear(self.loop.begin).shift(self.lag), linear(_end(self.loop)).shift(self.lag)

    def run(self, var: IterVar, low: LinearForm, high: LinearForm) -> Stmt:
        """The iteration in terms of the merged loop's variable, guarded where that goes further."""
        begin, end = self.bounds
        value = expression(single(var).shift(-self.lag), var.dtype)
        body = RenamedLoops({self.loop.var: value}).visit(self.loop.body)
        guards = [] if begin.const == low.const else [var >= expression(begin, var.dtype)]
        guards += [] if end.const == high.const else [var < expression(end, var.dtype)]
        return If(conjunction(*guards), body) if guards else body


def _farthest(forms: Iterable[LinearForm], sign: int) -> LinearForm:
    return max(forms, key=lambda form: sign * form.const)


@primitive(
    StagePrimitives,
    "loops",
    tries=each_loop(lambda stage, axis: stage.merge(axis)),
    draw=_draw,
    weight=2,
    foreign={"axis": AXIS},
)
def merge(stage: Stage, axis: IterVar) -> IterVar:
    """Make one loop of a script's loop and the one directly behind it.

        for i in n:                              for t in n + 1:                                # merge(i)
            for k in m: b[i, k] = f(a[i, k])         if t < n:
        for i.1 in n - 1:                 →              for k in m: b[t, k] = f(a[t, k])
            for k in m:                              if t >= 1 and t < n:
                c[i.1, k] = b[i.1 + 1, k]                for k in m: c[t - 1, k] = b[t, k]

    axis: a serial loop that a hybrid script declares, before loops of it are scheduled. The loop behind it has bounds that lie numbers
    apart from its own, and lags as many iterations as what it takes from the first one needs. Returns the axis. No bit changes.

    Raises HybridLoopsApart (TW0281), HybridLoopCarries (TW0280), AxisIsNoLoop (TW0205), NotAnAxisOfStage (TW0202).
    """
    find_leaf(stage, axis, "cannot merge")
    shift = find_shift(stage, axis)
    if not isinstance(shift, int):
        carries = isinstance(shift, Buffer)
        raise (HybridLoopCarries if carries else HybridLoopsApart)(
            f"cannot merge '{axis.name}' of stage {stage.name} with the loop behind it",
            reason=f"elements of {shift.name} may be touched by iterations however far apart" if carries else shift,
            declared=stage.op.source,
            called=user_source(),
            loops=outline(stage, [axis]),
            fix="merge loops the second of which takes from a few iterations of the first"
            if carries
            else "merge a loop directly behind which another one stands, before its loops are split or reordered",
        )
    stage.schedule.record("merge", stage, axis=axis)
    loop, behind = stage.op.declared_loops.loop(axis), neighbour(stage, axis)
    assert behind is not None
    parts = (_Part(loop, max(-shift, 0)), _Part(behind, max(shift, 0)))
    begins, ends = zip(*(part.bounds for part in parts), strict=True)
    low, high = _farthest(begins, -1), _farthest(ends, 1)
    begin, extent = (expression(form, axis.dtype) for form in (low, high.plus(low, -1)))
    merged = IterVar(axis.name, axis.dtype, Range(begin, extent), axis.kind)
    whole = replace(
        loop, var=merged, begin=begin, extent=extent, body=seq(*(part.run(merged, low, high) for part in parts))
    )
    script = cast("HybridOp", stage.op)  # nothing else declares loops
    written = written_memory(script)
    op = script.rewritten(lambda body: rewrite(rewrite(body, ReplacedLoop(loop, whole)), ReplacedLoop(behind, seq())))
    stage.schedule.rewrite({}, anew={stage: replace(op, written=written)})
    return merged


def written_memory(op: HybridOp) -> frozenset[Buffer]:
    """The memory of a script that is written before it is read, which is harder to see afterwards."""
    allocated = ((node.body, node.buffer) for node in walk(op.body) if isinstance(node, Allocate))
    memory = [*((op.body, buffer) for buffer in op.buffers), *allocated]
    return op.written | {buffer for within, buffer in memory if not needs_zeros(within, buffer)}
