"""Groups of a graph of operations, and what rules know of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol

from ..base.dataclass import dataclass
from ..ir.expr import Expr, IterVar
from ..te.operation import Operation

__all__ = ["APART", "CHAIN", "ROWS", "SCAN", "Chain", "Fusion", "Piece", "Tile"]

ROWS = "rows"
"""The tag of a piece that is a chain of reductions and what stands between them (row_chain), where that has a rule."""
SCAN = "scan"
"""That of a scan, where that has one."""
CHAIN = "chain"
"""What a piece is tagged that is computed tile by tile."""


@dataclass(frozen=True)
class Tile:
    """Partition of the output of a chain of stencils into tiles. sizes: of a tile, along each of its axes. flat: for it
    and for each part, the axis from which on its rows are one piece. near: the parts that are computed for each vector
    of the output, `rows` rows of which are then computed together. rolled: how many rows along the axis `along` are
    computed in each step through a tile, where `rings` are the parts of which a step uses what the last ones computed;
    0 for one step. at_root: whether each stage is computed by itself. beside: the parts that are results like the
    output, computed with it."""

    sizes: tuple[int, ...]
    flat: Mapping[Operation, int]
    near: tuple[Operation, ...] = ()
    rows: int = 0
    rolled: int = 0
    along: int = 0
    rings: tuple[Operation, ...] = ()
    at_root: bool = False
    beside: tuple[Operation, ...] = ()

    def __str__(self) -> str:
        if self.at_root:
            return "each stage by itself"
        if self.rolled:
            return f"windows of {', '.join(op.name for op in self.rings)} rolling by {self.rolled} in {self._tiles}"
        kept = f", {', '.join(op.name for op in self.near)} in registers for {self.rows} rows" if self.near else ""
        return f"{self._tiles}{kept}"

    @property
    def _tiles(self) -> str:
        return f"tiles of {' x '.join(map(str, self.sizes))}"


@dataclass(frozen=True)
class Piece:
    """A group as it is cut, before the schedule is touched. tag: whose rule it is for, "" where the anchor's has none.
    between: from the anchor to the output, without both; inlined: what only these and the output read, and costs little
    there; for the first piece also what several compute again."""

    tag: str
    anchor: Operation
    output: Operation
    heads: tuple[Operation, ...] = ()
    parts: tuple[Operation, ...] = ()
    between: tuple[Operation, ...] = ()
    inlined: tuple[Operation, ...] = ()
    tiles: tuple[Tile, ...] = ()

    @property
    def operations(self) -> tuple[Operation, ...]:
        """All of them, each once."""
        return tuple(dict.fromkeys((*self.heads, *self.parts, *self.inlined, self.anchor, *self.between, self.output)))


class Chain(Protocol):
    """Stages that are computed together with one of them, the output, as far as they are found. stored, inlined: producers first.
    is_stencil: whether a stored one is read around each place, so that there is something to choose."""

    is_stencil: bool

    @property
    def stored(self) -> tuple[Operation, ...]: ...

    @property
    def inlined(self) -> tuple[Operation, ...]: ...

    def take(self, producer: Operation, readers: Collection[Operation]) -> bool:
        """Return whether a producer, all of whose readers are of the chain, joins."""
        ...

    def ways(self) -> tuple[Tile, ...]:
        """Return the partitions of the output, the cheapest first."""
        ...


@dataclass(frozen=True)
class Fusion:
    """Producers that the rules of a target compute in their consumers. shared(reader, producer), of two reductions: the axes
    of the reader at which it reads the producer, where that is computed within the reader's loops over them, or None.
    cheap(reduction): whether another reader rather computes it once more than to load it.
    again(readers, producer): whether reductions, given by their expressions and axes, compute each element of the producer
    wherever they read it. chain(output, beside): what may be computed tile by tile with an operation and others that are results
    beside it, None where that is nothing."""

    shared: Callable[[Operation, Operation], frozenset[IterVar] | None]
    cheap: Callable[[Operation], bool]
    again: Callable[[Iterable[tuple[Expr, Sequence[IterVar]]], Operation], bool]
    chain: Callable[[Operation, tuple[Operation, ...]], Chain | None]


APART = Fusion(
    lambda reader, producer: None, lambda reduction: False, lambda readers, producer: False, lambda output, beside: None
)
"""Everything is computed apart."""
