"""Offsets from int64 to int32 where they are proved to fit.

    A[int64(i) * 1024 + int64(j)]      →      A[i * 1024 + j]

A GPU computes in 32 bits: 64-bit offsets cost it twice the registers and several times the instructions. An offset is
narrowed where every step towards it is bounded within int32 by the ranges of loops, threads and extents; what the
extents of the call decide stays int64.
"""

from __future__ import annotations

from typing import Any

from ..arith.analyzer import Analyzer
from ..dtype import INT32, INT64
from ..expr import (
    Add, Broadcast, BufferLoad, Cast, Expr, FloorDiv, FloorMod, IntImm, Max, Min, Mul, Ramp, Range, Sub, TruncDiv, TruncMod,
    Var,
)
from ..ops import const
from ..stmt import BufferStore, For, Function, Stmt
from ..visit import Rewriter, rebuild
from .simplify import analyzer_for

__all__ = ["narrow_arithmetic"]

_OPERATORS = (Add, Sub, Mul, FloorDiv, FloorMod, TruncDiv, TruncMod, Min, Max)


def narrow_arithmetic(function: Function, whole: Function) -> Function:
    """`function`, a kernel of `whole`, with int32 offsets where they are proved to be in range."""
    return function.with_body(_Narrower(analyzer_for(whole)).visit(function.body))


class _Narrower(Rewriter):
    def __init__(self, analyzer: Analyzer) -> None:
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
        narrow = self.narrowed(index) if index.dtype.element == INT64 else None
        if narrow is None:
            return new
        value = [new.value] if isinstance(new, BufferStore) else []
        return rebuild(new, [*value, narrow, *([] if new.predicate is None else [new.predicate])])

    def narrowed(self, expr: Expr) -> Expr | None:
        """The same value in int32, or None where it, or a step towards it, is not known to fit."""
        dtype = INT32.with_lanes(expr.dtype.lanes)
        if isinstance(expr, Cast) and expr.value.dtype.element == INT32:
            return expr.value
        if isinstance(expr, IntImm):
            return const(expr.value, INT32) if INT32.least <= expr.value <= INT32.greatest else None
        if not self._fits(expr):
            return None
        if isinstance(expr, _OPERATORS):
            a, b = self.narrowed(expr.a), self.narrowed(expr.b)
            return None if a is None or b is None else type(expr)(a, b)
        if isinstance(expr, Broadcast):
            value = self.narrowed(expr.value)
            return None if value is None else Broadcast(value, expr.lanes)
        if isinstance(expr, Ramp):
            base, stride = self.narrowed(expr.base), self.narrowed(expr.stride)
            return None if base is None or stride is None else Ramp(base, stride, expr.lanes)
        return Cast(expr, dtype) if isinstance(expr, Var) else None

    def _fits(self, expr: Expr) -> bool:
        low, high = self.analyzer.interval(expr).lo, self.analyzer.interval(expr).hi
        return low is not None and high is not None and low >= INT32.least and high <= INT32.greatest
