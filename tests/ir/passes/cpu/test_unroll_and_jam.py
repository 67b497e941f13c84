"""Neighbouring iterations of a loop share a pass of the loop in it, where that changes no bit."""

from __future__ import annotations

from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from this_machine import runnable
from tilewright import te
from tilewright.ir.passes.cpu.scalar_promotion import INDEPENDENT
from tilewright.ir.passes.cpu.unroll_and_jam import JAM, unroll_and_jam
from tilewright.ir.stmt import For
from tilewright.ir.visit import walk
from tilewright.te.hybrid import output_tensor, script


def updates(n: int, far: tuple[int, ...], kind: str) -> Any:
    """A script: rows that take up others, which lie so far from them; `kind`: the other row is above, or any."""
    a, b, c, d = far
    above, below = kind == "above", kind == "below"

    @script
    def update(A):  # pyright: ignore[reportMissingParameterType, reportUnknownParameterType]
        x = output_tensor((n + 4, n + 4), "float32")
        y = output_tensor((n + 4, n + 4), "float32")
        for i in range(n + 4):
            for j in range(n + 4):
                x[i, j] = A[i, j]
                y[i, j] = A[j, i]
        for i in range(n):
            for k in range(i if above else n):
                for j in range(i if below else n):
                    x[i + 2, j + 2] = x[i + 2, j + 2] - A[i, k + b] * x[k + c, j + d]
                    y[k + 2, j + d] = y[k + 2, j + 2] + A[i, k] * A[i + a, j + 2]
        return x, y

    return update


def jammed(n: int, far: tuple[int, ...], kind: str) -> tuple[te.Tensor, list[te.Tensor], te.Schedule]:
    A = te.placeholder((n + 4, n + 4), name="A")
    outs = list(updates(n, far, kind)(A))
    s = te.create_schedule(outs[0].op)
    stage = s[outs[0]]
    stage.pragma(next(axis for axis in stage.leaf_iter_vars if axis.name == "k"), JAM)
    return A, outs, s


@pytest.mark.parametrize("target", runnable("llvm", "llvm -mcpu=x86-64-v2"))
def test_drawn_updates_keep_every_bit(target: str) -> None:
    for case in range(drawn.count(6, 400)):
        rng = drawn.rng(f"jam {target}", case)
        n, kind = int(rng.choice((1, 3, 4, 9, 21))), str(rng.choice(("above", "below", "any")))
        A, outs, s = jammed(n, tuple(int(each) for each in rng.integers(1, 4, 4)), kind)
        assert s.is_exact
        values = rng.choice([0.0, -0.0, 1.0, -0.5, 0.3, 0.25, -0.7], (n + 4, n + 4)).astype("float32")
        results = [[np.empty_like(values) for _ in outs] for _ in range(2)]
        for each, built, result in zip(
            (s, te.create_schedule(outs[0].op)), (target, "interpret"), results, strict=True
        ):
            tw.build(each, [A, *outs], target=built)(values, *result)
        for got, want in zip(*results, strict=True):
            assert ((got.view("uint32") == want.view("uint32")) | np.isnan(got) & np.isnan(want)).all()


@pytest.mark.parametrize(
    ("far", "kind", "shared"),
    [
        ((2, 2, 2, 2), "above", True),
        ((2, 2, 2, 3), "above", False),  # column j + 1 of rows above: the sum of y is stored there
        ((2, 2, 2, 2), "any", False),  # the row itself is among the others
    ],
)
def test_only_rows_that_meet_nowhere_are_jammed(far: tuple[int, ...], kind: str, shared: bool) -> None:
    A, outs, s = jammed(20, far, kind)
    function = unroll_and_jam(tw.lower(s, [A, *outs]))
    marked = [node for node in walk(function.body) if isinstance(node, For) and node.pragmas]
    assert [key for loop in marked for key, _ in loop.pragmas] == ([INDEPENDENT] if shared else [])
