"""te.gradient at kinks, zeros and ties."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi

INF = np.inf
KINKS: dict[str, tuple[Any, list[list[float]], list[list[float]]]] = {
    "maximum": (topi.maximum, [[0, 1], [0, 2]], [[1, 0], [0, 1]]),
    "relu": (topi.nn.relu, [[-1, 0, 1]], [[0, 0, 1]]),
    "clip": (lambda x: topi.clip(x, -1, 1), [[-2, -1, 0, 1, 2]], [[0, 1, 1, 1, 0]]),
    "a clip from 0 on": (lambda x: topi.clip(x, 0, 1), [[-1, 0, 1, 2]], [[0, 1, 1, 0]]),
    "hard_swish": (topi.nn.hard_swish, [[-4, -3, 0, 3, 4]], [[0, 0, 0.5, 1, 1]]),
    "abs": (topi.abs, [[-1, 0, 1]], [[-1, 0, 1]]),
    "sign": (topi.sign, [[-1, -0.0, 0, 1]], [[0, 0, 0, 0]]),
    "softplus": (topi.nn.softplus, [[-800, 0, 800]], [[0, 0.5, 1]]),
    "log_add_exp": (
        topi.log_add_exp,
        [[0, 5, -3, -INF, 0], [0, 5, -3, 0, -INF]],
        [[0.5, 0.5, 0.5, 0, 1], [0.5, 0.5, 0.5, 1, 0]],
    ),
    "log_add_exp of a number": (lambda x: topi.log_add_exp(x, 0.0), [[-800, 0, 800]], [[0, 0.5, 1]]),
    "atan2": (topi.atan2, [[0, 0, 1], [0, 2, 0]], [[0, 0.5, 0], [0, 0, -1]]),
    "hypot": (topi.hypot, [[0, 3], [0, 4]], [[0, 0.6], [0, 0.8]]),
    "power": (topi.power, [[0, 0, 0], [0, 1, 2]], [[0, 1, 0], [0, 0, 0]]),
    "sqrt": (topi.sqrt, [[0, 4]], [[INF, 0.25]]),
    "a root that is left out": (
        lambda x: te.compute(x.shape, lambda i: te.select(x[i] > 0, te.sqrt(x[i]), 0.0)),
        [[-1, 0, 4]],
        [[0, 0, 0.25]],
    ),
    "prod": (lambda x: topi.prod(x, 0), [[0, 2, 3]], [[6, 0, 0]]),
    "cumprod": (lambda x: topi.cumprod(x, 0), [[0, 2, 3]], [[9, 0, 0]]),
    "softmax of infinities": (lambda x: topi.nn.softmax(x, 0), [[-INF, 1, 1]], [[0, 0, 0]]),
    "max": (lambda x: topi.max(x, 0), [[1, 2, 2]], [[0, 1, 0]]),
}
"""What is differentiated, where, and the derivative of the sum of its elements by each input."""


@pytest.mark.parametrize("name", KINKS)
def test_derivatives_at_kinks(name: str) -> None:
    function, given, expected = KINKS[name]
    inputs = [te.placeholder((len(numbers),), "float64", f"x{at}") for at, numbers in enumerate(given)]
    gradients = te.gradient(topi.sum(function(*inputs)), inputs)
    results = [np.empty(len(numbers)) for numbers in given]
    tw.build([*inputs, *gradients], target="interpret")(*map(np.array, map(np.float64, given)), *results)
    for got, want in zip(results, expected, strict=True):
        np.testing.assert_allclose(got, want, atol=1e-12)


def test_log_add_exp_holds_where_it_is_smooth_and_where_it_is_infinite() -> None:
    x, y = (te.placeholder((6,), "float64", name) for name in "xy")
    a, b, out = np.array([0, 3, 1e300, -INF, INF, INF]), np.array([0, 3, -1e300, -INF, INF, -INF]), np.empty(6)
    tw.build([x, y, topi.log_add_exp(x, y)], target="interpret")(a, b, out)
    np.testing.assert_allclose(out, np.logaddexp(a, b), rtol=1e-15)
