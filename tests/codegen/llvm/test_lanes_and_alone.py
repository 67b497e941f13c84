"""A function of mathematics is one sequence of operations: an element has the same bits in lanes of any length and alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilewright as tw
from this_machine import runnable
from tilewright import te

TARGETS = runnable("llvm", "llvm -mattr=-avx512f", "llvm -mcpu=x86-64-v2")
NAMES = (
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "tanh",
    "sigmoid",
    "erf",
    "sin",
    "cos",
    "rsqrt",
    "sqrt",
    "pow",
)


def arguments(count: int) -> np.ndarray[Any, Any]:
    """Numbers of every size and sign, the ends of ranges, subnormal ones, infinities and NaN among them."""
    rng = np.random.default_rng(11)
    any_bits = rng.integers(0, 1 << 32, count, dtype=np.uint32).view("float32")
    usual = rng.uniform(-20, 20, count).astype("float32")
    special = np.array(
        [0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1.1754944e-38, 3.4e38, 88.7, -87.4, -104.0],
        "float32",
    )
    return np.concatenate([special, any_bits, usual])[:count]


def computed(name: str, target: str, lanes: int, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    X = te.placeholder(x.shape, name="X")
    function = getattr(te, name)
    value = (lambda i: function(X[i], X[x.size - 1 - i])) if name == "pow" else (lambda i: function(X[i]))
    Y = te.compute(x.shape, value, name="Y")
    s = te.create_schedule(Y.op)
    if lanes:
        s[Y].vectorize(s[Y].split(Y.op.axis[0], factor=lanes)[1])
    out = np.zeros_like(x)
    tw.build(s, [X, Y], target=target)(x, out)
    return out


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", NAMES)
def test_lanes_of_any_length_have_the_bits_of_one(name: str, target: str) -> None:
    x = arguments(1 + 16 * 21)
    alone = computed(name, target, 0, x)
    for lanes in (7, 16):
        got = computed(name, target, lanes, x)
        wrong = (got.view(np.uint32) != alone.view(np.uint32)) & ~(np.isnan(got) & np.isnan(alone))
        assert not wrong.any(), f"{name}({x[wrong][:3]}) in {lanes} lanes is {got[wrong][:3]}, alone {alone[wrong][:3]}"
