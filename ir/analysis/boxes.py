"""Regions from inequalities: ranges of unknowns, as short as linear conditions allow.

Of `0 <= j - 2 * y <= K - 1` follows that y runs through at most (K - 1) // 2 + 1 values, whatever j is. A condition of
several unknowns narrows each by the ranges of the others, and then, in an order from short to long, by the values of
those before: from `0 <= y - 8 * (i - d) <= 7` follows that y has 8 values for each d.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...base.dataclass import dataclass
from .. import ops
from ..arith.analyzer import Analyzer
from ..arith.linear import LinearForm
from ..expr import Expr, IterVar, Var
from ..ops import integer_value
from .regions import Span

__all__ = ["Bound", "Box", "Unbounded", "solve_boxes"]

_ENDLESS = 1 << 30
_ROUNDS = 4
"""How often ranges are narrowed by each other, beyond once for each."""


@dataclass(frozen=True, slots=True, eq=False)
class Bound:
    """0 <= form, and form <= width where there is a width. The form's atoms are unknowns, its constant and the width expressions
    in which none of them occurs."""

    form: LinearForm
    width: Expr | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Box:
    """The integers from `begin` on, `extent` of them. The extent is free of unknowns; the begin may speak of those whose
    boxes come before. own: the domain as it was declared."""

    begin: Expr
    extent: Expr
    own: bool = False

    @property
    def steps(self) -> int | None:
        return integer_value(self.extent)


class Unbounded(Exception):
    """The equations left an unknown that no range is found for."""


def solve_boxes(
    bounds: Sequence[Bound],
    unknowns: Sequence[Var],
    analyzer: Analyzer,
    knows: Callable[[Expr], bool],
) -> dict[Var, Box]:
    """A box for each of the unknowns, which holds its values in all solutions of `bounds`, each after those that it speaks of.
    Raises Unbounded.

    knows: whether no unknown occurs in an expression.
    """
    return _Boxes(bounds, unknowns, analyzer, knows).order()


class _Boxes:
    def __init__(
        self,
        bounds: Sequence[Bound],
        unknowns: Sequence[Var],
        analyzer: Analyzer,
        knows: Callable[[Expr], bool],
    ) -> None:
        self.bounds, self.analyzer, self.knows = bounds, analyzer, knows
        self.free = list(unknowns)
        self.boxes: dict[Var, Box] = {}
        self.before: set[Var] = set()
        """The unknowns whose values, and not only their ranges, those after them may speak of."""

    def order(self) -> dict[Var, Box]:
        self._start()
        self._narrow(self.free)
        for var in self.free:
            if var not in self.boxes:
                raise Unbounded(var.name)
        # no condition of several unknowns: ranges are final
        if not any(len(bound.form.coeffs) > 1 for bound in self.bounds):
            return {var: self.boxes[var] for var in self.free}
        boxes: dict[Var, Box] = {}
        rest = list(self.free)
        while rest:
            shortest = min(rest, key=self._steps)  # short unknowns first: long ones are then narrowed by their values
            rest.remove(shortest)
            boxes[shortest] = self.boxes[shortest]
            self.before.add(shortest)
            self._narrow(rest)
        return boxes

    def _steps(self, var: Var) -> int:
        steps = self.boxes[var].steps
        return _ENDLESS if steps is None else steps

    def _start(self) -> None:
        for var in self.free:
            if (
                isinstance(var, IterVar)  # a domain that speaks of unknowns is no range to begin with
                and var.dom is not None
                and self.knows(var.dom.begin)
                and self.knows(var.dom.extent)
            ):
                self.boxes[var] = Box(var.dom.begin, var.dom.extent, own=True)

    def _narrow(self, unknowns: Sequence[Var]) -> None:
        for _ in range(_ROUNDS + len(unknowns)):  # a fixed number of rounds: narrowing may go on without end
            changed = False
            for var in unknowns:
                changed |= self._narrow_one(var)
            if not changed:
                return

    def _narrow_one(self, var: Var) -> bool:
        """Give `var` a range, or a shorter one than it has."""
        best = self.boxes.get(var)
        lows, highs = list[Expr](), list[Expr]()
        changed = False
        for bound in self.bounds:
            box = self._bound_by_condition(var, bound, lows, highs)
            if box is not None and _shorter(box, best):
                best, changed = box, True
        if best is not None and best.own:
            lows.append(best.begin)
            highs.append(ops.subtract(ops.add(best.begin, best.extent), 1))
        for low in lows:
            for high in highs:
                box = self._intersect_bounds(low, high, best is None)
                if box is not None and _shorter(box, best):
                    best, changed = box, True
        if best is not None:
            self.boxes[var] = best
        return changed

    def _bound_by_condition(self, var: Var, bound: Bound, lows: list[Expr], highs: list[Expr]) -> Box | None:
        """The range that one condition leaves to `var`, the others lying in their ranges."""
        coeff = bound.form.coeffs.get(var, 0)
        if not coeff:
            return None
        rest = self._others(bound.form, var)
        if rest is None:
            return None
        size = abs(coeff)
        low, high = None, None
        if bound.width is not None:  # -rest.high <= coeff * var <= width - rest.low
            ends = (ops.negative(rest.high), ops.subtract(bound.width, rest.low))
            if coeff < 0:
                ends = (ops.subtract(rest.low, bound.width), rest.high)
            low, high = ops.index_ceildiv(ends[0], size), ops.floordiv(ends[1], size)
        elif coeff > 0:
            low = ops.index_ceildiv(ops.negative(rest.high), size)
        else:
            high = ops.floordiv(rest.high, size)
        if low is not None:
            low = self.analyzer.simplify(low)
            lows.append(low)
        if high is not None:
            highs.append(self.analyzer.simplify(high))
        if low is None or bound.width is None:  # one side alone bounds no number of steps
            return None
        spread = ops.subtract(rest.high, rest.low)
        steps = self.analyzer.simplify(ops.add(ops.floordiv(ops.add(bound.width, spread), size), 1))
        return Box(low, steps)

    def _others(self, form: LinearForm, var: Var) -> Span | None:
        """The values of `form` without its term in `var`; None where one of the others has no range yet."""
        rest = Span.point(form.const)
        for other, coeff in form.without(var).coeffs.items():
            box = self.boxes.get(other)
            if other in self.before:  # the value itself is known by then, and not only its range
                span = Span.point(other)
            elif box is not None:
                span = Span.of(box.begin, box.extent)
            else:
                return None
            rest = rest.plus(span.scale(coeff))
        return rest

    def _intersect_bounds(self, low: Expr, high: Expr, symbolic: bool) -> Box | None:
        steps = self.analyzer.simplify(ops.add(ops.subtract(high, low), 1))
        most = self.analyzer.interval(steps).hi
        if most is not None and most < _ENDLESS:  # a box has at least one step: an empty one would lose its begin
            return Box(low, ops.const(max(most, 1), low.dtype))
        return Box(low, steps) if symbolic else None  # a symbolic width is better than none


def _shorter(box: Box, best: Box | None) -> bool:
    if best is None:
        return True
    return box.steps is not None and (best.steps is None or box.steps < best.steps)
