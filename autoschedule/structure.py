"""The form of an expression: what equal pieces of a graph share, so that each is looked at once."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, cast

from ..ir.analysis.linear import is_index, linear, terms
from ..ir.arith.linear import LinearForm
from ..ir.expr import Expr, IterVar, Node, ProducerLoad, Reduce, Var
from ..ir.structural import own_key, structural_key
from ..ir.visit import children, post_order
from ..te.shape import constant_extent
from ..te.tensor import Tensor
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
    for node in post_order(*reduction, value, below=_operands):
        below = tuple(numbers[id(child)] for child in _operands(node))
        numbers[id(node)] = len(parts)
        own: Any
        if isinstance(node, Var):
            own = _axis(node, things)
        elif isinstance(node, ProducerLoad):
            sums = _sums(node)
            own = (
                _tensor(node.producer, things),
                tuple(
                    tuple((_axis(cast("Var", atom), things), factor) for atom, factor in terms(form)) for form in sums
                ),
            )
            begin = tuple(form.const for form in sums)
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


def _sums(load: ProducerLoad) -> tuple[LinearForm, ...]:
    """The indices as sums of multiples of variables; empty where one is more than that."""
    forms = tuple(linear(index) for index in load.indices) if all(map(is_index, load.indices)) else ()
    return forms if all(isinstance(atom, Var) for form in forms for atom, _ in terms(form)) else ()


def _operands(node: Node) -> Sequence[Node]:
    """The children of a node, without indices that are sums."""
    return [] if isinstance(node, ProducerLoad) and _sums(node) else children(node)


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
