"""tvm.tir: expressions by TVM's constructors (its argument order where it differs from ours).

A constructor is a class of the façade: calling it builds one of our nodes from TVM's arguments, and isinstance asks for
our node.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from ...ir import expr as _expr
from ...ir import ops as _ops
from ...ir import stmt as _stmt
from ...ir.buffer import Buffer
from ...ir.dtype import DType as _DType
from ...ir.expr import Broadcast, BufferLoad, Call, Expr, IterVar, Let, ProducerLoad, Ramp, Reduce, Shuffle
from ...ir.stmt import Allocate, BufferStore, Evaluate, For, Function, LetStmt, Stmt
from ...te import call_extern, call_intrin, call_pure_extern, decl_buffer
from ...te import call_intrin as call_pure_intrin
from ...te import call_llvm_intrin as _call_llvm_intrin
from ...te import (
    abs, acos, acosh, all, any, asin, asinh, atan, atan2, atanh, ceil, ceildiv, clz, comm_reducer, const, copysign, cos,
    cosh, erf, exp, exp2, exp10, floor, floordiv, floormod, fmod, hypot, if_then_else, indexdiv, indexmod, infinity, isfinite,
    isinf, isnan, likely, log, log1p, log2, log10, max, max_value, min, min_value, nearbyint, popcount, pow, power, reinterpret,
    round, rsqrt, sigmoid, sin, sinh, size_var, sqrt, sum, tan, tanh, trunc, truncdiv, truncmod, var,
)
from . import ir_builder, stmt_functor

__all__ = [
    "EQ", "GE", "GT", "LE", "LT", "NE", "Add", "Allocate", "And", "AssertStmt", "AttrStmt", "Broadcast", "Buffer",
    "BufferLoad", "BufferStore", "Call", "Cast", "Div", "Evaluate", "FloatImm", "FloorDiv", "FloorMod", "For", "IfThenElse",
    "IntImm", "IterVar", "Let", "LetStmt", "Max", "Min", "Mod", "Mul", "Not", "Or", "PrimExpr", "PrimFunc", "ProducerLoad",
    "Ramp", "Reduce", "Select", "SeqStmt", "Shuffle", "SizeVar", "Stmt", "StringImm", "Sub", "Var", "abs", "acos", "acosh",
    "all", "any", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor",
    "call_extern", "call_intrin", "call_llvm_intrin", "call_llvm_pure_intrin", "call_pure_extern", "call_pure_intrin",
    "ceil", "ceildiv", "clz", "comm_reducer", "const", "copysign", "cos", "cosh", "decl_buffer", "div", "erf", "exp",
    "exp2", "exp10", "expr", "floor", "floordiv", "floormod", "fmod", "hypot", "if_then_else", "indexdiv", "indexmod",
    "infinity", "ir_builder", "isfinite", "isinf", "isnan", "likely", "log", "log1p", "log2", "log10", "max", "max_value",
    "min", "min_value", "nearbyint", "popcount", "pow", "power", "reinterpret", "round", "rsqrt", "shift_left",
    "shift_right", "sigmoid", "sin", "sinh", "sqrt", "stmt", "stmt_functor", "sum", "tan", "tanh", "trunc", "truncdiv",
    "truncmod",
]

PrimExpr = Expr
PrimFunc = Function
SeqStmt, IfThenElse, AttrStmt, AssertStmt = _stmt.Seq, _stmt.If, _stmt.Attr, _stmt.Assert


class _Constructor(type):
    """The type of the constructors: what they build, and which node they stand for."""

    node: type[Expr]
    build: Callable[..., Expr]

    def __call__(cls, *args: Any, **named: Any) -> Any:
        return cls.build(*args, **named)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.node)


def _constructor(node: type[Expr], build: Callable[..., Expr]) -> Any:
    return _Constructor(node.__name__, (), {"node": node, "build": staticmethod(build), "__doc__": node.__doc__})


def _binary(node: type[_expr.BinaryOp]) -> Any:
    """The constructor of an operator: operands are matched, and nothing is folded."""

    def build(a: Any, b: Any) -> Expr:
        return node(*_ops.match_types(a, b))

    return _constructor(node, build)


Add, Sub, Mul, FloorDiv, FloorMod = map(_binary, (_expr.Add, _expr.Sub, _expr.Mul, _expr.FloorDiv, _expr.FloorMod))
Min, Max, And, Or = map(_binary, (_expr.Min, _expr.Max, _expr.And, _expr.Or))
EQ, NE, LT, LE, GT, GE = map(_binary, (_expr.EQ, _expr.NE, _expr.LT, _expr.LE, _expr.GT, _expr.GE))
Mod = _binary(_expr.TruncMod)


def call_llvm_intrin(dtype: str, name: str, *args: Any, span: object = None) -> Expr:
    """An LLVM intrinsic. Up to TVM 0.17 a uint32 stood before the operands, the number of types in its signature."""
    del span
    counted = bool(args) and isinstance(args[0], _expr.IntImm) and args[0].dtype == "uint32"
    return _call_llvm_intrin(dtype, name, *(args[1:] if counted else args))


call_llvm_pure_intrin = call_llvm_intrin


def div(a: Any, b: Any, span: object = None) -> Expr:
    """a / b: of floats the quotient, of integers as C divides them."""
    del span
    a, b = _ops.match_types(a, b)
    return _ops.truncdiv(a, b) if a.dtype.is_integer else _ops.divide(a, b)


def _int_imm(dtype: str, value: int) -> Expr:
    return _ops.const(int(value), dtype)


def _float_imm(dtype: str, value: float) -> Expr:
    return _ops.const(float(value), dtype)


def _cast(dtype: str, value: Any) -> Expr:
    return _ops.cast(value, _DType(dtype))


def _select(condition: Any, true_value: Any, false_value: Any) -> Expr:
    return _ops.select(condition, true_value, false_value)


Div = _constructor(_expr.Div, div)
IntImm, FloatImm = _constructor(_expr.IntImm, _int_imm), _constructor(_expr.FloatImm, _float_imm)
StringImm = _expr.StringImm
Cast, Select = _constructor(_expr.Cast, _cast), _constructor(_expr.Select, _select)
Not = _constructor(_expr.Not, _ops.logical_not)
Var, SizeVar = _constructor(_expr.Var, var), _constructor(_expr.SizeVar, size_var)


def bitwise_and(x: Any, y: Any) -> Any:
    """x & y."""
    return _ops.bitwise("bitwise_and", x, y)


def bitwise_or(x: Any, y: Any) -> Any:
    """x | y."""
    return _ops.bitwise("bitwise_or", x, y)


def bitwise_xor(x: Any, y: Any) -> Any:
    """x ^ y."""
    return _ops.bitwise("bitwise_xor", x, y)


def bitwise_not(x: Any) -> Any:
    """~x."""
    return _ops.invert(_ops.convert(x))


def shift_left(x: Any, y: Any) -> Any:
    """x << y."""
    return _ops.bitwise("shift_left", x, y)


def shift_right(x: Any, y: Any) -> Any:
    """x >> y."""
    return _ops.bitwise("shift_right", x, y)


expr = stmt = sys.modules[__name__]
"""tvm.tir.expr and tvm.tir.stmt: the same names."""
