"""Integer values that may overflow are computed in unsigned arithmetic, which wraps.

Lowering takes arithmetic on axes, symbols and constants alone for index arithmetic, which does not overflow: so
`(i * 4 + j) // 4` may become `i`. That serves indices and the conditions that guard them. The value of an element is
another matter: a hash of the index, `i * 1103515245 + seed`, wraps as numpy's does.

    int32: i * 1103515245 + seed      →      int32(uint32(i) * 1103515245 + uint32(seed))
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from ..base.limits import INT32_EXTENT_LIMIT
from ..ir import ops
from ..ir.analysis.bounds import IntervalEvaluator
from ..ir.arith.bounds import dtype_interval
from ..ir.arith.interval import INTERVAL_OF, Interval
from ..ir.dtype import DType
from ..ir.expr import (
    Add,
    BinaryOp,
    BufferLoad,
    Cast,
    Expr,
    IfThenElse,
    IntImm,
    IterVar,
    Mul,
    ProducerLoad,
    Reduce,
    Select,
    SizeVar,
    Sub,
    Var,
)
from ..ir.visit import Rewriter, deep_recursion, distinct, free_vars, post_order

__all__ = ["wrapping"]

_GREATEST_SIZE = {32: INT32_EXTENT_LIMIT - 1, 64: (1 << 40) - 1}
"""What an extent may be: for int32 the limit of a call's check, for int64 more than any memory holds."""


def wrapping(axis: tuple[IterVar, ...], body: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The body of the compute over `axis` with every value that may overflow in arithmetic that wraps; itself where
    there is none."""
    first = body[0]
    roots = (first,) if isinstance(first, Reduce) else body
    if not any(_is_index_arithmetic(node) for root in roots for node in distinct(root)):
        return body
    wrapper = _Wrapper(_sizes(axis, roots))
    with deep_recursion():
        wrapped = tuple(map(wrapper.visit, roots))
    if all(new is old for new, old in zip(wrapped, roots, strict=True)):
        return body
    return (
        tuple(replace(wrapped[0], value_index=at) for at in range(len(body)))
        if isinstance(wrapped[0], Reduce)
        else wrapped
    )


def _is_index_arithmetic(node: Any) -> bool:
    """Return whether this may be an operator of index arithmetic, as far as one look tells."""
    return isinstance(node, (Add, Sub, Mul)) and _may_be_index(node.dtype)


def _may_be_index(dtype: DType) -> bool:
    return dtype.kind == "int" and dtype.bits >= 32


def _sizes(axis: tuple[IterVar, ...], roots: Iterable[Expr]) -> set[Var]:
    """The symbols that are seen to be extents."""
    symbols: set[Var] = set()
    for loop in axis:
        if loop.dom is not None:
            symbols.update(free_vars(loop.dom.extent))
    for root in roots:
        for node in post_order(root):
            if isinstance(node, ProducerLoad):
                for extent in node.producer.shape:
                    symbols.update((extent,) if isinstance(extent, Var) else free_vars(extent))
    return symbols


class _Wrapper(Rewriter):
    def __init__(self, sizes: set[Var]) -> None:
        self.sizes = sizes
        self.wrapped: dict[int, Any] = {}
        self.bounds = IntervalEvaluator(self._range, lambda expr: False)
        self.index: dict[Expr, bool] = {}
        self.fits: dict[Expr, bool] = {}
        self.unsigned: dict[Expr, Expr] = {}

    def visit(self, node: Any) -> Any:
        wrapped = self.wrapped.get(id(node))
        if wrapped is None:
            wrapped = self.wrapped[id(node)] = super().visit(node)
        return wrapped

    def ProducerLoad(self, node: ProducerLoad) -> Expr:
        return node  # its indices are index arithmetic

    def BufferLoad(self, node: BufferLoad) -> Expr:
        return node  # likewise, in statements

    def Reduce(self, node: Reduce) -> Expr:
        sources, init = (tuple(self.visit(value) for value in values) for values in (node.sources, node.init))
        changed = any(new is not old for new, old in zip((*sources, *init), (*node.sources, *node.init), strict=True))
        return replace(node, sources=sources, init=init) if changed else node

    def Select(self, node: Select) -> Expr:
        return self._choice(node)

    def IfThenElse(self, node: IfThenElse) -> Expr:
        return self._choice(node)

    def _choice(self, node: Select | IfThenElse) -> Expr:
        """A condition of what is read guards indices; of other values it is a value itself."""
        a, b = self.visit(node.true_value), self.visit(node.false_value)
        guards = any(isinstance(inner, ProducerLoad) for side in (a, b) for inner in post_order(side))
        condition = node.condition if guards else self.visit(node.condition)
        if condition is node.condition and a is node.true_value and b is node.false_value:
            return node
        return type(node)(condition, a, b)

    def Add(self, node: Add) -> Expr:
        return self._sum(node)

    def Sub(self, node: Sub) -> Expr:
        return self._sum(node)

    def Mul(self, node: Mul) -> Expr:
        return self._sum(node)

    def _sum(self, node: BinaryOp) -> Expr:
        if not self._is_index(node) or self._fits(node):
            return self.generic(node)
        return ops.cast(self._cast_unsigned(node, DType(f"uint{node.dtype.bits}")), node.dtype)

    def _fits(self, node: BinaryOp) -> bool:
        """Return whether the sum, and those that it is made of, are their values over the integers."""
        fits = self.fits.get(node)
        if fits is None:
            values = INTERVAL_OF[type(node)](self.bounds(node.a), self.bounds(node.b))
            fits = values.within(node.dtype.least, node.dtype.greatest)
            for side in (node.a, node.b):
                if fits and isinstance(side, (Add, Sub, Mul)):
                    fits = self._fits(side)
            self.fits[node] = fits
        return fits

    def _cast_unsigned(self, node: Expr, dtype: DType) -> Expr:
        unsigned = self.unsigned.get(node)
        if unsigned is None:
            if isinstance(node, (Add, Sub, Mul)):
                unsigned = ops.binary(
                    type(node), self._cast_unsigned(node.a, dtype), self._cast_unsigned(node.b, dtype)
                )
            else:
                unsigned = ops.cast(self.visit(node), dtype)
            self.unsigned[node] = unsigned
        return unsigned

    def _is_index(self, node: Expr) -> bool:
        """Return whether lowering takes this for index arithmetic."""
        is_index = self.index.get(node)
        if is_index is None:
            is_index = self.index[node] = _may_be_index(node.dtype) and (
                isinstance(node, (IntImm, Var))
                or (
                    isinstance(node, BinaryOp)
                    and type(node) in INTERVAL_OF
                    and self._is_index(node.a)
                    and self._is_index(node.b)
                )
                or (isinstance(node, Cast) and self._is_index(node.value))
            )
        return is_index

    def _range(self, var: Var) -> Interval:
        whole = dtype_interval(var.dtype)
        if (
            isinstance(var, IterVar)
            and var.dom is not None
            and self._is_index(var.dom.begin)
            and self._is_index(var.dom.extent)
        ):
            begin, extent = self.bounds(var.dom.begin), self.bounds(var.dom.extent)
            if begin.lo is not None and begin.hi is not None and extent.hi is not None:
                values = Interval(begin.lo, begin.hi + max(extent.hi, 1) - 1)
                return values if values.within(var.dtype.least, var.dtype.greatest) else whole
            return whole
        if isinstance(var, SizeVar) or var in self.sizes:
            return Interval(0, _GREATEST_SIZE[var.dtype.bits])
        return whole
