"""The interpreter against numpy and against the semantics that ir/expr.py states."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import drawn
import ml_dtypes
import numpy as np
import pytest
from tilewright.ir import expr as E
from tilewright.ir.errors import ArgumentsDoNotFit, NotWellFormed, UnknownOutsideCode
from tilewright.ir.interpret import interpreter
from tilewright.ir.interpret.interpreter import EXTERNS, Interpreter, run
from tilewright.ir.intrinsics import INTRINSICS
from tilewright.ir.stmt import BufferStore, Seq
from tilewright.ir.text.parser import parse
from tilewright.ir.visit import substitute

BF16 = ml_dtypes.bfloat16
SMALL_INTS = ("int8", "uint8")


def elementwise(expression: str, inputs: list[np.ndarray], out: str, lanes: int = 1) -> np.ndarray:
    """`expression` of X[i], Y[i], Z[i] for every element, computed one by one or in vectors."""
    size = inputs[0].size
    names = "XYZ"[: len(inputs)]
    params = ", ".join(f"{name}: {array.dtype}[{size}]" for name, array in zip(names, inputs, strict=True))
    index = "i" if lanes == 1 else f"ramp(i * {lanes}, 1, {lanes})"
    for name in names:
        expression = expression.replace(name, f"{name}[{index}]")
    result = np.zeros(size, BF16 if out == "bfloat16" else out)
    header = f"def f({params}, OUT: out {out}[{size}]):\n"
    run(parse(f"{header}    for i in {size // lanes}:\n        OUT[{index}] = {expression}\n"), [*inputs, result])
    return result


def all_pairs(dtype: str) -> list[np.ndarray]:
    values = np.arange(np.iinfo(dtype).min, np.iinfo(dtype).max + 1).astype(dtype)
    return [np.repeat(values, 256), np.tile(values, 256)]


def truncated(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """C's division and remainder, 0 where y is 0."""
    a, b = x.astype(int), y.astype(int)
    safe = np.where(b == 0, 1, b)
    quotient = np.abs(a) // np.abs(safe) * np.sign(a) * np.sign(safe)
    return np.where(b == 0, 0, quotient).astype(x.dtype), np.where(b == 0, 0, a - quotient * safe).astype(x.dtype)


PAIR_OPERATORS: dict[str, Any] = {
    "X // Y": np.floor_divide,
    "X % Y": np.remainder,
    "truncdiv(X, Y)": lambda x, y: truncated(x, y)[0],
    "truncmod(X, Y)": lambda x, y: truncated(x, y)[1],
    "X + Y": np.add,
    "X - Y": np.subtract,
    "X * Y": np.multiply,
    "min(X, Y)": np.minimum,
    "max(X, Y)": np.maximum,
    "X & Y": np.bitwise_and,
    "X ^ Y": np.bitwise_xor,
}


@pytest.mark.parametrize("lanes", [1, 16])
@pytest.mark.parametrize("expression", drawn.part(PAIR_OPERATORS, 6))
@pytest.mark.parametrize("dtype", SMALL_INTS)
def test_integer_operators_agree_with_numpy_on_all_pairs(dtype: str, expression: str, lanes: int) -> None:
    x, y = all_pairs(dtype)
    with np.errstate(all="ignore"):
        expected = PAIR_OPERATORS[expression](x, y)
    np.testing.assert_array_equal(elementwise(expression, [x, y], dtype, lanes), expected)


