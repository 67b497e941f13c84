"""Reads at indices that are data, turned round: each read adds to the element that it met.

    y[i, j] = table[index[i], j]      →      for i, j: grad_table[index[i], j] += grad_y[i, j]

As a sum each element would ask every read whether it was met: that takes as many steps for each read as the dimension has
elements. It can be computed in any order and in parallel, so it stays for dimensions of few elements (transpose.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from ...errors import user_source
from ...ir import ops
from ...ir.buffer import Buffer
from ...ir.expr import BufferLoad, Expr, IntImm, IterVar, ProducerLoad, Range, Var
from ...ir.stmt import BufferStore, For, If, LoopKind, Stmt
from ...ir.visit import substitute
from ..additions import Addition
from ..hybrid.op import HybridOp
from ..tensor import Tensor
from ..wraparound import wrapping
from .backward import Condition, Contribution
from .equations import reads_tensors
from .reductions import Piece

__all__ = ["pays", "scatter", "through_additions"]

_FEW = 16
"""Elements of the dimensions that data indexes, up to which each of them asks all reads."""


def pays(load: ProducerLoad) -> bool:
    """Whether the adjoint of this read is better scattered than summed: some of its indices are data, and the dimensions that
    they index have many elements, or nobody knows how many."""
    elements, by_data = 1, False
    for index, extent in zip(load.indices, load.producer.shape, strict=True):
        if reads_tensors(index):
            by_data = True
            elements *= extent.value if isinstance(extent, IntImm) else _FEW + 1
    return by_data and elements > _FEW


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ScatterOp(HybridOp):
    """A script of one store, by which values are added to elements."""

    addition: Addition

    @property
    def additions(self) -> Addition:
        return self.addition


def scatter(name: str, load: ProducerLoad, adjoint: Contribution, heads: Sequence[IterVar], axes: Sequence[IterVar]) -> Tensor:
    """The tensor, of the shape of the heads and then of the one that `load` reads, to whose elements the adjoints of the reads
    over `axes` are added, in the order of the loops. heads: the head's axes, over which, too, the adjoint is given."""
    loops: list[IterVar] = []
    fresh: dict[Var, Expr] = {}
    for axis in (*heads, *axes):
        domain = cast(Range, axis.dom)
        own = Range(substitute(domain.begin, fresh), substitute(domain.extent, fresh))
        loops.append(IterVar(axis.name, axis.dtype, own))
        fresh[axis] = loops[-1]
    outputs = (*(cast(Range, head.dom).extent for head in loops[: len(heads)]), *load.producer.shape)
    buffer = Buffer(name, outputs, adjoint.value.dtype)
    place = (*loops[: len(heads)], *(substitute(index, fresh) for index in load.indices))
    conditions = tuple(Condition(substitute(condition.holds, fresh), condition.lazy) for condition in adjoint.conditions)
    value = wrapping(tuple(loops), (substitute(adjoint.value, fresh),))[0]
    addition = Addition(value, tuple(loops), place, tuple((condition.holds, condition.lazy) for condition in conditions))
    op = ScatterOp(name=name, tag="scatter", source=user_source(), buffers=(buffer,), addition=addition,
                   body=_body(buffer, addition))
    return op.output(0)


def _body(buffer: Buffer, addition: Addition) -> Stmt:
    place = addition.place
    body: Stmt = BufferStore(buffer, ops.add(BufferLoad(buffer, place), addition.value), place)
    for holds, _ in reversed(addition.conditions):
        body = If(holds, body)
    for loop in reversed(addition.axes):
        domain = cast(Range, loop.dom)
        body = For(loop, domain.begin, domain.extent, LoopKind.SERIAL, body)
    return body


def through_additions(addition: Addition, adjoint: Callable[[tuple[Expr, ...]], Contribution]) -> Piece:
    """How the gradient goes on through sums: each value has the adjoint of the element that it was added to.

    adjoint: that of the element at indices."""
    seed = adjoint(addition.place)
    conditions = (Condition(holds, lazy) for holds, lazy in addition.conditions)
    return Piece(addition.value, addition.axes, Contribution((*conditions, *seed.conditions), seed.value))
