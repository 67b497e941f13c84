"""Laws of combiners by tables over all operands there are.

An operand of 8 bits or fewer has 256 values at most, and a table of all combinations of two tells whether a law holds for all
threes. A combiner that only chooses among its operands (argmax, first of those that are not 0) does the same for all values that
lie in the same order, so a few of them stand for all: as many between neighbouring constants as three operands can have there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ....base.dataclass import dataclass
from ....base.nibbles import holds_integers
from ...dtype import DType
from ...errors import NotWellFormed
from ...expr import (
    And,
    Call,
    Cast,
    CommReducer,
    CompareOp,
    Expr,
    FloatImm,
    IfThenElse,
    IntImm,
    Max,
    Min,
    Not,
    Or,
    Select,
    Var,
)
from ...interpret.scalars import numpy_dtype
from ...visit import post_order
from .application import Application, Values, is_closed

__all__ = ["Answers", "chosen", "laws_by_orders", "laws_by_values"]

LARGEST = 256
"""Operands of a table."""
_CHOOSES = (Var, IntImm, FloatImm, CompareOp, Select, IfThenElse, Min, Max, And, Or, Not)


@dataclass(frozen=True)
class Answers:
    """The laws that hold over some operands (see laws.Laws). association, repetition, idleness: a counterexample in words."""

    associative: bool
    commutative: bool
    neutral: bool
    repeatable: bool
    idle: bool
    inside: bool
    """Return whether the identity is neutral to operands of which no element is the identity's: of others only at the end of an order."""
    association: str = ""
    repetition: str = ""
    idleness: str = ""


def laws_by_orders(part: CommReducer) -> tuple[Answers, Answers] | None:
    """The laws over all operands, and over those without NaN, infinities and -0, of a combiner that only chooses; None for another."""
    sorts = _sorts(part) if is_closed(part) else None
    if sorts is None:
        return None
    return _exhaustive_laws(part, [_representatives(part, sorts, at) for at in range(len(part.lhs))])


def laws_by_values(part: CommReducer) -> tuple[Answers, Answers] | None:
    """The same of a combiner whose operands have few values, which are all tried; None for another."""
    dtypes = [var.dtype for var in part.lhs]
    # a table of all pairs must stay small
    if not is_closed(part) or sum(dtype.bits for dtype in dtypes) > 8 or any(dtype.is_float for dtype in dtypes):
        return None
    return _exhaustive_laws(part, [_all_values(dtype) for dtype in dtypes])


def _exhaustive_laws(part: CommReducer, domains: Sequence[np.ndarray[Any, Any]]) -> tuple[Answers, Answers] | None:
    if math.prod(map(len, domains)) > LARGEST:
        return None
    table = _Table(part, domains)
    if not table.is_complete:  # a result that is none of the operands leaves the table
        return None
    everything = np.ones(len(table.operands[0]), bool)
    real = np.logical_and.reduce([_is_real(values) for values in table.operands])
    exact = table.answers(everything)
    return exact, exact if real.all() else table.answers(real)  # without NaN and -0 the answers are the same


