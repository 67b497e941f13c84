"""Numbers of things that may depend on symbolic sizes: sums of products of symbols, as `3*n*m + n`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..arith.analyzer import Analyzer
from ..expr import Add, Cast, Expr, IntImm, Max, Mul, Sub, Var
from ..ops import is_const
from ..visit import free_vars

__all__ = ["ONE", "ZERO", "Count", "Number", "at_most", "least", "product", "value_of"]


@dataclass(frozen=True, slots=True)
class Count:
    """terms: the coefficient of each product of symbols, by their sorted names; () is the constant. is_exact: False where
    it is only known not to be exceeded."""

    terms: tuple[tuple[tuple[str, ...], int], ...]
    is_exact: bool = True

    @staticmethod
    def of(value: int, is_exact: bool = True) -> Count:
        """A number."""
        return Count((((), value),) if value else (), is_exact)

    @staticmethod
    def symbol(name: str) -> Count:
        return Count((((name,), 1),))

    @staticmethod
    def extent(extent: Expr, analyzer: Analyzer, fixed: set[Var]) -> Count:
        """How often a loop runs. fixed: the symbols that are the same in the whole program; where the extent changes with
        other variables, its greatest value counts."""
        count = _polynomial(extent, fixed)
        if count is not None:
            return count
        greatest = analyzer.interval(extent).hi
        if greatest is not None:
            return Count.of(max(greatest, 0), is_exact=False)
        return Count((((f"({extent})",), 1),), is_exact=all(var in fixed for var in free_vars(extent)))

    def __add__(self, other: Number) -> Count:
        if isinstance(other, int):
            other = Count.of(other)
        terms = dict(self.terms)
        for names, factor in other.terms:
            terms[names] = terms.get(names, 0) + factor
        return Count(_sorted(terms), self.is_exact and other.is_exact)

    def __radd__(self, other: int) -> Count:
        return self + other

    def __sub__(self, other: int) -> Count:
        return self + -other

    def __mul__(self, other: Number) -> Count:
        if isinstance(other, int):
            other = Count.of(other)
        terms: dict[tuple[str, ...], int] = {}
        for a, x in self.terms:
            for b, y in other.terms:
                names = tuple(sorted(a + b))
                terms[names] = terms.get(names, 0) + x * y
        return Count(_sorted(terms), self.is_exact and other.is_exact)

    def __rmul__(self, other: int) -> Count:
        return self * other

    def times(self, factor: int) -> Count:
        return self * Count.of(factor)

    def at_most(self) -> Count:
        """The same number, which may not be reached."""
        return Count(self.terms, False)

    @property
    def value(self) -> int | None:
        """The number, where no symbol is in it."""
        if not self.terms:
            return 0
        return self.terms[0][1] if len(self.terms) == 1 and not self.terms[0][0] else None

    def __str__(self) -> str:
        value = self.value
        bound = "" if self.is_exact else "≤ "
        if value is not None:
            return f"{bound}{value:,}"
        return bound + " + ".join(_term(names, factor) for names, factor in self.terms)


ZERO, ONE = Count.of(0), Count.of(1)
Number = int | Count


def value_of(number: Number) -> int | None:
    """The number as an integer; None where a symbol is in it."""
    return number if isinstance(number, int) else number.value


def at_most(number: Number) -> Count:
    """The same number, which may not be reached."""
    return Count.of(number, False) if isinstance(number, int) else number.at_most()


def product(numbers: Iterable[Number]) -> Number:
    """All of them multiplied."""
    result: Number = 1
    for number in numbers:
        result = result * number
    return result


def least(a: Number, b: Number) -> Number:
    """The lesser of two bounds of one thing. Where symbols leave that open, the one that is an integer; of two with symbols
    the second, where it is certainly no more or the first is known as an expression alone."""
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b)
    x, y = value_of(a), value_of(b)
    if x is not None and y is not None:
        return a if x <= y else b
    if x is not None or isinstance(a, int):
        return a
    if y is not None or isinstance(b, int):
        return b
    terms = dict(a.terms)
    no_more = all(factor <= terms.get(names, 0) for names, factor in b.terms) and all(factor >= 0 for factor in terms.values())
    return b if no_more or any(name.startswith("(") for names in terms for name in names) else a


def _sorted(terms: dict[tuple[str, ...], int]) -> tuple[tuple[tuple[str, ...], int], ...]:
    return tuple(sorted(((names, factor) for names, factor in terms.items() if factor), key=lambda term: (-len(term[0]), term[0])))


def _term(names: tuple[str, ...], factor: int) -> str:
    return "·".join(([f"{factor:,}"] if factor != 1 or not names else []) + list(names))


def _polynomial(expr: Expr, fixed: set[Var]) -> Count | None:
    """An expression of numbers and fixed symbols under additions and multiplications."""
    if isinstance(expr, IntImm):
        return Count.of(expr.value)
    if isinstance(expr, Var):
        return Count.symbol(expr.name) if expr in fixed else None
    if isinstance(expr, Cast) and expr.value.dtype.is_integer:
        return _polynomial(expr.value, fixed)
    if isinstance(expr, Max) and is_const(expr.b, 0):  # an extent that may come out negative
        return _polynomial(expr.a, fixed)
    if isinstance(expr, (Add, Sub, Mul)):
        a, b = _polynomial(expr.a, fixed), _polynomial(expr.b, fixed)
        if a is None or b is None:
            return None
        return a * b if isinstance(expr, Mul) else a + (b if isinstance(expr, Add) else b.times(-1))
    return None
