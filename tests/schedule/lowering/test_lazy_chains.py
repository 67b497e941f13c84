"""Choices within choices that share what they choose from: each value is computed once, and everything that walks them takes a
time that grows with the distinct values, not with the ways to them."""

from __future__ import annotations

from collections.abc import Callable

import drawn
import numpy as np
import numpy.typing as npt
import pytest
import tilewright as tw
from tilewright import te
from tilewright.ir.expr import Expr
from tilewright.ir.stmt import BufferStore, LetStmt
from tilewright.ir.visit import post_order
from tilewright.schedule.model.schedule import Schedule
from tilewright.te.tensor import Tensor

Floats = npt.NDArray[np.float32]
Step = Callable[[Callable[[Expr], Expr], Expr], Expr]


def _by_data(choose: Callable[..., Expr]) -> Step:
    return lambda read, i: choose(read(i) > 0.5, read(i) * 0.75, read(i) + 0.125)


def _guarded(read: Callable[[Expr], Expr], i: Expr) -> Expr:
    return te.if_then_else(te.all(i > 0, read(i) > 0.5), read(i - 1) * 0.75, read(66 - i) + 0.125)


STEPS: dict[str, Step] = {"select": _by_data(te.select), "if": _by_data(te.if_then_else), "guarded": _guarded}
N = 67


def _expected(step: str, levels: int, a: Floats) -> Floats:
    for _ in range(levels):
        if step == "guarded":
            before = np.concatenate([a[:1], a[:-1]])
            chosen = (np.arange(N) > 0) & (a > np.float32(0.5))
            a = np.where(chosen, before * np.float32(0.75), a[::-1] + np.float32(0.125)).astype(np.float32)
        else:
            a = np.where(a > np.float32(0.5), a * np.float32(0.75), a + np.float32(0.125)).astype(np.float32)
    return a


def _inlined(step: str, levels: int, head: bool = False) -> tuple[Schedule, list[Tensor], Tensor]:
    """A chain of stages that are inlined into the last one; with `head` its first one is computed where the last one wants it."""
    A = te.placeholder((N,), name="A")
    stages = [te.compute((N,), lambda i: A[i] * 1.0, name="first")] if head else [A]
    for _ in range(levels):
        P = stages[-1]
        stages.append(te.compute((N,), lambda i, P=P: STEPS[step](lambda at: P[at], i), name="T"))
    s = te.create_schedule(stages[-1].op)
    for stage in stages[1:-1]:
        s[stage].compute_inline()
    return s, [A, stages[-1]], stages[0]


def _check(s: Schedule, args: list[Tensor], step: str, levels: int, target: str) -> None:
    """That the program is small, and has the bits of its definition."""
    function = tw.lower(s, args)
    assert sum(1 for _ in post_order(function.body)) < 40 * levels * levels
    assert len(str(function)) < 1200 * levels * levels
    a = np.random.default_rng(levels).random(N, dtype=np.float32)
    b = np.empty_like(a)
    tw.build(s, args, target=target)(a, b)
    np.testing.assert_array_equal(b.view(np.int32), _expected(step, levels, a).view(np.int32))


@pytest.mark.parametrize("target", ["llvm", "c", "interpret"])
@pytest.mark.parametrize("vectorized", [False, True])
@pytest.mark.parametrize("step", ["select", "if"])
@pytest.mark.parametrize("levels", drawn.part([12, 20], 1))
def test_a_chain_of_choices_is_small(levels: int, step: str, vectorized: bool, target: str) -> None:
    s, args, head = _inlined(step, levels, head=True)
    outer, inner = s[args[-1]].split(s[args[-1]].op.axis[0], 8)
    s[head].compute_at(s[args[-1]], outer)
    if vectorized:
        s[args[-1]].vectorize(inner)
    _check(s, args, step, levels, target)


@pytest.mark.parametrize(
    ("target", "vectorized"), drawn.part([("llvm", False), ("llvm", True), ("c", False), ("interpret", False)], 2)
)
def test_a_chain_of_guarded_choices_is_small(target: str, vectorized: bool) -> None:
    """Its branches read the stage before at other places, each of which other branches want, too: 2 ** 9 ways, 90 values."""
    s, args, _ = _inlined("guarded", 9)
    if vectorized:
        s[args[-1]].vectorize(s[args[-1]].op.axis[0])
    _check(s, args, "guarded", 9, target)


