"""The error of every mathematical function of float32 over all 2^32 arguments, in units in the last place.

    python -m tools.benchmarks.ulp [NAME ...] [--fast] [--target "llvm -mattr=-fma,-avx512f"] [--step 64] [--lanes 1]

Exact values are float64's: numpy's and, of erf, scipy's, with an error of 1e-8 of such a unit. pow is drawn: pairs of every
magnitude, those whose result is a number most of the time, and every pair of special values. Prints one JSON object a
function: the greatest error, where it is, and how many results are not the nearest float32. All arguments of one function
take a few minutes of one processor.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tilewright as tw
from scipy import special
from tilewright import te

CHUNK = 1 << 20

Reference = Callable[..., Any]


def _sigmoid(x: np.ndarray) -> np.ndarray:
    decayed = np.exp(-np.abs(x))
    return np.where(x < 0, decayed, 1.0) / (1 + decayed)


REFERENCES: dict[str, Reference] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "tanh": np.tanh,
    "sigmoid": _sigmoid,
    "erf": special.erf,
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
SPECIAL = np.array(
    [0, 1, 2, 3, 0.5, 1.5, 2.5, 16777215, 16777216, 3e38, 1e-45, 1e-38, np.inf, np.nan, 0.99999994, 1.0000001],
    np.float32,
)


def kernel(name: str, target: str, fast: bool, lanes: int) -> Callable[..., Any]:
    """name of CHUNK arguments (or of as many pairs), in vectors of `lanes` lanes."""
    inputs = [te.placeholder((CHUNK,), "float32", f"x{i}") for i in range(2 if name in PAIRS else 1)]
    y = te.compute((CHUNK,), lambda i: getattr(te, name)(*(x[i] for x in inputs)), "y")
    s = te.create_schedule(y)
    if lanes > 1:
        _, inner = s[y].split(y.op.axis[0], lanes)
        s[y].vectorize(inner)
    return tw.build(s, [*inputs, y], target=target, fast_math=fast)


def errors(got: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Return errors in units of the last place of the float32 nearest to the exact value; infinite where one is a NaN or has the wrong
    sign of an infinity. A zero's sign counts."""
    with np.errstate(all="ignore"):
        nearest = exact.astype(np.float32)
        unit = np.spacing(np.minimum(np.abs(nearest), np.finfo(np.float32).max)).astype(np.float64)
        finite = np.clip(got.astype(np.float64), -(2.0**128), 2.0**128)
        error = np.abs(finite - np.clip(exact, -(2.0**128), 2.0**128)) / unit
        wrong = (np.isnan(got) != np.isnan(exact)) | (
            (exact == 0) & (got == 0) & (np.signbit(got) != np.signbit(exact))
        )
        wrong |= np.isinf(exact) & (got != exact)
    error[np.isnan(exact) | (got == nearest)] = 0
    error[wrong] = np.inf
    return error


def arguments(name: str, step: int) -> Iterator[tuple[np.ndarray, ...]]:
    """Chunks of arguments: every step-th float32, or drawn pairs."""
    if name in PAIRS:
        yield from pairs(max(64, 4096 // step))
        return
    for begin in range(0, 1 << 32, CHUNK * step):
        yield (
            (np.arange(CHUNK, dtype=np.uint64) * np.uint64(step) + np.uint64(begin)).astype(np.uint32).view(np.float32),
        )


def pairs(chunks: int) -> Iterator[tuple[np.ndarray, ...]]:
    """Bases and exponents: special ones with special ones, any with any, and those whose power is a normal number."""
    both = np.concatenate([SPECIAL, -SPECIAL])
    grid = np.meshgrid(both, both)
    yield tuple(np.resize(side.ravel(), CHUNK) for side in grid)
    for chunk in range(chunks - 1):
        rng = np.random.default_rng(chunk)
        x = rng.integers(0, 1 << 32, CHUNK, dtype=np.uint32).view(np.float32)
        if chunk % 4 == 1:
            y = rng.integers(0, 1 << 32, CHUNK, dtype=np.uint32).view(np.float32)
        elif chunk % 4 == 2:
            x, y = x, rng.integers(-40, 40, CHUNK).astype(np.float32)
        else:
            x = (
                np.abs(x)
                if chunk % 4 == 3
                else (1 + rng.normal(0, 10.0 ** -rng.integers(1, 7), CHUNK)).astype(np.float32)
            )
            with np.errstate(all="ignore"):
                y = (rng.uniform(-155, 130, CHUNK) / np.log2(np.abs(x.astype(np.float64)))).astype(np.float32)
        yield x, y


def examine(name: str, target: str, fast: bool, lanes: int, step: int) -> dict[str, Any]:
    """Print the errors of a function."""
    run, out = kernel(name, target, fast, lanes), np.empty(CHUNK, np.float32)
    worst, at, inexact, seen, start = 0.0, (0.0,), 0, 0, time.perf_counter()
    for inputs in arguments(name, step):
        run(*inputs, out)
        with np.errstate(all="ignore"):
            exact = REFERENCES[name](*(x.astype(np.float64) for x in inputs))
            differing = np.flatnonzero(out.view(np.int32) != exact.astype(np.float32).view(np.int32))
        error = errors(out[differing], exact[differing])
        inexact, seen = inexact + int(np.count_nonzero(error)), seen + out.size
        if error.size and error.max() > worst:
            i = differing[np.argmax(error)]
            worst, at = float(error.max()), tuple(float(x[i]) for x in inputs)
        if sys.stderr.isatty():
            print(f"\r{name}: {seen / 2**20:.0f} million, at most {worst:.3f}", end="", file=sys.stderr)
    return {
        "function": name,
        "target": target,
        "fast_math": fast,
        "lanes": lanes,
        "arguments": seen,
        "worst_ulp": worst,
        "at": [repr(x) for x in at],
        "not_nearest": inexact / seen,
        "seconds": round(time.perf_counter() - start, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(REFERENCES)}; all without any")
    parser.add_argument("--fast", action="store_true", help="build with fast_math")
    parser.add_argument("--target", default="llvm", help="another processor of this machine's family")
    parser.add_argument("--step", type=int, default=1, help="look at every n-th float32 only")
    parser.add_argument("--lanes", type=int, default=16, help="of the vectors; 1 for scalars")
    chosen = parser.parse_args()
    unknown = sorted(set(chosen.names) - set(REFERENCES))
    if unknown:
        parser.error(f"no function {', '.join(unknown)}; there are {', '.join(REFERENCES)}")
    for name in chosen.names or REFERENCES:
        print(json.dumps(examine(name, chosen.target, chosen.fast, chosen.lanes, chosen.step)), flush=True)


if __name__ == "__main__":
    main()
