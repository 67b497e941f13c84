"""Copies of program parts with variables replaced, every bound name fresh, and constants folded on the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...buffer import Buffer
from ...expr import (
    Add,
    BinaryOp,
    BufferLoad,
    Call,
    Cast,
    Div,
    Expr,
    FloatImm,
    IfThenElse,
    IntImm,
    Let,
    Mul,
    Not,
    Select,
    Sub,
    Var,
)
from ...ops import FALSE, TRUE, cast, const, fold_binary
from ...rounding import wrap_int
from ...stmt import Allocate, Attr, BufferStore, For, If, LetStmt, Seq, Stmt
from ...visit import Rewriter, rebuild, seq

__all__ = ["Copier", "fold", "fresh_copies", "fresh_copy", "substitute_expr"]


def fold(kind: type[BinaryOp], a: Expr, b: Expr) -> Expr:
    """kind(a, b), folded where it is constant, with integer constants moved to the right of sums, where they meet."""
    if a.dtype.is_float:  # floats are neither associative nor folded: the target rounds
        return kind(a, b)
    folded = fold_binary(kind, a, b)
    if folded is not None:
        return folded
    if kind is Add or kind is Sub:
        return _fold_sum(kind, a, b)
    if kind is Mul and isinstance(b, IntImm) and isinstance(a, Mul) and isinstance(a.b, IntImm):
        return fold(Mul, a.a, const(wrap_int(a.b.value * b.value, b.dtype), b.dtype))
    return kind(a, b)


def _fold_sum(kind: type[BinaryOp], a: Expr, b: Expr) -> Expr:
    if isinstance(a, (Add, Sub)) and isinstance(a.b, IntImm):
        constant = a.b.value if isinstance(a, Add) else -a.b.value
        if isinstance(b, IntImm):
            constant += b.value if kind is Add else -b.value
            return _plus(a.a, constant)
        return _plus(fold(kind, a.a, b), constant)
    if kind is Add and isinstance(a, IntImm):  # a constant on the right meets the constants of sums around it
        return Add(b, a)
    if isinstance(b, (Add, Sub)) and isinstance(b.b, IntImm):
        constant = b.b.value if (kind is Add) == isinstance(b, Add) else -b.b.value
        return _plus(fold(kind, a, b.a), constant)
    return kind(a, b)


def _plus(value: Expr, constant: int) -> Expr:
    """value + constant, wrapped to the dtype."""
    dtype = value.dtype
    if isinstance(value, IntImm):
        return const(wrap_int(value.value + constant, dtype), dtype)
    constant = wrap_int(constant, dtype)
    if constant == 0:
        return value
    if constant < 0 and -constant <= dtype.greatest:  # -(-2^31) is no value of the dtype
        return Sub(value, const(-constant, dtype))
    return Add(value, const(constant, dtype))


class Copier(Rewriter):
    """Rewrite with `values` in place of variables. Where `fresh`, loops, lets and allocations get new names, so that
    the copy may stand beside the original. unchanged: the expressions, by identity, over nothing that is replaced, which the
    copies of one original share."""

    def __init__(
        self, values: Mapping[Var, Expr], fresh: bool = True, unchanged: dict[int, Expr] | None = None
    ) -> None:
        self.values: dict[Var, Expr] = dict(values)
        self.buffers: dict[Buffer, Buffer] = {}
        self.fresh = fresh
        self._copied: dict[int, tuple[Expr, Any]] = {}
        """Copies of expressions, by the identity of the original, which is kept alive: shared ones are copied once."""
        self._unchanged = unchanged

    def assign(self, var: Var, value: Expr) -> None:
        """Let `value` stand from here on for the variable."""
        self.values[var] = value
        self._copied.clear()  # copies that were made with the old value are stale

    def rename(self, buffer: Buffer, new: Buffer) -> None:
        """Let `new` stand from here on for the buffer."""
        self.buffers[buffer] = new
        self._copied.clear()

    def visit(self, node: Any) -> Any:
        if isinstance(node, Var):
            return self.values.get(node, node)  # no copy of a leaf is worth an entry in the table
        if isinstance(node, (IntImm, FloatImm)):
            return node
        if not isinstance(node, Expr):
            return self.copy(node)
        identity = id(node)
        if self._unchanged is not None and identity in self._unchanged:
            return node
        known = self._copied.get(identity)
        if known is None:
            known = self._copied[identity] = node, self.copy(node)
            if self._unchanged is not None and known[1] is node:
                self._unchanged[identity] = node
        return known[1]

    def copy(self, node: Any) -> Any:
        """The copy of a node that is not a variable."""
        return self._binary(node) if isinstance(node, BinaryOp) else self._methods[type(node)](self, node)

    def _binary(self, node: BinaryOp) -> Expr:
        a, b = self.visit(node.a), self.visit(node.b)
        if a is node.a and b is node.b:
            return node
        if isinstance(node, Div):  # fold knows no rounding of a float quotient
            return Div(a, b)
        return fold(type(node), a, b)

    def Cast(self, node: Cast) -> Expr:
        value = self.visit(node.value)
        return node if value is node.value else cast(value, node.dtype)

    def Not(self, node: Not) -> Expr:
        value = self.visit(node.value)
        if isinstance(value, IntImm):
            return FALSE if value.value else TRUE
        return node if value is node.value else Not(value)

    def Call(self, node: Call) -> Expr:
        new = self.generic(node)
        # the hint is about a condition that is now decided
        return new.args[0] if node.name == "likely" and isinstance(new.args[0], IntImm) else new

    def _choice(self, node: Select | IfThenElse) -> Expr:
        condition = self.visit(node.condition)
        if isinstance(condition, IntImm):
            return self.visit(node.true_value if condition.value else node.false_value)
        return rebuild(node, [condition, self.visit(node.true_value), self.visit(node.false_value)])

    Select = IfThenElse = _choice

    def _bind(self, var: Var) -> Var:
        if not self.fresh:
            return var
        new = Var(var.name, var.dtype)
        self.assign(var, new)
        return new

    def Let(self, node: Let) -> Expr:
        value = self.visit(node.value)
        var = self._bind(node.var)
        return Let(var, value, self.visit(node.body))

    def LetStmt(self, node: LetStmt) -> Stmt:
        value = self.visit(node.value)
        var = self._bind(node.var)
        return LetStmt(var, value, self.visit(node.body))

    def For(self, node: For) -> Stmt:
        begin, extent = self.visit(node.begin), self.visit(node.extent)
        var = self._bind(node.var)
        return For(var, begin, extent, node.kind, self.visit(node.body), node.thread, node.pragmas, node.line)

    def If(self, node: If) -> Stmt:
        condition = self.visit(node.condition)
        if isinstance(condition, IntImm):
            chosen = node.then_body if condition.value else node.else_body
            return Seq(()) if chosen is None else self.visit(chosen)
        else_body = None if node.else_body is None else self.visit(node.else_body)
        return If(condition, self.visit(node.then_body), else_body)

    def Seq(self, node: Seq) -> Stmt:
        body: list[Stmt] = []
        for statement in node.body:
            body.append(self.visit(statement))
        return seq(*body)

    def Allocate(self, node: Allocate) -> Stmt:
        shape: list[Expr] = []
        for extent in node.buffer.shape:
            shape.append(self.visit(extent))
        # an Allocate that stands twice needs two buffers; one whose extents changed needs a new one
        if self.fresh or any(a is not b for a, b in zip(shape, node.buffer.shape, strict=True)):
            self.rename(node.buffer, replace(node.buffer, shape=tuple(shape)))
        return Allocate(self.buffers.get(node.buffer, node.buffer), self.visit(node.body))

    def BufferLoad(self, node: BufferLoad) -> Expr:
        new = self.generic(node)
        buffer = self.buffers.get(node.buffer)
        return new if buffer is None else replace(new, buffer=buffer)

    def BufferStore(self, node: BufferStore) -> Stmt:
        new = self.generic(node)
        buffer = self.buffers.get(node.buffer)
        return new if buffer is None else replace(new, buffer=buffer)

    def Attr(self, node: Attr) -> Stmt:
        subject = self.buffers.get(node.subject, node.subject) if isinstance(node.subject, Buffer) else node.subject
        return Attr(node.key, subject, self.visit(node.value), self.visit(node.body))


def fresh_copy(body: Stmt, values: Mapping[Var, Expr]) -> Stmt:
    """A copy of `body` with variables replaced and everything that it binds renamed."""
    return Copier(values).visit(body)


def fresh_copies(body: Stmt, var: Var, values: Sequence[Expr]) -> list[Stmt]:
    """Fresh copies of `body`, one for each value of a variable: what does not depend on it is looked at once."""
    unchanged: dict[int, Expr] = {}
    return [Copier({var: value}, unchanged=unchanged).visit(body) for value in values]


def substitute_expr(value: Expr, values: Mapping[Var, Expr]) -> Expr:
    """`value` with variables replaced and constants folded."""
    return Copier(values, fresh=False).visit(value) if values else value
