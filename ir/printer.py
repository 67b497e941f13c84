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

* Loops: `in 32`, `in range(4, extent=12)`, and likewise `parallel`, `vectorized`, `unrolled`, `thread("threadIdx.x", 32)`.
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

Everything iterates, so a deep program is no danger to the stack.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable
from typing import Any

from . import expr as E
from .buffer import Buffer
from .dtype import FLOAT32, INT32, DType
from .expr import Expr, FloatImm, IntImm, Node, SizeVar, Var
from .intrinsics import INTRINSICS
from .stmt import Allocate, Assert, Attr, BufferStore, Evaluate, For, Function, If, LetStmt, LoopKind, Seq, Stmt

__all__ = ["RESERVED", "excerpt", "loop_header", "loops_outline", "to_text"]

RESERVED = frozenset((
    "def", "for", "in", "with", "if", "elif", "else", "scope", "pass", "assert", "attr", "and", "or", "not", "True", "False",
    "None", "inf", "nan", "out", "size",
))
"""Words that no variable or buffer is printed as."""

_Piece = Any
"""A str, or (node, precedence that needs no parentheses), or (literal, its explicit text is wanted)."""

_NAME = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*")

# Python's precedences.
_OR, _AND, _NOT, _COMPARE, _BITOR, _BITXOR, _BITAND, _SHIFT, _SUM, _PRODUCT, _UNARY, _ATOM = range(1, 13)

INFIX: dict[type[Expr], tuple[str, int]] = {
    E.Or: ("or", _OR), E.And: ("and", _AND), E.LT: ("<", _COMPARE), E.LE: ("<=", _COMPARE), E.GT: (">", _COMPARE),
    E.GE: (">=", _COMPARE), E.EQ: ("==", _COMPARE), E.NE: ("!=", _COMPARE), E.Add: ("+", _SUM), E.Sub: ("-", _SUM),
    E.Mul: ("*", _PRODUCT), E.Div: ("/", _PRODUCT), E.FloorDiv: ("//", _PRODUCT), E.FloorMod: ("%", _PRODUCT),
}
INFIX_CALLS: dict[str, tuple[str, int]] = {
    "bitwise_or": ("|", _BITOR), "bitwise_xor": ("^", _BITXOR), "bitwise_and": ("&", _BITAND),
    "shift_left": ("<<", _SHIFT), "shift_right": (">>", _SHIFT),
}
PREFIX_FUNCTIONS: dict[type[Expr], str] = {E.Min: "min", E.Max: "max", E.TruncDiv: "truncdiv", E.TruncMod: "truncmod"}


class _Names:
    """One name for each variable, buffer and tensor, unique among those that are visible."""

    def __init__(self) -> None:
        self.of: dict[Any, str] = {}
        self.taken: set[str] = set(RESERVED)

    def __call__(self, thing: Any) -> str:
        found = self.of.get(thing)
        return found if found is not None else self.bind(thing)

    def bind(self, thing: Any) -> str:
        """A fresh name, or the one that it has while it is bound already (a program that binds twice is printed too)."""
        if thing in self.of:
            return self.of[thing]
        wanted = thing.name
        if _NAME.fullmatch(wanted) is None:
            wanted = re.sub(r"\W", "_", wanted) or "v"
            wanted = wanted if not wanted[0].isdigit() else "v" + wanted
        name, count = wanted, 0
        while name in self.taken:
            count += 1
            name = f"{wanted}_{count}"
        self.taken.add(name)
        self.of[thing] = name
        return name

    def release(self, thing: Any) -> None:
        name = self.of.pop(thing, None)
        self.taken.discard(name or "")


# Expressions


def number_text(value: float, dtype: DType) -> str:
    """The shortest text that reads back as this number in its dtype, without the dtype."""
    if dtype.kind == "bool":
        return "True" if value else "False"
    if not dtype.is_float:
        return str(value)
    if dtype.bits == 64 or not math.isfinite(value):
        return repr(float(value))
    text = f"{value:.6g}"
    if _ops.round_float(float(text), dtype) != value:
        text = next((t for t in (f"{value:.{p}g}" for p in (7, 8)) if _ops.round_float(float(t), dtype) == value), f"{value:.9g}")
    return text if "." in text or "e" in text else text + ".0"


