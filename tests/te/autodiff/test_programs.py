"""Gradients through programs: hybrid scripts with loops and branches, scatters, recurrences."""

from __future__ import annotations

from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from drawn_programs import drawn_program
from gradient_check import check_gradient, draw, evaluate, head_of, placeholder
from tilewright import te, topi
from tilewright.ir.stmt import Allocate, For, Stmt
from tilewright.ir.visit import post_order

# ruff: noqa: F821, B007  scripts use names of their own


@te.hybrid.script
def power(x: Any, n: Any) -> Any:
    y = output_tensor((x.shape[0],), "float64")
    for i in range(x.shape[0]):
        y[i] = 1.0
        left = n[i]
        for k in range(64):
            if left > 0:
                y[i] = y[i] * x[i]
                left = left - 1
    return y


@te.hybrid.script
def branches(x: Any) -> Any:
    y = output_tensor((x.shape[0],), "float64")
    for i in range(x.shape[0]):
        s = x[i] * 2.0
        if s > 1.0:
            s = s * s
            y[i] = exp(s * 0.1)
        else:
            y[i] = sin(s) + x[i]
        for k in range(5):
            if y[i] < 3.0:
                y[i] = y[i] * 1.5 + x[i] * x[i]
    return y


@te.hybrid.script
def until(x: Any, n: Any) -> Any:
    """Loops whose iterations are counted by data, and end early."""
    y = output_tensor((x.shape[0],), "float64")
    for i in range(x.shape[0]):
        t = 1.0
        for k in range(n[i]):
            if t < 10.0:
                t = t * x[i] + t
        y[i] = t
    return y


@te.hybrid.script
def products(x: Any, w: Any) -> Any:
    y = output_tensor((x.shape[0],), "float64")
    for i in range(x.shape[0]):
        for k in range(x.shape[1]):
            y[i] = y[i] + x[i, k] * w[k]
    return y


@te.hybrid.script
def swapped(x: Any) -> Any:
    y = output_tensor((x.shape[0],), "float64")
    for i in range(x.shape[0]):
        y[i] = x[i] * x[i]
    for i in range(x.shape[0] - 1):
        if y[i] > y[i + 1]:
            y[i], y[i + 1] = y[i + 1], y[i]
    return y


def test_a_power_by_a_loop_that_ends_when_data_says() -> None:
    x, n = placeholder("x", 4), te.placeholder((4,), "int32", "n")
    check_gradient(power(x, n), {x: draw(x), n: np.int32([0, 1, 5, 2])}, tolerance=1e-5, jacobian=False)


@te.hybrid.script
def power_by_squares(x: Any, n: Any) -> Any:
    y = output_tensor((x.shape[0],), "float64")
    for i in range(x.shape[0]):
        y[i] = 1.0
        base = x[i]
        left = n[i]
        while left > 0:
            if left % 2 == 1:
                y[i] = y[i] * base
            base = base * base
            left = left // 2
    return y


@te.hybrid.script
def nested(x: Any) -> Any:
    """Loops that data ends inside of each other, one of which is left."""
    y = output_tensor((x.shape[0],), "float64")
    for i in range(x.shape[0]):
        s = x[i] * x[i] + 0.5
        t = 0.0 * x[i]
        turns = 0
        while s < 20.0:
            t = s * 0.5
            while t > 1.0:
                t = t * 0.6 + 0.1 * sin(x[i])
                if t > 2.0:
                    s = s + 0.25 * t * t
            s = s * 1.5 + t + 1.0
            turns = turns + 1
            if turns > 6:
                break
        y[i] = s * t if turns > 2 else s + x[i] * x[i]
    return y


def test_loops_that_data_ends_count_their_trips() -> None:
    x, n = placeholder("x", 4), te.placeholder((4,), "int32", "n")
    check_gradient(power_by_squares(x, n), {x: draw(x), n: np.int32([0, 1, 5, 12])}, tolerance=1e-5, jacobian=False)
    check_gradient(nested(x), {x: draw(x)}, tolerance=1e-5, jacobian=False)


def test_branches() -> None:
    x = placeholder("x", 5)
    check_gradient(branches(x), {x: draw(x)})


