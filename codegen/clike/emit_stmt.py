"""Statements as C text: one a line, every body in braces. What dialects write in their own way, they say in a class of theirs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from ...base.errors import InternalError
from ...ir import Allocate, Assert, Attr, BufferStore, Evaluate, Expr, For, If, LetStmt, Seq, Stmt, While
from ...ir.arith.analyzer import Analyzer
from .emit_expr import ExprEmitter
from .writer import Writer

__all__ = ["StmtEmitter"]


class StmtEmitter(Writer, ABC):
    """Write statements. messages: of assertions, by the number that a kernel gives where one does not hold."""

    scoped: ClassVar[tuple[type[Stmt], ...]]
    """Statements within a sequence whose names end with them."""

    def __init__(self, exprs: ExprEmitter, analyzer: Analyzer, messages: list[str]) -> None:
        super().__init__(exprs)
        self.analyzer, self.messages = analyzer, messages

    def statement(self, stmt: Stmt) -> None:
        """Write a statement."""
        method = _METHODS.get(type(stmt))
        if method is None:
            raise InternalError(f"a {type(stmt).__name__} reached code generation")
        getattr(self, method)(stmt)

    @abstractmethod
    def values(self, *roots: Expr) -> list[list[str]]:
        """The lanes of values, what they need being written before."""

    @abstractmethod
    def store(self, stmt: BufferStore) -> None: ...

    @abstractmethod
    def loop(self, stmt: For) -> None: ...

    @abstractmethod
    def allocate(self, stmt: Allocate) -> None: ...

    @abstractmethod
    def evaluate(self, stmt: Evaluate) -> None: ...

    @abstractmethod
    def assertion(self, stmt: Assert) -> None: ...

    def sequence(self, stmt: Seq) -> None:
        for part in stmt.body:
            if isinstance(part, self.scoped):  # what they declare ends with them
                with self.block(""):
                    self.statement(part)
            else:
                self.statement(part)

    def attribute(self, stmt: Attr) -> None:
        self.statement(stmt.body)

    def let(self, stmt: LetStmt) -> None:
        values = self.values(stmt.value)[0]
        name, kind = self.bind(stmt.var), self.exprs.kind(stmt.var.dtype)
        if len(values) == 1:
            self.line(f"const {kind} {name} = {values[0]};")
            if stmt.value.dtype.is_integer:
                # a let of an integer may be an extent that later conditions are decided by
                self.analyzer.bind(stmt.var, stmt.value)
        else:
            # C has no vectors: each lane has a name
            self.exprs.lanes[stmt.var] = [f"{name}_{lane}" for lane in range(len(values))]
            for lane, value in enumerate(values):
                self.line(f"const {kind} {name}_{lane} = {value};")
        self.statement(stmt.body)

    def condition(self, stmt: If) -> None:
        text = self.values(stmt.condition)[0][0]
        # what is known within the branch decides conditions nested in it
        with self.block(f"if ({text})"), self.analyzer.constraint(stmt.condition):
            self.statement(stmt.then_body)
        if stmt.else_body is not None:
            with self.block("else"):
                self.statement(stmt.else_body)

    def repetition(self, stmt: While) -> None:
        with self.block("for (;;)"):  # not while (...): the condition may need lines of its own
            self.line(f"if (!({self.values(stmt.condition)[0][0]})) break;")
            self.statement(stmt.body)

    def message_number(self, message: str) -> int:
        """The place of an assertion's message, among those that were met."""
        if message not in self.messages:  # the same message twice is one status
            self.messages.append(message)
        return self.messages.index(message)


_METHODS: dict[type[Stmt], str] = {
    Seq: "sequence",
    BufferStore: "store",
    LetStmt: "let",
    Evaluate: "evaluate",
    Attr: "attribute",
    Assert: "assertion",
    If: "condition",
    While: "repetition",
    For: "loop",
    Allocate: "allocate",
}
