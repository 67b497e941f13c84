"""Expressions to simpler ones, and what that decides about statements.

    for i in 1: S(i)                       →   S(0)                for i in n: if i < n: S      →   for i in n: S
    for i in 0: S                          →   nothing             if likely(True): S           →   S

Ranges of loop variables, conditions that hold where a statement stands, and that extents are not negative, are known to
the simplifier. It stands first, so that later passes meet few forms, and again after loop_partition, whose pieces
decide guards and bounds.
"""

from __future__ import annotations

from dataclasses import replace
from operator import is_
from typing import Any

from ....base.limits import INT32_EXTENT_LIMIT
from ...arith.analyzer import Analyzer
from ...buffer import Buffer
from ...contents import kept_results
from ...expr import Call, Expr, IntImm, Range, SizeVar, StringImm, Var
from ...ops import is_const, logical_not
from ...stmt import (
    Allocate,
    Assert,
    Attr,
    BufferStore,
    Evaluate,
    For,
    Function,
    If,
    LetStmt,
    LoopKind,
    Seq,
    Stmt,
    While,
)
from ...visit import Rewriter, free_vars, rebuild, seq, walk
from .fresh_copy import Copier
from .let_names import rename_lets

__all__ = ["build_analyzer", "is_empty", "simplify", "simplify_stmt", "symbol_range"]


def simplify(function: Function) -> Function:
    """`function` with every expression simplified and what follows from it."""
    simplifier = _Simplifier(build_analyzer(function), kept_results("simplify"), *function.params)
    return function.with_body(rename_lets(simplifier.visit(function.body)))


def simplify_stmt(stmt: Stmt, analyzer: Analyzer) -> Stmt:
    """`stmt` simplified by what `analyzer` knows of the variables that are free in it."""
    return _Simplifier(analyzer, {}).visit(stmt)


def build_analyzer(function: Function) -> Analyzer:
    """An Analyzer that knows the shape symbols of `function`."""
    analyzer = Analyzer()
    seen: set[Var] = set()
    for buffer in function.buffers:
        for extent in buffer.shape:
            for var in free_vars(extent):
                # an extent that is an expression says nothing of its symbols alone
                if var not in seen and (var is extent or isinstance(var, SizeVar)):
                    seen.add(var)
                    analyzer.bind(var, symbol_range(var))
    return analyzer


def symbol_range(symbol: Var) -> tuple[int, int]:
    """The least and the greatest value with which a call may pass a shape symbol."""
    # flatten relies on extents of int32 that leave room for a sum
    return 0, INT32_EXTENT_LIMIT - 1 if symbol.dtype.bits == 32 else symbol.dtype.greatest


def is_empty(stmt: Stmt | None) -> bool:
    """Return whether it does nothing."""
    return stmt is None or isinstance(stmt, Seq) and not stmt.body


