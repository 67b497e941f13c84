"""Expressions as C text, lane by lane: a vector expression is written once for each lane. What dialects write in their own way,
they say in a class of theirs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from ...base import InternalError, dataclass, user_source
from ...ir.analysis.linear import is_index
from ...ir.arith.analyzer import Analyzer
from ...ir.buffer import Buffer
from ...ir.dtype import DType
from ...ir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryOp,
    Broadcast,
    Call,
    Cast,
    Div,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    IterVar,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Ramp,
    Select,
    Shuffle,
    SizeVar,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
)
from ..errors import UnsupportedIntrinsic
from .shared_values import WRITTEN_OUT, written_size
from .types import bare

__all__ = ["COMMON", "Builder", "CallTable", "ExprEmitter", "FloatRow", "OtherRow", "within"]

Builder = Callable[[Any, Any, int], str]
"""The text of one lane of a node, by an emitter."""
FloatRow = Callable[[list[str], bool], str]
"""(operands, whether they are double) -> result; 16-bit floats come as float."""
OtherRow = Callable[[Any, Call, int], str]
"""(emitter, call, lane) -> the value of that lane."""


@dataclass(frozen=True, slots=True)
class CallTable:
    """A dialect's calls of intrinsics. target: its name, for people. floats: functions of floats; others: what needs the call
    itself."""

    target: str
    floats: Mapping[str, FloatRow]
    others: Mapping[str, OtherRow]


class _Infix(str):
    """Text whose outermost operator binds with `level`: 8 products, 7 sums, 5 comparisons, 2 and, 1 or, 0 choices. All
    other text is closed: it needs no parentheses anywhere."""

    __slots__ = ("level",)
    level: int

    def __new__(cls, text: str, level: int) -> _Infix:
        value = super().__new__(cls, text)
        value.level = level
        return value


def within(text: str, level: int) -> str:
    """`text` as an operand of an operator that binds with `level`."""
    return f"({text})" if isinstance(text, _Infix) and text.level < level else text


_LEVELS = {"*": 8, "/": 8, "%": 8, "+": 7, "-": 7, "<": 5, "<=": 5, ">": 5, ">=": 5, "==": 4, "!=": 4, "&&": 2, "||": 1}


def _infix(a: str, symbol: str, b: str) -> _Infix:
    level = _LEVELS[symbol]
    return _Infix(f"{within(a, level)} {symbol} {within(b, level + 1)}", level)


class ExprEmitter(ABC):
    """The text of values. calls: how intrinsics are written. names: of variables and buffers. shared: the names of values that
    were written before, by identity and lane."""

    byte: ClassVar[str]
    """The type that a bool has in memory."""
    builders: ClassVar[Mapping[type[Expr], Builder]]
    """How each kind of node is written: COMMON, and what the dialect writes in its own way."""

    def __init__(self, analyzer: Analyzer, calls: CallTable) -> None:
        self.analyzer, self.calls = analyzer, calls
        self.names: dict[Var | Buffer, str] = {}
        self.lanes: dict[Var, list[str]] = {}
        self.shared: dict[tuple[int, int], str] = {}
        self._sizes: dict[int, int] = {}
        self._lets = 0

    def value(self, expr: Expr, lane: int = 0) -> str:
        """One lane of a value; a scalar has the same in every lane."""
        named = self.shared.get((id(expr), lane))
        if named is not None:
            return named
        builder = self.builders.get(type(expr))
        if builder is None:
            raise InternalError(f"a {type(expr).__name__} reached code generation: {expr}")
        return builder(self, expr, lane)

    @abstractmethod
    def kind(self, dtype: DType) -> str:
        """The type that values of `dtype` are computed in."""

    def wrapping(self, dtype: DType) -> str:
        """A type in which sums and products of a signed integer's values wrap; C's signed overflow does not."""
        return self.kind(DType(f"uint{dtype.bits}"))

    @abstractmethod
    def constant(self, value: float, dtype: DType) -> str:
        """A constant, in the type that values of `dtype` are computed in."""

    @abstractmethod
    def typed(self, name: str, dtype: DType) -> str:
        """The function `name` of values of `dtype`."""

    def is_long(self, expr: Expr) -> bool:
        """Return whether what it shares must have names."""
        return written_size(expr, self._sizes) > WRITTEN_OUT

    def name_value(self, value: str, dtype: DType) -> tuple[str, str]:
        """(a new name of a value, its declaration)."""
        self._lets += 1
        return f"tw_let_{self._lets}", f"const {self.kind(dtype)} tw_let_{self._lets} = {bare(value)};"

    def operand_text(self, expr: Expr, lane: int = 0) -> str:
        """One lane of a value, as text that may stand anywhere."""
        return within(self.value(expr, lane), 9)

    def rounded(self, text: str, dtype: DType) -> str:
        """A float result in the precision of its dtype."""
        if dtype.bits != 16:
            return text
        return f"tw_round_{'half' if dtype.kind == 'float' else 'bfloat16'}({text})"

    def narrow(self, text: str, dtype: DType) -> str:
        """An integer result of C's int arithmetic, wrapped to its dtype."""
        return f"({self.kind(dtype)}){text}" if dtype.bits < 32 else text

    def memory_text(self, text: str, dtype: DType) -> str:
        """A value as memory holds it."""
        if dtype.is_float and dtype.bits == 16:
            name = "half" if dtype.kind == "float" else "bfloat16"
            inner = text.removeprefix(f"tw_from_{name}")
            copied = inner != text and bare(inner) != inner  # what memory held is stored as it is
            rounded = text.removeprefix(f"tw_round_{name}")  # rounded once more, which storing does
            text = bare(rounded) if rounded != text and bare(rounded) != rounded else text
            return bare(inner) if copied else f"tw_to_{name}({text})"
        return f"({self.byte})({text})" if dtype.is_bool else text

    def loaded(self, text: str, dtype: DType) -> str:
        """Return a value loaded from memory."""
        if dtype.is_float and dtype.bits == 16:
            return f"tw_from_{'half' if dtype.kind == 'float' else 'bfloat16'}({text})"
        return f"({text} != 0)" if dtype.is_bool else text

    def element(self, buffer: Buffer, index: Expr, lane: int) -> str:
        """The place in memory that an access of one lane touches."""
        return f"{self.name(buffer)}[{self.value(index, lane)}]"

    def name(self, item: Var | Buffer) -> str:
        known = self.names.get(item)
        if known is None:
            raise InternalError(f"{item.name} is used where it is not bound")
        return known

    def not_negative(self, expr: Expr) -> bool:
        """Return whether an integer is proved not to be negative."""
        if expr.dtype.kind == "uint":
            return True
        low = self.analyzer.interval(expr).lo
        return low is not None and low >= 0


