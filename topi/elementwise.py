"""Operators element by element, with numpy's broadcasting: arithmetic, comparisons, logic, bits, mathematics.

Operands are tensors and numbers (or scalar expressions); of numbers alone the result is an expression. Types mix as they do
between elements (te): int8 with int8 wraps in int8, an integer with a float gives the float, nothing becomes float64 by
itself. Each makes one te.compute, tagged "elemwise" where shapes are the same and "broadcast" otherwise.

Errors of float32 mathematics are those of the intrinsics (te.exp and so on); arithmetic is IEEE's.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any

from ..errors import user_source
from ..ir import ops
from ..ir.dtype import FLOAT32, DType
from ..ir.expr import EQ, GE, GT, LE, LT, NE, CompareOp, Expr, IntImm
from ..ir.ops import constant_of
from ..te import either as te
from ..te.elementwise import operate
from ..te.shape import same_extent, scalar_dtype, shape_text
from ..te.tensor import Tensor, tensor_text
from .checks import shape_of, tensor, tensors
from .errors import BadOperand, BadParameter
from .signatures import Number

__all__ = [
    "abs",
    "acos",
    "acosh",
    "add",
    "arange",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "broadcast_to",
    "cast",
    "ceil",
    "ceil_log2",
    "clip",
    "cos",
    "cosh",
    "divide",
    "elemwise_sum",
    "equal",
    "erf",
    "exp",
    "exp10",
    "exp2",
    "expm1",
    "floor",
    "floor_divide",
    "floor_mod",
    "full",
    "full_like",
    "greater",
    "greater_equal",
    "hypot",
    "identity",
    "isfinite",
    "isinf",
    "isnan",
    "left_shift",
    "less",
    "less_equal",
    "log",
    "log10",
    "log1p",
    "log2",
    "log_add_exp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "mod",
    "multiply",
    "nearbyint",
    "negative",
    "not_equal",
    "ones",
    "ones_like",
    "power",
    "reinterpret",
    "right_shift",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "trunc",
    "trunc_divide",
    "trunc_mod",
    "where",
    "zeros",
    "zeros_like",
]

Operand = Any
"""A tensor, or a number or scalar expression."""


def _lifted(name: str, function: Callable[..., Any], *operands: Operand) -> Any:
    """`function` of the elements, under the name that the operation has."""
    for operand in operands:
        if isinstance(operand, str):  # an expression as well, but of no operator
            tensor(operand, f"topi.{name}")
    if any(isinstance(operand, Tensor) for operand in operands):
        return operate(name, function, *operands)
    return function(*operands)


_SAME = "and its dtype"
_FLOAT = "and its dtype where that is a float, else float32"
_BOOL = "and the dtype bool"


def _unary(
    name: str,
    meaning: str,
    function: Callable[[Any], Any] | None = None,
    dtype: str = _FLOAT,
) -> Callable[[Operand], Any]:
    """The operator of one operand. dtype: what its documentation says of the result's."""
    apply = function or getattr(te, name)

    def operator(x: Operand) -> Any:
        return _lifted(name, apply, x)

    operator.__name__ = operator.__qualname__ = name
    operator.__doc__ = f"""{meaning}

    x: a tensor of any shape, or a number or an expression, of which the result is an expression. The result has the shape of x,
    {dtype}. Raises NotAnExpression (TW0106){", MixedTypes (TW0104)" if name == "bitwise_not" else ""}.
    """
    return operator


_MIXED = "and the dtype that te's rules give to the two together"


def _binary(
    name: str,
    meaning: str,
    function: Callable[[Any, Any], Any],
    dtype: str = _MIXED,
    errors: str = "",
) -> Callable[[Operand, Operand], Any]:
    """The operator of two operands. dtype: what its documentation says of the result's; errors: those that others have not."""

    def operator(lhs: Operand, rhs: Operand) -> Any:
        return _lifted(name, function, lhs, rhs)

    operator.__name__ = operator.__qualname__ = name
    operator.__doc__ = _documented(meaning, dtype, errors)
    return operator