def _literal(value: IntImm | FloatImm, typed: bool) -> str:
    text = number_text(value.value, value.dtype)
    return text if not typed or value.dtype.kind == "bool" else f"{value.dtype}({text})"


def _is_default(dtype: DType) -> bool:
    return dtype is INT32 or dtype is FLOAT32


def _beside(operands: Iterable[Expr], precedence: Callable[[int], int] | None = None, like: DType | None = None) -> list[_Piece]:
    """Operands whose numbers take each other's type (or the type `like`) as pieces."""
    operands = tuple(operands)
    if like is None:
        like = next((o.dtype for o in operands if type(o) is not IntImm and type(o) is not FloatImm), None)
    pieces: list[_Piece] = []
    for position, operand in enumerate(operands):
        if type(operand) is IntImm or type(operand) is FloatImm:
            pieces.append(_literal(operand, operand.dtype is not like if like is not None else not _is_default(operand.dtype)))
        else:
            pieces.append((operand, precedence(position) if precedence is not None else 0))
    return pieces


def _commas(pieces: Iterable[_Piece]) -> list[_Piece]:
    result: list[_Piece] = []
    for piece in pieces:
        if result:
            result.append(", ")
        result.append(piece)
    return result


def _infix(symbol: str, own: int, a: Expr, b: Expr, outer: int) -> list[_Piece]:
    left, right = _beside((a, b), lambda position: own + (position if own != _COMPARE else 1))
    pieces = [left, f" {symbol} ", right]
    return pieces if own >= outer else ["(", *pieces, ")"]


def _indexed(name: str, indices: tuple[Expr, ...], predicate: Expr | None) -> list[_Piece]:
    pieces = _commas(_alone(index) for index in indices) or ["()"]
    return [name, "[", *pieces, *(() if predicate is None else (", where=", (predicate, 0))), "]"]


def _alone(value: Expr) -> _Piece:
    return _beside((value,))[0]


def _call(node: E.Call, outer: int) -> list[_Piece]:
    name, args = node.name, node.args
    row = INTRINSICS.get(name)
    if row is None or (row.arity >= 0 and row.arity != len(args)):
        return ["call(", str(node.dtype), ", ", json.dumps(name), *(p for a in args for p in (", ", _alone(a))), ")"]
    if row.result == "given":
        return [name, "(", str(node.dtype), *(p for a in args for p in (", ", _alone(a))), ")"]
    if call_dtype(name, args) != node.dtype:
        return ["call(", str(node.dtype), ", ", json.dumps(name), *(p for a in args for p in (", ", _alone(a))), ")"]
    if name in INFIX_CALLS:
        return _infix(*INFIX_CALLS[name], args[0], args[1], outer)
    if name == "bitwise_not" and type(args[0]) is not IntImm:
        pieces: list[_Piece] = ["~", (args[0], _UNARY)]
        return pieces if outer <= _UNARY else ["(", *pieces, ")"]
    return [name, "(", *_commas(_beside(args)), ")"]


def call_dtype(name: str, args: tuple[Expr, ...]) -> DType | None:
    """The type that a call of an intrinsic has by its row; None where the call says it itself."""
    row = INTRINSICS[name]
    if row.result == "given":
        return None
    return args[0].dtype if row.result == "same" else DType(row.result).with_lanes(args[0].dtype.lanes)


def _reduce(node: E.Reduce, names: _Names) -> list[_Piece]:
    sources = _commas(_alone(source) for source in node.sources)
    several = len(node.sources) > 1
    pieces: list[_Piece] = [node.combiner.name, "(", *(["(", *sources, ")"] if several else sources), ", axis=["]
    pieces += [", ".join(names(axis) for axis in node.axes), "]"]
    if not (isinstance(node.condition, IntImm) and node.condition.value):
        pieces += [", where=", (node.condition, 0)]
    if node.init:
        pieces += [", init=[", *_commas(_alone(value) for value in node.init), "]"]
    return [*pieces, ")", *([f"[{node.value_index}]"] if several else ())]


