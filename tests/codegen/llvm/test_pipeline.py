"""The whole CPU pipeline on drawn schedules: the final program does what the lowered one does, bit for bit."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import suppress
from dataclasses import replace

import drawn
import numpy as np
from drawn_schedules import PROGRAMS, draw_primitive
from tilewright.base.errors import TilewrightError
from tilewright.codegen.llvm.pipeline import cpu_pipeline
from tilewright.ir.errors import UninitializedRead
from tilewright.ir.expr import Max
from tilewright.ir.interpret import interpreter
from tilewright.ir.ops import const
from tilewright.ir.passes.common.runner import Verifying, run_pipeline
from tilewright.ir.stmt import Function
from tilewright.ir.text.parser import parse
from tilewright.schedule import create_schedule
from tilewright.schedule.lowering.lower import lower


def draw_function(case: int) -> tuple[Function, list[np.ndarray], tuple[int, ...]] | None:
    """A lowered function, its inputs, and the shape of its output; None where lowering refuses the schedule."""
    rng = drawn.rng("pipeline", case)
    output, args, inputs, expected = PROGRAMS[case % len(PROGRAMS)](rng)
    s = create_schedule(output.op)
    for _ in range(int(rng.integers(1, 11))):
        try:
            draw_primitive(rng, s)
        except TilewrightError:
            continue
    for stage in s.stages:
        for kind, leaf, chance in (("vectorize", -1, 0.7), ("unroll", -2, 0.3), ("parallel", 0, 0.3)):
            if rng.random() < chance and -len(stage.leaf_iter_vars) <= leaf < len(stage.leaf_iter_vars):
                with suppress(TilewrightError):
                    getattr(stage, kind)(stage.leaf_iter_vars[leaf])
    try:
        return lower(s, args), inputs, expected.shape
    except TilewrightError:
        return None


def outcome(
    function: Function,
    inputs: list[np.ndarray],
    shape: tuple[int, ...],
    declared: Function,
    *,
    check: bool = True,
) -> np.ndarray:
    output = np.full(shape, 77, declared.outputs[0].dtype)
    interpreter.run(function, [*inputs, output], declared=declared.params, check=check)
    return output


def final_outcome(final: Function, inputs: list[np.ndarray], shape: tuple[int, ...], declared: Function) -> np.ndarray:
    """As `outcome`. Whole vectors may take along what lies between the elements of aligned storage and behind its rows, which
    nobody wrote and no lane uses: then without the check, over memory that would spoil a result."""
    try:
        return outcome(final, inputs, shape, declared)
    except UninitializedRead:
        return outcome(final, inputs, shape, declared, check=False)


def test_windows_take_the_gaps_of_aligned_storage_along() -> None:
    """Rows of 3 with strides of 2 between elements: a vector of every other element is read as whole vectors."""
    function = parse("""
@attrs(stage="loops")
def main(A: float32[3, 5], Y: out float32[3, 3]):
    P: float32[3, 5, strides=[10, 2]]
    for i in 3:
        for j in vectorized(5):
            P[i, j] = A[i, j]
    for i in 3:
        for j in vectorized(3):
            Y[i, j] = P[i, j] + P[i, j + 1] + P[i, j + 2]
""")
    a = np.random.default_rng(0).random((3, 5), np.float32)
    final = run_pipeline(function, cpu_pipeline(128, False), [Verifying()])
    np.testing.assert_array_equal(final_outcome(final, [a], (3, 3), function), a[:, :3] + a[:, 1:4] + a[:, 2:])


def test_drawn_schedules() -> None:
    met: Counter[str] = Counter()
    for case in range(drawn.count(120, 20_000)):
        found = draw_function(case)
        if found is None:
            continue
        function, inputs, shape = found
        bits, checks = ((128, False), (256, False), (512, False), (512, True))[case % 4]
        try:
            final = run_pipeline(function, cpu_pipeline(bits, checks), [Verifying()])
            expected = outcome(function, inputs, shape, function)
            got = final_outcome(final, inputs, shape, function)
            np.testing.assert_array_equal(got, expected)
        except TilewrightError as error:
            if error.code not in ("TW0360", "TW0361"):  # unrolling what has no constant extent is refused
                raise AssertionError(f"case {case} of seed {drawn.SEED}:\n{function}") from error
            met["refused"] += 1
            continue
        except Exception as error:
            raise AssertionError(f"case {case} of seed {drawn.SEED}:\n{function}") from error
        met["same"] += 1
        met["vectors"] += "ramp(" in str(final)
    assert met["same"] > 50, met
    assert met["vectors"] > 20, met


def test_shared_values_take_linear_time() -> None:
    function = parse("""
@attrs(stage="loops")
def chain(A: float32[1, 8], C: out float32[1, 8]):
    for i in 1:
        for j in vectorized(8):
            C[i, j] = A[i, j]
""")
    store = function.body.body.body  # pyright: ignore[reportAttributeAccessIssue]
    value = store.value
    for _ in range(25):
        value = Max(value, const(0.0, "float32")) * value + value  # 3 ** 25 written out
    began = time.thread_time()
    loop = function.body.body  # pyright: ignore[reportAttributeAccessIssue]
    body = replace(function.body, body=replace(loop, body=replace(store, value=value)))  # pyright: ignore[reportCallIssue]
    final = run_pipeline(function.with_body(body), cpu_pipeline())
    assert time.thread_time() - began < 5
    assert 25 <= str(final).count("cse") < 200
