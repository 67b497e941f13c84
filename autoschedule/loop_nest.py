"""Loop nests: the loops of a candidate schedule with the work of their bodies, before anything is scheduled.

    Nest(i, 64, (Nest(k, 512, (Body({"fma": 12, "load": 8}, accesses),)), Body({"store": 12}, stored)), parallel=True)

A generator of candidates builds one for each; cost/ tells its time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ..ir.analysis.footprint import Access
from ..ir.expr import Var

__all__ = ["Body", "Nest", "nest_loops", "scale_bodies"]


@dataclass(frozen=True, eq=False)
class Body:
    """The work of one iteration of the loops around it. instructions: on whole vectors, by the names of
    machine.Instructions. accesses: the elements that are read and written in memory, whatever is kept in registers. inner: the
    loops that are written out in it or are lanes, each axis with how many values it takes. chain: the instructions that wait for
    those of the iteration before, as name and number one after the other. spilled: how often in a body sums wait until they are
    stored and loaded again, since they are not in registers."""

    instructions: Mapping[str, float]
    accesses: tuple[Access, ...] = ()
    inner: tuple[tuple[Var, int], ...] = ()
    chain: tuple[str, int] | None = None
    spilled: int = 0


@dataclass(frozen=True, eq=False)
class Nest:
    """A loop, or a sequence (axis None, trips 1). Several loops may be over one axis: each takes it `trips` times as far as those
    inside. parallel: its iterations are tasks, with those of the one loop inside if that is parallel too."""

    axis: Var | None
    trips: int
    body: tuple[Nest | Body, ...]
    parallel: bool = False


def nest_loops(parts: Sequence[Nest | Body], loops: Sequence[tuple[Var, int]], parallel: bool = False) -> Nest:
    """Put loops, the outermost first, around parts that run one after the other. parallel: the outermost is shared by threads."""
    inside = tuple(parts)
    for at, (axis, trips) in reversed(list(enumerate(loops))):
        inside = (Nest(axis, trips, inside, parallel and at == 0),)
    if len(inside) == 1 and isinstance(inside[0], Nest):
        return inside[0]
    return Nest(None, 1, inside)


def scale_bodies(nest: Nest, factor: float) -> Nest:
    """Multiply the instructions of all bodies."""
    body = tuple(
        scale_bodies(part, factor)
        if isinstance(part, Nest)
        else replace(part, instructions={name: factor * many for name, many in part.instructions.items()})
        for part in nest.body
    )
    return replace(nest, body=body)
