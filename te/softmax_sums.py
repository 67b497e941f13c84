"""Sums weighted by exponentials that a maximum is taken from, recognised by their form.

    peak[i]      = max over j of x[i, j]
    weight[i, j] = exp(x[i, j] - peak[i])
    total[i]     = sum over j of weight[i, j]
    value[i, e]  = sum over j of weight[i, j] / total[i] * v[j, e]        or divided by the total later, or not at all

Whatever stands between is looked through, element by element operations and conversions, whoever declared it. What is taken away
may be any number without changing the quotient of two such sums; the largest keeps exponentials finite.
"""

from __future__ import annotations

import math

from ..base import dataclass, replace
from ..ir.combine import is_sum
from ..ir.dtype import DType
from ..ir.expr import (
    GE,
    GT,
    LE,
    LT,
    Call,
    Cast,
    Div,
    Expr,
    FloatImm,
    IterVar,
    Max,
    Mul,
    Node,
    ProducerLoad,
    Reduce,
    Select,
    Sub,
)
from ..ir.ops import is_const
from ..ir.structural import structural_key
from ..ir.visit import post_order, rewrite, substitute
from .operation import Operation
from .rewrite import substitute_axes
from .tensor import Tensor, find_tensor

__all__ = ["WeightedSum", "Weights", "rows_of_total", "weighted_sum"]


@dataclass(frozen=True)
class Weights:
    """exp(value - peak) of a term. power: the exponential as it stands; difference: what of it is value - peak; peak: the read of a
    maximum over the same terms; source: what that is the maximum of, at this term. stored: the dtype that weights are rounded to
    before they are multiplied, where that is not their own."""

    power: Expr
    difference: Sub
    peak: ProducerLoad
    source: Expr
    stored: DType | None = None

    @property
    def value(self) -> Expr:
        return self.difference.a

    def unscale(self) -> tuple[Expr, FloatImm | None, list[Operation]]:
        """Return the value without the positive number that it is multiplied with, that number, and the operations looked through. The
        greatest product is that of the greatest value: rounding keeps their order. None for the number where there is none."""
        if _least(self.source) is not None:
            return self.value, None, []
        through: list[Operation] = []
        value, scale = _unscale(self.value, through)
        return (self.value, None, []) if scale is None else (value, scale, through)

    @property
    def axes(self) -> tuple[IterVar, ...]:
        """Return the axes of rows, in the order in which the maximum is indexed."""
        return tuple(index for index in self.peak.indices if isinstance(index, IterVar))

    def find_source(self, value: Expr) -> Expr:
        """Return what the maximum is taken of, for another value."""
        least = _least(self.source)
        return value if least is None else Max(value, least)

    @property
    def is_bounded(self) -> bool:
        """Return whether the maximum is a finite number, or more, whatever it is taken of."""
        identity = _reduction(self.peak).combiner.identity[0]
        return _is_finite(identity) or _least(self.source) is not None

    def find_power(self, difference: Expr) -> Expr:
        """The exponential of another difference."""

        def rule(node: Node) -> Node | None:
            return difference if node is self.difference else None

        return rewrite(self.power, rule)


@dataclass(frozen=True)
class WeightedSum:
    """The sum over `axis` of weights times `factor`. norm: what else weights are multiplied with, or divided by, the same for all
    terms of a row, as a function of the read of a total in it; None for both where there is none."""

    op: Operation
    axis: IterVar
    weights: Weights
    factor: Expr
    norm: Div | Mul | None = None
    total: ProducerLoad | None = None


def weighted_sum(op: Operation) -> WeightedSum | None:
    """Return how an operation is such a sum, over one axis; None where it is not."""
    if not _is_plain_sum(op):
        return None
    assert op.reduction is not None
    axis, term = op.reduce_axis[0], op.reduction.sources[0]
    if not isinstance(term, Mul):
        return None
    for side, factor in ((term.a, term.b), (term.b, term.a)):
        found = _normalise(_Spine(side), axis)
        if found is not None:
            return replace(found, op=op, factor=factor)
    return None


