"""Operation counts that a schedule's operations declare, for the figures that tuners show."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from .....autoschedule.operations import fixed_extent
from .....ir.expr import (
    Add,
    BinaryOp,
    Call,
    Div,
    Expr,
    IfThenElse,
    Max,
    Min,
    Mul,
    Node,
    Not,
    ProducerLoad,
    Reduce,
    Select,
    Sub,
)
from .....ir.ops import integer_value
from .....ir.visit import children, post_order
from .....schedule import Schedule
from .....te.operation import producers_first

__all__ = ["compute_flop", "counted_flop"]


def compute_flop(sch: Schedule) -> float:
    """Count as TVM's tuner does: operators, comparisons and what joins conditions in each element, those of padding among them, and
    no calls, unless there is nothing else. Raises RuntimeError where nothing is counted: what only moves elements has no speed of
    arithmetic."""
    counted = _total(sch, _count_operators) or counted_flop(sch)
    if not counted:
        raise RuntimeError(
            "cannot find an operation on values in this schedule; cfg.add_flop(...) says how many there are"
        )
    return counted


def counted_flop(sch: Schedule) -> float:
    """Additions, products, quotients, comparisons of values and calls of all operations as declared; what is computed for
    indices, and a condition that reads no value, does not count. An operation's attribute "FLOP" says its own."""
    return _total(sch, _count)


def _total(sch: Schedule, count: Callable[[Expr], int]) -> float:
    total = 0
    for op in producers_first(sch.outputs):
        said = op.attrs.get("FLOP")
        if said is None:
            total += prod(map(fixed_extent, (*op.axis, *op.reduce_axis))) * sum(map(count, op.values[:1]))
        else:
            total += int(integer_value(said, said))
    return float(total)


def _compares_values(condition: Expr) -> bool:
    return any(isinstance(part, ProducerLoad) for part in post_order(condition))


def _count(value: Node) -> int:
    count, stack = 0, [value]
    while stack:
        node = stack.pop()
        if isinstance(node, ProducerLoad):
            continue
        count += isinstance(node, (Add, Sub, Mul, Div, Min, Max, Call))
        if isinstance(node, Reduce):
            count += 1
            stack += node.sources
        elif isinstance(node, (Select, IfThenElse)):
            count += _compares_values(node.condition)
            stack += [node.true_value, node.false_value]
        else:
            stack += [child for child in children(node) if isinstance(child, Expr)]
    return count


def _count_operators(value: Expr) -> int:
    """Operators of a value, with its conditions; of two branches of a selection the one with more. None in indices."""
    if isinstance(value, ProducerLoad):
        return 0
    if isinstance(value, Select):
        return _count_operators(value.condition) + max(map(_count_operators, (value.true_value, value.false_value)))
    if isinstance(value, Reduce):
        return 1 + _count_operators(value.sources[0])
    parts = sum(map(_count_operators, children(value)))
    return parts + isinstance(value, (BinaryOp, Not))
