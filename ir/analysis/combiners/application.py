"""Combiners applied to many operands at once, by the interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...buffer import Buffer
from ...dtype import INT32
from ...expr import BufferLoad, CommReducer, Expr, Var
from ...interpret.interpreter import Interpreter
from ...interpret.scalars import numpy_dtype
from ...ops import const
from ...stmt import BufferStore, For, Function, LoopKind
from ...visit import post_order, seq, substitute

__all__ = ["Application", "Values", "is_closed"]

Values = list[np.ndarray[Any, Any]]
"""An array for each element of a combiner's operand."""


def is_closed(part: CommReducer) -> bool:
    """Return whether a combiner and its identity read nothing but its operands."""
    operands = {*part.lhs, *part.rhs}
    return not any(
        # a combiner that reads other things is no function of its operands
        (isinstance(node, Var) and node not in operands) or hasattr(node, "producer") or isinstance(node, BufferLoad)
        for node in post_order(*part.result, *part.identity)
    )


class Application:
    """A combiner as a function of arrays. Only of one that is closed."""

    def __init__(self, part: CommReducer) -> None:
        size, at = Var("n", INT32), Var("i", INT32)
        left, right, out = (
            [Buffer(f"{name}{place}", (size,), var.dtype) for place, var in enumerate(part.lhs)]
            for name in ("left", "right", "out")
        )
        operands: dict[Var, Expr] = {
            var: BufferLoad(buffer, (at,)) for var, buffer in zip((*part.lhs, *part.rhs), (*left, *right), strict=True)
        }
        stores = (
            BufferStore(buffer, substitute(value, operands), (at,))
            for buffer, value in zip(out, part.result, strict=True)
        )
        loop = For(at, const(0, INT32), size, LoopKind.SERIAL, seq(*stores))
        begun = (
            BufferStore(buffer, value, (const(0, INT32),)) for buffer, value in zip(out, part.identity, strict=True)
        )
        self.dtypes = [numpy_dtype(var.dtype) for var in part.lhs]
        # rows of operands are combined by one run of a loop
        self.combine = Interpreter(Function("combine", (*left, *right, *out), loop, tuple(out)), check=False)
        self.begin = Interpreter(Function("begin", tuple(out), seq(*begun), tuple(out)), check=False)

    def __call__(self, left: Sequence[Any], right: Sequence[Any]) -> Values:
        """The combination of each of the left operands with the right one at its place."""
        out = [np.empty(len(left[0]), dtype) for dtype in self.dtypes]
        self.combine(*map(np.ascontiguousarray, left), *map(np.ascontiguousarray, right), *out)
        return out

    def identity(self) -> Values:
        """The identity, once."""
        out = [np.empty(1, dtype) for dtype in self.dtypes]
        self.begin(*out)
        return out
