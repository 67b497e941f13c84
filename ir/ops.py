"""Building expressions: types are matched, constants folded.

Matching two operands: a Python number takes the other side's dtype (a float literal beside an integer makes float32);
of two floats the wider (float16 with bfloat16: float32), of an integer and a float the float, of two integers the
wider, of one width the unsigned one (a comparison of both signs warns); bool is the narrowest integer. Nothing becomes
float64 unless one side is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar, overload

from ..base.arguments import is_sequence
from ..base.errors import SourceLine, user_source, warn_user
from .dtype import BOOL, FLOAT32, HANDLE, INT32, INT64, DType
from .errors import AmbiguousDivision, LiteralOutOfRange, MixedTypes, NotAnExpression
from .expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryOp,
    Broadcast,
    Call,
    Cast,
    CompareOp,
    Div,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IfThenElse,
    IntImm,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Producer,
    Select,
    StringImm,
    Sub,
    TruncDiv,
    TruncMod,
)
from .intrinsics import INTRINSICS
from .rounding import floor_quotient, floor_remainder, round_float, truncated_quotient, truncated_remainder, wrap_int

__all__ = [
    "FALSE",
    "TRUE",
    "absolute",
    "add",
    "conjunction",
    "disjunction",
    "binary",
    "bitwise",
    "call",
    "cast",
    "ceildiv",
    "common_dtype",
    "compare",
    "conjuncts",
    "const",
    "integer_value",
    "convert",
    "divide",
    "equal",
    "floordiv",
    "floormod",
    "fold_binary",
    "identity_compare",
    "if_then_else",
    "index_ceildiv",
    "invert",
    "is_const",
    "likely",
    "logical_and",
    "logical_not",
    "logical_or",
    "match_types",
    "matrix_product",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "power",
    "select",
    "subtract",
    "truncdiv",
    "truncmod",
    "truth",
    "warn_of_signs",
]

T = TypeVar("T")

TRUE, FALSE = IntImm(1, BOOL), IntImm(0, BOOL)
_LITERALS = (bool, int, float)
_SMALL_INTS = {dtype: {value: IntImm(value, dtype) for value in range(-16, 257)} for dtype in (INT32, INT64)}


# Constants


def const(value: Any, dtype: object = None) -> Expr:
    """A constant. Without a dtype: bool for a bool, int32 (int64 where needed) for an int, float32 for a float; a
    numpy scalar keeps its own. Raises LiteralOutOfRange where an integer type cannot hold the value."""
    if type(value) is int and type(dtype) is DType and (small := _SMALL_INTS.get(dtype)) is not None and value in small:
        return small[value]
    if dtype is None:
        dtype = _literal_dtype(value)
    dtype = DType(dtype)
    if dtype.lanes > 1:
        return Broadcast(const(value, dtype.element), dtype.lanes)
    if isinstance(value, (str, Expr)):
        raise _not_an_expression(value)
    try:
        if dtype.is_float:
            return FloatImm(round_float(_convert_float(value), dtype), dtype)
        if dtype.kind == "bool":
            return TRUE if value else FALSE
        number = int(value) if not isinstance(value, float) or math.isfinite(value) else None
    except (TypeError, ValueError):  # of no number, and of several
        raise _not_an_expression(value) from None
    if number is None or not dtype.least <= number <= dtype.greatest:
        raise _range_error(value, dtype)
    small = _SMALL_INTS.get(dtype)
    return small[number] if small is not None and number in small else IntImm(number, dtype)


def _convert_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _range_error(value: Any, dtype: DType) -> LiteralOutOfRange:
    wider = next(
        (name for name in ("int16", "int32", "int64", "uint64") if DType(name).least <= value <= DType(name).greatest),
        "float32",
    )
    return LiteralOutOfRange(
        f"the number {value} does not fit {dtype}",
        reason=f"{dtype} holds {dtype.least} to {dtype.greatest}",
        called=user_source(),
        fix=f'convert the other operand to a wider type first: x.astype("{wider}")',
    )


def _literal_dtype(value: Any) -> DType:
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, int):
        return INT32 if INT32.least <= value <= INT32.greatest else INT64
    if isinstance(value, float):  # numpy.float64 too: it is a Python float, and nothing becomes float64 silently
        return FLOAT32
    dtype = getattr(value, "dtype", None)
    if dtype is not None and getattr(value, "ndim", None) == 0 and hasattr(value, "item"):  # a numpy scalar
        return DType(dtype)
    raise _not_an_expression(value)


def _not_an_expression(value: object) -> NotAnExpression:
    rank = getattr(value, "ndim", 0)
    several = is_sequence(value) or (isinstance(rank, int) and rank > 0)
    return NotAnExpression(
        f"{type(value).__name__} is not an expression",
        reason=f"got {value!r}"[:200],
        called=user_source(),
        allowed="numbers, numpy scalars, te.var, iteration variables, elements of tensors A[i, j], and what they make",
        fix="declare it as T = te.placeholder(shape, dtype), read T[i], and pass the array when the kernel is called"
        if several
        else "write its two parts: complex numbers are pairs of floats"
        if isinstance(value, complex)
        else "",
    )


def convert(value: Any) -> Expr:
    """`value` as an expression: itself, a constant, or the value of a tensor of rank 0 (of others it raises)."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, str):
        return StringImm(value)
    if isinstance(value, Producer):
        return value[()]
    return const(value)


