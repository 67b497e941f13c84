"""Guards of a stage: where its loops run beyond an axis's range, or its region leaves the declared domain.

A guard is needed at the parent of a split that does not divide, or of a relation that overshoots, and at everything that
this parent derives from in turn (its value may be too large there as well, though what is proved to fit is left out); and
at a root axis whose region can leave the domain. Each is proved against the ranges of the loops alone, so that nested
inexact splits give one each.
"""

from __future__ import annotations

from collections.abc import Container

from ...ir.accesses import reads_memory
from ...ir.arith.analyzer import Analyzer
from ...ir.expr import Expr, IntImm, IterVar, Range
from ...ir.ops import conjunction
from ..model.relations import Fuse, Rebase, Split, add_offset
from .computation import StageBounds

__all__ = ["guards", "side_guards"]


def guards(
    bounds: StageBounds,
    offsets: dict[IterVar, Expr],
    analyzer: Analyzer,
    skipped: Container[IterVar] = (),
) -> list[Expr]:
    """The conditions under which the iteration at `offsets` computes an element; provable ones left out.

    offsets: of axes from the begin of their ranges, in terms of loop variables. skipped: axes that do not matter.
    """
    conditions: list[Expr] = []
    inexact = _inexact(bounds, analyzer)
    overshot = _overshot(bounds)
    for axis in bounds.computation.stage.all_iter_vars:
        if axis in inexact and axis not in overshot and axis in offsets and axis not in skipped:
            _unless_proved(offsets[axis] < bounds.ranges[axis].extent, conditions, analyzer)
    limits = [*bounds.domains.items(), *((axis, part) for axis, part in bounds.parts.items() if axis in bounds.domains)]
    for axis, domain in limits:
        within = bounds.ranges[axis]
        if axis in bounds.circular:
            with analyzer.constraint(
                conjunction(*(loop.extent >= 1 for loop in bounds.enclosing if not reads_memory(loop.extent)))
            ):
                _unless_proved(domain.extent >= 1, conditions, analyzer)
        elif axis in offsets and axis not in skipped and not _same_range(domain, within, analyzer):
            value = add_offset(offsets[axis], within, axis)
            _unless_proved(value >= domain.begin, conditions, analyzer)
            _unless_proved(value < domain.begin + domain.extent, conditions, analyzer)
    return conditions


def side_guards(
    bounds: StageBounds, offsets: dict[IterVar, Expr], analyzer: Analyzer, skipped: Container[IterVar] = ()
) -> list[Expr]:
    """The conditions, of those that are not provable, that axes lie in their ranges where a relation overshoots these on both sides:
    many iterations fail them, and loops are cut by them."""
    conditions: list[Expr] = []
    for axis in _overshot(bounds):
        if axis in offsets and axis not in skipped:
            _unless_proved(offsets[axis] >= 0, conditions, analyzer)
            _unless_proved(offsets[axis] < bounds.ranges[axis].extent, conditions, analyzer)
    return conditions


def _overshot(bounds: StageBounds) -> list[IterVar]:
    relations = bounds.computation.stage.relations
    return [parent for relation in relations if relation.overshoots for parent in relation.parents]


def _inexact(bounds: StageBounds, analyzer: Analyzer) -> set[IterVar]:
    """The axes whose value, as the loops make it, may exceed their range."""
    inexact: set[IterVar] = set()
    for relation in reversed(bounds.computation.stage.relations):
        if isinstance(relation, Split):
            if not relation.disable_predication and (
                relation.outer in inexact or relation.inner in inexact or not _divides(relation, bounds, analyzer)
            ):
                inexact.add(relation.parent)
        elif isinstance(relation, Fuse) and relation.fused in inexact:
            inexact.update((relation.outer, relation.inner))
        elif relation.overshoots:
            inexact.update(relation.parents)
        elif isinstance(relation, Rebase) and relation.rebased in inexact:
            inexact.add(relation.parent)
    return inexact


def _divides(split: Split, bounds: StageBounds, analyzer: Analyzer) -> bool:
    """Return whether the two loops of a split run exactly over their parent."""
    parent, outer, inner = (bounds.ranges[axis].extent for axis in (split.parent, split.outer, split.inner))
    if isinstance(parent, IntImm) and isinstance(outer, IntImm) and isinstance(inner, IntImm):
        return parent.value == outer.value * inner.value
    return analyzer.can_prove_equal(parent, outer * inner)


def _same_range(a: Range, b: Range, analyzer: Analyzer) -> bool:
    return a is b or _same(a.begin, b.begin, analyzer) and _same(a.extent, b.extent, analyzer)


def _same(a: Expr, b: Expr, analyzer: Analyzer) -> bool:
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        return a.value == b.value
    return a is b or analyzer.can_prove_equal(a, b)


def _unless_proved(condition: Expr, conditions: list[Expr], analyzer: Analyzer) -> None:
    if analyzer.can_prove(condition):
        return
    simplified = analyzer.simplify(condition)
    conditions.append(simplified)
