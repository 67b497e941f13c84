"""The loops of a sum of any form under a plan (sum_plan.py), as a nest to estimate before anything is scheduled.

    lanes over data axes                          lanes over a reduce axis

    for data axes, by tiles (in parallel):        for data axes, by tiles (in parallel):
      for reduce axes:                              for reduce axes, the lanes' by vectors:
        body: a term for each of the tile             body: a term for each of the tile and lane
      store the tile                                lanes added up; store the tile
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import ceil, log2, prod

from ...codegen.machine import Machine
from ...ir.analysis.footprint import Access
from ...ir.combine import is_fused
from ...ir.expr import Expr, IntImm, IterVar, Mul, Reduce
from ...ir.visit import post_order
from ...te.shape import constant_extent
from ...te.tensor import Tensor
from ..estimate import ASSUMED, Body, Nest
from ..instructions import class_of, instructions_of, number_of, vectors
from .sum_plan import SumPlan
from .transposes import loads_in

__all__ = ["reads_of", "stored_by", "sum_nest"]


def sum_nest(
    value: Reduce, stored: Access, reads: Reads, plan: SumPlan, machine: Machine, written_out: Sequence[IterVar], shared: int,
) -> Nest:
    """The nest of the sum `value`. stored: the element of its result, at the data axes; reads: by reads_of. written_out: the reduce
    axes whose loops are. shared: how many of the outermost loops threads share."""
    axis = [each for each in stored.indices or () if isinstance(each, IterVar)]
    rows = dict(plan.rows)
    width = plan.vectors * machine.lanes(value.dtype.bits)
    lanes = {plan.lane[0]: width} if len(plan.lane) == 1 else {each: _extent(each) for each in plan.lane}
    lanes = {each: min(values, _extent(each)) for each, values in lanes.items()}
    tile: dict[IterVar, int] = {**rows, **{each: _extent(each) for each in written_out if each not in lanes}}
    outer = [each for each in value.axes if each not in tile and each not in lanes]
    steps = [(each, _extent(each)) for each in outer] + [
        (each, ceil(_extent(each) / values)) for each, values in lanes.items() if each.kind == "reduce"]
    body = _terms(value, plan, tile, lanes, steps[-1][0] if steps else None, machine, reads)
    nest: Nest | Body = body
    for each, trips in reversed(steps):
        nest = Nest(each, trips, (nest,))
    parts = [nest, _end(value, stored, rows, lanes, machine)]
    loops = [(each, ceil(_extent(each) / rows.get(each, 1))) for each in axis if each not in lanes]
    loops += [(each, ceil(_extent(each) / values)) for each, values in lanes.items() if each.kind != "reduce"]
    whole = Nest(None, 1, tuple(parts))
    for at, (each, trips) in reversed(list(enumerate(loops))):
        whole = Nest(each, trips, (whole,) if whole.axis is not None else whole.body, at < shared)
    return whole


def _extent(axis: IterVar) -> int:
    extent = constant_extent(axis)
    return ASSUMED if extent is None else extent


Reads = Mapping[int, Access]
"""The elements that loads read, by the loads' identities."""


def reads_of(value: Expr) -> Reads:
    """Those of an expression."""
    return {id(load): Access(load.producer, load.indices, tuple(map(_number, load.producer.shape))) for load in loads_in(value)}


def stored_by(result: Tensor, axis: Sequence[IterVar]) -> Access:
    """An element of a result."""
    return Access(result, tuple(axis), tuple(map(_number, result.shape)), stored=True)


def _number(extent: Expr) -> int:
    return extent.value if isinstance(extent, IntImm) else ASSUMED


def _terms(value: Reduce, plan: SumPlan, tile: Mapping[IterVar, int], lanes: Mapping[IterVar, int], around: IterVar | None,
           machine: Machine, reads: Reads) -> Body:
    """A term of each result of a tile. A product that a sum takes up is one instruction with it."""
    (source,) = value.sources
    fused = is_fused(value, 0) and isinstance(source, Mul)
    combining = ["fma"] if fused else [
        class_of(node) for node in post_order(*value.combiner.result) if class_of(node) for _ in range(number_of(node))]
    values = [source.a, source.b] if fused and isinstance(source, Mul) else [source]
    loops = {around} if around is not None else set[IterVar]()
    count: Counter[str] = instructions_of(values, machine, tile, lanes, loops, lambda load: reads[id(load)])
    sums = prod(size for _, size in plan.rows) * vectors(lanes, lanes, machine.lanes(value.dtype.bits))
    links = prod(size for axis, size in tile.items() if axis.kind == "reduce")
    for name in combining:
        count[name] += sums * links
    held = sums + vectors(lanes, lanes, machine.lanes(value.dtype.bits)) + 1  # a vector of each row at a time, and an element
    if held > machine.registers:  # sums that are kept in memory
        count["load"] += held - machine.registers
        count["store"] += held - machine.registers
    return Body(count, tuple(reads.values()), (*tile.items(), *lanes.items()), (combining[-1] if combining else "add", links))


def _end(value: Reduce, stored: Access, rows: Mapping[IterVar, int], lanes: Mapping[IterVar, int], machine: Machine) -> Body:
    """What becomes of the sums of a tile: those of lanes are added up by halves, and all are stored."""
    bits, results = value.dtype.bits, prod(rows.values())
    count: Counter[str] = Counter()
    inner = dict(rows)
    if any(each.kind == "reduce" for each in lanes):
        many = vectors(lanes, lanes, machine.lanes(bits))
        halves = log2(machine.lanes(bits))
        count.update({"add": int(results * (many - 1 + halves)), "shuffle": int(results * halves), "store": results})
    else:
        count["store"] = results * vectors(lanes, lanes, machine.lanes(bits))
        inner.update(lanes)
    return Body(count, (stored,), tuple(inner.items()))
