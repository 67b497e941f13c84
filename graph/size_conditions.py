"""Domain of a graph whose shapes have symbols: the sizes that it accepts.

    at: float32[s, 768] = slice(positions, begin=(0,), end=("s",), ...)       positions: float32[512, 768]  →  s <= 512
    y: float32[1, 8, "h - 2", "w - 2"] = conv(x, w)                                                         →  h - 2 >= 0, ...

That shapes fit each other is proved when nodes are made. What is left is asked before anything is computed: that no extent is
negative, that a slice lies in what it is a slice of, and that what is reshaped has as many elements as before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from ..base.errors import user_source
from ..ir import Expr, IntImm, ops
from ..ir.arith.analyzer import Analyzer
from ..topi.slices import slice_ends
from .errors import BadGraphInput
from .node import Node, Parts
from .types import TensorType, extents, substitute_sizes

__all__ = ["check_sizes", "conditions", "fits_always"]


def conditions(g: Parts) -> list[tuple[Expr, str]]:
    """Return the conditions on sizes, each with its source: the operator, and what the user knows its node by. What always holds is left
    out."""
    analyzer, types = Analyzer(), g.types
    found: dict[str, tuple[Expr, str]] = {}

    def needed(condition: Expr, said: str) -> None:
        condition = analyzer.simplify(condition)
        if not isinstance(condition, IntImm) or not condition.value:
            found.setdefault(str(condition), (condition, f"the sizes do not fit: {said} needs {condition}"))

    for name, kind in g.inputs.items():
        for condition in _extents(kind):
            needed(condition, name)
    for node, known in _walk_nodes(g, types):
        said = f"{node.operator} ({node.source})" if node.source else node.operator
        for condition in _node_conditions(node, known):
            needed(condition, said)
    return list(found.values())


def fits_always(node: Node, types: Mapping[str, TensorType]) -> bool:
    """Return whether a node fits all sizes. types: of what it reads and gives."""
    analyzer = Analyzer()
    met = (analyzer.simplify(condition) for condition in _node_conditions(node, types))
    return all(isinstance(condition, IntImm) and bool(condition.value) for condition in met)


def _unmet(needed: list[tuple[Expr, str]], sizes: Mapping[str, int]) -> str:
    """Return the first condition that these sizes do not meet; "" where they meet all."""
    return next(
        (said for condition, said in needed if not cast("IntImm", substitute_sizes(condition, sizes)).value), ""
    )


def _walk_nodes(g: Parts, types: Mapping[str, TensorType]) -> Iterator[tuple[Node, Mapping[str, TensorType]]]:
    """The nodes of a graph and of those inside of them, with the types of their values."""
    for node in g.nodes:
        yield node, types
        for body in node.bodies:
            yield from _walk_nodes(body, body.types)


def check_sizes(g: Parts, sizes: Mapping[str, int]) -> None:
    """Raise BadGraphInput (TW0906) where these sizes do not fit the graph, before it is made for them."""
    if reason := _unmet(conditions(g), sizes):
        raise _no_such_sizes(g, sizes, reason)


def _no_such_sizes(g: Parts, sizes: Mapping[str, int], reason: str) -> BadGraphInput:
    """The error for sizes that do not fit a graph."""
    return BadGraphInput(
        f"graph {g.name} takes no such sizes",
        reason=reason,
        called=user_source(),
        allowed=", ".join(f"{name}: {kind}" for name, kind in g.inputs.items()),
        fix=f"other sizes than {', '.join(f'{name} = {size}' for name, size in sizes.items())}",
    )


def _node_conditions(node: Node, types: Mapping[str, TensorType]) -> Iterator[Expr]:
    for kind in node.types:
        yield from _extents(kind)
    if all(types[name].is_static for name in (*node.inputs, *node.outputs) if name):
        return
    if node.operator == "slice":
        ends = cast("dict[str, tuple[Any, ...]]", node.attributes)
        whole = extents(types[node.inputs[0]].shape)
        for low, high, axis in zip(ends["begin"], ends["end"], ends["axes"], strict=True):
            if any(isinstance(one, (str, Expr)) for one in (low, high, whole[axis])):  # else cut as Python's slices
                ((first, last, size),) = slice_ends(whole, extents((low,)), extents((high,)), (axis,))
                yield from (_least(first, 0), _least(size, last))
    elif node.operator == "reshape":
        yield _reshape_condition(types[node.inputs[0]], node.types[0])


def _reshape_condition(source: TensorType, result: TensorType) -> Expr:
    """Ask for as many elements as before; or, where all extents but one are what they were, that one: beside an extent of 0 any number of
    them makes no element."""
    pairs = list(zip(extents(source.shape), extents(result.shape), strict=False))
    changed = [pair for pair, old, new in zip(pairs, source.shape, result.shape, strict=False) if old != new]
    if len(source.shape) == len(result.shape) and len(changed) == 1:
        ((before, after),) = changed
        return ops.equal(ops.convert(before), ops.convert(after))
    return ops.equal(_elements(source), _elements(result))


def _extents(kind: TensorType) -> Iterator[Expr]:
    for extent in extents(kind.shape):
        if isinstance(extent, Expr):
            yield _least(extent, 0)


def _elements(kind: TensorType) -> Expr:
    number: Any = ops.const(1, "int64")
    for extent in extents(kind.shape):
        number = number * extent
    return number


def _least(value: Any, least: Any) -> Expr:
    return ops.convert(value) >= least
