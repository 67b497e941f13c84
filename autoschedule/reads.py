"""What a reader takes of what it reads: how often, at which places, and what that says of both."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from math import inf, prod

from ..ir.analysis.work import executions, work_of
from ..ir.expr import Expr, IntImm, IterVar, ProducerLoad
from ..ir.stmt import For, If, LoopKind, Stmt
from ..ir.structural import StructuralKey
from ..ir.visit import walk
from ..te.hybrid.forms import is_fact
from ..te.operation import Operation, extent_of
from ..te.rewrite import collect_loads
from ..te.shape import constant_extent, same_extent
from ..te.tensor import Tensor, tensor_of
from .operations import elements, is_plain, loads_of

__all__ = ["follows", "most_reads", "no_larger", "permutes", "places_of", "reads_from"]

UNKNOWN = 1024
"""What an extent counts as that is a symbol."""


def most_reads(op: Operation, readers: Iterable[Operation]) -> int:
    """At how many different places a reader reads it, at most; of a reader that is loops, how often it reads each element."""
    return max(_times(reader, op.output(0)) for reader in readers)


def _times(reader: Operation, tensor: Tensor) -> int:
    if reader.values:
        return len(places_of(reader, tensor))
    size = max(prod(extent.value if isinstance(extent, IntImm) else UNKNOWN for extent in tensor.shape), 1)

    def times(statement: Stmt | None) -> int:
        if statement is None:
            return 0
        if is_fact(statement):
            assert isinstance(statement, If)
            return max(times(statement.then_body), times(statement.else_body))
        runs = sum(
            times
            for work, times in executions(work_of(statement), UNKNOWN)
            for each in work.statements
            for access in each.accesses
            if access.array is tensor
        )
        bound = any(isinstance(node, For) and node.kind is LoopKind.THREAD for node in walk(statement))
        return (
            max(runs // size, min(runs, 1)) if bound else (runs + size - 1) // size
        )  # threads beyond the last element read none

    return times(reader.statement())


def places_of(reader: Operation, tensor: Tensor) -> list[ProducerLoad]:
    """The different places at which an operation reads a tensor: what is read twice at one is read, or computed, once."""
    found: dict[tuple[StructuralKey, ...], ProducerLoad] = {}
    for load in loads_of(reader):
        if load.producer is tensor:
            found.setdefault(tuple(map(StructuralKey, load.indices)), load)
    return list(found.values())


def reads_from(value: Expr, op: Operation) -> bool:
    return any(load.producer is op.output(0) for load in collect_loads(value))


def no_larger(reader: Operation, op: Operation) -> bool:
    """Whether the reader certainly has no more elements."""
    size, other = elements(op), elements(reader)
    if size is not None and other is not None:
        return other <= size
    return len(op.axis) == len(reader.axis) and all(
        same_extent(extent_of(a), extent_of(b)) for a, b in zip(op.axis, reader.axis, strict=True)
    )


def follows(op: Operation, anchor: Operation, region: Collection[Operation], some: bool) -> bool:
    """Whether each element of `op` is made of the same elements of what it reads within the region, and it does read. some: the
    first of them along each axis are enough."""
    if not op.values:
        return False
    loads = [load for load in loads_of(op) if tensor_of(load).op in region]
    if not loads or len(op.axis) != len(anchor.axis):
        return False
    fits = all(
        same_extent(extent_of(a), extent_of(b)) or some and (constant_extent(a) or inf) <= (constant_extent(b) or 0)
        for a, b in zip(op.axis, anchor.axis, strict=True)
    )
    return fits and all(_at_axes(load, op) for load in loads)


def permutes(op: Operation, producer: Operation) -> bool:
    """Whether a plain operation reads what `producer` computes once, each element for one of its own."""
    loads = [load for load in loads_of(op) if load.producer is producer.output(0)] if is_plain(op) else []
    return (
        len(loads) == 1
        and len(loads[0].indices) == len(op.axis)
        and set(loads[0].indices) == set(op.axis)
        and all(
            same_extent(extent_of(axis), extent)
            for axis, extent in zip(loads[0].indices, producer.output(0).shape, strict=True)
            if isinstance(axis, IterVar)
        )
    )


def _at_axes(load: ProducerLoad, op: Operation) -> bool:
    return len(load.indices) == len(op.axis) and all(a is b for a, b in zip(load.indices, op.axis, strict=True))
