"""What the bodies of intrinsics may be: LLVM's intrinsics, vectors of our IR, C given as text, simulators in Python; and
reductions of which one call does a part.
"""

from __future__ import annotations

import shutil
import uuid
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from lowered import floats
from tilewright import te
from tilewright.ir.expr import Shuffle

TARGETS = ("llvm", "interpret")


def gemv(rows: int, depth: int, bodies: Any, strided: bool = True) -> te.TensorIntrin:
    """c[i] = sum over k of a[k] * b[i, k], by what `bodies` makes of the buffers."""
    a, b = te.placeholder((depth,), name="a"), te.placeholder((rows, depth), name="b")
    k = te.reduce_axis((0, depth), "k")
    c = te.compute((rows,), lambda i: te.sum(a[k] * b[i, k], axis=k), "c")
    binds = {b: te.decl_buffer(b.shape, b.dtype, "b", strides=[te.var("s"), 1])} if strided else None
    return te.decl_tensor_intrin(c.op, bodies, "gemv", binds)


def matmul(n: int, m: int, k: Any) -> tuple[Any, ...]:
    A, B = te.placeholder((n, k), name="A"), te.placeholder((m, k), name="B")
    r = te.reduce_axis((0, k), "r")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, r] * B[j, r], axis=r), "C")
    return te.create_schedule(C.op), A, B, C, r


def tensorized(
    intrinsic: te.TensorIntrin, rows: int, depth: int, n: int = 3, m: int = 8, k: int = 12
) -> tuple[Any, list[Any]]:
    s, A, B, C, r = matmul(n, m, k)
    i, j = C.op.axis
    jo, ji = s[C].split(j, rows)
    ro, ri = s[C].split(r, depth)
    s[C].reorder(i, jo, ro, ji, ri)
    s[C].tensorize(ji, intrinsic)
    return s, [A, B, C]


def right(s: Any, args: list[Any], *targets: str, n: int = 3, m: int = 8, k: int = 12) -> None:
    a, b = floats(n, k), floats(m, k, seed=1)
    for target in targets or TARGETS:
        found = np.full((n, m), 77, "float32")
        tw.build(s, args, target=target)(a, b, found)
        np.testing.assert_allclose(found, a @ b.T, rtol=1e-4, atol=1e-4)


def test_llvm_intrinsics() -> None:
    """Those that LLVM has for every processor; the interpreter runs what the operation says instead."""
    lanes = 8
    wide = f"float32x{lanes}"
    x, y = te.placeholder((lanes,), name="x"), te.placeholder((lanes,), name="y")
    z = te.compute((lanes,), lambda i: te.max(te.sqrt(x[i]) * y[i] + 1.0, 0.0), "z")

    def body(ins: list[Any], outs: list[Any]) -> Any:
        ib = tw.ir_builder()
        root = ib.let("root", te.call_llvm_intrin(wide, "llvm.sqrt.v8f32", ins[0].vload([0], wide)))
        product = te.call_llvm_intrin(wide, "llvm.fmuladd.v8f32", root, ins[1].vload([0], wide), te.const(1.0, wide))
        ib.emit(outs[0].vstore([0], te.call_llvm_intrin(wide, "llvm.maxnum.v8f32", product, te.const(0.0, wide))))
        return ib.get()

    intrinsic = te.decl_tensor_intrin(z.op, body, "rooted")
    A, B = te.placeholder((24,), name="A"), te.placeholder((24,), name="B")
    C = te.compute((24,), lambda i: te.max(te.sqrt(A[i]) * B[i] + 1.0, 0.0), "C")
    s = te.create_schedule(C.op)
    outer, inner = s[C].split(C.op.axis[0], lanes)
    s[C].tensorize(inner, intrinsic)
    s[C].parallel(outer)
    a, b = np.abs(floats(24)), floats(24, seed=1)
    for target in TARGETS:
        found = np.zeros(24, "float32")
        tw.build(s, [A, B, C], target=target)(a, b, found)
        np.testing.assert_allclose(found, np.maximum(np.sqrt(a) * b + 1, 0), rtol=1e-5, atol=1e-6)
    assert "llvm.fmuladd.v8f32" in tw.build(s, [A, B, C]).source("llvm")
    assert tw.build(s, [A, B, C]).source("asm")


