"""polyphase: the elements of a tensor by the remainders of an index, each remainder in a stage of its own.

    for y in 8:  for k in 4:                            for y.outer in 4:  for k.outer in 2:      # polyphase(C, y, 2)
      if (y + k) % 2 == 0:                                C.phase0[y.outer] += A[y.outer + k.outer] * W[2 * k.outer]
        C[y] += A[(y + k) // 2] * W[k]         →        for y.outer in 4:  for k.outer in 2:
                                                          C.phase1[y.outer] += A[y.outer + k.outer + 1] * W[2 * k.outer + 1]
                                                        for y in 8:  C[y] = C.phase1[y // 2] if y % 2 else C.phase0[y // 2]

Within a phase a condition of divisibility says which terms there are: their reduce axis takes steps, and no term is asked.
(The polyphase decomposition of filters: Bellanger, Bonnerot and Coudreuse 1976.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import copysign, gcd
from typing import Any

from ...base import dataclass, replace
from ...ir.analysis.conditional_values import value_or_zero
from ...ir.analysis.linear import linear, terms
from ...ir.arith.analyzer import Analyzer
from ...ir.combine import is_sum
from ...ir.expr import EQ, Add, Expr, FloatImm, FloorMod, IntImm, IterVar, Mul, ProducerLoad, Range, Reduce, Var
from ...ir.ops import TRUE, conjuncts, const, equal, floordiv, floormod, if_then_else, is_const, logical_not
from ...ir.structural import structural_key
from ...ir.visit import free_vars, post_order, substitute
from ...te.operation import ComputeOp
from ...te.shape import constant_extent
from ...te.tensor import Tensor
from ..errors import BadPhases
from ..model.checks import refusal
from ..model.foreign import AXIS, TENSORS, integer
from ..model.inlining import expand_inlined
from ..model.layout import add_root_axis, check_outputs, refuse_dangling_predicate, retire
from ..model.methods import SchedulePrimitives
from ..model.primitive import Attempt, Drawer, Try, primitive
from ..model.schedule import Schedule
from ..model.stage import Stage

__all__ = ["Congruence", "LeftOut", "congruences", "find_omitted", "polyphase"]

MOST = 16
"""Phases of one tensor: each is a stage."""


def _tries(stage: Stage) -> Iterator[Try]:
    for axis in stage.op.axis:
        yield f"{axis.name}, 2", lambda one, axis=axis: one.schedule.polyphase(one.op.output(0), axis, 2)


def _draw(drawer: Drawer) -> Attempt | None:
    stage = drawer.some_stage(lambda stage: stage.op.values and stage.op.axis and not stage.is_scheduled())
    if stage is None:
        return None
    axis, step = drawer.pick(list(stage.op.axis)), drawer.pick([2, 3, 5])
    return f"polyphase({stage.name}, {axis.name}, {step})", lambda: drawer.s.polyphase(stage.op.output(0), axis, step)


@primitive(
    SchedulePrimitives,
    "stages",
    tries=_tries,
    draw=_draw,
    weight=1.5,
    rare=True,
    foreign={"tensor": TENSORS, "axis": AXIS, "step": integer(2, MOST)},
)
def polyphase(schedule: Schedule, tensor: Tensor, axis: IterVar, step: int) -> list[Tensor]:
    """Compute the elements of `tensor` with y = 0, 1, ... modulo `step` apart, each in a stage, where `axis` is y.

        for y in 8:  for k in 4:                 for y.outer in 4:  for k.outer in 2:      # polyphase(C, y, 2)
          if (y + k) % 2 == 0:                     C.phase0[y.outer] += A[y.outer + k.outer] * W[2 * k.outer]
            C[y] += A[(y + k) // 2] * W[k]   →   for y.outer in 4:  for k.outer in 2:
                                                   C.phase1[y.outer] += A[y.outer + k.outer + 1] * W[2 * k.outer + 1]
                                                 for y in 8:  C[y] = C.phase1[y // 2] if y % 2 else C.phase0[y // 2]

    In a phase of a reduction `(a * y + b * k + c) % m == d` steps the reduce axis k by m, where it is a condition of the
    reduction, of a choice between its terms and 0, or of a choice between a factor of its terms and 0. No bit changes in the
    first two cases, nor where terms are whole numbers. In the last one a term that is left out was 0 times the other factor:
    NaN where that is infinite or none. Those terms are added up apart, C.left_out, once for all places: the sum is the
    declared one in another order.

    Parameters
    ----------
    tensor : Tensor
        The one output of a te.compute whose loops are as declared. What is inlined into its stage becomes part of the phases.
    axis : IterVar
        A data axis of it, of constant extent.
    step : int
        From 2 to 16.

    Returns
    -------
    list of Tensor
        The phases, of the tensor's dtype, the extent along the axis being what is left of it; one that is the same number everywhere
        is no stage. After them come "C.zeros" and "C.left_out", where there are such.

    Raises
    ------
    BadPhases (TW0262)
        The tensor cannot be computed apart by this axis.
    UnknownStage (TW0201)
        The schedule does not compute the tensor.
    WrongArgument (TW0222)
        An argument is of another kind.
    """
    stage, _ = check_outputs(schedule, tensor, BadPhases, "cannot take apart")
    op = _check(stage, axis, step)
    with schedule.compound("polyphase", tensor=tensor, axis=axis, step=step):
        value = expand_inlined(stage)
        left_out = find_omitted(value, axis, step)
        phases = [_phase(op, value, axis, step, at, left_out) for at in range(step)]
        zeros, own = _zeros(op, value, axis, step, left_out) if left_out is not None else ((), ())
        whole = _join_phases(op, axis, step, phases, ProducerLoad(zeros[-1].output(0), own) if zeros else None)
        retire(schedule, op.reduce_axis, f"was an axis of {stage.name} until polyphase made phases of it{{at}}")
        new = [*(phase for phase in phases if not isinstance(phase, Expr)), *zeros]
        for each in new:
            schedule.insert_stage(schedule.find_place(stage), each, stage)
        schedule.rewrite({}, anew={stage: whole})
        if zeros:
            schedule.losses.append(f"terms of {stage.name} of which a factor is 0 are added apart from the others")
    return [each.output(0) for each in new]


def _bad(stage: Stage, reason: str, fix: str) -> BadPhases:
    return refusal(BadPhases, stage, f"cannot take {stage.name} apart by remainders", stage.leaf_iter_vars, reason, fix)


def _check(stage: Stage, axis: IterVar, step: int) -> ComputeOp:
    op = stage.op.as_compute
    if op is None or op.calls_intrinsic or op.num_outputs > 1:
        raise _bad(
            stage, f"{stage.name} is not the one tensor of a te.compute", "take a copy of it apart, by s.cache_read"
        )
    if all(axis is not each for each in op.axis):
        raise _bad(
            stage,
            f"{str(getattr(axis, 'name', axis))[:80]} is not a data axis of it",
            f"one of {', '.join(each.name for each in op.axis) or 'none'}",
        )
    if constant_extent(axis) is None:
        raise _bad(stage, f"the extent of {axis.name} is known at the call alone", "an axis of constant extent")
    if not 2 <= step <= MOST:
        raise _bad(stage, f"there would be {step} phases", f"a step from 2 to {MOST}")
    if stage.attach_type in ("inline", "inlined"):
        raise _bad(stage, f"{stage.name} is inlined", f"s[{stage.name}].compute_root() first")
    scheduled = (
        stage.relations
        or stage.iter_var_attrs
        or any(a is not b for a, b in zip(stage.leaf_iter_vars, stage.all_iter_vars, strict=False))
    )
    if scheduled or stage.schedule.find_placed(stage):
        raise _bad(stage, "its loops are scheduled already, and phases have loops of their own", "call polyphase first")
    refuse_dangling_predicate(stage, op.reduce_axis, BadPhases, "cannot take apart")
    return op


# What divisibility says of the terms of a sum


@dataclass(frozen=True)
class Congruence:
    """(of_axis * y + b * reduced + c) % modulus == d for a data axis y and a reduce axis. inverse: of b; rest: d - c."""

    reduced: IterVar
    modulus: int
    of_axis: int
    inverse: int
    rest: int

    def place(self, at: int) -> int:
        """The first k for y = at."""
        return (self.rest - self.of_axis * at) * self.inverse % self.modulus


def congruences(value: Expr, axis: IterVar, reduced: Sequence[IterVar]) -> Iterator[Congruence]:
    """The conditions in a value that give a reduce axis modulo some number, as soon as `axis` is known modulo another."""
    for part in post_order(value):
        if not (
            isinstance(part, EQ)
            and isinstance(part.a, FloorMod)
            and isinstance(part.a.b, IntImm)
            and isinstance(part.b, IntImm)
            and part.a.b.value > 1
        ):
            continue
        modulus, form = part.a.b.value, linear(part.a.a)
        left = {atom: by % modulus for atom, by in terms(form) if by % modulus}
        of_axis = left.pop(axis, 0)
        if not of_axis or len(left) != 1:
            continue
        ((other, by),) = left.items()
        if (
            isinstance(other, IterVar)
            and any(other is each for each in reduced)
            and gcd(by, modulus) == 1
            and _counts(other)
        ):
            yield Congruence(other, modulus, of_axis, pow(by, -1, modulus), part.b.value - form.const)


def _counts(axis: IterVar) -> bool:
    """Return whether an axis runs from 0 to a number."""
    return axis.dom is not None and is_const(axis.dom.begin, 0) and constant_extent(axis) is not None


@dataclass(frozen=True)
class LeftOut:
    """Terms of a sum that phases leave out.

    by: what says which terms there are. other: what those that are left out are 0 times, where that may be no number.
    """

    by: Congruence
    other: Expr | None


def find_omitted(value: Expr, axis: IterVar, step: int) -> LeftOut | None:
    """Return the terms that a phase leaves out; None for none."""
    if (
        not isinstance(value, Reduce)
        or len(value.sources) != 1
        or any(constant_extent(each) == 0 for each in value.axes)
    ):
        return None

    def first(conditions: Sequence[Expr]) -> Congruence | None:
        parts = (part for condition in conditions for part in conjuncts(condition) if isinstance(part, EQ))
        found = (each for part in parts for each in congruences(part, axis, value.axes))
        return next((each for each in found if each.of_axis * step % each.modulus == 0), None)

    source, by = value.sources[0], first([value.condition])
    if by is not None:
        return LeftOut(by, None)
    if value.init or not is_sum(value):
        return None
    whole = not source.dtype.is_float
    by = first(_zero_unless(source))
    if by is not None:  # a sum that begins at 0 is -0 at no time
        return LeftOut(by, None) if whole or _begins_at_zero(value) else None
    if not isinstance(source, Mul):
        return None
    for factor, other in ((source.a, source.b), (source.b, source.a)):
        by = first(_zero_unless(factor))
        if by is not None and (whole or not any(node is axis for node in post_order(other))):
            return LeftOut(by, None if whole else other)
    return None


def _begins_at_zero(reduction: Reduce) -> bool:
    identity = reduction.combiner.identity[0]
    return isinstance(identity, FloatImm) and identity.value == 0 and copysign(1, identity.value) > 0


def _zero_unless(value: Expr) -> list[Expr]:
    """Return the conditions that must hold for a value to be other than 0, as far as choices around it say."""
    conditions: list[Expr] = []
    while (choice := value_or_zero(value)) is not None:
        condition, value = choice
        conditions.append(condition)
    return conditions


# The stages


def _phase(op: ComputeOp, value: Expr, axis: IterVar, step: int, at: int, left_out: LeftOut | None) -> ComputeOp | Expr:
    """The elements with that remainder: an operation, or the number that all of them are. Which of the two does not depend on
    extents, so that the schedule holds for fewer elements too."""
    simplify = Analyzer().simplify
    renamed: dict[Var, Expr] = {}
    data: list[IterVar] = []
    for each in op.axis:
        assert each.dom is not None
        outer = Range(const(0, axis.dtype), const(max(-(-(_number(axis) - at) // step), 0), axis.dtype))
        within, name = (outer, f"{axis.name}.outer") if each is axis else (each.dom, each.name)
        data.append(add_root_axis(each, within, name, "data"))
        renamed[each] = data[-1] * step + at if each is axis else data[-1]
    if not isinstance(value, Reduce):
        body = simplify(substitute(value, renamed))
        return (
            _operation(op, at, data, body)
            if any(isinstance(node, ProducerLoad | Var) for node in post_order(body))
            else body
        )
    reduced: list[IterVar] = []
    for each in value.axes:
        assert each.dom is not None
        first, by = (
            (left_out.by.place(at), left_out.by.modulus)
            if left_out is not None and each is left_out.by.reduced
            else (0, 1)
        )
        within = Range(substitute(each.dom.begin, renamed), substitute(each.dom.extent, renamed))
        if by > 1:
            within = Range(within.begin, const(max(-(-(_number(each) - first) // by), 0), each.dtype))
        reduced.append(add_root_axis(each, within, f"{each.name}.outer" if by > 1 else each.name, "reduce"))
        renamed[each] = reduced[-1] * by + first if by > 1 else reduced[-1]
    moved = substitute(value, renamed)
    sources = tuple(map(simplify, moved.sources))
    fused = moved.fused if isinstance(sources[0], Mul) else ()
    return _operation(
        op,
        at,
        data,
        replace(moved, axes=tuple(reduced), sources=sources, condition=simplify(moved.condition), fused=fused),
    )


def _operation(op: ComputeOp, at: int, axes: Sequence[IterVar], body: Expr) -> ComputeOp:
    return replace(_strip_tag(op), name=f"{op.name}.phase{at}", axis=tuple(axes), body=(body,))


def _strip_tag(op: ComputeOp) -> ComputeOp:
    """An operation without its tag where it is a sum: what an operator knows of that is not so for parts of it."""
    return op if op.reduction is None else replace(op, tag="", algorithm="", attrs=dict[str, Any]())


def _number(axis: IterVar) -> int:
    extent = constant_extent(axis)
    assert extent is not None
    return extent


def _zeros(
    op: ComputeOp, value: Expr, axis: IterVar, step: int, left_out: LeftOut
) -> tuple[tuple[ComputeOp, ...], tuple[Expr, ...]]:
    """The sums of the terms that each phase leaves out, which are the same at all its places, 0 or NaN: the operations, and the
    indices of the last one at an element of `op`, of which the phase comes last. Empty where nothing is lost without them."""
    by, other = left_out.by, left_out.other
    if other is None:
        return (), ()
    assert isinstance(value, Reduce)
    own = {*free_vars(other)}
    kept = [each for each in (*op.axis, by.reduced) if each in own]
    summed = [each for each in value.axes if each in own and each is not by.reduced]
    each_k = _build_sum(op, f"{op.name}.zeros", value, kept, summed, Mul(const(0, other.dtype), other), TRUE)
    data = [each for each in kept if each is not by.reduced]
    phase = IterVar("phase", axis.dtype, Range(const(0, axis.dtype), const(step, axis.dtype)))
    left = logical_not(
        equal(floormod(phase * by.of_axis + by.reduced * pow(by.inverse, -1, by.modulus) - by.rest, by.modulus), 0)
    )
    load = ProducerLoad(each_k.output(0), tuple(kept))
    return (each_k, _build_sum(op, f"{op.name}.left_out", value, [*data, phase], [by.reduced], load, left)), (
        *data,
        phase,
    )


def _build_sum(
    op: ComputeOp,
    name: str,
    like: Reduce,
    data: Sequence[IterVar],
    summed: Sequence[IterVar],
    term: Expr,
    condition: Expr,
) -> ComputeOp:
    """The sum of a term over axes, which become others."""
    new: dict[Var, Expr] = {}
    axes: list[list[IterVar]] = [[], []]
    for at, group in enumerate((data, summed)):
        for each in group:
            assert each.dom is not None
            axes[at].append(add_root_axis(each, each.dom, each.name, "reduce" if at else "data"))
            new[each] = axes[at][-1]
    body = substitute(term, new)
    if summed:
        body = Reduce(like.combiner, (body,), tuple(axes[1]), substitute(condition, new))
    return ComputeOp(name=name, tag="", attrs={}, source=op.source, axis=tuple(axes[0]), body=(body,))


def _join_phases(
    op: ComputeOp,
    axis: IterVar,
    step: int,
    phases: Sequence[ComputeOp | Expr],
    zeros: ProducerLoad | None,
) -> ComputeOp:
    """The tensor, from its phases, those that are a number last. zeros: what is added to each, by the phase as the last index."""
    parts: list[tuple[int, Expr]] = []
    for at, phase in enumerate(phases):
        value = (
            phase
            if isinstance(phase, Expr)
            else ProducerLoad(
                phase.output(0), tuple(floordiv(each, step) if each is axis else each for each in op.axis)
            )
        )
        if zeros is not None:
            value = Add(value, replace(zeros, indices=(*zeros.indices[:-1], const(at, axis.dtype))))
        parts.append((at, value))
    *parts, (_, body) = sorted(parts, key=lambda part: isinstance(phases[part[0]], Expr))
    rest = structural_key(body)
    for at, value in reversed(parts):
        if structural_key(value) != rest:
            body = if_then_else(equal(floormod(axis, step), at), value, body)
    return replace(_strip_tag(op), body=(body,))
