"""What the accelerator does with sums: bias, requantising, relu, pools; and convolutions that skip pixels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.codegen import vdla
from tilewright.ir.expr import Expr
from vdla_programs import assert_same_bits

STEPS: dict[str, tuple[Callable[[Expr], Expr], list[str]]] = {
    "relu": (lambda x: te.max(x, 0), ["max"]),
    "clip": (lambda x: te.min(te.max(x, -7), 120), ["clip"]),
    "clip, the other way": (lambda x: te.max(te.min(x, 120), -7), ["clip"]),
    "requantise": (lambda x: te.max(te.min((x + 8) >> 4, 127), -128), ["add", "shr", "clip"]),
    "subtract": (lambda x: 3 + (x - 5), ["add"]),
    "quotient": (lambda x: x // 4, ["shr"]),
    "copy": (lambda x: x, []),
}


@pytest.mark.parametrize("name", STEPS)
def test_an_expression_is_a_chain_of_instructions(name: str) -> None:
    make, ops = STEPS[name]
    A = te.placeholder((5, 7), "int32", "A")
    R = te.compute((5, 7), lambda y, x: make(A[y, x]), "R")
    B = te.compute((5, 7), lambda y, x: R[y, x].astype("int8"), "B")
    s = te.create_schedule(B.op)
    s.cache_read(A, vdla.acc_buffer)
    s[R].set_scope(vdla.acc_buffer)
    program = assert_same_bits(s, [A, B])
    done = [each.op for each in program.stream if each.unit == "ex"]
    assert done == (ops or ["mov"])


def test_a_bias_for_each_column_and_two_tensors_added() -> None:
    A, b = te.placeholder((6, 5), "int32", "A"), te.placeholder((5,), "int32", "b")
    R = te.compute((6, 5), lambda y, x: b[x] + te.max(A[y, x], A[5 - y, x]), "R")
    s = te.create_schedule(R.op)
    s.cache_write(R, vdla.acc_buffer)
    s.cache_read(A, vdla.acc_buffer)
    s.cache_read(b, vdla.acc_buffer)
    assert_same_bits(s, [A, b, R])


def test_a_pool_takes_up_its_window_and_widens_bytes() -> None:
    A = te.placeholder((9, 9), "int8", "A")
    W = te.compute((9, 9), lambda y, x: A[y, x].astype("int32"), "W")
    ry, rx = te.reduce_axis((0, 3), "ry"), te.reduce_axis((0, 3), "rx")
    P = te.compute((4, 4), lambda y, x: te.max(W[y * 2 + ry, x * 2 + rx], axis=[ry, rx]), "P")
    Q = te.compute((4, 4), lambda y, x: P[y, x].astype("int8"), "Q")
    s = te.create_schedule(Q.op)
    s[W].set_scope(vdla.acc_buffer)
    s[P].set_scope(vdla.acc_buffer)
    s[P].reorder(ry, rx, *P.op.axis)  # all begin before any goes on: two instructions
    program = assert_same_bits(s, [A, Q])
    assert [each.op for each in program.stream] == ["dma_copy2d", "fill", "max", "dma_copy2d"]


def test_a_convolution_that_skips_pixels_requantised() -> None:
    X, W = te.placeholder((2, 7, 7, 16), "int8", "X"), te.placeholder((2, 2, 3, 3, 16, 16), "int8", "W")
    ko, ky, kx, ki = (te.reduce_axis((0, extent), "k") for extent in (2, 3, 3, 16))
    S = te.compute(
        (2, 3, 3, 16),
        lambda o, y, x, i: te.sum(
            X[ko, y * 2 + ky, x * 2 + kx, ki].astype("int32") * W[o, ko, ky, kx, i, ki].astype("int32"),
            axis=[ko, ky, kx, ki],
        ),
        "S",
    )
    R = te.compute(S.shape, lambda *at: te.min(te.max(S[at] >> 8, 0), 127), "R")
    Y = te.compute(S.shape, lambda *at: R[at].astype("int8"), "Y")
    s = te.create_schedule(Y.op)
    XL, WL = s.cache_read(X, vdla.inp_buffer), s.cache_read(W, vdla.wgt_buffer)
    o, y, x, i = Y.op.axis
    s[Y].bind(o, te.thread_axis("vthread"))
    for stage in (S, R):
        s[stage].set_scope(vdla.acc_buffer)
        s[stage].compute_at(s[Y], o)
    o, y, x, i = S.op.axis
    s[S].reorder(ko, o, y, ky, kx, x, i, ki)
    s[S].tensorize(x, vdla.gemm(3, 16, 16, 2))
    s[XL].compute_at(s[S], ko)
    s[WL].compute_at(s[S], ko)
    program = assert_same_bits(s, [X, W, Y])
    assert sum(each.op == "gemm" for each in program.stream) == 4, "one for each thread and block of channels"


def test_weights_may_be_part_of_the_program() -> None:
    held = np.arange(-32, 32, dtype="int8").reshape(8, 8)
    A, W = te.placeholder((8, 8), "int8", "A"), te.constant(held, "W")
    k = te.reduce_axis((0, 8), "k")
    C = te.compute((8, 8), lambda y, x: te.sum(A[y, k].astype("int32") * W[x, k].astype("int32"), axis=k), "C")
    s = te.create_schedule(C.op)
    CL = s.cache_write(C, vdla.acc_buffer)
    s[CL].tensorize(s[CL].op.axis[0], vdla.gemm8x8)
    s.cache_read(A, vdla.inp_buffer)
    s.cache_read(W, vdla.wgt_buffer)
    a, c = np.arange(64, dtype="int8").reshape(8, 8), np.empty((8, 8), "int32")
    tw.build(s, [A, C], target="vdla")(a, c)
    np.testing.assert_array_equal(c, a.astype("int32") @ held.T.astype("int32"))