def _expand(node: Expr, outer: int, names: _Names) -> list[_Piece]:
    """The pieces that the text of a node is made of, for every class that is not treated in `_expression`."""
    cls = type(node)
    match node:
        case E.Min() | E.Max() | E.TruncDiv() | E.TruncMod():
            return [PREFIX_FUNCTIONS[cls], "(", *_commas(_beside((node.a, node.b))), ")"]
        case E.Not():
            pieces: list[_Piece] = ["not ", (node.value, _NOT)]
            return pieces if outer <= _NOT else ["(", *pieces, ")"]
        case E.Cast():
            inner = node.value
            literal = isinstance(inner, (IntImm, FloatImm)) and inner.dtype.kind != "bool"
            return [str(node.dtype), "(", _literal(inner, True) if literal else (inner, 0), ")"]  # pyright: ignore[reportArgumentType]
        case E.Select() | E.IfThenElse():
            values = _commas(_beside((node.true_value, node.false_value)))
            return ["select(" if cls is E.Select else "if_then_else(", (node.condition, 0), ", ", *values, ")"]
        case E.Ramp():
            return ["ramp(", *_commas(_beside((node.base, node.stride))), f", {node.lanes})"]
        case E.Broadcast():
            return ["broadcast(", _alone(node.value), f", {node.lanes})"]
        case E.Shuffle():
            return ["shuffle([", *_commas(_alone(v) for v in node.vectors), f"], {list(node.indices)})"]
        case E.Call():
            return _call(node, outer)
        case E.Let():
            name = names.bind(node.var)
            value = _beside((node.value,), like=node.var.dtype)[0]
            return [f"let({name}: {node.var.dtype} = ", value, ", ", _alone(node.body), _Release(node.var), ")"]
        case E.ProducerLoad():
            return _indexed(names(node.producer), node.indices, None)
        case E.Reduce():
            return _reduce(node, names)
        case E.StringImm():
            return [json.dumps(node.value)]
        case _:
            return [f"<{cls.__name__}>"]


class _Release:
    """A piece that prints nothing: the name of a variable becomes free again."""

    __slots__ = ("thing",)

    def __init__(self, thing: object) -> None:
        self.thing = thing


def _expression(pieces: list[_Piece], names: _Names) -> str:
    """The text of pieces, given in order."""
    out: list[str] = []
    stack = pieces[::-1]
    while stack:
        piece = stack.pop()
        if type(piece) is str:
            out.append(piece)
            continue
        if type(piece) is _Release:
            names.release(piece.thing)
            continue
        node, outer = piece
        cls = type(node)
        if cls in INFIX:
            stack.extend(reversed(_infix(*INFIX[cls], node.a, node.b, outer)))
        elif isinstance(node, Var):
            out.append(names(node))
        elif cls is E.BufferLoad:
            stack.extend(reversed(_indexed(names(node.buffer), node.indices, node.predicate)))
        elif cls is IntImm or cls is FloatImm:
            out.append(_literal(node, not _is_default(node.dtype)))
        else:
            stack.extend(reversed(_expand(node, outer, names)))
    return "".join(out)


def _text(value: Expr, names: _Names, like: DType | None = None) -> str:
    return _expression(_beside((value,), like=like), names)


# Declarations and headers


def _declaration(buffer: Buffer, names: _Names, output: bool = False) -> str:
    """`A: out local float32[16, strides=[...]]`."""
    name = names.bind(buffer)
    inside = ", ".join(_text(extent, names) for extent in buffer.shape) or "()"
    if buffer.strides:
        inside += f", strides=[{', '.join(_text(stride, names) for stride in buffer.strides)}]"
    if buffer.elem_offset is not None:
        inside += f", offset={_text(buffer.elem_offset, names)}"
    if buffer.alignment:
        inside += f", align={buffer.alignment}"
    if buffer.data is not None:
        inside += f", data={names.bind(buffer.data)}"
    scope = "" if buffer.scope == "global" else buffer.scope + " "
    return f"{name}: {'out ' if output else ''}{scope}{buffer.dtype}[{inside}]"


