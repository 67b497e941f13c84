"""A schedule can be printed after every primitive, and copied in every way that Python has."""

from __future__ import annotations

import copy
from collections.abc import Callable

import drawn
import pytest
from tilewright import te
from tilewright.base.errors import ScheduleError
from tilewright.ir.structural import equal
from tilewright.ir.text.parser import parse
from tilewright.schedule.lowering.lower import lower
from tilewright.schedule.lowering.text import all_arguments


def program() -> tuple[te.Schedule, list[te.Tensor]]:
    n, scale = te.var("n"), te.var("scale", "float32")
    A, W = te.placeholder((12, n), name="A"), te.placeholder((n, 10), name="W")
    B = te.compute((12, n), lambda i, j: A[i, j] * scale, name="B")
    k = te.reduce_axis((0, n), "k")
    C = te.compute((12, 10), lambda i, j: te.sum(B[i, k] * W[k, j], axis=k), name="C")
    D = te.compute((12, 10), lambda i, j: te.max(C[i, j], 0.0), name="D")
    E = te.compute((11,), lambda i: C[i, 0] + C[i + 1, 1], name="E")
    return te.create_schedule([D, E]), [B, C, D, E]


def is_shown(s: te.Schedule) -> str:
    """What str(s) is: "loops" (text that reads back to the lowered function), or "open"."""
    shown = str(s)
    if "\nopen: " in "\n" + shown:
        assert shown.startswith("stage "), shown
        return "open"
    name = shown[len("def ") :].partition("(")[0].partition("[")[0]
    lowered = lower(s, all_arguments(s), name)
    assert equal(parse(shown), lowered.with_attrs(stage="loops")) or equal(
        parse(shown).with_attrs(stage="loops"), lowered
    ), shown
    return "loops"


def test_drawn_schedules_print_after_every_primitive() -> None:
    seen = {"loops": 0, "open": 0}
    for case in range(drawn.count(20, 1000)):
        rng = drawn.rng("schedule view", case)
        s, tensors = program()
        for _ in range(8):
            stage, other = (s[tensors[rng.integers(len(tensors))]] for _ in range(2))
            leaves, theirs = stage.leaf_iter_vars, other.leaf_iter_vars
            axis, at = leaves[rng.integers(len(leaves))], theirs[rng.integers(len(theirs))]
            choices: list[Callable[[], object]] = [
                lambda st=stage, a=axis: st.split(a, int(rng.integers(1, 6))),
                lambda st=stage, a=axis: st.parallel(a),
                lambda st=stage, a=axis: st.vectorize(a),
                lambda st=stage, o=other, a=at: st.compute_at(o, a),
                lambda st=stage: st.compute_inline(),
                lambda st=stage: st.compute_root(),
                lambda st=stage, ls=leaves: st.reorder(*reversed(ls)),
                lambda st=stage, ls=leaves: st.fuse(*ls[:2]),
                lambda st=stage: s.cache_write(st.op.output(0), "local"),
            ]
            try:
                choices[rng.integers(len(choices))]()
            except ScheduleError:
                continue
            seen[is_shown(s)] += 1
    assert min(seen.values()) > 0, seen


def test_an_input_that_is_an_output_is_listed_once() -> None:
    A = te.placeholder((4,), name="A")
    assert str(te.create_schedule(A)) == "def A(A: float32[4]):\n    pass"
    B = te.compute((4,), lambda i: A[i] + 1, name="B")
    assert str(te.create_schedule([A, B])).startswith("def A_B(A: float32[4], B: out float32[4]):\n    for i in 4:")


@pytest.mark.parametrize("copied", [te.Schedule.copy, copy.copy, copy.deepcopy])
def test_a_copy_goes_its_own_way(copied: Callable[[te.Schedule], te.Schedule]) -> None:
    s, (B, C, D, _) = program()
    s[B].compute_at(s[C], C.op.axis[0])
    before = str(s)
    made = copied(s)
    assert str(made) == before
    made[D].vectorize(made[D].split(D.op.axis[1], 5)[1])
    made[B].compute_inline()
    assert made[C].attach_stage is None
    assert str(s) == before != str(made)
    assert (len(s.trace), len(made.trace)) == (1, 4)
    assert made[B].schedule is made
    assert s[B].attach_stage is s[C]
