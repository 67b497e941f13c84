"""Graphs made from graphs: with sizes for their symbols, with other outputs, without what nobody needs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from ..base.errors import user_source
from .assembly import Assembly
from .errors import BadGraph, BadGraphInput
from .node import Node, Parts, inner_name
from .size_conditions import check_sizes
from .types import Extent, substitute_attribute, substitute_extent

__all__ = [
    "specialised",
    "unused_name",
    "map_bodies",
    "rename_inputs",
    "hoist_params",
    "replace_outputs",
    "replace_shapes",
    "remove_dead",
]


def remove_dead(g: Parts) -> Parts:
    """The graph without the nodes and parameters that no output needs."""
    needed = set(g.results.values())
    nodes: list[Node] = []
    for node in reversed(g.nodes):
        if needed & set(node.outputs):
            needed.update(node.inputs)
            nodes.append(node)
    if len(nodes) == len(g.nodes) and needed >= set(g.constants):
        return g
    return replace(
        g, nodes=tuple(reversed(nodes)), constants={name: held for name, held in g.constants.items() if name in needed}
    )


def replace_outputs(g: Parts, results: Mapping[str, str]) -> Parts:
    """The graph with these outputs, each a value of its own that a node computes: what is passed through is copied."""
    b = begin_assembly(g, {})
    computed = {name for node in g.nodes for name in node.outputs}
    for name, value in results.items():
        b.output(name, value if value in computed else b.node("identity", value))
        computed.discard(value)
    return b.parts()


def specialised(g: Parts, sizes: Mapping[str, int]) -> Parts:
    """The graph in which these symbols have sizes."""
    b = begin_assembly(g, sizes)
    for name, value in g.results.items():
        b.output(name, value)
    for past, present in g.state.items():
        b.state(past, present)
    return b.parts()


def replace_shapes(g: Parts, shapes: Mapping[str, Sequence[Extent]]) -> Parts:
    """The graph whose inputs have these shapes, by name: numbers for symbols, and what it says already. Raises BadGraphInput
    (TW0906)."""
    sizes: dict[str, int] = {}
    for name, shape in shapes.items():
        said = g.inputs[name].shape if name in g.inputs else None
        if said is None or len(said) != len(shape):
            raise _no_shape(g, name, shape)
        sizes.update(
            (old, new)
            for old, new in zip(said, shape, strict=True)
            if isinstance(new, int) and isinstance(old, str) and old in g.symbols
        )
    for name, shape in shapes.items():
        if any(
            new not in (old, substitute_extent(old, sizes))
            for old, new in zip(g.inputs[name].shape, shape, strict=True)
        ):
            raise _no_shape(g, name, shape)
    if len(sizes) == len(g.symbols):
        check_sizes(g, sizes)
    return specialised(g, sizes) if sizes else g


def rename_inputs(g: Parts, names: Sequence[str]) -> Parts:
    """The graph whose inputs have these names, in their order; what has one of them already gets another. Raises BadGraph (TW0901)
    where they are not one for each input."""
    if len(names) != len(g.inputs) or len(set(names)) != len(names):
        raise BadGraph(
            f"graph {g.name} has no inputs {', '.join(names)}"[:300],
            called=user_source(),
            allowed=", ".join(g.inputs),
            fix="a name for each input, in their order",
        )
    new = dict(zip(g.inputs, names, strict=True))
    taken = {*g.types, *names}
    for value in [name for name in names if name in g.types and name not in g.inputs]:
        new[value] = unused_name(value, taken)
        taken.add(new[value])
    nodes = [
        replace(
            node,
            inputs=tuple(new.get(name, name) for name in node.inputs),
            outputs=tuple(new.get(name, name) for name in node.outputs),
        )
        for node in g.nodes
    ]
    return replace(
        g,
        inputs={new[name]: kind for name, kind in g.inputs.items()},
        nodes=tuple(nodes),
        constants={new.get(name, name): held for name, held in g.constants.items()},
        results={name: new.get(value, value) for name, value in g.results.items()},
        state={new[past]: present for past, present in g.state.items()},
    )


def _no_shape(g: Parts, name: str, shape: Sequence[Extent]) -> BadGraphInput:
    takes = ", ".join(f"{one}: {kind}" for one, kind in g.inputs.items())
    return BadGraphInput(
        f"graph {g.name} has no input {name!r} of the shape {tuple(shape)}"[:300],
        called=user_source(),
        allowed=takes,
        fix="numbers in place of the symbols of its inputs' shapes",
    )


def hoist_params(g: Parts) -> Parts:
    """The graph in which the graphs inside of nodes have no parameters, but are given them."""
    if not any(node.bodies for node in g.nodes):
        return g
    constants, nodes, types = dict(g.constants), list[Node](), g.types
    digests = {param.digest: name for name, param in constants.items()}
    for node in g.nodes:
        bodies = [hoist_params(body) for body in node.bodies]
        held = [(at, name, param) for at, body in enumerate(bodies) for name, param in body.constants.items()]
        outside = [
            digests.setdefault(param.digest, unused_name(inner_name(node.outputs[0], at, name), types))
            for at, name, param in held
        ]
        constants |= {name: param for name, (_, _, param) in zip(outside, held, strict=True)}
        bodies = [
            replace(
                body,
                constants={},
                inputs={
                    **body.inputs,
                    **{
                        name if at == own else unused_name(f"{at}/{name}", body.types): param.type
                        for at, name, param in held
                    },
                },
            )
            for own, body in enumerate(bodies)
        ]
        nodes.append(replace(node, inputs=(*node.inputs, *outside), bodies=tuple(bodies)))
    return replace(g, constants=constants, nodes=tuple(nodes))


def unused_name(name: str, taken: Collection[str]) -> str:
    """A name like this one that is not taken."""
    while name in taken:
        name += "_"
    return name


def map_bodies(g: Parts, change: Callable[[Parts], Parts]) -> Parts:
    """The graph in which each graph inside of a node is what `change` makes of it. The same graph where nothing changes."""
    nodes: list[Node] = []
    for node in g.nodes:
        bodies = tuple(change(body) for body in node.bodies)
        same = all(new is old for new, old in zip(bodies, node.bodies, strict=True))
        nodes.append(node if same else replace(node, bodies=bodies))
    return g if all(new is old for new, old in zip(nodes, g.nodes, strict=True)) else replace(g, nodes=tuple(nodes))


def begin_assembly(g: Parts, sizes: Mapping[str, int]) -> Assembly:
    """An Assembly of the graph's inputs, parameters and nodes."""
    b = Assembly(g.name)
    for name, kind in g.inputs.items():
        b.input(name, [substitute_extent(extent, sizes) for extent in kind.shape] if sizes else kind.shape, kind.dtype)
    for name, param in g.constants.items():
        b.param(name, param)
    for node in g.nodes:
        attributes = (
            {name: substitute_attribute(value, sizes) for name, value in node.attributes.items()}
            if sizes
            else node.attributes
        )
        bodies = [specialised(body, sizes) for body in node.bodies] if sizes else node.bodies
        b.nodes(node.operator, *node.inputs, outputs=node.outputs, source=node.source, bodies=bodies, **attributes)
    return b
