"""Members of a chain: how large a region of each a tile needs, and about what it costs."""

from __future__ import annotations

from math import ceil, prod

from ...base.dataclass import dataclass
from ...te.operation import Operation
from ..cost.chains import ROW

__all__ = ["Cut", "Member", "Side"]


@dataclass(frozen=True)
class Cut:
    """A partition of the output of a chain into tiles. sizes: of a tile along each of its axes. rolled: how many rows
    of the axis `along` are computed in each step through a tile, while what the last steps computed of the stages
    before is used again; 0 where each tile is computed in one step."""

    sizes: tuple[int, ...]
    rolled: int = 0
    along: int = 0


@dataclass(frozen=True)
class Side:
    """Length of a region along one of its axes: factor * size + constant, where size is the tile's along this axis of the
    output, and never more than extent. is_steady:
    whether what is needed moves by as much for each step of that axis, unless it is held within bounds."""

    axis: int
    factor: float
    constant: float
    extent: int
    is_steady: bool = True

    def length(self, cut: Cut) -> float:
        """Return the length for a tile."""
        return min(self.extent, self.factor * cut.sizes[self.axis] + self.constant)

    def kept(self, cut: Cut) -> float:
        """Return the part of that which is stored at once."""
        if not cut.rolled or self.axis != cut.along:
            return self.length(cut)
        return min(self.extent, self.factor * cut.rolled + self.constant)


@dataclass
class Member:
    """An operation of a chain. times: how many of its values one of a stage that is stored needs, of those that read it. homes:
    these stages; stores: the stages whose loops compute it, itself where it is stored. cycles: of a vector of it, with what is
    inlined into it. lanes: of a vector."""

    op: Operation
    sides: tuple[Side, ...]
    is_stored: bool
    times: int
    homes: frozenset[Operation]
    cycles: float
    lanes: int

    @property
    def stores(self) -> frozenset[Operation]:
        return frozenset((self.op,)) if self.is_stored else self.homes

    def vectors(self, cut: Cut) -> float:
        """Vectors of a region."""
        *outer, last = [side.length(cut) for side in self.sides]
        return prod(outer) * ceil(last / self.lanes)

    def kept(self, cut: Cut) -> float:
        """Vectors of what is stored at once."""
        *outer, last = [side.kept(cut) for side in self.sides]
        return prod(outer) * ceil(last / self.lanes)

    def work(self, cut: Cut) -> float:
        """Cycles that a region takes."""
        *outer, last = [side.length(cut) for side in self.sides]
        return prod(outer) * (ceil(last / self.lanes) * self.cycles + ROW)

    def turns(self, cut: Cut) -> bool:
        """Return whether its storage is a ring: some of what a step needs, the last one had."""
        return cut.rolled > 0 and any(
            side.axis == cut.along and side.factor > 0 and side.constant > 0 for side in self.sides
        )