def _is_real(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if holds_integers(values.dtype):
        return np.ones(len(values), bool)
    wide = values.astype(np.float64)
    return np.isfinite(wide) & ~((wide == 0) & np.signbit(wide))  # -0 equals 0, but its sign is lost in sums


# Values that stand for all


def _all_values(dtype: DType) -> np.ndarray[Any, Any]:
    return np.arange(dtype.least, dtype.greatest + 1).astype(numpy_dtype(dtype))


def _sorts(part: CommReducer) -> list[int] | None:
    """Return for each element the first of those that it is compared or exchanged with; None where the combiner does more than choose."""
    place = {var: at for side in (part.lhs, part.rhs) for at, var in enumerate(side)}
    sorts = list(range(len(part.lhs)))

    def join(values: Iterable[Expr], into: int | None = None) -> None:
        ours = {place[leaf] for value in values for leaf in chosen(value) if isinstance(leaf, Var) and leaf in place}
        ours |= set() if into is None else {into}
        least = min((sorts[at] for at in ours), default=0)
        met = {sorts[at] for at in ours}
        # elements that are compared with each other share their constants
        sorts[:] = [least if sort in met else sort for sort in sorts]

    for at, result in enumerate(part.result):
        for node in post_order(result):
            if not isinstance(node, _CHOOSES) and not _is_harmless(node):
                return None  # a combiner that calculates does not only choose
            if isinstance(node, (CompareOp, Min, Max)):
                join((node.a, node.b))
        join((result,), at)
    return sorts


def _is_harmless(node: Expr) -> bool:
    """Return whether a node keeps the order of values, or tells NaN from numbers."""
    if isinstance(node, Cast):
        source, target = node.value.dtype, node.dtype
        return (
            source.is_integer
            and target.is_integer
            and target.least <= source.least
            and source.greatest <= target.greatest
        )
    return isinstance(node, Call) and node.name in ("isnan", "likely")


def chosen(value: Expr) -> list[Expr]:
    """The variables and constants whose values an expression may have, beside what it calculates."""
    found: list[Expr] = []
    waiting = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, (Var, IntImm, FloatImm)):
            found.append(node)
        elif isinstance(node, (Select, IfThenElse)):
            waiting += [node.true_value, node.false_value]
        elif isinstance(node, (Min, Max)):
            waiting += [node.a, node.b]
        elif isinstance(node, Cast):
            waiting.append(node.value)
        elif isinstance(node, Call) and node.name == "likely":
            waiting += node.args
    return found


def _representatives(part: CommReducer, sorts: Sequence[int], at: int) -> np.ndarray[Any, Any]:
    """Values of an element that stand for all: constants, and between neighbours as many as three operands have elements there."""
    dtype = part.lhs[at].dtype
    if dtype.is_bool:
        return np.array([False, True])
    count = 3 * sorts.count(sorts[at])  # three operands of a law, each with so many elements of the sort
    constants = {
        node.value
        for node in post_order(*part.result, *part.identity)
        if isinstance(node, (IntImm, FloatImm)) and not node.dtype.is_bool and not math.isnan(node.value)
    }
    if dtype.is_float:
        return _floats(dtype, constants, count)
    inside = sorted(value for value in constants if dtype.least <= value <= dtype.greatest and value == int(value))
    values = set(map(int, inside))
    # between two constants any values of the same order will do
    for low, high in pairwise([dtype.least - 1, *map(int, inside), dtype.greatest + 1]):
        values.update(range(low + 1, min(low + 1 + count, high)))
    return np.array(sorted(values), numpy_dtype(dtype))


def _floats(dtype: DType, constants: Iterable[float], count: int) -> np.ndarray[Any, Any]:
    held = numpy_dtype(dtype)
    with np.errstate(all="ignore"):
        known = sorted({float(np.array(value).astype(held)) for value in constants} | {0.0})
    values: list[Any] = [-0.0, math.nan, *{*known, -math.inf, math.inf}]
    for low, high in pairwise([-math.inf, *known, math.inf]):
        if low < high:  # nothing lies between equal constants
            values += _intermediate_values(held, low, high, count)
    return np.array(values, np.float64).astype(held)


def _intermediate_values(held: np.dtype[Any], low: float, high: float, count: int) -> list[float]:
    """`count` floats between two others, or as many as there are."""
    if math.isinf(low) and math.isinf(high):
        return [float(at) for at in range(1, count + 1)]
    begin, step = (high, -1) if math.isinf(low) else (low, 1)
    found: list[float] = []
    width = min(1.0, (high - low) / (2 * count)) if not math.isinf(high - low) else max(1.0, abs(begin) / 8)
    for at in range(1, 4 * count):
        with np.errstate(all="ignore"):
            value = float(np.array(begin + step * at * width).astype(held))
        # a value that rounds to another one is not between
        if low < value < high and not math.isinf(value) and value not in (*found, begin):
            found.append(value)
    return found[:count]


# Tables


