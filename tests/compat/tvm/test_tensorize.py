"""A matmul by a gemv that outside code computes, as TVM's users write it: only the import lines are ours."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import tilewright as tw
from this_machine import runnable
from tilewright.compat import tvm
from tilewright.compat.tvm import te
from tilewright.compat.tvm.contrib import clang, utils

needs_compiler = pytest.mark.skipif(
    not any(map(shutil.which, ("clang", "clang++", "c++", "g++"))), reason="no C++ compiler"
)

FUNCTIONS = """
  extern "C" int {update}(float *cc, float *aa, float *bb, int m, int l, int stride) {{
    for (int i = 0; i < m; ++i) {{
        for (int j = 0; j < l; ++j) {{
            cc[i] += aa[j] * bb[i * stride + j];
        }}
    }}
    return 0;
  }}
  extern "C" int {reset}(float *cc, int m) {{
    for (int i = 0; i < m; ++i) {{
        cc[i] = 0.0;
    }}
    return 0;
  }}
"""


def gemv_impl(update, reset):
    temp = utils.tempdir()
    return clang.create_llvm(FUNCTIONS.format(update=update, reset=reset), output=temp.relpath("temp.ll"))


def intrin_gemv(m, l, update, reset):
    a = te.placeholder((l,), name="a")
    b = te.placeholder((m, l), name="b")
    k = te.reduce_axis((0, l), name="k")
    c = te.compute((m,), lambda i: te.sum(a[k] * b[i, k], axis=k), name="c")
    Ab = tvm.tir.decl_buffer(a.shape, a.dtype, name="A", offset_factor=1, strides=[1])
    Bb = tvm.tir.decl_buffer(b.shape, b.dtype, name="B", offset_factor=1, strides=[te.var("s1"), 1])
    Cb = tvm.tir.decl_buffer(c.shape, c.dtype, name="C", offset_factor=1, strides=[1])

    def intrin_func(ins, outs):
        aa, bb = ins
        cc = outs[0]

        def _body():
            ib = tvm.tir.ir_builder.create()
            ib.emit(tvm.tir.call_extern("int32", reset, cc.access_ptr("w"), m))
            ib.emit(
                tvm.tir.call_extern(
                    "int32", update, cc.access_ptr("w"), aa.access_ptr("r"), bb.access_ptr("r"), m, l, bb.strides[0]
                )
            )
            return ib.get()

        def _reduce_reset():
            ib = tvm.tir.ir_builder.create()
            ib.emit(tvm.tir.call_extern("int32", reset, cc.access_ptr("w"), m))
            return ib.get()

        def _reduce_update():
            ib = tvm.tir.ir_builder.create()
            ib.emit(
                tvm.tir.call_extern(
                    "int32", update, cc.access_ptr("rw"), aa.access_ptr("r"), bb.access_ptr("r"), m, l, bb.strides[0]
                )
            )
            return ib.get()

        return _body(), _reduce_reset(), _reduce_update()

    return te.decl_tensor_intrin(c.op, intrin_func, binds={a: Ab, b: Bb, c: Cb})


@needs_compiler
@pytest.mark.parametrize("split_reduction", [False, True])
def test_the_gemv_program(split_reduction):
    N, M, L = 256, 128, 64
    A = te.placeholder((N, L), name="A")
    B = te.placeholder((M, L), name="B")
    k = te.reduce_axis((0, L), name="k")
    C = te.compute((N, M), lambda i, j: te.sum(A[i, k] * B[j, k], axis=k), name="C")
    s = te.create_schedule(C.op)
    factor = 16
    x, y = C.op.axis
    (z,) = C.op.reduce_axis
    yo, yi = s[C].split(y, factor=factor)
    update, reset = f"gemv_update_{split_reduction:d}", f"gemv_reset_{split_reduction:d}"
    if split_reduction:
        zo, zi = s[C].split(z, factor=factor)
        s[C].reorder(x, yo, zo, yi, zi)
        gemv = intrin_gemv(factor, factor, update, reset)
    else:
        s[C].reorder(x, yo, yi, z)
        gemv = intrin_gemv(factor, L, update, reset)
    s[C].tensorize(yi, gemv)
    s[C].pragma(yo, "import_llvm", gemv_impl(update, reset))
    assert update in str(tvm.lower(s, [A, B, C], simple_mode=True))
    func = tvm.build(s, [A, B, C], target="llvm", name="gemv")
    dtype, dev = A.dtype, tvm.device("cpu", 0)
    a = np.random.uniform(size=(N, L)).astype(dtype)
    b = np.random.uniform(size=(M, L)).astype(dtype)
    c = tvm.nd.array(np.zeros((N, M), dtype=dtype), dev)
    func(tvm.nd.array(a, dev), tvm.nd.array(b, dev), c)
    tvm.testing.assert_allclose(c.numpy(), np.dot(a, b.T), rtol=1e-3)


def test_imported_llvm_is_part_of_the_kernel():
    """Text in LLVM's language, which an older clang wrote for another processor; no compiler is needed."""
    text = """
target datalayout = "e-m:e-i64:64"
target triple = "aarch64-unknown-linux-gnu"
define i32 @tw_test_twice(ptr %to, ptr %from) #0 {
  %x = load <4 x float>, ptr %from, align 4
  %y = fadd <4 x float> %x, %x
  store <4 x float> %y, ptr %to, align 4
  ret i32 0
}
attributes #0 = { nounwind }
"""
    a = te.placeholder((4,), name="a")
    c = te.compute((4,), lambda i: a[i] + a[i], name="c")
    twice = te.decl_tensor_intrin(
        c.op,
        lambda ins, outs: te.call_extern("int32", "tw_test_twice", outs[0].access_ptr("w"), ins[0].access_ptr("r")),
        "twice",
    )
    A = te.placeholder((16,), name="A")
    C = te.compute((16,), lambda i: A[i] + A[i], name="C")
    s = te.create_schedule(C.op)
    outer, inner = s[C].split(C.op.axis[0], factor=4)
    s[C].tensorize(inner, twice)
    s[C].pragma(outer, "import_llvm", text)
    f = tw.build(s, [A, C])
    values, found = np.arange(16, dtype="float32"), np.zeros(16, "float32")
    f(values, found)
    np.testing.assert_array_equal(found, 2 * values)
    assert "define i32 @tw_test_twice" in f.source("llvm")
    s[C].pragma(outer, "import_llvm", "define nonsense")
    with pytest.raises(tw.CodegenError, match=r"(?s)TW0414: LLVM refuses the text number 0.*fix: give LLVM IR as text"):
        tw.build(s, [A, C])


