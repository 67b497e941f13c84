"""The adjoints of the reads in one element's expression: reverse mode over the nodes of the expression.

    x[i] * exp(x[i]) + y[i + 1], seed g      →      x[i]: g * exp(x[i]) + g * x[i] * exp(x[i]);   y[i + 1]: g

Conditions are lifted: what stands behind a choice carries the choice's condition along, beside its value, so that the
condition can bound the loops of the sum that the value ends up in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...base import SourceLine, dataclass, user_source
from ...ir import BufferLoad, Call, Expr, IfThenElse, IntImm, ProducerLoad, Select, equal, ops
from ...ir.visit import children, post_order, substitute_lets
from .derivatives import CALLS, OPERATORS, Row, Where, plus
from .errors import NotDifferentiable

__all__ = ["Condition", "Contribution", "adjoints_of_reads"]


@dataclass(frozen=True, slots=True, eq=False)
class Condition:
    """A condition that was lifted. lazy: what stands behind it may be evaluated only where it holds."""

    holds: Expr
    lazy: bool = False

    def choose(self, value: Expr) -> Expr:
        """`value` where the condition holds, else zero."""
        zero = ops.const(0, value.dtype)
        # a lazy value may read beyond a tensor's end where the condition does not hold
        return ops.if_then_else(self.holds, value, zero) if self.lazy else ops.select(self.holds, value, zero)


@dataclass(frozen=True, slots=True, eq=False)
class Contribution:
    """An adjoint: `value` where all conditions hold, else zero."""

    conditions: tuple[Condition, ...]
    value: Expr

    def chosen(self, after: int = 0) -> Expr:
        """The value behind its conditions from number `after` on, the first one outermost."""
        value = self.value
        for condition in reversed(self.conditions[after:]):
            value = condition.choose(value)
        return value


def join_contributions(parts: Sequence[Contribution]) -> Contribution:
    """The sum of adjoints. Conditions that begin all of them stay lifted."""
    first = parts[0]
    if len(parts) == 1:
        return first
    shared = 0
    # by identity: equal conditions elsewhere may be of other nodes
    while all(len(part.conditions) > shared and part.conditions[shared] is first.conditions[shared] for part in parts):
        shared += 1
    value = first.chosen(shared)
    for part in parts[1:]:
        value = plus(value, part.chosen(shared))
    return Contribution(first.conditions[:shared], value)


def adjoints_of_reads(
    value: Expr,
    seed: Contribution,
    relevant: Callable[[Any], bool],
    declared: SourceLine | None,
) -> list[tuple[Any, Contribution]]:
    """The adjoint of each relevant read in `value`, whose own adjoint is `seed`. Reads of one element count as one.

    relevant: whether the gradient goes through what is read, an element of a tensor or of a program's memory. Raises
    NotDifferentiable (TW0170).
    """
    nodes = list(post_order(substitute_lets(value)))  # lets are substituted, as each read is turned round by itself
    concerned = _find_concerned(nodes, relevant)
    reached: dict[int, list[Contribution]] = {id(nodes[-1]): [seed]}
    reads: dict[Expr, list[Contribution]] = {}
    for node in reversed(nodes):  # parents before children
        parts = reached.pop(id(node), None)
        if parts is None or id(node) not in concerned or not isinstance(node, Expr) or not node.dtype.is_float:
            continue  # integers have no derivative
        adjoint = join_contributions(parts)
        if isinstance(node, (ProducerLoad, BufferLoad)):
            reads[node] = [adjoint]
            continue
        parts_of_children = _row(node, declared)(node, adjoint.value)
        conditions: dict[int, Condition] = {}
        for child, part in zip(children(node), parts_of_children, strict=True):
            if part is None or id(child) not in concerned:
                continue
            held = adjoint.conditions
            if isinstance(part, Where):
                # one Condition for both branches, so that joining finds it shared
                known = conditions.setdefault(id(part.condition), Condition(part.condition, part.lazy))
                held, part = (*held, known), part.value
            reached.setdefault(id(child), []).append(Contribution(held, part))
    return _group_by_element(reads)


def _find_concerned(nodes: Sequence[object], relevant: Callable[[Any], bool]) -> set[int]:
    """The nodes whose value depends on a relevant read."""
    concerned: set[int] = set()
    for node in nodes:
        if isinstance(node, (ProducerLoad, BufferLoad)):
            if relevant(node):
                concerned.add(id(node))
        elif isinstance(node, (Select, IfThenElse)):  # a condition alone carries no derivative
            if id(node.true_value) in concerned or id(node.false_value) in concerned:
                concerned.add(id(node))
        elif isinstance(node, Expr) and any(id(child) in concerned for child in children(node)):
            concerned.add(id(node))
    return concerned


def _row(node: Expr, declared: SourceLine | None) -> Row:
    row = CALLS.get(node.name) if isinstance(node, Call) else OPERATORS.get(type(node))
    if row is None:
        what = node.name if isinstance(node, Call) else type(node).__name__
        raise NotDifferentiable(
            f"no derivative of {what} is known",
            reason=f"the gradient would go through `{str(node)[:120]}`",
            declared=declared,
            called=user_source(),
            allowed=", ".join(CALLS),
            fix="write it by functions that have one, or take the gradient up to this point and go on by hand",
        )
    return row


def _home(load: Any) -> object:
    """Return what a read reads an element of."""
    return load.producer if isinstance(load, ProducerLoad) else load.buffer


def _group_by_element(reads: dict[Any, list[Contribution]]) -> list[tuple[Any, Contribution]]:
    """The reads, in the order of the expression, with those of one element together."""
    groups: list[tuple[Any, list[Contribution]]] = []
    for load in reversed(reads):  # reversed: nodes were met from the end of the expression
        for other, parts in groups:
            if _home(other) is _home(load) and _same_indices(other.indices, load.indices):
                parts.extend(reads[load])
                break
        else:
            groups.append((load, list(reads[load])))
    return [
        (load, join_contributions(parts))  # zero adjoints are left out, which would be stages of their own
        for load, parts in groups
        if not ops.is_const(parts[0].value, 0) or len(parts) > 1
    ]


def _same_indices(a: tuple[Expr, ...], b: tuple[Expr, ...]) -> bool:
    return all(
        x is y or (isinstance(x, IntImm) and isinstance(y, IntImm) and x.value == y.value) or equal(x, y)
        for x, y in zip(a, b, strict=True)
    )