def _documented(meaning: str, dtype: str, errors: str) -> str:
    """The documentation of an operator of two operands."""
    return f"""{meaning}

    lhs, rhs: tensors, whose shapes broadcast as numpy's do, numbers or expressions. The result has the broadcast shape,
    {dtype}; it is an expression where neither is a tensor.
    Raises ShapesDoNotBroadcast (TW0121), NotAnExpression (TW0106){errors}.
    """


def _comparison(name: str, symbol: str, kind: type[CompareOp]) -> Callable[[Operand, Operand], Any]:
    return _binary(name, f"Whether lhs {symbol} rhs, as bool.", lambda a, b: ops.compare(kind, a, b), _BOOL)


def _bits(
    name: str, meaning: str, function: Callable[[Any, Any], Any] | None = None
) -> Callable[[Operand, Operand], Any]:
    apply = function or functools.partial(ops.bitwise, name)

    def operator(lhs: Operand, rhs: Operand) -> Any:
        if isinstance(lhs, Tensor) or isinstance(rhs, Tensor):
            return operate(name, apply, lhs, rhs)
        return apply(lhs, rhs)

    operator.__name__ = operator.__qualname__ = name
    operator.__doc__ = _documented(meaning, _MIXED, ", MixedTypes (TW0104)")
    return operator


def _shift(kind: str, a: Any, b: Any) -> Any:
    """A shift by any number: beyond the width nothing is left but, to the right, the sign."""
    x, by = ops.match_types(a, b)
    if not x.dtype.is_integer or (isinstance(by, IntImm) and 0 <= by.value < x.dtype.bits):
        return ops.bitwise(kind, a, b)
    within = te.all(by >= 0, by < x.dtype.bits)
    if kind == "shift_right" and x.dtype.is_signed:
        return ops.bitwise(kind, x, te.select(within, by, x.dtype.bits - 1))
    return te.select(within, ops.bitwise(kind, x, te.select(within, by, 0)), ops.const(0, x.dtype))


# Arithmetic

add = _binary("add", "lhs + rhs.", ops.add)
subtract = _binary("subtract", "lhs - rhs.", ops.subtract)
multiply = _binary("multiply", "lhs * rhs.", ops.multiply)
divide = _binary(
    "divide",
    "lhs / rhs of floats. Two integers are refused, as by `/`: floor_divide and trunc_divide say "
    "which quotient is meant.",
    ops.divide,
    errors=", AmbiguousDivision (TW0103)",
)
floor_divide = _binary(
    "floor_divide",
    "The quotient rounded towards minus infinity, as Python's and numpy's (1.0 // 0.1 is 9); of integers x // 0 = 0.",
    ops.floordiv,
)
floor_mod = _binary(
    "floor_mod", "The remainder with the sign of rhs, as Python's and numpy's; of integers x % 0 = 0.", ops.floormod
)
trunc_divide = _binary(
    "trunc_divide",
    "The quotient rounded towards zero: of floats trunc(lhs / rhs), in float32 at least; of integers C's, x / 0 = 0.",
    lambda a, b: _trunc_divide(a, b),
)
trunc_mod = _binary("trunc_mod", "The remainder with the sign of lhs, as C's and numpy's fmod.", ops.truncmod)
mod = _binary(
    "mod",
    "The remainder with the sign of lhs, as TVM has it under this name: trunc_mod. numpy's mod is floor_mod.",
    ops.truncmod,
)
maximum = _binary("maximum", "The greater one; a NaN where either is a NaN.", ops.maximum)
minimum = _binary("minimum", "The lesser one; a NaN where either is a NaN.", ops.minimum)
power = _binary(
    "power",
    "lhs ** rhs. Integers take a constant exponent from 0 to 1024, all else is computed in floats.",
    ops.power,
    errors=", MixedTypes (TW0104)",
)
hypot = _binary("hypot", "sqrt(lhs ** 2 + rhs ** 2), without overflow on the way.", te.hypot)
atan2 = _binary("atan2", "The angle of the point (rhs, lhs), in radians.", te.atan2)
log_add_exp = _binary(
    "log_add_exp", "log(exp(lhs) + exp(rhs)), without overflow on the way.", lambda a, b: _log_add_exp(a, b)
)


