"""The row of a kind of operation (see kinds.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...base.dataclass import dataclass
from ...ir import Allocate, Buffer, Expr, IterVar, Range, Stmt
from ...ir.arith.analyzer import Analyzer
from ...te.operation import Operation
from .computation import Bounds, Computation, Dataflow, StageBounds
from .nest import Nest

__all__ = ["Definition", "OperationKind"]

Definition = tuple[tuple[Expr, ...], dict[IterVar, Range]]
"""The values of an operation's outputs (or its one reduction), and the domains of its reduce axes."""


def _no_definition(_: Operation) -> Definition:
    return (), {}


def _nothing_placed(dataflow: Dataflow, computation: Computation) -> None:
    """All its stages stand where the schedule has put them."""


def _nothing_checked(bounds: Bounds, computation: Computation) -> None:
    """Any bounds will do."""


def _allocate(bounds: StageBounds, buffers: Sequence[Buffer], body: Stmt, analyzer: Analyzer) -> Stmt:
    """The body with the buffers around it."""
    del bounds, analyzer
    for buffer in reversed(buffers):
        body = Allocate(buffer, body)
    return body


@dataclass(frozen=True, slots=True)
class OperationKind:
    """Lowering of the operations of one kind.

    name: the operations' `kind`. collect_reads: fills Computation.reads with the indices, over the operation's axes and
    Computation.free, at which it reads each tensor (and early_reads). nest: the statement that computes it. definition: its
    values as expressions, into which inlined definitions are put; none where it is no expression element by element. whole:
    all of it is computed, whatever is read of it. place: puts the stages that compute a part of it where they belong. check:
    raises where the bounds do not allow what it does. allocated: the statement that reads and writes its outputs, with memory for
    those around it.
    """

    name: str
    collect_reads: Callable[[Computation], None]
    nest: Callable[[Nest], Stmt]
    definition: Callable[[Operation], Definition] = _no_definition
    whole: bool = False
    place: Callable[[Dataflow, Computation], None] = _nothing_placed
    check: Callable[[Bounds, Computation], None] = _nothing_checked
    allocated: Callable[[StageBounds, Sequence[Buffer], Stmt, Analyzer], Stmt] = _allocate
