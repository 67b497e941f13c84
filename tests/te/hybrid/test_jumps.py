# ruff: noqa: F821
"""break, continue, an early return and while in hybrid scripts: what they skip in Python they skip everywhere."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from hybrid_run import agree, outputs_of, tensors_like
from tilewright import te
from tilewright.ir.stmt import While
from tilewright.ir.visit import walk


@te.hybrid.script
def escape_times(re, im, most):
    times = output_tensor(re.shape, "int32")
    for i in range(re.shape[0]):
        x = 0.0
        y = 0.0
        for _k in range(most):
            if x * x + y * y > 4.0:
                break
            t = x * x - y * y + re[i]
            y = 2.0 * x * y + im[i]
            x = t
            times[i] += 1
    return times


@te.hybrid.script
def collatz(starts):
    steps = output_tensor(starts.shape, "int32")
    for i in range(starts.shape[0]):
        v = starts[i]
        while v > 1:
            steps[i] += 1
            if v % 2 == 0:
                v = v // 2
                continue
            v = 3 * v + 1
    return steps


@te.hybrid.script
def first_pair(a, b):
    found = output_tensor((4,), "int32")
    found[0] = -1
    for i in range(a.shape[0]):
        if a[i] < 0:
            continue
        for j in range(b.shape[0]):
            if b[j] == a[i]:
                found[0] = i
                found[1] = j
                return found
            if b[j] > a[i]:
                break
            found[2] += 1
        found[3] += 1
    found[2] = 100
    return found


@te.hybrid.script
def every_kind(a):
    out = output_tensor((5,), "int32")
    for i in const_range(5):
        if a[i] > 6:
            break
        if a[i] == 2:
            if i > 1:
                continue
            out[4] += 50
        out[i] += a[i]
    while True:
        out[4] += 1
        for k in range(2, 9, 3):
            if out[4] > k * 2:
                continue
            out[3] += k
        if out[4] % 4 == 3:
            break
    return out


def points(count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    return rng.uniform(-2, 1, count).astype("float32"), rng.uniform(-1, 1, count).astype("float32")


@pytest.mark.parametrize("target", ["llvm", "c", "interpret"])
def test_jumps_mean_what_they_mean_in_python(target: str) -> None:
    re, im = points(13)
    agree(escape_times, [re, im, 17], escape_times(re, im, 17), targets=[target])
    starts = np.array([1, 2, 7, 27, 0], "int32")
    agree(collatz, [starts], collatz(starts), targets=[target], symbolic=True)
    for a in ([-1, 5, 2, 7], [-1, 5, -2, 9], [7, 1, 1, 1])[: 1 if target == "c" else 3]:
        first, second = np.array(a, "int32"), np.array([1, 2, 3, 7, 8], "int32")
        agree(first_pair, [first, second], first_pair(first, second), targets=[target])
    for a in ([2, 2, 9, 1, 1], [1, 2, 2, 3, 4], [1, 1, 1, 1, 1])[: 1 if target == "c" else 3]:
        agree(every_kind, [np.array(a, "int32")], every_kind(np.array(a, "int32")), targets=[target])


def test_jumps_on_threads_and_in_lanes() -> None:
    re, im = points(21)
    expected = escape_times(re, im, 9)

    def bound(s: te.Schedule, outputs: list) -> None:
        block, thread = s[outputs[0]].split(outputs[0].op.axis[0], 8)
        s[outputs[0]].bind(block, te.thread_axis("blockIdx.x"))
        s[outputs[0]].bind(thread, te.thread_axis("threadIdx.x"))

    agree(escape_times, [re, im, 9], expected, bound, targets=["cuda -emulate"])
    agree(escape_times, [re, im, 9], expected, lambda s, outputs: s[outputs[0]].parallel(outputs[0].op.axis[0]))
    starts = np.arange(16, dtype="int32")
    agree(collatz, [starts], collatz(starts), lambda s, outputs: s[outputs[0]].vectorize(outputs[0].op.axis[0]))


@pytest.mark.parametrize("count", [5, 16, 35])
def test_lanes_run_a_while_until_the_last_one_has_left_it(count: int) -> None:
    starts = np.random.default_rng(count).integers(1, 60, count).astype("int32")
    a = te.placeholder((count,), "int32", name="a")
    b = collatz(a)
    s = te.create_schedule(b.op)
    s[b].vectorize(s[b].split(b.op.axis[0], 16)[1])
    f = tw.build(s, [a, b])
    got = np.zeros(count, "int32")
    f(starts, got)
    np.testing.assert_array_equal(got, collatz(starts))
    assert count < 16 or "x i32>" in f.source("llvm"), "steps are done in lanes"


def test_a_loop_with_a_break_keeps_its_axis_and_its_order() -> None:
    re, im = points(5)
    (times,) = outputs_of(escape_times(*tensors_like([re, im, 7])))
    s = te.create_schedule(times.op)
    i, k = times.op.axis
    with pytest.raises(tw.ScheduleError, match="TW0281"):
        s[times].reorder(k, i)
    with pytest.raises(tw.ScheduleError, match="TW0280"):
        s[times].parallel(k)
    agree(
        escape_times,
        [re, im, 7],
        escape_times(re, im, 7),
        lambda s, outputs: s[outputs[0]].split(outputs[0].op.axis[1], 3),
    )


def test_indices_of_a_loop_with_a_break_are_proved() -> None:
    @te.hybrid.script
    def beyond(a):
        b = output_tensor((1,), "float32")
        for i in range(a.shape[0]):
            if a[i + 1] > 0.0:
                break
            b[0] += a[i]
        return b

    b = beyond(te.placeholder((8,), name="a"))
    with pytest.raises(tw.TilewrightError, match="TW0114"):
        tw.lower(te.create_schedule(b.op), [b.op.input_tensors[0], b])


def test_an_ended_loop_takes_no_more_time() -> None:
    @te.hybrid.script
    def over_at_once(most):
        b = output_tensor((1,), "int32")
        for i in range(most):
            b[0] += 1
            if i == 2:
                break
        return b

    b = over_at_once(te.const(2**31 - 2))
    kernel = tw.build(te.create_schedule(b.op), [b])
    result = np.zeros(1, "int32")
    assert kernel.time(result, number=1, repeat=3).min < 1e-3 and result[0] == 3


def test_scripts_that_are_called_return_early_too() -> None:
    @te.hybrid.script
    def clipped(a, limit):
        b = output_tensor(a.shape, a.dtype)
        for i in range(a.shape[0]):
            if a[i] > limit:
                return b
            b[i] = a[i]
        return b

    @te.hybrid.script
    def twice(a):
        c = output_tensor(a.shape, a.dtype)
        first = clipped(a, 3)
        second = clipped(a, 5)
        for i in range(a.shape[0]):
            c[i] = first[i] * 10 + second[i]
        return c

    agree(twice, [np.arange(7, dtype="int32")], np.array([0, 11, 22, 33, 4, 5, 0], "int32"))


def test_a_while_prints_and_is_a_loop_of_the_operation_alone() -> None:
    (steps,) = outputs_of(collatz(*tensors_like([np.zeros(4, "int32")])))
    assert len(steps.op.axis) == 1 and any(isinstance(node, While) for node in walk(steps.op.body))
    assert "while not left.2[()]:" in str(tw.lower(te.create_schedule(steps.op), [steps.op.input_tensors[0], steps]))


@te.hybrid.script
def left_in_parallel(a):
    b = output_tensor(a.shape, a.dtype)
    for i in parallel(a.shape[0]):
        if a[i] < 0.0:
            break
        b[i] = a[i]
    return b


@te.hybrid.script
def another_result(a):
    b = output_tensor(a.shape, a.dtype)
    c = output_tensor(a.shape, a.dtype)
    for i in range(a.shape[0]):
        if a[i] < 0.0:
            return c, b
        b[i] = a[i]
    return b, c


@te.hybrid.script
def threads_within(a):
    b = output_tensor(a.shape, a.dtype)
    while b[0] < 3.0:
        for i in bind("threadIdx.x", 8):
            b[i] += 1.0
    return b


@pytest.mark.parametrize(
    ("script", "match"),
    [
        (left_in_parallel, "a parallel loop is left before its end"),
        (threads_within, "threads are bound within `while`"),
    ],
)
def test_loops_that_cannot_be_left(script: object, match: str) -> None:
    with pytest.raises(tw.TensorExpressionError, match=match):
        script(te.placeholder((8,), name="a"))  # pyright: ignore


def test_an_early_return_gives_what_the_last_one_gives() -> None:
    with pytest.raises(tw.TensorExpressionError, match=r"(?s)TW0156.*gives something else.*fix: return \(?b, c"):
        another_result(te.placeholder((8,), name="a"))


def test_a_builder_makes_loops_without_an_end_too() -> None:
    def doubled_until(ins: list, outs: list) -> object:
        ib = tw.ir_builder()
        source, result = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, 5, "i") as i:
            result[i] = source[i]
            with ib.while_loop(result[i] < 100):
                result[i] = result[i] * 2
        return ib.get()

    A = te.placeholder((5,), "int32", "A")
    B = te.extern((5,), [A], doubled_until, name="B", dtype="int32")
    a, b = np.array([1, 3, 99, 100, 50], "int32"), np.zeros(5, "int32")
    for target in ("llvm", "interpret"):
        tw.build(te.create_schedule(B.op), [A, B], target=target)(a, b)
        assert b.tolist() == [128, 192, 198, 100, 100]


@te.hybrid.script
def _steps(limits: Any) -> Any:
    taken = output_tensor(limits.shape, "int32")
    for i in range(limits.shape[0]):
        value = 0.0
        count = 0
        for _ in range(1000):
            if value > limits[i]:
                break
            value = value + 1.0
            count = count + 1
        taken[i] = count
    return taken


@pytest.mark.parametrize("extent", [1, 7, 8, 37])
def test_vectors_leave_a_loop_when_their_last_lane_has(extent: int) -> None:
    limits = np.random.default_rng(extent).integers(-2, 90, extent).astype("float32")
    A = te.placeholder((extent,), name="A")
    B = _steps(A)
    s = te.create_schedule(B.op)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        s[B].vectorize(s[B].split(B.op.axis[0], 4)[1])
    f, taken = tw.build(s, [A, B]), np.zeros(extent, "int32")
    f(limits, taken)
    np.testing.assert_array_equal(taken, np.clip(limits + 1, 0, 1000).astype("int32"))
    if extent == 8:
        assert re.search(r"while .*not left\.\d\[(int64\()?3\)?\]", f.source("ir")), "each lane is asked"
