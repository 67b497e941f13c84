"""Reads the text of `ir.printer` back: a tokenizer, then recursive descent with Python's precedences.

    function = parse('''
        def double(A: float32[16], B: out float32[16]):
            for i in 16:
                B[i] = A[i] * 2.0
    ''')

The text is built as it is written: nothing is folded or simplified, and types are not checked (`ir.verify` does that).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from . import ops
from .buffer import SCOPES, Buffer
from .dtype import BOOL, FLOAT32, HANDLE, INT32, DType
from .errors import LiteralOutOfRange, TextDoesNotParse, UnknownDType
from .expr import (
    BinaryOp, Broadcast, BufferLoad, Call, Cast, Expr, FloatImm, IfThenElse, IntImm, Let, Not, Ramp, Select, Shuffle,
    SizeVar, StringImm, Var,
)
from .intrinsics import INTRINSICS
from .printer import INFIX, INFIX_CALLS, PREFIX_FUNCTIONS, RESERVED, call_dtype
from .stmt import Allocate, Assert, Attr, BufferStore, Evaluate, For, Function, If, LetStmt, LoopKind, Seq, Stmt
from .visit import deep_recursion, seq

__all__ = ["parse", "parse_expression"]

_TOKEN = re.compile(r"""
    (?P<space>[ \t]+|\#[^\n]*) | (?P<newline>\n)
  | (?P<number>(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?)
  | (?P<name>[A-Za-z_]\w*(?:\.[A-Za-z_0-9]\w*)*)
  | (?P<string>"(?:[^"\\\n]|\\.)*")
  | (?P<op>//|<<|>>|<=|>=|==|!=|[-+*/%<>=()\[\]{},:&|^~@])
""", re.VERBOSE)
_OPERATORS: dict[str, tuple[int, type[BinaryOp] | str]] = {
    **{symbol: (precedence, kind) for kind, (symbol, precedence) in INFIX.items()},  # pyright: ignore[reportAssignmentType]
    **{symbol: (precedence, name) for name, (symbol, precedence) in INFIX_CALLS.items()},
}
_COMPARE, _NOT, _UNARY = _OPERATORS["<"][0], 3, 11
_BINARY_FUNCTIONS = {name: kind for kind, name in PREFIX_FUNCTIONS.items()}
_LOOP_KINDS = {"range": LoopKind.SERIAL, **{kind.value: kind for kind in LoopKind if kind is not LoopKind.SERIAL}}


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    line: int
    column: int

    def __str__(self) -> str:
        return {"newline": "the end of the line", "indent": "a deeper indentation", "dedent": "the end of the block",
                "end": "the end of the text"}.get(self.kind, f"`{self.text}`")


@dataclass(frozen=True, slots=True)
class _Number:
    """A number whose type is given by what stands beside it."""

    value: int | float
    token: _Token


_Value = Expr | _Number


def _tokenize(text: str) -> list[_Token]:
    """Tokens with Python's rules for lines: indentation opens blocks, brackets join lines, comments are dropped."""
    tokens: list[_Token] = []
    indents, depth, at, line, line_start = [0], 0, 0, 1, 0
    fresh = True
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            _fail(text, _Token("op", text[at], line, at - line_start), "a name, a number or an operator")
        kind, found, column = match.lastgroup or "", match.group(), at - line_start
        at = match.end()
        if kind == "newline":
            if not fresh and not depth:
                tokens.append(_Token("newline", found, line, column))
                fresh = True
            line, line_start = line + 1, at
            continue
        if kind == "space":
            continue
        token = _Token(kind, found, line, column)
        if fresh:
            _indentation(text, tokens, indents, token)
            fresh = False
        depth += (found in "([{") - (found in ")]}") if kind == "op" else 0
        tokens.append(token)
    if not fresh:
        tokens.append(_Token("newline", "", line, at - line_start))
    tokens += [_Token("dedent", "", line, 0) for _ in indents[1:]]
    return [*tokens, _Token("end", "", line, at - line_start)]


def _indentation(text: str, tokens: list[_Token], indents: list[int], token: _Token) -> None:
    if not tokens:
        indents[0] = token.column  # a text that is indented as a whole
    if token.column > indents[-1]:
        indents.append(token.column)
        tokens.append(_Token("indent", "", token.line, token.column))
    while token.column < indents[-1] and len(indents) > 1:
        indents.pop()
        tokens.append(_Token("dedent", "", token.line, token.column))
    if token.column != indents[-1]:
        _fail(text, token, "the indentation of an enclosing block")


def _fail(text: str, token: _Token, expected: str, fix: str = "") -> NoReturn:
    lines = text.splitlines()
    shown = lines[token.line - 1] if token.line <= len(lines) else ""
    raise TextDoesNotParse(
        f"line {token.line} of the program's text cannot be read: expected {expected}, found {token}",
        loops=f"{shown}\n{' ' * token.column}^", fix=fix,
    )


class _Parser:
    def __init__(self, text: str, names: Mapping[str, Var | Buffer]) -> None:
        self.text = text
        self.tokens = _tokenize(text)
        self.at = 0
        self.names: dict[str, Var | Buffer] = dict(names)
        self.undo: list[tuple[str, Var | Buffer | None]] = []

    # Tokens

    @property
    def token(self) -> _Token:
        return self.tokens[self.at]

    def fail(self, expected: str, token: _Token | None = None, fix: str = "") -> NoReturn:
        _fail(self.text, token or self.token, expected, fix)

    def advance(self) -> _Token:
        token = self.tokens[self.at]
        self.at += 1
        return token

    def sees(self, text: str) -> bool:
        token = self.tokens[self.at]
        return token.text == text and token.kind in ("op", "name")

    def accept(self, text: str) -> bool:
        if self.sees(text):
            self.at += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.accept(text):
            self.fail(f"`{text}`")

    def expect_kind(self, kind: str, what: str) -> _Token:
        if self.token.kind != kind:
            self.fail(what)
        return self.advance()

    def name(self, what: str) -> _Token:
        if self.token.text in RESERVED:
            self.fail(what)
        return self.expect_kind("name", what)

    def string(self, what: str) -> str:
        return json.loads(self.expect_kind("string", what).text)

    def integer(self, what: str) -> int:
        token = self.expect_kind("number", what)
        if not token.text.isdigit():
            self.fail(what, token)
        return int(token.text)

    def dtype(self) -> DType:
        token = self.expect_kind("name", "a dtype")
        found = _dtype(token.text)
        return found if found is not None else self.fail("a dtype such as float32", token)

    # Names

    def bind(self, token: _Token, thing: Var | Buffer) -> None:
        self.undo.append((token.text, self.names.get(token.text)))
        self.names[token.text] = thing

    def unbind(self, mark: int) -> None:
        """Forget what was bound since `undo` had `mark` entries."""
        while len(self.undo) > mark:
            name, before = self.undo.pop()
            if before is None:
                del self.names[name]
            else:
                self.names[name] = before

    def find(self, token: _Token, wanted: type[Var] | type[Buffer]) -> Any:
        found = self.names.get(token.text)
        if isinstance(found, wanted):
            return found
        what = "buffer" if wanted is Buffer else "variable"
        known = ", ".join(name for name, thing in self.names.items() if isinstance(thing, wanted)) or "none"
        self.fail(f"a {what} that is known here ({known})", token,
                  fix="declare a shape symbol in brackets after the function's name: def f[n](A: float32[n])"
                  if wanted is Var else "")

    # Expressions

    def resolve(self, value: _Value, like: DType | None = None) -> Expr:
        """A number as a constant of the type `like`, or of its own where there is none."""
        if not isinstance(value, _Number):
            return value
        number = value.value
        if like is None or like.kind in ("bool", "handle"):
            like = FLOAT32 if isinstance(number, float) else INT32
        if isinstance(number, float) and not like.is_float:
            self.fail(f"an integer (the value beside it is {like})", value.token)
        try:
            return ops.const(number, like)
        except LiteralOutOfRange:
            self.fail(f"a number that {like} can hold", value.token, fix=f"write its type: int64({number})")

    def together(self, *values: _Value) -> list[Expr]:
        """Operands of one operator: numbers take the type of the first operand that is not constant."""
        like = next((v.dtype for v in values if not isinstance(v, (_Number, IntImm, FloatImm))), None)
        return [self.resolve(value, like) for value in values]

    def expression(self, like: DType | None = None) -> Expr:
        return self.resolve(self.operators(1), like)

    def operators(self, least: int) -> _Value:
        """Everything that binds at least as tightly as `least`."""
        left = self.unary()
        while True:
            token = self.token
            found = _OPERATORS.get(token.text) if token.kind in ("op", "name") else None
            if found is None or found[0] < least:
                return left
            precedence, operator = found
            self.advance()
            right = self.operators(precedence + 1)
            a, b = self.together(left, right)
            left = Call(operator, (a, b), a.dtype) if isinstance(operator, str) else operator(a, b)
            if precedence == _COMPARE and _OPERATORS.get(self.token.text, (0,))[0] == _COMPARE:
                self.fail("one comparison at a time", fix="combine comparisons with `and`")

    def unary(self) -> _Value:
        if self.accept("not"):
            return Not(self.resolve(self.operators(_NOT)))
        if self.accept("~"):
            value = self.resolve(self.operators(_UNARY))
            return Call("bitwise_not", (value,), value.dtype)
        if self.accept("-"):
            value = self.operators(_UNARY)
            return _Number(-value.value, value.token) if isinstance(value, _Number) else ops.negative(value)
        return self.atom()

    def atom(self) -> _Value:
        token = self.token
        if token.kind == "number":
            return self.number()
        if token.kind == "string":
            return StringImm(self.string("a string"))
        if self.accept("("):
            value = self.operators(1)
            self.expect(")")
            return value
        if token.kind != "name" or token.text in RESERVED - {"True", "False", "inf", "nan"}:
            self.fail("an expression")
        self.advance()
        if token.text in ("True", "False"):
            return ops.TRUE if token.text == "True" else ops.FALSE
        if token.text in ("inf", "nan"):
            return _Number(float(token.text), token)
        if self.sees("("):
            return self.application(token)
        if self.sees("["):
            return self.load(token)
        return self.find(token, Var)

    def number(self) -> _Number:
        token = self.advance()
        after = self.token
        if after.kind == "name" and after.line == token.line and after.column == token.column + len(token.text):
            self.fail("a number without a suffix", after, fix="a number takes the type of what stands beside it; to say "
                      f"it, write float32({token.text})")
        return _Number(int(token.text) if token.text.isdigit() else float(token.text), token)

    def load(self, token: _Token) -> BufferLoad:
        buffer: Buffer = self.find(token, Buffer)
        indices: list[Expr] = []
        predicate: Expr | None = None
        self.expect("[")
        while not self.accept("]"):
            if self.sees("where") and self.tokens[self.at + 1].text == "=":
                self.at += 2
                predicate = self.expression()
            elif self.sees("(") and self.tokens[self.at + 1].text == ")":
                self.at += 2
            else:
                indices.append(self.expression())
            if not self.sees("]"):
                self.expect(",")
        return BufferLoad(buffer, tuple(indices), predicate)

    def application(self, token: _Token) -> Expr:
        """`name(...)`: a cast, a constant with its type, an operator in function form, or a call."""
        name = token.text
        self.expect("(")
        dtype = _dtype(name)
        if dtype is not None:
            result = self.conversion(dtype)
        elif name in _BINARY_FUNCTIONS:
            a, b = self.together(*self.arguments(2, name))
            result = _BINARY_FUNCTIONS[name](a, b)  # pyright: ignore[reportCallIssue]
        elif name in _SPECIAL:
            result = _SPECIAL[name](self)
        elif name in INTRINSICS:
            result = self.intrinsic(token)
        else:
            self.fail("an intrinsic, a dtype or an operator", token, fix=f'outside code is called by call_extern(float32, "{name}", ...)')
        self.expect(")")
        return result

    def conversion(self, dtype: DType) -> Expr:
        value = self.operators(1)
        if not isinstance(value, _Number):
            return Cast(value, dtype)
        if dtype is HANDLE:
            return IntImm(int(value.value), HANDLE)
        return ops.const(value.value, BOOL) if dtype is BOOL else self.resolve(value, dtype)

    def arguments(self, count: int, name: str) -> list[_Value]:
        """`count` arguments (any number for -1), up to the closing bracket."""
        found: list[_Value] = []
        while not self.sees(")"):
            if found:
                self.expect(",")
            found.append(self.operators(1))
        if count not in (-1, len(found)):
            self.fail(f"{count} argument{'s' * (count != 1)} of {name}")
        return found

    def intrinsic(self, token: _Token) -> Expr:
        row = INTRINSICS[token.text]
        if row.result != "given":
            args = tuple(self.together(*self.arguments(row.arity, row.name)))
            if not args:
                self.fail(f"arguments of {row.name}", token)
            return Call(row.name, args, call_dtype(row.name, args) or args[0].dtype)
        dtype = self.dtype()
        return Call(row.name, self.rest_alone(row.arity, row.name), dtype)

    def rest_alone(self, count: int, name: str) -> tuple[Expr, ...]:
        """Further arguments, each typed alone."""
        if self.sees(")"):
            return ()
        self.expect(",")
        return tuple(self.resolve(value) for value in self.arguments(count, name))

    def any_call(self) -> Expr:
        dtype = self.dtype()
        self.expect(",")
        name = self.string("the name of what is called")
        return Call(name, self.rest_alone(-1, name), dtype)

    def choice(self, kind: type[Select] | type[IfThenElse]) -> Expr:
        condition, *values = self.arguments(3, "select" if kind is Select else "if_then_else")
        a, b = self.together(*values)
        return kind(self.resolve(condition), a, b)

    def ramp(self) -> Expr:
        base, stride, lanes = self.arguments(3, "ramp")
        base, stride = self.together(base, stride)
        return Ramp(base, stride, self.lanes(lanes))

    def broadcast(self) -> Expr:
        value, lanes = self.arguments(2, "broadcast")
        return Broadcast(self.resolve(value), self.lanes(lanes))

    def lanes(self, value: _Value) -> int:
        if not isinstance(value, _Number) or not isinstance(value.value, int):
            self.fail("a constant number of lanes", value.token if isinstance(value, _Number) else None)
        return value.value

    def shuffle(self) -> Expr:
        vectors = self.bracketed(lambda: self.expression())
        self.expect(",")
        indices = self.bracketed(lambda: self.integer("a lane's number"))
        return Shuffle(tuple(vectors), tuple(indices))

    def bracketed(self, item: Callable[[], Any]) -> list[Any]:
        self.expect("[")
        found: list[Any] = []
        while not self.accept("]"):
            found.append(item())
            if not self.sees("]"):
                self.expect(",")
        return found

    def let(self) -> Expr:
        token = self.name("the name of what is bound")
        self.expect(":")
        var = Var(token.text, self.dtype())
        self.expect("=")
        value = self.expression(var.dtype)
        self.expect(",")
        mark = len(self.undo)
        self.bind(token, var)
        body = self.expression()
        self.unbind(mark)
        return Let(var, value, body)

    # Statements

    def block(self) -> Stmt:
        """The indented lines after a colon."""
        self.expect(":")
        self.expect_kind("newline", "the end of the line")
        self.expect_kind("indent", "an indented block (`pass` for an empty one)")
        mark = len(self.undo)
        found: list[Stmt | Callable[[Stmt], Stmt]] = []
        while self.token.kind not in ("dedent", "end"):
            found.append(self.statement())
        if self.token.kind == "dedent":
            self.advance()
        self.unbind(mark)
        tail: list[Stmt] = []
        for entry in reversed(found):
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
            found: Stmt | Callable[[Stmt], Stmt] = self.declaration()
        elif self.accept("pass"):
            found = Seq(())
        elif self.accept("assert"):
            condition = self.expression()
            self.expect(",")
            found = Assert(condition, self.string("the message"))
        elif token.text == "attr" and self.tokens[self.at + 1].text == "(":
            self.advance()
            found = self.attribute()
        else:
            found = self.store_or_call()
        self.expect_kind("newline", "the end of the line")
        return found

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
        return self.advance().text if self.token.text in SCOPES else "global"

    def buffer(self, token: _Token, dtype: DType, scope: str) -> Buffer:
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
            options["strides"] = tuple(self.bracketed(lambda: self.expression()))
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

    def scoped(self) -> Stmt:
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
        found: list[tuple[str, Any]] = []
        while not found or self.accept(","):
            key = self.string("a key") if self.token.kind == "string" else self.expect_kind("name", "a key").text
            self.expect("=")
            found.append((key, value()))
        return found

    def condition(self) -> Stmt:
        """After `if`; an `elif` nests in the else branch."""
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

    # Functions

    def plain(self) -> Any:
        """Plain Python data."""
        token = self.token
        if token.kind == "string":
            return self.string("a string")
        if token.kind == "number" or self.sees("-") or token.text in ("inf", "nan"):
            value = self.unary()
            return value.value if isinstance(value, _Number) else self.fail("a number", token)
        if token.kind == "name" and token.text in ("True", "False", "None"):
            self.advance()
            return {"True": True, "False": False, "None": None}[token.text]
        if self.sees("["):
            return self.bracketed(self.plain)
        if self.accept("("):
            found: list[Any] = []
            while not self.accept(")"):
                found.append(self.plain())
                if not self.sees(")"):
                    self.expect(",")
            return tuple(found)
        if self.accept("{"):
            table: dict[Any, Any] = {}
            while not self.accept("}"):
                key = self.plain()
                self.expect(":")
                table[key] = self.plain()
                if not self.sees("}"):
                    self.expect(",")
            return table
        self.fail("a string, a number, True, False, None, a list, a tuple or a dict")

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
            self.bracketed(self.symbol)
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
        heads: list[tuple[_Token, bool, str, DType, int]] = []
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

    def parameter(self) -> tuple[_Token, bool, str, DType, int]:
        """(name, whether it is an output, scope, dtype, where its brackets begin, or -1 for a scalar, which is bound)."""
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


_SPECIAL: dict[str, Callable[[_Parser], Expr]] = {
    "select": lambda parser: parser.choice(Select), "if_then_else": lambda parser: parser.choice(IfThenElse),
    "ramp": _Parser.ramp, "broadcast": _Parser.broadcast, "shuffle": _Parser.shuffle, "let": _Parser.let,
    "call": _Parser.any_call,
}
_COMPOUND: dict[str, Callable[[_Parser], Stmt]] = {"for": _Parser.loop, "if": _Parser.condition, "scope": _Parser.scoped}


def _dtype(name: str) -> DType | None:
    try:
        return DType(name) if name not in ("float", "int", "uint", "half", "double", "bool_", "uint1") else None
    except UnknownDType:
        return None


def parse(text: str) -> Function:
    """The function that the text describes. Raises TW0301, naming the line and what was expected there."""
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
