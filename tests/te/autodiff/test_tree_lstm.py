"""A recurrence over trees: a Tree-LSTM whose nodes say who their children are (K. S. Tai et al., 2015), forward and back."""

from __future__ import annotations

from typing import Any

import numpy as np
from gradient_check import check_gradient, draw, evaluate, placeholder
from tilewright import te

# ruff: noqa: F821  scripts use names of their own


@te.hybrid.script
def tree_lstm(x: Any, left: Any, right: Any, w: Any, u: Any) -> Any:
    """The states of the nodes of binary trees, children before their parents; of a child that is not there, -1, it is zeros. Gates
    stand side by side: in, forget the left and the right child, out, new."""
    h = output_tensor((x.shape[0], u.shape[1] // 5), "float64")
    c = allocate((x.shape[0], u.shape[1] // 5), "float64")
    for t in range(x.shape[0]):
        gates = allocate((u.shape[1],), "float64")
        for g in range(u.shape[1]):
            for k in range(x.shape[1]):
                gates[g] = gates[g] + x[t, k] * w[k, g]
            if left[t] >= 0:
                for k in range(u.shape[1] // 5):
                    gates[g] = gates[g] + h[left[t], k] * u[k, g]
            if right[t] >= 0:
                for k in range(u.shape[1] // 5):
                    gates[g] = gates[g] + h[right[t], k] * u[u.shape[1] // 5 + k, g]
        for k in range(u.shape[1] // 5):
            cell = sigmoid(gates[k]) * tanh(gates[4 * (u.shape[1] // 5) + k])
            if left[t] >= 0:
                cell = cell + sigmoid(gates[u.shape[1] // 5 + k]) * c[left[t], k]
            if right[t] >= 0:
                cell = cell + sigmoid(gates[2 * (u.shape[1] // 5) + k]) * c[right[t], k]
            c[t, k] = cell
            h[t, k] = sigmoid(gates[3 * (u.shape[1] // 5) + k]) * tanh(cell)
    return h


def expected(x: Any, left: Any, right: Any, w: Any, u: Any) -> Any:
    size = u.shape[1] // 5
    h, c = np.zeros((len(x), size)), np.zeros((len(x), size))
    for t in range(len(x)):
        children = [(which, at) for which, at in enumerate((left[t], right[t])) if at >= 0]
        gates = x[t] @ w + sum(h[at] @ u[which * size : (which + 1) * size] for which, at in children)
        into, *forget, out = 1 / (1 + np.exp(-gates[: 4 * size].reshape(4, size)))
        c[t] = into * np.tanh(gates[4 * size :]) + sum(forget[which] * c[at] for which, at in children)
        h[t] = out * np.tanh(c[t])
    return h


def test_forward_and_back() -> None:
    left, right = np.int32([-1, -1, 0, -1, 2]), np.int32([-1, -1, 1, -1, 3])
    x, w, u = placeholder("x", 5, 2), placeholder("w", 2, 10), placeholder("u", 4, 10)
    sides = [te.placeholder((5,), "int32", name) for name in ("left", "right")]
    y = tree_lstm(x, *sides, w, u)
    given = {x: draw(x), sides[0]: left, sides[1]: right, w: draw(w), u: draw(u)}
    (states,) = evaluate([y], given)
    np.testing.assert_allclose(states, expected(*given.values()), rtol=1e-12, atol=1e-12)
    check_gradient(y, given, jacobian=False)
