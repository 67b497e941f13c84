"""Kernels that call a C function, compiled here, on parts of larger tensors."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from lowered import floats
from tilewright import te
from tilewright.ir.interpret import interpreter
from tilewright.te.intrinsics.gemv_c import SOURCE

CC = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
pytestmark = pytest.mark.skipif(CC is None, reason="no C compiler")

LOADED: list[ctypes.CDLL] = []


@pytest.fixture(scope="module")
def load_c(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], None]:
    """Compiles C source and loads it, its symbols for all to find."""

    def load(source: str) -> None:
        folder = tmp_path_factory.mktemp("c")
        (folder / "kernel.c").write_text(source)
        assert CC is not None
        subprocess.run([CC, "-O2", "-shared", "-fPIC", "-o", folder / "kernel.so", folder / "kernel.c"], check=True)
        LOADED.append(ctypes.CDLL(str(folder / "kernel.so"), ctypes.RTLD_GLOBAL))

    return load


@pytest.fixture(scope="module", autouse=True)
def gemv(load_c: Callable[[str], None]) -> None:
    load_c(SOURCE)


def matmul(n: int, m: int, k: int) -> tuple[Any, ...]:
    A, B = te.placeholder((n, k), name="A"), te.placeholder((m, k), name="B")
    r = te.reduce_axis((0, k), "k")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, r] * B[j, r], axis=r), "C")
    return te.create_schedule(C.op), A, B, C, r


def run(s: Any, args: list[Any], *inputs: np.ndarray, shape: tuple[int, ...], target: str = "llvm") -> np.ndarray:
    found = np.full(shape, 77, "float32")
    tw.build(s, args, target=target)(*inputs, found)
    return found


@pytest.mark.parametrize("target", ["llvm", "interpret"])
def test_a_whole_reduction_runs_the_body(target: str) -> None:
    s, A, B, C, r = matmul(5, 48, 64)
    i, j = C.op.axis
    jo, ji = s[C].split(j, factor=16)
    s[C].reorder(i, jo, ji, r)
    s[C].tensorize(ji, te.intrinsics.get("c.gemv_f32", 16, 64))
    a, b = floats(5, 64), floats(48, 64, seed=1)
    np.testing.assert_allclose(run(s, [A, B, C], a, b, shape=(5, 48), target=target), a @ b.T, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("target", ["llvm", "interpret"])
@pytest.mark.parametrize("data_inside", [False, True])
def test_a_split_reduction_runs_init_and_update_with_the_row_stride_of_the_whole(
    target: str, data_inside: bool
) -> None:
    s, A, B, C, r = matmul(5, 48, 64)
    i, j = C.op.axis
    jo, ji = s[C].split(j, factor=16)
    ro, ri = s[C].split(r, factor=8)
    s[C].reorder(*((ro, i, jo) if data_inside else (i, jo, ro)), ji, ri)
    s[C].tensorize(ji, te.intrinsics.get("c.gemv_f32", 16, 8))
    if not data_inside:
        s[C].parallel(i)
    assert ", 16, 8, 64)" in str(s), "the stride of B, not of the part"
    a, b = floats(5, 64), floats(48, 64, seed=1)
    np.testing.assert_allclose(run(s, [A, B, C], a, b, shape=(5, 48), target=target), a @ b.T, rtol=1e-4, atol=1e-4)


def test_parts_of_padded_and_attached_storage() -> None:
    """Strides and offsets of storage that the schedule made: a cache at a loop, padded by storage_align."""
    s, A, B, C, r = matmul(4, 32, 24)
    P = s.cache_read(B, "local", [C])
    i, j = C.op.axis
    jo, ji = s[C].split(j, factor=8)
    ro, ri = s[C].split(r, factor=12)
    s[C].reorder(jo, i, ro, ji, ri)
    s[P].compute_at(s[C], jo)
    s[P].storage_align(s[P].op.axis[0], 32, 5)
    s[C].tensorize(ji, te.intrinsics.get("c.gemv_f32", 8, 12))
    text = str(s)
    assert ", 8, 12, 37)" in text
    a, b = floats(4, 24), floats(32, 24, seed=1)
    np.testing.assert_allclose(run(s, [A, B, C], a, b, shape=(4, 32)), a @ b.T, rtol=1e-4, atol=1e-4)


def test_a_symbolic_number_of_rows() -> None:
    n = te.var("n")
    A, B = te.placeholder((n, 16), name="A"), te.placeholder((8, 16), name="B")
    r = te.reduce_axis((0, 16), "k")
    C = te.compute((n, 8), lambda i, j: te.sum(A[i, r] * B[j, r], axis=r), "C")
    s = te.create_schedule(C.op)
    s[C].tensorize(C.op.axis[1], te.intrinsics.get("c.gemv_f32", 8, 16))
    a, b = floats(9, 16), floats(8, 16, seed=1)
    np.testing.assert_allclose(run(s, [A, B, C], a, b, shape=(9, 8)), a @ b.T, rtol=1e-4, atol=1e-4)


def test_offsets_pointers_strings_and_narrow_integers_reach_c(load_c: Callable[[str], None]) -> None:
    load_c("""
