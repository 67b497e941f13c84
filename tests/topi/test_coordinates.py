"""Places of what is not zero, and tensors made of them; products with fractions that are integers."""

from __future__ import annotations

import drawn
import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi
from topi_run import floats, run


@pytest.mark.parametrize("shape", drawn.part([(9,), (4, 5), (2, 3, 4), (1, 1), (3, 0)], 3))
@pytest.mark.parametrize("dtype", ["float32", "int32", "bool"])
def test_places_of_what_is_not_zero(shape, dtype) -> None:
    x = np.random.default_rng(1).integers(0, 2, shape).astype(dtype)
    want = np.argwhere(x)
    assert np.array_equal(run(lambda a: topi.argwhere((len(want), len(shape)), a), x), want)
    more = run(lambda a: topi.argwhere((len(want) + 2,), a), x)
    assert np.array_equal(more[: len(want)], want)
    assert not more[len(want) :].any()
    if len(want):
        assert np.array_equal(run(lambda a: topi.argwhere((len(want) - 1,), a), x), want[:-1])


def test_dense_tensors_of_places() -> None:
    places, values = np.array([[0, 1], [3, 4], [2, 2]], "int32"), floats((3,))
    want = np.full((4, 5), -1, "float32")
    want[tuple(places.T)] = values
    assert np.array_equal(run(lambda i, v: topi.sparse_to_dense(i, (4, 5), v, -1), places, values), want)
    row = run(
        lambda i, v, d: topi.sparse_to_dense(i, (7,), v, d),
        np.array([1, 5], "int64"),
        values[:2].copy(),
        np.array(3, "float32"),
    )
    assert row.tolist() == [3, values[0], 3, 3, 3, values[1], 3]
    assert run(lambda i, v: topi.sparse_to_dense(i, (3,), v), np.array(1, "int32"), np.array(2, "int32")).tolist() == [
        0,
        2,
        0,
    ]
    with pytest.raises(tw.TilewrightError, match="not places"):
        topi.sparse_to_dense(te.placeholder((3,), "int32"), (4, 5), te.placeholder((3,)))


def test_places_in_another_shape() -> None:
    places = np.array([[0, 0, 0], [0, 1, 2], [1, 2, 3]], "int64")
    given = places, np.array([2, 3, 4], "int64"), np.array([6, -1], "int64")
    moved, shape = run(topi.sparse_reshape, *given)
    assert shape.tolist() == [6, 4]
    flat = np.ravel_multi_index(tuple(places.T), (2, 3, 4))
    assert np.array_equal(moved, np.stack(np.unravel_index(flat, (6, 4)), 1))


@pytest.mark.parametrize(("multiplier", "shift"), [(1395864371, -3), (1395864371, 2), (2**31 - 1, 0), (1 << 30, 1)])
def test_products_with_fixed_points(multiplier, shift) -> None:
    x = np.array([0, 1, -1, 7, -7, 123456, -123456, 2**20, -(2**20)], "int32")
    exact = [int(value) * multiplier * 2 ** max(shift, 0) for value in x]
    down = 31 + max(-shift, 0)
    assert run(lambda a: topi.fixed_point_multiply(a, multiplier, shift), x).tolist() == [
        (value + (1 << (down - 1))) >> down for value in exact
    ]
    with pytest.raises(tw.TilewrightError, match="multiplies int32"):
        topi.fixed_point_multiply(te.placeholder((3,)), 1, 0)


@pytest.mark.parametrize("normalized", [True, False])
def test_short_time_transforms(normalized) -> None:
    x, window = floats((2, 25)), floats((8,), seed=1)
    frames = np.stack([x[:, at : at + 8] * window for at in range(0, 18, 3)], 2)
    want = np.fft.rfft(frames.astype("float64"), axis=1) / (np.sqrt(8) if normalized else 1)
    got = run(lambda a, w: topi.stft(a, 8, 3, 8, w, normalized), x, window)
    np.testing.assert_allclose(got, np.stack([want.real, want.imag], -1), rtol=1e-5, atol=1e-5)


def test_a_buffer_that_moves_on() -> None:
    held, new = floats((4, 5, 3)), floats((4, 2, 3), seed=1)
    assert np.array_equal(
        run(lambda d, b: topi.nn.fifo_buffer(d, b, 1), new, held), np.concatenate([held, new], 1)[:, 2:]
    )


@pytest.mark.parametrize("code", [0, 1, 2, 3])
def test_simulated_quantisation(code) -> None:
    x, scale, zero = floats((3, 4)) * 300, np.abs(floats((4,))) + 0.1, np.array([0, 3, 1, 2], "int32")
    low, high = {1: (-128, 127), 2: (0, 255), 3: (-(2**31), 2**31 - 1)}.get(code, (0, 0))
    got = run(lambda a, s, z: topi.nn.simulated_quantize(a, te.const(code, "int32"), s, z), x, scale, zero)
    np.testing.assert_allclose(got, np.clip(np.rint(x / scale) + zero, low, high) if code else x, rtol=1e-6)
    back = run(lambda a, s, z: topi.nn.simulated_dequantize(a, te.const(code, "int32"), s, z), x, scale, zero)
    np.testing.assert_allclose(back, (x - zero) * scale if code else x, rtol=1e-6)
