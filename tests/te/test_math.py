"""Functions of elements, and what types mix to."""

import itertools
import linecache
import math
import warnings

import ml_dtypes
import numpy as np
import pytest
import tilewright as tw
from te_evaluate import fold
from tilewright import te
from tilewright.ir import expr as e
from tilewright.ir import ops
from tilewright.ir.dtype import SCALAR_TYPES, DType

# ruff: noqa: F821  a script uses names of its own

INTEGERS = [d for d in SCALAR_TYPES if "int" in d]
FLOATS = [d for d in SCALAR_TYPES if "float" in d]
NUMBERS = INTEGERS + FLOATS
SAME = (
    "exp exp2 exp10 log log2 log10 log1p expm1 sqrt rsqrt sin cos tan sinh cosh tanh asin acos atan asinh acosh "
    "atanh erf sigmoid"
)


def var(dtype: str) -> e.Var:
    return te.var("x", dtype)


# Mixing types


@pytest.mark.parametrize(("a", "b"), list(itertools.combinations_with_replacement(NUMBERS, 2)))
def test_two_typed_operands(a, b):
    """Of two floats the wider, of integer and float the float, of two integers the wider, of one width the unsigned one."""
    x, y = DType(a), DType(b)
    if x.is_float != y.is_float:
        expected = a if x.is_float else b
    elif x.is_float and x.bits == y.bits:
        expected = a if a == b else "float32"
    elif x.is_float:
        expected = a if x.bits > y.bits else b
    else:
        expected = a if x.bits > y.bits or (x.bits == y.bits and x.kind == "uint") else b
    for made in (
        var(a) + var(b),
        var(b) * var(a),
        te.max(var(a), var(b)),
        te.select(True, var(a), var(b)),
        var(a) % var(b),
    ):
        assert made.dtype == expected
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert (var(a) < var(b)).dtype == "bool"


def test_a_comparison_of_signs_warns_once_a_line_and_names_it():
    """-1 of int32 is the greatest uint32; a wider signed type holds both, and a number takes the other side's type."""
    x, y = var("int32"), var("uint32")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            first = x < y
        second = y.equal(x)
        assert (x - y).dtype == "uint32" and (var("int64") < y).dtype == "bool" and (y < 3).dtype == "bool"
    assert [str(warning.message).split(" are ")[0] for warning in caught] == ["int32 and uint32", "uint32 and int32"]
    assert [warning.filename for warning in caught] == [__file__] * 2 and caught[0].lineno + 1 == caught[1].lineno
    assert "in which -1 is 4294967295" in str(caught[0].message) and first.a.dtype == second.a.dtype == "uint32"


@te.hybrid.script
def smaller(a, b):
    c = output_tensor(a.shape, "int32")
    for i in range(a.shape[0]):
        if a[i] < b[i]:
            c[i] = 1
    return c


def test_a_script_that_compares_signs_warns_of_its_line():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(2):
            smaller(te.placeholder((3,), "int32", "A"), te.placeholder((3,), "uint32", "B"))
    (warning,) = caught
    assert "int32 and uint32 are compared as uint32" in str(warning.message)
    assert warning.filename == __file__ and "if a[i] < b[i]" in linecache.getline(__file__, warning.lineno)


@pytest.mark.parametrize("target", ["llvm", "c", "interpret"])
def test_mixed_signs_compute_as_numpys_unsigned_type(target):
    """int32 with uint32 wraps in uint32; the wider of two widths takes both, whichever is signed."""
    pairs = [("int32", "uint32"), ("int8", "uint8"), ("int16", "uint32"), ("int64", "uint32"), ("int32", "uint64")]
    for a, b in pairs:
        A, B = te.placeholder((5,), a, "A"), te.placeholder((5,), b, "B")
        wide = (A + B).dtype
        C = te.compute((5,), lambda i: A[i] * B[i] - A[i], name="C")
        f = tw.build(te.create_schedule(C.op), [A, B, C], target=target)
        x, y = np.array([-1, -2, 0, 7, 100], a), np.array([1, 3, 200, 255, 9], b)
        found = np.empty(5, str(wide))
        f(x, y, found)
        with np.errstate(over="ignore"):
            expected = x.astype(str(wide)) * y.astype(str(wide)) - x.astype(str(wide))
        np.testing.assert_array_equal(found, expected, err_msg=f"{a} with {b}")


