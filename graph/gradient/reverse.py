"""Reverse mode: the nodes between what the gradient is of and what it is taken by, in reverse order, each by its rule.

    y = f(x)          gradient by y: 1
    x = h(w)          gradient by x: rule of f
    w                 gradient by w: rule of h; where several nodes read a value, the sum of what they give
"""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import user_source
from ..assembly import Assembly
from ..errors import NoGradient
from ..node import Node, Parts
from ..rewrite import assembly_of, without_dead
from .rule import RULES, Pullback, by_tensor_expressions

__all__ = ["gradients_in", "with_gradients"]


def with_gradients(g: Parts, of: str, wrt: Sequence[str]) -> Parts:
    """The graph with an output grad_NAME for each value of `wrt`. Raises NoGradient (TW0930)."""
    b = assembly_of(g, {})
    for name, value in g.results.items():
        b.output(name, value)
    for name, gradient in gradients_in(b, g, of, wrt).items():
        b.output(f"grad_{name}", gradient)
    for past, present in g.state.items():
        b.state(past, present)
    return without_dead(b.parts())


def gradients_in(b: Assembly, g: Parts, of: str, wrt: Sequence[str]) -> dict[str, str]:
    """The gradients by the values `wrt`, as nodes added to `b`, which holds the graph's. Raises NoGradient (TW0930)."""
    loss = _checked(g, of, wrt)
    relevant = _relevant(g, wrt)
    anything = Pullback(b, Node("identity", (loss,), {}, (loss,), (b.types[loss],)), [None])
    adjoints: dict[str, str] = {loss: anything.filled(1, loss)}
    for node in reversed(g.nodes):
        heads = [adjoints.get(name) for name in node.outputs]
        if all(head is None for head in heads) or not any(name in relevant for name in node.inputs):
            continue
        p = Pullback(b, node, heads)
        for name, gradient in zip(node.inputs, RULES.get(node.operator, by_tensor_expressions)(p), strict=True):
            if gradient is not None and name in relevant:
                fitted = p.fitted(gradient, b.types[name])
                adjoints[name] = p.emit("add", adjoints[name], fitted) if name in adjoints else fitted
    return {name: adjoints[name] if name in adjoints else anything.filled(0, name) for name in wrt}


def _is_float(g: Parts, value: str) -> bool:
    return g.types[value].dtype.startswith(("float", "bfloat"))


def _checked(g: Parts, of: str, wrt: Sequence[str]) -> str:
    """The value that the output is."""
    loss = g.results.get(of)
    types = g.types
    if loss is None or any(extent != 1 for extent in types[loss].shape) or not _is_float(g, loss):
        what = "it has no such output" if loss is None else f"it is {types[loss]}"
        raise NoGradient(f"graph {g.name} has no gradient of {of!r}"[:300], reason=what, called=user_source(),
                         allowed=f"outputs of one float: {', '.join(g.results)}",
                         fix="make one number of it, such as a mean, and name it as an output")
    for name in wrt:
        if name not in types or not _is_float(g, name):
            what = f"it is {types[name]}" if name in types else "it has no such value"
            raise NoGradient(f"graph {g.name} has no gradient by {name!r}"[:300], reason=what, called=user_source(),
                             allowed="inputs, parameters and values of nodes, of floats", fix="name one of them")
    return loss


def _relevant(g: Parts, wrt: Sequence[str]) -> set[str]:
    """The values of floats that change with those of `wrt`, and these."""
    relevant = set(wrt)
    for node in g.nodes:
        if any(name in relevant for name in node.inputs):
            relevant.update(name for name, kind in zip(node.outputs, node.types, strict=True)
                            if kind.dtype.startswith(("float", "bfloat")))
    return relevant