#include <stdint.h>
int tw_check(const float *from, float *to, const char *text, int8_t small, uint8_t big, float scale, int64_t wide) {
  if (text[0] != 'o' || text[1] != 'k' || text[2] != 0 || small != -3 || big != 200 || wide != (int64_t)1 << 40) return 1;
  for (int i = 0; i < 4; ++i) to[i] = scale * from[i];
  return 0;
}
""")
    a = te.placeholder((8,), name="a")
    c = te.compute((8,), lambda i: a[i] * 2.5, "c")

    def body(ins: list[Any], outs: list[Any]) -> Any:
        ib = tw.ir_builder()
        for half in (0, 4):
            ib.emit(
                te.call_extern(
                    "int32",
                    "tw_check",
                    ins[0].access_ptr("r", offset=half),
                    outs[0].access_ptr("w", offset=half),
                    "ok",
                    te.const(-3, "int8"),
                    te.const(200, "uint8"),
                    te.const(2.5),
                    te.const(1 << 40, "int64"),
                )
            )
        return ib.get()

    intrinsic = te.decl_tensor_intrin(c.op, body, "scale")
    A = te.placeholder((40,), name="A")
    C = te.compute((40,), lambda i: A[i] * 2.5, "C")
    s = te.create_schedule(C.op)
    _, inner = s[C].split(C.op.axis[0], factor=8)
    s[C].tensorize(inner, intrinsic)
    values = floats(40)
    for target in ("llvm", "interpret"):
        np.testing.assert_array_equal(run(s, [A, C], values, shape=(40,), target=target), values * np.float32(2.5))


def test_the_interpreter_takes_a_python_definition_of_the_function() -> None:
    calls: list[int] = []

    def tw_gemv_f32(c: Any, a: Any, b: Any, rows: int, columns: int, stride: int) -> int:
        calls.append(stride)
        for i in range(rows):
            for k in range(columns):
                c[i] = c[i] + a[k] * b[i * stride + k]
        return 0

    interpreter.EXTERNS["tw_gemv_f32"] = tw_gemv_f32
    try:
        s, A, B, C, r = matmul(2, 8, 8)
        ro, ri = s[C].split(r, factor=4)
        i, j = C.op.axis
        s[C].reorder(i, ro, j, ri)
        s[C].tensorize(j, te.intrinsics.get("c.gemv_f32", 8, 4))
        assert "interpreter" not in str(tw.lower(s, [A, B, C])), "nothing stands beside what can be run"
        a, b = floats(2, 8), floats(8, 8, seed=1)
        np.testing.assert_allclose(
            run(s, [A, B, C], a, b, shape=(2, 8), target="interpret"), a @ b.T, rtol=1e-4, atol=1e-4
        )
        assert calls == [8] * 4
    finally:
        del interpreter.EXTERNS["tw_gemv_f32"]


def test_a_function_that_nobody_has_is_named(tmp_path: Path) -> None:
    s, A, B, C, r = matmul(2, 8, 8)
    s[C].tensorize(C.op.axis[1], te.intrinsics.get("c.gemv_f32", 8, 8, "tw_nobody_has_this"))
    with pytest.raises(tw.CodegenError, match="calls 'tw_nobody_has_this', which is not defined"):
        tw.build(s, [A, B, C])
