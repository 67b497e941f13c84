"""Kernels of GPUs whose shapes are read from the arguments: chosen schedules, at sizes that no tile divides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi

Declared = Callable[[Any, Any], list[te.Tensor]]


def matrix(n: Any, m: Any) -> te.Tensor:
    return te.placeholder((n, m), name="A")


def applied(function: Callable[[te.Tensor], te.Tensor]) -> Declared:
    def declare(n: Any, m: Any) -> list[te.Tensor]:
        A = matrix(n, m)
        return [A, function(A)]

    return declare


def product(n: Any, m: Any) -> list[te.Tensor]:
    A, W = matrix(n, m), te.placeholder((m, 40), name="W")
    return [A, W, topi.matmul(A, W)]


def convolution(n: Any, m: Any) -> list[te.Tensor]:
    A, W = te.placeholder((n, 3, m, 8), name="A"), te.placeholder((4, 3, 3, 3), name="W")
    return [A, W, topi.nn.conv2d(A, W, 1, 1)]


def attention(n: Any, m: Any) -> list[te.Tensor]:
    q, k, v = (te.placeholder((1, 2, n, 16), name=name) for name in "qkv")
    return [q, k, v, topi.nn.attention(q, k, v, 0.25, True)]


PROGRAMS: dict[str, Declared] = {
    "relu": applied(topi.nn.relu),
    "softmax": applied(lambda A: topi.nn.softmax(A, axis=1)),
    "sum": applied(lambda A: topi.sum(A, axis=1)),
    "argmax": applied(lambda A: topi.argmax(A, axis=1)),
    "transpose": applied(topi.transpose),
    "cumsum": applied(lambda A: topi.cumsum(A, axis=1)),
    "product": product,
    "convolution": convolution,
    "causal attention": attention,
}
SIZES = [(1, 1), (5, 7), (33, 65), (0, 4)]


@pytest.mark.parametrize("name", drawn.part(PROGRAMS, 4))
def test_one_kernel_serves_all_sizes(name: str) -> None:
    args = PROGRAMS[name](te.var("n"), te.var("m"))
    kernel = tw.build(args, target="cuda -emulate")
    for at, sizes in enumerate(SIZES):
        random = np.random.default_rng(at)
        declared = PROGRAMS[name](*sizes)
        shapes = [[int(str(extent)) for extent in tensor.shape] for tensor in declared]
        arrays = [random.standard_normal(shape).astype("float32") for shape in shapes[:-1]]
        found, expected = (np.zeros(shapes[-1], str(args[-1].dtype)) for _ in range(2))
        kernel(*arrays, found)
        tw.build(te.create_schedule(declared[-1].op), declared, target="interpret")(*arrays, expected)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_a_row_of_unknown_length_in_local_memory_is_refused() -> None:
    with pytest.raises(tw.CudaError, match=r"TW0811.*in local memory, has int64\(m\) elements"):
        tw.build(applied(lambda A: topi.sort(A, axis=1))(te.var("n"), te.var("m")), target="cuda -emulate")
