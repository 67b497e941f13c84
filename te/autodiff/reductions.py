"""The adjoint of a reduction's sources, by the kind of its combiner.

sum: each source receives the adjoint of the sum. min, max: the one source that gave the value receives it, of equal
ones the first; a stage of its own finds which that is. prod: each source receives the adjoint times the product of the
others, which a stage of its own keeps apart from zeros: with no zero the quotient, with one zero the product of the
rest for that one, with more zero. Combiners of one's own: see combiners.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...base import dataclass, user_source
from ...ir import ops
from ...ir.analysis.bounds import symbolic_bounds
from ...ir.arith.analyzer import Analyzer
from ...ir.dtype import INT32, INT64, DType
from ...ir.expr import (
    GT,
    LT,
    NE,
    Add,
    CommReducer,
    Expr,
    IntImm,
    IterVar,
    Max,
    Min,
    Mul,
    ProducerLoad,
    Range,
    Reduce,
    Var,
)
from ...ir.visit import post_order, substitute
from ..operation import ComputeOp, axis_extent
from ..reduce import Reducer
from ..tag import current_tag
from .backward import Condition, Contribution
from .combiners import combined_with_rest, is_smooth
from .derivatives import times
from .errors import NotDifferentiable

__all__ = ["Piece", "derive_parts"]


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """A value of an operation's element, the axes over which it is taken, and its adjoint."""

    value: Expr
    axes: tuple[IterVar, ...]
    seed: Contribution


def derive_parts(op: ComputeOp, output: int, seed: Contribution) -> list[Piece]:
    """Return what the element of output number `output` is made of. `seed`: its adjoint, over the op's axes. Raises
    NotDifferentiable (TW0170) for a combiner that mixes values in ways of its own."""
    reduction = op.reduction
    if reduction is None:
        return [Piece(op.body[output], op.axis, seed)]
    kind = _kind(reduction.combiner, output)
    rule = _RULES.get(kind) if kind is not None else _derive_smooth if is_smooth(reduction) else None
    if rule is None:
        raise NotDifferentiable(
            f"the reduction {reduction.combiner.name} of {op.name} has no derivative that is known",
            declared=op.source,
            reason=f"its combiner gives {reduction.combiner.result[output]}",
            called=user_source(),
            allowed="sum, min, max and prod, also several of them in one stage, and combiners of floats that choose nothing",
            fix="write it by te.sum, te.min, te.max or te.prod: the value at an argmax is te.max",
        )
    return rule(op, reduction, output, seed)


def _kind(combiner: CommReducer, output: int) -> type[Expr] | None:
    """The operator that combines component `output` with itself alone; None where there is none."""
    result, lhs, rhs = combiner.result[output], combiner.lhs[output], combiner.rhs[output]
    if isinstance(result, (Add, Mul, Min, Max)) and {result.a, result.b} == {lhs, rhs}:
        return type(result)
    return None


def _where(reduction: Reduce) -> tuple[Condition, ...]:
    return () if ops.is_const(reduction.condition, 1) else (Condition(reduction.condition, lazy=True),)


def _derive_sum(op: ComputeOp, reduction: Reduce, output: int, seed: Contribution) -> list[Piece]:
    held = Contribution((*seed.conditions, *_where(reduction)), seed.value)
    pieces = [Piece(reduction.sources[output], (*op.axis, *reduction.axes), held)]
    if reduction.init:
        pieces.append(Piece(reduction.init[output], op.axis, seed))
    return pieces


def _derive_smooth(op: ComputeOp, reduction: Reduce, output: int, seed: Contribution) -> list[Piece]:
    value, init = combined_with_rest(op, reduction, output)
    pieces = [Piece(value, (*op.axis, *reduction.axes), _condition(seed, *_where(reduction)))]
    if init is not None:
        pieces.append(Piece(init, op.axis, seed))
    return pieces


# Which source gave the extremum


def _derive_extremum(op: ComputeOp, reduction: Reduce, output: int, seed: Contribution) -> list[Piece]:
    source = reduction.sources[output]
    position = _position(op, reduction)
    chosen = ProducerLoad(_build_choice(op, reduction, output, position).output(0), op.axis)
    here = Condition(ops.equal(position, chosen))
    pieces = [Piece(source, (*op.axis, *reduction.axes), _condition(seed, *_where(reduction), here))]
    if reduction.init:
        pieces.append(Piece(reduction.init[output], op.axis, _condition(seed, Condition(ops.equal(chosen, -1)))))
    return pieces


def _condition(seed: Contribution, *conditions: Condition) -> Contribution:
    return Contribution((*seed.conditions, *conditions), seed.value)


def _position(op: ComputeOp, reduction: Reduce) -> Expr:
    """A number for each iteration of the reduction, growing in the order of its loops."""
    analyzer = Analyzer()
    for axis in (*op.axis, *reduction.axes):
        if axis.dom is not None and not any(isinstance(n, ProducerLoad) for n in post_order(axis.dom.extent)):
            analyzer.bind(axis, axis.dom)
    extents = [_most(axis, reduction, op, analyzer) for axis in reduction.axes]
    dtype = _wide_enough(extents)
    position: Expr = ops.const(0, dtype)
    for axis, extent in zip(reduction.axes, extents, strict=True):
        assert axis.dom is not None
        within = ops.cast(ops.subtract(axis, axis.dom.begin), dtype)
        position = ops.add(ops.multiply(position, ops.cast(extent, dtype)), within)
    return position


