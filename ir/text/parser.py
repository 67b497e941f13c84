"""Read the text of `ir.printer` back: a tokenizer, then recursive descent with Python's precedences.

    function = parse('''
        def double(A: float32[16], B: out float32[16]):
            for i in 16:
                B[i] = A[i] * 2.0
    ''')

The text is built as it is written: nothing is folded or simplified, and types are not checked (`ir.verify` does that).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ...base.errors import user_source
from .. import ops
from ..buffer import Buffer, is_scope
from ..dtype import HANDLE, INT32, DType
from ..errors import TextDoesNotParse
from ..expr import BufferLoad, Expr, SizeVar, Var
from ..stmt import Allocate, Assert, Attr, BufferStore, Evaluate, For, Function, If, LetStmt, LoopKind, Seq, Stmt, While
from ..visit import deep_recursion, seq
from .expr_parser import ExpressionParser, Number
from .printer import TEXT_VERSION
from .tokens import Token

__all__ = ["parse", "parse_expression"]

_VERSION = re.compile(r"# tilewright loop IR, version (\d{1,9})\n")

_LOOP_KINDS = {"range": LoopKind.SERIAL, **{kind.value: kind for kind in LoopKind if kind is not LoopKind.SERIAL}}


class _Parser(ExpressionParser):
    """Statements and functions."""

    def block(self) -> Stmt:
        """The indented lines after a colon."""
        self.expect(":")
        self.expect_kind("newline", "the end of the line")
        self.expect_kind("indent", "an indented block (`pass` for an empty one)")
        mark = len(self.undo)
        statements: list[Stmt | Callable[[Stmt], Stmt]] = []
        while self.token.kind not in ("dedent", "end"):
            statements.append(self.statement())
        if self.token.kind == "dedent":
            self.advance()
        self.unbind(mark)
        tail: list[Stmt] = []
        for entry in reversed(statements):
            if isinstance(entry, Stmt):
                tail.append(entry)
            else:
                tail = [entry(seq(*reversed(tail)))]
        return seq(*reversed(tail))

    def statement(self) -> Stmt | Callable[[Stmt], Stmt]:
        """One statement; for what declares to the end of its block, a function from the rest to the statement."""
        token = self.token
        if token.kind == "name" and token.text in _COMPOUND:
            self.advance()
            return _COMPOUND[token.text](self)
        if token.kind == "name" and self.tokens[self.at + 1].text == ":":
            parsed: Stmt | Callable[[Stmt], Stmt] = self.declaration()
        elif self.accept("pass"):
            parsed = Seq(())
        elif self.accept("assert"):
            condition = self.expression()
            self.expect(",")
            parsed = Assert(condition, self.string("the message"))
        elif token.text == "attr" and self.tokens[self.at + 1].text == "(":
            self.advance()
            parsed = self.attribute()
        else:
            parsed = self.store_or_call()
        self.expect_kind("newline", "the end of the line")
        return parsed

    def store_or_call(self) -> Stmt:
        target = self.expression()
        if not self.sees("="):
            return Evaluate(target)
        if not isinstance(target, BufferLoad):
            self.fail("an element of a buffer before `=`")
        self.advance()
        value = self.expression(target.dtype.element)
        return BufferStore(target.buffer, value, target.indices, target.predicate)

    def declaration(self) -> Callable[[Stmt], Stmt]:
        token = self.name("the name of what is declared")
        self.expect(":")
        scope = self.scope()
        dtype = self.dtype()
        if self.sees("["):
            buffer = self.buffer(token, dtype, scope)
            self.bind(token, buffer)
            return lambda body: Allocate(buffer, body)
        self.expect("=")
        value = self.expression(dtype)
        var = Var(token.text, dtype)
        self.bind(token, var)
        return lambda body: LetStmt(var, value, body)

    def scope(self) -> str:
        return self.advance().text if is_scope(self.token.text) else "global"

    def buffer(self, token: Token, dtype: DType, scope: str) -> Buffer:
        """`[extents, strides=[...], offset=..., align=..., data=...]`."""
        shape: list[Expr] = []
        options: dict[str, Any] = {}
        self.expect("[")
        while not self.accept("]"):
            if self.tokens[self.at + 1].text == "=":
                self.buffer_option(options)
            elif self.sees("(") and self.tokens[self.at + 1].text == ")":
                self.at += 2
            else:
                shape.append(self.expression())
            if not self.sees("]"):
                self.expect(",")
        return Buffer(token.text, tuple(shape), dtype, scope=scope, **options)

    def buffer_option(self, options: dict[str, Any]) -> None:
        key = self.advance()
        self.expect("=")
        if key.text == "strides":
            options["strides"] = tuple(self.read_bracketed(lambda: self.expression()))
        elif key.text == "offset":
            options["elem_offset"] = self.expression()
        elif key.text == "align":
            options["alignment"] = self.integer("an alignment in bytes")
        elif key.text == "data":
            name = self.name("the name of the pointer")
            options["data"] = Var(name.text, HANDLE)
            self.bind(name, options["data"])
        else:
            self.fail("strides, offset, align or data", key)

    def attribute(self) -> Callable[[Stmt], Stmt]:
        self.expect("(")
        key = self.string("the attribute's key")
        self.expect(",")
        token = self.token
        simple = self.tokens[self.at + 1].text == ","
        subject: object
        if simple and token.text in self.names and token.kind == "name":
            subject = self.names[self.advance().text]
        else:
            subject = self.plain() if simple or token.text in "[{" else self.expression()
        self.expect(",")
        value = self.expression()
        self.expect(")")
        return lambda body: Attr(key, subject, value, body)

    def parse_scope(self) -> Stmt:
        return self.block()

    def loop(self) -> Stmt:
        token = self.name("the loop's variable")
        var = Var(token.text, self.dtype() if self.accept(":") else INT32)
        self.expect("in")
        begin: Expr = ops.const(0, var.dtype)
        kind, thread = LoopKind.SERIAL, ""
        if self.token.text in _LOOP_KINDS and self.tokens[self.at + 1].text == "(":
            kind = _LOOP_KINDS[self.advance().text]
            self.expect("(")
            if kind is LoopKind.THREAD:
                thread = self.string("the thread's tag")
                self.expect(",")
            extent = self.expression(var.dtype)
            if self.accept(","):
                begin = extent
                self.expect("extent")
                self.expect("=")
                extent = self.expression(var.dtype)
            self.expect(")")
        else:
            extent = self.expression(var.dtype)
        pragmas = tuple(self.settings(lambda: self.expression())) if self.accept("with") else ()
        mark = len(self.undo)
        self.bind(token, var)
        body = self.block()
        self.unbind(mark)
        return For(var, begin, extent, kind, body, thread, pragmas)

    def settings(self, value: Callable[[], Any]) -> list[tuple[str, Any]]:
        """`key=value, key=value`."""
        pairs: list[tuple[str, Any]] = []
        while not pairs or self.accept(","):
            key = self.string("a key") if self.token.kind == "string" else self.expect_kind("name", "a key").text
            self.expect("=")
            pairs.append((key, value()))
        return pairs

    def condition(self) -> Stmt:
        """Parse what stands after `if`; an `elif` nests in the else branch."""
        chain: list[tuple[Expr, Stmt]] = []
        otherwise: Stmt | None = None
        while True:
            test = self.expression()
            chain.append((test, self.block()))
            if not self.accept("elif"):
                break
        if self.accept("else"):
            otherwise = self.block()
        for test, body in reversed(chain):
            otherwise = If(test, body, otherwise)
        assert otherwise is not None
        return otherwise

    def repetition(self) -> Stmt:
        """Parse what stands after `while`."""
        condition = self.expression()
        return While(condition, self.block())

    # Functions

    def plain(self) -> Any:
        """Plain Python data."""
        token = self.token
        if token.kind == "string":
            return self.string("a string")
        if token.kind == "number" or self.sees("-") or token.text in ("inf", "nan"):
            value = self.unary()
            return value.value if isinstance(value, Number) else self.fail("a number", token)
        if token.kind == "name" and token.text in ("True", "False", "None"):
            self.advance()
            return {"True": True, "False": False, "None": None}[token.text]
        if self.sees("["):
            return self.read_bracketed(self.plain)
        if self.accept("("):
            items: list[Any] = []
            while not self.accept(")"):
                items.append(self.plain())
                if not self.sees(")"):
                    self.expect(",")
            return tuple(items)
        if self.accept("{"):
            table: dict[Any, Any] = {}
            while not self.accept("}"):
                key = self.plain()
                self.expect(":")
                table[key] = self.plain()
                if not self.sees("}"):
                    self.expect(",")
            return table
        return self.fail("a string, a number, True, False, None, a list, a tuple or a dict")

    def function(self) -> Function:
        attrs: dict[str, Any] = {}
        if self.accept("@"):
            self.expect("attrs")
            self.expect("(")
            attrs = dict(self.settings(self.plain))
            self.expect(")")
            self.expect_kind("newline", "the end of the line")
        self.expect("def")
        name = self.string("a name") if self.token.kind == "string" else self.name("the function's name").text
        if self.sees("["):
            self.read_bracketed(self.symbol)
        params, outputs = self.parameters()
        body = self.block()
        self.expect_kind("end", "the end of the text: one function")
        return Function(name, params, body, outputs, attrs)

    def symbol(self) -> None:
        token = self.name("a shape symbol")
        size, dtype = False, INT32
        if self.accept(":"):
            size = self.accept("size")
            dtype = self.dtype() if not size or self.token.kind == "name" else INT32
        self.bind(token, (SizeVar if size else Var)(token.text, dtype))

    def parameters(self) -> tuple[tuple[Buffer | Var, ...], tuple[Buffer, ...]]:
        """Scalars first, because the shapes of buffers before them may speak of them."""
        heads: list[tuple[Token, bool, str, DType, int]] = []
        self.expect("(")
        while not self.accept(")"):
            heads.append(self.parameter())
            if not self.sees(")"):
                self.expect(",")
        after = self.at
        params: list[Buffer | Var] = []
        outputs: list[Buffer] = []
        for token, output, scope, dtype, where in heads:
            if where < 0:
                params.append(self.names[token.text])
                continue
            self.at = where
            buffer = self.buffer(token, dtype, scope)
            self.bind(token, buffer)
            params.append(buffer)
            outputs += [buffer] * output
        self.at = after
        return tuple(params), tuple(outputs)

    def parameter(self) -> tuple[Token, bool, str, DType, int]:
        """(name, whether it is an output, scope, dtype, where its brackets begin, or -1 for a scalar, bound here)."""
        token = self.name("a parameter's name")
        self.expect(":")
        output, size, scope = self.accept("out"), self.accept("size"), self.scope()
        dtype, where = self.dtype(), self.at
        if not self.sees("["):
            self.bind(token, (SizeVar if size else Var)(token.text, dtype))
            return token, output, scope, dtype, -1
        depth = 0
        while True:
            depth += self.sees("[") - self.sees("]")
            if self.advance().kind == "end":
                self.fail("`]`", self.tokens[-1])
            if not depth:
                return token, output, scope, dtype, where


_COMPOUND: dict[str, Callable[[_Parser], Stmt]] = {
    "for": _Parser.loop,
    "if": _Parser.condition,
    "while": _Parser.repetition,
    "scope": _Parser.parse_scope,
}


def parse(text: str) -> Function:
    """The function that the text describes. Raises TW0301, naming the line and what was expected there, or where its first line
    names another version of the text than this release reads."""
    version = _VERSION.match(text)
    if version and int(version[1]) != TEXT_VERSION:
        raise TextDoesNotParse(
            f"cannot read loop IR of version {version[1]}",
            reason=f"this release reads version {TEXT_VERSION}",
            called=user_source(),
            fix="print the function with this release, or read the text with the one that wrote it",
        )
    with deep_recursion():
        return _Parser(text, {}).function()


def parse_expression(text: str, **names: Var | Buffer) -> Expr:
    """The expression that the text describes, over the given variables and buffers. Raises TW0301."""
    parser = _Parser(text, names)
    with deep_recursion():
        value = parser.expression()
    if parser.token.kind == "newline":
        parser.advance()
    parser.expect_kind("end", "the end of the expression")
    return value
