"""Producers that sums in registers recompute, instead of loading a stored tensor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import prod

from ...codegen.machine import Machine
from ...ir.expr import Expr, IntImm, IterVar, ProducerLoad
from ...te.operation import Operation
from ...te.rewrite import inline
from ...te.shape import constant_extent
from ..accesses import ASSUMED, op_loads
from ..cost.vectors import CACHED, STORED
from ..forms.contraction import is_product
from ..operations import is_expensive, weight
from .sum_plan import Terms, best_plan, find_terms, gathers

__all__ = ["axes_shared", "cheap", "computed_again"]


def axes_shared(reader: Operation, producer: Operation, machine: Machine) -> frozenset[IterVar] | None:
    """The data axes of `reader` at which it reads `producer`, where that is a part: each of its elements is needed for one vector
    of results alone, and computed there it takes no longer than apart. None where it is no part. Both are reductions."""
    loads = [load for load in op_loads(reader) if load.producer is producer.output(0)]
    terms = find_terms(producer.values[0], producer.axis)
    if not reader.axis or is_product(reader) or is_product(producer) or terms is None:
        return None
    lane, own, bits = reader.axis[-1], producer.axis[-1:], producer.output(0).dtype.bits
    lanes, shared = machine.lanes(bits), None
    for load in loads:
        axes = [index for index in load.indices if isinstance(index, IterVar)]
        if len(axes) + sum(isinstance(index, IntImm) for index in load.indices) < len(load.indices) or len(
            set(axes)
        ) < len(axes):
            return None
        data = frozenset(axis for axis in axes if axis.kind != "reduce")
        if not load.indices or load.indices[-1] is not lane or shared not in (None, data):
            return None
        shared = data
        rest = [
            constant_extent(axis) for axis, index in zip(producer.axis, load.indices, strict=True) if index not in data
        ]
        if None in rest or prod(extent or 0 for extent in rest) * lanes * bits // 8 > machine.l1 // 4:
            return None
    if (
        any(gathers(load, own, lanes) for load in op_loads(producer))
        or loads
        and _is_separation_faster(producer, terms, loads[0], machine)
    ):
        return None
    return shared


def _is_separation_faster(producer: Operation, terms: Terms, load: ProducerLoad, machine: Machine) -> bool:
    """Return whether a reduction that is computed for one vector of what reads it, by this load, takes longer than stored and loaded:
    tiles of several rows load once what all of them read."""
    free = tuple(
        axis
        for axis, index in zip(terms.axis, load.indices, strict=True)
        if axis is terms.axis[-1] or isinstance(index, IterVar) and index.kind == "reduce"
    )
    there = best_plan(replace(terms, axis=free), machine, terms.axis[-1:], (1,))
    apart = best_plan(terms, machine)
    if there is None or apart is None:
        return False
    return (there.cost - apart.cost) * terms.depth * terms.results > _traffic(producer, machine)


def computed_again(readers: Iterable[tuple[Expr, Sequence[IterVar]]], producer: Operation, machine: Machine) -> bool:
    """Return whether it costs less to compute what `producer` gives, element by element, wherever these reductions read it, than to store
    it and load it. readers: the expression of each, with what is inlined already, and its data axes."""
    if is_expensive(producer):
        return False
    more = 0.0
    for value, axis in readers:
        apart = _operations(value, axis, machine)
        again = _operations(inline(value, producer.output(0), producer.axis, producer.values[0]), axis, machine)
        if apart is None or again is None:
            return False
        more += again - apart
    return more <= _traffic(producer, machine) + weight(producer) * _vectors(producer, machine)


def cheap(reduction: Operation, machine: Machine) -> bool:
    """Return whether it costs less to compute a reduction twice than to store it and load it twice."""
    operations = _operations(reduction.values[0], reduction.axis, machine)
    return operations is not None and operations <= _traffic(reduction, machine)


def _vectors(op: Operation, machine: Machine) -> float:
    return prod(constant_extent(axis) or ASSUMED for axis in op.axis) / machine.lanes(op.output(0).dtype.bits)


def _traffic(op: Operation, machine: Machine) -> float:
    """Return the cost of storing and loading it, in operations on vectors."""
    lanes, vectors = machine.lanes(op.output(0).dtype.bits), _vectors(op, machine)
    kept = vectors * machine.vector_bytes <= machine.l2
    return vectors * (CACHED if kept else lanes * STORED)


def _operations(value: Expr, axis: Sequence[IterVar], machine: Machine) -> float | None:
    """Operations on vectors that a reduction takes as it is best computed."""
    terms = find_terms(value, axis)
    plan = best_plan(terms, machine) if terms is not None else None
    if terms is None or plan is None:
        return None
    return plan.cost * prod(constant_extent(each) or ASSUMED for each in (*terms.axis, *terms.reduce_axis))
