"""Loops over time change places where each step still follows those that it reads, and only there."""

from __future__ import annotations

from itertools import product
from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.schedule.errors import ScanLoopsStay
from tilewright.schedule.lowering.errors import OutsideOfScan, ReadsOtherSteps

N = 5


class Recurrence:
    """state[t, i] = sum over k of state[t - lag, k] * W[k, i], and + X[t, i]; the sum is a stage of its own."""

    def __init__(self, steps: int, lag: int) -> None:
        self.x, self.w = te.placeholder((steps, N), "int32", "X"), te.placeholder((N, N), "int32", "W")
        state, k = te.placeholder((steps, N), "int32", "state"), te.reduce_axis((0, N), "k")
        first = te.compute((lag, N), lambda t, i: self.x[t, i], name="first")
        self.sums = te.compute((steps, N), lambda t, i: te.sum(state[t - lag, k] * self.w[k, i], axis=k), name="sums")
        self.update = te.compute((steps, N), lambda t, i: self.sums[t, i] + self.x[t, i], name="update")
        self.all = te.scan(first, self.update, state, inputs=[self.x], name="S")
        self.steps, self.lag, self.time = steps, lag, self.all.op.axis[0]
        self.s = te.create_schedule(self.all.op)

    def check(self, target: str = "interpret") -> None:
        rng = np.random.default_rng(self.steps)
        x, w = rng.integers(-9, 9, (self.steps, N), "int32"), rng.integers(-3, 3, (N, N), "int32")
        wanted, got = x.copy(), np.empty_like(x)
        for t in range(self.lag, self.steps):
            wanted[t] = wanted[t - self.lag] @ w + x[t]
        tw.build(self.s, [self.x, self.w, self.all], target=target)(x, w, got)
        np.testing.assert_array_equal(got, wanted, err_msg=str(self.s))


def in_order(ranges: list[range], weights: list[int], bounds: list[tuple[list[int], int]], lag: int) -> bool:
    """Whether loops of such ranges and weights compute each step after the one that is `lag` before it. bounds: which loops
    together stay below what."""
    computed: set[int] = set()
    for at in product(*ranges):
        if all(sum(at[loop] * weights[loop] for loop in loops) < end for loops, end in bounds):
            step = sum(place * weight for place, weight in zip(at, weights, strict=True))
            if step >= lag and step - lag not in computed:
                return False
            computed.add(step)
    return True


