"""Laws of combiners: associativity, commutativity, and an identity that may be taken up again.

A reduction is declared as a left fold: it begins with the identity (or `init=`) and takes up its terms one after the other.
Another order, or partial results, give the same only by these laws. A law is proved by a table of known forms, by all values
where an operand has few, by all orders of values where the combiner only chooses among them (tables.py), or by calculating with
polynomials (algebra.py). A search (counterexamples.py) finds counterexamples and proves nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Any, cast

import ml_dtypes

from ....base import dataclass, replace
from ...dtype import DType
from ...expr import Add, And, Call, CommReducer, Expr, FloatImm, IntImm, Max, Min, Mul, Or, Var
from ...interpret.scalars import numpy_dtype
from ...structural import Key, structural_key
from ...visit import post_order, substitute
from . import algebra, counterexamples, tables

__all__ = ["Law", "Laws", "laws_of"]


class Law(IntEnum):
    """Confidence that a law holds."""

    REFUTED = 0
    """A counterexample is known."""
    UNPROVED = 1
    ROUNDED = 2
    """It holds over the real numbers, and for floats up to rounding, NaN, and signs of zeros."""
    PROVED = 3
    """It holds to the last bit."""


@dataclass(frozen=True, slots=True)
class Laws:
    """The laws of one combiner f with its identity e.

    neutral: f(x, e) = x for all x. repeatable: f(x, f(e, y)) = f(x, y), and idle: f(x, e) = x, for each x that a fold from e reaches,
    which is what partial results need, those of terms and those of none. The texts are counterexamples to a law that is refuted.
    """

    associative: Law
    commutative: Law
    neutral: Law
    repeatable: Law
    idle: Law
    association: str = ""
    repetition: str = ""
    idleness: str = ""

    @property
    def is_free(self) -> bool:
        """Return whether terms may be taken up in any order without changing a bit."""
        return min(self.associative, self.commutative) == Law.PROVED

    def splits_exactly(self, has_init: bool) -> bool:
        """Return whether partial results change no bit. has_init: whether the fold begins with something else than the identity."""
        return self.is_free and min(self._begins_again(has_init), self.idle) == Law.PROVED

    def may_split(self, has_init: bool) -> bool:
        """Return whether partial results of some terms each, in any order, are known to be the same but for rounding."""
        return min(self.associative, self.commutative, self._begins_again(has_init)) >= Law.ROUNDED

    def split_refusal(self, has_init: bool, may_be_empty: bool) -> str:
        """A reason why there can be no partial results; empty where none is known. may_be_empty: whether some may have no terms."""
        if self.associative == Law.REFUTED:
            return f"it is not associative: {self.association}"
        if self._begins_again(has_init) == Law.REFUTED:
            return (
                f"its identity is none, and each partial result would begin with it: {self.repetition or self.idleness}"
            )
        if may_be_empty and self.idle == Law.REFUTED:
            return f"its identity is none, and a partial result of no terms would be it: {self.idleness}"
        return ""

    def _begins_again(self, has_init: bool) -> Law:
        # an init= may be a value that no fold from the identity reaches
        return self.neutral if has_init else self.repeatable


_KNOWN: dict[Key, Laws] = {}
"""Laws by the structure of a part and its constant sources."""
_MOST_KNOWN = 4096
_LAWS, _TEXTS = (
    ("associative", "commutative", "neutral", "repeatable", "idle"),
    ("association", "repetition", "idleness"),
)


def laws_of(combiner: CommReducer, sources: Sequence[Expr | None] = ()) -> Laws:
    """The laws of a combiner. sources: what it is given, where known: a constant among them (the count of Welford's) is the only
    value that a search tries for it."""
    parts = [_laws_of_part(*part) for part in _independent_parts(combiner, sources)]
    if len(parts) == 1:
        return parts[0]
    least = (min(getattr(part, law) for part in parts) for law in _LAWS)
    words = (next((text for part in parts if (text := str(getattr(part, name)))), "") for name in _TEXTS)
    return _judge_laws(least, words)


def _judge_laws(laws: Iterable[Law], texts: Iterable[str]) -> Laws:
    associative, commutative, neutral, repeatable, idle = laws
    association, repetition, idleness = texts
    return Laws(associative, commutative, neutral, repeatable, idle, association, repetition, idleness)


def _independent_parts(
    combiner: CommReducer, sources: Sequence[Expr | None]
) -> list[tuple[CommReducer, tuple[Expr | None, ...]]]:
    """The combiner as several, each over the elements that are computed of one another."""
    count = len(combiner.lhs)
    place = {var: at for side in (combiner.lhs, combiner.rhs) for at, var in enumerate(side)}
    groups = list(range(count))
    for at, result in enumerate(combiner.result):  # elements that read each other belong to one part
        for node in post_order(result):
            other = place.get(node) if isinstance(node, Var) else None
            if other is not None:
                into, gone = groups[at], groups[other]
                groups = [into if group == gone else group for group in groups]
    constants = [source if isinstance(source, (IntImm, FloatImm)) else None for source in sources] or [None] * count
    parts: list[tuple[CommReducer, tuple[Expr | None, ...]]] = []
    for group in dict.fromkeys(groups):
        own = [at for at in range(count) if groups[at] == group]
        lhs, rhs, result, identity = (
            tuple(each[at] for at in own) for each in (combiner.lhs, combiner.rhs, combiner.result, combiner.identity)
        )
        part = replace(combiner, lhs=_vars(lhs), rhs=_vars(rhs), result=result, identity=identity)
        parts.append((part, tuple(constants[at] for at in own)))
    return parts


def _vars(values: Sequence[Expr]) -> tuple[Var, ...]:
    return tuple(value for value in values if isinstance(value, Var))


_OPERANDS: dict[tuple[str, int, str], Var] = {}
"""A variable for each operand that a combiner can have, so that combiners of one structure have one key."""


def _laws_of_part(part: CommReducer, constants: tuple[Expr | None, ...]) -> Laws:
    canonical: dict[Var, Expr] = {}
    for side, operands in (("x", part.lhs), ("y", part.rhs)):
        # names of operands say nothing: combiners of one structure share their laws
        for at, var in enumerate(operands):
            canonical[var] = _OPERANDS.setdefault((side, at, str(var.dtype)), Var(f"{side}{at}", var.dtype))
    lhs, rhs = _vars([canonical[var] for var in part.lhs]), _vars([canonical[var] for var in part.rhs])
    part = CommReducer(lhs, rhs, tuple(substitute(r, canonical) for r in part.result), part.identity, part.name)
    known = _known_form(part)
    if known is not None:
        return known
    key = tuple(
        None if value is None else structural_key(value) for value in (*lhs, *part.result, *part.identity, *constants)
    )
    if key not in _KNOWN:
        if len(_KNOWN) >= _MOST_KNOWN:  # a program that makes ever new combiners must not fill memory
            _KNOWN.clear()
        _KNOWN[key] = _examine_part(part, constants)
    return _KNOWN[key]


# The table of known forms

_BITWISE = ("bitwise_and", "bitwise_or", "bitwise_xor")


def _known_form(part: CommReducer) -> Laws | None:
    """The laws of sums, products, extremes, and bitwise and logical operations of both operands."""
    if len(part.result) != 1:
        return None
    result, both = part.result[0], {part.lhs[0], part.rhs[0]}
    dtype = result.dtype
    # the operands may stand in either order
    if isinstance(result, Call) and result.name in _BITWISE and {*result.args} == both:
        name = result.name
    elif isinstance(result, (Add, Mul, Min, Max, And, Or)) and {result.a, result.b} == both:
        name = type(result).__name__
    else:
        return None
    begin = part.identity[0]
    value = begin.value if isinstance(begin, (IntImm, FloatImm)) else None
    absorbs = name not in ("Add", "Mul", "bitwise_xor")
    if _is_neutral(name, dtype, value):
        # A sum that began with 0 is never -0, which adding 0 would change; an `init=` may be.
        neutral, again = Law.ROUNDED if dtype.is_float and name == "Add" else Law.PROVED, Law.PROVED  # 0 + -0 is +0
    # the greatest number stands for infinity, but for infinity itself
    elif absorbs and dtype.is_float and value is not None and _is_extreme(name, dtype, value):
        neutral, again = Law.ROUNDED, Law.PROVED
    else:
        neutral, again = Law.REFUTED, Law.PROVED if absorbs or (name == "Mul" and value == 0) else Law.REFUTED
    # sums of floats round differently in another order
    joined = Law.ROUNDED if dtype.is_float and name in ("Add", "Mul") else Law.PROVED
    why = "" if neutral else f"{result} with {begin} for {part.rhs[0].name} is not {part.lhs[0].name}"
    return Laws(joined, joined, neutral, again, again, repetition=why, idleness=why)


def _is_neutral(name: str, dtype: DType, value: float | None) -> bool:
    """Return whether a constant changes nothing that it is joined with."""
    infinite = math.inf if dtype.is_float else None
    neutral: dict[str, float] = {
        "Add": 0,
        "Mul": 1,
        "Min": infinite or dtype.greatest,
        "Max": -infinite if infinite else dtype.least,
        "And": 1,
        "Or": 0,
        "bitwise_and": dtype.greatest if dtype.kind in ("uint", "bool") else -1,
        "bitwise_or": 0,
        "bitwise_xor": 0,
    }
    return value is not None and value == neutral[name]


def _is_extreme(name: str, dtype: DType, value: float) -> bool:
    """Return whether a float is the greatest number, or the least, beyond which is only the infinity that would be neutral."""
    greatest = float(cast("Any", ml_dtypes.finfo)(numpy_dtype(dtype)).max)
    return value == (greatest if name == "Min" else -greatest)


# Any other combiner


def _examine_part(part: CommReducer, constants: tuple[Expr | None, ...]) -> Laws:
    """The laws by orders, by algebra, by all values, and by a search: the quicker first."""
    # a proof over all orders is exact
    ordered = tables.laws_by_orders(part)
    if ordered is not None:
        return _tabled_laws(*ordered)
    reached = Law.PROVED if all(var.dtype.is_integer for var in part.lhs) else Law.ROUNDED
    laws = [reached if holds else Law.UNPROVED for holds in algebra.laws_by_algebra(part)]
    whole = tables.laws_by_values(part) if Law.UNPROVED in laws else None
    if whole is not None:
        return _tabled_laws(*whole)
    found = counterexamples.search(part, constants)
    for at, counterexample in ((0, found.association), (3, found.repetition), (4, found.idleness)):
        if counterexample and (laws[at] == Law.UNPROVED or at == 4):  # infinities are no real numbers
            laws[at] = Law.REFUTED
    if laws[3] == Law.REFUTED:
        laws[2] = Law.REFUTED  # what cannot be taken up again is not neutral
    return _judge_laws(laws, (found.association, found.repetition, found.idleness))


def _tabled_laws(exact: tables.Answers, real: tables.Answers) -> Laws:
    """Laws from the answers over all values, and over those without NaN and -0."""
    laws = [Law.PROVED if getattr(exact, law) else Law.ROUNDED if getattr(real, law) else Law.REFUTED for law in _LAWS]
    at = _LAWS.index("neutral")
    if laws[at] == Law.REFUTED and real.inside:
        laws[at] = Law.UNPROVED
    return _judge_laws(laws, (real.association, real.repetition, real.idleness))