def _trunc_divide(a: Any, b: Any) -> Any:
    x, y = ops.match_types(a, b)
    if not x.dtype.is_float:
        return ops.truncdiv(x, y)
    wide = x.dtype if x.dtype.bits > 16 else FLOAT32.with_lanes(x.dtype.lanes)
    return ops.cast(te.trunc(ops.cast(x, wide) / ops.cast(y, wide)), x.dtype)


def _log_add_exp(a: Any, b: Any) -> Any:
    x, y = ops.match_types(a, b)
    if not x.dtype.is_float:  # the difference of two int8 is no int8
        x, y = ops.cast(x, FLOAT32.with_lanes(x.dtype.lanes)), ops.cast(y, FLOAT32.with_lanes(x.dtype.lanes))
    if ops.is_const(y):
        x, y = y, x  # max(x, 0) would be flat where they are equal
    high = te.max(x, y)
    near = te.min(y - x, x - y)  # where they are equal, max follows x and this y - x: half of it for each
    same = te.all(x == y, te.isinf(x))  # infinities of one sign, whose difference is no number
    return te.select(same, high, high + te.log1p(te.exp(near)))


# Comparisons and logic

equal = _comparison("equal", "==", EQ)
not_equal = _comparison("not_equal", "!=", NE)
less = _comparison("less", "<", LT)
less_equal = _comparison("less_equal", "<=", LE)
greater = _comparison("greater", ">", GT)
greater_equal = _comparison("greater_equal", ">=", GE)


def _truth(x: Any) -> Expr:
    value = ops.convert(x)
    return value if value.dtype.is_bool else ops.compare(NE, value, 0)


logical_and = _binary(
    "logical_and",
    "Whether both hold, as bool; a number holds where it is not 0.",
    lambda a, b: te.all(_truth(a), _truth(b)),
    _BOOL,
)
logical_or = _binary(
    "logical_or",
    "Whether at least one holds, as bool; a number holds where it is not 0.",
    lambda a, b: te.any(_truth(a), _truth(b)),
    _BOOL,
)
logical_xor = _binary(
    "logical_xor",
    "Whether exactly one holds, as bool; a number holds where it is not 0.",
    lambda a, b: ops.compare(NE, _truth(a), _truth(b)),
    _BOOL,
)
logical_not = _unary(
    "logical_not",
    "Whether x does not hold, as bool; a number holds where it is not 0.",
    lambda x: ops.logical_not(_truth(x)),
    _BOOL,
)

# Bits

bitwise_and = _bits("bitwise_and", "lhs & rhs of integers, or of bools.")
bitwise_or = _bits("bitwise_or", "lhs | rhs of integers, or of bools.")
bitwise_xor = _bits("bitwise_xor", "lhs ^ rhs of integers, or of bools.")
left_shift = _bits(
    "left_shift",
    "lhs << rhs of integers; bits that leave on the left are lost, all of them where rhs is below 0 or the width or more.",
    functools.partial(_shift, "shift_left"),
)
right_shift = _bits(
    "right_shift",
    "lhs >> rhs of integers; the sign stays, and alone where rhs is below 0 or the width or more.",
    functools.partial(_shift, "shift_right"),
)
bitwise_not = _unary("bitwise_not", "~x of an integer, or of a bool.", ops.invert, _SAME)

# Mathematics

