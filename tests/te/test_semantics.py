"""The contract's table of semantics on programs of every odd shape: scheduled, run on the machine, judged by numpy."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import te

EXTENTS = [(0, 5), (3, 0), (1, 1), (2, 17), (17, 16)]


class Rows:
    """D[i] = sum over k of 2 A[i, k], plus 1."""

    def __init__(self, rows: Any, columns: Any) -> None:
        self.A = te.placeholder((rows, columns), "int32", name="A")
        self.k = te.reduce_axis((0, columns), "k")
        self.B = te.compute((rows, columns), lambda i, j: self.A[i, j] * 2, name="B")
        self.C = te.compute((rows,), lambda i: te.sum(self.B[i, self.k], axis=self.k), name="C")
        self.D = te.compute((rows,), lambda i: self.C[i] + 1, name="D")
        self.s = te.create_schedule(self.D.op)


def attached(p: Rows) -> None:
    outer, inner = p.s[p.D].split(p.D.op.axis[0], 8)
    p.s[p.D].vectorize(inner)
    p.s[p.D].parallel(outer)
    p.s[p.C].compute_at(p.s[p.D], outer)
    p.s[p.B].compute_at(p.s[p.C], p.k)


def fused(p: Rows) -> None:
    outer, inner = p.s[p.B].split(p.s[p.B].fuse(*p.B.op.axis), nparts=3)
    p.s[p.B].parallel(outer)
    p.s[p.B].unroll(p.s[p.B].split(inner, 2)[1])


def factored(p: Rows) -> None:
    F = p.s.rfactor(p.C, p.s[p.C].split(p.k, 4)[1])
    p.s[F].vectorize(F.op.axis[0])
    p.s[p.B].compute_inline()


def cached(p: Rows) -> None:
    read = p.s.cache_read(p.A, "local", [p.B])
    write = p.s.cache_write(p.C, "local")
    p.s[write].compute_at(p.s[p.C], p.C.op.axis[0])
    p.s[read].compute_at(p.s[p.B], p.B.op.axis[0])


def tiled(p: Rows) -> None:
    *_, inner = p.s[p.B].tile(*p.B.op.axis, 64, 64)
    p.s[p.B].vectorize(inner)
    p.s[p.C].reorder(p.k, p.C.op.axis[0])


@pytest.mark.parametrize("schedule", [attached, fused, factored, cached, tiled])
def test_extents_zero_and_one_and_factors_larger_than_the_extent(schedule: Callable[[Rows], None]) -> None:
    """Constant and symbolic: one kernel serves every shape."""
    symbolic = Rows(te.size_var("n"), te.size_var("m"))
    schedule(symbolic)
    kernel = tw.build(symbolic.s, [symbolic.A, symbolic.D])
    for rows, columns in EXTENTS:
        constant = Rows(rows, columns)
        schedule(constant)
        a = np.arange(rows * columns, dtype="int32").reshape(rows, columns) % 23 - 9
        for f in (kernel, tw.build(constant.s, [constant.A, constant.D])):
            found = np.full(rows, 77, "int32")
            f(a, found)
            np.testing.assert_array_equal(found, (2 * a).sum(1).astype("int32") + 1)


@pytest.mark.parametrize("choice", [te.select, te.if_then_else])
@pytest.mark.parametrize("width", [1, 7, 16, 33])
def test_padding_never_loads_out_of_bounds(choice: Callable[..., Any], width: int) -> None:
    """bounds_check and the interpreter would say so; the data's neighbours are poison."""
    A = te.placeholder((width,), name="A")
    P = te.compute((width + 4,), lambda i: choice(te.all(i >= 2, i < width + 2), A[i - 2], 0.0), name="P")
    k = te.reduce_axis((0, 5), "k")
    B = te.compute((width,), lambda i: te.sum(P[i + k], axis=k), name="B")
    memory = np.full(width + 64, np.nan, "float32")
    a = memory[32 : 32 + width]
    a[:] = np.arange(width)
    expected = np.convolve(a, np.ones(5, "float32"))[2 : width + 2]
    for inline, target in itertools.product((False, True), ("llvm", "interpret")):
        s = te.create_schedule(B.op)
        if inline:
            s[P].compute_inline()
        s[B].vectorize(s[B].split(B.op.axis[0], 8)[1])
        found = np.empty(width, "float32")
        tw.build(s, [A, B], target=target, bounds_check=target == "llvm")(a, found)
        np.testing.assert_array_equal(found, expected)


