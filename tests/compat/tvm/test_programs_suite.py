"""Programs in the manner of TVM's own test suite of schedules: what stages show, bounds, layouts, reductions across threads."""

from __future__ import annotations

import numpy as np
import pytest
from tilewright.compat import tvm
from tilewright.compat.tvm import te


def run(s, args, *arrays, target="llvm", **options):
    f = tvm.build(s, args, target, **options)
    f(*[tvm.nd.array(a) if isinstance(a, np.ndarray) and not isinstance(a, tvm.nd.NDArray) else a for a in arrays])


def test_relations_of_split_fuse_and_singleton() -> None:
    m, n = te.size_var("m"), te.size_var("n")
    A = te.placeholder((m, n), name="A")
    T = te.compute((m, n), lambda i, j: A[i, j], name="T")
    s = te.create_schedule(T.op)
    xo, yo, xi, yi = s[T].tile(T.op.axis[0], T.op.axis[1], x_factor=10, y_factor=5)
    fused = s[T].fuse(xo, yo)
    assert any(isinstance(x, tvm.te.schedule.Fuse) for x in s[T].relations)
    assert sum(isinstance(x, tvm.te.schedule.Split) for x in s[T].relations) == 2
    assert tuple(s[T].leaf_iter_vars) == (fused, xi, yi)
    with pytest.raises(tvm.error.TVMError, match="fuse"):
        s[T].fuse(fused, yi)
    B = te.placeholder((), name="B")
    U = te.compute((), lambda: B() + 1, name="U")
    s = te.create_schedule(U.op)
    one = s[U].fuse()
    assert any(isinstance(x, tvm.te.schedule.Singleton) for x in s[U].relations)
    assert tuple(s[U].leaf_iter_vars) == (one,)
    out = tvm.nd.empty(())
    run(s, [B, U], np.array(4, "float32"), out)
    assert out.numpy() == 5


def test_bounds_of_attached_stages_with_symbols() -> None:
    m, n = te.var("m"), te.var("n")
    A = te.placeholder((m, n), name="A")
    A1 = te.compute((m, n), lambda i, j: A[i, j], name="A1")
    A2 = te.compute((m, n), lambda i, j: A1[i, j] + 3, name="A2")
    s = te.create_schedule([A2.op])
    xo, xi = s[A2].split(s[A2].op.axis[0], 8)
    s[A1].compute_at(s[A2], xo)
    bounds = tvm.te.schedule.InferBound(s)
    assert bounds[A1.op.axis[0]].extent.value == 8
    assert str(bounds[A1.op.axis[1]].extent) == "n"
    s = te.create_schedule([A2.op])
    s[A1].compute_at(s[A2], A2.op.axis[0])
    bounds = tvm.te.schedule.InferBound(s)
    assert bounds[A1.op.axis[0]].extent.value == 1
    conv = te.compute((m - 2,), lambda i: A1[i, 0] + A1[i + 1, 0] + A1[i + 2, 0], name="conv")
    s = te.create_schedule(conv.op)
    s[A1].compute_at(s[conv], conv.op.axis[0])
    assert tvm.te.schedule.InferBound(s)[A1.op.axis[0]].extent.value == 3


def test_shared_stage_under_blocks_is_bounded_by_its_threads() -> None:
    m = te.var("m")
    A = te.placeholder((m,), name="A")
    A1 = te.compute((m,), lambda i: A[i], name="A1")
    A2 = te.compute((m,), lambda i: A1[i] + 3, name="A2")
    s = te.create_schedule(A2.op)
    s[A1].set_scope("shared")
    xo, xi = s[A2].split(A2.op.axis[0], 32)
    xi0, xi1 = s[A2].split(xi, nparts=16)
    s[A2].bind(xi0, te.thread_axis("threadIdx.x"))
    s[A2].bind(xo, te.thread_axis("blockIdx.x"))
    s[A2].unroll(xi1)
    s[A1].compute_at(s[A2], xo)
    bounds = tvm.te.schedule.InferBound(s)
    assert bounds[A1.op.axis[0]].extent.value == 32
    tx0, _ = s[A1].split(A1.op.axis[0], nparts=16)
    s[A1].bind(tx0, te.thread_axis("threadIdx.x"))
    out, a = tvm.nd.empty((70,)), np.random.rand(70).astype("float32")
    run(s, [A, A2], a, out)
    tvm.testing.assert_allclose(out.numpy(), a + 3)


