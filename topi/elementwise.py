"""Operators element by element, with numpy's broadcasting: arithmetic, comparisons, logic, bits, mathematics.

Operands are tensors and numbers (or scalar expressions); of numbers alone the result is an expression. Types mix as they do
between elements (te): int8 with int8 wraps in int8, an integer with a float gives the float, nothing becomes float64 by
itself. Each makes one te.compute, tagged "elemwise" where shapes are the same and "broadcast" otherwise.

Errors of float32 mathematics are those of the intrinsics (te.exp and so on); arithmetic is IEEE's.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.errors import user_source
from ..ir import EQ, GE, GT, LE, LT, NE, CompareOp, Expr, IntImm, ops
from ..ir.dtype import FLOAT32, DType
from ..te import polymorphic as te
from ..te.elementwise import operate
from ..te.shape import same_extent, scalar_dtype, shape_text
from ..te.tensor import Tensor, tensor_text
from .checks import BadOperand, BadParameter, tensor, tensors
from .references import alike, array_dtype, floats, numbers
from .row import bools, floating, integers, operator, positive, sample

__all__ = [
    "add",
    "atan2",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "cast",
    "clip",
    "divide",
    "elemwise_sum",
    "equal",
    "floor_divide",
    "floor_mod",
    "greater",
    "greater_equal",
    "hypot",
    "left_shift",
    "less",
    "less_equal",
    "log_add_exp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "mod",
    "multiply",
    "not_equal",
    "power",
    "reinterpret",
    "right_shift",
    "subtract",
    "trunc_divide",
    "trunc_mod",
    "where",
]

Operand = Any
"""A tensor, or a number or scalar expression."""


def lift(name: str, function: Callable[..., Any], *operands: Operand) -> Any:
    """`function` of the elements, under the name that the operation has."""
    for operand in operands:
        if isinstance(operand, str):  # an expression as well, but of no operator
            tensor(operand, f"topi.{name}")
    if any(isinstance(operand, Tensor) for operand in operands):
        return operate(name, function, *operands)
    return function(*operands)


SAME = "and its dtype"
FLOAT = "and its dtype where that is a float, else float32"
BOOL = "and the dtype bool"
NUMBERS = floating(3, 5)
_PARTS = positive(3, 5)
ERROR = 4
"""By how many units in the last place what is computed of elements in floats may miss what it should be."""

_Reference = Callable[[Any, Any], Any]


def unary_operator(
    name: str,
    meaning: str,
    reference: Callable[[Any], Any],
    derivative: tuple[str | None, ...] | None = None,
    function: Callable[[Any], Any] | None = None,
    dtype: str = FLOAT,
    growth: float | None = None,
    samples: Sequence[Any] = (NUMBERS,),
) -> Callable[[Operand], Any]:
    """The operator of one operand, and its row. dtype: what its documentation says of the result's; samples: operands."""
    apply = function or getattr(te, name)  # te has most functions under the operator's name

    def operator_of_one(x: Operand) -> Any:
        return lift(name, apply, x)

    # the row, the page and tracebacks show the operator's own name
    operator_of_one.__name__ = operator_of_one.__qualname__ = name
    operator_of_one.__doc__ = f"""{meaning}

    x: a tensor of any shape, or a number or an expression, of which the result is an expression. The result has the shape of x,
    {dtype}. Raises NotAnExpression (TW0106){", MixedTypes (TW0104)" if name == "bitwise_not" else ""}.
    """
    return operator(
        name,
        reference=floats(reference) if dtype is FLOAT else reference,
        fusion="elementwise",
        derivative=derivative,
        error=ERROR if dtype is FLOAT else 0,
        growth=growth,
        samples=[sample(one) for one in samples],
    )(operator_of_one)


_MIXED = "and the dtype that te's rules give to the two together"
_PAIR = (floating(3, 1, 5), floating(4, 1))
_BOOLS = (bools(7), bools(7))
_INTEGERS = (integers(3, 5, below=100), integers(5, below=9))


