"""The functions of hybrid scripts: what each makes of expressions, and what it computes when the script runs as Python.

Both sides of a row mean the same, so that a script computes what its emulation does: an integer given to a function of
floats counts as float32, `round` rounds halves away from zero, `min` and `max` of a NaN are NaN.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...base.arguments import is_a, is_number
from ...base.dataclass import dataclass
from ...ir import ops
from ...ir.dtype import SCALAR_TYPES, DType
from ...ir.interpret.scalars import FLOAT_FUNCTIONS, FLOAT_TYPES, numpy_dtype
from ...ir.rounding import (
    ceil_quotient,
    floor_quotient,
    floor_remainder,
    truncated_quotient,
    truncated_remainder,
    wrap_int,
)
from .. import math as te_math

__all__ = ["FUNCTIONS", "HybridFunction"]

_FLOATS = frozenset(map(np.dtype, FLOAT_TYPES.values()))


@dataclass(frozen=True, slots=True)
class HybridFunction:
    """One function. symbolic: on expressions. emulated: on numbers. arity: how many arguments (None: one or more)."""

    symbolic: Callable[..., Any]
    emulated: Callable[..., Any]
    arity: int | None = 1


def _float(value: Any) -> Any:
    """A number as a function of floats takes it."""
    kind = getattr(value, "dtype", None)
    if kind is not None and kind in _FLOATS:
        return value
    return np.float32(value)


def _unary(function: Callable[..., Any]) -> Callable[[Any], Any]:
    def emulated(x: Any) -> Any:
        value = _float(x)
        with np.errstate(all="ignore"):
            return value.dtype.type(function(value))

    return emulated


def _join_operands(function: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    def emulated(x: Any, y: Any) -> Any:
        a, b = _float(x) if not isinstance(x, (int, float)) else x, _float(y) if not isinstance(y, (int, float)) else y
        if isinstance(a, (int, float)) and isinstance(b, (int, float)):
            a = np.float32(a)
        with np.errstate(all="ignore"):
            return function(a, b)

    return emulated


def _keep_integers(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function that leaves integers as they are."""

    def emulated(x: Any) -> Any:
        integral = isinstance(x, (bool, int)) or getattr(getattr(x, "dtype", None), "kind", "f") in "iub"
        return x if integral else _float(x).dtype.type(function(_float(x)))

    return emulated


def _test(function: Callable[[Any], Any], of_integers: bool) -> Callable[[Any], bool]:
    def emulated(x: Any) -> bool:
        integral = isinstance(x, (bool, int)) or getattr(getattr(x, "dtype", None), "kind", "f") in "iub"
        return of_integers if integral else bool(function(_float(x)))

    return emulated


def _away_from_zero(x: Any) -> Any:
    value = float(x)
    return math.copysign(math.floor(builtins.abs(value) + 0.5), value) if math.isfinite(value) else value


def _width(x: Any) -> int:
    return x.dtype.itemsize * 8 if hasattr(x, "dtype") else 32


def _popcount(x: Any) -> Any:
    count = (int(x) & ((1 << _width(x)) - 1)).bit_count()
    return x.dtype.type(count) if hasattr(x, "dtype") else count


def _clz(x: Any) -> int:
    return _width(x) - (int(x) & ((1 << _width(x)) - 1)).bit_length()