def test_cache_write_defines_the_layout() -> None:
    m, n = 24, 20
    A = te.placeholder((m, n), name="A")
    B = te.compute((m, n), lambda i, j: A[i, j] * 2, name="B")
    C = te.compute((m, n), lambda i, j: B[i, j] + 1, name="C")
    s = te.create_schedule(C.op)
    x, y = B.op.axis
    xo, xi = s[B].split(x, factor=4)
    yo, yi = s[B].split(y, factor=8)
    s[B].reorder(yo, xo, xi, yi)
    packed = s.cache_write(B, "local")
    assert [int(e) for e in packed.shape] == [3, 6, 4, 8]
    assert len(s[packed].op.axis) == 4
    s[B].compute_inline()
    out, a = tvm.nd.empty((m, n)), np.random.rand(m, n).astype("float32")
    run(s, [A, C], a, out)
    tvm.testing.assert_allclose(out.numpy(), a * 2 + 1)


def test_cache_write_of_a_tuple() -> None:
    m, n = 9, 30
    A0, A1 = te.placeholder((m, n), name="A0"), te.placeholder((m, n), name="A1")
    k = te.reduce_axis((0, n), name="k")
    pair = te.comm_reducer(
        lambda x, y: (x[0] + y[0], te.max(x[1], y[1])),
        lambda t0, t1: (tvm.tir.const(0, t0), te.min_value(t1)),
        name="sum_and_max",
    )
    S, M = te.compute((m,), lambda i: pair((A0[i, k], A1[i, k]), axis=k), name="R")
    s = te.create_schedule(S.op)
    SC, MC = s.cache_write([S, M], "local")
    outer, inner = s[S].split(S.op.axis[0], 4)
    s[SC].compute_at(s[S], inner)
    ko, ki = s[SC].split(SC.op.reduce_axis[0], 8)
    s[SC].unroll(ki)
    assert s[SC] is s[MC]
    a, b = np.random.rand(m, n).astype("float32"), np.random.randn(m, n).astype("float32")
    x, y = tvm.nd.empty((m,)), tvm.nd.empty((m,))
    run(s, [A0, A1, S, M], a, b, x, y)
    tvm.testing.assert_allclose(x.numpy(), a.sum(1), rtol=1e-5)
    np.testing.assert_array_equal(y.numpy(), b.max(1))


def test_rfactored_argmax_bound_to_threads() -> None:
    def fcombine(x, y):
        lhs = tvm.tir.Select((x[1] >= y[1]), x[0], y[0])
        return lhs, tvm.tir.Select((x[1] >= y[1]), x[1], y[1])

    argmax = te.comm_reducer(fcombine, lambda t0, t1: (tvm.tir.const(-1, t0), te.min_value(t1)), name="argmax")
    mm, nn = 17, 200
    A0, A1 = te.placeholder((mm, nn), "int32", name="A0"), te.placeholder((mm, nn), "float32", name="A1")
    k = te.reduce_axis((0, nn), "k")
    B0, B1 = te.compute((mm,), lambda i: argmax((A0[i, k], A1[i, k]), axis=k), name="B")
    s = te.create_schedule(B0.op)
    ko, _ = s[B0].split(k, nparts=16)
    BF0, _ = s.rfactor(B0, ko)
    bx, ty = s[B0].split(s[B0].op.axis[0], factor=5)
    s[B0].bind(bx, te.thread_axis("blockIdx.x"))
    s[B0].bind(ty, te.thread_axis("threadIdx.y"))
    tx = s[B0].op.reduce_axis[0]
    thread_x = te.thread_axis("threadIdx.x")
    s[B0].bind(tx, thread_x)
    s[BF0.op].compute_at(s[B0], tx)
    s[B0].set_store_predicate(thread_x.var.equal(0))
    values = np.random.default_rng(3).random((mm, nn)).astype("float32")
    places = np.tile(np.arange(nn, dtype="int32"), (mm, 1))
    b0, b1 = tvm.nd.empty((mm,), "int32"), tvm.nd.empty((mm,))
    run(s, [A0, A1, B0, B1], places, values, b0, b1)
    np.testing.assert_array_equal(b0.numpy(), values.argmax(1))
    np.testing.assert_array_equal(b1.numpy(), values.max(1))


