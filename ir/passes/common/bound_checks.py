"""Asserts before accesses that are not proved to be in range.

    C[i] = A[index[i]]      →      assert index[i] >= 0 and index[i] < 16, "A[index[i]]: index 0 of A ..."
                                   C[i] = A[index[i]]

Optional (`bounds_check=True`): data-dependent indices alone can go astray, and this finds where. An access within a
branch of an if_then_else is checked if that branch is chosen. On a CPU a failed assert ends the kernel with a status.

It stands early: later passes drop guards and mask lanes, and dimensions are gone after flatten.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.access_context import guarded_loads
from ...arith.analyzer import Analyzer
from ...expr import Broadcast, BufferLoad, Expr, ProducerLoad, Ramp, Range
from ...ops import TRUE, conjunction, if_then_else, logical_and, logical_not
from ...stmt import Assert, BufferStore, Evaluate, For, Function, If, LetStmt, Stmt
from ...structural import structural_key
from ...visit import Rewriter, seq
from .simplify import build_analyzer

__all__ = ["bound_checks"]


def bound_checks(function: Function) -> Function:
    """`function` with an Assert before every statement whose accesses may be out of range."""
    return function.with_body(_Checker(build_analyzer(function)).visit(function.body))


class _Checker(Rewriter):
    def __init__(self, analyzer: Analyzer) -> None:
        self.analyzer = analyzer

    def For(self, node: For) -> Stmt:
        # the bounds of a loop are evaluated once, before it: their checks stand outside
        checks = self._checks(node.begin, node.extent)
        self.analyzer.bind(node.var, Range(node.begin, node.extent))
        return seq(*checks, self.generic(node))

    def If(self, node: If) -> Stmt:
        checks = self._checks(node.condition)
        with self.analyzer.constraint(node.condition):
            then_body = self.visit(node.then_body)
        else_body = None
        if node.else_body is not None:
            with self.analyzer.constraint(logical_not(node.condition)):
                else_body = self.visit(node.else_body)
        return seq(*checks, If(node.condition, then_body, else_body))

    def LetStmt(self, node: LetStmt) -> Stmt:
        return seq(*self._checks(node.value), self.generic(node))

    def Evaluate(self, node: Evaluate) -> Stmt:
        return seq(*self._checks(node.value), node)

    def BufferStore(self, node: BufferStore) -> Stmt:
        checks = self._checks(*node.indices, node.value)
        # checks of loads come first: the store's index may be made of what they read
        return seq(*checks, *self._access_checks(node, ()), node)

    def _checks(self, *roots: Expr) -> list[Stmt]:
        """Conjunction of the checks of all loads below, inner loads before those whose indices they are."""
        checks: dict[object, Assert] = {}
        for root in roots:
            for load, path in guarded_loads(root):
                assert not isinstance(load, ProducerLoad), "tensors are buffers by now"
                for check in self._access_checks(load, path):
                    # equal accesses of one statement need one check
                    checks.setdefault((structural_key(check.condition), check.message), check)
        return list(checks.values())

    def _access_checks(self, access: BufferLoad | BufferStore, path: tuple[Expr, ...]) -> Iterator[Assert]:
        buffer = access.buffer
        places = ((at, end) for at, index in enumerate(access.indices) for end in _ends(index))
        for dimension, index in places:
            extent = buffer.shape[dimension]
            with self.analyzer.constraint(conjunction(*path)):
                low, high = self.analyzer.can_prove(index >= 0), self.analyzer.can_prove(index < extent)
            if low and high:
                continue  # most accesses end here; the kernel pays only for what data decide
            within = logical_and(TRUE if low else index >= 0, TRUE if high else index < extent)
            what = "read" if isinstance(access, BufferLoad) else "written"
            yield Assert(
                _where(path, within),
                f"{buffer.name} is {what} out of range: its index {index} in dimension {dimension} is not in [0, {extent})",
            )


def _ends(index: Expr) -> tuple[Expr, ...]:
    """The scalars that are in range where all of an index is: of the vectors of an intrinsic's body the first and the last."""
    if isinstance(index, Broadcast):
        return (index.value,)
    if isinstance(index, Ramp):
        # the lanes between lie between: a ramp is monotone
        return (index.base, index.base + index.stride * (index.lanes - 1))
    return (index,)


def _where(path: tuple[Expr, ...], holds: Expr) -> Expr:
    """`holds` where the conditions of `path` do. Each is evaluated under those before it alone: it may read what they guard."""
    for condition in reversed(path):
        holds = if_then_else(condition, holds, TRUE)
    return holds
