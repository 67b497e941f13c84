"""Expressions over the lanes of a vector: what one lane computes, for all lanes at once.

    lane * 4 + i      →      Ramp(i, 4, 16)                     A[i + lane]     →      A[Ramp(i, 1, 16)]
    if_then_else(lane < n, A[lane], 0)      →      A[Ramp(0, 1, 16)] where Ramp(0, 1, 16) < Broadcast(n, 16)

What does not depend on the lane stays scalar and is broadcast where a vector meets it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from ....base import dataclass, replace
from ...accesses import reads_memory
from ...analysis.linear import is_index, linear
from ...dtype import INT64
from ...expr import (
    Add,
    And,
    BinaryOp,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IfThenElse,
    IntImm,
    Let,
    Mul,
    Not,
    Ramp,
    Select,
    Shuffle,
    StringImm,
    Sub,
    Var,
)
from ...intrinsics import INTRINSICS
from ...ops import cast, const, is_const, logical_not
from ...structural import Key, structural_key
from ...visit import free_vars
from ..common.fresh_copy import fold, substitute_expr
from .lane_conditions import some_active

__all__ = ["LaneExprs", "Mask", "NotVectorizable", "Row", "broadcast", "conjunction", "fits_rows"]


MOST_VALUES = 20_000
"""Values of one loop body over its lanes. A chain of inlined stages that choose between each other's elements wants each of
them under as many masks as there are ways to it."""


class NotVectorizable(Exception):
    """Raised and caught within this pass: the statement runs lane by lane."""


@dataclass(frozen=True, slots=True)
class Mask:
    """The lanes in which a value is wanted. scalar: the condition on the lane variable. vector: over all lanes.
    some_active: it is known that at least one lane is, so that a scalar load that the lanes share may be done."""

    scalar: Expr
    vector: Expr
    some_active: bool = False


def broadcast(value: Expr, lanes: int) -> Expr:
    """`value` in every lane; a vector as it is."""
    return value if value.dtype.lanes > 1 else Broadcast(value, lanes)


def conjunction(a: Expr | None, b: Expr) -> Expr:
    """a and b; `a` None is true."""
    return b if a is None else fold(And, a, b)


@dataclass(frozen=True, slots=True)
class Row:
    """Lanes from `base` on, `stride` apart, that lie between two multiples of `size` for some values of the base."""

    base: Expr
    stride: int
    size: int

    def holds(self, lanes: int) -> Expr:
        """The condition that they do."""
        remainder = fold(FloorMod, self.base, const(self.size, self.base.dtype))
        return remainder < const(self.size - (lanes - 1) * self.stride, self.base.dtype)

    def agrees(self, other: Row) -> bool:
        """Return whether it holds where the other does."""
        apart = linear(self.base).plus(linear(other.base), -1)
        return (
            self.stride == other.stride  # other strides or sizes cross row ends at other places
            and self.size == other.size
            and (gcd(apart.content, apart.const) % self.size == 0)
        )


def fits_rows(size: int, lanes: int) -> bool:
    """Return whether so many neighbours lie within a row of such a size often enough for that to be asked."""
    return 2 * size >= 3 * lanes  # shorter rows are crossed by most vectors, so a second copy would seldom run


class LaneExprs:
    """Turn expressions over `lane` (0 <= lane < lanes) into expressions over vectors. rows: what is taken to hold."""

    def __init__(self, lane: Var, lanes: int, rows: Sequence[Row] = ()) -> None:
        self.lane, self.lanes, self.rows = lane, lanes, rows
        self.crossed: list[Row] = []
        """Rows that lanes which are read or written may cross the end of."""
        self._in_index = False
        self._digits: set[int] = set()
        """Divisors of which the lanes of an index have every remainder."""
        self._blank: list[tuple[Expr, Mask]] = []
        """What was taken in turn, and the mask that its zeros are of."""
        self.vectors: dict[Var, Expr] = {lane: Ramp(const(0, lane.dtype), const(1, lane.dtype), lanes)}
        self.mask: Mask | None = None
        self._memo: dict[tuple[int, int], tuple[Expr, Expr, Mask | None]] = {}

    def vector(self, expr: Expr) -> Expr:
        """The value in all lanes, a vector even where all lanes agree."""
        return broadcast(self.visit(expr), self.lanes)

    def visit(self, expr: Expr) -> Expr:
        """The value in all lanes; the same scalar expression where it does not depend on the lane."""
        if isinstance(expr, (IntImm, FloatImm, StringImm)):
            return expr
        if isinstance(expr, Var):
            return self.vectors.get(expr, expr)
        key = (id(expr), id(self.mask))  # one value for each mask: what a mask leaves out differs
        known = self._memo.get(key)
        if known is None:  # the entry keeps both objects alive, so that their ids stay theirs
            if len(self._memo) > MOST_VALUES:  # the loop runs lane by lane before its text explodes
                raise NotVectorizable
            known = self._memo[key] = (self._visit(expr), expr, self.mask)
        return known[0]

    def index(self, expr: Expr) -> Expr:
        """The value of an index in all lanes."""
        outer, self._in_index = self._in_index, True
        value = self.visit(expr)
        self._in_index = outer
        return value

    def _visit(self, expr: Expr) -> Expr:
        # vectors in the source, as of an intrinsic, are not split into lanes
        if expr.dtype.lanes > 1 or isinstance(expr, (Ramp, Broadcast, Shuffle)):
            raise NotVectorizable
        if isinstance(expr, BinaryOp):
            return self._binary(expr)
        method = getattr(self, type(expr).__name__, None)
        if method is None:
            raise NotVectorizable
        return method(expr)

    # Operators

    def _binary(self, expr: BinaryOp) -> Expr:
        a, b = self.visit(expr.a), self.visit(expr.b)
        # a value that all lanes share stays scalar, and is broadcast where a vector meets it
        if a is expr.a and b is expr.b:
            return expr
        if a.dtype.lanes == 1 and b.dtype.lanes == 1:
            return fold(type(expr), a, b)
        # a ramp is one base and a step: addresses of neighbours without a gather
        ramp = self._ramp_arithmetic(type(expr), a, b) if a.dtype.is_integer else None
        return ramp if ramp is not None else type(expr)(broadcast(a, self.lanes), broadcast(b, self.lanes))

    def _ramp_arithmetic(self, kind: type[BinaryOp], a: Expr, b: Expr) -> Expr | None:
        """Sums, multiples, quotients and remainders of ramps that are ramps, or scalars, again."""
        if kind is Add or kind is Sub:
            return self._ramp_sum(kind, a, b)
        if kind is Mul:
            if isinstance(b, Ramp):
                a, b = b, a
            if isinstance(a, Ramp) and b.dtype.lanes == 1:
                return Ramp(fold(Mul, a.base, b), fold(Mul, a.stride, b), self.lanes)
        if kind in (FloorDiv, FloorMod) and isinstance(a, Ramp) and isinstance(b, IntImm):
            return self._ramp_division(kind, a, b)
        return None

    def _ramp_sum(self, kind: type[BinaryOp], a: Expr, b: Expr) -> Expr | None:
        if isinstance(a, Ramp) and isinstance(b, Ramp):
            return Ramp(fold(kind, a.base, b.base), fold(kind, a.stride, b.stride), self.lanes)
        if isinstance(a, Ramp) and b.dtype.lanes == 1:
            return Ramp(fold(kind, a.base, b), a.stride, self.lanes)
        if isinstance(b, Ramp) and a.dtype.lanes == 1:
            # scalar - ramp counts down
            stride = b.stride if kind is Add else fold(Sub, const(0, b.stride.dtype), b.stride)
            return Ramp(fold(kind, a, b.base), stride, self.lanes)
        return None

    def _ramp_division(self, kind: type[BinaryOp], ramp: Ramp, divisor: IntImm) -> Expr | None:
        """Divide a ramp: where the whole ramp lies between two multiples of the divisor, the quotient is one scalar and the
        remainder a ramp: what a vector within a row of a fused loop comes to."""
        if not (
            isinstance(ramp.stride, IntImm) and ramp.stride.value > 0 and divisor.value > 0 and is_index(ramp.base)
        ):
            return None
        if ramp.stride.value % divisor.value == 0:  # lanes of one remainder
            quotient = fold(kind, ramp.base, divisor)
            step = const(ramp.stride.value // divisor.value, ramp.stride.dtype)
            return quotient if kind is FloorMod else Ramp(quotient, step, self.lanes)
        if self._in_index and ramp.stride.value == 1 and self.lanes % divisor.value == 0:
            self._digits.add(divisor.value)
        base, row = linear(ramp.base), Row(ramp.base, ramp.stride.value, divisor.value)
        step = gcd(base.content, divisor.value)
        # the base is a multiple of `step` away from a row's begin, so the ramp may cross its end
        if base.const % step + (self.lanes - 1) * ramp.stride.value >= step and not any(map(row.agrees, self.rows)):
            if (
                self._in_index
                and fits_rows(divisor.value, self.lanes * ramp.stride.value)
                and not any(map(row.agrees, self.crossed))
            ):
                self.crossed.append(row)
            return None
        quotient = fold(kind, ramp.base, divisor)
        return quotient if kind is FloorDiv else Ramp(quotient, ramp.stride, self.lanes)

    def Cast(self, expr: Cast) -> Expr:
        value = self.visit(expr.value)
        if value is expr.value:
            return expr
        # an index does not wrap when it is widened, data may
        if isinstance(value, Ramp) and expr.dtype == INT64 and is_index(value):
            return Ramp(cast(value.base, INT64), cast(value.stride, INT64), self.lanes)
        return cast(value, expr.dtype.with_lanes(value.dtype.lanes))

    def Not(self, expr: Not) -> Expr:
        value = self.visit(expr.value)
        return expr if value is expr.value else Not(value)

    def Call(self, expr: Call) -> Expr:
        if expr.name == "likely":
            return self.visit(expr.args[0])
        args = [self.visit(arg) for arg in expr.args]
        if all(a is b for a, b in zip(args, expr.args, strict=True)):
            return expr
        row = INTRINSICS[expr.name]
        if not row.pure or row.arity < 0:  # outside code is called once for each lane
            raise NotVectorizable
        if all(arg.dtype.lanes == 1 for arg in args):
            return replace(expr, args=tuple(args))
        return Call(expr.name, tuple(broadcast(arg, self.lanes) for arg in args), expr.dtype.with_lanes(self.lanes))

    # Choices

    def Select(self, expr: Select) -> Expr:
        condition = self.visit(expr.condition)
        return self._select(expr, condition, self.visit(expr.true_value), self.visit(expr.false_value))

    def _select(self, expr: Select | IfThenElse, condition: Expr, a: Expr, b: Expr) -> Expr:
        if condition is expr.condition and a is expr.true_value and b is expr.false_value:
            return expr
        if condition.dtype.lanes > 1 or a.dtype.lanes > 1 or b.dtype.lanes > 1:
            a, b = broadcast(a, self.lanes), broadcast(b, self.lanes)
            return (
                Select(broadcast(condition, self.lanes), a, b)
                if isinstance(expr, Select)
                else type(expr)(condition, a, b)
            )
        return type(expr)(condition, a, b)

    def IfThenElse(self, expr: IfThenElse) -> Expr:
        condition = self.visit(expr.condition)
        if condition.dtype.lanes == 1:  # one branch for all lanes; a mask in force stays in force within it
            return self._select(expr, condition, self.visit(expr.true_value), self.visit(expr.false_value))
        outer = self.mask
        chosen = self.narrow(outer, expr.condition, condition)
        a = self.under(chosen, expr.true_value)
        b = self.under(self.narrow(outer, logical_not(expr.condition), Not(condition)), expr.false_value)
        if _is_zero(b) and (
            isinstance(a, BufferLoad)
            and a.predicate is chosen.vector
            or any(a is taken and chosen is mask for taken, mask in self._blank)
        ):
            return a  # lanes that are not read are zero already
        return Select(condition, broadcast(a, self.lanes), broadcast(b, self.lanes))

    def under(self, mask: Mask, expr: Expr) -> Expr:
        """The value where only the lanes of `mask` are wanted."""
        outer, self.mask = self.mask, mask
        value = self.visit(expr)
        self.mask = outer
        return value

    def narrow(self, outer: Mask | None, scalar: Expr, vector: Expr) -> Mask:
        """The lanes of `outer` in which the condition holds too."""
        if outer is None:
            return Mask(scalar, vector)
        return Mask(conjunction(outer.scalar, scalar), And(outer.vector, vector))

    # Bindings and memory

    def Let(self, expr: Let) -> Expr:
        value = self.visit(expr.value)
        var = Var(expr.var.name, value.dtype)  # fresh for scalars too: other chunks of the loop bind their own
        self.vectors[expr.var] = var
        body = self.visit(expr.body)
        del self.vectors[expr.var]
        return Let(var, value, body)

    def BufferLoad(self, expr: BufferLoad) -> Expr:
        if expr.predicate is not None:  # a load that is masked already would need both masks
            raise NotVectorizable
        indices = [self.index(index) for index in expr.indices]
        if indices[0].dtype.lanes > 1:
            # a plain ramp is one load; a gather may be several interleaved ones
            for digit in sorted(self._digits) if not isinstance(indices[0], Ramp) else ():
                in_turn = self._interleave_lanes(expr, digit)
                if in_turn is not None:
                    return in_turn
            return BufferLoad(expr.buffer, tuple(indices), None if self.mask is None else self.mask.vector)
        shared = expr if indices[0] is expr.indices[0] else BufferLoad(expr.buffer, tuple(indices))
        if self.mask is None or self.mask.some_active:  # some lane wants the element, so it may be read
            return shared
        # the lanes share the element, but where none of them wants it it may not be there
        some = None if reads_memory(self.mask.scalar) else some_active(self.mask.scalar, self.lane, self.lanes)
        wanted = None if some is None else self.visit(some)
        if wanted is None or wanted.dtype.lanes > 1:
            return BufferLoad(expr.buffer, (Broadcast(indices[0], self.lanes),), self.mask.vector)
        return shared if is_const(wanted, 1) else IfThenElse(wanted, shared, const(0, expr.dtype))

    def _interleave_lanes(self, expr: BufferLoad, count: int) -> Expr | None:
        """Lanes that are taken in turn from vectors of what lies side by side, one for each remainder; None where they are not.

            A[lane % 2 * 64 + lane // 2]      →      shuffle((A[Ramp(0, 1, 4)], A[Ramp(64, 1, 4)]), (0, 4, 1, 5, 2, 6, 3, 7))

        What a mask leaves out of them is zero.
        """
        lanes, mask = self.lanes // count, self.mask
        asked = (expr.indices[0], *(() if mask is None else (mask.scalar,)))
        own = self.vectors.keys() - {self.lane}
        if (
            lanes < 2
            or any(not own.isdisjoint(free_vars(each)) for each in asked)
            or (mask is not None and reads_memory(mask.scalar))
        ):  # what a lane may not read decides there, or has been stored since
            return None
        found: dict[tuple[Key, ...], tuple[int, BufferLoad]] = {}
        places: list[int] = []
        for remainder in range(count):
            lane = Var(self.lane.name, self.lane.dtype)
            at = lane * const(count, lane.dtype) + const(remainder, lane.dtype)
            index, *chosen = (LaneExprs(lane, lanes).visit(substitute_expr(each, {self.lane: at})) for each in asked)
            # neighbours of one remainder are not side by side: a gather is no worse
            if not isinstance(index, Ramp) or not is_const(index.stride, 1):
                return None
            load = BufferLoad(expr.buffer, (index,), broadcast(chosen[0], lanes) if chosen else None)
            places.append(found.setdefault(tuple(map(structural_key, (index, *chosen))), (len(found), load))[0])
        taken = Shuffle(
            tuple(load for _, load in found.values()),
            tuple(places[at % count] * lanes + at // count for at in range(self.lanes)),
        )
        if mask is not None:
            self._blank.append((taken, mask))  # the zeros of this load serve as those of the choice around it
        return taken


def _is_zero(value: Expr) -> bool:
    if isinstance(value, Broadcast):
        value = value.value
    if isinstance(value, FloatImm):
        return value.value.hex() == "0x0.0p+0"  # -0.0 is another bit pattern than what a masked load gives
    return isinstance(value, IntImm) and value.value == 0
