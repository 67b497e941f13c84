"""The polynomials of codegen/llvm/maths_*.py: least-maximum fits.

    python tests/support/fit_maths.py            prints each row: name, greatest error, coefficients

Least squares, weighted again and again by where the error is greatest (C. L. Lawson, 1961; convergence: J. R. Rice and
K. H. Usow, 1968): it needs no alternation, which fits whose first coefficients are given do not have. Coefficients are
rounded to float32 one after the other, the least power first, and the rest fitted again after each, which hides most of
what rounding costs. Functions are evaluated by mpmath at 40 digits on the points of the grid.

Those of float64 need more digits than least squares in float64 have: E. Remez's exchange (1934) in mpmath; of their coefficients the
first three are rounded one after the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mpmath
import numpy as np

GRID, ROUNDS = 400, 150


@dataclass(frozen=True)
class Fit:
    """f(x) ~ P(x) on [low, high], of `terms` coefficients, of which the first are given. weight: what the error is
    multiplied by to be relative to the whole function. rounded: to float32."""

    f: Callable[[mpmath.mpf], mpmath.mpf]
    low: float
    high: float
    terms: int
    weight: Callable[[np.ndarray], np.ndarray]
    given: tuple[float, ...] = ()
    rounded: bool = True


def lawson(x: np.ndarray, y: np.ndarray, weight: np.ndarray, first: int, terms: int) -> np.ndarray:
    """c that nearly minimises max |weight (y - sum c_i x^(first + i))| over the grid."""
    scale = np.max(np.abs(x))
    basis = np.stack([(x / scale) ** (first + i) for i in range(terms)], 1) * weight[:, None]
    wanted, share = y * weight, np.full(len(x), 1 / len(x))
    best, least = np.zeros(terms), np.inf
    for _ in range(ROUNDS):
        root = np.sqrt(share)
        c = np.linalg.lstsq(basis * root[:, None], wanted * root, rcond=None)[0]
        error = np.abs(wanted - basis @ c)
        if error.max() < least:
            best, least = c, error.max()
        share = share * error
        share /= share.sum()
    return best / scale ** np.arange(first, first + terms)


def _points(row: Fit) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where the fit is looked at, the function there, and the weight."""
    x = (row.low + row.high) / 2 - (row.high - row.low) / 2 * np.cos(np.pi * np.arange(GRID) / (GRID - 1))
    with mpmath.workdps(40):
        return x, np.array([float(row.f(mpmath.mpf(v))) for v in x]), row.weight(x)


def error_of(row: Fit, coefficients: Sequence[float]) -> float:
    """The greatest weighted error of a polynomial."""
    x, y, weight = _points(row)
    return float(np.max(np.abs(weight * (y - sum(c * x**i for i, c in enumerate(coefficients))))))


def fit(row: Fit) -> tuple[tuple[float, ...], float]:
    """The coefficients, least power first, and the greatest weighted error."""
    x, y, weight = _points(row)
    known = list(row.given)
    while len(known) < row.terms:
        rest = y - sum(c * x**i for i, c in enumerate(known))
        found = lawson(x, rest, weight, len(known), row.terms - len(known))
        known += [float(np.float32(found[0]))] if row.rounded else found.tolist()
    return tuple(known), error_of(row, known)


# float64

Real = mpmath.mpf
DIGITS, EXCHANGES, POINTS = 50, 14, 24


@dataclass(frozen=True)
class WideFit:
    """The same of float64, all of it in mpmath's numbers; weight: of one."""

    f: Callable[[Real], Real]
    low: Real
    high: Real
    terms: int
    weight: Callable[[Real], Real]
    given: tuple[float, ...] = ()


def _value(coefficients: Sequence[Real], x: Real) -> Real:
    return mpmath.polyval([Real(c) for c in reversed(coefficients)] or [Real(0)], x)


def _chebyshev(row: WideFit, count: int) -> list[Real]:
    middle, radius = (row.low + row.high) / 2, (row.high - row.low) / 2
    return [middle - radius * mpmath.cos(mpmath.pi * (2 * i + 1) / (2 * count)) for i in range(count)]


