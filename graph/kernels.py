"""Kernels of a graph: the nodes that one computes, and which are the same.

A result that is to lie in the memory of a value is stored there where the kernel can be computed so: where it reads that element
by element, or changes only a part.

Kernels are keyed by their structure: operators, attributes, and types of what they read, in order, and whether that is known. Equal
layers share one, with weights of their own.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, cast

from .. import te
from ..base import dataclass, replace
from ..ir import Var, deep_recursion
from ..te.constant import open_constant
from .node import Node, Parts
from .operators import declared, row_of, updater
from .operators.row import Attribute
from .printer import attribute_text, graph_text
from .rewrite import unused_name
from .types import TensorType, array_dtype, attribute_symbols, extents, find_symbols, symbol

__all__ = [
    "Step",
    "build_step",
    "declare_node",
    "declared_kernel",
    "given_tensor",
    "is_heavy",
    "known_tensor",
    "reuse_input",
    "step_as_json",
    "step_from_json",
]


@dataclass(frozen=True)
class Step:
    """A kernel at its place in the graph: the values that it reads and that it gives, by name. params: those of the former that are
    known, and that it may be given packed. Equal keys, equal kernels.

    over: the value in whose memory its result is put, if any, which is then none of the inputs. It was read there element by
    element, or, where `stores_part` holds, what does not change of it stays. symbols: those of its shapes and
    attributes, which it is told behind its values.
    """

    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    params: tuple[str, ...]
    outputs: tuple[str, ...]
    key: str
    over: str = ""
    symbols: tuple[str, ...] = ()

    @property
    def operators(self) -> str:
        """Operators that it computes."""
        return "+".join(node.operator for node in self.nodes)

    @property
    def sources(self) -> tuple[str, ...]:
        """Names by which the user knows its nodes, each once: those of the imported model, else of its results."""
        return tuple(dict.fromkeys(node.source for node in self.nodes if node.source)) or self.outputs

    @property
    def passed(self) -> tuple[str, ...]:
        """Values that are passed as they are."""
        return tuple(name for name in self.inputs if name not in self.params)

    def placeholder(self, name: str) -> str:
        """Return the name of an input in the kernel, in all places the same."""
        return unused_name(f"x{self.inputs.index(name)}", self.symbols)

    @property
    def stores_part(self) -> bool:
        """Return whether the kernel stores only what changes."""
        return bool(self.over) and updater(self.nodes[-1].operator) is not None


def is_heavy(node: Node) -> bool:
    """Return whether a node computes more than one element of what it reads at each place."""
    return bool(node.bodies) or row_of(node.operator).fusion == "heavy"


def reuse_input(step: Step, value: str, types: dict[str, TensorType]) -> Step | None:
    """The same step with its result in the memory of a value that it reads; None where it cannot be computed there."""
    last = step.nodes[-1]
    part = len(step.nodes) == 1 and updater(last.operator) and last.inputs[0] == value and value not in last.inputs[1:]
    if len(step.outputs) != 1 or types[step.outputs[0]] != types[value] or not (part or _reads_in_place(step, value)):
        return None
    at = step.inputs.index(value)
    return replace(
        step, inputs=(*step.inputs[:at], *step.inputs[at + 1 :]), over=value, key=f"in place of i{at}\n{step.key}"
    )


def _reads_in_place(step: Step, value: str) -> bool:
    """Return whether an element of the result takes of a value at most the element at its own place: what is computed from it is, element
    by element, and as large as the result."""
    of_value = {value}
    for node in step.nodes:
        if not of_value.isdisjoint(node.inputs):
            if (
                node.bodies
                or row_of(node.operator).fusion != "elementwise"
                or node.types[0].shape != step.nodes[-1].types[0].shape
            ):
                return False
            of_value.update(node.outputs)
    return True


def build_step(members: tuple[Node, ...], types: dict[str, TensorType], known: Collection[str]) -> Step:
    inner = {name for node in members for name in node.outputs}
    inputs = tuple(dict.fromkeys(name for node in members for name in node.inputs if name and name not in inner))
    numbers = {name: f"i{at}" for at, name in enumerate(inputs)}
    params = () if members[-1].bodies else tuple(name for name in inputs if name in known)
    lines = [f"{'param ' if name in params else ''}{numbers[name]}: {types[name]}" for name in inputs]
    for node in members:
        for name in node.outputs:
            numbers[name] = f"v{len(numbers)}"
        operands = [numbers[name] if name else "none" for name in node.inputs]
        operands += [f"{name}={attribute_text(value)}" for name, value in node.attributes.items()]
        lines.append(f"{', '.join(numbers[name] for name in node.outputs)} = {node.operator}({', '.join(operands)})")
        lines += map(graph_text, node.bodies)
    shapes = [types[name].shape for name in inputs] + [kind.shape for node in members for kind in node.types]
    attributes = [value for node in members for value in node.attributes.values()]
    symbols = set[str]().union(
        *map(find_symbols, shapes),
        *map(attribute_symbols, attributes),
        *(_body_symbols(body) for node in members for body in node.bodies),
    )
    return Step(members, inputs, params, members[-1].outputs, "\n".join(lines), symbols=tuple(sorted(symbols)))


def _body_symbols(g: Parts) -> set[str]:
    """The symbols that a graph inside of a node speaks of."""
    shapes = [*(kind.shape for kind in g.inputs.values()), *(kind.shape for node in g.nodes for kind in node.types)]
    attributes = [value for node in g.nodes for value in node.attributes.values()]
    return set[str]().union(
        *map(find_symbols, shapes),
        *map(attribute_symbols, attributes),
        *(_body_symbols(body) for node in g.nodes for body in node.bodies),
    )


def declared_kernel(step: Step, types: dict[str, TensorType]) -> list[te.Tensor | Var]:
    """The kernel as tensors: what it is passed, then what it gives, and its symbols; where a result lies over a value that is
    read whole, this is the last of what it is passed."""
    names = {name: step.placeholder(name) for name in step.passed}
    if step.over and not step.stores_part:
        names[step.over] = unused_name(f"x{len(step.inputs)}", step.symbols)
    given = {value: given_tensor(types[value], name) for value, name in names.items()}
    known = {name: known_tensor(types[name], step.placeholder(name)) for name in step.params}
    values: dict[str, te.Tensor] = {**given, **known}
    with deep_recursion():
        if step.stores_part:
            (node,) = step.nodes
            update = updater(node.operator)
            assert update is not None, "what stores a part has a row that says how"
            stored = update(
                extents(types[step.over].shape),
                types[step.over].dtype,
                *(values[name] for name in node.inputs[1:]),
                **node.attributes,
            )
            return [*given.values(), stored, *map(symbol, step.symbols)]
        for node in step.nodes:
            declare_node(node, values)
    return [*given.values(), *(values[name] for name in step.outputs), *map(symbol, step.symbols)]


def given_tensor(kind: TensorType, name: str) -> te.Tensor:
    """A value that a kernel is passed."""
    return te.placeholder(extents(kind.shape), kind.dtype, name=name)


def known_tensor(kind: TensorType, name: str) -> te.Tensor:
    """A parameter of a kernel, whose numbers are not there."""
    return open_constant(tuple(map(int, kind.shape)), array_dtype(kind.dtype), name)


def declare_node(node: Node, values: dict[str, te.Tensor]) -> None:
    """Add the values of a node to those that it reads; a value that is another one (the identity) is a copy of it."""
    given = [values[name] if name else None for name in node.inputs]
    results = declared(row_of(node.operator), given, node.attributes)
    read = {one.op for one in given if one is not None}
    for name, one in zip(node.outputs, results, strict=True):
        copied = te.compute(one.shape, lambda *i, one=one: one(*i), name="copy", tag="elemwise")
        values[name] = copied if one.op in read else one


# Steps as JSON has them, for another process


def step_as_json(step: Step, types: dict[str, TensorType]) -> dict[str, Any] | None:
    """All that declared_kernel needs of a step and the types; None where a node has graphs inside."""
    if any(node.bodies for node in step.nodes):
        return None
    named = {*step.inputs, *([step.over] if step.over else [])}
    return {
        "nodes": [
            [
                node.operator,
                node.inputs,
                node.attributes,
                node.outputs,
                [[kind.shape, kind.dtype] for kind in node.types],
            ]
            for node in step.nodes
        ],
        "types": {name: [types[name].shape, types[name].dtype] for name in sorted(named)},
        "inputs": step.inputs,
        "params": step.params,
        "outputs": step.outputs,
        "over": step.over,
        "symbols": step.symbols,
    }


def step_from_json(text: dict[str, Any]) -> tuple[Step, dict[str, TensorType]]:
    """Read the step that step_as_json has written."""
    nodes = tuple(
        Node(
            operator,
            tuple(inputs),
            {name: _freeze_lists(value) for name, value in attributes.items()},
            tuple(outputs),
            tuple(TensorType(tuple(shape), dtype) for shape, dtype in types),
        )
        for operator, inputs, attributes, outputs, types in text["nodes"]
    )
    inputs, params, outputs, symbols = (tuple(text[field]) for field in ("inputs", "params", "outputs", "symbols"))
    types = {name: TensorType(tuple(shape), dtype) for name, (shape, dtype) in text["types"].items()}
    return Step(nodes, inputs, params, outputs, "", text["over"], symbols), types


def _freeze_lists(value: Any) -> Attribute:
    return tuple(map(_freeze_lists, cast("list[Any]", value))) if isinstance(value, list) else value
