"""Kernels in the manner of TVM's tutorials and courses, whole schedules each, against numpy: only the import lines differ."""

from __future__ import annotations

import numpy as np
import pytest
from tilewright.codegen.target import Target
from tilewright.compat import tvm
from tilewright.compat.tvm import te
from tilewright.compat.tvm.te import create_schedule, reduce_axis

# Matrix multiplication on a CPU, step by step


class Gemm:
    """C = A B of 128, as the CPU tutorial writes it, with smaller sizes."""

    M = K = N = 128
    dtype, target = "float32", "llvm"
    bn, kfactor = 32, 4

    def __init__(self, packed: bool = False) -> None:
        M, K, N, bn = self.M, self.K, self.N, self.bn
        self.k = te.reduce_axis((0, K), "k")
        self.A, self.B = te.placeholder((M, K), name="A"), te.placeholder((K, N), name="B")
        A, B, k = self.A, self.B, self.k
        if packed:
            self.packedB = te.compute(
                (N // bn, K, bn), lambda bigN, k, littleN: B[k, bigN * bn + littleN], name="packedB"
            )
            packedB = self.packedB
            self.C = te.compute(
                (M, N), lambda m, n: te.sum(A[m, k] * packedB[n // bn, k, tvm.tir.indexmod(n, bn)], axis=k), name="C"
            )
        else:
            self.C = te.compute((M, N), lambda m, n: te.sum(A[m, k] * B[k, n], axis=k), name="C")
        self.s = te.create_schedule(self.C.op)

    def check(self) -> str:
        dev = tvm.device(self.target, 0)
        func = tvm.build(self.s, [self.A, self.B, self.C], target=self.target, name="mmult")
        assert func
        a = tvm.nd.array(np.random.rand(self.M, self.K).astype(self.dtype), dev)
        b = tvm.nd.array(np.random.rand(self.K, self.N).astype(self.dtype), dev)
        c = tvm.nd.array(np.zeros((self.M, self.N), dtype=self.dtype), dev)
        func(a, b, c)
        tvm.testing.assert_allclose(c.numpy(), np.dot(a.numpy(), b.numpy()), rtol=1e-5)
        assert func.time_evaluator(func.entry_name, dev, number=1)(a, b, c).mean > 0
        return str(tvm.lower(self.s, [self.A, self.B, self.C], simple_mode=True))


def test_gemm_baseline() -> None:
    assert Gemm().check().count("for ") == 3


def _blocked(g: Gemm):
    mo, no, mi, ni = g.s[g.C].tile(g.C.op.axis[0], g.C.op.axis[1], g.bn, g.bn)
    (kaxis,) = g.s[g.C].op.reduce_axis
    ko, ki = g.s[g.C].split(kaxis, factor=g.kfactor)
    return mo, no, mi, ni, ko, ki


def test_gemm_blocking() -> None:
    g = Gemm()
    mo, no, mi, ni, ko, ki = _blocked(g)
    g.s[g.C].reorder(mo, no, ko, ki, mi, ni)
    g.check()


def test_gemm_vectorization() -> None:
    g = Gemm()
    mo, no, mi, ni, ko, ki = _blocked(g)
    g.s[g.C].reorder(mo, no, ko, ki, mi, ni)
    g.s[g.C].vectorize(ni)
    assert "vectorized" in g.check()


def test_gemm_loop_permutation() -> None:
    g = Gemm()
    mo, no, mi, ni, ko, ki = _blocked(g)
    g.s[g.C].reorder(mo, no, ko, mi, ki, ni)
    g.s[g.C].vectorize(ni)
    g.check()


def test_gemm_array_packing() -> None:
    g = Gemm(packed=True)
    mo, no, mi, ni, ko, ki = _blocked(g)
    g.s[g.C].reorder(mo, no, ko, mi, ki, ni)
    g.s[g.C].vectorize(ni)
    bigN, _, littleN = g.s[g.packedB].op.axis
    g.s[g.packedB].vectorize(littleN)
    g.s[g.packedB].parallel(bigN)
    assert "packedB" in g.check()


@pytest.mark.parametrize("threads", [False, True])
def test_gemm_write_cache_and_parallel(threads) -> None:
    g = Gemm(packed=True)
    s, C = g.s, g.C
    CC = s.cache_write(C, "global")
    mo, no, mi, ni = s[C].tile(C.op.axis[0], C.op.axis[1], g.bn, g.bn)
    s[CC].compute_at(s[C], no)
    mc, nc = s[CC].op.axis
    (kaxis,) = s[CC].op.reduce_axis
    ko, ki = s[CC].split(kaxis, factor=g.kfactor)
    s[CC].reorder(ko, mc, ki, nc)
    s[CC].unroll(ki)
    s[CC].vectorize(nc)
    if threads:
        s[C].parallel(mo)
    bigN, _, littleN = s[g.packedB].op.axis
    s[g.packedB].vectorize(littleN)
    s[g.packedB].parallel(bigN)
    assert "C.global" in g.check() or "C_global" in g.check()


def test_blocking_and_dot_product_kernel_of_the_hardware_course() -> None:
    n = 64
    A, B = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[j, k], axis=k), name="C")
    s = te.create_schedule(C.op)
    block_x, block_y = te.thread_axis("blockIdx.x"), te.thread_axis("blockIdx.y")
    thread_x, thread_y = te.thread_axis((0, 8), "threadIdx.x"), te.thread_axis((0, 8), "threadIdx.y")
    CC = s.cache_write(C, "local")
    AA, BB = s.cache_read(A, "shared", [CC]), s.cache_read(B, "shared", [CC])
    by, yi = s[C].split(C.op.axis[0], factor=16)
    bx, xi = s[C].split(C.op.axis[1], factor=16)
    s[C].bind(by, block_y)
    s[C].bind(bx, block_x)
    s[C].reorder(by, bx, yi, xi)
    tyz, yi = s[C].split(yi, nparts=8)
    txz, xi = s[C].split(xi, nparts=8)
    s[C].bind(tyz, thread_y)
    s[C].bind(txz, thread_x)
    s[C].reorder(tyz, txz, yi, xi)
    s[CC].compute_at(s[C], txz)
    yo, xo = CC.op.axis
    ko, ki = s[CC].split(k, factor=8)
    kt, ki = s[CC].split(ki, factor=1)
    s[CC].reorder(ko, kt, ki, yo, xo)
    s[AA].compute_at(s[CC], ko)
    s[BB].compute_at(s[CC], ko)
    s[CC].unroll(kt)
    for load in (AA, BB):
        ty, xi = s[load].split(s[load].op.axis[0], nparts=8)
        tx, xi2 = s[load].split(s[load].op.axis[1], nparts=8)
        s[load].reorder(ty, tx, xi, xi2)
        s[load].bind(ty, thread_y)
        s[load].bind(tx, thread_x)
        s[load].vectorize(xi2)
    f = tvm.build(s, [A, B, C], "llvm")
    a, b = np.random.rand(n, n).astype("float32"), np.random.rand(n, n).astype("float32")
    c = tvm.nd.empty((n, n))
    f(tvm.nd.array(a), tvm.nd.array(b), c)
    tvm.testing.assert_allclose(c.numpy(), a @ b.T, rtol=1e-5)


# Convolution for a GPU, its blocks and threads run as loops


def test_conv_with_shared_memory_and_virtual_threads() -> None:
    batch, in_channel, out_channel, in_size, kernel, pad, stride = 16, 8, 16, 6, 3, 1, 1
    A = te.placeholder((in_size, in_size, in_channel, batch), name="A")
    W = te.placeholder((kernel, kernel, in_channel, out_channel), name="W")
    out_size = (in_size - kernel + 2 * pad) // stride + 1
    Apad = te.compute(
        (in_size + 2 * pad, in_size + 2 * pad, in_channel, batch),
        lambda yy, xx, cc, nn: tvm.tir.if_then_else(
            tvm.tir.all(yy >= pad, yy - pad < in_size, xx >= pad, xx - pad < in_size),
            A[yy - pad, xx - pad, cc, nn],
            tvm.tir.const(0.0, "float32"),
        ),
        name="Apad",
    )
    rc, ry, rx = (
        te.reduce_axis((0, in_channel), "rc"),
        te.reduce_axis((0, kernel), "ry"),
        te.reduce_axis((0, kernel), "rx"),
    )
    B = te.compute(
        (out_size, out_size, out_channel, batch),
        lambda yy, xx, ff, nn: te.sum(
            Apad[yy * stride + ry, xx * stride + rx, rc, nn] * W[ry, rx, rc, ff], axis=[ry, rx, rc]
        ),
        name="B",
    )
    s = te.create_schedule(B.op)
    s[Apad].compute_inline()
    AA, WW = s.cache_read(Apad, "shared", [B]), s.cache_read(W, "shared", [B])
    AL, WL = s.cache_read(AA, "local", [B]), s.cache_read(WW, "local", [B])
    BL = s.cache_write(B, "local")
    tile, num_thread, step, vthread = 2, 4, 4, 2
    block_factor = tile * num_thread
    block_x, block_y, block_z = (te.thread_axis(f"blockIdx.{d}") for d in "xyz")
    thread_x, thread_y = te.thread_axis((0, num_thread), "threadIdx.x"), te.thread_axis((0, num_thread), "threadIdx.y")
    thread_xz, thread_yz = (
        te.thread_axis((0, vthread), "vthread", name="vx"),
        te.thread_axis((0, vthread), "vthread", name="vy"),
    )
    hi, wi, fi, ni = s[B].op.axis
    bz = s[B].fuse(hi, wi)
    by, fi = s[B].split(fi, factor=block_factor)
    bx, ni = s[B].split(ni, factor=block_factor)
    s[B].bind(bz, block_z)
    s[B].bind(by, block_y)
    s[B].bind(bx, block_x)
    tyz, fi = s[B].split(fi, nparts=vthread)
    txz, ni = s[B].split(ni, nparts=vthread)
    ty, fi = s[B].split(fi, nparts=num_thread)
    tx, ni = s[B].split(ni, nparts=num_thread)
    s[B].reorder(bz, by, bx, tyz, txz, ty, tx, fi, ni)
    s[B].bind(tyz, thread_yz)
    s[B].bind(txz, thread_xz)
    s[B].bind(ty, thread_y)
    s[B].bind(tx, thread_x)
    s[BL].compute_at(s[B], tx)
    yi, xi, fi, ni = s[BL].op.axis
    ry, rx, rc = s[BL].op.reduce_axis
    rco, rci = s[BL].split(rc, factor=step)
    s[BL].reorder(rco, ry, rx, rci, fi, ni)
    s[AA].compute_at(s[BL], rx)
    s[WW].compute_at(s[BL], rx)
    s[AL].compute_at(s[BL], rci)
    s[WL].compute_at(s[BL], rci)
    yi, xi, ci, ni = s[AA].op.axis
    ty, ci = s[AA].split(ci, nparts=num_thread)
    tx, ni = s[AA].split(ni, nparts=num_thread)
    _, ni = s[AA].split(ni, factor=4)
    s[AA].reorder(ty, tx, yi, xi, ci, ni)
    s[AA].bind(ty, thread_y)
    s[AA].bind(tx, thread_x)
    s[AA].vectorize(ni)
    yi, xi, ci, fi = s[WW].op.axis
    ty, ci = s[WW].split(ci, nparts=num_thread)
    tx, fi = s[WW].split(fi, nparts=num_thread)
    _, fi = s[WW].split(fi, factor=4)
    s[WW].reorder(ty, tx, yi, xi, ci, fi)
    s[WW].bind(ty, thread_y)
    s[WW].bind(tx, thread_x)
    s[WW].vectorize(fi)
    func = tvm.build(s, [A, W, B], "llvm")
    a = np.random.uniform(size=(in_size, in_size, in_channel, batch)).astype(A.dtype)
    w = np.random.uniform(size=(kernel, kernel, in_channel, out_channel)).astype(W.dtype)
    b = tvm.nd.array(np.zeros((out_size, out_size, out_channel, batch), dtype=B.dtype))
    func(tvm.nd.array(a), tvm.nd.array(w), b)
    windows = np.lib.stride_tricks.sliding_window_view(
        np.pad(a, ((1, 1), (1, 1), (0, 0), (0, 0))), (kernel, kernel), (0, 1)
    )
    tvm.testing.assert_allclose(b.numpy(), np.einsum("yxcnij,ijcf->yxfn", windows, w), rtol=1e-4)


# The operators of a deep-learning course


def get_abc(shape, constructor=None):
    np.random.seed(0)
    a, b = (np.random.normal(size=shape).astype(np.float32) for _ in range(2))
    c = np.empty_like(a)
    return [constructor(x) for x in (a, b, c)] if constructor else (a, b, c)


def conv_out_size(n, k, p, s):
    return (n - k + 2 * p) // s + 1


def padding(X, ph, pw, val=0):
    assert len(X.shape) >= 2
    nh, nw = X.shape[-2], X.shape[-1]
    return te.compute(
        (*X.shape[0:-2], nh + ph * 2, nw + pw * 2),
        lambda *i: te.if_then_else(
            te.any(i[-2] < ph, i[-2] >= nh + ph, i[-1] < pw, i[-1] >= nw + pw),
            val,
            X[(*i[:-2], i[-2] - ph, i[-1] - pw)],
        ),
        name="PaddedX",
    )


def conv(oc, ic, nh, nw, kh, kw, ph=0, pw=0, sh=1, sw=1):
    ric, rkh, rkw = reduce_axis((0, ic), name="ric"), reduce_axis((0, kh), name="rkh"), reduce_axis((0, kw), name="rkw")
    oh, ow = conv_out_size(nh, kh, ph, sh), conv_out_size(nw, kw, pw, sw)
    X, K = te.placeholder((ic, nh, nw), name="X"), te.placeholder((oc, ic, kh, kw), name="K")
    PaddedX = padding(X, ph, pw) if ph * pw != 0 else X
    Y = te.compute(
        (oc, oh, ow),
        lambda c, i, j: te.sum(PaddedX[ric, i * sh + rkh, j * sw + rkw] * K[c, ric, rkh, rkw], axis=[ric, rkh, rkw]),
        name="Y",
    )
    return X, K, Y, PaddedX


def _conv_reference(x, k, p, s):
    x = np.pad(x, ((0, 0), (p, p), (p, p)))
    windows = np.lib.stride_tricks.sliding_window_view(x, k.shape[2:], (1, 2))[:, ::s, ::s]
    return np.einsum("chwij,ocij->ohw", windows, k)


def test_course_vector_add() -> None:
    n = 100
    A, B = te.placeholder((n,), name="a"), te.placeholder((n,), name="b")
    C = te.compute(A.shape, lambda i: A[i] + B[i], name="c")
    s = create_schedule(C.op)
    mod = tvm.build(s, [A, B, C])
    a, b, c = get_abc(100, tvm.nd.array)
    mod(a, b, c)
    np.testing.assert_array_equal(a.asnumpy() + b.asnumpy(), c.asnumpy())
    a, b, c = get_abc(200, tvm.nd.array)
    with pytest.raises(tvm.TVMError, match="100"):
        mod(a, b, c)
    a, b, c = (tvm.nd.array(x.astype("float64")) for x in get_abc(100))
    with pytest.raises(tvm.TVMError, match="float32"):
        mod(a, b, c)


def test_course_broadcast_add() -> None:
    def broadcast_add(shape1, shape2):
        assert len(shape1) == 2 and len(shape2) == 2
        for i in range(len(shape1)):
            assert shape1[i] == shape2[i] or shape1[i] == 1 or shape2[i] == 1
        A, B = te.placeholder(shape1, name="A"), te.placeholder(shape2, name="B")
        m = shape1[0] if shape2[0] == 1 else shape2[0]
        n = shape1[1] if shape2[1] == 1 else shape2[1]
        C = te.compute(
            (m, n),
            lambda x, y: (
                A[0 if shape1[0] == 1 else x, 0 if shape1[1] == 1 else y]
                + B[0 if shape2[0] == 1 else x, 0 if shape2[1] == 1 else y]
            ),
            name="C",
        )
        return A, B, C

    for shapes in (((3, 1), (3, 4)), ((1, 4), (3, 1)), ((2, 2), (2, 2))):
        A, B, C = broadcast_add(*shapes)
        s = te.create_schedule(C.op)
        mod = tvm.build(s, [A, B, C])
        a, b = (np.random.rand(*shape).astype("float32") for shape in shapes)
        c = tvm.nd.empty(C.shape)
        mod(tvm.nd.array(a), tvm.nd.array(b), c)
        np.testing.assert_allclose(c.asnumpy(), a + b)


def test_course_matmul_with_local_cache() -> None:
    n, tx, ty, tk = 96, 8, 32, 4
    k = te.reduce_axis((0, n), name="k")
    A, B = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    C = te.compute((n, n), lambda x, y: te.sum(A[x, k] * B[k, y], axis=k), name="C")
    s = te.create_schedule(C.op)
    CachedC = s.cache_write(C, "local")
    xo, yo, xi, yi = s[C].tile(*C.op.axis, tx, ty)
    s[CachedC].compute_at(s[C], yo)
    xc, yc = s[CachedC].op.axis
    ko, ki = s[CachedC].split(CachedC.op.reduce_axis[0], factor=tk)
    s[CachedC].reorder(ko, xc, ki, yc)
    s[CachedC].unroll(ki)
    s[CachedC].vectorize(yc)
    s[C].parallel(s[C].fuse(xo, yo))
    mod = tvm.build(s, [A, B, C], f"llvm -mcpu={Target().llvm_cpu}")
    a, b, c = get_abc((n, n), tvm.nd.array)
    mod(a, b, c)
    np.testing.assert_allclose(c.asnumpy(), a.asnumpy() @ b.asnumpy(), atol=1e-4)


@pytest.mark.parametrize(("kernel", "pad", "stride"), [(3, 1, 1), (3, 1, 2), (1, 0, 1), (5, 2, 1)])
def test_course_convolution(kernel, pad, stride) -> None:
    oc, ic, n = 4, 6, 12
    X, K, Y, _ = conv(oc, ic, n, n, kernel, kernel, pad, pad, stride, stride)
    mod = tvm.build(te.create_schedule(Y.op), [X, K, Y])
    x, k = np.random.rand(ic, n, n).astype("float32"), np.random.rand(oc, ic, kernel, kernel).astype("float32")
    y = tvm.nd.empty(tuple(int(e) for e in Y.shape))
    mod(tvm.nd.array(x), tvm.nd.array(k), y)
    np.testing.assert_allclose(y.numpy(), _conv_reference(x, k, pad, stride), rtol=1e-4)


def test_course_blocked_convolution_with_cache_and_attached_padding() -> None:
    oc, ic, n, kernel, pad = 8, 4, 14, 3, 1
    th, tw = 4, 4
    X, K, Y, PaddedX = conv(oc, ic, n, n, kernel, kernel, pad, pad)
    s = te.create_schedule(Y.op)
    CachedY = s.cache_write(Y, "local")
    oc_axis, h, w = s[Y].op.axis
    ho, hi = s[Y].split(h, factor=th)
    wo, wi = s[Y].split(w, factor=tw)
    s[Y].reorder(oc_axis, ho, wo, hi, wi)
    s[CachedY].compute_at(s[Y], wo)
    ric, rkh, rkw = CachedY.op.reduce_axis
    cc, ch, cw = CachedY.op.axis
    s[CachedY].reorder(cc, ric, rkh, rkw, ch, cw)
    s[CachedY].unroll(rkw)
    s[CachedY].vectorize(cw)
    s[PaddedX].compute_at(s[CachedY], ric)
    s[Y].parallel(s[Y].fuse(oc_axis, ho))
    mod = tvm.build(s, [X, K, Y])
    x, k = np.random.rand(ic, n, n).astype("float32"), np.random.rand(oc, ic, kernel, kernel).astype("float32")
    y = tvm.nd.empty((oc, n, n))
    mod(tvm.nd.array(x), tvm.nd.array(k), y)
    np.testing.assert_allclose(y.numpy(), _conv_reference(x, k, pad, 1), rtol=1e-4)


def test_course_packed_convolution() -> None:
    oc, ic, n, kernel, toc, tic = 8, 4, 10, 3, 4, 2
    X, K = te.placeholder((ic, n, n), name="X"), te.placeholder((oc, ic, kernel, kernel), name="K")
    PaddedX = padding(X, 1, 1)
    PackedX = te.compute(
        (ic // tic, n + 2, n + 2, tic), lambda ic_out, x, y, ic_in: PaddedX[ic_out * tic + ic_in, x, y], name="PackedX"
    )
    PackedK = te.compute(
        (oc // toc, ic // tic, kernel, kernel, tic, toc),
        lambda oc_out, ic_out, x, y, ic_in, oc_in: K[oc_out * toc + oc_in, ic_out * tic + ic_in, x, y],
        name="PackedK",
    )
    ric_in, ric_out = te.reduce_axis((0, tic), name="ric_in"), te.reduce_axis((0, ic // tic), name="ric_out")
    rkh, rkw = te.reduce_axis((0, kernel), name="rkh"), te.reduce_axis((0, kernel), name="rkw")
    PackedY = te.compute(
        (oc // toc, n, n, toc),
        lambda oc_out, x, y, oc_in: te.sum(
            PackedX[ric_out, x + rkh, y + rkw, ric_in] * PackedK[oc_out, ric_out, rkh, rkw, ric_in, oc_in],
            axis=[ric_out, rkh, rkw, ric_in],
        ),
        name="Y",
    )
    Y = te.compute((oc, n, n), lambda o, x, y: PackedY[o // toc, x, y, o % toc], name="PackedY")
    s = te.create_schedule(Y.op)
    CachedY = s.cache_write(PackedY, "local")
    oc_out, h, w, oc_in = s[PackedY].op.axis
    w_out, w_in = s[PackedY].split(w, factor=5)
    s[CachedY].compute_at(s[PackedY], w_out)
    _, _, cw, oc_in = CachedY.op.axis
    s[CachedY].reorder(CachedY.op.reduce_axis[0], *CachedY.op.reduce_axis[1:], cw, oc_in)
    s[CachedY].unroll(cw)
    s[CachedY].vectorize(oc_in)
    s[PaddedX].compute_inline()
    s[Y].parallel(Y.op.axis[0])
    s[Y].vectorize(Y.op.axis[2])
    mod = tvm.build(s, [X, K, Y])
    x, k = np.random.rand(ic, n, n).astype("float32"), np.random.rand(oc, ic, kernel, kernel).astype("float32")
    y = tvm.nd.empty((oc, n, n))
    mod(tvm.nd.array(x), tvm.nd.array(k), y)
    np.testing.assert_allclose(y.numpy(), _conv_reference(x, k, 1, 1), rtol=1e-4)


def test_course_depthwise_convolution() -> None:
    ic, n, kernel, pad, stride = 4, 13, 3, 1, 2
    rkh, rkw = te.reduce_axis((0, kernel), name="rkh"), te.reduce_axis((0, kernel), name="rkw")
    oh = conv_out_size(n, kernel, pad, stride)
    X, K = te.placeholder((ic, n, n), name="X"), te.placeholder((ic, 1, kernel, kernel), name="K")
    PaddedX = padding(X, pad, pad)
    Y = te.compute(
        (ic, oh, oh),
        lambda c, i, j: te.sum(PaddedX[c, i * stride + rkh, j * stride + rkw] * K[c, 0, rkh, rkw], axis=[rkh, rkw]),
        name="Y",
    )
    s = te.create_schedule(Y.op)
    (
        _,
        y,
        x,
    ) = s[Y].op.axis
    s[PaddedX].compute_at(s[Y], Y.op.axis[0])
    s[Y].reorder(y, rkh, rkw, x)
    s[Y].vectorize(x)
    s[Y].parallel(Y.op.axis[0])
    mod = tvm.build(s, [X, K, Y])
    a, k = np.random.rand(ic, n, n).astype("float32"), np.random.rand(ic, 1, kernel, kernel).astype("float32")
    out = tvm.nd.empty((ic, oh, oh))
    mod(tvm.nd.array(a), tvm.nd.array(k), out)
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(a, ((0, 0), (1, 1), (1, 1))), (3, 3), (1, 2))[:, ::2, ::2]
    np.testing.assert_allclose(out.numpy(), np.einsum("chwij,cij->chw", windows, k[:, 0]), rtol=1e-4)


@pytest.mark.parametrize("kind", ["max", "avg"])
def test_course_pooling(kind) -> None:
    c, n, kernel, pad, stride = 3, 11, 3, 1, 2
    X = te.placeholder((c, n, n), name="X")
    rkh, rkw = te.reduce_axis((0, kernel), name="rkh"), te.reduce_axis((0, kernel), name="rkw")
    oh = conv_out_size(n, kernel, pad, stride)
    if kind == "max":
        PaddedX = padding(X, pad, pad, val=te.min_value(X.dtype))
        Y = te.compute(
            (c, oh, oh),
            lambda c, h, w: te.max(PaddedX[c, h * stride + rkh, w * stride + rkw], axis=[rkh, rkw]),
            tag="pool_max",
            name="PoolMax",
        )
    else:
        PaddedX = padding(X, pad, pad)
        tsum = te.compute(
            (c, oh, oh),
            lambda c, h, w: te.sum(PaddedX[c, h * stride + rkh, w * stride + rkw], axis=[rkh, rkw]),
            tag="pool_avg",
            name="PoolAvg",
        )
        Y = te.compute((c, oh, oh), lambda c, h, w: tsum[c, h, w] / (kernel * kernel), name="PoolAvg")
    s = te.create_schedule(Y.op)
    s[PaddedX].compute_inline()
    f = tvm.build(s, [X, Y])
    x, y = np.random.randn(c, n, n).astype("float32"), tvm.nd.empty((c, oh, oh))
    f(tvm.nd.array(x), y)
    fill = np.finfo("float32").min if kind == "max" else 0
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1)), constant_values=fill)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))[:, ::2, ::2]
    expected = windows.max(axis=(3, 4)) if kind == "max" else windows.sum(axis=(3, 4)) / 9
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-4, atol=1e-6)


def test_course_batch_norm_of_whole_tensors() -> None:
    c, n = 5, 9
    X = te.placeholder((c, n, n), name="X")
    Mean, Var, Gamma, Beta = (te.placeholder((c, 1, 1), name=name) for name in ("Mean", "Var", "Gamma", "Beta"))
    C1 = X - Mean
    C2 = te.compute((c, 1, 1), lambda i, j, k: te.sqrt(Var[i, j, k] + 1e-5), name="root")
    Y = C1 / C2 * Gamma + Beta
    s = te.create_schedule(Y.op)
    te.schedule.AutoInlineInjective(s)
    f = tvm.build(s, [X, Mean, Var, Gamma, Beta, Y])
    x = np.random.randn(c, n, n).astype("float32")
    m, v, g, b = (np.random.rand(c, 1, 1).astype("float32") for _ in range(4))
    y = tvm.nd.empty((c, n, n))
    f(*map(tvm.nd.array, (x, m, v, g, b)), y)
    np.testing.assert_allclose(y.numpy(), (x - m) / np.sqrt(v + 1e-5) * g + b, rtol=1e-4, atol=1e-5)


# Further compositions of primitives


def test_cache_write_then_rfactor() -> None:
    n, m = 24, 200
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), "k")
    B = te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="B")
    s = te.create_schedule(B.op)
    BB = s.cache_write(B, "local")
    ko, ki = s[BB].split(s[BB].op.reduce_axis[0], factor=16)
    BF = s.rfactor(BB, ki)
    s[BF].compute_at(s[BB], s[BB].op.axis[0])
    s[BF].vectorize(s[BF].op.axis[0])
    outer, inner = s[B].split(B.op.axis[0], 4)
    s[BB].compute_at(s[B], inner)
    s[B].parallel(outer)
    f = tvm.build(s, [A, B])
    a, b = np.random.rand(n, m).astype("float32"), tvm.nd.empty((n,))
    f(tvm.nd.array(a), b)
    tvm.testing.assert_allclose(b.numpy(), a.sum(1), rtol=1e-5)


