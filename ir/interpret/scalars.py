"""Scalar values of the interpreter and what the operators do with them.

Integers and bools are Python's (an integer is kept in the range of its dtype), floats are scalars of numpy or
ml_dtypes, whose operators round in their own precision. Functions of mathematics are computed in float64 and rounded
once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np

from ..dtype import DType
from ..expr import Add, BinaryOp, Div, FloorDiv, FloorMod, Max, Min, Mul, Sub, TruncDiv, TruncMod
from ..rounding import round_float, wrap_int

__all__ = [
    "FLOAT_FUNCTIONS",
    "FLOAT_TYPES",
    "binary_text",
    "cast_function",
    "intrinsic_function",
    "numpy_dtype",
    "unwritten",
    "wrap_text",
    "zero_value",
]

FLOAT_TYPES: dict[str, Any] = {
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float32": np.float32,
    "float64": np.float64,
}

_HELD_TYPES: dict[str, Any] = {**FLOAT_TYPES, "int4": ml_dtypes.int4, "uint4": ml_dtypes.uint4}


def numpy_dtype(dtype: DType) -> np.dtype[Any]:
    """numpy's dtype for one lane."""
    held = _HELD_TYPES.get(dtype.element)
    return np.dtype(str(dtype.element) if held is None else held)


def zero_value(dtype: DType) -> Any:
    """0 as the interpreter holds it."""
    if dtype.is_float:
        return FLOAT_TYPES[dtype.element](0)
    return False if dtype.is_bool else 0


def unwritten(dtype: DType) -> Any:
    """Return the value of an element of `dtype` that has not been written, where that is not looked for: a value that spoils
    what is computed from it, so that a program which uses it is seen to."""
    return math.nan if dtype.is_float else True if dtype.is_bool else 0x55 % (1 << dtype.bits - 1)


# Integers


def wrap_text(text: str, dtype: DType) -> str:
    """Source that brings an integer into the range of its dtype."""
    mask = (1 << dtype.bits) - 1
    if dtype.kind == "int":
        half = 1 << (dtype.bits - 1)
        return f"(({text} + {half} & {mask}) - {half})"
    return f"({text} & {mask})"


# Operators as source. {a} and {b} may be repeated: they are names or constants. The second entry: whether an integer
# result may have left the range of its dtype.

_INTEGER_TEXT: dict[type[BinaryOp], tuple[str, bool]] = {
    Add: ("({a} + {b})", True),
    Sub: ("({a} - {b})", True),
    Mul: ("({a} * {b})", True),
    FloorDiv: ("({a} // {b} if {b} else 0)", True),
    FloorMod: ("({a} % {b} if {b} else 0)", False),
    TruncDiv: ("truncated_quotient({a}, {b})", True),
    TruncMod: ("truncated_remainder({a}, {b})", False),
    Min: ("({a} if {a} < {b} else {b})", False),
    Max: ("({a} if {a} > {b} else {b})", False),
}
_FLOAT_TEXT: dict[type[BinaryOp], str] = {
    Add: "({a} + {b})",
    Sub: "({a} - {b})",
    Mul: "({a} * {b})",
    Div: "({a} / {b})",
    FloorDiv: "({a} // {b})",
    FloorMod: "({a} % {b})",
    TruncDiv: "trunc_{t}({a} / {b})",
    TruncMod: "fmod_{t}({a}, {b})",
    Min: "({a} if {a} < {b} or {a} != {a} or ({a} == {b} and copysign(1.0, {b}) > 0.0) else {b})",
    Max: "({a} if {a} > {b} or {a} != {a} or ({a} == {b} and copysign(1.0, {b}) < 0.0) else {b})",
}


def binary_text(kind: type[BinaryOp], dtype: DType) -> tuple[str, bool, bool]:
    """(source with {a} and {b}, whether the result may need wrapping, whether an operand is repeated)."""
    if dtype.is_float and kind in _FLOAT_TEXT:
        text, wraps = _FLOAT_TEXT[kind].replace("{t}", dtype.element), False
    elif kind in _INTEGER_TEXT:
        text, wraps = _INTEGER_TEXT[kind]
        wraps = wraps and not dtype.is_bool
    else:
        text, wraps = f"({{a}} {kind.symbol} {{b}})", False
    return text, wraps, text.count("{a}") > 1 or text.count("{b}") > 1


# Casts


def _integer_to_float(source: DType, target: Any) -> Callable[[int], Any]:
    if source.bits <= 32 or target is np.float64:
        return target
    held = np.dtype(str(source))
    if target is np.float32:
        return lambda value: np.array(value, held).astype(np.float32)[()]
    return lambda value: target(np.array(value, held).astype(np.float32)[()])


