"""The symbols of operations."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.expr import Var
from ...ir.visit import free_vars
from ...te.operation import Operation

__all__ = ["free_symbols"]


def free_symbols(operations: Sequence[Operation]) -> list[Var]:
    """The variables that the operations leave open, in the order of first use: those of shapes and scalar arguments."""
    symbols: dict[Var, None] = {}
    for op in operations:
        axes = {*op.axis, *op.reduce_axis}
        for part in (*(extent for shape in op.output_shapes for extent in shape), *op.parts):
            symbols.update(dict.fromkeys(var for var in free_vars(part) if var not in axes))
    return list(symbols)