def test_chain_of_inlined_stages_and_a_multi_stage_stencil() -> None:
    n = 50
    A = te.placeholder((n,), name="A")
    stages = [A]
    for at in range(8):
        previous = stages[-1]
        stages.append(te.compute((n,), lambda i, p=previous, at=at: p[i] * 0.5 + at, name=f"B{at}"))
    last = stages[-1]
    C = te.compute((n - 2,), lambda i: last[i] + last[i + 1] + last[i + 2], name="C")
    s = te.create_schedule(C.op)
    for stage in stages[1:-1]:
        s[stage].compute_inline()
    outer, inner = s[C].split(C.op.axis[0], 16)
    s[last].compute_at(s[C], outer)
    s[last].vectorize(s[last].op.axis[0])
    f = tvm.build(s, [A, C])
    a, c = np.random.rand(n).astype("float32"), tvm.nd.empty((n - 2,))
    f(tvm.nd.array(a), c)
    for at in range(8):
        a = a * np.float32(0.5) + np.float32(at)
    tvm.testing.assert_allclose(c.numpy(), a[:-2] + a[1:-1] + a[2:], rtol=1e-5)


def test_softmax_in_four_stages() -> None:
    m, n = te.var("m"), te.var("n")
    X = te.placeholder((m, n), name="X")
    k1, k2 = te.reduce_axis((0, n), name="k1"), te.reduce_axis((0, n), name="k2")
    top = te.compute((m,), lambda i: te.max(X[i, k1], axis=k1), name="top")
    e = te.compute((m, n), lambda i, j: te.exp(X[i, j] - top[i]), name="e")
    total = te.compute((m,), lambda i: te.sum(e[i, k2], axis=k2), name="total")
    Y = te.compute((m, n), lambda i, j: e[i, j] / total[i], name="Y")
    s = te.create_schedule(Y.op)
    for stage in (top, e, total):
        s[stage].compute_at(s[Y], Y.op.axis[0])
    s[Y].parallel(Y.op.axis[0])
    f = tvm.build(s, [X, Y])
    x, y = np.random.randn(5, 33).astype("float32"), tvm.nd.empty((5, 33))
    f(tvm.nd.array(x), y)
    shifted = np.exp(x - x.max(1, keepdims=True))
    tvm.testing.assert_allclose(y.numpy(), shifted / shifted.sum(1, keepdims=True), rtol=1e-5)


