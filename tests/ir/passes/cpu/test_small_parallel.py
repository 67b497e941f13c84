"""Parallel loops of too little work."""

from __future__ import annotations

import numpy as np
import pytest
import tilewright as tw
from same_result import after
from tilewright import te
from tilewright.ir.passes.cpu.small_parallel import SMALL, run_small_serially
from tilewright.ir.stmt import For, LoopKind
from tilewright.ir.visit import walk


def kinds(text: str, **scalars: int) -> list[LoopKind]:
    result = after(text, lambda function: run_small_serially(function, 512), **scalars)
    return [node.kind for node in walk(result.body) if isinstance(node, For)]


def add(extent: int, loop: str = "parallel") -> str:
    return f"""
def add(A: float32[{extent}], C: out float32[{extent}]):
    for i in {loop}({extent}):
        C[i] = A[i] + 1.0
"""


def test_little_work_is_serial_and_much_is_not() -> None:
    assert kinds(add(4)) == [LoopKind.SERIAL]
    assert kinds(add(SMALL)) == [LoopKind.PARALLEL]
    assert kinds(add(SMALL // 6)) == [LoopKind.SERIAL]


def test_functions_and_inner_loops_count() -> None:
    assert kinds("""
def heavy(A: float32[64, 64], C: out float32[64, 64]):
    for i in parallel(64):
        for j in 64:
            C[i, j] = A[i, j]
""") == [LoopKind.PARALLEL, LoopKind.SERIAL]
    assert kinds(add(400).replace("A[i] + 1.0", "exp(A[i])")) == [LoopKind.PARALLEL]
    assert kinds(add(50).replace("A[i] + 1.0", "exp(A[i])")) == [LoopKind.SERIAL]


def test_what_is_not_known_stays() -> None:
    assert kinds(
        """
def symbolic(A: float32[n], C: out float32[n], n: int32):
    for i in parallel(n):
        C[i] = A[i]
""",
        n=3,
    ) == [LoopKind.PARALLEL]
    assert kinds("""
def outside(C: out int32[2]):
    for i in parallel(2):
        C[i] = call_extern(int32, "abs", i)
""") == [LoopKind.PARALLEL]


@pytest.mark.parametrize(("extent", "shared"), [(8, False), (100_000, True)])
def test_small_loops_call_no_threads(extent: int, shared: bool) -> None:
    a = te.placeholder((extent,), name="a")
    c = te.compute((extent,), lambda i: a[i] * 2, name="c")
    s = te.create_schedule(c)
    s[c].parallel(c.op.axis[0])
    f = tw.build(s, [a, c])
    assert ("tw_parallel_for" in f.source("llvm")) == shared
    x, out = np.arange(extent, dtype=np.float32), np.empty(extent, np.float32)
    f(x, out)
    np.testing.assert_array_equal(out, x * 2)
