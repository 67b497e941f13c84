"""tvm.tir: expressions by TVM's constructors (its argument order where it differs from ours).

A constructor is a class of the façade: calling it builds one of our nodes from TVM's arguments, and isinstance asks for
our node.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np

from ...ir import expr as _expr
from ...ir import ops as _ops
from ...ir import stmt as _stmt
from ...ir.accesses import written_buffers
from ...ir.buffer import Buffer
from ...ir.builder import BufferHandle
from ...ir.dtype import DType as _DType
from ...ir.expr import Broadcast, BufferLoad, Call, Expr, Let, Node, ProducerLoad, Ramp, Reduce, Shuffle
from ...ir.stmt import Function, LetStmt, Stmt
from ...ir.transform import transform as _transform
from ...ir.visit import substitute as _substitute
from ...te.polymorphic import (
    abs,
    acos,
    acosh,
    all,
    any,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    call_extern,
    call_packed,
    call_pure_extern,
    ceil,
    ceildiv,
    clz,
    comm_reducer,
    copysign,
    cos,
    cosh,
    erf,
    exp,
    exp2,
    exp10,
    floor,
    floordiv,
    floormod,
    fmod,
    hypot,
    if_then_else,
    indexdiv,
    indexmod,
    infinity,
    isfinite,
    isinf,
    isnan,
    likely,
    log,
    log1p,
    log2,
    log10,
    max,
    max_value,
    min,
    min_value,
    nearbyint,
    popcount,
    pow,
    power,
    reinterpret,
    round,
    rsqrt,
    sigmoid,
    sin,
    sinh,
    size_var,
    sqrt,
    sum,
    tan,
    tanh,
    trace,
    trunc,
    truncdiv,
    truncmod,
    var,
)
from ...te.polymorphic import call_llvm_intrin as _call_llvm_intrin
from ...te.polymorphic import decl_buffer as _decl_buffer
from . import ir_builder, stmt_functor
from . import tir_analysis as analysis
from .intrinsic_rules import CallEffectKind, call_intrin
from .nodes import theirs
from .wmma import scope_of

__all__ = [
    "EQ",
    "GE",
    "GT",
    "LE",
    "LT",
    "NE",
    "Add",
    "Allocate",
    "And",
    "AssertStmt",
    "AttrStmt",
    "Broadcast",
    "Buffer",
    "BufferLoad",
    "BufferStore",
    "Call",
    "CallEffectKind",
    "Cast",
    "Div",
    "Evaluate",
    "FloatImm",
    "FloorDiv",
    "FloorMod",
    "For",
    "ForKind",
    "IfThenElse",
    "IntImm",
    "IterVar",
    "Let",
    "LetStmt",
    "Max",
    "Min",
    "Mod",
    "Mul",
    "Not",
    "Or",
    "PrimExpr",
    "PrimFunc",
    "ProducerLoad",
    "ProducerRealize",
    "ProducerStore",
    "Ramp",
    "Reduce",
    "Select",
    "SeqStmt",
    "Shuffle",
    "SizeVar",
    "Stmt",
    "StringImm",
    "Sub",
    "Var",
    "abs",
    "acos",
    "acosh",
    "add",
    "all",
    "analysis",
    "any",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "call_extern",
    "call_intrin",
    "call_llvm_intrin",
    "call_llvm_pure_intrin",
    "call_packed",
    "call_pure_extern",
    "call_pure_intrin",
    "ceil",
    "ceildiv",
    "clz",
    "comm_reducer",
    "const",
    "copysign",
    "cos",
    "cosh",
    "decl_buffer",
    "div",
    "erf",
    "exp",
    "exp2",
    "exp10",
    "expr",
    "floor",
    "floordiv",
    "floormod",
    "fmod",
    "hypot",
    "if_then_else",
    "indexdiv",
    "indexmod",
    "infinity",
    "ir_builder",
    "isfinite",
    "isinf",
    "isnan",
    "ldexp",
    "likely",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "max",
    "max_value",
    "min",
    "min_value",
    "multiply",
    "nearbyint",
    "popcount",
    "pow",
    "power",
    "q_multiply_shift",
    "reinterpret",
    "round",
    "rsqrt",
    "shift_left",
    "shift_right",
    "sigmoid",
    "sin",
    "sinh",
    "sqrt",
    "stmt",
    "stmt_functor",
    "stmt_list",
    "stmt_seq",
    "subtract",
    "sum",
    "tan",
    "tanh",
    "trace",
    "trunc",
    "truncdiv",
    "truncmod",
]

PrimExpr = Expr
call_pure_intrin = call_intrin


def const(value: Any, dtype: Any = None) -> Expr:
    """A constant. One of numpy's numbers keeps its dtype, float64 too."""
    own: Any = value.dtype if isinstance(cast("object", value), np.generic) else None
    return _ops.const(value, dtype or own)


