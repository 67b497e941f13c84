"""Loops for the unknowns that stay free, and what still has to be asked within them.

    free y in [0, OH), 0 <= j - 2 * y <= K - 1      →      y = (j - K + 2) // 2 + t for t in [0, (K - 1) // 2 + 1)

so that the gradient of a strided convolution takes as many steps as the convolution, and not one for each output
position. A range covers the conditions that it comes from; they stay as guards where it does not prove them.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...base.dataclass import dataclass
from ...ir import ops
from ...ir.analysis.boxes import Box, solve_boxes
from ...ir.expr import GE, LE, LT, Expr, IntImm, IterVar, Range, Var
from ...ir.visit import substitute
from .equations import System, expression, reads_tensors

__all__ = ["Loops", "build_loops"]


@dataclass(frozen=True, slots=True, eq=False)
class Loops:
    """Loops that solve the equations of a read.

    axes: what is left to sum over. values: each unknown over these axes and what is known. guards: the conditions
    that are not proved. rows: of those that read tensors the ones that say where an unknown's domain ends; what reads
    at the unknown may be done only there. matches: the rest of those.
    """

    axes: tuple[IterVar, ...]
    values: dict[Var, Expr]
    guards: tuple[Expr, ...]
    rows: tuple[Expr, ...]
    matches: tuple[Expr, ...]


def build_loops(system: System, order: Sequence[IterVar]) -> Loops:
    """Loops over the free unknowns of a solved system. order: the unknowns as they were given."""
    return _Ranges(system, order).loops()


class _Ranges:
    def __init__(self, system: System, order: Sequence[IterVar]) -> None:
        self.system, self.analyzer = system, system.analyzer
        given = [var for var in order if var in system.free and var not in system.nested]
        fresh = [var for var in system.free if var not in order]
        self.free: list[Var] = [*given, *fresh]
        self.nested = [var for var in order if var in system.free and var in system.nested]

    def loops(self) -> Loops:
        axes: dict[Var, IterVar] = {}
        values: dict[Var, Expr] = {}
        for var, box in solve_boxes(self.system.bounds, self.free, self.analyzer, self.system.knows).items():
            values[var] = self._axis(var, box, values, axes)
        for var in self.nested:
            values[var] = self._nested_axis(var, values, axes)
        for var, form in self.system.solved.items():
            value = substitute(expression(form), values)
            values[var] = ops.cast(self.analyzer.simplify(value), var.dtype)
        order = (*self.free, *self.nested)
        return Loops(tuple(axes[var] for var in order if var in axes), values, *self._conditions(values))

    def _axis(self, var: Var, box: Box, values: dict[Var, Expr], axes: dict[Var, IterVar]) -> Expr:
        """The value of an unknown, over an axis of its own where it has more than one."""
        begin = self.analyzer.simplify(ops.cast(substitute(box.begin, values), var.dtype))
        if box.steps == 1:
            return begin
        extent = ops.cast(box.extent, var.dtype)
        own = box.own or isinstance(begin, IntImm)
        domain = Range(begin if own else ops.const(0, var.dtype), extent)
        axis = axes[var] = IterVar(var.name, var.dtype, domain, "reduce")
        self.analyzer.bind(axis, domain)
        return axis if own else ops.add(begin, axis)

    def _nested_axis(self, var: IterVar, values: dict[Var, Expr], axes: dict[Var, IterVar]) -> Expr:
        """An axis whose domain depends on others: what those are is kept within their own domains, which the guards
        are too late for."""
        assert var.dom is not None
        known = dict(values)
        for other, form in self.system.solved.items():
            value = substitute(expression(form), values)
            if isinstance(other, IterVar) and other.dom is not None and self.system.knows(other.dom.extent):
                last = ops.subtract(ops.add(other.dom.begin, other.dom.extent), 1)
                value = ops.maximum(ops.minimum(value, last), other.dom.begin)
            known[other] = ops.cast(self.analyzer.simplify(value), other.dtype)
        begin, extent = (self.analyzer.simplify(substitute(end, known)) for end in (var.dom.begin, var.dom.extent))
        axis = axes[var] = IterVar(var.name, var.dtype, Range(begin, extent), "reduce")
        return axis

    def _conditions(self, values: dict[Var, Expr]) -> tuple[tuple[Expr, ...], tuple[Expr, ...], tuple[Expr, ...]]:
        """Return what has to hold and is not proved to, as the last three fields of Loops."""
        wanted = list(self.system.guards)
        for bound in self.system.bounds:
            form = substitute(expression(bound.form), values)
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
