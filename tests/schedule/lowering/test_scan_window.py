"""The states of a scan that are kept: as many steps as are read, of which nobody notices but the memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.ir.stmt import Allocate
from tilewright.ir.visit import walk

STEPS, N = 13, 7


class Recurrence:
    """state[t, i] of `update(state, X, t, i)`, after `first` steps that are X's. steps: how many there are, a number or "T"."""

    def __init__(self, update: Callable[..., Any], first: int = 1, steps: Any = STEPS, n: Any = N) -> None:
        self.steps, self.n = (te.var(name) if isinstance(name, str) else name for name in (steps, n))
        shape = self.steps, self.n
        self.x, state = te.placeholder(shape, name="X"), te.placeholder(shape, name="state")
        self.first = te.compute((first, self.n), lambda t, i: self.x[t, i], name="first")
        self.update = te.compute(shape, lambda t, i: update(state, self.x, t, i), name="update")
        self.all = te.scan(self.first, self.update, state, inputs=[self.x], name="states")

    def read(self, *back: int) -> te.Tensor:
        """The sum of the states so many steps before the end."""
        last, *others = back
        return te.compute(
            (self.n,), lambda i: sum((self.all[self.steps - b, i] for b in others), self.all[self.steps - last, i])
        )


def kept(s: te.Schedule, args: list[Any], name: str = "states") -> str:
    """The steps for which there is memory."""
    (buffer,) = (
        node.buffer for node in walk(tw.lower(s, args).body) if isinstance(node, Allocate) and node.buffer.name == name
    )
    return str(buffer.shape[0])


def check(
    r: Recurrence, out: te.Tensor, steps: str, schedule: Callable[[te.Schedule], Any] = lambda s: None, **target: Any
) -> None:
    """So many steps are kept, and the result has the bits of a program whose states are an argument."""
    s = te.create_schedule(out.op)
    schedule(s)
    assert kept(s, [r.x, out]) == steps
    x = np.random.default_rng(1).standard_normal((STEPS, N)).astype("float32")
    got, whole, states = np.empty(N, "float32"), np.empty(N, "float32"), np.empty((STEPS, N), "float32")
    tw.build(s, [r.x, out], **target)(x, got)
    full = te.create_schedule([out.op, r.all.op])
    tw.build(full, [r.x, r.all, out], target="interpret")(x, states, whole)
    np.testing.assert_array_equal(got, whole)


def decay(state: Any, x: Any, t: Any, i: Any) -> Any:
    return state[t - 1, i] * 0.5 + x[t, i]


def fibonacci(state: Any, x: Any, t: Any, i: Any) -> Any:
    return state[t - 1, i] * 0.5 - state[t - 2, i] + x[t, i]


def heat(state: Any, x: Any, t: Any, i: Any) -> Any:
    return state[t - 1, te.max(i - 1, 0)] + state[t - 1, te.min(i + 1, N - 1)] * 0.25 + x[t, i]


@pytest.mark.parametrize(
    ("update", "first", "read", "steps"),
    [
        (decay, 1, (1,), "2"),
        (decay, 1, (1, 2), "2"),
        (decay, 1, (3,), "3"),
        (fibonacci, 2, (1,), "3"),
        (heat, 1, (1,), "2"),
        (decay, 4, (1,), "4"),
        (lambda s, x, t, i: s[t - 5, i] + x[t, i], 5, (1,), "6"),
        (decay, 1, (13,), "13"),
        (decay, 1, (12,), "12"),
        (lambda s, x, t, i: s[0, i] + s[t - 1, i] + x[t, i], 1, (1,), "13"),
        (lambda s, x, t, i: s[te.max(t - 3, 0), i] + x[t, i], 1, (1,), "4"),
        (lambda s, x, t, i: s[te.if_then_else(x[t, i] > 0, t - 1, 0), i] + x[t, i], 1, (1,), "13"),
    ],
)
def test_as_many_steps_are_kept_as_are_read(update: Any, first: int, read: tuple[int, ...], steps: str) -> None:
    r = Recurrence(update, first)
    check(r, r.read(*read), steps, target="interpret")


def test_symbolic_times() -> None:
    r = Recurrence(fibonacci, 2, "T", "n")
    check(r, r.read(1, 2), "3")
    out = Recurrence(decay, 1, "T", "n")
    last = out.read(1)
    f = tw.build(te.create_schedule(last.op), [out.x, last])
    x, got = np.ones((1, 3), "float32"), np.empty(3, "float32")
    f(x, got)  # fewer steps than are kept
    np.testing.assert_array_equal(got, x[0])


def test_what_is_passed_or_read_whole_is_kept_whole() -> None:
    r = Recurrence(decay)
    total = te.compute((N,), lambda i: te.sum(r.all[(t := te.reduce_axis((0, STEPS))), i], axis=t))
    assert kept(te.create_schedule(total.op), [r.x, total]) == str(STEPS)
    last = r.read(1)
    function = tw.lower(te.create_schedule([last.op, r.all.op]), [r.x, last, r.all])
    assert not any(isinstance(node, Allocate) for node in walk(function.body))
    begin = te.compute((N,), lambda i: r.all[STEPS - 1, i] + r.all[0, i])
    assert kept(te.create_schedule(begin.op), [r.x, begin]) == str(STEPS)


@pytest.mark.parametrize(
    "scheduled", ["parallel", "vectorized", "split time", "with a stage between", "at the consumer"]
)
def test_scheduled_steps(scheduled: str) -> None:
    r = Recurrence(heat if scheduled != "at the consumer" else decay)
    out = r.read(1)

    def schedule(s: te.Schedule) -> None:
        i = r.update.op.axis[1]
        if scheduled == "parallel":
            s[r.update].parallel(i)
        elif scheduled == "vectorized":
            s[r.update].vectorize(s[r.update].split(i, 4)[1])
        elif scheduled == "split time":
            s[r.all].split(r.all.op.scan_axis, 5)
        elif scheduled == "with a stage between":
            s.cache_write(r.update, "local")
        else:
            s[r.all].compute_at(s[out], s[out].split(out.op.axis[0], 3)[0])

    check(r, out, "2", schedule)


def test_each_of_several_states_keeps_its_own() -> None:
    shape = STEPS, N
    x = te.placeholder(shape, name="X")
    a, b = te.placeholder(shape, name="a"), te.placeholder(shape, name="b")
    first = [te.compute((2, N), lambda t, i: x[t, i], name=name) for name in ("first_a", "first_b")]
    next_a = te.compute(shape, lambda t, i: b[t - 2, i] + x[t, i], name="next_a")
    next_b = te.compute(shape, lambda t, i: next_a[t, i] * 0.5 + b[t - 1, i], name="next_b")
    both = te.scan(first, [next_a, next_b], [a, b], inputs=[x], name="both")
    out = te.compute((N,), lambda i: both[0][STEPS - 1, i] + both[1][STEPS - 1, i])
    s = te.create_schedule(out.op)
    assert kept(s, [x, out], "both.v0") == "2" and kept(s, [x, out], "both.v1") == "3"
    given, got, whole = (
        np.random.default_rng(2).random(shape, "float32"),
        np.empty(N, "float32"),
        np.empty(N, "float32"),
    )
    tw.build(s, [x, out])(given, got)
    tw.build(te.create_schedule([out.op, both[0].op]), [x, *both, out], target="interpret")(
        given, np.empty(shape, "float32"), np.empty(shape, "float32"), whole
    )
    np.testing.assert_array_equal(got, whole)