@pytest.mark.parametrize("divisor", [-128, -3, -1, 0, 1, 2, 7, 127])
def test_division_by_constants(divisor: int) -> None:
    x = np.arange(-128, 128).astype("int8")
    y = np.full(256, divisor, "int8")
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(elementwise(f"X // {divisor}", [x], "int8"), x // y)
        np.testing.assert_array_equal(elementwise(f"X % {divisor}", [x], "int8"), x % y)
    np.testing.assert_array_equal(elementwise(f"truncdiv(X, {divisor})", [x], "int8"), truncated(x, y)[0])
    np.testing.assert_array_equal(elementwise(f"truncmod(X, {divisor})", [x], "int8"), truncated(x, y)[1])


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "uint32", "int64", "uint64"])
def test_chains_wrap_in_their_own_type(dtype: str) -> None:
    info = np.iinfo(dtype)
    x = np.array([info.max, info.min, info.max - 1, 3, info.max // 2], dtype)
    y = np.array([info.max, 7, info.max, 5, 3], dtype)
    with np.errstate(all="ignore"):
        expected = (x * y + x - y) * x // np.array(3, dtype)
        np.testing.assert_array_equal(elementwise("(X * Y + X - Y) * X // 3", [x, y], dtype), expected)
        np.testing.assert_array_equal(elementwise("X * Y + X < Y", [x, y], "bool"), x * y + x < y)


CAST_TYPES = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]


@pytest.mark.parametrize("source", CAST_TYPES)
@pytest.mark.parametrize("target", CAST_TYPES)
def test_casts_between_integers_wrap(source: str, target: str) -> None:
    kind = np.dtype(source)
    edge = [0, 1] if kind.kind == "b" else [np.iinfo(kind).min, np.iinfo(kind).max, 0, 1, 77, 100]
    x = np.array(edge, kind)
    np.testing.assert_array_equal(elementwise(f"{target}(X)", [x], target), x.astype(target))


@pytest.mark.parametrize("source", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("target", CAST_TYPES)
def test_casts_from_floats_truncate_and_saturate(source: str, target: str) -> None:
    values = [0.0, -0.0, 1.9, -1.9, 126.5, -129.0, 3e4, -3e4, math.inf, -math.inf, math.nan, 0.25]
    x = np.array(values, BF16 if source == "bfloat16" else source)
    found = elementwise(f"{target}(X)", [x], target)
    for value, result in zip(x.astype(float), found, strict=True):
        if target == "bool":
            assert result == (value != 0)
        elif math.isnan(value):
            assert result == 0
        else:
            info = np.iinfo(target)
            limited = min(max(value, float(info.min)), float(info.max))
            assert int(result) == min(max(int(limited), info.min), info.max)


def test_casts_from_integers_round_once() -> None:
    x = np.array([16777217, -16777219, 2**31 - 1], "int32")
    np.testing.assert_array_equal(elementwise("float32(X)", [x], "float32"), x.astype("float32"))
    wide = np.array([2**62 + 2**38 + 1, 2**53 + 1, -(2**63)], "int64")
    np.testing.assert_array_equal(elementwise("float32(X)", [wide], "float32"), wide.astype("float32"))
    np.testing.assert_array_equal(elementwise("float64(X)", [wide], "float64"), wide.astype("float64"))
    assert elementwise("float16(X)", [np.array([70000, 2049], "int32")], "float16").tolist() == [math.inf, 2048.0]
    np.testing.assert_array_equal(elementwise("float32(X)", [np.array([True, False])], "float32"), [1.0, 0.0])


FLOATS: list[tuple[str, Any]] = [
    ("float16", np.float16),
    ("bfloat16", BF16),
    ("float32", np.float32),
    ("float64", np.float64),
]


@pytest.mark.parametrize(("dtype", "made"), FLOATS)
@pytest.mark.parametrize("lanes", [1, 8])
def test_float_operators_round_in_their_own_precision(dtype: str, made: Any, lanes: int) -> None:
    generator = np.random.default_rng(7)
    x, y = (generator.standard_normal(64).astype(made) for _ in range(2))
    x[:4], y[:4] = np.array([np.inf, np.nan, 0, -1], made), np.array([0, 1, 0, 0], made)
    with np.errstate(all="ignore"):
        for symbol, apply in (("+", np.add), ("-", np.subtract), ("*", np.multiply), ("/", np.divide)):
            found = elementwise(f"X {symbol} Y", [x, y], dtype, lanes)
            exact = apply(x.astype(float), y.astype(float)).astype(made)  # one operation in double rounds innocuously
            np.testing.assert_array_equal(found.astype(float), exact.astype(float))
        chain = elementwise("(X + Y) * X - Y", [x, y], dtype, lanes)
        np.testing.assert_array_equal(chain.astype(float), (((x + y) * x).astype(made) - y).astype(float))
        np.testing.assert_array_equal(elementwise("X < Y", [x, y], "bool", lanes), x < y)


def test_half_precision_rounds_at_each_operation() -> None:
    x = np.array([2048.0], "float16")
    assert elementwise("X + 1.0 + 1.0", [x], "float16") == [2048.0]
    b = np.array([256.0], BF16)
    assert elementwise("X + 1.0 + 1.0", [b], "bfloat16").astype(float) == [256.0]


@pytest.mark.parametrize(("dtype", "made"), FLOATS)
def test_min_and_max_of_a_nan_are_nan(dtype: str, made: Any) -> None:
    x, y = np.array([np.nan, 1, 2, np.nan], made), np.array([1, np.nan, 3, np.nan], made)
    for lanes in (1, 4):
        assert np.isnan(elementwise("min(X, Y)", [x, y], dtype, lanes).astype(float)).tolist() == [
            True,
            True,
            False,
            True,
        ]
        assert elementwise("max(X, Y)", [x, y], dtype, lanes).astype(float)[2] == 3


def test_float_remainders() -> None:
    x, y = np.array([5.5, -5.5, 5.5, -5.5, 1.0], "float32"), np.array([3, 3, -3, -3, 0], "float32")
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(elementwise("X % Y", [x, y], "float32"), x % y)
        np.testing.assert_array_equal(elementwise("X // Y", [x, y], "float32"), x // y)
        np.testing.assert_array_equal(elementwise("truncmod(X, Y)", [x, y], "float32"), np.fmod(x, y))
        np.testing.assert_array_equal(elementwise("truncdiv(X, Y)", [x, y], "float32"), np.trunc(x / y))


def test_logic_and_comparisons() -> None:
    x, y = np.array([1, 2, 3, 4], "int32"), np.array([4, 2, 2, 4], "int32")
    for lanes in (1, 4):
        one = "1" if lanes == 1 else "broadcast(1, 4)"
        found = elementwise(f"not (X < Y or X == Y) and X != {one}", [x, y], "bool", lanes)
        np.testing.assert_array_equal(found, ~((x < y) | (x == y)) & (x != 1))
    np.testing.assert_array_equal(
        elementwise("select(X <= Y, X >= 2, X > 3)", [x, y], "bool"), np.where(x <= y, x >= 2, x > 3)
    )


# Intrinsics

REFERENCES: dict[str, Any] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "exp10": lambda x: 10.0**x,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "expm1": np.expm1,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erf": np.vectorize(math.erf, otypes=[float]),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "nearbyint": np.rint,
    "round": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
    "abs": np.abs,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
    "pow": np.power,
    "atan2": np.arctan2,
    "copysign": np.copysign,
    "hypot": np.hypot,
}
OTHERS = {
    "fma",
    "mul_add",
    "popcount",
    "clz",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "bitwise_not",
    "shift_left",
    "shift_right",
    "reinterpret",
    "likely",
    "call_extern",
    "call_pure_extern",
    "call_llvm_intrinsic",
    "access_ptr",
    "target_has",
}
ELSEWHERE = {"atomic_add", "trace", "call_packed", "packed_array", "prefetch", "unaligned_elements"}
"""Run by the tests of te.extern, of atomic updates, of the storage primitives and of stores past the caches."""


def test_every_intrinsic_is_tested_here() -> None:
    assert set(INTRINSICS) == set(REFERENCES) | OTHERS | ELSEWHERE


@pytest.mark.parametrize("name", REFERENCES)
@pytest.mark.parametrize(("dtype", "made"), FLOATS)
def test_float_intrinsics(name: str, dtype: str, made: Any) -> None:
    row = INTRINSICS[name]
    low, high = (
        (1, 3) if name == "acosh" else (-0.99, 0.99) if name in ("asin", "acos", "atanh", "log1p") else (0.01, 4)
    )
    values = [np.linspace(low, high, 16).astype(made) for _ in range(row.arity)]
    values[0][:2] = np.array([np.inf, np.nan], made)
    if name in ("floor", "ceil", "round", "trunc", "nearbyint", "abs", "copysign"):
        values[0][2:8] = np.array([-0.0, -2.5, 2.5, 0.5, -1.5, 3.5], made)
    out = "bool" if row.result == "bool" else dtype
    with np.errstate(all="ignore"):
        expected = REFERENCES[name](*(value.astype(float) for value in values))
    text = f"{name}({', '.join('XYZ'[: row.arity])})"
    for lanes in (1, 8):
        with np.errstate(all="ignore"):
            found = elementwise(text, values, out, lanes)
            if out == "bool":
                np.testing.assert_array_equal(found, expected)
            else:
                np.testing.assert_array_equal(found.astype(float), expected.astype(made).astype(float))


def test_fma_rounds_once() -> None:
    generator = np.random.default_rng(3)
    for dtype, made in FLOATS:
        x, y, z = (generator.standard_normal(64).astype(made) for _ in range(3))
        found = elementwise("fma(X, Y, Z)", [x, y, z], dtype)
        for a, b, c, result in zip(x, y, z, found, strict=True):
            exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
            error = abs(Fraction(float(result)) - exact)
            beside = (np.nextafter(result, made(9)), np.nextafter(result, made(-9)))
            assert all(error <= abs(Fraction(float(near)) - exact) for near in beside)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint64"])
def test_bits(dtype: str) -> None:
    info = np.iinfo(dtype)
    bits, mask = info.bits, 2**info.bits - 1
    x = np.array([info.min, info.max, 0, 1, 100, 37], dtype)
    n = np.array([0, 1, 2, 3, 4, bits - 1], dtype)
    plain = [int(value) & mask for value in x]
    assert elementwise("popcount(X)", [x], dtype).tolist() == [value.bit_count() for value in plain]
    assert elementwise("clz(X)", [x], "int32").tolist() == [bits - value.bit_length() for value in plain]
    np.testing.assert_array_equal(elementwise("~X | Y", [x, n], dtype), ~x | n)
    np.testing.assert_array_equal(elementwise("X << Y", [x, n], dtype), x << n)
    np.testing.assert_array_equal(elementwise("X >> Y", [x, n], dtype), x >> n)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(elementwise("abs(X)", [x], dtype), np.abs(x))


def test_shifts_by_too_much_do_not_trap() -> None:
    x, n = np.array([1, -1], "int32"), np.array([32, -1], "int32")
    assert elementwise("X << Y", [x, n], "int32").size == elementwise("X >> Y", [x, n], "int32").size == 2


def test_reinterpret() -> None:
    x = np.array([1.5, -0.0, np.inf], "float32")
    np.testing.assert_array_equal(elementwise("reinterpret(uint32, X)", [x], "uint32"), x.view("uint32"))
    b = np.array([16256, 49024], "uint16")
    np.testing.assert_array_equal(elementwise("reinterpret(bfloat16, X)", [b], "bfloat16").astype(float), [1.0, -1.0])
    four = np.array([1, 2, 3, 4], "int8")
    function = parse("def f(X: int8[4], Y: out int32[1]):\n    Y[0] = reinterpret(int32, X[ramp(0, 1, 4)])")
    found = np.zeros(1, "int32")
    run(function, [four, found])
    assert found.tolist() == four.view("int32").tolist()


def test_outside_code(monkeypatch: pytest.MonkeyPatch) -> None:
    function = parse("""
        def f(X: float32[3], Y: out float32[3, data=Y_ptr]):
            for i in 3:
                Y[i] = call_pure_extern(float32, "double_it_here", X[i]) + float32(likely(i))
            call_extern(int32, "negate_it_here", Y_ptr, 1)
    """)
    with pytest.raises(UnknownOutsideCode, match=r"cannot call 'double_it_here'.*(?s:.*)EXTERNS\['double_it_here'\]"):
        run(function, [np.ones(3, "float32"), np.zeros(3, "float32")])

    def negate(pointer: list[Any], index: int) -> None:
        pointer[index] = -pointer[index]

    monkeypatch.setitem(EXTERNS, "double_it_here", lambda value: 2 * value)
    monkeypatch.setitem(EXTERNS, "negate_it_here", negate)
    found = np.zeros(3, "float32")
    run(function, [np.array([1, 2, 3], "float32"), found])
    assert found.tolist() == [2.0, -5.0, 8.0]


# Programs


def test_matmul_with_symbolic_shapes() -> None:
    function = parse("""
        def matmul[n, m, k](A: float32[n, k], B: float32[k, m], C: out float32[n, m]):
            for i in parallel(n):
                for j in m:
                    C[i, j] = 0.0
                    for r in k:
                        C[i, j] = C[i, j] + A[i, r] * B[r, j]
    """)
    program = Interpreter(function)
    generator = np.random.default_rng(0)
    for n, m, k in ((3, 4, 5), (1, 1, 1), (7, 2, 3), (0, 4, 4), (2, 3, 0)):
        a, b = generator.standard_normal((n, k)).astype("float32"), generator.standard_normal((k, m)).astype("float32")
        c = np.full((n, m), np.nan, "float32")
        program(a, b, c)
        np.testing.assert_allclose(c, a @ b, rtol=1e-5, atol=1e-5)
    assert len(program.programs) == 5


def test_scalars_lets_conditions_and_allocations() -> None:
    function = parse("""
        def f[n](A: int32[n], s: int32, t: float64, u: bool, B: out float64[n]):
            T: int32[n, 2]
            for i in n:
                x: int32 = A[i] * s
                T[i, 0] = x
                T[i, 1] = let(y: int32 = x + 1, y * y)
                if x > 10 and u:
                    B[i] = float64(T[i, 0])
                elif x > 5:
                    B[i] = float64(T[i, 1]) + t
                else:
                    B[i] = if_then_else(x < 0, 0.5, t)
    """)
    a, b = np.array([-1, 0, 1, 2, 3, 4], "int32"), np.zeros(6)
    run(function, [a, np.int32(3), 0.25, True, b])
    assert b.tolist() == [0.5, 0.25, 0.25, 49.25, 100.25, 12.0]
    run(function, [a, 3, np.float64(0.25), False, b])
    assert b.tolist() == [0.5, 0.25, 0.25, 49.25, 100.25, 169.25]


def test_only_the_chosen_side_of_if_then_else_is_evaluated() -> None:
    function = parse("""
        def f(A: float32[8], B: out float32[10]):
            for i in 10:
                B[i] = if_then_else(1 <= i and i < 9, A[i - 1], 0.0)
    """)
    a, b = np.arange(8, dtype="float32"), np.zeros(10, "float32")
    run(function, [a, b])
    assert b.tolist() == [0, *a, 0]
    with pytest.raises(interpreter.OutOfBounds, match=r"accesses A\[-1\]"):
        run(parse(str(function).replace("if_then_else", "select")), [a, b])


def test_vectors() -> None:
    function = parse("""
        def f(A: float32[16], I: int32[4], B: out float32[16], C: out float32[4]):
            x: float32x4 = A[ramp(3, -1, 4)]
            B[ramp(0, 1, 4)] = x + broadcast(1.0, 4)
            B[ramp(4, 1, 4)] = A[I[ramp(0, 1, 4)]]
            B[ramp(8, 2, 4)] = select(I[ramp(0, 1, 4)] < broadcast(5, 4), x, broadcast(-1.0, 4))
            B[ramp(9, 2, 4), where=not (I[ramp(0, 1, 4)] < broadcast(5, 4))] = float32x4(ramp(7, 0, 4))
            C[ramp(0, 1, 4)] = shuffle([x, broadcast(9.0, 4)], [0, 3, 4, 7])
            C[ramp(0, 1, 4), where=broadcast(False, 4)] = A[ramp(100, 1, 4), where=broadcast(False, 4)]
    """)
    a, i = np.arange(16, dtype="float32"), np.array([9, 0, 5, 2], "int32")
    b, c = np.full(16, np.nan, "float32"), np.zeros(4, "float32")
    run(function, [a, i, b, c])
    assert b[:8].tolist() == [4, 3, 2, 1, 9, 0, 5, 2]
    assert b[8::2].tolist() == [-1, 2, -1, 0]
    assert b[[9, 13]].tolist() == [7, 7]
    assert np.isnan(b[[11, 15]]).all()
    assert c.tolist() == [3, 0, 9, 9]


def test_masked_lanes_read_zero_and_touch_nothing() -> None:
    function = parse("""
        def f(A: int32[3], B: out int32[4]):
            B[ramp(0, 1, 4)] = A[ramp(0, 1, 4), where=ramp(0, 1, 4) < broadcast(3, 4)]
    """)
    b = np.full(4, 9, "int32")
    run(function, [np.array([1, 2, 3], "int32"), b])
    assert b.tolist() == [1, 2, 3, 0]


def test_flat_programs_take_the_arrays_of_the_others() -> None:
    loops = parse("""
        def f[n](A: float32[n, 4], B: out float32[4, n]):
            for i in n:
                for j in 4:
                    B[j, i] = A[i, j]
    """)
    flat = parse("""
        def f[n](A: float32[int64(n) * 4], B: out float32[int64(n) * 4]):
            for i in n:
                for j in 4:
                    B[int64(j) * int64(n) + int64(i)] = A[int64(i) * 4 + int64(j)]
    """)
    n = loops.params[0].shape[0]
    symbol = flat.params[0].shape[0].a.value
    declared = [replace(p, shape=tuple(substitute(e, {n: symbol}) for e in p.shape)) for p in loops.params]
    a = np.arange(12, dtype="float32").reshape(3, 4)
    b = np.zeros((4, 3), "float32")
    run(flat, [a, b], declared=declared)
    np.testing.assert_array_equal(b, a.T)


def test_strided_and_offset_parameters() -> None:
    function = parse("""
        def f[n, s](A: float32[n, 3, strides=[s, 1]], B: out float32[n, 3, strides=[4, 1], offset=2]):
            for i in n:
                for j in 3:
                    B[i, j] = A[i, j] + 1.0
    """)
    whole = np.arange(20, dtype="float32").reshape(4, 5)
    target = np.zeros((4, 4), "float32")
    run(function, [whole[:, :3], target[:, :3]])
    np.testing.assert_array_equal(target[:, :3], whole[:, :3] + 1)
    assert (target[:, 3] == 0).all()


def test_padded_and_dynamic_allocations() -> None:
    function = parse("""
        def f(B: out int32[4, 4]):
            for i in 4:
                T: int32[i + 1, 2, strides=[3, 1]]
                for j in i + 1:
                    T[j, 0] = i * j
                    T[j, 1] = 1
                for j in i + 1:
                    B[i, j] = T[j, 0] + T[j, 1]
    """)
    b = np.zeros((4, 4), "int32")
    run(function, [b])
    assert b.tolist() == [[i * j + 1 if j <= i else 0 for j in range(4)] for i in range(4)]


def test_what_is_not_written_stays() -> None:
    function = parse("def f(B: out int32[2, 3]):\n    for i in 2:\n        B[i, i] = 5")
    b = np.full((2, 3), 9, "int32")
    run(function, [b])
    assert b.tolist() == [[5, 9, 9], [9, 5, 9]]
    transposed = np.full((3, 2), 9, "int32").T
    run(function, [transposed])
    assert transposed.tolist() == [[5, 9, 9], [9, 5, 9]]


def test_zero_extents_and_rank_zero() -> None:
    function = parse("""
        def f[n](A: float32[n], S: out float32[()]):
            S[()] = 0.0
            for i in n:
                S[()] = S[()] + A[i]
    """)
    for size in (0, 1, 5):
        found = np.array(7, "float32")
        run(function, [np.ones(size, "float32"), found])
        assert found == size


def test_thread_loops_run_as_loops() -> None:
    function = parse("""
        def f(B: out int32[4, 8]):
            for b in thread("blockIdx.x", 4):
                for t in thread("threadIdx.x", 4):
                    for again in thread("threadIdx.x", 8):
                        B[b, again] = b * 10 + again
    """)
    b = np.zeros((4, 8), "int32")
    run(function, [b])
    assert b.tolist() == [[i * 10 + j for j in range(8)] for i in range(4)]


def test_deep_nests() -> None:
    depth = 120
    loops = "\n".join("    " * (at + 1) + f"for i{at} in {2 if at % 40 == 0 else 1}:" for at in range(depth))
    total = " + ".join(f"i{at}" for at in range(depth))
    function = parse(f"def f(B: out int32[2]):\n    B[0] = 0\n{loops}\n{'    ' * (depth + 1)}B[0] = B[0] + ({total})")
    b = np.zeros(2, "int32")
    run(function, [b])
    assert b[0] == 12


def test_deep_expressions() -> None:
    left = " + ".join(["X"] * 5000)
    right = "".join("(X - " for _ in range(2000)) + "X" + ")" * 2000
    lazy = "".join(f"if_then_else(X == {at}, {at}.0, " for at in range(400)) + "-1.0" + ")" * 400
    x = np.array([1.0, 0.0], "float32")
    assert elementwise(left, [x], "float32").tolist() == [5000, 0]
    assert elementwise(right, [x], "float32").tolist() == [1, 0]
    assert elementwise(lazy, [np.array([399, 500, 0], "float32")], "float32").tolist() == [399, -1, 0]


def test_shared_expressions_are_computed_once() -> None:
    function = parse("def f(A: int32[1], B: out int32[1]):\n    B[0] = A[0]")
    store = function.body
    assert isinstance(store, BufferStore)
    value: E.Expr = store.value
    for _ in range(64):
        value = value + value
    a, b = np.array([3], "int32"), np.zeros(1, "int32")
    run(function.with_body(BufferStore(store.buffer, value // 1 + 1, store.indices)), [a, b])
    assert b[0] == 1


def test_a_shared_load_is_read_again_in_the_next_statement() -> None:
    function = parse(
        "def f(A: int32[1], B: out int32[2]):\n    B[0] = A[0]\n    B[1] = B[0] * B[0] + B[0]\n    B[0] = 5"
    )
    assert isinstance(function.body, Seq)
    copy, square, five = function.body.body
    assert isinstance(square, BufferStore)
    b = np.zeros(2, "int32")
    run(function.with_body(Seq((copy, square, five, square))), [np.array([2], "int32"), b])
    assert b.tolist() == [5, 30]


# Arguments


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([np.zeros((2, 3), "float32")], "takes 3 arguments, not 1"),
        ([np.zeros((2, 3), "float64"), 1, np.zeros(2, "float32")], "'A' of f must be float32"),
        ([[1.0], 1, np.zeros(2, "float32")], "'A' of f must be an array"),
        (
            [np.zeros((2, 4), "float32"), 1, np.zeros(2, "float32")],
            r"(?s)'A' of f has the wrong shape.*A: float32\[n, 3\].*\[2, 4\]",
        ),
        ([np.zeros((2, 3), "float32"), 1, np.zeros(3, "float32")], "'B' of f has the wrong shape"),
        ([np.zeros((2, 3), "float32"), 200, np.zeros(2, "float32")], "'s' does not fit int8"),
    ],
)
def test_arguments_that_do_not_fit(args: list[Any], message: str) -> None:
    function = parse("def f[n](A: float32[n, 3], s: int8, B: out float32[n]):\n    pass")
    with pytest.raises(ArgumentsDoNotFit, match=message) as caught:
        run(function, args)
    assert caught.value.code == "TW0307"


def test_programs_that_cannot_be_run() -> None:
    x = [np.zeros(4, "float32")]
    with pytest.raises(NotWellFormed, match="only a whole value can be left out"):
        run(
            parse(
                "def f(B: out float32[4]):\n    B[ramp(0, 1, 4)] = if_then_else(ramp(0, 1, 4) < broadcast(2, 4), "
                "broadcast(1.0, 4), broadcast(2.0, 4))"
            ),
            x,
        )
