"""Lazy choices to eager ones, where evaluating both sides is safe and cheap.

    if_then_else(A[i] > 0.0, A[i] * 2.0, 0.0)      →      select(A[i] > 0.0, A[i] * 2.0, 0.0)

A choice under `likely` is left to loop_partition. A branch is safe if each load in it is one that the statement does
anyway, or is proved to be within its buffer; a division never traps. Without the branch, a loop over it needs no masks,
and LLVM no jump.

It stands while indices are n-d, so that a range is proved a dimension at a time, and before vectorize.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...arith.analyzer import Analyzer
from ...contents import require_any
from ...expr import BufferLoad, Call, Expr, IfThenElse, Let, Node, Range, Select
from ...ops import logical_not
from ...stmt import BufferStore, For, Function, If, Stmt
from ...visit import Rewriter, children, post_order, rewrite, walk
from .numbering import Numbering
from .simplify import build_analyzer

__all__ = ["MAX_SPECULATED_NODES", "is_in_range", "unsafe_select"]

MAX_SPECULATED_NODES = 24
"""Nodes of the largest branch that is evaluated although it may not be chosen."""
CHEAP_CALLS = frozenset(
    (
        "abs",
        "floor",
        "ceil",
        "round",
        "trunc",
        "nearbyint",
        "fma",
        "copysign",
        "isnan",
        "isfinite",
        "isinf",
        "likely",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "bitwise_not",
        "shift_left",
        "shift_right",
        "popcount",
        "clz",
        "reinterpret",
    )
)


@require_any(IfThenElse)
def unsafe_select(function: Function, counts_places: bool = False) -> Function:
    """`function` with Select for IfThenElse where that is safe. counts_places: indices count among the nodes of a branch, as where each
    thread computes them, and a guarded copy may be asked for whole."""
    return function.with_body(_Selector(build_analyzer(function), counts_places).visit(function.body))


def _is_likely(condition: Expr) -> bool:
    return any(isinstance(node, Call) and node.name == "likely" for node in walk(condition))


def is_in_range(analyzer: Analyzer, load: BufferLoad | BufferStore) -> bool:
    """Return whether every index of the access is proved to be within its buffer."""
    return all(
        index.dtype.lanes == 1 and analyzer.can_prove(index >= 0) and analyzer.can_prove(index < extent)
        for index, extent in zip(load.indices, load.buffer.shape, strict=True)
    )


class _Selector(Rewriter):
    def __init__(self, analyzer: Analyzer, counts_places: bool) -> None:
        self.analyzer = analyzer
        self.counted = children if counts_places else _values

    def For(self, node: For) -> Stmt:
        self.analyzer.bind(node.var, Range(node.begin, node.extent))
        return self.generic(node)

    def If(self, node: If) -> Stmt:
        condition = self.visit(node.condition)
        with self.analyzer.constraint(condition):
            then_body = self.visit(node.then_body)
        else_body = None
        if node.else_body is not None:
            with self.analyzer.constraint(logical_not(condition)):
                else_body = self.visit(node.else_body)
        if condition is node.condition and then_body is node.then_body and else_body is node.else_body:
            return node
        return If(condition, then_body, else_body)

    def visit(self, node: Any) -> Any:
        if isinstance(node, Expr):
            return self._expr(node)
        return super().visit(node)

    def _expr(self, root: Expr) -> Expr:
        if not any(isinstance(node, IfThenElse) for node in post_order(root)):
            return root
        numbering = Numbering()
        # a load that happens anyway cannot fault when it is speculated
        done = {numbering.number(node) for node in post_order(root, below=_sure) if isinstance(node, BufferLoad)}

        def rule(node: Node) -> Expr | None:
            # loop_partition will remove the choice altogether
            if not isinstance(node, IfThenElse) or _is_likely(node.condition):
                return None
            if self._safe(node.true_value, numbering, done) and self._safe(node.false_value, numbering, done):
                return Select(node.condition, node.true_value, node.false_value)
            return None

        return rewrite(root, rule)

    def _safe(self, branch: Expr, numbering: Numbering, done: set[int]) -> bool:
        if sum(1 for _ in post_order(branch, below=self.counted)) > MAX_SPECULATED_NODES:
            return False
        for node in walk(branch):
            # a nested choice guards its own loads, and a let may hide one
            if isinstance(node, (Let, IfThenElse)):
                return False
            # exp or a call of outside code is too slow to be computed for nothing
            if isinstance(node, Call) and node.name not in CHEAP_CALLS:
                return False
            if (
                isinstance(node, BufferLoad)
                and numbering.number(node) not in done
                and not is_in_range(self.analyzer, node)
            ):
                return False
        return True


def _values(node: Node) -> Sequence[Node]:
    """The children but for places of memory, which take no arithmetic of their own."""
    return () if isinstance(node, BufferLoad) else children(node)


def _sure(node: Node) -> Sequence[Node]:
    """The children that are evaluated whatever is chosen."""
    return [node.condition] if isinstance(node, IfThenElse) else children(node)
