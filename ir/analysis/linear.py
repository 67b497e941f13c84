"""Integer expressions as sums of constant multiples of atoms, without a simplifier: what passes compute with.

    (i * 4 + j) * 2 - 3 + n // 8      is      8 i + 2 j + 1 (n // 8) - 3

Adding, subtracting and multiplying by a constant wrap alike in every order, so a form means exactly its expression.
Widening does not: cast(i + j, int64) is opened only where i + j is index arithmetic (see ir.expr), which does not
overflow. `Analyzer.linear` gives the form of a simplified expression, under what the analyzer knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from ..arith.linear import LinearForm, add_term
from ..dtype import INT32, INT64, DType
from ..expr import Add, BinaryOp, Broadcast, Call, Cast, Expr, FloorDiv, FloorMod, IntImm, Mul, Ramp, Sub, Var
from ..ops import cast, const
from ..rounding import wrap_int
from ..structural import StructuralKey
from ..visit import children, walk

__all__ = ["Atom", "atom_key", "expression", "is_index", "linear", "merge_divisions", "occurs", "terms"]

Atom: TypeAlias = Var | StructuralKey
"""What the terms of a form are looked up by: a variable itself, anything else by its structure."""


def is_index(expr: Expr) -> bool:
    """Return whether `expr` is index arithmetic: integers computed from variables and constants alone."""
    stack: list[Expr] = [expr]
    while stack:
        expr = stack.pop()
        if isinstance(expr, (Var, IntImm)):
            if expr.dtype.element not in (INT32, INT64):
                return False
        elif isinstance(expr, (BinaryOp, Ramp, Broadcast)) or (isinstance(expr, Call) and expr.name == "bitwise_xor"):
            if expr.dtype.element not in (INT32, INT64):
                return False
            stack.extend(children(expr))
        elif isinstance(expr, Cast) and expr.dtype == INT64 and expr.value.dtype == INT32:
            stack.append(expr.value)
        else:
            return False
    return True


def linear(expr: Expr, widen: bool = True) -> LinearForm:
    """The form of an int32 or int64 expression, its atoms of type Atom. `widen`: casts of int32 index arithmetic to int64
    are opened, so that atoms of both widths may stand in one form."""
    coeffs: dict[Atom, int] = {}
    constant = _collect(expr, 1, coeffs, widen)
    return merge_divisions(LinearForm(coeffs, constant))


def _collect(expr: Expr, factor: int, coeffs: dict[Atom, int], widen: bool) -> int:
    """Add the terms of factor * expr to `coeffs` and return its constant."""
    if isinstance(expr, IntImm):
        return factor * expr.value
    if isinstance(expr, Var):
        add_term(coeffs, expr, factor)
        return 0
    if isinstance(expr, (Add, Sub)):
        constant = _collect(expr.a, factor, coeffs, widen)
        return constant + _collect(expr.b, factor if isinstance(expr, Add) else -factor, coeffs, widen)
    if isinstance(expr, Mul) and isinstance(expr.b, IntImm):
        return _collect(expr.a, factor * expr.b.value, coeffs, widen)
    if isinstance(expr, Mul) and isinstance(expr.a, IntImm):
        return _collect(expr.b, factor * expr.a.value, coeffs, widen)
    if widen and isinstance(expr, Cast) and expr.dtype == INT64 and expr.value.dtype == INT32 and is_index(expr.value):
        return _collect(expr.value, factor, coeffs, widen)
    add_term(coeffs, StructuralKey(expr), factor)
    return 0


def terms(form: LinearForm) -> Iterator[tuple[Expr, int]]:
    """(atom, coefficient) of a form that `linear` gave, in the order of their first occurrence."""
    for atom, coefficient in form.coeffs.items():
        yield atom.expr if isinstance(atom, StructuralKey) else atom, coefficient


def occurs(var: Var, form: LinearForm) -> bool:
    """Return whether a variable occurs within an atom, so that its coefficient does not tell all of how the form changes with it."""
    return any(atom is not var and any(node is var for node in walk(atom)) for atom, _ in terms(form))


def expression(form: LinearForm, dtype: DType, order: Callable[[Expr], int] | None = None) -> Expr:
    """The form as an expression. `order` ranks atoms: what is summed first is what loops can hoist."""
    total: Expr | None = None
    summands = list(terms(form))
    if order is not None:
        summands.sort(key=lambda term: order(term[0]))
    for atom, coefficient in summands:
        if coefficient < 0 and total is not None:
            total = Sub(total, _scale(atom, -coefficient, dtype))
        else:
            value = _scale(atom, coefficient, dtype)
            total = value if total is None else Add(total, value)
    if total is None:
        return const(wrap_int(form.const, dtype), dtype)
    if form.const == 0:
        return total
    if form.const < 0 and -form.const <= dtype.greatest:
        return Sub(total, const(-form.const, dtype))
    return Add(total, const(wrap_int(form.const, dtype), dtype))


def _scale(atom: Expr, coefficient: int, dtype: DType) -> Expr:
    value = cast(atom, dtype)
    return value if coefficient == 1 else Mul(value, const(wrap_int(coefficient, dtype), dtype))


def merge_divisions(form: LinearForm) -> LinearForm:
    """c*k * (x // k) + c * (x % k) is c * x, which fused loops leave behind; also where x is y // m and the
    quotient is written y // (m * k), and where the remainder is that of another y, apart from x by a multiple of k:
    simplifying makes (i + j) % 3 of (16 * i + j) % 3."""
    merged: LinearForm | None = form
    while merged is not None:
        form = merged
        merged = _merged_once(form)
    return form


def _merged_once(form: LinearForm) -> LinearForm | None:
    for key, coefficient in form.coeffs.items():
        atom = key.expr if isinstance(key, StructuralKey) else key
        if not (isinstance(atom, FloorMod) and isinstance(atom.b, IntImm) and atom.b.value > 0):
            continue
        dividend = atom.a
        quotient = _quotient(form, dividend, atom.b.value, coefficient * atom.b.value)
        if quotient is None:
            quotient, dividend = _split_quotient(form, dividend, atom.b.value, coefficient * atom.b.value)
        if quotient is not None:
            # opened only where it is index arithmetic: the form may be wider than the atom
            whole = linear(dividend) if is_index(dividend) else LinearForm({atom_key(dividend): 1})
            return form.without(key).without(quotient).plus(whole, coefficient)
    return None


def atom_key(expr: Expr) -> Atom:
    """Return the key by which an expression is looked up."""
    return expr if isinstance(expr, Var) else StructuralKey(expr)


def _quotient(form: LinearForm, dividend: Expr, divisor: int, coefficient: int) -> Atom | None:
    """The term `coefficient * (dividend // divisor)`, in either spelling."""
    spellings = [(dividend, divisor)]
    if isinstance(dividend, FloorDiv) and isinstance(dividend.b, IntImm) and dividend.b.value > 0:
        spellings.append((dividend.a, divisor * dividend.b.value))
    for numerator, denominator in spellings:
        atom = StructuralKey(FloorDiv(numerator, IntImm(denominator, numerator.dtype)))
        if form.coeffs.get(atom) == coefficient:
            return atom
    return None


def _split_quotient(form: LinearForm, other: Expr, divisor: int, coefficient: int) -> tuple[Atom | None, Expr]:
    """A term `coefficient * (dividend // divisor)` whose dividend leaves the same remainder as `other`, and the dividend.
    Of index arithmetic, which does not wrap."""
    if not is_index(other):
        return None, other
    inner = [*_quotients_and_rests(other)]
    for key, factor in form.coeffs.items():
        atom = key.expr if isinstance(key, StructuralKey) else key
        if (
            factor != coefficient
            or not isinstance(atom, FloorDiv)
            or not isinstance(atom.b, IntImm)
            or not is_index(atom.a)
        ):
            continue
        if atom.b.value == divisor:
            apart = linear(atom.a).plus(linear(other), -1)
            if apart.const % divisor == 0 and apart.content % divisor == 0:
                return key, atom.a
        for part, each, rest in inner:
            apart = linear(atom.a).plus(linear(part.a), -1).plus(rest, -each)
            if atom.b.value == divisor * each and apart.const % atom.b.value == 0 and apart.content % atom.b.value == 0:
                return key, expression(
                    rest.plus(apart.divided(each)).plus(LinearForm({atom_key(part): 1})), other.dtype
                )
    return None, other


def _quotients_and_rests(expr: Expr) -> Iterator[tuple[FloorDiv, int, LinearForm]]:
    """x // m, m and y as far as an expression is x // m + y, as simplifying leaves (x + m * y) // m."""
    form = linear(expr)
    for part, factor in terms(form):
        if factor == 1 and isinstance(part, FloorDiv) and isinstance(part.b, IntImm) and part.dtype == expr.dtype:
            yield part, part.b.value, form.without(atom_key(part))
