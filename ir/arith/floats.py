"""Bounds of floats: of an index that is computed in floats, clamped, and made an integer, as numbers and by symbols."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from ..dtype import DType
from ..expr import Add, BinaryOp, Broadcast, Call, Cast, Expr, FloatImm, IfThenElse, Max, Min, Mul, Select, Sub
from ..ops import const, floordiv, maximum, minimum
from ..rounding import SIGNIFICANT_BITS, round_float
from .interval import Interval

__all__ = ["FloatBounds", "FloatInterval", "truncated_ends"]


class FloatInterval(NamedTuple):
    """The numbers from `lo` to `hi`, both included and possibly infinite. nan: whether it may also be no number."""

    lo: float
    hi: float
    nan: bool

    def to_integers(self, least: int, greatest: int) -> Interval:
        """The integers that these numbers become, within a dtype's: what is beyond is its end, what is no number 0."""
        lo, hi = (_truncate(end, least, greatest) for end in (self.lo, self.hi))
        return Interval(min(lo, 0), max(hi, 0)) if self.nan else Interval(lo, hi)


_ANY = FloatInterval(-math.inf, math.inf, True)


def _truncate(end: float, least: int, greatest: int) -> int:
    return min(max(int(end), least), greatest) if math.isfinite(end) else least if end < 0 else greatest


class FloatBounds:
    """Bounds of floats over all lanes. bound_integer: of the integers in them. found: what is known already, by node."""

    def __init__(self, bound_integer: Callable[[Expr], Interval], found: dict[Expr, FloatInterval]) -> None:
        self.bound_integer, self.found = bound_integer, found

    def bound(self, node: Expr) -> FloatInterval:
        """The interval of a float."""
        interval = self.found.get(node)
        if interval is None:
            rule = _RULES.get(type(node))
            interval = self.found[node] = _ANY if rule is None else rule(self, node)
        return interval

    def cast(self, node: Cast) -> FloatInterval:
        """Rounding keeps the order of numbers."""
        source, dtype = node.value.dtype.element, node.dtype.element
        if source.is_float:
            lo, hi, nan = self.bound(node.value)
        elif source.is_integer:
            least, greatest = self.bound_integer(node.value)
            lo = -math.inf if least is None else _to_float(least)
            hi = math.inf if greatest is None else _to_float(greatest)
            nan = False
        else:
            return _ANY
        lo, hi = round_float(lo, dtype), round_float(hi, dtype)
        return _ANY if math.isnan(lo) or math.isnan(hi) else FloatInterval(lo, hi, nan)

    def arithmetic(self, node: BinaryOp) -> FloatInterval:
        """The ends of a sum, difference or product, a unit wider than rounded: fused with its neighbours it may be rounded otherwise."""
        a, b = self.bound(node.a), self.bound(node.b)
        if isinstance(node, Mul):
            ends = [p * q for p in a[:2] for q in b[:2]]
        else:
            b = b if isinstance(node, Add) else FloatInterval(-b.hi, -b.lo, b.nan)
            ends = [a.lo + b.lo, a.hi + b.hi]
        if not all(map(math.isfinite, ends)):  # infinities may cancel
            return _ANY
        dtype, lo, hi = node.dtype.element, min(ends), max(ends)
        lo, hi = round_float(lo - _unit(lo, dtype), dtype), round_float(hi + _unit(hi, dtype), dtype)
        return FloatInterval(lo, hi, a.nan or b.nan) if math.isfinite(lo) and math.isfinite(hi) else _ANY

    def extremum(self, node: Min | Max) -> FloatInterval:
        """The lesser or greater of two; of no number and a number it is no number."""
        a, b = self.bound(node.a), self.bound(node.b)
        choose = min if isinstance(node, Min) else max
        return FloatInterval(choose(a.lo, b.lo), choose(a.hi, b.hi), a.nan or b.nan)

    def choice(self, node: Select | IfThenElse) -> FloatInterval:
        """The union of both."""
        a, b = self.bound(node.true_value), self.bound(node.false_value)
        return FloatInterval(min(a.lo, b.lo), max(a.hi, b.hi), a.nan or b.nan)

    def call(self, node: Call) -> FloatInterval:
        """Roundings to whole numbers keep the order; of other functions nothing is known."""
        rounding = _ROUNDINGS.get(node.name)
        if rounding is None:
            return _ANY
        lo, hi, nan = self.bound(node.args[0])
        lo, hi = (float(rounding(end)) if math.isfinite(end) else end for end in (lo, hi))
        return FloatInterval(lo, hi, nan)


