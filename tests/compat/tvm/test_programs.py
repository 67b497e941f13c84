"""Programs as TVM's users wrote them, with their import lines changed and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from tilewright.compat import tvm
from tilewright.compat.tvm import te


def test_vector_add_with_a_symbolic_extent() -> None:
    tgt = tvm.target.Target(target="llvm", host="llvm")
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.placeholder((n,), name="B")
    C = te.compute(A.shape, lambda i: A[i] + B[i], name="C")
    s = te.create_schedule(C.op)
    outer, inner = s[C].split(C.op.axis[0], factor=64)
    s[C].parallel(outer)
    fadd = tvm.build(s, [A, B, C], tgt, name="myadd")
    dev = tvm.device(tgt.kind.name, 0)
    n = 1024
    a = tvm.nd.array(np.random.uniform(size=n).astype(A.dtype), dev)
    b = tvm.nd.array(np.random.uniform(size=n).astype(B.dtype), dev)
    c = tvm.nd.array(np.zeros(n, dtype=C.dtype), dev)
    fadd(a, b, c)
    tvm.testing.assert_allclose(c.numpy(), a.numpy() + b.numpy())
    tvm.testing.assert_allclose(c.asnumpy(), a.asnumpy() + b.asnumpy())
    evaluator = fadd.time_evaluator(fadd.entry_name, dev, number=10)
    assert evaluator(a, b, c).mean > 0


def test_blocked_matmul_as_in_the_cpu_tutorial() -> None:
    M = K = N = 64
    dtype = "float32"
    target, dev = "llvm", tvm.cpu(0)
    k = te.reduce_axis((0, K), "k")
    A = te.placeholder((M, K), name="A")
    B = te.placeholder((K, N), name="B")
    bn, kfactor = 32, 4
    packedB = te.compute((N // bn, K, bn), lambda bigN, k, littleN: B[k, bigN * bn + littleN], name="packedB")
    C = te.compute(
        (M, N),
        lambda m, n: te.sum(A[m, k] * packedB[n // bn, k, tvm.tir.indexmod(n, bn)], axis=k),
        name="C",
    )
    s = te.create_schedule(C.op)
    CC = s.cache_write(C, "global")
    mo, no, mi, ni = s[C].tile(C.op.axis[0], C.op.axis[1], bn, bn)
    s[CC].compute_at(s[C], no)
    mc, nc = s[CC].op.axis
    (kaxis,) = s[CC].op.reduce_axis
    ko, ki = s[CC].split(kaxis, factor=kfactor)
    s[CC].reorder(ko, mc, ki, nc)
    s[CC].vectorize(nc)
    s[CC].unroll(ki)
    s[C].parallel(mo)
    bigN, _, littleN = s[packedB].op.axis
    s[packedB].vectorize(littleN)
    s[packedB].parallel(bigN)
    func = tvm.build(s, [A, B, C], target=target, name="mmult")
    assert func
    text = str(tvm.lower(s, [A, B, C], simple_mode=True))
    assert "parallel" in text
    assert "vectorized" in text
    a = tvm.nd.array(np.random.rand(M, K).astype(dtype), dev)
    b = tvm.nd.array(np.random.rand(K, N).astype(dtype), dev)
    c = tvm.nd.array(np.zeros((M, N), dtype=dtype), dev)
    func(a, b, c)
    tvm.testing.assert_allclose(c.numpy(), np.dot(a.numpy(), b.numpy()), rtol=1e-5)
    assert "define" in func.get_source()
    assert func.get_source("asm")


def test_argmax_by_a_reducer_of_tuples() -> None:
    def fcombine(x, y):
        lhs = tvm.tir.Select((x[1] >= y[1]), x[0], y[0])
        rhs = tvm.tir.Select((x[1] >= y[1]), x[1], y[1])
        return lhs, rhs

    def fidentity(t0, t1):
        return tvm.tir.const(-1, t0), tvm.te.min_value(t1)

    argmax = te.comm_reducer(fcombine, fidentity, name="argmax")
    m, n = te.var("m"), te.var("n")
    idx = te.placeholder((m, n), name="idx", dtype="int32")
    val = te.placeholder((m, n), name="val", dtype="int32")
    k = te.reduce_axis((0, n), "k")
    T0, T1 = te.compute((m,), lambda i: argmax((idx[i, k], val[i, k]), axis=k), name="T")
    s = te.create_schedule(T0.op)
    f = tvm.build(s, [idx, val, T0, T1])
    values = np.random.default_rng(0).integers(-1000, 1000, (7, 33)).astype("int32")
    places = np.tile(np.arange(33, dtype="int32"), (7, 1))
    t0, t1 = tvm.nd.empty((7,), "int32"), tvm.nd.empty((7,), "int32")
    f(tvm.nd.array(places), tvm.nd.array(values), t0, t1)
    np.testing.assert_array_equal(t0.numpy(), values.argmax(1))
    np.testing.assert_array_equal(t1.numpy(), values.max(1))


def test_rfactor_and_thread_bound_reduction_as_in_the_reduction_tutorial() -> None:
    n = te.var("n")
    m = te.var("m")
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), "k")
    B = te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="B")
    s = te.create_schedule(B.op)
    ko, ki = s[B].split(B.op.reduce_axis[0], factor=16)
    BF = s.rfactor(B, ki)
    xo, xi = s[B].split(s[B].op.axis[0], factor=32)
    s[B].bind(xo, te.thread_axis("blockIdx.x"))
    s[B].bind(xi, te.thread_axis("threadIdx.y"))
    tx = te.thread_axis("threadIdx.x")
    s[B].bind(s[B].op.reduce_axis[0], tx)
    s[BF].compute_at(s[B], s[B].op.reduce_axis[0])
    s[B].set_store_predicate(tx.var.equal(0))
    f = tvm.build(s, [A, B], "llvm")
    a = np.random.uniform(size=(50, 70)).astype("float32")
    b = tvm.nd.array(np.zeros(50, dtype="float32"))
    f(tvm.nd.array(a), b)
    tvm.testing.assert_allclose(b.numpy(), a.sum(axis=1), rtol=1e-4)


def test_conv2d_with_padding_by_if_then_else() -> None:
    batch, channels, size, out_channels, kernel, pad = 2, 3, 14, 8, 3, 1
    A = te.placeholder((size, size, channels, batch), name="A")
    W = te.placeholder((kernel, kernel, channels, out_channels), name="W")
    Apad = te.compute(
        (size + 2 * pad, size + 2 * pad, channels, batch),
        lambda yy, xx, cc, nn: tvm.tir.if_then_else(
            tvm.tir.all(yy >= pad, yy - pad < size, xx >= pad, xx - pad < size),
            A[yy - pad, xx - pad, cc, nn],
            tvm.tir.const(0.0, "float32"),
        ),
        name="Apad",
    )
    rc, ry, rx = (
        te.reduce_axis((0, channels), "rc"),
        te.reduce_axis((0, kernel), "ry"),
        te.reduce_axis((0, kernel), "rx"),
    )
    B = te.compute(
        (size, size, out_channels, batch),
        lambda yy, xx, ff, nn: te.sum(Apad[yy + ry, xx + rx, rc, nn] * W[ry, rx, rc, ff], axis=[ry, rx, rc]),
        name="B",
    )
    s = te.create_schedule(B.op)
    s[Apad].compute_inline()
    func = tvm.build(s, [A, W, B], "llvm")
    a = np.random.uniform(size=(size, size, channels, batch)).astype("float32")
    w = np.random.uniform(size=(kernel, kernel, channels, out_channels)).astype("float32")
    b = tvm.nd.empty((size, size, out_channels, batch))
    func(tvm.nd.array(a), tvm.nd.array(w), b)
    padded = np.pad(a, ((1, 1), (1, 1), (0, 0), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (kernel, kernel), (0, 1))
    tvm.testing.assert_allclose(b.numpy(), np.einsum("yxcnij,ijcf->yxfn", windows, w), rtol=1e-4)


def test_scalar_arguments_and_the_inline_helper() -> None:
    n = te.var("n")
    scale = te.var("scale", "float32")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * scale, name="B", tag="elemwise")
    C = te.compute((n,), lambda i: te.exp(B[i]), name="C", tag="elemwise")
    s = te.create_schedule(C.op)
    te.schedule.AutoInlineInjective(s)
    f = tvm.build(s, [A, scale, C], name="scaled")
    assert "B" not in str(tvm.lower(s, [A, scale, C])).replace("Broadcast", "").split(":", 1)[1]
    a, c = tvm.nd.array(np.linspace(0, 1, 9, dtype="float32")), tvm.nd.empty((9,))
    f(a, 2.0, c)
    tvm.testing.assert_allclose(c.numpy(), np.exp(a.numpy() * 2), rtol=1e-5)


def test_bounds_are_told_by_infer_bound() -> None:
    A = te.placeholder((64,), name="A")
    B = te.compute((64,), lambda i: A[i] + 1, name="B")
    C = te.compute((62,), lambda i: B[i] + B[i + 2], name="C")
    s = te.create_schedule(C.op)
    outer, _ = s[C].split(C.op.axis[0], 31)
    s[B].compute_at(s[C], outer)
    bounds = te.schedule.InferBound(s)
    assert int(bounds[B.op.axis[0]].extent) == 33
    assert int(bounds[outer].extent) == 2


def test_errors_are_tvm_errors() -> None:
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i], name="B")
    with pytest.raises(tvm.TVMError, match="positive"):
        te.create_schedule(B.op)[B].split(B.op.axis[0], factor=0)


def test_a_target_entered_by_with_is_the_default() -> None:
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i] + 1, name="B")
    with tvm.target.Target("interpret"):
        f = tvm.build(te.create_schedule(B.op), [A, B])
    b = tvm.nd.empty((4,))
    f(tvm.nd.array(np.ones(4, "float32")), b)
    assert (b.numpy() == 2).all()
