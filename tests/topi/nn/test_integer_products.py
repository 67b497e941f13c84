"""Products and convolutions of bytes: exact, whatever the zero points, and in vectors of pairs."""

from __future__ import annotations

import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi
from tilewright.topi.row import find_reference


def drawn(seed: int, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    return [
        random.integers(0, 256, shape).astype("uint8") if at == 0 else random.integers(-128, 128, shape).astype("int8")
        for at, shape in enumerate(shapes)
    ]


def test_a_product_is_exact_at_the_ends_of_the_range() -> None:
    x, w = drawn(0, (5, 67), (67, 33))
    x[0], w[:, 0] = 255, -128
    zero, zeros = np.asarray(0, "uint8"), np.arange(-16, 17).astype("int8")
    args = [
        te.placeholder(one.shape, str(one.dtype), name) for one, name in zip((x, w, zero, zeros), "xwzv", strict=True)
    ]
    found = np.zeros((5, 33), "int32")
    kernel = tw.build([*args, topi.nn.integer_matmul(*args)])
    kernel(x, w, zero, zeros, found)
    np.testing.assert_array_equal(found, x.astype("int32") @ (w.astype("int32") - zeros))


def test_products_of_a_batch_are_exact() -> None:
    x, w = drawn(2, (2, 3, 5, 67), (2, 3, 67, 17))
    zero = np.asarray(100, "uint8")
    args = [te.placeholder(one.shape, str(one.dtype), name) for one, name in zip((x, w, zero), "xwz", strict=True)]
    found = np.zeros((2, 3, 5, 17), "int32")
    kernel = tw.build([*args, topi.nn.integer_matmul(*args)])
    kernel(x, w, zero, found)
    np.testing.assert_array_equal(found, (x.astype("int32") - 100) @ w.astype("int32"))


def test_a_convolution_of_any_form_is_exact() -> None:
    x, w = drawn(1, (2, 7, 6, 5), (18, 5, 3, 2))
    zero = np.asarray(100, "uint8")
    args = [te.placeholder(one.shape, str(one.dtype), name) for one, name in zip((x, w, zero), "xwz", strict=True)]
    how = {"stride": (2, 1), "padding": (1, 0, 2, 1), "dilation": (1, 2)}
    y = topi.nn.integer_conv(*args, **how)
    expected = find_reference("integer_conv")(x, w, zero, **how)
    found = np.zeros(expected.shape, "int32")
    kernel = tw.build([*args, y])
    kernel(x, w, zero, found)
    np.testing.assert_array_equal(found, expected)
    assert "vpmaddwd" in tw.build([*args, y], target="llvm -mcpu=haswell").source("asm")


def test_four_bytes_at_once_are_exact() -> None:
    for channels in (5, 6, 8):
        x, w = drawn(channels, (2, 7, 6, channels), (18, channels, 3, 2))
        args = [te.placeholder(one.shape, str(one.dtype), name) for one, name in zip((x, w), "xw", strict=True)]
        found = np.zeros((2, 7, 7, 18), "int32")
        tw.build([*args, topi.nn.integer_conv(*args, padding=1, quads=True)])(x, w, found)
        np.testing.assert_array_equal(found, find_reference("integer_conv")(x, w, padding=(1, 1, 1, 1)))


def test_channels_for_themselves_and_in_groups_are_exact() -> None:
    zero = np.asarray(9, "uint8")
    for groups, each, outs in ((6, 1, 1), (2, 3, 3), (3, 5, 8), (2, 2, 16), (2, 3, 17), (20, 1, 2)):
        x, w = drawn(groups, (1, 5, 7, groups * each), (groups * outs, each, 3, 3))
        args = [te.placeholder(one.shape, str(one.dtype), name) for one, name in zip((x, w, zero), "xwz", strict=True)]
        found = np.zeros((1, 5, 7, groups * outs), "int32")
        kernel = tw.build([*args, topi.nn.integer_conv(*args, padding=1, groups=groups)])
        kernel(x, w, zero, found)
        expected = find_reference("integer_conv")(x, w, zero, padding=(1, 1, 1, 1), groups=groups)
        np.testing.assert_array_equal(found, expected)


def test_what_is_no_byte_is_refused() -> None:
    x, w = te.placeholder((3, 4), "int16", "x"), te.placeholder((4, 3), "int8", "w")
    with pytest.raises(tw.TensorExpressionError, match=r"TW0198: topi.nn.integer_matmul cannot take .*x"):
        topi.nn.integer_matmul(x, w)
    bytes_of_one_kind = te.placeholder((1, 5, 5, 4), "int8", "x"), te.placeholder((4, 4, 3, 3), "int8", "w")
    with pytest.raises(tw.TensorExpressionError, match=r"TW0198: topi.nn.integer_conv cannot take four bytes at once"):
        topi.nn.integer_conv(*bytes_of_one_kind, quads=True)
    with pytest.raises(tw.TensorExpressionError, match=r"TW0198: topi.nn.integer_matmul cannot multiply"):
        topi.nn.integer_matmul(te.placeholder((3, 5), "int8"), w)
