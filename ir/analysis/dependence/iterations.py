"""May two iterations of a loop touch the same element?

    for i in 64:                      C[16 * i + j] in iteration i and C[16 * i' + j'] in iteration i', each at some j of its
        for j in 16:                  own, are one element only where i = i': different iterations never meet
            C[i * 16 + j] = ...       D[i] and D[i' - 1] are one element exactly where i' - i = 1: always at distance 1
            D[i] = D[i - 1]

A question names the loop whose iterations are compared and the variables that each of the two has a value of its own for;
whatever else an index is made of is the same for both. In a nest that runs in the order i, j, k, the loop over j carries what
its iterations share where i is the same for both and k is each one's own.

Every dimension is an equation of integers with bounds. What those leave open is tried once more with symbolic ranges.
Conditions around an access are not looked at: that it may not run makes it meet less.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from enum import Enum, auto

from ....base.dataclass import dataclass
from ...arith.analyzer import Analyzer
from ...arith.interval import EVERYTHING, Interval
from ...arith.linear import LinearForm
from ...buffer import Buffer
from ...dtype import INT32, INT64
from ...expr import BufferLoad, Call, Expr, FloorDiv, FloorMod, IntImm, ProducerLoad, Range, Var
from ...intrinsics import is_pure
from ...ops import cast, const
from ...structural import Key, StructuralKey, structural_key
from ...visit import free_vars, substitute, walk
from ..linear import atom_key, is_index, linear, terms
from .equations import Unknown, solve

__all__ = ["Dependence", "Indices", "Iterations", "Meets"]

Indices = tuple[Expr, ...]

_WRAPS = 1 << 31
"""A sum that stays below this is 0 where its int32 is."""


_MOST_PAIRS = 4096
"""Accesses are compared pairwise; of more pairs, some two are taken to meet."""


class Meets(Enum):
    """Answers to the question whether iterations touch a common element."""

    NEVER = auto()
    MAYBE = auto()
    ALWAYS = auto()


@dataclass(frozen=True, slots=True)
class Dependence:
    """Common elements of two accesses, of which the second runs `distance` iterations after the first.

    NEVER: no iterations touch one element, not even the same iteration. ALWAYS: those do that are `distance` apart, whatever
    each one's own variables are at, and no others; all do where `distance` is None. MAYBE: none but those that are `distance`
    apart; any may where `distance` is None, which is to say that nothing is known.
    """

    meets: Meets
    distance: int | None = None

    @property
    def carried(self) -> bool:
        """Return whether different iterations may touch one element."""
        return self.meets is not Meets.NEVER and self.distance != 0


class Iterations:
    """Two iterations of a loop, or the same one twice."""

    def __init__(
        self,
        loop: Var | None,
        own: dict[Var, Range | None],
        *,
        shared: dict[Var, Range] | None = None,
        constant: Container[Buffer] = (),
        analyzer: Analyzer | None = None,
    ) -> None:
        """Compare the iterations of two accesses.


        loop: the variable whose values are compared, one of `own`; None compares nothing (every distance is None).
        own: the variables that each of the two has a value of its own for, with their ranges, which may speak of what stands
            before them; None where nothing is known of the values.
        shared: the ranges of variables that are the same for both. Others are so too, whatever they are.
        constant: buffers that nothing stores to meanwhile. What is read from others is each one's own.
        analyzer: what is known of the variables; without it, the ranges.
        """
        self.loop, self.own, self.shared, self.constant = loop, own, shared or {}, constant
        self._analyzer = analyzer
        self._twins: dict[Var, Expr] = {}
        self._forms: dict[Expr, LinearForm] = {}
        self._keys: dict[Expr, Key] = {}
        self._rows: dict[tuple[Key, Key], _Row] = {}
        self._intervals: dict[Key, Interval] = {}
        self._symbolic: dict[tuple[Key, Key], Dependence] = {}

    def between(self, first: Indices, second: Indices) -> Dependence:
        """The dependence of an element in one iteration and an element in another, of the same buffer."""
        rows = [self._row(a, b) for a, b in zip(first, second, strict=True)]
        bounds = self._solve(rows)
        if bounds is not None and self._open(bounds):  # a fused index that was taken apart is one equation again
            whole = self._join_rows(first, second)
            bounds = self._solve([*rows, *whole]) if whole else bounds
        if bounds is None:
            return Dependence(Meets.NEVER)
        exact = all(row.exact for row in rows)
        # no unknown is left: the element is the same in all iterations
        if exact and not any(row.equation.coeffs for row in rows):
            return Dependence(Meets.ALWAYS)
        if not self._open(bounds):
            alone = all(unknown == self._distance for row in rows for unknown in row.equation.coeffs)
            return Dependence(Meets.ALWAYS if exact and alone else Meets.MAYBE, bounds[self._distance].lo)
        # symbolic ranges may decide what numbers leave open
        return Dependence(Meets.MAYBE) if self.loop is None else self._find_facts(first, second)

    def meeting(self, stored: Sequence[Indices], touched: Sequence[Indices]) -> tuple[Indices, Indices] | None:
        """The first two accesses of a buffer in which different iterations may meet; None where there are none.

        stored: those of `touched` that store. Of very many accesses no more is asked than whether one dimension tells.
        """
        if any(
            self._has_telling_dimension(dimension, stored, touched)
            for dimension in range(len(touched[0]) if touched else 0)
        ):
            return None
        if len(stored) * len(touched) > _MOST_PAIRS:  # too many pairs: any of them may meet, which is the safe answer
            return stored[0], touched[0]
        return next(((a, b) for a in stored for b in touched if self.between(a, b).carried), None)

    def _has_telling_dimension(self, dimension: int, stored: Sequence[Indices], touched: Sequence[Indices]) -> bool:
        """Return whether one dimension alone tells iterations apart: it has fewer different indices than there are accesses."""
        first, second = (
            {self._key(index): index for indices in accesses for index in indices[dimension : dimension + 1]}
            for accesses in (stored, touched)
        )
        # few distinct indices prove independence of many accesses at once
        return len(first) * len(second) < min(len(stored) * len(touched), _MOST_PAIRS) and not any(
            self.between((a,), (b,)).carried for a in first.values() for b in second.values()
        )

    def equations(self, first: Indices, second: Indices) -> tuple[list[LinearForm], dict[Unknown, Interval]] | None:
        """The equations that hold where both are one element, and bounds of their unknowns; None where they never are.

        ("apart", v) is by how much an own variable is greater in the second iteration than in the first."""
        rows = [self._row(a, b) for a, b in zip(first, second, strict=True)]
        rows += self._join_rows(first, second)
        forms = [form for row in rows for form in (row.equation, *row.others)]
        bounds = self._find_bounds(forms)
        apart = solve(forms, bounds) is None or any(
            self._compare(a, b).meets is Meets.NEVER for a, b in zip(first, second, strict=True)
        )
        return None if apart else (forms, bounds)

    @property
    def _distance(self) -> Unknown:
        return ("apart", self.loop)

    def _open(self, bounds: Mapping[Unknown, Interval]) -> bool:
        return self.loop is None or not bounds.get(self._distance, EVERYTHING).is_point

    # Equations

    def _row(self, a: Expr, b: Expr) -> _Row:
        key = self._key(a), self._key(b)
        if key not in self._rows:
            self._rows[key] = self._new_row(self._form(a), self._form(b), is_index(a) and is_index(b))
        return self._rows[key]

    def _key(self, index: Expr) -> Key:
        if index not in self._keys:
            self._keys[index] = structural_key(index)
        return self._keys[index]

    def _form(self, index: Expr) -> LinearForm:
        if index not in self._forms:
            sums = index.dtype in (INT32, INT64)  # an index of another dtype is compared as a whole
            self._forms[index] = linear(index) if sums else LinearForm({atom_key(index): 1})
        return self._forms[index]

    def _new_row(self, a: LinearForm, b: LinearForm, exact: bool) -> _Row:
        """b in the second iteration less a in the first. exact: neither wraps."""
        a, b = self._rebase(a), self._rebase(b)
        unknowns: dict[Unknown, int] = {}
        links: list[LinearForm] = []
        for key in {**a.coeffs, **b.coeffs}:
            atom = key.expr if isinstance(key, StructuralKey) else key
            first, second = a.coefficient(key), b.coefficient(key)
            if not self._is_own(atom):  # a variable that is the same for both cancels, unless its coefficients differ
                if first != second:
                    unknowns["shared", key] = second - first
                    self._bound(key, atom)
            elif first == second:
                unknowns["apart", key] = first
                self._bound(key, atom)
            else:
                if first:
                    unknowns["first", key] = -first
                if second:
                    unknowns["second", key] = second
                # the difference of both iterations is what the distance is about
                links.append(LinearForm({("apart", key): 1, ("first", key): 1, ("second", key): -1}))
                self._bound(key, atom)
        equation = LinearForm(unknowns, b.const - a.const)
        if not exact and not self._stays_small(equation):  # a sum that may wrap is no equation of integers
            return _Row(LinearForm({}), False)
        return _Row(equation, True, (*links, *self._remainders(a, b)))

    def _rebase(self, form: LinearForm) -> LinearForm:
        """`form` with every own variable counted from the beginning of its range on."""
        # counted from the begin of the range, bounds are 0 to extent - 1
        for var, within in reversed(self.own.items()):
            coefficient = form.coefficient(var)
            if within is not None and coefficient:
                form = form.plus(linear(within.begin), coefficient)
        return form

    def _remainders(self, a: LinearForm, b: LinearForm) -> Iterator[LinearForm]:
        """x % m = y % m where x - y is a multiple of m."""
        (first, factor), (second, other) = (next(terms(form), (None, 0)) for form in (a, b))
        if (
            isinstance(first, FloorMod)  # only equal moduli have equal remainders at multiples
            and isinstance(second, FloorMod)
            and isinstance(first.b, IntImm)
            and isinstance(second.b, IntImm)
            and first.b.value == second.b.value > 0
            and factor == other
            and a.const == b.const
            and len(a.coeffs) == len(b.coeffs) == 1
            and is_index(first.a)
            and is_index(second.a)
        ):
            row = self._new_row(linear(first.a), linear(second.a), True)
            quotient = ("quotient", (structural_key(first), structural_key(second)))
            yield LinearForm({**row.equation.coeffs, quotient: first.b.value}, row.equation.const)
            yield from row.others

    def _join_rows(self, first: Indices, second: Indices) -> list[_Row]:
        """The sums of the dimensions in which a fused index that was taken apart, f // 16 and f % 16, is f again."""
        rows: list[_Row] = []
        # weights of either access may tell the fused index
        for weights in dict.fromkeys(self._weights(indices) for indices in (first, second)):
            taken = [
                [(index, weight) for index, weight in zip(indices, weights, strict=True) if weight]
                for indices in (first, second)
            ]
            lanes = max(index.dtype.lanes for each in taken for index, _ in each) if taken[0] else 1
            if len(taken[0]) > 1 and lanes == 1 and all(map(is_index, (*first, *second))):
                a, b = (sum((cast(index, INT64) * weight for index, weight in each), const(0, INT64)) for each in taken)
                rows.append(self._new_row(linear(a), linear(b), True))
        return rows

    def _weights(self, indices: Indices) -> tuple[int, ...]:
        """Return the weight of each dimension in the fused index that it is made of; 0 where it is not."""
        return tuple(
            next(
                (
                    _weight(atom)
                    for atom, _ in terms(self._form(index))
                    if isinstance(atom, (FloorDiv, FloorMod)) and self._is_own(atom)
                ),
                0,
            )
            for index in indices
        )

    # Bounds

    def _is_own(self, atom: Expr) -> bool:
        """Return whether each of the two has a value of its own for an atom."""
        if isinstance(atom, Var):
            return atom in self.own
        return any(
            node in self.own
            if isinstance(node, Var)
            else node.buffer not in self.constant  # what is stored meanwhile may be read differently by each
            if isinstance(node, BufferLoad)
            else isinstance(node, ProducerLoad) or isinstance(node, Call) and not is_pure(node.name)
            for node in walk(atom)
        )

    def _bound(self, key: Key, atom: Expr) -> None:
        """Remember the values that an atom may have; those of own variables are counted from 0 on."""
        if key in self._intervals:
            return
        within = self.own.get(atom) if isinstance(atom, Var) else None
        if within is not None:
            most = self._most(within.extent)
            self._intervals[key] = Interval(0, None if most is None else max(most - 1, 0))
        # nothing is known of a free variable without an analyzer
        elif isinstance(atom, Var) and atom not in self.shared and self._analyzer is None:
            self._intervals[key] = EVERYTHING
        else:
            self._intervals[key] = self.analyzer.interval(atom)

    def _most(self, extent: Expr) -> int | None:
        return extent.value if isinstance(extent, IntImm) else self.analyzer.interval(extent).hi

    def _bounds(self, unknown: Unknown) -> Interval:
        role, key = unknown
        interval = self._intervals.get(key, EVERYTHING)
        if role != "apart":
            return interval if role != "quotient" else EVERYTHING
        width = None if interval.lo is None or interval.hi is None else interval.hi - interval.lo
        return EVERYTHING if width is None else Interval(-width, width)

    def _stays_small(self, equation: LinearForm) -> bool:
        reach = abs(equation.const)
        for unknown, coefficient in equation.coeffs.items():  # an unbounded term may wrap
            low, high = self._bounds(unknown)
            if low is None or high is None:
                return False
            reach += abs(coefficient) * max(abs(low), abs(high))
        return reach < _WRAPS

    def _find_bounds(self, equations: Iterable[LinearForm]) -> dict[Unknown, Interval]:
        return {unknown: self._bounds(unknown) for equation in equations for unknown in equation.coeffs}

    def _solve(self, rows: Iterable[_Row]) -> dict[Unknown, Interval] | None:
        equations = [equation for row in rows for equation in (row.equation, *row.others)]
        bounds = self._find_bounds(equations)
        if self.loop is not None:
            self._bound(self.loop, self.loop)
            bounds[self._distance] = self._bounds(self._distance)
        return solve(equations, bounds)

    @property
    def analyzer(self) -> Analyzer:
        """Analyzer with all facts about variables."""
        if self._analyzer is None:
            self._analyzer = Analyzer()
            for var, within in (*self.shared.items(), *self.own.items()):
                if within is not None:
                    self._analyzer.bind(var, within)
        return self._analyzer

    # Symbolic ranges

    def _find_facts(self, first: Indices, second: Indices) -> Dependence:
        """Return the facts that follow from ranges that are not numbers, dimension by dimension."""
        distance = None
        for a, b in zip(first, second, strict=True):
            fact = self._compare(a, b)
            if fact.meets is Meets.NEVER:
                return fact
            if fact.distance is not None:
                distance = fact.distance
        return Dependence(Meets.MAYBE, distance)

    def _compare(self, a: Expr, b: Expr) -> Dependence:
        """Return the facts of one dimension, found out once."""
        key = self._key(a), self._key(b)
        if key not in self._symbolic:
            self._symbolic[key] = self._proof(a, b)
        return self._symbolic[key]

    def _twin(self, index: Expr) -> Expr:
        """`index` in the second iteration."""
        for var in free_vars(index):
            if var in self.own and var not in self._twins:  # a twin for each own variable: the second iteration's value
                twin = self._twins[var] = Var(f"{var.name}.other", var.dtype)
                within = self.own[var]
                if within is not None:
                    self.analyzer.bind(twin, Range(self._twin(within.begin), self._twin(within.extent)))
        return substitute(index, self._twins)

    def _is_boxed(self, unknown: Unknown) -> bool:
        """Return whether numbers bound an unknown, and its range says no more, as that of k < i does."""
        interval, key = self._bounds(unknown), unknown[1]
        within = self.own.get(key) if isinstance(key, Var) else None
        numbers = within is None or isinstance(within.begin, IntImm) and isinstance(within.extent, IntImm)
        return numbers and interval.lo is not None and interval.hi is not None

    def _proof(self, a: Expr, b: Expr) -> Dependence:
        terms = self._row(a, b).equation.coeffs
        if is_index(a) and is_index(b) and not all(map(self._is_boxed, terms)):
            analyzer, other, loop = self.analyzer, self._twin(b), self.loop
            factor = 0 if loop is None else self._form(a).coefficient(loop)
            if loop is not None and factor and factor == self._form(b).coefficient(loop):
                # what is left over is less than a step: different iterations cannot meet
                rest = (a - loop * factor) - (other - self._twin(loop) * factor)
                if analyzer.can_prove(rest < abs(factor)) and analyzer.can_prove(rest > -abs(factor)):
                    return Dependence(Meets.MAYBE, 0)
            if analyzer.can_prove(a < other) or analyzer.can_prove(a > other):
                return Dependence(Meets.NEVER)
        return Dependence(Meets.MAYBE)


@dataclass(frozen=True, slots=True)
class _Row:
    """Equation of one dimension. exact: `equation` holds exactly where the indices are equal; `others` hold there too."""

    equation: LinearForm
    exact: bool
    others: tuple[LinearForm, ...] = ()


def _weight(atom: Expr) -> int:
    """Return the weight of a quotient or remainder of a fused index in it."""
    if isinstance(atom, FloorDiv) and isinstance(atom.b, IntImm):
        return atom.b.value * (_weight(atom.a) if isinstance(atom.a, FloorDiv) else 1)
    if isinstance(atom, FloorMod) and isinstance(atom.a, FloorDiv):
        return _weight(atom.a)
    return 1
