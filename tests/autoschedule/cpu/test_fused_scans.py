"""Scans that share columns, drawn, bit for bit as declared; and those that are computed in one block."""

from __future__ import annotations

from typing import Any

import drawn
import numpy as np
import tilewright as tw
from this_machine import runnable
from tilewright import te
from tilewright.schedule.primitives.redeclare import SWEEP, offered_declarations

TARGETS = ("llvm -cores=1", "llvm -cores=3", *runnable("llvm -mcpu=haswell -cores=1"))


class Drawn:
    """Scans of each other, forward and backward along any axis, with what is computed element by element between them."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.shape = tuple(int(rng.choice([1, 2, 3, 8, 17, 33, 70, 130])) for _ in range(rng.integers(2, 4)))
        self.shape = (*self.shape[:-1], int(rng.choice([self.shape[-1], 37, 150])))
        self.symbolic = bool(rng.integers(2))
        self.extents: tuple[Any, ...] = (
            tuple(te.size_var(f"n{at}") for at in range(len(self.shape))) if self.symbolic else self.shape
        )
        self.dtype = str(rng.choice(["float32", "int32", "float64"]))
        self.x = te.placeholder(self.extents, self.dtype, "x")
        tensors, axis = [self.x], int(rng.integers(len(self.shape)))
        for _ in range(int(rng.integers(2, 6))):
            picked = tensors[int(rng.integers(max(len(tensors) - 2, 0), len(tensors)))]
            if rng.integers(3):
                axis = axis if rng.integers(3) else int(rng.integers(len(self.shape)))
                tensors.append(self._scan(picked, axis))
            else:
                tensors.append(self._combine(picked, tensors[int(rng.integers(len(tensors)))], axis))
        self.outputs = [tensors[-1], *(tensor for tensor in tensors[1:-1] if not rng.integers(6))]

    def _scan(self, x: te.Tensor, axis: int) -> te.Tensor:
        """A recurrence of one state or two along an axis, read in the order of x's dimensions."""
        extents, rng = self.extents, self.rng
        order = [axis, *(at for at in range(len(extents)) if at != axis)]
        steps, back, two = extents[axis], bool(rng.integers(2)), not rng.integers(3)
        maximum, moved = bool(rng.integers(2)), not rng.integers(4)

        def element(tensor: te.Tensor, i: tuple[Any, ...]) -> Any:
            places = dict(zip(order, (steps - 1 - i[0] if back else i[0], *i[1:]), strict=True))
            return tensor[tuple(places[at] for at in range(len(extents)))]

        turned = tuple(extents[at] for at in order)
        states = [te.placeholder(turned, self.dtype, f"state{at}") for at in range(1 + two)]
        first = [te.compute((1, *turned[1:]), lambda *i: element(x, i), f"first{at}") for at in range(1 + two)]

        def next_value(*i: Any) -> Any:
            last = states[0][(i[0] - 1, *i[1:])]
            return te.max(last, element(x, i)) if maximum else last * te.const(0.5, self.dtype) + element(x, i)

        update = [te.compute(turned, next_value, "update0")]
        if two:
            update.append(te.compute(turned, lambda *i: states[1][(i[0] - 1, *i[1:])] - update[0][i], "update1"))
        result = te.scan(first, update, states, inputs=[x], name="states")
        whole: list[te.Tensor] = list(result) if isinstance(result, (list, tuple)) else [result]

        def read(*i: Any) -> Any:
            places = (i[axis] if moved else steps - 1 - i[axis] if back else i[axis], *(i[at] for at in order[1:]))
            return sum((state[places] for state in whole[1:]), whole[0][places])

        return te.compute(extents, read, "read")

    def _combine(self, a: te.Tensor, b: te.Tensor, axis: int) -> te.Tensor:
        """An operation element by element, which may read other steps, or other columns."""
        n, place = self.extents[axis], int(self.rng.integers(len(self.extents)))
        how = int(self.rng.integers(3))

        def value(*i: Any) -> Any:
            j = list(i)
            if how == 1:
                j[axis] = n - 1 - j[axis]
            elif how == 2:
                j[place] = te.max(j[place] - 1, 0)
            return a[i] - b[tuple(j)]

        return te.compute(self.extents, value, "combined")


