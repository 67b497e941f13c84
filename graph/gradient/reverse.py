"""Reverse mode: the nodes between what the gradient is of and what it is taken by, in reverse order, each by its rule.

y = f(x)          gradient by y: 1
x = h(w)          gradient by x: rule of f
w                 gradient by w: rule of h; where several nodes read a value, the sum of what they give
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...base.arguments import is_a
from ...base.errors import user_source
from ..assembly import Assembly
from ..errors import NoGradient
from ..node import Parts
from ..rewrite import begin_assembly, remove_dead
from ..types import TensorType, array_dtype
from .checkpoints import Recomputed
from .rule import RULES, Pullback, differentiate_declaration

__all__ = ["add_adjoints", "add_gradients", "is_float", "accumulate", "with_gradients", "zeros"]


def with_gradients(g: Parts, of: str, wrt: Sequence[str], checkpoints: Sequence[str] = ()) -> Parts:
    """The graph with an output grad_NAME for each value of `wrt`. checkpoints: as add_gradients takes them. Raises NoGradient
    (TW0930)."""
    b = begin_assembly(g, {})
    for name, value in g.results.items():
        b.output(name, value)
    for name, gradient in add_gradients(b, g, of, wrt, checkpoints).items():
        b.output(f"grad_{name}", gradient)
    for past, present in g.state.items():
        b.state(past, present)
    return remove_dead(b.parts())


def add_gradients(
    b: Assembly, g: Parts, of: str, wrt: Sequence[str], checkpoints: Sequence[str] = ()
) -> dict[str, str]:
    """The gradients by the values `wrt`, as nodes added to `b`, which holds the graph's. checkpoints: values behind which the graph
    is cut; the way back computes each part anew from what it reads, but the last. Raises NoGradient (TW0930)."""
    loss = _check_outputs(g, of, wrt)
    again = Recomputed.of(b, g, checkpoints)
    one = b.param(b.fresh(1)[0], np.ones((), array_dtype(b.types[loss].dtype)), fixed=True)
    found = add_adjoints(b, g, {loss: b.node("broadcast_to", one, shape=b.types[loss].shape)}, wrt, again)
    return {name: found.get(name) or zeros(b, name) for name in wrt}


def add_adjoints(
    b: Assembly,
    g: Parts,
    seeds: Mapping[str, str],
    wrt: Sequence[str],
    again: Recomputed | None = None,
) -> dict[str, str]:
    """The gradients of a sum by the values `wrt` and those on the way to them, as nodes added to `b`, which holds the graph's; what
    is zero is left out. seeds: those by some values, which stand there already. again: what is computed anew. Raises NoGradient
    (TW0930)."""
    relevant = _relevant(g, wrt)
    adjoints = dict(seeds)
    for node in reversed(g.nodes):
        heads = [adjoints.get(name) for name in node.outputs]
        # the loss does not depend on it, or nothing that is asked for lies behind it
        if all(head is None for head in heads) or not any(name in relevant for name in node.inputs):
            continue
        here = node if again is None else again.node(node, next(head for head in heads if head is not None))
        named = {*relevant, *(ours for name, ours in zip(node.inputs, here.inputs, strict=True) if name in relevant)}
        p = Pullback(b, here, heads, named)
        for name, gradient in zip(node.inputs, RULES.get(node.operator, differentiate_declaration)(p), strict=True):
            if gradient is not None and name in relevant:
                # an operand that was broadcast gets the sum over what it was repeated for
                accumulate(b, adjoints, name, p.reduce_like(gradient, b.types[name]), node.source)
    return adjoints


def accumulate(b: Assembly, sums: dict[str, str], name: str, value: str, source: str = "") -> None:
    """Add a value to the sum of this name."""
    sums[name] = b.node("add", sums[name], value, source=source) if name in sums else value


def zeros(b: Assembly, like: str) -> str:
    """Zeros of the type of a value."""
    kind = b.types[like]
    return b.node(
        "broadcast_to", b.param(b.fresh(1)[0], np.zeros((), array_dtype(kind.dtype)), fixed=True), shape=kind.shape
    )


def is_float(kind: TensorType) -> bool:
    """Return whether values of this type have gradients."""
    return kind.dtype.startswith(("float", "bfloat"))


def _check_outputs(g: Parts, of: str, wrt: Sequence[str]) -> str:
    """The value that the output is."""
    loss = g.results.get(of) if is_a(of, str) else None
    types = g.types
    if loss is None or any(extent != 1 for extent in types[loss].shape) or not is_float(types[loss]):
        what = "it has no such output" if loss is None else f"it is {types[loss]}"
        raise NoGradient(
            f"graph {g.name} has no gradient of {of!r}"[:300],
            reason=what,
            called=user_source(),
            allowed=f"outputs of one float: {', '.join(g.results)}",
            fix="make one number of it, such as a mean, and name it as an output",
        )
    for name in wrt:
        known = is_a(name, str) and name in types
        if not known or not is_float(types[name]):
            what = f"it is {types[name]}" if known else "it has no such value"
            # who asks for all of g.params meets tables of integers among them
            floats = (
                '[name for name, array in g.params.items() if "float" in str(array.dtype)]'
                if known and name in g.constants
                else ""
            )
            raise NoGradient(
                f"graph {g.name} has no gradient by {name!r}"[:300],
                reason=what,
                called=user_source(),
                allowed="inputs, parameters and values of nodes, of floats",
                fix=floats or "name one of them",
            )
    return loss


def _relevant(g: Parts, wrt: Sequence[str]) -> set[str]:
    """The values of floats that change with those of `wrt`, and these."""
    relevant = set(wrt)
    for node in g.nodes:
        if any(name in relevant for name in node.inputs):
            relevant.update(name for name, kind in zip(node.outputs, node.types, strict=True) if is_float(kind))
    return relevant
