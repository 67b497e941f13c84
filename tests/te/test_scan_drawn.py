"""Drawn recurrences under drawn schedules, time split and turned among them, interpreted and as machine code, against numpy."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import drawn
import numpy as np
import tilewright as tw
from tilewright import te
from tilewright.ir.interpret.interpreter import run as interpret
from tilewright.ir.verify import verify
from tilewright.schedule.lowering.errors import (
    ConsumerOutsideAttach,
    NestedParallelLoops,
    OutsideOfScan,
    ReadsOtherSteps,
)

LAST = {
    "same": lambda i, n: i,
    "turned": lambda i, n: n - 1 - i,
    "next": lambda i, n: (i + 1) % n,
    "first": lambda i, n: i - i,
}
"""How a step reads the last dimension of a state."""


class Drawn:
    """A recurrence: state[t, ..., i] = state[t - near, ..., last(i)] + (the step's other stage, of t - lag) - X[t, ..., i]."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.symbolic = bool(rng.integers(2))
        self.first = int(rng.integers(1, 5))
        self.shape = (int(rng.integers(self.first, 12)), *map(int, rng.integers(1, 7, size=rng.integers(1, 3))))
        self.lag = int(rng.integers(1, self.first + 1))
        self.near = self.lag if rng.integers(2) else 1
        self.last, self.other = (str(rng.choice(list(LAST))) for _ in range(2))
        self.sums, self.two = bool(rng.integers(2)), bool(rng.integers(2))
        self._declare()

    def _declare(self) -> None:
        shape: tuple[Any, ...] = (
            tuple(te.size_var(f"n{at}") for at in range(len(self.shape))) if self.symbolic else self.shape
        )
        n = shape[-1]
        self.X = te.placeholder(shape, "int32", "X")
        state, second = te.placeholder(shape, "int32", "state"), te.placeholder(shape, "int32", "second")
        init = te.compute((self.first, *shape[1:]), lambda *i: self.X[i] * 2, name="init")

        def at(tensor: te.Tensor, i: tuple[Any, ...], how: str, back: int) -> Any:
            return tensor[(i[0] - back, *i[1:-1], LAST[how](i[-1], n))]

        k = te.reduce_axis((0, n), "k")
        between = te.compute(
            shape,
            lambda *i: (
                te.sum(state[(i[0] - self.lag, *i[1:-1], k)], axis=k)
                if self.sums
                else at(state, i, self.other, self.lag) * 3
            ),
            name="between",
        )
        update = te.compute(
            shape, lambda *i: at(state, i, self.last, self.near) + between[i] - self.X[i], name="update"
        )
        self.stages = [init, between, update]
        if self.two:
            also = te.compute(
                shape, lambda *i: second[(i[0] - self.near, *i[1:])] - at(update, i, self.other, 0), name="also"
            )
            begin = te.compute((self.first, *shape[1:]), lambda *i: self.X[i], name="begin")
            self.stages += [also, begin]
            self.results = te.scan([init, begin], [update, also], [state, second], inputs=[self.X], name="S")
        else:
            self.results = [te.scan(init, update, state, inputs=[self.X], name="S")]
        self.state = state

    def expected(self, x: np.ndarray) -> list[np.ndarray]:
        n = self.shape[-1]
        pick = {name: np.array([how(i, n) for i in range(n)], int) for name, how in LAST.items()}
        state, second = x * 2, x.copy()
        for t in range(self.first, len(x)):
            old = state[t - self.lag]
            between = (
                np.broadcast_to(old.sum(-1, keepdims=True), old.shape) if self.sums else 3 * old[..., pick[self.other]]
            )
            state[t] = state[t - self.near][..., pick[self.last]] + between - x[t]
            second[t] = second[t - self.near] - state[t][..., pick[self.other]]
        return [state.astype("int32"), second.astype("int32")][: len(self.results)]

    def schedule(self) -> Any:
        """Some primitives on the stages of the step, those that do not fit left out."""
        s, rng = te.create_schedule(self.results[0].op), self.rng
        _, between, update = self.stages[:3]
        scan = s[self.results[0]]
        moves = [
            lambda: scan.reorder(*(scan.leaf_iter_vars[at] for at in rng.permutation(len(scan.leaf_iter_vars)))),
            lambda: (s[between] if rng.integers(2) else s[update]).compute_at(
                scan, scan.leaf_iter_vars[int(rng.integers(len(scan.leaf_iter_vars)))]
            ),
            lambda: s[between].compute_inline(),
            lambda: s.cache_read(self.state, "local", [between]),
            lambda: s.cache_write(update, "local"),
            lambda: s[between].compute_at(
                s[update], s[update].leaf_iter_vars[int(rng.integers(len(s[update].leaf_iter_vars)))]
            ),
            lambda: s.cache_read(self.X, "local", [update]),
        ]
        for _ in range(int(rng.integers(0, 3))):
            axis = scan.leaf_iter_vars[int(rng.integers(len(scan.leaf_iter_vars)))]
            scan.split(axis, int(rng.choice([2, 3, self.lag])))
        for at in rng.permutation(len(moves))[: rng.integers(0, 4)]:
            attempted(moves[at])
        for stage in s.stages:
            for _ in range(int(rng.integers(0, 3))):
                loops = stage.leaf_iter_vars
                if stage.op.kind != "compute" or not loops:
                    break
                axis = loops[int(rng.integers(len(loops)))]
                kind = str(rng.choice(["split", "reorder", "parallel", "fuse"] + ["unroll"] * (not self.symbolic)))
                if kind == "split":
                    attempted(lambda stage=stage, axis=axis: stage.split(axis, int(rng.integers(1, 5))))
                elif kind == "reorder":
                    attempted(
                        lambda stage=stage: stage.reorder(
                            *(stage.leaf_iter_vars[at] for at in rng.permutation(len(stage.leaf_iter_vars)))
                        )
                    )
                elif kind == "fuse":
                    attempted(lambda stage=stage: stage.fuse(*stage.leaf_iter_vars[:2]))
                else:
                    attempted(lambda stage=stage, axis=axis, kind=kind: getattr(stage, kind)(axis))
        return s


def attempted(move: Any) -> None:
    with suppress(tw.ScheduleError):
        move()


def check(case: int, machine_code: bool) -> None:
    program = Drawn(drawn.rng("scans", case))
    s = program.schedule()
    message = f"TILEWRIGHT_SEED={drawn.SEED}, case {case}: {program.__dict__}\n{s}\n{s.as_python()}"
    args = [program.X, *program.results]
    x = program.rng.integers(-3, 4, size=program.shape).astype("int32")
    wanted = program.expected(x)
    try:
        function = tw.lower(s, args)
    except (ConsumerOutsideAttach, OutsideOfScan, ReadsOtherSteps, NestedParallelLoops):
        return  # placed where a reader or an earlier step is not, or parallel within what is parallel
    verify(function, "loops")
    made = [np.full_like(one, 77) for one in wanted]
    interpret(function, [x, *made])
    for got, one in zip(made, wanted, strict=True):
        np.testing.assert_array_equal(got, one, err_msg=message)
    assert str(te.Schedule.replay(s.records, program.results[0].op)) == str(s), message
    if machine_code:
        made = [np.full_like(one, 77) for one in wanted]
        tw.build(s, args)(x, *made)
        for got, one in zip(made, wanted, strict=True):
            np.testing.assert_array_equal(got, one, err_msg=message)


def test_drawn_scans() -> None:
    print(f"TILEWRIGHT_SEED={drawn.SEED}")
    for case in range(drawn.count(40, 3000)):
        check(case, case % 4 == 0)