def decl_buffer(
    shape: Any, dtype: Any = "float32", name: str = "buffer", *args: Any, scope: str = "", **named: Any
) -> Buffer:
    """Declare a buffer as te.decl_buffer does, with TVM's scopes of tensor cores."""
    return _decl_buffer(shape, dtype, name, *args, scope=scope_of(scope), **named)


class ForKind:
    """tvm.tir.ForKind: the kinds of loops."""

    SERIAL, PARALLEL, VECTORIZED = _stmt.LoopKind.SERIAL, _stmt.LoopKind.PARALLEL, _stmt.LoopKind.VECTORIZED
    UNROLLED, THREAD_BINDING = _stmt.LoopKind.UNROLLED, _stmt.LoopKind.THREAD


class _Constructor(type):
    """The type of the constructors: what they build, and which node they stand for."""

    node: type[Node]
    build: Callable[..., Node]

    def __call__(cls, *args: Any, **named: Any) -> Any:
        node = cls.build(*args, **named)
        return node if isinstance(node, Expr) else theirs(node)  # expressions may become a te.compute's

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.node)


def _constructor(node: type[Node], build: Callable[..., Node]) -> Any:
    return _Constructor(node.__name__, (), {"node": node, "build": staticmethod(build), "__doc__": node.__doc__})


def _binary(node: type[_expr.BinaryOp]) -> Any:
    """The constructor of an operator: operands are matched, and nothing is folded."""

    def build(a: Any, b: Any) -> Expr:
        return node(*_ops.match_types(a, b))

    return _constructor(node, build)


def _evaluate(value: Any) -> Stmt:
    return _stmt.Evaluate(_ops.convert(value))


Evaluate = _constructor(_stmt.Evaluate, _evaluate)
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


def _iter_var(dom: Any, var: Any, iter_type: int = 0, thread_tag: str = "") -> Any:
    """An iteration variable over a range (None: open), of one of TVM's kinds."""
    name = var if isinstance(var, str) else var.name
    domain = dom if dom is None or isinstance(dom, _expr.Range) else _expr.Range(*map(_ops.convert, dom))
    dtype = _DType("int32") if domain is None else domain.extent.dtype
    return _expr.IterVar(name, dtype, domain, _ITER_KINDS.get(iter_type, "opaque"), thread_tag)


_ITER_KINDS: dict[int, _expr.IterKind] = {0: "data", 1: "thread", 2: "reduce", 3: "ordered"}
IterVar = _constructor(_expr.IterVar, _iter_var)
for _at, _name in enumerate(
    (
        "DataPar",
        "ThreadIndex",
        "CommReduce",
        "Ordered",
        "DimInfo",
        "Unrolled",
        "Vectorized",
        "Parallelized",
        "Tensorized",
    )
):
    setattr(IterVar, _name, _at)


_KINDS = tuple(_stmt.LoopKind)[:4]
"""Loop kinds by the numbers that TVM gave them: serial, parallel, vectorized, unrolled."""


def _build_loop(loop_var: Any, min_val: Any, extent: Any, kind: Any, *rest: Any) -> Stmt:
    """For(var, min, extent, kind, body), or with TVM 0.7's device_api before the body."""
    body = next(part for part in rest if isinstance(part, Stmt))
    chosen = _KINDS[kind] if isinstance(kind, int) else kind
    first, count = (_ops.cast(_ops.convert(value), loop_var.dtype) for value in (min_val, extent))
    return _stmt.For(loop_var, first, count, chosen, body)


def _seq(seq: Any) -> Stmt:
    return _stmt.Seq(tuple(seq))


def _if(condition: Any, then_case: Stmt, else_case: Stmt | None = None) -> Stmt:
    return _stmt.If(_ops.convert(condition), then_case, else_case)


def _attr(node: Any, attr_key: str, value: Any, body: Stmt) -> Stmt:
    return _stmt.Attr(attr_key, node, _ops.convert(value), body)


def _assert(condition: Any, message: Any, body: Stmt | None = None) -> Stmt:
    statement = _stmt.Assert(
        _ops.convert(condition), message.value if isinstance(message, _expr.StringImm) else str(message)
    )
    return statement if body is None else _stmt.Seq((statement, body))


