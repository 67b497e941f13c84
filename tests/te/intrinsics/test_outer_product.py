"""The shipped 4 by 4 microkernel: a matmul whose innermost loops are outer products in vector registers."""

from __future__ import annotations

import re
from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.codegen.target import Target

NAME = "vector.outer_product_4x4"


def matmul(n: int, m: int, k: int, depth: int, dtype: str = "float32", called: bool = False) -> tuple[Any, list[Any]]:
    """C = A @ B, both packed in tiles of 4 that are padded with zeros, `depth` k a call."""
    rows, columns, deep = -(-n // 4), -(-m // 4), -(-k // depth)
    A, B = te.placeholder((n, k), dtype, "A"), te.placeholder((k, m), dtype, "B")
    P = te.compute(
        (rows, deep * depth, 4),
        lambda io, r, ii: te.if_then_else(te.all(io * 4 + ii < n, r < k), A[io * 4 + ii, r], 0),
        "P",
    )
    Q = te.compute(
        (columns, deep * depth, 4),
        lambda jo, r, ji: te.if_then_else(te.all(jo * 4 + ji < m, r < k), B[r, jo * 4 + ji], 0),
        "Q",
    )
    kernel = te.intrinsics.get(NAME, depth, dtype)
    if called:
        ko = te.reduce_axis((0, deep), "ko")
        T = te.compute(
            (rows, columns, 4, 4),
            lambda io, jo: kernel(
                P[io, ko * depth : ko * depth + depth, 0:4], Q[jo, ko * depth : ko * depth + depth], reduce_axis=ko
            ),
            "T",
        )
    else:
        r = te.reduce_axis((0, deep * depth), "r")
        T = te.compute((rows, columns, 4, 4), lambda io, jo, ii, ji: te.sum(P[io, r, ii] * Q[jo, r, ji], axis=r), "T")
    C = te.compute((n, m), lambda i, j: T[i // 4, j // 4, i % 4, j % 4], "C")
    s = te.create_schedule(C.op)
    io, jo, ii, ji = s[T].op.axis
    if not called:
        ro, ri = s[T].split(r, depth)
        s[T].reorder(io, jo, ro, ii, ji, ri)
        s[T].tensorize(ii, kernel)
    s[T].parallel(io)
    return s, [A, B, C]


@pytest.mark.parametrize("called", [False, True])
@pytest.mark.parametrize(
    ("sizes", "depth"), drawn.part([((4, 4, 1), 1), ((5, 7, 9), 4), ((17, 12, 11), 3), ((1, 1, 1), 2)], 2)
)
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_a_matmul_of_any_size(sizes: tuple[int, int, int], depth: int, called: bool, dtype: str) -> None:
    n, m, k = sizes
    rng = np.random.default_rng(n)
    a, b = rng.integers(-9, 9, (n, k)).astype(dtype), rng.integers(-9, 9, (k, m)).astype(dtype)
    s, args = matmul(n, m, k, depth, dtype, called)
    for target in ("llvm", "interpret"):
        found = np.full((n, m), 77, dtype)
        tw.build(s, args, target=target)(a, b, found)
        np.testing.assert_array_equal(found, a @ b)


def test_the_tile_stays_in_registers() -> None:
    """Without packing: rows of A and B anywhere apart, all of the reduction in one call."""
    n, k = 16, 64
    A, B = te.placeholder((k, n), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), "r")
    C = te.compute((n, n), lambda i, j: te.sum(A[r, i] * B[r, j], axis=r), "C")
    s = te.create_schedule(C.op)
    _, _, ii, _ = s[C].tile(*C.op.axis, 4, 4)
    s[C].tensorize(ii, te.intrinsics.get(NAME, k))
    f = tw.build(s, [A, B, C])
    a, b, c = (
        np.random.default_rng(seed).standard_normal((rows, n)).astype("float32")
        for seed, rows in ((0, k), (1, k), (2, n))
    )
    f(a, b, c)
    np.testing.assert_allclose(c, a.T @ b, rtol=1e-4, atol=1e-4)
    if Target().architecture == "x86_64":
        asm = tw.build(s, [A, B, C], target="llvm -mcpu=x86-64-v3").source("asm")
        blocks = [block for block in re.split(r"\n\.LBB\w+:", asm) if "vfmadd" in block.partition("\tj")[0]]
        loop = blocks[0].partition("\tj")[0]
        assert loop.count("vfmadd") == 4, loop
        assert not re.search(r"\tvmov\w+\t%xmm\d+, ", loop), "no row of the tile is stored within the loop"


def test_on_the_emulated_gpu() -> None:
    n, k = 8, 6
    A, B = te.placeholder((k, n), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), "r")
    C = te.compute((n, n), lambda i, j: te.sum(A[r, i] * B[r, j], axis=r), "C")
    s = te.create_schedule(C.op)
    io, jo, ii, _ = s[C].tile(*C.op.axis, 4, 4)
    s[C].bind(io, te.thread_axis("blockIdx.x"))
    s[C].bind(jo, te.thread_axis("threadIdx.x"))
    s[C].tensorize(ii, te.intrinsics.get(NAME, k))
    a, b, c = (
        np.random.default_rng(seed).standard_normal((rows, n)).astype("float32")
        for seed, rows in ((0, k), (1, k), (2, n))
    )
    tw.build(s, [A, B, C], target="cuda -emulate")(a, b, c)
    np.testing.assert_allclose(c, a.T @ b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_bounds_are_checked_around_its_vectors(dtype: str) -> None:
    """The vectors of the body were once checked lane by lane, which no Assert can."""
    s, args = matmul(5, 7, 9, 4, dtype)
    a, b = np.arange(45).reshape(5, 9).astype(dtype), np.arange(63).reshape(9, 7).astype(dtype)
    found = np.full((5, 7), 77, dtype)
    tw.build(s, args, bounds_check=True)(a, b, found)
    np.testing.assert_array_equal(found, a @ b)
