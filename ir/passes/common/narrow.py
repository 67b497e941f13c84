"""Gathered offsets from int64 to int32 where they are proved to fit.

    A[int64x16(i * 8) + ramp(...) // 3]      →      A[int32 lanes]

A scalar offset, and the base of a ramp, cost a 64-bit machine nothing: they are its addresses. A vector of offsets
costs twice the registers and twice the gathers. An offset is narrowed where the analyzer bounds every intermediate
value within int32; what it cannot bound stays int64.

It stands after unroll, when every gather is there.
"""

from __future__ import annotations

from typing import Any, ClassVar

from ...arith.analyzer import Analyzer
from ...arith.bounds import bound_node
from ...contents import require_any
from ...dtype import INT32, INT64
from ...expr import (
    Add,
    BinaryOp,
    Broadcast,
    BufferLoad,
    Cast,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Mul,
    Ramp,
    Range,
    Sub,
    Var,
)
from ...ops import const
from ...stmt import BufferStore, For, Function, Stmt
from ...visit import SharingRewriter, rebuild
from .simplify import build_analyzer

__all__ = ["Narrower", "narrow_offsets"]


@require_any((BufferLoad, 0), (BufferStore, 0))  # without a gather there is nothing to prove
def narrow_offsets(function: Function) -> Function:
    """`function` with int32 gathers and scatters where they are proved to be in range."""
    return function.with_body(Narrower(build_analyzer(function)).visit(function.body))


def _gathers(index: Expr) -> bool:
    return index.dtype.lanes > 1 and index.dtype.element == INT64 and not isinstance(index, Ramp)


class Narrower(SharingRewriter):
    """Narrows the offsets that `wants` names, through `operators`; a target with other costs has a subclass."""

    operators: ClassVar[tuple[type[BinaryOp], ...]] = (Add, Sub, Mul, FloorDiv, FloorMod)

    def __init__(self, analyzer: Analyzer) -> None:
        super().__init__()
        self.analyzer = analyzer

    def For(self, node: For) -> Stmt:
        self.analyzer.bind(node.var, Range(node.begin, node.extent))
        return self.generic(node)

    def BufferLoad(self, node: BufferLoad) -> Expr:
        return self._access(node)

    def BufferStore(self, node: BufferStore) -> Stmt:
        return self._access(node)

    def _access(self, node: Any) -> Any:
        new = self.generic(node)
        index = new.indices[0]
        if not self.wants(index):
            return new
        narrow = self._narrow(index)
        return (
            new
            if narrow is None
            else rebuild(
                new,
                [
                    *([new.value] if isinstance(new, BufferStore) else []),
                    narrow,
                    *([] if new.predicate is None else [new.predicate]),
                ],
            )
        )

    def wants(self, index: Expr) -> bool:
        """Return whether this offset is worth narrowing."""
        return _gathers(index)

    def _narrow(self, expr: Expr) -> Expr | None:
        """The same value in int32, or None where it, or a step towards it, is not known to fit."""
        dtype = INT32.with_lanes(expr.dtype.lanes)
        if isinstance(expr, Cast) and expr.value.dtype.element == INT32:
            return expr.value  # undo the cast that flatten made
        if isinstance(expr, IntImm):
            return const(expr.value, INT32) if INT32.least <= expr.value <= INT32.greatest else None
        if not self._fits(expr):  # each intermediate value must fit too: int32 wraps
            return None
        if isinstance(expr, self.operators):
            a, b = self._narrow(expr.a), self._narrow(expr.b)
            return None if a is None or b is None else type(expr)(a, b)
        if isinstance(expr, Broadcast):
            value = self._narrow(expr.value)
            return None if value is None else Broadcast(value, expr.lanes)
        if isinstance(expr, Ramp):
            base, stride = self._narrow(expr.base), self._narrow(expr.stride)
            return None if base is None or stride is None else Ramp(base, stride, expr.lanes)
        return Cast(expr, dtype) if isinstance(expr, Var) else None

    def _fits(self, expr: Expr) -> bool:
        within = (
            INT32.least,
            INT32.greatest,
        )  # as it is written, most often: simplifying every part of a sum takes its square
        # the cheap bound first; the exact one simplifies the whole sum
        return bound_node(self.analyzer.scope, expr).within(*within) or self.analyzer.interval(expr).within(*within)
