"""Index arithmetic does not overflow for tensors beyond 2^31 elements, seen on memory that is mapped and hardly touched."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np
import pytest
import tilewright as tw
from tilewright import te

ROWS, COLUMNS = 70_001, 65_537
"""4.6 billion uint8 elements: beyond 2^32, both extents prime."""


@pytest.fixture
def sparse(tmp_path: Path) -> np.ndarray:
    """A uint8 matrix over a file with a hole: pages exist only where they are written."""
    with open(tmp_path / "hole", "w+b") as file:
        file.truncate(ROWS * COLUMNS)
        return np.frombuffer(mmap.mmap(file.fileno(), ROWS * COLUMNS), np.uint8).reshape(ROWS, COLUMNS)


@pytest.mark.parametrize("symbolic", [False, True], ids=["constant extents", "symbolic extents"])
@pytest.mark.parametrize("vectorized", [False, True], ids=["scalar", "vectors"])
def test_elements_beyond_the_reach_of_32_bits_are_read_where_they_are(
    sparse: np.ndarray, symbolic: bool, vectorized: bool
) -> None:
    rows, columns = (te.var("rows"), te.var("columns")) if symbolic else (ROWS, COLUMNS)
    A = te.placeholder((rows, columns), "uint8", name="A")
    at = te.placeholder((3,), "int32", name="at")
    B = te.compute((3, 40), lambda i, j: A[at[i], j + 65_497] + 1, name="B")
    s = te.create_schedule(B)
    if vectorized:
        s[B].vectorize(B.op.axis[1])
    f = tw.build(s, [A, at, B])
    places = np.array([0, 32_768, ROWS - 1], np.int32)
    for k, row in enumerate(places):
        sparse[row, 65_497:] = np.arange(40) + 50 * k
    out = np.zeros((3, 40), np.uint8)
    f(sparse, places, out)
    np.testing.assert_array_equal(out, np.arange(40)[None, :] + 50 * np.arange(3)[:, None] + 1)


def test_a_fused_loop_over_more_than_32_bits_reaches_the_last_element(sparse: np.ndarray) -> None:
    A = te.placeholder((ROWS, COLUMNS), "uint8", name="A")
    i, j = te.reduce_axis((ROWS - 2, ROWS), name="i"), te.reduce_axis((COLUMNS - 3, COLUMNS), name="j")
    total = te.compute((1,), lambda _: te.sum(A[i, j].astype("int32"), axis=[i, j]), name="total")
    s = te.create_schedule(total)
    s[total].fuse(i, j)
    sparse[-2:, -3:] = 7
    out = np.zeros(1, np.int32)
    tw.build(s, [A, total])(sparse, out)
    assert out[0] == 42


def test_a_one_dimensional_extent_beyond_32_bits_runs_in_64_bit_loops(sparse: np.ndarray) -> None:
    A = te.placeholder((ROWS * COLUMNS,), "uint8", name="A")
    B = te.compute((16,), lambda i: A[i.astype("int64") + (ROWS * COLUMNS - 16)], name="B")
    flat = sparse.reshape(-1)
    flat[-16:] = np.arange(16)
    out = np.zeros(16, np.uint8)
    tw.build(te.create_schedule(B), [A, B])(flat, out)
    np.testing.assert_array_equal(out, np.arange(16))


def test_the_loops_of_a_tensor_with_one_huge_extent_count_in_64_bits() -> None:
    A = te.placeholder((2**33,), "uint8", name="A")
    B = te.compute((2**33,), lambda i: A[i] + 1, name="B")
    s = te.create_schedule(B)
    outer, inner = s[B].split(B.op.axis[0], factor=48)
    s[B].vectorize(inner)
    text = str(tw.lower(s, [A, B]))
    assert ": int64 in" in text


def test_the_last_element_of_a_huge_output_is_written_and_no_other(sparse: np.ndarray) -> None:
    A = te.placeholder((1,), "uint8", name="A")
    first = te.compute((ROWS, COLUMNS), lambda i, j: A[0], name="first")
    s = te.create_schedule(first)
    i, j = first.op.axis
    s[first].set_store_predicate(te.all(i == ROWS - 1, j == COLUMNS - 1))
    outer, _ = s[first].split(s[first].fuse(i, j), factor=1 << 20)
    s[first].parallel(outer)
    assert "int64" in str(tw.lower(s, [A, first]))
