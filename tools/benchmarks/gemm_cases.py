"""Products of float32 matrices, square and as networks have them: with few rows, with few columns, and many at once."""

from __future__ import annotations

from functools import partial
from math import prod

from tilewright import topi

from .cases import Case, floats, scheduled
from .peers import halide_peer, jax_peer, numpy_peer, onnx_peers, torch_peer

ROWS: tuple[tuple[str, int, int, int, int], ...] = (
    ("256", 256, 256, 256, 1),
    ("512", 512, 512, 512, 1),
    ("1000", 1000, 1000, 1000, 1),
    ("1024", 1024, 1024, 1024, 1),
    ("2048", 2048, 2048, 2048, 1),
    ("37x4096x512", 37, 4096, 512, 1),
    ("128x3072x768", 128, 3072, 768, 1),
    ("1x4096x4096", 1, 4096, 4096, 1),
    ("4096x4096x16", 4096, 4096, 16, 1),
    ("512 of 64", 64, 64, 64, 512),
)
"""name, m, k, n, batch."""


def gemm(name: str, m: int, k: int, n: int, batch: int) -> Case:
    shapes = ((m, k), (k, n), (m, n)) if batch == 1 else ((batch, m, k), (batch, k, n), (batch, m, n))

    peers = {"numpy": numpy_peer.matmul, "torch": torch_peer.matmul, **onnx_peers.matmul, "jax": jax_peer.matmul}
    if batch == 1:
        peers["halide"] = halide_peer.matmul
    return Case(
        group="gemm",
        name=name,
        inputs=floats(*shapes[:2]),
        outputs=[(shapes[2], "float32")],
        ours=scheduled(topi.matmul if batch == 1 else partial(topi.batch_matmul, transpose_b=False), *shapes[:2]),
        peers=peers,
        flops=2 * m * k * n * batch,
        bytes=4 * sum(prod(shape) for shape in shapes),
        ceiling="fma" if m > 1 else "read",
        tolerance=(1e-3, 1e-3),
    )


CASES = [gemm(*row) for row in ROWS]
