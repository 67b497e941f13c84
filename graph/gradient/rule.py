"""A rule says what the derivative by a node's values gives for its inputs: nodes that are added to the graph."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import product
from typing import Any

import numpy as np

from ...base.errors import user_source
from ..assembly import Assembly
from ..errors import BadNode, NoGradient
from ..node import Node
from ..operators.fusion import body_text
from ..operators.row import Attribute
from ..types import Extent, TensorType, array_dtype

__all__ = ["RULES", "Pullback", "Rule", "differentiate_declaration", "rule"]


class Pullback:
    """A node whose gradient is taken, and the graph to which nodes are added.

    heads: for each of the node's values the gradient by it, None where it is zero. head: that of a node of one value. relevant: the
    values by which a gradient is wanted, or that lie on the way to them.
    """

    def __init__(self, b: Assembly, node: Node, heads: Sequence[str | None], relevant: Collection[str] = ()) -> None:
        self.b, self.node, self.heads, self.relevant = b, node, tuple(heads), relevant

    @property
    def head(self) -> str:
        """The gradient by the node's only value."""
        (head,) = self.heads
        assert head is not None, "nodes of zero gradient are passed by"
        return head

    @property
    def inputs(self) -> tuple[str, ...]:
        """The values that the node reads, "" where an optional one is absent."""
        return self.node.inputs

    @property
    def result(self) -> str:
        """The node's first value."""
        return self.node.outputs[0]

    def __getitem__(self, attribute: str) -> Any:
        """An attribute of the node."""
        return self.node.attributes[attribute]

    def type(self, value: str) -> TensorType:
        """The type of a value."""
        return self.b.types[value]

    def shape(self, value: str) -> tuple[Extent, ...]:
        """The shape of a value."""
        return self.b.types[value].shape

    def emit(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add a node of one value; the value's name."""
        return self.b.node(operator, *inputs, source=self.node.source, **attributes)

    def number(self, value: float, like: str) -> str:
        """A number of the dtype of a value."""
        return self.b.param(self.b.fresh(1)[0], np.asarray(value, array_dtype(self.type(like).dtype)), fixed=True)

    def fill_like(self, value: float, like: str) -> str:
        """A value of this type, all of whose elements are one number."""
        return self.emit("broadcast_to", self.number(value, like), shape=self.shape(like))

    def times(self, *factors: str) -> str:
        """The product of values."""
        product = factors[0]
        for factor in factors[1:]:
            product = self.emit("multiply", product, factor)
        return product

    def scale(self, value: str, factor: float) -> str:
        """The product with a number."""
        return value if factor == 1 else self.times(value, self.number(factor, value))

    def sum(self, value: str, axes: Sequence[int], keepdims: bool = True) -> str:
        """The sum over dimensions."""
        return self.emit("sum", value, axes=tuple(axes), keepdims=keepdims) if axes else value

    def transpose(self, value: str, order: Sequence[int]) -> str:
        """The dimensions in another order."""
        return value if list(order) == list(range(len(order))) else self.emit("transpose", value, axes=tuple(order))

    def reshape(self, value: str, shape: Sequence[Extent]) -> str:
        """The elements in another shape."""
        return value if self.shape(value) == tuple(shape) else self.emit("reshape", value, shape=tuple(shape))

    def reduce_like(self, value: str, kind: TensorType) -> str:
        """The gradient by what was broadcast, and converted, to the type that `value` has: the sum over what it was broadcast
        along, in its own dtype."""
        more = len(self.shape(value)) - len(kind.shape)
        if more > 0:
            value = self.sum(value, range(more), keepdims=False)
        own = self.shape(value)
        value = self.sum(value, [at for at, extent in enumerate(kind.shape) if extent == 1 and own[at] != 1])
        if self.shape(value) != kind.shape:  # a term that does not depend on all of it
            value = self.emit("broadcast_to", value, shape=kind.shape)
        return value if self.type(value).dtype == kind.dtype else self.emit("cast", value, dtype=kind.dtype)


Rule = Callable[[Pullback], Sequence["str | None"]]
"""The gradient by each input, in order, of the input's shape or of one that it broadcasts to; None where it is zero."""

RULES: dict[str, Rule] = {}
"""By the name of the operator, filled as the families are loaded."""


def rule(*operators: str) -> Callable[[Rule], Rule]:
    """Make a function the rule of these operators."""

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(operators, function))
        return function

    return register


def differentiate_declaration(p: Pullback) -> list[str | None]:
    """The rule of operators that have none: te.gradient of what they declare. Raises NoGradient (TW0930)."""
    node = p.node
    if any(map(_has_symbols, node.attributes.values())):
        raise NoGradient(
            f"{node.operator} has no rule for its gradient",
            reason="its attributes have symbols",
            called=user_source(),
            fix="take the gradient before it and after it, or give the symbols sizes",
        )
    distinct = list(dict.fromkeys(name for name in node.inputs if name))
    operands = [f"x{distinct.index(name)}" if name else "None" for name in node.inputs]
    body = node.attributes["body"] if node.operator == "fused" else body_text(node.operator, operands, node.attributes)
    gradients: dict[str, str] = {}
    several = len(node.outputs) > 1
    for (at, name), (place, head) in product(enumerate(distinct), enumerate(p.heads)):
        if head is not None and p.type(name).dtype.startswith(("float", "bfloat")):
            try:
                part = p.emit("vjp", *distinct, head, body=body, wrt=at, value=place if several else None)
                gradients[name] = p.emit("add", gradients[name], part) if name in gradients else part
            except BadNode as problem:
                raise NoGradient(
                    f"{node.operator} has no gradient",
                    reason=problem.reason,
                    called=user_source(),
                    fix="leave what stands before it out of what the gradient is taken by",
                ) from problem
    return [gradients.pop(name, None) for name in node.inputs]  # the one of a value that is read twice counts once


def _has_symbols(attribute: Attribute) -> bool:
    return isinstance(attribute, tuple) and any(isinstance(part, str) or _has_symbols(part) for part in attribute)
