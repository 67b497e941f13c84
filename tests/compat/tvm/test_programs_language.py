"""Programs in the manner of TVM's tutorials and courses on scan, hybrid script, gradients, packed layouts, storage and
GPUs: only the import lines differ."""

from __future__ import annotations

import numpy as np
import pytest
from this_machine import runnable
from tilewright.compat import tvm
from tilewright.compat.tvm import te

# Scan


def test_scan_describes_a_recurrence_that_is_bound_to_threads() -> None:
    m, n = te.var("m"), te.var("n")
    X = te.placeholder((m, n), name="X")
    s_state = te.placeholder((m, n))
    s_init = te.compute((1, n), lambda _, i: X[0, i])
    s_update = te.compute((m, n), lambda t, i: s_state[t - 1, i] + X[t, i])
    s_scan = tvm.te.scan(s_init, s_update, s_state, inputs=[X])
    s = te.create_schedule(s_scan.op)
    block_x, thread_x = te.thread_axis("blockIdx.x"), te.thread_axis("threadIdx.x")
    xo, xi = s[s_init].split(s_init.op.axis[1], factor=16)
    s[s_init].bind(xo, block_x)
    s[s_init].bind(xi, thread_x)
    xo, xi = s[s_update].split(s_update.op.axis[1], factor=16)
    s[s_update].bind(xo, block_x)
    s[s_update].bind(xi, thread_x)
    assert "blockIdx.x" in str(tvm.lower(s, [X, s_scan], simple_mode=True))
    a = np.random.uniform(size=(10, 33)).astype("float32")
    fscan = tvm.build(s, [X, s_scan], "llvm", name="myscan")
    b = tvm.nd.array(np.zeros((10, 33), dtype="float32"))
    fscan(tvm.nd.array(a), b)
    tvm.testing.assert_allclose(b.numpy(), np.cumsum(a, axis=0), rtol=1e-5)


def test_scan_cells_of_several_stages_and_states() -> None:
    m, n = te.var("m"), te.var("n")
    X = te.placeholder((m, n), name="X")
    s_state = te.placeholder((m, n))
    s_init = te.compute((1, n), lambda _, i: X[0, i])
    s_update_s1 = te.compute((m, n), lambda t, i: s_state[t - 1, i] * 2, name="s1")
    s_update_s2 = te.compute((m, n), lambda t, i: s_update_s1[t, i] + X[t, i], name="s2")
    s_scan = tvm.te.scan(s_init, s_update_s2, s_state, inputs=[X])
    s = te.create_schedule(s_scan.op)
    xo, xi = s[s_update_s2].split(s_update_s2.op.axis[1], factor=8)
    s[s_update_s1].compute_at(s[s_update_s2], xo)
    a = np.random.uniform(size=(6, 20)).astype("float32")
    b = tvm.nd.empty((6, 20))
    tvm.build(s, [X, s_scan])(tvm.nd.array(a), b)
    expected = a.copy()
    for t in range(1, 6):
        expected[t] += 2 * expected[t - 1]
    tvm.testing.assert_allclose(b.numpy(), expected, rtol=1e-5)

    l = te.var("l")
    Y = te.placeholder((m, l), name="Y")
    s_state1, s_state2 = te.placeholder((m, n)), te.placeholder((m, l))
    s_init1 = te.compute((1, n), lambda _, i: X[0, i])
    s_init2 = te.compute((1, l), lambda _, i: 0.0)
    s_update1 = te.compute((m, n), lambda t, i: s_state1[t - 1, i] + X[t, i])
    s_update2 = te.compute((m, l), lambda t, i: s_state2[t - 1, i] + s_state1[t - 1, 0])
    s_scan1, s_scan2 = tvm.te.scan([s_init1, s_init2], [s_update1, s_update2], [s_state1, s_state2], inputs=[X, Y])
    s = te.create_schedule(s_scan1.op)
    f = tvm.build(s, [X, Y, s_scan1, s_scan2])
    first, second = tvm.nd.empty((6, 20)), tvm.nd.empty((6, 3))
    f(tvm.nd.array(a), tvm.nd.array(np.zeros((6, 3), "float32")), first, second)
    sums = np.cumsum(a, axis=0)
    tvm.testing.assert_allclose(first.numpy(), sums, rtol=1e-5)
    before = np.concatenate([[0], np.cumsum(sums[:-1, 0])])
    tvm.testing.assert_allclose(second.numpy(), np.repeat(before[:, None], 3, 1), rtol=1e-5)


