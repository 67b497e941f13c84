"""topi element by element, its reductions, and what moves elements, against numpy at odd sizes, 0 and 1."""

from __future__ import annotations

from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi
from tilewright.base.errors import TensorExpressionError
from tilewright.topi.row import find_reference, load_rows
from topi_run import SIZES, evaluate, floats, placeholders, run, whole

EPS = 2.0**-23

POSITIVE = ("acosh", "ceil_log2", "log", "log10", "log1p", "log2", "rsqrt", "sqrt")
WITHIN_ONE = ("acos", "asin", "atanh")
UNARY = [
    name
    for name, row in load_rows().items()
    if row.fusion == "elementwise" and row.inputs == (1, 1) and not row.attributes and row.face.count(".") == 1
    if not name.startswith(("bitwise", "is", "logical"))
]


@pytest.mark.parametrize("name", UNARY)
def test_unary_mathematics(name: str) -> None:
    low, high = (1.001, 9.0) if name in POSITIVE else (-0.99, 0.99) if name in WITHIN_ONE else (-3.0, 3.0)
    x = floats((5, 67), low=low, high=high)
    want = find_reference(name)(x.astype("float64"))
    np.testing.assert_allclose(run(getattr(topi, name), x), want, rtol=16 * EPS, atol=4 * EPS)


BINARY = [name for name, row in load_rows().items() if row.growth is not None and row.inputs == (2, 2)] + [
    *("equal", "floor_divide", "floor_mod", "greater", "greater_equal", "less", "less_equal", "logical_and"),
    *("logical_or", "logical_xor", "multiply", "not_equal", "trunc_mod"),
]
SHAPES = [
    ((5, 17), (5, 17)),
    ((5, 17), (17,)),
    ((5, 1), (1, 17)),
    ((3, 1, 5), (4, 1)),
    ((0, 3), (3,)),
    ((1,), (1,)),
    ((), (7,)),
]


@pytest.mark.parametrize(("left", "right"), drawn.part(SHAPES, 3))
@pytest.mark.parametrize("dtype", ["int32", "float32", "int8"])
def test_binary_arithmetic_broadcasts(dtype: str, left: tuple[int, ...], right: tuple[int, ...]) -> None:
    make = whole if dtype.startswith("int") else floats
    a, b = make(left, dtype, seed=1), make(right, dtype, seed=2)
    if dtype == "float32":  # quotients that are not near whole numbers by rounding
        a, b = np.round(a * 8), np.round(b * 4) + np.float32(0.5)
    results = run(lambda x, y: [getattr(topi, name)(x, y) for name in BINARY], a, b)
    for name, got in zip(BINARY, results, strict=True):
        with np.errstate(all="ignore"):
            want = find_reference(name)(a, b)
        if dtype.startswith("int") and name in ("floor_divide", "floor_mod", "trunc_mod"):
            want = np.where(b == 0, 0, want)
        assert got.shape == want.shape and got.dtype == want.dtype
        np.testing.assert_array_equal(got, want, name)


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"])
def test_bits(name: str) -> None:
    a, b = whole((5, 19), low=-1000, high=1000), whole((19,), low=0, high=8, seed=1)
    np.testing.assert_array_equal(run(getattr(topi, name), a, b), getattr(np, name)(a, b))
    np.testing.assert_array_equal(run(topi.bitwise_not, a), ~a)
    np.testing.assert_array_equal(run(topi.logical_not, a), a == 0)


def test_operators_between_floats() -> None:
    a, b = floats((4, 31), low=0.2), floats((31,), low=0.2, seed=1)
    x, y = a.astype("float64"), b.astype("float64")
    for name in ("divide", "power", "hypot", "atan2", "log_add_exp", "trunc_divide"):
        want = find_reference(name)(x, y)
        np.testing.assert_allclose(run(getattr(topi, name), a, b), want, rtol=16 * EPS, atol=4 * EPS)
    infinite = np.array([-np.inf, np.inf, 0.0], "float32")
    np.testing.assert_array_equal(
        run(topi.log_add_exp, infinite, infinite[:2].repeat([2, 1])),
        np.logaddexp(infinite, infinite[:2].repeat([2, 1])),
    )


