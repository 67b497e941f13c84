"""Expressions as CUDA C text. Contiguous loads of vectors, which are written before the statement, are what makes lanes worth
having; a lambda gives names in the middle of an expression."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir import BufferLoad, DType, Expr, IfThenElse, IntImm, Let, children
from ...ir.arith.analyzer import Analyzer
from ..clike.emit_expr import COMMON, CallTable, ExprEmitter
from ..clike.shared_values import shared_values
from ..clike.types import bare
from .types import constant, value_type

__all__ = ["CudaExprEmitter"]


class CudaExprEmitter(ExprEmitter):
    """The text of values. packed: vector loads that were written before, by identity, with the variables that hold their parts."""

    byte = "unsigned char"

    def __init__(self, analyzer: Analyzer, calls: CallTable) -> None:
        super().__init__(analyzer, calls)
        self.packed: dict[int, list[str]] = {}

    def forget(self) -> None:
        """Another statement begins: it may stand in another block, and after stores."""
        self.packed.clear()
        self.shared.clear()
        self._sizes.clear()

    def kind(self, dtype: DType) -> str:
        return value_type(dtype)

    def constant(self, value: float, dtype: DType) -> str:
        return constant(value, dtype)

    def typed(self, name: str, dtype: DType) -> str:
        return f"{name}<{self.kind(dtype)}>"

    def declared(self, roots: Sequence[Expr], lane: int | None) -> list[str]:
        """Declarations of what `roots` share, which `value` knows by name from now on. lane: the only one that is needed."""
        lines: list[str] = []
        for node in shared_values(roots):
            lanes = range(node.dtype.lanes) if lane is None or node.dtype.lanes == 1 else (lane,)
            for each in lanes:
                if (id(node), each) not in self.shared and id(node) not in self.packed:
                    name, line = self.name_value(self.value(node, each), node.dtype)
                    self.shared[id(node), each] = name
                    lines.append(line)
        return lines


def _if_then_else(em: CudaExprEmitter, expr: IfThenElse, lane: int) -> str:
    packed = em.packed.get(id(expr))
    if packed is not None:
        return em.loaded(packed[lane], expr.dtype)
    return f"({em.value(expr.condition, lane)} ? {_scope(em, expr.true_value, lane)} : {_scope(em, expr.false_value, lane)})"


def _scope(em: CudaExprEmitter, expr: Expr, lane: int, *declared: str) -> str:
    """A value that is evaluated where it stands, with names of its own: those `declared` and, if it is long, of what it shares.
    A lambda gives names in the middle of an expression."""
    outside = dict(em.shared)
    lines = [*declared, *(em.declared([expr], lane) if em.is_long(expr) else ())]
    text = em.value(expr, lane)
    em.shared = outside
    return f"[&] {{ {' '.join(lines)} return {bare(text)}; }}()" if lines else text


def _let(em: CudaExprEmitter, expr: Let, lane: int) -> str:
    value = em.value(expr.value, lane)
    if not children(expr.value):
        em.names[expr.var] = f"({value})"
        return _scope(em, expr.body, lane)
    em.names[expr.var], line = em.name_value(value, expr.var.dtype)
    return _scope(em, expr.body, lane, line)


def _load(em: CudaExprEmitter, expr: BufferLoad, lane: int) -> str:
    packed = em.packed.get(id(expr))
    if packed is not None:
        return em.loaded(packed[lane], expr.dtype)
    index = expr.indices[0] if expr.indices else IntImm(0)
    text = em.loaded(em.element(expr.buffer, index, lane), expr.dtype)
    if expr.predicate is None:
        return text
    return f"({em.value(expr.predicate, lane)} ? {text} : {em.constant(0, expr.dtype)})"


CudaExprEmitter.builders = {**COMMON, IfThenElse: _if_then_else, Let: _let, BufferLoad: _load}
