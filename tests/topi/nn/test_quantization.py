"""Dense layers of small numbers: bytes exactly, bfloat16 and weights of 4 or 8 bits within the bounds that they state."""

from __future__ import annotations

from typing import Any

import drawn
import ml_dtypes
import numpy as np
import pytest
import tilewright as tw
from this_machine import runnable
from tilewright import te, topi
from tilewright.codegen.llvm.features import target_has
from tilewright.codegen.target import Target
from tilewright.tools.fuzz.references import weight_only as product_and_bound
from tilewright.topi.row import find_reference

UNIT = 2.0**-24
SIZES = [(1, 1, 1), (13, 41, 18), (3, 5, 17), (50, 200, 67)]


def placeholder(x: np.ndarray, name: str) -> te.Tensor:
    return te.placeholder(x.shape, str(x.dtype), name)


def run(y: te.Tensor, given: dict[te.Tensor, np.ndarray], target: str = "llvm") -> np.ndarray:
    found = np.zeros(
        [extent.value for extent in y.shape], ml_dtypes.bfloat16 if y.dtype == "bfloat16" else str(y.dtype)
    )
    tw.build(topi.schedule(y, target), [*given, y], target=target)(*given.values(), found)
    return found


def draw_bytes(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    ends = np.iinfo(dtype)
    return rng.integers(ends.min, ends.max + 1, shape).astype(dtype)


# Bytes


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_products_of_bytes_are_exact(sizes: tuple[int, int, int], dtype: str) -> None:
    m, n, k = sizes
    rng = np.random.default_rng([m, n, k])
    x, w = draw_bytes(rng, dtype, (m, k)), draw_bytes(rng, "int8", (n, k))
    packed, sums = topi.nn.prepack_int8(w)
    X, P, S = placeholder(x, "x"), placeholder(packed, "p"), placeholder(sums, "s")
    y = topi.nn.packed_dense_int8(X, P, S)
    np.testing.assert_array_equal(run(y, {X: x, P: packed, S: sums}), x.astype("int64") @ w.T.astype("int64"))


@pytest.mark.parametrize("target", runnable("llvm", "llvm -mattr=-avx512vnni", "llvm -mattr=-avx512f"))
def test_bytes_are_exact_without_the_instruction_and_extremes_do_not_saturate(target: str) -> None:
    x, w = np.full((5, 70), -128, "int8"), np.full((19, 70), -128, "int8")
    w[3] = 127
    X, W = placeholder(x, "x"), placeholder(w, "w")
    np.testing.assert_array_equal(
        run(topi.nn.dense_int8(X, W), {X: x, W: w}, target), x.astype("int64") @ w.T.astype("int64")
    )


def test_drawn_sizes_of_bytes() -> None:
    for case in range(drawn.count(3, 100)):
        rng = drawn.rng("dense_int8", case)
        m, n, k = (int(rng.integers(1, most)) for most in (60, 150, 150))
        x, w = draw_bytes(rng, "int8" if case % 2 else "uint8", (m, k)), draw_bytes(rng, "int8", (n, k))
        X, W = placeholder(x, "x"), placeholder(w, "w")
        np.testing.assert_array_equal(
            run(topi.nn.dense_int8(X, W), {X: x, W: w}), x.astype("int64") @ w.T.astype("int64")
        )


def test_kernels_pack_as_numpy_does() -> None:
    w = draw_bytes(np.random.default_rng(0), "int8", (21, 14))
    W = placeholder(w, "w")
    for made, wanted in zip(topi.nn.prepack_int8(W), topi.nn.prepack_int8(w), strict=True):
        np.testing.assert_array_equal(run(made, {W: w}), wanted)


def test_the_sums_of_a_tile_stay_in_registers() -> None:
    target = "llvm -mcpu=cascadelake"
    x, w = te.placeholder((96, 256), "uint8", "x"), np.zeros((128, 256), "int8")
    packed, sums = topi.nn.prepack_int8(w)
    P, S = placeholder(packed, "p"), placeholder(sums, "s")
    y = topi.nn.packed_dense_int8(x, P, S)
    if Target().architecture != "x86_64":
        pytest.skip("bytes are multiplied by an instruction of x86-64")
    lines = tw.build(topi.schedule(y, target), [x, P, S, y], target=target).source("asm").splitlines()
    places = [at for at, line in enumerate(lines) if "vpdpbusd" in line]
    loop = lines[places[0] : places[-1] + 1]
    assert len(places) >= 24
    assert not any("%rsp" in line for line in loop)


# Numbers and bytes


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_numbers_become_bytes_and_come_back(dtype: str, per_channel: bool) -> None:
    x = np.random.default_rng(1).standard_normal((9, 21)).astype("float32") * 3
    scale = np.linspace(0.02, 0.09, 21).astype("float32")
    zero = np.arange(21, dtype="int32") - 5
    X, S, Z = placeholder(x, "x"), placeholder(scale, "scale"), placeholder(zero, "zero")
    given: dict[Any, np.ndarray] = {X: x, S: scale, Z: zero} if per_channel else {X: x}
    a, b = (scale, zero) if per_channel else (np.float32(0.05), 3)
    q = run(topi.nn.quantize(X, S if per_channel else 0.05, Z if per_channel else 3, dtype), given)
    ends, wanted = np.iinfo(dtype), find_reference("quantize")(x, np.asarray(a), np.asarray(b), dtype=dtype)
    np.testing.assert_array_equal(q, wanted)
    Q = placeholder(q, "q")
    back = run(
        topi.nn.dequantize(Q, S if per_channel else 0.05, Z if per_channel else 3),
        {Q: q, S: scale, Z: zero} if per_channel else {Q: q},
    )
    inside = (q > ends.min) & (q < ends.max)
    assert inside.any()
    assert (np.abs(back - x) <= a / 2 * (1 + 1e-5) + 4 * UNIT * np.abs(x))[inside].all()


def test_sums_are_requantized_by_channel() -> None:
    sums = np.random.default_rng(2).integers(-(10**6), 10**6, (6, 11)).astype("int32")
    scale = np.geomspace(1e-5, 1e-3, 11).astype("float32")
    X, S = placeholder(sums, "x"), placeholder(scale, "scale")
    found = run(topi.nn.requantize(X, S, -3, "int8"), {X: sums, S: scale})
    wanted = find_reference("requantize")(sums, scale, np.asarray(-3), dtype="int8")
    np.testing.assert_array_equal(found, wanted)


def test_channels_are_quantized_as_numpy_does_within_half_a_scale() -> None:
    w = np.random.default_rng(3).standard_normal((10, 33)).astype("float32")
    w[4] = 0
    levels, scales = topi.nn.quantize_channels(w)
    assert (np.abs(levels * scales[:, None] - w) <= scales[:, None] / 2 * (1 + 1e-5)).all()
    W = placeholder(w, "w")
    for made, wanted in zip(topi.nn.quantize_channels(W), (levels, scales), strict=True):
        np.testing.assert_array_equal(run(made, {W: w}), wanted)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("w_zero", [0, 7])
def test_a_quantized_layer_with_zero_points_scales_and_a_bias_is_one_kernel(dtype: str, w_zero: int) -> None:
    rng = np.random.default_rng(4)
    x, w = draw_bytes(rng, dtype, (9, 30)), draw_bytes(rng, "int8", (37, 30))
    w_scale, bias = rng.uniform(0.01, 0.02, 37).astype("float32"), rng.standard_normal(37).astype("float32")
    packed, sums = topi.nn.prepack_int8(w)
    X, P, S = placeholder(x, "x"), placeholder(packed, "p"), placeholder(sums, "s")
    W, B = placeholder(w_scale, "w_scale"), placeholder(bias, "bias")
    given = {X: x, P: packed, S: sums, W: w_scale, B: bias}
    real = 0.05 * w_scale * ((x.astype("f8") - 11) @ (w.astype("f8") - w_zero).T) + bias
    bound = 6 * UNIT * (np.abs(real - bias) + np.abs(bias))
    floats = topi.nn.quantized_dense(X, P, S, 0.05, W, 11, w_zero, B)
    assert (np.abs(run(floats, given) - real) <= bound).all()
    bytes_out = topi.nn.quantized_dense(
        X, P, S, 0.05, W, 11, w_zero, B, out_scale=0.7, out_zero_point=-4, out_dtype="int8"
    )
    found = run(bytes_out, given).astype("f8")
    exact = np.clip(real / 0.7 - 4, -128, 127)
    assert (np.abs(found - exact) <= 0.5 + 1e-3).all()
    assert str(topi.schedule(bytes_out)).count("for") < 40
    assert np.unique(found).size > 20


# bfloat16


@pytest.mark.parametrize("sizes", SIZES)
def test_products_of_bfloat16_stay_within_the_bound(sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    rng = np.random.default_rng([m, n, k])
    x, w = (rng.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((m, k), (n, k)))
    X, W = te.placeholder((m, k), "bfloat16", "x"), te.placeholder((n, k), "bfloat16", "w")
    wide = x.astype("f8"), w.astype("f8").T
    for target in runnable("llvm", "llvm -mattr=-avx512bf16")[: 1 + (m == 13)]:
        found = run(topi.nn.dense_bf16(X, W), {X: x, W: w}, target)
        assert (np.abs(found - wide[0] @ wide[1]) <= (k + 1) * UNIT * (np.abs(wide[0]) @ np.abs(wide[1]))).all()


def test_bfloat16_uses_the_instruction_where_the_target_has_it() -> None:
    X, P = te.placeholder((8, 64), "bfloat16", "x"), te.placeholder((4, 32, 16, 2), "bfloat16", "p")
    y = topi.nn.packed_dense_bf16(X, P, 64)
    for target in runnable("llvm", "llvm -mattr=-avx512bf16"):
        text = tw.build(topi.schedule(y, target), [X, P, y], target=target).source("asm")
        assert ("vdpbf16ps" in text) == target_has(Target.parse(target), "avx512bf16")
    w = np.random.default_rng(0).standard_normal((64, 64)).astype(ml_dtypes.bfloat16)
    assert topi.nn.prepack_bf16(w).shape == (4, 32, 16, 2)


# Weights of 4 and 8 bits


@pytest.mark.parametrize(
    ("batch", "n", "k", "bits"),
    drawn.part(
        [
            (1, 1, 1, 4),
            (1, 64, 64, 8),
            (3, 37, 75, 4),
            (3, 37, 75, 8),
            (4, 5, 40, 8),
            (6, 100, 33, 4),
        ],
        3,
    ),
)
def test_weight_only_layers_stay_within_the_bound(batch: int, n: int, k: int, bits: int) -> None:
    rng = np.random.default_rng([batch, n, k])
    x, w = rng.standard_normal((batch, k)).astype("float32"), rng.standard_normal((n, k)).astype("float32")
    packed, scales = topi.nn.quantize_groups(w, bits)
    X, P, S = placeholder(x, "x"), placeholder(packed, "p"), placeholder(scales, "s")
    found = run(topi.nn.weight_only_dense(X, P, S, n, bits), {X: x, P: packed, S: scales})
    exact, bound = product_and_bound(x, topi.nn.dequantize_groups(packed, scales, n, k, bits))
    assert (np.abs(found - exact) <= bound).all()


@pytest.mark.parametrize("bits", [4, 8])
def test_groups_are_quantized_within_the_bound_and_alike_by_a_kernel(bits: int) -> None:
    w = np.random.default_rng(bits).standard_normal((21, 70)).astype("float32")
    w[3, 32:64] = 0
    packed, scales = topi.nn.quantize_groups(w, bits)
    back = topi.nn.dequantize_groups(packed, scales, 21, 70, bits)
    by = scales.astype("float32").transpose(0, 2, 1).reshape(-1, scales.shape[1])[:21]
    assert (
        np.abs(back - w) <= 0.5005 * np.repeat(by, 32, 1)[:, :70] + (127 if bits == 8 else 7) * 2.0**-11 * by.max()
    ).all()
    W = placeholder(w, "w")
    made, made_scales = topi.nn.quantize_groups(W, bits)
    np.testing.assert_array_equal(run(made_scales, {W: w}), scales)
    np.testing.assert_array_equal(run(made, {W: w}), packed)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_weight_only_layers_of_other_floats_with_a_bias(dtype: str) -> None:
    kind: Any = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    rng = np.random.default_rng(5)
    x, w = rng.standard_normal((2, 64)).astype(kind), rng.standard_normal((33, 64)).astype("float32")
    bias = rng.standard_normal(33).astype("float32")
    packed, scales = topi.nn.quantize_groups(w)
    X, B = te.placeholder((2, 64), dtype, "x"), placeholder(bias, "bias")
    P, S = placeholder(packed, "p"), placeholder(scales, "s")
    y = topi.nn.weight_only_dense(X, P, S, 33, bias=B)
    found = run(y, {X: x, P: packed, S: scales, B: bias}).astype("f8")
    exact, bound = product_and_bound(x.astype("float32"), topi.nn.dequantize_groups(packed, scales, 33, 64))
    unit = 2.0**-8 if dtype == "bfloat16" else 2.0**-11
    assert (np.abs(found - exact - bias) <= bound + unit * np.abs(found) + 4 * UNIT).all()


@pytest.mark.parametrize("target", runnable("llvm -mattr=-avx512vnni", "llvm -mcpu=x86-64"))
def test_other_targets_compute_the_same(target: str) -> None:
    rng = np.random.default_rng(6)
    x, w = rng.standard_normal((1, 40)).astype("float32"), rng.standard_normal((18, 40)).astype("float32")
    packed, scales = topi.nn.quantize_groups(w)
    X, P, S = placeholder(x, "x"), placeholder(packed, "p"), placeholder(scales, "s")
    found = run(topi.nn.weight_only_dense(X, P, S, 18), {X: x, P: packed, S: scales}, target)
    exact, bound = product_and_bound(x, topi.nn.dequantize_groups(packed, scales, 18, 40))
    assert (np.abs(found - exact) <= bound).all()


def test_zeros_and_infinitely_small_groups_give_zero() -> None:
    x = np.zeros((1, 64), "float32")
    x[0, 40] = 1e-39
    packed, scales = topi.nn.quantize_groups(np.ones((4, 64), "float32"))
    X, P, S = placeholder(x, "x"), placeholder(packed, "p"), placeholder(scales, "s")
    assert (run(topi.nn.weight_only_dense(X, P, S, 4), {X: x, P: packed, S: scales}) == 0).all()


# What is refused


def test_what_does_not_fit_is_refused() -> None:
    x, f = te.placeholder((2, 64), "int8", "x"), te.placeholder((2, 64), name="f")
    p, s = te.placeholder((2, 16, 16, 4), "int8", "p"), te.placeholder((32,), "int32", "s")
    refusals = [
        (lambda: topi.nn.packed_dense_int8(f, p, s), "x is a matrix of bytes"),
        (
            lambda: topi.nn.packed_dense_int8(te.placeholder((2, 80), "int8", "x"), p, s),
            "take 20 steps, and there are 16",
        ),
        (lambda: topi.nn.packed_dense_int8(te.placeholder((2, 70000), "int8", "x"), p, s), "always fit"),
        (lambda: topi.nn.prepack_int8(np.zeros((2, 2), "float32")), "a matrix of int8"),  # pyright: ignore[reportArgumentType]
        (lambda: topi.nn.packed_dense_bf16(x, p, 32), "a matrix of bfloat16"),
        (lambda: topi.nn.quantize(f, 1.0, 0, "int16"), "makes bytes"),
        (lambda: topi.nn.requantize(f, 1.0), "sums are int32"),
        (lambda: topi.nn.quantize(f, te.placeholder((5,), name="scale")), "channels run along the last dimension, 64"),
        (lambda: topi.nn.quantize_groups(np.zeros((2, 2)), 5), "4 or 8 bits"),
        (lambda: topi.nn.weight_only_dense(f, p, s, 32), "uint8.panels, groups, 4, 16, 4"),
        (
            lambda: topi.nn.weight_only_dense(
                f, te.placeholder((1, 2, 4, 16, 4), "uint8", "p"), te.placeholder((1, 2, 16), "float16", "s"), 32
            ),
            "take 2 panels",
        ),
    ]
    for refused, message in refusals:
        with pytest.raises(tw.TensorExpressionError, match=message):
            refused()
