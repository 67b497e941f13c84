"""Stages that read the same large tensor share loops by rule, in every way without a changed bit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.autoschedule.plan import Candidate, cheapest
from tilewright.autoschedule.scheduler import schedule

HASWELL = "llvm -mcpu=haswell"
ROWS, COLUMNS = 1201, 1409  # 6.5 MiB, beyond the second cache of any machine
SIDE = 1300


def rows() -> tuple[list[Any], list[Any]]:
    """Two statistics of the rows of a matrix."""
    A = te.placeholder((ROWS, COLUMNS), name="A")
    k, m = te.reduce_axis((0, COLUMNS), "k"), te.reduce_axis((0, COLUMNS), "m")
    return [A], [
        te.compute((ROWS,), lambda i: te.sum(A[i, k], axis=k), "total"),
        te.compute((ROWS,), lambda i: te.sum(A[i, m] * A[i, m], axis=m), "squares"),
    ]


def columns() -> tuple[list[Any], list[Any]]:
    """Two of its columns."""
    A = te.placeholder((ROWS, COLUMNS), name="A")
    k, m = te.reduce_axis((0, ROWS), "k"), te.reduce_axis((0, ROWS), "m")
    return [A], [
        te.compute((COLUMNS,), lambda j: te.sum(A[k, j], axis=k), "total"),
        te.compute((COLUMNS,), lambda j: te.sum(A[m, j] * A[m, j], axis=m), "squares"),
    ]


def stencils() -> tuple[list[Any], list[Any]]:
    """Differences along both axes, and what is computed of one of them."""
    A = te.placeholder((ROWS, COLUMNS), name="A")
    down = te.compute((ROWS - 1, COLUMNS - 1), lambda i, j: A[i + 1, j] - A[i, j], "down")
    along = te.compute((ROWS - 1, COLUMNS - 1), lambda i, j: A[i, j + 1] - A[i, j], "along")
    third = te.compute((ROWS - 1, COLUMNS - 1), lambda i, j: down[i, j] + A[i, j], "third")
    return [A], [down, along, third]


def taking(way: int) -> Any:
    """A chooser that takes this way wherever siblings have one."""

    def chooser(name: str, candidates: Sequence[Candidate]) -> int:
        return min(way, len(candidates) - 1) if name.startswith("siblings") else cheapest(name, candidates)

    return chooser


@pytest.mark.parametrize("program", [rows, columns, stencils])
def test_every_way_has_the_bits_of_the_program(program: Any) -> None:
    inputs, outputs = program()
    a = np.random.default_rng(5).standard_normal((ROWS, COLUMNS)).astype("float32")

    def run(s: Any) -> list[np.ndarray]:
        results = [np.empty([int(extent) for extent in out.shape], "float32") for out in outputs]
        tw.build(s, [*inputs, *outputs])(a, *results)
        return results

    expected = run(te.create_schedule([out.op for out in outputs]))
    shared = 0
    for way in (0, 1):
        s = schedule(outputs, HASWELL, exact=True, chooser=taking(way))
        assert s.is_exact
        shared += sum(stage.attach_type == "with" for stage in s.stages)
        for one, other in zip(expected, run(s), strict=True):
            assert one.tobytes() == other.tobytes()
    assert shared, "some loops are shared"


def test_the_plan_tells_what_was_shared_among_what() -> None:
    _, (total, squares) = rows()
    s = tw.autoschedule.schedule([total, squares], HASWELL)
    decision = s.plan[-1]
    assert (decision.rule, decision.anchor, decision.fused) == ("siblings", "squares", ("total",))
    assert decision.description.startswith("in the loops of total down to i")
    assert [text for text, _ in decision.candidates][-1] == "apart"
    assert s[squares].attach_type == "with" and s[squares].attach_stage is s[total]
    again = te.Schedule.replay(s.records, [total.op, squares.op])
    assert str(again) == str(s)


def test_those_whose_sums_have_no_registers_together_share_outer_loops_alone() -> None:
    A, b, c = (
        te.placeholder((SIDE, SIDE), name="A"),
        te.placeholder((SIDE,), name="b"),
        te.placeholder((SIDE,), name="c"),
    )
    k, m = te.reduce_axis((0, SIDE), "k"), te.reduce_axis((0, SIDE), "m")
    u = te.compute((SIDE,), lambda i: te.sum(A[i, k] * b[k], axis=k), "u")
    v = te.compute((SIDE,), lambda i: te.sum(A[i, m] * c[m], axis=m), "v")
    decision = schedule([u, v], HASWELL).plan[-1]
    assert decision.rule == "siblings" and not any(", and of" in text for text, _ in decision.candidates), (
        "24 sums, 16 registers"
    )


def test_what_is_small_and_what_depends_on_each_other_stays_apart() -> None:
    def rules(outputs: Any) -> list[str]:
        return [row.rule for row in schedule(outputs, HASWELL).plan]

    A = te.placeholder((30, 40), name="A")
    assert "siblings" not in rules([te.compute((30, 40), lambda i, j, by=by: A[i, j] * by, f"B{by}") for by in (2, 3)])
    X = te.placeholder((SIDE, SIDE), name="X")
    k, m = te.reduce_axis((0, SIDE), "k"), te.reduce_axis((0, SIDE), "m")
    first = te.compute((SIDE,), lambda i: te.sum(X[i, k], axis=k), "first")
    second = te.compute((SIDE,), lambda i: te.sum(X[i, m] * first[0], axis=m), "second")
    assert "siblings" not in rules([first, second])


def test_units_that_depend_on_each_other_do_not_merge() -> None:
    X = te.placeholder((SIDE, SIDE), name="X")
    k, m = te.reduce_axis((0, SIDE), "k"), te.reduce_axis((0, SIDE), "m")
    total = te.compute((SIDE,), lambda i: te.sum(X[i, k], axis=k), "total")
    most = te.compute((SIDE,), lambda i: te.max(X[i, m], axis=m), "most")
    less = te.compute((SIDE, SIDE), lambda i, j: X[i, j] - total[j], "less")
    near = te.compute((SIDE, SIDE), lambda i, j: X[i, j] - most[j], "near")
    outputs = [total, less, near, most]
    s = schedule(outputs, HASWELL, chooser=taking(0))
    partners = {
        stage.name: stage.attach_stage.name
        for stage in s.stages
        if stage.attach_type == "with" and stage.attach_stage is not None and stage.is_output
    }
    assert partners == {"most": "total", "near": "less"}
    x = np.random.default_rng(1).standard_normal((SIDE, SIDE)).astype("float32")
    results = [np.empty([int(extent) for extent in out.shape], "float32") for out in outputs]
    tw.build(s, [X, *outputs])(x, *results)
    np.testing.assert_allclose(results[1], x - results[0], rtol=1e-6)
    np.testing.assert_allclose(results[2], x - x.max(1), rtol=1e-6)
