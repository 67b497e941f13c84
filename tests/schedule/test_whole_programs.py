"""Whole programs, each of several stages under a schedule as users write them, against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import te


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def agrees(
    s: te.Schedule, args: list[te.Tensor], inputs: list[np.ndarray], expected: np.ndarray, rtol: float = 1e-4
) -> None:
    out = np.full(expected.shape, 77, expected.dtype)
    tw.build(s, args)(*inputs, out)
    np.testing.assert_allclose(out, expected, rtol=rtol, atol=1e-5)


def test_convolution_through_a_matrix_of_patches() -> None:
    n, c, h, o, r = 2, 3, 9, 4, 3
    out = h - r + 1
    A, W = te.placeholder((n, c, h, h), name="A"), te.placeholder((o, c, r, r), name="W")
    patches = te.compute(
        (n, c * r * r, out * out),
        lambda b, q, p: A[b, q // (r * r), p // out + (q % (r * r)) // r, p % out + q % r],
        name="patches",
    )
    k = te.reduce_axis((0, c * r * r), "k")
    Y = te.compute(
        (n, o, out * out),
        lambda b, f, p: te.sum(W[f, k // (r * r), (k // r) % r, k % r] * patches[b, k, p], axis=k),
        name="Y",
    )
    Z = te.compute((n, o, out, out), lambda b, f, y, x: Y[b, f, y * out + x], name="Z")
    s = te.create_schedule(Z)
    po, pi = s[Y].split(Y.op.axis[2], 16)
    ko, ki = s[Y].split(k, 5)
    s[Y].reorder(Y.op.axis[0], po, ko, Y.op.axis[1], ki, pi)
    s[Y].vectorize(pi)
    s[patches].compute_at(s[Y], ko)
    s[Y].parallel(Y.op.axis[0])
    s[Z].parallel(s[Z].fuse(*Z.op.axis[:2]))
    a, w = numbers(n, c, h, h), numbers(o, c, r, r, seed=1)
    windows = np.lib.stride_tricks.sliding_window_view(a, (r, r), (2, 3))
    agrees(s, [A, W, Z], [a, w], np.einsum("nchwij,ocij->nohw", windows, w))


@pytest.mark.parametrize("factored", [False, True])
def test_layer_norm_by_welfords_reduction(factored: bool) -> None:
    def combine(x: tuple[Any, ...], y: tuple[Any, ...]) -> tuple[Any, ...]:
        count, delta = x[0] + y[0], y[1] - x[1]
        safe = te.max(count, 1.0)
        return count, x[1] + delta * y[0] / safe, x[2] + y[2] + delta * delta * x[0] * y[0] / safe

    welford = te.comm_reducer(combine, lambda *kinds: tuple(te.const(0, kind) for kind in kinds), name="welford")
    A = te.placeholder((8, 100), name="A")
    k = te.reduce_axis((0, 100), "k")
    count, mean, squares = te.compute(
        (8,),
        lambda i: welford((te.const(1.0, "float32"), A[i, k], te.const(0.0, "float32")), axis=k),
        name="statistics",
    )
    Y = te.compute((8, 100), lambda i, j: (A[i, j] - mean[i]) * te.rsqrt(squares[i] / 100 + 1e-5), name="Y")
    s = te.create_schedule(Y)
    if factored:
        _, ki = s[count].split(k, 8)
        partial = s.rfactor([count, mean, squares], ki)[0]
        s[partial].compute_at(s[count], count.op.axis[0])
        s[partial].reorder(s[partial].op.reduce_axis[0], s[partial].op.axis[0])
        s[partial].vectorize(s[partial].op.axis[0])
    s[count].compute_at(s[Y], Y.op.axis[0])
    s[Y].parallel(Y.op.axis[0])
    s[Y].vectorize(s[Y].split(Y.op.axis[1], 16)[1])
    a = numbers(8, 100) + 3
    agrees(s, [A, Y], [a], (a - a.mean(1, keepdims=True)) / np.sqrt(a.var(1, keepdims=True) + 1e-5), 1e-3)


def test_laplacian_pyramid_attached_at_two_levels() -> None:
    n = 64
    half = n // 2
    A = te.placeholder((n, n), name="A")
    down = te.compute(
        (half, half),
        lambda y, x: (A[2 * y, 2 * x] + A[2 * y + 1, 2 * x] + A[2 * y, 2 * x + 1] + A[2 * y + 1, 2 * x + 1]) * 0.25,
        name="down",
    )
    up = te.compute(
        (n, n), lambda y, x: down[te.min((y + 1) // 2, half - 1), te.min((x + 1) // 2, half - 1)], name="up"
    )
    D = te.compute((n, n), lambda y, x: A[y, x] - up[y, x], name="D")
    s = te.create_schedule(D)
    yo, xo, _, xi = s[D].tile(*D.op.axis, 10, 12)
    s[up].compute_at(s[D], xo)
    s[down].compute_at(s[D], yo)
    s[D].parallel(yo)
    for stage, axis in ((D, xi), (down, down.op.axis[1]), (up, up.op.axis[1])):
        s[stage].vectorize(axis)
    a = numbers(n, n)
    at = np.minimum((np.arange(n) + 1) // 2, half - 1)
    agrees(s, [A, D], [a], a - a.reshape(half, 2, half, 2).mean((1, 3))[np.ix_(at, at)])


def test_causal_attention_in_blocks_of_rows() -> None:
    T, d = 20, 16
    Q, K, V = (te.placeholder((T, d), name=name) for name in "QKV")
    k1, k2, k3, k4 = (te.reduce_axis((0, e), f"k{at}") for at, e in enumerate((d, T, T, T)))
    S = te.compute((T, T), lambda i, j: te.sum(Q[i, k1] * K[j, k1], axis=k1), name="S")
    masked = te.compute((T, T), lambda i, j: te.if_then_else(j <= i, S[i, j] * 0.25, -1e30), name="masked")
    top = te.compute((T,), lambda i: te.max(masked[i, k2], axis=k2), name="top")
    E = te.compute((T, T), lambda i, j: te.exp(masked[i, j] - top[i]), name="E")
    total = te.compute((T,), lambda i: te.sum(E[i, k3], axis=k3), name="total")
    O = te.compute((T, d), lambda i, j: te.sum(E[i, k4] * V[k4, j], axis=k4), name="O")
    Y = te.compute((T, d), lambda i, j: O[i, j] / total[i], name="Y")
    s = te.create_schedule(Y)
    rows, _ = s[Y].split(Y.op.axis[0], 8)
    for stage in (S, masked, top, E, total, O):
        s[stage].compute_at(s[Y], rows)
    s[Y].parallel(rows)
    s[O].reorder(O.op.axis[0], k4, O.op.axis[1])
    s[O].vectorize(O.op.axis[1])
    s[E].vectorize(E.op.axis[1])
    q, k, v = (numbers(T, d, seed=seed) for seed in range(3))
    scores = np.where(np.tril(np.ones((T, T), bool)), q @ k.T * 0.25, -1e30)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    agrees(s, [Q, K, V, Y], [q, k, v], (weights / weights.sum(1, keepdims=True) @ v).astype("float32"), 1e-3)


def test_batched_matmul_of_any_size_through_a_write_cache() -> None:
    b, m, n, l = (te.var(name) for name in "bmnl")
    A, B = te.placeholder((b, m, l), name="A"), te.placeholder((b, l, n), name="B")
    k = te.reduce_axis((0, l), "k")
    C = te.compute((b, m, n), lambda i, y, x: te.sum(A[i, y, k] * B[i, k, x], axis=k), name="C")
    s = te.create_schedule(C)
    cache = s.cache_write(C, "local")
    yo, xo, _, xi = s[C].tile(C.op.axis[1], C.op.axis[2], 6, 16)
    s[cache].compute_at(s[C], xo)
    ko, ki = s[cache].split(cache.op.reduce_axis[0], 4)
    i, y, x = cache.op.axis
    s[cache].reorder(ko, ki, i, y, x)
    s[cache].vectorize(x)
    s[cache].unroll(y)
    s[cache].unroll(ki)
    s[C].parallel(s[C].fuse(C.op.axis[0], yo))
    s[C].vectorize(xi)
    f = tw.build(s, [A, B, C])
    for sizes in ((1, 1, 1, 1), (2, 13, 33, 7), (3, 6, 16, 4), (0, 3, 3, 3), (2, 3, 5, 0), (1, 0, 4, 4)):
        p, q, r, t = sizes
        left, right, out = numbers(p, q, t), numbers(p, t, r, seed=1), np.full((p, q, r), 5, "float32")
        f(left, right, out)
        np.testing.assert_allclose(out, left @ right, rtol=1e-4, atol=1e-5, err_msg=str(sizes))


def test_reverse_roll_and_transpose_in_one_fused_loop() -> None:
    A = te.placeholder((6, 7, 8), name="A")
    B = te.compute((8, 6, 7), lambda a, b, c: A[5 - b, (c + 3) % 7, 7 - a], name="B")
    s = te.create_schedule(B)
    outer, inner = s[B].split(s[B].fuse(*B.op.axis), nparts=5)
    s[B].parallel(outer)
    s[B].vectorize(s[B].split(inner, 16)[1])
    a = numbers(6, 7, 8)
    agrees(s, [A, B], [a], np.roll(a[::-1], -3, 1)[:, :, ::-1].transpose(2, 0, 1))
