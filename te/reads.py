"""Reads that certainly leave a tensor's shape, found while the user's line is still at hand.

Only what is certain is refused: an index in which each axis occurs once, under additions, subtractions, products with
and floor divisions by constants, takes its least and greatest value for some element. What a condition guards is left
alone, and so are symbolic extents.
"""

from __future__ import annotations

from collections.abc import Iterator
from weakref import WeakKeyDictionary

from ..errors import user_source
from ..ir.expr import (
    Add,
    And,
    Call,
    Expr,
    FloorDiv,
    IfThenElse,
    IntImm,
    IterVar,
    LogicalOp,
    Mul,
    Node,
    ProducerLoad,
    Reduce,
    Select,
    Sub,
)
from ..ir.ops import is_const
from ..ir.visit import children, post_order
from .errors import IndexOutOfRange
from .operation import Operation
from .shape import extent_text, same_extent
from .tensor import Tensor, tensor_text

__all__ = ["LATER", "check_reads", "unguarded_loads"]

LATER: WeakKeyDictionary[Operation, dict[Tensor, IndexOutOfRange]] = WeakKeyDictionary()
"""What check_reads found and left open, by the operation that was made of it: te.create_schedule knows the scans."""


def check_reads(name: str, axis: tuple[IterVar, ...], body: tuple[Expr, ...]) -> dict[Tensor, IndexOutOfRange]:
    """Raises IndexOutOfRange where the compute `name` certainly reads outside a tensor.

    Returns the placeholders of which that is certain only if they are no states of a scan, with the errors to raise then:
    they are read at earlier steps of the first axis alone, `state[t - 1, i]`.
    """
    first = body[0]
    axes = (*axis, *first.axes) if isinstance(first, Reduce) else axis
    if any(_may_be_empty(one) for one in axes):
        return {}
    found: dict[Tensor, IndexOutOfRange] = {}
    for value in body if not isinstance(first, Reduce) else (first,):
        for load in unguarded_loads(value):
            for at, index in enumerate(load.indices):
                error = _outside(name, load, at, index)
                if error is None:
                    continue
                tensor = load.producer
                if at or not isinstance(tensor, Tensor) or not _may_be_state(tensor, axis, body):
                    raise error
                found.setdefault(tensor, error)
    return found


def _may_be_state(tensor: Tensor, axis: tuple[IterVar, ...], body: tuple[Expr, ...]) -> bool:
    """Whether a placeholder is only read some steps back from the first axis, which is as long as its own."""
    if tensor.op.kind != "placeholder" or not axis or axis[0].dom is None or not same_extent(axis[0].dom.extent, tensor.shape[0]):
        return False
    loads = [node for value in body for node in post_order(value) if isinstance(node, ProducerLoad) and node.producer is tensor]
    return all(isinstance(load.indices[0], Sub) and load.indices[0].a is axis[0] and isinstance(load.indices[0].b, IntImm)
               and load.indices[0].b.value > 0 for load in loads)


def _may_be_empty(axis: IterVar) -> bool:
    """Whether some elements may have no iteration of this axis, so that their reads never happen."""
    if axis.dom is None or is_const(axis.dom.extent, 0):
        return True
    return any(isinstance(node, (IterVar, ProducerLoad)) for node in post_order(axis.dom.extent))


def unguarded_loads(value: Expr, layouts: bool = False) -> Iterator[ProducerLoad]:
    """The reads that happen for every element. layouts: guards of `likely` conditions, as the layouts of caches have them,
    do not count."""
    stack: list[Node] = [value]
    seen: set[int] = set()
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, (IfThenElse, Select)):
            stack.append(node.condition)
            if layouts and all(isinstance(part, Call) and part.name == "likely" for part in _conjuncts(node.condition)):
                stack.append(node.true_value)
        elif isinstance(node, Reduce) and not is_const(node.condition, 1):
            stack.extend((node.condition, *node.init))
        elif not isinstance(node, LogicalOp):
            if isinstance(node, ProducerLoad):
                yield node
            stack.extend(children(node))


def _conjuncts(condition: Expr) -> Iterator[Expr]:
    stack = [condition]
    while stack:
        part = stack.pop()
        if isinstance(part, And):
            stack += [part.a, part.b]
        else:
            yield part


def _outside(name: str, load: ProducerLoad, at: int, index: Expr) -> IndexOutOfRange | None:
    """The error for an index that certainly leaves the tensor."""
    extent = load.producer.shape[at]
    reach = _reach(index) if isinstance(extent, IntImm) else None
    tensor = load.producer
    if reach is None or not isinstance(extent, IntImm) or not isinstance(tensor, Tensor):
        return None
    least, greatest = reach
    if least >= 0 and greatest < extent.value:
        return None
    return IndexOutOfRange(
        f"{name} reads outside {tensor.name}", declared=tensor.source, called=user_source(),
        reason=f"index {at}, `{index}`, runs from {least} to {greatest}; "
               f"dimension {at} of {tensor_text(tensor)} has the indices 0 to {extent_text(extent)} - 1",
        fix="choose what lies outside: te.if_then_else(te.all(index >= 0, index < extent), "
            f"{tensor.name}[...], 0), or compute fewer elements",
    )


def _reach(index: Expr) -> tuple[int, int] | None:
    """The least and the greatest value that an index takes, where that is certain."""
    order: list[Expr] = []
    stack: list[Expr] = [index]
    while stack:  # parents before children; each place once, so that an axis that occurs twice is noticed
        node = stack.pop()
        order.append(node)
        if isinstance(node, (Add, Sub, Mul, FloorDiv)):
            stack += (node.a, node.b)
        elif not isinstance(node, (IntImm, IterVar)):
            return None
        if len(order) > 100:
            return None
    axes = [node for node in order if isinstance(node, IterVar)]
    if len({id(axis) for axis in axes}) != len(axes):
        return None
    found: dict[int, tuple[int, int]] = {}
    for node in reversed(order):
        bounds = _bounds(node, found)
        if bounds is None:
            return None
        found[id(node)] = bounds
    return found[id(index)]


def _bounds(node: Expr, found: dict[int, tuple[int, int]]) -> tuple[int, int] | None:
    if isinstance(node, IntImm):
        return node.value, node.value
    if isinstance(node, IterVar):
        dom = node.dom
        if dom is None or not isinstance(dom.begin, IntImm) or not isinstance(dom.extent, IntImm):
            return None
        return dom.begin.value, dom.begin.value + dom.extent.value - 1
    if not isinstance(node, (Add, Sub, Mul, FloorDiv)):
        return None
    (a, b), (c, d) = found[id(node.a)], found[id(node.b)]
    if isinstance(node, Add):
        return a + c, b + d
    if isinstance(node, Sub):
        return a - d, b - c
    if isinstance(node, Mul):
        if c == d or a == b:
            ends = (a * c, a * d, b * c, b * d)
            return min(ends), max(ends)
        return None
    return (a // c, b // c) if c == d > 0 else None