def _most(axis: IterVar, reduction: Reduce, op: ComputeOp, analyzer: Analyzer) -> Expr:
    """The extent of a reduce axis, or the greatest where it depends on other reduce axes."""
    extent = axis_extent(axis)
    if not any(isinstance(node, IterVar) and node in reduction.axes for node in post_order(extent)):
        return extent
    most = (
        None
        if any(isinstance(node, ProducerLoad) for node in post_order(extent))
        else symbolic_bounds(analyzer, extent, reduction.axes)[1]
    )
    if most is None:
        raise NotDifferentiable(
            f"the gradient of {op.name} needs the greatest extent of '{axis.name}'",
            declared=op.source,
            reason=f"it is {extent}: positions in the reduction cannot be numbered",
            called=user_source(),
            fix=f"reduce over '{axis.name}' in a stage of its own",
        )
    return most


def _wide_enough(extents: Sequence[Expr]) -> DType:
    count = 1
    for extent in extents:
        if not isinstance(extent, IntImm):
            return INT64
        count *= max(extent.value, 1)
    return INT32 if count < INT32.greatest else INT64


def _build_choice(op: ComputeOp, reduction: Reduce, output: int, position: Expr) -> ComputeOp:
    """The stage that says at which position the extremum of each element stands: of equal values at the first, and of
    NaNs at one of them. An `init` that is the extremum stands at -1."""
    better = GT if _kind(reduction.combiner, output) is Max else LT

    def combine(a: tuple[Expr, Expr], b: tuple[Expr, Expr]) -> tuple[Expr, Expr]:
        (i, x), (j, y) = a, b
        earlier = ops.conjunction(ops.equal(y, x), ops.compare(LT, j, i))
        missing = ops.conjunction(ops.compare(NE, y, y), ops.equal(x, x))
        second = ops.disjunction(ops.compare(better, y, x), earlier, missing)
        return ops.select(second, j, i), ops.select(second, y, x)

    dtype = position.dtype
    reducer = Reducer(
        combine,
        lambda *_: (ops.const(dtype.greatest, dtype), reduction.combiner.identity[output]),
        f"arg{reduction.combiner.name}",
    )
    init = (ops.const(-1, dtype), reduction.init[output]) if reduction.init else None
    return _stage(
        f"{op.name}_at",
        op,
        lambda again: reducer(
            (again(position), again(reduction.sources[output])),
            axis=again.axes,
            where=again(reduction.condition),
            init=None if init is None else tuple(map(again, init)),
        ),
    )


# Products without one factor


def _derive_product(op: ComputeOp, reduction: Reduce, output: int, seed: Contribution) -> list[Piece]:
    source = reduction.sources[output]
    parts = _product_and_zeros(op, reduction, output)
    product, zeros = (ProducerLoad(part, op.axis) for part in parts.outputs)

    def rest(factor: Expr) -> Contribution:
        """The product of the other factors, and the adjoint of this one by it."""
        alone = ops.conjunction(ops.equal(zeros, 1), ops.equal(factor, 0.0))
        none = ops.equal(zeros, 0)
        others = ops.select(none, ops.divide(product, factor), ops.select(alone, product, ops.const(0, source.dtype)))
        return Contribution(seed.conditions, times(seed.value, others))

    pieces = [Piece(source, (*op.axis, *reduction.axes), _condition(rest(source), *_where(reduction)))]
    if reduction.init:
        pieces.append(Piece(reduction.init[output], op.axis, rest(reduction.init[output])))
    return pieces


def _product_and_zeros(op: ComputeOp, reduction: Reduce, output: int) -> ComputeOp:
    """The product of the factors that are not zero, and how many are."""
    reducer = Reducer(
        lambda a, b: (a[0] * b[0], a[1] + b[1]),
        lambda *_: (ops.const(1, reduction.sources[output].dtype), ops.const(0, INT32)),
        "prod_and_zeros",
    )

    def split(factor: Expr) -> tuple[Expr, Expr]:
        zero = ops.equal(factor, 0.0)
        return ops.select(zero, 1.0, factor), ops.select(zero, ops.const(1, INT32), ops.const(0, INT32))

    return _stage(
        f"{op.name}_parts",
        op,
        lambda again: reducer(
            split(again(reduction.sources[output])),
            axis=again.axes,
            where=again(reduction.condition),
            init=split(again(reduction.init[output])) if reduction.init else None,
        ),
    )


_RULES: dict[type[Expr], Callable[[ComputeOp, Reduce, int, Contribution], list[Piece]]] = {
    Add: _derive_sum,
    Min: _derive_extremum,
    Max: _derive_extremum,
    Mul: _derive_product,
}


class _Again:
    """The expressions of an operation over new axes: each operation has its own."""

    def __init__(self, op: ComputeOp) -> None:
        self.renamed: dict[Var, Expr] = {}
        self.axis = tuple(map(self._copy, op.axis))
        self.axes = tuple(map(self._copy, op.reduce_axis))

    def _copy(self, axis: IterVar) -> IterVar:
        assert axis.dom is not None
        domain = Range(self(axis.dom.begin), self(axis.dom.extent))
        new = IterVar(axis.name, axis.dtype, domain, axis.kind)
        self.renamed[axis] = new
        return new

    def __call__(self, value: Expr) -> Expr:
        return substitute(value, self.renamed)


def _stage(name: str, op: ComputeOp, body: Callable[[_Again], tuple[Expr, ...]]) -> ComputeOp:
    """A stage over the same elements as `op`."""
    again = _Again(op)
    return ComputeOp(name=name, tag=current_tag(), source=user_source(), axis=again.axis, body=tuple(body(again)))
