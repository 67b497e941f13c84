"""Transposition from "this element reads that one with this adjoint" to the sum that one element receives: turning a read round.

C[n, o, y, x] = sum(A[n, c, y + p, x + q] * W[o, c, p, q], [c, p, q])
grad_A[n, c, y, x] = sum(grad_C[n, o, y - p, x - q] * W[o, c, p, q], [o, p, q],
                         where=(p <= y < H + p) and (q <= x < W + q))

Loops for the unknowns that stay free, and what still has to be asked within them.

    free y in [0, OH), 0 <= j - 2 * y <= K - 1      →      y = (j - K + 2) // 2 + t for t in [0, (K - 1) // 2 + 1)

so that the gradient of a strided convolution takes as many steps as the convolution, and not one for each output
position. A range covers the conditions that it comes from; they stay as guards where it does not prove them.

Loads at indices that are chosen: one case for each choice, so that each has linear indices.

An image read beyond its edge is read at `max(i - 1, 0)`. As one index that is not linear, and turning it round would
try every i for every element. As two cases it is: at `i - 1` where i - 1 >= 0, and at 0 where i - 1 < 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...base import dataclass, replace
from ...ir import ops
from ...ir.analysis.boxes import Box, Unbounded, solve_boxes
from ...ir.arith.analyzer import Analyzer
from ...ir.expr import GE, LE, LT, Expr, IfThenElse, IntImm, IterVar, Max, Min, Node, ProducerLoad, Range, Select, Var
from ...ir.visit import post_order, rewrite, substitute
from ..reduce import sum as _sum
from .backward import Condition, Contribution
from .equations import System, expression, reads_tensors

__all__ = [
    "Case",
    "Loops",
    "Term",
    "build_loops",
    "split_cases",
    "transpose",
]

_MOST = 32
"""More cases than this are left as one whose indices are not linear: each case is a stage of its own."""


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One case of a read: at `indices` where `conditions` hold, which read no tensor."""

    indices: tuple[Expr, ...]
    conditions: tuple[Expr, ...] = ()


def split_cases(indices: Sequence[Expr], unknowns: Sequence[Var], analyzer: Analyzer) -> list[Case]:
    """The cases of a read whose indices choose by `unknowns`; they exclude each other."""
    whole = Case(tuple(map(analyzer.simplify, indices)))
    closed_cases: list[Case] = []
    open_cases = [whole]
    while open_cases:
        if len(closed_cases) + len(open_cases) > _MOST:
            return [whole]
        case = open_cases.pop()
        choice = _choice(case.indices, set(unknowns))
        if choice is None:
            closed_cases.append(case)
            continue
        node, condition, first, second = choice
        for holds, value in ((condition, first), (ops.logical_not(condition), second)):
            # impossible cases fall away by what is known of the axes
            known = analyzer.simplify(ops.conjunction(*case.conditions, holds))
            if ops.is_const(known, 0):
                continue
            with analyzer.constraint(known):  # within a case its condition simplifies the indices
                indices = tuple(analyzer.simplify(_put(index, node, value)) for index in case.indices)
            open_cases.append(Case(indices, (*case.conditions, holds)))
    return closed_cases


def _choice(indices: Sequence[Expr], unknowns: set[Var]) -> tuple[Expr, Expr, Expr, Expr] | None:
    """An innermost choice by unknowns in the indices: the node, its condition and its values."""
    for index in indices:
        if reads_tensors(index):
            continue  # an index that is data is not linear in any case
        for node in post_order(index):
            if (
                isinstance(node, (Min, Max, Select, IfThenElse))
                and node.dtype.is_integer
                and any(inner in unknowns for inner in post_order(node) if isinstance(inner, Var))
            ):
                if isinstance(node, (Min, Max)):
                    # min and max choose by a comparison, too
                    return node, ops.compare(LE if isinstance(node, Min) else GE, node.a, node.b), node.a, node.b
                return node, node.condition, node.true_value, node.false_value
    return None