def test_reduce_extent_depends_on_the_row() -> None:
    n = te.var("n")
    X = te.placeholder((n,), name="X")

    def f(i):
        rv = te.reduce_axis((0, i + 1), "rv")
        return te.sum(X[rv], axis=rv)

    Y = te.compute(X.shape, f, name="Y")
    s = te.create_schedule(Y.op)
    assert str(tvm.lower(s, [X, Y], simple_mode=True))
    x, y = np.random.rand(11).astype("float32"), tvm.nd.empty((11,))
    run(s, [X, Y], x, y)
    tvm.testing.assert_allclose(y.numpy(), np.cumsum(x), rtol=1e-5)


def test_reduction_with_a_condition_and_fused_dummy_splits() -> None:
    n = 10
    X = te.placeholder((n,), "int32", name="X")
    k = te.reduce_axis((0, n), name="k")
    Y = te.compute((), lambda: te.sum(X[k], k, where=X[k] > 3), name="Y")
    Z = te.compute((), lambda: te.sum(X[k], k), name="Z")
    for T, expected in ((Y, 4 + 5 + 6 + 7 + 8 + 9), (Z, 45)):
        s = te.create_schedule(T.op)
        ax = s[T].fuse(*T.op.axis)
        axo, _ = s[T].split(ax, nparts=20)
        s[T].bind(axo, te.thread_axis("blockIdx.x"))
        out = tvm.nd.empty((), "int32")
        run(s, [X, T], np.arange(10, dtype="int32"), out)
        assert out.numpy() == expected


def test_many_readers_cached_once() -> None:
    n = 40
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1, name="B")
    C = te.compute((n,), lambda i: B[i] * A[i], name="C")
    D = te.compute((n,), lambda i: B[i] - A[n - 1 - i], name="D")
    s = te.create_schedule([C.op, D.op])
    AA = s.cache_read(A, "local", readers=[B, C])
    BB = s.cache_read(B, "local", [C, D])
    outer, inner = s[C].split(s[C].op.axis[0], 8)
    s[AA].compute_root()
    s[BB].compute_root()
    assert [stage.op.name for stage in s.stages].count("A.local") == 1
    a, c, d = np.random.rand(n).astype("float32"), tvm.nd.empty((n,)), tvm.nd.empty((n,))
    run(s, [A, C, D], a, c, d)
    tvm.testing.assert_allclose(c.numpy(), (a + 1) * a, rtol=1e-6)
    tvm.testing.assert_allclose(d.numpy(), a + 1 - a[::-1], rtol=1e-6)


def test_storage_align_and_double_attach_of_a_transpose() -> None:
    n = 32
    A = te.placeholder((n, n), name="A")
    T = te.compute((n, n), lambda i, j: A[j, i], name="T")
    s = te.create_schedule(T.op)
    AA = s.cache_read(A, "shared", [T])
    io, jo, ii, ji = s[T].tile(T.op.axis[0], T.op.axis[1], 8, 8)
    s[AA].compute_at(s[T], jo)
    s[AA].storage_align(s[AA].op.axis[0], 16, 1)
    assert "17" in str(tvm.lower(s, [A, T])) or "stride" in str(tvm.lower(s, [A, T]))
    for axis, tag in ((io, "blockIdx.y"), (jo, "blockIdx.x"), (ii, "threadIdx.y"), (ji, "threadIdx.x")):
        s[T].bind(axis, te.thread_axis(tag))
    a, t = np.random.rand(n, n).astype("float32"), tvm.nd.empty((n, n))
    run(s, [A, T], a, t)
    np.testing.assert_array_equal(t.numpy(), a.T)