def test_scalars_and_numbers_are_operands_too() -> None:
    a = whole((3, 5), "int8")
    np.testing.assert_array_equal(run(lambda x: topi.add(x, 3), a), a + np.int8(3))
    np.testing.assert_array_equal(run(lambda x: topi.subtract(1, x), a), np.int8(1) - a)
    assert topi.multiply(te.const(2, "int32"), 3).value == 6


def test_choices_and_conversions() -> None:
    c, a, b = whole((4, 1), "int32", -1, 2), floats((4, 9)), floats((9,), seed=1)
    np.testing.assert_array_equal(run(topi.where, c, a, b), np.where(c != 0, a, b))
    np.testing.assert_array_equal(run(lambda x: topi.clip(x, -0.5, 1.0), a), np.clip(a, -0.5, 1.0))
    np.testing.assert_array_equal(
        run(lambda x: topi.clip(x, 2, 5), whole((9,), "uint8")), np.clip(whole((9,), "uint8"), 2, 5)
    )
    for dtype in ("int32", "float64", "float16", "bool", "uint8"):
        got = run(lambda x, dtype=dtype: topi.cast(x, dtype), np.abs(a) * 3)
        np.testing.assert_array_equal(got, (np.abs(a) * 3).astype(dtype))
    np.testing.assert_array_equal(run(lambda x: topi.reinterpret(x, "int32"), a), a.view("int32"))
    nans = np.array([1.0, np.nan, np.inf, -np.inf], "float32")
    for name in ("isnan", "isinf", "isfinite"):
        np.testing.assert_array_equal(run(getattr(topi, name), nans), getattr(np, name)(nans))
    np.testing.assert_array_equal(run(topi.sign, nans), np.sign(nans))
    np.testing.assert_array_equal(run(topi.sign, whole((9,), "uint8")), np.sign(whole((9,), "uint8")))
    powers = np.array([1, 2, 3, 4, 5, 1023, 1024, 1025], "int32")
    np.testing.assert_array_equal(run(topi.ceil_log2, powers), np.ceil(np.log2(powers)))
    np.testing.assert_array_equal(run(lambda *x: topi.elemwise_sum(x), a, a * 2, a), a + a * 2 + a)


def test_tensors_from_nothing() -> None:
    assert (evaluate([], topi.full((3, 5), "int16", 7), []) == 7).all()
    assert evaluate([], topi.zeros((), "float64"), []) == 0
    np.testing.assert_array_equal(run(topi.ones_like, floats((3, 0))), np.ones((3, 0), "float32"))
    for arguments in ((5,), (2, 11), (0, 10, 3), (10, 0, -3), (0,), (5, 5), (0.0, 1.0, 0.25), (3, 1)):
        np.testing.assert_array_equal(
            evaluate([], topi.arange(*arguments), []), np.arange(*arguments).astype("float32")
        )
    np.testing.assert_array_equal(evaluate([], topi.arange(7, dtype="int64"), []), np.arange(7))


@pytest.mark.parametrize("shape, to", [((3, 1), (3, 5)), ((1,), (4, 2)), ((), (3,)), ((5,), (0, 5)), ((2, 3), (2, 3))])
def test_broadcast_to(shape: tuple[int, ...], to: tuple[int, ...]) -> None:
    a = floats(shape)
    np.testing.assert_array_equal(run(lambda x: topi.broadcast_to(x, to), a), np.broadcast_to(a, to))


# Reductions


@pytest.mark.parametrize("shape", drawn.part(SIZES, 3))
def test_reductions(shape: tuple[int, ...]) -> None:
    x = floats(shape, low=0.99, high=1.01)
    names = ["sum", "prod", "all", "any", *(["max", "min", "mean"] if 0 not in shape else [])]
    axes: list[Any] = [None, 0, -1, (0, len(shape) - 1)]
    for axis in axes:
        keepdims = (len(shape) + axes.index(axis)) % 2 == 0
        results = run(
            lambda a, axis=axis, keepdims=keepdims: [getattr(topi, name)(a, axis, keepdims) for name in names], x
        )
        for name, got in zip(names, results, strict=True):
            want = getattr(np, name)(x if name in ("all", "any") else x.astype("float64"), axis=axis, keepdims=keepdims)
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want, rtol=2 * EPS * max(x.size, 1), err_msg=name)


