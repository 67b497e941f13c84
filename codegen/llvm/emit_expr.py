"""Expressions as LLVM text: a table from node class to builder."""

from __future__ import annotations

from collections.abc import Callable

from ...base.errors import InternalError
from ...ir.dtype import DType
from ...ir.expr import (
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
    BufferLoad,
    Call,
    Cast,
    Div,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IfThenElse,
    IntImm,
    IterVar,
    Let,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Ramp,
    Select,
    Shuffle,
    SizeVar,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
)
from ...ir.rounding import wrap_int
from . import memory
from .arithmetic import compare, convert, divide, emit_maximum, float_floor_quotient, float_remainder
from .emitter import Builder, ExprEmitter
from .intrinsics import emit_call
from .types import computing_dtype, float_constant, int_constant, llvm_type, mangle_type, shuffle_mask

__all__ = ["BUILDERS"]


# Leaves


def _variable(em: ExprEmitter, expr: Var) -> str:
    value = em.variables.get(expr)
    if value is None:
        raise InternalError(f"variable {expr.name} is used where it is not bound")
    return value


def _integer(_: ExprEmitter, expr: IntImm) -> str:
    return int_constant(expr.value, expr.dtype)


def _float(_: ExprEmitter, expr: FloatImm) -> str:
    return float_constant(expr.value, expr.dtype)


# Operators


def _arithmetic(integer: str, floating: str) -> Callable[[ExprEmitter, BinaryOp], str]:
    def build(em: ExprEmitter, expr: BinaryOp) -> str:
        a, b, dtype = em.value(expr.a), em.value(expr.b), expr.dtype
        if not dtype.is_float:
            flags = " nsw" if em.facts.never_overflows(expr) else ""
            return em.f.op(f"{integer}{flags} {llvm_type(dtype)} {a}, {b}")
        own = dtype.element == "float16" and em.f.module.conversions.arithmetic and "contract" in em.float_flags
        wide = dtype if own else computing_dtype(dtype)  # the arithmetic of 16-bit floats is done in 32 bits
        a, b = convert(em.f, a, dtype, wide), convert(em.f, b, dtype, wide)
        # In 32 bits every operation of theirs is rounded: nothing may be contracted, even where it may be elsewhere.
        flags = em.float_flags if wide is dtype else ""
        return convert(em.f, em.f.op(f"{floating} {flags}{llvm_type(wide)} {a}, {b}"), wide, dtype)

    return build


def _division(*, floor: bool, want_remainder: bool) -> Callable[[ExprEmitter, BinaryOp], str]:
    def build(em: ExprEmitter, expr: BinaryOp) -> str:
        a, b, dtype = em.value(expr.a), em.value(expr.b), expr.dtype
        if dtype.is_float:
            return _float_division(em, a, b, dtype, floor, want_remainder)
        # known signs allow unsigned division
        unsigned = em.facts.not_negative(expr.a) and em.facts.not_negative(expr.b)
        return divide(
            em.f,
            a,
            b,
            dtype,
            floor=floor,
            divisor=em.constant_int(expr.b),
            unsigned=unsigned,
            want_remainder=want_remainder,
        )

    return build


def _float_division(em: ExprEmitter, a: str, b: str, dtype: DType, floor: bool, want_remainder: bool) -> str:
    wide = computing_dtype(dtype)
    a, b = convert(em.f, a, dtype, wide), convert(em.f, b, dtype, wide)
    if want_remainder:
        result = float_remainder(em.f, a, b, wide, floor=floor)
    elif floor:
        result = float_floor_quotient(em.f, a, b, wide)
    else:
        kind = llvm_type(wide)
        quotient = em.f.op(f"fdiv {kind} {a}, {b}")
        # C's truncated quotient of floats
        result = em.f.op(f"call {kind} @llvm.trunc.{mangle_type(wide)}({kind} {quotient})")
    return convert(em.f, result, wide, dtype)


def _extremum(*, least: bool) -> Callable[[ExprEmitter, BinaryOp], str]:
    def build(em: ExprEmitter, expr: BinaryOp) -> str:
        dtype, wide = expr.dtype, computing_dtype(expr.dtype)
        x, y = convert(em.f, em.value(expr.a), dtype, wide), convert(em.f, em.value(expr.b), dtype, wide)
        found = emit_maximum(em.f, x, y, wide, least=least, maths=em.maths, flags=em.signless, serial=em.serial)
        return convert(em.f, found, wide, dtype)

    return build


def _comparison(em: ExprEmitter, expr: BinaryOp) -> str:
    dtype = expr.a.dtype
    wide = computing_dtype(dtype)
    a, b = (convert(em.f, em.value(side), dtype, wide) for side in (expr.a, expr.b))
    return compare(em.f, expr.symbol, a, b, wide)


def _logical(operation: str) -> Callable[[ExprEmitter, BinaryOp], str]:
    def build(em: ExprEmitter, expr: BinaryOp) -> str:
        a, b = em.value(expr.a), em.value(expr.b)
        return em.f.op(f"{operation} {llvm_type(expr.dtype)} {a}, {b}")

    return build


def _not(em: ExprEmitter, expr: Not) -> str:
    return em.f.op(f"xor {llvm_type(expr.dtype)} {em.value(expr.value)}, {int_constant(1, expr.dtype)}")


def _cast(em: ExprEmitter, expr: Cast) -> str:
    not_negative = expr.value.dtype.kind == "int" and em.facts.not_negative(expr.value)
    return convert(em.f, em.value(expr.value), expr.value.dtype, expr.dtype, not_negative=not_negative)


