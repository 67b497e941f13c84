"""Extension of lowering by a primitive: the `lowering` of its row, a class of which each run makes an object.

A primitive that only changes loops needs none: relations and annotations are lowered for all of them. One that wants statements,
storage or an order of its own says here what it does at the places that there are; a run asks all extensions at each.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir import Expr, IterVar, Stmt
from ...ir.arith.analyzer import Analyzer
from ..model.stage import Stage
from .computation import Bounds, Computation, Loop
from .nest import Nest, Storage

__all__ = ["Extension", "Place"]

Place = tuple[Computation | None, int]
"""A loop, by the stage that it is of and its number among the stage's; None and -1 stand for root."""


class Extension:
    """One that adds nothing."""

    def __init__(self, storage: Storage, analyzer: Analyzer) -> None:
        self.storage, self.analyzer = storage, analyzer

    def plan(self, bounds: Bounds) -> None:
        """Look at the regions and loops before any nest is built, and refuse what cannot be done."""
        del bounds

    def strides(self, stage: Stage, axes: Sequence[IterVar], shape: Sequence[Expr]) -> tuple[Expr, ...]:
        """The strides of storage of this shape for outputs of a stage, `axes` being its dimensions; () for compact storage."""
        del stage, axes, shape
        return ()

    def allocates(self, computation: Computation) -> bool:
        """Return whether it allocates the storage of a stage itself."""
        del computation
        return False

    def takes(self, bounds: Bounds, computation: Computation, statement: Stmt) -> bool:
        """Return whether it puts the statement that computes a stage where it belongs itself; otherwise that stands first in the loop
        that the stage is computed at."""
        del bounds, computation, statement
        return False

    def begin(self, nest: Nest, loop: Loop) -> Sequence[Stmt]:
        """Statements before the body of a loop, what is computed there included."""
        del nest, loop
        return ()

    def within(self, nest: Nest, loop: Loop, body: Stmt) -> Stmt:
        """The body of a loop, with what is computed there."""
        del nest, loop
        return body

    def around(self, place: Place, loop: Loop, statement: Stmt) -> Stmt:
        """The statement of a loop with what outlives its iterations."""
        del place, loop
        return statement
