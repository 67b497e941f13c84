"""The polynomials of codegen/llvm/maths_*.py: least-maximum fits.

    python tests/support/fit_maths.py            prints each row: name, greatest error, coefficients

Least squares, weighted again and again by where the error is greatest (C. L. Lawson, 1961; convergence: J. R. Rice and
K. H. Usow, 1968): it needs no alternation, which fits whose first coefficients are given do not have. Coefficients are
rounded to float32 one after the other, the least power first, and the rest fitted again after each, which hides most of
what rounding costs. Functions are evaluated by mpmath at 40 digits on the points of the grid.
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


mp = mpmath.mp
HALF_LN2 = 0.34657359027997264 * 1.0005
"""The half of ln 2, and what the rounding of x / ln 2 adds."""
QUARTER_TURN = 1.59


def _expm1(r: mpmath.mpf) -> mpmath.mpf:
    return (mp.expm1(r) - r) / r**2 if r else mpmath.mpf(1) / 2


def _sine(z: mpmath.mpf) -> mpmath.mpf:
    x = mp.sqrt(z)
    return (mp.sin(x) - x) / (x * z) if x else mpmath.mpf(-1) / 6


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
    # sin(r) = r + r^3 P(r^2)
    "SIN": Fit(_sine, 0.0, QUARTER_TURN**2, 4, lambda z: _relative(3, np.sin)(np.sqrt(z))),
}

if __name__ == "__main__":
    for name, row in FITS.items():
        coefficients, error = fit(row)
        print(f"{name}: error 2^{math.log2(error):.1f}: {coefficients}")