def _extremum(plain: Callable[..., Any], elementwise: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def emulated(*values: Any) -> Any:
        result = values[0]
        for value in values[1:]:
            if isinstance(result, (int, float)) and isinstance(value, (int, float)):
                result = plain(result, value)
            else:
                result = elementwise(result, value)
        return result

    return emulated


def _fold(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def symbolic(*values: Any) -> Any:
        result = values[0]
        for value in values[1:]:
            result = function(result, value)
        return result

    return symbolic


def _power(x: Any, y: Any) -> Any:
    if isinstance(y, int) and y >= 0 and not isinstance(y, bool):
        return x**y
    return _join_operands(np.power)(x, y)


def _divide_integers(
    exact: Callable[[int, int], int], of_floats: Callable[[Any, Any], Any]
) -> Callable[[Any, Any], Any]:
    """A quotient or a rest: of integers exact, then wrapped into the dtype in which the two meet; 0 where the divisor is."""

    def emulated(a: Any, b: Any) -> Any:
        dtypes = [DType(str(value.dtype)) for value in (a, b) if is_number(value)]
        if any(dtype.is_float for dtype in dtypes) or is_a(a, float) or is_a(b, float):
            with np.errstate(all="ignore"):
                return of_floats(_float(a) if is_a(a, float) else a, _float(b) if is_a(b, float) else b)
        result = exact(int(a), int(b))
        if not dtypes:
            return result
        dtype = ops.common_dtype(dtypes[0], dtypes[-1])
        return numpy_dtype(dtype).type(wrap_int(result, dtype))

    return emulated


def _choose(condition: Any, a: Any, b: Any) -> Any:
    return a if condition else b


def _itself(x: Any) -> Any:
    return x


def _cast(name: str) -> HybridFunction:
    dtype = DType(name)

    def emulated(x: Any) -> Any:
        if dtype.is_integer and is_a(x, (float, np.floating)) or getattr(x, "dtype", None) in _FLOATS:
            value = float(x)
            if dtype.is_integer:  # truncates and saturates, where numpy's result is undefined
                value = 0.0 if math.isnan(value) else value
                return numpy_dtype(dtype).type(int(builtins.min(builtins.max(value, dtype.least), dtype.greatest)))
        if dtype.is_integer:
            return numpy_dtype(dtype).type(wrap_int(int(x), dtype))
        return numpy_dtype(dtype).type(x)

    def symbolic(x: Any) -> Any:
        return ops.cast(x, dtype)

    return HybridFunction(symbolic, emulated)


def _math(name: str, emulated: Callable[..., Any], arity: int | None = 1) -> HybridFunction:
    return HybridFunction(getattr(te_math, name), emulated, arity)


_UNARY = "exp exp2 exp10 log log2 log10 log1p expm1 sqrt rsqrt sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh erf sigmoid"
_PAIRS = "atan2 hypot copysign fmod"

FUNCTIONS: dict[str, HybridFunction] = {
    **{name: _math(name, _unary(FLOAT_FUNCTIONS[name])) for name in _UNARY.split()},
    **{name: _math(name, _join_operands(FLOAT_FUNCTIONS[name]), 2) for name in _PAIRS.split()},
    "floor": _math("floor", _keep_integers(np.floor)),
    "ceil": _math("ceil", _keep_integers(np.ceil)),
    "trunc": _math("trunc", _keep_integers(np.trunc)),
    "round": _math("round", _keep_integers(_away_from_zero)),
    "nearbyint": _math("nearbyint", _keep_integers(np.rint)),
    "isnan": _math("isnan", _test(np.isnan, False)),
    "isinf": _math("isinf", _test(np.isinf, False)),
    "isfinite": _math("isfinite", _test(np.isfinite, True)),
    "popcount": _math("popcount", _popcount),
    "clz": _math("clz", _clz),
    "abs": HybridFunction(ops.absolute, builtins.abs),
    "power": _math("power", _power, 2),
    "pow": _math("power", _power, 2),
    "min": HybridFunction(_fold(ops.minimum), _extremum(builtins.min, np.minimum), None),
    "max": HybridFunction(_fold(ops.maximum), _extremum(builtins.max, np.maximum), None),
    "floordiv": _math("floordiv", _divide_integers(floor_quotient, lambda a, b: a // b), 2),
    "floormod": _math("floormod", _divide_integers(floor_remainder, lambda a, b: a % b), 2),
    "truncdiv": _math("truncdiv", _divide_integers(truncated_quotient, lambda a, b: np.trunc(a / b)), 2),
    "truncmod": _math("truncmod", _divide_integers(truncated_remainder, np.fmod), 2),
    "ceil_div": _math("ceildiv", _divide_integers(ceil_quotient, lambda a, b: np.ceil(a / b)), 2),
    "ceildiv": _math("ceildiv", _divide_integers(ceil_quotient, lambda a, b: np.ceil(a / b)), 2),
    "select": _math("select", _choose, 3),
    "if_then_else": _math("if_then_else", _choose, 3),
    "likely": _math("likely", _itself),
    **{name: _cast(name) for name in map(str, SCALAR_TYPES) if name != "bool"},
    "int": _cast("int32"),
    "float": _cast("float32"),
    "bool": HybridFunction(ops.truth, builtins.bool),
}
"""Every function of numbers, by its name in scripts."""
