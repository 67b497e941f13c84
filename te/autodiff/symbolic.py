"""Index equations whose coefficients are symbols: tensors of symbolic shape that are flattened, cut and put together.

i * n + j == c, where 0 <= j < n      →      i == c // n and j == c % n
e // n == c                           →      0 <= e - n * c < n
e % n == r, where e // n == c         →      e == n * c + r
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd
from typing import TYPE_CHECKING

from ...ir import ops
from ...ir.arith.linear import LinearForm
from ...ir.dtype import DType
from ...ir.expr import GE, LT, Expr, FloorDiv, FloorMod, IterVar, Mul
from ...ir.visit import post_order

if TYPE_CHECKING:
    from .equations import System

__all__ = ["equate_symbolic"]


def equate_symbolic(system: System, a: Expr, b: Expr) -> bool:
    """Put `a == b`, in which `a` is not linear in the system's unknowns, into linear form; False where that fails.

    b: free of unknowns.
    """
    index = system.analyzer.simplify(a)
    if isinstance(index, FloorDiv) and system.knows(index.b) and _positive(system, index.b, index.a):
        return _quotient(system, index, b)
    if isinstance(index, FloorMod):
        quotient = system.quotients.get((index.a, index.b))
        if quotient is None:
            return False
        system.guards += [ops.compare(GE, b, 0), ops.compare(LT, b, index.b)]
        system.equate(index.a, ops.add(ops.multiply(quotient, index.b), b))
        return True
    return _digits(system, index, b)


def _quotient(system: System, index: FloorDiv, value: Expr) -> bool:
    form = system.affine(index.a)
    system.quotients[(index.a, index.b)] = value
    if form is None:  # a quotient of a quotient: what the remainder tells may do
        system.opaque.append(ops.equal(index, value))
    else:
        system.within(form, ops.multiply(index.b, value), ops.subtract(index.b, 1))
    return True


def _positive(system: System, divisor: Expr, numerator: Expr) -> bool:
    """Return whether a divisor is above 0 whenever the numerator is taken at all: where the loops of its unknowns are empty for
    a divisor of 0, that is no matter."""
    if system.analyzer.can_prove(ops.compare(LT, ops.const(0, divisor.dtype), divisor)):
        return True
    if not system.analyzer.can_prove(ops.compare(GE, divisor, 0)):
        return False
    loops = [node for node in post_order(numerator) if isinstance(node, IterVar) and node.dom is not None]
    return any(divisor in _factors(system.analyzer.simplify(axis.dom.extent)) for axis in loops if axis.dom is not None)


def _digits(system: System, index: Expr, value: Expr) -> bool:
    """Split at n: n * high + low == value with 0 <= low < n."""
    form = system.analyzer.linear(index)
    if form is None:
        return False
    for base, high, low in _splits(system, form, index.dtype):
        if system.analyzer.can_prove(ops.compare(GE, low, 0)) and system.analyzer.can_prove(ops.compare(LT, low, base)):
            system.equate(system.analyzer.simplify(high), ops.floordiv(value, base))
            system.equate(system.analyzer.simplify(low), ops.floormod(value, base))
            return True
    return False


def _splits(system: System, form: LinearForm, dtype: DType) -> Iterator[tuple[Expr, Expr, Expr]]:
    """(n, high, low) with form = n * high + low, for each n by which the products of unknowns and symbols divide."""
    products = [(_factors(atom), coeff) for atom, coeff in form.coeffs.items() if isinstance(atom, Mul)]
    if not products:
        return
    number = gcd(*(coeff for _, coeff in products))
    if number > 1:
        high = {atom: coeff // number for atom, coeff in form.coeffs.items() if coeff % number == 0}
        low = {atom: coeff for atom, coeff in form.coeffs.items() if coeff % number}
        yield ops.const(number, dtype), _sum(high, 0, dtype), _sum(low, form.const, dtype)
    for base in dict.fromkeys(products[0][0]):
        if system.knows(base) and all(base in factors for factors, _ in products):
            high = {_remove_factor(atom, base): coeff for atom, coeff in form.coeffs.items() if isinstance(atom, Mul)}
            low = {atom: coeff for atom, coeff in form.coeffs.items() if not isinstance(atom, Mul)}
            yield base, _sum(high, 0, dtype), _sum(low, form.const, dtype)


def _sum(coeffs: dict[Expr, int], const: int, dtype: DType) -> Expr:
    total: Expr = ops.const(const, dtype)
    for atom, coeff in coeffs.items():
        total = ops.add(total, ops.multiply(atom, coeff))
    return total


def _remove_factor(product: Expr, factor: Expr) -> Expr:
    """A product without one of its factors."""
    factors = _factors(product)
    factors.remove(factor)
    rest = factors[0]
    for other in factors[1:]:
        rest = ops.multiply(rest, other)
    return rest


def _factors(expr: Expr) -> list[Expr]:
    """The factors of a product, from left to right; of anything else itself."""
    factors: list[Expr] = []
    stack = [expr]
    while stack:
        node = stack.pop()
        if isinstance(node, Mul):
            stack += (node.b, node.a)
        else:
            factors.append(node)
    return factors
