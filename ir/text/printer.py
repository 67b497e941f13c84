"""Text of programs: Python-like, minimal parentheses, and read back by `ir.parser`.

    @attrs(stage="loops")
    def scale[n, m: size int64](A: float32[n, 16], factor: float32, B: out float32[n, 16, align=64]):
        T: local float32[16]                              # Allocate: lives to the end of the block
        for i in parallel(n):
            for j in vectorized(4, extent=12) with unroll_explicit=True:
                if likely(i < 8 and j != 0):
                    B[i, j] = A[i, j] * factor + 1.0      # a number has the type of what stands beside it
                else:
                    B[i, j] = select(i < j, float32(i), 0.0)
            x: int64 = int64(i) * 3                       # LetStmt, to the end of the block

* Loops: `in 32`, `in range(4, extent=12)`, likewise `parallel`, `vectorized`, `unrolled`, `thread("threadIdx.x", 32)`.
  `for i: int64 in ...` where the variable is not int32. Pragmas follow `with`.
* A number has the type of the operand beside it, or of the element that it is stored to; standing alone it is int32 or
  float32, else its type is written: `int64(3)`. Every other `float32(x)` is a cast.
* Buffers: `[out] [scope] dtype[extents, strides=[...], offset=..., align=..., data=...]`; rank 0 is `[()]`.
  Loads and stores: `A[i, j]`, with `where=` for a predicate.
* `let(x: int32 = value, body)`, `if_then_else(c, a, b)`, `select(c, a, b)`, `ramp(base, stride, lanes)`,
  `broadcast(value, lanes)`, `shuffle([a, b], [0, 3])`, calls by name; where a call's type does not follow from its
  operands it comes first: `reinterpret(int32, x)`, `call_extern(float32, "f", x)`.
* `scope:` ends early what its block declares. Brackets after the function's name declare the shape symbols that are no
  parameters (`size`: never negative).
* Names are made unique (i, i_1) where two things of one name are visible at once.

Everything iterates, so a deep program is not a danger to the stack.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, cast

from ...base.arguments import is_sequence
from ..buffer import Buffer
from ..constant import Constant
from ..dtype import INT32
from ..expr import Expr, IntImm, Node, SizeVar, Var
from ..stmt import Allocate, Assert, Attr, BufferStore, Evaluate, For, Function, If, LetStmt, LoopKind, Seq, Stmt, While
from ..visit import walk
from .expr_printer import NAME, RESERVED, Names, expression_text, value_text, write_indexed

__all__ = ["TEXT_VERSION", "excerpt", "file_text", "write_lines", "to_text"]

TEXT_VERSION = 1
"""Version of this text. Files begin with it; a text without it is taken for one of this version."""


def file_text(function: Function) -> str:
    """Return the text of a function as a file keeps it: with the version in the first line."""
    return f"# tilewright loop IR, version {TEXT_VERSION}\n{function}\n"


# Declarations and headers


def _declaration(buffer: Buffer, names: Names, output: bool = False) -> str:
    """`A: out local float32[16, strides=[...]]`."""
    name = names.bind(buffer)
    inside = ", ".join(value_text(extent, names) for extent in buffer.shape) or "()"
    if buffer.strides:
        inside += f", strides=[{', '.join(value_text(stride, names) for stride in buffer.strides)}]"
    if buffer.elem_offset is not None:
        inside += f", offset={value_text(buffer.elem_offset, names)}"
    if buffer.alignment:
        inside += f", align={buffer.alignment}"
    if buffer.data is not None:
        inside += f", data={names.bind(buffer.data)}"
    scope = "" if buffer.scope == "global" else buffer.scope + " "
    return f"{name}: {'out ' if output else ''}{scope}{buffer.dtype}[{inside}]"


def _loop_header(loop: For, names: Names) -> str:
    """`for i in parallel(32):`, the first line of a loop."""
    dtype = loop.var.dtype
    begin, extent = value_text(loop.begin, names, dtype), value_text(loop.extent, names, dtype)
    zero = isinstance(loop.begin, IntImm) and loop.begin.value == 0 and loop.begin.dtype is dtype
    inside = extent if zero else f"{begin}, extent={extent}"
    if loop.kind is LoopKind.THREAD:
        inside = f"thread({json.dumps(loop.thread)}, {inside})"
    elif loop.kind is not LoopKind.SERIAL:
        inside = f"{loop.kind.value}({inside})"
    elif not zero:
        inside = f"range({inside})"
    pragmas = ", ".join(f"{_key(key)}={value_text(value, names)}" for key, value in loop.pragmas)
    name = names.bind(loop.var)
    return f"for {name}{'' if dtype is INT32 else f': {dtype}'} in {inside}{' with ' + pragmas if pragmas else ''}:"


def _key(key: str) -> str:
    return key if key.isidentifier() and key not in RESERVED else json.dumps(key)


def symbol_text(symbol: Var, name: str) -> str:
    """The declaration of a shape symbol: `n`, `n: int64`, `n: size`."""
    words = (["size"] if isinstance(symbol, SizeVar) else []) + ([] if symbol.dtype is INT32 else [str(symbol.dtype)])
    return name + (": " + " ".join(words) if words else "")


def shape_symbols(function: Function) -> list[Var]:
    """The variables in the shapes (strides, offsets) of a function's buffers that are not parameters, in order."""
    scalars = set(function.scalars)
    symbols: dict[Var, None] = {}
    for buffer in function.buffers:
        offset = () if buffer.elem_offset is None else (buffer.elem_offset,)
        for value in (*buffer.shape, *buffer.strides, *offset):
            for node in walk(value):
                if isinstance(node, Var) and node not in scalars:
                    symbols.setdefault(node)
    return list(symbols)


