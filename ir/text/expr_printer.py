"""Text of expressions, for `ir.printer`: names, literals, precedences.

An expression becomes a list of pieces, strings and expressions still to be opened, on a work list: nothing recurses.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable
from typing import Any

from .. import expr as E
from ..dtype import FLOAT32, INT32, DType
from ..expr import Expr, FloatImm, IntImm, Var
from ..intrinsics import INTRINSICS
from ..rounding import round_float

__all__ = [
    "INFIX",
    "INFIX_CALLS",
    "NAME",
    "PREFIX_FUNCTIONS",
    "RESERVED",
    "Names",
    "beside",
    "call_dtype",
    "expression_text",
    "write_indexed",
    "number_text",
    "value_text",
]

RESERVED = frozenset(
    (
        "def",
        "for",
        "while",
        "in",
        "with",
        "if",
        "elif",
        "else",
        "scope",
        "pass",
        "assert",
        "attr",
        "and",
        "or",
        "not",
        "True",
        "False",
        "None",
        "inf",
        "nan",
        "out",
        "size",
    )
)
"""Words that no variable or buffer is printed as."""

Piece = Any
"""A str, or (node, precedence that needs no parentheses), or (literal, its explicit text is wanted)."""

NAME = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*")

# Python's precedences.
_OR, _AND, _NOT, _COMPARE, _BITOR, _BITXOR, _BITAND, _SHIFT, _SUM, _PRODUCT, _UNARY, _ATOM = range(1, 13)

INFIX: dict[type[E.BinaryOp], tuple[str, int]] = {
    E.Or: ("or", _OR),
    E.And: ("and", _AND),
    E.LT: ("<", _COMPARE),
    E.LE: ("<=", _COMPARE),
    E.GT: (">", _COMPARE),
    E.GE: (">=", _COMPARE),
    E.EQ: ("==", _COMPARE),
    E.NE: ("!=", _COMPARE),
    E.Add: ("+", _SUM),
    E.Sub: ("-", _SUM),
    E.Mul: ("*", _PRODUCT),
    E.Div: ("/", _PRODUCT),
    E.FloorDiv: ("//", _PRODUCT),
    E.FloorMod: ("%", _PRODUCT),
}
INFIX_CALLS: dict[str, tuple[str, int]] = {
    "bitwise_or": ("|", _BITOR),
    "bitwise_xor": ("^", _BITXOR),
    "bitwise_and": ("&", _BITAND),
    "shift_left": ("<<", _SHIFT),
    "shift_right": (">>", _SHIFT),
}
PREFIX_FUNCTIONS: dict[type[E.BinaryOp], str] = {
    E.Min: "min",
    E.Max: "max",
    E.TruncDiv: "truncdiv",
    E.TruncMod: "truncmod",
}


class Names:
    """One name for each variable, buffer and tensor, unique among those that are visible."""

    def __init__(self) -> None:
        self.of: dict[Any, str] = {}
        self.taken: set[str] = set(RESERVED)

    def __call__(self, thing: Any) -> str:
        name = self.of.get(thing)
        return name if name is not None else self.bind(thing)

    def bind(self, thing: Any) -> str:
        """A fresh name, or the one that it has while it is bound already (programs that bind twice print too)."""
        if thing in self.of:
            return self.of[thing]
        wanted = thing.name
        if NAME.fullmatch(wanted) is None:
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
    if math.isnan(value):
        return "-nan" if math.copysign(1, value) < 0 else "nan"
    if dtype.bits == 64 or math.isinf(value):
        return repr(float(value))
    text = f"{value:.6g}"
    if round_float(float(text), dtype) != value:
        longer = (f"{value:.{digits}g}" for digits in (7, 8))
        text = next((t for t in longer if round_float(float(t), dtype) == value), f"{value:.9g}")
    return text if "." in text or "e" in text else text + ".0"


def _literal(value: IntImm | FloatImm, typed: bool) -> str:
    text = number_text(value.value, value.dtype)
    return text if not typed or value.dtype.kind == "bool" else f"{value.dtype}({text})"


def _is_default(dtype: DType) -> bool:
    return dtype is INT32 or dtype is FLOAT32


def beside(
    operands: Iterable[Expr],
    precedence: Callable[[int], int] | None = None,
    like: DType | None = None,
) -> list[Piece]:
    """Operands whose numbers take each other's type (or the type `like`) as pieces."""
    operands = tuple(operands)
    if like is None:
        like = next((o.dtype for o in operands if type(o) is not IntImm and type(o) is not FloatImm), None)
    pieces: list[Piece] = []
    for position, operand in enumerate(operands):
        if type(operand) is IntImm or type(operand) is FloatImm:
            typed = operand.dtype is not like if like is not None else not _is_default(operand.dtype)
            pieces.append(_literal(operand, typed))
        else:
            pieces.append((operand, precedence(position) if precedence is not None else 0))
    return pieces


def _commas(pieces: Iterable[Piece]) -> list[Piece]:
    result: list[Piece] = []
    for piece in pieces:
        if result:
            result.append(", ")
        result.append(piece)
    return result