def test_vectors_of_our_own_that_are_wider_than_rows() -> None:
    """A transposition of 4 by 4 bytes as one shuffle of a vector of 16."""
    x = te.placeholder((4, 4), "int8", name="x")
    z = te.compute((4, 4), lambda i, j: x[j, i], "z")

    def body(ins: list[Any], outs: list[Any]) -> Any:
        order = tuple(j * 4 + i for i in range(4) for j in range(4))
        return outs[0].vstore([0, 0], Shuffle((ins[0].vload([0, 0], "int8x16"),), order))

    binds = {one: te.decl_buffer(one.shape, one.dtype, one.name, strides=[te.var("row"), 1]) for one in (x, z)}
    turn = te.decl_tensor_intrin(z.op, body, "turn", binds)
    A = te.placeholder((8, 12), "int8", name="A")
    C = te.compute((12, 8), lambda i, j: A[j, i], "C")
    s = te.create_schedule(C.op)
    _, _, ii, _ = s[C].tile(*C.op.axis, 4, 4)
    s[C].tensorize(ii, turn)
    a = np.arange(96, dtype="int8").reshape(8, 12)
    for target in TARGETS:
        found = np.zeros((12, 8), "int8")
        tw.build(s, [A, C], target=target)(a, found)
        np.testing.assert_array_equal(found, a.T)


needs_c = pytest.mark.skipif(shutil.which("clang") is None and shutil.which("cc") is None, reason="no C compiler")


@needs_c
def test_c_given_as_text() -> None:
    """The schedule brings the C along; it is part of the kernel."""
    source = """
#include <stdint.h>
int32_t tw_text_reset(float *c, int32_t n) { for (int i = 0; i < n; ++i) c[i] = 0; return 0; }
int32_t tw_text_gemv(float *c, const float *a, const float *b, int32_t n, int32_t depth, int32_t stride) {
  for (int i = 0; i < n; ++i) for (int k = 0; k < depth; ++k) c[i] += a[k] * b[i * stride + k];
  return 0;
}
"""

    def bodies(ins: list[Any], outs: list[Any]) -> Any:
        reset = te.call_extern("int32", "tw_text_reset", outs[0].access_ptr("w"), 4)
        update = te.call_extern(
            "int32",
            "tw_text_gemv",
            outs[0].access_ptr("rw"),
            ins[0].access_ptr("r"),
            ins[1].access_ptr("r"),
            4,
            6,
            ins[1].strides[0],
        )
        ib = tw.ir_builder()
        ib.emit(reset)
        ib.emit(update)
        return ib.get(), reset, update

    s, args = tensorized(gemv(4, 6, bodies), 4, 6)
    C = args[-1]
    s[C].pragma(s[C].op.axis[0], "import_c", source)
    assert '"tw_text_gemv"' in str(s)
    right(s, args)


def simulator(log: list[tuple[str, tuple[int, ...], tuple[int, ...]]]) -> tuple[str, str]:
    """Functions of Python that stand for a device that multiplies a matrix with a vector: names of reset and of update."""
    names = f"sim_reset_{uuid.uuid4().hex}", f"sim_gemv_{uuid.uuid4().hex}"

    @tw.register_func(names[0])
    def reset(c: np.ndarray) -> None:
        log.append(("reset", c.shape, c.strides))
        c[:] = 0

    @tw.register_func(names[1])
    def update(a: np.ndarray, b: np.ndarray, c: np.ndarray, rows: int) -> None:
        assert not a.flags.writeable and rows == len(c)
        log.append(("gemv", b.shape, b.strides))
        c += b @ a

    return names


