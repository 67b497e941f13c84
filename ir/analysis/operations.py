"""The operations of an expression, by what they are and of which type.

    max(A[i] * 2.0 + exp(B[i]), 0.0)      two ARITHMETIC and a maximum of float32, one CALL of exp, two LOADs, ...

What addresses are computed from is not counted: it is hoisted, or part of the access. A value that occurs in several places
counts once, as it is computed once. What decides between values is counted apart from them: it is mostly arithmetic of
indices, and of the values it leaves some out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from enum import Enum

from ...base import dataclass, field
from ..combine import FUSED
from ..dtype import DType
from ..expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
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
    Node,
    Not,
    Or,
    ProducerLoad,
    Ramp,
    Reduce,
    Select,
    Shuffle,
    SizeVar,
    StringImm,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
)
from ..visit import children

__all__ = ["Bag", "Kind", "Operations", "Operator", "count_operations"]


class Kind(Enum):
    """Class of an operator."""

    ARITHMETIC = "arithmetic"
    """A sum, difference or product, a minimum or a maximum."""
    DIVISION = "division"
    COMPARISON = "comparison"
    LOGIC = "logic"
    CHOICE = "choice"
    """Of one of two values."""
    CONVERSION = "conversion"
    CALL = "call"
    """Of an intrinsic, which gives it its name, or of outside code."""
    LOAD = "load"
    LANES = "lanes"
    """A vector made of scalars, or of parts of vectors."""
    OPERAND = "operand"
    """A constant or a variable."""
    BINDING = "binding"


_KINDS: dict[type[Expr], Kind] = {
    **dict.fromkeys((Add, Sub, Mul, Min, Max), Kind.ARITHMETIC),
    **dict.fromkeys((Div, FloorDiv, FloorMod, TruncDiv, TruncMod), Kind.DIVISION),
    **dict.fromkeys((EQ, NE, LT, LE, GT, GE), Kind.COMPARISON),
    **dict.fromkeys((And, Or, Not), Kind.LOGIC),
    **dict.fromkeys((Select, IfThenElse), Kind.CHOICE),
    **dict.fromkeys((BufferLoad, ProducerLoad), Kind.LOAD),
    **dict.fromkeys((Ramp, Broadcast, Shuffle), Kind.LANES),
    **dict.fromkeys((Var, SizeVar, IterVar, IntImm, FloatImm, StringImm), Kind.OPERAND),
    Cast: Kind.CONVERSION,
    Call: Kind.CALL,
    Let: Kind.BINDING,
}


@dataclass(frozen=True, slots=True)
class Operator:
    """Operator whose work is counted.

    name: of the class of expression ("Add", "FloorDiv"), or of the function that is called ("exp"). dtype: of its
    result, with as many lanes as that has.
    """

    kind: Kind
    name: str
    dtype: DType


class Bag(Counter[Operator]):
    """Return the number of times each operator occurs."""

    def number(self, *kinds: Kind, but: Collection[str] = ()) -> int:
        """Return the number of nodes of some kinds. but: names that are left out."""
        return sum(count for operator, count in self.items() if operator.kind in kinds and operator.name not in but)


@dataclass(frozen=True, slots=True)
class Operations:
    """The operators of one evaluation: in values, and in what decides between them."""

    values: Bag = field(default_factory=Bag)
    conditions: Bag = field(default_factory=Bag)

    @property
    def is_exact(self) -> bool:
        """Return whether each evaluation does them all: no choice leaves some out."""
        return not self.values.number(Kind.CHOICE)

    @property
    def all(self) -> Bag:
        """Both."""
        return Bag(self.values + self.conditions)


def count_operations(values: Iterable[Expr], conditions: Iterable[Expr] = ()) -> Operations:
    """The operations of some values, evaluated together, and of conditions that decide about them. Takes time linear in the
    number of nodes."""
    seen: set[int] = set()
    deciding: list[Node] = list(conditions)
    return Operations(_count(list(values), seen, deciding), _count(deciding, seen, None))


def _count(stack: list[Node], seen: set[int], deciding: list[Node] | None) -> Bag:
    """The operators of all nodes below those on the stack that were not seen before. deciding: where the conditions of
    choices go instead."""
    bag = Bag()
    while stack:
        node = stack.pop()
        if id(node) in seen or not isinstance(node, Expr):
            continue
        seen.add(id(node))
        if isinstance(node, Reduce):
            raise AssertionError("a reduction is counted as the loops that it is")
        if isinstance(node, Call) and node.name in FUSED:
            bag.update(Operator(Kind.ARITHMETIC, name, node.dtype) for name in ("Mul", "Add"))
            stack += node.args
            continue
        bag[Operator(_KINDS[type(node)], node.name if isinstance(node, Call) else type(node).__name__, node.dtype)] += 1
        if isinstance(node, (BufferLoad, ProducerLoad)):
            continue
        if deciding is not None and isinstance(node, (Select, IfThenElse)):
            deciding.append(node.condition)
            stack += (node.true_value, node.false_value)
        else:
            stack += children(node)
    return bag
