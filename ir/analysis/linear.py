"""Integer expressions as sums of constant multiples of atoms: what passes compute with.

    (i * 4 + j) * 2 - 3 + n // 8      is      8 i + 2 j + 1 (n // 8) - 3

Adding, subtracting and multiplying by a constant wrap alike in every order, so a form means exactly its expression.
Widening does not: cast(i + j, int64) is opened only where i + j is index arithmetic (see ir.expr), which does not
overflow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import gcd

from ..dtype import INT32, INT64, DType
from ..expr import (
    Add,
    BinaryOp,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Mul,
    ProducerLoad,
    Ramp,
    Shuffle,
    StringImm,
    Sub,
    Var,
)
from ..ops import cast, const
from ..visit import children

__all__ = ["Key", "Linear", "expr_key", "is_index", "linear"]

Key = object
"""What two expressions share exactly when they are the same text over the same variables."""


def expr_key(expr: Expr) -> Key:
    """A hashable key: equal for expressions of equal structure over the same variables and buffers."""
    if isinstance(expr, Var):
        return expr
    if isinstance(expr, (IntImm, StringImm)):
        return (expr.value, expr.dtype)
    if isinstance(expr, FloatImm):
        return (expr.value.hex(), expr.dtype)  # 0.0 and -0.0 differ, and a NaN equals itself
    extra: tuple[object, ...] = ()
    if isinstance(expr, BufferLoad):
        extra = (expr.buffer, expr.predicate is None)
    elif isinstance(expr, ProducerLoad):
        extra = (expr.producer,)
    elif isinstance(expr, Call):
        extra = (expr.name, expr.dtype)
    elif isinstance(expr, (Ramp, Broadcast)):
        extra = (expr.lanes,)
    elif isinstance(expr, Shuffle):
        extra = expr.indices
    elif isinstance(expr, Let):
        extra = (expr.var,)
    elif isinstance(expr, Cast):
        extra = (expr.dtype,)
    return (type(expr), *extra, *[expr_key(child) for child in children(expr)])  # pyright: ignore[reportArgumentType]


def is_index(expr: Expr) -> bool:
    """Whether `expr` is index arithmetic: integers computed from variables and constants alone."""
    stack: list[Expr] = [expr]
    while stack:
        expr = stack.pop()
        if isinstance(expr, (Var, IntImm)):
            if expr.dtype.element not in (INT32, INT64):
                return False
        elif isinstance(expr, (BinaryOp, Ramp, Broadcast)):
            if expr.dtype.element not in (INT32, INT64):
                return False
            stack.extend(children(expr))  # pyright: ignore[reportArgumentType]
        elif isinstance(expr, Cast) and expr.dtype == INT64 and expr.value.dtype == INT32:
            stack.append(expr.value)
        else:
            return False
    return True


@dataclass(slots=True)
class Linear:
    """The sum of `coefficient * atom` over `terms`, and `constant`. Atoms are looked up by their key."""

    terms: dict[Key, tuple[Expr, int]] = field(default_factory=dict)
    constant: int = 0

    def add(self, other: Linear, factor: int = 1) -> None:
        """Adds factor * other to this form."""
        self.constant += factor * other.constant
        for key, (atom, coefficient) in other.terms.items():
            self.add_term(key, atom, factor * coefficient)

    def add_term(self, key: Key, atom: Expr, coefficient: int) -> None:
        """Adds coefficient * atom."""
        if key in self.terms:
            coefficient += self.terms[key][1]
        if coefficient:
            self.terms[key] = (atom, coefficient)
        else:
            self.terms.pop(key, None)

    def coefficient(self, var: Var) -> int:
        """That of a variable standing alone (0 where it does not, though it may occur inside other atoms)."""
        found = self.terms.get(var)
        return found[1] if found else 0

    def without(self, var: Var) -> Linear:
        """This form less the variable's own term."""
        return Linear({key: term for key, term in self.terms.items() if key is not var}, self.constant)

    def atoms(self) -> Iterator[tuple[Expr, int]]:
        """(atom, coefficient) in the order of their first occurrence."""
        return iter(self.terms.values())

    def divisor(self, start: int = 0) -> int:
        """The greatest common divisor of all coefficients and `start` (not of the constant)."""
        for _, coefficient in self.terms.values():
            start = gcd(start, coefficient)
        return abs(start)

    def merge_divisions(self) -> None:
        """c*k * (x // k) + c * (x % k) is c * x, which fused loops leave behind; also where x is y // m and the
        quotient is written y // (m * k), and where the remainder is that of another y, apart from x by a multiple of k:
        simplifying makes (i + j) % 3 of (16 * i + j) % 3."""
        merged = True
        while merged:
            merged = False
            for key, (atom, coefficient) in self.terms.items():
                if not (isinstance(atom, FloorMod) and isinstance(atom.b, IntImm) and atom.b.value > 0):
                    continue
                dividend = atom.a
                quotient = _quotient(self, dividend, atom.b.value, coefficient * atom.b.value)
                if quotient is None:
                    quotient, dividend = _quotient_apart(self, dividend, atom.b.value, coefficient * atom.b.value)
                if quotient is not None:
                    del self.terms[key], self.terms[quotient]
                    # opened only where it is index arithmetic: the form may be wider than the atom
                    whole = linear(dividend) if is_index(dividend) else Linear({expr_key(dividend): (dividend, 1)})
                    self.add(whole, coefficient)
                    merged = True
                    break

    def expr(self, dtype: DType, order: Callable[[Expr], int] | None = None) -> Expr:
        """The form as an expression. `order` ranks atoms: what is summed first is what loops can hoist."""
        found: Expr | None = None
        terms = list(self.terms.values())
        if order is not None:
            terms.sort(key=lambda term: order(term[0]))
        for atom, coefficient in terms:
            if coefficient < 0 and found is not None:
                found = Sub(found, _scaled(atom, -coefficient, dtype))
            else:
                value = _scaled(atom, coefficient, dtype)
                found = value if found is None else Add(found, value)
        if found is None:
            return const(_wrap(self.constant, dtype), dtype)
        if self.constant == 0:
            return found
        if self.constant < 0 and -self.constant <= dtype.greatest:
            return Sub(found, const(-self.constant, dtype))
        return Add(found, const(_wrap(self.constant, dtype), dtype))


