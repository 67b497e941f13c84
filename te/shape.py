"""Shapes: what users write for extents, as integer expressions."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any, SupportsIndex, TypeAlias, cast

from ..base import INT32_EXTENT_LIMIT, user_source
from ..ir.analysis.bounds import IntervalEvaluator
from ..ir.arith.analyzer import simplify
from ..ir.arith.interval import EVERYTHING, Interval
from ..ir.dtype import INT32, INT64, SCALAR_TYPES, DType
from ..ir.errors import UnknownDType
from ..ir.expr import NE, Add, BinaryOp, Cast, Expr, IntImm, IterVar, Node, ProducerLoad, Range, Var
from ..ir.ops import cast as cast_to
from ..ir.ops import const, integer_value
from ..ir.structural import equal
from ..ir.visit import post_order, rewrite
from ..ir.widen import widen
from .errors import BadExtent

__all__ = [
    "Extent",
    "Shape",
    "convert_shape",
    "declare_axes",
    "axis_dtype",
    "constant_extent",
    "extent_text",
    "index_expr",
    "integer_expr",
    "same_extent",
    "scalar_dtype",
    "shape_text",
    "wide_enough",
    "zero_based",
]

Extent: TypeAlias = Expr | SupportsIndex
Shape: TypeAlias = Extent | Iterable[Extent]
"""One extent or several, as a user writes them."""

INT64_FROM = INT32_EXTENT_LIMIT
"""Constant extents from here on get int64 axes: `i + extent` and the like must not overflow."""


def convert_shape(shape: Shape, subject: str) -> tuple[Expr, ...]:
    """A shape as the user wrote it (an extent alone, or several) as extents.

    subject: whose shape it is, as messages name it. Raises BadExtent (TW0110).
    """
    several = (
        isinstance(shape, Iterable) and not isinstance(shape, (str, Expr)) and getattr(cast(Any, shape), "ndim", 1)
    )
    extents: Iterable[Any] = cast("Iterable[Any]", shape if several else (shape,))
    return tuple(_extent(extent, f"extent {at} of {subject}") for at, extent in enumerate(extents))


def _extent(value: Any, subject: str) -> Expr:
    extent = integer_expr(value, subject)
    if isinstance(extent, IntImm):
        if extent.value < 0:
            raise BadExtent(
                f"{subject} is negative",
                reason=f"got {extent.value}",
                called=user_source(),
                allowed="integers from 0 on, and integer expressions over te.var and te.size_var",
                fix='if the size is not known yet, declare it: n = te.size_var("n")',
            )
        return extent
    for node in post_order(extent):
        if isinstance(node, (ProducerLoad, IterVar)):
            what = f"tensor {node.producer.name}" if isinstance(node, ProducerLoad) else f"axis {node.name}"
            raise BadExtent(
                f"{subject} depends on {what}",
                reason=f"got {extent}: a shape must be known before any element is",
                called=user_source(),
                fix="declare the largest shape, and choose by te.if_then_else what lies in it",
            )
    return wide_enough(extent)


def wide_enough(extent: Expr) -> Expr:
    """An extent in 64 bits where it may not fit 32: `n * n`. A call sees to it that symbols lie below the limit of extents."""
    if extent.dtype != INT32 or isinstance(extent, (Var, IntImm)):
        return extent

    def of(var: Var) -> Interval:
        dom = var.dom if isinstance(var, IterVar) else None
        if dom is not None and isinstance(dom.begin, IntImm) and isinstance(dom.extent, IntImm):
            return Interval(dom.begin.value, dom.begin.value + dom.extent.value)
        return Interval(0, INT32_EXTENT_LIMIT - 1) if var.dtype == INT32 else EVERYTHING

    values = IntervalEvaluator(of)
    fits = all(
        not isinstance(node, BinaryOp) or node.dtype != INT32 or values(node).within(INT32.least, INT32.greatest)
        for node in post_order(extent)
    )
    return extent if fits else widen(extent)


def integer_expr(value: Any, subject: str) -> Expr:
    """An integer, or integer expression, of int32 or int64; of floats those that are whole, as `n / 8` gives them. Raises
    BadExtent (TW0110) naming `subject`."""
    if isinstance(value, Expr):
        expr = value
    else:
        try:
            whole: Any = int(value) if isinstance(value, float) and value.is_integer() else value
            number = operator.index(whole)
        except TypeError:
            number = None
        if number is None or isinstance(value, bool):
            raise _no_integer(value, type(value).__name__, subject)
        if not INT64.least <= number <= INT64.greatest:
            raise BadExtent(
                f"{subject} does not fit int64",
                reason=f"got {number}",
                called=user_source(),
                fix="no memory holds this: check how the size is computed",
            )
        return const(number, INT32 if INT32.least <= number <= INT32.greatest else INT64)
    if not expr.dtype.is_integer or expr.dtype.lanes != 1:
        raise _no_integer(expr, expr.dtype, subject)
    return index_expr(expr)


def index_expr(expr: Expr) -> Expr:
    """An integer expression as int32 or int64, whichever holds its values, with quotients that are rounded up in the form that
    proofs know."""
    dtype = expr.dtype
    if dtype in (INT32, INT64):
        return expr if isinstance(expr, (Var, IntImm)) else rewrite(expr, _simplify_ceildiv)
    return cast_to(expr, INT32 if dtype.bits < 32 else INT64)


def _simplify_ceildiv(node: Node) -> Node | None:
    """`n // 4 + (n % 4 != 0)`, as te.ceildiv declares it, in its simplest form; other conditions stay as they were written."""
    if isinstance(node, Add) and isinstance(node.b, Cast) and isinstance(node.b.value, NE):
        return simplify(node)
    return None


def _no_integer(value: object, kind: object, subject: str) -> BadExtent:
    shown = str(value) if isinstance(value, Expr) else repr(value)
    return BadExtent(
        f"{subject} is not an integer",
        reason=f"got {shown[:200]}, a {kind}",
        called=user_source(),
        allowed="ints, numpy integers, and integer expressions over te.var and te.size_var",
        fix="use // instead of / to compute sizes, or int(...)",
    )


def scalar_dtype(name: object) -> DType:
    """A dtype that tensors and symbols may have. Raises UnknownDType (TW0101) for vectors, pointers and what is none."""
    dtype = DType(name)
    if dtype not in SCALAR_TYPES:
        raise UnknownDType(
            f"{dtype} is not a dtype of elements",
            called=user_source(),
            allowed=", ".join(SCALAR_TYPES),
            fix="declare elements of a scalar type: vectors come from s[T].vectorize(axis)",
        )
    return dtype


def axis_dtype(extent: Expr) -> DType:
    """The dtype of an axis over `extent`: int64 where int32 arithmetic on it might overflow."""
    wide = extent.dtype == INT64 or (isinstance(extent, IntImm) and extent.value >= INT64_FROM)
    return INT64 if wide else INT32


def zero_based(extent: Expr) -> Range:
    """The domain [0, extent) of a data axis."""
    dtype = axis_dtype(extent)
    return Range(const(0, dtype), cast_to(extent, dtype))


def declare_axes(shape: Iterable[Expr], name: str) -> tuple[IterVar, ...]:
    """A data axis for each dimension of a shape: name0, name1, ..."""
    return tuple(IterVar(f"{name}{at}", domain.begin.dtype, domain) for at, domain in enumerate(map(zero_based, shape)))


def constant_extent(axis: IterVar) -> int | None:
    """The extent of an axis, where it is a constant."""
    return None if axis.dom is None else integer_value(axis.dom.extent)


def same_extent(a: Expr, b: Expr) -> bool:
    """Return whether two extents are certainly equal: the same number, symbol, or expression over the same symbols, in its
    simplest form."""
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        return a.value == b.value
    return a is b or equal(a, b) or equal(simplify(a), simplify(b))


def extent_text(extent: Expr) -> str:
    """An extent as messages show it."""
    return str(extent.value) if isinstance(extent, IntImm) else str(extent)


def shape_text(shape: tuple[Expr, ...]) -> str:
    """A shape as messages show it, in Python's form: (4, n), (4,), ()."""
    inner = ", ".join(map(extent_text, shape))
    return f"({inner},)" if len(shape) == 1 else f"({inner})"