def _binary(
    name: str,
    meaning: str,
    reference: _Reference,
    derivative: tuple[str | None, ...] | None,
    function: Callable[[Any, Any], Any],
    dtype: str = _MIXED,
    errors: str = "",
    error: float = 0,
    growth: float | None = None,
    samples: Sequence[tuple[Any, Any]] = (_PAIR,),
) -> Callable[[Operand, Operand], Any]:
    """The operator of two operands, and its row. reference: of arrays of one dtype; dtype: what its documentation says of the
    result's; errors: those that others have not; samples: operands."""

    def operator_of_two(lhs: Operand, rhs: Operand) -> Any:
        return lift(name, function, lhs, rhs)

    def met(x: NDArray[Any], y: NDArray[Any]) -> Any:
        return reference(*alike(x, y))  # numpy's rules for mixed types are others than te's

    operator_of_two.__name__ = operator_of_two.__qualname__ = name
    operator_of_two.__doc__ = f"""{meaning}

    lhs, rhs: tensors, whose shapes broadcast as numpy's do, numbers or expressions. The result has the broadcast shape,
    {dtype}; it is an expression where neither is a tensor.
    Raises ShapesDoNotBroadcast (TW0121), NotAnExpression (TW0106){errors}.
    """
    return operator(
        name,
        reference=met,
        fusion="elementwise",
        derivative=derivative,
        error=error,
        growth=growth,
        samples=[sample(*pair) for pair in samples],
    )(operator_of_two)


def _comparison(
    name: str, symbol: str, kind: type[CompareOp], reference: _Reference, *samples: tuple[Any, Any]
) -> Callable[[Operand, Operand], Any]:
    return _binary(
        name,
        f"Whether lhs {symbol} rhs, as bool.",
        reference,
        None,
        lambda a, b: ops.compare(kind, a, b),
        BOOL,
        samples=(_PAIR, *samples),
    )


def _bits(
    name: str,
    meaning: str,
    reference: _Reference,
    function: Callable[[Any, Any], Any] | None = None,
    samples: tuple[Any, Any] = _INTEGERS,
) -> Callable[[Operand, Operand], Any]:
    apply = function or functools.partial(ops.bitwise, name)
    return _binary(name, meaning, reference, None, apply, errors=", MixedTypes (TW0104)", samples=(samples,))


def _shift(kind: str, a: Any, b: Any) -> Any:
    """A shift by any number: beyond the width nothing is left but, to the right, the sign."""
    x, by = ops.match_types(a, b)
    # a constant amount within the width needs no condition
    if not x.dtype.is_integer or (isinstance(by, IntImm) and 0 <= by.value < x.dtype.bits):
        return ops.bitwise(kind, a, b)
    within = te.all(by >= 0, by < x.dtype.bits)
    if kind == "shift_right" and x.dtype.is_signed:
        return ops.bitwise(kind, x, te.select(within, by, x.dtype.bits - 1))  # by width - 1 only the sign is left
    return te.select(within, ops.bitwise(kind, x, te.select(within, by, 0)), ops.const(0, x.dtype))


# Arithmetic


