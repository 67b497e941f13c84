"""Operators are rounded as they are written on every target, and the declared product under a te.sum is fused where the
target fuses."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tilewright as tw
from this_machine import runnable
from tilewright import te
from tilewright.codegen.target import Target

TARGETS = ("llvm", "c", "interpret", "cuda -emulate")
FUSING = ("c", "interpret", "cuda -emulate", *(("llvm",) if Target().fuses else ()))
SEPARATE = (
    "c -mattr=-fma",
    "interpret -mattr=-fma",
    *runnable("llvm -mattr=-fma", "llvm -mcpu=x86-64-v2"),
)


def ran(
    output: te.Tensor, inputs: list[te.Tensor], arrays: list[Any], target: str, lanes: int = 0, **options: Any
) -> Any:
    """The output on a target: on GPUs a thread for each element of the first axis; in lanes over the last where asked for."""
    s = te.create_schedule(output.op)
    if target.startswith("cuda"):
        s[output].bind(output.op.axis[0], te.thread_axis("threadIdx.x"))
    elif lanes:
        s[output].vectorize(s[output].split(output.op.axis[-1], factor=lanes)[1])
    out = np.full([int(extent) for extent in output.shape], 7, str(output.dtype))
    tw.build(s, [*inputs, output], target=target, **options)(*arrays, out)
    return out


def floats(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


@pytest.mark.parametrize("target", [*TARGETS, *SEPARATE])
def test_the_difference_of_equal_squares_is_zero(target: str) -> None:
    A, B = te.placeholder((67,), name="A"), te.placeholder((67,), name="B")
    C = te.compute((67,), lambda i: te.sqrt(A[i] * A[i] - B[i] * B[i]), name="C")
    a = floats(67)
    assert not ran(C, [A, B], [a, a.copy()], target).any(), "a product was contracted into the difference"


def escapes(lanes: int) -> np.ndarray[Any, Any]:
    """How many steps points of the plane stay near 0 in the iteration of Mandelbrot's."""
    n, steps = 61, 40
    X, Y = te.placeholder((n,), name="X"), te.placeholder((n,), name="Y")
    re, im = te.placeholder((steps, n, n), name="re"), te.placeholder((steps, n, n), name="im")
    zero = te.compute((1, n, n), lambda t, i, j: te.const(0.0, "float32"), name="zero")
    also = te.compute((1, n, n), lambda t, i, j: te.const(0.0, "float32"), name="also")
    x, y = (lambda t, i, j: re[t - 1, i, j]), (lambda t, i, j: im[t - 1, i, j])
    next_re = te.compute((steps, n, n), lambda t, i, j: x(t, i, j) * x(t, i, j) - y(t, i, j) * y(t, i, j) + X[j])
    next_im = te.compute((steps, n, n), lambda t, i, j: x(t, i, j) * y(t, i, j) * 2.0 + Y[i])
    z, w = te.scan([zero, also], [next_re, next_im], [re, im], inputs=[X, Y], name="z")
    k = te.reduce_axis((0, steps), "k")
    near = te.compute(
        (n, n), lambda i, j: te.sum((z[k, i, j] * z[k, i, j] + w[k, i, j] * w[k, i, j] < 4.0).astype("int32"), k)
    )
    s = te.create_schedule(near.op)
    if lanes:
        for op in (next_re.op, next_im.op):
            s[op].vectorize(s[op].split(op.axis[2], factor=lanes)[1])
    out = np.zeros((n, n), "int32")
    tw.build(s, [X, Y, near])(
        np.linspace(-2, 0.5, n).astype("float32"), np.linspace(-1.2, 1.2, n).astype("float32"), out
    )
    return out


def test_mandelbrot_in_lanes_has_the_counts_of_mandelbrot_alone() -> None:
    assert escapes(lanes=8).tolist() == escapes(lanes=0).tolist()


def dot_inputs(rows: int = 13, depth: int = 37) -> tuple[te.Tensor, te.Tensor, list[Any]]:
    A, B = te.placeholder((rows, depth), name="A"), te.placeholder((depth,), name="B")
    return A, B, [floats(rows, depth), floats(depth, seed=1)]


def dots(a: Any, b: Any, fused: bool) -> np.ndarray[Any, Any]:
    """Sums in order; fused, each step is exact in float64 but for its last rounding, which these few bits survive."""
    out = np.zeros(a.shape[0], "float32")
    for i in range(a.shape[0]):
        total = np.float32(0)
        for k in range(a.shape[1]):
            total = fma32(a[i, k], b[k], total) if fused else np.float32(total + np.float32(a[i, k] * b[k]))
        out[i] = total
    return out


