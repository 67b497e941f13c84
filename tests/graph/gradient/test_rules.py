"""Gradients of graphs: of every operator against finite differences, and what cannot be had."""

from __future__ import annotations

import zlib
from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from operator_cases import CASES
from tilewright.graph import Builder, Graph

_AT_KINKS = {"acosh"}
"""Operators whose case stands where the derivative is infinite."""
_COARSE = {"dequantize", "weight_only_matmul"}
"""Operators that compute in float32 or less, whatever they are given: too coarse for differences."""
_STOPPED = {"stop_gradient"}
"""Operators that say that their derivative is zero, whatever they compute."""
_BY_DATA = {"roi_align", "roi_pool"}
"""Operators of which how many elements are looked at jumps with their other inputs."""


def graph_of(name: str, one: Any) -> tuple[Graph, list[Any], list[str]] | None:
    """A number made of all that the operator gives, its inputs in float64, and which of them are floats."""
    attributes = one.attributes
    random = np.random.default_rng(zlib.crc32(repr((name, attributes)).encode()))
    arrays = one.arrays(random)
    arrays = [array.astype("float64") if array.dtype.kind == "f" else array for array in arrays]
    b = Builder()
    values = [b.input(f"x{at}", array.shape, array.dtype) for at, array in enumerate(arrays)]
    total = ""
    for value in b.nodes(name, *values, **attributes):
        kind = b.types[value]
        if kind.dtype.startswith("float"):
            weights = b.param(f"w_{value}", random.standard_normal(kind.shape).astype(kind.dtype))
            part = b.node("sum", b.node("multiply", value, weights), axes=tuple(range(len(kind.shape))))
            part = b.node("cast", part, dtype="float64")
            total = b.node("add", total, part) if total else part
    floats = [value for value, array in zip(values, arrays, strict=True) if array.dtype.kind == "f"]
    floats = floats[:1] if name in _BY_DATA else floats
    if not total or not floats:
        return None
    b.output("loss", total)
    return b.graph(), arrays, floats


def differences(g: Graph, arrays: list[Any], floats: list[str], gradients: list[Any]) -> tuple[float, float]:
    """The derivative along a drawn direction: by the gradient, and by two runs nearby."""
    random = np.random.default_rng(5)
    step, expected, moved = 1e-6, 0.0, {}
    for name, gradient in zip(floats, gradients, strict=True):
        along = random.choice([-1.0, 1.0], gradient.shape) * random.uniform(0.5, 1, gradient.shape)
        expected += float((gradient * along).sum())
        moved[int(name[1:])] = along * step
    sides = [
        float(g.run(*(array + sign * moved[at] if at in moved else array for at, array in enumerate(arrays)))[0])
        for sign in (1, -1)
    ]
    return expected, (sides[0] - sides[1]) / (2 * step)


@pytest.mark.parametrize("at", drawn.part(range(len(CASES)), 70), ids=lambda at: f"{CASES[at][0]}-{at}")
def test_gradients_are_those_of_finite_differences(at: int) -> None:
    name, one = CASES[at]
    if name in _AT_KINKS | _COARSE | _STOPPED:
        return
    case = graph_of(name, one)
    if case is None:
        return
    g, arrays, floats = case
    d = g.gradient("loss", floats)
    assert tw.graph.parse(str(d)) == d
    assert list(d.outputs) == ["loss", *(f"grad_{value}" for value in floats)]
    loss, *gradients = d.run(*arrays)
    assert loss == g.run(*arrays)[0]
    expected, found = differences(g, arrays, floats, gradients)
    assert found == pytest.approx(expected, rel=1e-5, abs=1e-6)


def perceptron() -> Graph:
    random = np.random.default_rng(0)
    b = Builder("perceptron")
    x = b.input("x", (7, 5))
    y = b.node("gelu", b.node("matmul", x, b.param("w", random.standard_normal((5, 3)).astype("float32"))))
    y = b.node("log_softmax", b.node("layer_norm", y, b.param("scale", np.float32([1, 2, 0.5]))))
    b.output("y", y)
    b.output("loss", b.node("mean", b.node("square", y), axes=(0, 1)))
    return b.graph()


