"""Cycles an element of the mathematical functions, ours (and with fast_math) beside numpy's and torch's, on data in the first
caches and on one thread.

    python -m tools.benchmarks.maths [NAME ...] [--dtype float64] [--target "llvm -mcpu=haswell"]

Sides take turns; each figure is the least of 25. A cycle is what benchmarks.ceiling's loop of fused multiply-adds takes for
one pair of full vectors. Prints one JSON object a function.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import tilewright as tw
from llvmlite import binding
from tilewright import te
from tilewright.codegen.target import Target

from .ceiling import fma_gflops

COUNT, RUNS, CALLS = 16384, 25, 8
NAMES = (
    "exp exp2 exp10 expm1 log log2 log10 log1p tanh sinh cosh sigmoid erf sin cos tan asin acos atan asinh acosh atanh sqrt rsqrt "
    "pow atan2 hypot"
).split()
RANGES = dict.fromkeys("log log2 log10 log1p sqrt rsqrt pow".split(), (0.1, 8.0)) | {
    "acosh": (1.0, 20.0),
    **dict.fromkeys(("asin", "acos", "atanh"), (-1.0, 1.0)),
}
PAIRS = {"pow": (-3.0, 3.0), "atan2": (-8.0, 8.0), "hypot": (-8.0, 8.0)}
"""The second operand of those that take two."""
OF_NUMPY = {"pow": "power", "asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2"} | {
    name: f"arc{name[1:]}" for name in ("asinh", "acosh", "atanh")
}


def kernel(name: str, dtype: str, lanes: int, target: str, fast_math: bool) -> Callable[..., Any]:
    inputs = [te.placeholder((COUNT,), dtype, f"x{i}") for i in range(2 if name in PAIRS else 1)]
    y = te.compute((COUNT,), lambda i: getattr(te, name)(*(x[i] for x in inputs)), "y")
    s = te.create_schedule(y)
    s[y].vectorize(s[y].split(y.op.axis[0], lanes)[1])
    return tw.build(s, [*inputs, y], target=target, fast_math=fast_math)


def sides(name: str, dtype: str, lanes: int, target: str) -> dict[str, Callable[[], Any]]:
    """Return the functions to time, by library."""
    rng = np.random.default_rng(0)
    ranges = [RANGES.get(name, (-8.0, 8.0)), *([PAIRS[name]] if name in PAIRS else [])]
    inputs = [rng.uniform(*each, COUNT).astype(dtype) for each in ranges]
    out = np.empty(COUNT, dtype)
    ours, fast = (kernel(name, dtype, lanes, target, fast_math) for fast_math in (False, True))
    functions: dict[str, Callable[[], Any]] = {
        "ours": lambda: ours(*inputs, out),
        "fast_math": lambda: fast(*inputs, out),
    }
    of_numpy = getattr(np, OF_NUMPY.get(name, name), None)
    if of_numpy is not None:
        functions["numpy"] = lambda: of_numpy(*inputs, out=out)
    try:
        import torch
    except ImportError:
        return functions
    torch.set_num_threads(1)
    of_torch, tensors = getattr(torch, name, None), [torch.from_numpy(a) for a in inputs]
    if of_torch is not None:
        result = torch.empty_like(tensors[0])
        functions["torch"] = lambda: of_torch(*tensors, out=result)
    return functions


def least(programs: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Seconds a call, taking turns."""
    spent: dict[str, list[float]] = {who: [] for who in programs}
    for _ in range(RUNS):
        for who, program in programs.items():
            program()
            start = time.thread_time()
            for _ in range(CALLS):
                program()
            spent[who].append((time.thread_time() - start) / CALLS)
    return {who: min(times) for who, times in spent.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}; all without any")
    parser.add_argument("--dtype", default="float32", choices=["float32", "float64"])
    parser.add_argument("--target", default="llvm", help="another processor of this machine's family")
    chosen = parser.parse_args()
    bits = 512 if binding.get_host_cpu_features().get("avx512f") else 256
    hertz = fma_gflops(1, 0.1) * 1e9 / (2 * bits // 32)
    lanes = Target.parse(chosen.target).lanes(32 if chosen.dtype == "float32" else 64)
    for name in chosen.names or NAMES:
        programs = sides(name, chosen.dtype, lanes, chosen.target)
        cycles = {who: seconds * hertz / COUNT for who, seconds in least(programs).items()}
        peers = {who: value for who, value in cycles.items() if who not in ("ours", "fast_math")}
        best = min(peers, key=lambda who: peers[who], default=None)
        print(
            json.dumps(
                {
                    "function": name,
                    "dtype": chosen.dtype,
                    "cycles_per_element": {who: round(value, 2) for who, value in cycles.items()},
                    "best_peer": best,
                    "ratio": round(peers[best] / cycles["ours"], 2) if best else None,
                }
            ),
            flush=True,
        )


if __name__ == "__main__":
    main()
