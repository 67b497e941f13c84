"""Sums of products whose factors are more than elements of tensors: what a factor is becomes a matrix, computed once.

    C[i, j] = sum over k of (A[i, k] * d[k]) * B[k, j]       C.a.matrix[i, k] = A[i, k] * d[k]
                                                             C[i, j] = sum over k of C.a.matrix[i, k] * B[k, j]

A column uses each row of the first factor again, so that a factor is computed as often as there are rows and terms, and not for
every result. Numbers of 16 bits that are multiplied as float32 are such factors: converted where they are multiplied, they take as
long again as the products. Rounding is that of the program: a factor is rounded as it was declared, and the product of the two is
the sum's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...base import dataclass, replace
from ...ir import Cast, Expr, IterVar, ProducerLoad, post_order
from ...te.factors import factors
from ...te.operation import Operation
from ..accesses import contiguous_axes, domain_axes, find_axes
from ..forms.contraction import strip_conversion
from ..operations import fixed_extent
from .injective import sweep

if TYPE_CHECKING:
    from ..groups import Group

__all__ = ["Sides", "are_widened", "matricize_factors", "find_sides", "sweep_factors"]


@dataclass(frozen=True)
class Sides:
    """Factors of a product by the side of the result that they index.

    a, b: the factors of rows and of columns, and the last axis that each alone depends on: others are outer ones of a matrix.
    """

    a: Expr
    b: Expr
    row: IterVar
    column: IterVar


def find_sides(op: Operation) -> Sides | None:
    """The sides of a sum of products of which a factor is more than an element; None where it is another sum."""
    both, axes = factors(op), (*op.axis, *op.reduce_axis)
    if (
        both is None
        or op.calls_intrinsic
        or not op.axis
        or len(op.reduce_axis) != 1
        or not all(map(fixed_extent, axes))
    ):
        return None
    if any(domain_axes(axis) for axis in op.reduce_axis) or (
        not are_widened(both) and all(isinstance(strip_conversion(factor), ProducerLoad) for factor in both)
    ):
        return None
    a, b = both if op.axis[-1] in find_axes(both[1]) else both[::-1]
    left, right = find_axes(a), find_axes(b)
    rows, columns = ([axis for axis in op.axis if axis in own - other] for own, other in ((left, right), (right, left)))
    if op.axis[-1] not in columns or not rows or not left & right >= {*op.reduce_axis} or not left | right >= {*axes}:
        return None
    return Sides(a, b, rows[-1], columns[-1]) if _loads(a) and _loads(b) else None


def are_widened(both: Sequence[Expr]) -> bool:
    """Return whether a factor is a float that is converted to one of more bits."""
    return any(
        isinstance(factor, Cast)
        and factor.dtype.is_float
        and factor.value.dtype.is_float
        and factor.value.dtype.bits < factor.dtype.bits
        for factor in both
    )


def matricize_factors(group: Group, sides: Sides) -> Group:
    """The group with an anchor that multiplies matrices, which are heads of it: each lies as what its factor reads most of does."""
    s, anchor = group.s, group.anchor
    stage = s[anchor]
    now = dict(zip((*anchor.axis, *anchor.reduce_axis), (*stage.op.axis, *stage.op.reduce_axis), strict=True))
    turned = [not _is_contiguous(factor, anchor.reduce_axis[0]) for factor in (sides.a, sides.b)]
    a, b, product = s.matricize(
        stage.op.output(0), [now[sides.row]], [now[sides.column]], turned=(turned[0], not turned[1]), converted=True
    )
    if group.output is not anchor:
        stage.compute_inline()
    return replace(group, anchor=product.op, heads=(*group.heads, a.op, b.op))


def sweep_factors(group: Group, apart: Group) -> None:
    """Schedules the matrices by which `matricize_factors` told a group apart, where no rule has put them at what reads them."""
    for matrix in apart.heads[len(group.heads) :]:
        if group.s[matrix].attach_type == "root":
            sweep(group, matrix)


def _loads(factor: Expr) -> list[ProducerLoad]:
    return [node for node in post_order(factor) if isinstance(node, ProducerLoad)]


def _is_contiguous(factor: Expr, axis: IterVar) -> bool:
    """Return whether what a factor reads that depends on most axes lies side by side along this one."""
    return axis in contiguous_axes(max(_loads(factor), key=lambda load: len(find_axes(load))))