@pytest.mark.parametrize(("a", "b"), list(itertools.combinations_with_replacement(NUMBERS, 2)))
def test_numpy_agrees_where_it_does_not_widen(a, b):
    """numpy 2 gives the same, except where it leaves both operands' types for a third."""
    numpy_dtype = {"bfloat16": np.dtype(ml_dtypes.bfloat16)}
    found = (var(a) + var(b)).dtype
    try:
        theirs = np.promote_types(numpy_dtype.get(a, a), numpy_dtype.get(b, b)).name
    except TypeError:  # numpy has nothing for bfloat16 beside most integers
        theirs = ""
    assert found == theirs or theirs not in (a, b)
    assert found != "float64" or "float64" in (a, b)


@pytest.mark.parametrize("dtype", NUMBERS)
def test_a_python_number_takes_the_other_sides_dtype(dtype):
    x = var(dtype)
    for made in (x + 1, 1 - x, x * True, 3 % x, te.min(x, 2), te.if_then_else(x > 1, x, 0)):
        assert made.dtype == dtype
    assert (x * 2.0).dtype == (dtype if DType(dtype).is_float else "float32")
    assert (2.5 / x).dtype == (dtype if DType(dtype).is_float else "float32")


def test_numpy_scalars_keep_their_own_dtype():
    x = var("int32")
    assert [
        (x * np.float16(2)).dtype,
        (np.float16(2) * x).dtype,
        (np.int64(2) + x).dtype,
        (x + np.bool_(True)).dtype,
    ] == ["float16", "float16", "int64", "int32"]
    assert (var("float32") * np.float64(0.5)).dtype == "float32", "a numpy float64 is a Python float"


def test_bool_counts_as_int32_in_arithmetic():
    p = var("bool")
    assert [(p + p).dtype, (p + 1).dtype, (p * var("float16")).dtype, (-p).dtype, (p & p).dtype, (p < p).dtype] == [
        "int32",
        "int32",
        "float16",
        "int32",
        "bool",
        "bool",
    ]
    assert isinstance(te.max(p, p), e.Or) and isinstance(te.min(p, p), e.And)


def test_constants_fold_in_their_own_dtype():
    i8 = te.const(127, "int8")
    assert [
        int(x)
        for x in (
            i8 + 1,
            te.const(0, "uint8") - 1,
            te.const(-128, "int8") // -1,
            te.const(5, "int32") // 0,
            te.const(-7) // 2,
            te.const(-7) % 2,
            te.truncdiv(te.const(-7), 2),
            te.truncmod(te.const(-7), 2),
            te.const(1) << 4,
            te.const(6) & 3,
            te.const(6) ^ 3,
        )
    ] == [-128, 255, -128, 0, -4, 1, -3, -1, 16, 2, 5]


