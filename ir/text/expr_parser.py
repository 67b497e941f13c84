"""Expressions from tokens: recursive descent with Python's precedences, for `ir.parser`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from ...base.dataclass import dataclass
from .. import ops
from ..buffer import Buffer
from ..dtype import BOOL, FLOAT32, HANDLE, INT32, DType
from ..errors import LiteralOutOfRange, UnknownDType
from ..expr import (
    BinaryOp,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    Expr,
    FloatImm,
    IfThenElse,
    IntImm,
    Let,
    Not,
    Ramp,
    Select,
    Shuffle,
    StringImm,
    Var,
)
from ..intrinsics import INTRINSICS
from .expr_printer import INFIX, INFIX_CALLS, PREFIX_FUNCTIONS, RESERVED, call_dtype
from .tokens import Token, fail, tokenize

__all__ = ["ExpressionParser"]

_OPERATORS: dict[str, tuple[int, type[BinaryOp] | str]] = {
    **{symbol: (precedence, kind) for kind, (symbol, precedence) in INFIX.items()},
    **{symbol: (precedence, name) for name, (symbol, precedence) in INFIX_CALLS.items()},
}
_COMPARE, _NOT, _UNARY = _OPERATORS["<"][0], 3, 11
_BINARY_FUNCTIONS = {name: kind for kind, name in PREFIX_FUNCTIONS.items()}


@dataclass(frozen=True, slots=True)
class Number:
    """A number whose type is given by what stands beside it."""

    value: int | float
    token: Token


_Value = Expr | Number


class ExpressionParser:
    """Read expressions, over the names that are visible."""

    def __init__(self, text: str, names: Mapping[str, Var | Buffer]) -> None:
        self.text = text
        self.tokens = tokenize(text)
        self.at = 0
        self.names: dict[str, Var | Buffer] = dict(names)
        self.undo: list[tuple[str, Var | Buffer | None]] = []

    # Tokens

    @property
    def token(self) -> Token:
        return self.tokens[self.at]

    def fail(self, expected: str, token: Token | None = None, fix: str = "") -> NoReturn:
        fail(self.text, token or self.token, expected, fix)

    def advance(self) -> Token:
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

    def expect_kind(self, kind: str, what: str) -> Token:
        if self.token.kind != kind:
            self.fail(what)
        return self.advance()

    def name(self, what: str) -> Token:
        if self.token.text in RESERVED:
            self.fail(what)
        return self.expect_kind("name", what)

    def string(self, what: str) -> str:
        token = self.expect_kind("string", what)
        try:
            return json.loads(token.text)
        except ValueError:  # a line break, or an escape that there is not
            self.fail(f"{what}, as JSON writes it", token)

    def integer(self, what: str) -> int:
        return self.digits(self.expect_kind("number", what), what)

    def digits(self, token: Token, what: str) -> int:
        """The number of a token. Python refuses to read thousands of digits; no dtype has a hundred."""
        if not token.text.isdigit() or len(token.text) > 100:
            self.fail(what, token)
        return int(token.text)

    def dtype(self) -> DType:
        token = self.expect_kind("name", "a dtype")
        parsed = _dtype(token.text)
        return parsed if parsed is not None else self.fail("a dtype such as float32", token)

    # Names

    def bind(self, token: Token, thing: Var | Buffer) -> None:
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

    def find(self, token: Token, wanted: type[Var] | type[Buffer]) -> Any:
        named = self.names.get(token.text)
        if isinstance(named, wanted):
            return named
        what = "buffer" if wanted is Buffer else "variable"
        known = ", ".join(name for name, thing in self.names.items() if isinstance(thing, wanted)) or "none"
        advice = "declare a shape symbol in brackets after the function's name: def f[n](A: float32[n])"
        return self.fail(f"a {what} that is known here ({known})", token, fix=advice if wanted is Var else "")

    # Expressions

    def resolve(self, value: _Value, like: DType | None = None) -> Expr:
        """A number as a constant of the type `like`, or of its own where there is none."""
        if not isinstance(value, Number):
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

    def parse_operands(self, *values: _Value) -> list[Expr]:
        """Operands of one operator: numbers take the type of the first operand that is not constant."""
        like = next((v.dtype for v in values if not isinstance(v, (Number, IntImm, FloatImm))), None)
        return [self.resolve(value, like) for value in values]

    def expression(self, like: DType | None = None) -> Expr:
        return self.resolve(self.operators(1), like)

    def operators(self, least: int) -> _Value:
        """Everything that binds at least as tightly as `least`."""
        left = self.unary()
        while True:
            token = self.token
            row = _OPERATORS.get(token.text) if token.kind in ("op", "name") else None
            if row is None or row[0] < least:
                return left
            precedence, operator = row
            self.advance()
            right = self.operators(precedence + 1)
            a, b = self.parse_operands(left, right)
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
            return Number(-value.value, value.token) if isinstance(value, Number) else ops.negative(value)
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
            return Number(float(token.text), token)
        if self.sees("("):
            return self.application(token)
        if self.sees("["):
            return self.load(token)
        return self.find(token, Var)

    def number(self) -> Number:
        token = self.advance()
        after = self.token
        if after.kind == "name" and after.line == token.line and after.column == token.column + len(token.text):
            self.fail(
                "a number without a suffix",
                after,
                fix=f"a number takes the type of what stands beside it; to say it, write float32({token.text})",
            )
        is_whole = token.text.isdigit()
        return Number(self.digits(token, "a number of 64 bits") if is_whole else float(token.text), token)

    def load(self, token: Token) -> BufferLoad:
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
        if len(indices) != buffer.ndim:
            self.fail(f"{buffer.ndim} indices of '{token.text}'", token)
        return BufferLoad(buffer, tuple(indices), predicate)

    def application(self, token: Token) -> Expr:
        """`name(...)`: a cast, a constant with its type, an operator in function form, or a call."""
        name = token.text
        self.expect("(")
        dtype = _dtype(name)
        if dtype is not None:
            result = self.conversion(dtype)
        elif name in _BINARY_FUNCTIONS:
            a, b = self.parse_operands(*self.arguments(2, name))
            result = _BINARY_FUNCTIONS[name](a, b)
        elif name in _SPECIAL:
            result = _SPECIAL[name](self)
        elif name in INTRINSICS:
            result = self.intrinsic(token)
        else:
            self.fail(
                "an intrinsic, a dtype or an operator",
                token,
                fix=f'outside code is called by call_extern(float32, "{name}", ...)',
            )
        self.expect(")")
        return result

    def conversion(self, dtype: DType) -> Expr:
        value = self.operators(1)
        if not isinstance(value, Number):
            return Cast(value, dtype)
        if dtype is HANDLE:
            return IntImm(int(value.value), HANDLE)
        return ops.const(value.value, BOOL) if dtype is BOOL else self.resolve(value, dtype)

    def arguments(self, count: int, name: str) -> list[_Value]:
        """`count` arguments (any number for -1), up to the closing bracket."""
        values: list[_Value] = []
        while not self.sees(")"):
            if values:
                self.expect(",")
            values.append(self.operators(1))
        if count not in (-1, len(values)):
            self.fail(f"{count} argument{'s' * (count != 1)} of {name}")
        return values

    def intrinsic(self, token: Token) -> Expr:
        row = INTRINSICS[token.text]
        if row.result != "given":
            args = tuple(self.parse_operands(*self.arguments(row.arity, row.name)))
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
        a, b = self.parse_operands(*values)
        return kind(self.resolve(condition), a, b)

    def ramp(self) -> Expr:
        base, stride, lanes = self.arguments(3, "ramp")
        base, stride = self.parse_operands(base, stride)
        return Ramp(base, stride, self.lanes(lanes))

    def broadcast(self) -> Expr:
        value, lanes = self.arguments(2, "broadcast")
        return Broadcast(self.resolve(value), self.lanes(lanes))

    def lanes(self, value: _Value) -> int:
        if not isinstance(value, Number) or not isinstance(value.value, int):
            self.fail("a constant number of lanes", value.token if isinstance(value, Number) else None)
        return value.value

    def shuffle(self) -> Expr:
        vectors = self.read_bracketed(lambda: self.expression())
        self.expect(",")
        indices = self.read_bracketed(lambda: self.integer("a lane's number"))
        return Shuffle(tuple(vectors), tuple(indices))

    def read_bracketed(self, item: Callable[[], Any]) -> list[Any]:
        self.expect("[")
        items: list[Any] = []
        while not self.accept("]"):
            items.append(item())
            if not self.sees("]"):
                self.expect(",")
        return items

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


_SPECIAL: dict[str, Callable[[ExpressionParser], Expr]] = {
    "select": lambda parser: parser.choice(Select),
    "if_then_else": lambda parser: parser.choice(IfThenElse),
    "ramp": ExpressionParser.ramp,
    "broadcast": ExpressionParser.broadcast,
    "shuffle": ExpressionParser.shuffle,
    "let": ExpressionParser.let,
    "call": ExpressionParser.any_call,
}


def _dtype(name: str) -> DType | None:
    try:
        return DType(name) if name not in ("float", "int", "uint", "half", "double", "bool_", "uint1") else None
    except UnknownDType:
        return None
