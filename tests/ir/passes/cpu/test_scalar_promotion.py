"""Elements that innermost loops carry lie in registers, sums are cut for lanes where that is asked for, and no other bit changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from this_machine import runnable
from tilewright import te
from tilewright.ir.passes.cpu.reassociation import REASSOCIATE, cut_sums
from tilewright.ir.passes.cpu.scalar_promotion import INDEPENDENT, promote_scalars
from tilewright.ir.stmt import Allocate, For, Function
from tilewright.ir.visit import walk
from tilewright.te.hybrid import output_tensor, script


def triangle(n: int, shifts: tuple[int, int, int], least: int) -> Any:
    """A script: recurrences over triangles whose reads lie so far from what is stored, and may meet it."""
    one, other, third = shifts

    @script
    def swept(A):  # pyright: ignore[reportMissingParameterType, reportUnknownParameterType]
        x = output_tensor((n, n), "float32")
        for i in range(n):
            for j in range(n):
                x[i, j] = A[i, j]
        for i in range(3, n - 3):
            for j in range(3, i + least):
                x[i, i] = x[i, i] - x[i, j + one] * x[j, i + other]
                x[i, i] = min(x[i, i], A[j, i])
            for k in range(3, i):
                for j in range(n - 3 - i):
                    x[i, i + j] = x[i, i + j] - x[i, k + third] * x[k, i + j + other]
            for j in range(n):
                x[i, j] = min(x[i, j], x[i, i + one] + x[i + other, j])
            for j in range(2, i):
                x[i, j] = x[i, j] - x[i, 4 + third] * A[i, j]
        return x

    return swept


def function_of(tensor: te.Tensor, *inputs: te.Tensor) -> Function:
    return tw.lower(te.create_schedule(tensor.op), [*inputs, tensor])


def loops(function: Function, has: Callable[[For], bool]) -> list[For]:
    return [node for node in walk(function.body) if isinstance(node, For) and has(node)]


@pytest.mark.parametrize("target", runnable("llvm", "llvm -mcpu=x86-64-v2"))
def test_drawn_triangles_keep_every_bit(target: str) -> None:
    for case in range(drawn.count(6, 300)):
        rng = drawn.rng(f"triangles {target}", case)
        n = int(rng.choice((7, 8, 16, 33)))
        A = te.placeholder((n, n), name="A")
        B = triangle(n, tuple(int(each) for each in rng.integers(-3, 3, 3)), int(rng.integers(-2, 3)))(A)
        values = rng.choice([0.0, -0.0, 1.0, -0.5, np.nan, np.inf, 0.25], (n, n)).astype("float32")
        results = [np.empty_like(values) for _ in range(2)]
        for result, built in zip(results, (target, "interpret"), strict=True):
            tw.build(te.create_schedule(B.op), [A, B], target=built)(values, result)
        same = results[0].view("uint32") == results[1].view("uint32")
        assert (same | np.isnan(results[0]) & np.isnan(results[1])).all()


def test_only_what_no_other_access_meets_is_carried() -> None:
    A = te.placeholder((33, 33), name="A")
    for shifts, least, promoted, independent in (
        ((0, 0, 0), 0, 1, 5),  # one loop as it is, and two before and behind the element that they read throughout
        ((0, 0, 0), 1, 0, 5),  # j = i is read beside x[i, i]
        ((0, 0, 1), 0, 1, 6),  # k + 1 may be i, where the loop is split too
        ((1, 0, -1), 0, 0, 5),  # j + 1 = i is
    ):
        function = promote_scalars(function_of(triangle(33, shifts, least)(A), A))
        assert sum(isinstance(node, Allocate) for node in walk(function.body)) == promoted
        marked = loops(function, lambda loop: any(key == INDEPENDENT for key, _ in loop.pragmas))
        assert len(marked) == independent


@pytest.mark.parametrize(
    ("terms", "lanes"),
    [(0, ["32", "8", "4"]), (24, ["8"]), (16, ["8"]), (20, ["8", "4"]), (28, ["8", "4"]), (41, ["32", "8"]), (3, [])],
)
def test_sums_are_cut_for_ever_fewer_lanes(terms: int, lanes: list[str]) -> None:
    @script
    def added(A):  # pyright: ignore[reportMissingParameterType, reportUnknownParameterType]
        y = output_tensor((9,), "float32")
        for i in range(9):
            for j in range(terms if terms else i * 25):
                y[i] = y[i] + A[i, j]
        return y

    A = te.placeholder((9, 200), name="A")
    Y = added(A)
    s = te.create_schedule(Y.op)
    s[Y].pragma(s[Y].op.axis[-1], REASSOCIATE)
    assert not s.is_exact
    cut = loops(cut_sums(tw.lower(s, [A, Y]), 256), lambda loop: bool(loop.pragmas))
    assert [str(value) for loop in cut for _, value in loop.pragmas] == lanes
    values = np.arange(1800, dtype="float32").reshape(9, 200) % 7  # sums of whole numbers have one value
    for target in runnable("llvm", "llvm -mcpu=x86-64-v3", "c"):
        result = np.empty(9, "float32")
        tw.build(s, [A, Y], target=target)(values, result)
        assert (result == [values[i, : terms or i * 25].sum() for i in range(9)]).all()