def test_drawn_orders_are_refused_where_a_step_would_come_before_what_it_reads() -> None:
    held = 0
    for case in range(drawn.count(50, 3000)):
        rng = drawn.rng("orders of time", case)
        lag, steps = int(rng.integers(1, 9)), int(rng.integers(9, 40))
        r = Recurrence(steps, lag)
        count, outer_size, inner_size = (
            steps - lag,
            int(rng.choice([2, 3, 4, 6, lag, 2 * lag])),
            int(rng.integers(1, 5)),
        )
        outer, inner = r.s[r.all].split(r.time, outer_size)
        middle, inner = r.s[r.all].split(inner, inner_size)
        tile = min(outer_size, count)
        unit = min(inner_size, tile)
        ranges, weights = [range(-(-count // tile)), range(-(-tile // unit)), range(unit)], [tile, unit, 1]
        order = [int(at) for at in rng.permutation(3)]
        places = [order.index(loop) for loop in range(3)]
        right = in_order(
            [ranges[at] for at in order], [weights[at] for at in order], [(places, count), (places[1:], tile)], lag
        )
        before = list(r.s[r.all].leaf_iter_vars)
        try:
            r.s[r.all].reorder(*([outer, middle, inner][at] for at in order))
        except ScanLoopsStay:
            assert list(r.s[r.all].leaf_iter_vars) == before
            # What no iteration comes to, since time ends before, may be refused.
            assert not right or count < 2 * tile * -(-lag // tile), f"TILEWRIGHT_SEED={drawn.SEED}, {case}: for nothing"
        else:
            assert right, f"TILEWRIGHT_SEED={drawn.SEED}, case {case}: {r.s}"
            held += order != sorted(order)
            if case % 10 == 0:
                r.check()
    assert held, f"TILEWRIGHT_SEED={drawn.SEED}"


@pytest.mark.parametrize("stage", ["sums", "update", "update, its loops turned"])
def test_what_reads_earlier_tiles_is_computed_for_a_tile_of_steps(stage: str) -> None:
    r = Recurrence(23, 4)
    outer, _ = r.s[r.all].split(r.time, 4)
    if stage == "sums":
        r.s[r.sums].compute_at(r.s[r.all], outer)
    else:
        r.s[r.update].compute_at(r.s[r.all], outer)
        r.s[r.sums].compute_at(r.s[r.update], r.update.op.axis[0])
        if "turned" in stage:
            r.s[r.update].reorder(*reversed(r.update.op.axis))
    for target in ("interpret", "llvm"):
        r.check(target)


def test_what_reads_steps_of_its_own_tile_is_refused() -> None:
    r = Recurrence(23, 3)
    outer, inner = r.s[r.all].split(r.time, 4)
    r.s[r.sums].compute_at(r.s[r.all], outer)
    with pytest.raises(
        ReadsOtherSteps, match=r"(?s)TW0348.*steps.*fix: s\[sums\].compute_root\(\) computes it in each step"
    ):
        tw.lower(r.s, [r.x, r.w, r.all])
    with pytest.raises(
        ScanLoopsStay, match=r"(?s)TW0261.*sums reads state\[t - 3, k\], 3 steps before its own.*would come later"
    ):
        r.s[r.all].reorder(inner, outer)


def test_drawn_loops_over_tiles_of_steps_compute_what_the_steps_do() -> None:
    taken = refused = 0
    for case in range(drawn.count(24, 400)):
        rng = drawn.rng("loops over tiles of steps", case)
        steps, n, lag = int(rng.integers(6, 14)), int(rng.integers(1, 12)), int(rng.integers(1, 3))
        reads = [(int(rng.integers(1, lag + 1)), int(rng.integers(-2, 3))) for _ in range(int(rng.integers(1, 4)))]
        x, state = te.placeholder((lag, n), "int32", "X"), te.placeholder((steps, n), "int32", "state")

        def step(t: Any, i: Any) -> te.Expr:
            inside = [
                te.if_then_else(te.all(i + by >= 0, i + by < n), state[t - back, i + by], 3) for back, by in reads
            ]
            return sum(inside[1:], inside[0] * 2)

        update = te.compute((steps, n), step, name="update")
        S = te.scan(te.compute((lag, n), lambda t, i: x[t, i], name="first"), update, state, inputs=[x], name="S")
        given = rng.integers(-9, 9, (lag, n), "int32")
        wanted, got = np.empty((2, steps, n), "int32")
        tw.build(te.create_schedule(S.op), [x, S], target="interpret")(given, wanted)
        s = te.create_schedule(S.op)
        outer, _ = s[S].split(S.op.axis[0], int(rng.integers(1, 9)))
        s[update].compute_at(s[S], outer)
        t, i = update.op.axis
        loops = [t, s[update].skew(i, t, int(rng.integers(1, 4))) if rng.random() < 0.7 else i]
        if rng.random() < 0.5:
            at = int(rng.integers(2))
            loops[at : at + 1] = s[update].split(loops[at], int(rng.integers(2, 5)))
        loops = [loops[at] for at in rng.permutation(len(loops))]
        s[update].reorder(*loops)
        if rng.random() < 0.5:
            s[update].parallel(loops[int(rng.integers(len(loops)))])
        try:
            f = tw.build(s, [x, S], target=str(rng.choice(["interpret", "llvm"])))
        except ReadsOtherSteps:
            refused += 1
            continue
        taken += 1
        f(given, got)
        np.testing.assert_array_equal(got, wanted, err_msg=f"TILEWRIGHT_SEED={drawn.SEED}, case {case}: {s}")
    assert taken and refused, f"TILEWRIGHT_SEED={drawn.SEED}"


def test_steps_are_skewed_by_their_time() -> None:
    steps, n = 12, 30
    x, state = te.placeholder((n,), "int32", "X"), te.placeholder((steps, n), "int32", "state")
    update = te.compute(
        (steps, n),
        lambda t, i: te.if_then_else(te.all(i > 0, i < n - 1), state[t - 1, i - 1] - state[t - 1, i + 1], 1),
        name="update",
    )
    S = te.scan(te.compute((1, n), lambda t, i: x[i], name="first"), update, state, inputs=[x], name="S")
    for skewed, parallel in ((0, None), (1, None), (2, None), (2, "t")):  # the wavefronts of slope 2 are free of order
        s = te.create_schedule(S.op)
        outer, _ = s[S].split(S.op.axis[0], 4)
        s[update].compute_at(s[S], outer)
        t, i = update.op.axis
        loop = s[update].skew(i, t, skewed) if skewed else i
        s[update].reorder(loop, t)
        if parallel:
            s[update].parallel(t)
        if not skewed:
            with pytest.raises(ReadsOtherSteps, match=r"(?s)the loop over i would go back.*fix: .*skew\(axis, time\)"):
                tw.lower(s, [x, S])
            continue
        got, wanted = np.empty((2, steps, n), "int32")
        given = np.arange(n, dtype="int32") ** 2
        tw.build(s, [x, S])(given, got)
        tw.build(te.create_schedule(S.op), [x, S], target="interpret")(given, wanted)
        np.testing.assert_array_equal(got, wanted)


def test_tiles_of_steps_follow_each_other_only_where_time_keeps_its_order() -> None:
    r = Recurrence(23, 4)
    outer, inner = r.s[r.all].split(r.time, 4)
    r.s[r.all].reorder(inner, outer)
    r.check()
    r.s[r.sums].compute_at(r.s[r.all], inner)
    with pytest.raises(OutsideOfScan, match=r"(?s)TW0346.*s\[sums\].compute_root\(\) puts it into the step"):
        tw.lower(r.s, [r.x, r.w, r.all])


@pytest.mark.parametrize("reads", ["any step", "symbolic factor"])
def test_steps_that_are_not_known_keep_their_order(reads: str) -> None:
    x, state = te.placeholder((12,), "int32", "X"), te.placeholder((12,), "int32", "state")
    first = te.compute((2,), lambda t: x[t], name="first")

    def step(t: Any) -> te.Expr:
        return (state[te.max(t - x[0], 0)] if reads == "any step" else state[t - 2]) + 1

    update = te.compute((12,), step, name="update")
    S = te.scan(first, update, state, name="S")
    s = te.create_schedule(S.op)
    outer, inner = s[S].split(S.op.axis[0], 2 if reads == "any step" else te.size_var("size"))
    why = "not so many steps before in each step" if reads == "any step" else "not a constant"
    with pytest.raises(ScanLoopsStay, match=f"(?s)TW0261.*{why}"):
        s[S].reorder(inner, outer)
