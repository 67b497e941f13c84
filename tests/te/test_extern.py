"""te.extern: bodies of the loop IR, C functions and BLAS compute whole tensors amid scheduled stages."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.ir.text.parser import parse
from tilewright.schedule.errors import BadCacheWrite, CannotInline, NotAnAxisOfStage
from tilewright.schedule.lowering.errors import ExternBuffer
from tilewright.te import errors as te_errors

BOTH = ("llvm", "interpret")


def doubled(ins: list[Any], outs: list[Any]) -> Any:
    """outs[0] = 2 * ins[0] + 1, on matrices."""
    ib = tw.ir_builder()
    A, C = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
    with ib.for_range(0, ins[0].shape[0], name="i") as i, ib.for_range(0, ins[0].shape[1], name="j") as j:
        C[i, j] = A[i, j] * 2.0 + 1.0
    return ib.get()


def program(rows: Any, columns: Any) -> tuple[te.Tensor, ...]:
    """D = (2 * (A + 1) + 1) * 3, the middle by an extern."""
    A = te.placeholder((rows, columns), name="A")
    B = te.compute(A.shape, lambda i, j: A[i, j] + 1, name="B")
    C = te.extern(A.shape, [B], doubled, name="C")
    return A, B, C, te.compute(A.shape, lambda i, j: C[i, j] * 3, name="D")


def expected(a: np.ndarray) -> np.ndarray:
    return (2 * (a + 1) + 1) * 3


def agree(
    s: Any, args: list[Any], inputs: list[np.ndarray], wanted: np.ndarray, targets: tuple[str, ...] = BOTH
) -> None:
    """Every target computes `wanted` into the last argument."""
    for target in targets:
        made = np.full(wanted.shape, 77, wanted.dtype)
        tw.build(s, args, target=target)(*inputs, made)
        np.testing.assert_allclose(made, wanted, rtol=1e-5, err_msg=target)


def test_a_body_amid_computes() -> None:
    for target in BOTH:
        A, _, _, D = program(te.size_var("n"), te.size_var("m"))
        f = tw.build(te.create_schedule(D.op), [A, D], target=target)
        for shape in [(7, 5), (1, 1), (0, 5), (5, 0), (13, 31)]:
            a = np.random.default_rng(0).random(shape, np.float32)
            made = np.full(shape, 77, np.float32)
            f(a, made)
            np.testing.assert_allclose(made, expected(a), rtol=1e-5)
    A, _, _, D = program(0, 5)
    agree(te.create_schedule(D.op), [A, D], [np.zeros((0, 5), np.float32)], np.zeros((0, 5), np.float32))


def together(s: Any, loop: Any, B: te.Tensor, C: te.Tensor, D: te.Tensor) -> None:
    for T in (B, C):
        s[T].compute_at(s[D], loop)


SCHEDULES: dict[str, Callable[[Any, te.Tensor, te.Tensor, te.Tensor], Any]] = {
    "producer split": lambda s, B, C, D: s[B].split(B.op.axis[1], 3),
    "producer parallel and vectorized": lambda s, B, C, D: (s[B].parallel(B.op.axis[0]), s[B].vectorize(B.op.axis[1])),
    "in a consumer's loop": lambda s, B, C, D: s[C].compute_at(s[D], D.op.axis[0]),
    "both in a consumer's loop": lambda s, B, C, D: together(s, s[D].split(D.op.axis[0], 4)[0], B, C, D),
    "its input cached": lambda s, B, C, D: s.cache_read(B, "local", [C]),
    "its result cached": lambda s, B, C, D: s.cache_read(C, "local", [D]),
    "its consumer's result cached": lambda s, B, C, D: s.cache_write(D, "local"),
    "a loop around it": lambda s, B, C, D: s[C].fuse(),
    "in shared memory": lambda s, B, C, D: s[C].set_scope("shared"),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_around_an_extern(name: str) -> None:
    a = np.random.default_rng(1).random((9, 7), np.float32)
    A, B, C, D = program(te.size_var("n"), te.size_var("m")) if "vector" not in name else program(9, 7)
    s = te.create_schedule(D.op)
    SCHEDULES[name](s, B, C, D)
    agree(s, [A, D], [a], expected(a), BOTH if "cached" in name else ("interpret",))
    assert str(te.Schedule.replay(s.records, D.op)) == str(s)
    space = {"te": te, "ops": D.op}
    exec(s.as_python(), space)
    assert str(space["s"]) == str(s)


def test_an_extern_is_an_output_and_prints() -> None:
    A, _, C, _ = program(4, 3)
    s = te.create_schedule(C.op)
    assert (
        str(s)
        == """\