def cast_function(source: DType, target: DType) -> Callable[[Any], Any]:
    """The conversion between two element types, exact as ir/expr.py says."""
    if target.is_bool:
        return lambda value: bool(value != 0)
    if target.is_float:
        float_type = FLOAT_TYPES[target]
        if source.is_float:
            return _rounded_once(target)
        return (lambda value: float_type(int(value))) if source.is_bool else _integer_to_float(source, float_type)
    if source.is_float:
        least, greatest = target.least, target.greatest
        return lambda value: _saturate(float(value), least, greatest)
    if source.is_bool:
        return int
    return lambda value: wrap_int(value, target)


def _rounded_once(target: DType) -> Callable[[Any], Any]:
    """The conversion of a float to a float type. ml_dtypes takes a float64 to its types by way of float32."""
    float_type = FLOAT_TYPES[target]
    return float_type if target.kind == "float" else lambda value: float_type(round_float(float(value), target))


def _saturate(value: float, least: int, greatest: int) -> int:
    if math.isnan(value):
        return 0
    if math.isinf(value):
        return greatest if value > 0 else least
    return min(max(int(value), least), greatest)


# Intrinsics


def _fused_odd(a: float, b: float, c: float) -> float:
    """a * b + c of numbers with at most 32 bits, as a float64 whose last bit says whether it is exact: rounding it to 32 bits or
    less gives what rounding once would (Boldo and Melquiond 2008). The product is exact, the sum's error is found by Knuth's
    two-sum."""
    product = a * b
    total = product + c
    if not math.isfinite(total):
        return total
    taken = total - product
    error = (product - (total - taken)) + (c - taken)
    if error and int(math.frexp(total)[0] * (1 << 53)) % 2 == 0:
        return math.nextafter(total, math.inf if error > 0 else -math.inf)
    return total


def _fused_double(a: float, b: float, c: float) -> float:
    """a * b + c of float64, rounded once."""
    plain = a * b + c
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)) or plain == 0 == a * b:
        return plain
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    try:
        return float(exact)
    except OverflowError:
        return math.copysign(math.inf, exact)


def _round_half_away(value: float) -> float:
    """Round to the nearest integer, halves away from zero, as C's round."""
    if not math.isfinite(value) or abs(value) >= 2.0**52:
        return value
    whole = math.floor(abs(value))
    return math.copysign(whole + (abs(value) - whole >= 0.5), value)


FLOAT_FUNCTIONS: dict[str, Callable[[Any], Any] | Callable[[Any, Any], Any]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "exp10": lambda x: np.power(10.0, x),
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "expm1": np.expm1,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
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
    "erf": math.erf,
    "sigmoid": lambda x: 1.0 / (1.0 + np.exp(-x)),
    "floor": np.floor,
    "ceil": np.ceil,
    "round": _round_half_away,
    "trunc": np.trunc,
    "nearbyint": np.rint,
    "pow": np.float_power,
    "atan2": np.arctan2,
    "copysign": np.copysign,
    "hypot": np.hypot,
    "abs": np.abs,
    "fmod": np.fmod,
}
"""Functions of mathematics by their names, of numpy's floats."""


def _float_intrinsic(name: str, dtype: DType) -> Callable[..., Any] | None:
    if name in ("fma", "mul_add"):  # what is not decided yet is as where the target fuses
        nearest, exactly = _rounded_once(dtype), _fused_double if dtype.bits == 64 else _fused_odd

        def fused(a: Any, b: Any, c: Any) -> Any:
            return nearest(exactly(float(a), float(b), float(c)))

        return fused
    tests: dict[str, Callable[[Any], bool]] = {
        "isnan": lambda x: math.isnan(x),
        "isinf": lambda x: math.isinf(x),
        "isfinite": lambda x: math.isfinite(x),
    }
    if name in tests:
        return tests[name]
    function = FLOAT_FUNCTIONS.get(name)
    if function is None:
        return None
    double, rounded = np.float64, _rounded_once(dtype)
    return lambda *values: rounded(function(*map(double, values)))


def _integer_intrinsic(name: str, dtype: DType) -> Callable[..., Any] | None:
    bits, mask = dtype.bits, (1 << dtype.bits) - 1
    table: dict[str, Callable[[int], int] | Callable[[int, int], int]] = {
        "abs": lambda a: wrap_int(abs(a), dtype),
        "popcount": lambda a: (a & mask).bit_count(),
        "clz": lambda a: bits - (a & mask).bit_length(),
        "bitwise_and": lambda a, b: a & b,
        "bitwise_or": lambda a, b: a | b,
        "bitwise_xor": lambda a, b: a ^ b,
        "bitwise_not": lambda a: wrap_int(~a, dtype),
        "shift_left": lambda a, b: wrap_int(a << b % bits, dtype),
        "shift_right": lambda a, b: a >> b % bits,
    }
    return table.get(name)


def intrinsic_function(name: str, dtype: DType) -> Callable[..., Any] | None:
    """Return the function of an intrinsic on scalars of an element type; None where it takes no such operands."""
    return _float_intrinsic(name, dtype) if dtype.is_float else _integer_intrinsic(name, dtype)
