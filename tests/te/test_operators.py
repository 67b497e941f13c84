"""How expressions are built: rounding, folding, vectors, casts and what is refused."""

import math

import drawn
import ml_dtypes
import numpy as np
import pytest
from tilewright import te
from tilewright.base.errors import TensorExpressionError
from tilewright.ir import expr as e
from tilewright.ir import ops
from tilewright.ir.dtype import DType
from tilewright.ir.rounding import round_float

FLOATS = {
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float32": np.float32,
    "float64": np.float64,
}


@pytest.mark.parametrize("dtype", FLOATS)
def test_constants_are_rounded_as_numpy_rounds(dtype):
    rng = drawn.rng(f"rounding {dtype}")
    scale = 2.0 ** rng.integers(-150, 130, drawn.count(500, 20_000))
    drawn_values = (rng.standard_normal(scale.size) * scale).tolist()
    ties = [1 + 2.0**-9, 1 + 3 * 2.0**-9, 1 + 2.0**-11, 65519.9, 65520.0, 3.4e38, 3.3961775292304957e38, 2.0**-25, 6e-8]
    with np.errstate(over="ignore"):
        for value in [*drawn_values, *ties, math.inf, -math.inf, -0.0, 0.0]:
            # those of ml_dtypes by way of float32, as they convert themselves
            through = float(np.float32(value)) if hasattr(ml_dtypes, dtype) else value
            expected = float(FLOATS[dtype](through))
            found = round_float(value, DType(dtype))
            same = (found, math.copysign(1, found)) == (expected, math.copysign(1, expected))
            assert same or math.isnan(found) and math.isnan(expected), f"{value!r} as {dtype}"
    assert math.isnan(round_float(math.nan, DType(dtype)))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
def test_constants_wrap_as_numpy_wraps(dtype):
    rng = drawn.rng(f"wrapping {dtype}")
    info = np.iinfo(dtype)
    for a, b in rng.integers(info.min, info.max, (drawn.count(100, 5000), 2), dtype=dtype, endpoint=True):
        x, y = (e.IntImm(int(v), DType(dtype)) for v in (a, b))
        with np.errstate(all="ignore"):
            assert [int(v) for v in (x + y, x - y, x * y, te.min(x, y), x < y)] == [
                int(v) for v in (a + b, a - b, a * b, min(a, b), a < b)
            ]
            assert [int(v) for v in (x & y, x | y, x ^ y, x >> 3, x << 3)] == [
                int(v) for v in (a & b, a | b, a ^ b, a >> 3, a << 3)
            ]


def test_neutral_elements_fold_for_integers_alone():
    i, f = te.var("i"), te.var("f", "float32")
    assert all(made is i for made in (i + 0, 0 + i, i - 0, i * 1, 1 * i, i // 1, te.truncdiv(i, 1)))
    assert int(i * 0) == 0 and int(0 * i) == 0
    assert isinstance(f + 0, e.Add) and isinstance(f * 0, e.Mul) and isinstance(f * 1, e.Mul)


def test_negation_keeps_signed_zeros():
    f, i = te.var("f", "float32"), te.var("i")
    assert isinstance(-f, e.Mul) and math.copysign(1, (-te.const(0.0)).value) == -1
    assert isinstance(-i, e.Sub) and int(-te.const(-128, "int8")) == -128


def test_shifts_out_of_range_are_left_to_run_time():
    assert isinstance(te.const(1) << 32, e.Call) and isinstance(te.const(1) >> -1, e.Call)


def test_vectors_meet_scalars_and_each_other():
    v = e.Ramp(te.const(0), te.const(1), 4)
    assert [
        (v + 1).dtype,
        (1 + v).dtype,
        (v * te.var("i")).dtype,
        (v < 3).dtype,
        (v + 0.5).dtype,
        (-v).dtype,
        te.exp(v).dtype,
    ] == ["int32x4", "int32x4", "int32x4", "boolx4", "float32x4", "int32x4", "float32x4"]
    assert ops.const(1, "int32x4").dtype == "int32x4" and ops.cast(te.var("i"), "int64x4").dtype == "int64x4"
    with pytest.raises(TensorExpressionError, match="TW0104: vectors of 2 and 4 lanes do not match"):
        _ = v + e.Ramp(te.const(0), te.const(1), 2)
    with pytest.raises(TensorExpressionError, match="TW0104: cannot convert int32x4 to int32x2"):
        ops.cast(v, "int32x2")


def test_casts():
    i, f = te.var("i"), te.var("f", "float32")
    assert i.astype("int32") is i and isinstance(f.astype("bool"), e.Cast)
    assert te.const(math.inf).astype("int8").value == 127 and te.const(-math.inf).astype("uint8").value == 0
    assert te.const(2**40).astype("float32").value == 2.0**40 and te.const(1e300).astype("float32").value == math.inf


@pytest.mark.parametrize("value", [None, [1], "text", {}, np.ones(2), 1j, object()])
def test_what_is_no_expression(value):
    with pytest.raises(TensorExpressionError, match=r"TW010[46]"):
        _ = te.var("i") + value
    assert not te.var("i") == value and te.var("i") != value  # noqa: SIM201


def test_bits_of_floats_are_refused():
    f = te.var("f", "float32")
    for call in (lambda: f & 1, lambda: f << 1, lambda: ~f, lambda: te.popcount(f), lambda: te.clz(f)):
        with pytest.raises(TensorExpressionError, match=r"TW0104[\s\S]*takes integers"):
            call()


def test_powers_of_integers_need_a_constant():
    i = te.var("i")
    for call in (lambda: i**i, lambda: 2**i, lambda: i**-1):
        with pytest.raises(TensorExpressionError, match=r"integer power .* needs a constant exponent from 0 to 1024"):
            call()
    assert isinstance(i ** te.const(2), e.Mul) and int(te.const(True) ** 0) == 1


def test_double_negation_and_constant_conditions():
    p = te.var("p", "bool")
    assert ~~p is p and bool(~te.const(False)) and te.all(p, False) is ops.FALSE and te.any(p, False) is p
    assert te.likely(te.const(True)) is ops.TRUE and ops.logical_not(te.var("i")).value.symbol == "!="


def test_equality_of_expressions_asks_for_identity():
    i, j = te.var("i"), te.var("j")
    assert i == i and i != j and not i != i  # noqa: SIM202
    assert not i == j and not i == 0 and i != 0  # noqa: SIM201
    assert i != None and i != "i"  # noqa: E711
    assert te.const(3) == 3 and te.const(3) != 4 and i.equal(j).symbol == "=="
    assert te.var("b", "int8") != 300, "no int8 is 300"


def test_numpy_leaves_its_operators_to_expressions():
    i = te.var("i", "float32")
    for made in (np.float32(2) + i, np.float64(2) * i, np.int32(1) - i, np.float32(1) / i, np.float32(1) < i):
        assert isinstance(made, e.BinaryOp)
    assert isinstance(np.float32(2) * te.placeholder((3,)), te.Tensor)
