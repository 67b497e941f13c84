"""Columns that are loaded side by side: the same lanes from rows and shuffles, and nothing read outside of the columns."""

from __future__ import annotations

import drawn
import numpy as np
import pytest
import tilewright as tw
from same_result import after
from tilewright import te
from tilewright.ir.expr import BufferLoad, Ramp, Shuffle
from tilewright.ir.passes.common.flatten import flatten
from tilewright.ir.passes.common.unroll import unroll
from tilewright.ir.passes.cpu.shared_windows import shared_windows
from tilewright.ir.passes.cpu.transposed_loads import transposed_loads
from tilewright.ir.passes.cpu.vectorize import vectorize
from tilewright.ir.stmt import Function
from tilewright.ir.visit import walk

PASSES = (flatten, vectorize, unroll, shared_windows, transposed_loads)


def strides(result: Function) -> set[int]:
    """How far apart the lanes of the function's vector loads lie."""
    return {
        node.indices[0].stride.value
        for node in walk(result.body)
        if isinstance(node, BufferLoad) and isinstance(node.indices[0], Ramp)
    }


def columns(lanes: int, copies: int, dtype: str = "float32", row: int = 19) -> str:
    return f"""
def columns(A: {dtype}[{lanes}, {row}], C: out {dtype}[{copies}, {lanes}]):
    for i in unrolled({copies}):
        for j in vectorized({lanes}):
            C[i, j] = A[j, i + 2] + A[j, i + 2]
"""


@pytest.mark.parametrize(
    ("lanes", "dtype", "shuffles"),
    [
        (4, "float32", 8),
        (8, "float32", 24),
        (16, "float32", 64),
        (2, "float64", 2),
        (4, "int64", 8),
        (8, "float64", 24),
    ],
)
def test_a_square_takes_its_logarithm_of_shuffles(lanes: int, dtype: str, shuffles: int) -> None:
    result = after(columns(lanes, lanes, dtype), *PASSES)
    assert strides(result) == {1}
    assert sum(isinstance(node, Shuffle) for node in walk(result.body)) == shuffles


def test_columns_that_fill_no_square_are_left() -> None:
    assert strides(after(columns(8, 10), *PASSES)) == {1, 19}
    assert strides(after(columns(8, 2), *PASSES)) == {19}
    assert strides(after(columns(4, 3), *PASSES)) == {19}


@pytest.mark.parametrize(
    ("lanes", "copies", "dtype"), [(8, 11, "float32"), (8, 7, "int32"), (4, 3, "float64"), (16, 3, "float32")]
)
def test_rows_are_loaded_as_far_as_there_are_columns(lanes: int, copies: int, dtype: str) -> None:
    assert strides(after(columns(lanes, copies, dtype, copies + 2 if copies > lanes else lanes + 1), *PASSES)) == {1}


def test_small_elements_are_left() -> None:
    assert 1 not in strides(after(columns(8, 8, "int16"), *PASSES))


def test_what_a_store_between_may_change_is_left() -> None:
    result = after(
        """
def turned(A: out float32[64, 64]):
    for i in unrolled(4):
        for j in vectorized(4):
            A[i, j] = A[j + 4, i + 4]
""",
        *PASSES,
    )
    assert not any(isinstance(node, Shuffle) for node in walk(result.body))


@pytest.mark.parametrize(("lanes", "dtype", "shuffles"), [(8, "float32", 24), (16, "int8", 64), (8, "int16", 24)])
def test_own_memory_is_read_under_no_condition(lanes: int, dtype: str, shuffles: int) -> None:
    """Guards of rows and masks of lanes are those of what is stored."""
    result = after(
        f"""
def turned(A: {dtype}[{lanes}, {lanes}], C: out {dtype}[{lanes}, {lanes}], n: int32):
    T: local {dtype}[{lanes}, {lanes}]
    for i in unrolled({lanes}):
        if i < n:
            for j in vectorized({lanes}):
                T[i, j] = A[i, j]
    for i in unrolled({lanes}):
        if i < n - 1:
            for j in vectorized({lanes}):
                if j < n:
                    C[i, j] = T[j, i]
""",
        *PASSES,
        n=6,
    )
    assert sum(isinstance(node, Shuffle) for node in walk(result.body)) == shuffles
    assert strides(result) == {1}


def gathered(lanes: int, copies: int, first: int, row: int) -> str:
    return f"""
def gathered(T: float32[8], I: int32[{lanes}, {row}], W: float32[{lanes}, {row}], C: out float32[{lanes}]):
    S: local float32[{lanes}]
    for j in vectorized({lanes}):
        S[j] = 0.0
    for i in unrolled({copies}):
        for j in vectorized({lanes}):
            S[j] = S[j] + T[I[j, i + {first}] % 8] * W[j, i + {first}]
    for j in vectorized({lanes}):
        C[j] = S[j]
"""


def test_tables_of_places_are_turned_where_a_sum_takes_up_what_they_name() -> None:
    assert strides(after(gathered(8, 8, 2, 19), *PASSES)) == {1}


@pytest.mark.parametrize("case", range(drawn.count(12, 400)))
def test_drawn(case: int) -> None:
    rng = drawn.rng("transposed loads", case)
    lanes, dtype = [(4, "float32"), (8, "int32"), (2, "float64"), (16, "float32")][rng.integers(4)]
    copies, first, row = (int(rng.integers(1, 2 * lanes + 3)), int(rng.integers(0, 3)), int(rng.integers(5, 40)))
    read = f"A[j, i + {first}]"
    masked = f"if_then_else(j < {int(rng.integers(1, lanes + 1))}, {read}, 0)" if rng.integers(2) else read
    after(
        f"""
def drawn{case}(A: {dtype}[{lanes}, {max(row, copies + first)}], C: out {dtype}[{copies}, {lanes}]):
    for i in unrolled({copies}):
        for j in vectorized({lanes}):
            C[i, j] = {masked} + {read}
""",
        *PASSES,
    )
    after(gathered(lanes, copies, first, max(row, copies + first)), *PASSES)


def test_a_transposition_is_shuffles() -> None:
    a = te.placeholder((30, 32), name="A")
    b = te.compute((32, 30), lambda i, j: a[j, i] * 2, name="B")
    s = te.create_schedule(b)
    _, _, rows, lanes = s[b].tile(*b.op.axis, 8, 8)
    s[b].unroll(rows)
    s[b].vectorize(lanes)
    f = tw.build(s, [a, b])
    data = drawn.rng("transposed").random((30, 32), dtype=np.float32)
    out = np.empty((32, 30), np.float32)
    f(data, out)
    np.testing.assert_array_equal(out, data.T * 2)
    assert "gather" not in f.source("asm")
