"""Floats of 8 bits by way of float32, which holds all their values: what is loaded is widened, each result is rounded, and what is
stored is narrowed to its byte.

    C[i] = A[i] * B[i]      →      C[i] = byte(wide(A[i]) * wide(B[i]))

No processor here computes in 8 bits, and few convert by an instruction. Integer operations give the same bits on all of them.
An element that is only copied keeps its type, for passes that know copies: backends take an 8-bit float for the byte that it is.

It stands after fused_sums, since a fused sum is rounded once; the rest of a pipeline sees float32.
"""

from __future__ import annotations

import math
from typing import Any

from ...contents import require_any
from ...dtype import FLOAT16, FLOAT32, FLOAT64, DType
from ...expr import (
    EQ,
    GT,
    LT,
    Add,
    BinaryOp,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    Expr,
    FloatImm,
    IfThenElse,
    Let,
    Max,
    Min,
    Mul,
    Node,
    Select,
    Shuffle,
    Sub,
    Var,
)
from ...intrinsics import INTRINSICS
from ...ops import const
from ...rounding import FLOAT8, Float8
from ...stmt import BufferStore, Function, LetStmt
from ...visit import SharingRewriter, children, deep_recursion, rebuild

__all__ = ["widen_float8"]

_CHOICES = (Select, IfThenElse, Broadcast, Shuffle)
"""Expressions whose value is one below them."""


@require_any(*FLOAT8)
def widen_float8(function: Function) -> Function:
    """`function` without arithmetic on floats of 8 bits."""
    with deep_recursion():
        return function.with_body(_Widener().visit(function.body))


def _is_float8(node: Expr) -> bool:
    return node.dtype.kind in FLOAT8


def _is_computed(call: Call) -> bool:
    """Return whether a call is a function of numbers, not of memory, bits or outside code."""
    row = INTRINSICS.get(call.name)
    return row is not None and row.pure and row.result != "given"


class _Widener(SharingRewriter):
    """`visit` makes an expression of 8-bit floats one of float32 with the same values."""

    def __init__(self) -> None:
        super().__init__()
        self._names: dict[Var, Var] = {}
        """Of shared values, which become float32."""

    def BufferStore(self, node: BufferStore) -> Node:
        places = children(node)[1:]
        return rebuild(node, [self._keep(node.value), *map(self.visit, places)])

    def LetStmt(self, node: LetStmt) -> LetStmt:
        return LetStmt(self._name(node.var), self.visit(node.value), self.visit(node.body))

    def Let(self, node: Let) -> Let:
        return Let(self._name(node.var), self.visit(node.value), self.visit(node.body))

    def FloatImm(self, node: FloatImm) -> FloatImm:
        return FloatImm(node.value, _float32(node)) if _is_float8(node) else node

    def Var(self, node: Var) -> Expr:
        return self._names[node] if node in self._names else self._load(node)

    def BufferLoad(self, node: BufferLoad) -> Expr:
        return self._load(self.generic(node))

    def Cast(self, node: Cast) -> Expr:
        return self._round(node) if _is_float8(node) else self.generic(node)

    def Call(self, node: Call) -> Expr:
        if not _is_computed(node):
            return self._load(rebuild(node, list(map(self._keep, node.args))))
        return self._round(node) if _is_float8(node) else self.generic(node)

    def generic(self, node: Any) -> Any:
        if isinstance(node, BinaryOp) and _is_float8(node) and not isinstance(node, (Min, Max)):
            return self._round(node)
        return super().generic(node)

    def _name(self, var: Var) -> Var:
        if not _is_float8(var):
            return var
        return self._names.setdefault(var, Var(var.name, _float32(var)))

    @staticmethod
    def _load(node: Expr) -> Expr:
        """The number that a byte in memory is."""
        if not _is_float8(node):
            return node
        return _decode(Call("reinterpret", (node,), _int8(node)), FLOAT8[node.dtype.kind])

    def _round(self, node: Expr) -> Expr:
        return _decode(self._byte(node), FLOAT8[node.dtype.kind])

    def _byte(self, node: Expr) -> Expr:
        return _encode(self._exact(node), FLOAT8[node.dtype.kind])

    def _exact(self, node: Expr) -> Expr:
        """The value of an 8-bit float before it is rounded: float32, or float64 where float32 would round a second time."""
        below = list(map(self.visit, children(node)))
        if isinstance(node, Cast):
            return below[0] if below[0].dtype.element in (FLOAT32, FLOAT64) else Cast(below[0], _float32(node))
        if isinstance(node, Call) and node.name == "fma":
            a, b, c = (Cast(x, FLOAT64.with_lanes(node.dtype.lanes)) for x in below)
            return Add(Mul(a, b), c)  # float64 holds the product, and the sum
        if isinstance(node, Call) and _is_computed(node):
            return Call(node.name, tuple(below), _float32(node))
        return rebuild(node, below) if isinstance(node, BinaryOp) else self.visit(node)

    def _keep(self, node: Expr) -> Expr:
        """A value as memory holds it."""
        if not _is_float8(node):
            return self.visit(node)
        if isinstance(node, FloatImm) or (isinstance(node, Var) and node not in self._names):
            return node
        if isinstance(node, BufferLoad) or (isinstance(node, Call) and not _is_computed(node)):
            below = map(self._keep if isinstance(node, Call) else self.visit, children(node))
            return rebuild(node, list(below))
        if isinstance(node, _CHOICES):
            return rebuild(node, list(map(self._keep, children(node))))
        return Call("reinterpret", (self._byte(node),), node.dtype)


