"""Contractions as products of matrices: the primitives that give tensors the layout of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..ir.expr import Expr, IterVar, ProducerLoad
from ..ir.ops import const
from ..te.operation import Operation
from ..te.tensor import Tensor
from .accesses import load_axes, op_loads, source
from .forms.contraction import Contraction
from .loops import fuse_axes
from .operations import fixed_extent

if TYPE_CHECKING:
    from ..schedule import Stage
    from .groups import Group

__all__ = ["copied", "declare_matrices", "flat", "lay_out_matrix", "matrix_axes", "upstream"]


def lay_out_matrix(sums: Stage, found: Contraction, anchor: Operation) -> tuple[list[int], list[list[int]]]:
    """Lay out the sums with the outer dimensions, rows as one and columns as one. Returns the places of outer axes, and of those of
    rows and of columns, among the anchor's."""
    order = [anchor.axis.index(axis) for axis in found.outer]
    across = [[anchor.axis.index(axis) for axis in axes] for axes in (found.rows, found.columns)]
    extents = [fixed_extent(axis) for axis in anchor.axis]

    def places(*at: Expr) -> list[Expr]:
        return [
            *(at[place] for place in order),
            *(flat([(at[place], extents[place]) for place in several]) for several in across),
        ]

    if [[place] for place in range(len(extents))] != [*([place] for place in order), *across]:
        sums.transform_layout(places)
    return order, across


def copied(group: Group, sums: Stage, load: ProducerLoad, scope: str = "global") -> tuple[Stage, list[IterVar]]:
    """A copy of one side by what is read at each of the sum's axes, and those of the anchor's axes that it has; it has none that
    the sum, being a copy itself, knows to be of one value."""
    op, tensor = sums.op, group.s[source(load)].op.output(source(load).value_index)
    read = load_axes(next(each for each in op_loads(op) if each.producer is tensor))
    pairs = zip((*op.axis, *op.reduce_axis), (*group.anchor.axis, *group.anchor.reduce_axis), strict=True)
    axes = [axis for own, axis in pairs if own in read]
    return group.s[group.s.cache_read(source(load), scope, [sums], reindex=True)], axes


def declare_matrices(
    group: Group, found: Contraction, padding: Sequence[int], turned: Sequence[bool], widened: str | bool = False
) -> list[Tensor]:
    """The anchor as a product of matrices, those of rows and of columns being computed from what the group reads, and the result
    being read by the group's output. padding, turned, widened: as `s.matricize` takes them. Returns the three."""
    s = group.s
    shape = s[group.anchor].op
    where = dict(zip(group.anchor.axis, shape.axis, strict=True))
    matrices = s.matricize(
        shape.output(0),
        [where[axis] for axis in found.rows],
        [where[axis] for axis in found.columns],
        padding,
        turned,
        widened,
    )
    for head in (head for load in (found.a, found.b) for head in upstream(group, load)):
        if s[head].attach_type != "inline":
            s[head].compute_inline()
    if group.output is not group.anchor:
        s[group.anchor].compute_inline()
    return matrices


def matrix_axes(stage: Stage, found: Contraction, anchor: Operation) -> tuple[list[IterVar], IterVar, IterVar]:
    """The loops of what has an anchor's axes as those of matrices: the outer ones, that over rows and that over columns."""
    axes = list(stage.op.axis)
    outer, rows, columns = (
        [axes[anchor.axis.index(axis)] for axis in part] for part in (found.outer, found.rows, found.columns)
    )
    stage.reorder(*outer, *rows, *columns)
    return outer, fuse_axes(stage, rows), fuse_axes(stage, columns)


def upstream(group: Group, load: ProducerLoad) -> list[Operation]:
    """The heads that an operand is computed from."""
    above: dict[Operation, None] = {}
    stack = [source(load).op]
    while stack:
        op = stack.pop()
        if op in group.heads and op not in above:
            above[op] = None
            stack.extend(tensor.op for tensor in op.input_tensors)
    return list(above)


def flat(digits: Sequence[tuple[Expr, int]]) -> Expr:
    """The number that indices make, each with its extent."""
    number = const(0, "int32") if not digits else digits[0][0]
    for index, extent in digits[1:]:
        number = number * extent + index
    return number
