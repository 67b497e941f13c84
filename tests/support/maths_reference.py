"""The mathematical functions of float32 in numpy's float64: arguments to try, and errors in units in the last place."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import drawn
import numpy as np

__all__ = ["FUNCTIONS", "errors", "sample"]

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
}
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


def sample(name: str) -> tuple[np.ndarray, ...]:
    """Arguments of every magnitude, those of ordinary size, and special ones."""
    rng = drawn.rng(f"maths {name}")
    special = np.array([*SPECIAL, *(-np.array(SPECIAL))], np.float32)
    if name == "pow":
        x = rng.integers(0, 1 << 32, COUNT, dtype=np.uint32).view(np.float32)
        y = rng.integers(0, 1 << 32, COUNT, dtype=np.uint32).view(np.float32)
        x[::8] = rng.normal(1, 0.02, COUNT)[::8]  # the hardest: their logarithms are small, the exponents large
        grid = np.meshgrid(special, special)
        with np.errstate(all="ignore"):
            y[::2] = (rng.uniform(-152, 129, COUNT) / np.log2(np.abs(x.astype(np.float64))))[::2]
        y[::5] = rng.integers(-40, 40, COUNT)[::5]
        return np.concatenate([x, grid[0].ravel()]), np.concatenate([y, grid[1].ravel()])
    every = rng.integers(0, 1 << 32, COUNT, dtype=np.uint32).view(np.float32)
    usual = (rng.normal(0, 1, COUNT) * 10.0 ** rng.integers(-3, 3, COUNT)).astype(np.float32)
    return (np.concatenate([every, usual, special]),)
