"""The row of a kind of operation (see kinds.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...errors import InternalError
from ...ir.expr import Expr, IterVar, ProducerLoad, Range
from ...ir.stmt import Stmt
from ...te.operation import Operation
from ...te.tensor import Tensor

if TYPE_CHECKING:
    from .dataflow import Computation
    from .nest import Nest

__all__ = ["Definition", "OperationKind", "tensor_of"]

Definition = tuple[tuple[Expr, ...], dict[IterVar, Range]]
"""The values of an operation's outputs (or its one reduction), and the domains of its reduce axes."""


def _no_definition(_: Operation) -> Definition:
    return (), {}


def _nothing_read(_: Computation) -> None:
    """No reads."""


def _nothing_shared(_: Operation) -> Iterable[tuple[Tensor, Tensor]]:
    return ()


def _no_nest(nest: Nest) -> Stmt:
    raise InternalError(f"{nest.computation.name} is not computed")


@dataclass(frozen=True, slots=True)
class OperationKind:
    """One kind of operation.

    noun: what it is, as messages say after "X is". is_computed: whether code is made for it. definition: its values as
    expressions, into which inlined definitions are put; none where it is no expression element by element, and then what
    it reads cannot be inlined. collect_reads: fills Computation.reads with the indices, over the operation's axes and
    Computation.free, at which it reads each tensor (and early_reads). nest: the statement that computes it. whole: all of
    it is computed, whatever is read of it. shared: pairs of a tensor and the output in whose memory it lies.
    """

    noun: str
    is_computed: bool = False
    definition: Callable[[Operation], Definition] = _no_definition
    collect_reads: Callable[[Computation], None] = _nothing_read
    nest: Callable[[Nest], Stmt] = _no_nest
    inlines: bool = False
    whole: bool = False
    shared: Callable[[Operation], Iterable[tuple[Tensor, Tensor]]] = _nothing_shared


def tensor_of(load: ProducerLoad) -> Tensor:
    """The tensor that a read is of."""
    if not isinstance(load.producer, Tensor):
        raise InternalError(f"a read of {load.producer!r}, which is no tensor")
    return load.producer