def test_int8_dot_products_in_int32() -> None:
    m, n, k = 17, 19, 64
    A, B = te.placeholder((m, k), "uint8", name="A"), te.placeholder((n, k), "int8", name="B")
    r = te.reduce_axis((0, k), "r")
    C = te.compute((m, n), lambda i, j: te.sum(A[i, r].astype("int32") * B[j, r].astype("int32"), axis=r), name="C")
    s = te.create_schedule(C.op)
    x, y = C.op.axis
    jo, ji = s[C].split(y, 8)
    s[C].reorder(x, jo, s[C].op.reduce_axis[0], ji)
    s[C].vectorize(ji)
    f = tvm.build(s, [A, B, C])
    a = np.random.randint(0, 256, (m, k)).astype("uint8")
    b = np.random.randint(-128, 128, (n, k)).astype("int8")
    c = tvm.nd.empty((m, n), "int32")
    f(tvm.nd.array(a), tvm.nd.array(b), c)
    np.testing.assert_array_equal(c.numpy(), a.astype("int32") @ b.T.astype("int32"))


def test_bfloat16_and_half_go_through_float() -> None:
    import ml_dtypes

    for dtype, np_dtype in (("float16", np.float16), ("bfloat16", ml_dtypes.bfloat16)):
        A = te.placeholder((40,), dtype, name="A")
        B = te.compute((40,), lambda i: (A[i].astype("float32") * 3 + 1).astype(dtype), name="B")
        f = tvm.build(te.create_schedule(B.op), [A, B])
        a, b = np.linspace(-2, 2, 40).astype(np_dtype), tvm.nd.empty((40,), dtype)
        f(tvm.nd.array(a), b)
        np.testing.assert_array_equal(
            b.numpy().astype("float32"), (a.astype("float32") * 3 + 1).astype(np_dtype).astype("float32")
        )
