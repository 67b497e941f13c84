"""Intrinsics of all ranks, under loops of all kinds, against numpy and against the loops that they replace."""

from __future__ import annotations

import random
from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from lowered import floats
from tilewright import te

TARGETS = ("llvm", "interpret")


def written(rows: int, columns: int, depth: int, parts: int = 3) -> te.TensorIntrin:
    """c[i, j] = sum of a[i, k] * b[j, k], as loops of its own; `parts`: 1 the body alone, 2 no reduce_init, 3 all."""
    a, b = te.placeholder((rows, depth), name="a"), te.placeholder((columns, depth), name="b")
    k = te.reduce_axis((0, depth), "k")
    c = te.compute((rows, columns), lambda i, j: te.sum(a[i, k] * b[j, k], axis=k), "c")
    binds = {
        tensor: te.decl_buffer(tensor.shape, tensor.dtype, tensor.name, strides=[te.var("s"), te.var("t")])
        for tensor in (a, b, c)
    }

    def bodies(ins: list[Any], outs: list[Any]) -> Any:
        def loops(begin: bool, go_on: bool) -> Any:
            ib = tw.ir_builder()
            x, y, z = ib.buffer_ptr(ins[0]), ib.buffer_ptr(ins[1]), ib.buffer_ptr(outs[0])
            with ib.for_range(0, rows, "i") as i, ib.for_range(0, columns, "j") as j:
                if begin:
                    z[i, j] = 0.0
                if go_on:
                    with ib.for_range(0, depth, "k") as k:
                        z[i, j] = z[i, j] + x[i, k] * y[j, k]
            return ib.get()

        body, init, update = loops(True, True), loops(True, False), loops(False, True)
        return body if parts == 1 else (body, None if parts == 2 else init, update)

    return te.decl_tensor_intrin(c.op, bodies, "written", binds)


def test_drawn_tilings_of_a_matmul() -> None:
    for case in range(drawn.count(12, 300)):
        draw = random.Random(int(drawn.rng("tensorize", case).integers(1 << 40)))
        rows, columns, depth = (draw.choice([1, 2, 3, 4]) for _ in range(3))
        n, m = (size * draw.choice([1, 2, 3]) for size in (rows, columns))
        whole = draw.random() < 0.4
        d = depth if whole else depth * draw.choice([1, 2, 3])
        A, B = te.placeholder((n, d), name="A"), te.placeholder((m, d), name="B")
        r = te.reduce_axis((0, d), "r")
        C = te.compute((n, m), lambda i, j, A=A, B=B, r=r: te.sum(A[i, r] * B[j, r], axis=r), "C")
        D = te.compute((n, m), lambda i, j, C=C: C[i, j] + 1, "D")
        s = te.create_schedule(D.op)
        stage = s[C]
        if draw.random() < 0.5:
            outer, _ = s[D].split(D.op.axis[0], factor=rows)
            stage.compute_at(s[D], outer)
        copied = s.cache_read(B, "local", [C]) if draw.random() < 0.5 else None
        i, j = C.op.axis
        io, ii = stage.split(i, factor=rows)
        jo, ji = stage.split(j, factor=columns)
        ro, ri = stage.split(r, factor=depth)
        outside = [io, jo, ro]
        draw.shuffle(outside)
        inside = [ii, ji, ri]
        draw.shuffle(inside)
        stage.reorder(*outside, *inside)
        if copied is not None and draw.random() < 0.5:
            s[copied].compute_at(stage, outside[draw.randrange(3)])
        stage.tensorize(inside[0], written(rows, columns, depth, 3 if d > depth else draw.choice([1, 2, 3])))
        a, b = floats(n, d, seed=1), floats(m, d, seed=2)
        for target in TARGETS:
            found = np.full((n, m), 77, "float32")
            tw.build(s, [A, B, D], target=target)(a, b, found)
            np.testing.assert_allclose(
                found, a @ b.T + 1, rtol=1e-4, atol=1e-4, err_msg=f"seed {drawn.SEED}, case {case}\n{s}"
            )