identity = _unary("identity", "x itself, as a tensor of its own.", ops.convert, _SAME)
negative = _unary("negative", "-x.", lambda x: ops.negative(ops.convert(x)), _SAME)
abs = _unary("abs", "|x| in its dtype; the least int8 and its like wrap to themselves.", ops.absolute, _SAME)
square = _unary("square", "x * x.", lambda x: ops.multiply(x, x), _SAME)
exp = _unary("exp", "e ** x. An integer is converted to float32, here and below.")
exp2 = _unary("exp2", "2 ** x.")
exp10 = _unary("exp10", "10 ** x.")
expm1 = _unary("expm1", "exp(x) - 1, exact near 0.")
log = _unary("log", "The natural logarithm.")
log2 = _unary("log2", "The logarithm to base 2.")
log10 = _unary("log10", "The logarithm to base 10.")
log1p = _unary("log1p", "log(1 + x), exact near 0.")
sqrt = _unary("sqrt", "The square root.")
rsqrt = _unary("rsqrt", "1 / sqrt(x).")
erf = _unary("erf", "The error function.")
sigmoid = _unary("sigmoid", "1 / (1 + exp(-x)).")
sin = _unary("sin", "The sine of x in radians.")
cos = _unary("cos", "The cosine of x in radians.")
tan = _unary("tan", "The tangent of x in radians.")
asin = _unary("asin", "The arc sine, in radians.")
acos = _unary("acos", "The arc cosine, in radians.")
atan = _unary("atan", "The arc tangent, in radians.")
sinh = _unary("sinh", "The hyperbolic sine.")
cosh = _unary("cosh", "The hyperbolic cosine.")
tanh = _unary("tanh", "The hyperbolic tangent.")
asinh = _unary("asinh", "The inverse hyperbolic sine.")
acosh = _unary("acosh", "The inverse hyperbolic cosine.")
atanh = _unary("atanh", "The inverse hyperbolic tangent.")
floor = _unary("floor", "The greatest whole number not above x; an integer is returned as it is.", dtype=_SAME)
ceil = _unary("ceil", "The least whole number not below x; an integer is returned as it is.", dtype=_SAME)
round = _unary(
    "round",
    "The nearest whole number, halves away from zero, as TVM's and C's round; numpy's is nearbyint.",
    dtype=_SAME,
)
trunc = _unary("trunc", "x without its fraction; an integer is returned as it is.", dtype=_SAME)
nearbyint = _unary("nearbyint", "The nearest whole number, halves to even, as numpy's round.", dtype=_SAME)
isnan = _unary("isnan", "Whether x is a NaN, as bool.", dtype=_BOOL)
isinf = _unary("isinf", "Whether x is infinite, as bool.", dtype=_BOOL)
isfinite = _unary("isfinite", "Whether x is neither a NaN nor infinite, as bool.", dtype=_BOOL)


def sign(x: Operand) -> Any:
    """-1, 0 or 1 in the shape and the dtype of x, after its sign; a NaN of a NaN. Raises NotAnExpression (TW0106)."""
    return _lifted("sign", _sign, x)


def _sign(x: Any) -> Expr:
    value = ops.convert(x)
    one, zero = ops.const(1, value.dtype), ops.const(0, value.dtype)
    rest = value * 0 + 0.0 if value.dtype.is_float else zero  # a NaN, or 0 without its sign and without a derivative
    below = te.select(value < 0, ops.const(-1, value.dtype), rest) if value.dtype.is_signed else rest
    return te.select(value > 0, one, below)


def ceil_log2(x: Operand) -> Any:
    """The least integer n for which 2 ** n is not below x, in the shape and the dtype of x: of an integer from 1 on exact, of a
    float ceil(log2(x)). Raises NotAnExpression (TW0106)."""

    def element(value: Any) -> Any:
        value = ops.convert(value)
        if value.dtype.is_float:
            return te.ceil(te.log2(value))
        return (te.const(value.dtype.bits, "int32") - te.clz(value - 1)).astype(value.dtype)

    return _lifted("ceil_log2", element, x)


def clip(x: Operand, a_min: Any, a_max: Any) -> Any:
    """min(max(x, a_min), a_max) in the shape and the dtype of x; a NaN stays a NaN. a_min, a_max: numbers or expressions; a bound
    that an integer dtype does not hold is its end. Raises NotAnExpression (TW0106)."""

    def element(value: Any) -> Any:
        value = ops.convert(value)
        low, high = _bound(ops.convert(a_min), value.dtype), _bound(ops.convert(a_max), value.dtype)
        if not (ops.is_const(low) and ops.is_const(high) and low.value <= high.value):
            low = te.min(low, high)
        return te.max(te.min(value, high), low)

    return _lifted("clip", element, x)


