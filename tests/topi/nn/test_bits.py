"""Products of integers bit by bit, against products of integers."""

from __future__ import annotations

import drawn
import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi
from tilewright.topi.row import find_reference
from topi_run import run


def integers(bits, *shape, seed=0):
    return np.random.default_rng(seed).integers(0, 1 << bits, shape).astype("int32")


def signed(weights, bits, unipolar):
    """What weights stand for: a bit of 0 is -1 where they are unipolar."""
    return sum((2 * (weights >> bit & 1) - 1) << bit for bit in range(bits)) if unipolar else weights


@pytest.mark.parametrize("unipolar", [True, False])
@pytest.mark.parametrize("word", drawn.part(["uint8", "uint16", "uint32", "uint64"], 2))
def test_dense(unipolar, word) -> None:
    x, w = integers(2, 3, 64), integers(3, 5, 64, seed=1)
    got = run(lambda a, b: topi.nn.bitserial_dense(a, b, 2, 3, word, "int16", unipolar), x, w)
    assert got.dtype == np.int16
    assert np.array_equal(got, x @ signed(w, 3, unipolar).T)


@pytest.mark.parametrize("unipolar", [True, False])
@pytest.mark.parametrize(("stride", "padding"), [(1, 0), (2, (1, 0))])
def test_convolutions(unipolar, stride, padding) -> None:
    x, w = integers(2, 1, 32, 7, 6), integers(1, 5, 32, 3, 3, seed=1)
    pads = (padding, padding) if isinstance(padding, int) else padding
    want = find_reference("conv")(x, signed(w, 1, unipolar), stride=(stride, stride), padding=(*pads, *pads))
    got = run(lambda a, b: topi.nn.bitserial_conv2d_nchw(a, b, stride, padding, 2, 1, "uint8", "int32", unipolar), x, w)
    assert np.array_equal(got, want)
    last = run(
        lambda a, b: topi.nn.bitserial_conv2d_nhwc(a, b, stride, padding, 2, 1, "uint8", "int32", unipolar),
        x.transpose(0, 2, 3, 1).copy(),
        w.transpose(2, 3, 1, 0).copy(),
    )
    assert np.array_equal(last.transpose(0, 3, 1, 2), want)


def test_binary_products() -> None:
    rng = np.random.default_rng(2)
    x, w = (rng.uniform(-1, 1, shape).astype("float32") for shape in ((3, 64), (5, 64)))
    packed = [run(topi.nn.binarize_pack, each) for each in (x, w)]
    assert packed[0].dtype == np.uint32
    assert packed[0][0, 0] == int("".join("1" if value >= 0 else "0" for value in x[0, :32]), 2)
    assert np.array_equal(run(topi.nn.binary_dense, *packed), np.where(x >= 0, 1, -1) @ np.where(w >= 0, 1, -1).T)
    assert np.array_equal(run(lambda a: topi.nn.binarize_pack(a, 0), x.T.copy()), packed[0].T)
    with pytest.raises(tw.TilewrightError, match="does not fill words"):
        topi.nn.binarize_pack(te.placeholder((3, 40)))
    with pytest.raises(tw.TilewrightError, match="words of uint32"):
        topi.nn.binary_dense(te.placeholder((3, 40)), te.placeholder((3, 40)))
