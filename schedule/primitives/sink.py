"""sink: a triangle of a script with statements behind its inner loop, the inner loop outside.

    for j in n:                                     for k in n:                                    # sink(j)
        for k in j:                                     a[i, k] = a[i, k] / a[k, k]
            a[i, j] -= a[i, k] * a[k, j]      →         for j in n - 1 - k:
        a[i, j] = a[i, j] / a[j, j]                         a[i, k + 1 + j] -= a[i, k] * a[k, k + 1 + j]

Seen as the step k = j of the inner loop, what stands behind it makes the triangle a perfect one, whose loops change places (M. Wolfe,
"High Performance Compilers for Parallel Computing", section 9.5): a sum over what came before becomes an update of what is to come.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import accumulate
from typing import TypeAlias

from ...base.errors import user_source
from ...ir import Add, Buffer, Expr, For, IterVar, LoopKind, Range, Seq, Stmt, Sub, Var
from ...ir.analysis.dependence import Accesses, Indices, accesses_of
from ...ir.analysis.linear import is_index, linear, terms
from ...ir.arith.linear import LinearForm, single
from ...ir.ops import cast, const, is_const
from ...ir.passes.common.fresh_copy import fold
from ...ir.visit import rewrite, seq
from ..model.checks import find_leaf, outline
from ..model.foreign import AXIS
from ..model.hybrid_errors import HybridLoopCarries, HybridLoopsApart
from ..model.methods import StagePrimitives
from ..model.primitive import Attempt, Drawer, primitive
from ..model.stage import Stage
from .fission import RenamedLoops, ReplacedLoop
from .trials import each_loop

Values: TypeAlias = Mapping[Var, LinearForm]

__all__ = ["can_sink", "sink"]


def _draw(drawer: Drawer) -> Attempt | None:
    stage = drawer.some_stage(lambda stage: any(can_sink(stage, axis) for axis in stage.leaf_iter_vars))
    if stage is None:
        return None
    axis = drawer.pick([axis for axis in stage.leaf_iter_vars if can_sink(stage, axis)])
    return f"sink({stage.name}, {axis.name})", lambda: stage.sink(axis)


def can_sink(stage: Stage, axis: IterVar) -> bool:
    """Return whether a loop is such a triangle, and no bit would change."""
    triangle = _find_triangle(stage, axis)
    return triangle is not None and _find_reversal(stage, triangle) is None


def _find_triangle(stage: Stage, axis: IterVar) -> tuple[For, For, Stmt] | None:
    """The loop, the one in it, whose extent is the first one's variable, and what stands behind that; None of any other loop."""
    loop = stage.op.declared_loops.loops.get(axis)
    if loop is None or not stage.is_untouched() or loop.kind is not LoopKind.SERIAL or not isinstance(loop.body, Seq):
        return None
    inner, behind = next(iter(loop.body.body), None), loop.body.body[1:]  # a loop may be around nothing
    if not isinstance(inner, For) or inner.kind is not LoopKind.SERIAL or not isinstance(inner.var, IterVar):
        return None
    alike = inner.var.dtype == axis.dtype and all(is_const(each.begin, 0) for each in (loop, inner))
    opaque = any(accesses_of(each).opaque for each in loop.body.body)
    return (loop, inner, seq(*behind)) if alike and not opaque and inner.extent is axis else None


def _find_reversal(stage: Stage, triangle: tuple[For, For, Stmt]) -> Buffer | None:
    """A buffer of which two steps that would change their order may touch one element; None where there is none.

    The steps (j, k) and (j', k') do where j < j' and k > k': the second is one of the inner loop, and the first is one too, or what
    stands behind it, where k = j. So k', k, j, j' and the extent lie apart by distances that are not negative."""
    loop, inner, behind = triangle
    axis = loop.var
    assert isinstance(axis, IterVar)
    around = stage.op.declared_loops.around(stage.op.declared_loops.axis_chain(axis))
    steps = [Var(f"{axis.name}.{at}", axis.dtype) for at in range(5)]
    positive = {*steps, *(var for var in around if var.dom is not None and is_const(var.dom.begin, 0))}
    inside, after = accesses_of(inner.body), accesses_of(behind)
    for first, gap in ((inside, 1), (after, 0)):
        before, late, early, last, extent = accumulate(
            (single(steps[0]), *(single(step).shift(by) for step, by in zip(steps[1:], (1, gap, 1, 1), strict=True))),
            LinearForm.plus,
        )
        if not gap:  # what stands behind is at k = j
            early, last, extent = (form.plus(single(steps[2]), -1) for form in (early, last, extent))
        known = _solve_extent(loop.extent, extent)
        values = {axis: early, inner.var: late, **known}, {axis: last, inner.var: before, **known}
        for buffer, a, b in _pairs(first, inside):
            if not any(_is_distinct(x, y, values, positive) for x, y in zip(a, b, strict=True)):
                return buffer
    return None


