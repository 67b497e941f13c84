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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from ..autoschedule.regions import estimate_seconds, group_operations
from ..codegen.result import BuildOptions
from ..codegen.target import Target
from ..driver.cache.key import program_key
from ..driver.cache.lookup import keep_number
from ..ir.visit import deep_recursion
from ..te.tensor import Tensor
from .concatenations import find_joined_parts
from .kernels import Step, build_step, declare_node, declared_kernel, given_tensor, known_tensor
from .memory_views import find_views
from .node import Node, Parts
from .operators import updater
from .types import TensorType

__all__ = ["cut_graph", "time_ratio"]


def cut_graph(g: Parts) -> list[Step]:
    """The graph as kernels, in an order in which each reads what is there; none for concatenations whose parts are written in
    place, and for what is a piece of another value."""
    elsewhere = {whole for whole, _ in find_joined_parts(g).values()} | find_views(g).keys()
    nodes = [node for node in g.nodes if node.outputs[0] not in elsewhere]
    members: dict[str, list[Node]] = {node.outputs[0]: [] for node in nodes}
    for node, root in zip(nodes, _find_roots(g, nodes), strict=True):
        members[root].append(node)
    return [build_step(tuple(own), g.types, g.constants) for own in members.values() if own]


def _find_roots(g: Parts, nodes: Sequence[Node]) -> list[str]:
    """Return, for each node, the first value of the last one of its kernel."""
    inner = [node for node in nodes if not node.bodies]
    values, stored = _declare(g, inner)
    names = {values[node.outputs[0]].op: node.outputs[0] for node in inner}
    last = group_operations([values[name] for name in stored], list(names))
    roots = {node.outputs[0]: node.outputs[0] for node in nodes}
    readers: dict[str, set[str]] = {}
    for node in reversed(inner):
        name = node.outputs[0]
        root = names[last[values[name].op]]
        # what is read within an operator, before its value, is stored for it
        if readers.get(name) == {root}:
            roots[name] = root
        for value in node.inputs:
            readers.setdefault(value, set()).add(roots[name])
    return [roots[node.outputs[0]] for node in nodes]


def _declare(g: Parts, nodes: Sequence[Node]) -> tuple[dict[str, Tensor], list[str]]:
    """The nodes as one program of te: the values by their names, and the names of those that are stored in any case."""
    computed = {name for node in nodes for name in node.outputs}
    values = {
        name: known_tensor(kind, name) if name in g.constants else given_tensor(kind, name)
        for name, kind in g.types.items()
        if name not in computed
    }
    with deep_recursion():
        for node in nodes:
            declare_node(node, values)
    stored = dict.fromkeys(g.results.values())
    for node in g.nodes:
        # read by no kernel or whole, written over, or one of several
        if node.outputs[0] not in computed or updater(node.operator):
            stored.update(dict.fromkeys(node.inputs))
        if len(node.outputs) > 1:
            stored.update(dict.fromkeys(node.outputs))
    return values, [name for name in stored if name in computed]


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
    return keep_number(key, lambda: seconds(new) / (seconds(old) or 1.0))


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
