"""Layers after each other on the accelerator: a convolution of bytes with a residual sum, requantised, and one that reads it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tilewright as tw
from tilewright import te
from tilewright.codegen import vdla

SIDE, CHANNELS = 8, 16


def clipped(tensor: te.Tensor, shift: int, least: int, name: str) -> te.Tensor:
    return te.compute(tensor.shape, lambda *at: te.max(te.min(tensor[at] >> shift, 127), least), name=name)


def layer(
    s: te.Schedule,
    sums: te.Tensor,
    out: te.Tensor,
    stages: Sequence[te.Tensor],
    copy: te.Tensor,
    reduced: Sequence[Any],
) -> None:
    """Computes a layer by rows of its output: `stages` in the accumulators, sums by the array."""
    row = out.op.axis[0]
    for stage in stages:
        s[stage].set_scope(vdla.acc_buffer)
        s[stage].compute_at(s[out], row)
    y, x, f = sums.op.axis
    x_outer, x_inner = s[sums].split(x, 8)
    f_outer, f_inner = s[sums].split(f, 8)
    *outer, last = reduced
    k_outer, k_inner = s[sums].split(last, 8)
    s[sums].reorder(y, x_outer, f_outer, *outer, k_outer, x_inner, f_inner, k_inner)
    s[sums].tensorize(x_inner, vdla.gemm8x8)
    s[copy].compute_at(s[out], row)


def test_a_residual_block_and_the_layer_behind_it_are_one_stream() -> None:
    shape = (SIDE, SIDE, CHANNELS)
    X, R = te.placeholder((SIDE + 2, SIDE + 2, CHANNELS), "int8", "X"), te.placeholder(shape, "int8", "R")
    K, L = te.placeholder((3, 3, CHANNELS, CHANNELS), "int8", "K"), te.placeholder((CHANNELS, CHANNELS), "int8", "L")
    ry, rx, rc, rk = (
        te.reduce_axis((0, extent), name) for extent, name in ((3, "ry"), (3, "rx"), (CHANNELS, "rc"), (CHANNELS, "rk"))
    )
    S = te.compute(
        shape,
        lambda y, x, f: te.sum(
            X[y + ry, x + rx, rc].astype("int32") * K[ry, rx, rc, f].astype("int32"), axis=[ry, rx, rc]
        ),
        name="S",
    )
    Q = clipped(S, 6, 0, "Q")
    wide = te.compute(shape, lambda *at: R[at].astype("int32"), name="wide")
    A = te.compute(shape, lambda *at: Q[at] + wide[at], name="A")
    Z = clipped(A, 0, -128, "Z")
    B = te.compute(shape, lambda *at: Z[at].astype("int8"), name="B")
    T = te.compute(
        shape, lambda y, x, f: te.sum(B[y, x, rk].astype("int32") * L[rk, f].astype("int32"), axis=rk), name="T"
    )
    U = clipped(T, 5, -128, "U")
    P = te.compute(shape, lambda *at: U[at].astype("int8"), name="P")
    s = te.create_schedule(P.op)
    XL, BL = s.cache_read(X, vdla.inp_buffer), s.cache_read(B, vdla.inp_buffer)
    for given in (K, L):
        s.cache_read(given, vdla.wgt_buffer)
    layer(s, S, B, [S, Q, wide, A, Z], XL, [ry, rx, rc])
    layer(s, T, P, [T, U], BL, [rk])
    f = tw.build(s, [X, K, R, L, P], target="vdla")
    rng = np.random.default_rng(0)
    x, k, r, weights = (
        rng.integers(-128, 128, [int(extent) for extent in each.shape]).astype("int8") for each in (X, K, R, L)
    )
    found = np.zeros(shape, "int8")
    f(x, k, r, weights, found)
    sums = sum(x[i : i + SIDE, j : j + SIDE].astype("int64") @ k[i, j] for i in range(3) for j in range(3))
    block = np.clip(np.clip(sums >> 6, 0, 127) + r, -128, 127)
    np.testing.assert_array_equal(found, np.clip((block @ weights.astype("int64")) >> 5, -128, 127))
    assert f.kernels[0].timed().cycles > 0