def test_recurrent_cell_with_a_matrix_product_each_step() -> None:
    num_step, num_hidden, batch = 5, 16, 3
    Xi2h = te.placeholder((num_step, batch, num_hidden), name="Xi2h")
    Wh2h = te.placeholder((num_hidden, num_hidden), name="Wh2h")
    s_state = te.placeholder((num_step, batch, num_hidden))
    s_init = te.compute((1, batch, num_hidden), lambda _, i, j: 0.0)
    k = te.reduce_axis((0, num_hidden), name="k")
    h2h = te.compute(
        (num_step, batch, num_hidden), lambda t, i, j: te.sum(s_state[t - 1, i, k] * Wh2h[j, k], axis=k), name="h2h"
    )
    update = te.compute(
        (num_step, batch, num_hidden), lambda t, i, j: te.tanh(h2h[t, i, j] + Xi2h[t, i, j]), name="update"
    )
    scan = te.scan(s_init, update, s_state, inputs=[Xi2h, Wh2h], name="rnn")
    s = te.create_schedule(scan.op)
    s[h2h].compute_at(s[update], update.op.axis[1])
    _, ji = s[update].split(update.op.axis[2], factor=8)
    s[update].vectorize(ji)
    f = tvm.build(s, [Xi2h, Wh2h, scan])
    x = np.random.randn(num_step, batch, num_hidden).astype("float32") * 0.3
    w = np.random.randn(num_hidden, num_hidden).astype("float32") * 0.2
    out = tvm.nd.empty((num_step, batch, num_hidden))
    f(tvm.nd.array(x), tvm.nd.array(w), out)
    expected = np.zeros_like(x)
    for t in range(1, num_step):
        expected[t] = np.tanh(expected[t - 1] @ w.T + x[t])
    tvm.testing.assert_allclose(out.numpy(), expected, rtol=1e-4, atol=1e-5)


# Hybrid script


@tvm.te.hybrid.script
def outer_product(a, b):
    c = output_tensor((20, 30), a.dtype)  # noqa: F821
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            c[i, j] = a[i] * b[j]
    return c


@te.hybrid.script
def running_maximum(a):
    b = output_tensor(a.shape, "float32")  # noqa: F821
    best = allocate((1,), "float32", "local")  # noqa: F821
    best[0] = a[0]
    for i in range(a.shape[0]):
        if a[i] > best[0]:
            best[0] = a[i]
        b[i] = best[0]
    return b


def test_hybrid_outer_product_runs_as_python_and_as_an_operation() -> None:
    a, b = np.random.rand(20).astype("float32"), np.random.rand(30).astype("float32")
    np.testing.assert_allclose(outer_product(a, b), np.outer(a, b), rtol=1e-6)
    A, B = te.placeholder((20,), name="a"), te.placeholder((30,), name="b")
    C = outer_product(A, B)
    s = te.create_schedule(C.op)
    i, j = C.op.axis
    jo, ji = s[C].split(j, factor=5)
    s[C].reorder(jo, i, ji)
    s[C].parallel(jo)
    f = tvm.build(s, [A, B, C])
    c = tvm.nd.empty((20, 30))
    f(tvm.nd.array(a), tvm.nd.array(b), c)
    tvm.testing.assert_allclose(c.numpy(), np.outer(a, b), rtol=1e-6)


def test_hybrid_control_flow_between_computed_stages() -> None:
    A = te.placeholder((40,), name="A")
    B = te.compute((40,), lambda i: A[i] * 2.0, name="B")
    C = running_maximum(B)
    D = te.compute((40,), lambda i: C[i] - 1.0, name="D")
    s = te.create_schedule(D.op)
    f = tvm.build(s, [A, D])
    a, d = np.random.randn(40).astype("float32"), tvm.nd.empty((40,))
    f(tvm.nd.array(a), d)
    tvm.testing.assert_allclose(d.numpy(), np.maximum.accumulate(a * 2) - 1, rtol=1e-6)


# Gradients


