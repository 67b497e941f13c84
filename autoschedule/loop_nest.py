"""Loop nests: the loops of a candidate schedule with the work of their bodies, before anything is scheduled.

    Nest(i, 64, (Nest(k, 512, (Body({"fma": 12, "load": 8}, accesses),)), Body({"store": 12}, stored)), parallel=True)

A generator of candidates builds one for each; cost/ tells its time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..base import dataclass, replace
from ..ir.analysis.footprint import Access, Array
from ..ir.expr import Var

__all__ = ["Body", "Memory", "Nest", "Transfer", "nest_loops", "scale_bodies"]


@dataclass(frozen=True, slots=True, eq=False)
class Transfer:
    """The loads, or stores, of an access in one iteration of a body by a thread of a GPU. scope: of the memory; times: how many;
    bytes: of each; by: who does them together, a "warp", a "group" of four, the copy "engine" for a block."""

    access: Access
    scope: str
    times: float
    bytes: int
    by: str = "thread"


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """The memory of a GPU that a stage fills: the elements of its array that one run stores. scope: "shared", or of registers;
    bytes: of all; stages: of the pipeline that fills it; among: threads of which each has its part in registers; of a
    kernel, those of a block."""

    array: Array
    scope: str
    bytes: int
    stages: int = 1
    among: int = 1


@dataclass(frozen=True, eq=False)
class Body:
    """The work of one iteration of the loops around it. instructions: on whole vectors, by the names of
    machine.Instructions; on a GPU also multiply-adds of 16 bits by tensor cores, "mma" of a warp and "wgmma" of four. accesses: the
    elements that are read and written in memory, whatever is kept in registers. inner: the loops that are written out in it or
    are lanes, each axis with how many values it takes. chain: the instructions that wait for those of the iteration before, as
    name and number one after the other. spilled: how often in a body sums wait until they are stored and loaded again, since they
    are not in registers. transfers: on a GPU, the loads and stores behind the accesses; kept: the arrays in registers that are
    read."""

    instructions: Mapping[str, float]
    accesses: tuple[Access, ...] = ()
    inner: tuple[tuple[Var, int], ...] = ()
    chain: tuple[str, int] | None = None
    spilled: int = 0
    transfers: tuple[Transfer, ...] = ()
    kept: tuple[Array, ...] = ()


@dataclass(frozen=True, eq=False)
class Nest:
    """A loop, or a sequence (axis None, trips 1). Several loops may be over one axis: each takes it `trips` times as far as those
    inside. parallel: its iterations are tasks, with those of the one loop inside if that is parallel too. thread: the tag of the
    axis of a GPU that runs its iterations, "blockIdx.x", "threadIdx.y", "vthread"; share: the part of them, with those of loops
    inside on the same thread axis, that there are. memory: filled by what is in it, which is a stage."""

    axis: Var | None
    trips: int
    body: tuple[Nest | Body, ...]
    parallel: bool = False
    thread: str = ""
    share: float = 1.0
    memory: Memory | None = None


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
