"""Kernels against their peers, on as many threads as OMP_NUM_THREADS says. Prints one JSON object a row."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

import numpy as np
import tilewright as tw
from skimage import data
from tilewright.demo import matmul, unsharp
from tilewright.demo.clock import interleaved

from .ceiling import fma_gflops

ROUNDS = 21


def row(name: str, peer: str, ours: Callable[[], object], theirs: Callable[[], object], flops: float = 0.0) -> None:
    """Times the two in turn and prints the medians in ms, their ratio and the share of the machine's ceiling."""
    ours(), theirs()
    a, b = interleaved(ours, theirs, ROUNDS)
    threads = int(os.environ["OMP_NUM_THREADS"])
    share = flops / a / 1e9 / fma_gflops(threads) if flops else None
    print(json.dumps({
        "work": name, "threads": threads, "ours_ms": a * 1e3, "peer": peer, "peer_ms": b * 1e3, "ratio": b / a,
        "share_of_ceiling": share,
    }), flush=True)


def bench_matmul(size: int) -> None:
    made = matmul.parallel(size)
    f = tw.build(made.schedule, made.args, name="matmul")
    rng = np.random.default_rng(0)
    a, b = rng.random((size, size), dtype=np.float32), rng.random((size, size), dtype=np.float32)
    ours, theirs = np.empty((size, size), np.float32), np.empty((size, size), np.float32)
    f(a, b, ours)
    np.testing.assert_allclose(ours, a @ b, rtol=1e-4)
    row(f"packed matmul {size}", "numpy", lambda: f(a, b, ours), lambda: np.matmul(a, b, out=theirs), 2 * size**3)


def bench_unsharp() -> None:
    image = data.retina()
    schedule, args = unsharp.scheduled(*image.shape)
    f = tw.build(schedule, args, name="unsharp")
    out = np.empty_like(image)
    f(image, out)
    np.testing.assert_array_equal(out, unsharp.reference(image))
    row("unsharp mask", "numpy", lambda: f(image, out), lambda: unsharp.reference(image))


if __name__ == "__main__":
    for size in (512, 1024):
        bench_matmul(size)
    bench_unsharp()