def test_gradient_of_a_dense_layer() -> None:
    X, W = te.placeholder((4, 6), name="X"), te.placeholder((5, 6), name="W")
    k = te.reduce_axis((0, 6), name="k")
    Y = te.compute((4, 5), lambda i, j: te.sum(X[i, k] * W[j, k], axis=k), name="Y")
    Z = te.compute((4, 5), lambda i, j: te.max(Y[i, j], 0.0), name="Z")
    head = te.placeholder((4, 5), name="head")
    dX, dW = te.gradient(Z, [X, W], head=head)
    s = te.create_schedule([dX.op, dW.op])
    f = tvm.build(s, [X, W, head, dX, dW])
    x, w, h = (np.random.randn(*shape).astype("float32") for shape in ((4, 6), (5, 6), (4, 5)))
    gx, gw = tvm.nd.empty((4, 6)), tvm.nd.empty((5, 6))
    f(*map(tvm.nd.array, (x, w, h)), gx, gw)
    through = h * (x @ w.T > 0)
    tvm.testing.assert_allclose(gx.numpy(), through @ w, rtol=1e-4, atol=1e-5)
    tvm.testing.assert_allclose(gw.numpy(), through.T @ x, rtol=1e-4, atol=1e-5)


# Packed layouts, and operators of the courses


