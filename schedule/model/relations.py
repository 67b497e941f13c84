"""Relations between the axes of a stage: splits, fusions, and the ranges and values that follow from them.

A stage starts with root axes (those of its operation). Every relation removes leaf axes and adds new ones. Relations
are kept in the order in which they were made, so one pass forwards carries ranges from roots to leaves ("down"), and
one pass backwards carries values from leaves to roots ("up"). What the relations mean, parent_begin being the first
value of the parent's range:

    Split      parent = parent_begin + outer * (extent of inner) + inner
    Fuse       outer = outer_begin + fused // (extent of inner),  inner = inner_begin + fused % (extent of inner)
    Rebase     parent = parent_begin + rebased
    Singleton  a loop of one iteration, related to nothing

A primitive may bring a relation of its own: a class that says the same of itself (skew and rotate do).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import TypeVar

from ...base import SourceLine, dataclass
from ...ir import Add, Cast, Expr, FloorDiv, FloorMod, IntImm, IterVar, Max, Min, Mul, Range, Var, post_order
from ...ir.arith.linear import LinearForm
from ...ir.ops import cast, const, floordiv, floormod, index_ceildiv, is_const, maximum

__all__ = [
    "Fuse",
    "Rebase",
    "Relation",
    "Singleton",
    "Split",
    "subtract_offset",
    "zero_based_range",
    "may_be_negative",
    "pass_down_range",
    "pass_down_value",
    "pass_up_value",
    "add_offset",
    "spread_down",
    "spread_up",
]

T = TypeVar("T")
Ranges = Mapping[IterVar, Range]
Values = Mapping[IterVar, Expr]


class Relation(ABC):
    """Loops that became other loops. `source`: the user's line."""

    __slots__ = ()

    source: SourceLine | None

    @property
    @abstractmethod
    def parents(self) -> tuple[IterVar, ...]:
        """The axes that became others."""

    @property
    @abstractmethod
    def children(self) -> tuple[IterVar, ...]:
        """The axes that they became."""

    @property
    def uses(self) -> tuple[IterVar, ...]:
        """Axes that stay, and whose values the relation takes part in."""
        return ()

    @abstractmethod
    def ranges(self, known: Ranges, keeps_factor: Container[IterVar]) -> dict[IterVar, Range]:
        """The ranges of the children, given those of the parents. See pass_down_range."""

    @abstractmethod
    def values_up(self, values: Values, ranges: Ranges) -> dict[IterVar, Expr]:
        """The values of the parents, given those of the children and of what it uses."""

    @abstractmethod
    def values_down(self, values: Values, ranges: Ranges) -> dict[IterVar, Expr]:
        """The values of the children, given those of the parents and of what it uses."""

    @property
    def overshoots(self) -> bool:
        """Return whether the children have values for which the parents lie outside of their ranges, on either side."""
        return False

    def distances(self, extents: Mapping[IterVar, int | None]) -> Iterable[LinearForm]:
        """Forms that are 0 of the distances between any two iterations, in its axes and unknowns of its own; none where nothing is
        known. extents: of the axes, where they are constants."""
        return ()

    @abstractmethod
    def heir(self, axis: IterVar) -> IterVar:
        """The child within which is computed what was to be computed at `axis`, a parent."""

    @abstractmethod
    def sentence(self, axis: IterVar) -> str:
        """Return what became of `axis`, a parent, in words: "i was split into i.outer, i.inner"."""

    def rename(self, axes: Mapping[IterVar, IterVar]) -> Relation:
        """The same of other root axes, which are nobody's children."""
        assert is_dataclass(self)
        changed = {
            field.name: axes[axis]
            for field in fields(self)
            if isinstance(axis := getattr(self, field.name), IterVar) and axis in axes
        }
        return replace(self, **changed) if changed else self


