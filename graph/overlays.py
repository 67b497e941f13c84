"""Results in the memory of what they are computed from.

    y = relu(add(conv(h, w), x))      where nobody needs x afterwards: y is stored over x, element by element

Then a kernel touches one array less, and what it stores is in the cache, where it was read just before.
"""

from __future__ import annotations

from collections.abc import Sequence

from .kernels import Step, step_over
from .node import Parts
from .pieces import Homes

__all__ = ["steps_in_place"]


def steps_in_place(g: Parts, steps: Sequence[Step], homes: Homes) -> list[Step]:
    """The steps, those with their results over one of the values that they read last that can be computed so: values of the arena
    in which nothing else lies. homes: what lies in the memory of other values."""
    types, made = g.types, {name for step in steps for name in step.outputs}
    shared = {*homes, *(home for home, _ in homes.values()), *g.inputs, *g.results.values()}
    last = {name: at for at, step in enumerate(steps) for name in (*step.inputs, *step.outputs)}
    found: list[Step] = []
    for at, step in enumerate(steps):
        over: Step | None = None
        if not step.over and not step.nodes[-1].bodies and shared.isdisjoint(step.outputs):
            free = [name for name in step.inputs if name in made and name not in shared and last[name] == at]
            over = next((each for name in free if (each := step_over(step, name, types)) is not None), None)
        found.append(over or step)
    return found
