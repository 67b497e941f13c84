"""Equal numbers for expressions that are equal in structure: what is shared, and what merely looks the same, in linear time."""

from __future__ import annotations

from collections.abc import Sequence

from ....base.dataclass import dataclass
from ...analysis.linear import is_index
from ...dtype import DType
from ...expr import (
    BinaryOp,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IfThenElse,
    Let,
    Not,
    ProducerLoad,
    Ramp,
    Select,
    Shuffle,
    TruncDiv,
    TruncMod,
    Var,
)
from ...intrinsics import is_pure
from ...structural import own_key
from ...visit import children, post_order

__all__ = ["MIN_COST", "Numbering", "Value", "reinterpret_bits", "operation_cost", "name_value"]

MIN_COST = 3
"""What a value must cost, in simple operations, to be worth a name."""
_MOST = 1 << 20
"""Costs and sizes from here on are one: they say that something is huge."""
_CALL_COST, _DIVISION_COST = 8, 3


@dataclass(slots=True)
class Value:
    """A value by number: where it was first met, and the numbers of its operands. cost: simple operations on data; index
    arithmetic is free. size: nodes of its text. nameable: whether it may have a name at all. on_data: whether it depends on what
    memory holds, or on outside code."""

    expr: Expr
    operands: tuple[int, ...]
    cost: int
    size: int
    nameable: bool
    on_data: bool


class Numbering:
    """Numbers count from 0, operands before what is made of them."""

    def __init__(self) -> None:
        self.values: list[Value] = []
        self._known: dict[object, int] = {}
        self._of: dict[int, int] = {}
        self._alive: list[Expr] = []

    def number(self, expr: Expr) -> int:
        """The number of an expression: that of every other of its structure over the same variables and buffers."""
        known = self._of.get(id(expr))
        if known is not None:
            return known
        for node in post_order(expr, done=self._of):
            assert isinstance(node, Expr)
            self._of[id(node)] = self._enter(node)
            self._alive.append(node)  # an id is only unique while its object lives
        return self._of[id(expr)]

    def _enter(self, node: Expr) -> int:
        operands = tuple([self._of[id(child)] for child in children(node)])
        key = (own_key(node), operands)
        place = self._known.get(key)
        if place is None:
            place = self._known[key] = len(self.values)
            parts = [self.values[operand] for operand in operands]
            impure = isinstance(node, Call) and not is_pure(node.name)
            nameable = (
                # lanes and lets have no place of their own for a binding before the statement
                all(part.nameable for part in parts)
                and not isinstance(node, (Let, Ramp, Broadcast, Shuffle))
                and not impure
            )
            on_data = (
                any(part.on_data for part in parts)
                or isinstance(node, (BufferLoad, ProducerLoad))
                or impure
                # outside code may return anything, as memory may hold anything
                or (isinstance(node, Call) and "extern" in node.name)
            )
            # sizes double at each shared level: saturate before they become bignums
            size = min(1 + sum(part.size for part in parts), _MOST)
            self.values.append(
                Value(node, operands, operation_cost(node, [part.cost for part in parts]), size, nameable, on_data)
            )
        return place


def operation_cost(node: Expr, below: Sequence[int]) -> int:
    """Simple operations on data of a value whose operands cost `below`."""
    if isinstance(node, BufferLoad):
        return 1
    own = 0
    if isinstance(node, Call):
        own = 0 if node.name == "likely" else _CALL_COST
    elif isinstance(node, (Div, FloorDiv, FloorMod, TruncDiv, TruncMod)):
        own = _DIVISION_COST if any(below) else 0  # index arithmetic is hoisted or folded by LLVM
    elif isinstance(node, (BinaryOp, Cast, Not, Select, IfThenElse)):
        own = 1 if any(below) else 0
    return min(own + sum(below), _MOST)


def name_value(value: Expr) -> tuple[Var, Expr]:
    """(a name, the value by it). A variable of int32 or int64 counts as index arithmetic, which does not overflow; data does,
    so it goes by a name of its bits."""
    dtype = value.dtype
    # a named index would be opaque to range analysis if it were unsigned
    if dtype.kind != "int" or dtype.bits < 32 or is_index(value):
        var = Var("cse", dtype)
        return var, var
    var = Var("cse", DType(f"u{dtype}"))
    return var, reinterpret_bits(var, dtype)


def reinterpret_bits(value: Expr, dtype: DType) -> Expr:
    """The bits of a value as one of `dtype`."""
    return value if value.dtype == dtype else Call("reinterpret", (value,), dtype)
