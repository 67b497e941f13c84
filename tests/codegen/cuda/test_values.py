"""What CUDA C computes for every operator, conversion and intrinsic: on the emulated GPU as on the CPU, and NVRTC takes it."""

from __future__ import annotations

from typing import Any

import drawn
import ml_dtypes
import numpy as np
import pytest
import tilewright as tw
from gpu_programs import thread
from tilewright import te
from tilewright.codegen.cuda.types import constant
from tilewright.ir.dtype import SCALAR_TYPES, DType

FUNCTIONS = (
    "exp exp2 log log2 log10 log1p expm1 sqrt rsqrt sin cos tan sinh cosh tanh asin acos atan erf sigmoid floor ceil "
    "round trunc abs"
).split()


def kind(dtype: str) -> Any:
    return np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def both(
    inputs: list[Any], outputs: list[Any], values: list[np.ndarray], vector: int = 1
) -> list[tuple[np.ndarray, np.ndarray]]:
    """The outputs on the emulated GPU and on the CPU. The text is compiled for a real one, too."""
    host, device = te.create_schedule([o.op for o in outputs]), te.create_schedule([o.op for o in outputs])
    for output in outputs:
        axis = device[output].op.axis[0]
        if vector > 1:
            axis, lanes = device[output].split(axis, factor=vector)
            device[output].vectorize(lanes)
        device[output].bind(axis, thread())
    args = [*inputs, *outputs]
    shapes = [tuple(int(extent) for extent in output.shape) for output in outputs]
    found, expected = (
        [np.empty(shape, kind(o.dtype)) for shape, o in zip(shapes, outputs, strict=True)] for _ in range(2)
    )
    tw.build(device, args, target="cuda -emulate")(*values, *found)
    tw.build(host, args)(*values, *expected)
    assert ".version" in tw.build(device, args, target="cuda -arch=sm_80").source("ptx")
    return list(zip(found, expected, strict=True))


def assert_same(found: np.ndarray, expected: np.ndarray, message: str = "") -> None:
    np.testing.assert_array_equal(found.astype("float64"), expected.astype("float64"), err_msg=message)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_functions_agree_with_the_cpu(dtype: str) -> None:
    special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5]
    values = np.concatenate([np.linspace(0.01, 0.99, 58), special]).astype(dtype)
    A = te.placeholder((64,), dtype, name="A")
    outputs = [te.compute((64,), lambda i, name=name: getattr(te, name)(A[i]), name=f"by_{name}") for name in FUNCTIONS]
    tolerance = 2e-3 if dtype == "float16" else 1e-6
    for name, (found, expected) in zip(FUNCTIONS, both([A], outputs, [values]), strict=True):
        np.testing.assert_allclose(found.astype("f8"), expected.astype("f8"), rtol=tolerance, atol=1e-6, err_msg=name)


def test_predicates_and_functions_of_two_operands() -> None:
    values = np.array([1.0, -2.5, 0.0, np.nan, np.inf, 3.0, 0.25, -np.inf], "float32")
    A = te.placeholder((8,), name="A")
    makers = {
        "isnan": lambda x: te.isnan(x).astype("int32"),
        "isinf": lambda x: te.isinf(x).astype("int32"),
        "isfinite": lambda x: te.isfinite(x).astype("int32"),
        "pow": lambda x: te.pow(x, 2.5),
        "atan2": lambda x: te.atan2(x, 2.0),
        "fmod": lambda x: te.fmod(x, 0.75),
        "min": lambda x: te.min(x, 1.5),
        "max": lambda x: te.max(x, A[7]),
        "floordiv": lambda x: x // 0.75,
        "floormod": lambda x: x % 0.75,
        "negative": lambda x: -x,
    }
    outputs = [te.compute((8,), lambda i, f=f: f(A[i]), name=f"by_{name}") for name, f in makers.items()]
    for name, (found, expected) in zip(makers, both([A], outputs, [values]), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6, err_msg=name)


@pytest.mark.parametrize("source", drawn.part(SCALAR_TYPES, 6))
def test_every_conversion_agrees_with_the_cpu(source: str) -> None:
    with np.errstate(all="ignore"):
        values = np.array(
            [
                0,
                1,
                -1,
                2.5,
                -2.5,
                127,
                128,
                -128,
                -129,
                255,
                256,
                65535,
                65536,
                1e10,
                -1e10,
                3e38,
                np.nan,
                np.inf,
                -np.inf,
                6e-8,
                1e-3,
                65519,
                65520,
                1 + 2.0**-11 + 2.0**-40,
            ]
        ).astype(kind(source))
    A = te.placeholder((24,), source, name="A")
    outputs = [te.compute((24,), lambda i, d=d: A[i].astype(d), name=f"to_{d}") for d in SCALAR_TYPES]
    for target, (found, expected) in zip(SCALAR_TYPES, both([A], outputs, [values]), strict=True):
        assert_same(found, expected, target)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_integer_division_agrees_over_all_pairs(dtype: str) -> None:
    info = np.iinfo(dtype)
    line = np.arange(info.min, info.max + 1).astype(dtype)
    a, b = (np.ascontiguousarray(side) for side in np.meshgrid(line, line, indexing="ij"))
    A, B = te.placeholder((256, 256), dtype, name="A"), te.placeholder((256, 256), dtype, name="B")
    makers = {
        "floordiv": lambda x, y: x // y,
        "floormod": lambda x, y: x % y,
        "truncdiv": te.truncdiv,
        "truncmod": te.truncmod,
        "by 7": lambda x, _: x // 7,
        "modulo 8": lambda x, _: x % 8,
    }
    outputs = [
        te.compute((256, 256), lambda i, j, f=f: f(A[i, j], B[i, j]), name=f"by{n}")
        for n, f in enumerate(makers.values())
    ]
    for name, (found, expected) in zip(makers, both([A, B], outputs, [a, b]), strict=True):
        assert_same(found, expected, name)


