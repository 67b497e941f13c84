"""Loops for the unknowns that stay free: each as short as the conditions allow.

Of `0 <= j - 2 * y < K` follows that y runs through at most (K - 1) // 2 + 1 values, whatever j is; so the gradient of
a strided convolution takes as many steps as the convolution, and not one for each output position.

    free y in [0, OH), 0 <= j - 2 * y <= K - 1      →      y = (j - K + 2) // 2 + t for t in [0, (K - 1) // 2 + 1)

The shorter range covers the conditions, which stay as guards where they are not proved by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...errors import InternalError
from ...ir import ops
from ...ir.expr import GE, LE, LT, Expr, IntImm, IterVar, Range, Var
from ...ir.visit import substitute
from .equations import Affine, Bound, System, reads_tensors

__all__ = ["Loops", "loops_of"]

_ENDLESS = 1 << 30
_ROUNDS = 4
"""How often ranges are narrowed by each other, beyond once for each."""


@dataclass(frozen=True, slots=True, eq=False)
class Box:
    """The integers from `begin` on, `extent` of them, both without unknowns. own: the domain as it was declared."""

    begin: Expr
    extent: Expr
    own: bool = False

    @property
    def steps(self) -> int | None:
        return self.extent.value if isinstance(self.extent, IntImm) else None


@dataclass(frozen=True, slots=True, eq=False)
class Loops:
    """axes: what is left to sum over. values: each unknown over these axes and what is known. guards: the conditions
    that are not proved. rows: of those that read tensors the ones that say where an unknown's domain ends; what reads
    at the unknown may be done only there. matches: the rest of those."""

    axes: tuple[IterVar, ...]
    values: dict[Var, Expr]
    guards: tuple[Expr, ...]
    rows: tuple[Expr, ...]
    matches: tuple[Expr, ...]


def loops_of(system: System, order: Sequence[IterVar]) -> Loops:
    """Loops over the free unknowns of a solved system. order: the unknowns as they were given."""
    return _Ranges(system, order).loops()


class _Ranges:
    def __init__(self, system: System, order: Sequence[IterVar]) -> None:
        self.system, self.analyzer = system, system.analyzer
        given = [var for var in order if var in system.free and var not in system.nested]
        made = [var for var in system.free if var not in order]
        self.free: list[Var] = [*given, *made]
        self.nested = [var for var in order if var in system.free and var in system.nested]
        self.boxes: dict[Var, Box] = {}

    def loops(self) -> Loops:
        self._narrow()
        axes: list[IterVar] = []
        values: dict[Var, Expr] = {}
        for var in self.free:
            values[var] = self._axis(var, self.boxes[var], axes)
        for var in self.nested:
            values[var] = self._nested_axis(var, values, axes)
        for var, form in self.system.solved.items():
            value = substitute(form.expression(), values)
            values[var] = ops.cast(self.analyzer.simplify(value), var.dtype)
        return Loops(tuple(axes), values, *self._conditions(values))

    def _axis(self, var: Var, box: Box, axes: list[IterVar]) -> Expr:
        if box.steps == 1:
            return ops.cast(box.begin, var.dtype)
        begin, extent = ops.cast(box.begin, var.dtype), ops.cast(box.extent, var.dtype)
        if box.own or isinstance(box.begin, IntImm):
            axis = IterVar(var.name, var.dtype, Range(begin, extent), "reduce")
            self.analyzer.bind(axis, Range(begin, extent))
            axes.append(axis)
            return axis
        domain = Range(ops.const(0, var.dtype), extent)
        axis = IterVar(var.name, var.dtype, domain, "reduce")
        self.analyzer.bind(axis, domain)
        axes.append(axis)
        return ops.add(begin, axis)

    def _nested_axis(self, var: IterVar, values: dict[Var, Expr], axes: list[IterVar]) -> Expr:
        """An axis whose domain depends on others: what those are is kept within their own domains, which the guards
        are too late for."""
        assert var.dom is not None
        known = dict(values)
        for other, form in self.system.solved.items():
            value = substitute(form.expression(), values)
            if isinstance(other, IterVar) and other.dom is not None and self.system.knows(other.dom.extent):
                last = ops.subtract(ops.add(other.dom.begin, other.dom.extent), 1)
                value = ops.maximum(ops.minimum(value, last), other.dom.begin)
            known[other] = ops.cast(self.analyzer.simplify(value), other.dtype)
        begin, extent = (self.analyzer.simplify(substitute(end, known)) for end in (var.dom.begin, var.dom.extent))
        axis = IterVar(var.name, var.dtype, Range(begin, extent), "reduce")
        axes.append(axis)
        return axis

    def _conditions(self, values: dict[Var, Expr]) -> tuple[tuple[Expr, ...], tuple[Expr, ...], tuple[Expr, ...]]:
        """What has to hold and is not proved to, as the last three fields of Loops."""
        wanted = list(self.system.guards)
        for bound in self.system.bounds:
            form = substitute(bound.form.expression(), values)
            wanted.append(ops.compare(GE, form, 0))
            if bound.width is not None:
                wanted.append(ops.compare(LE, form, bound.width))
        ends = list[Expr]()
        for var in self.system.nested:
            if var not in self.system.free and var.dom is not None:
                begin, extent = (substitute(end, values) for end in (var.dom.begin, var.dom.extent))
                past = ops.subtract(values[var], begin)
                ends += [ops.compare(GE, past, 0), ops.compare(LT, past, extent)]
        opaque = [substitute(condition, values) for condition in self.system.opaque]
        safe, rows, matches = list[Expr](), list[Expr](), list[Expr]()
        for conditions, reading in ((wanted, matches), (ends, rows), (opaque, matches)):
            for condition in conditions:
                simple = self.analyzer.simplify(condition)
                if not ops.is_const(simple, 1):
                    (reading if reads_tensors(simple) else safe).append(simple)
        return tuple(safe), tuple(rows), tuple(matches)

    # Narrowing

    def _narrow(self) -> None:
        for var in self.free:
            if isinstance(var, IterVar) and var.dom is not None and self.system.knows(var.dom.begin) \
                    and self.system.knows(var.dom.extent):
                self.boxes[var] = Box(var.dom.begin, var.dom.extent, own=True)
        for _ in range(_ROUNDS + len(self.free)):
            changed = False
            for var in self.free:
                changed |= self._narrow_one(var)
            if not changed:
                break
        for var in self.free:
            if var not in self.boxes:
                raise InternalError(f"nothing bounds {var.name}")

    def _narrow_one(self, var: Var) -> bool:
        """Give `var` a range, or a shorter one than it has."""
        best = self.boxes.get(var)
        lows, highs = list[Expr](), list[Expr]()
        changed = False
        for bound in self.system.bounds:
            found = self._by_bound(var, bound, lows, highs)
            if found is not None and _shorter(found, best):
                best, changed = found, True
        if best is not None and best.own:
            lows.append(best.begin)
            highs.append(ops.subtract(ops.add(best.begin, best.extent), 1))
        for low in lows:
            for high in highs:
                found = self._between(low, high, best is None)
                if found is not None and _shorter(found, best):
                    best, changed = found, True
        if best is not None:
            self.boxes[var] = best
        return changed

    def _by_bound(self, var: Var, bound: Bound, lows: list[Expr], highs: list[Expr]) -> Box | None:
        """The range that one condition leaves to `var`, the others lying in their ranges."""
        coeff = bound.form.coeffs.get(var, 0)
        if not coeff:
            return None
        least, most, spread = self._others(bound.form, var)
        if least is None or most is None or spread is None:
            return None
        size = abs(coeff)
        low, high = None, None
        if bound.width is not None:  # -most <= coeff * var <= width - least
            ends = (ops.negative(most), ops.subtract(bound.width, least))
            if coeff < 0:
                ends = (ops.subtract(least, bound.width), most)
            low, high = _ceildiv(ends[0], size), ops.floordiv(ends[1], size)
        elif coeff > 0:
            low = _ceildiv(ops.negative(most), size)
        else:
            high = ops.floordiv(most, size)
        if low is not None:
            low = self.analyzer.simplify(low)
            lows.append(low)
        if high is not None:
            highs.append(self.analyzer.simplify(high))
        if low is None or bound.width is None:
            return None
        steps = self.analyzer.simplify(ops.add(ops.floordiv(ops.add(bound.width, spread), size), 1))
        return Box(low, steps)

    def _others(self, form: Affine, var: Var) -> tuple[Expr | None, Expr | None, Expr | None]:
        """The least and the greatest value of `form` without its term in `var`, and how far they are apart; None
        where one has no range yet."""
        least = most = form.rest
        spread: Expr = ops.const(0, form.rest.dtype)
        for other, coeff in form.coeffs.items():
            if other is var:
                continue
            box = self.boxes.get(other)
            if box is None:
                return None, None, None
            width = ops.multiply(ops.subtract(box.extent, 1), abs(coeff))
            begin = ops.multiply(box.begin, coeff)
            low = begin if coeff > 0 else ops.subtract(begin, width)
            least, most = ops.add(least, low), ops.add(most, ops.add(low, width))
            spread = ops.add(spread, width)
        return least, most, spread

    def _between(self, low: Expr, high: Expr, symbolic: bool) -> Box | None:
        steps = self.analyzer.simplify(ops.add(ops.subtract(high, low), 1))
        most = self.analyzer.interval(steps).hi
        if most is not None and most < _ENDLESS:
            return Box(low, ops.const(max(most, 1), low.dtype))
        return Box(low, steps) if symbolic else None


def _shorter(found: Box, best: Box | None) -> bool:
    if best is None:
        return True
    return found.steps is not None and (best.steps is None or found.steps < best.steps)


def _ceildiv(a: Expr, divisor: int) -> Expr:
    return ops.floordiv(ops.add(a, divisor - 1), divisor)