def test_integer_division_agrees_with_numpy_on_all_int8_pairs():
    values = np.arange(-128, 128, dtype="int8")
    a, b = (grid.ravel() for grid in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        quotients, remainders, fmods = a // b, a % b, np.fmod(a, b)
    for x, y, quotient, remainder, fmod in zip(
        *(v.tolist() for v in (a, b, quotients, remainders, fmods)), strict=True
    ):
        p, q = e.IntImm(x, DType("int8")), e.IntImm(y, DType("int8"))
        assert (int(p // q), int(p % q), int(te.truncmod(p, q))) == (quotient, remainder, fmod)


def test_constants():
    assert [
        te.const(*x).dtype for x in ((1,), (2**31,), (True,), (1.0,), (1, "float16"), (np.int8(3),), (2.7, "int32"))
    ] == ["int32", "int64", "bool", "float32", "float16", "int8", "int32"]
    assert te.const(0.1, "float16").value == float(np.float16(0.1)) and te.const(10**400, "float32").value == math.inf
    assert te.const(2.7, "int32").value == 2


@pytest.mark.parametrize("dtype", INTEGERS)
def test_limits_of_integers(dtype):
    info = ml_dtypes.iinfo(tw.empty((), dtype).dtype)
    assert (te.min_value(dtype).value, te.max_value(dtype).value) == (info.min, info.max)


@pytest.mark.parametrize("dtype", FLOATS)
def test_limits_of_floats(dtype):
    info = ml_dtypes.finfo(dtype)
    assert (te.min_value(dtype).value, te.max_value(dtype).value) == (float(info.min), float(info.max))
    assert te.max_value(dtype).dtype == dtype
    if dtype == "float8_e4m3fn":
        with pytest.raises(tw.TensorExpressionError, match="TW0105: float8_e4m3fn has no infinity"):
            te.infinity(dtype)
    else:
        assert te.infinity(dtype).value == math.inf


# Functions


@pytest.mark.parametrize("name", SAME.split())
def test_float_functions_keep_floats_and_take_integers_as_float32(name):
    function = getattr(te, name)
    assert [function(var(d)).dtype for d in ("float16", "bfloat16", "float32", "float64", "int8", "int64", "bool")] == [
        "float16",
        "bfloat16",
        "float32",
        "float64",
        "float32",
        "float32",
        "float32",
    ]
    assert isinstance(function(var("float32")), e.Call) and function(var("float32")).name == name


@pytest.mark.parametrize("name", ["floor", "ceil", "round", "trunc", "nearbyint"])
def test_rounding_leaves_integers_alone(name):
    x = var("int8")
    assert getattr(te, name)(x) is x and getattr(te, name)(var("float16")).dtype == "float16"


def test_classifying():
    assert [te.isnan(var("float16")).dtype, te.isinf(var("float64")).dtype, te.isfinite(var("float32")).dtype] == [
        "bool"
    ] * 3
    x = var("int32")
    assert [bool(te.isnan(x)), bool(te.isinf(x)), bool(te.isfinite(x))] == [False, False, True]


def test_functions_of_two_and_three():
    h, f, i = var("float16"), var("float32"), var("int32")
    assert [
        te.atan2(h, 2.0).dtype,
        te.atan2(h, f).dtype,
        te.hypot(i, i).dtype,
        te.copysign(2, h).dtype,
        te.fma(h, 2, 1.0).dtype,
        te.fma(h, f, i).dtype,
        te.pow(i, 0.5).dtype,
        te.power(h, h).dtype,
    ] == ["float16", "float32", "float32", "float16", "float16", "float32", "float32", "float16"]
    with pytest.raises(TypeError, match=r"te\.atan2 takes 2 arguments, got 1"):
        te.atan2(h)


def test_powers():
    x = te.var("x", "int64")
    assert [fold(x**n, {x: 3}) for n in (0, 1, 2, 5, 13)] == [1, 3, 9, 243, 3**13]
    assert sum(isinstance(node, e.Mul) for node in _nodes(x**1000)) < 20
    f = var("float32")
    assert isinstance(f**2, e.Mul) and (f**0.5).name == "pow" and (f**-1).name == "pow"


def _nodes(expr):
    from tilewright.ir.visit import post_order

    return list(post_order(expr))


@pytest.mark.parametrize("target", ["llvm", "c", "interpret", "cuda -emulate"])
def test_tf32_rounds_to_ten_bits_halves_away_from_zero(target: str):
    a = te.placeholder((9,), name="a")
    b = te.tf32(a)
    given = np.array(
        [1 + 2**-11, 1 + 2**-11 - 2**-23, -1 - 2**-11, 1 + 2**-10, -0.0, np.inf, 3.4028e38, np.nan, 1e-42], "float32"
    )
    given[7:8].view("uint32")[0] = 0x7F800001  # a NaN whose payload TF32 has not
    expected = np.array([1 + 2**-10, 1, -1 - 2**-10, 1 + 2**-10, -0.0, np.inf, np.inf, np.nan, 0], "float32")
    tw.build([a, b], target=target)(given, found := np.full(9, 77, "float32"))
    np.testing.assert_array_equal(found, expected)
    assert np.signbit(found[4]) and te.tf32(te.placeholder((2,), "float16")).dtype == "float32"


def test_bits():
    x, p = var("uint8"), var("bool")
    assert [
        te.popcount(x).dtype,
        te.clz(x).dtype,
        (x >> 2).dtype,
        (~x).dtype,
        (x ^ var("int32")).dtype,
        (p << 3).dtype,
    ] == ["uint8", "int32", "uint8", "uint8", "int32", "int32"]
    r = te.reinterpret("int32", var("float32"))
    assert (
        r.dtype == "int32" and r.name == "reinterpret" and te.reinterpret("float32", var("float32")).dtype == "float32"
    )
    assert te.reinterpret("uint16", te.placeholder((3,), "bfloat16")).dtype == "uint16"


def test_absolute_values():
    assert te.abs(te.const(-3)).value == 3 and te.abs(te.const(-128, "int8")).value == -128
    u = var("uint8")
    assert abs(u) is u and abs(var("int8")).dtype == "int8"


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (te.floordiv, -4),
        (te.floormod, 1),
        (te.truncdiv, -3),
        (te.truncmod, -1),
        (te.indexdiv, -4),
        (te.indexmod, 1),
        (te.ceildiv, -3),
        (te.fmod, -1),
        (te.power, 49),
    ],
)
def test_named_divisions(function, expected):
    assert int(function(te.const(-7), 2)) == expected and function(var("int32"), 2).dtype == "int32"


def test_division_of_floats():
    f = var("float32")
    assert isinstance(f / 2, e.Div) and isinstance(te.div(f, 2), e.Div) and isinstance(f // 2, e.FloorDiv)
    assert isinstance(te.fmod(f, 2.0), e.TruncMod) and (var("int32") / f).dtype == "float32"


def test_choice():
    i, f = var("int32"), var("float32")
    lazy, eager = te.if_then_else(i > 0, f, 0), te.select(i > 0, 1, f)
    assert isinstance(lazy, e.IfThenElse) and isinstance(eager, e.Select) and lazy.dtype == eager.dtype == "float32"
    assert te.if_then_else(True, f, 0) is f and te.select(te.const(False), f, i).dtype == "float32"
    assert isinstance(te.select(i, 1, 2).condition, e.NE), "an integer condition asks whether it is not 0"


def test_logic():
    i, j = var("int32"), var("int32")
    both = te.all(i > 0, j > 0, i < j)
    assert isinstance(both, e.And) and isinstance(te.any(i > 0, j > 0), e.Or) and isinstance(~(i > 0), e.Not)
    assert te.all() is ops.TRUE and te.any() is ops.FALSE and isinstance((i > 0) & (j > 0), e.And)
    positive = i > 0
    assert (
        te.likely(i < 3).name == "likely" and te.all(positive, True) is positive and te.any(positive, True) is ops.TRUE
    )


def test_casts_of_constants_saturate_and_wrap():
    assert [
        te.const(300).astype("uint8").value,
        te.const(-1).astype("uint8").value,
        te.const(3e9).astype("int32").value,
        te.const(math.nan).astype("int32").value,
        te.const(-2.7).astype("int32").value,
        te.const(0.5).astype("bool").value,
    ] == [44, 255, 2**31 - 1, 0, -2, 1]


def test_functions_of_whole_tensors():
    A, B = te.placeholder((2, 3), name="A"), te.placeholder((3,), name="B")
    made = [
        te.exp(A),
        te.sigmoid(B),
        te.atan2(A, B),
        te.select(A > 0, A, B),
        te.if_then_else(A > B, 1.0, B),
        te.pow(A, 2),
        te.floordiv(A, B),
        te.abs(A),
        te.isnan(A),
        te.max(A, B, 0.0),
    ]
    assert [(str(t.dtype), len(t.shape)) for t in made] == [
        ("float32", 2),
        ("float32", 1),
        ("float32", 2),
        ("float32", 2),
        ("float32", 2),
        ("float32", 2),
        ("float32", 2),
        ("float32", 2),
        ("bool", 2),
        ("float32", 2),
    ]
