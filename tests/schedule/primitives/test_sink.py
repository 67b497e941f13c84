"""sink: a triangle of a script with statements behind its inner loop, the inner loop outside."""

from __future__ import annotations

from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.schedule.model.hybrid_errors import HybridLoopCarries, HybridLoopsApart
from tilewright.schedule.primitives.sink import can_sink
from tilewright.te.hybrid import output_tensor, script


def elimination(n: int, far: tuple[int, ...], within: bool) -> Any:
    """A script of triangles whose steps take from each other, elements so far apart; within: of rows of as many iterations as i."""
    a, b, c, d = far

    @script
    def eliminate(A):  # pyright: ignore[reportMissingParameterType, reportUnknownParameterType]
        x = output_tensor((n + 2, n + 2), "float32")
        for i in range(n + 2):
            for j in range(n + 2):
                x[i, j] = A[i, j]
        for i in range(n):
            for j in range(i if within else n):
                for k in range(j):
                    x[i + 1, j + 1] = x[i + 1, j + 1] - x[i + a, k + b] * x[k + c, j + d]
                    x[i + 1, j + 1] = min(x[i + 1, j + 1], 9.0)
                x[i + 1, j + 1] = x[i + 1, j + 1] - x[j + a, j + b]
                x[i + 1, j + 1] = max(x[i + 1, j + 1], -9.0)
        return x

    return eliminate


def loop_of(s: Any, x: te.Tensor, name: str) -> Any:
    return next(axis for axis in s[x].leaf_iter_vars if axis.name == name)


def test_drawn_triangles_have_the_values_of_the_script() -> None:
    sunk = 0
    for case in range(drawn.count(25, 600)):
        rng = drawn.rng("sink", case)
        n, far = int(rng.choice((3, 4, 5, 8))), tuple(int(each) for each in rng.integers(0, 3, 4))
        far = (1, 1, 1, 1) if case == 0 else far
        A = te.placeholder((n + 2, n + 2), name="A")
        x = elimination(n, far, bool(case == 0 or rng.random() < 0.7))(A)
        s = te.create_schedule(x.op)
        axis = loop_of(s, x, "j_1")
        if not can_sink(s[x], axis):
            with pytest.raises(HybridLoopCarries, match="cannot sink"):
                s[x].sink(axis)
            continue
        outer, inner = s[x].sink(axis)
        sunk += 1
        assert s.is_exact and outer in s[x].leaf_iter_vars and inner in s[x].leaf_iter_vars
        values = rng.integers(-3, 4, (n + 2, n + 2)).astype("float32")
        results = [np.empty_like(values) for _ in range(2)]
        for each, result in zip((te.create_schedule(x.op), s), results, strict=True):
            tw.build(each, [A, x], target="interpret")(values, result)
        assert np.array_equal(*results), (far, n)
        assert str(te.Schedule.replay(s.trace, [x])) == str(s)
    assert sunk


def test_other_loops_are_refused() -> None:
    A = te.placeholder((7, 7), name="A")
    x = elimination(5, (1, 1, 1, 1), True)(A)
    s = te.create_schedule(x.op)
    for name in ("i_1", "k", "j"):
        with pytest.raises(HybridLoopsApart, match="cannot sink"):
            s[x].sink(loop_of(s, x, name))


@script
def around_nothing(A):  # pyright: ignore[reportMissingParameterType, reportUnknownParameterType]
    x = output_tensor((5,), "float32")
    for i in range(5):
        x[i] = A[i]
    for i in range(4):
        for j in range(i):
            unused = j + j  # noqa: F841
        x[i] = x[i] + 1.0
    return x


def test_a_loop_around_nothing_is_no_triangle() -> None:
    A = te.placeholder((5,), name="A")
    x = around_nothing(A)
    values, result = np.arange(5, dtype="float32"), np.empty(5, "float32")
    tw.build([A, x])(values, result)
    np.testing.assert_array_equal(result, values + np.array([1, 1, 1, 1, 0]))
