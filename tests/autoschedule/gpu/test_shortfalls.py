"""What a plan says of kernels that use less of a GPU than there is, beside what the emulator counts of them."""

from __future__ import annotations

from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi
from tilewright.ir.analysis.warps import collect_kernels, find_block, touches
from tilewright.schedule.lowering.lower import lower


def reasons(output: Any, target: str = "cuda -arch=sm_80") -> str:
    return "; ".join(row.reason for row in tw.autoschedule.schedule([output], target=target).plan if row.reason)


@pytest.mark.parametrize("at", range(drawn.count(4, 200)))
def test_a_warp_touches_what_the_emulator_counts(at: int) -> None:
    rng = drawn.rng("touches of warps", at)
    dtype, (step, first) = str(rng.choice(["int8", "float16", "float32", "float64"])), map(int, rng.integers(0, 9, 2))
    first += (step, first) == (1, 0)  # else each thread reads what it copied, and the copy stays in registers
    A = te.placeholder((640,), dtype, name="A")
    C = te.compute((64,), lambda i: A[i * step + first] + A[i], name="C")
    s = te.create_schedule(C.op)
    block, thread = s[C].split(C.op.axis[0], factor=64)
    s[C].bind(block, te.thread_axis("blockIdx.x"))
    if in_shared := bool(rng.random() < 0.5):
        S = s[s.cache_read(A, "shared", [C])]
        S.compute_at(s[C], block)
        S.bind(S.split(S.op.axis[0], factor=64)[1], te.thread_axis((0, 64), "threadIdx.x"))
    s[C].bind(thread, te.thread_axis((0, 64), "threadIdx.x"))
    (kernel,) = collect_kernels(lower(s, [A, C], "main"))
    assert find_block(kernel).threads == {"threadIdx.x": 64}
    scope = "shared" if in_shared else "global"
    foreseen = {
        (touch.passes, touch.least) for touch in touches(kernel) if touch.array.scope == scope and not touch.stored
    }
    f = tw.build(s, [A, C], target="cuda -emulate")
    f(np.zeros(640, dtype), np.zeros(64, dtype))
    rows = [row for row in f.kernels[0].traffic if row.memory == scope and not row.stores]
    assert foreseen == {(row.transactions // row.instructions, row.least // row.instructions) for row in rows}


def test_what_falls_short_is_said_with_its_array() -> None:
    A, at = te.placeholder((64, 1001), name="A"), te.placeholder((64,), "int32", name="at")
    assert "b is read by rows that begin within sectors" in reasons(A + te.placeholder((1001,), name="b"))
    assert "A is read 3 elements apart" in reasons(te.compute((64, 320), lambda i, j: A[i, j * 3], name="C"))
    assert reasons(topi.take(A, at, axis=0)) == "A is read where data say"
    square = te.placeholder((256, 256), name="S")
    assert "of the threads at once by" in reasons(topi.matmul(square, square))
    assert "meet in a bank of input.shared" in reasons(
        topi.transpose(te.placeholder((256, 320), "float16", name="input"))
    )


@pytest.mark.parametrize(
    "declared",
    [lambda A: A + A, lambda A: topi.transpose(A), lambda A: topi.nn.softmax(A), lambda A: topi.sum(A, axis=1)],
    ids=["add", "transpose", "softmax", "sum"],
)
def test_nothing_is_said_where_nothing_falls_short(declared: Any) -> None:
    assert reasons(declared(te.placeholder((256, 1024), name="A"))) == ""


def test_the_code_of_a_gpu_is_judged_where_a_script_has_some_for_both() -> None:
    said = reasons(topi.argsort(te.placeholder((64, 128), name="A"), dtype="int32"))
    assert "where data say" in said and "starts" not in said, "the counters of CPUs are not part of it"


def test_registers_of_what_comes_asynchronously_count() -> None:
    """Small tiles in four stages: a thread's arrays take 14 registers, and the compiler 50 in all."""
    output = topi.dft(te.placeholder((64, 64), name="A"), te.placeholder((64, 64), name="B"))
    outputs = [*output] if isinstance(output, (list, tuple)) else [output]
    said = "; ".join(row.reason for row in tw.autoschedule.schedule(outputs, target="cuda -arch=sm_90a").plan)
    assert "56% of the threads at once by registers" in said, said
