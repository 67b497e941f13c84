"""The language of the rule tables, and how a table is matched.

A pattern is written as the expression that it matches: `x, y, z` stand for any expression, `c0, c1, c2` for integer
constants, numbers for themselves. A variable that occurs twice must match the same (interned) expression twice. In a
result, arithmetic on constants alone is computed: `x // (c0 * c1)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from typing import Any

from ...base import dataclass, field
from ..dtype import BOOL, DType
from ..expr import (
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
    Cast,
    Div,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IfThenElse,
    IntImm,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Ramp,
    Select,
    Sub,
    TruncDiv,
    TruncMod,
)
from ..ops import const, integer_value
from .scope import Nodes

__all__ = [
    "WATCHERS",
    "Computed",
    "Constant",
    "Number",
    "Operation",
    "Pattern",
    "Rule",
    "RuleTable",
    "Wild",
    "convert_to_integer",
    "broadcast",
    "build",
    "c0",
    "c1",
    "c2",
    "equal",
    "evaluate",
    "has_wild",
    "if_then_else",
    "lanes",
    "match",
    "maximum",
    "minimum",
    "operation",
    "ramp",
    "select",
    "truncdiv",
    "truncmod",
    "unequal",
    "variants",
    "w",
    "x",
    "y",
    "z",
]

Bindings = dict[str, Any]

WATCHERS: list[Callable[[Rule], None]] = []
"""Told of every rule that fires; the tests count."""


class Pattern:
    """A tree to match expressions with, or to build them from."""

    __slots__ = ()

    def __add__(self, other: Operand) -> Operation:
        return operation(Add, self, other)

    def __radd__(self, other: Operand) -> Operation:
        return operation(Add, other, self)

    def __sub__(self, other: Operand) -> Operation:
        return operation(Sub, self, other)

    def __rsub__(self, other: Operand) -> Operation:
        return operation(Sub, other, self)

    def __mul__(self, other: Operand) -> Operation:
        return operation(Mul, self, other)

    def __rmul__(self, other: Operand) -> Operation:
        return operation(Mul, other, self)

    def __truediv__(self, other: Operand) -> Operation:
        return operation(Div, self, other)

    def __floordiv__(self, other: Operand) -> Operation:
        return operation(FloorDiv, self, other)

    def __rfloordiv__(self, other: Operand) -> Operation:
        return operation(FloorDiv, other, self)

    def __mod__(self, other: Operand) -> Operation:
        return operation(FloorMod, self, other)

    def __rmod__(self, other: Operand) -> Operation:
        return operation(FloorMod, other, self)

    def __lt__(self, other: Operand) -> Operation:
        return operation(LT, self, other)

    def __le__(self, other: Operand) -> Operation:
        return operation(LE, self, other)

    def __gt__(self, other: Operand) -> Operation:
        return operation(GT, self, other)

    def __ge__(self, other: Operand) -> Operation:
        return operation(GE, self, other)

    def __and__(self, other: Operand) -> Operation:
        return operation(And, self, other)

    def __or__(self, other: Operand) -> Operation:
        return operation(Or, self, other)

    def __invert__(self) -> Operation:
        return operation(Not, self)


@dataclass(frozen=True, slots=True)
class Wild(Pattern):
    """Any expression."""

    name: str


@dataclass(frozen=True, slots=True)
class Constant(Pattern):
    """Any integer constant; it is bound to its value."""

    name: str


@dataclass(frozen=True, slots=True)
class Number(Pattern):
    """The constant `value`; a float one matches a float constant of the same bits."""

    value: int | float


@dataclass(frozen=True, slots=True)
class Operation(Pattern):
    """A node of class `kind`. Lanes of vectors are bound where `lanes` names them."""

    kind: type[Expr]
    operands: tuple[Pattern, ...]
    lanes: str = ""


@dataclass(frozen=True, slots=True)
class Computed(Pattern):
    """Computed constant of a result: the integer that `function` makes of the constants that its parameters name."""

    function: Callable[[int], int] | Callable[[int, int], int]


Operand = Pattern | int | float


def operation(kind: type[Expr], *operands: Operand, lanes: str = "") -> Operation:
    """A pattern node over patterns and numbers."""
    return Operation(kind, tuple(o if isinstance(o, Pattern) else Number(o) for o in operands), lanes)


def minimum(a: Operand, b: Operand) -> Operation:
    return operation(Min, a, b)


def maximum(a: Operand, b: Operand) -> Operation:
    return operation(Max, a, b)


def truncdiv(a: Operand, b: Operand) -> Operation:
    return operation(TruncDiv, a, b)


def truncmod(a: Operand, b: Operand) -> Operation:
    return operation(TruncMod, a, b)


def equal(a: Operand, b: Operand) -> Operation:
    return operation(EQ, a, b)


def unequal(a: Operand, b: Operand) -> Operation:
    return operation(NE, a, b)


def convert_to_integer(condition: Operand) -> Operation:
    """A condition as 0 or 1."""
    return operation(Cast, condition)


def select(c: Operand, a: Operand, b: Operand) -> Operation:
    return operation(Select, c, a, b)


def if_then_else(c: Operand, a: Operand, b: Operand) -> Operation:
    return operation(IfThenElse, c, a, b)


def ramp(base: Operand, stride: Operand) -> Operation:
    return operation(Ramp, base, stride, lanes="lanes")


def broadcast(value: Operand) -> Operation:
    return operation(Broadcast, value, lanes="lanes")


w, x, y, z = Wild("w"), Wild("x"), Wild("y"), Wild("z")
c0, c1, c2 = Constant("c0"), Constant("c1"), Constant("c2")
lanes = Constant("lanes")
"""The lanes of every Ramp and Broadcast in a pattern."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Rewrite rule: where `pattern` matches, `result` has the same value.

    when: a condition on the constants, a function whose parameters name them. given: comparisons that have to be
    proved of what was matched.
    """

    name: str
    pattern: Operation
    result: Operand
    when: Callable[[int], bool] | Callable[[int, int], bool] | None = None
    given: tuple[Operation, ...] = ()
    parameters: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        code = self.when.__code__ if self.when is not None else None
        object.__setattr__(self, "parameters", code.co_varnames[: code.co_argcount] if code is not None else ())

    def applies(self, bound: Bindings) -> bool:
        """Return whether the condition on the constants holds."""
        return self.when is None or self.when(*[bound[name] for name in self.parameters])


def match(pattern: Pattern, node: Expr, bound: Bindings) -> bool:
    """Return whether `node`, an interned expression, has this form; `bound` takes what the variables stand for."""
    if type(pattern) is Wild:
        return bound.setdefault(pattern.name, node) is node
    if type(pattern) is Constant:
        value = _constant_value(node)
        return value is not None and bound.setdefault(pattern.name, value) == value
    if type(pattern) is Number:
        return _is_number(node, pattern.value)
    assert isinstance(pattern, Operation)
    if type(node) is not pattern.kind:
        return False
    if (
        pattern.lanes
        and isinstance(node, (Ramp, Broadcast))
        and bound.setdefault(pattern.lanes, node.lanes) != node.lanes
    ):
        return False
    for operand, name in zip(pattern.operands, _OPERANDS.get(pattern.kind, _BINARY), strict=False):
        if not match(operand, getattr(node, name), bound):
            return False
    return True


_BINARY = ("a", "b")
_OPERANDS: dict[type[Expr], tuple[str, ...]] = {
    Not: ("value",),
    Cast: ("value",),
    Select: ("condition", "true_value", "false_value"),
    IfThenElse: ("condition", "true_value", "false_value"),
    Ramp: ("base", "stride"),
    Broadcast: ("value",),
}


def _constant_value(node: Expr) -> int | None:
    return integer_value(node.value if isinstance(node, Broadcast) else node)


def _is_number(node: Expr, number: float) -> bool:
    if isinstance(node, Broadcast):
        node = node.value
    if isinstance(number, float):
        return isinstance(node, FloatImm) and repr(node.value) == repr(number)  # tells 0.0 from -0.0
    return isinstance(node, IntImm) and node.value == number


def evaluate(pattern: Pattern, bound: Bindings) -> int | None:
    """The integer that a pattern of constants alone computes to, or None where it holds an expression."""
    if isinstance(pattern, Number):
        return pattern.value if isinstance(pattern.value, int) else None
    if isinstance(pattern, Constant):
        return bound[pattern.name]
    if isinstance(pattern, Computed):
        names = pattern.function.__code__.co_varnames[: pattern.function.__code__.co_argcount]
        return pattern.function(*[bound[name] for name in names])
    if not isinstance(pattern, Operation) or pattern.kind not in _FOLDED:
        return None
    a, b = (evaluate(operand, bound) for operand in pattern.operands)
    return None if a is None or b is None else _FOLDED[pattern.kind](a, b)


_FOLDED: dict[type[Expr], Callable[[int, int], int]] = {
    Add: lambda a, b: a + b,
    Sub: lambda a, b: a - b,
    Mul: lambda a, b: a * b,
    FloorDiv: lambda a, b: a // b if b else 0,
    FloorMod: lambda a, b: a % b if b else 0,
    Min: min,
    Max: max,
}


def has_wild(pattern: Operand) -> bool:
    """Return whether an expression, not constants alone, stands in the pattern."""
    return isinstance(pattern, Wild) or (isinstance(pattern, Operation) and any(map(has_wild, pattern.operands)))


_COMMUTATIVE = (Mul, Min, Max, And, Or, EQ, NE)


def variants(pattern: Pattern) -> list[Any]:
    """A pattern in every order of the operands of its commutative operators. Sums are matched without regard to it."""
    if not isinstance(pattern, Operation):
        return [pattern]
    operations: list[Operation] = []
    for operands in product(*[variants(operand) for operand in pattern.operands]):
        operations.append(Operation(pattern.kind, operands, pattern.lanes))
        if pattern.kind in _COMMUTATIVE and operands[0] != operands[1]:
            operations.append(Operation(pattern.kind, operands[::-1], pattern.lanes))
    return list(dict.fromkeys(operations))


class RuleTable:
    """Rules, found by the class of a node and the classes of its first two operands."""

    def __init__(self, *groups: Iterable[Rule], exact: bool = False) -> None:
        self.rules = tuple(rule for group in groups for rule in group)
        self.exact = exact
        """Whether the rules hold for arithmetic over the integers alone, not for arithmetic that wraps."""
        self._expanded = [(rule, pattern) for rule in self.rules for pattern in variants(rule.pattern)]
        self._candidates: dict[tuple[type[Expr], ...], tuple[tuple[Rule, Operation], ...]] = {}

    def candidates(self, node: Expr) -> tuple[tuple[Rule, Operation], ...]:
        """The rules, in each order of commutative operands, whose outermost two levels may match `node`."""
        kind = type(node)
        names = _BINARY if isinstance(node, BinaryOp) else _OPERANDS.get(kind, ())
        operands: list[Expr] = [getattr(node, name) for name in names]
        classes = (kind, *map(type, operands))
        candidates = self._candidates.get(classes)
        if candidates is None:
            candidates = self._candidates[classes] = tuple(
                entry for entry in self._expanded if _may_match(entry[1], classes)
            )
        return candidates


def _may_match(pattern: Operation, classes: tuple[type[Expr], ...]) -> bool:
    return pattern.kind is classes[0] and all(
        _class_fits(p, c) for p, c in zip(pattern.operands, classes[1:], strict=False)
    )


def _class_fits(pattern: Pattern, kind: type[Expr]) -> bool:
    if isinstance(pattern, Wild):
        return True
    if isinstance(pattern, Operation):
        return pattern.kind is kind
    return kind in (IntImm, FloatImm, Broadcast)


def build(pattern: Operand, bound: Bindings, matched: Expr | None, nodes: Nodes) -> Expr | None:
    """The expression that a result stands for, in the dtype of what was matched (or of what was bound, in a condition).
    None where a computed constant does not fit its dtype."""
    dtype = _find_dtype(bound) if matched is None or matched.dtype.element.is_bool else matched.dtype
    return _build(pattern, bound, dtype, nodes, matched)


def _find_dtype(bound: Bindings) -> DType:
    for value in bound.values():
        if isinstance(value, Expr) and not value.dtype.element.is_bool:
            return value.dtype
    return BOOL


def _build(pattern: Operand, bound: Bindings, dtype: DType, nodes: Nodes, matched: Expr | None) -> Expr | None:
    if isinstance(pattern, Wild):
        return bound[pattern.name]
    if isinstance(pattern, bool):
        return nodes.integer(pattern, BOOL.with_lanes(matched.dtype.lanes if matched is not None else 1))
    if isinstance(pattern, Number) and isinstance(pattern.value, bool):
        return nodes.integer(pattern.value, BOOL)
    if isinstance(pattern, float) or (isinstance(pattern, Number) and isinstance(pattern.value, float)):
        return nodes.intern(const(pattern if isinstance(pattern, float) else pattern.value, dtype))
    value = pattern if isinstance(pattern, int) else evaluate(pattern, bound)
    if value is not None:
        element = dtype.element
        if dtype.is_float:
            return nodes.intern(const(value, dtype))
        return nodes.integer(value, dtype) if element.least <= value <= element.greatest else None
    assert isinstance(pattern, Operation)
    inner = dtype.element if pattern.lanes else dtype
    operands: list[Any] = []
    for operand in pattern.operands:
        child = _build(operand, bound, inner, nodes, matched)
        if child is None:
            return None
        operands.append(child)
    if pattern.lanes:
        operands.append(bound[pattern.lanes])
    return nodes.make(pattern.kind, *operands)