def C(A: float32[4, 3], C: out float32[4, 3]):
    B: float32[4, 3]
    for i in 4:
        for j in 3:
            B[i, j] = A[i, j] + 1.0
    for i in 4:
        for j in 3:
            C[i, j] = B[i, j] * 2.0 + 1.0"""
    )
    a = np.arange(12, dtype="float32").reshape(4, 3)
    agree(s, [A, C], [a], 2 * (a + 1) + 1)


def test_several_outputs_of_several_shapes() -> None:
    A = te.placeholder((6, 4), name="A")

    def sums(ins: list[Any], outs: list[Any]) -> Any:
        ib = tw.ir_builder()
        A, rows, total = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0]), ib.buffer_ptr(outs[1])
        total[0] = 0
        with ib.for_range(0, 6) as i:
            rows[i] = 0.0
            with ib.for_range(0, 4) as j:
                rows[i] = rows[i] + A[i, j]
            total[0] = total[0] + rows[i].astype("int32")
        return ib.get()

    rows, total = te.extern([(6,), (1,)], [A], sums, name="S", dtype=["float32", "int32"])
    assert (rows.name, total.name, total.dtype) == ("S.v0", "S.v1", "int32")
    E = te.compute((6,), lambda i: rows[i] + total[0], name="E")
    s = te.create_schedule(E.op)
    a = np.arange(24, dtype="float32").reshape(6, 4)
    agree(s, [A, E], [a], a.sum(1) + a.sum())
    agree(s, [A, rows, E], [a, np.zeros(6, "float32")], a.sum(1) + a.sum())


def test_symbols_of_the_body() -> None:
    n, by = te.size_var("n"), te.var("by", "float32")
    A = te.placeholder((n,), name="A")

    def scaled(ins: list[Any], outs: list[Any]) -> Any:
        ib = tw.ir_builder()
        A, C = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, n, kind="parallel") as i:
            C[n - 1 - i] = A[i] * by
        return ib.get()

    C = te.extern((n,), [A], scaled, name="C")
    a = np.arange(5, dtype="float32")
    s = te.create_schedule(C.op)
    agree(s, [A, by, C], [a, 3.0], a[::-1] * 3)  # type: ignore[list-item]
    with pytest.raises(tw.LoweringError, match="by is read, but is not among the arguments"):
        tw.lower(s, [A, C])


def test_on_a_gpu() -> None:
    """A body is one thread's work where it is computed within a block."""
    A, B, C, D = program(8, 8)
    s = te.create_schedule(D.op)
    s[D].bind(D.op.axis[0], te.thread_axis("blockIdx.x"))
    for T in (B, C):
        s[T].compute_at(s[D], D.op.axis[0])
    a = np.random.default_rng(2).random((8, 8), np.float32)
    agree(s, [A, D], [a], expected(a), ("cuda -emulate",))


# Outside code

SOURCE = r"""
#include <stdint.h>
int32_t tw_test_add(const float *a, const float *b, float *c, int64_t n) {
  for (int64_t i = 0; i < n; ++i) c[i] = a[i] + b[i];
  return 0;
}
double tw_test_half(double x) { return x / 2; }
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shared library of C functions, loaded by its path."""
    place = tmp_path_factory.mktemp("library")
    (place / "outside.c").write_text(SOURCE)
    made = place / "liboutside.so"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", str(place / "outside.c"), "-o", str(made)], check=True)
    return made