def test_virtual_threads_and_strided_vector_add() -> None:
    n, num_thread, nvthread = 1027, 8, 4
    A, B = te.placeholder((n,), name="A"), te.placeholder((n,), name="B")
    C = te.compute((n,), lambda i: A[i] + B[i], name="C")
    s = te.create_schedule(C.op)
    xo, xi = s[C].split(C.op.axis[0], factor=num_thread * nvthread * 2)
    vx, xi = s[C].split(xi, nparts=nvthread)
    tx, xi = s[C].split(xi, nparts=num_thread)
    s[C].bind(xo, te.thread_axis("blockIdx.x"))
    s[C].bind(vx, te.thread_axis("vthread"))
    s[C].bind(tx, te.thread_axis("threadIdx.x"))
    s[C].vectorize(xi)
    a, b, c = np.random.rand(n).astype("float32"), np.random.rand(n).astype("float32"), tvm.nd.empty((n,))
    run(s, [A, B, C], a, b, c)
    np.testing.assert_array_equal(c.numpy(), a + b)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "float16", "float32", "float64"])
def test_elementwise_arithmetic_of_every_type(dtype) -> None:
    n = te.var("n")
    A, B = te.placeholder((n,), dtype, name="A"), te.placeholder((n,), dtype, name="B")
    C = te.compute((n,), lambda i: te.max(A[i] * B[i] - A[i], tvm.tir.const(3, dtype)) + te.min(A[i], B[i]), name="C")
    s = te.create_schedule(C.op)
    outer, inner = s[C].split(C.op.axis[0], 16)
    s[C].parallel(outer)
    s[C].vectorize(inner)
    a, b = (np.random.default_rng(seed).integers(0, 11, 100).astype(dtype) for seed in (1, 2))
    c = tvm.nd.empty((100,), dtype)
    run(s, [A, B, C], a, b, c)
    np.testing.assert_array_equal(c.numpy(), np.maximum(a * b - a, np.array(3, dtype)) + np.minimum(a, b))


def test_int8_quantised_dense_with_requantisation() -> None:
    batch, inner, outer = 3, 48, 10
    X, W = te.placeholder((batch, inner), "int8", name="X"), te.placeholder((outer, inner), "int8", name="W")
    bias = te.placeholder((outer,), "int32", name="bias")
    k = te.reduce_axis((0, inner), "k")
    acc = te.compute(
        (batch, outer), lambda i, j: te.sum(X[i, k].astype("int32") * W[j, k].astype("int32"), axis=k), name="acc"
    )
    out = te.compute(
        (batch, outer),
        lambda i, j: tvm.te.max(tvm.te.min((acc[i, j] + bias[j]) >> 7, 127), -128).astype("int8"),
        name="out",
    )
    s = te.create_schedule(out.op)
    s[acc].compute_at(s[out], out.op.axis[1])
    s[out].parallel(out.op.axis[0])
    rng = np.random.default_rng(0)
    x, w = (
        rng.integers(-128, 128, (batch, inner)).astype("int8"),
        rng.integers(-128, 128, (outer, inner)).astype("int8"),
    )
    b, y = rng.integers(-1000, 1000, outer).astype("int32"), tvm.nd.empty((batch, outer), "int8")
    run(s, [X, W, bias, out], x, w, b, y)
    np.testing.assert_array_equal(
        y.numpy(), np.clip((x.astype("int32") @ w.T.astype("int32") + b) >> 7, -128, 127).astype("int8")
    )
