"""How the axes of a stage derive from each other, and what that means for their ranges and values.

A stage starts with root axes (those of its operation). Every relation removes leaf axes and adds new ones. Relations
are kept in the order in which they were made, so one pass forwards carries ranges from roots to leaves ("down"), and
one pass backwards carries values from leaves to roots ("up"). What the relations mean, parent_begin being the first
value of the parent's range:

    Split      parent = parent_begin + outer * (extent of inner) + inner
    Fuse       outer = outer_begin + fused // (extent of inner),  inner = inner_begin + fused % (extent of inner)
    Rebase     parent = parent_begin + rebased
    Singleton  a loop of one iteration, related to nothing
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from ...errors import SourceLine
from ...ir.expr import Expr, IntImm, IterVar, Range
from ...ir.ops import cast, ceildiv, const, floordiv, floormod, is_const

__all__ = ["Fuse", "Rebase", "Relation", "Singleton", "Split", "pass_down_range", "pass_down_value", "pass_up_value",
           "spread_down", "spread_up"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Split:
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


@dataclass(frozen=True, slots=True, eq=False)
class Fuse:
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


@dataclass(frozen=True, slots=True, eq=False)
class Rebase:
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


@dataclass(frozen=True, slots=True, eq=False)
class Singleton:
    """`iter` runs once, at 0."""

    iter: IterVar
    source: SourceLine | None = None

    @property
    def parents(self) -> tuple[IterVar, ...]:
        return ()

    @property
    def children(self) -> tuple[IterVar, ...]:
        return (self.iter,)


Relation: TypeAlias = Split | Fuse | Rebase | Singleton


def pass_down_range(
    relations: Sequence[Relation], ranges: Mapping[IterVar, Range], keeps_factor: Container[IterVar] = (),
) -> dict[IterVar, Range]:
    """`ranges` (of the roots) with those of every axis that derives from them; others are left out.

    The inner extent of a split is min(factor, extent) where both are constants; an axis in `keeps_factor` (one that
    ends up bound to a thread) keeps the factor, so that the block sizes of kernels agree.
    """
    found = dict(ranges)
    for relation in relations:
        if not all(parent in found for parent in relation.parents):
            continue
        if isinstance(relation, Split):
            outer, inner = _split_extents(relation, found[relation.parent].extent, keeps_factor)
            found[relation.outer], found[relation.inner] = _from_zero(outer), _from_zero(inner)
        elif isinstance(relation, Fuse):
            extents = (cast(found[axis].extent, relation.fused.dtype) for axis in relation.parents)
            found[relation.fused] = _from_zero(next(extents) * next(extents))
        elif isinstance(relation, Rebase):
            found[relation.rebased] = _from_zero(found[relation.parent].extent)
        else:
            found[relation.iter] = _from_zero(const(1, relation.iter.dtype))
    return found


def _from_zero(extent: Expr) -> Range:
    return Range(const(0, extent.dtype), extent)


def _split_extents(split: Split, extent: Expr, keeps_factor: Container[IterVar]) -> tuple[Expr, Expr]:
    """The extents of outer and inner."""
    if split.factor is not None:
        factor = cast(split.factor, extent.dtype)
        inner = factor if split.inner in keeps_factor else _least(factor, extent)
        return _ceildiv(extent, factor), inner
    nparts = cast(split.nparts, extent.dtype)
    outer = nparts if split.outer in keeps_factor else _least(nparts, extent)
    return outer, _ceildiv(extent, nparts)


def _ceildiv(a: Expr, b: Expr) -> Expr:
    """Constants are divided as Python's, since the sum within ceildiv could wrap in a narrow type."""
    if isinstance(a, IntImm) and isinstance(b, IntImm) and b.value > 0:
        return const(-(-a.value // b.value), a.dtype)
    return ceildiv(a, b)


def _least(a: Expr, b: Expr) -> Expr:
    """The smaller of a factor and an extent where that is known, else the factor."""
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        return a if a.value <= b.value else b
    return a


def pass_up_value(
    relations: Sequence[Relation], ranges: Mapping[IterVar, Range], values: Mapping[IterVar, Expr],
) -> dict[IterVar, Expr]:
    """`values` (of the leaves) with those of every axis that they determine. `ranges` has all axes in question."""
    found = dict(values)
    for relation in reversed(relations):
        if not all(child in found for child in relation.children):
            continue
        if isinstance(relation, Split):
            value = found[relation.outer] * ranges[relation.inner].extent + found[relation.inner]
            found[relation.parent] = _shifted(value, ranges[relation.parent], relation.parent)
        elif isinstance(relation, Fuse):
            fused, inner = found[relation.fused], ranges[relation.inner]
            if is_const(inner.extent, 1):
                outer_value, inner_value = fused, const(0, fused.dtype)
            elif is_const(ranges[relation.outer].extent, 1):
                outer_value, inner_value = const(0, fused.dtype), fused
            else:
                outer_value, inner_value = floordiv(fused, inner.extent), floormod(fused, inner.extent)
            found[relation.outer] = _shifted(outer_value, ranges[relation.outer], relation.outer)
            found[relation.inner] = _shifted(inner_value, inner, relation.inner)
        elif isinstance(relation, Rebase):
            found[relation.parent] = _shifted(found[relation.rebased], ranges[relation.parent], relation.parent)
    return found


def pass_down_value(
    relations: Sequence[Relation], ranges: Mapping[IterVar, Range], values: Mapping[IterVar, Expr],
) -> dict[IterVar, Expr]:
    """`values` (of the roots) with those of every axis that they determine."""
    found = dict(values)
    for relation in relations:
        if not all(parent in found for parent in relation.parents):
            continue
        if isinstance(relation, Split):
            extent = ranges[relation.inner].extent
            value = _counted(found[relation.parent], ranges[relation.parent])
            found[relation.outer], found[relation.inner] = floordiv(value, extent), floormod(value, extent)
        elif isinstance(relation, Fuse):
            outer = cast(_counted(found[relation.outer], ranges[relation.outer]), relation.fused.dtype)
            inner = cast(_counted(found[relation.inner], ranges[relation.inner]), relation.fused.dtype)
            found[relation.fused] = outer * ranges[relation.inner].extent + inner
        elif isinstance(relation, Rebase):
            found[relation.rebased] = _counted(found[relation.parent], ranges[relation.parent])
        else:
            found[relation.iter] = const(0, relation.iter.dtype)
    return found


def _shifted(value: Expr, within: Range, axis: IterVar) -> Expr:
    return cast(value if is_const(within.begin, 0) else value + within.begin, axis.dtype)


def _counted(value: Expr, within: Range) -> Expr:
    return value if is_const(within.begin, 0) else value - within.begin


def spread_down(
    relations: Iterable[Relation], marks: Mapping[IterVar, T], join: Callable[[T, T], T]
) -> dict[IterVar, T]:
    """Marks of axes handed on to everything that derives from them; where two meet, they are joined."""
    found = dict(marks)
    for relation in relations:
        for parent in relation.parents:
            if parent in found:
                for child in relation.children:
                    found[child] = join(found[child], found[parent]) if child in found else found[parent]
    return found


def spread_up(relations: Sequence[Relation], marks: Mapping[IterVar, T], join: Callable[[T, T], T]) -> dict[IterVar, T]:
    """Marks of axes handed on to everything that they derive from; where two meet, they are joined."""
    found = dict(marks)
    for relation in reversed(relations):
        for child in relation.children:
            if child in found:
                for parent in relation.parents:
                    found[parent] = join(found[parent], found[child]) if parent in found else found[child]
    return found