def _value(value: Any) -> Expr:
    """`value` as an expression that can be computed with: strings are arguments of outside calls alone."""
    if isinstance(value, Expr) and not isinstance(value, StringImm):
        return value
    if isinstance(value, (str, StringImm)):
        raise _not_an_expression(value.value if isinstance(value, StringImm) else value)
    return convert(value)


@overload
def integer_value(value: object) -> int | None: ...
@overload
def integer_value(value: object, otherwise: T) -> int | T: ...
def integer_value(value: object, otherwise: Any = None) -> Any:
    """Return the number that an integer constant is, and `otherwise` of any other value."""
    return value.value if isinstance(value, IntImm) else otherwise


def is_const(value: Expr, number: float | None = None) -> bool:
    """Return whether this is a constant (equal to `number`, if given)."""
    return isinstance(value, (IntImm, FloatImm)) and (number is None or value.value == number)


# Types


def common_dtype(a: DType, b: DType) -> DType:
    """The dtype in which values of a and b meet (see the module's rules). Lanes are those of a."""
    if a == b:
        return a
    x, y = a.element, b.element
    if x.is_float or y.is_float:
        if not (x.is_float and y.is_float):
            common = x if x.is_float else y
        elif x.bits == y.bits:
            common = x if x is y else FLOAT32
        else:
            common = x if x.bits > y.bits else y
    elif x.is_bool or y.is_bool:
        common = y if x.is_bool else x
    else:
        common = x if x.bits > y.bits or x.bits == y.bits and x.kind == "uint" else y
    return common.with_lanes(a.lanes)


def match_types(a: Any, b: Any) -> tuple[Expr, Expr]:
    """Both operands in one dtype and number of lanes."""
    if isinstance(a, Expr) and isinstance(b, Expr) and a.dtype is b.dtype and a.dtype is not HANDLE:
        return a, b
    if isinstance(a, _LITERALS) and isinstance(b, Expr):
        return _match_literal(a, b)
    if isinstance(b, _LITERALS) and isinstance(a, Expr):
        right, left = _match_literal(b, a)
        return left, right
    a, b = _value(a), _value(b)
    if a.dtype == b.dtype:
        return a, b
    if "handle" in (a.dtype.kind, b.dtype.kind):
        raise _no_common_type(a, b)
    lanes = max(a.dtype.lanes, b.dtype.lanes)
    a, b = _widen(a, lanes), _widen(b, lanes)
    dtype = common_dtype(a.dtype, b.dtype)
    return cast(a, dtype), cast(b, dtype)


def _no_common_type(a: Any, b: Any) -> MixedTypes:
    kinds = [value.dtype if isinstance(value, Expr) else type(value).__name__ for value in (a, b)]
    return MixedTypes(
        f"{kinds[0]} and {kinds[1]} have no common type", reason=f"operands `{a}` and `{b}`", called=user_source()
    )


def _match_literal(literal: float, other: Expr) -> tuple[Expr, Expr]:
    """A Python number takes the other side's type."""
    dtype = other.dtype
    if dtype.kind == "handle":
        raise _no_common_type(literal, other)
    if isinstance(literal, float) and not dtype.is_float:
        return const(literal, FLOAT32.with_lanes(dtype.lanes)), cast(other, FLOAT32.with_lanes(dtype.lanes))
    if dtype.kind == "bool" and not isinstance(literal, bool):
        wide = INT32.with_lanes(dtype.lanes)
        return const(literal, wide), cast(other, wide)
    return const(literal, dtype), other


