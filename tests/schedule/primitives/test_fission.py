"""fission: a loop of a script around several statements as several loops after each other."""

from __future__ import annotations

from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.schedule.model.hybrid_errors import HybridLoopCarries, HybridLoopsApart
from tilewright.schedule.primitives.fission import can_part
from tilewright.te.hybrid import output_tensor, script


def statements(n: int, far: tuple[int, int, int, int]) -> Any:
    """A script of a loop around three statements that take from each other, elements so far apart."""
    a, b, c, d = far

    @script
    def several(A):  # pyright: ignore[reportMissingParameterType, reportUnknownParameterType]
        x = output_tensor((n + 6,), "float32")
        y = output_tensor((n + 6,), "float32")
        for j in range(n):
            t = A[j] + y[j + a]
            u = A[j]
            x[j + 3] = t
            for k in range(3):
                y[j + b] = y[j + b] + x[j + c] * A[k]
                u = u + t
            x[j + d] = x[j + d] + u
        return x, y

    return several


def run(s: Any, args: list[te.Tensor], values: np.ndarray) -> list[np.ndarray]:
    outs = [np.empty([int(str(extent)) for extent in tensor.shape], "float32") for tensor in args[1:]]
    tw.build(s, args, target="interpret")(values, *outs)
    return outs


def test_drawn_loops_have_the_values_of_the_script_however_often_they_are_parted() -> None:
    parted = 0
    for case in range(drawn.count(25, 600)):
        rng = drawn.rng("fission", case)
        n, far = int(rng.choice((1, 2, 5, 9))), rng.integers(0, 7, 4)
        A = te.placeholder((n + 3,), name="A")
        x, y = statements(n, (int(far[0]), int(far[1]), int(far[2]), int(far[3])))(A)
        s = te.create_schedule(x.op)
        axis = next(axis for axis in s[x].leaf_iter_vars if axis.name == "j")
        values = rng.integers(-3, 4, n + 3).astype("float32")
        if not can_part(s[x], axis):
            with pytest.raises(HybridLoopCarries, match="cannot part 'j'"):
                s[x].fission(axis)
            continue
        axes = s[x].fission(axis)
        parted += len(axes) - 1
        assert s.is_exact and all(each in s[x].leaf_iter_vars for each in axes)
        want, got = (run(each, [A, x, y], values) for each in (te.create_schedule(x.op), s))
        assert all(map(np.array_equal, want, got)), far
        assert str(te.Schedule.replay(s.trace, [x])) == str(s)
    assert parted


def product(n: int = 5) -> tuple[te.Tensor, te.Tensor]:
    @script
    def multiply(A):  # pyright: ignore[reportMissingParameterType, reportUnknownParameterType]
        c = output_tensor((n, n), "float32")
        for i in range(n):
            for j in range(n):
                c[i, j] = 1.0
                for k in range(i + 1):
                    c[i, j] = c[i, j] + A[i, k] * A[k, j]
        return c

    A = te.placeholder((n, n), name="A")
    return A, multiply(A)


def test_parted_loops_may_change_places() -> None:
    A, c = product()
    s = te.create_schedule(c.op)
    _, j = s[c].fission(next(axis for axis in s[c].leaf_iter_vars if axis.name == "j"))
    (k,) = (axis for axis in s[c].leaf_iter_vars if axis.name == "k")
    s[c].reorder(k, j)
    values = np.arange(25, dtype="float32").reshape(5, 5)
    want, got = (run(each, [A, c], values)[0] for each in (te.create_schedule(c.op), s))
    assert np.array_equal(want, got)
    scope: dict[str, Any] = {"s": te.create_schedule(c.op), "te": te, "ops": [c.op]}
    exec(s.as_python(), scope)
    assert str(scope["s"]) == str(s)


@pytest.mark.parametrize("kind", ["one statement", "split", "compute"])
def test_other_loops_are_refused(kind: str) -> None:
    _, c = product()
    if kind == "compute":
        c = te.compute((4,), lambda i: i * 2, name="c")
    s = te.create_schedule(c.op)
    axis = s[c].leaf_iter_vars[-1] if kind == "one statement" else s[c].leaf_iter_vars[0]
    if kind == "split":
        axis, _ = s[c].split(next(axis for axis in s[c].leaf_iter_vars if axis.name == "j"), 2)
    with pytest.raises(HybridLoopsApart, match="cannot part"):
        s[c].fission(axis)
