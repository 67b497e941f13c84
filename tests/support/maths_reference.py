"""The mathematical functions of float32 in numpy's float64: arguments to try, and errors in units in the last place."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import drawn
import numpy as np

__all__ = ["FUNCTIONS", "PAIRS", "errors", "sample"]

COUNT = 1 << 16


def _sigmoid(x: np.ndarray) -> np.ndarray:
    decayed = np.exp(-np.abs(x))
    return np.where(x < 0, decayed, 1.0) / (1 + decayed)


def _erf(x: np.ndarray) -> np.ndarray:
    return np.array([math.erf(v) for v in x.tolist()])


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "tanh": np.tanh,
    "sigmoid": _sigmoid,
    "erf": _erf,
    "sin": np.sin,
    "cos": np.cos,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "pow": np.power,
    "exp10": lambda x: np.power(10.0, x),
    "tan": np.tan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "atan2": np.arctan2,
    "hypot": np.hypot,
}
PAIRS = ("pow", "atan2", "hypot")
"""Those of two operands."""
SPECIAL = [
    0.0,
    1,
    2,
    3,
    0.5,
    1.5,
    2.5,
    16777215,
    16777216,
    131072,
    131080,
    3.4028235e38,
    1e-45,
    1.1754944e-38,
    math.inf,
    math.nan,
    0.99999994,
    1.0000001,
    88.72284,
    88.72283,
    87.33655,
    103.97208,
    103.2,
    128,
    126,
    149,
    150,
    9.02,
    3.9192059,
    16.635532,
    1.5707964,
    3.1415927,
    0.34657359,
    0.25,
    0.7071068,
    1e-6,
    12.0,
    1e6,
]

SPECIAL_OF_FLOAT64 = [
    9007199254740991.0,
    9007199254740992.0,
    4.5e15,
    1048576.0,
    1048577.5,
    5e-324,
    2.2250738585072014e-308,
    1.7976931348623157e308,
    0.9999999999999999,
    1.0000000000000002,
    709.782712893384,
    709.7827128933841,
    710.4758600739439,
    710.475860073944,
    745.1332191019411,
    745.1332191019412,
    708.4,
    1024.0,
    1022.0,
    1074.0,
    1075.0,
    308.25471555991674,
    323.6072453387798,
    19.06,
    36.7,
    37.43,
    1.5707963267948966,
    3.141592653589793,
    6381956970095103.0 * 2.0**797,
    1e300,
    1e-300,
    1e-8,
    1e9,
]


def errors(got: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """In units in the last place of the nearest float32; infinite where one is a NaN, an infinity or a zero of another sign."""
    with np.errstate(all="ignore"):
        nearest = exact.astype(np.float32)
        unit = np.spacing(np.minimum(np.abs(nearest), np.finfo(np.float32).max)).astype(np.float64)
        error = (
            np.abs(np.clip(got.astype(np.float64), -(2.0**128), 2.0**128) - np.clip(exact, -(2.0**128), 2.0**128))
            / unit
        )
        wrong = (np.isnan(got) != np.isnan(exact)) | (
            (exact == 0) & (got == 0) & (np.signbit(got) != np.signbit(exact))
        )
        wrong |= np.isinf(exact) & (got != exact)
    error[np.isnan(exact) | (got == nearest)] = 0
    error[wrong] = np.inf
    return error


def sample(name: str, dtype: str = "float32") -> tuple[np.ndarray, ...]:
    """Arguments of every magnitude, those of ordinary size, and special ones."""
    rng = drawn.rng(f"maths {name} {dtype}")
    special = np.array([*SPECIAL, *(-np.array(SPECIAL))]).astype(dtype)
    if dtype == "float64":
        special = np.concatenate([special, SPECIAL_OF_FLOAT64, -np.array(SPECIAL_OF_FLOAT64)])
    if name in PAIRS:
        x, y = of_every_size(rng, dtype), of_every_size(rng, dtype)
        x[::8] = rng.normal(1, 0.02, COUNT)[::8]  # pow's hardest: their logarithms are small, the exponents large
        grid = np.meshgrid(special, special)
        least, most = (-152, 129) if dtype == "float32" else (-1076, 1025)
        with np.errstate(all="ignore"):
            scale = rng.uniform(least, most, COUNT) / np.log2(np.abs(x.astype(np.float64)))
            y[::2] = (scale if name == "pow" else x * rng.normal(1, 1, COUNT))[::2]
        y[::5] = rng.integers(-40, 40, COUNT)[::5]
        return np.concatenate([x, grid[0].ravel()]), np.concatenate([y, grid[1].ravel()])
    usual = (rng.normal(0, 1, COUNT) * 10.0 ** rng.integers(-3, 3, COUNT)).astype(dtype)
    return (np.concatenate([of_every_size(rng, dtype), usual, special]),)


def of_every_size(rng: np.random.Generator, dtype: str) -> np.ndarray:
    """Numbers of any bits."""
    word: type[np.generic] = np.uint32 if dtype == "float32" else np.uint64
    return rng.integers(0, np.iinfo(word).max, COUNT, dtype=word, endpoint=True).view(dtype)
