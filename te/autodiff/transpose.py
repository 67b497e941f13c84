"""Transposition from "this element reads that one with this adjoint" to the sum that one element receives: turning a read round.

C[n, o, y, x] = sum(A[n, c, y + p, x + q] * W[o, c, p, q], [c, p, q])
grad_A[n, c, y, x] = sum(grad_C[n, o, y - p, x - q] * W[o, c, p, q], [o, p, q],
                         where=(p <= y < H + p) and (q <= x < W + q))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...base.dataclass import dataclass
from ...ir import ops
from ...ir.analysis.boxes import Unbounded
from ...ir.arith.analyzer import Analyzer
from ...ir.expr import Expr, IterVar, Node, ProducerLoad, Range, Var
from ...ir.visit import rewrite, substitute
from ..reduce import sum as _sum
from .backward import Condition, Contribution
from .cases import split_cases
from .equations import System, reads_tensors
from .ranges import Loops, build_loops

__all__ = ["Term", "transpose"]


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