def _let(em: ExprEmitter, expr: Let) -> str:
    em.variables[expr.var] = em.value(expr.value)
    em.facts.bind_value(expr.var, expr.value)
    return em.value(expr.body)


# Vectors


def _ramp(em: ExprEmitter, expr: Ramp) -> str:
    dtype, kind = expr.dtype, llvm_type(expr.dtype)
    flags = " nsw" if em.facts.never_overflows(expr) else ""
    stride = em.constant_int(expr.stride)
    start, first = expr.base, 0
    if (
        stride is not None and isinstance(start, Add) and isinstance(start.b, IntImm)
    ):  # one vector serves ramps that lie apart
        start, first = start.a, start.b.value
    base = _broadcast_value(em, start, dtype)  # a splat of the base, and constants for the lanes
    if stride is not None:
        element, scalar = dtype.element, llvm_type(dtype.element)
        # numbers wrap in the ramp's type
        steps = f"<{', '.join(f'{scalar} {wrap_int(first + lane * stride, element)}' for lane in range(dtype.lanes))}>"
    else:
        numbers = f"<{', '.join(f'{llvm_type(dtype.element)} {lane}' for lane in range(dtype.lanes))}>"
        # a stride known only at run time
        steps = em.f.op(f"mul{flags} {kind} {_broadcast_value(em, expr.stride, dtype)}, {numbers}")
    return em.f.op(f"add{flags} {kind} {base}, {steps}")


def _broadcast(em: ExprEmitter, expr: Broadcast) -> str:
    return _broadcast_value(em, expr.value, expr.dtype)


def _broadcast_value(em: ExprEmitter, scalar: Expr, dtype: DType) -> str:
    if isinstance(scalar, IntImm):
        return int_constant(scalar.value, dtype)
    if isinstance(scalar, FloatImm):
        return float_constant(scalar.value, dtype)
    return em.splat(em.value(scalar), dtype)


def _shuffle(em: ExprEmitter, expr: Shuffle) -> str:
    joined, dtype = em.value(expr.vectors[0]), expr.vectors[0].dtype
    for vector in expr.vectors[1:]:
        joined, dtype = _concatenate(em, joined, dtype, em.value(vector), vector.dtype)
    if len(expr.indices) == 1:
        if dtype.lanes == 1:
            return joined
        return em.f.op(f"extractelement {llvm_type(dtype)} {joined}, i64 {expr.indices[0]}")
    if dtype.lanes == 1:  # one lane repeated is a splat
        return em.splat(joined, expr.dtype)
    kind = llvm_type(dtype)
    return em.f.op(f"shufflevector {kind} {joined}, {kind} poison, {shuffle_mask(expr.indices)}")


def _concatenate(em: ExprEmitter, a: str, a_dtype: DType, b: str, b_dtype: DType) -> tuple[str, DType]:
    """The lanes of a, then those of b."""
    lanes = a_dtype.lanes + b_dtype.lanes
    common = max(a_dtype.lanes, b_dtype.lanes, 2)  # shufflevector wants two operands of one width
    padded = [_pad(em, v, d, common) for v, d in ((a, a_dtype), (b, b_dtype))]
    kind = llvm_type(a_dtype.with_lanes(common))
    mask = [*range(a_dtype.lanes), *range(common, common + b_dtype.lanes)]
    joined = em.f.op(f"shufflevector {kind} {padded[0]}, {kind} {padded[1]}, {shuffle_mask(mask)}")
    return joined, a_dtype.with_lanes(lanes)


def _pad(em: ExprEmitter, value: str, dtype: DType, lanes: int) -> str:
    if dtype.lanes == lanes:
        return value
    if dtype.lanes == 1:
        return em.f.op(f"insertelement {llvm_type(dtype.with_lanes(lanes))} poison, {llvm_type(dtype)} {value}, i64 0")
    kind = llvm_type(dtype)
    mask = [*range(dtype.lanes), *[0] * (lanes - dtype.lanes)]
    # lanes that nobody reads may be any
    return em.f.op(f"shufflevector {kind} {value}, {kind} poison, {shuffle_mask(mask)}")


# Memory


def _load(em: ExprEmitter, expr: BufferLoad) -> str:
    index = expr.indices[-1] if expr.indices else IntImm(0)
    return memory.load(em, expr.buffer, index, expr.predicate)


BUILDERS: dict[type[Expr], Builder] = {
    Var: _variable,
    SizeVar: _variable,
    IterVar: _variable,
    IntImm: _integer,
    FloatImm: _float,
    Add: _arithmetic("add", "fadd"),
    Sub: _arithmetic("sub", "fsub"),
    Mul: _arithmetic("mul", "fmul"),
    Div: _arithmetic("div", "fdiv"),
    FloorDiv: _division(floor=True, want_remainder=False),
    FloorMod: _division(floor=True, want_remainder=True),
    TruncDiv: _division(floor=False, want_remainder=False),
    TruncMod: _division(floor=False, want_remainder=True),
    Min: _extremum(least=True),
    Max: _extremum(least=False),
    **dict.fromkeys((LT, LE, GT, GE, EQ, NE), _comparison),
    And: _logical("and"),
    Or: _logical("or"),
    Not: _not,
    Cast: _cast,
    Let: _let,
    Select: lambda em, expr: em.select(expr.condition, expr),
    IfThenElse: ExprEmitter.if_then_else,
    Ramp: _ramp,
    Broadcast: _broadcast,
    Shuffle: _shuffle,
    BufferLoad: _load,
    Call: emit_call,
}