def fma32(a: Any, b: Any, c: Any) -> np.float32:
    """By integers: exact, then rounded once."""
    from fractions import Fraction

    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    near = np.float32(float(exact))
    around = [near, np.nextafter(near, np.float32(-np.inf)), np.nextafter(near, np.float32(np.inf))]
    return min(around, key=lambda x: (abs(Fraction(float(x)) - exact), x.view(np.uint32) & 1))


@pytest.mark.parametrize(("target", "fused"), [*((t, True) for t in FUSING), *((t, False) for t in SEPARATE)])
def test_a_declared_product_is_fused_into_its_sum_where_the_target_fuses(target: str, fused: bool) -> None:
    A, B, arrays = dot_inputs()
    k = te.reduce_axis((0, 37), "k")
    C = te.compute((13,), lambda i: te.sum(A[i, k] * B[k], axis=k), name="C")
    assert Target.parse(target).fuses == fused
    expected = dots(*arrays, fused=fused)
    assert not np.array_equal(expected, dots(*arrays, fused=not fused)), "the data tell the two apart"
    assert ran(C, [A, B], arrays, target).tobytes() == expected.tobytes()


@pytest.mark.parametrize("target", TARGETS)
def test_inlining_adds_no_fusion_and_removes_none(target: str) -> None:
    A, B, arrays = dot_inputs()
    k = te.reduce_axis((0, 37), "k")
    P = te.compute((13, 37), lambda i, k: A[i, k] * B[k], name="P")
    C = te.compute((13,), lambda i: te.sum(P[i, k], axis=k), name="C")
    D = te.compute((13, 37), lambda i, k: te.select(A[i, k] == A[i, k], A[i, k], te.const(0.0, "float32")), name="D")
    E = te.compute((13,), lambda i: te.sum(D[i, k] * B[k], axis=k), name="E")
    fused = Target.parse(target).fuses
    for output, inlined, expected in ((C, P, dots(*arrays, fused=False)), (E, D, dots(*arrays, fused=fused))):
        s = te.create_schedule(output.op)
        s[inlined].compute_inline()
        if target.startswith("cuda"):
            s[output].bind(output.op.axis[0], te.thread_axis("threadIdx.x"))
        out = np.zeros(13, "float32")
        tw.build(s, [A, B, output], target=target)(*arrays, out)
        assert out.tobytes() == expected.tobytes(), (
            f"inlining {inlined.op.name} changed how {output.op.name} is rounded"
        )


@pytest.mark.parametrize("target", [*TARGETS, *SEPARATE])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_te_fma_is_rounded_once_on_every_target(target: str, dtype: str) -> None:
    A, B, C = (te.placeholder((33,), dtype, name=name) for name in "ABC")
    D = te.compute((33,), lambda i: te.fma(A[i], B[i], C[i]), name="D")
    rng, tiny = np.random.default_rng(3), np.finfo(dtype).eps
    a = (1 + rng.integers(1, 99, 33) * tiny).astype(dtype)
    b, c = (1 - (a - 1)).astype(dtype), np.full(33, -1, dtype)
    expected = -((a.astype("longdouble") - 1) ** 2)  # (1 + e) (1 - e) - 1, which a rounded product loses
    got = ran(D, [A, B, C], [a, b, c], target)
    assert got.tolist() == expected.astype(dtype).tolist()


@pytest.mark.parametrize("target", TARGETS)
def test_fused_half_floats_are_rounded_once(target: str) -> None:
    A, B, C = (te.placeholder((4000,), "float16", name=name) for name in "ABC")
    D = te.compute((4000,), lambda i: te.fma(A[i], B[i], C[i]), name="D")
    s = te.create_schedule(D.op)
    if target.startswith("cuda"):
        s[D].bind(s[D].split(D.op.axis[0], factor=125)[1], te.thread_axis("threadIdx.x"))
    rng = np.random.default_rng(5)  # products halfway between two numbers, and sums a little beside
    a, b = ((1 + sign * 2.0**-6) * 2.0 ** rng.integers(4, 7, 4000) for sign in (1, -1))
    a, b, c = (x.astype("float16") for x in (a, b, rng.integers(-9, 9, 4000) * 2.0**-24))
    exact = a.astype("float64") * b.astype("float64") + c.astype("float64")
    assert (exact.astype("float32").astype("float16") != exact.astype("float16")).any(), "two roundings would show"
    out = np.zeros(4000, "float16")
    tw.build(s, [A, B, C, D], target=target)(a, b, c, out)
    assert out.tobytes() == exact.astype("float16").tobytes()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("vector", [1, 8])