def test_trips_that_data_counts_are_kept_on_a_stack() -> None:
    x, n = placeholder("x", 4), te.placeholder((4,), "int32", "n")
    check_gradient(until(x, n), {x: draw(x), n: np.int32([0, 3, 1, 7])}, jacobian=False)


def test_elements_that_are_swapped_by_what_they_are() -> None:
    x = placeholder("x", 5)
    check_gradient(swapped(x), {x: draw(x)}, jacobian=False)


def kept(body: Stmt) -> list[str]:
    return [
        node.buffer.name
        for node in post_order(body)
        if isinstance(node, Allocate) and node.buffer.name.startswith("kept")
    ]


def test_a_sum_of_products_keeps_nothing_and_runs_back_alone() -> None:
    x, w = placeholder("x", 3, 5), placeholder("w", 5)
    y = products(x, w)
    by_x, by_w = te.gradient(y, [x, w], head_of(y))
    assert by_x.op is by_w.op and not kept(by_x.op.statement())
    assert (
        sum(isinstance(node, For) for node in post_order(by_x.op.statement())) == 3
    )  # the head is taken, then i and k
    check_gradient(y, {x: draw(x), w: draw(w)}, jacobian=False)


def test_outside_of_loops_a_value_is_kept_in_a_variable() -> None:
    @te.hybrid.script
    def twice(x: Any) -> Any:
        y = output_tensor((1,), "float64")
        s = x[0] * x[1]
        s = s * s
        s = sin(s)
        y[0] = s * s
        return y

    x = placeholder("x", 2)
    (y,) = check_gradient(twice(x), {x: draw(x)}, jacobian=False)
    memory = [node.buffer for node in post_order(y.op.statement()) if isinstance(node, Allocate)]
    assert all(not buffer.shape for buffer in memory if buffer.name.startswith("kept"))


def test_an_index_that_the_stored_buffer_says_is_refused() -> None:
    @te.hybrid.script
    def chased(x: Any) -> Any:
        y = output_tensor((x.shape[0],), "float64")
        places = allocate((x.shape[0],), "int32")
        for i in range(x.shape[0]):
            places[places[i]] = i
            y[places[i]] = x[i] * x[i]
        return y

    x = placeholder("x", 3)
    with pytest.raises(
        tw.TensorExpressionError, match="TW0170: an element of places is stored at a place that places itself says"
    ):
        te.gradient(chased(x), x)


@pytest.mark.parametrize("reducing", [False, True])
def test_a_recurrence(reducing: bool) -> None:
    x, u = placeholder("x", 5, 3), placeholder("u", 3, 3)
    state = te.placeholder((5, 3), "float64", "state")
    k = te.reduce_axis((0, 3), "k")
    first = te.compute((1, 3), lambda _, i: te.tanh(x[0, i]))
    between = te.compute(
        (5, 3), lambda t, i: te.sum(u[i, k] * state[t - 1, k], axis=k) if reducing else u[i, 0] * state[t - 1, i]
    )
    following = te.compute((5, 3), lambda t, i: te.tanh(between[t, i] + x[t, i]))
    check_gradient(te.scan(first, following, state, inputs=[x]), {x: draw(x), u: draw(u)}, jacobian=reducing)


def test_recurrences_of_two_states_whose_first_steps_are_several() -> None:
    x = placeholder("x", 6, 2)
    a, b = (te.placeholder((6, 2), "float64", name) for name in "ab")
    first = [te.compute((2, 2), lambda t, i: x[t, i] * x[t, i]), te.compute((2, 2), lambda t, i: x[1 - t, i])]
    following = [
        te.compute((6, 2), lambda t, i: a[t - 1, i] * b[t - 2, i]),
        te.compute((6, 2), lambda t, i: b[t - 1, i] + a[t - 2, i]),
    ]
    one, other = te.scan(first, following, [a, b], inputs=[x])
    y = te.compute((6, 2), lambda t, i: te.sin(one[t, i]) * other[t, 1 - i])
    check_gradient(y, {x: draw(x)}, jacobian=False)


