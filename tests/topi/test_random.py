"""Random numbers: known answers of Threefry, what becomes of a generator, and the distributions."""

from __future__ import annotations

import drawn
import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi
from topi_run import run

ZERO = [0x09218EBDE6C85537, 0x55941F5266D86105, 0x4BD25E16282434DC, 0xEE29EC846BD2E40B]
"""Of a key and a counter of zeros: Random123's known answer for threefry4x64 of 20 rounds."""


def key(seed=0, counter=0, bit=1 << 63, low=0):
    return np.array([*topi.random.threefry_key(seed)[:7], counter, bit, low], "uint64")


def generated(gen, *shape):
    return run(lambda g: topi.random.threefry_generate(g, shape), gen)


def split(gen):
    return run(topi.random.threefry_split, gen)


def test_known_answers() -> None:
    after, words = generated(key(), 4)
    assert words.tolist() == ZERO
    assert after.tolist() == key(counter=4).tolist()
    assert generated(key(), 2, 3)[1].ravel().tolist()[:4] == ZERO
    assert generated(key(), 3)[0][7] == 4
    assert generated(key(), 7)[1][4:].tolist() == generated(key(counter=1), 3)[1].tolist()
    assert generated(key(), 0)[1].shape == (0,)


def test_generators_go_on() -> None:
    late, words = generated(key(counter=2**64 - 2), 2048)
    assert late.tolist() == [0, 0, 0, 0, 1 << 63, 0, 0, 2048, 1 << 62, 0]
    assert len(set(words.tolist())) == 2048
    assert generated(key(counter=2**64 - 2, bit=0), 8)[0][:4].any()
    left, right = split(key())
    assert left.tolist() == key(bit=1 << 62).tolist()
    assert right.tolist() == [0, 0, 0, 0, 1 << 63, 0, 0, 0, 1 << 62, 0]
    assert split(key(bit=1))[0][8:].tolist() == [0, 1 << 63]
    assert split(key(bit=0, low=4))[1][[5, 9]].tolist() == [4, 2]
    left, right = split(key(bit=0))
    assert left[:4].tolist() == right[:4].tolist() == ZERO
    assert (left[4], right[4]) == (0, 1 << 63)


@pytest.mark.parametrize("dtype", drawn.part(["float32", "float64"], 1))
def test_distributions(dtype) -> None:
    _, words = generated(key(5), 100, 99)
    _, flat = run(
        lambda g, low, high: topi.random.uniform(g, low, high, (100, 99), dtype),
        key(5),
        np.array(-2, dtype),
        np.array(3, dtype),
    )
    bits, kept = (words & 0xFFFFFFFF, 9) if dtype == "float32" else (words, 12)
    unit = (bits >> np.uint64(kept)).astype("float64") / 2.0 ** (23 if dtype == "float32" else 52)
    np.testing.assert_allclose(flat, unit * 5 - 2, rtol=1e-6, atol=1e-6)
    assert flat.min() >= -2
    assert flat.max() < 3
    _, bell = run(lambda g: topi.random.normal(g, 1.0, 2.0, (100, 99), dtype), key(5))
    assert bell.dtype == dtype
    assert abs(bell.mean() - 1) < 0.08
    assert abs(bell.std() - 2) < 0.08
    with pytest.raises(tw.TilewrightError, match="random bits"):
        topi.random.uniform(te.placeholder((10,), "uint64"), 0, 1, (3,), "int32")
    with pytest.raises(tw.TilewrightError, match="ten words"):
        topi.random.threefry_split(te.placeholder((10,)))