def test_vnni_as_operator_libraries_for_tvm_declare_it():
    """Buffers loaded as vectors, intrinsics by LLVM's names with a count before the operands."""
    data = te.placeholder((4,), dtype="uint8", name="data")
    kernel = te.placeholder((16, 4), dtype="int8", name="kernel")
    k = te.reduce_axis((0, 4), name="k")
    C = te.compute((16,), lambda i: te.sum(data[k].astype("int32") * kernel[i, k].astype("int32"), axis=k), name="C")
    a_buffer = tvm.tir.decl_buffer(data.shape, dtype="uint8", name="a_buffer", offset_factor=1, strides=[1])
    b_buffer = tvm.tir.decl_buffer(
        kernel.shape, dtype="int8", name="b_buffer", offset_factor=1, strides=[te.var("ldw"), 1]
    )

    def _intrin_func(ins, outs):
        def _instr(index):
            ib = tvm.tir.ir_builder.create()
            if index == 1:
                ib.emit(outs[0].vstore(0, tvm.tir.const(0, "int32x16")))
                return ib.get()
            re_int32 = tvm.tir.call_intrin("int32", "tir.reinterpret", ins[0].vload([0], "uint8x4"))
            vec_a = tvm.tir.call_intrin("int8x64", "tir.reinterpret", re_int32.astype("int32x16"))
            vec_b = ins[1].vload([0, 0], "int8x64")
            ones = tvm.tir.const(1, "int16x32")
            pairs = tvm.tir.call_llvm_pure_intrin(
                "int16x32", "llvm.x86.avx512.pmaddubs.w.512", tvm.tir.const(0, "uint32"), vec_a, vec_b
            )
            quads = tvm.tir.call_llvm_pure_intrin(
                "int32x16", "llvm.x86.avx512.pmaddw.d.512", tvm.tir.const(0, "uint32"), pairs, ones
            )
            ib.emit(outs[0].vstore(0, quads if index == 0 else quads + outs[0].vload([0], "int32x16")))
            return ib.get()

        return _instr(0), _instr(1), _instr(2)

    intrin = te.decl_tensor_intrin(
        C.op, _intrin_func, binds={data: a_buffer, kernel: b_buffer}, default_buffer_params={"offset_factor": 1}
    )
    X, W = te.placeholder((8, 32), "uint8", name="X"), te.placeholder((2, 8, 16, 4), "int8", name="W")
    r = te.reduce_axis((0, 32), name="r")
    Y = te.compute(
        (8, 32),
        lambda i, j: te.sum(X[i, r].astype("int32") * W[j // 16, r // 4, j % 16, r % 4].astype("int32"), axis=r),
        name="Y",
    )
    s = te.create_schedule(Y.op)
    jo, ji = s[Y].split(Y.op.axis[1], 16)
    ro, ri = s[Y].split(Y.op.reduce_axis[0], 4)
    s[Y].reorder(Y.op.axis[0], jo, ro, ji, ri)
    s[Y].tensorize(ji, intrin)
    rng = np.random.default_rng(0)
    x, w = rng.integers(0, 128, (8, 32)).astype("uint8"), rng.integers(-100, 100, (32, 32)).astype("int8")
    packed = tvm.nd.array(w.reshape(2, 16, 8, 4).transpose(0, 2, 1, 3).copy())
    target, *_ = runnable("llvm -mcpu=skylake-avx512", "interpret")
    y = tvm.nd.array(np.zeros((8, 32), "int32"))
    tvm.build(s, [X, W, Y], target=target)(tvm.nd.array(x), packed, y)
    np.testing.assert_array_equal(y.numpy(), x.astype("int32") @ w.astype("int32").T)


def test_a_compute_that_calls_a_gemm_over_tiles():
    """TVM's test of TensorComputeOp: the call's parts, a reduction over calls, default_buffer_params."""
    M, N, L, factor, factor1, factor2 = 64, 32, 48, 16, 32, 32

    def intrin_gemm(m, n, l):
        k = te.reduce_axis((0, l))
        x = te.placeholder((m, l))
        y = te.placeholder((n, l))
        z = te.compute((m, n), lambda i, j: te.sum(x[i][k] * y[j][k], axis=k))

        def intrin_func(ins, outs):
            x_ptr = ins[0].access_ptr("r")
            y_ptr = ins[1].access_ptr("r")
            z_ptr = outs[0].access_ptr("w")
            body = tvm.tir.call_extern("int32", "gemv", x_ptr, y_ptr, z_ptr, m, n, l)
            reset = tvm.tir.call_extern("int32", "fill_zero", z_ptr, m, n)
            update = tvm.tir.call_extern("int32", "gemv_add", x_ptr, y_ptr, z_ptr, m, n, l)
            return body, reset, update

        return te.decl_tensor_intrin(z.op, intrin_func, default_buffer_params={"offset_factor": n})

    vgemm = intrin_gemm(factor1, factor2, factor)
    A = te.placeholder((M // factor1, L // factor, factor1, factor), name="A", dtype="float32")
    B = te.placeholder((N // factor2, L // factor, factor2, factor), name="B", dtype="float32")
    k = te.reduce_axis((0, L // factor), name="k")
    C = te.compute(
        (M // factor1, N // factor2, factor1, factor2),
        lambda i, j: vgemm(A[i, k, 0:factor1, 0:factor], B[j, k, 0:factor2, 0:factor], reduce_axis=k),
        name="C",
    )
    s = te.create_schedule(C.op)
    text = str(tvm.lower(s, [A, B, C], simple_mode=True))
    assert text.index("fill_zero") < text.index("for k in 3") < text.index("gemv_add")
    a, b = (
        np.random.default_rng(seed).standard_normal(shape).astype("float32")
        for seed, shape in ((0, (2, 3, 32, 16)), (1, (1, 3, 32, 16)))
    )
    c = np.zeros((2, 1, 32, 32), "float32")
    tw.build(s, [A, B, C], target="interpret")(a, b, c)
    np.testing.assert_allclose(c, np.einsum("iarc,jasc->ijrs", a, b), rtol=1e-3, atol=1e-3)
