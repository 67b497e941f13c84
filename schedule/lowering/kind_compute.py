"""te.compute as a kind of operation: an expression for each element, or a reduction."""

from __future__ import annotations

from ...ir import Expr, ProducerLoad, Stmt, post_order
from ...te.operation import Operation
from ...te.rewrite import collect_loads
from ...te.tensor import find_tensor
from ..tensorize.match import tensorized_place
from ..tensorize.nest import tensorized_nest
from .computation import Computation
from .kind import Definition, OperationKind
from .mirroring import mirrored_nest
from .nest import Nest
from .reduction import reduction_nest

__all__ = ["KIND"]


def _definition(op: Operation) -> Definition:
    values = op.values if op.reduction is None else op.values[:1]
    return values, {axis: axis.dom for axis in op.reduce_axis if axis.dom is not None}


def _collect_reads(computation: Computation) -> None:
    """Note what a computation reads, and which of it before its reduction begins."""
    reduction = computation.reduction
    for value in computation.values:
        for node in post_order(value):
            if isinstance(node, ProducerLoad):
                computation.reads.setdefault(find_tensor(node), []).append(node.indices)
    for load in collect_loads(*computation.op.scalar_arguments):
        # an index of a gather is read whatever the element is
        computation.reads.setdefault(find_tensor(load), []).append(load.indices)
    early: list[Expr] = list(reduction.init) if reduction is not None else []
    for domain in computation.domains.values():
        early += (domain.begin, domain.extent)
        for node in (*post_order(domain.begin), *post_order(domain.extent)):
            if isinstance(node, ProducerLoad):
                computation.reads.setdefault(find_tensor(node), []).append(node.indices)
    for value in early:
        for node in post_order(value):
            if isinstance(node, ProducerLoad):
                computation.early_reads.setdefault(find_tensor(node))


def _nest(nest: Nest) -> Stmt:  # an intrinsic takes the place of the loops that it computes
    tensorized = tensorized_place(nest.stage_bounds)
    if tensorized >= 0:
        return tensorized_nest(nest, tensorized)
    if nest.computation.reduction is not None:
        return reduction_nest(nest, nest.computation.reduction)
    if nest.computation.stage.mirrored is not None:
        return mirrored_nest(nest)
    offsets = nest.stage_bounds.offsets
    axes = nest.axis_values(offsets)
    stored = nest.stores([nest.value(value, axes) for value in nest.computation.values], offsets)
    return nest.loops(nest.stage_bounds.loops, nest.guard(nest.predicate(stored, offsets), offsets), attach=True)


KIND = OperationKind("compute", _collect_reads, _nest, _definition)
