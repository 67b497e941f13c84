"""Cycles of tiles of chains, by which they are told apart before one is drafted: vectors that are computed, and moved through a cache.

Hundreds of tiles are looked at each time that a stage is asked to join, of stages that are in no schedule yet.
"""

from __future__ import annotations

from collections import Counter
from math import prod

from ...codegen.machine import Machine
from ...ir import EQ, GE, GT, LE, LT, NE, Expr, IfThenElse, ProducerLoad, Select, post_order
from ...ir.analysis.linear import is_index
from ...te.operation import Operation
from ...te.shape import constant_extent
from .cpu import ROOM, operator_cycles
from .instructions import list_work

__all__ = [
    "CUT_ROWS",
    "ROW",
    "WORTH",
    "element_cycles",
    "is_recomputed",
    "load_cycles",
    "moving_cycles",
    "share_tiles",
    "store_cycles",
    "tap_product",
    "vector_cycles",
]

ROW = 10.0
"""Cycles of what begins a row."""
CUT_ROWS = 1.25
"""The cost of rows that are cut: each piece of them is looked at for where they end, and what is fetched ahead of it is of no use."""
WORTH = 1.15
"""Times its cost apart that a stage may cost in the chain when it joins: of all the ways, apart too, one is chosen later."""
INLINED = 1.25
"""Times as long as a store and its loads that it may take to compute a vector again: what is stored goes through a cache."""
TASKS, SMALL = 2, 1e5
"""Tiles for each thread at least, of what takes more than so many cycles."""


def tap_product(op: Operation) -> int:
    """The terms of a window."""
    return prod(constant_extent(axis) or 1 for axis in op.reduce_axis)


def _work(op: Operation, machine: Machine) -> tuple[Counter[str], int]:
    """The instructions of an element by their classes, and its loads, in all taps of its window."""
    taps, reduction = tap_product(op), op.reduction
    works = list_work(op.values if reduction is None else reduction.sources, machine)
    count = Counter(name for work in works if not _asks_for_place(work.node) for name in work.classes)
    return Counter({name: many * taps for name, many in count.items()}), taps * sum(
        work.load is not None for work in works
    )


def _asks_for_place(node: Expr) -> bool:
    """Return whether a node tells borders apart, which loops do."""
    if isinstance(node, (IfThenElse, Select)):
        return not any(isinstance(each, ProducerLoad) for each in post_order(node.condition))
    return isinstance(node, (EQ, NE, LT, LE, GT, GE)) and is_index(node.a) and is_index(node.b)


def element_cycles(op: Operation, machine: Machine) -> float:
    """Cycles of the operators of a vector of an operation."""
    return operator_cycles(_work(op, machine)[0], machine)


def vector_cycles(op: Operation, machine: Machine) -> float:
    """Cycles of a vector of it, which is stored."""
    count, loads = _work(op, machine)
    return max(operator_cycles(count, machine), loads * load_cycles(machine)) + store_cycles(machine)


def store_cycles(machine: Machine) -> float:
    """Cycles of a vector that is stored."""
    return 1 / machine.instructions.store.rate


def load_cycles(machine: Machine) -> float:
    """Cycles of a vector that is loaded."""
    return 1 / machine.instructions.load.rate


def is_recomputed(op: Operation, again: float, times: int, is_masked: bool, machine: Machine) -> bool:
    """Return whether it costs less to compute a vector so many times more than to store it, and to load it `times`. is_masked: parts
    of vectors are loaded."""
    masked = 1 / machine.instructions.masked.rate if is_masked else 0.0
    stored = store_cycles(machine) + times * load_cycles(machine)
    return again <= 0 or again * (element_cycles(op, machine) + masked) <= INLINED * stored


def moving_cycles(vectors: float, machine: Machine) -> float:
    """Cycles for a vector of so many that are stored together, which goes there and comes back."""
    size = vectors * machine.vector_bytes
    rate = next(level.rate for level in machine.levels if size <= level.size * ROOM)
    return machine.vector_bytes / rate * (1 + machine.write)


def share_tiles(cycles: float, tiles: int, machine: Machine) -> float:
    """Weigh the cycles of a number of tiles by how evenly threads share them."""
    return cycles if cycles < SMALL else cycles * max(1.0, TASKS * machine.cores / tiles) ** 0.25