def loop_header(loop: For, names: _Names | None = None) -> str:
    """`for i in parallel(32):`, the first line of a loop."""
    names = names or _Names()
    dtype = loop.var.dtype
    begin, extent = _text(loop.begin, names, dtype), _text(loop.extent, names, dtype)
    zero = isinstance(loop.begin, IntImm) and loop.begin.value == 0 and loop.begin.dtype is dtype
    inside = extent if zero else f"{begin}, extent={extent}"
    if loop.kind is LoopKind.THREAD:
        inside = f"thread({json.dumps(loop.thread)}, {inside})"
    elif loop.kind is not LoopKind.SERIAL:
        inside = f"{loop.kind.value}({inside})"
    elif not zero:
        inside = f"range({inside})"
    pragmas = ", ".join(f"{_key(key)}={_text(value, names)}" for key, value in loop.pragmas)
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
    found: dict[Var, None] = {}
    for buffer in function.buffers:
        offset = () if buffer.elem_offset is None else (buffer.elem_offset,)
        for value in (*buffer.shape, *buffer.strides, *offset):
            for node in visit.walk(value):
                if isinstance(node, Var) and node not in scalars:
                    found.setdefault(node)
    return list(found)


def _function_header(function: Function, names: _Names) -> list[str]:
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
    name = function.name if _NAME.fullmatch(function.name) else json.dumps(function.name)
    opening = f"def {name}{f'[{symbols}]' if symbols else ''}("
    header = [f"{opening}{', '.join(params)}):"]
    if len(header[0]) > 110:
        header = [opening, *(f"        {parameter}," for parameter in params), "):"]
    if function.attrs:
        facts = ", ".join(f"{_key(key)}={_plain(value)}" for key, value in function.attrs.items())
        header.insert(0, f"@attrs({facts})")
    return header


def _plain(value: object) -> str:
    """Plain Python data, as the parser reads it."""
    if isinstance(value, str):
        return json.dumps(str.__str__(value))
    if isinstance(value, (list, tuple)):
        inside = ", ".join(map(_plain, value))
        if isinstance(value, list):
            return f"[{inside}]"
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_plain(key)}: {_plain(item)}" for key, item in value.items()) + "}"
    return repr(value)


# Statements