def _function_header(function: Function, names: Names) -> list[str]:
    for parameter in function.params:
        names.bind(parameter)
    symbols = ", ".join(symbol_text(symbol, names(symbol)) for symbol in shape_symbols(function))
    outputs = set(function.outputs)
    params: list[str] = []
    for parameter in function.params:
        if isinstance(parameter, Buffer):
            params.append(_declaration(parameter, names, parameter in outputs))
        else:
            params.append(f"{names(parameter)}: {'size ' if isinstance(parameter, SizeVar) else ''}{parameter.dtype}")
    name = function.name if NAME.fullmatch(function.name) else json.dumps(function.name)
    opening = f"def {name}{f'[{symbols}]' if symbols else ''}("
    header = [f"{opening}{', '.join(params)}):"]
    if len(header[0]) > 110:
        header = [opening, *(f"        {parameter}," for parameter in params), "):"]
    header += [
        f"    # {names(buffer)} is a constant: {_glimpse(held)}" for buffer, held in function.constant_buffers.items()
    ]
    if function.attrs:
        facts = ", ".join(f"{_key(key)}={_plain(value)}" for key, value in function.attrs.items())
        header.insert(0, f"@attrs({facts})")
    return header


def _glimpse(held: Constant) -> str:
    """The first elements."""
    if held.is_open:
        return "not given yet"
    first = held.data.reshape(-1)[:_SHOWN].tolist()
    return ", ".join(f"{value:.6g}" if isinstance(value, float) else str(value) for value in first) + (
        f", ... {held.data.size} elements" if held.data.size > _SHOWN else "" if first else "no elements"
    )


_SHOWN = 4


def _plain(value: object) -> str:
    """Plain Python data, as the parser reads it."""
    if isinstance(value, str):
        return json.dumps(str.__str__(value))
    if is_sequence(value):
        inside = ", ".join(map(_plain, value))
        if isinstance(value, list):
            return f"[{inside}]"
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    if isinstance(value, dict):
        items = cast("dict[object, object]", value).items()
        return "{" + ", ".join(f"{_plain(key)}: {_plain(item)}" for key, item in items) + "}"
    return repr(value)


# Statements


