"""Scans by their rule: running sums along any axis, and recurrences, bit for bit as declared, a block of lanes at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi


def agrees(x: te.Tensor, output: te.Tensor, values: np.ndarray) -> np.ndarray:
    """The result, which is that of the program without a schedule to the last bit."""
    results: list[np.ndarray] = []
    for s in (te.create_schedule(output.op), tw.autoschedule.schedule(output)):
        assert s.is_exact
        got = np.full([int(str(extent)) for extent in output.shape], 77, str(output.dtype))
        tw.build(s, [x, output])(values, got)
        results.append(got)
    assert results[0].tobytes() == results[1].tobytes()
    return results[1]


CASES = [
    ((33,), 0),
    ((1,), 0),
    ((13, 1), 1),
    ((1, 13), 1),
    ((40, 67), 1),
    ((17, 33), 0),
    ((8, 8), 1),
    ((3, 31, 65), 1),
    ((3, 31, 65), 2),
    ((31, 3, 9), 2),
    ((9, 31, 2), 0),
    ((2, 300, 129), 1),
]


@pytest.mark.parametrize(("shape", "axis"), drawn.part(CASES, 3))
@pytest.mark.parametrize("exclusive", [False, True])
def test_running_sums_along_any_axis(shape: tuple[int, ...], axis: int, exclusive: bool) -> None:
    for dtype in ("float32", "int8"):
        values = np.random.default_rng(1).integers(-5, 6, shape).astype(dtype)
        x = te.placeholder(shape, dtype, "x")
        got = agrees(x, topi.cumsum(x, axis, exclusive=exclusive), values)
        wanted = np.cumsum(values, axis, dtype=dtype)
        assert np.array_equal(got, wanted - values if exclusive else wanted)


@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_products_of_other_types(dtype: str) -> None:
    values = (1 + np.random.default_rng(1).standard_normal((19, 37)) / 100).astype(dtype)
    x = te.placeholder(values.shape, dtype, "x")
    assert np.allclose(agrees(x, topi.cumprod(x, 1), values), np.cumprod(values.astype("float64"), 1), rtol=3e-2)


def recurrence(shape: tuple[int, int], value: Callable[..., Any]) -> tuple[te.Tensor, te.Tensor]:
    """The states (time, n) of h[t] = h[t - 1] / 2 + value(x, t, i)."""
    steps, n = shape
    x = te.placeholder(shape, name="x")
    state = te.placeholder((steps, n), name="state")
    halved = te.compute((steps, n), lambda t, i: state[t - 1, i] * 0.5, "halved")
    first = te.compute((1, n), lambda t, i: value(x, 0, i), "first")
    update = te.compute((steps, n), lambda t, i: halved[t, i] + value(x, t, i), "update")
    states: te.Tensor = te.scan(first, update, state, inputs=[x], name="states")
    return x, states


def test_recurrences_of_rows_and_what_reads_them() -> None:
    values = np.random.default_rng(3).standard_normal((37, 67)).astype("float32")
    x, states = recurrence((37, 67), lambda x, t, i: x[t, i])
    whole = agrees(x, states, values)
    assert np.allclose(whole[1], values[0] / 2 + values[1], rtol=1e-6)
    x, states = recurrence((37, 67), lambda x, t, i: x[t, i])
    last = te.compute((67,), lambda i: states[36, i] + 1.0, "last")
    assert np.array_equal(agrees(x, last, values), whole[36] + np.float32(1))
    x, states = recurrence((37, 67), lambda x, t, i: x[t, i])
    turned = te.compute((67, 37), lambda i, t: states[t, i], "turned")
    assert np.array_equal(agrees(x, turned, values), whole.T)
    x, states = recurrence((37, 67), lambda x, t, i: x[t, i])
    beside = te.compute((67, 37), lambda i, t: states[t, i] + x[t, 0], "beside")
    assert np.array_equal(agrees(x, beside, values), whole.T + values[:, 0])


def test_a_step_that_mixes_its_row_is_computed_whole() -> None:
    x = te.placeholder((40, 33), name="x")
    state = te.placeholder((33, 40), name="state")
    first = te.compute((1, 40), lambda t, i: x[i, 0], "first")
    update = te.compute((33, 40), lambda t, i: state[t - 1, 39 - i] + x[i, t], "update")
    states = te.scan(first, update, state, inputs=[x], name="states")
    output = te.compute((40, 33), lambda i, t: states[t, i], "output")
    agrees(x, output, np.random.default_rng(3).standard_normal((40, 33)).astype("float32"))


def lstm(steps: int, rows: int, width: int) -> tuple[list[te.Tensor], list[te.Tensor]]:
    """A layer of which all gates are one sum: (what it reads, its two states)."""
    x, w = te.placeholder((steps, 4, rows, width), name="x"), te.placeholder((4, width, width), name="w")
    h, c = (te.placeholder((steps, rows, width), name=name) for name in "hc")
    zeros = [te.compute((1, rows, width), lambda t, i, j: 0.0, name) for name in ("h0", "c0")]
    k = te.reduce_axis((0, width), "k")
    sums = te.compute((steps, 4, rows, width), lambda t, g, i, j: te.sum(h[t - 1, i, k] * w[g, j, k], axis=k), "sums")
    gates = te.compute((steps, 4, rows, width), lambda t, g, i, j: sums[t, g, i, j] + x[t, g, i, j], "gates")
    cell = te.compute(
        (steps, rows, width),
        lambda t, i, j: (
            te.sigmoid(gates[t, 1, i, j]) * c[t - 1, i, j] + te.sigmoid(gates[t, 0, i, j]) * te.tanh(gates[t, 2, i, j])
        ),
        "cell",
    )
    hidden = te.compute(
        (steps, rows, width), lambda t, i, j: te.sigmoid(gates[t, 3, i, j]) * te.tanh(cell[t, i, j]), "hidden"
    )
    return [x, w], list(te.scan(zeros, [hidden, cell], [h, c], inputs=[x, w], name="states"))


@pytest.mark.parametrize(
    ("steps", "rows", "width"), drawn.part([(2, 1, 1), (5, 7, 33), (3, 16, 64), (9, 1, 17), (4, 5, 50)], 2)
)
@pytest.mark.parametrize("exact", [False, True])
def test_a_recurrent_layer_is_bit_for_bit_as_declared(steps: int, rows: int, width: int, exact: bool) -> None:
    inputs, outputs = lstm(steps, rows, width)
    random = np.random.default_rng(5)
    values = [
        (random.standard_normal([int(str(extent)) for extent in tensor.shape]) / 2).astype("float32")
        for tensor in inputs
    ]
    results: list[bytes] = []
    for s in (te.create_schedule(outputs[0].op), tw.autoschedule.schedule(outputs[0], exact=exact)):
        got = [np.full((steps, rows, width), 77, "float32") for _ in outputs]
        assert s.is_exact
        tw.build(s, [*inputs, *outputs])(*values, *got)
        results.append(b"".join(each.tobytes() for each in got))
    assert results[0] == results[1]


def test_weights_of_a_recurrent_layer_are_copied_once() -> None:
    _, outputs = lstm(9, 16, 200)
    s = tw.autoschedule.schedule(outputs[0], "llvm -mcpu=haswell")
    assert [row.rule for row in s.plan[:2]] == ["scan", "sums of a step"] and "w copied" in s.plan[1].description
    text = str(s)
    assert text.index("w.global[") < text.index("for states.idx") < text.index("mul_add(")


def test_a_reduction_in_a_step() -> None:
    x = te.placeholder((9, 17), name="x")
    state = te.placeholder((9, 17), name="state")
    k = te.reduce_axis((0, 17), "k")
    first = te.compute((1, 17), lambda t, i: x[0, i], "first")
    total = te.compute((9,), lambda t: te.sum(state[t - 1, k], axis=k), "total")
    update = te.compute((9, 17), lambda t, i: total[t] * 0.1 + x[t, i], "update")
    states = te.scan(first, update, state, inputs=[x], name="states")
    agrees(x, states, np.random.default_rng(3).standard_normal((9, 17)).astype("float32"))


def test_extents_that_only_the_call_knows() -> None:
    n, m = te.size_var("n"), te.size_var("m")
    x = te.placeholder((n, m), name="x")
    for axis in (0, 1):
        output = topi.cumsum(x, axis)
        kernel = tw.build([x, output])
        for shape in ((5, 70), (1, 1), (33, 9)):
            values = np.random.default_rng(1).integers(-5, 6, shape).astype("float32")
            got = np.full(shape, 77, "float32")
            kernel(values, got)
            assert np.array_equal(got, values.cumsum(axis))


def test_sums_along_rows_are_computed_by_lanes_across_rows() -> None:
    x = te.placeholder((64, 1024), name="x")
    output = topi.cumsum(x, 1)
    s = tw.autoschedule.schedule(output, "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=haswell")
    scan = output.op.input_tensors[0]
    assert s[scan].attach_type == "at", "the states of a few rows stay in the cache"
    text = tw.build(s, [x, output], target="llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=haswell").source("asm")
    assert "vaddps" in text and "vgather" not in text and ("vunpcklps" in text or "vshufps" in text)
