"""Offsets from int64 to int32 where they are proved to fit.

    A[int64(i) * 1024 + int64(j)]      →      A[i * 1024 + j]

A GPU computes in 32 bits: 64-bit offsets cost it twice the registers and several times the instructions. An offset is
narrowed where every step towards it is bounded within int32 by the ranges of loops, threads and extents; what the
extents of the call decide stays int64.
"""

from __future__ import annotations

from ...dtype import INT64
from ...expr import Expr, Max, Min, TruncDiv, TruncMod
from ...stmt import Function
from ..common.narrow import Narrower
from ..common.simplify import build_analyzer

__all__ = ["narrow_arithmetic"]


def narrow_arithmetic(function: Function, whole: Function) -> Function:
    """`function`, a kernel of `whole`, with int32 offsets where they are proved to be in range."""
    return function.with_body(_EveryOffset(build_analyzer(whole)).visit(function.body))


class _EveryOffset(Narrower):
    operators = (*Narrower.operators, TruncDiv, TruncMod, Min, Max)

    def wants(self, index: Expr) -> bool:
        return index.dtype.element == INT64
