"""Products and convolutions of floats of 8 and 16 bits: their float64 values, rounded to float32 in sums and to their dtype once."""

from __future__ import annotations

from functools import partial

import drawn
import ml_dtypes
import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi
from tilewright.compat import tvm
from tilewright.topi.row import find_reference

KINDS = {
    "float8_e4m3fn": (np.dtype(ml_dtypes.float8_e4m3fn), 2.0**-4),
    "float8_e5m2": (np.dtype(ml_dtypes.float8_e5m2), 2.0**-3),
    "float16": (np.dtype("float16"), 2.0**-11),
    "bfloat16": (np.dtype(ml_dtypes.bfloat16), 2.0**-8),
}
TARGETS = ("llvm", "c", "interpret", "cuda -emulate")
UNIT = 2.0**-24


CONV = find_reference("conv")


def over_last(x, w):
    """The convolution of channels that come last."""
    return np.moveaxis(CONV(np.moveaxis(x, -1, 1), w.transpose(3, 2, 0, 1)), 1, -1)


def in_blocks(x, w):
    """The convolution of channels in blocks."""
    outputs, _, *reach, _, block = w.shape
    whole = np.moveaxis(x, -1, 2).reshape(len(x), -1, *x.shape[2:4])
    y = CONV(whole, w.transpose(0, 5, 1, 4, 2, 3).reshape(outputs * block, -1, *reach))
    return np.moveaxis(y.reshape(len(x), outputs, block, *y.shape[2:]), 2, -1)


CASES = {
    "matmul": (lambda a, b: topi.matmul(a, b), np.matmul, (33, 257), (257, 18)),
    "matmul A' B'": (lambda a, b: topi.matmul(a, b, True, True), lambda a, b: a.T @ b.T, (257, 9), (17, 257)),
    "batch_matmul": (topi.batch_matmul, lambda a, b: a @ b.swapaxes(1, 2), (2, 5, 131), (1, 7, 131)),
    "dense": (topi.nn.dense, lambda x, w: x @ w.T, (1, 511), (33, 511)),
    "tensordot": (lambda a, b: topi.tensordot(a, b, 2), lambda a, b: np.tensordot(a, b, 2), (5, 13, 11), (13, 11, 3)),
    "einsum": (lambda a, b: topi.einsum("bi,jb->ij", a, b), lambda a, b: a.T @ b.T, (129, 5), (6, 129)),
    "conv2d": (
        lambda x, w: topi.nn.conv2d(x, w, 1, 0),
        CONV,
        (1, 19, 9, 8),
        (5, 19, 3, 3),
    ),
    "conv2d, groups": (lambda x, w: topi.nn.conv2d(x, w, 1, 0, groups=2), partial(CONV, groups=2), (2, 14, 7, 6), (4, 7, 3, 2)),
    "conv2d, NHWC": (
        lambda x, w: topi.nn.conv2d(x, w, 1, 0, layout="NHWC"),
        over_last,
        (1, 7, 6, 21),
        (3, 3, 21, 5),
    ),
    "conv2d in blocks": (
        lambda x, w: topi.nn.conv2d(x, w, 1, 0, layout="NCHW4c"), in_blocks, (1, 5, 6, 5, 4), (2, 5, 3, 2, 4, 8),
    ),
    "conv2d, Winograd": (
        lambda x, w: topi.nn.conv2d(x, w, 1, 0, algorithm="winograd"),
        CONV,
        (1, 19, 9, 8),
        (5, 19, 3, 3),
    ),
    "conv1d": (
        topi.nn.conv1d, CONV, (1, 37, 14), (3, 37, 5),
    ),
    "conv3d": (
        lambda x, w: topi.nn.conv3d_ncdhw(x, w, 1, 0),
        CONV,
        (1, 9, 4, 5, 4),
        (3, 9, 2, 3, 2),
    ),
    "depthwise_conv2d": (
        lambda x, w: topi.nn.depthwise_conv2d(x, w, 1, 0),
        partial(CONV, groups=6),
        (1, 6, 9, 8),
        (6, 1, 5, 5),
    ),
}  # fmt: skip


def call(name, kind, target):
    """The result of a case, what it should be, and by how much each element may be off before it is rounded."""
    declare, reference, *shapes = CASES[name]
    dtype, _ = KINDS[kind]
    rng = np.random.default_rng(7)
    a, b = (((rng.standard_normal(shape) + 1) / 4).astype(dtype) for shape in shapes)  # whose sums all kinds hold
    A, B = (te.placeholder(x.shape, kind, name) for x, name in ((a, "A"), (b, "B")))
    C = declare(A, B)
    assert C.dtype == kind
    found = np.zeros(tuple(extent.value for extent in C.shape), dtype)
    tw.build([A, B, C], target=target)(a, b, found)
    wide = [x.astype("float64") for x in (a, b)]
    exact, size = reference(*wide), reference(*map(abs, wide))
    terms = 24 * size.max() if "Winograd" in name else shapes[0][-1] * 32 * size
    return found.astype("float64"), exact, terms * UNIT


@pytest.mark.parametrize("kind", drawn.part(list(KINDS), 1))
@pytest.mark.parametrize("name", CASES)
def test_sums_in_float32_are_rounded_once(name, kind):
    """A sum of a few hundred terms that was rounded in each step would be off by several units of its dtype."""
    for target in ("llvm", *drawn.part(TARGETS[1:], 1)):
        found, exact, error = call(name, kind, target)
        dtype, unit = KINDS[kind]
        least = float(ml_dtypes.finfo(dtype).smallest_subnormal)
        assert (abs(found - exact) <= np.maximum(unit * abs(exact) * 1.001, least / 2) + error).all(), target


def test_a_bias_is_added_before_rounding():
    X, W, B = (te.placeholder(shape, "float16") for shape in ((1, 1), (1, 1), (1,)))
    y = np.zeros((1, 1), "float16")
    tw.build([X, W, B, topi.nn.dense(X, W, B)])(
        np.full((1, 1), 33, "float16"), np.full((1, 1), 63.0, "float16"), np.full(1, -2048, "float16"), y
    )
    assert y[0, 0] == 31  # 2079, which alone would round to 2080


def test_an_out_dtype_is_what_is_added_up_in():
    """What a program asks for, and what it writes itself, stays as it is; TVM's names keep TVM's sums."""
    A, B = te.placeholder((1, 4096), "float16"), te.placeholder((4096, 1), "float16")
    k = te.reduce_axis((0, 4096))
    ones = np.ones((1, 4096), "float16")
    for C, last in (
        (topi.matmul(A, B, out_dtype="float16"), 2048),
        (te.compute((1, 1), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k)), 2048),
        (tvm.topi.matmul(A, B), 2048),
        (tvm.topi.nn.matmul(A, B), 2048),
        (topi.matmul(A, B), 4096),
    ):
        found = np.zeros((1, 1), "float16")
        tw.build([A, B, C], exact=True)(ones, ones.T.copy(), found)
        assert found[0, 0] == last
    assert [str(topi.matmul(A, B, out_dtype=kind).dtype) for kind in ("float32", "float64")] == ["float32", "float64"]


def test_convolutions_reach_tensor_cores():
    x, w = te.placeholder((1, 64, 28, 28), "float16"), te.placeholder((64, 64, 3, 3), "float16")
    for layers in (topi.nn.conv2d(x, w, 1, 1), topi.nn.relu(topi.nn.conv2d(x, w, 1, 1))):
        for arch in ("sm_80", "sm_90a"):
            assert "tensor cores" in str(tw.autoschedule.schedule([layers], f"cuda -arch={arch}").plan)