def test_packed_channel_convolution_with_a_fused_tail() -> None:
    """NCHWc data, OIHWio kernels, bias and relu inlined by AutoInlineInjective."""
    n, ic, oc, size, kernel, block = 1, 8, 16, 10, 3, 8
    data = te.placeholder((n, ic // block, size, size, block), name="data")
    weight = te.placeholder((oc // block, ic // block, kernel, kernel, block, block), name="weight")
    bias = te.placeholder((oc // block, block), name="bias")
    pad = te.compute(
        (n, ic // block, size + 2, size + 2, block),
        lambda b, c, y, x, ci: te.if_then_else(
            te.all(y >= 1, y < size + 1, x >= 1, x < size + 1),
            data[b, c, y - 1, x - 1, ci],
            tvm.tir.const(0, "float32"),
        ),
        name="pad",
        tag="injective,pad",
    )
    co, ci = te.reduce_axis((0, ic // block), name="co"), te.reduce_axis((0, block), name="ci")
    ky, kx = te.reduce_axis((0, kernel), name="ky"), te.reduce_axis((0, kernel), name="kx")
    conv = te.compute(
        (n, oc // block, size, size, block),
        lambda b, o, y, x, oi: te.sum(
            pad[b, co, y + ky, x + kx, ci] * weight[o, co, ky, kx, ci, oi], axis=[co, ky, kx, ci]
        ),
        name="conv2d_NCHWc",
        tag="conv2d_NCHWc",
    )
    biased = te.compute(
        conv.shape, lambda b, o, y, x, oi: conv[b, o, y, x, oi] + bias[o, oi], name="biased", tag="broadcast"
    )
    relu = te.compute(
        conv.shape, lambda *i: te.max(biased(*i), tvm.tir.const(0, "float32")), name="relu", tag="elemwise"
    )
    unpacked = te.compute(
        (n, oc, size, size), lambda b, o, y, x: relu[b, o // block, y, x, o % block], name="out", tag="injective"
    )
    s = te.create_schedule(unpacked.op)
    te.schedule.AutoInlineInjective(s)
    cached = s.cache_write(conv, "global")
    b, o, y, x, oi = s[conv].op.axis
    xo, xi = s[conv].split(x, factor=5)
    s[conv].reorder(b, o, y, xo, xi, oi)
    s[conv].vectorize(oi)
    s[cached].compute_at(s[conv], xo)
    _, _, _, cx, coi = s[cached].op.axis
    co_, ky_, kx_, ci_ = s[cached].op.reduce_axis
    s[cached].reorder(co_, ky_, kx_, ci_, cx, coi)
    s[cached].vectorize(coi)
    s[cached].unroll(cx)
    s[conv].parallel(s[conv].fuse(b, o))
    f = tvm.build(s, [data, weight, bias, unpacked], "llvm")
    d = np.random.randn(n, ic // block, size, size, block).astype("float32")
    w = np.random.randn(oc // block, ic // block, kernel, kernel, block, block).astype("float32")
    v = np.random.randn(oc // block, block).astype("float32")
    out = tvm.nd.empty((n, oc, size, size))
    f(*map(tvm.nd.array, (d, w, v)), out)
    plain = d.transpose(0, 1, 4, 2, 3).reshape(n, ic, size, size)
    kernels = w.transpose(0, 5, 1, 4, 2, 3).reshape(oc, ic, kernel, kernel)
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(plain, ((0, 0), (0, 0), (1, 1), (1, 1))), (3, 3), (2, 3))
    expected = np.einsum("bcyxij,ocij->boyx", windows, kernels) + v.reshape(1, oc, 1, 1)
    tvm.testing.assert_allclose(out.numpy(), np.maximum(expected, 0), rtol=1e-3, atol=1e-4)


def test_batch_matmul_and_a_course_benchmark() -> None:
    def bench_workload(workload):
        """Run it for a few milliseconds and give the mean seconds, as the courses do."""
        workload(1)
        return workload(3) / 3

    batch, n, m, k = 3, 20, 24, 18
    A, B = te.placeholder((batch, n, k), name="A"), te.placeholder((batch, m, k), name="B")
    r = te.reduce_axis((0, k), name="r")
    C = te.compute((batch, n, m), lambda b, i, j: te.sum(A[b, i, r] * B[b, j, r], axis=r), name="C")
    s = te.create_schedule(C.op)
    b, i, j = s[C].op.axis
    jo, ji = s[C].split(j, factor=8)
    s[C].reorder(b, i, jo, r, ji)
    s[C].vectorize(ji)
    s[C].parallel(s[C].fuse(b, i))
    mod = tvm.build(s, [A, B, C], tvm.target.Target(runnable("llvm -mcpu=x86-64", "llvm")[0]))
    ctx = tvm.context("llvm", 0)
    x, y = np.random.rand(batch, n, k).astype("float32"), np.random.rand(batch, m, k).astype("float32")
    a, bb, c = tvm.nd.array(x, ctx=ctx), tvm.nd.array(y, ctx=ctx), tvm.nd.empty((batch, n, m), "float32", ctx)

    def workload(nrepeats):
        timer = mod.time_evaluator(mod.entry_name, ctx, number=nrepeats)
        return timer(a, bb, c).mean * nrepeats

    assert 0 < bench_workload(workload) < 1
    tvm.testing.assert_allclose(c.asnumpy(), np.einsum("bik,bjk->bij", x, y), rtol=1e-5)


def test_transposed_convolution_by_dilation() -> None:
    n, stride, kernel = 5, 2, 3
    X, K = te.placeholder((n, n), name="X"), te.placeholder((kernel, kernel), name="K")
    out = (n - 1) * stride + kernel
    pad = kernel - 1
    spread = te.compute(
        ((n - 1) * stride + 1 + 2 * pad,) * 2,
        lambda i, j: te.if_then_else(
            te.all(
                i >= pad,
                i - pad <= (n - 1) * stride,
                j >= pad,
                j - pad <= (n - 1) * stride,
                tvm.tir.indexmod(i - pad, stride).equal(0),
                tvm.tir.indexmod(j - pad, stride).equal(0),
            ),
            X[tvm.tir.indexdiv(i - pad, stride), tvm.tir.indexdiv(j - pad, stride)],
            0.0,
        ),
        name="spread",
    )
    di, dj = te.reduce_axis((0, kernel), name="di"), te.reduce_axis((0, kernel), name="dj")
    Y = te.compute(
        (out, out),
        lambda i, j: te.sum(spread[i + di, j + dj] * K[kernel - 1 - di, kernel - 1 - dj], axis=[di, dj]),
        name="Y",
    )
    s = te.create_schedule(Y.op)
    s[spread].compute_inline()
    f = tvm.build(s, [X, K, Y])
    x, w = np.random.rand(n, n).astype("float32"), np.random.rand(kernel, kernel).astype("float32")
    y = tvm.nd.empty((out, out))
    f(tvm.nd.array(x), tvm.nd.array(w), y)
    expected = np.zeros((out, out), "float32")
    for i in range(n):
        for j in range(n):
            expected[i * stride : i * stride + kernel, j * stride : j * stride + kernel] += x[i, j] * w
    tvm.testing.assert_allclose(y.numpy(), expected, rtol=1e-4)


def test_layer_normalisation_by_a_reducer_of_sums_and_squares() -> None:
    n, m = te.var("n"), 48
    X = te.placeholder((n, m), name="X")
    k = te.reduce_axis((0, m), name="k")
    both = te.comm_reducer(
        lambda x, y: (x[0] + y[0], x[1] + y[1]),
        lambda t0, t1: (tvm.tir.const(0, t0), tvm.tir.const(0, t1)),
        name="both",
    )
    S, Q = te.compute((n,), lambda i: both((X[i, k], X[i, k] * X[i, k]), axis=k), name="moments")
    Y = te.compute(
        (n, m), lambda i, j: (X[i, j] - S[i] / m) * te.rsqrt(Q[i] / m - (S[i] / m) * (S[i] / m) + 1e-5), name="Y"
    )
    s = te.create_schedule(Y.op)
    s[S].compute_at(s[Y], Y.op.axis[0])
    s[Y].parallel(Y.op.axis[0])
    f = tvm.build(s, [X, Y])
    x, y = np.random.randn(7, m).astype("float32"), tvm.nd.empty((7, m))
    f(tvm.nd.array(x), y)
    expected = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    tvm.testing.assert_allclose(y.numpy(), expected, rtol=1e-3, atol=1e-4)


# Storage


def test_storage_primitives_keep_the_result() -> None:
    n = 64
    A = te.placeholder((n + 2, n), name="A")
    B = te.compute((n + 2, n), lambda i, j: A[i, j] * 2.0, name="B")
    C = te.compute((n, n), lambda i, j: B[i, j] + B[i + 1, j] + B[i + 2, j], name="C")
    a = np.random.rand(n + 2, n).astype("float32")
    expected = 2 * (a[:-2] + a[1:-1] + a[2:])

    def check(schedule) -> str:
        s = te.create_schedule(C.op)
        schedule(s)
        c = tvm.nd.empty((n, n))
        tvm.build(s, [A, C])(tvm.nd.array(a), c)
        tvm.testing.assert_allclose(c.numpy(), expected, rtol=1e-5)
        return str(tvm.lower(s, [A, C], simple_mode=True))

    def doubled(s):
        s[B].compute_at(s[C], C.op.axis[0])
        s[B].double_buffer()

    def rolling(s):
        s[B].compute_at(s[C], C.op.axis[0])
        s[B].rolling_buffer()

    def prefetched(s):
        s[B].prefetch(A, s[B].op.axis[0], 1)

    def grouped(s):
        group = s.create_group(outputs=B, inputs=A, include_inputs=False)
        group.compute_at(s[C], C.op.axis[0])

    plain = check(lambda s: None)
    texts = [check(one) for one in (doubled, rolling, prefetched, grouped)]
    assert plain not in texts


# GPUs, by the emulator


@pytest.mark.parametrize("n", [64, 50])
def test_gpu_matmul_with_shared_memory_and_cooperative_fetching(n) -> None:
    A, B = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    A_shared, B_shared = s.cache_read(A, "shared", [C]), s.cache_read(B, "shared", [C])
    A_local, B_local = s.cache_read(A_shared, "local", [C]), s.cache_read(B_shared, "local", [C])
    C_local = s.cache_write(C, "local")
    block, thread, step = 16, 4, 8

    def split(stage, axis, factors):
        axes = []
        for f in reversed(factors):
            axis, x = s[stage].split(axis, f)
            axes.append(x)
        return list(reversed([*axes, axis]))

    def bind_thread(stage, axes, tags):
        for axis, tag in zip(axes, tags, strict=True):
            s[stage].bind(axis, te.thread_axis(tag))

    x, y = s[C].op.axis
    xb, xo, xi = split(C, x, (block // thread, thread))
    yb, yo, yi = split(C, y, (block // thread, thread))
    s[C].reorder(xb, yb, xo, yo, xi, yi)
    bind_thread(C, (yb, xb, yo, xo), ("blockIdx.x", "blockIdx.y", "threadIdx.x", "threadIdx.y"))
    s[C_local].compute_at(s[C], yo)
    yi, xi = s[C_local].op.axis
    (kk,) = s[C_local].op.reduce_axis
    ko, ki = s[C_local].split(kk, step)
    s[C_local].reorder(ko, ki, yi, xi)
    for shared, local in ((A_shared, A_local), (B_shared, B_local)):
        s[shared].compute_at(s[C_local], ko)
        s[local].compute_at(s[C_local], ki)
        outer, inner = s[shared].op.axis
        fused = s[shared].fuse(outer, inner)
        fused, tx = s[shared].split(fused, factor=block // thread)
        _, ty = s[shared].split(fused, factor=block // thread)
        bind_thread(shared, (tx, ty), ("threadIdx.x", "threadIdx.y"))
    mod = tvm.build(s, [A, B, C], "cuda -emulate")
    a, b = np.random.rand(n, n).astype("float32"), np.random.rand(n, n).astype("float32")
    c = tvm.nd.empty((n, n))
    mod(tvm.nd.array(a), tvm.nd.array(b), c)
    tvm.testing.assert_allclose(c.numpy(), a @ b, rtol=1e-4)
    assert "__shared__" in mod.entry_func.source("cuda")
