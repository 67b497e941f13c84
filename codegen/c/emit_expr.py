"""Expressions as C11 text. What C has no expression for (names within a branch, calls that
must happen once) becomes lines before the statement: those of a branch that may not be evaluated, within an `if`."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ...ir import BufferLoad, DType, Expr, IfThenElse, IntImm, Let, children
from ...ir.arith.analyzer import Analyzer
from ..clike.emit_expr import COMMON, CallTable, ExprEmitter
from ..clike.shared_values import find_repeated
from ..clike.types import bare
from .types import constant, suffix, value_type

__all__ = ["CExprEmitter"]


class CExprEmitter(ExprEmitter):
    """The text of values. lines: what has to stand before the statement that is being written. fail: writes the lines that leave
    the kernel where a condition holds. declarations: of outside functions, by name."""

    byte = "uint8_t"

    def __init__(self, analyzer: Analyzer, calls: CallTable, fail: Callable[[str, str], Iterable[str]]) -> None:
        super().__init__(analyzer, calls)
        self.fail = fail
        self.lines: list[str] = []
        self.declarations: dict[str, str] = {}
        self._several: frozenset[int] = frozenset()

    def begin(self, *roots: Expr) -> None:
        """A statement with these values is written next."""
        self.shared.clear()  # names are worth it only where the text would repeat long values
        self._sizes.clear()
        self._several = find_repeated(roots) if any(self.is_long(root) for root in roots) else frozenset()

    def kind(self, dtype: DType) -> str:
        return value_type(dtype)

    def wrapping(self, dtype: DType) -> str:
        return f"tw_wrap{dtype.bits}"

    def constant(self, value: float, dtype: DType) -> str:
        return constant(value, dtype)

    def typed(self, name: str, dtype: DType) -> str:
        return f"{name}_{suffix(dtype)}"

    def value(self, expr: Expr, lane: int = 0) -> str:
        lane = lane if expr.dtype.lanes > 1 else 0  # a scalar is the same in all lanes
        text = super().value(expr, lane)
        # kept once: the same value in another lane has another name
        if id(expr) in self._several and (id(expr), lane) not in self.shared:
            text = self.shared[id(expr), lane] = self.kept(text, expr.dtype)
        return text

    def kept(self, text: str, dtype: DType) -> str:
        """A name for a value that is computed before the statement."""
        name, line = self.name_value(text, dtype)
        self.lines.append(line)
        return name

    def chosen(self, condition: str, dtype: DType, *arms: Callable[[], str]) -> str:
        """The value of the first arm where the condition holds, else of the second; only that one is evaluated."""
        texts, before = list[tuple[list[str], str]](), self.lines
        for arm in arms:
            outside, self.lines = dict(self.shared), list[str]()  # what one arm names is not there in the other
            text = arm()
            texts.append((self.lines, text))
            self.shared, self.lines = outside, before  # names of an arm end with its block
        if not any(lines for lines, _ in texts):
            # without lines of its own an arm can be an expression
            return f"({condition} ? {texts[0][1]} : {texts[1][1]})"
        self._lets += 1
        name = f"tw_let_{self._lets}"
        self.lines += [f"{self.kind(dtype)} {name};", f"if ({bare(condition)}) {{"]
        for at, (lines, text) in enumerate(texts):
            self.lines += [*lines, f"{name} = {bare(text)};", "} else {" if at == 0 else "}"]
        return name


def _if_then_else(em: CExprEmitter, expr: IfThenElse, lane: int) -> str:
    return em.chosen(
        em.operand_text(expr.condition, lane),
        expr.dtype,
        lambda: em.value(expr.true_value, lane),
        lambda: em.value(expr.false_value, lane),
    )


def _let(em: CExprEmitter, expr: Let, lane: int) -> str:
    lanes = range(expr.var.dtype.lanes)
    texts = [em.value(expr.value, each) for each in lanes]
    if children(expr.value):  # a constant or name is as cheap as another name
        texts = [em.kept(text, expr.var.dtype) for text in texts]
    if len(texts) > 1:
        em.lanes[expr.var] = texts  # C has no vectors: each lane has its name
    else:
        em.names[expr.var] = texts[0]
    return em.value(expr.body, lane)


def _load(em: CExprEmitter, expr: BufferLoad, lane: int) -> str:
    index = expr.indices[0] if expr.indices else IntImm(0)

    def read() -> str:
        return em.loaded(em.element(expr.buffer, index, lane), expr.dtype)

    if expr.predicate is None:
        return read()  # the address may lie outside of the buffer where the predicate is false
    condition = em.operand_text(expr.predicate, lane)
    return em.chosen(condition, expr.dtype, read, lambda: em.constant(0, expr.dtype))


CExprEmitter.builders = {**COMMON, IfThenElse: _if_then_else, Let: _let, BufferLoad: _load}
