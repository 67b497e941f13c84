"""Laws of combiners by calculation: quotients of polynomials whose variables are operands and exponentials of them.

(x1 * y1 + x2 * y1, ...), counts and means, log-sum-exp pairs. Comparisons are decided by case: elements that are compared take
values that stand for every order (three operands have 13), and those that are equal have one name. What is calculated with is
compared no further. Integers of one dtype are a ring, in which sums and products wrap; of floats this says what holds over the reals.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

from ....base.dataclass import dataclass
from ...expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryOp,
    Call,
    Cast,
    CommReducer,
    CompareOp,
    Div,
    Expr,
    FloatImm,
    IfThenElse,
    IntImm,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Select,
    Sub,
    Var,
)
from ...visit import post_order
from .tables import chosen

__all__ = ["laws_by_algebra"]

Atom = tuple[object, ...]
Monomial = frozenset[tuple[Atom, Fraction]]
Polynomial = dict[Monomial, Fraction]

MOST_TERMS = 400
"""Of a polynomial: beyond, nothing is proved."""
MOST_CASES = 3000
_NOTHING: Monomial = frozenset()
_ONE: Polynomial = {_NOTHING: Fraction(1)}


class _Unknown(Exception):
    """Something that is not calculated with."""


@dataclass(frozen=True, slots=True)
class _Number:
    """A quotient of polynomials. at: where it lies in the order, of what is only chosen; None of what is calculated. An infinite one
    has no terms."""

    over: Polynomial
    under: Polynomial
    at: Fraction | float | None = None

    @property
    def is_infinite(self) -> bool:
        return isinstance(self.at, float)


_Value = _Number | bool


def _times(a: Polynomial, b: Polynomial) -> Polynomial:
    result: Polynomial = {}
    for (left, m), (right, n) in product(a.items(), b.items()):
        powers = dict(left)
        for atom, power in right:
            powers[atom] = powers.get(atom, Fraction(0)) + power
        key = frozenset((atom, power) for atom, power in powers.items() if power)
        result[key] = result.get(key, Fraction(0)) + m * n
    return _small(result)  # a sum that cancels has no term


def _plus(a: Polynomial, b: Polynomial, sign: int = 1) -> Polynomial:
    result = dict(a)
    for key, number in b.items():
        result[key] = result.get(key, Fraction(0)) + sign * number
    return _small(result)


def _small(polynomial: Polynomial) -> Polynomial:
    kept = {key: number for key, number in polynomial.items() if number}
    if len(kept) > MOST_TERMS:  # products of polynomials grow without end
        raise _Unknown
    return kept


def _constant(value: float) -> _Number:
    if math.isnan(value):  # NaN obeys no law of polynomials
        raise _Unknown
    if math.isinf(value):
        return _Number({}, _ONE, float(value))
    exact = Fraction(value)
    return _Number({_NOTHING: exact} if exact else {}, _ONE, exact)


def _sum(a: _Number, b: _Number, sign: int) -> _Number:
    if a.is_infinite or b.is_infinite:
        if a.is_infinite and b.is_infinite or a.at is None and b.at is None:  # infinity minus infinity is no number
            raise _Unknown
        return a if a.is_infinite else _Number({}, _ONE, sign * float(b.at or 0))
    if a.under == b.under:  # the same denominator needs no multiplication
        return _Number(_plus(a.over, b.over, sign), a.under)
    return _Number(_plus(_times(a.over, b.under), _times(b.over, a.under), sign), _times(a.under, b.under))


def _quotient(a: _Number, b: _Number) -> _Number:
    if a.is_infinite or b.is_infinite or not b.over:  # division by what may be 0
        raise _Unknown
    return _Number(_times(a.over, b.under), _times(a.under, b.over))


def _product(a: _Number, b: _Number) -> _Number:
    if a.is_infinite or b.is_infinite:
        if not a.at or not b.at:  # of unknown sign, or 0
            raise _Unknown
        return _Number({}, _ONE, math.inf if (a.at > 0) == (b.at > 0) else -math.inf)
    return _Number(_times(a.over, b.over), _times(a.under, b.under))


def _exponential(base: str, power: _Number) -> _Number:
    """e^(2 x + y) is a monomial of the atoms e^x and e^y."""
    if power.is_infinite:
        if power.at != -math.inf:
            raise _Unknown
        return _constant(0)
    if len(power.under) != 1 or _NOTHING not in power.under:  # an exponential of a quotient is no monomial
        raise _Unknown
    scale = power.under[_NOTHING]
    atoms = frozenset(((base, monomial), number / scale) for monomial, number in power.over.items())
    return _Number({atoms: Fraction(1)}, _ONE)


_COMPARED: dict[type[Expr], Callable[[Any, Any], bool]] = {
    EQ: operator.eq,
    NE: operator.ne,
    LT: operator.lt,
    LE: operator.le,
    GT: operator.gt,
    GE: operator.ge,
}


_ORDERED = (CompareOp, Min, Max)


class _Calculator:
    """The value of an expression for given operands. is_ring: integers of one dtype; else real numbers."""

    def __init__(self, operands: Mapping[Var, _Value], is_ring: bool) -> None:
        self.operands, self.is_ring = operands, is_ring
        self.known: dict[int, _Value] = {}

    def __call__(self, node: Expr) -> _Value:
        key = id(node)
        if key not in self.known:
            self.known[key] = self.value(node)
        return self.known[key]

    def number(self, node: Expr) -> _Number:
        value = self(node)
        if isinstance(value, bool):
            raise _Unknown  # a truth is not calculated with
        return value

    def truth(self, node: Expr) -> bool:
        value = self(node)
        if not isinstance(value, bool):
            raise _Unknown
        return value

    def value(self, node: Expr) -> _Value:
        if isinstance(node, Var):
            if node not in self.operands:  # a variable from outside of the combiner
                raise _Unknown
            return self.operands[node]
        if isinstance(node, (IntImm, FloatImm)):
            return bool(node.value) if node.dtype.is_bool else _constant(node.value)
        if isinstance(node, (Select, IfThenElse)):
            return self(node.true_value if self.truth(node.condition) else node.false_value)
        if isinstance(node, Not):
            return not self.truth(node.value)
        if isinstance(node, (And, Or)):
            a, b = self.truth(node.a), self.truth(node.b)
            return (a and b) if isinstance(node, And) else (a or b)
        if isinstance(node, BinaryOp):
            return self.binary(node)
        if isinstance(node, Cast):
            return self.cast(node)
        if isinstance(node, Call):
            return self.call(node)
        raise _Unknown

    def binary(self, node: BinaryOp) -> _Value:
        a, b = self.number(node.a), self.number(node.b)
        if isinstance(node, _ORDERED):
            if a.at is None or b.at is None:  # only what is chosen has a place in the order
                raise _Unknown
            if isinstance(node, CompareOp):
                return _COMPARED[type(node)](a.at, b.at)
            return a if (a.at <= b.at) == isinstance(node, Min) else b
        if isinstance(node, Add):
            return _sum(a, b, 1)
        if isinstance(node, Sub):
            return _sum(a, b, -1)
        if isinstance(node, Mul):
            return _product(a, b)
        if isinstance(node, Div) and not self.is_ring:
            return _quotient(a, b)
        raise _Unknown

    def cast(self, node: Cast) -> _Value:
        value, target = self(node.value), node.dtype
        if isinstance(value, bool):
            return value if target.is_bool else _constant(int(value))
        if target.is_float and not self.is_ring:
            return value
        raise _Unknown

    def call(self, node: Call) -> _Value:
        if node.name == "likely":
            return self(node.args[0])
        if node.name == "isnan" and self.number(node.args[0]):
            return False  # the calculation is over numbers
        if node.name in ("fma", "mul_add"):
            a, b, c = map(self.number, node.args)
            return _sum(c, _product(a, b), 1)
        if node.name in ("exp", "exp2"):
            return _exponential(node.name, self.number(node.args[0]))
        raise _Unknown


# Cases


def _compared_elements(part: CommReducer) -> dict[int, int]:
    """The elements that are compared, each with a name for those that it is compared with."""
    place = {var: at for side in (part.lhs, part.rhs) for at, var in enumerate(side)}
    met: list[set[int]] = []
    for node in post_order(*part.result):
        if isinstance(node, _ORDERED):
            own = {place[inner] for inner in post_order(node.a, node.b) if isinstance(inner, Var) and inner in place}
            # comparisons join the elements of both sides
            met = [*(each for each in met if each.isdisjoint(own)), own.union(*(m for m in met if m & own))]
    return {at: group for group, members in enumerate(met) for at in members}


def _constants(part: CommReducer, compared: Mapping[int, int], begins: bool) -> set[Fraction]:
    """The constants that operands are compared with. begins: those of the identity, too."""
    values = [side for node in post_order(*part.result) if isinstance(node, _ORDERED) for side in (node.a, node.b)]
    for at in compared:
        values.append(part.result[at])
        values += [part.identity[at]] if begins else []
    return {
        Fraction(leaf.value)
        for value in values
        for leaf in chosen(value)
        if isinstance(leaf, (IntImm, FloatImm)) and not leaf.dtype.is_bool and math.isfinite(leaf.value)
    }


def _cases(part: CommReducer, count: int, begins: bool) -> Iterator[list[dict[int, _Value]]]:
    """`count` operands, as elements by place, in each order that compared ones may have."""
    compared = _compared_elements(part)
    constants = _constants(part, compared, begins)
    keys: list[tuple[int, int]] = []
    choices: list[Sequence[Fraction | bool]] = []
    for at, var in enumerate(part.lhs):
        if var.dtype.is_bool or at in compared:
            values: Sequence[Fraction | bool] = (False, True)
            if not var.dtype.is_bool:
                # as many values between two constants as operands can have there
                values = _representatives(constants, count * sum(group == compared[at] for group in compared.values()))
            if var.dtype.is_integer:
                values = [value for value in values if var.dtype.least <= value <= var.dtype.greatest]
            choices += [values] * count
            keys += [(operand, at) for operand in range(count)]
    if math.prod(map(len, choices)) > MOST_CASES:  # more orders than can be tried
        raise _Unknown
    met: set[object] = set()
    for values_of_case in product(*choices):
        order = _order(values_of_case, constants)
        if order in met:  # values in the same order decide all comparisons alike
            continue
        met.add(order)
        case: list[dict[int, _Value]] = [{} for _ in range(count)]
        for (operand, at), value in zip(keys, values_of_case, strict=True):
            case[operand][at] = (
                value if isinstance(value, bool) else _Number(_named_value(at, value, compared, constants), _ONE, value)
            )
        for operand, elements in enumerate(case):
            for at in range(len(part.lhs)):
                # what is not compared stays a symbol
                elements.setdefault(at, _Number({frozenset({(("x", operand, at), Fraction(1))}): Fraction(1)}, _ONE))
        yield case


def _order(values: Sequence[Fraction | bool], constants: set[Fraction]) -> object:
    """The ranks of values among themselves and the constants, which alone decide comparisons."""
    numbers = sorted({value for value in values if not isinstance(value, bool)} | constants)
    ranks = {value: at for at, value in enumerate(numbers)}
    own = (value if isinstance(value, bool) else (ranks[value],) for value in values)
    return *own, *(ranks[constant] for constant in sorted(constants))


def _named_value(at: int, value: Fraction, compared: Mapping[int, int], constants: set[Fraction]) -> Polynomial:
    """Return the constant that a value lies at, or the name of its place in the order."""
    if value in constants:  # equal constants must cancel
        return {_NOTHING: value} if value else {}
    return {frozenset({(("k", compared[at], value), Fraction(1))}): Fraction(1)}


def _representatives(constants: set[Fraction], count: int) -> list[Fraction]:
    known = sorted(constants)
    values = list(known)
    for low, high in zip([None, *known], [*known, None], strict=True):
        for at in range(1, count + 1):
            if low is None and high is None:
                values.append(Fraction(at))
            elif low is None and high is not None:
                values.append(high - at)
            elif high is None and low is not None:
                values.append(low + at)
            elif low is not None and high is not None:
                values.append(low + (high - low) * at / (count + 1))
    return values


class _Part:
    def __init__(self, part: CommReducer) -> None:
        self.part = part
        self.is_ring = all(var.dtype.is_integer for var in part.lhs)
        calculated = {
            node.dtype
            for node in post_order(*part.result)
            if isinstance(node, (Add, Sub, Mul)) and node.dtype.is_integer
        }
        if len(calculated) > 1:
            raise _Unknown  # integers of two widths wrap at two places

    def combine(self, left: Mapping[int, _Value], right: Mapping[int, _Value]) -> dict[int, _Value]:
        part = self.part
        operands = {var: side[at] for side, own in ((left, part.lhs), (right, part.rhs)) for at, var in enumerate(own)}
        calculate = _Calculator(operands, self.is_ring)
        return {at: calculate(value) for at, value in enumerate(part.result)}

    def identity(self) -> dict[int, _Value]:
        calculate = _Calculator({}, self.is_ring)
        return {at: calculate(value) for at, value in enumerate(self.part.identity)}

    def law(self, count: int, holds: Callable[[list[dict[int, _Value]]], bool], begins: bool = False) -> bool:
        try:
            return all(map(holds, _cases(self.part, count, begins)))
        except (_Unknown, OverflowError):  # what cannot be calculated is not proved
            return False


def laws_by_algebra(part: CommReducer) -> tuple[bool, bool, bool, bool, bool]:
    """The laws (see laws.Laws, in its order) that calculation proves."""
    try:
        own = _Part(part)
    except _Unknown:
        return False, False, False, False, False
    f = own.combine

    def is_neutral(case: list[dict[int, _Value]]) -> bool:
        return _same(f(case[0], own.identity()), case[0])  # compared with symbols: it holds for all values

    def is_repeatable(case: list[dict[int, _Value]]) -> bool:
        begin = own.identity()
        begun = f(begin, case[1])
        return all(_same(f(x, begun), f(x, case[1])) for x in (begin, f(begin, case[0])))

    def is_idle(case: list[dict[int, _Value]]) -> bool:
        begin = own.identity()
        return all(_same(f(reached, begin), reached) for reached in (begin, f(begin, case[0])))

    return (
        own.law(3, lambda case: _same(f(f(case[0], case[1]), case[2]), f(case[0], f(case[1], case[2])))),
        own.law(2, lambda case: _same(f(case[0], case[1]), f(case[1], case[0]))),
        own.law(1, is_neutral, begins=True),
        own.law(2, is_repeatable, begins=True),
        own.law(1, is_idle, begins=True),
    )


def _same(a: Mapping[int, _Value], b: Mapping[int, _Value]) -> bool:
    return all(_equal(a[at], b[at]) for at in a)


def _equal(a: _Value, b: _Value) -> bool:
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if a.is_infinite or b.is_infinite:
        return a.at == b.at
    return _times(a.over, b.under) == _times(b.over, a.under)  # cross products: no division