def _widen(value: Expr, lanes: int) -> Expr:
    if value.dtype.lanes == lanes:
        return value
    if value.dtype.lanes != 1:
        raise MixedTypes(f"vectors of {value.dtype.lanes} and {lanes} lanes do not match", reason=f"operand `{value}`")
    return Broadcast(value, lanes)


def cast(value: Any, dtype: object) -> Expr:
    """`value` converted to `dtype`; constants are converted here and now."""
    value, dtype = convert(value), DType(dtype)
    if value.dtype == dtype:
        return value
    if dtype.lanes != value.dtype.lanes:
        if dtype.lanes == 1 or value.dtype.lanes != 1:
            raise MixedTypes(f"cannot convert {value.dtype} to {dtype}", reason="the numbers of lanes differ")
        return Broadcast(cast(value, dtype.element), dtype.lanes)
    if isinstance(value, IntImm):
        if dtype.is_float:
            return FloatImm(round_float(float(value.value), dtype), dtype)
        if dtype.kind != "handle":
            return const(wrap_int(value.value, dtype), dtype)
    if isinstance(value, FloatImm) and dtype.kind != "handle":
        return const(value.value if dtype.is_float else _saturate(value.value, dtype), dtype)
    return Cast(value, dtype)


def _saturate(value: float, dtype: DType) -> int:
    if dtype.kind == "bool":
        return int(value != 0)
    if math.isnan(value):
        return 0
    if math.isinf(value):
        return dtype.greatest if value > 0 else dtype.least
    return min(max(int(value), dtype.least), dtype.greatest)


# Arithmetic


_INTEGER_FOLD: dict[type[BinaryOp], Callable[[int, int], int]] = {
    Add: lambda a, b: a + b,
    Sub: lambda a, b: a - b,
    Mul: lambda a, b: a * b,
    FloorDiv: floor_quotient,
    FloorMod: floor_remainder,
    TruncDiv: truncated_quotient,
    TruncMod: truncated_remainder,
    Min: min,
    Max: max,
    LT: lambda a, b: a < b,
    LE: lambda a, b: a <= b,
    GT: lambda a, b: a > b,
    GE: lambda a, b: a >= b,
    EQ: lambda a, b: a == b,
    NE: lambda a, b: a != b,
    And: lambda a, b: a and b,
    Or: lambda a, b: a or b,
}


def fold_binary(kind: type[BinaryOp], a: Expr, b: Expr) -> Expr | None:
    """The value of an operator on integer constants, an operand where the other is neutral; else None."""
    if not isinstance(b, IntImm):
        if isinstance(a, IntImm) and a.dtype.kind != "bool":
            if a.value == 0 and kind is Add:
                return b
            if kind is Mul and a.value in (0, 1):
                return b if a.value else a
        elif isinstance(a, IntImm) and kind in (And, Or):
            return (b if a.value else a) if kind is And else (a if a.value else b)
        return None
    if isinstance(a, IntImm):
        dtype = BOOL if issubclass(kind, CompareOp) else a.dtype
        return const(wrap_int(int(_INTEGER_FOLD[kind](a.value, b.value)), dtype), dtype)
    if kind in (And, Or):
        return (a if b.value else b) if kind is And else (b if b.value else a)
    if b.value == 0 and kind in (Add, Sub):
        return a
    if kind is Mul and b.value in (0, 1):
        return a if b.value else b
    if b.value == 1 and kind in (FloorDiv, TruncDiv):
        return a
    return None


def binary(kind: type[BinaryOp], a: Any, b: Any) -> Any:
    """The operator `kind` on operands of any matching types. NotImplemented beside a tensor, which has its own."""
    if isinstance(a, Producer) or isinstance(b, Producer):
        return NotImplemented
    return _fold(kind, *match_types(a, b))


def _fold(kind: type[BinaryOp], a: Expr, b: Expr) -> Expr:
    """The operator on operands of one type."""
    folded = fold_binary(kind, a, b) if not a.dtype.is_float else None
    return folded if folded is not None else kind(a, b)


