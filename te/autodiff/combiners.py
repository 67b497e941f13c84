"""Reductions by a smooth combiner of one's own.

By associativity and commutativity the value is combine(the rest, e) for each of the sources e, so its derivative by e is
that of the combiner by its second operand, at the rest. A stage of its own computes the rest for each iteration: the
reduction without that iteration, which makes the work quadratic in the number of iterations.

A combiner that chooses (argmax) is not taken: where it chooses between equals, neither of them would get the derivative.
"""

from __future__ import annotations

from dataclasses import replace

from ...base.errors import user_source
from ...ir import ops
from ...ir.expr import (
    NE,
    CommReducer,
    CompareOp,
    Expr,
    IfThenElse,
    IterVar,
    Max,
    Min,
    ProducerLoad,
    Range,
    Reduce,
    Select,
    Var,
)
from ...ir.visit import post_order, substitute
from ..operation import ComputeOp, axis_extent
from ..shape import zero_based
from ..tag import current_tag

__all__ = ["combined_with_rest", "is_smooth"]


def is_smooth(reduction: Reduce) -> bool:
    """Return whether the combiner chooses nothing, over floats, and each iteration can be numbered."""
    nodes = [node for value in reduction.combiner.result for node in post_order(value)]
    rectangular = all(  # each iteration needs a number, which ragged domains do not give
        axis.dom is not None
        and not any(
            isinstance(node, (IterVar, ProducerLoad))
            for end in (axis.dom.begin, axis.dom.extent)
            for node in post_order(end)
        )
        for axis in reduction.axes
    )
    return (
        rectangular
        and all(source.dtype.is_float for source in reduction.sources)
        # where it chooses between equals, no derivative is right
        and not any(isinstance(node, (Select, IfThenElse, Min, Max, CompareOp)) for node in nodes)
    )


def combined_with_rest(op: ComputeOp, reduction: Reduce, output: int) -> tuple[Expr, Expr | None]:
    """Output number `output` as combine(the rest, an iteration's sources), over the op's axes and its reduce axes, in
    which only the second operand is to be differentiated; and likewise as combine(the rest, init), over its axes."""
    combiner = reduction.combiner
    rest = _rest(op, reduction)
    places = [ops.subtract(axis, _begin(axis)) for axis in reduction.axes]  # axes may begin elsewhere than at 0
    loads = tuple(ProducerLoad(part, (*op.axis, *places)) for part in rest.outputs)
    value = _combine(combiner, output, loads, reduction.sources)
    if not reduction.init:
        return value, None  # init is a further operand, whose derivative is taken apart
    others = _stage(f"{op.name}_sources", op.axis, (), replace(reduction, init=()))
    return value, _combine(
        combiner, output, tuple(ProducerLoad(part, op.axis) for part in others.outputs), reduction.init
    )


def _combine(combiner: CommReducer, output: int, first: tuple[Expr, ...], second: tuple[Expr, ...]) -> Expr:
    # lhs is the rest, rhs what is differentiated
    values: dict[Var, Expr] = dict(zip((*combiner.lhs, *combiner.rhs), (*first, *second), strict=True))
    return substitute(combiner.result[output], values)


def _begin(axis: IterVar) -> Expr:
    return axis.dom.begin if axis.dom is not None else ops.const(0, axis.dtype)


def _rest(op: ComputeOp, reduction: Reduce) -> ComputeOp:
    """The reduction without each of its iterations in turn."""
    left_out = tuple(IterVar(f"{axis.name}_out", axis.dtype, zero_based(axis_extent(axis))) for axis in reduction.axes)
    another = ops.disjunction(  # all iterations but one: some axis differs
        *(
            ops.compare(NE, ops.subtract(axis, _begin(axis)), out)
            for axis, out in zip(reduction.axes, left_out, strict=True)
        )
    )
    return _stage(
        f"{op.name}_rest",
        op.axis,
        left_out,
        replace(reduction, condition=ops.conjunction(another, reduction.condition), value_index=0),
    )  # init belongs to the whole, not to the rest


def _stage(name: str, axes: tuple[IterVar, ...], more: tuple[IterVar, ...], reduction: Reduce) -> ComputeOp:
    """The operation of a reduction over copies of its axes: each operation has its own."""
    copies: list[IterVar] = []
    for axis in (*axes, *reduction.axes):  # an operation's axes are its own
        assert axis.dom is not None
        copies.append(IterVar(axis.name, axis.dtype, Range(axis.dom.begin, axis.dom.extent), axis.kind))
    renamed: dict[Var, Expr] = dict(zip((*axes, *reduction.axes), copies, strict=True))
    own, reduced = tuple(copies[: len(axes)]), tuple(copies[len(axes) :])
    renamed_reduction = replace(substitute(reduction, renamed), axes=reduced)
    body = tuple(replace(renamed_reduction, value_index=at) for at in range(len(renamed_reduction.sources)))
    return ComputeOp(name=name, tag=current_tag(), source=user_source(), axis=(*own, *more), body=body)