def _solve_extent(extent: Expr, value: LinearForm) -> dict[Var, LinearForm]:
    """The variable that an extent is, but for a constant, for a value of the extent."""
    form = linear(extent)
    variables = [atom for atom, factor in terms(form) if isinstance(atom, Var) and factor == 1]
    return {variables[0]: value.shift(-form.const)} if len(form.coeffs) == len(variables) == 1 else {}


def _pairs(first: Accesses, second: Accesses) -> Iterator[tuple[Buffer, Indices, Indices]]:
    """The accesses of one buffer, one of each, one of which stores."""
    for buffer in ({*first.stored, *first.loaded} & {*second.stored, *second.loaded}) - first.private - second.private:
        stored, loaded = first.stored.get(buffer, ()), second.stored.get(buffer, ())
        yield from ((buffer, a, b) for a in stored for b in (*loaded, *second.loaded.get(buffer, ())))
        yield from ((buffer, a, b) for a in first.loaded.get(buffer, ()) for b in loaded)


def _is_distinct(a: Expr, b: Expr, values: tuple[Values, Values], positive: set[Var]) -> bool:
    """Return whether two indices differ, whatever values variables have that are not negative."""
    if not is_index(a) or not is_index(b):
        return False
    forms = [linear(a), linear(b)]
    for at, known in enumerate(values):
        for var, value in known.items():
            forms[at] = forms[at].replaced(var, value)
    difference = forms[0].plus(forms[1], -1)
    factors = [factor for _, factor in terms(difference)]
    return (
        all(atom in positive for atom, _ in terms(difference))
        and difference.const != 0
        and all((factor > 0) == (difference.const > 0) for factor in factors)
    )


@primitive(
    StagePrimitives,
    "loops",
    tries=each_loop(lambda stage, axis: stage.sink(axis)),
    draw=_draw,
    weight=1,
    foreign={"axis": AXIS},
)
def sink(stage: Stage, axis: IterVar) -> tuple[IterVar, IterVar]:
    """Exchange the loops of a script's triangle, with what stands behind the inner one.

        for j in n:                                     for k in n:                                    # sink(j)
            for k in j:                                     a[i, k] = a[i, k] / a[k, k]
                a[i, j] -= a[i, k] * a[k, j]      →         for j in n - 1 - k:
            a[i, j] = a[i, j] / a[j, j]                         a[i, k + 1 + j] -= a[i, k] * a[k, k + 1 + j]

    axis: a serial loop that a hybrid script declares, before loops of it are scheduled. The first statement in it is a loop of as many
    iterations as the loop's variable says, and each step of that one takes from what stood behind earlier ones alone. Returns the outer
    axis and the inner one. No bit changes.

    Raises HybridLoopsApart (TW0281), HybridLoopCarries (TW0280), AxisIsNoLoop (TW0205), NotAnAxisOfStage (TW0202).
    """
    find_leaf(stage, axis, "cannot sink what stands in")
    headline = f"cannot sink what stands in '{axis.name}' of stage {stage.name}"
    triangle = _find_triangle(stage, axis)
    if triangle is None:
        raise HybridLoopsApart(
            headline,
            reason=f"it is not an unscheduled loop around one of {axis.name} iterations with statements behind it",
            declared=stage.op.source,
            called=user_source(),
            loops=outline(stage, [axis]),
            fix="part the loop first where statements stand before the inner one, s[...].fission(axis)",
        )
    buffer = _find_reversal(stage, triangle)
    if buffer is not None:
        raise HybridLoopCarries(
            headline,
            reason=f"an element of {buffer.name} may be touched by two steps, the later of which would come first",
            declared=stage.op.source,
            called=user_source(),
            loops=outline(stage, [axis]),
            fix=f"keep {axis.name} outside",
        )
    loop, inner, behind = triangle
    stage.schedule.record("sink", stage, axis=axis)
    assert isinstance(inner.var, IterVar)
    step = IterVar(inner.var.name, axis.dtype, Range(loop.begin, loop.extent), axis.kind)
    rest = fold(Sub, fold(Sub, loop.extent, const(1, axis.dtype)), step)
    ahead = IterVar(axis.name, axis.dtype, Range(const(0, axis.dtype), rest), axis.kind)
    place = fold(Add, fold(Add, step, ahead), const(1, axis.dtype))
    update = RenamedLoops({axis: place, inner.var: cast(step, inner.var.dtype)}).visit(inner.body)
    body = seq(
        RenamedLoops({axis: step}).visit(behind),
        replace(inner, var=ahead, begin=const(0, axis.dtype), extent=rest, body=update),
    )
    sunk = replace(loop, var=step, body=body)
    stage.schedule.rewrite({}, anew={stage: stage.op.rewritten(lambda whole: rewrite(whole, ReplacedLoop(loop, sunk)))})
    return step, ahead
