"""Functions of elements: mathematics, division, choice, logic, constants. All also take whole tensors.

On CPUs the functions of float32 and float64 (exp to hypot below) are vector code that errs by at most 2 units in the last place
(of float32 by 16 in a build with fast_math), infinities, NaN, subnormal and huge arguments included.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

from ..base.errors import user_source
from ..ir import DType, Expr, FloatImm, ops
from ..ir.errors import LiteralOutOfRange
from ..ir.intrinsics import INTRINSICS
from .elementwise import lift
from .errors import BadReinterpret

__all__ = [
    "abs",
    "acos",
    "acosh",
    "all",
    "any",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "ceil",
    "ceildiv",
    "clz",
    "const",
    "copysign",
    "cos",
    "cosh",
    "div",
    "erf",
    "exp",
    "exp10",
    "exp2",
    "expm1",
    "floor",
    "floordiv",
    "floormod",
    "fma",
    "fmod",
    "hypot",
    "if_then_else",
    "indexdiv",
    "indexmod",
    "infinity",
    "isfinite",
    "isinf",
    "isnan",
    "likely",
    "log",
    "log10",
    "log1p",
    "log2",
    "max_value",
    "min_value",
    "nearbyint",
    "popcount",
    "pow",
    "power",
    "reinterpret",
    "round",
    "rsqrt",
    "select",
    "sigmoid",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
    "truncdiv",
    "truncmod",
]


def _intrinsic(name: str, meaning: str) -> Callable[..., Any]:
    """The function that calls the intrinsic `name`, whose row says which types it takes and gives."""

    def function(*operands: Any) -> Any:
        row = INTRINSICS[name]
        if len(operands) != row.arity:
            raise TypeError(f"te.{name} takes {row.arity} argument{'s' if row.arity > 1 else ''}, got {len(operands)}")
        return ops.call(name, *operands)

    function.__name__ = function.__qualname__ = name
    function.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(each, inspect.Parameter.POSITIONAL_ONLY, annotation="Any")
            for each in "xyz"[: INTRINSICS[name].arity]
        ],
        return_annotation="Any",
    )
    function.__doc__ = f"""{meaning}

    Of scalars (numbers or expressions) the result is an expression, of tensors a tensor in the shape to which they broadcast; of
    float operands it has their dtype unless another is named. Raises NotAnExpression (TW0106), ShapesDoNotBroadcast (TW0121),
    MixedTypes (TW0104), and TypeError for another number of operands than {INTRINSICS[name].arity}.
    """
    return lift(function)


exp = _intrinsic("exp", "e ** x. An integer is converted to float32, here and below.")
exp2 = _intrinsic("exp2", "2 ** x.")
exp10 = _intrinsic("exp10", "10 ** x.")
log = _intrinsic("log", "The natural logarithm.")
log2 = _intrinsic("log2", "The logarithm to base 2.")
log10 = _intrinsic("log10", "The logarithm to base 10.")
log1p = _intrinsic("log1p", "log(1 + x), exact near 0.")
expm1 = _intrinsic("expm1", "exp(x) - 1, exact near 0.")
sqrt = _intrinsic("sqrt", "The square root.")
rsqrt = _intrinsic("rsqrt", "1 / sqrt(x).")
sin = _intrinsic("sin", "The sine of x in radians.")
cos = _intrinsic("cos", "The cosine of x in radians.")
tan = _intrinsic("tan", "The tangent of x in radians.")
sinh = _intrinsic("sinh", "The hyperbolic sine.")
cosh = _intrinsic("cosh", "The hyperbolic cosine.")
tanh = _intrinsic("tanh", "The hyperbolic tangent.")
asin = _intrinsic("asin", "The arc sine, in radians.")
acos = _intrinsic("acos", "The arc cosine, in radians.")
atan = _intrinsic("atan", "The arc tangent, in radians.")
asinh = _intrinsic("asinh", "The inverse hyperbolic sine.")
acosh = _intrinsic("acosh", "The inverse hyperbolic cosine.")
atanh = _intrinsic("atanh", "The inverse hyperbolic tangent.")
atan2 = _intrinsic("atan2", "The angle of the point (y, x) = operands, in radians.")
hypot = _intrinsic("hypot", "sqrt(a * a + b * b) without overflow on the way.")
copysign = _intrinsic("copysign", "The magnitude of the first with the sign of the second.")
fma = _intrinsic("fma", "a * b + c, rounded once.")
erf = _intrinsic("erf", "The error function.")
sigmoid = _intrinsic("sigmoid", "1 / (1 + exp(-x)).")
floor = _intrinsic("floor", "The greatest whole number not above x; an integer is returned as it is.")
ceil = _intrinsic("ceil", "The least whole number not below x; an integer is returned as it is.")
round = _intrinsic("round", "The nearest whole number, halves away from zero (C's round); an integer as it is.")
trunc = _intrinsic("trunc", "x without its fraction; an integer is returned as it is.")
nearbyint = _intrinsic("nearbyint", "The nearest whole number, halves to even (numpy's round); an integer as it is.")
isnan = _intrinsic("isnan", "Whether x is a NaN, as bool.")
isfinite = _intrinsic("isfinite", "Whether x is neither a NaN nor infinite, as bool.")
isinf = _intrinsic("isinf", "Whether x is infinite, as bool.")
popcount = _intrinsic("popcount", "The number of bits that are set, in the dtype of x.")
clz = _intrinsic("clz", "The number of leading zero bits, as int32 (the width where x is 0).")


@lift
def abs(x: Any) -> Any:
    """|x|, in its shape and dtype; the least int8 and its like wrap to themselves. Raises NotAnExpression (TW0106)."""
    return ops.absolute(x)


@lift
def power(x: Any, y: Any) -> Any:
    """x ** y, in the shape to which they broadcast. Integers take a constant exponent from 0 to 1024; everything else is computed in
    floats. Raises MixedTypes (TW0104), NotAnExpression (TW0106), ShapesDoNotBroadcast (TW0121)."""
    return ops.power(x, y)


pow = power


@lift
def fmod(x: Any, y: Any) -> Any:
    """C's remainder, with the sign of x, in the shape to which both broadcast. Raises NotAnExpression (TW0106),
    ShapesDoNotBroadcast (TW0121)."""
    return ops.truncmod(x, y)


@lift
def floordiv(a: Any, b: Any) -> Any:
    """a // b as Python's: rounded towards minus infinity; x // 0 = 0 for integers. Tensors broadcast; the result has the dtype
    that the two meet in. Raises NotAnExpression (TW0106), ShapesDoNotBroadcast (TW0121)."""
    return ops.floordiv(a, b)


@lift
def floormod(a: Any, b: Any) -> Any:
    """a % b as Python's, with the sign of b; x % 0 = 0 for integers. Tensors broadcast; the result has the dtype that the two
    meet in. Raises NotAnExpression (TW0106), ShapesDoNotBroadcast (TW0121)."""
    return ops.floormod(a, b)


@lift
def truncdiv(a: Any, b: Any) -> Any:
    """a / b as C's on integers: rounded towards zero. Tensors broadcast; the result has the dtype that the two meet in. Raises
    NotAnExpression (TW0106), ShapesDoNotBroadcast (TW0121)."""
    return ops.truncdiv(a, b)


@lift
def truncmod(a: Any, b: Any) -> Any:
    """C's % on integers: with the sign of a. Tensors broadcast; the result has the dtype that the two meet in. Raises
    NotAnExpression (TW0106), ShapesDoNotBroadcast (TW0121)."""
    return ops.truncmod(a, b)


@lift
def indexdiv(a: Any, b: Any) -> Any:
    """The quotient of indices, neither of which is negative: floordiv. Tensors broadcast; the result has the dtype that the two
    meet in. Raises NotAnExpression (TW0106), ShapesDoNotBroadcast (TW0121)."""
    return ops.floordiv(a, b)


@lift
def indexmod(a: Any, b: Any) -> Any:
    """The remainder of indices, neither of which is negative: floormod. Tensors broadcast; the result has the dtype that the
    two meet in. Raises NotAnExpression (TW0106), ShapesDoNotBroadcast (TW0121)."""
    return ops.floormod(a, b)


@lift
def ceildiv(a: Any, b: Any) -> Any:
    """a / b rounded up, whatever the signs; x / 0 is 0 for integers. Tensors broadcast; the result has the dtype that the two meet
    in. Raises NotAnExpression (TW0106), ShapesDoNotBroadcast (TW0121)."""
    return ops.ceildiv(a, b)


@lift
def div(a: Any, b: Any) -> Any:
    """a / b: of floats the quotient. Tensors broadcast. Raises AmbiguousDivision (TW0103) of two integers, as `/` does,
    NotAnExpression (TW0106), ShapesDoNotBroadcast (TW0121)."""
    return ops.divide(a, b)


@lift
def if_then_else(condition: Any, true_value: Any, false_value: Any) -> Any:
    """One of two values; only the chosen one is evaluated, so the other may read out of range (padding).

    Parameters
    ----------
    condition : Expr, Tensor or bool
        Chooses.
    true_value : Expr, Tensor or number
        The value where it holds.
    false_value : Expr, Tensor or number
        The value where it does not.

    Returns
    -------
    Expr or Tensor
        Of the dtype that the two values meet in. Tensors broadcast.

    Raises
    ------
    NotAnExpression (TW0106)
        An operand is neither an expression nor a number.
    ShapesDoNotBroadcast (TW0121)
        Tensors do not broadcast.
    """
    return ops.if_then_else(condition, true_value, false_value)


@lift
def select(condition: Any, true_value: Any, false_value: Any) -> Any:
    """One of two values; both may be evaluated, which vectorizes best.

    Parameters
    ----------
    condition : Expr, Tensor or bool
        Chooses.
    true_value : Expr, Tensor or number
        The value where it holds.
    false_value : Expr, Tensor or number
        The value where it does not.

    Returns
    -------
    Expr or Tensor
        Of the dtype that the two values meet in. Tensors broadcast.

    Raises
    ------
    NotAnExpression (TW0106)
        An operand is neither an expression nor a number.
    ShapesDoNotBroadcast (TW0121)
        Tensors do not broadcast.
    """
    return ops.select(condition, true_value, false_value)


@lift
def all(*conditions: Any) -> Any:
    """Return whether every condition holds (true for none), as bool. Tensors broadcast. Raises NotAnExpression (TW0106),
    ShapesDoNotBroadcast (TW0121)."""
    return ops.conjunction(*conditions)


@lift
def any(*conditions: Any) -> Any:
    """Return whether some condition holds (false for none), as bool. Tensors broadcast. Raises NotAnExpression (TW0106),
    ShapesDoNotBroadcast (TW0121)."""
    return ops.disjunction(*conditions)


@lift
def likely(condition: Any) -> Any:
    """The condition, known to hold nearly always: loop partitioning peels the iterations where it may not. Raises
    NotAnExpression (TW0106)."""
    return ops.likely(condition)


def const(value: Any, dtype: object = None) -> Expr:
    """A constant. Without a dtype: bool, int32 (int64 where needed) or float32 after a Python number; a numpy scalar
    keeps its own. Raises NotAnExpression (TW0106), UnknownDType (TW0101), LiteralOutOfRange (TW0105)."""
    return ops.const(value, dtype)


_GREATEST_FLOAT = {
    "float8_e4m3fn": 448.0,
    "float8_e5m2": 57344.0,
    "float16": 65504.0,
    "bfloat16": (2 - 2**-7) * 2.0**127,
    "float32": (2 - 2**-23) * 2.0**127,
    "float64": (2 - 2**-52) * 2.0**1023,
}


def min_value(dtype: object) -> Expr:
    """The least finite value of `dtype`, as a constant of it. Raises UnknownDType (TW0101)."""
    kind = DType(dtype)
    return ops.const(-_GREATEST_FLOAT[kind] if kind.is_float else kind.least, kind)


def max_value(dtype: object) -> Expr:
    """The greatest finite value of `dtype`, as a constant of it. Raises UnknownDType (TW0101)."""
    kind = DType(dtype)
    return ops.const(_GREATEST_FLOAT[kind] if kind.is_float else kind.greatest, kind)


def infinity(dtype: object) -> Expr:
    """Infinity, as a constant of a float dtype. Raises LiteralOutOfRange (TW0105) for others, and for float8_e4m3fn, which has none;
    UnknownDType (TW0101)."""
    value = ops.const(math.inf, DType(dtype))
    if isinstance(value, FloatImm) and math.isnan(value.value):
        raise LiteralOutOfRange(
            f"{dtype} has no infinity",
            called=user_source(),
            fix=f'take te.max_value("{dtype}"), or compute in another type: x.astype("float16")',
        )
    return value


def lowest(dtype: object) -> Expr:
    """The value that no other of `dtype` is below: minus infinity where there is one."""
    kind = DType(dtype)
    return ops.const(-math.inf, kind) if kind.is_float and kind.kind != "float8_e4m3fn" else min_value(kind)


def highest(dtype: object) -> Expr:
    """The value that no other of `dtype` is above: infinity where there is one."""
    kind = DType(dtype)
    return ops.const(math.inf, kind) if kind.is_float and kind.kind != "float8_e4m3fn" else max_value(kind)


def reinterpret(dtype: object, value: Any) -> Any:
    """The bits of `value`, a scalar or a tensor, read as `dtype`, which has the same width. Raises BadReinterpret (TW0126),
    UnknownDType (TW0101)."""
    target = DType(dtype)
    return lift(_reinterpret_bits)(value, dtype=target)


def _reinterpret_bits(value: Any, dtype: DType) -> Expr:
    expr = ops.convert(value)
    if expr.dtype == dtype:
        return expr
    if expr.dtype.bits != dtype.bits or expr.dtype.lanes != dtype.lanes or "bool" in (expr.dtype.kind, dtype.kind):
        raise BadReinterpret(
            f"cannot read the bits of {expr.dtype} as {dtype}",
            called=user_source(),
            reason=f"`{expr}` has {expr.dtype.bits} bits, {dtype} {dtype.bits}",
            fix="x.astype(...) converts the value; te.reinterpret(dtype, x) needs equal widths",
        )
    return ops.call("reinterpret", expr, dtype=dtype)
