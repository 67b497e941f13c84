"""Operands of matrix products, for the rules that schedule them."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from ...ir.expr import Cast, Expr, FloorDiv, FloorMod, IntImm, IterVar, ProducerLoad
from ...te.factors import factors
from ...te.operation import Operation
from ...te.shape import constant_extent
from ..accesses import numeric_shape, op_loads
from ..operations import fixed_extent
from .gemm_plan import Product

if TYPE_CHECKING:
    from ..groups import Group

__all__ = ["Operands", "is_product", "operands", "reduce_axes"]


@dataclass(frozen=True)
class Operands:
    """The two factors as the sum reads them, and the sizes."""

    a: ProducerLoad
    b: ProducerLoad
    product: Product


def is_product(op: Operation) -> bool:
    """Return whether an operation sums a[.., i, k] * b[.., k, j] over k, either of the two transposed or both, each of them converted
    or not, for its last two axes i and j; or b packed, b[j // w, k, j % w]."""
    loads, both = op_loads(op), factors(op)
    if both is None or len(op.reduce_axis) != 1 or len(op.axis) < 2 or len(loads) != 2:
        return False
    if loads[0].producer is loads[1].producer or [*map(_strip_casts, both)] != loads:
        return False
    *batch, i, j = op.axis
    (k,) = op.reduce_axis
    a, b = loads
    return _is_matrix(a, batch, i, k) and (_is_matrix(b, batch, j, k) or _is_packed(b, j, k))


def _strip_casts(value: Expr) -> Expr:
    while isinstance(value, Cast):
        value = value.value
    return value


def _is_matrix(load: ProducerLoad, batch: list[IterVar], outer: IterVar, k: IterVar) -> bool:
    *before, first, second = [*load.indices[:-2], *load.indices[-2:]] if len(load.indices) >= 2 else [None, None]
    ordered = (first is outer and second is k) or (first is k and second is outer)
    return (
        ordered
        and len(before) <= len(batch)
        and all(
            isinstance(index, IntImm) or index is axis
            for index, axis in zip(before, batch[len(batch) - len(before) :], strict=True)
        )
    )


def _is_packed(load: ProducerLoad, j: IterVar, k: IterVar) -> bool:
    if len(load.indices) != 3:
        return False
    panel, depth, lane = load.indices
    return (
        depth is k
        and isinstance(panel, FloorDiv)
        and isinstance(lane, FloorMod)
        and panel.a is j
        and lane.a is j
        and isinstance(panel.b, IntImm)
        and isinstance(lane.b, IntImm)
        and panel.b.value == lane.b.value == numeric_shape(load.producer, 0)[-1]
    )


def operands(group: Group) -> Operands:
    """Return the operands that the anchor multiplies."""
    anchor = group.anchor
    a, b = op_loads(anchor)
    (k,) = reduce_axes(anchor)
    *batch, i, j = anchor.axis
    packed = _is_packed(b, j, k)
    heads = {tensor for head in group.heads for tensor in head.outputs}
    width = numeric_shape(b.producer, 0)[-1]
    product = Product(
        m=fixed_extent(i),
        n=fixed_extent(j),
        k=fixed_extent(k),
        batch=prod(constant_extent(axis) or 1 for axis in batch),
        bits=max(b.dtype.bits, anchor.output(0).dtype.bits),
        stride=width,
        in_place=packed,
        scattered=not packed and (b.indices[-1] is not j or b.producer in heads),
        columns=width if packed else 0,
    )
    return Operands(a, b, product)


def reduce_axes(op: Operation) -> tuple[IterVar, ...]:
    """The axes that it sums over."""
    return op.reduce_axis