def test_a_model_and_its_gradients_are_one_graph() -> None:
    """What both use is computed once, and the build agrees with the reference, node by node."""
    d = perceptron().gradient("loss", ["w", "scale", "x"])
    assert list(d.outputs) == ["y", "loss", "grad_w", "grad_scale", "grad_x"]
    m, x = tw.build(d), np.random.default_rng(1).standard_normal((7, 5)).astype("float32")
    assert m.verify(x)
    for ours, theirs in zip(m(x), d.run(x), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_a_gradient_of_a_gradient() -> None:
    b = Builder()
    x = b.input("x", (3,), "float64")
    b.output("loss", b.node("sum", b.node("gelu", b.node("multiply", x, x)), axes=(0,)))
    first = b.graph().gradient("loss", "x")
    again = Builder()
    value = again.input("x", (3,), "float64")
    names = {"x": value}
    for node in first.nodes:
        for name in node.inputs:
            if name not in names:
                names[name] = again.param(name, first.params[name])
        made = again.nodes(node.operator, *(names[name] for name in node.inputs), **node.attributes)
        names.update(zip(node.outputs, made, strict=True))
    again.output("slope", again.node("sum", names[first.results["grad_x"]], axes=(0,)))
    second = again.graph().gradient("slope", "x")
    at, step = np.asarray([0.3, -1.1, 0.7]), 1e-6
    slopes = [first.run(at + sign * step)[1] for sign in (1, -1)]
    np.testing.assert_allclose(second.run(at)[1], (slopes[0] - slopes[1]) / (2 * step), rtol=1e-6)


def test_a_value_that_is_not_needed_has_zeros() -> None:
    b = Builder()
    x, y = b.input("x", (2,)), b.input("y", (3, "n"))
    b.output("loss", b.node("sum", x, axes=(0,)))
    b.output("y_too", b.node("relu", y))
    _, _, by_y = b.graph().gradient("loss", "y").run(np.ones(2, "float32"), np.ones((3, 4), "float32"))
    assert by_y.shape == (3, 4) and not by_y.any()


@pytest.mark.parametrize(
    "of, wrt, reason",
    [
        ("nothing", "w", "no such output"),
        ("y", "w", r"it is float32\[7, 3\]"),
        ("loss", "v", "no such value"),
    ],
)
def test_what_has_no_gradient_is_refused(of: str, wrt: str, reason: str) -> None:
    with pytest.raises(tw.TilewrightError, match=f"(?s)TW0930.*{reason}"):
        perceptron().gradient(of, wrt)


def test_a_parameter_of_integers_has_no_gradient_and_the_fix_names_the_others() -> None:
    b = Builder()
    x, places = b.param("x", np.arange(4, dtype="float32")), b.param("places", np.asarray([2, 0]))
    b.output("loss", b.node("sum", b.node("gather", x, places), axes=(0,)))
    g = b.graph()
    with pytest.raises(tw.TilewrightError, match=r"(?s)TW0930: .*'places'.*it is int64\[2\].*fix: ") as raised:
        g.gradient("loss", list(g.params))
    wrt = eval(raised.value.fix, {"g": g})
    assert wrt == ["x"] and g.gradient("loss", wrt).run()[1].tolist() == [1, 0, 1, 0]


def test_sizes_may_be_symbols() -> None:
    b = Builder()
    x, w = b.input("x", ("n", 4)), b.param("w", np.arange(8, dtype="float32").reshape(4, 2) / 8)
    y = b.node("softmax", b.node("matmul", b.node("reshape", x, shape=("n", 2, 2)), b.node("reshape", w, shape=(2, 4))))
    b.output("loss", b.node("mean", b.node("square", y), axes=(0, 1, 2)))
    g = b.graph()
    d = g.gradient("loss", ["x", "w"])
    m = tw.build(d)
    for n in (1, 3):
        arrays = [np.random.default_rng(n).standard_normal((n, 4)).astype("float32")]
        for ours, theirs in zip(m(*arrays), d.run(*arrays), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
