"""Dimensions of tw.jit's arguments that may change from call to call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.driver.jit import CacheInfo


def floats(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def test_one_kernel_serves_every_size() -> None:
    sizes: list[Any] = []

    @tw.jit(dynamic={"x": (0,), "y": (0,)})
    def weighed(x: Any, y: Any, factor: float = 2.0) -> Any:
        sizes.append(x.shape[0])
        return te.compute(x.shape, lambda i, j: x[i, j] * y[i] * factor)

    for rows in (5, 1, 8, 0, 257, 64):
        x, y = floats(rows, 3, seed=1), floats(rows, seed=2)
        got = weighed(x, y)
        assert got.shape == (rows, 3)
        np.testing.assert_allclose(got, x * y[:, None] * 2, rtol=1e-6)
    assert weighed.cache_info() == CacheInfo(5, 1, 1) and len(sizes) == 1
    assert (
        str(weighed.kernel(x, y).signature)
        == "weighed(x: float32[x_0, 3], y: float32[x_0], compute: out float32[x_0, 3])"
    )
    weighed(floats(2, 4), floats(2))  # what is not dynamic is what a kernel is kept by
    weighed(floats(2, 4), floats(2), 3.0)
    assert weighed.cache_info().misses == 3


def test_dimensions_that_are_equal_are_one_variable() -> None:
    shapes: list[Any] = []

    @tw.jit(dynamic={"x": (0, -1), "y": (0,)})
    def scaled(x: Any, y: Any) -> Any:
        shapes.append((*x.shape, *y.shape))
        return te.compute(x.shape, lambda i, j: x[i, j] * y[j])

    for m, n in ((5, 7), (1, 9), (17, 2), (4, 4), (2, 2)):
        x, y = floats(m, n, seed=1), floats(n, seed=2)
        np.testing.assert_allclose(scaled(x, y), x * y, rtol=1e-6)
    (m, n, k), (rows, columns, _) = shapes
    assert m is not n and n is k and rows is columns


def test_lists_of_arrays_and_outputs_that_are_given() -> None:
    @tw.jit(dynamic={"parts": (0,)})
    def total(parts: Any) -> Any:
        return te.compute(parts[0].shape, lambda i: parts[0][i] + parts[1][i]), parts[1]

    out = [np.empty(4, np.float32), np.empty(4, np.float32)]
    for size in (3, 4):
        first, second = total([floats(size), floats(size)])
        np.testing.assert_array_equal(first, floats(size) * 2)
        np.testing.assert_array_equal(second, floats(size))
    assert total([floats(4), floats(4)], out=out) is out
    np.testing.assert_array_equal(out[0], floats(4) * 2)
    with pytest.raises(tw.CallError, match=r"(?s)TW0532: total has 2 outputs, and out= gives 1.*float32\[parts0_0\]"):
        total([floats(4), floats(4)], out=out[:1])


def test_extents_of_outputs_follow_from_those_of_inputs() -> None:
    twice = tw.jit(dynamic={"x": (0,)})(lambda x: te.compute((x.shape[0] * 2 + 1,), lambda i: x[i // 3]))
    for size in (2, 5):
        assert twice(floats(size)).shape == (2 * size + 1,)
    assert twice.cache_info().misses == 1


@pytest.mark.parametrize("dynamic", [{"z": (0,)}, {"x": 0}, {"x": ("n",)}, {"only": (0,)}])
def test_dynamic_dimensions_are_numbers_by_names_of_arguments(dynamic: Any) -> None:
    with pytest.raises(tw.CallError, match=r"TW0530: cannot take .* as dynamic dimensions"):
        tw.jit(dynamic=dynamic)(lambda x, *, only=0: x)


def test_the_kernels_that_were_used_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.driver.jit._KEPT", 2)
    f = tw.jit(lambda x: te.compute(x.shape, lambda i: x[i] + 1))
    for size in (1, 2, 1, 3, 1):
        f(floats(size))
    assert f.cache_info() == CacheInfo(2, 3, 2)  # the kernel of 2 went when that of 3 came
    f(floats(2))
    assert f.cache_info() == CacheInfo(2, 4, 2)


def test_tensors_of_torch_and_jax_have_dynamic_dimensions_too() -> None:
    f = tw.jit(dynamic={"x": (0,)})(lambda x: te.compute(x.shape, lambda i: x[i] + 1))
    torch = pytest.importorskip("torch")
    jax = pytest.importorskip("jax")
    for size in (3, 6):
        assert f(torch.ones(size)).tolist() == [2.0] * size
        assert isinstance(f(jax.numpy.ones(size)), jax.Array)
    assert f.cache_info().misses == 2