def truncated_ends(value: Expr, dtype: DType) -> tuple[Expr | None, Expr | None]:
    """Integers of `dtype` that do not lie above, and not below, what a float becomes; None where nothing is known. By the symbols
    that it is clamped to.

        float(n - 1):                       n - 1, as long as that has no more bits than a float
        max(min(x, float(n) - 1.5), 0.0):   0 to max(n - 1, 0)
    """
    low, high = _integer_ends(value, dtype)
    if low is not None and high is not None:  # what is no number becomes 0
        return minimum(low, 0), maximum(high, 0)
    return None, None


def _integer_ends(value: Expr, dtype: DType) -> tuple[Expr | None, Expr | None]:
    """Integers around a float. Sums of more than a constant have none."""
    match value:
        case FloatImm() if math.isfinite(value.value) and abs(value.value) < 1 << 30:
            return const(math.floor(value.value), dtype), const(math.ceil(value.value), dtype)
        case Cast() if value.value.dtype is dtype:
            return _add_rounding(value.value, value.value, value.dtype)
        case Add() | Sub() if isinstance(value.b, FloatImm):
            low, high = _integer_ends(value.a, dtype)
            least, greatest = _integer_ends(value.b, dtype)
            if low is None or high is None or least is None or greatest is None:
                return None, None
            sums = (low + least, high + greatest) if isinstance(value, Add) else (low - greatest, high - least)
            return _add_rounding(*sums, value.dtype)
        case Min() | Max():
            (low, high), (other_low, other_high) = _integer_ends(value.a, dtype), _integer_ends(value.b, dtype)
            if isinstance(value, Min):
                return _both(minimum, low, other_low), _either(minimum, high, other_high)
            return _either(maximum, low, other_low), _both(maximum, high, other_high)
        case _:
            return None, None


def _both(choose: Callable[[Expr, Expr], Expr], a: Expr | None, b: Expr | None) -> Expr | None:
    return None if a is None or b is None else choose(a, b)


def _either(choose: Callable[[Expr, Expr], Expr], a: Expr | None, b: Expr | None) -> Expr | None:
    """Bound a minimum from above, or a maximum from below, by one operand where nothing is known of the other."""
    return b if a is None else a if b is None else choose(a, b)


def _add_rounding(low: Expr, high: Expr, dtype: DType) -> tuple[Expr, Expr]:
    """Integers around the floats that these two are rounded to."""
    exact = 1 << SIGNIFICANT_BITS[dtype.kind, dtype.bits]
    if exact > low.dtype.greatest:
        return low, high
    return low - floordiv(maximum(low, -low), exact), high + floordiv(maximum(high, -high), exact)


def _to_float(value: int) -> float:
    return float(value) if abs(value) < 1 << 53 else math.copysign(math.inf, value)


def _unit(value: float, dtype: DType) -> float:
    """A number that is not less than the distance of a dtype's floats near `value`."""
    return max(abs(value) * _RELATIVE.get(dtype.bits, 0.25), 2.0**-9 if dtype.bits == 8 else 2.0**-24)


_RELATIVE = {64: 2.0**-52, 32: 2.0**-23, 16: 2.0**-7}
"""The distance of floats by their bits, relative to their size: of the coarsest dtype of that width."""

_ROUNDINGS: dict[str, Callable[[float], float]] = {
    "floor": math.floor,
    "ceil": math.ceil,
    "trunc": math.trunc,
    "nearbyint": round,
    "round": lambda value: math.copysign(math.floor(abs(value) + 0.5), value),
}

_RULES: dict[type[Expr], Callable[[FloatBounds, Any], FloatInterval]] = {
    FloatImm: lambda bounds, node: _ANY if math.isnan(node.value) else FloatInterval(node.value, node.value, False),
    Cast: FloatBounds.cast,
    Add: FloatBounds.arithmetic,
    Sub: FloatBounds.arithmetic,
    Mul: FloatBounds.arithmetic,
    Min: FloatBounds.extremum,
    Max: FloatBounds.extremum,
    Select: FloatBounds.choice,
    IfThenElse: FloatBounds.choice,
    Call: FloatBounds.call,
    Broadcast: lambda bounds, node: bounds.bound(node.value),
}