def _arithmetic(kind: type[BinaryOp], a: Any, b: Any) -> Any:
    """Combine as `binary` does, with bool counted as int32: arithmetic on truth values is counting."""
    if isinstance(a, Producer) or isinstance(b, Producer):
        return NotImplemented
    a, b = match_types(a, b)
    if a.dtype.is_bool:
        wide = INT32.with_lanes(a.dtype.lanes)
        a, b = cast(a, wide), cast(b, wide)
    return _fold(kind, a, b)


def warn_of_signs(a: Any, b: Any, source: SourceLine | None = None) -> None:
    """Warn once for each line, `source` or the user's, that compares a signed integer with an unsigned one at least as wide."""
    if not (isinstance(a, Expr) and isinstance(b, Expr)) or {a.dtype.kind, b.dtype.kind} != {"int", "uint"}:
        return
    common, source = common_dtype(a.dtype, b.dtype).element, source or user_source(_OPERATORS)
    if common.kind == "uint" and source is not None:
        warn_user(
            source,
            f"{a.dtype} and {b.dtype} are compared as {common}, in which -1 is {common.greatest}: `.astype` of one side says what "
            "is meant",
        )


_OPERATORS = ("ir.ops", "ir.expr", "te.elementwise", "te.math", "te.tensor")
"""What lies between the user's operator and this module. Comparisons that other modules make mean what they say."""


def add(a: Any, b: Any) -> Any:
    return _arithmetic(Add, a, b)


def subtract(a: Any, b: Any) -> Any:
    return _arithmetic(Sub, a, b)


def multiply(a: Any, b: Any) -> Any:
    return _arithmetic(Mul, a, b)


def floordiv(a: Any, b: Any) -> Any:
    return _arithmetic(FloorDiv, a, b)


def floormod(a: Any, b: Any) -> Any:
    return _arithmetic(FloorMod, a, b)


def truncdiv(a: Any, b: Any) -> Any:
    return _arithmetic(TruncDiv, a, b)


def truncmod(a: Any, b: Any) -> Any:
    return _arithmetic(TruncMod, a, b)


def minimum(a: Any, b: Any) -> Any:
    """The lesser of two values; of bools, whether both hold."""
    return _apply_to_bools(And, Min, a, b)


def maximum(a: Any, b: Any) -> Any:
    """The greater of two values; of bools, whether one holds."""
    return _apply_to_bools(Or, Max, a, b)


def _apply_to_bools(logical: type[BinaryOp], kind: type[BinaryOp], a: Any, b: Any) -> Any:
    if isinstance(a, Producer) or isinstance(b, Producer):
        return NotImplemented
    a, b = match_types(a, b)
    return binary(logical if a.dtype.is_bool else kind, a, b)


def ceildiv(a: Any, b: Any) -> Any:
    """a / b rounded up, whatever the signs; nothing on the way overflows."""
    if isinstance(a, Producer) or isinstance(b, Producer):
        return NotImplemented
    a, b = match_types(a, b)
    quotient = floordiv(a, b)
    return add(quotient, cast(compare(NE, floormod(a, b), 0), quotient.dtype))