def rows_of_total(op: Operation, found: WeightedSum) -> dict[IterVar, IterVar] | None:
    """Return, for each data axis of an operation that adds up these weights themselves, the one of the weighted sum that it is; None of
    another operation."""
    if not _is_plain_sum(op):
        return None
    assert op.reduction is not None
    weights, own = found.weights, _weights(_Spine(op.reduction.sources[0]), op.reduce_axis[0])
    if own is None or own.peak.producer is not weights.peak.producer or len(own.axes) != len(own.peak.indices):
        return None
    rows = dict(zip(own.axes, weights.axes, strict=True))
    there = {**rows, op.reduce_axis[0]: found.axis}
    same = structural_key(substitute(own.power, {**there})) == structural_key(weights.power)
    return rows if same and rows.keys() == {*op.axis} else None


def _is_plain_sum(op: Operation) -> bool:
    """Return whether it is one sum over one axis, from 0 on, of all terms."""
    reduction = op.reduction
    return (
        reduction is not None
        and op.num_outputs == 1
        and not op.calls_intrinsic
        and is_sum(reduction)
        and _covers_one_axis(op, reduction)
    )


def _covers_one_axis(op: Operation, reduction: Reduce) -> bool:
    """Return whether it runs over all of one axis, from 0 on."""
    domains = [axis.dom for axis in op.reduce_axis if axis.dom is not None and is_const(axis.dom.begin, 0)]
    return len(domains) == len(op.reduce_axis) == 1 and not reduction.init and is_const(reduction.condition, 1)


class _Spine:
    """An expression, the reads of element by element operations at its root replaced by what these compute. stored: what it is
    converted to on the way, the last dtype that is stored."""

    def __init__(self, value: Expr, stored: DType | None = None) -> None:
        self.stored = stored
        self.value = value
        while True:
            if isinstance(self.value, Cast) and self.value.dtype.is_float and self.value.value.dtype.is_float:
                narrow = min(self.value.dtype, self.value.value.dtype, key=lambda dtype: dtype.bits)
                self.stored = narrow if self.stored is None or narrow.bits < self.stored.bits else self.stored
                self.value = self.value.value
                continue
            definition = _definition(self.value)
            if definition is None:
                return
            self.value = definition

    def below(self, value: Expr) -> _Spine:
        return _Spine(value, self.stored)


def _definition(value: Expr) -> Expr | None:
    """Return what an element by element operation computes of the element that is read; None of anything else."""
    if not isinstance(value, ProducerLoad) or not isinstance(value.producer, Tensor):
        return None
    op = value.producer.op
    if not op.values or op.calls_intrinsic or op.reduction is not None or op.num_outputs > 1:
        return None
    return substitute_axes(op.values[0], op.axis, value.indices)


def _unscale(value: Expr, through: list[Operation]) -> tuple[Expr, FloatImm | None]:
    """Return a value, -inf where it is not seen, without the positive number that it is multiplied with, and that number."""
    while isinstance(value, ProducerLoad) and (definition := _definition(value)) is not None:
        through.append(find_tensor(value).op)
        value = definition
    if isinstance(value, Mul) and isinstance(value.b, FloatImm) and 0 < value.b.value < math.inf:
        return value.a, value.b
    if isinstance(value, Select) and is_const(value.false_value, -math.inf):
        seen, scale = _unscale(value.true_value, through)
        return replace(value, true_value=seen), scale
    return value, None