def test_a_scatter_that_chooses() -> None:
    x, n = placeholder("x", 7), te.placeholder((7,), "int32", "n")
    y = topi.scatter_nd(te.compute((3,), lambda i: x[i] * 0.5), topi.reshape(n, (1, 7)), x, "max")
    check_gradient(y, {x: draw(x), n: np.int32([0, 1, 2, 0, 1, 2, 1])}, jacobian=False)


def test_what_is_moved_before_it_is_looked_up() -> None:
    """The gradient of a scatter is that of the tensor that was looked up, and of no other of its shape."""
    x, n = placeholder("x", 19), te.placeholder((3,), "int32", "n")
    check_gradient(topi.take(topi.flip(x, 0), n, 0), {x: draw(x), n: np.int32([0, 4, 4])}, jacobian=False)
    check_gradient(topi.cumprod(topi.flip(x, 0), 0), {x: draw(x)}, jacobian=False, tolerance=1e-5)


def test_a_gradient_of_a_gradient_of_a_program() -> None:
    x, n = placeholder("x", 2), te.placeholder((2,), "int32", "n")
    (first,) = te.gradient(te.compute((), lambda: power(x, n)[0] + power(x, n)[1]), [x])
    total = te.compute((), lambda: first[0] + first[1])
    at, counts = np.asarray([0.7, 1.3]), np.int32([3, 4])
    (second,) = evaluate(te.gradient(total, [x]), {x: at, n: counts})
    np.testing.assert_allclose(second, counts * (counts - 1) * at ** (counts - 2), rtol=1e-9)


def differs(seed: int) -> str:
    """How the gradient of a drawn program is not that of differences of its runs as Python; "" where it is."""
    text, script = drawn_program(seed)
    rng = np.random.default_rng([seed, 1])
    sizes = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    x, w = (rng.uniform(-1, 1, size) for size in sizes)
    counts = rng.integers(0, 3, sizes[0]).astype("int32")
    inputs = [te.placeholder((size,), "float64", name) for size, name in zip(sizes, "xw", strict=True)]
    outputs = script(*inputs, te.placeholder((sizes[0],), "int32", "k"))
    number = seed % 2
    output = outputs[number]
    k = next((t for t in output.op.input_tensors if t.name == "k"), te.placeholder((sizes[0],), "int32", "k"))
    head = head_of(output)
    weights = rng.uniform(-1, 1, tuple(map(int, output.shape)))
    found = evaluate(
        te.gradient(output, inputs, head),
        {inputs[0]: x, inputs[1]: w, k: counts, head: weights},
        "interpret" if seed % 4 < 3 else "llvm",
    )

    def along(moves: tuple[np.ndarray, ...], step: float) -> float:
        sides = [
            float((np.asarray(script(x + sign * moves[0], w + sign * moves[1], counts)[number]) * weights).sum())
            for sign in (step, -step)
        ]
        return (sides[0] - sides[1]) / (2 * step)

    moves = tuple(rng.uniform(0.5, 1, size) for size in sizes)
    expected = sum(float((gradient * move).sum()) for gradient, move in zip(found, moves, strict=True))
    near = [along(moves, step) for step in (1e-6, 1e-7)]
    if min(abs(value - expected) for value in near) <= 1e-5 * max(1, abs(expected)):
        return ""
    if abs(near[0] - near[1]) > 1e-5 * max(1, abs(near[0])):
        return ""  # it stands at a branch
    return f"by the gradient {expected}, by differences {near}:\n{text}"


@pytest.mark.parametrize("at", range(drawn.count(2, 1000)))
def test_drawn_programs(at: int) -> None:
    assert not differs(int(drawn.rng("programs", at).integers(2**31)))


def test_what_is_kept_of_loops_whose_number_is_data_is_judged_where_it_is_counted() -> None:
    a = te.placeholder((2, 3, 3), "float64", "a")
    (by_a,) = te.gradient(topi.sum(topi.det(a)), [a])
    given, got = np.random.default_rng(0).standard_normal((2, 3, 3)), np.empty((2, 3, 3))
    tw.build([a, by_a], target="interpret")(given, got)
    wanted = np.linalg.det(given)[:, None, None] * np.linalg.inv(given).transpose(0, 2, 1)
    np.testing.assert_allclose(got, wanted, rtol=1e-9)