def test_drawn_scans_are_bit_for_bit_as_declared() -> None:
    for case in range(drawn.count(5, 4_000)):
        rng = drawn.rng("fused scans", case)
        program = Drawn(rng)
        values = rng.integers(-5, 6, program.shape).astype(program.dtype)
        if program.dtype != "int32":
            values += rng.standard_normal(program.shape).astype(program.dtype)
        target = str(rng.choice(TARGETS))
        results: list[list[bytes]] = []
        ops = list(dict.fromkeys(tensor.op for tensor in program.outputs))
        schedules = [te.create_schedule(ops), tw.autoschedule.schedule(ops, target)]
        last = program.outputs[0]
        if SWEEP in offered_declarations(schedules[0][last]):
            schedules.append(te.create_schedule(ops))
            schedules[-1].redeclare(last, SWEEP)
        for s in schedules:
            assert s.is_exact
            got = [np.full(program.shape, 77, program.dtype) for _ in program.outputs]
            tw.build(s, [program.x, *program.outputs], target=target)(values, *got)
            results.append([each.tobytes() for each in got])
        assert len(set(map(tuple, results))) == 1, (case, program.shape, target)


def test_states_and_readers_at_their_own_time_are_computed_in_one_sweep() -> None:
    x = te.placeholder((400, 600), name="x")
    first = [te.compute((1, 600), lambda _, j: x[0, j], f"first{at}") for at in range(3)]
    states = [te.placeholder(x.shape, name=f"state{at}") for at in range(3)]
    level = te.compute(x.shape, lambda t, j: 0.3 * x[t, j] + 0.7 * (states[0][t - 1, j] + states[1][t - 1, j]), "level")
    trend = te.compute(x.shape, lambda t, j: level[t, j] - states[0][t - 1, j], "trend")
    most = te.compute(x.shape, lambda t, j: te.max(states[2][t - 1, j], x[t, j]), "most")
    smooth = te.scan(first[:2], [level, trend], states[:2], inputs=[x])
    highest = te.scan(first[2], most, states[2], inputs=[x])
    y = te.compute(x.shape, lambda t, j: smooth[0][t, j] + smooth[1][t, j] - highest[t, j], "y")
    s = tw.autoschedule.schedule(y, "llvm -mcpu=haswell -cores=2", exact=True)
    assert [(row.rule, row.description) for row in s.plan if row.rule == "algorithm"] == [("algorithm", SWEEP)]
    assert [stage.op.name for stage in s.stages] == ["x", "y"] and s.is_exact
    kinds = [stage_loop.kind for stage_loop in map(s[y].attr, s[y].leaf_iter_vars)]
    assert kinds.count("parallel") == 1 and kinds.count("vectorized") == 2, "threads share columns, lanes are columns"


def test_states_of_scans_that_share_columns_are_computed_for_a_few_columns() -> None:
    x = te.placeholder((1001, 1203), name="x")
    outputs = [x]
    for back in (False, True):
        for _ in range(4 * back):  # inlined into each other, each would be computed twice as often as the next
            twice = outputs[-1]
            outputs.append(te.compute(x.shape, lambda t, j, twice=twice: twice[t, j] - twice[1000 - t, j], "folded"))
        read, state = outputs[-1], te.placeholder((1001, 1203), name="state")
        first = te.compute((1, 1203), lambda t, j, read=read, at=1000 * back: read[at, j], "first")
        update = te.compute(
            state.shape,
            lambda t, j, read=read, state=state, back=back: state[t - 1, j] * 0.7 + read[1000 - t if back else t, j],
            "update",
        )
        states = te.scan(first, update, state, inputs=[read], name="states")
        outputs.append(
            te.compute(x.shape, lambda t, j, states=states, back=back: states[1000 - t if back else t, j], "read")
        )
    s = tw.autoschedule.schedule(outputs[-1], "llvm -mcpu=haswell -cores=1")
    (row,) = s.plan
    assert row.rule == "scan" and row.fused.count("read") == 2
    stored = [stage for stage in s.stages if stage.op.is_stepwise or stage.op.name == "folded"]
    assert [stage.attach_type for stage in stored] == ["at", "at", "at", "at", "inline", "at"], "of a block of columns"


def test_a_state_that_no_step_reads() -> None:
    x, state = te.placeholder((20, 8), "int32", "x"), te.placeholder((20, 8), "int32", "state")
    first = te.compute((1, 8), lambda t, j: x[t, j], "first")
    states = te.scan(first, te.compute((20, 8), lambda t, j: x[t, j] * 3, "update"), state, inputs=[x], name="states")
    y = te.compute((20, 8), lambda t, j: states[t, j] - x[t, j], "y")
    s = te.create_schedule(y.op)
    s.redeclare(y, "sweep")
    values, result = np.arange(160, dtype="int32").reshape(20, 8), np.zeros((20, 8), "int32")
    tw.build(s, [x, y])(values, result)
    np.testing.assert_array_equal(result, np.concatenate([values[:1] * 0, values[1:] * 2]))