def _wrap(value: int, dtype: DType) -> int:
    return (value - dtype.least) % (1 << dtype.bits) + dtype.least


def _scaled(atom: Expr, coefficient: int, dtype: DType) -> Expr:
    value = cast(atom, dtype)
    return value if coefficient == 1 else Mul(value, const(_wrap(coefficient, dtype), dtype))


def linear(expr: Expr, widen: bool = True) -> Linear:
    """The form of an int32 or int64 expression. `widen`: casts of int32 index arithmetic to int64 are opened, so that
    atoms of both widths may stand in one form."""
    form = Linear()
    _collect(expr, 1, form, widen)
    form.merge_divisions()
    return form


def _collect(expr: Expr, factor: int, form: Linear, widen: bool) -> None:
    if isinstance(expr, IntImm):
        form.constant += factor * expr.value
    elif isinstance(expr, Var):
        form.add_term(expr, expr, factor)
    elif isinstance(expr, Add):
        _collect(expr.a, factor, form, widen)
        _collect(expr.b, factor, form, widen)
    elif isinstance(expr, Sub):
        _collect(expr.a, factor, form, widen)
        _collect(expr.b, -factor, form, widen)
    elif isinstance(expr, Mul) and isinstance(expr.b, IntImm):
        _collect(expr.a, factor * expr.b.value, form, widen)
    elif isinstance(expr, Mul) and isinstance(expr.a, IntImm):
        _collect(expr.b, factor * expr.a.value, form, widen)
    elif widen and isinstance(expr, Cast) and expr.dtype == INT64 and expr.value.dtype == INT32 and is_index(expr.value):
        _collect(expr.value, factor, form, widen)
    else:
        form.add_term(expr_key(expr), expr, factor)


def _quotient(form: Linear, dividend: Expr, divisor: int, coefficient: int) -> Key | None:
    """The key of the term `coefficient * (dividend // divisor)`, in either spelling."""
    plain = (FloorDiv, expr_key(dividend), (divisor, dividend.dtype))
    spellings: list[Key] = [plain]
    if isinstance(dividend, FloorDiv) and isinstance(dividend.b, IntImm) and dividend.b.value > 0:
        spellings.append((FloorDiv, expr_key(dividend.a), (divisor * dividend.b.value, dividend.dtype)))
    for key in spellings:
        if key in form.terms and form.terms[key][1] == coefficient:
            return key
    return None


def _quotient_apart(form: Linear, other: Expr, divisor: int, coefficient: int) -> tuple[Key | None, Expr]:
    """The key and the dividend of a term `coefficient * (dividend // divisor)` whose dividend leaves the same remainder as
    `other`. Of index arithmetic, which does not wrap."""
    if not is_index(other):
        return None, other
    for key, (atom, factor) in form.terms.items():
        if (factor == coefficient and isinstance(atom, FloorDiv) and isinstance(atom.b, IntImm) and atom.b.value == divisor
                and is_index(atom.a)):
            apart = linear(atom.a)
            apart.add(linear(other), -1)
            if apart.constant % divisor == 0 and apart.divisor() % divisor == 0:
                return key, atom.a
    return None, other
