"""Components that are stored side by side: one store of interleaved lanes, and none where elements are read or stored twice."""

from __future__ import annotations

import pytest
from same_result import after
from tilewright.ir.expr import Ramp
from tilewright.ir.passes.common.flatten import flatten
from tilewright.ir.passes.common.unroll import unroll
from tilewright.ir.passes.cpu.interleaved_stores import interleaved_stores
from tilewright.ir.passes.cpu.vectorize import vectorize
from tilewright.ir.stmt import BufferStore
from tilewright.ir.visit import walk

PASSES = (flatten, vectorize, unroll, interleaved_stores)


def strides(text: str) -> list[int]:
    """How far apart the lanes of each of the function's vector stores lie."""
    indices = [node.indices[0] for node in walk(after(text, *PASSES).body) if isinstance(node, BufferStore)]
    return [index.stride.value for index in indices if isinstance(index, Ramp)]


def components(statements: str, count: int, dtype: str = "float32") -> str:
    return f"""
def components(A: {dtype}[8, {count}], C: out {dtype}[8, {count}]):
    for c in unrolled({count}):
        for i in vectorized(8):
            {statements}
"""


@pytest.mark.parametrize(("count", "dtype"), [(2, "float32"), (3, "uint8"), (4, "float64")])
def test_components_are_one_store(count: int, dtype: str) -> None:
    assert strides(components(f"C[i, c] = A[i, c] + A[i, {count - 1} - c]", count, dtype)) == [1]


@pytest.mark.parametrize(
    ("statement", "count"),
    [
        ("C[i, c] = C[i, 1 - c] + A[i, c]", 2),  # reads what the other one stores
        ("C[i, c // 2] = A[i, c]", 4),  # each is stored twice
        ("C[i, c] = A[i, c]", 5),  # too far apart
        ("C[i, 0] = A[i, c]", 2),
    ],
)
def test_others_are_left(statement: str, count: int) -> None:
    assert set(strides(components(statement, count))) == {count}