class _Lines:
    """The text of statements, line by line, with the line on which each statement of interest begins."""

    def __init__(self, names: _Names, mark: Stmt | None = None) -> None:
        self.names, self.mark = names, mark
        self.lines: list[str] = []
        self.marked: int | None = None
        self.work: list[tuple[Callable[..., None], tuple[Any, ...]]] = []

    def run(self, statement: Stmt, depth: int) -> None:
        self.work.append((self.block, (statement, depth)))
        while self.work:
            action, arguments = self.work.pop()
            action(*arguments)

    def later(self, *actions: tuple[Callable[..., None], tuple[Any, ...]]) -> None:
        """Do these next, in order."""
        self.work.extend(reversed(actions))

    def add(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def block(self, statement: Stmt, depth: int) -> None:
        """The statements of a body; `pass` for none."""
        found = flattened(statement)
        if not found:
            self.add(depth, "pass")
        last = len(found) - 1
        self.later(*((self.statement, (inner, depth, position == last)) for position, inner in enumerate(found)))

    def statement(self, node: Stmt, depth: int, tail: bool) -> None:
        if node is self.mark and self.marked is None:
            self.marked = len(self.lines)
        if not tail and isinstance(node, (Allocate, LetStmt, Attr)):
            self.add(depth, "scope:")
            depth += 1
        names = self.names
        match node:
            case For():
                self.add(depth, loop_header(node, names))
                self.later((self.block, (node.body, depth + 1)), (names.release, (node.var,)))
            case BufferStore():
                target = _expression(_indexed(names(node.buffer), node.indices, node.predicate), names)
                lanes = node.indices[-1].dtype.lanes if node.indices else 1
                self.add(depth, f"{target} = {_text(node.value, names, node.buffer.dtype.with_lanes(lanes))}")
            case Allocate():
                self.add(depth, _declaration(node.buffer, names))
                self.later((self.block, (node.body, depth)), (names.release, (node.buffer,)))
            case If():
                self.condition("if", node, depth)
            case LetStmt():
                value = _text(node.value, names, node.var.dtype)
                self.add(depth, f"{names.bind(node.var)}: {node.var.dtype} = {value}")
                self.later((self.block, (node.body, depth)), (names.release, (node.var,)))
            case Evaluate():
                self.add(depth, _text(node.value, names))
            case Assert():
                self.add(depth, f"assert {_text(node.condition, names)}, {json.dumps(node.message)}")
            case Attr():
                self.add(depth, f"attr({json.dumps(node.key)}, {self.subject(node.subject)}, {_text(node.value, names)})")
                self.later((self.block, (node.body, depth)))
            case _:
                self.add(depth, f"<{type(node).__name__}>")

    def subject(self, subject: object) -> str:
        if isinstance(subject, (Var, Buffer)):
            return self.names(subject)
        return _text(subject, self.names) if isinstance(subject, Expr) else _plain(subject)

    def condition(self, word: str, node: If, depth: int) -> None:
        self.add(depth, f"{word} {_text(node.condition, self.names)}:")
        otherwise = node.else_body
        following: list[tuple[Callable[..., None], tuple[Any, ...]]] = [(self.block, (node.then_body, depth + 1))]
        if isinstance(otherwise, If):
            following.append((self.condition, ("elif", otherwise, depth)))
        elif otherwise is not None:
            following += [(self.add, (depth, "else:")), (self.block, (otherwise, depth + 1))]
        self.later(*following)


def flattened(statement: Stmt) -> list[Stmt]:
    """The statements that a body consists of, nested sequences opened."""
    if not isinstance(statement, Seq):
        return [statement]
    found: list[Stmt] = []
    stack: list[Stmt] = [statement]
    while stack:
        inner = stack.pop()
        if isinstance(inner, Seq):
            stack.extend(reversed(inner.body))
        else:
            found.append(inner)
    return found


def _function_lines(function: Function, mark: Stmt | None = None) -> _Lines:
    names = _Names()
    printed = _Lines(names, mark)
    printed.lines += _function_header(function, names)
    printed.run(function.body, 1)
    return printed


# The public face


def to_text(node: Node | Function | Buffer) -> str:
    """The text of an expression, a statement, a buffer's declaration or a whole function (see the module's notes)."""
    if isinstance(node, Function):
        return "\n".join(_function_lines(node).lines)
    names = _Names()
    if isinstance(node, Buffer):
        return _declaration(node, names)
    if isinstance(node, Stmt):
        printed = _Lines(names)
        printed.run(node, 0)
        return "\n".join(printed.lines)
    return _expression([(node, 0)], names)


def excerpt(function: Function, at: Stmt | None, around: int = 4) -> str:
    """The lines of a function's text around the statement `at`, that one marked by an arrow; all of it for None."""
    printed = _function_lines(function, at)
    if printed.marked is None:
        return "\n".join(printed.lines)
    first, last = max(0, printed.marked - around), min(len(printed.lines), printed.marked + around + 1)
    lines = [("> " if number == printed.marked else "  ") + printed.lines[number] for number in range(first, last)]
    return "\n".join(["  ..."] * (first > 0) + lines + ["  ..."] * (last < len(printed.lines)))


def loops_outline(statement: Stmt, mark: Var | None = None) -> str:
    """The loop headers alone, nested, for error messages; a caret stands under the variable of the loop `mark`."""
    names = _Names()
    lines: list[str] = []
    stack: list[tuple[Stmt, int]] = [(statement, 0)]
    while stack:
        node, depth = stack.pop()
        if isinstance(node, For):
            note = "        # reduce" if isinstance(node.var, E.IterVar) and node.var.kind == "reduce" else ""
            lines.append("  " * depth + loop_header(node, names) + note)
            if node.var is mark:
                lines.append("  " * depth + "    ^")
            depth += 1
        inner = [child for child in visit.children(node) if isinstance(child, Stmt)]
        stack.extend((child, depth) for child in reversed(inner))
    return "\n".join(lines)


from . import ops as _ops  # noqa: E402  (rounding of literals; it needs the nodes, whose text comes from here)
from . import visit  # noqa: E402
