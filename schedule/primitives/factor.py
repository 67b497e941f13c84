"""factor: a sum of products of several factors as a tree of sums of products of two.

    for i, j:  for a, b:                            for a, j:  for b:                     # factor(C, [(1, 2), (0, 1)])
      C[i, j] += A[i, a] * B[a, b] * D[b, j]   →      C.product0[a, j] += B[a, b] * D[b, j]
                                                    for i, j:  for a:
                                                      C[i, j] += A[i, a] * C.product0[a, j]

Each axis is summed as soon as no other factor depends on it: of n factors over m axes of extent e, e^m terms become a few sums of
fewer axes each. (Pfeifer, Haegeman and Verstraete 2014; Smith and Gray 2018, whose notation of paths this is.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

from ...base import dataclass, replace
from ...base.arguments import is_sequence
from ...ir import Expr, IterVar, Mul, ProducerLoad, Range, Reduce, Var, post_order, substitute
from ...ir.combine import is_sum
from ...ir.ops import const, is_const
from ...te.factors import product_factors
from ...te.operation import ComputeOp
from ...te.shape import constant_extent
from ...te.tensor import Tensor
from ..errors import BadFactors
from ..model.checks import refusal
from ..model.foreign import PATH, TENSORS
from ..model.inlining import expand_inlined
from ..model.layout import check_outputs, refuse_dangling_predicate, retire
from ..model.methods import SchedulePrimitives
from ..model.primitive import Attempt, Drawer, Try, primitive
from ..model.schedule import Schedule
from ..model.stage import Stage

__all__ = ["Operand", "SumTree", "factor", "factors_of_sum", "plain_sum"]

MOST = 16
"""Factors of one sum."""


def _tries(stage: Stage) -> Iterator[Try]:
    count = len(factors_of_sum(stage) or ())
    if count > 1 and not stage.is_scheduled():
        path = [(0, 1)] * (count - 1)
        yield f"{path}", lambda one: one.schedule.factor(one.op.output(0), path)


def _draw(drawer: Drawer) -> Attempt | None:
    stage = drawer.some_stage(lambda stage: stage.is_untouched() and len(factors_of_sum(stage) or ()) > 1)
    if stage is None:
        return None
    count = len(factors_of_sum(stage) or ())
    drawn = [sorted(drawer.permutation(left)[:2]) for left in range(count, 1, -1)]
    path = [(first, second) for first, second in drawn]
    return f"factor({stage.name}, {path})", lambda: drawer.s.factor(stage.op.output(0), path)


def factors_of_sum(stage: Stage) -> list[Expr] | None:
    """The factors that each term of a sum is a product of, what is inlined being part of them; None where it is no plain sum."""
    reduction = plain_sum(stage)
    return None if reduction is None else product_factors(reduction.sources[0])


def plain_sum(stage: Stage) -> Reduce | None:
    """The sum of one tensor that a stage is, what is inlined being part of it; None where it has a condition or begins with a value, or
    runs over axes of extents that are 0, not known, or depend on others."""
    op = stage.op.as_compute
    if op is None or op.calls_intrinsic or op.num_outputs > 1 or op.reduction is None:
        return None
    reduction = expand_inlined(stage)
    if (
        not isinstance(reduction, Reduce)
        or not is_sum(reduction)
        or reduction.init
        or not is_const(reduction.condition, 1)
        or not all(constant_extent(axis) for axis in (*op.axis, *reduction.axes))
        or any(axis.dom is None or not is_const(axis.dom.begin) for axis in reduction.axes)
        or not _is_wide(reduction)
    ):
        return None
    return reduction


def _is_wide(value: Expr) -> bool:
    """Return whether stored products lose no more than sums do: those of halves would be rounded to halves."""
    return not value.dtype.is_float or value.dtype.bits >= 32


@primitive(
    SchedulePrimitives,
    "stages",
    tries=_tries,
    draw=_draw,
    weight=2,
    rare=True,
    foreign={"tensor": TENSORS, "path": PATH},
)
def factor(schedule: Schedule, tensor: Tensor, path: Sequence[tuple[int, int]]) -> list[Tensor]:
    """Compute a sum of products of several factors by sums of products of two.

        for i, j:  for a, b:                            for a, j:  for b:                     # factor(C, [(1, 2), (0, 1)])
          C[i, j] += A[i, a] * B[a, b] * D[b, j]   →      C.product0[a, j] += B[a, b] * D[b, j]
                                                        for i, j:  for a:
                                                          C[i, j] += A[i, a] * C.product0[a, j]

    tensor: a te.sum of products, of constant extents, without where= and init=, of loops that are not scheduled yet; of floats,
    float32 or float64. What is inlined into it is part of the factors. path: pairs of places, as np.einsum_path gives
    them. A pair is taken out of the list of factors, which are the declared ones to begin with, and their product comes to its
    end, summed over the axes that no factor left in the list depends on. The last pair leaves one product, the tensor. Axes that
    one factor alone depends on are summed before it is multiplied. Sums of whole numbers have the same bits; those of floats
    are rounded elsewhere, and added in another order.

    Returns the tensors that are new, in the order in which they are computed.

    Raises BadFactors (TW0263), UnknownStage (TW0201), WrongArgument (TW0222).
    """
    stage, _ = check_outputs(schedule, tensor, BadFactors, "cannot factor")
    factors = _check(stage)
    pairs = _check_path(stage, path, len(factors))
    with schedule.compound("factor", tensor=tensor, path=pairs):
        op = stage.op.as_compute
        assert op is not None
        tree = SumTree(op, cast(Reduce, expand_inlined(stage)))
        whole = tree.build([Operand(each, _find_axes(each)) for each in factors], pairs)
        reduced = {*whole.reduce_axis}
        gone = [axis for axis in op.reduce_axis if axis not in reduced]
        retire(schedule, gone, f"was an axis of {stage.name} until factor gave its sum to another stage{{at}}")
        for each in tree.made:
            schedule.insert_stage(schedule.find_place(stage), each, stage)
        schedule.rewrite({}, anew={stage: whole})
        if op.values[0].dtype.is_float:
            schedule.losses.append(f"the terms of {stage.name} are products of sums, which are rounded before")
    return [each.output(0) for each in tree.made]


def _bad(stage: Stage, reason: str, fix: str) -> BadFactors:
    return refusal(BadFactors, stage, f"cannot factor {stage.name}", stage.leaf_iter_vars, reason, fix)


def _check(stage: Stage) -> list[Expr]:
    factors = factors_of_sum(stage)
    if factors is None or len(factors) < 2:
        raise _bad(
            stage,
            f"{stage.name} is not a te.sum of products, of constant extents, without where= and init=",
            "te.sum(A[i, a] * B[a, b] * D[b, j], axis=[a, b])",
        )
    if len(factors) > MOST:
        raise _bad(
            stage, f"there are {len(factors)} factors", f"at most {MOST}; name a part of them a tensor of its own"
        )
    if not stage.is_untouched() or stage.attach_type in ("inline", "inlined"):
        raise _bad(stage, "its loops are scheduled already, and each sum has loops of its own", "call factor first")
    refuse_dangling_predicate(stage, stage.op.axis, BadFactors, "cannot factor")
    return factors


def _check_path(stage: Stage, path: Sequence[tuple[int, int]], count: int) -> tuple[tuple[int, int], ...]:
    fix = f"{count - 1} pairs of places, as np.einsum_path gives them: {[(0, 1)] * (count - 1)}"
    items: list[Any] = list(path) if is_sequence(path) else []
    pairs: list[tuple[int, int]] = []
    for left, item in zip(range(count, 1, -1), items, strict=False):
        pair: list[Any] = list(cast("Sequence[Any]", item)) if is_sequence(item) else []
        places = [place for place in pair if type(place) is int and 0 <= place < left]
        if len(pair) != 2 or len(places) != 2 or places[0] == places[1]:
            raise _bad(stage, f"{item!r} is not a pair of different places in a list of {left}"[:200], fix)
        pairs.append((places[0], places[1]))
    if len(items) != count - 1:
        raise _bad(stage, f"{count} factors are multiplied in {count - 1} steps, and the path has {len(items)}", fix)
    return tuple(pairs)


def _find_axes(value: Expr) -> tuple[IterVar, ...]:
    return tuple(dict.fromkeys(node for node in post_order(value) if isinstance(node, IterVar)))


# The stages


@dataclass(frozen=True, eq=False)
class Operand:
    """A factor, or what several were made of: its value, and the axes of the sum that it depends on."""

    value: Expr
    axes: tuple[IterVar, ...]


class SumTree:
    """The sums that one sum becomes. made: the operations beside the last."""

    def __init__(self, op: ComputeOp, reduction: Reduce) -> None:
        self.op, self.reduction = op, reduction
        self.data = set(op.axis)
        self.made: list[ComputeOp] = []

    def build(self, operands: list[Operand], pairs: Sequence[tuple[int, int]]) -> ComputeOp:
        """The operation of the tensor after all steps."""
        everywhere = [axis for axis in self.reduction.axes if not any(axis in each.axes for each in operands)]
        for pair in pairs[:-1]:
            first, second = (operands[at] for at in pair)
            operands = [each for at, each in enumerate(operands) if at not in pair]
            operands.append(self._product(first, second, operands))
        first, second = (operands[at] for at in pairs[-1])
        first, second = self._summed_alone(first, [second]), self._summed_alone(second, [first])
        inside = {*first.axes, *second.axes, *everywhere}
        summed = tuple(axis for axis in self.reduction.axes if axis in inside)
        value = Mul(first.value, second.value)
        return replace(self.op, tag="", algorithm="", attrs=dict[str, Any](), body=(self._sum(value, summed),))

    def _product(self, first: Operand, second: Operand, others: Sequence[Operand]) -> Operand:
        """The product of two, summed over what the others do not depend on."""
        first, second = self._summed_alone(first, [second, *others]), self._summed_alone(second, [first, *others])
        theirs = [*(axis for axis in first.axes if axis in second.axes), *first.axes, *second.axes]
        return self.store(Mul(first.value, second.value), list(dict.fromkeys(theirs)), others)

    def _summed_alone(self, operand: Operand, others: Sequence[Operand]) -> Operand:
        """An operand after the sum over the axes that it alone depends on."""
        kept = self._keep(operand.axes, others)
        return operand if len(kept) == len(operand.axes) else self.store(operand.value, operand.axes, others)

    def _keep(self, axes: Sequence[IterVar], others: Sequence[Operand]) -> list[IterVar]:
        return [axis for axis in axes if axis in self.data or any(axis in other.axes for other in others)]

    def store(self, value: Expr, axes: Sequence[IterVar], others: Sequence[Operand]) -> Operand:
        """A stage for a value, summed over what the others do not depend on; what it is for those who read it."""
        kept = self._keep(axes, others)
        new: dict[Var, Expr] = {}
        data: list[IterVar] = []
        for axis in kept:
            data.append(_axis(axis, "data"))
            new[axis] = data[-1] + _begin(axis)
        summed = [axis for axis in self.reduction.axes if axis in axes and axis not in kept]
        reduced: dict[IterVar, IterVar] = {axis: _axis(axis, "reduce") for axis in summed}
        new.update({axis: each + _begin(axis) for axis, each in reduced.items()})
        body = self._sum(substitute(value, new), tuple(reduced.values()))
        name = f"{self.op.name}.product{len(self.made)}"
        made = ComputeOp(name=name, tag="", attrs={}, source=self.op.source, axis=tuple(data), body=(body,))
        self.made.append(made)
        return Operand(ProducerLoad(made.output(0), tuple(axis - _begin(axis) for axis in kept)), tuple(kept))

    def _sum(self, value: Expr, axes: tuple[IterVar, ...]) -> Expr:
        if not axes:
            return value
        fuses = bool(self.reduction.fused) and isinstance(value, Mul)
        return replace(self.reduction, sources=(value,), axes=axes, fused=(True,) if fuses else ())


def _begin(axis: IterVar) -> Expr:
    assert axis.dom is not None
    return axis.dom.begin


def _axis(axis: IterVar, kind: str) -> IterVar:
    """An axis that counts from 0, as often as another runs."""
    extent = constant_extent(axis)
    assert extent is not None
    within = Range(const(0, axis.dtype), const(extent, axis.dtype))
    return IterVar(axis.name, axis.dtype, within, "reduce" if kind == "reduce" else "data")