def exchanged(row: WideFit, known: Sequence[float]) -> list[Real]:
    """The coefficients behind the known ones for which the greatest weighted error is least."""
    first, count = len(known), row.terms - len(known)
    points = _chebyshev(row, POINTS * (count + 1))
    wanted = [row.f(x) - _value(known, x) for x in points]
    weights = [row.weight(x) for x in points]
    chosen = [POINTS * i + POINTS // 2 for i in range(count + 1)]
    best, least = [Real(0)] * count, mpmath.inf
    for _ in range(EXCHANGES):
        rows = [
            [points[i] ** (first + j) * weights[i] for j in range(count)] + [Real(-1) ** at]
            for at, i in enumerate(chosen)
        ]
        solved = mpmath.lu_solve(mpmath.matrix(rows), mpmath.matrix([wanted[i] * weights[i] for i in chosen]))
        found, level = list(solved[:count]), abs(solved[count])
        errors = [w * (y - x**first * _value(found, x)) for x, y, w in zip(points, wanted, weights, strict=True)]
        worst = max(map(abs, errors))
        if worst < least:
            best, least = found, worst
        following = _extremes(errors, count + 1)
        if worst < level * 1.03 or len(following) < count + 1:
            break
        chosen = following
    return best


def _extremes(errors: Sequence[Real], count: int) -> list[int]:
    """Where errors of alternating signs are greatest: so many places, the least left out at the ends."""
    places: list[int] = []
    for i, error in enumerate(errors):
        if not places or (error > 0) != (errors[places[-1]] > 0):
            places.append(i)
        elif abs(error) > abs(errors[places[-1]]):
            places[-1] = i
    while len(places) > count:
        places.pop(0 if abs(errors[places[0]]) < abs(errors[places[-1]]) else -1)
    return places


def wide_error_of(row: WideFit, coefficients: Sequence[float], count: int = 200) -> Real:
    """The greatest weighted error of a polynomial."""
    with mpmath.workdps(DIGITS):
        return max(abs(row.weight(x) * (row.f(x) - _value(coefficients, x))) for x in _chebyshev(row, count))


def wide_fit(row: WideFit) -> tuple[tuple[float, ...], Real]:
    """The coefficients, least power first, and the greatest weighted error."""
    with mpmath.workdps(DIGITS):
        known = list(row.given)
        for _ in range(3):
            known.append(float(exchanged(row, known)[0]))
        known += map(float, exchanged(row, known))
    return tuple(known), wide_error_of(row, known)


mp = mpmath.mp
HALF_LN2 = 0.34657359027997264 * 1.0005
"""The half of ln 2, and what the rounding of x / ln 2 adds."""
QUARTER_TURN, EIGHTH_TURN = 1.59, 0.7855
HALF_LOG10_2 = 0.15051499783199057 * 1.0005
ATANH_REACH = 0.2594
"""(1.7 - 1) / (1.7 + 1)"""


def _expm1(r: mpmath.mpf) -> mpmath.mpf:
    return (mp.expm1(r) - r) / r**2 if r else mpmath.mpf(1) / 2


def _odd_tail(f: Callable[[mpmath.mpf], mpmath.mpf], first: mpmath.mpf) -> Callable[[mpmath.mpf], mpmath.mpf]:
    """P of f(x) = x + x^3 P(x^2); first: P(0)."""

    def tail(z: mpmath.mpf) -> mpmath.mpf:
        if z < 1e-25:
            return first
        x = mp.sqrt(z)
        return (f(x) - x) / (x * z)

    return tail


def _cosh_tail(z: mpmath.mpf) -> mpmath.mpf:
    return (mp.cosh(mp.sqrt(z)) - 1) / z if z > 1e-25 else mpmath.mpf(1) / 2


def _log_tail(t: mpmath.mpf) -> mpmath.mpf:
    return (mp.log1p(t) - t) / t**2 if t else mpmath.mpf(-1) / 2


def _log_to_base(base: float, slope: float) -> Callable[[mpmath.mpf], mpmath.mpf]:
    return lambda t: (mp.log1p(t) / t if t else mpmath.mpf(1)) / mp.log(base) - slope


def _log2_quotient(t: mpmath.mpf) -> mpmath.mpf:
    return mp.log1p(t) / (t * mp.log(2)) if t else 1 / mp.log(2)


def _log_erfc_quotient(x: mpmath.mpf) -> mpmath.mpf:
    return mp.log(mp.erfc(x)) / x if x else -2 / mp.sqrt(mp.pi)


def _relative(power: int, whole: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    """To whole(x), which x^power P(x) is the inexact part of."""

    def weight(x: np.ndarray) -> np.ndarray:
        x = np.where(x == 0, 1e-9, x)
        return np.abs(x**power / whole(x))

    return weight


def _odd_weight(f: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    return lambda z: _relative(3, f)(np.sqrt(z))


def _of_erf(x: np.ndarray) -> np.ndarray:
    """What an error of log(erfc(x)) / x is, relative to erf(x)."""
    x = np.maximum(x, 1e-9)
    beyond = np.array([math.erfc(v) for v in x])
    return x * beyond / (1 - beyond)


FITS = {
    # e^r and 2^r
    "EXP": Fit(mp.exp, -HALF_LN2, HALF_LN2, 7, lambda x: np.exp(-x), (1.0, 1.0)),
    "EXP_FAST": Fit(mp.exp, -HALF_LN2, HALF_LN2, 6, lambda x: np.exp(-x), (1.0,)),
    "EXP2": Fit(lambda x: mp.power(2, x), -0.5, 0.5, 7, lambda x: np.exp2(-x), (1.0,)),
    "EXP2_FAST": Fit(lambda x: mp.power(2, x), -0.5, 0.5, 6, lambda x: np.exp2(-x), (1.0,)),
    # e^r - 1 = r + r^2 P(r)
    "EXPM1": Fit(_expm1, -HALF_LN2, HALF_LN2, 5, _relative(2, np.expm1)),
    "EXPM1_UNFUSED": Fit(_expm1, -HALF_LN2, HALF_LN2, 6, _relative(2, np.expm1)),
    "EXPM1_FAST": Fit(_expm1, -HALF_LN2, HALF_LN2, 4, _relative(2, np.expm1)),
    # log(erfc(x)) = -x + x P(x)
    "ERF": Fit(lambda x: _log_erfc_quotient(x) + 1, 0.0, 4.0, 9, _of_erf),
    "ERF_FAST": Fit(lambda x: _log_erfc_quotient(x) + 1, 0.0, 4.0, 6, _of_erf),
    # log(1 + t) = t + t^2 P(t)
    "LOG": Fit(_log_tail, -0.25, 0.5, 9, _relative(2, np.log1p)),
    "LOG_FAST": Fit(_log_tail, -0.25, 0.5, 7, _relative(2, np.log1p)),
    # log2(1 + t) = 3/2 t + t P(t), log10(1 + t) = t / 2 + t P(t)
    "LOG2": Fit(_log_to_base(2, 1.5), -0.25, 0.5, 10, _relative(1, lambda t: np.log1p(t) / math.log(2))),
    "LOG2_FAST": Fit(_log_to_base(2, 1.5), -0.25, 0.5, 8, _relative(1, lambda t: np.log1p(t) / math.log(2))),
    "LOG10": Fit(_log_to_base(10, 0.5), -0.25, 0.5, 9, _relative(1, lambda t: np.log1p(t) / math.log(10))),
    "LOG10_UNFUSED": Fit(_log_to_base(10, 0.5), -0.25, 0.5, 10, _relative(1, lambda t: np.log1p(t) / math.log(10))),
    "LOG10_FAST": Fit(_log_to_base(10, 0.5), -0.25, 0.5, 8, _relative(1, lambda t: np.log1p(t) / math.log(10))),
    # log2(1 + t) = t P(t)
    "POW_LOG2": Fit(_log2_quotient, -0.25, 0.5, 14, _relative(1, lambda x: np.log1p(x) / math.log(2)), rounded=False),
    "POW_LOG2_FAST": Fit(
        _log2_quotient, -0.25, 0.5, 10, _relative(1, lambda x: np.log1p(x) / math.log(2)), rounded=False
    ),
    # log2(1 + d) = d (1.4426950216293335, which is given, + P(d)); the least d are added to what is some ten times as large
    "POWER": Fit(_log_to_base(2, 1.4426950216293335), -0.029, 0.0229, 5, lambda d: np.where(d < -0.0134, 0.125, 1)),
    "POWER_FAST": Fit(
        _log_to_base(2, 1.4426950216293335), -0.029, 0.0229, 4, lambda d: np.where(d < -0.0134, 0.125, 1)
    ),
    # 10^r, sinh(r) = r + r^3 P(r^2), cosh(r) = 1 + r^2 P(r^2)
    "EXP10": Fit(lambda x: mp.power(10, x), -HALF_LOG10_2, HALF_LOG10_2, 7, lambda x: 10.0**-x, (1.0,)),
    "SINH": Fit(_odd_tail(mp.sinh, mpmath.mpf(1) / 6), 0.0, HALF_LN2**2, 3, _odd_weight(np.sinh)),
    "COSH": Fit(_cosh_tail, 0.0, HALF_LN2**2, 3, lambda z: z),
    # x + x^3 P(x^2)
    "SIN": Fit(_odd_tail(mp.sin, mpmath.mpf(-1) / 6), 0.0, QUARTER_TURN**2, 4, _odd_weight(np.sin)),
    "TAN": Fit(_odd_tail(mp.tan, mpmath.mpf(1) / 3), 0.0, EIGHTH_TURN**2, 7, _odd_weight(np.tan)),
    "ATAN": Fit(_odd_tail(mp.atan, mpmath.mpf(-1) / 3), 0.0, 1.0, 9, _odd_weight(np.arctan)),
    "ASIN": Fit(_odd_tail(mp.asin, mpmath.mpf(1) / 6), 0.0, 0.25, 5, _odd_weight(np.arcsin)),
    "ATANH": Fit(_odd_tail(mp.atanh, mpmath.mpf(1) / 3), 0.0, ATANH_REACH**2, 4, _odd_weight(np.arctanh)),
}


def _odd(f: Callable[[Real], Real], first: float, high: float, terms: int) -> WideFit:
    def weight(z: Real) -> Real:
        x = mp.sqrt(max(z, Real(1e-25)))
        return x**3 / f(x)

    return WideFit(_odd_tail(f, Real(1) / first), Real(0), Real(high) ** 2, terms, weight)


def _log(base: Real, slope: float, terms: int) -> WideFit:
    """log(1 + t) = slope t + t P(t), the natural one t + t^2 P(t)."""
    f, power = (_log_tail, 2) if slope == 1 else (_log_to_base(base, slope), 1)
    return WideFit(
        f, Real(-0.25), Real(0.5), terms, lambda t: abs((t or 1e-12) ** power * mp.log(base) / mp.log1p(t or 1e-12))
    )


def _log_quotient_tail(z: Real) -> Real:
    """P of atanh(s) = s + s^3 / 3 + s^5 P(s^2)."""
    return (_odd_tail(mp.atanh, Real(1) / 3)(z) - Real(1) / 3) / z if z > 1e-20 else Real(1) / 5


WIDE_FITS = {
    "EXP": WideFit(mp.exp, Real(-HALF_LN2), Real(HALF_LN2), 12, lambda x: mp.exp(-x), (1.0, 1.0)),
    "EXP2": WideFit(lambda x: mp.power(2, x), Real(-0.5), Real(0.5), 12, lambda x: mp.power(2, -x), (1.0,)),
    "EXP10": WideFit(
        lambda x: mp.power(10, x), Real(-HALF_LOG10_2), Real(HALF_LOG10_2), 12, lambda x: mp.power(10, -x), (1.0,)
    ),
    "EXPM1": WideFit(_expm1, Real(-HALF_LN2), Real(HALF_LN2), 11, lambda x: abs(x**2 / mp.expm1(x)) if x else Real(0)),
    "SINH": _odd(mp.sinh, 6, HALF_LN2, 5),
    "COSH": WideFit(_cosh_tail, Real(0), Real(HALF_LN2) ** 2, 5, lambda z: z),
    "ERF": WideFit(
        lambda x: _log_erfc_quotient(x) + 1,
        Real(0),
        Real(6),
        25,
        lambda x: x * mp.erfc(x) / mp.erf(x) if x else Real(0),
    ),
    "LOG": _log(mp.e, 1, 20),
    "LOG2": _log(Real(2), 1.5, 21),
    "LOG10": _log(Real(10), 0.5, 22),
    "POWER": WideFit(_log_quotient_tail, Real(0), Real(0.2001) ** 2, 8, lambda z: z**2),
    "SIN": _odd(mp.sin, -6, 1.5709, 9),
    "TAN": _odd(mp.tan, 3, EIGHTH_TURN, 14),
    "ATAN": _odd(mp.atan, -3, 1.0, 20),
    "ASIN": _odd(mp.asin, 6, 0.5, 12),
    "ATANH": _odd(mp.atanh, 3, ATANH_REACH, 9),
}
"""The polynomials of the same names with 64."""

if __name__ == "__main__":
    for name, row in FITS.items():
        coefficients, error = fit(row)
        print(f"{name}: error 2^{math.log2(error):.1f}: {coefficients}")
    for name, wide in WIDE_FITS.items():
        coefficients, error = wide_fit(wide)
        print(f"{name}_64: error 2^{float(mp.log(error, 2)):.1f}: {coefficients}")