def _guard_division(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Integers divided by 0 are 0."""

    def divided(a: NDArray[Any], b: NDArray[Any]) -> Any:
        # numpy warns of a division by 0, and gives what its C compiler gives
        return function(a, b) if a.dtype.kind not in "iub" else np.where(b == 0, 0, function(a, np.where(b == 0, 1, b)))

    return divided


def _numpy_trunc_divide(a: Any, b: Any) -> Any:
    if a.dtype.kind not in "iub":
        wide = np.promote_types(a.dtype, np.float32) if a.dtype.kind == "f" else np.float32
        return np.trunc(a.astype(wide) / b.astype(wide)).astype(a.dtype)
    # floor and trunc differ where signs do and there is a rest
    return np.floor_divide(a, b) + ((np.remainder(a, b) != 0) & ((a < 0) != (b < 0)))


add = _binary("add", "lhs + rhs.", numbers(np.add), ("g", "g"), ops.add, growth=1, samples=(_PAIR, _BOOLS))
subtract = _binary(
    "subtract", "lhs - rhs.", numbers(np.subtract), ("g", "-g"), ops.subtract, growth=1, samples=(_PAIR, _BOOLS)
)
multiply = _binary("multiply", "lhs * rhs.", np.multiply, ("g * b", "g * a"), ops.multiply, samples=(_PAIR, _BOOLS))
divide = _binary(
    "divide",
    "lhs / rhs of floats. Two integers are refused, as by `/`: floor_divide and trunc_divide say "
    "which quotient is meant.",
    np.divide,
    ("g / b", "-(g * y / b)"),
    ops.divide,
    errors=", AmbiguousDivision (TW0103)",
    samples=((NUMBERS, positive(5)),),
)
floor_divide = _binary(
    "floor_divide",
    "The quotient rounded towards minus infinity, as Python's and numpy's (1.0 // 0.1 is 9); of integers x // 0 = 0.",
    _guard_division(np.floor_divide),
    (None, None),
    ops.floordiv,
    samples=(_INTEGERS,),
)
floor_mod = _binary(
    "floor_mod",
    "The remainder with the sign of rhs, as Python's and numpy's; of integers x % 0 = 0.",
    np.mod,
    ("g", "-(g * floor_divide(a, b))"),
    ops.floormod,
    samples=(_INTEGERS,),
)
trunc_divide = _binary(
    "trunc_divide",
    "The quotient rounded towards zero: of floats trunc(lhs / rhs), in float32 at least; of integers C's, x / 0 = 0.",
    _guard_division(_numpy_trunc_divide),
    (None, None),
    lambda a, b: _trunc_divide(a, b),
    samples=(_INTEGERS,),
)
trunc_mod = _binary(
    "trunc_mod",
    "The remainder with the sign of lhs, as C's and numpy's fmod.",
    np.fmod,
    ("g", "-(g * trunc(a / b))"),
    ops.truncmod,
    samples=(_INTEGERS,),
)


def mod(lhs: Operand, rhs: Operand) -> Any:
    """The remainder with the sign of lhs, as TVM has it under this name: trunc_mod. numpy's mod is floor_mod.

    lhs, rhs: tensors, whose shapes broadcast as numpy's do, numbers or expressions. The result has the broadcast shape, and the
    dtype that te's rules give to the two together; it is an expression where neither is a tensor. Raises ShapesDoNotBroadcast
    (TW0121), NotAnExpression (TW0106).
    """
    return lift("mod", ops.truncmod, lhs, rhs)


maximum = _binary(
    "maximum",
    "The greater one; a NaN where either is a NaN.",
    np.maximum,
    ("where(a >= b, g, 0.0)", "where(a >= b, 0.0, g)"),
    ops.maximum,
    growth=1,
    samples=(_PAIR, (integers(9), integers(9, below=9, dtype="uint64"))),
)
minimum = _binary(
    "minimum",
    "The lesser one; a NaN where either is a NaN.",
    np.minimum,
    ("where(a <= b, g, 0.0)", "where(a <= b, 0.0, g)"),
    ops.minimum,
    growth=1,
)
power = _binary(
    "power",
    "lhs ** rhs. Integers take a constant exponent from 0 to 1024, all else is computed in floats.",
    np.power,
    (
        "where(b == 0.0, 0.0, g * b * power(a, b - 1.0))",
        "where(logical_or(a != 0.0, b < 0.0), g * y * log(a), 0.0)",
    ),
    ops.power,
    errors=", MixedTypes (TW0104)",
    error=ERROR,
    samples=((_PARTS, floating(5)),),
)
hypot = _binary(
    "hypot",
    "sqrt(lhs ** 2 + rhs ** 2), without overflow on the way.",
    floats(np.hypot),
    None,
    te.hypot,
    error=ERROR,
)
atan2 = _binary(
    "atan2",
    "The angle of the point (rhs, lhs), in radians.",
    floats(np.arctan2),
    (
        "where(a * a + b * b == 0.0, 0.0, g * b / (a * a + b * b))",
        "where(a * a + b * b == 0.0, 0.0, -(g * a / (a * a + b * b)))",
    ),
    te.atan2,
    error=ERROR,
)
log_add_exp = _binary(
    "log_add_exp",
    "log(exp(lhs) + exp(rhs)), without overflow on the way.",
    floats(np.logaddexp),
    ("g * sigmoid(a - b)", "g * sigmoid(b - a)"),
    lambda a, b: _log_add_exp(a, b),
    error=ERROR,
)


def _trunc_divide(a: Any, b: Any) -> Any:
    x, y = ops.match_types(a, b)
    if not x.dtype.is_float:
        return ops.truncdiv(x, y)
    # 16-bit quotients are rounded once, after trunc
    wide = x.dtype if x.dtype.bits > 16 else FLOAT32.with_lanes(x.dtype.lanes)
    return ops.cast(te.trunc(ops.cast(x, wide) / ops.cast(y, wide)), x.dtype)


def _log_add_exp(a: Any, b: Any) -> Any:
    x, y = ops.match_types(a, b)
    if not x.dtype.is_float:  # the difference of two int8 is no int8
        x, y = ops.cast(x, FLOAT32.with_lanes(x.dtype.lanes)), ops.cast(y, FLOAT32.with_lanes(x.dtype.lanes))
    if ops.is_const(y):  # a constant second operand keeps the derivative of the first
        x, y = y, x  # max(x, 0) would be flat where they are equal
    high = te.max(x, y)
    near = te.min(y - x, x - y)  # where they are equal, max follows x and this y - x: half of it for each
    same = te.all(x == y, te.isinf(x))  # infinities of one sign, whose difference is no number
    return te.select(same, high, high + te.log1p(te.exp(near)))  # log1p of at most 1: nothing overflows


# Comparisons and logic

equal = _comparison("equal", "==", EQ, np.equal)
not_equal = _comparison("not_equal", "!=", NE, np.not_equal)
less = _comparison(
    "less",
    "<",
    LT,
    np.less,
    (integers(9, dtype="int8"), integers(9, dtype="uint8")),
    (integers(9), floating(9)),
)
less_equal = _comparison("less_equal", "<=", LE, np.less_equal)
greater = _comparison("greater", ">", GT, np.greater)
greater_equal = _comparison("greater_equal", ">=", GE, np.greater_equal)


def _truth(x: Any) -> Expr:
    value = ops.convert(x)
    return value if value.dtype.is_bool else ops.compare(NE, value, 0)  # any number but 0 holds; NaN does too


def _logical(
    name: str, meaning: str, reference: _Reference, function: Callable[[Any, Any], Any]
) -> Callable[[Operand, Operand], Any]:
    meaning = f"{meaning}, as bool; a number holds where it is not 0."
    return _binary(name, meaning, reference, None, function, BOOL, samples=((bools(3, 5), bools(5)),))


logical_and = _logical("logical_and", "Whether both hold", np.logical_and, lambda a, b: te.all(_truth(a), _truth(b)))
logical_or = _logical(
    "logical_or", "Whether at least one holds", np.logical_or, lambda a, b: te.any(_truth(a), _truth(b))
)
logical_xor = _logical(
    "logical_xor", "Whether exactly one holds", np.logical_xor, lambda a, b: ops.compare(NE, _truth(a), _truth(b))
)
logical_not = unary_operator(
    "logical_not",
    "Whether x does not hold, as bool; a number holds where it is not 0.",
    np.logical_not,
    None,
    lambda x: ops.logical_not(_truth(x)),
    BOOL,
    samples=(bools(7),),
)

# Bits

bitwise_and = _bits("bitwise_and", "lhs & rhs of integers, or of bools.", np.bitwise_and)
bitwise_or = _bits("bitwise_or", "lhs | rhs of integers, or of bools.", np.bitwise_or)
bitwise_xor = _bits("bitwise_xor", "lhs ^ rhs of integers, or of bools.", np.bitwise_xor)
left_shift = _bits(
    "left_shift",
    "lhs << rhs of integers; bits that leave on the left are lost, all of them where rhs is below 0 or the width or more.",
    np.left_shift,
    functools.partial(_shift, "shift_left"),
    (integers(7, below=9), np.arange(7)),
)
right_shift = _bits(
    "right_shift",
    "lhs >> rhs of integers; the sign stays, and alone where rhs is below 0 or the width or more.",
    np.right_shift,
    functools.partial(_shift, "shift_right"),
    (integers(7, below=900), np.arange(7)),
)
bitwise_not = unary_operator(
    "bitwise_not", "~x of an integer, or of a bool.", np.invert, None, ops.invert, SAME, samples=(integers(7),)
)

# Choices and conversions


def _numpy_clip(x: NDArray[Any], *, low: float, high: float) -> Any:
    if x.dtype.kind not in "iu":
        return np.clip(x.astype(np.float64), low, high).astype(x.dtype)
    info = np.iinfo(x.dtype)
    # a bound beyond the dtype is its end
    least, greatest = (int(min(max(bound, info.min), info.max)) for bound in (low, high))
    return np.clip(x, least, greatest)


@operator(
    "clip",
    reference=_numpy_clip,
    fusion="elementwise",
    attributes={"low": "a_min", "high": "a_max"},
    derivative=("where(logical_and(a >= low, a <= high), g, 0.0)",),
    growth=1,
    samples=[sample(NUMBERS, low=-0.5, high=0.25)],
)
def clip(x: Operand, a_min: Any, a_max: Any) -> Any:
    """min(max(x, a_min), a_max). A NaN stays a NaN.

    Parameters
    ----------
    x : Tensor, number or expression
        Of any shape.
    a_min : number or expression
        The least value; one that an integer dtype does not hold is its end.
    a_max : number or expression
        The greatest value.

    Returns
    -------
    Tensor or expression
        The shape and the dtype of x.

    Raises
    ------
    NotAnExpression (TW0106)
        An operand that is neither a number nor a tensor.
    """

    def element(value: Any) -> Any:
        value = ops.convert(value)
        low, high = _bound(ops.convert(a_min), value.dtype), _bound(ops.convert(a_max), value.dtype)
        # numpy's clip gives the upper bound where the two cross
        if not (ops.is_const(low) and ops.is_const(high) and low.value <= high.value):
            low = te.min(low, high)
        return te.max(te.min(value, high), low)

    return lift("clip", element, x)


def _bound(bound: Expr, dtype: DType) -> Any:
    """A bound in `dtype`, of integers and bools the nearest that it holds."""
    if dtype.is_bool:
        return ops.compare(GE, bound, 1)  # bools are clipped by whether the bound is at least 1
    if bound.dtype.is_integer and dtype.is_integer:
        # compared in the bound's dtype, which may be wider or narrower
        least, greatest = max(dtype.least, bound.dtype.least), min(dtype.greatest, bound.dtype.greatest)
        bound = ops.maximum(ops.minimum(bound, ops.const(greatest, bound.dtype)), ops.const(least, bound.dtype))
    return ops.cast(bound, dtype)


def _numpy_cast(x: Any, *, dtype: str) -> Any:
    """numpy's conversion; of floats to bool, whether they are not 0."""
    return x != 0 if dtype == "bool" else x.astype(array_dtype(dtype))


@operator(
    "cast",
    reference=_numpy_cast,
    fusion="elementwise",
    derivative=("g",),
    samples=[sample(NUMBERS, dtype="int32"), sample(NUMBERS, dtype="bool")],
)
def cast(x: Operand, dtype: object) -> Any:
    """x converted to `dtype`, in its shape: to integers towards zero, to bool whether it is not 0. Raises UnknownDType (TW0101),
    NotAnExpression (TW0106)."""
    target = scalar_dtype(dtype)

    def element(value: Any) -> Expr:
        return ops.cast(ops.convert(value), target)

    return lift("cast", element, x)


def _numpy_reinterpret(x: Any, *, dtype: str) -> Any:
    return x.view(array_dtype(dtype))


@operator(
    "bitcast",
    reference=_numpy_reinterpret,
    fusion="elementwise",
    samples=[sample(integers(3, 5, dtype="int32"), dtype="uint32")],
)
def reinterpret(x: Operand, dtype: object) -> Any:
    """The bits of x read as `dtype`, which has the same width, in the shape of x. Raises BadReinterpret (TW0126), UnknownDType
    (TW0101)."""
    return te.reinterpret(dtype, x)


def _numpy_where(condition: NDArray[Any], x: NDArray[Any], y: NDArray[Any]) -> Any:
    return np.where(condition, *alike(x, y))


@operator(
    "where",
    reference=_numpy_where,
    fusion="elementwise",
    derivative=(None, "where(a, g, 0.0)", "where(a, 0.0, g)"),
    samples=[
        sample(bools(9), integers(9), integers(9, below=9, dtype="uint64")),
        sample(bools(3, 1), floating(3, 5), floating(5)),
    ],
)
def where(condition: Operand, x: Operand, y: Operand) -> Any:
    """x where the condition holds, y elsewhere. Shapes broadcast as numpy's do.

    Parameters
    ----------
    condition : Tensor, number or expression
        A bool, or a number that is not 0.
    x : Tensor, number or expression
        Where it holds.
    y : Tensor, number or expression
        Elsewhere.

    Returns
    -------
    Tensor or expression
        The broadcast shape, and the dtype that te's rules give to x and y together.

    Raises
    ------
    ShapesDoNotBroadcast (TW0121)
        Shapes that do not broadcast.
    NotAnExpression (TW0106)
        An operand that is neither a number nor a tensor.
    """

    def element(chosen: Any, a: Any, b: Any) -> Any:
        a, b = ops.match_types(a, b)  # both branches have one dtype
        return te.select(_truth(chosen), a, b)

    return lift("where", element, condition, x, y)


def elemwise_sum(xs: Sequence[Tensor]) -> Tensor:
    """The sum of tensors of one shape, added up in order, in that shape. Raises BadParameter (TW0182) for none, BadOperand (TW0181)
    where shapes differ."""
    summands = tensors(xs, "elemwise_sum")
    if not summands:
        raise BadParameter("elemwise_sum has nothing to add", called=user_source(), fix="pass at least one tensor")
    first = summands[0]
    for other in summands[1:]:
        tensor(other, "elemwise_sum", first.ndim)  # ranks first, so that shapes can be compared in pairs
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

    return lift("elemwise_sum", element, *xs)
