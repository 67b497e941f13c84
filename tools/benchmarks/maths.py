"""Cycles an element of the mathematical functions of float32, ours (and with fast_math) beside numpy's and torch's, on data in
the first caches and on one thread.

    python -m tools.benchmarks.maths [NAME ...]

Sides take turns; each figure is the least of 25. A cycle is what benchmarks.ceiling's loop of fused multiply-adds takes for
one pair of full vectors. Prints one JSON object a function.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import tilewright as tw
from llvmlite import binding
from tilewright import te

from .ceiling import fma_gflops

COUNT, RUNS, CALLS = 16384, 25, 8
NAMES = "exp exp2 expm1 log log2 log10 log1p tanh sigmoid erf sin cos sqrt rsqrt pow".split()
POSITIVE = {"log", "log2", "log10", "log1p", "sqrt", "rsqrt", "pow"}


def kernel(name: str, lanes: int, fast_math: bool) -> Callable[..., Any]:
    inputs = [te.placeholder((COUNT,), "float32", f"x{i}") for i in range(2 if name == "pow" else 1)]
    y = te.compute((COUNT,), lambda i: getattr(te, name)(*(x[i] for x in inputs)), "y")
    s = te.create_schedule(y)
    s[y].vectorize(s[y].split(y.op.axis[0], lanes)[1])
    return tw.build(s, [*inputs, y], fast_math=fast_math)


def sides(name: str, lanes: int) -> dict[str, Callable[[], Any]]:
    """What is timed, by who it is."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0.1, 8, COUNT) if name in POSITIVE else rng.uniform(-8, 8, COUNT)
    inputs = [x.astype(np.float32)] + ([rng.uniform(-3, 3, COUNT).astype(np.float32)] if name == "pow" else [])
    out = np.empty(COUNT, np.float32)
    ours, fast = (kernel(name, lanes, fast_math) for fast_math in (False, True))
    functions: dict[str, Callable[[], Any]] = {
        "ours": lambda: ours(*inputs, out),
        "fast_math": lambda: fast(*inputs, out),
    }
    of_numpy = getattr(np, "power" if name == "pow" else name, None)
    if of_numpy is not None:
        functions["numpy"] = lambda: of_numpy(*inputs, out=out)
    try:
        import torch
    except ImportError:
        return functions
    torch.set_num_threads(1)
    tensors, result = [torch.from_numpy(a) for a in inputs], torch.empty(COUNT)
    functions["torch"] = lambda: getattr(torch, name)(*tensors, out=result)
    return functions


def least(programs: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Seconds a call, taking turns."""
    spent: dict[str, list[float]] = {who: [] for who in programs}
    for _ in range(RUNS):
        for who, program in programs.items():
            program()
            start = time.perf_counter()
            for _ in range(CALLS):
                program()
            spent[who].append((time.perf_counter() - start) / CALLS)
    return {who: min(times) for who, times in spent.items()}


def main() -> None:
    lanes = 16 if binding.get_host_cpu_features().get("avx512f") else 8
    hertz = fma_gflops(1, 0.1) * 1e9 / (2 * lanes)
    for name in sys.argv[1:] or NAMES:
        cycles = {who: seconds * hertz / COUNT for who, seconds in least(sides(name, lanes)).items()}
        peers = {who: value for who, value in cycles.items() if who not in ("ours", "fast_math")}
        best = min(peers, key=lambda who: peers[who], default=None)
        print(
            json.dumps(
                {
                    "function": name,
                    "cycles_per_element": {who: round(value, 2) for who, value in cycles.items()},
                    "best_peer": best,
                    "ratio": round(peers[best] / cycles["ours"], 2) if best else None,
                }
            ),
            flush=True,
        )


if __name__ == "__main__":
    main()
