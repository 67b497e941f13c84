"""Declaring intrinsics: buffers, bodies, the program builder, calls of outside code."""

from __future__ import annotations

import platform
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.ir import Buffer, DType, Function, verify
from tilewright.ir.interpret.interpreter import run
from tilewright.ir.ops import const
from tilewright.ir.stmt import BufferStore


def buffers(*shapes: tuple[tuple[int, ...], str]) -> list[Buffer]:
    named = zip("ABCD", shapes, strict=False)
    return [Buffer(name, tuple(map(const, shape)), DType(dtype)) for name, (shape, dtype) in named]


def operation() -> tuple[Any, Any]:
    a = te.placeholder((8,), name="a")
    return te.compute((8,), lambda i: a[i] + 1, "c"), a


def interpreted(body: Any, params: list[Buffer], *arrays: np.ndarray) -> None:
    function = Function("f", tuple(params), body, (params[-1],), {"stage": "loops"})
    verify(function)
    run(function, arrays)


def test_the_builder_writes_loops_conditions_memory_and_values() -> None:
    A, B = buffers(((4, 8), "int32"), ((4, 8), "int32"))
    ib = tw.ir_builder()
    source, out = ib.buffer_ptr(A), ib.buffer_ptr(B)
    with ib.for_range(0, 4, name="i") as i:
        row = ib.allocate("int32", 8, "row")
        with ib.for_range(0, 8, "j", kind="unroll") as j:
            row[j] = source[i, 7 - j]
        twice = ib.let("twice", i * 2)
        with ib.for_range(const(2), 6, "j") as j:
            with ib.if_scope(ib.likely(j < twice)):
                out[i, j] = row[j] + 1
            with ib.else_scope():
                out[i * 8 + j] = -1
    body = ib.get()
    a = np.arange(32, dtype="int32").reshape(4, 8)
    b = np.zeros((4, 8), "int32")
    interpreted(body, [A, B], a, b)
    rows, columns = np.mgrid[:4, :8]
    expected = np.where(columns < 2 * rows, a[:, ::-1] + 1, -1)
    np.testing.assert_array_equal(b[:, 2:6], expected[:, 2:6])
    assert not ib.get().body, "the builder is empty again"  # type: ignore[attr-defined]


def test_vectors_go_on_in_the_next_row() -> None:
    A, B = buffers(((4, 6), "int8"), ((24,), "int8"))
    a = np.arange(24, dtype="int8").reshape(4, 6)
    for begin in ([0, 0], [1, 0], [0, 3], [1, 2]):
        lanes = 8
        b = np.zeros(24, "int8")
        interpreted(B.vstore([4], A.vload(begin, f"int8x{lanes}")), [A, B], a, b)
        first = begin[0] * 6 + begin[1]
        np.testing.assert_array_equal(b[4:12], a.reshape(-1)[first : first + lanes])
        f = tw.build(Function("f", (A, B), B.vstore([4], A.vload(begin, "int8x8")), (B,), {"stage": "loops"}))
        g = np.zeros(24, "int8")
        f(a, g)
        np.testing.assert_array_equal(g, b)
    assert "ramp(0, 1, 4)" in str(A.vload([0, 0], "int8x4"))
    text = tw.build(Function("f", (A, B), B.vstore([0], A.vload([1, 0], "int8x16")), (B,), {"stage": "loops"})).source(
        "ir"
    )
    assert "A[ramp(int64(6), int64(1), 16)]" in text, "rows that follow each other are one contiguous vector"


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        (lambda A, B: A.vload([0], "int8x4"), "A has 2 dimensions and was accessed with 1 index"),
        (lambda A, B: A.vload([0, 0], "uint8x4"), "cannot load uint8x4 from A"),
        (lambda A, B: B.vstore([0], te.const(1, "int32")), "cannot store int32 to B"),
        (lambda A, B: A.vload([0, 1.5]), "the index of an access to A is not an integer"),
        (lambda A, B: A.access_ptr("x"), "its mode is 'x'"),
        (lambda A, B: A.access_ptr(7), "its mode is 7"),
    ],
)
def test_wrong_accesses(wrong: Any, match: str) -> None:
    A, B = buffers(((4, 8), "int8"), ((24,), "int8"))
    with pytest.raises(tw.TensorExpressionError, match=rf"(?s)TW0130.*{match}"):
        wrong(A, B)


def test_wrong_use_of_the_builder() -> None:
    ib = tw.ir_builder()
    with pytest.raises(tw.TensorExpressionError, match="TW0131: only statements and calls can be emitted"):
        ib.emit("gemv()")
    with pytest.raises(tw.TensorExpressionError, match="an else_scope without an if_scope"), ib.else_scope():
        pass
    with (
        pytest.raises(tw.TensorExpressionError, match="unknown kind of loop 'threads'"),
        ib.for_range(0, 4, kind="threads"),
    ):
        pass
    with pytest.raises(tw.TensorExpressionError, match=r"(?s)cannot allocate buf.*its scope is 'register'"):
        ib.allocate("int8", 4, scope="register")
    with pytest.raises(tw.TensorExpressionError, match=r"get\(\) was called within a scope"), ib.for_range(0, 4):
        ib.get()


