"""Loads at indices that are chosen: one case for each choice, so that each has linear indices.

An image read beyond its edge is read at `max(i - 1, 0)`. As one index that is not linear, and turning it round would
try every i for every element. As two cases it is: at `i - 1` where i - 1 >= 0, and at 0 where i - 1 < 0.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...base.dataclass import dataclass
from ...ir import ops
from ...ir.arith.analyzer import Analyzer
from ...ir.expr import GE, LE, Expr, IfThenElse, Max, Min, Select, Var
from ...ir.visit import post_order, rewrite
from .equations import reads_tensors

__all__ = ["Case", "split_cases"]

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
