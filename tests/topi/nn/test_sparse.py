"""Sparse matrices, by rows of elements and of blocks, against dense ones; dtypes, empty rows, errors."""

from __future__ import annotations

import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi
from topi_run import floats, run


def rows_of(dense, high=1, wide=1):
    """The blocks of a matrix that are not all zeros: data, indices, indptr."""
    blocks = dense.reshape(dense.shape[0] // high, high, -1, wide).swapaxes(1, 2)
    kept = (blocks != 0).any((2, 3))
    begins = np.concatenate([[0], np.cumsum(kept.sum(1))]).astype("int32")
    return blocks[kept].copy(), np.nonzero(kept)[1].astype("int32"), begins


def holes(shape, high=1, wide=1, seed=0):
    """Floats in some blocks of zeros; the first row of blocks has none."""
    kept = np.random.default_rng(seed).random((shape[0] // high, shape[1] // wide)) < 0.4
    kept[0] = False
    return floats(shape, seed=seed) * np.repeat(np.repeat(kept, high, 0), wide, 1)


@pytest.mark.parametrize(("high", "wide"), [(1, 1), (4, 3), (1, 5)])
def test_products(high, wide) -> None:
    x, w = floats((7, 30)), holes((12, 30), high, wide)
    data, indices, begins = rows_of(w, high, wide)
    if high == wide == 1:
        data = data.reshape(-1)
    np.testing.assert_allclose(run(topi.nn.sparse_dense, x, data, indices, begins), x @ w.T, rtol=1e-5, atol=1e-6)
    left = run(lambda *given: topi.nn.sparse_dense(*given, sparse_lhs=True), x, data, indices, begins)
    np.testing.assert_allclose(left, w @ x.T, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("wide", [1, 3])
def test_windows_of_one(layout, wide) -> None:
    x, w = floats((2, 3, 5, 24)), holes((8, 24), 4, wide)
    data, indices, begins = rows_of(w, 4, wide)
    image = x if layout == "NHWC" else x.transpose(0, 3, 1, 2).copy()
    stored = data[:, :, 0].copy() if wide == 1 else data
    got = run(lambda *given: topi.nn.sparse_conv2d(*given, layout), image, stored, indices, begins)
    np.testing.assert_allclose(got if layout == "NHWC" else got.transpose(0, 2, 3, 1), x @ w.T, rtol=1e-5, atol=1e-6)


def test_sums_and_transposes() -> None:
    x, w = floats((12, 12)), holes((12, 12), seed=3)
    data, indices, begins = rows_of(w)
    given = data.reshape(-1), indices, begins
    assert np.array_equal(run(topi.nn.sparse_add, x, *given), x + w)
    turned = rows_of(w.T.copy())
    for got, want in zip(run(topi.nn.sparse_transpose, *given), (turned[0].reshape(-1), *turned[1:]), strict=True):
        assert np.array_equal(got, want)


def test_what_is_no_sparse_matrix_is_refused() -> None:
    x, data, places = te.placeholder((3, 4)), te.placeholder((5,)), te.placeholder((5,), "int32")
    with pytest.raises(tw.TilewrightError, match="not places"):
        topi.nn.sparse_dense(x, data, data, places)
    with pytest.raises(tw.TilewrightError, match="not a sparse matrix"):
        topi.nn.sparse_dense(x, te.placeholder((5, 1, 1, 1)), places, places)
    with pytest.raises(tw.TilewrightError, match="windows of 1 x 1"):
        topi.nn.sparse_conv2d(te.placeholder((1, 2, 2, 4)), data, places, places, "NHCW")
