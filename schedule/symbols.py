"""The symbols of operations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..ir.expr import Expr, Reduce, Var
from ..ir.visit import free_vars
from ..te.operation import ComputeOp, Operation

__all__ = ["free_symbols"]


def free_symbols(operations: Sequence[Operation]) -> list[Var]:
    """The variables that the operations leave open, in the order of first use: those of shapes and scalar arguments."""
    found: dict[Var, None] = {}
    for op in operations:
        axes = {*op.axis, *op.reduce_axis}
        for expr in _expressions(op):
            found.update(dict.fromkeys(var for var in free_vars(expr) if var not in axes))
    return list(found)


def _expressions(op: Operation) -> Iterator[Expr]:
    yield from op.output_shape
    if isinstance(op, ComputeOp):
        for axis in op.reduce_axis:
            if axis.dom is not None:
                yield from (axis.dom.begin, axis.dom.extent)
        first = op.body[0]
        yield from op.body[:1] if isinstance(first, Reduce) else op.body
