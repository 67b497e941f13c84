"""tvm.tir: expressions by TVM's constructors (its argument order where it differs from ours)."""

from __future__ import annotations

from typing import Any

from ...ir import ops
from ...ir.dtype import DType
from ...ir.expr import (
    EQ, GE, GT, LE, LT, NE, Add, And, Broadcast, Div, Expr, FloorDiv, FloorMod, IterVar, Max, Min, Mul, Not, Or, Ramp, SizeVar,
    StringImm, Sub, Var,
)
from ...ir.stmt import For, Function
from ...te import (
    abs, acos, acosh, all, any, asin, asinh, atan, atan2, atanh, ceil, ceildiv, clz, comm_reducer, const, copysign, cos,
    cosh, div, erf, exp, exp2, exp10, floor, floordiv, floormod, fmod, hypot, if_then_else, indexdiv, indexmod, infinity, isfinite,
    isinf, isnan, likely, log, log1p, log2, log10, max, max_value, min, min_value, nearbyint, popcount, pow, power, reinterpret,
    round, rsqrt, sigmoid, sin, sinh, sqrt, sum, tan, tanh, trunc, truncdiv, truncmod,
)

PrimExpr = Expr
PrimFunc = Function

__all__ = [
    "EQ", "GE", "GT", "LE", "LT", "NE", "Add", "And", "Broadcast", "Cast", "Div", "FloatImm", "FloorDiv", "FloorMod", "For",
    "IntImm", "IterVar", "Max", "Min", "Mul", "Not", "Or", "PrimExpr", "PrimFunc", "Ramp", "Select", "SizeVar", "StringImm", "Sub",
    "Var", "abs", "acos", "acosh", "all", "any", "asin", "asinh", "atan", "atan2", "atanh", "ceil", "ceildiv", "clz",
    "comm_reducer", "const", "copysign", "cos", "cosh", "div", "erf", "exp", "exp2", "exp10", "floor", "floordiv", "floormod",
    "fmod", "hypot", "if_then_else", "indexdiv", "indexmod", "infinity", "isfinite", "isinf", "isnan", "likely", "log", "log1p",
    "log2", "log10", "max", "max_value", "min", "min_value", "nearbyint", "popcount", "pow", "power", "reinterpret", "round",
    "rsqrt", "sigmoid", "sin", "sinh", "sqrt", "sum", "tan", "tanh", "trunc", "truncdiv", "truncmod",
]


def IntImm(dtype: str, value: int) -> Expr:
    """An integer constant."""
    return ops.const(int(value), dtype)


def FloatImm(dtype: str, value: float) -> Expr:
    """A float constant."""
    return ops.const(float(value), dtype)


def Cast(dtype: str, value: Any) -> Expr:
    """`value` converted."""
    return ops.cast(value, DType(dtype))


def Select(condition: Any, true_value: Any, false_value: Any) -> Expr:
    """One of two values; both may be evaluated."""
    return ops.select(condition, true_value, false_value)
