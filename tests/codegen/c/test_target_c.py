"""target="c": the text is compiled by the machine's C compiler, and means what the loops mean."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi
from tilewright.runtime.array import numpy_dtype
from tilewright.tools.fuzz.case import run_case

pytestmark = pytest.mark.skipif(not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="no C compiler")

INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
FLOATS = ["float8_e4m3fn", "float8_e5m2", "float16", "bfloat16", "float32", "float64"]


def agree(
    s: Any, args: list[Any], inputs: list[Any], *outputs: tuple[tuple[int, ...], str], exact: bool = True
) -> list[Any]:
    """What a kernel for C leaves in its last arguments, which is what one for LLVM does."""
    found: dict[str, list[Any]] = {}
    for target in ("c", "llvm"):
        found[target] = [np.full(shape, 77).astype(numpy_dtype(dtype)) for shape, dtype in outputs]
        tw.build(s, args, target=target)(*inputs, *found[target])
    for one, other in zip(found["c"], found["llvm"], strict=True):
        if exact:
            same = (one == other) | ((one != one) & (other != other))
            assert same.all(), (np.argwhere(~same)[:4], one[~same][:4], other[~same][:4])
        else:
            np.testing.assert_allclose(
                one.astype("float64"), other.astype("float64"), rtol=2e-3 if one.itemsize == 2 else 2e-6
            )
    return found["c"]


def corners(dtype: str, count: int, rng: np.random.Generator) -> np.ndarray:
    """Drawn values, after those at which arithmetic goes wrong."""
    kind = numpy_dtype(dtype)
    if dtype in INTEGERS:
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        special = [0, 1, low, high, high - 1, low + 1, *([-1] if low else [])]
        return np.array([*special, *rng.integers(low, high, count - len(special), dtype=kind)], dtype=kind)
    special = [0.0, -0.0, 1.0, -1.0, np.nan, np.inf, -np.inf, 6e-8, 65504.0, 1e-40]
    with np.errstate(over="ignore"):
        return np.array([*special, *(rng.standard_normal(count - len(special)) * 9)]).astype(kind)


@pytest.mark.parametrize("dtype", drawn.part([*INTEGERS, *FLOATS], 4))
def test_arithmetic_is_that_of_llvm_kernels_to_the_bit(dtype: str) -> None:
    rng = drawn.rng("c arithmetic " + dtype)
    a, b = corners(dtype, 19, rng), corners(dtype, 23, rng)
    A, B = te.placeholder((19,), dtype, name="A"), te.placeholder((23,), dtype, name="B")
    operations = [
        lambda x, y: x + y,
        lambda x, y: x - y,
        lambda x, y: x * y,
        te.floordiv,
        te.floormod,
        te.truncdiv,
        te.truncmod,
        te.max,
        te.min,
        lambda x, y: te.if_then_else(x < y, x, y + x),
    ]
    if dtype in FLOATS:
        operations = [op for op in operations if op not in (te.truncdiv, te.truncmod)] + [lambda x, y: x / y]
    outs = [te.compute((19, 23), lambda i, j, op=op: op(A[i], B[j]), name=f"C{k}") for k, op in enumerate(operations)]
    agree(te.create_schedule([one.op for one in outs]), [A, B, *outs], [a, b], *[((19, 23), dtype)] * len(outs))


def test_casts_wrap_saturate_and_round_as_llvm_kernels_do() -> None:
    rng = drawn.rng("c casts")
    for source in ("int64", "uint8", *FLOATS):
        a = corners(source, 40, rng)
        A = te.placeholder((40,), source, name="A")
        kinds = [*INTEGERS, *FLOATS, "bool"]
        outs = [te.compute((40,), lambda i, k=k: A[i].astype(k), name=f"as_{k}") for k in kinds]
        agree(te.create_schedule([one.op for one in outs]), [A, *outs], [a], *[((40,), kind) for kind in kinds])


def test_bits_are_counted_shifted_and_reinterpreted() -> None:
    rng = drawn.rng("c bits")
    for dtype in INTEGERS:
        A = te.placeholder((33,), dtype, name="A")
        bits = {1: "uint8", 2: "float16", 4: "float32", 8: "float64"}[np.dtype(dtype).itemsize]
        C = te.compute((33,), lambda i: te.popcount(A[i]) + te.clz(A[i]).astype(dtype), name="C")
        D = te.compute((33,), lambda i: (A[i] << 3) ^ (A[i] >> 2) | (~A[i] & 5), name="D")
        E = te.compute((33,), lambda i: te.reinterpret(bits, A[i]), name="E")
        agree(
            te.create_schedule([C.op, D.op, E.op]),
            [A, C, D, E],
            [corners(dtype, 33, rng)],
            ((33,), dtype),
            ((33,), dtype),
            ((33,), bits),
        )


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_functions_are_those_of_the_c_library(dtype: str) -> None:
    rng = drawn.rng("c functions")
    names = [
        "exp",
        "exp10",
        "log1p",
        "sqrt",
        "rsqrt",
        "tanh",
        "erf",
        "sigmoid",
        "floor",
        "round",
        "nearbyint",
        "abs",
        "cos",
    ]
    A = te.placeholder((41,), dtype, name="A")
    outs = [te.compute((41,), lambda i, name=name: getattr(te, name)(A[i]), name=name) for name in names]
    values = (rng.random(41) * 3 + 0.01).astype(dtype)
    agree(
        te.create_schedule([one.op for one in outs]), [A, *outs], [values], *[((41,), dtype)] * len(outs), exact=False
    )


def matmul(parallel: bool = True) -> tuple[Any, list[Any]]:
    n = te.var("n")
    A, B, k = te.placeholder((n, 17), name="A"), te.placeholder((17, 13), name="B"), te.reduce_axis((0, 17), "k")
    C = te.compute((n, 13), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    L = s.cache_write(C, "local")
    i, j = s[C].op.axis
    io, ii = s[C].split(i, 4)
    jo, ji = s[C].split(j, 8)
    s[C].reorder(io, jo, ii, ji)
    s[L].compute_at(s[C], jo)
    s[L].vectorize(s[L].op.axis[1])
    s[L].unroll(s[L].op.axis[0])
    s[C].vectorize(ji)
    if parallel:
        s[C].parallel(io)
    return s, [A, B, C]


@pytest.mark.parametrize("n", drawn.part([0, 1, 7, 32, 33], 2))
def test_a_scheduled_product_of_symbolic_shape(n: int) -> None:
    s, args = matmul()
    f = tw.build(s, args, target="c")
    rng = drawn.rng("c matmul", n)
    a, b, c = rng.random((n, 17), "float32"), rng.random((17, 13), "float32"), np.full((n, 13), 7, "float32")
    f(a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)
    text = f.source("c")
    assert (
        "#pragma omp parallel for" in text and "TW_VECTORIZE" in text and "int64_t n, const float *restrict A" in text
    )
    assert "ret" in f.source("asm") and "for " in f.source("ir")


def test_drawn_programs_and_schedules_agree_with_the_interpreter_and_numpy() -> None:
    for case in range(drawn.count(6, 300)):
        report = run_case(drawn.SEED, case, "c", shrink_seconds=0)
        assert not report["failure"], f"case {case} of seed {drawn.SEED}\n{report['failure']}"


def test_argmax_scan_and_large_intermediates() -> None:
    rng = drawn.rng("c scan")
    A = te.placeholder((5, 9001), name="A")
    state = te.placeholder((5, 9001), name="state")
    init = te.compute((1, 9001), lambda _, j: A[0, j], name="init")
    update = te.compute((5, 9001), lambda t, j: state[t - 1, j] + A[t, j], name="update")
    total = te.scan(init, update, state, inputs=[A])
    k = te.reduce_axis((0, 9001), "k")
    largest = te.comm_reducer(
        lambda x, y: (te.select(x[1] >= y[1], x[0], y[0]), te.select(x[1] >= y[1], x[1], y[1])),
        lambda t0, t1: (te.const(-1, t0), te.min_value(t1)),
        name="argmax",
    )
    index, value = te.compute((5,), lambda i: largest((k, total[i, k]), axis=k), name="best")
    a = rng.integers(0, 9, (5, 9001)).astype("float32")
    f = tw.build(te.create_schedule(index.op), [A, index, value], target="c")
    assert "tw_allocate" in f.source("c")
    at, best = np.empty(5, "int32"), np.empty(5, "float32")
    f(a, at, best)
    sums = a.cumsum(axis=0)
    np.testing.assert_array_equal(at, sums.argmax(axis=1))
    np.testing.assert_array_equal(best, sums.max(axis=1))


def test_sums_of_bytes_are_right_where_gcc_12_vectorizes_them_wrongly_at_its_highest_level() -> None:
    rng = np.random.default_rng(3)
    x, w = rng.integers(-128, 127, (18, 67)).astype("int8"), rng.integers(-128, 127, (29, 67)).astype("int8")
    X, W = te.placeholder((18, 67), "int8", name="x"), te.placeholder((29, 67), "int8", name="w")
    y = topi.nn.dense_int8(X, W)
    out = np.empty((18, 29), "int32")
    tw.build(topi.schedule(y, "llvm"), [X, W, y], target="c")(x, w, out)
    np.testing.assert_array_equal(out, x.astype("int64") @ w.T.astype("int64"))


# Calls


def test_a_wrong_call_is_told_as_by_llvm_kernels() -> None:
    s, args = matmul()
    arrays = [np.zeros((3, 17), "float32"), np.zeros((17, 13), "float32"), np.zeros((4, 13), "float32")]
    told = []
    for target in ("c", "llvm"):
        with pytest.raises(tw.CallError, match="'C'") as caught:
            tw.build(s, args, target=target)(*arrays)
        told.append((caught.value.code, caught.value.headline))
    assert told[0] == told[1]


@pytest.mark.parametrize("parallel", [False, True])
def test_a_failed_check_ends_the_kernel_with_its_message(parallel: bool) -> None:
    n = te.var("n")
    A, I = te.placeholder((10,), name="A"), te.placeholder((n,), "int32", name="I")
    B = te.compute((n,), lambda i: A[I[i]], name="B")
    s = te.create_schedule(B.op)
    if parallel:
        s[B].parallel(B.op.axis[0])
    told = []
    for target in ("c", "llvm"):
        f = tw.build(s, [A, I, B], target=target, bounds_check=True)
        f(np.ones(10, "float32"), np.array([3], "int32"), np.empty(1, "float32"))
        with pytest.raises(tw.TilewrightError, match="A") as caught:
            f(np.ones(10, "float32"), np.array([3] * 5000 + [10], "int32"), np.empty(5001, "float32"))
        told.append(str(caught.value).splitlines()[0])
    assert told[0] == told[1]


def test_scalars_of_every_dtype_arrive_whole() -> None:
    for dtype in [*INTEGERS, *FLOATS]:
        x = te.var("x", dtype)
        A = te.placeholder((3,), dtype, name="A")
        B = te.compute((3,), lambda i: A[i] * x, name="B")
        agree(te.create_schedule(B.op), [A, x, B], [np.array([1, 2, 3]).astype(numpy_dtype(dtype)), 5], ((3,), dtype))


def test_python_functions_are_called_and_their_exceptions_come_back() -> None:
    seen: list[int] = []

    @tw.register_func("tests.c.notes", override=True)
    def notes(array: np.ndarray, out: np.ndarray) -> None:
        if array[0] < 0:
            raise ValueError("below zero")
        seen.append(len(array))
        out[:] = array * 2

    A = te.placeholder((4,), name="A")
    B = te.extern((4,), [A], lambda ins, outs: te.call_packed("tests.c.notes", ins[0], outs[0]), name="B")
    f = tw.build(te.create_schedule(B.op), [A, B], target="c")
    out = np.empty(4, "float32")
    f(np.arange(4, dtype="float32"), out)
    assert seen == [4] and out.tolist() == [0, 2, 4, 6]
    with pytest.raises(tw.TilewrightError, match="below zero"):
        f(np.full(4, -1, "float32"), out)
    with pytest.raises(tw.ExportError, match="cannot export"):
        f.export("notes.c")


def test_functions_of_the_c_library_are_called_by_name() -> None:
    A = te.placeholder((5,), "float64", name="A")
    B = te.compute((5,), lambda i: te.call_pure_extern("float64", "cbrt", A[i]), name="B")
    out = np.empty(5)
    tw.build(te.create_schedule(B.op), [A, B], target="c")(np.arange(5.0) ** 3, out)
    np.testing.assert_allclose(out, np.arange(5.0))


# Files


def test_exported_text_stands_alone(tmp_path: Path) -> None:
    s, args = matmul()
    f = tw.build(s, args, target="c", name="product")
    source, header, _ = f.export(tmp_path / "product.c")
    assert "_checked" not in header.read_text() and "int32_t product(int64_t n, const float *A" in header.read_text()
    program = tmp_path / "main.c"
    program.write_text("""
