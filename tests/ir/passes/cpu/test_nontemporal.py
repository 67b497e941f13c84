"""The pragma nontemporal_store: what it stores is right wherever arguments begin, and goes past the caches where lines begin."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import te

X86 = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu={}"


def scaled(
    rows: Any, columns: Any, dtype: str = "float32", inner: int | None = None
) -> tuple[te.Schedule, list[te.Tensor]]:
    """2 A + 1, each row past the caches; in vectors of `inner` where given."""
    A = te.placeholder((rows, columns), dtype, "A")
    C = te.compute((rows, columns), lambda i, j: A[i, j] * te.const(2, dtype) + te.const(1, dtype), "C")
    s = te.create_schedule(C.op)
    i, j = s[C].op.axis
    s[C].pragma(i, "nontemporal_store")
    s[C].parallel(i)
    if inner is not None:
        _, j = s[C].split(j, inner)
    s[C].vectorize(j)
    return s, [A, C]


def shifted(shape: tuple[int, ...], dtype: str, by: int) -> np.ndarray:
    """An array that begins `by` elements behind the beginning of a cache line, all elements 77."""
    size = int(np.prod(shape))
    kind = np.dtype(dtype)
    room = np.full(size + 192 // kind.itemsize, 77, kind)
    first = -room.ctypes.data % 64 // kind.itemsize + by
    return room[first : first + size].reshape(shape)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "float16"])
@pytest.mark.parametrize("columns", [1, 15, 64, 131, 257])
def test_every_beginning_and_length_is_right(dtype: str, columns: int) -> None:
    s, args = scaled(3, columns, dtype)
    kernel = tw.build(s, args)
    x = (np.arange(3 * columns).reshape(3, columns) % 60).astype(dtype)
    for by in (0, 1, 3, 7, 13):
        got = shifted((3, columns), dtype, by)
        kernel(x, got)
        assert np.array_equal(got, x * np.asarray(2, dtype) + np.asarray(1, dtype)), by


@pytest.mark.parametrize("inner", [8, 16, 48, 64])
def test_vectors_of_a_split_choose_by_the_address(inner: int) -> None:
    s, args = scaled(5, 192, inner=inner)
    kernel = tw.build(s, args)
    x = np.arange(5 * 192, dtype="float32").reshape(5, 192)
    for by in (0, 1, 8):
        got = shifted((5, 192), "float32", by)
        kernel(x, got)
        assert np.array_equal(got, 2 * x + 1), by


def test_symbolic_extents() -> None:
    n, m = te.size_var("n"), te.size_var("m")
    s, args = scaled(n, m, inner=64)
    kernel = tw.build(s, args)
    for rows, columns in ((0, 5), (3, 0), (1, 1), (2, 300), (7, 63)):
        x = np.arange(rows * columns, dtype="float32").reshape(rows, columns)
        got = shifted((rows, columns), "float32", 5)
        kernel(x, got)
        assert np.array_equal(got, 2 * x + 1)


def test_the_interpreter_peels_too() -> None:
    s, args = scaled(3, 131)
    kernel = tw.build(s, args, target="interpret")
    x = np.arange(3 * 131, dtype="float32").reshape(3, 131)
    got = np.zeros_like(x)
    kernel(x, got)
    assert np.array_equal(got, 2 * x + 1)


@pytest.mark.parametrize(("cpu", "register"), [("znver4", "%zmm"), ("haswell", "%ymm")])
def test_whole_lines_are_streamed_and_fenced(cpu: str, register: str) -> None:
    s, args = scaled(64, 4096)
    text = tw.build(s, args, target=X86.format(cpu)).source("asm")
    streamed = [line for line in text.splitlines() if "vmovntps" in line]
    assert streamed and all(register in line for line in streamed)
    task = text[text.index("vmovntps") :]
    assert "sfence" in task[: task.index("retq")], "a task's stores are seen before its end is"


def test_what_does_not_store_side_by_side_is_stored_as_ever() -> None:
    A = te.placeholder((64, 64), name="A")
    C = te.compute((64, 64), lambda i, j: A[i, j] + 1.0, "C")
    s = te.create_schedule(C.op)
    i, j = s[C].op.axis
    s[C].reorder(j, i)
    s[C].vectorize(i)
    s[C].pragma(i, "nontemporal_store")
    kernel = tw.build(s, [A, C], target=X86.format("znver4"))
    assert "vmovnt" not in kernel.source("asm") and "sfence" not in kernel.source("asm")


def test_the_pragma_can_be_taken_back_further_in() -> None:
    s, args = scaled(64, 4096)
    s[args[1]].pragma(s[args[1]].op.axis[1], "nontemporal_store", False)
    assert "vmovnt" not in tw.build(s, args, target=X86.format("znver4")).source("asm")


def test_memory_of_a_parallel_loops_iterations_is_allocated_once_a_task() -> None:
    A = te.placeholder((64, 8192), name="A")
    B = te.compute((64, 8192), lambda i, j: A[i, j] + 1.0, "B")
    C = te.compute((64, 8192), lambda i, j: B[i, j] * B[i, 8191 - j], "C")
    s = te.create_schedule(C.op)
    s[C].parallel(s[C].op.axis[0])
    s[B].compute_at(s[C], s[C].op.axis[0])
    kernel = tw.build(s, [A, C])
    chunk = next(part for part in kernel.source("llvm").split("\ndefine ") if "_chunk(" in part.split("\n")[0])
    assert "aligned_alloc" in chunk and chunk.index("aligned_alloc") < chunk.index("phi i32")
    x = np.random.default_rng(1).random((64, 8192), "float32")
    got = np.zeros_like(x)
    kernel(x, got)
    assert np.allclose(got, (x + 1) * (x + 1)[:, ::-1])
