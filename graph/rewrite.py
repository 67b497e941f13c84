"""Graphs made from graphs: with sizes for their symbols, with other outputs, without what nobody needs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from .assembly import Assembly
from .node import Node, Parts, inner_name
from .types import partly, sized

__all__ = ["specialised", "unused", "with_bodies", "with_params_outside", "with_results", "without_dead"]


def without_dead(g: Parts) -> Parts:
    """The graph without the nodes and parameters that no output needs."""
    needed = set(g.results.values())
    nodes: list[Node] = []
    for node in reversed(g.nodes):
        if needed & set(node.outputs):
            needed.update(node.inputs)
            nodes.append(node)
    if len(nodes) == len(g.nodes) and needed >= set(g.constants):
        return g
    return replace(g, nodes=tuple(reversed(nodes)), constants={name: held for name, held in g.constants.items() if name in needed})


def with_results(g: Parts, results: Mapping[str, str]) -> Parts:
    """The graph with these outputs, each a value of its own that a node computes: what is passed through is copied."""
    b = assembly_of(g, {})
    computed = {name for node in g.nodes for name in node.outputs}
    for name, value in results.items():
        b.output(name, value if value in computed else b.node("identity", value))
        computed.discard(value)
    return b.parts()


def specialised(g: Parts, sizes: Mapping[str, int]) -> Parts:
    """The graph in which these symbols have sizes."""
    b = assembly_of(g, sizes)
    for name, value in g.results.items():
        b.output(name, value)
    for past, present in g.state.items():
        b.state(past, present)
    return b.parts()


def with_params_outside(g: Parts) -> Parts:
    """The graph in which the graphs inside of nodes have no parameters, but are given them."""
    if not any(node.bodies for node in g.nodes):
        return g
    constants, nodes, types = dict(g.constants), list[Node](), g.types
    digests = {param.digest: name for name, param in constants.items()}
    for node in g.nodes:
        bodies = [with_params_outside(body) for body in node.bodies]
        held = [(at, name, param) for at, body in enumerate(bodies) for name, param in body.constants.items()]
        outside = [digests.setdefault(param.digest, unused(inner_name(node.outputs[0], at, name), types))
                   for at, name, param in held]
        constants |= {name: param for name, (_, _, param) in zip(outside, held, strict=True)}
        bodies = [replace(body, constants={}, inputs={**body.inputs, **{
            name if at == own else unused(f"{at}/{name}", body.types): param.type for at, name, param in held}})
            for own, body in enumerate(bodies)]
        nodes.append(replace(node, inputs=(*node.inputs, *outside), bodies=tuple(bodies)))
    return replace(g, constants=constants, nodes=tuple(nodes))


def unused(name: str, taken: Collection[str]) -> str:
    """A name like this one that is not taken."""
    while name in taken:
        name += "_"
    return name


def with_bodies(g: Parts, change: Callable[[Parts], Parts]) -> Parts:
    """The graph in which each graph inside of a node is what `change` makes of it. The same graph where nothing changes."""
    nodes: list[Node] = []
    for node in g.nodes:
        bodies = tuple(change(body) for body in node.bodies)
        same = all(new is old for new, old in zip(bodies, node.bodies, strict=True))
        nodes.append(node if same else replace(node, bodies=bodies))
    return g if all(new is old for new, old in zip(nodes, g.nodes, strict=True)) else replace(g, nodes=tuple(nodes))


def assembly_of(g: Parts, sizes: Mapping[str, int]) -> Assembly:
    """An Assembly of the graph's inputs, parameters and nodes."""
    b = Assembly(g.name)
    for name, kind in g.inputs.items():
        b.input(name, [partly(extent, sizes) for extent in kind.shape] if sizes else kind.shape, kind.dtype)
    for name, param in g.constants.items():
        b.param(name, param)
    for node in g.nodes:
        attributes = {name: sized(value, sizes) for name, value in node.attributes.items()} if sizes else node.attributes
        bodies = [specialised(body, sizes) for body in node.bodies] if sizes else node.bodies
        b.nodes(node.operator, *node.inputs, outputs=node.outputs, source=node.source, bodies=bodies, **attributes)
    return b
