"""tvm.arith."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from ...ir import ops
from ...ir.arith import Analyzer as _Analyzer
from ...ir.arith.modular import Modular
from ...ir.expr import Expr, Var

__all__ = ["Analyzer", "ConstIntBound"]


class ConstIntBound(NamedTuple):
    """The least and the greatest value that an expression may have; ±(2**63 - 1) where nothing bounds it."""

    min_value: int
    max_value: int

    POS_INF = 2**63 - 1
    NEG_INF = -(2**63 - 1)


class Analyzer(_Analyzer):
    """Our analyzer with TVM's names beside its own."""

    def bind(self, var: Var, value: Any) -> None:
        """`var` lies in a range or equals an expression, also an integer."""
        super().bind(var, ops.const(value, var.dtype) if isinstance(value, int) else value)

    def update(self, var: Var, info: ConstIntBound, override: bool = False) -> None:
        """`var` lies within known bounds."""
        del override
        super().bind(var, (info.min_value, info.max_value))

    def const_int_bound(self, expr: Expr) -> ConstIntBound:
        """Bounds of the value of an integer expression."""
        lo, hi = self.interval(expr)
        return ConstIntBound(ConstIntBound.NEG_INF if lo is None else lo, ConstIntBound.POS_INF if hi is None else hi)

    def modular_set(self, expr: Expr) -> Modular:
        """.coeff and .base: the expression is base + k * coeff."""
        return self.modular(expr)

    def constraint_scope(self, constraint: Expr) -> AbstractContextManager[None]:
        """Within it the constraint holds."""
        return self.constraint(constraint)

    def rewrite_simplify(self, expr: Expr) -> Expr:
        """As simplify."""
        return self.simplify(expr)

    canonical_simplify = rewrite_simplify

    def can_prove_greater_equal(self, expr: Expr, lower_bound: int) -> bool:
        """Whether expr >= lower_bound is proved."""
        return self.can_prove(expr >= lower_bound)

    def can_prove_less(self, expr: Expr, upper_bound: int) -> bool:
        """Whether expr < upper_bound is proved."""
        return self.can_prove(expr < upper_bound)