def test_c_functions_of_a_shared_library(library: Path) -> None:
    n = te.size_var("n")
    A, B = te.placeholder((n,), name="A"), te.placeholder((n,), name="B")
    C = te.extern(
        (n,),
        [A, B],
        lambda ins, outs: te.call_extern(
            "int32", "tw_test_add", *(x.access_ptr("r") for x in ins), outs[0].access_ptr("w"), n.astype("int64")
        ),
        name="C",
    )
    half = lambda x: te.call_pure_extern("float64", "tw_test_half", x.astype("float64")).astype("float32")
    D = te.compute((n,), lambda i: half(C[i]), name="D")
    s = te.create_schedule(D.op)
    ctypes.CDLL(str(library), ctypes.RTLD_GLOBAL)
    for size in (5, 0):
        a, b = np.random.default_rng(size).random((2, size), np.float32)
        agree(s, [A, B, D], [a, b], (a + b) / 2)


def test_a_symbol_that_nobody_has() -> None:
    A = te.placeholder((4,), name="A")
    C = te.extern(
        (4,),
        [A],
        lambda ins, outs: te.call_extern(
            "int32", "tw_test_no_such_function", ins[0].access_ptr("r"), outs[0].access_ptr("w")
        ),
        name="C",
    )
    with pytest.raises(tw.CodegenError, match="'tw_test_no_such_function', which is not defined"):
        tw.build([A, C])
    with pytest.raises(tw.TilewrightError, match="cannot call 'tw_test_no_such_function'"):
        tw.build([A, C], target="interpret")(np.zeros(4, "float32"), np.zeros(4, "float32"))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("transpose", [(False, False), (True, False), (False, True), (True, True)])
def test_blas(dtype: str, transpose: tuple[bool, bool]) -> None:
    n, m, k = te.size_var("n"), te.size_var("m"), te.size_var("k")
    A = te.placeholder((k, n) if transpose[0] else (n, k), dtype, "A")
    B = te.placeholder((m, k) if transpose[1] else (k, m), dtype, "B")
    C = te.blas.matmul(A, B, *transpose)
    D = te.compute((n, m), lambda i, j: te.max(C[i, j], 0), name="D")
    s = te.create_schedule(D.op)
    f = tw.build(s, [A, B, D])
    for sizes in ((5, 7, 3), (1, 1, 1), (0, 4, 2), (3, 2, 0), (17, 1, 9)):
        rng = np.random.default_rng(0)
        a, b = rng.standard_normal((sizes[0], sizes[2])), rng.standard_normal((sizes[2], sizes[1]))
        given = [np.ascontiguousarray(x.T if t else x, dtype) for x, t in zip((a, b), transpose, strict=True)]
        made = np.empty((sizes[0], sizes[1]), dtype)
        f(*given, made)
        np.testing.assert_allclose(made, np.maximum(a @ b, 0), atol=1e-5 if dtype == "float32" else 1e-12)


def test_what_blas_does_not_take() -> None:
    A, B = te.placeholder((4, 5), "int32", "A"), te.placeholder((5, 6), "int32", "B")
    with pytest.raises(te_errors.BadExtern, match=r"(?s)TW0140.*both have to be float32, or both float64"):
        te.blas.matmul(A, B)
    with pytest.raises(te_errors.BadExtern, match=r"the depths of .* differ"):
        te.blas.matmul(te.placeholder((4, 5)), te.placeholder((4, 5)))


# Declared buffers


def test_declared_strides_take_what_memory_has() -> None:
    A = te.placeholder((6, 5), name="A")
    B = te.compute(A.shape, lambda i, j: A[i, j] + 1, name="B")
    strides = [te.var("s0"), te.var("s1")]
    seen = te.decl_buffer(B.shape, B.dtype, "B", strides=strides)
    C = te.extern(
        (2,), [B], lambda ins, outs: _store_strides(strides, outs[0]), name="C", dtype="int32", in_buffers=[seen]
    )
    s = te.create_schedule(C.op)
    a = np.zeros((6, 5), "float32")
    agree(s, [A, C], [a], np.array([5, 1], "int32"))
    s[B].storage_align(B.op.axis[0], 8, 3)
    agree(s, [A, C], [a], np.array([11, 1], "int32"))


def _store_strides(strides: list[Any], out: Any) -> Any:
    ib = tw.ir_builder()
    for at, stride in enumerate(strides):
        ib.emit(out.vstore([at], stride))
    return ib.get()


