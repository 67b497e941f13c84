"""Steps of training: what optimizers make of weights, in one call that updates them where they lie."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright.graph import Builder, Graph


def regression(dtype: str = "float64") -> Graph:
    """The mean square of x w + b - y."""
    b = Builder("regression")
    x, y = b.input("x", ("n", 3), dtype), b.input("y", ("n", 1), dtype)
    w = b.param("w", np.asarray([[0.5], [-1], [2]], dtype))
    error = b.node("subtract", b.node("add", b.node("matmul", x, w), b.param("b", np.asarray([0.25], dtype))), y)
    b.output("error", error)
    b.output("loss", b.node("mean", b.node("square", error), axes=(0, 1)))
    return b.graph()


def state_of(g: Graph, step: Graph) -> dict[str, Any]:
    """What a training begins with."""
    return {name: np.array(g.params[name]) if name in g.params else np.zeros(*step.inputs[name]) for name in step.state}


def data(dtype: str = "float64") -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    x = random.standard_normal((7, 3)).astype(dtype)
    return x, (x @ np.asarray([[1], [2], [-1]], dtype) + 0.5).astype(dtype)


Rule = Callable[[Any, Any, dict[str, Any], int], Any]


def _adam(w: Any, g: Any, kept: dict[str, Any], t: int, lr: float = 0.1, decay: float = 0.0) -> Any:
    kept["m"] = 0.8 * kept.get("m", 0) + 0.2 * g
    kept["v"] = 0.9 * kept.get("v", 0) + 0.1 * g * g
    return w * (1 - lr * decay) - lr * kept["m"] / (1 - 0.8**t) / (np.sqrt(kept["v"] / (1 - 0.9**t)) + 1e-8)


def _momentum(w: Any, g: Any, kept: dict[str, Any], t: int) -> Any:
    kept["m"] = 0.9 * kept.get("m", 0) + g
    return w - 0.01 * kept["m"]


def _nesterov(w: Any, g: Any, kept: dict[str, Any], t: int) -> Any:
    kept["m"] = 0.5 * kept.get("m", 0) + g
    return w - 0.01 * (g + 0.5 * kept["m"])


def _rmsprop(w: Any, g: Any, kept: dict[str, Any], t: int) -> Any:
    kept["v"] = 0.9 * kept.get("v", 0) + 0.1 * g * g
    return w - 0.01 * g / (np.sqrt(kept["v"]) + 1e-6)


def _adagrad(w: Any, g: Any, kept: dict[str, Any], t: int) -> Any:
    kept["v"] = kept.get("v", 0) + g * g
    return w - 0.1 * g / (np.sqrt(kept["v"]) + 1e-10)


CASES: list[tuple[str, dict[str, Any], Rule]] = [
    ("sgd", {"lr": 0.05, "weight_decay": 0.1}, lambda w, g, kept, t: w - 0.05 * (g + 0.1 * w)),
    ("momentum", {"lr": 0.01}, _momentum),
    ("nesterov", {"lr": 0.01, "momentum": 0.5}, _nesterov),
    ("rmsprop", {"alpha": 0.9, "eps": 1e-6}, _rmsprop),
    ("adagrad", {"lr": 0.1}, _adagrad),
    ("adam", {"lr": 0.1, "betas": (0.8, 0.9)}, _adam),
    (
        "adamw",
        {"lr": 0.1, "betas": (0.8, 0.9), "weight_decay": 0.3},
        lambda w, g, kept, t: _adam(w, g, kept, t, decay=0.3),
    ),
]


@pytest.mark.parametrize("optimizer, options, rule", CASES, ids=[name for name, _, _ in CASES])
def test_optimizers_compute_what_they_say(optimizer: str, options: dict[str, Any], rule: Rule) -> None:
    g, (x, y) = regression(), data()
    step = g.training_step("loss", optimizer=optimizer, **options)
    assert tw.graph.parse(str(step)) == step
    state = state_of(g, step)
    weights = {name: np.array(g.params[name]) for name in ("w", "b")}
    kept: dict[str, dict[str, Any]] = {"w": {}, "b": {}}
    for t in range(1, 5):
        results = dict(zip(step.outputs, step.run(x, y, **state), strict=True))
        error = x @ weights["w"] + weights["b"] - y
        assert results["loss"] == pytest.approx((error**2).mean(), rel=1e-12)
        gradients = {"w": 2 * x.T @ error / len(x), "b": 2 * error.sum(0) / len(x)}
        weights = {name: rule(weights[name], gradients[name], kept[name], t) for name in weights}
        state = {name: results[follows] for name, follows in step.state.items()}
        for name in weights:
            np.testing.assert_allclose(state[name], weights[name], rtol=1e-6)


def test_one_call_a_step_updates_the_weights_where_they_lie() -> None:
    g, (x, y) = regression("float32"), data("float32")
    step = g.training_step("loss", optimizer="adam", lr="rate")
    m, state = tw.build(step), state_of(g, step)
    assert list(m.inputs) == ["x", "y", "w", "b", "w.m", "w.v", "b.m", "b.v", "step", "rate"]
    assert list(m.outputs) == ["error", "loss"]
    losses: list[float] = []
    for _ in range(60):
        rate = np.float32(0.1)
        losses.append(float(m(x, y, rate=rate, **state)[1]))
        if len(losses) == 1:
            results = dict(zip(step.outputs, step.run(x, y, rate=rate, **state_of(g, step)), strict=True))
            for name, follows in step.state.items():
                np.testing.assert_allclose(state[name], results[follows], rtol=1e-5, atol=1e-7)
    assert losses[-1] < 0.02 * losses[0]
    assert state["step"] == 60


def test_weights_that_are_not_named_stay() -> None:
    g = regression()
    step = g.training_step("loss", ["w"], optimizer="sgd")
    assert list(step.state) == ["w"] and next(iter(step.params)) == "b"


def test_constants_are_trained_only_where_they_are_named() -> None:
    b = Builder("scaled")
    x, w, half = b.input("x", (3,)), b.param("w", np.ones(3, "float32")), b.param("half", np.float32(0.5), fixed=True)
    b.output("loss", b.node("sum", b.node("multiply", b.node("multiply", x, w), half), axes=(0,)))
    g = b.graph()
    assert tw.graph.parse(str(g)) == g and "  const half: float32[] = (0.5)" in str(g)
    assert list(g.training_step("loss", optimizer="sgd").state) == ["w"]
    assert list(g.training_step("loss", ["half"], optimizer="sgd").state) == ["half"]


@pytest.mark.parametrize(
    "change, reason",
    [
        ({"optimizer": "newton"}, "there is no optimizer 'newton'"),
        ({"betas": (0.5, 0.5), "optimizer": "sgd"}, "sgd has no option 'betas'"),
        ({"wrt": ["v"]}, "'v' is neither a parameter nor an input"),
        ({"wrt": []}, "no weights are given"),
    ],
)
def test_a_training_that_is_none_is_refused(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(tw.GraphError, match=f"(?s)TW0931.*{reason}"):
        regression().training_step("loss", **change)