@pytest.mark.parametrize(
    "dtype", drawn.part(["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"], 4)
)
def test_integer_operators_wrap_as_on_the_cpu(dtype: str) -> None:
    info = np.iinfo(dtype)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(info.min, info.max, 64, dtype=dtype, endpoint=True) for _ in range(2))
    A, B = te.placeholder((64,), dtype, name="A"), te.placeholder((64,), dtype, name="B")
    unsigned = f"uint{info.bits}"
    makers = [
        lambda x, y: x + y,
        lambda x, y: x - y,
        lambda x, y: x * y,
        lambda x, y: x & y,
        lambda x, y: x | y,
        lambda x, y: x ^ y,
        lambda x, y: ~x,
        lambda x, y: x << 3,
        lambda x, y: x >> 2,
        lambda x, y: te.abs(x),
        lambda x, y: te.popcount(x),
        lambda x, y: te.clz(x),
        lambda x, y: te.min(x, y),
        lambda x, y: te.max(x, y),
        lambda x, y: te.select(x < y, x, y),
        lambda x, y: te.reinterpret(unsigned, x),
        lambda x, y: te.if_then_else(te.all(x >= y, x != 5), x, y + 1),
        lambda x, y: -x,
    ]
    outputs = [te.compute((64,), lambda i, f=f: f(A[i], B[i]), name=f"by{n}") for n, f in enumerate(makers)]
    for number, (found, expected) in enumerate(both([A, B], outputs, [a, b])):
        assert np.array_equal(found, expected), (number, found, expected)


@pytest.mark.parametrize("dtype", drawn.part(["float32", "float16", "int8", "float64", "bool"], 3))
def test_vectors_are_what_their_lanes_are(dtype: str) -> None:
    A, B = te.placeholder((100,), dtype, name="A"), te.placeholder((4,), dtype, name="B")
    makers = [
        lambda i: te.select(A[i], B[i % 4], ~A[i]) if dtype == "bool" else A[i] + B[i % 4],
        lambda i: te.if_then_else(i > 2, A[te.max(i - 3, 0)], A[i]),
        lambda i: A[99 - i],
        lambda i: A[i // 2],
        lambda i: A[i].astype("float32"),
        lambda i: te.select(i % 3 < 1, A[i], B[0]),
    ]
    rng = np.random.default_rng(1)
    a, b = ((rng.integers(-9, 9, n) > 0 if dtype == "bool" else rng.integers(-9, 9, n)).astype(dtype) for n in (100, 4))
    outputs = [te.compute((100,), lambda i, f=f: f(i), name=f"by{n}") for n, f in enumerate(makers)]
    for vector in (4, 8, 3):
        for number, (found, expected) in enumerate(both([A, B], outputs, [a, b], vector)):
            assert_same(found, expected, f"{number} in vectors of {vector}")


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (0.1, "float32", "0.1f"),
        (1.0, "float32", "1.0f"),
        (-2.5, "float32", "(-2.5f)"),
        (1e-45, "float32", "1.4013e-45f"),
        (16777217.0, "float64", "16777217.0"),
        (float("inf"), "float32", "tw_infinity()"),
        (float("-inf"), "float64", "(-(double)tw_infinity())"),
        (float("nan"), "float32", "tw_nan()"),
        (-(2**31), "int32", "(-2147483647 - 1)"),
        (-(2**63), "int64", "(-9223372036854775807LL - 1)"),
        (2**64 - 1, "uint64", "18446744073709551615ULL"),
        (5, "uint32", "5u"),
        (-3, "int8", "(signed char)(-3)"),
        (1, "bool", "true"),
    ],
)
def test_constants_are_written_exactly(value: float, dtype: str, text: str) -> None:
    assert constant(value, DType(dtype)) == text


@pytest.mark.parametrize("vector", [1, 4])
@pytest.mark.parametrize("choose", [te.select, te.if_then_else])
def test_an_inlined_chain_of_choices_is_written_once_and_not_for_each_place_that_reads_it(
    choose: Any, vector: int
) -> None:
    n, steps = 32, 18
    A = te.placeholder((n,), "int32", name="A")
    tensors = [A]
    for k in range(steps):

        def step(i: te.Var, k: int = k, last: te.Tensor = tensors[-1]) -> te.Expr:
            return choose((last[i] & (k + 1)) > 0, last[i] * 3 - k, last[i] + A[(i + k) % n])

        tensors.append(te.compute((n,), step, name=f"T{k}"))
    values = np.random.default_rng(5).integers(-50, 50, n).astype("int32")
    expected = values.copy()
    for k in range(steps):
        expected = np.where((expected & (k + 1)) > 0, expected * 3 - k, expected + np.roll(values, -k))
    s = te.create_schedule(tensors[-1].op)
    for tensor in tensors[1:-1]:
        s[tensor].compute_inline()
    outer, lanes = s[tensors[-1]].split(tensors[-1].op.axis[0], factor=vector)
    s[tensors[-1]].vectorize(lanes)
    s[tensors[-1]].bind(outer, thread())
    kernel = tw.build(s, [A, tensors[-1]], target="cuda -emulate")
    found = np.empty(n, "int32")
    kernel(values, found)
    assert_same(found, expected)
    assert len(kernel.source("cuda")) < 100_000
    assert ".version" in tw.build(s, [A, tensors[-1]], target="cuda -arch=sm_80").source("ptx")