def _bound(bound: Expr, dtype: DType) -> Any:
    """A bound in `dtype`, of integers and bools the nearest that it holds."""
    if dtype.is_bool:
        return ops.compare(GE, bound, 1)
    if bound.dtype.is_integer and dtype.is_integer:
        least, greatest = max(dtype.least, bound.dtype.least), min(dtype.greatest, bound.dtype.greatest)
        bound = ops.maximum(ops.minimum(bound, ops.const(greatest, bound.dtype)), ops.const(least, bound.dtype))
    return ops.cast(bound, dtype)


def cast(x: Operand, dtype: object) -> Any:
    """x converted to `dtype`, in its shape: to integers towards zero, to bool whether it is not 0. Raises UnknownDType (TW0101),
    NotAnExpression (TW0106)."""
    target = scalar_dtype(dtype)

    def element(value: Any) -> Expr:
        return ops.cast(ops.convert(value), target)

    return _lifted("cast", element, x)


def reinterpret(x: Operand, dtype: object) -> Any:
    """The bits of x read as `dtype`, which has the same width, in the shape of x. Raises BadReinterpret (TW0126), UnknownDType
    (TW0101)."""
    return te.reinterpret(dtype, x)


def where(condition: Operand, x: Operand, y: Operand) -> Any:
    """x where the condition holds (a bool, or a number that is not 0), y elsewhere.

    All three are tensors, whose shapes broadcast as numpy's do, numbers or expressions; the result has the broadcast shape, and the
    dtype that te's rules give to x and y together. Raises ShapesDoNotBroadcast (TW0121), NotAnExpression (TW0106).
    """

    def element(chosen: Any, a: Any, b: Any) -> Any:
        a, b = ops.match_types(a, b)
        return te.select(_truth(chosen), a, b)

    return _lifted("where", element, condition, x, y)


def elemwise_sum(xs: Sequence[Tensor]) -> Tensor:
    """The sum of tensors of one shape, added up in order, in that shape. Raises BadParameter (TW0182) for none, BadOperand (TW0181)
    where shapes differ."""
    summands = tensors(xs, "elemwise_sum")
    if not summands:
        raise BadParameter("elemwise_sum has nothing to add", called=user_source(), fix="pass at least one tensor")
    first = summands[0]
    for other in summands[1:]:
        tensor(other, "elemwise_sum", first.ndim)
        if not all(map(same_extent, first.shape, other.shape)):
            raise BadOperand(
                f"elemwise_sum takes tensors of one shape: {shape_text(first.shape)} and {shape_text(other.shape)} differ",
                reason=f"got {tensor_text(first)} and {tensor_text(other)}",
                declared=other.source,
                called=user_source(),
                fix="topi.add broadcasts",
            )

    def element(*values: Any) -> Any:
        total = values[0]
        for value in values[1:]:
            total = total + value
        return total

    return _lifted("elemwise_sum", element, *xs)


# Making tensors


def _filled(shape: Any, dtype: object, value: Any, name: str) -> Tensor:
    kind = scalar_dtype(dtype)
    element = ops.cast(ops.convert(value), kind)
    filled: Tensor = te.compute(shape_of(shape, name), lambda *_: element, name=name, tag="elemwise")
    return filled


def full(shape: Any, dtype: object, fill_value: Any) -> Tensor:
    """A tensor of `shape` (one extent or several) filled with one number or scalar expression, converted to `dtype`. Raises
    BadExtent (TW0110), UnknownDType (TW0101), NotAnExpression (TW0106)."""
    return _filled(shape, dtype, fill_value, "T_full")


def full_like(x: Tensor, fill_value: Any) -> Tensor:
    """A tensor of x's shape and dtype, filled with one number or scalar expression. Raises BadOperand (TW0181), NotAnExpression
    (TW0106)."""
    return _filled(tensor(x, "full_like").shape, x.dtype, fill_value, "T_full_like")


def zeros(shape: Any, dtype: object = "float32") -> Tensor:
    """A tensor of `shape` and `dtype` filled with zeros. Raises BadExtent (TW0110), UnknownDType (TW0101)."""
    return full(shape, dtype, 0)


