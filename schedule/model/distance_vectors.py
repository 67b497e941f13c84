"""Distance vectors of a script's nest: the orders of its loops in which each iteration still follows those that it depends on.

    for i in 64:                              the iteration (i, j) reads what (i - 1, j - 1) stored: the distance is (1, 1)
        for j in 64:                          loops in the order (j, i) go through it as (1, 1) too, and may be exchanged;
            h[i, j] = h[i - 1, j - 1] + a     a distance of (1, -1) would become (-1, 1), whose first step goes back

Two iterations that touch one element, one of which stores it, fulfil the equations of their indices; the relations of splits,
fusions and skews are equations of distances as well. An order of loops is wrong where these have a solution in which the
declared loops go on while the loops, outermost first, go back; a loop may be shared among threads where they have none in which
it moves and the loops around it stand (M. Wolf, M. Lam, "A Loop Transformation Theory and an Algorithm to Maximize
Parallelism", IEEE TPDS 1991, section 2). Of integers only bounds are looked at, so that an answer errs towards wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ...base.dataclass import dataclass
from ...ir import Buffer, IterVar, LoopKind, Node, Range
from ...ir.analysis.dependence import Indices, Iterations, Unknown, accesses_of, solve
from ...ir.arith.interval import EVERYTHING, Interval
from ...ir.arith.linear import LinearForm
from ...ir.ops import integer_value
from .checks import declared_ranges
from .relations import Relation, spread_down

if TYPE_CHECKING:
    from .stage import Stage

__all__ = ["NestDistances", "Pair", "Reversal", "dependent_pairs"]

_MOST_PAIRS = 256
"""Accesses are compared pairwise, in every direction; of more pairs, iterations are taken to depend on each other in all."""

_STANDS = Interval(0, 0)


@dataclass(frozen=True, slots=True)
class Reversal:
    """Two accesses of a buffer whose iterations would change their order: they go on in `ahead`, a declared loop, and would go
    back in `back`."""

    buffer: Buffer
    first: Indices
    second: Indices
    ahead: IterVar
    back: IterVar


@dataclass(frozen=True, slots=True)
class Pair:
    """Two accesses, the first one a store, and the equations of the distances at which they touch one element."""

    buffer: Buffer
    first: Indices
    second: Indices
    equations: list[LinearForm]
    bounds: dict[Unknown, Interval]


class NestDistances:
    """The distances of `nest`, loops of a stage's operation directly inside each other, under the stage's relations, or `relations`.

    ranges: of its axes, the declared ones without."""

    def __init__(
        self,
        stage: Stage,
        nest: tuple[IterVar, ...],
        pairs: Sequence[Pair],
        relations: Sequence[Relation] | None = None,
        ranges: Mapping[IterVar, Range] | None = None,
    ) -> None:
        self.nest, self.pairs = nest, pairs
        self.relations = stage.relations if relations is None else relations
        # symbolic extents are None
        ranges = declared_ranges(stage) if ranges is None else ranges
        extents = {axis: integer_value(within.extent) for axis, within in ranges.items()}
        self.links = [
            LinearForm({("apart", axis): factor for axis, factor in form.coeffs.items()})
            for relation in self.relations  # a split's distances are tied: parent = outer * factor + inner
            for form in relation.distances(extents)
        ]
        self.limits: dict[Unknown, Interval] = {
            # two iterations of a loop of n are at most n - 1 apart
            ("apart", axis): Interval(1 - max(extent, 1), max(extent, 1) - 1)
            for axis, extent in extents.items()
            if extent is not None
        }
        declared = stage.op.declared_loops
        for axis in nest:
            # iterations of a parallel loop are in no order: none follows another
            if axis in declared.loops and declared.loop(axis).kind is LoopKind.PARALLEL:
                self.limits["apart", axis] = _STANDS  # distances of 0 only

    def reversal(self, leaves: Sequence[IterVar]) -> Reversal | None:
        """Two accesses that would be made in another order with `leaves` as loops; None where all keep theirs."""
        mine = self._nest_loops(leaves)
        for pair in self.pairs:
            for sign in (1, -1):  # either access may be the first in the program's order
                for ahead, going in _first_moves(self.nest, sign):
                    if not self._may_touch(pair, going):
                        continue
                    for back, returning in _first_moves(mine, -sign):
                        # the declared loops go on while the scheduled ones go back
                        if self._may_touch(pair, _both(going, returning)):
                            return Reversal(pair.buffer, pair.first, pair.second, ahead, back)
        return None

    def carried_pair(self, axis: IterVar, leaves: Sequence[IterVar]) -> Pair | None:
        """Two accesses of one element in different iterations of `axis`, one of `leaves`, while the loops around it stand; None where
        there are none."""
        mine = self._nest_loops(leaves)
        place = next(at for at, leaf in enumerate(mine) if leaf is axis)
        # the loops around it stand still
        standing: dict[Unknown, Interval] = {("apart", leaf): _STANDS for leaf in mine[:place]}
        moves = [{**standing, ("apart", axis): moved} for moved in (Interval(1, None), Interval(None, -1))]
        return next((pair for pair in self.pairs if any(self._may_touch(pair, move) for move in moves)), None)

    def _nest_loops(self, leaves: Iterable[IterVar]) -> list[IterVar]:
        mine = spread_down(self.relations, dict.fromkeys(self.nest, True), lambda a, b: a or b)
        return [leaf for leaf in leaves if leaf in mine]

    def _may_touch(self, pair: Pair, moves: Mapping[Unknown, Interval]) -> bool:
        bounds = _both(_both(pair.bounds, self.limits), moves)
        # contradicting bounds have no solution
        empty = any(low is not None and high is not None and low > high for low, high in bounds.values())
        return not empty and solve([*pair.equations, *self.links], bounds) is not None


def dependent_pairs(body: Node, iterations: Iterations) -> list[Pair]:
    """The accesses of a nest's body of which one stores what the other one touches, in some iterations.

    iterations: which variables each of two iterations has a value of its own for."""
    accesses = accesses_of(body)
    pairs: list[Pair] = []
    for buffer, stored in accesses.stored.items():
        touched = [*stored, *accesses.loaded.get(buffer, ())] if buffer not in accesses.private else []
        for at, first in enumerate(stored):
            for second in touched[at:]:  # second from `at` on: an access also meets itself in another iteration
                if len(pairs) == _MOST_PAIRS:
                    # too many: one pair without equations, which stands for every dependence
                    return [Pair(buffer, first, second, [], {})]
                given = iterations.equations(first, second)
                if given is not None:  # None where no iterations can touch one element
                    pairs.append(Pair(buffer, first, second, *given))
    return pairs


def _first_moves(loops: Sequence[IterVar], sign: int) -> Iterator[tuple[IterVar, dict[Unknown, Interval]]]:
    """Each loop as the outermost one that moves, on or back by `sign`, and what that says of the distances."""
    moved = Interval(1, None) if sign > 0 else Interval(None, -1)
    for at, loop in enumerate(loops):
        # what lies outside stands, so that this loop is the first to move
        standing: dict[Unknown, Interval] = {("apart", outer): _STANDS for outer in loops[:at]}
        yield loop, {**standing, ("apart", loop): moved}


def _both(a: Mapping[Unknown, Interval], b: Mapping[Unknown, Interval]) -> dict[Unknown, Interval]:
    """Bounds that hold where both do; where they contradict each other, an empty interval."""
    met = dict(a)
    for unknown, (low, high) in b.items():
        known = met.get(unknown, EVERYTHING)
        lows = [bound for bound in (low, known.lo) if bound is not None]
        highs = [bound for bound in (high, known.hi) if bound is not None]
        met[unknown] = Interval(max(lows, default=None), min(highs, default=None))
    return met