def test_fused_bfloat16_are_rounded_once_however_far_apart_they_are(target: str, vector: int) -> None:
    count = 4096
    A, B, C = (te.placeholder((count,), "bfloat16", name=name) for name in "ABC")
    D = te.compute((count,), lambda i: te.fma(A[i], B[i], C[i]), name="D")
    s = te.create_schedule(D.op)
    outer, inner = s[D].split(D.op.axis[0], factor=vector)
    if vector > 1:
        s[D].vectorize(inner)
    if target.startswith("cuda"):
        s[D].bind(s[D].split(outer, factor=64)[1], te.thread_axis("threadIdx.x"))
    rng = np.random.default_rng(7)
    scale = 2.0 ** rng.integers(-60, 60, count)
    a = (1 + rng.integers(0, 128, count) * 2.0**-7) * rng.choice([1, -1], count) * scale
    b = (
        1 + rng.integers(0, 4, count) * 2.0**-2
    )  # products that are often halfway between two numbers, and sums far beside
    c = (
        rng.choice([1, -1, 0, np.inf], count, p=[0.45, 0.45, 0.08, 0.02])
        * 2.0 ** rng.integers(-66, -5, count)
        * np.abs(a)
    )
    a, b, c = (x.astype(ml_dtypes.bfloat16) for x in (a, b, c))
    expected = [nearest_bfloat16(float(x), float(y), float(z)) for x, y, z in zip(a, b, c, strict=True)]
    twice = (
        (a.astype("float64") * b.astype("float64") + c.astype("float64")).astype(ml_dtypes.bfloat16).astype("float64")
    )
    assert np.sum(twice != expected) > 20, "two roundings would show"
    out = np.zeros(count, ml_dtypes.bfloat16)
    tw.build(s, [A, B, C, D], target=target)(a, b, c, out)
    assert out.astype("float64").tolist() == expected


def nearest_bfloat16(a: float, b: float, c: float) -> float:
    """a * b + c in exact arithmetic, rounded to 8 bits, ties to even (of numbers that are not near the ends of the range)."""
    if not np.isfinite(c):
        return c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if not exact:
        return 0.0
    step = Fraction(2) ** (int(np.frexp(float(exact))[1]) - 8)
    return float(round(exact / step) * step)


def test_constants_are_rounded_as_the_target_rounds() -> None:
    a, b = floats(13, 37), floats(37, seed=1)
    for target, fused in ((FUSING[0], True), (FUSING[-1], True), (SEPARATE[0], False), (SEPARATE[-1], False)):
        A, B = te.constant(a, name="A"), te.constant(b, name="B")
        X, k = te.placeholder((13,), name="X"), te.reduce_axis((0, 37), "k")
        C = te.compute((13,), lambda i: te.sum(A[i, k] * B[k], axis=k), name="C")
        D = te.compute((13,), lambda i: C[i] * X[i], name="D")
        got = ran(D, [X], [np.ones(13, "float32")], target)
        assert got.tobytes() == dots(a, b, fused=fused).tobytes(), target


def test_fp_contract_allows_what_is_not_written() -> None:
    A, B = te.placeholder((67,), name="A"), te.placeholder((67,), name="B")
    C = te.compute((67,), lambda i: A[i] * A[i] - B[i] * B[i], name="C")
    f = tw.build(
        te.create_schedule(C.op), [A, B, C], target="llvm -mtriple=aarch64-unknown-linux-gnu", fp_contract=True
    )
    plain = tw.build(te.create_schedule(C.op), [A, B, C], target="llvm -mtriple=aarch64-unknown-linux-gnu")
    assert any(word in f.source("asm") for word in ("fmls", "fmsub", "fnmsub")), "nothing was contracted"
    assert not any(word in plain.source("asm") for word in ("fmls", "fmla", "fmsub", "fnmsub", "fmadd"))


@pytest.mark.parametrize("target", TARGETS)
def test_extrema_know_the_signs_of_zeros(target: str) -> None:
    A, B = te.placeholder((18,), name="A"), te.placeholder((18,), name="B")
    M = te.compute((18,), lambda i: te.max(A[i], B[i]), name="M")
    L = te.compute((18,), lambda i: te.min(A[i], B[i]), name="L")
    a, b = (
        np.array([0.0, -0.0, 0.0, -0.0, 1, np.nan] * 3, "float32"),
        np.array([0.0, 0.0, -0.0, -0.0, np.nan, 1] * 3, "float32"),
    )
    for output, signs in ((M, [False, False, False, True]), (L, [False, True, True, True])):
        for lanes in (0, 8) if target == "llvm" else (0,):
            got = ran(output, [A, B], [a, b], target, lanes)
            assert np.signbit(got[:4]).tolist() == signs
            assert np.isnan(got[4:6]).all()
