"""The cut of a graph into kernels.

A kernel is a group that the rules of autoschedule form of a program of te, as which the whole graph is declared, but for graphs inside
of nodes and values that no kernel gives: a sum with what is computed of its result, element by element or moved, reductions over the
same rows with what stands around them, or elements of elements. Of

    a: float32[4096, 1] = mean(x, axes=(1,), keepdims=true)
    b: float32[4096, 1024] = subtract(x, a)
    c: float32[4096, 1] = max(b, axes=(1,), keepdims=true)
    y: float32[4096, 1024] = divide(b, c)

one kernel keeps a row in a cache from its mean to its quotients.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from typing import Any, cast

from ..autoschedule.regions import estimate_seconds, group_operations
from ..base import dataclass, field
from ..codegen.result import BuildOptions
from ..codegen.target import Target
from ..driver.cache.kernels import keep_value
from ..driver.cache.key import program_key, question_key
from ..ir.visit import deep_recursion
from ..te.tensor import Tensor
from .concatenations import find_joined_parts
from .kernels import Step, build_step, declare_node, declared_kernel, given_tensor, known_tensor
from .memory_views import find_views
from .node import Node, Parts
from .operators import is_ours, row_of, updater
from .types import TensorType

__all__ = ["cut_graph", "time_ratio"]


def cut_graph(g: Parts) -> list[Step]:
    """The graph as kernels, in an order in which each reads what is there; none for concatenations whose parts are written in
    place, and for what is a piece of another value."""
    elsewhere = {whole for whole, _ in find_joined_parts(g).values()} | find_views(g).keys()
    nodes = [node for node in g.nodes if node.outputs[0] not in elsewhere]
    members: dict[str, list[Node]] = {node.outputs[0]: [] for node in nodes}
    roots = _find_roots(g, [node for node in nodes if not node.bodies])
    for node in nodes:
        members[roots.get(node.outputs[0], node.outputs[0])].append(node)
    return [build_step(tuple(own), g.types, g.constants) for own in members.values() if own]


def _find_roots(g: Parts, nodes: Sequence[Node]) -> dict[str, str]:
    """Return, for the first value of each node, that of the last node of its kernel: looked up where a graph of this structure has been
    cut before, since declaring it takes most of the time of loading a model that is kept."""
    if not nodes:
        return {}
    places = {node.outputs[0]: at for at, node in enumerate(nodes)}
    stored = _find_stored(g, nodes)
    structure = build_step(tuple(nodes), g.types, g.constants).key
    question = "\n".join(["cut", structure, *(f"{places[name]} {at}" for name, at in stored.values())])
    known = _earlier_cut(question)
    if not known:
        ours = all(is_ours(row_of(node.operator)) for node in nodes)
        known += keep_value(
            question_key(question) if ours else None,
            lambda: _group_nodes(g, nodes, stored),
            partial(_is_cut, len(nodes)),
        )
    return {name: nodes[known[at]].outputs[0] for name, at in places.items()}


@lru_cache(64)
def _earlier_cut(question: str) -> list[int]:
    """The place of the last node of each node's kernel, for whoever asks first to fill in."""
    del question
    return []


def _is_cut(count: int, places: Any) -> bool:
    """Return whether a value of the cache tells the last nodes of so many nodes' kernels."""
    return (
        isinstance(places, list)
        and len(cast("list[Any]", places)) == count
        and all(isinstance(last, int) and at <= last < count for at, last in enumerate(cast("list[Any]", places)))
    )


def _group_nodes(g: Parts, nodes: Sequence[Node], stored: Iterable[str]) -> list[int]:
    """Return the place of the last node of each node's kernel. stored: the values that are in memory in any case."""
    values = _declare(g, nodes)
    places = {values[node.outputs[0]].op: at for at, node in enumerate(nodes)}
    last = group_operations([values[name] for name in stored], list(places))
    roots = list(range(len(nodes)))
    readers: dict[str, set[int]] = {}
    for at, node in reversed([*enumerate(nodes)]):
        name = node.outputs[0]
        root = places[last[values[name].op]]
        # what is read within an operator, before its value, is stored for it
        if readers.get(name) == {root}:
            roots[at] = root
        for value in node.inputs:
            readers.setdefault(value, set()).add(roots[at])
    return roots


def _declare(g: Parts, nodes: Sequence[Node]) -> dict[str, Tensor]:
    """The values of nodes, by their names, as one program of te."""
    computed = {name for node in nodes for name in node.outputs}
    values = {
        name: known_tensor(kind, name) if name in g.constants else given_tensor(kind, name)
        for name, kind in g.types.items()
        if name not in computed
    }
    with deep_recursion():
        for node in nodes:
            declare_node(node, values)
    return values


def _find_stored(g: Parts, nodes: Sequence[Node]) -> dict[str, tuple[str, int]]:
    """The values of nodes that are stored in any case, by name, each with its node's first value and its place among that node's."""
    computed = {name: (node.outputs[0], at) for node in nodes for at, name in enumerate(node.outputs)}
    first = {node.outputs[0] for node in nodes}
    stored = dict.fromkeys(g.results.values())
    for node in g.nodes:
        # read by no kernel or whole, written over, or one of several
        if node.outputs[0] not in first or updater(node.operator):
            stored.update(dict.fromkeys(node.inputs))
        if len(node.outputs) > 1:
            stored.update(dict.fromkeys(node.outputs))
    return {name: computed[name] for name in stored if name in computed}


def time_ratio(before: Parts, after: Parts, target: Target, weigh: Callable[[Step], float]) -> float:
    """Return the time of a graph in those of another's, by the estimates of the kernels in which they differ, each on its own and
    its algorithm aside; kept with built kernels, since estimating takes longer than loading these. weigh: the weight of a kernel
    with one result, 0 where it is left out."""
    asked = [
        Counter(_ask(g, step) for step in cut_graph(g) if len(step.outputs) == 1 and weigh(step))
        for g in (before, after)
    ]
    # kernels of both graphs cost the same and cancel out
    old, new = (list((asked[at] - asked[1 - at]).elements()) for at in (0, 1))

    def seconds(kernels: Sequence[_Question]) -> float:
        return sum(weigh(one.step) * _seconds(one, target) for one in kernels)

    texts = {
        f"{at} {what}": one.key for what, kernels in (("old", old), ("new", new)) for at, one in enumerate(kernels)
    }
    key = program_key(texts, (), target, BuildOptions(), False)
    return keep_value(key, lambda: seconds(new) / (seconds(old) or 1.0), lambda value: isinstance(value, float))


@dataclass(frozen=True)
class _Question:
    """A kernel that something is asked about, and the types of what it reads. Equal keys, equal answers."""

    key: str
    step: Step = field(compare=False)
    types: dict[str, TensorType] = field(compare=False)

    @property
    def outputs(self) -> list[Tensor]:
        """Declare the kernel."""
        tensors = [one for one in declared_kernel(self.step, self.types) if isinstance(one, Tensor)]
        return tensors[-len(self.step.outputs) :]


def _ask(g: Parts, step: Step) -> _Question:
    return _Question(step.key, step, {name: g.types[name] for name in step.inputs})


@lru_cache(1024)
def _seconds(asked: _Question, target: Target) -> float:
    (output,) = asked.outputs
    return estimate_seconds(output, target)