def _normalise(spine: _Spine, axis: IterVar) -> WeightedSum | None:
    """Weights, with what they are divided by, or multiplied with, if it is the same for all terms."""
    value = spine.value
    weights = _weights(spine, axis)
    if weights is not None:
        return WeightedSum(find_tensor(weights.peak).op, axis, weights, value)
    if not isinstance(value, Div | Mul):
        return None
    for side, other in ((value.a, value.b), (value.b, value.a))[: 1 if isinstance(value, Div) else 2]:
        weights = _weights(spine.below(side), axis)
        norm = _Spine(other).value
        totals = [node for node in post_order(norm) if isinstance(node, ProducerLoad)]
        if weights is not None and len(totals) == 1 and not any(node is axis for node in post_order(norm)):
            whole = replace(value, a=weights.power, b=norm)
            return WeightedSum(find_tensor(weights.peak).op, axis, weights, value, whole, totals[0])
    return None


def _weights(spine: _Spine, axis: IterVar) -> Weights | None:
    power = spine.value
    if not isinstance(power, Call) or power.name not in ("exp", "exp2") or not power.dtype.is_float:
        return None
    inner = _Spine(power.args[0]).value
    difference: Expr = inner
    if isinstance(inner, Mul):  # by a number, the same for all terms
        difference = _Spine(inner.a).value if isinstance(inner.b, FloatImm) else inner
        if isinstance(inner.b, FloatImm) and not inner.b.value > 0:
            return None
    if not isinstance(difference, Sub):
        return None
    peak = _Spine(difference.b).value
    if not isinstance(peak, ProducerLoad) or any(node is axis for node in post_order(peak)):
        return None
    source = _find_maximum(peak, axis)
    own = _key(difference.a)
    if source is None or own != _key(source) and (_least(source) is None or own != _key(_clamp(source))):
        return None
    taken = Sub(difference.a, peak)
    whole = Mul(taken, inner.b) if isinstance(inner, Mul) else taken
    return Weights(
        replace(power, args=(whole,)),
        taken,
        peak,
        source,
        spine.stored if spine.stored is not None and spine.stored != power.dtype else None,
    )


def _key(value: Expr) -> object:
    return structural_key(_Spine(value).value)


def _find_maximum(load: ProducerLoad, axis: IterVar) -> Expr | None:
    """Return what the maximum that is read is taken of, at the term that `axis` says; None where it is another reduction, or runs over
    other terms."""
    op = load.producer.op if isinstance(load.producer, Tensor) else None
    reduction = op.reduction if op is not None else None
    if (
        op is None
        or reduction is None
        or op.num_outputs > 1
        or op.calls_intrinsic
        or not _covers_one_axis(op, reduction)
    ):
        return None
    own = op.reduce_axis[0]
    there: dict[IterVar, Expr] = dict(zip(op.axis, load.indices, strict=True))
    assert own.dom is not None
    assert axis.dom is not None
    if not _is_maximum(reduction) or structural_key(substitute(own.dom.extent, {**there})) != structural_key(
        axis.dom.extent
    ):
        return None
    return substitute(reduction.sources[0], {**there, own: axis})


def _reduction(load: ProducerLoad) -> Reduce:
    assert isinstance(load.producer, Tensor)
    assert load.producer.op.reduction is not None
    return load.producer.op.reduction


def _is_maximum(reduction: Reduce) -> bool:
    combiner, result = reduction.combiner, reduction.combiner.result[0]
    both = {combiner.lhs[0], combiner.rhs[0]}
    if isinstance(result, Max):
        return {result.a, result.b} == both
    if not isinstance(result, Select) or {result.true_value, result.false_value} != both:
        return False
    order = result.condition
    if isinstance(order, LT | LE):
        return order.a is result.false_value and order.b is result.true_value
    return isinstance(order, GT | GE) and order.a is result.true_value and order.b is result.false_value


def _least(source: Expr) -> Expr | None:
    """The finite number that a value is at least; None where it may be any."""
    return next(filter(_is_finite, (source.a, source.b)), None) if isinstance(source, Max) else None


def _clamp(source: Expr) -> Expr:
    """Return what a value is that is at least some finite number."""
    assert isinstance(source, Max)
    return source.a if _least(source) is source.b else source.b


def _is_finite(value: Expr) -> bool:
    return isinstance(value, FloatImm) and abs(value.value) < float("inf")