@dataclass(frozen=True, slots=True, eq=False)
class Split(Relation):
    """`parent` became `outer` and, within it, `inner`. Exactly one of factor (the inner extent) and nparts (the outer
    extent) is given. disable_predication: the user vouches for the tail, no guard is emitted for this split."""

    parent: IterVar
    outer: IterVar
    inner: IterVar
    factor: Expr | None = None
    nparts: Expr | None = None
    disable_predication: bool = False
    source: SourceLine | None = None

    @property
    def parents(self) -> tuple[IterVar, ...]:
        return (self.parent,)

    @property
    def children(self) -> tuple[IterVar, ...]:
        return (self.outer, self.inner)

    def ranges(self, known: Ranges, keeps_factor: Container[IterVar]) -> dict[IterVar, Range]:
        outer, inner = self._extents(known[self.parent].extent, keeps_factor)
        return {self.outer: zero_based_range(outer), self.inner: zero_based_range(inner)}

    def _extents(self, extent: Expr, keeps_factor: Container[IterVar]) -> tuple[Expr, Expr]:
        """The extents of outer and inner."""
        if self.factor is not None:
            factor = cast(self.factor, extent.dtype)
            inner = factor if self.inner in keeps_factor else _least(factor, extent)
            return index_ceildiv(extent, factor), inner
        nparts = cast(self.nparts, extent.dtype)
        outer = nparts if self.outer in keeps_factor else _least(nparts, extent)
        return outer, index_ceildiv(extent, nparts)

    def values_up(self, values: Values, ranges: Ranges) -> dict[IterVar, Expr]:
        value = values[self.outer] * ranges[self.inner].extent + values[self.inner]
        return {self.parent: add_offset(value, ranges[self.parent], self.parent)}

    def values_down(self, values: Values, ranges: Ranges) -> dict[IterVar, Expr]:
        extent, value = ranges[self.inner].extent, subtract_offset(values[self.parent], ranges[self.parent])
        return {self.outer: floordiv(value, extent), self.inner: floormod(value, extent)}

    def distances(self, extents: Mapping[IterVar, int | None]) -> Iterable[LinearForm]:
        return _digits(self.parent, self.outer, self.inner, extents.get(self.inner))

    def heir(self, axis: IterVar) -> IterVar:
        return self.inner

    def sentence(self, axis: IterVar) -> str:
        return f"{axis.name} was split into {self.outer.name}, {self.inner.name}"


@dataclass(frozen=True, slots=True, eq=False)
class Fuse(Relation):
    """`outer` and the `inner` right inside it became one loop over their product."""

    outer: IterVar
    inner: IterVar
    fused: IterVar
    source: SourceLine | None = None

    @property
    def parents(self) -> tuple[IterVar, ...]:
        return (self.outer, self.inner)

    @property
    def children(self) -> tuple[IterVar, ...]:
        return (self.fused,)

    def ranges(self, known: Ranges, keeps_factor: Container[IterVar]) -> dict[IterVar, Range]:
        outer, inner = (cast(_iterations(axis, known[axis].extent), self.fused.dtype) for axis in self.parents)
        return {self.fused: zero_based_range(outer * inner)}

    def values_up(self, values: Values, ranges: Ranges) -> dict[IterVar, Expr]:
        fused, inner = values[self.fused], ranges[self.inner]
        if is_const(inner.extent, 1):
            outer_value, inner_value = fused, const(0, fused.dtype)
        elif is_const(ranges[self.outer].extent, 1):
            outer_value, inner_value = const(0, fused.dtype), fused
        else:
            outer_value, inner_value = floordiv(fused, inner.extent), floormod(fused, inner.extent)
        return {
            self.outer: add_offset(outer_value, ranges[self.outer], self.outer),
            self.inner: add_offset(inner_value, inner, self.inner),
        }

    def values_down(self, values: Values, ranges: Ranges) -> dict[IterVar, Expr]:
        outer = cast(subtract_offset(values[self.outer], ranges[self.outer]), self.fused.dtype)
        inner = cast(subtract_offset(values[self.inner], ranges[self.inner]), self.fused.dtype)
        return {self.fused: outer * ranges[self.inner].extent + inner}

    def distances(self, extents: Mapping[IterVar, int | None]) -> Iterable[LinearForm]:
        return _digits(self.fused, self.outer, self.inner, extents.get(self.inner))

    def heir(self, axis: IterVar) -> IterVar:
        return self.fused

    def sentence(self, axis: IterVar) -> str:
        return f"{axis.name} was fused into {self.fused.name}"


@dataclass(frozen=True, slots=True, eq=False)
class Rebase(Relation):
    """`rebased` is `parent` counted from 0."""

    parent: IterVar
    rebased: IterVar
    source: SourceLine | None = None

    @property
    def parents(self) -> tuple[IterVar, ...]:
        return (self.parent,)

    @property
    def children(self) -> tuple[IterVar, ...]:
        return (self.rebased,)

    def ranges(self, known: Ranges, keeps_factor: Container[IterVar]) -> dict[IterVar, Range]:
        return {self.rebased: zero_based_range(known[self.parent].extent)}

    def values_up(self, values: Values, ranges: Ranges) -> dict[IterVar, Expr]:
        return {self.parent: add_offset(values[self.rebased], ranges[self.parent], self.parent)}

    def values_down(self, values: Values, ranges: Ranges) -> dict[IterVar, Expr]:
        return {self.rebased: subtract_offset(values[self.parent], ranges[self.parent])}

    def distances(self, extents: Mapping[IterVar, int | None]) -> Iterable[LinearForm]:
        return (LinearForm({self.parent: 1, self.rebased: -1}),)

    def heir(self, axis: IterVar) -> IterVar:
        return self.rebased

    def sentence(self, axis: IterVar) -> str:
        return f"{axis.name} was counted from 0"


