"""The form of an expression: what equal pieces of a graph share, so that each is looked at once."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, cast

from ..ir import Expr, IterVar, Node, ProducerLoad, Reduce, Var, children, post_order
from ..ir.structural import own_key, structural_key
from ..te.shape import constant_extent
from ..te.tensor import Tensor
from .accesses import Dimension, affine_dimensions
from .operations import is_known

__all__ = ["structure_key"]


def structure_key(value: Expr, axes: Sequence[IterVar]) -> Hashable:
    """Equal for expressions of one structure over axes of equal extents and tensors of equal shapes and dtypes, whichever they are,
    as long as those that are the same in one are the same in the other. Of places that are read, how far those of one tensor lie
    apart counts, and not where they begin: phases of one sum are equal. axes: of the data."""
    numbers: dict[int, int] = {}
    things: dict[object, int] = {}
    begins: dict[Hashable, tuple[int, ...]] = {}
    parts: list[Hashable] = [tuple(_axis(axis, things) for axis in axes)]
    reduction = (*value.combiner.result, *value.combiner.identity) if isinstance(value, Reduce) else ()
    known: dict[int, list[Dimension]] = {}

    def sums_in(load: ProducerLoad) -> list[Dimension]:
        """The indices of a load as sums, taken apart once."""
        if id(load) not in known:
            known[id(load)] = affine_dimensions(load)
        return known[id(load)]

    def operands(node: Node) -> Sequence[Node]:
        """The children of a node, without indices that are sums."""
        return [] if isinstance(node, ProducerLoad) and sums_in(node) else children(node)

    for node in post_order(*reduction, value, below=operands):
        below = tuple(numbers[id(child)] for child in operands(node))
        numbers[id(node)] = len(parts)
        own: Any
        if isinstance(node, Var):
            own = _axis(node, things)
        elif isinstance(node, ProducerLoad):
            sums = sums_in(node)
            own = _tensor(node.producer, things), tuple(_terms(each, things) for each in sums)
            begin = tuple(each.offset for each in sums)
            own = (
                *own,
                tuple(here - first for here, first in zip(begin, begins.setdefault(own, begin), strict=True)),
                tuple(isinstance(index, IterVar) for index in node.indices),
            )
        elif isinstance(node, Reduce):
            combined = tuple(numbers[id(each)] for each in reduction)
            own = combined, tuple(_axis(axis, things) for axis in node.axes), node.value_index, node.fused
        else:
            own = own_key(node)
        parts.append((type(node).__name__, own, below))
    return tuple(parts)


def _terms(index: Dimension, things: dict[object, int]) -> Hashable:
    """The variables of an index with their factors."""
    return tuple((_axis(cast("Var", part), things), factor) for part, factor in (*index.steps.items(), *index.rest))


def _axis(var: Var, things: dict[object, int]) -> Hashable:
    number = things.setdefault(var, len(things))
    if not isinstance(var, IterVar):
        return number, str(var.dtype)
    extent = constant_extent(var)
    return number, str(var.dtype), var.kind, var if extent is None else extent


def _tensor(tensor: object, things: dict[object, int]) -> Hashable:
    number = things.setdefault(tensor, len(things))
    if not isinstance(tensor, Tensor):
        return number, tensor
    return number, str(tensor.dtype), tuple(map(structural_key, tensor.shape)), is_known(tensor)