@pytest.mark.parametrize("target", TARGETS)
def test_a_fused_loop_over_the_whole_part(target: str) -> None:
    A, B = te.placeholder((8, 6), name="A"), te.placeholder((9, 6), name="B")
    r = te.reduce_axis((0, 6), "r")
    C = te.compute((8, 9), lambda i, j: te.sum(A[i, r] * B[j, r], axis=r), "C")
    s = te.create_schedule(C.op)
    io, jo, ii, ji = s[C].tile(*C.op.axis, 4, 3)
    fused = s[C].fuse(ii, ji)
    s[C].parallel(io)
    s[C].tensorize(fused, written(4, 3, 6, 1))
    a, b, found = floats(8, 6), floats(9, 6, seed=1), np.zeros((8, 9), "float32")
    tw.build(s, [A, B, C], target=target)(a, b, found)
    np.testing.assert_allclose(found, a @ b.T, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("target", TARGETS)
def test_dimensions_of_one_element_are_left_out(target: str) -> None:
    """A convolution in blocks of channels: six dimensions under an intrinsic of two."""
    D, W = te.placeholder((1, 2, 6, 6, 4), "uint8", "D"), te.placeholder((1, 2, 3, 3, 16, 4), "int8", "W")
    co, ky, kx, ci = (
        te.reduce_axis((0, extent), name) for extent, name in ((2, "co"), (3, "ky"), (3, "kx"), (4, "ci"))
    )
    C = te.compute(
        (1, 1, 4, 4, 16),
        lambda n, o, y, x, c: te.sum(
            D[n, co, y + ky, x + kx, ci].astype("int32") * W[o, co, ky, kx, c, ci].astype("int32"),
            axis=[co, ky, kx, ci],
        ),
        "C",
    )
    s = te.create_schedule(C.op)
    n, o, y, x, c = C.op.axis
    s[C].reorder(n, o, y, x, co, ky, kx, c, ci)
    s[C].tensorize(c, te.intrinsics.get("x86.dot_u8i8_16x4"))
    rng = np.random.default_rng(0)
    d, w = (
        rng.integers(0, 256, (1, 2, 6, 6, 4)).astype("uint8"),
        rng.integers(-128, 128, (1, 2, 3, 3, 16, 4)).astype("int8"),
    )
    windows = np.lib.stride_tricks.sliding_window_view(d[0].astype("int32"), (3, 3), axis=(1, 2))
    expected = np.einsum("ayxcuv,auvoc->yxo", windows, w[0].astype("int32"))[None, None]
    found = np.zeros((1, 1, 4, 4, 16), "int32")
    tw.build(s, [D, W, C], target=target)(d, w, found)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("target", TARGETS)
def test_an_elementwise_intrinsic_reads_a_producer_computed_outside_of_it(target: str) -> None:
    A = te.placeholder((6, 8), name="A")
    B = te.compute((6, 8), lambda i, j: A[i, j] * 3, "B")
    C = te.compute((6, 8), lambda i, j: te.max(B[i, j], 0.5), "C")
    x = te.placeholder((8,), name="x")
    y = te.compute((8,), lambda i: te.max(x[i], 0.5), "y")
    clip = te.decl_tensor_intrin(
        y.op,
        lambda ins, outs: outs[0].vstore([0], te.max(ins[0].vload([0], "float32x8"), te.const(0.5, "float32x8"))),
        "clip",
    )
    s = te.create_schedule(C.op)
    i, j = C.op.axis
    s[B].compute_at(s[C], i)
    s[C].tensorize(j, clip)
    values, found = floats(6, 8), np.zeros((6, 8), "float32")
    tw.build(s, [A, C], target=target)(values, found)
    np.testing.assert_allclose(found, np.maximum(values * 3, 0.5), rtol=1e-6)


def test_a_reduction_of_pairs_is_interpreted_by_its_meaning() -> None:
    def combine(x: Any, y: Any) -> tuple[Any, Any]:
        return te.select(y[1] > x[1], y[0], x[0]), te.max(x[1], y[1])

    argmax = te.comm_reducer(combine, lambda index, value: (te.const(-1, index), te.min_value(value)), "argmax")

    def declare(rows: int, depth: int) -> tuple[Any, ...]:
        V = te.placeholder((rows, depth), "int32", "V")
        k = te.reduce_axis((0, depth), "k")
        T = te.compute((rows,), lambda i: argmax((k, V[i, k]), axis=k), "T")
        return V, T[0], T[1], k

    v, t0, _, _ = declare(1, 8)
    intrinsic = te.decl_tensor_intrin(
        t0.op,
        lambda ins, outs: te.call_extern(
            "int32", "hardware_argmax", outs[0].access_ptr("w"), outs[1].access_ptr("w"), ins[0].access_ptr("r")
        ),
        "argmax8",
    )
    V, T0, T1, k = declare(5, 8)
    s = te.create_schedule(T0.op)
    inner = s[T0].split(T0.op.axis[0], factor=1)[1]
    s[T0].tensorize(inner, intrinsic)
    values = np.random.default_rng(3).integers(-100, 100, (5, 8)).astype("int32")
    where, most = np.zeros(5, "int32"), np.zeros(5, "int32")
    tw.build(s, [V, T0, T1], target="interpret")(values, where, most)
    np.testing.assert_array_equal(where, values.argmax(1))
    np.testing.assert_array_equal(most, values.max(1))


def test_shared_values_are_compared_once() -> None:
    def chain(x: Any) -> Any:
        for _ in range(60):
            x = x * x
        return x

    a = te.placeholder((8,), name="a")
    c = te.compute((8,), lambda i: chain(a[i]), "c")
    intrinsic = te.decl_tensor_intrin(
        c.op, lambda ins, outs: te.call_extern("int32", "f", outs[0].access_ptr("w")), "chain"
    )
    A = te.placeholder((16,), name="A")
    C = te.compute((16,), lambda i: chain(A[i]), "C")
    s = te.create_schedule(C.op)
    s[C].tensorize(s[C].split(C.op.axis[0], factor=8)[1], intrinsic)
    tw.lower(s, [A, C])  # written out it would be 2 ** 60 factors