def index_ceildiv(a: Any, b: Any) -> Any:
    """a / b rounded up of indices and extents, whose sums do not overflow, for b > 0: `(a + (b - 1)) // b`, of which more is proved
    than of `ceildiv`."""
    a, b = match_types(a, b)
    if isinstance(a, IntImm) and isinstance(b, IntImm) and b.value > 0:
        return const(-(-a.value // b.value), a.dtype)
    return floordiv(a + (b - 1), b)


def divide(a: Any, b: Any) -> Any:
    """a / b for floats (an integer beside a float is converted)."""
    if isinstance(a, Producer) or isinstance(b, Producer):
        return NotImplemented
    a, b = match_types(a, b)
    if not a.dtype.is_float:
        raise AmbiguousDivision(
            f"`/` between two {a.dtype} does not say which division is meant",
            reason=f"operands `{a}` and `{b}`",
            called=user_source(),
            fix="a // b rounds towards minus infinity, te.truncdiv(a, b) towards zero as C does; for a float result "
            'convert first: a.astype("float32") / b',
        )
    return Div(a, b)


def negative(value: Expr) -> Expr:
    """-value."""
    if isinstance(value, FloatImm):
        return FloatImm(-value.value, value.dtype)
    if value.dtype.is_float:
        return Mul(value, const(-1.0, value.dtype))  # exact, signed zeros too, where 0 - x is not
    return subtract(0, value)


def absolute(value: Any) -> Expr:
    """|value|, in its dtype."""
    value = convert(value)
    if isinstance(value, IntImm):
        return const(wrap_int(abs(value.value), value.dtype), value.dtype)
    return value if value.dtype.kind in ("uint", "bool") else call("abs", value)


def power(a: Any, b: Any) -> Any:
    """a ** b. Integers take a constant exponent from 0 to 1024; everything else is computed in floats."""
    if isinstance(a, Producer) or isinstance(b, Producer):
        return NotImplemented
    if isinstance(b, IntImm):
        b = b.value
    if isinstance(a, Expr) and isinstance(b, int) and 0 <= b <= (4 if a.dtype.is_float else _MOST_FACTORS):
        return _raise_to_power(a, b)
    a, b = match_types(a, b)
    if not a.dtype.is_float:
        raise MixedTypes(
            f"integer power `{a}` ** `{b}` needs a constant exponent from 0 to {_MOST_FACTORS}",
            called=user_source(),
            fix='convert first: a.astype("float32") ** b',
        )
    return call("pow", a, b)


_MOST_FACTORS = 1024
"""Of the product that an integer power becomes: where all of it is walked, as when it is printed, it is as long as that."""


def _raise_to_power(a: Expr, exponent: int) -> Expr:
    """a multiplied `exponent` times, by squaring; in the dtype of a (bool counts as int32)."""
    base: Expr = cast(a, INT32.with_lanes(a.dtype.lanes)) if a.dtype.is_bool else a
    result: Expr | None = None
    while exponent:
        if exponent & 1:
            result = base if result is None else multiply(result, base)
        exponent >>= 1
        if exponent:
            base = multiply(base, base)
    return const(1, base.dtype) if result is None else result


# Logic and comparisons


def compare(kind: type[CompareOp], a: Any, b: Any) -> Any:
    """A comparison as an expression; false is less than true."""
    warn_of_signs(a, b)
    return binary(kind, a, b) if kind in (EQ, NE) else _arithmetic(kind, a, b)


def equal(a: Any, b: Any) -> Any:
    return compare(EQ, a, b)


def identity_compare(kind: type[CompareOp], a: Expr, b: object) -> Any:
    """== and != : an expression where `b` can be one, otherwise a plain bool (never equal)."""
    if isinstance(b, Producer):
        return NotImplemented
    if isinstance(b, (Expr, *_LITERALS)) or hasattr(b, "dtype"):
        try:
            return compare(kind, a, b)
        except (MixedTypes, LiteralOutOfRange, NotAnExpression):
            return kind is NE
    return kind is NE


def truth(value: Any) -> Expr:
    """`value` as a bool: itself, or whether it is not 0."""
    value = _value(value)
    return value if value.dtype.is_bool else binary(NE, value, const(0, value.dtype))


def logical_and(a: Any, b: Any) -> Expr:
    return binary(And, truth(a), truth(b))


def logical_or(a: Any, b: Any) -> Expr:
    return binary(Or, truth(a), truth(b))


def logical_not(value: Any) -> Expr:
    """not value."""
    value = truth(value)
    if isinstance(value, IntImm):
        return FALSE if value.value else TRUE
    return value.value if isinstance(value, Not) else Not(value)


def conjunction(*conditions: Any) -> Expr:
    """Return whether every condition holds (true for none)."""
    result: Expr = TRUE
    for condition in conditions:
        result = logical_and(result, condition)
    return result


def conjuncts(condition: Expr, hints: bool = False) -> list[Expr]:
    """The parts of a conjunction, none of which is always true. hints: keep `likely` around a part."""
    parts: list[Expr] = []
    stack = [condition]
    while stack:
        part = stack.pop()
        if isinstance(part, And):
            stack += (part.b, part.a)
        elif isinstance(part, Call) and part.name == "likely" and not hints:
            stack.append(part.args[0])
        elif not is_const(part, 1):
            parts.append(part)
    return parts


def disjunction(*conditions: Any) -> Expr:
    """Return whether some condition holds (false for none)."""
    result: Expr = FALSE
    for condition in conditions:
        result = logical_or(result, condition)
    return result


def bitwise(name: str, a: Any, b: Any) -> Any:
    """&, |, ^ and shifts on integers; on two bools & | ^ are and, or, unequal."""
    if isinstance(a, Producer) or isinstance(b, Producer):
        return NotImplemented
    a, b = match_types(a, b)
    if a.dtype.is_bool and name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        return binary({"bitwise_and": And, "bitwise_or": Or, "bitwise_xor": NE}[name], a, b)
    if a.dtype.is_bool:
        wide = INT32.with_lanes(a.dtype.lanes)
        a, b = cast(a, wide), cast(b, wide)
    defined = isinstance(b, IntImm) and (0 <= b.value < a.dtype.bits or not name.startswith("shift"))
    if isinstance(a, IntImm) and isinstance(b, IntImm) and defined:
        return const(wrap_int(_BITWISE_FOLD[name](a.value, b.value), a.dtype), a.dtype)
    return call(name, a, b)


_BITWISE_FOLD: dict[str, Callable[[int, int], int]] = {
    "bitwise_and": lambda a, b: a & b,
    "bitwise_or": lambda a, b: a | b,
    "bitwise_xor": lambda a, b: a ^ b,
    "shift_left": lambda a, b: a << b,
    "shift_right": lambda a, b: a >> b,
}


def invert(value: Any) -> Expr:
    """~value: not for a bool, all bits flipped for an integer."""
    value = convert(value)
    return logical_not(value) if value.dtype.is_bool else call("bitwise_not", value)


def matrix_product(a: Any, b: Any) -> NoReturn:
    """a @ b of elements, which have no matrix product. Raises MixedTypes (TW0104)."""
    raise MixedTypes(
        f"`{a}` @ `{b}` multiplies no matrices",
        reason="elements and axes are scalars",
        called=user_source(),
        fix="write a * b of elements; of matrices te.sum(A[i, k] * B[k, j], axis=k), or topi.matmul(A, B)",
    )


def select(condition: Any, true_value: Any, false_value: Any) -> Expr:
    """One of two values; both sides may be evaluated."""
    condition, (a, b) = truth(condition), match_types(true_value, false_value)
    if isinstance(condition, IntImm):
        return a if condition.value else b
    return Select(condition, a, b)


def if_then_else(condition: Any, true_value: Any, false_value: Any) -> Expr:
    """One of two values; only the chosen side is evaluated, so the other may read out of range."""
    condition, (a, b) = truth(condition), match_types(true_value, false_value)
    if isinstance(condition, IntImm):
        return a if condition.value else b
    return IfThenElse(condition, a, b)


def likely(condition: Any) -> Expr:
    """The same condition, known to hold nearly always: loop partitioning peels the iterations where it may not."""
    condition = truth(condition)
    return condition if isinstance(condition, IntImm) else Call("likely", (condition,), BOOL)


# Intrinsics


def call(name: str, *args: Any, dtype: object = None) -> Expr:
    """A Call of the intrinsic `name`, its operands matched to each other and to the types that it takes."""
    row = INTRINSICS[name]
    operands = _match(args) if row.arity > 1 else [convert(a) for a in args]
    if row.of_integers != "computed" and not operands[0].dtype.is_float and operands[0].dtype.kind != "handle":
        if row.of_integers == "itself":
            return operands[0]
        return const(row.of_integers == "true", BOOL.with_lanes(operands[0].dtype.lanes))
    if row.operands == "float":
        operands = [a if a.dtype.is_float else cast(_value(a), FLOAT32.with_lanes(a.dtype.lanes)) for a in operands]
    elif row.operands == "integer":
        for operand in operands:
            if not operand.dtype.is_integer and not operand.dtype.is_bool:
                raise MixedTypes(
                    f"{name} takes integers",
                    reason=f"`{operand}` is {operand.dtype}",
                    called=user_source(),
                    fix=f'x.astype("int32") for its value, te.reinterpret("int{operand.dtype.bits}", x) for its bits',
                )
    if row.result == "given":
        result = DType(dtype)
    else:
        first = operands[0].dtype
        lanes = first.lanes
        result = {"same": first, "bool": BOOL.with_lanes(lanes), "int32": INT32.with_lanes(lanes)}[row.result]
    return Call(name, tuple(operands), result)


def _match(operands: tuple[Any, ...]) -> list[Expr]:
    """All operands in one dtype, by the rules of `match_types`."""
    widest = convert(next((operand for operand in operands if not isinstance(operand, _LITERALS)), operands[0]))
    for operand in operands:
        widest, _ = match_types(widest, operand)
    return [match_types(operand, widest)[0] for operand in operands]