@dataclass(frozen=True, slots=True, eq=False)
class Singleton(Relation):
    """`iter` runs once, at 0."""

    iter: IterVar
    source: SourceLine | None = None

    @property
    def parents(self) -> tuple[IterVar, ...]:
        return ()

    @property
    def children(self) -> tuple[IterVar, ...]:
        return (self.iter,)

    def ranges(self, known: Ranges, keeps_factor: Container[IterVar]) -> dict[IterVar, Range]:
        return {self.iter: zero_based_range(const(1, self.iter.dtype))}

    def values_up(self, values: Values, ranges: Ranges) -> dict[IterVar, Expr]:
        return {}

    def values_down(self, values: Values, ranges: Ranges) -> dict[IterVar, Expr]:
        return {self.iter: const(0, self.iter.dtype)}

    def heir(self, axis: IterVar) -> IterVar:
        return axis

    def sentence(self, axis: IterVar) -> str:
        return f"{axis.name} runs once"


def pass_down_range(
    relations: Iterable[Relation],
    ranges: Ranges,
    keeps_factor: Container[IterVar] = (),
) -> dict[IterVar, Range]:
    """`ranges` (of the roots) with those of every axis that derives from them; others are left out.

    The inner extent of a split is min(factor, extent) where both are constants; an axis in `keeps_factor` (one that
    ends up bound to a thread) keeps the factor, so that the block sizes of kernels agree.
    """
    known = dict(ranges)
    for relation in relations:
        if all(parent in known for parent in relation.parents):
            known.update(relation.ranges(known, keeps_factor))
    return known


def pass_up_value(relations: Sequence[Relation], ranges: Ranges, values: Values) -> dict[IterVar, Expr]:
    """`values` (of the leaves) with those of every axis that they determine. `ranges` has all axes in question."""
    known = dict(values)
    for relation in reversed(relations):
        if all(axis in known for axis in (*relation.children, *relation.uses)):
            known.update(relation.values_up(known, ranges))
    return known


def pass_down_value(relations: Sequence[Relation], ranges: Ranges, values: Values) -> dict[IterVar, Expr]:
    """`values` (of the roots) with those of every axis that they determine."""
    known = dict(values)
    for relation in relations:
        if all(axis in known for axis in (*relation.parents, *relation.uses)):
            known.update(relation.values_down(known, ranges))
    return known


def _digits(whole: IterVar, outer: IterVar, inner: IterVar, size: int | None) -> Iterable[LinearForm]:
    """whole = size * outer + inner, of distances."""
    return (LinearForm({whole: 1, outer: -size, inner: -1}),) if size else ()


def zero_based_range(extent: Expr) -> Range:
    """[0, extent)"""
    return Range(const(0, extent.dtype), extent)


def add_offset(value: Expr, within: Range, axis: IterVar) -> Expr:
    """The value of an axis, given how far it is from the begin of its range."""
    return cast(value if is_const(within.begin, 0) else value + within.begin, axis.dtype)


def subtract_offset(value: Expr, within: Range) -> Expr:
    """Return how far a value is from the begin of its range."""
    return value if is_const(within.begin, 0) else value - within.begin


def may_be_negative(extent: Expr) -> bool:
    """Return whether an extent may be negative though its symbols are not, as `n - 2` and numbers that are read may."""
    return not all(
        isinstance(node, _NEVER_NEGATIVE) and (not isinstance(node, IntImm) or node.value >= 0)
        for node in post_order(extent)
    )


_NEVER_NEGATIVE = (IntImm, Var, Add, Mul, FloorDiv, FloorMod, Min, Max, Cast)


def _iterations(axis: IterVar, extent: Expr) -> Expr:
    """Return how often a loop runs. A reduction over `n - 2` is empty where that is negative, and two of them are no positive product."""
    return maximum(extent, 0) if axis.kind == "reduce" and may_be_negative(extent) else extent


def _least(a: Expr, b: Expr) -> Expr:
    """The smaller of a factor and an extent where that is known, else the factor."""
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        return a if a.value <= b.value else b
    return a


def spread_down(
    relations: Iterable[Relation], marks: Mapping[IterVar, T], join: Callable[[T, T], T]
) -> dict[IterVar, T]:
    """Mark of axes handed on to everything that derives from them; where two meet, they are joined."""
    known = dict(marks)
    for relation in relations:
        for parent in relation.parents:
            if parent in known:
                for child in relation.children:
                    known[child] = join(known[child], known[parent]) if child in known else known[parent]
    return known


def spread_up(relations: Sequence[Relation], marks: Mapping[IterVar, T], join: Callable[[T, T], T]) -> dict[IterVar, T]:
    """Mark of axes handed on to everything that they derive from; where two meet, they are joined."""
    known = dict(marks)
    for relation in reversed(relations):
        for child in relation.children:
            if child in known:
                for parent in relation.parents:
                    known[parent] = join(known[parent], known[child]) if parent in known else known[child]
    return known
