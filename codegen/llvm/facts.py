"""Facts about integer expressions while code is emitted: enough to choose flags, divisions and alignments.

The simplifier has done the real work before; these are one look at each node, remembered.
"""

from __future__ import annotations

import math

from ...ir.analysis.bounds import IntervalEvaluator
from ...ir.arith.interval import EVERYTHING, Interval
from ...ir.expr import (
    Add,
    Broadcast,
    Cast,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    IterVar,
    Max,
    Min,
    Mul,
    Ramp,
    SizeVar,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
)

__all__ = ["IndexFacts", "split_constant"]


class IndexFacts:
    """Facts of the variables bound so far, and of expressions over them."""

    def __init__(self) -> None:
        self._index_vars: set[Var] = set()
        self._not_negative: set[Var] = set()
        self._multiples: dict[Var, int] = {}
        self._bounds: dict[Var, Interval] = {}
        self._is_index: dict[int, bool] = {}
        self._intervals = IntervalEvaluator(lambda var: self._bounds.get(var, EVERYTHING), self.is_index)
        self._is_not_negative: dict[int, bool] = {}
        self._kept: list[Expr] = []

    def bind_loop(self, var: Var, begin: Expr, extent: Expr) -> None:
        """A loop variable that counts up from `begin`, `extent` times."""
        self._index_vars.add(var)
        first, count = self.bounds(begin), self.bounds(extent)
        self._bounds[var] = Interval(
            # the last value, not the one behind it
            first.lo,
            None if first.hi is None or count.hi is None else first.hi + count.hi - 1,
        )
        if self.not_negative(begin):
            self._not_negative.add(var)

    def bind_symbol(self, var: Var, *, not_negative: bool) -> None:
        """A shape symbol."""
        self._index_vars.add(var)
        if not_negative or isinstance(var, SizeVar):
            self._not_negative.add(var)

    def bind_value(self, var: Var, value: Expr) -> None:
        """A let binding."""
        if self.is_index(value):
            self._index_vars.add(var)
            self._multiples[var] = self.multiple(value)
            self._bounds[var] = self.bounds(value)
        if self.not_negative(value):
            self._not_negative.add(var)

    def is_index(self, expr: Expr) -> bool:
        """Return whether overflow is excluded by the rules of ir/expr: int32 or int64 over loop variables, symbols and
        constants alone, and not where known extents show that it happens (a hash of the index)."""
        known = self._is_index.get(id(expr))
        if known is None:
            known = self._is_index[id(expr)] = self._compute_is_index(expr)
            self._kept.append(expr)  # an id must not be used again while it is a key
        return known

    def _compute_is_index(self, expr: Expr) -> bool:
        dtype = expr.dtype
        if dtype.kind != "int" or dtype.bits < 32:  # narrow integers wrap by rule, and so are no indices
            return False
        match expr:
            case IntImm():
                return True
            case Var():
                # an IterVar is bound before any expression over it is written
                return expr in self._index_vars or isinstance(expr, IterVar)
            case Add() | Sub() | Mul():
                return self.is_index(expr.a) and self.is_index(expr.b) and self._may_fit(expr)
            # these are no larger than their operands
            case Min() | Max() | FloorDiv() | FloorMod() | TruncDiv() | TruncMod():
                return self.is_index(expr.a) and self.is_index(expr.b)
            case Cast():
                # a widening cast of an index is one
                return expr.value.dtype.bits <= dtype.bits and self.is_index(expr.value)
            case Ramp():
                return self.is_index(expr.base) and self.is_index(expr.stride) and self._may_fit(expr)
            case Broadcast():
                return self.is_index(expr.value)
            case _:
                return False

    def never_overflows(self, expr: Expr) -> bool:
        """Return whether LLVM may be told so. Of 32-bit sums it must be seen: simplifying may have multiplied out (i - j) * c,
        whose parts are larger than the whole, and where nothing bounds i and j those may wrap and meet again."""
        if not self.is_index(expr):
            return False
        if expr.dtype.bits > 32:  # 64 bits: no extent comes near
            return True
        return self.bounds(expr).within(expr.dtype.element.least, expr.dtype.element.greatest)

    def _may_fit(self, expr: Expr) -> bool:
        bounds, dtype = self.bounds(expr), expr.dtype.element
        return (bounds.lo is None or bounds.lo >= dtype.least) and (bounds.hi is None or bounds.hi <= dtype.greatest)

    def bounds(self, expr: Expr) -> Interval:
        """Return the bounds of an index expression, over the integers; open where a symbol is in it."""
        return self._intervals(expr)

    def not_negative(self, expr: Expr) -> bool:
        """Return whether the value is known to be at least 0."""
        if expr.dtype.kind in ("uint", "bool"):
            return True
        if expr.dtype.kind != "int":
            return False
        known = self._is_not_negative.get(id(expr))
        if known is None:
            known = self._is_not_negative[id(expr)] = self._compute_not_negative(expr)
            self._kept.append(expr)
        return known

    def _compute_not_negative(self, expr: Expr) -> bool:
        match expr:
            case IntImm():
                return expr.value >= 0
            case Var():
                return expr in self._not_negative or isinstance(expr, SizeVar)
            case Add() | Mul():
                # only where the sum cannot wrap
                return self.is_index(expr) and self.not_negative(expr.a) and self.not_negative(expr.b)
            case Max():
                return self.not_negative(expr.a) or self.not_negative(expr.b)  # one side suffices
            case Min() | FloorDiv() | TruncDiv():
                return self.not_negative(expr.a) and self.not_negative(expr.b)
            case FloorMod():
                return self.not_negative(expr.b)  # a remainder has the divisor's sign
            case TruncMod():
                return self.not_negative(expr.a)  # and here the dividend's
            case Cast():
                source = expr.value.dtype
                # a narrowing cast may set the sign bit
                return not source.is_float and source.bits < expr.dtype.bits and self.not_negative(expr.value)
            case Ramp():
                return self.is_index(expr) and self.not_negative(expr.base) and self.not_negative(expr.stride)
            case Broadcast():
                return self.not_negative(expr.value)
            case _:
                return False

    def multiple(self, expr: Expr) -> int:
        """A number that divides every value of a scalar index expression (0 for the constant 0)."""
        match expr:
            case IntImm():
                return abs(expr.value)
            case Mul() if self.is_index(expr):
                return self.multiple(expr.a) * self.multiple(expr.b)  # of a product, the product of both
            case Add() | Sub() if self.is_index(expr):
                return math.gcd(self.multiple(expr.a), self.multiple(expr.b))
            case Min() | Max():
                return math.gcd(self.multiple(expr.a), self.multiple(expr.b))
            case Cast() if self.is_index(expr):
                return self.multiple(expr.value)
            case Var():
                return self._multiples.get(expr, 1)
            case _:
                return 1  # 1 divides everything


def split_constant(expr: Expr) -> tuple[list[tuple[bool, Expr]], int]:
    """A sum as its terms, each with whether it is subtracted, and the constant that is left."""
    terms: list[tuple[bool, Expr]] = []
    constant = 0
    stack = [(False, expr)]  # an explicit stack: sums may have thousands of terms
    while stack:
        negative, node = stack.pop()
        if isinstance(node, (Add, Sub)):
            # a minus turns the sign of all that is within its right side
            stack.append((negative != isinstance(node, Sub), node.b))
            stack.append((negative, node.a))
        elif isinstance(node, IntImm):
            constant += -node.value if negative else node.value
        else:
            terms.append((negative, node))
    return terms, constant
