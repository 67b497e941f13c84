"""Strided loads that interleave: the same lanes, from fewer vectors, and nothing read outside of what the loads span."""

from __future__ import annotations

import random

import numpy as np
import pytest
import tilewright as tw
from same_result import after
from tilewright import te
from tilewright.ir.expr import BufferLoad, Ramp, Shuffle
from tilewright.ir.passes.common.flatten import flatten
from tilewright.ir.passes.common.unroll import unroll
from tilewright.ir.passes.cpu.shared_windows import shared_windows
from tilewright.ir.passes.cpu.vectorize import vectorize
from tilewright.ir.stmt import Function
from tilewright.ir.visit import walk

PASSES = (flatten, vectorize, unroll, shared_windows)


def windows(result: Function) -> set[str]:
    return {
        str(node) for node in walk(result.body) if isinstance(node, BufferLoad) and isinstance(node.indices[0], Ramp)
    }


def test_even_and_odd_lanes_come_from_two_vectors() -> None:
    result = after(
        """
def pairs(A: float32[64], C: out float32[32]):
    for x in vectorized(16):
        C[x] = A[2 * x] - A[2 * x + 1]
""",
        *PASSES,
    )
    assert sum(isinstance(node, Shuffle) for node in walk(result.body)) == 2
    assert len(windows(result)) == 2


def test_masked_lanes_are_not_gathered() -> None:
    result = after(
        """
def border(A: float32[31], C: out float32[16]):
    for x in vectorized(16):
        C[x] = if_then_else(1 <= x, A[2 * x - 1], 0.0) + if_then_else(x < 15, A[2 * x + 1], 0.0)
""",
        *PASSES,
    )
    assert all(
        node.indices[0].stride.value == 1
        for node in walk(result.body)
        if isinstance(node, BufferLoad) and isinstance(node.indices[0], Ramp)
    )


def test_loads_across_a_store_are_left() -> None:
    result = after(
        """
def moved(A: out float32[64], C: out float32[32]):
    for x in vectorized(16):
        C[x] = A[2 * x]
    for x in vectorized(16):
        A[x] = 0.0
    for x in vectorized(16):
        C[x + 16] = A[2 * x + 1]
""",
        *PASSES,
    )
    assert not any(isinstance(node, Shuffle) for node in walk(result.body))


@pytest.mark.parametrize("case", range(40))
def test_drawn(case: int) -> None:
    rng = random.Random(case)
    n, stride, taps = rng.choice([4, 7, 8, 13, 16, 19]), rng.choice([1, 2, 3, 4, 5]), rng.randint(1, 4)
    offsets = [rng.randint(-3, 6) for _ in range(taps)]
    size = rng.randint(1, stride * n + 4)
    reads = " + ".join(
        f"if_then_else({-at} <= {stride} * x and {stride} * x < {size - at}, A[{stride} * x + {at}], 0)"
        for at in offsets
    )
    after(
        f"""
def taps{case}(A: int32[{size}], C: out int32[{n}]):
    for x in vectorized({n}):
        C[x] = {reads}
""",
        *PASSES,
    )


def test_strided_rows_at_the_end_of_memory() -> None:
    """The kernel must not touch what follows its input: guard pages would show it (see the fuzzer); here the last lanes
    are right although windows end with the data."""
    x = te.placeholder((9, 33), name="x")
    y = te.compute((9, 16), lambda i, j: te.max(x[i, 2 * j], te.max(x[i, 2 * j + 1], x[i, 2 * j + 2])), name="y")
    s = te.create_schedule(y)
    s[y].vectorize(y.op.axis[1])
    f = tw.build(s, [x, y])
    assert "gather" not in f.source("asm")
    data = np.random.default_rng(1).random((9, 33), dtype=np.float32)
    out = np.empty((9, 16), np.float32)
    f(data, out)
    np.testing.assert_array_equal(out, np.maximum(np.maximum(data[:, 0:32:2], data[:, 1:32:2]), data[:, 2:33:2]))
