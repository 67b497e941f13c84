"""Functions of mathematics, element by element, and what else is made of one operand.

Operands are tensors, numbers and scalar expressions, as in elementwise.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ir import Expr, ops
from ..te import polymorphic as te
from .elementwise import BOOL, NUMBERS, SAME, Operand, lift, unary_operator
from .references import erf as error_function
from .references import numbers
from .row import bools, integers, operator, positive, sample

__all__ = [
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "ceil",
    "ceil_log2",
    "cos",
    "cosh",
    "erf",
    "exp",
    "exp10",
    "exp2",
    "expm1",
    "floor",
    "identity",
    "isfinite",
    "isinf",
    "isnan",
    "log",
    "log10",
    "log1p",
    "log2",
    "nearbyint",
    "negative",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "tan",
    "tanh",
    "trunc",
]

_PARTS = positive(3, 5)


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _round(x: NDArray[Any]) -> Any:
    """Halves away from zero."""
    if x.dtype.kind in "iub":
        return x
    wide = x.astype(np.float64)
    # 0.5 rounded down: adding 0.5 itself would round 0.49999997 up
    return np.trunc(wide + np.copysign(np.nextafter(0.5, 0), wide))


identity = unary_operator("identity", "x itself, as a tensor of its own.", np.copy, ("g",), ops.convert, SAME, growth=1)
negative = unary_operator(
    "negative",
    "-x.",
    numbers(np.negative),
    ("-g",),
    lambda x: ops.negative(ops.convert(x)),
    SAME,
    growth=1,
    samples=(NUMBERS, bools(7)),
)
abs = unary_operator(
    "abs",
    # two's complement has no positive of its least number
    "|x| in its dtype; the least int8 and its like wrap to themselves.",
    np.abs,
    ("g * sign(a)",),
    ops.absolute,
    SAME,
    growth=1,
)
square = unary_operator("square", "x * x.", np.square, ("g * a * 2.0",), lambda x: ops.multiply(x, x), SAME)
exp = unary_operator("exp", "e ** x. An integer is converted to float32, here and below.", np.exp, ("g * y",))
exp2 = unary_operator("exp2", "2 ** x.", np.exp2)
exp10 = unary_operator("exp10", "10 ** x.", lambda x: np.power(10.0, x))
expm1 = unary_operator("expm1", "exp(x) - 1, exact near 0.", np.expm1, ("g * exp(a)",), samples=(_PARTS,))
log = unary_operator("log", "The natural logarithm.", np.log, ("g / a",), samples=(_PARTS,))
log2 = unary_operator("log2", "The logarithm to base 2.", np.log2, samples=(_PARTS,))
log10 = unary_operator("log10", "The logarithm to base 10.", np.log10, samples=(_PARTS,))
log1p = unary_operator("log1p", "log(1 + x), exact near 0.", np.log1p, ("g / (a + 1.0)",), samples=(_PARTS,))
sqrt = unary_operator("sqrt", "The square root.", np.sqrt, ("g * 0.5 / y",), samples=(_PARTS,))
rsqrt = unary_operator(
    "rsqrt", "1 / sqrt(x).", lambda x: 1 / np.sqrt(x), ("g * -0.5 * (y * y * y)",), samples=(_PARTS,)
)
erf = unary_operator(
    "erf", "The error function.", error_function, (f"g * exp(-(a * a)) * {2 / np.pi**0.5}",), growth=1.2
)
sigmoid = unary_operator(
    "sigmoid",
    "1 / (1 + exp(-x)).",
    _sigmoid,
    ("g * (y * (1.0 - y))",),
    growth=0.25,
    samples=(NUMBERS, integers(11, below=200, dtype="uint8")),
)
sin = unary_operator("sin", "The sine of x in radians.", np.sin, ("g * cos(a)",), growth=1)
cos = unary_operator("cos", "The cosine of x in radians.", np.cos, ("-(g * sin(a))",), growth=1)
tan = unary_operator("tan", "The tangent of x in radians.", np.tan, ("g * (y * y + 1.0)",), samples=(_PARTS,))
asin = unary_operator("asin", "The arc sine, in radians.", np.arcsin, ("g * rsqrt(1.0 - a * a)",), samples=(_PARTS,))
acos = unary_operator(
    "acos", "The arc cosine, in radians.", np.arccos, ("-(g * rsqrt(1.0 - a * a))",), samples=(_PARTS,)
)
atan = unary_operator("atan", "The arc tangent, in radians.", np.arctan, ("g / (a * a + 1.0)",), growth=1)
sinh = unary_operator("sinh", "The hyperbolic sine.", np.sinh, ("g * cosh(a)",))
cosh = unary_operator("cosh", "The hyperbolic cosine.", np.cosh, ("g * sinh(a)",))
tanh = unary_operator("tanh", "The hyperbolic tangent.", np.tanh, ("g * (1.0 - y * y)",), growth=1)
asinh = unary_operator(
    "asinh", "The inverse hyperbolic sine.", np.arcsinh, ("g * rsqrt(a * a + 1.0)",), samples=(_PARTS,)
)
acosh = unary_operator(
    "acosh",
    "The inverse hyperbolic cosine.",
    np.arccosh,
    ("g * rsqrt(a * a - 1.0)",),
    samples=(np.linspace(1, 9, 15, dtype="float32").reshape(3, 5),),
)
atanh = unary_operator(
    "atanh", "The inverse hyperbolic tangent.", np.arctanh, ("g / (1.0 - a * a)",), samples=(_PARTS,)
)
floor = unary_operator(
    "floor",
    "The greatest whole number not above x; an integer is returned as it is.",
    np.floor,
    (None,),
    dtype=SAME,
)
ceil = unary_operator(
    "ceil", "The least whole number not below x; an integer is returned as it is.", np.ceil, (None,), dtype=SAME
)
round = unary_operator(
    "round",
    "The nearest whole number, halves away from zero, as TVM's and C's round; numpy's is nearbyint.",
    _round,
    (None,),
    dtype=SAME,
)
trunc = unary_operator(
    "trunc", "x without its fraction; an integer is returned as it is.", np.trunc, (None,), dtype=SAME
)
nearbyint = unary_operator(
    "nearbyint", "The nearest whole number, halves to even, as numpy's round.", np.rint, (None,), dtype=SAME
)
isnan = unary_operator("isnan", "Whether x is a NaN, as bool.", np.isnan, dtype=BOOL)
isinf = unary_operator("isinf", "Whether x is infinite, as bool.", np.isinf, dtype=BOOL)
isfinite = unary_operator("isfinite", "Whether x is neither a NaN nor infinite, as bool.", np.isfinite, dtype=BOOL)


@operator(
    "sign",
    reference=numbers(np.sign),
    fusion="elementwise",
    derivative=(None,),
    samples=[sample(NUMBERS)],
)
def sign(x: Operand) -> Any:
    """-1, 0 or 1 in the shape and the dtype of x, after its sign; a NaN of a NaN. Raises NotAnExpression (TW0106)."""
    return lift("sign", _sign, x)


def _sign(x: Any) -> Expr:
    value = ops.convert(x)
    one, zero = ops.const(1, value.dtype), ops.const(0, value.dtype)
    rest = value * 0 + 0.0 if value.dtype.is_float else zero  # a NaN, or 0 without its sign and without a derivative
    below = te.select(value < 0, ops.const(-1, value.dtype), rest) if value.dtype.is_signed else rest
    return te.select(value > 0, one, below)


def _numpy_ceil_log2(x: NDArray[Any]) -> Any:
    if x.dtype.kind not in "iu":
        return np.ceil(np.log2(x.astype(np.float64)))
    # element by element: integers of 64 bits have no exact log2 in floats
    return np.vectorize(_width, otypes=[x.dtype])(x)


def _width(value: Any) -> int:
    return (int(value) - 1).bit_length()


@operator(
    "ceil_log2",
    reference=_numpy_ceil_log2,
    fusion="elementwise",
    derivative=(None,),
    samples=[sample(_PARTS), sample(np.asarray([1, 2, 3, 4, 5, 2**40, 2**40 + 1]))],
)
def ceil_log2(x: Operand) -> Any:
    """The least integer n for which 2 ** n is not below x, in the shape and the dtype of x: of an integer from 1 on exact, of a
    float ceil(log2(x)). Raises NotAnExpression (TW0106)."""

    def element(value: Any) -> Any:
        value = ops.convert(value)
        if value.dtype.is_float:
            return te.ceil(te.log2(value))
        return (te.const(value.dtype.bits, "int32") - te.clz(value - 1)).astype(value.dtype)  # the width of x - 1

    return lift("ceil_log2", element, x)
