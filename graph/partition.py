"""The cut of a graph into kernels.

A kernel is a tree of nodes with one at its root, whose values alone leave it: a node takes in the nodes that it reads and nobody
else does, as long as it is elementwise or moves elements, and there is one heavy node among them at most. So tails are fused into
the heavy operator before them, which topi.schedule then does within the kernel.

Trees are joined where the rules of autoschedule would schedule both as one group, as they cut any program of te:

    a: float32[4096, 1] = mean(x, axes=(1,), keepdims=true)
    b: float32[4096, 1024] = subtract(x, a)
    c: float32[4096, 1] = max(b, axes=(1,), keepdims=true)
    y: float32[4096, 1024] = divide(b, c)

are two trees, the first of which would store b. One kernel keeps a row in a cache from its mean to its quotients. Equal structures
are asked for once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import lru_cache

from ..autoschedule.regions import estimate_seconds, is_one_group
from ..codegen.result import BuildOptions
from ..codegen.target import Target
from ..driver.cache.key import program_key
from ..driver.cache.lookup import keep_number
from ..te.tensor import Tensor
from .concatenations import find_joined_parts
from .kernels import Step, build_step, declared_kernel, is_heavy
from .memory_views import find_views
from .node import Node, Parts
from .types import TensorType

__all__ = ["cut_graph", "time_ratio"]

_MOST_NODES = 16


def cut_graph(g: Parts) -> list[Step]:
    """The graph as kernels, in an order in which each reads what is there; none for concatenations whose parts are written in
    place, and for what is a piece of another value."""
    trees = _trees(g)
    _join_trees(g, trees)
    return [build_step(members, g.types, g.constants) for members in trees.values()]


def _trees(g: Parts) -> dict[str, tuple[Node, ...]]:
    """The nodes of each tree, by the first value of its root, in the order of the roots."""
    parts, views = find_joined_parts(g), find_views(g)
    wholes = {whole for whole, _ in parts.values()}
    uses = Counter(name for node in g.nodes for name in set(node.inputs) if name)
    # an output is read by the caller, so that it has to be stored
    uses.update(set(g.results.values()))
    trees: dict[str, tuple[Node, ...]] = {}
    for node in g.nodes:
        if node.outputs[0] in wholes or node.outputs[0] in views:
            continue
        members = (node,)
        if not is_heavy(node):
            for name in dict.fromkeys(node.inputs):
                below = trees.get(name, ())
                if (
                    # a value with several readers would be computed once for each
                    uses[name] == 1
                    and below
                    and len(below[-1].outputs) == 1
                    and len(below) + len(members) <= _MOST_NODES
                    and sum(map(is_heavy, (*members, *below))) <= 1
                    and not below[-1].bodies
                ):
                    members = (*below, *members)
                    del trees[name]
        trees[node.outputs[0]] = members
    return trees


def _join_trees(g: Parts, trees: dict[str, tuple[Node, ...]]) -> None:
    """Join trees whose values one other tree alone reads with that one, where the rules would schedule both as one group."""
    place = {node.outputs[0]: at for at, node in enumerate(g.nodes)}
    owner = {node.outputs[0]: root for root, members in trees.items() for node in members}
    readers: dict[str, set[str]] = {name: {""} for name in g.results.values()}
    for node in g.nodes:
        for name in node.inputs:
            readers.setdefault(name, set()).add(owner.get(node.outputs[0], ""))
    # from the outputs back, so that a tail is known before what it could join
    for root in reversed(list(trees)):
        refused: set[str] = set()
        while root in trees:
            above = _next_tree(trees, root, readers, refused)
            if above is None:
                break
            members = tuple(sorted((*trees[above], *trees[root]), key=lambda node: place[node.outputs[0]]))
            if len(members) > _MOST_NODES or not _is_one_group(g, members):
                refused.add(above)
                continue
            trees[root] = members
            del trees[above]
            for node in members:
                for name in node.inputs:
                    readers[name] = {root if reader == above else reader for reader in readers[name]}


def _next_tree(
    trees: Mapping[str, Sequence[Node]], root: str, readers: Mapping[str, Set[str]], refused: Set[str]
) -> str | None:
    """The value of another tree that this one alone reads."""
    if trees[root][-1].bodies:
        return None
    return next(
        (
            name
            for node in reversed(trees[root])
            for name in node.inputs
            if name in trees
            and name != root
            and name not in refused
            and readers[name] == {root}
            and len(trees[name][-1].outputs) == 1
            and not trees[name][-1].bodies
        ),
        None,
    )


def _is_one_group(g: Parts, members: tuple[Node, ...]) -> bool:
    """Return whether the rules schedule these nodes as one group."""
    return _answer(_ask(g, build_step(members, g.types, g.constants)))


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
def _answer(asked: _Question) -> bool:
    return is_one_group(asked.outputs)


@lru_cache(1024)
def _seconds(asked: _Question, target: Target) -> float:
    (output,) = asked.outputs
    return estimate_seconds(output, target)
