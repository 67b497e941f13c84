"""Reads that certainly leave a tensor's shape, found while the user's line is still at hand.

Only what is certain is refused: an index in which each axis occurs once, under additions, subtractions, products with
and floor divisions by constants, takes its least and greatest value for some element. What a condition guards is left
alone, and so are symbolic extents.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

from ..errors import SourceLine, user_source
from ..ir.analysis.bounds import IntervalEvaluator
from ..ir.arith.interval import EVERYTHING, Interval
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
    Producer,
    ProducerLoad,
    Reduce,
    Select,
    Sub,
    Var,
)
from ..ir.ops import is_const
from ..ir.visit import children, post_order
from .errors import IndexOutOfRange
from .operation import Operation
from .rewrite import collect_loads
from .shape import extent_text, same_extent
from .tensor import Tensor, tensor_text

__all__ = ["check_reads", "check_states", "unguarded_loads"]


def check_reads(name: str, axis: tuple[IterVar, ...], body: tuple[Expr, ...]) -> None:
    """Raises IndexOutOfRange (TW0114) where the compute `name` over `axis` certainly reads outside a tensor.

    A placeholder that is read at earlier steps of the first axis alone, `state[t - 1, i]`, may be the state of a scan that is
    yet to be declared; `check_states` tells once that is known.
    """
    for load, at, index in _reads_outside(axis, body):
        if at or not _may_be_state(load.producer, axis, body):
            raise _error(name, load, at, index, user_source())


def check_states(op: Operation, states: Container[Tensor]) -> None:
    """Raises IndexOutOfRange (TW0114) where `op` reads a placeholder outside of its shape as only the state of a scan may be read.

    states: the placeholders that are states of scans.
    """
    suspects = [tensor for tensor in op.input_tensors if tensor not in states and _may_be_state(tensor, op.axis, op.values)]
    if op.values and suspects:
        for load, at, index in _reads_outside(op.axis, op.values):
            if any(load.producer is tensor for tensor in suspects):
                raise _error(op.name, load, at, index, op.source)


def _reads_outside(axis: tuple[IterVar, ...], body: tuple[Expr, ...]) -> Iterator[tuple[ProducerLoad, int, Expr]]:
    """The reads of tensors that certainly leave their shape, each with the place and the expression of the index that does."""
    first = body[0]
    axes = (*axis, *first.axes) if isinstance(first, Reduce) else axis
    if any(_may_be_empty(loop) for loop in axes):
        return
    for value in body if not isinstance(first, Reduce) else (first,):
        for load in unguarded_loads(value):
            if isinstance(load.producer, Tensor):
                yield from ((load, at, index) for at, index in enumerate(load.indices) if _leaves(load.producer.shape[at], index))


def _may_be_state(tensor: Producer, axis: tuple[IterVar, ...], body: tuple[Expr, ...]) -> bool:
    """Whether this is a placeholder that is only read some steps back from the first axis, which is as long as its own."""
    if not isinstance(tensor, Tensor) or not tensor.op.is_passed or not axis or axis[0].dom is None or not (
            tensor.ndim and same_extent(axis[0].dom.extent, tensor.shape[0])):
        return False
    steps = [load.indices[0] for load in collect_loads(*body) if load.producer is tensor]
    return all(isinstance(step, Sub) and step.a is axis[0] and isinstance(step.b, IntImm) and step.b.value > 0 for step in steps)


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


def _leaves(extent: Expr, index: Expr) -> bool:
    """Whether an index certainly leaves a dimension of this extent."""
    reach = _reach(index) if isinstance(extent, IntImm) else None
    return reach is not None and isinstance(extent, IntImm) and not reach.within(0, extent.value - 1)


def _error(name: str, load: ProducerLoad, at: int, index: Expr, called: SourceLine | None) -> IndexOutOfRange:
    tensor, reach = load.producer, _reach(index)
    assert isinstance(tensor, Tensor) and reach is not None
    return IndexOutOfRange(
        f"{name} reads outside {tensor.name}", declared=tensor.source, called=called,
        reason=f"index {at}, `{index}`, runs from {reach.lo} to {reach.hi}; "
               f"dimension {at} of {tensor_text(tensor)} has the indices 0 to {extent_text(tensor.shape[at])} - 1",
        fix="choose what lies outside: te.if_then_else(te.all(index >= 0, index < extent), "
            f"{tensor.name}[...], 0), or compute fewer elements",
    )


def _reach(index: Expr) -> Interval | None:
    """The least and the greatest value that an index takes, where that is certain: each axis stands in it once, under what
    takes its ends to the ends of the result."""
    places: list[Expr] = []
    stack: list[Expr] = [index]
    while stack and len(places) < _MOST_PLACES:
        node = stack.pop()
        places.append(node)
        if isinstance(node, (Add, Sub, Mul, FloorDiv)):
            stack += (node.a, node.b)
        elif not isinstance(node, (IntImm, IterVar)):
            return None
    axes = [node for node in places if isinstance(node, IterVar)]
    if stack or len(set(axes)) != len(axes) or any(_domain(axis) is EVERYTHING for axis in axes):
        return None
    values = IntervalEvaluator(_domain)
    return values(index) if all(_keeps_ends(node, values) for node in places) else None


_MOST_PLACES = 100
"""An index of more is not looked into."""


def _keeps_ends(node: Expr, values: IntervalEvaluator) -> bool:
    """Whether the ends of an operator's interval are values of it where the ends of its operands' intervals are."""
    if isinstance(node, Mul):
        return values(node.a).is_point or values(node.b).is_point
    return not isinstance(node, FloorDiv) or values(node.b).is_point and values(node.b).within(1, node.dtype.greatest)


def _domain(var: Var) -> Interval:
    """The values of an axis of constant extent."""
    dom = var.dom if isinstance(var, IterVar) else None
    if dom is None or not isinstance(dom.begin, IntImm) or not isinstance(dom.extent, IntImm):
        return EVERYTHING
    return Interval(dom.begin.value, dom.begin.value + dom.extent.value - 1)