def test_sums_are_within_the_documented_bound() -> None:
    x = floats((3, 100_003), low=-1, high=1)
    bound = x.shape[1] * EPS / 2 * np.abs(x.astype("float64")).sum(1)
    assert (np.abs(run(lambda a: topi.sum(a, 1), x) - x.astype("float64").sum(1)) <= bound).all()
    half = floats((4, 9001), "float16", 0, 1)
    np.testing.assert_allclose(
        run(lambda a: topi.mean(a, 1), half).astype("float64"), half.astype("float64").mean(1), rtol=2e-3
    )
    assert run(lambda a: topi.sum(a, 1), half).dtype == np.float16


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "bool"])
def test_reductions_of_integers(dtype: str) -> None:
    x = whole((11, 37), dtype, 0 if dtype == "bool" else -9, 2 if dtype == "bool" else 9)
    axes = (None, 0, 1)
    results = run(lambda a: [one(a, axis) for axis in axes for one in (topi.sum, topi.max, topi.mean)], x)
    for at, axis in enumerate(axes):
        total, most, mean = results[3 * at : 3 * at + 3]
        np.testing.assert_array_equal(total, x.sum(axis, dtype="int32" if dtype == "bool" else dtype))
        np.testing.assert_array_equal(most, x.max(axis))
        np.testing.assert_allclose(mean, x.mean(axis), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("dtype", drawn.part(["float32", "uint8", "float16"], 1))
def test_arguments_of_extremes(name: str, dtype: str) -> None:
    for shape in ((7, 33), (1, 1), (0, 5), (64, 3), (1000,), (3, 4, 5)):
        x = whole(shape, "int32", 0, 5).astype(dtype)  # with ties
        for axis in (None, 0, -1):
            if 0 in shape and (axis is None or x.shape[axis] == 0):
                continue
            keepdims = axis == 0
            got = run(lambda a, axis=axis, keepdims=keepdims: getattr(topi, name)(a, axis, keepdims), x)
            np.testing.assert_array_equal(got, getattr(np, name)(x, axis=axis, keepdims=keepdims))
    x = whole((5, 40), "int32", 0, 3).astype(dtype)
    last = run(lambda a: getattr(topi, name)(a, 1, select_last_index=True), x)
    np.testing.assert_array_equal(last, 39 - getattr(np, name)(x[:, ::-1], axis=1))


def test_arguments_over_several_axes_and_of_nans() -> None:
    x = floats((3, 4, 5))
    np.testing.assert_array_equal(run(lambda a: topi.argmax(a, (1, 2)), x), x.reshape(3, 20).argmax(1))
    x[0, 1, 2] = x[1, 3, 4] = x[1, 2, 0] = np.nan
    np.testing.assert_array_equal(run(lambda a: topi.argmax(a, (1, 2)), x), x.reshape(3, 20).argmax(1))
    np.testing.assert_array_equal(run(lambda a: topi.argmin(a, (0,)), x), x.argmin(0))
    infinite = np.full((2, 40), -np.inf, "float32")
    np.testing.assert_array_equal(run(lambda a: topi.argmax(a, 1), infinite), [0, 0])
    assert np.isnan(run(lambda a: topi.max(a), x)) and np.isnan(run(lambda a: topi.min(a, 2), x)[0, 1])


@pytest.mark.parametrize("target", ["llvm", "cuda -emulate"])
def test_running_sums_and_products(target: str) -> None:
    for at, shape in enumerate([(5, 33), (3, 4, 5), (0, 4), (7,), (1,)][: 5 if target == "llvm" else 2]):
        x = floats(shape, low=0.5, high=1.5)
        for axis in (None, 0, -1):
            got = run(lambda a, axis=axis: topi.cumsum(a, axis), x, target=target)
            np.testing.assert_allclose(got, np.cumsum(x.astype("float64"), axis), rtol=EPS * max(x.size, 1))
        exclusive = run(lambda a: topi.cumsum(a, -1, exclusive=True), x, target=target)
        np.testing.assert_allclose(exclusive, np.cumsum(x.astype("float64"), -1) - x, rtol=1e-5, atol=1e-6)
        got = run(lambda a: topi.cumprod(a, at % len(shape)), x, target=target)
        np.testing.assert_allclose(got, np.cumprod(x.astype("float64"), at % len(shape)), rtol=EPS * max(x.size, 1))
    truth = whole((9,), "bool", 0, 2)
    np.testing.assert_array_equal(run(topi.cumsum, truth, target=target), np.cumsum(truth))
    small = whole((40,), "int8", 0, 9)
    got = run(lambda a: topi.cumsum(a, dtype="int32"), small, target=target)
    np.testing.assert_array_equal(got, np.cumsum(small, dtype="int32"))
    np.testing.assert_array_equal(run(topi.cumsum, small, target=target), np.cumsum(small, dtype="int8"))


# Moving elements


def test_shapes() -> None:
    a = floats((4, 6, 5))
    for shape in ((24, 5), (4, 30), (5, 6, 4), (-1,), (2, -1, 5), (4, 6, 5), (1, 4, 1, 6, 5), (8, 3, 5)):
        np.testing.assert_array_equal(run(lambda x, shape=shape: topi.reshape(x, shape), a), a.reshape(shape))
    np.testing.assert_array_equal(run(lambda x: topi.reshape(x, (0, 7)), floats((3, 0))), np.zeros((0, 7)))
    assert run(lambda x: topi.reshape(x, ()), floats((1, 1))).shape == ()
    for axis in (0, 1, -1, 3, -4):
        np.testing.assert_array_equal(run(lambda x, axis=axis: topi.expand_dims(x, axis), a), np.expand_dims(a, axis))
    assert run(lambda x: topi.expand_dims(x, 1, 2), a).shape == (4, 1, 1, 6, 5)
    one = floats((1, 5, 1))
    np.testing.assert_array_equal(run(topi.squeeze, one), one.squeeze())
    np.testing.assert_array_equal(run(lambda x: topi.squeeze(x, -1), one), one.squeeze(-1))
    for axes in (None, (0, 2, 1), (2, 0, 1), (-1, 0, 1)):
        np.testing.assert_array_equal(run(lambda x, axes=axes: topi.transpose(x, axes), a), a.transpose(axes))
    for axis in (0, -1):
        np.testing.assert_array_equal(run(lambda x, axis=axis: topi.flip(x, axis), a), np.flip(a, axis))


def test_large_transpose_and_concatenation() -> None:
    a, b = floats((130, 75)), floats((41, 75), seed=1)
    np.testing.assert_array_equal(run(topi.transpose, a), a.T)
    np.testing.assert_array_equal(run(lambda x, y: topi.concatenate([x, y]), a, b), np.concatenate([a, b]))
    np.testing.assert_array_equal(
        run(lambda x, y: topi.concatenate([topi.transpose(x), topi.transpose(y)], -1), a, b),
        np.concatenate([a.T, b.T], 1),
    )


@pytest.mark.parametrize(
    "begin, end, strides",
    [
        ([1], [5], None),
        ([1, 2], [7, -1], [2, 3]),
        ([-1, 0], [-9, 3], [-2, 1]),
        ([5], [2], None),
        ([0, -3], [100, 100], [1, 1]),
        ([7, 8], [-20, -20], [-1, -3]),
        ([3, 3], [3, 4], [1, 1]),
    ],
)
def test_slices(begin: list[int], end: list[int], strides: list[int] | None) -> None:
    a = floats((8, 9))
    steps = strides or [1] * len(begin)
    want = a[
        tuple(
            slice(low, None if by < 0 and high < -8 else high, by)
            for low, high, by in zip(begin, end, steps, strict=True)
        )
    ]
    np.testing.assert_array_equal(run(lambda x: topi.strided_slice(x, begin, end, strides), a), want)


def test_parts_and_joints() -> None:
    a, b = floats((6, 8)), floats((6, 8), seed=1)
    np.testing.assert_array_equal(
        run(lambda x: topi.strided_slice(x, [2, -3], [3, 2], slice_mode="size"), a), a[2:5, 5:7]
    )
    np.testing.assert_array_equal(run(lambda x: topi.strided_slice(x, [1], [4], axes=[1]), a), a[:, 1:4])
    for sections, axis in ((2, 0), (4, 1), ([1, 5], -1), ([0, 3, 3], 0)):
        parts = run(lambda x, n=sections, axis=axis: topi.split(x, n, axis), a)
        for got, want in zip(parts, np.split(a, sections, axis), strict=True):
            np.testing.assert_array_equal(got, want)
    for axis in (0, 1, -1, 2):
        np.testing.assert_array_equal(
            run(lambda x, y, axis=axis: topi.stack([x, y, x], axis), a, b), np.stack([a, b, a], axis)
        )
    empty = floats((0, 8))
    np.testing.assert_array_equal(
        run(lambda x, y, z: topi.concatenate([x, y, z]), a, empty, b), np.concatenate([a, empty, b])
    )
    got = run(lambda x: topi.pad(x, (1, 0), (2, 3), 9.0), a)
    np.testing.assert_array_equal(got, np.pad(a, ((1, 2), (0, 3)), constant_values=9))
    np.testing.assert_array_equal(run(lambda x: topi.nn.pad(x, (2, 1)), a), np.pad(a, ((2, 2), (1, 1))))
    np.testing.assert_array_equal(run(lambda x: topi.repeat(x, 3, 1), a), np.repeat(a, 3, 1))
    np.testing.assert_array_equal(run(lambda x: topi.tile(x, (2, 1, 3)), a), np.tile(a, (2, 1, 3)))
    np.testing.assert_array_equal(run(lambda x: topi.tile(x, 2), a), np.tile(a, 2))


def test_lookups() -> None:
    a = floats((5, 7, 3))
    index = whole((2, 3), "int32", -9, 20)
    np.testing.assert_array_equal(run(lambda x, i: topi.take(x, i, 1), a, index), np.take(a, index, 1, mode="clip"))
    np.testing.assert_array_equal(
        run(lambda x, i: topi.take(x, i, -1, mode="wrap"), a, index), np.take(a, index, 2, mode="wrap")
    )
    np.testing.assert_array_equal(run(lambda x, i: topi.take(x, i), a, index * 5), np.take(a, index * 5, mode="clip"))
    unsigned = whole((4,), "uint8", 0, 5)
    np.testing.assert_array_equal(run(lambda x, i: topi.take(x, i, 0, mode="fast"), a, unsigned), a[unsigned])
    rows = whole((5, 2), "int64", 0, 7)
    got = run(lambda x, i: topi.take(x, i, 1, batch_dims=1), a, rows)
    np.testing.assert_array_equal(got, np.stack([a[n][rows[n]] for n in range(5)]))
    along = whole((5, 2, 3), "int32", 0, 7)
    np.testing.assert_array_equal(run(lambda x, i: topi.gather(x, 1, i), a, along), np.take_along_axis(a, along, 1))
    pairs = np.stack([whole((4, 2), high=5, low=0), whole((4, 2), high=7, low=0, seed=1)])
    np.testing.assert_array_equal(run(topi.gather_nd, a, pairs), a[pairs[0], pairs[1]])
    hot = whole((3, 4), "int32", -1, 6)
    for axis in (-1, 0, 1):
        got = run(lambda i, axis=axis: topi.one_hot(i, 2.0, -1.0, 5, axis, "float32"), hot)
        np.testing.assert_array_equal(got, np.moveaxis(np.where(hot[..., None] == np.arange(5), 2.0, -1.0), -1, axis))


def test_layouts() -> None:
    a = floats((2, 13, 3, 5))
    np.testing.assert_array_equal(run(lambda x: topi.layout_transform(x, "NCHW", "NHWC"), a), a.transpose(0, 2, 3, 1))
    blocked = np.pad(a, ((0, 0), (0, 3), (0, 0), (0, 0))).reshape(2, 4, 4, 3, 5).transpose(0, 1, 3, 4, 2)
    np.testing.assert_array_equal(run(lambda x: topi.layout_transform(x, "NCHW", "NCHW4c"), a), blocked)
    np.testing.assert_array_equal(
        run(lambda x: topi.layout_transform(x, "NCHW4c", "NHWC"), np.ascontiguousarray(blocked)),
        np.pad(a, ((0, 0), (0, 3), (0, 0), (0, 0))).transpose(0, 2, 3, 1),
    )


# Activations


def test_activations() -> None:
    a = floats((3, 37), low=-6, high=6)
    x = a.astype("float64")
    for name, attributes in (
        *((name, {}) for name in ("relu", "silu", "elu", "softplus", "hard_swish", "hard_sigmoid")),
        ("leaky_relu", {"alpha": 0.1}),
        ("gelu", {"approximate": "none"}),
        ("gelu", {"approximate": "tanh"}),
    ):
        operator, want = getattr(topi.nn, name), find_reference(name)(x, **attributes)
        np.testing.assert_allclose(
            run(lambda t, operator=operator, how=attributes: operator(t, **how), a), want, rtol=16 * EPS, atol=8 * EPS
        )
    for operator, name in ((topi.nn.sigmoid, "sigmoid"), (topi.nn.tanh, "tanh")):
        np.testing.assert_allclose(run(operator, a), find_reference(name)(x), rtol=16 * EPS, atol=8 * EPS)
    np.testing.assert_array_equal(run(topi.nn.relu6, a), np.clip(a, 0, 6))
    half = a.astype("float16")
    np.testing.assert_allclose(
        run(topi.nn.silu, half).astype("float64"),
        find_reference("silu")(half.astype("float64")),
        rtol=2**-10,
        atol=2**-14,
    )


def test_channels() -> None:
    a, c, d = floats((2, 5, 3, 4)), floats((5,), seed=1), floats((5,), seed=2)
    mean, var = floats((5,), seed=3), floats((5,), low=0.1, seed=4)
    at = lambda v: v.astype("float64")[:, None, None]
    x = a.astype("float64")
    np.testing.assert_allclose(run(topi.nn.bias_add, a, c), x + at(c), rtol=4 * EPS, atol=4 * EPS)
    np.testing.assert_allclose(run(topi.nn.scale_shift_nchw, a, c, d), x * at(c) + at(d), rtol=8 * EPS, atol=8 * EPS)
    np.testing.assert_allclose(run(topi.nn.prelu, a, c), np.where(x > 0, x, x * at(c)), rtol=4 * EPS)
    got = run(topi.nn.batch_norm_inference, a, c, d, mean, var)
    np.testing.assert_allclose(got, find_reference("batch_norm")(a, c, d, mean, var), rtol=32 * EPS, atol=64 * EPS)
    last = np.ascontiguousarray(a.transpose(0, 2, 3, 1))
    got = run(lambda *t: topi.nn.batch_norm_inference(*t, axis=-1), last, c, d, mean, var)
    want = run(topi.nn.batch_norm_inference, a, c, d, mean, var).transpose(0, 2, 3, 1)
    np.testing.assert_allclose(got, want, rtol=4 * EPS, atol=8 * EPS)
    np.testing.assert_allclose(run(topi.nn.scale_shift_nhwc, last, c, d), last * c + d, rtol=8 * EPS, atol=8 * EPS)
    np.testing.assert_array_equal(run(topi.nn.flatten, a), a.reshape(2, 60))


def test_shapes_unknown_until_the_call() -> None:
    n, m = te.size_var("n"), te.size_var("m")
    a, b = te.placeholder((n, m), name="A"), te.placeholder((m,), name="B")
    c = topi.nn.relu(topi.add(a, b))
    total = topi.sum(topi.exp(a), 1)
    flat = topi.reshape(topi.transpose(a), (n * m,))
    joined = topi.concatenate([a, a], 1)
    import tilewright as tw

    kernel = tw.build(topi.schedule([c, total, flat, joined]), [a, b, c, total, flat, joined])
    for shape in ((7, 33), (1, 1), (0, 4), (65, 130)):
        x, y = floats(shape), floats(shape[1:], seed=1)
        results = [
            np.zeros(shape, "float32"),
            np.zeros(shape[0], "float32"),
            np.zeros(x.size, "float32"),
            np.zeros((shape[0], 2 * shape[1]), "float32"),
        ]
        kernel(x, y, *results)
        np.testing.assert_array_equal(results[0], np.maximum(x + y, 0))
        np.testing.assert_allclose(results[1], np.exp(x.astype("float64")).sum(1), rtol=1e-5)
        np.testing.assert_array_equal(results[2], x.T.ravel())
        np.testing.assert_array_equal(results[3], np.concatenate([x, x], 1))


@pytest.mark.parametrize(
    "wrong, message",
    [
        (lambda a: topi.sum(a, 2), r"sum: A: float32\[4, 5\] has no axis 2"),
        (lambda a: topi.sum(a, (0, -2)), "given an axis twice"),
        (lambda a: topi.argmax(te.placeholder((0, 2), name="E"), 0), "no elements to choose from"),
        (lambda a: topi.transpose(a, (0, 0)), "does not name every axis once"),
        (lambda a: topi.reshape(a, (3, 7)), "cannot reshape"),
        (lambda a: topi.reshape(a, (-1, 3)), "cannot reshape"),
        (lambda a: topi.squeeze(a, 0), "not known to have the extent 1"),
        (lambda a: topi.concatenate([a, topi.transpose(a)], 0), "cannot concatenate"),
        (lambda a: topi.concatenate([]), "takes a list of tensors"),
        (lambda a: topi.stack([a, topi.cast(a, "int32")]), "cannot stack"),
        (lambda a: topi.split(a, 3), "cannot split 4 elements into 3"),
        (lambda a: topi.strided_slice(a, [0], [1, 2]), "not a slice"),
        (lambda a: topi.take(a, a), "takes integer indices"),
        (lambda a: topi.take(a, topi.cast(a, "int32"), mode="raise"), "no mode 'raise'"),
        (lambda a: topi.pad(a, (1,)), "a number from 0 on for each dimension"),
        (lambda a: topi.broadcast_to(a, (5, 4)), "cannot broadcast A"),
        (lambda a: topi.layout_transform(a, "NC", "NH"), "cannot go from NC to NH"),
        (lambda a: topi.layout_transform(a, "N1", "NC"), "there is no layout 'N1'"),
        (lambda a: topi.nn.gelu(a, "fast"), "no approximation 'fast'"),
        (lambda a: topi.nn.bias_add(a, te.placeholder((4,), name="b")), "does not have a value for each index"),
        (lambda a: topi.arange(0, 3, 0), "how many elements"),
        (lambda a: topi.nn.relu(3), "relu takes a tensor"),
        (lambda a: topi.repeat(a, -1), "counts from 0 on"),
        (lambda a: topi.elemwise_sum([]), "nothing to add"),
        (lambda a: topi.elemwise_sum([a, topi.transpose(a)]), "tensors of one shape"),
    ],
)
def test_refusals(wrong: Any, message: str) -> None:
    a = placeholders(floats((4, 5)))[0]
    with pytest.raises(TensorExpressionError, match=message):
        wrong(a)


@pytest.mark.parametrize(
    ("shape", "new", "sizes", "message"),
    [
        (("h",), ("h // 2", 2), (5,), "outside"),
        (("h", "w"), (-1, "w // 2 * 2"), (3, 5), "outside"),
        (("h", "w"), ("w", -1), (3, 5), ""),
        (("h", "w"), ("h", "w // 4", 4), (2, 8), ""),
        (("h", "w"), ("h", "w // 4", 4), (2, 11), "outside"),
    ],
)
def test_a_reshape_that_would_leave_elements_out_fails_at_the_call(
    shape: Any, new: Any, sizes: Any, message: str
) -> None:
    symbols = {name: te.size_var(name) for name in "hw"}
    extents = [eval(one, dict(symbols)) if isinstance(one, str) else one for one in new]
    x = te.placeholder(tuple(symbols[name] for name in shape), name="x")
    f = tw.build([x, topi.reshape(x, extents)])
    known = [eval(one, dict(zip(shape, sizes, strict=True))) if isinstance(one, str) else one for one in new]
    data = floats(sizes)
    result = np.empty([one if one >= 0 else data.size // known[1 - at] for at, one in enumerate(known)], "float32")
    if message:
        with pytest.raises(tw.TilewrightError, match=f"TW0518.*{message}"):
            f(data, result)
    else:
        f(data, result)
        np.testing.assert_array_equal(result, data.reshape(result.shape))