def test_a_compact_buffer_refuses_padded_memory() -> None:
    A, B, C, D = program(6, 5)
    s = te.create_schedule(D.op)
    s[B].storage_align(B.op.axis[0], 8, 3)
    with pytest.raises(ExternBuffer, match=r"(?s)TW0345.*cannot compute the extern C.*its stride in dimension 0 is 11"):
        tw.lower(s, [A, D])


# Refusals


def _nothing(ins: list[Any], outs: list[Any]) -> Any:
    del ins
    return outs[0].vstore([0], 1.0)


REFUSED: dict[str, tuple[Callable[[te.Tensor], Any], str]] = {
    "no body": (lambda A: te.extern((4,), [A], lambda ins, outs: None, name="E"), "returned None, neither a statement"),
    "no tensor": (lambda A: te.extern((4,), [3], _nothing, name="E"), "an input is 3, not a tensor"),  # type: ignore[list-item]
    "no dtype": (lambda A: te.extern((4,), [], _nothing, name="E"), "its dtype is not given, .* there are no inputs"),
    "dtypes": (lambda A: te.extern([(4,), (4,)], [A], _nothing, name="E", dtype=["float32"]), "1 dtypes for 2 outputs"),
    "unwritten": (
        lambda A: te.extern((4,), [A], lambda ins, outs: te.call_packed("f", ins[0]), name="E"),
        "does not write E",
    ),
    "input written": (
        lambda A: te.extern((4,), [A], lambda ins, outs: ins[0].vstore([0], 1.0), name="E"),
        "its body writes A",
    ),
    "foreign buffer": (
        lambda A: te.extern((4,), [A], lambda ins, outs: te.decl_buffer((4,), name="X").vstore([0], 1.0), name="E"),
        "uses the buffer X",
    ),
    "loose axis": (
        lambda A: te.extern((4,), [A], lambda ins, outs: outs[0].vstore([te.reduce_axis((0, 4), "k")], 1.0), name="E"),
        "uses the axis k",
    ),
    "buffers": (
        lambda A: te.extern((4,), [A], _nothing, name="E", in_buffers=[te.decl_buffer((5,), name="A")]),
        r"the tensor float32 of shape \(4,\)",
    ),
    "too many buffers": (
        lambda A: te.extern((4,), [A], _nothing, name="E", out_buffers=[]),
        "0 out_buffers for 1 tensors",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_declarations_that_do_not_fit(name: str) -> None:
    made, match = REFUSED[name]
    with pytest.raises(te_errors.BadExtern, match=f"(?s)TW0140.*cannot declare the extern E.*{match}"):
        made(te.placeholder((4,), name="A"))


def test_loop_primitives_are_refused() -> None:
    _, B, C, D = program(6, 5)
    s = te.create_schedule(D.op)
    before = str(s)
    refused: list[tuple[Any, Any]] = [
        (lambda: s[C].split(B.op.axis[0], 2), NotAnAxisOfStage),
        (lambda: s[C].parallel(C.op.dims[0][0]), NotAnAxisOfStage),
        (lambda: s[C].vectorize(D.op.axis[1]), NotAnAxisOfStage),
        (lambda: s.cache_write(C, "local"), BadCacheWrite),
        (lambda: s[C].compute_inline(), CannotInline),
        (lambda: s[B].compute_inline(), CannotInline),
        (lambda: s.rfactor(C, B.op.axis[0]), tw.ScheduleError),
        (lambda: s[C].tensorize(B.op.axis[0], None), tw.ScheduleError),
    ]
    for call, error in refused:
        with pytest.raises(error, match=r"TW02\d\d"):
            call()
        assert str(s) == before and not s.records
    with pytest.raises(CannotInline, match=r"C, which reads it, is an extern: outside code computes it whole"):
        s[B].compute_inline()


def test_the_text_reads_back() -> None:
    A = te.placeholder((3, 2), name="A")
    C = te.extern(
        (3, 2), [A], lambda ins, outs: te.call_packed("a function", ins[0], outs[0], 2, 0.5, "text"), name="C"
    )
    function = tw.lower(te.create_schedule(C.op), [A, C], name="packed")
    assert str(parse(str(function))) == str(function)
    assert 'call_packed(int32, "a function", packed_array(handle, access_ptr(handle, A[0, 0], 0, 1), 2, 3, 2)' in str(
        function
    )