def _infix(symbol: str, own: int, a: Expr, b: Expr, outer: int) -> list[Piece]:
    left, right = beside((a, b), lambda position: own + (position if own != _COMPARE else 1))
    pieces = [left, f" {symbol} ", right]
    return pieces if own >= outer else ["(", *pieces, ")"]


def write_indexed(name: str, indices: tuple[Expr, ...], predicate: Expr | None) -> list[Piece]:
    pieces = _commas(_enclose(index) for index in indices) or ["()"]
    return [name, "[", *pieces, *(() if predicate is None else (", where=", (predicate, 0))), "]"]


def _enclose(value: Expr) -> Piece:
    return beside((value,))[0]


def _call(node: E.Call, outer: int) -> list[Piece]:
    name, args = node.name, node.args
    row = INTRINSICS.get(name)
    if row is None or (row.arity >= 0 and row.arity != len(args)):
        return ["call(", str(node.dtype), ", ", json.dumps(name), *(p for a in args for p in (", ", _enclose(a))), ")"]
    if row.result == "given":
        return [name, "(", str(node.dtype), *(p for a in args for p in (", ", _enclose(a))), ")"]
    if call_dtype(name, args) != node.dtype:
        return ["call(", str(node.dtype), ", ", json.dumps(name), *(p for a in args for p in (", ", _enclose(a))), ")"]
    if name in INFIX_CALLS:
        return _infix(*INFIX_CALLS[name], args[0], args[1], outer)
    if name == "bitwise_not" and type(args[0]) is not IntImm:
        pieces: list[Piece] = ["~", (args[0], _UNARY)]
        return pieces if outer <= _UNARY else ["(", *pieces, ")"]
    return [name, "(", *_commas(beside(args)), ")"]


def call_dtype(name: str, args: tuple[Expr, ...]) -> DType | None:
    """The type that a call of an intrinsic has by its row; None where the call says it itself."""
    row = INTRINSICS[name]
    if row.result == "given":
        return None
    return args[0].dtype if row.result == "same" else DType(row.result).with_lanes(args[0].dtype.lanes)


def _reduce(node: E.Reduce, names: Names) -> list[Piece]:
    sources = _commas(_enclose(source) for source in node.sources)
    several = len(node.sources) > 1
    pieces: list[Piece] = [node.combiner.name, "(", *(["(", *sources, ")"] if several else sources), ", axis=["]
    pieces += [", ".join(names(axis) for axis in node.axes), "]"]
    if not (isinstance(node.condition, IntImm) and node.condition.value):
        pieces += [", where=", (node.condition, 0)]
    if node.init:
        pieces += [", init=[", *_commas(_enclose(value) for value in node.init), "]"]
    return [*pieces, ")", *([f"[{node.value_index}]"] if several else ())]


def _expand(node: Expr, outer: int, names: Names) -> list[Piece]:
    """The pieces that the text of a node is made of, for every class that is not treated in `_expression`."""
    cls = type(node)
    match node:
        case E.Min() | E.Max() | E.TruncDiv() | E.TruncMod():
            return [PREFIX_FUNCTIONS[type(node)], "(", *_commas(beside((node.a, node.b))), ")"]
        case E.Not():
            pieces: list[Piece] = ["not ", (node.value, _NOT)]
            return pieces if outer <= _NOT else ["(", *pieces, ")"]
        case E.Cast():
            inner = node.value
            piece = _literal(inner, True) if isinstance(inner, (IntImm, FloatImm)) else (inner, 0)
            return [str(node.dtype), "(", piece, ")"]
        case E.Select() | E.IfThenElse():
            values = _commas(beside((node.true_value, node.false_value)))
            return ["select(" if cls is E.Select else "if_then_else(", (node.condition, 0), ", ", *values, ")"]
        case E.Ramp():
            return ["ramp(", *_commas(beside((node.base, node.stride))), f", {node.lanes})"]
        case E.Broadcast():
            return ["broadcast(", _enclose(node.value), f", {node.lanes})"]
        case E.Shuffle():
            return ["shuffle([", *_commas(_enclose(v) for v in node.vectors), f"], {list(node.indices)})"]
        case E.Call():
            return _call(node, outer)
        case E.Let():
            name = names.bind(node.var)
            value = beside((node.value,), like=node.var.dtype)[0]
            return [f"let({name}: {node.var.dtype} = ", value, ", ", _enclose(node.body), _Release(node.var), ")"]
        case E.ProducerLoad():
            return write_indexed(names(node.producer), node.indices, None)
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


def expression_text(pieces: list[Piece], names: Names) -> str:
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
        node: Expr
        outer: int
        node, outer = piece
        if isinstance(node, E.BinaryOp) and type(node) in INFIX:
            stack.extend(reversed(_infix(*INFIX[type(node)], node.a, node.b, outer)))
        elif isinstance(node, Var):
            out.append(names(node))
        elif isinstance(node, E.BufferLoad):
            stack.extend(reversed(write_indexed(names(node.buffer), node.indices, node.predicate)))
        elif isinstance(node, (IntImm, FloatImm)):
            out.append(_literal(node, not _is_default(node.dtype)))
        else:
            stack.extend(reversed(_expand(node, outer, names)))
    return "".join(out)


def value_text(value: Expr, names: Names, like: DType | None = None) -> str:
    return expression_text(beside((value,), like=like), names)
