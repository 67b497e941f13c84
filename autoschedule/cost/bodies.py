"""Bodies of loops: the work of one iteration of a statement, of a draft's or as it was lowered.

    sums[y, x] += image[y + k, x] * weights[k]      y in 4 written out, x in 16 lanes of 8, in a loop over k
    8 multiply-adds; 8 loads of image, 1 of weights; a chain of one multiply-add; 8 of 16 registers held, and what is read again

Sums that a loop does not move are kept in registers as far as there are any; the rest is loaded and stored for each term.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from math import prod

from ...base.dataclass import dataclass
from ...codegen.machine import Machine
from ...ir.analysis.count import evaluate_count, product
from ...ir.analysis.footprint import Access, access_box
from ...ir.combine import FUSED
from ...ir.expr import BufferLoad, Call, Expr, Max, Min, ProducerLoad, Var
from ...ir.visit import children, post_order
from ..loop_nest import Body
from .instructions import (
    NEAR,
    Work,
    chain_links,
    classify_access,
    count_instructions,
    count_vectors,
    distinct_elements,
    instruction_class,
)

__all__ = ["SCRATCH", "Site", "assemble_body"]

Load = BufferLoad | ProducerLoad
SCRATCH = 2
"""Registers for what is neither a sum nor read more than once, where all terms are written out."""


@dataclass(frozen=True, eq=False)
class Site:
    """The loops around and inside of a body. written_out, lanes: the loops in it, the outermost first, each with the values
    that it takes. around: the variables that the loop around moves. addresses: vectors of places that are kept in registers."""

    machine: Machine
    written_out: Mapping[Var, int]
    lanes: Mapping[Var, int]
    around: Collection[Var] = ()
    addresses: int = 0


def assemble_body(
    values: Sequence[Expr],
    works: Sequence[Work],
    stored: Access | None,
    lies: Callable[[Load], Access | None],
    site: Site,
    accesses: tuple[Access, ...],
    inner: tuple[tuple[Var, int], ...],
    rows: Mapping[Var, int] | None = None,
    own: Load | None = None,
    carried: bool = True,
) -> Body:
    """The body of a statement.

    works: of its values. stored: how the lanes of what it stores lie, None where that stays in registers; lies: the same of loads.
    accesses: what it touches in memory, in loops `inner`. own: the load of the sum that the statement takes up a term of, which is
    kept in registers for each of `rows`, those written out over data. carried: whether the next iteration takes up more terms of the
    same sums; else all of them are written out.
    """
    count = count_instructions(works, site.machine, site.written_out, site.lanes, site.around, lies)
    if stored is not None:
        _add(count, _stores(stored, site))
    if own is None or rows is None:
        return Body(count, accesses, inner)  # without terms nothing is carried from iteration to iteration
    machine, sums = site.machine, prod(rows.values())
    loads = [work.load for work in works if work.load is not None and work.load is not own]
    if not carried:  # all terms written out: sums need no register between iterations
        _add(count, _reloads([read for load in loads if (read := lies(load)) is not None], sums, site, rows))
        return Body(count, accesses, inner)
    links = prod(trips for axis, trips in site.written_out.items() if axis not in rows)
    width, values_of_lanes = machine.lanes(own.dtype.bits), prod(site.lanes.values())
    # a vector that is not full is stored by masks, or by parts
    apart = bool(site.lanes) and values_of_lanes % width > 0 and not machine.masks
    if apart:  # sums that fill no registers stay in memory
        full = sums * (values_of_lanes // width)
        _add(count, {"load": full, "store": full, "masked": 2 * sums})
    spilled = max(_count_registers(values, loads, own, lies, site, rows) - machine.registers, 0)
    if spilled:  # sums that are kept in memory
        count["load"] += spilled * links
        count["store"] += spilled * links
    # the sum waits for its own instruction of the iteration before
    name, waiting = _waiting(values[0], own, site.machine)
    return Body(count, accesses, inner, (name, links * waiting), links if spilled else int(apart))


def _add(count: defaultdict[str, float], more: Mapping[str, float]) -> None:
    for name, many in more.items():
        count[name] += many


def _reloads(reads: Sequence[Access], sums: int, site: Site, rows: Mapping[Var, int]) -> Mapping[str, float]:
    """The loads and stores of what has no register where all terms of the sums are written out, one sum after the other: of sums,
    and of what the next sum reads again."""
    registers, tile = site.machine.registers, site.written_out
    row, places = max(rows.items(), key=lambda each: each[1], default=(None, 1))
    again = 0
    for read in reads:
        many = distinct_elements(read, tile)
        if row is None or not read.step(row):
            again += many
        elif places > 1:
            again += (
                sum(distinct_elements(read, {**tile, row: part}) for part in (places // 2, places - places // 2)) - many
            )  # half of the rows are done before the other half is loaded
    held = sums + SCRATCH
    spilled = max(held - registers, 0)
    return {"load": max(held + again - registers, 0) * (sums - 1) + spilled, "store": spilled}


def _stores(stored: Access, site: Site) -> Mapping[str, float]:
    """The instructions that store a result for each value of the loops in a body."""
    times = prod(trips for axis, trips in site.written_out.items() if stored.step(axis))
    name, many = classify_access(stored, site.lanes, site.machine)
    apart = {abs(stored.step(axis)) for axis in site.lanes} if stored.indices is not None else set[int]()
    if name == "gather" and any(
        stored.step(axis) == 1 and {trips} == apart and 1 < trips < NEAR for axis, trips in site.written_out.items()
    ):  # components of an element, whose lanes are interleaved; four fill vectors of their own as declared
        return {"store": times * many, "shuffle": times * many * max(apart)}
    if name == "gather":  # lanes taken out and stored one by one
        lanes = prod(site.lanes.values())
        return {"shuffle": times * lanes, "put": times * lanes}
    return {name: times * many}


def _waiting(value: Expr, own: Load, machine: Machine) -> tuple[str, int]:
    """The class of the instruction that a sum waits for, and how many of them wait for each other."""
    if isinstance(value, Call) and value.name in FUSED:
        return "fma", 1
    depends: dict[int, bool] = {}
    last, links = "add", 0
    for node in post_order(value):
        depends[id(node)] = node is own or any(depends[id(child)] for child in children(node))
        if depends[id(node)] and node is not own and (name := instruction_class(node)):
            last, links = name, links + chain_links(node, machine)
    return last, max(links, 1)  # the last instruction of the chain is what is waited for


def _count_registers(
    values: Sequence[Expr],
    loads: Sequence[Load],
    own: Load,
    lies: Callable[[Load], Access | None],
    site: Site,
    rows: Mapping[Var, int],
) -> int:
    """The registers that a step takes: its sums, what they are made of, and what the next row reads again."""
    machine, lanes, tile = site.machine, site.lanes, site.written_out
    many = count_vectors(lanes, lanes, machine.lanes(own.dtype.bits))
    sums = prod(rows.values())
    along: list[int] = []
    alone: list[int] = []
    shared = 0
    for load in loads:
        access = lies(load)
        if access is None:
            continue
        axes = {axis for axis in (*tile, *lanes) if access.step(axis)}
        # vectors along the lanes, or one value for all of them
        (along if not axes.isdisjoint(lanes) else alone).append(_reuse(axes, list(rows.items())))
        shared += _overlap(access, tile, lanes, rows)
    vectors = many * (sums + max(1, sum(along)) + _scratch(values, own))
    return vectors + max(1, sum(alone), shared) + site.addresses


def _reuse(axes: Collection[Var], rows: Sequence[tuple[Var, int]]) -> int:
    """Elements, or vectors, of a load that stay in registers while the rows of a tile are written out, the first outermost: those
    that the next value of a row further out reads again."""
    count, again = 1, False
    for axis, size in rows:
        if axis not in axes:
            again = True
        elif again:  # values that the next row reads again stay
            count *= size
    return count


def _overlap(access: Access, tile: Mapping[Var, int], lanes: Mapping[Var, int], rows: Collection[Var]) -> int:
    """Elements of a tile that a window reads where its next term reads most of them too; 0 where each term takes its own."""
    own: dict[Var, int] = {axis: size for axis, size in tile.items() if access.step(axis)}
    if any(access.step(axis) for axis in lanes):
        return 0
    # of places some steps apart the box has what lies between them, too
    touched = evaluate_count(product(access_box(access, own)))
    if not touched or touched >= prod(own.values()):  # each term reads other elements
        return 0
    return prod(size for axis, size in own.items() if axis in rows)


def _scratch(values: Sequence[Expr], own: Load) -> int:
    """Registers for what operators make of each vector: two where signs are looked at, by a constant or in both orders; none where
    elements are multiplied alone."""
    value = values[0]
    if isinstance(value, Call) and value.name in FUSED:
        plain = all(isinstance(factor, (BufferLoad, ProducerLoad)) for factor in value.args if factor is not own)
        if plain:
            return 0
    signs = any(
        # min and max of floats are two instructions on most processors
        isinstance(node, (Min, Max)) or isinstance(node, Call) and node.name == "abs"
        for node in post_order(*values)
    )
    return 2 if signs else 1