@pytest.mark.parametrize("depth", [12, 4])
@pytest.mark.parametrize("target", TARGETS)
def test_a_simulator_in_python(depth: int, target: str) -> None:
    """It gets views of the very parts, where the kernel is machine code: their strides are those of the tensors."""
    log: list[tuple[str, tuple[int, ...], tuple[int, ...]]] = []
    reset, update = simulator(log)

    def bodies(ins: list[Any], outs: list[Any]) -> Any:
        begin, go_on = te.call_packed(reset, outs[0]), te.call_packed(update, ins[0], ins[1], outs[0], 4)
        ib = tw.ir_builder()
        ib.emit(begin)
        ib.emit(go_on)
        return ib.get(), begin, go_on

    s, args = tensorized(gemv(4, depth, bodies), 4, depth)
    right(s, args, target)
    calls = 3 * 2
    assert [name for name, _, _ in log].count("reset") == calls
    updates = [entry[1:] for entry in log if entry[0] == "gemv"]
    assert [shape for shape, _ in updates] == [(4, depth)] * (calls * 12 // depth)
    assert target != "llvm" or {strides for _, strides in updates} == {(48, 4)}, "B's rows, not those of the part"


def test_a_simulator_that_raises() -> None:
    name = f"sim_broken_{uuid.uuid4().hex}"

    @tw.register_func(name)
    def broken(*_: Any) -> None:
        raise ValueError("the pipeline is stalled")

    s, args = tensorized(gemv(4, 12, lambda ins, outs: te.call_packed(name, ins[1], outs[0])), 4, 12)
    f = tw.build(s, args)
    with pytest.raises(tw.TilewrightError, match="the pipeline is stalled"):
        f(floats(3, 12), floats(8, 12), np.zeros((3, 8), "float32"))


def loops(rows: int, depth: int, parts: int) -> Any:
    """Bodies of plain loops; parts: 1 the body alone, 2 no reduce_init, 3 all."""

    def bodies(ins: list[Any], outs: list[Any]) -> Any:
        def made(begin: bool, go_on: bool) -> Any:
            ib = tw.ir_builder()
            a, b, c = (ib.buffer_ptr(buffer) for buffer in (*ins, *outs))
            with ib.for_range(0, rows, "i") as i:
                if begin:
                    c[i] = 0.0
                if go_on:
                    with ib.for_range(0, depth, "k") as k:
                        c[i] = c[i] + a[k] * b[i, k]
            return ib.get()

        body = made(True, True)
        return body if parts == 1 else (body, made(True, False) if parts == 3 else None, made(False, True))

    return bodies


@pytest.mark.parametrize("parts", [2, 3])
def test_several_reduce_loops_outside(parts: int) -> None:
    """The windows and blocks of a convolution outside, the channels of a block inside; only the very first iteration of
    all begins."""
    D, W = te.placeholder((2, 7, 4), name="D"), te.placeholder((5, 2, 3, 4), name="W")
    co, kx, ci = (te.reduce_axis((0, extent), name) for extent, name in ((2, "co"), (3, "kx"), (4, "ci")))
    C = te.compute((5, 5), lambda x, o: te.sum(D[co, x + kx, ci] * W[o, co, kx, ci], axis=[co, kx, ci]), "C")
    d, w = floats(2, 7, 4), floats(5, 2, 3, 4, seed=1)
    expected = sum(np.einsum("cxi,oci->xo", d[:, k : k + 5], w[:, :, k]) for k in range(3))
    for order in ("xcko", "cxko", "ckxo"):
        s = te.create_schedule(C.op)
        x, o = C.op.axis
        s[C].reorder(*({"x": x, "c": co, "k": kx, "o": o}[letter] for letter in order), ci)
        s[C].tensorize(o, gemv(5, 4, loops(5, 4, parts)))
        for target in TARGETS:
            found = np.full((5, 5), 77, "float32")
            tw.build(s, [D, W, C], target=target)(d, w, found)
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5, err_msg=f"{order} {target}\n{s}")


@pytest.mark.parametrize("parts", [2, 3])
@pytest.mark.parametrize("order", ["data outside", "data inside"])
def test_a_reduction_over_nothing_is_begun_all_the_same(parts: int, order: str) -> None:
    """A symbolic number of calls may be none."""
    n = te.var("n")
    s, A, B, C, r = matmul(3, 8, n * 4)
    i, j = C.op.axis
    jo, ji = s[C].split(j, 4)
    ro, ri = s[C].split(r, 4)
    s[C].reorder(*((i, jo, ro) if order == "data outside" else (ro, i, jo)), ji, ri)
    s[C].tensorize(ji, gemv(4, 4, loops(4, 4, parts)))
    for blocks in (0, 1, 3):
        right(s, [A, B, C], k=4 * blocks)


def test_a_tail_of_the_reduction_is_guarded_by_whole_calls() -> None:
    """5 calls in groups of 2: the guard is outside of the intrinsic."""
    s, A, B, C, r = matmul(3, 8, 20)
    i, j = C.op.axis
    ro, ri = s[C].split(r, 4)
    roo, roi = s[C].split(ro, 2)
    s[C].reorder(roo, i, roi, j, ri)
    s[C].tensorize(j, gemv(8, 4, loops(8, 4, 2)))
    assert "if likely(r.outer.outer * 2 + r.outer.inner < 5)" in str(s)
    right(s, [A, B, C], k=20)