# Leaves


def _variable(em: ExprEmitter, expr: Var, lane: int) -> str:
    text = em.lanes.get(expr)
    return text[lane] if text is not None else em.name(expr)


def _integer(em: ExprEmitter, expr: IntImm, _lane: int) -> str:
    return em.constant(expr.value, expr.dtype)


def _float(em: ExprEmitter, expr: FloatImm, _lane: int) -> str:
    return em.constant(expr.value, expr.dtype)


# Operators


def _arithmetic(symbol: str) -> Callable[[ExprEmitter, BinaryOp, int], str]:
    def build(em: ExprEmitter, expr: BinaryOp, lane: int) -> str:
        a, b, dtype = em.value(expr.a, lane), em.value(expr.b, lane), expr.dtype
        if dtype.is_float:
            return em.rounded(_infix(a, symbol, b), dtype)
        if dtype.bits < 32:
            if dtype.kind == "uint" and symbol == "*":  # C's int does not hold the product of two uint16
                a = _Infix(f"(unsigned int){within(a, 9)}", 8)
            return f"({em.kind(dtype)})({_infix(a, symbol, b)})"
        if dtype.kind == "uint" or is_index(expr):
            return _infix(a, symbol, b)
        wraps = em.wrapping(dtype)
        return f"({em.kind(dtype)})(({wraps}){within(a, 9)} {symbol} ({wraps}){within(b, 9)})"

    return build


def _division(name: str, symbol: str) -> Callable[[ExprEmitter, BinaryOp, int], str]:
    def build(em: ExprEmitter, expr: BinaryOp, lane: int) -> str:
        a, b, dtype = em.value(expr.a, lane), em.value(expr.b, lane), expr.dtype
        if dtype.is_float:
            return em.rounded(_float_division(em, name, a, b, dtype), dtype)
        divisor = expr.b.value if isinstance(expr.b, Broadcast) else expr.b
        if isinstance(divisor, IntImm) and divisor.value > 0 and em.not_negative(expr.a):
            text = _infix(a, symbol, b)
            return text if dtype.bits >= 32 else em.narrow(f"({text})", dtype)
        return f"{em.typed(name, dtype)}({a}, {b})"

    return build


def _float_division(em: ExprEmitter, name: str, a: str, b: str, dtype: DType) -> str:
    suffix = "" if dtype.bits == 64 else "f"
    if name == "tw_truncmod":
        return f"fmod{suffix}({a}, {b})"
    if name == "tw_truncdiv":
        return f"trunc{suffix}({_infix(a, '/', b)})"
    function = name.replace("tw_", "tw_float_")
    return f"{em.typed(function, dtype)}({a}, {b})"


def _extremum(name: str) -> Callable[[ExprEmitter, BinaryOp, int], str]:
    def build(em: ExprEmitter, expr: BinaryOp, lane: int) -> str:
        return f"{em.typed(name, expr.dtype)}({em.value(expr.a, lane)}, {em.value(expr.b, lane)})"

    return build