def divisions(x: Any, y: Any) -> Sequence[Any]:
    return x // y, x % y, te.truncdiv(x, y), te.truncmod(x, y)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"])
def test_integer_division_by_zero_is_never_a_signal(dtype: str) -> None:
    info = np.iinfo(dtype)
    ends = np.array([info.min, info.min + 1, 0, 1, 2, 7, info.max - 1, info.max], dtype)
    if info.min < 0:
        ends = np.append(ends, np.array([-1, -2, -7], dtype))
    x, y = (grid.ravel() for grid in np.meshgrid(ends, ends))
    A, B = te.placeholder(x.shape, dtype, name="A"), te.placeholder(x.shape, dtype, name="B")
    outputs = te.compute(x.shape, lambda i: tuple(divisions(A[i], B[i])), name="C")
    with np.errstate(all="ignore"):
        remainder = np.fmod(x, y)
        quotient = np.array(
            [
                int(abs(int(p)) // abs(int(q))) * (1 if (p < 0) == (q < 0) else -1) if q else 0
                for p, q in zip(x, y, strict=True)
            ],
            object,
        )
        quotient = np.array([int(q) % 2**info.bits for q in quotient], "uint64").astype(dtype)
        expected = [x // y, x % y, quotient, remainder]
    for lanes in (1, 8):
        s = te.create_schedule(outputs[0].op)
        s[outputs[0]].vectorize(s[outputs[0]].split(outputs[0].op.axis[0], lanes)[1])
        found = [np.empty_like(x) for _ in outputs]
        tw.build(s, [A, B, *outputs])(x, y, *found)
        for got, wanted in zip(found, expected, strict=True):
            np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize(("dilation", "groups", "stride"), [(1, 1, 1), (2, 2, 2), (1, 6, 1), (3, 1, 2)])
def test_convolutions_with_groups_dilation_and_stride(dilation: int, groups: int, stride: int) -> None:
    channels, size, reach = 6, 11, 2 * dilation + 1
    rows = (size + 2 - reach) // stride + 1
    D, W = (
        te.placeholder((channels, size, size), "int32", name="D"),
        te.placeholder((6, channels // groups, 3, 3), "int32", name="W"),
    )
    P = te.compute(
        (channels, size + 2, size + 2),
        lambda c, y, x: te.if_then_else(te.all(y >= 1, y <= size, x >= 1, x <= size), D[c, y - 1, x - 1], 0),
        name="P",
    )
    c, v, h = (te.reduce_axis((0, extent), name) for extent, name in ((channels // groups, "c"), (3, "v"), (3, "h")))
    each, inputs = 6 // groups, channels // groups
    C = te.compute(
        (6, rows, rows),
        lambda o, y, x: te.sum(
            P[o // each * inputs + c, y * stride + v * dilation, x * stride + h * dilation] * W[o, c, v, h],
            axis=[c, v, h],
        ),
        name="C",
    )
    rng = np.random.default_rng(0)
    d, w = (
        rng.integers(-4, 5, (channels, size, size)).astype("int32"),
        rng.integers(-4, 5, (6, inputs, 3, 3)).astype("int32"),
    )
    padded, expected = np.pad(d, ((0, 0), (1, 1), (1, 1))), np.zeros((6, rows, rows), "int32")
    for o, i, y, x in itertools.product(range(6), range(inputs), range(3), range(3)):
        part = padded[o // each * inputs + i, y * dilation :, x * dilation :]
        expected[o] += w[o, i, y, x] * part[: (rows - 1) * stride + 1 : stride, : (rows - 1) * stride + 1 : stride]
    s = te.create_schedule(C.op)
    s[P].compute_inline()
    o, y, x = C.op.axis
    outer, inner = s[C].split(x, 4)
    s[C].reorder(o, y, outer, c, v, h, inner)
    s[C].vectorize(inner)
    s[C].parallel(s[C].fuse(o, y))
    for chosen in (te.create_schedule(C.op), s):
        found = np.empty_like(expected)
        tw.build(chosen, [D, W, C])(d, w, found)
        np.testing.assert_array_equal(found, expected)