def _float32(node: Expr) -> DType:
    return FLOAT32.with_lanes(node.dtype.lanes)


def _int8(node: Expr) -> DType:
    return DType("int8").with_lanes(node.dtype.lanes)


def _call(name: str, a: Expr, b: int) -> Expr:
    return Call(name, (a, const(b, a.dtype)), a.dtype)


def _decode(byte: Expr, kind: Float8) -> Expr:
    """The float32 that an int8 stands for. Both kinds are a float16 with bits left out: of the fraction alone, or of the exponent too."""
    lanes = byte.dtype.lanes
    word = _call("shift_left", Cast(byte, DType("int16").with_lanes(lanes)), 10 - kind.fraction)
    if kind.fraction == 2:
        return Cast(Call("reinterpret", (word,), FLOAT16.with_lanes(lanes)), FLOAT32.with_lanes(lanes))
    # the copy of the sign falls on the first bit of the exponent
    half = Call("reinterpret", (_call("bitwise_and", word, 0xBFFF - 0x10000),), FLOAT16.with_lanes(lanes))
    number = Cast(half, FLOAT32.with_lanes(lanes))
    number = Mul(number, const(2.0 ** (15 - kind.bias), number.dtype))
    is_nan = EQ(Call("abs", (number,), number.dtype), const(480.0, number.dtype))  # of all bits 1
    return Select(is_nan, const(math.nan, number.dtype), number)


def _encode(number: Expr, kind: Float8) -> Expr:
    """The int8 that is nearest to a float32 or float64, ties to even."""
    dtype, lanes = number.dtype, number.dtype.lanes
    digits, bias = (23, 127) if dtype.bits == 32 else (52, 1023)
    whole = DType(f"int{dtype.bits}").with_lanes(lanes)
    bits = Call("reinterpret", (number,), whole)
    size = _call("bitwise_and", bits, whole.greatest)
    left_out = digits - kind.fraction
    last = _call("bitwise_and", _call("shift_right", size, left_out), 1)
    nearest = _call("shift_right", Add(Add(size, last), const((1 << left_out - 1) - 1, whole)), left_out)
    normal = Min(Sub(nearest, const(bias - kind.bias << kind.fraction, whole)), const(kind.overflow, whole))
    # what becomes subnormal: beside this power of 2 a float's last digit is that of the least number
    power = const(2.0 ** (digits + kind.least), dtype)
    small = Sub(
        Call("reinterpret", (Add(Call("reinterpret", (size,), dtype), power),), whole),
        Call("reinterpret", (power,), whole),
    )
    code = Select(LT(size, const(bias - kind.bias + 1 << digits, whole)), small, normal)
    if kind.overflow != kind.nan:
        code = Select(
            GT(size, const((1 << dtype.bits - 1 - digits) - 1 << digits, whole)), const(kind.nan, whole), code
        )
    sign = _call("bitwise_and", _call("shift_right", bits, dtype.bits - 8), 0x80)
    return Cast(Call("bitwise_or", (code, sign), whole), DType("int8").with_lanes(lanes))
