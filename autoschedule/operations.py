"""Properties of operations that schedules depend on."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from ..ir.combine import FUSED
from ..ir.expr import Call, Expr, IntImm, IterVar, Reduce
from ..ir.intrinsics import INTRINSICS
from ..ir.visit import children, distinct
from ..schedule.model.inlining import find_inlined as stages_inlined_into
from ..te.operation import Operation
from ..te.shape import constant_extent
from ..te.tensor import Tensor

if TYPE_CHECKING:
    from ..schedule import Schedule

__all__ = [
    "LIGHT",
    "MAX_WEIGHT",
    "TRIVIAL",
    "elements",
    "data_extents",
    "fixed_extent",
    "find_inlined",
    "is_expensive",
    "is_known",
    "is_plain",
    "is_shareable",
    "iteration_count",
    "weight",
]

TRIVIAL = 8
"""Operators of an expression that may be computed once for each of several reads: a cast, a shifted read, a guard."""
LIGHT = 24
"""Operators of an expression up to which several vectors of it fit into registers at once, and a guard of a padded image into windows."""
MAX_WEIGHT = 256
"""Operators of an expression up to which producers are inlined into it."""

_CHEAP_CALLS = {"abs", *FUSED, "likely", "if_then_else", "select", "reinterpret"} | {
    name for name, row in INTRINSICS.items() if row.operands == "integer" or row.result == "bool"
}


def fixed_extent(axis: IterVar) -> int:
    """The extent of an axis, 0 where it is not a constant."""
    return constant_extent(axis) or 0


def iteration_count(axes: Sequence[IterVar]) -> int:
    """Return the number of values that several axes of known extents have together."""
    return prod(map(fixed_extent, axes))


def data_extents(op: Operation) -> tuple[int, ...]:
    """Return the extents of its data axes."""
    return tuple(map(fixed_extent, op.axis))


def elements(op: Operation) -> int | None:
    """Return the number of elements of each of its outputs; None where that is not known."""
    shape = op.output(0).shape  # the axes of a scan are its steps alone
    known = [extent.value for extent in shape if isinstance(extent, IntImm)]
    return prod(known) if len(known) == len(shape) else None


def is_known(tensor: Tensor) -> bool:
    """Return whether a tensor is a constant, or computed from constants alone: stored at root, it is computed while building."""
    met: set[Operation] = set()
    stack = [tensor.op]
    while stack:
        op = stack.pop()
        if op not in met:
            met.add(op)
            if op.constant is None and not (op.values and op.input_tensors):
                return False
            stack.extend(tensor.op for tensor in op.input_tensors)
    return True


def is_expensive(op: Operation, *but: str) -> bool:
    """Return whether its value takes a call of mathematics: computing it twice costs more than storing it. but: calls that do not
    count."""
    stack: list[Expr] = list(op.values)
    while stack:
        node = stack.pop()
        if isinstance(node, Call) and node.name not in _CHEAP_CALLS and node.name not in but:
            return True
        if not isinstance(node, Reduce):
            stack.extend(children(node))
    return False


def is_plain(op: Operation) -> bool:
    """Return whether it computes one tensor element by element, so that readers can take its expression in its place."""
    return bool(op.values) and not op.calls_intrinsic and op.reduction is None and op.num_outputs == 1


def is_shareable(op: Operation) -> bool:
    """Return whether threads may share its reduction, if it is one: each would begin with the value that is given to begin with."""
    return op.reduction is None or not op.reduction.init


def find_inlined(s: Schedule, op: Operation) -> list[Operation]:
    """The operations, as they are computed now, whose expressions stand in that of `op`: readers before what they read."""
    return [stage.op for stage in stages_inlined_into(s[op])]


def weight(op: Operation) -> int:
    """Return the number of operators that one element takes, roughly."""
    nodes = (node for value in op.values for node in distinct(value) if not isinstance(node, (IntImm, IterVar)))
    return sum(2 if isinstance(node, Call) and node.name in FUSED else 1 for node in nodes)
