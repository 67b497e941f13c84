"""Operations on fewer elements, for checks that must be quick: a corner of the outputs, of the reductions, and of what
these read.

Only axes become shorter, the bodies stay. Every element that is computed was computed before, from the same elements, save
that reductions end early; so whatever is read is within the shapes as long as it was before. What schedules and lowering
have to get right (tiles that do not divide, regions, guards, order) is all there.

Of a script the loops of constant length become shorter, and its tensors as large as what these reach: what is not written
is zero as before. A scan takes fewer steps, and its states have the elements that its readers and its steps ask for. An
extern stays as it is, and so does what it reads. Each kind of operation answers for itself (Operation.choose_extents).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..ir.analysis.work import innermost, measure_work
from ..ir.expr import Var
from .operation import Operation, producers_first
from .sizes import Sizes
from .tensor import Tensor

__all__ = ["iterations", "shrunk"]


_ROUNDS = 8
"""How often the elements of a scan's states are looked for that its steps ask for, before all of them are taken."""


def shrunk(outputs: Sequence[Operation], length: Callable[[int, int], int]) -> list[Operation]:
    """The operations `outputs`, and what they read, on fewer elements.

    length: of the axis number n (output axes, reduce axes and loops of scripts are counted) that has so many elements.
    """
    order, sizes = producers_first(outputs), Sizes(length)
    for at in range(_ROUNDS + 1):
        sizes.begin()
        for op in reversed(order):
            op.choose_extents(sizes, op in outputs)
        asked = [op.asks_for_more(sizes, whole=at == _ROUNDS - 1) for op in order]
        if not any(asked):
            break
    twins: dict[Operation, Operation] = {}
    tensors: dict[Tensor, Tensor] = {}
    for op in order:
        twins[op] = twin = op.resize(sizes, tensors)
        tensors.update(zip(op.outputs, twin.outputs, strict=True))
    return [twins[op] for op in outputs]


def iterations(outputs: Sequence[Operation], values: Mapping[Var, int]) -> int:
    """About how often innermost bodies are evaluated, unscheduled. values: of the symbols. Extents that change with other axes
    count with the greatest value that they are known to take, those that are data as 8."""
    return sum(
        innermost(measure_work(op.statement(), values), unknown=8) for op in producers_first(outputs) if not op.is_given
    )
