"""State: inputs that a call updates in place.

What follows an input in its memory is written there by the step that computes it, after everything else that reads the input: the
step writes over the input, where it can be computed so, or does not read it. Where that cannot be (it reads the input in another
order, or something that reads the input needs what follows it), what follows lies in the arena first and is copied.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush

from .kernels import Step, build_step, reuse_input
from .memory_views import Homes, find_placements
from .node import Node, Parts
from .partition import cut_graph
from .rewrite import unused_name

__all__ = ["steps_with_state"]


def steps_with_state(g: Parts) -> tuple[Parts, list[Step]]:
    """The graph as kernels in the order of a call, and the graph with the copies that this takes. Its outputs are values of their
    own."""
    steps = cut_graph(g)
    if not g.state:
        return g, steps
    nodes, results, types, homes = list(g.nodes), dict(g.results), dict(g.types), find_placements(g)
    # by a step those that come before it, beside those whose values it reads
    after: dict[int, set[int]] = defaultdict(set)
    for past, present in g.state.items():
        value = results[present]
        maker = next(at for at, step in enumerate(steps) if value in step.outputs)
        # whoever reads the old value has to run before the maker writes over it
        readers = {at for at, step in enumerate(steps) if past in step.inputs} - {maker}
        over = reuse_input(steps[maker], past, types) if past in steps[maker].inputs else steps[maker]
        if over is None or maker in _all_predecessors(steps, after, homes, readers):
            # it cannot be written in place, or a reader of the old value needs the new one: that is copied in last
            copy = results[present] = unused_name(f"{value}_kept", types)
            types[copy] = types[value]
            nodes.append(Node("identity", (value,), {}, (copy,), (types[value],), past))
            if past in steps[maker].inputs:
                readers.add(maker)
            maker = len(steps)
            steps.append(build_step((nodes[-1],), types, g.constants))
        else:
            steps[maker] = over
        after[maker] |= readers
    return replace(g, nodes=tuple(nodes), results=results), _sort_steps(steps, after, homes)


def _predecessors(steps: Sequence[Step], after: Mapping[int, set[int]], homes: Homes) -> list[set[int]]:
    """Return, by a step, those that have to come before it."""
    makers = {name: at for at, step in enumerate(steps) for name in step.outputs}
    makers |= {name: makers[home] for name, (home, _) in homes.items() if home in makers and name not in makers}
    return [
        {makers[name] for name in step.inputs if name in makers} | after.get(at, set()) for at, step in enumerate(steps)
    ]


def _all_predecessors(steps: Sequence[Step], after: Mapping[int, set[int]], homes: Homes, some: set[int]) -> set[int]:
    """All steps that have to come before some of them."""
    needed = _predecessors(steps, after, homes)
    met: set[int] = set()
    stack = list(some)
    while stack:
        for at in needed[stack.pop()] - met:
            met.add(at)
            stack.append(at)
    return met


def _sort_steps(steps: Sequence[Step], after: Mapping[int, set[int]], homes: Homes) -> list[Step]:
    """The steps in an order in which all comes before that has to, as near as can be to the one that they have."""
    needed = _predecessors(steps, after, homes)
    open_ones = [len(before) for before in needed]
    users: dict[int, list[int]] = defaultdict(list)
    for at, before in enumerate(needed):
        for each in before:
            users[each].append(at)
    ready = [at for at, count in enumerate(open_ones) if not count]
    heapify(ready)
    order: list[Step] = []
    while ready:
        at = heappop(ready)
        order.append(steps[at])
        for user in users[at]:
            open_ones[user] -= 1
            if not open_ones[user]:
                heappush(ready, user)
    assert len(order) == len(steps), "no step has to come before itself"
    return order
