"""Reductions over tuples of which some values are the same all along a dimension: these are combined once, in registers.

    for c, i, e:                                              for c, i:
      largest'[i, e] = max(largest[i, e], peak[c, i])           for e:  sum[i, e] = sum[i, e] * f(..) + part[c, i, e] * f(..)
      sum'[i, e] = sum[i, e] * f(largest[i, e], ..)      →      largest[i, 0] = max(largest[i, 0], peak[c, i])
                   + part[c, i, e] * f(..)                    for i, e:  largest[i, e] = largest[i, 0]

What a compiler sees of the first are as many variables as there are elements, of which it cannot know that they stay equal.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...base.dataclass import dataclass
from ...ir import Expr, IterVar, Reduce, post_order
from ...ir.fragments import FRAGMENT_SCOPES
from ...ir.ops import is_const
from ...te.rewrite import collect_loads
from ...te.tensor import find_tensor
from ..model.group import Group
from ..model.relations import spread_down
from .computation import Loop
from .nest import Nest

__all__ = ["Alike", "alike_values"]


@dataclass(frozen=True)
class Alike:
    """Invariant components of a reduction over tuples.

    values: places of those that do not change along `axes`. within: the loops that lie in all loops over terms; across: those of
    them that run over the axes and nothing else, in one thread.
    """

    values: frozenset[int]
    axes: frozenset[IterVar]
    within: tuple[Loop, ...]
    across: tuple[Loop, ...]

    @property
    def beside(self) -> tuple[Loop, ...]:
        return tuple(loop for loop in self.within if loop not in self.across)


def alike_values(nest: Nest, reduction: Reduce, inner: Sequence[Loop]) -> Alike | None:
    """Return the values of a reduction in registers that are the same along axes of which the innermost loops are; None
    where none is. inner: its loops from the first over terms on."""
    stage, marks = nest.computation.stage, nest.stage_bounds.marks
    if (
        len(reduction.sources) < 2  # one value has no companions to be combined without
        or stage.scope not in ("local", *FRAGMENT_SCOPES)
        or stage.store_predicate is not None
    ):
        return None
    last = max((at for at, loop in enumerate(inner) if marks.get(loop.axis, 0) & 2), default=-1)
    within = tuple(inner[last + 1 :])
    if any(loop.thread and stage.scope == "local" for loop in within):  # threads hold local values each by itself
        return None
    whole = {axis: frozenset({axis}) for axis in nest.computation.op.axis}
    roots = spread_down(stage.relations, whole, lambda a, b: a | b)
    # a loop over several axes is not along one of them
    own = {loop: roots[loop.axis] for loop in within if loop.var is not None and len(roots.get(loop.axis, ())) == 1}
    found: dict[frozenset[int], set[IterVar]] = {}
    for axis in frozenset[IterVar]().union(*own.values()):
        if not _reads(reduction.condition, axis):  # a condition that reads the axis lets terms differ along it
            found.setdefault(_find_unchanged(reduction, axis), set()).add(axis)
    values = max(found, key=len, default=frozenset[int]())
    # all values alike: nothing depends on the axis, which no tuple would have
    if not values or len(values) == len(reduction.sources):
        return None
    axes, inside = frozenset(found[values]), {loop.axis for loop in within}
    placed = {
        each.op
        for member in stage.schedule.find_placed(stage)
        if member.own_placement.loop in inside
        for each in (member.members if isinstance(member, Group) else [member])
    }
    if any(find_tensor(load).op in placed for at in values for load in collect_loads(reduction.sources[at])):
        return None  # what all have in common would be computed again for each
    return Alike(
        values, axes, within, tuple(loop for loop in within if own.get(loop, roots.keys()) <= axes and not loop.thread)
    )


def _find_unchanged(reduction: Reduce, axis: IterVar) -> frozenset[int]:
    """The values of a reduction whose terms do not read an axis, and that are combined of one another alone."""
    combiner = reduction.combiner
    begins = reduction.init or combiner.identity
    same = {
        at
        for at, source in enumerate(reduction.sources)
        if not _reads(source, axis) and not _reads(begins[at], axis) and not _reads(combiner.result[at], axis)
    }
    while True:
        others = {var for at in range(len(begins)) if at not in same for var in (combiner.lhs[at], combiner.rhs[at])}
        kept = {at for at in same if others.isdisjoint(post_order(combiner.result[at]))}
        if kept == same:  # a value combined with one that differs differs too: until nothing changes
            return frozenset(same)
        same = kept


def _reads(value: Expr, axis: IterVar) -> bool:
    return not is_const(value) and any(node is axis for node in post_order(value))
