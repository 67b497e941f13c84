"""What large programs cost: they compile, in a time that grows with their size, and leave nothing behind."""

from __future__ import annotations

import gc
import os
import re
from pathlib import Path

import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.base.errors import LoweringError
from tilewright.codegen.llvm.build import CodegenOptions, module_text
from tilewright.codegen.target import Target
from tilewright.ir import Function
from tilewright.ir.passes.common.unroll import unroll
from tilewright.ir.text.parser import parse

SOAK = os.environ.get("TILEWRIGHT_SOAK", "0") not in ("", "0")


def test_a_nest_of_200_loops_compiles_and_is_split_into_functions() -> None:
    n = te.var("n")
    a = te.placeholder((3,), name="A")
    axes = [te.reduce_axis((0, n), name=f"k{at}") for at in range(199)]
    b = te.compute((3,), lambda i: te.sum(a[i] + axes[-1], axis=axes), name="B")
    f = tw.build(te.create_schedule(b), [a, b, n])
    for extent, copies, added in ((1, 1, 0.0), (0, 0, 0.0)):
        result = np.full(3, 7, np.float32)
        f(np.arange(3, dtype=np.float32), result, extent)
        np.testing.assert_array_equal(result, np.arange(3) * copies + added)
    assert len(set(re.findall(r"define internal \S*.*@\w+_part_(\d+)", f.source("llvm")))) == 6


def test_an_expression_of_6_000_operators_compiles() -> None:
    a = te.placeholder((5,), "int32", name="A")

    def body(i: te.Expr) -> te.Expr:
        value = a[i]
        for step in range(3000):
            value = te.max(value * 3, 1) if step % 3 else value - a[(i + step) % 5]
        return value

    b = te.compute((5,), body, name="B")
    f = tw.build(te.create_schedule(b), [a, b])
    given, result = np.array([1, -2, 3, 7, 0], np.int32), np.empty(5, np.int32)
    f(given, result)
    with np.errstate(over="ignore"):
        wanted, at = given.copy(), np.arange(5)
        for step in range(3000):
            wanted = np.maximum(wanted * np.int32(3), np.int32(1)) if step % 3 else wanted - given[(at + step) % 5]
    np.testing.assert_array_equal(result, wanted)


def test_a_graph_of_300_stages_compiles_and_is_split_into_functions() -> None:
    first = last = te.placeholder((17,), "int32", name="A")
    for at in range(300):
        last = te.compute((17,), lambda i, before=last, at=at: before[i] * 3 + at, name=f"T{at}")
    f = tw.build(te.create_schedule(last), [first, last])
    wanted = np.arange(17, dtype=np.int32)
    result = np.empty_like(wanted)
    f(wanted, result)
    for at in range(300):
        wanted = wanted * np.int32(3) + np.int32(at)
    np.testing.assert_array_equal(result, wanted)
    assert len(set(re.findall(r"define internal \S*.*@\w+_part_(\d+)", f.source("llvm")))) == 10


def test_short_loops_around_longer_ones_are_not_copied() -> None:
    """Seven iterations around a loop of unknown length: copies of it would multiply with every further loop around."""
    function = parse("""
        @attrs(stage="final")
        def main[n](A: int32[5], B: out int32[n]):
            for around in 7:
                for x in n:
                    B[x] = A[0]
                for short in 5:
                    B[short] = A[short]
    """)
    text, _ = module_text([function], Target.parse("llvm"), CodegenOptions())
    loops = re.findall(r"!llvm.loop (!\d+)", text)
    closed = [re.search(rf"^{loop} = .*", text, re.MULTILINE) for loop in loops]
    kept = ["unroll.disable" in found[0] for found in closed if found]
    assert kept == [False, False, True], "in the order in which they end: over x, short, around"


def test_unrolling_has_a_budget_and_the_error_names_the_loop() -> None:
    a = te.placeholder((1 << 20,), name="A")
    b = te.compute((1 << 20,), lambda i: a[i] + 1.0, name="B")
    s = te.create_schedule(b)
    s[b].unroll(b.op.axis[0])
    with pytest.raises(
        LoweringError, match=r"(?s)cannot unroll 'i'.*1048576 copies of 1 statements are more than 16384"
    ):
        tw.build(s, [a, b])


def test_unrolled_loops_share_a_budget() -> None:
    def function(second: str) -> Function:
        return parse(f"""
            @attrs(stage="final")
            def main(A: int32[20], B: out int32[100]):
                for i in unrolled(10):
                    for j in unrolled(6):
                        B[i * 10 + j] = A[i]
                for x in {second}:
                    B[x] = A[x]
        """)

    assert " in " not in str(unroll(function("unrolled(20)"), 80)).partition("):")[2], "no loop is left"
    unroll(function("21"), 80)
    with pytest.raises(LoweringError, match=r"(?s)cannot unroll 'x' too.*would reach 81 statements, more than 80"):
        unroll(function("unrolled(21)"), 80)


def resident_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("the kernel tells how much is resident")


@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="this system does not tell how much memory is resident"
)
def test_kernels_that_are_built_and_dropped_leave_nothing_behind() -> None:
    """20 MB over 10,000 cycles; a sample must stay as far below."""

    def cycle(n: int) -> None:
        a = te.placeholder((n, 16), name="A")
        b = te.compute((n, 16), lambda i, j: a[i, j] * 2.0 + 1.0, name="B")
        s = te.create_schedule(b)
        s[b].vectorize(b.op.axis[1])
        result = np.empty((n, 16), np.float32)
        tw.build(s, [a, b])(np.ones((n, 16), np.float32), result)
        assert result[-1, -1] == 3

    for n in range(1, 61):
        cycle(n)
    gc.collect()
    before, cycles = resident_bytes(), 10_000 if SOAK else 100
    for n in range(1, cycles + 1):
        cycle(1 + n % 50)
    gc.collect()
    assert resident_bytes() - before < (20 << 20 if SOAK else 4 << 20)