class _Table:
    """All combinations of two operands, as numbers of operands."""

    def __init__(self, part: CommReducer, domains: Sequence[np.ndarray[Any, Any]]) -> None:
        # an operand is a combination of its elements' values
        grids = np.meshgrid(*(np.arange(len(domain)) for domain in domains), indexing="ij")
        self.domains = domains
        self.operands: Values = [domain[grid.ravel()] for domain, grid in zip(domains, grids, strict=True)]
        count = len(self.operands[0])
        left, right = np.repeat(np.arange(count), count), np.tile(np.arange(count), count)
        self.is_complete = False
        try:
            apply = Application(part)
            made = apply(*([values[at] for values in self.operands] for at in (left, right)))
            begin = apply.identity()
        except NotWellFormed:  # the interpreter refuses what this combiner does
            return
        numbers, first = self._numbers(made), self._numbers(begin)
        if numbers is None or first is None:
            return
        self.is_complete, self.table, self.first = True, numbers.reshape(count, count), int(first[0])

    def _numbers(self, values: Values) -> np.ndarray[Any, Any] | None:
        """The numbers of operands; None where one is none of the table's."""
        number = np.zeros(len(values[0]), np.int64)
        for domain, own in zip(self.domains, values, strict=True):
            known, looked_up = _bits(domain), _bits(own)
            order = np.argsort(known)
            at = np.minimum(np.searchsorted(known[order], looked_up), len(known) - 1)
            if not np.array_equal(known[order][at], looked_up):  # a value outside of the domain
                return None
            number = number * len(domain) + order[at]
        return number

    def answers(self, among: np.ndarray[Any, Any]) -> Answers:
        """The laws over the operands of `among`, which combinations do not leave."""
        chosen = np.flatnonzero(among)
        table = self.table
        own = table[np.ix_(chosen, chosen)]
        # (x, y, z) that differ refute associativity
        threes = next(filter(None, (self._not_associative(x, chosen, own) for x in map(int, chosen))), None)
        starts, begun = np.union1d(table[self.first, chosen], self.first), table[self.first, chosen]
        again = np.argwhere(table[np.ix_(starts, begun)] != table[np.ix_(starts, chosen)])
        apart = [_bits(values) != _bits(values[[self.first]]) for values in self.operands]
        inside = chosen[np.logical_and.reduce(apart)[chosen]]
        left = starts[table[starts, self.first] != starts]
        return Answers(
            associative=threes is None,
            commutative=bool(np.array_equal(own, own.T)),
            neutral=bool(np.array_equal(table[chosen, self.first], chosen)),
            repeatable=not len(again),
            idle=not left.size,
            inside=bool(np.array_equal(table[inside, self.first], inside)),
            association="" if threes is None else self._association(*threes),
            repetition="" if not len(again) else self._repetition(int(starts[again[0, 0]]), int(chosen[again[0, 1]])),
            idleness="" if not left.size else self._idleness(int(left[0])),
        )

    def _repetition(self, x: int, y: int) -> str:
        table, text, first = self.table, self._text, self.first
        return (
            f"{text(x)} with {text(y)} gives {text(table[x, y])}, and with the identity {text(first)} between them "
            f"{text(table[x, table[first, y]])}"
        )

    def _idleness(self, x: int) -> str:
        return (
            f"{self._text(x)} with the identity {self._text(self.first)} gives {self._text(self.table[x, self.first])}"
        )

    def _not_associative(
        self, x: int, chosen: np.ndarray[Any, Any], own: np.ndarray[Any, Any]
    ) -> tuple[int, int, int] | None:
        left, right = self.table[np.ix_(self.table[x, chosen], chosen)], self.table[x][own]
        wrong = np.argwhere(left != right)
        return (x, int(chosen[wrong[0, 0]]), int(chosen[wrong[0, 1]])) if len(wrong) else None

    def _association(self, x: int, y: int, z: int) -> str:
        table, text = self.table, self._text
        return (
            f"({text(x)} with {text(y)}) with {text(z)} gives {text(table[table[x, y], z])}, "
            f"{text(x)} with ({text(y)} with {text(z)}) gives {text(table[x, table[y, z]])}"
        )

    def _text(self, number: Any) -> str:
        parts = [str(values[number]) for values in self.operands]
        return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"


def _bits(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Values as integers that tell them apart; all NaNs are one."""
    if values.dtype.kind in "bui":
        # as signed bits: only equality counts
        return values.astype(np.int64) if values.dtype != np.uint64 else values.view(np.int64)
    bits = values.view(f"i{values.dtype.itemsize}").astype(np.int64)
    return np.where(np.isnan(values.astype(np.float64)), np.int64(-1), bits)  # all NaNs are one