class _Simplifier(Rewriter):
    """Rewriter of statements.

    settled: what it left, by identity, with what was known there. around: what is known where the walk stands: parameters, variables and
    ranges of loops, conditions with their truth.
    """

    def __init__(self, analyzer: Analyzer, settled: dict[int, Any], *around: object) -> None:
        self.analyzer, self.settled, self.around = analyzer, settled, around
        self.copier = Copier({}, fresh=False)
        """What has been decided so far: variables that are one value, buffers whose extents were simplified."""

    def expr(self, value: Expr) -> Expr:
        if isinstance(value, (IntImm, StringImm)):
            return value
        if self.copier.values or self.copier.buffers:
            value = self.copier.visit(value)
        return self.analyzer.simplify(value)

    def buffer(self, buffer: Buffer) -> Buffer:
        return self.copier.buffers.get(buffer, buffer)

    def condition(self, value: Expr) -> Expr:
        """A condition; `likely` stays around what is not decided."""
        if isinstance(value, Call) and value.name == "likely":
            inner = self.expr(value.args[0])
            return (  # an If whose condition did not change is returned as it is
                inner
                if isinstance(inner, IntImm)
                else value
                if inner is value.args[0]
                else replace(value, args=(inner,))
            )
        return self.expr(value)

    def visit(self, node: Any) -> Any:
        if isinstance(node, Expr):
            return self.expr(node)
        known = self.settled.get(id(node))
        # what was simplified in the same place is as simple as it gets
        if known is not None and not (self.copier.values or self.copier.buffers) and _are_same(known[1], self.around):
            return node
        simplified = getattr(self, type(node).__name__)(node)
        self.settled[id(simplified)] = simplified, self.around
        return simplified

    def _visit_body(self, body: Stmt, *facts: object) -> Any:
        """A body simplified where more is known."""
        around, self.around = self.around, (*self.around, *facts)
        simplified = self.visit(body)
        self.around = around
        return simplified

    def For(self, node: For) -> Stmt:
        begin, extent = self.expr(node.begin), self.expr(node.extent)
        if self._never_positive(extent):  # negative extents mean no iterations too
            return Seq(())
        # a thread loop of one iteration still declares a launch extent
        if is_const(extent, 1) and not node.pragmas and node.kind is not LoopKind.THREAD:
            self.copier.assign(node.var, begin)
            return self.visit(node.body)
        self.analyzer.bind(node.var, Range(begin, extent))
        body = self._visit_body(node.body, node.var, begin, extent)
        if is_empty(body):
            return Seq(())
        return rebuild(node, [begin, extent, body])

    def _never_positive(self, extent: Expr) -> bool:
        if isinstance(extent, IntImm):
            return extent.value <= 0
        highest = self.analyzer.interval(extent).hi
        return highest is not None and highest <= 0

    def If(self, node: If) -> Stmt:
        condition = self.condition(node.condition)
        if isinstance(condition, IntImm):
            chosen = node.then_body if condition.value else node.else_body
            return Seq(()) if chosen is None else self.visit(chosen)
        # `likely` is a hint, and no fact of arithmetic
        bare = condition.args[0] if isinstance(condition, Call) and condition.name == "likely" else condition
        with self.analyzer.constraint(bare):
            then_body = self._visit_body(node.then_body, bare, True)
        else_body = None
        if node.else_body is not None:
            with self.analyzer.constraint(logical_not(bare)):
                else_body = self._visit_body(node.else_body, bare, False)
        return _made_if(node, condition, then_body, else_body)

    def While(self, node: While) -> Stmt:
        condition = self.condition(node.condition)
        return Seq(()) if is_const(condition, 0) else rebuild(node, [condition, self.visit(node.body)])

    def Seq(self, node: Seq) -> Stmt:
        body = [self.visit(inner) for inner in node.body]
        if all(a is b for a, b in zip(body, node.body, strict=True)):
            return node
        return seq(*body)

    def LetStmt(self, node: LetStmt) -> Stmt:
        value = self.expr(node.value)
        if isinstance(value, (IntImm, Var)):  # a let of a constant would hide it from what simplifies below
            self.copier.assign(node.var, value)
            return self.visit(node.body)
        body = self.visit(node.body)
        return body if is_empty(body) else rebuild(node, [value, body])

    def Allocate(self, node: Allocate) -> Stmt:
        shape = tuple([self.expr(extent) for extent in node.buffer.shape])
        if any(a is not b for a, b in zip(shape, node.buffer.shape, strict=True)):
            self.copier.rename(node.buffer, replace(node.buffer, shape=shape))
        body = self.visit(node.body)
        buffer = self.buffer(node.buffer)
        # a buffer that nothing touches any more need not exist
        if is_empty(body) or (body is not node.body and not _touches(body, buffer)):
            return body
        return node if body is node.body and buffer is node.buffer else Allocate(buffer, body)

    def BufferStore(self, node: BufferStore) -> Stmt:
        new, buffer = self.generic(node), self.buffer(node.buffer)
        return new if buffer is node.buffer else replace(new, buffer=buffer)

    def Attr(self, node: Attr) -> Stmt:
        body = self.visit(node.body)
        subject = self.buffer(node.subject) if isinstance(node.subject, Buffer) else node.subject
        return Seq(()) if is_empty(body) else replace(node, subject=subject, value=self.expr(node.value), body=body)

    def Evaluate(self, node: Evaluate) -> Stmt:
        value = self.expr(node.value)
        return Seq(()) if isinstance(value, IntImm) else rebuild(node, [value])  # an evaluated constant has no effect

    def Assert(self, node: Assert) -> Stmt:
        condition = self.expr(node.condition)
        return Seq(()) if isinstance(condition, IntImm) and condition.value else rebuild(node, [condition])


def _are_same(first: tuple[object, ...], second: tuple[object, ...]) -> bool:
    return len(first) == len(second) and all(map(is_, first, second))


def _touches(body: Stmt, buffer: Buffer) -> bool:
    return any(
        getattr(node, "buffer", None) is buffer or getattr(node, "subject", None) is buffer for node in walk(body)
    )


def _made_if(node: If, condition: Expr, then_body: Stmt, else_body: Stmt | None) -> Stmt:
    if else_body is None or is_empty(else_body):
        if is_empty(then_body):
            return Seq(())
        return If(condition, then_body) if node.else_body is not None else rebuild(node, [condition, then_body])
    if is_empty(then_body):  # an empty branch costs a jump over nothing
        return If(logical_not(condition), else_body)
    return rebuild(node, [condition, then_body, else_body])