#include <stdio.h>
#include "product.h"
int main(void) {
  float a[3 * 17], b[17 * 13], c[3 * 13];
  for (int i = 0; i < 3 * 17; ++i) a[i] = 1;
  for (int i = 0; i < 17 * 13; ++i) b[i] = 2;
  int status = product(3, a, b, c);
  printf("%d %g %g %s\\n", status, c[0], c[38], product_error(product(-1, a, b, c)));
  return status;
}""")
    binary = tmp_path / "main"
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))))
    command = [
        compiler,
        "-std=c11",
        "-Werror",
        "-Wno-unknown-pragmas",
        "-o",
        str(binary),
        str(program),
        str(source),
        "-lm",
    ]
    subprocess.run(command, check=True, capture_output=True)
    told = subprocess.run([binary], capture_output=True, text=True, check=True).stdout
    assert told.startswith("0 34 34 TW0506: ")


def test_a_library_of_several_kernels_has_their_functions(tmp_path: Path) -> None:
    A = te.placeholder((3,), name="A")
    table = te.constant(np.arange(3, dtype="float32"))
    B = te.compute((3,), lambda i: A[i] + table[i], name="B")
    module = tw.build({"shifted": (te.create_schedule(B.op), [A, B]), "product": matmul(False)}, target="c")
    place, header, manifest = module.export(tmp_path / "libboth.so", threads="none")
    assert (tmp_path / "both.c").exists() and manifest.exists() and "shifted_error" in header.read_text()
    library = ctypes.CDLL(str(place))
    given, out = np.ones(3, "float32"), np.empty(3, "float32")
    assert library.shifted(ctypes.c_void_p(given.ctypes.data), ctypes.c_void_p(out.ctypes.data)) == 0
    assert out.tolist() == [1, 2, 3]
    with pytest.raises(tw.ExportError, match="cannot export to"):
        module.export(tmp_path / "libboth.a")
    with pytest.raises(tw.ExportError, match="threads='hook'"):
        module.export(tmp_path / "libboth.so", threads="hook")


# Refusals


def test_without_a_compiler_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CC", raising=False)
    s, args = matmul()
    with pytest.raises(tw.CodegenError, match="no C compiler was found"):
        tw.build(s, args, target="c")


def test_intrinsics_of_llvm_and_functions_that_nobody_has_are_refused() -> None:
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: te.call_llvm_pure_intrin("float32", "llvm.sqrt.f32", A[i]), name="B")
    with pytest.raises(tw.CodegenError, match="no row for the LLVM intrinsic"):
        tw.build(te.create_schedule(B.op), [A, B], target="c")
    C = te.compute((4,), lambda i: te.call_pure_extern("float32", "tests_nobody_has_this", A[i]), name="C")
    with pytest.raises(tw.CodegenError, match="'tests_nobody_has_this', which is not defined"):
        tw.build(te.create_schedule(C.op), [A, C], target="c")
    with pytest.raises(tw.CallError, match="a C kernel has no source 'llvm'"):
        tw.build(*matmul(), target="c").source("llvm")


def test_its_options_are_none() -> None:
    with pytest.raises(tw.CodegenError, match="c does not take"):
        tw.build(*matmul(), target="c -mcpu=native")
