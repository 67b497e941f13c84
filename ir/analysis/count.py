"""Numbers of things that may depend on symbolic sizes: sums of products of symbols, as `3*n*m + n`."""

from __future__ import annotations

from collections.abc import Iterable

from ...base.dataclass import dataclass
from ..arith.analyzer import Analyzer
from ..arith.linear import LinearForm, single
from ..expr import Add, Cast, Expr, IntImm, Max, Mul, Sub, Var
from ..ops import is_const
from ..visit import free_vars

__all__ = ["ONE", "ZERO", "Count", "Number", "bound_count", "least", "product", "evaluate_count"]


@dataclass(frozen=True, slots=True, eq=False)
class Count:
    """Number of elements or steps, a polynomial over symbols.

    form: its atoms are products of symbols, each the tuple of their sorted names. is_exact: False where the number is only
    known not to be exceeded.
    """

    form: LinearForm
    is_exact: bool = True

    @staticmethod
    def of(value: int, is_exact: bool = True) -> Count:
        """A number."""
        return Count(LinearForm({}, value), is_exact)

    @staticmethod
    def symbol(name: str) -> Count:
        return Count(single((name,)))

    @staticmethod
    def extent(extent: Expr, analyzer: Analyzer, fixed: set[Var]) -> Count:
        """Return the number of times a loop runs. fixed: the symbols that are the same in the whole program; where the extent changes with
        other variables, its greatest value counts."""
        count = _polynomial(extent, fixed)
        if count is not None:
            return count
        greatest = analyzer.interval(extent).hi  # a loop over other variables counts with its greatest extent
        if greatest is not None:
            return Count.of(max(greatest, 0), is_exact=False)
        # an expression by its text, so that equal ones add up
        return Count(single((f"({extent})",)), is_exact=all(var in fixed for var in free_vars(extent)))

    def __add__(self, other: Number) -> Count:
        if isinstance(other, int):
            other = Count.of(other)
        return Count(self.form.plus(other.form), self.is_exact and other.is_exact)

    def __radd__(self, other: int) -> Count:
        return self + other

    def __sub__(self, other: int) -> Count:
        return self + -other

    def __mul__(self, other: Number) -> Count:
        if isinstance(other, int):
            other = Count.of(other)
        form = self.form.scale(other.form.const)
        for symbols, factor in other.form.coeffs.items():
            form = form.plus(_multiply_forms(self.form, symbols), factor)
        return Count(form, self.is_exact and other.is_exact)

    def __rmul__(self, other: int) -> Count:
        return self * other

    def times(self, factor: int) -> Count:
        return self * Count.of(factor)

    def cap(self) -> Count:
        """The same number, which may not be reached."""
        return Count(self.form, False)

    @property
    def value(self) -> int | None:
        """The number, where no symbol is in it."""
        return self.form.const if self.form.is_const else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Count) and (self.form.key, self.form.const, self.is_exact) == (
            other.form.key,
            other.form.const,
            other.is_exact,
        )

    def __hash__(self) -> int:
        return hash((self.form.key, self.form.const, self.is_exact))

    def __str__(self) -> str:
        value = self.value
        bound = "" if self.is_exact else "≤ "
        if value is not None:
            return f"{bound}{value:,}"
        terms = sorted(self.form.coeffs.items(), key=lambda term: (-len(term[0]), term[0]))
        if self.form.const:
            terms.append(((), self.form.const))
        # the bound sign says that the number may not be reached
        return bound + " + ".join(_term(symbols, factor) for symbols, factor in terms)


ZERO, ONE = Count.of(0), Count.of(1)
Number = int | Count


def evaluate_count(number: Number) -> int | None:
    """The number as an integer; None where a symbol is in it."""
    return number if isinstance(number, int) else number.value


def bound_count(number: Number) -> Count:
    """The same number, which may not be reached."""
    return Count.of(number, False) if isinstance(number, int) else number.cap()


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
    x, y = evaluate_count(a), evaluate_count(b)
    if x is not None and y is not None:
        return a if x <= y else b
    if x is not None or isinstance(a, int):
        return a
    if y is not None or isinstance(b, int):
        return b
    saved = a.form.plus(b.form, -1)
    # with symbols only a difference without negative terms is certain
    no_more = saved.const >= 0 and all(factor >= 0 for factor in saved.coeffs.values())
    return b if no_more or any(name.startswith("(") for symbols in a.form.coeffs for name in symbols) else a


def _multiply_forms(form: LinearForm, symbols: tuple[str, ...]) -> LinearForm:
    """form times a product of symbols."""
    coeffs = {tuple(sorted(others + symbols)): factor for others, factor in form.coeffs.items()}
    return LinearForm({**coeffs, symbols: form.const} if form.const else coeffs)


def _term(symbols: tuple[str, ...], factor: int) -> str:
    return "·".join(([f"{factor:,}"] if factor != 1 or not symbols else []) + list(symbols))


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