class _Lines:
    """The text of statements, line by line, with the line on which each statement begins."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.lines: list[str] = []
        self.begins: dict[Stmt, int] = {}
        self.work: list[tuple[Callable[..., None], tuple[Any, ...]]] = []

    def run(self, statement: Stmt, depth: int) -> None:
        self.work.append((self.block, (statement, depth)))
        while self.work:
            action, arguments = self.work.pop()
            action(*arguments)

    def defer(self, *actions: tuple[Callable[..., None], tuple[Any, ...]]) -> None:
        """Do these next, in order."""
        self.work.extend(reversed(actions))

    def add(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def block(self, statement: Stmt, depth: int) -> None:
        """The statements of a body; `pass` for none."""
        statements = flatten(statement)
        if not statements:
            self.add(depth, "pass")
        last = len(statements) - 1
        self.defer(*((self.statement, (inner, depth, position == last)) for position, inner in enumerate(statements)))

    def statement(self, node: Stmt, depth: int, tail: bool) -> None:
        self.begins.setdefault(node, len(self.lines))
        if not tail and isinstance(node, (Allocate, LetStmt, Attr)):
            self.add(depth, "scope:")
            depth += 1
        names = self.names
        match node:
            case For():
                self.add(depth, _loop_header(node, names))
                self.defer((self.block, (node.body, depth + 1)), (names.release, (node.var,)))
            case BufferStore():
                target = expression_text(write_indexed(names(node.buffer), node.indices, node.predicate), names)
                lanes = node.indices[-1].dtype.lanes if node.indices else 1
                self.add(depth, f"{target} = {value_text(node.value, names, node.buffer.dtype.with_lanes(lanes))}")
            case Allocate():
                self.add(depth, _declaration(node.buffer, names))
                self.defer((self.block, (node.body, depth)), (names.release, (node.buffer,)))
            case If():
                self.condition("if", node, depth)
            case While():
                self.add(depth, f"while {value_text(node.condition, names)}:")
                self.defer((self.block, (node.body, depth + 1)))
            case LetStmt():
                value = value_text(node.value, names, node.var.dtype)
                self.add(depth, f"{names.bind(node.var)}: {node.var.dtype} = {value}")
                self.defer((self.block, (node.body, depth)), (names.release, (node.var,)))
            case Evaluate():
                self.add(depth, value_text(node.value, names))
            case Assert():
                self.add(depth, f"assert {value_text(node.condition, names)}, {json.dumps(node.message)}")
            case Attr():
                value = value_text(node.value, names)
                self.add(depth, f"attr({json.dumps(node.key)}, {self.subject(node.subject)}, {value})")
                self.defer((self.block, (node.body, depth)))
            case _:
                self.add(depth, f"<{type(node).__name__}>")

    def subject(self, subject: object) -> str:
        if isinstance(subject, (Var, Buffer)):
            return self.names(subject)
        return value_text(subject, self.names) if isinstance(subject, Expr) else _plain(subject)

    def condition(self, word: str, node: If, depth: int) -> None:
        self.add(depth, f"{word} {value_text(node.condition, self.names)}:")
        otherwise = node.else_body
        following: list[tuple[Callable[..., None], tuple[Any, ...]]] = [(self.block, (node.then_body, depth + 1))]
        if isinstance(otherwise, If):
            following.append((self.condition, ("elif", otherwise, depth)))
        elif otherwise is not None:
            following += [(self.add, (depth, "else:")), (self.block, (otherwise, depth + 1))]
        self.defer(*following)


def flatten(statement: Stmt) -> list[Stmt]:
    """The statements that a body consists of, nested sequences opened."""
    if not isinstance(statement, Seq):
        return [statement]
    statements: list[Stmt] = []
    stack: list[Stmt] = [statement]
    while stack:
        inner = stack.pop()
        if isinstance(inner, Seq):
            stack.extend(reversed(inner.body))
        else:
            statements.append(inner)
    return statements


def _function_lines(function: Function) -> _Lines:
    names = Names()
    printed = _Lines(names)
    printed.lines += _function_header(function, names)
    printed.run(function.body, 1)
    return printed


# The public face


def to_text(node: Node | Function | Buffer) -> str:
    """The text of an expression, a statement, a buffer's declaration or a whole function (see the module's notes)."""
    if isinstance(node, Function):
        return "\n".join(_function_lines(node).lines)
    names = Names()
    if isinstance(node, Buffer):
        return _declaration(node, names)
    if isinstance(node, Stmt):
        printed = _Lines(names)
        printed.run(node, 0)
        return "\n".join(printed.lines)
    return expression_text([(node, 0)], names)


def write_lines(function: Function) -> tuple[list[str], dict[Stmt, int]]:
    """The lines of a function's text, and where in it, counted from 0, each statement begins."""
    printed = _function_lines(function)
    return printed.lines, printed.begins


def excerpt(function: Function, at: Stmt | None, around: int = 4) -> str:
    """The lines of a function's text around the statement `at`, that one marked by an arrow; all of it for None."""
    printed = _function_lines(function)
    marked = None if at is None else printed.begins.get(at)
    if marked is None:
        return "\n".join(printed.lines)
    first, last = max(0, marked - around), min(len(printed.lines), marked + around + 1)
    lines = [("> " if number == marked else "  ") + printed.lines[number] for number in range(first, last)]
    return "\n".join(["  ..."] * (first > 0) + lines + ["  ..."] * (last < len(printed.lines)))


Node.text_of = to_text
