"""Discrete Fourier transforms of a few numbers, written out.

A transform of p * q numbers is q of p, a rotation of each result, and p of q (Cooley and Tukey 1965); one of a prime p has sums and
differences of x[j] and x[p - j], each multiplied once (Rader's symmetry, as in Singleton 1969). Numbers are pairs of expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import cos, isqrt, pi, sin
from typing import TypeAlias

from ..ir.combine import mul_add
from ..ir.expr import Expr
from ..ir.ops import const

__all__ = ["Bind", "Complex", "multiply", "transform"]

Complex: TypeAlias = "tuple[Expr, Expr]"
"""The real and the imaginary part."""
Bind: TypeAlias = "Callable[[Expr], Expr]"
"""Gives an expression a name, so that it is computed once."""


def transform(values: Sequence[Complex], sign: int, bind: Bind) -> list[Complex]:
    """The sums over j of values[j] * exp(sign * 2 pi i j k / n), for each k below n. sign: -1, or 1 for the inverse one, without the
    division by n."""
    n = len(values)
    if n == 1:
        return list(values)
    if n == 2:
        (a, b) = values
        return [_add(a, b, bind), _subtract(a, b, bind)]
    outer = _largest_divisor(n)
    return _prime(values, sign, bind) if outer == 1 else _composite(values, outer, sign, bind)


def _largest_divisor(n: int) -> int:
    """The largest divisor that is no greater than the square root, but 4 of 8, whose rotations cost least."""
    if n == 8:
        return 4
    return next(each for each in range(isqrt(n), 0, -1) if n % each == 0)


def _composite(values: Sequence[Complex], outer: int, sign: int, bind: Bind) -> list[Complex]:
    n, inner = len(values), len(values) // outer
    columns = [transform(values[at::inner], sign, bind) for at in range(inner)]  # transforms of each inner-th number
    results: list[Complex] = list(values)
    for k in range(outer):
        row = [_rotate(columns[at][k], at * k, n, sign, bind) for at in range(inner)]
        results[k::outer] = transform(row, sign, bind)  # written back every outer-th
    return results


def _prime(values: Sequence[Complex], sign: int, bind: Bind) -> list[Complex]:
    n = len(values)
    half = range(1, n // 2 + 1)
    sums = {j: _add(values[j], values[n - j], bind) for j in half}
    differences = {j: _subtract(values[j], values[n - j], bind) for j in half}
    total = values[0]
    for j in half:
        total = _add(total, sums[j], bind)
    results: list[Complex] = [total] * n
    for k in half:
        even, odd = values[0], None
        for j in half:
            angle = 2 * pi * (j * k % n) / n
            even = _multiply_add(sums[j], cos(angle), even, bind)  # even parts are cosines, odd parts sines
            odd = _multiply_add(differences[j], sign * sin(angle), odd, bind)
        assert odd is not None
        turned = (-odd[1], odd[0])  # times i
        # x[k] and x[n - k] are conjugates of each other but for the data
        results[k], results[n - k] = _add(even, turned, bind), _subtract(even, turned, bind)
    return results


def _add(a: Complex, b: Complex, bind: Bind) -> Complex:
    return bind(a[0] + b[0]), bind(a[1] + b[1])


def _subtract(a: Complex, b: Complex, bind: Bind) -> Complex:
    return bind(a[0] - b[0]), bind(a[1] - b[1])


def _multiply_add(a: Complex, by: float, other: Complex | None, bind: Bind) -> Complex:
    """a * by + other."""
    factor = const(by, a[0].dtype)
    if other is None:
        return bind(a[0] * factor), bind(a[1] * factor)
    return bind(mul_add(a[0], factor, other[0])), bind(mul_add(a[1], factor, other[1]))


def _rotate(a: Complex, steps: int, n: int, sign: int, bind: Bind) -> Complex:
    """a * exp(sign * 2 pi i steps / n)."""
    eighths, rest = divmod(8 * (steps % n), n)
    if rest == 0 and eighths % 2 == 0:  # multiples of a quarter turn are exchanges of parts
        quarter = eighths // 2 * sign % 4
        return ((a[0], a[1]), (-a[1], a[0]), (-a[0], -a[1]), (a[1], -a[0]))[quarter]
    angle = sign * 2 * pi * (steps % n) / n
    if rest == 0:  # both parts of the root are the same but for signs
        root = const(abs(cos(angle)), a[0].dtype)  # both have the same size, so that one product serves
        plus, minus = bind((a[0] + a[1]) * root), bind((a[0] - a[1]) * root)
        return ((minus, plus), (-plus, minus), (-minus, -plus), (plus, -minus))[
            eighths // 2 if sign > 0 else 3 - eighths // 2
        ]
    return multiply(a, (const(cos(angle), a[0].dtype), const(sin(angle), a[0].dtype)), bind)


def multiply(a: Complex, b: Complex, bind: Bind) -> Complex:
    """a * b."""
    return (
        bind(mul_add(a[0], b[0], -(a[1] * b[1]))),  # mul_add: fused where the machine can
        bind(mul_add(a[0], b[1], a[1] * b[0])),
    )