def test_wrong_intrinsics() -> None:
    c, a = operation()
    wide = te.compute((8,), lambda i: c[i] + a[i], "wide")
    call = te.call_extern("int32", "f")
    with pytest.raises(tw.TensorExpressionError, match=r"(?s)TW0132.*must be one te.compute over placeholders"):
        te.decl_tensor_intrin(wide.op, lambda ins, outs: call)
    with pytest.raises(tw.TensorExpressionError, match=r"(?s)TW0132.*returned no body.*got None"):
        te.decl_tensor_intrin(c.op, lambda ins, outs: None)
    with pytest.raises(tw.TensorExpressionError, match="has a reduce_update, but does not reduce"):
        te.decl_tensor_intrin(c.op, lambda ins, outs: (call, call, call))
    with pytest.raises(tw.TensorExpressionError, match=r"(?s)cannot bind a .*int8 of shape .8,., the tensor float32"):
        te.decl_tensor_intrin(c.op, lambda ins, outs: call, binds={a: te.decl_buffer((8,), "int8")})
    with pytest.raises(tw.TensorExpressionError, match=r"(?s)binds has z, which c does not read"):
        te.decl_tensor_intrin(
            c.op, lambda ins, outs: call, binds={te.placeholder((8,), name="z"): te.decl_buffer((8,))}
        )
    with pytest.raises(tw.TensorExpressionError, match=r"(?s)uses the buffer other.*none of those"):
        te.decl_tensor_intrin(
            c.op, lambda ins, outs: BufferStore(te.decl_buffer((8,), name="other"), const(0.0), (const(0),))
        )
    with pytest.raises(tw.TensorExpressionError, match=r"(?s)writes the buffer a.*c only reads a.*access_ptr\(\"r\"\)"):
        te.decl_tensor_intrin(c.op, lambda ins, outs: te.call_extern("int32", "f", ins[0].access_ptr("rw")))
    with pytest.raises(tw.TensorExpressionError, match="writes the buffer a"):
        te.decl_tensor_intrin(c.op, lambda ins, outs: ins[0].vstore([0], 1.0))
    r = te.reduce_axis((0, 8), "r")
    total = te.compute((1,), lambda i: te.sum(a[r], axis=r), "total")
    with pytest.raises(tw.TensorExpressionError, match="has a reduce_init and no reduce_update"):
        te.decl_tensor_intrin(total.op, lambda ins, outs: (call, call, None))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"strides": [1]}, "1 strides for 2 dimensions"),
        ({"scope": "register"}, "its scope is 'register'"),
        ({"data_alignment": 24}, "no power of two"),
        ({"offset_factor": -1}, "offset_factor is -1"),
    ],
)
def test_wrong_buffers(options: dict[str, Any], match: str) -> None:
    with pytest.raises(tw.TensorExpressionError, match=rf"(?s)TW0133.*{match}"):
        te.decl_buffer((4, 4), "int8", "b", **options)


def test_calls_by_name() -> None:
    x = te.var("x", "float32")
    assert str(te.call_intrin("float32", "tir.exp", x)) == "exp(x)"
    assert te.call_intrin("int32", "reinterpret", x).dtype == "int32"
    with pytest.raises(
        tw.TensorExpressionError, match=r"(?s)TW0134: cannot call the intrinsic 'tir.warp' .*there is none"
    ):
        te.call_intrin("float32", "tir.warp", x)
    with pytest.raises(tw.TensorExpressionError, match="it takes 2 operands"):
        te.call_intrin("float32", "pow", x)
    with pytest.raises(tw.TensorExpressionError, match="'exp' gives float32 here, not float64"):
        te.call_intrin("float64", "exp", x)
    with pytest.raises(tw.TensorExpressionError, match="'vpdpbusd' is not an LLVM intrinsic"):
        te.call_llvm_intrin("int32x16", "vpdpbusd", x)
    with pytest.raises(tw.TensorExpressionError, match="needs the function's name"):
        te.call_extern("int32", "")


def test_outside_functions_in_a_compute() -> None:
    A = te.placeholder((20,), name="A")
    B = te.compute(
        (20,),
        lambda i: te.call_pure_extern("float32", "cbrtf", A[i]) + te.call_llvm_intrin("float32", "llvm.fabs.f32", A[i]),
        "B",
    )
    s = te.create_schedule(B.op)
    s[B].vectorize(B.op.axis[0])
    a = np.linspace(-3, 3, 20, dtype="float32")
    found = np.zeros(20, "float32")
    tw.build(s, [A, B])(a, found)
    np.testing.assert_allclose(found, np.cbrt(a) + np.abs(a), rtol=1e-5)


def test_the_target_decides_once() -> None:
    own = {"x86_64": "sse2", "aarch64": "neon", "riscv64": "m"}[platform.machine()]
    A = te.placeholder((4,), "int32", "A")
    B = te.compute(
        (4,),
        lambda i: (
            A[i]
            + te.select(
                te.target_has("interpreter"),
                100,
                te.if_then_else(te.all(te.target_has(own), ~te.target_has("no-such-thing")), 10, 1),
            )
        ),
        "B",
    )
    s = te.create_schedule(B.op)
    for target, plus in (("llvm", 10), ("interpret", 100)):
        found = np.zeros(4, "int32")
        tw.build(s, [A, B], target=target)(np.arange(4, dtype="int32"), found)
        np.testing.assert_array_equal(found, np.arange(4) + plus)