def _prim_func(params: Any, body: Stmt, ret_type: object = None, buffer_map: Any = None, attrs: Any = None) -> Any:
    """A function of buffers and scalars; `with_attr("global_symbol", name)` names it. buffer_map: the buffer of a param."""
    del ret_type
    buffers: Mapping[Any, Any] = buffer_map or dict[Any, Any]()
    declared: list[Any] = [
        param.buffer if isinstance(param, BufferHandle) else buffers.get(param, param) for param in params
    ]
    plain = {
        buffer: Buffer(buffer.name, buffer.shape, buffer.dtype) for buffer in declared if isinstance(buffer, Buffer)
    }
    offsets = {
        buffer.elem_offset: _ops.const(0, buffer.elem_offset.dtype)
        for buffer in plain
        if isinstance(buffer.elem_offset, _expr.Var)
    }

    def of_arguments(node: Any) -> Any:
        return replace(node, buffer=plain[node.buffer]) if node.buffer in plain else None

    body = _transform(_substitute(body, offsets), None, of_arguments, (BufferLoad, BufferStore))
    given: tuple[Any, ...] = tuple(plain.get(param, param) for param in declared)
    written = written_buffers(body)
    outputs = tuple(buffer for buffer in given if isinstance(buffer, Buffer) and buffer in written)
    name = str(attrs.get("global_symbol", "main") if attrs else "main")
    return Function(name, given, body, outputs, {"stage": "loops"})


PrimFunc = _constructor(cast("Any", Function), _prim_func)
Allocate, BufferStore = _constructor(_stmt.Allocate, _stmt.Allocate), _constructor(_stmt.BufferStore, _stmt.BufferStore)
ProducerRealize, ProducerStore = Allocate, BufferStore
For, SeqStmt, IfThenElse = (
    _constructor(_stmt.For, _build_loop),
    _constructor(_stmt.Seq, _seq),
    _constructor(_stmt.If, _if),
)
AttrStmt, AssertStmt = _constructor(_stmt.Attr, _attr), _constructor(_stmt.Assert, _assert)
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


def add(lhs: Any, rhs: Any, span: object = None) -> Any:
    """lhs + rhs."""
    del span
    return lhs + rhs


def subtract(lhs: Any, rhs: Any, span: object = None) -> Any:
    """lhs - rhs."""
    del span
    return lhs - rhs


def multiply(lhs: Any, rhs: Any, span: object = None) -> Any:
    """lhs * rhs."""
    del span
    return lhs * rhs


def logaddexp(a: Any, b: Any) -> Expr:
    """log(exp(a) + exp(b)), without overflow."""
    a, b = _ops.match_types(a, b)
    return _ops.select(
        a.equal(b), a + math.log(2.0), max(a, b) + log1p(exp(-abs(a - b)))
    )  # two infinities have no difference


def ldexp(x1: Any, x2: Any) -> Expr:
    """x1 * 2**x2."""
    x1 = _ops.convert(x1)
    return x1 * exp2(_ops.cast(_ops.convert(x2), x1.dtype))


def q_multiply_shift(x: Any, y: Any, q: Any, s: Any) -> Expr:
    """The product of two fixed-point numbers of q fractional bits, times 2**s, rounded half up, as int32."""
    x, y, q, s = (_ops.cast(_ops.convert(operand), _DType("int64")) for operand in (x, y, q, s))
    right = q - min(s, _ops.const(0, "int64"))
    product = shift_left(x, max(s, _ops.const(0, "int64"))) * y + shift_left(_ops.const(1, "int64"), right - 1)
    return _ops.cast(shift_right(product, right), _DType("int32"))


def stmt_seq(*args: Any) -> Stmt:
    """Statements one after another; an expression is evaluated."""
    parts = tuple(arg if isinstance(arg, Stmt) else Evaluate(arg) for arg in args)
    return parts[0] if len(parts) == 1 else _stmt.Seq(parts)


def stmt_list(stmt: Stmt) -> list[Stmt]:
    """The statements of a sequence, also of those within it."""
    return [inner for part in stmt.body for inner in stmt_list(part)] if isinstance(stmt, _stmt.Seq) else [stmt]


expr = stmt = sys.modules[__name__]
sys.modules |= {f"{__name__}.{module.__name__.rpartition('.')[2]}": module for module in (ir_builder, stmt_functor)}
sys.modules[f"{__name__}.analysis"] = analysis
"""tvm.tir.expr and tvm.tir.stmt: the same names."""
