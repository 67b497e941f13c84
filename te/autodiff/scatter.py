"""Adjoints of gathers: scatter-adds to the elements that were read.

    y[i, j] = table[index[i], j]      →      for i, j: grad_table[index[i], j] += grad_y[i, j]

As a sum each element would ask every read whether it was met: that takes as many steps for each read as the dimension has
elements. It can be computed in any order and in parallel, so it stays for dimensions of few elements (transpose.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from ...ir import Expr, IterVar, ProducerLoad, Range, Var, substitute
from ...ir.ops import integer_value
from ..scatter import scatter
from ..scatter_add import Addition
from ..tensor import Tensor
from .backward import Condition, Contribution
from .equations import reads_tensors
from .reductions import Piece

__all__ = ["pays", "scatter_reads", "derive_scatter"]

_FEW = 16
"""Elements of the dimensions that data indexes, up to which each of them asks all reads."""


def pays(load: ProducerLoad) -> bool:
    """Return whether the adjoint of this read is better scattered than summed: some of its indices are data, and the dimensions that
    they index have many elements, or nobody knows how many."""
    elements, by_data = 1, False
    for index, extent in zip(load.indices, load.producer.shape, strict=True):
        if reads_tensors(index):
            by_data = True
            elements *= integer_value(extent, _FEW + 1)
    return by_data and elements > _FEW


def scatter_reads(
    name: str,
    load: ProducerLoad,
    adjoint: Contribution,
    heads: Sequence[IterVar],
    axes: Sequence[IterVar],
) -> Tensor:
    """The tensor, of the shape of the heads and then of the one that `load` reads, to whose elements the adjoints of the reads
    over `axes` are added, in the order of the loops. heads: the head's axes, over which, too, the adjoint is given."""
    loops: list[IterVar] = []
    fresh: dict[Var, Expr] = {}
    for axis in (*heads, *axes):
        domain = cast(Range, axis.dom)
        own = Range(substitute(domain.begin, fresh), substitute(domain.extent, fresh))
        loops.append(IterVar(axis.name, axis.dtype, own))
        fresh[axis] = loops[-1]
    shape = (*(cast(Range, head.dom).extent for head in loops[: len(heads)]), *load.producer.shape)
    place = (*loops[: len(heads)], *(substitute(index, fresh) for index in load.indices))
    conditions = tuple((substitute(condition.holds, fresh), condition.lazy) for condition in adjoint.conditions)
    return scatter(name, shape, Addition(substitute(adjoint.value, fresh), tuple(loops), place, conditions))


def derive_scatter(addition: Addition, adjoint: Callable[[tuple[Expr, ...]], Contribution]) -> Piece:
    """Return how the gradient goes on through sums: each value has the adjoint of the element that it was added to.

    adjoint: that of the element at indices."""
    seed = adjoint(addition.place)
    conditions = (Condition(holds, lazy) for holds, lazy in addition.conditions)
    return Piece(addition.value, addition.axes, Contribution((*conditions, *seed.conditions), seed.value))
