"""Drawn programs of loops and branches inside of each other: their gradients against differences, and against torch where it is."""

from __future__ import annotations

import importlib.util
from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from drawn_control import NAMES, as_graph, drawn_program, drawn_variables, run_program
from numpy.typing import NDArray

STEP = 1e-6


def loss_of(program: Any, env: dict[str, Any], lib: Any) -> Any:
    return sum((value * value).sum() for value in run_program(program, env, lib).values())


def gradients_by_torch(program: Any, env: dict[str, NDArray[Any]]) -> list[NDArray[Any]]:
    torch: Any = pytest.importorskip("torch")
    leaves = {name: torch.tensor(value, requires_grad=True) for name, value in env.items()}
    found = torch.autograd.grad(loss_of(program, leaves, torch), list(leaves.values()), allow_unused=True)
    return [np.zeros(3) if one is None else one.numpy() for one in found]


def gradients_by_differences(program: Any, env: dict[str, NDArray[Any]]) -> list[NDArray[Any]]:
    found: list[NDArray[Any]] = []
    for name in NAMES:
        sides = np.zeros((2, len(env[name])))
        for side, sign in enumerate((1, -1)):
            for at in range(len(env[name])):
                moved = {**env, name: env[name].copy()}
                moved[name][at] += sign * STEP
                sides[side, at] = loss_of(program, moved, np)
        found.append((sides[0] - sides[1]) / (2 * STEP))
    return found


@pytest.mark.parametrize("at", range(drawn.count(4, 1000)))
def test_gradients_of_drawn_programs(at: int) -> None:
    random = drawn.rng("control", at)
    program, env = drawn_program(random), drawn_variables(random)
    g = as_graph(program).gradient("loss", NAMES)
    loss, *found = g.run(**env)
    assert loss == pytest.approx(loss_of(program, env, np), rel=1e-9)
    for ours, theirs in zip(found, gradients_by_differences(program, env), strict=True):
        np.testing.assert_allclose(
            ours, theirs, rtol=1e-4, atol=1e-5 * max(1, np.abs(theirs).max()), err_msg=str(program)
        )
    if importlib.util.find_spec("torch"):
        for ours, theirs in zip(found, gradients_by_torch(program, env), strict=True):
            np.testing.assert_allclose(
                ours, theirs, rtol=1e-8, atol=1e-10 * max(1, np.abs(theirs).max()), err_msg=str(program)
            )
    if at % 4 == 0:
        for ours, theirs in zip(tw.build(g)(**env), [loss, *found], strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-11 * max(1, np.abs(theirs).max()))