@pytest.mark.parametrize("choose", [te.select, te.if_then_else])
def test_choices_within_one_definition_are_met_once(choose: Callable[..., Expr]) -> None:
    A = te.placeholder((N,), name="A")

    def nested(i: Expr) -> Expr:
        value = A[i]
        for _ in range(20):
            value = choose(value > 0.5, value * 0.75, value + 0.125)
        return value

    B = te.compute((N,), nested, name="B")
    function = tw.lower(te.create_schedule(B.op), [A, B])
    assert sum(1 for _ in post_order(function.body)) < 500
    a = np.random.default_rng(1).random(N, dtype=np.float32)
    b = np.empty_like(a)
    tw.build(te.create_schedule(B.op), [A, B])(a, b)
    np.testing.assert_array_equal(b.view(np.int32), _expected("select", 20, a).view(np.int32))


def test_conditions_on_loops_within_one_definition_are_met_once() -> None:
    """Each level doubles the ways to what it chooses from, and all of them together say nothing of it."""
    A = te.placeholder((N,), name="A")

    def nested(i: Expr) -> Expr:
        value = A[i]
        for level in range(20):
            value = te.if_then_else((i * 7 + level) % 5 > level % 4, value * 0.75, value + 0.125)
        return value

    B = te.compute((N,), nested, name="B")
    a, b = np.random.default_rng(1).random(N, dtype=np.float32), np.empty(N, "float32")
    tw.build(te.create_schedule(B.op), [A, B])(a, b)
    expected, i = a, np.arange(N)
    for level in range(20):
        chosen = (i * 7 + level) % 5 > level % 4
        expected = np.where(chosen, expected * np.float32(0.75), expected + np.float32(0.125)).astype(np.float32)
    np.testing.assert_array_equal(b, expected)


def test_indices_made_of_choices_are_small() -> None:
    """Integers that choices are made of are index arithmetic; what is shared of it has a name where it is long."""
    T = te.compute((N,), lambda i: i, name="first")
    stages = [T]
    for _ in range(14):
        P = stages[-1]
        stages.append(te.compute((N,), lambda i, P=P: te.if_then_else(P[i] % 3 == 1, P[i] * 2 % N, P[i] + 1), name="T"))
    s = te.create_schedule(stages[-1].op)
    for stage in stages[:-1]:
        s[stage].compute_inline()
    assert len(str(tw.lower(s, [stages[-1]]))) < 40_000
    b = np.empty(N, "int32")
    tw.build(s, [stages[-1]])(b)
    expected = np.arange(N)
    for _ in range(14):
        expected = np.where(expected % 3 == 1, expected * 2 % N, expected + 1)
    np.testing.assert_array_equal(b, expected)


def test_a_read_that_data_guard_stays_inside_where_it_is_shared() -> None:
    """What two branches share is computed ahead, without what data say of where it may be read."""
    A, X = te.placeholder((N,), name="A"), te.placeholder((N,), "int32", name="X")

    def body(i: Expr) -> Expr:
        far = A[X[i]] * 3.0 + A[X[i]] * A[X[i]]
        value = A[i]
        for _ in range(12):
            value = te.if_then_else(
                te.all(X[i] >= 0, value > 0.5), far + value * 0.5, te.if_then_else(X[i] >= 0, far, value)
            )
            far = far * 0.5 + value
        return te.if_then_else(te.all(X[i] >= 0, X[i] < N), value, 0.0)

    B = te.compute((N,), body, name="B")
    s = te.create_schedule(B.op)
    stores = [node for node in post_order(tw.lower(s, [A, X, B]).body) if isinstance(node, (BufferStore, LetStmt))]
    assert len(stores) > 10, "too large to be written out, so that names were given"
    x = np.where(np.arange(N) % 3 == 0, -(1 << 30), np.arange(N)[::-1]).astype(np.int32)
    a = np.random.default_rng(1).random(N, dtype=np.float32)
    found = [np.empty(N, "float32") for _ in range(2)]
    for b, target in zip(found, ["llvm", "interpret"], strict=True):
        tw.build(s, [A, X, B], target=target)(a, x, b)
    np.testing.assert_array_equal(found[0], found[1])
    assert not found[0][::3].any()