def ones(shape: Any, dtype: object = "float32") -> Tensor:
    """A tensor of `shape` and `dtype` filled with ones. Raises BadExtent (TW0110), UnknownDType (TW0101)."""
    return full(shape, dtype, 1)


def zeros_like(x: Tensor) -> Tensor:
    """Zeros in x's shape and dtype. Raises BadOperand (TW0181)."""
    return full_like(x, 0)


def ones_like(x: Tensor) -> Tensor:
    """Ones in x's shape and dtype. Raises BadOperand (TW0181)."""
    return full_like(x, 1)


def arange(
    start: Expr | Number, stop: Expr | Number | None = None, step: Expr | Number = 1, dtype: object = "float32"
) -> Tensor:
    """start, start + step, ... up to but without stop; arange(stop) begins at 0.

    start, stop, step: numbers; integer expressions with steps of 1. The result has one dimension, of ceil((stop - start) / step)
    elements, of which element i is start + i * step, rounded to `dtype` as that arithmetic is. Raises BadParameter (TW0182) for a
    step of 0, or one of an unknown size, and UnknownDType (TW0101).
    """
    if stop is None:
        start, stop = 0, start
    kind = scalar_dtype(dtype)
    extent = _arange_extent(start, stop, step)
    values: Tensor = te.compute(
        (extent,),
        lambda i: ops.cast(ops.convert(start), kind) + ops.cast(i, kind) * ops.cast(ops.convert(step), kind),
        name="T_arange",
        tag="elemwise",
    )
    return values


def _arange_extent(start: Any, stop: Any, step: Any) -> Any:
    odd = [bound for bound in (start, stop, step) if isinstance(bound, bool) or not isinstance(bound, (Real, Expr))]
    if odd:
        raise BadParameter(
            "arange takes numbers and integer expressions",
            reason=f"got {odd[0]!r}"[:200],
            called=user_source(),
            fix="topi.arange(stop), or topi.arange(start, stop, step)",
        )
    symbolic = any(isinstance(bound, Expr) and not isinstance(bound, IntImm) for bound in (start, stop, step))
    first, last, by = (constant_of(bound, bound) for bound in (start, stop, step))
    if by == 0 or (symbolic and not (isinstance(by, int) and by == 1)):
        raise BadParameter(
            "arange cannot tell how many elements it has",
            reason=f"got the step {step}",
            called=user_source(),
            fix="a step of 1 where start or stop is an expression, any number but 0 elsewhere",
        )
    if symbolic:
        return te.max(stop - start, 0)
    return (
        max(-int(-(last - first) // by), 0)
        if isinstance(first + last + by, int)
        else max(_ceiling((last - first) / by), 0)
    )


def _ceiling(x: float) -> int:
    return -int(-x // 1)


def broadcast_to(data: Tensor, shape: Any) -> Tensor:
    """`data` in `shape`, repeated along dimensions that it lacks, or has with extent 1. Raises BadOperand (TW0181) where it does
    not fit, BadExtent (TW0110)."""
    source, extents = tensor(data, "broadcast_to"), shape_of(shape, "broadcast_to")
    skipped = len(extents) - source.ndim
    repeated = [isinstance(extent, IntImm) and extent.value == 1 for extent in source.shape]
    fits = skipped >= 0 and all(
        single or same_extent(extent, extents[skipped + at])
        for at, (extent, single) in enumerate(zip(source.shape, repeated, strict=True))
    )
    if not fits:
        raise BadOperand(
            f"cannot broadcast {source.name} to {shape_text(extents)}",
            reason=f"got {tensor_text(source)}",
            declared=source.source,
            called=user_source(),
            allowed="aligned from the last dimension on, extents that are equal or 1",
            fix="topi.tile repeats parts",
        )
    broadcast: Tensor = te.compute(
        extents,
        lambda *i: source[tuple(0 if single else i[skipped + at] for at, single in enumerate(repeated))],
        name="T_broadcast_to",
        tag="broadcast",
    )
    return broadcast