def _put(index: Expr, node: Expr, value: Expr) -> Expr:
    return rewrite(index, lambda inner: value if inner is node else None)


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


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """Contribution to an element at `indices`: the sum over `axes`, where `where` holds, of `value`."""

    axes: tuple[IterVar, ...]
    where: Expr
    value: Expr

    def over(self, values: Mapping[Var, Expr]) -> Term:
        """The same with what is known replaced, over axes of its own."""
        renamed = dict(values)
        axes: list[IterVar] = []
        for axis in self.axes:
            assert axis.dom is not None
            domain = Range(substitute(axis.dom.begin, renamed), substitute(axis.dom.extent, renamed))
            axes.append(IterVar(axis.name, axis.dtype, domain, axis.kind))
            renamed[axis] = axes[-1]
        return Term(tuple(axes), substitute(self.where, renamed), substitute(self.value, renamed))

    def body(self) -> Expr:
        """The element of the stage that computes it."""
        if self.axes:
            return _sum(self.value, axis=self.axes, where=self.where)
        return ops.if_then_else(self.where, self.value, ops.const(0, self.value.dtype))


def transpose(
    load: ProducerLoad,
    adjoint: Contribution,
    unknowns: Sequence[IterVar],
    indices: Sequence[Expr],
    known: Sequence[IterVar],
) -> list[Term]:
    """Return what the element at `indices` of the tensor that `load` reads receives, as terms; none where it is always zero.

    unknowns: the axes of the operation that reads, over which the adjoint is to be summed. known: the axes of the
    tensor that is made, over which `indices` are given.
    """
    analyzer = Analyzer()
    for extent in load.producer.shape:
        if isinstance(extent, Var):
            analyzer.bind(extent, (0, None))
    for axis in (*known, *unknowns):
        if axis.dom is not None and not any(map(reads_tensors, (axis.dom.begin, axis.dom.extent))):
            analyzer.bind(axis, axis.dom)
    linear, reading = _sort_conditions(adjoint.conditions, analyzer)
    terms: list[Term] = []
    for case in split_cases(load.indices, unknowns, analyzer):
        conditions = (*linear, *ops.conjuncts(analyzer.simplify(ops.conjunction(*case.conditions))))
        pairs = tuple(zip(case.indices, indices, strict=True))
        try:
            system = _solve(analyzer, unknowns, pairs, conditions)
            loops = build_loops(system, unknowns)
        except Unbounded:  # all of the operation's elements are looked through for those that read this one
            system = _solve(analyzer, unknowns, (), conditions)
            loops = build_loops(system, unknowns)
            met = tuple(substitute(index, loops.values).equal(element) for index, element in pairs)
            loops = replace(loops, guards=(*loops.guards, *met))
        term = _term(loops, Contribution(reading, adjoint.value), system.analyzer)
        if term is not None:
            terms.append(term)
    return terms


def _solve(
    analyzer: Analyzer,
    unknowns: Sequence[IterVar],
    pairs: Sequence[tuple[Expr, Expr]],
    conditions: Sequence[Expr],
) -> System:
    """The system of equal pairs and conditions, solved."""
    system = System(analyzer.copy(), unknowns)
    for index, element in pairs:
        system.equate(index, element)
    for condition in conditions:
        system.require(condition)
    system.solve()
    return system


def _sort_conditions(conditions: Sequence[Condition], analyzer: Analyzer) -> tuple[list[Expr], tuple[Condition, ...]]:
    """The conditions that read no tensor, and those that do."""
    plain, reading = list[Expr](), list[Condition]()
    for condition in conditions:
        for part in ops.conjuncts(condition.holds):
            if reads_tensors(part):
                reading.append(Condition(part, condition.lazy))
            else:
                plain += ops.conjuncts(analyzer.simplify(part))
    return plain, tuple(reading)


def _term(loops: Loops, adjoint: Contribution, analyzer: Analyzer) -> Term | None:
    conditions = (
        *(Condition(row, lazy=True) for row in loops.rows),
        *(Condition(substitute(condition.holds, loops.values), condition.lazy) for condition in adjoint.conditions),
        *(Condition(match) for match in loops.matches),
    )
    value = Contribution(conditions, substitute(adjoint.value, loops.values)).chosen()
    where = analyzer.simplify(ops.conjunction(*loops.guards))
    if ops.is_const(where, 0):
        return None
    with analyzer.constraint(where):
        return Term(loops.axes, where, _tidy(value, analyzer))


def _tidy(value: Expr, analyzer: Analyzer) -> Expr:
    """`value` with the indices of its reads simplified."""

    def rule(node: Node) -> Node | None:
        if isinstance(node, ProducerLoad):
            indices = tuple(map(analyzer.simplify, node.indices))
            if any(new is not old for new, old in zip(indices, node.indices, strict=True)):
                return ProducerLoad(node.producer, indices)
        return None

    return rewrite(value, rule)