def _symbol(symbol: str) -> Callable[[ExprEmitter, BinaryOp, int], str]:
    def build(em: ExprEmitter, expr: BinaryOp, lane: int) -> str:
        return _infix(em.value(expr.a, lane), symbol, em.value(expr.b, lane))

    return build


def _not(em: ExprEmitter, expr: Not, lane: int) -> str:
    return f"(!{em.operand_text(expr.value, lane)})"


def _cast(em: ExprEmitter, expr: Cast, lane: int) -> str:
    value, source, target = em.value(expr.value, lane), expr.value.dtype, expr.dtype
    if target.is_bool:
        return f"({within(value, 9)} != 0)"
    if source.is_float and not target.is_float:
        least, greatest = em.constant(target.least, target), em.constant(target.greatest, target)
        return f"{em.typed('tw_to_integer', target)}({value}, {least}, {greatest})"
    if target.is_float and target.bits == 16:
        if source.is_float and source.bits == 64:
            value = f"tw_round_to_odd({value})"
        elif source == target:
            return value
        return em.rounded(f"(float){within(value, 9)}", target)
    return f"({em.kind(target)}){within(value, 9)}"


def _select(em: ExprEmitter, expr: Select, lane: int) -> str:
    return (
        f"({em.value(expr.condition, lane)} ? {em.value(expr.true_value, lane)} : {em.value(expr.false_value, lane)})"
    )


# Vectors


def _ramp(em: ExprEmitter, expr: Ramp, lane: int) -> str:
    base = em.value(expr.base)
    if lane == 0:
        return base
    if isinstance(expr.stride, IntImm):
        return _infix(base, "+", em.constant(expr.stride.value * lane, expr.stride.dtype))
    return _infix(base, "+", _infix(em.value(expr.stride), "*", str(lane)))


def _broadcast(em: ExprEmitter, expr: Broadcast, _lane: int) -> str:
    return em.value(expr.value)


def _shuffle(em: ExprEmitter, expr: Shuffle, lane: int) -> str:
    wanted = expr.indices[lane]
    for vector in expr.vectors:
        if wanted < vector.dtype.lanes:
            return em.value(vector, wanted)
        wanted -= vector.dtype.lanes
    raise InternalError(f"lane {expr.indices[lane]} of {expr} does not exist")


# Calls


def _call(em: ExprEmitter, call: Call, lane: int) -> str:
    """The value of one lane of a Call, as the dialect's table spells it."""
    row = em.calls.floats.get(call.name)
    if call.name == "fma" and call.dtype.bits == 16:  # float64 holds products of 16-bit floats, and sums of float16
        a, b, c = (f"(double){em.operand_text(arg, lane)}" for arg in call.args)
        total = f"tw_sum_to_odd({a} * {b}, {c})" if call.dtype.kind == "bfloat" else f"{a} * {b} + {c}"
        return em.rounded(f"tw_round_to_odd({total})", call.dtype)
    if row is not None and call.args[0].dtype.is_float:
        text = row([em.operand_text(arg, lane) for arg in call.args], call.args[0].dtype.bits == 64)
        return em.rounded(text, call.dtype) if call.dtype.is_float else text
    other = em.calls.others.get(call.name)
    if other is None:
        raise UnsupportedIntrinsic(
            f"the {em.calls.target} target has no row for the intrinsic {call.name!r}",
            called=user_source(),
            reason=f"called on {', '.join(arg.dtype for arg in call.args) or 'nothing'}",
            allowed=", ".join(sorted({*em.calls.floats, *em.calls.others})),
        )
    return other(em, call, lane)


COMMON: dict[type[Expr], Builder] = {
    Var: _variable,
    SizeVar: _variable,
    IterVar: _variable,
    IntImm: _integer,
    FloatImm: _float,
    Add: _arithmetic("+"),
    Sub: _arithmetic("-"),
    Mul: _arithmetic("*"),
    Div: _arithmetic("/"),
    FloorDiv: _division("tw_floordiv", "/"),
    FloorMod: _division("tw_floormod", "%"),
    TruncDiv: _division("tw_truncdiv", "/"),
    TruncMod: _division("tw_truncmod", "%"),
    Min: _extremum("tw_min"),
    Max: _extremum("tw_max"),
    LT: _symbol("<"),
    LE: _symbol("<="),
    GT: _symbol(">"),
    GE: _symbol(">="),
    EQ: _symbol("=="),
    NE: _symbol("!="),
    And: _symbol("&&"),
    Or: _symbol("||"),
    Not: _not,
    Cast: _cast,
    Select: _select,
    Ramp: _ramp,
    Broadcast: _broadcast,
    Shuffle: _shuffle,
    Call: _call,
}
"""Nodes that every dialect writes alike; each has its own way with IfThenElse, Let and BufferLoad."""
