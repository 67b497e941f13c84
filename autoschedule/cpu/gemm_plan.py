"""Loop nests of matrix products: the register tile, the depth of a block, packing, and the tasks.

Pure functions of sizes and the machine. The tasks of a tile are told apart by cycles for one step along the sum, of the whole product,
as the cost has them (cost/cpu.py). A matrix B that a core's caches do not keep comes from beyond them once for each task that reads it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import ceil, gcd

from ...base import dataclass, replace
from ...codegen.machine import WAYS, Machine, RegisterTile, register_tiles
from ..accesses import ASSUMED
from ..cost.cpu import copy_cycles, fetch_cycles, tile_cycles
from .lanes import LONG
from .threads import TASKS

__all__ = ["Plan", "Product", "grid", "group_panels", "packings", "plans"]

WORTH_THREADS = 1 << 19
"""Multiply-adds, of which a processor makes several times as many as other operators, below which one thread is done before others
are awake."""


@dataclass(frozen=True)
class Product:
    """Sizes of batch x (m, k) x (k, n), 0 where the call decides. bits: of an element of B and of the sums; stride:
    elements between rows of B; scattered: whether the columns of B do not lie side by side, or are computed as they are
    read, so that B has to be packed; in_place: whether it must not be, because it is packed already."""

    m: int
    n: int
    k: int
    batch: int = 1
    bits: int = 32
    stride: int = 0
    scattered: bool = False
    in_place: bool = False
    columns: int = 0
    """The width of a panel that is given."""


@dataclass(frozen=True)
class Plan:
    """Plan of a matrix product on a CPU.

    tile: rows and columns of C in registers. depth: how much of the sum is taken before the next rows, 0 for all of it,
    so that the tile is finished in registers. packed: whether a panel of B is copied first. row_tiles, panels: what a task
    has of them, 0 where a task is a panel because the call decides on their number. parallel: whether tasks go to threads.
    together: whether all panels of a task are copied first, and tiles of rows go over all of them: rows of B and of the result
    come and go in runs that are as long as the task is wide.
    """

    tile: RegisterTile
    depth: int
    packed: bool
    row_tiles: int
    panels: int
    parallel: bool
    together: bool = False

    def __str__(self) -> str:
        tile = f"tile {self.tile.rows} x {self.tile.columns}{f' x {self.depth}' if self.depth else ''}"
        task = f", {self.row_tiles} x {self.panels} a task" if self.row_tiles else ""
        packed = ", packed together" if self.together else ", packed" if self.packed else ""
        return f"{tile}{packed}{task}{'' if self.parallel else ', one thread'}"


def packings(product: Product) -> tuple[tuple[bool, bool], ...]:
    """The ways to read B: packed or where it lies; and whether its rows lie apart, so that a block of them takes more of a cache, or are
    in blocks as short as if they did."""
    ways = (True, False), (True, True), (False, True)
    return ways[2:] if product.in_place else ways[:2] if product.scattered else ways


def group_panels(usual: Plan, product: Product, machine: Machine) -> Plan | None:
    """The same with as many panels together as an eighth of the second cache holds, where results are as well; None where that is
    one, they are no copies, or the call decides on their number."""
    if not usual.row_tiles:
        return None
    columns = ceil(product.n / usual.tile.columns)
    fits = machine.l2 // 8 // (usual.tile.columns * (product.k or ASSUMED) * product.bits // 8)
    wide = min(fits, ceil(columns / (TASKS * machine.cores)) if usual.parallel else columns)
    if not usual.packed or wide < 2:
        return None
    return replace(usual, depth=0, row_tiles=ceil(product.m / usual.tile.rows), panels=wide, together=True)


@lru_cache(maxsize=256)  # a network has many layers of one size
def plans(product: Product, machine: Machine, packed: bool, apart: bool) -> tuple[Plan, ...]:
    """The ways there are with B packed or not, in blocks as of rows apart or not: every tile with the tasks that suit it best, that of the
    fewest cycles first; and after those what differs from one of them in a single thing: the sum in blocks or not, one thread or many,
    other tasks."""
    sized = Product(
        product.m or ASSUMED,
        product.n or ASSUMED,
        product.k or ASSUMED,
        product.batch or 1,
        product.bits,
        product.stride,
        product.scattered,
        product.in_place,
        product.columns,
    )
    work = sized.m * sized.n * sized.k * sized.batch
    threads = machine.cores if work >= WORTH_THREADS else 1
    found: list[tuple[float, Plan]] = []
    for tile in _tiles(sized, machine):
        depth = _depth(sized, tile, apart, machine)
        most_rows = max(machine.l2 // 4 // (tile.columns * sized.bits // 8) // tile.rows, 1) if depth else 1 << 30
        row_tiles, panels, cost = grid(sized, tile, threads, packed, machine, most_rows)
        serial = grid(sized, tile, 1, packed, machine, most_rows)[2]
        found.append((cost * threads + serial, Plan(tile, depth, packed, row_tiles, panels, threads > 1)))
    ways = [each for _, each in sorted(found, key=lambda pair: pair[0])]
    if not product.m or not product.n:
        return tuple(dict.fromkeys(replace(each, depth=0, row_tiles=0, panels=0, parallel=True) for each in ways))
    return tuple(dict.fromkeys((*ways, *(other for each in ways for other in _vary_plan(each, sized, machine.cores)))))


def _vary_plan(usual: Plan, product: Product, cores: int) -> Iterator[Plan]:
    """Plans that differ from one in a single thing; in their tasks only where threads share them."""
    rows, columns = ceil(product.m / usual.tile.rows), ceil(product.n / usual.tile.columns)
    if usual.depth:
        yield replace(usual, depth=0)
    elif product.k > LONG:
        yield replace(usual, depth=-(-ceil(product.k / 2) // 8) * 8)
    if cores > 1:
        yield replace(usual, parallel=not usual.parallel)
    if not usual.parallel:
        return
    for row_tiles, panels in (
        (1, columns),
        (rows, 1),
        (ceil(usual.row_tiles / 2), usual.panels),
        (usual.row_tiles, ceil(usual.panels / 2)),
        (min(2 * usual.row_tiles, rows), usual.panels),
        (usual.row_tiles, min(2 * usual.panels, columns)),
    ):
        yield replace(usual, row_tiles=row_tiles, panels=panels)


def _tiles(product: Product, machine: Machine) -> Iterator[RegisterTile]:
    """Return the candidate tiles, no larger than the product, best first."""
    lanes = machine.lanes(product.bits)
    for tile in register_tiles(machine, product.bits):
        if product.columns:
            vectors = ceil(product.columns / lanes)
            yield RegisterTile(
                max(min(tile.rows, (machine.registers - vectors - 1) // vectors), 1), vectors, product.columns
            )
            return
        if tile.vectors == 1 or (tile.vectors - 1) * lanes < product.n:
            yield RegisterTile(min(tile.rows, product.m), tile.vectors, tile.columns)


def _depth(product: Product, tile: RegisterTile, apart: bool, machine: Machine) -> int:
    """Return the greatest depth of a block of B that stay in the second cache, which is half its own; 0 where that is all of it."""
    row = tile.columns * product.bits // 8
    most = machine.l2 // 2 // row
    if apart and product.stride > tile.columns and not product.in_place:
        way, step = machine.l2 // WAYS, product.stride * product.bits // 8
        places = way // gcd(step, way) if gcd(step, way) >= row else way // row  # rows that lie apart in the cache
        most = min(most // 2, WAYS * places)
    if product.k <= most or product.m <= tile.rows:
        return 0
    blocks = ceil(product.k / max(most if apart else most // 2, 64))
    return -(-ceil(product.k / blocks) // 8) * 8


def grid(
    product: Product,
    tile: RegisterTile,
    threads: int,
    packed: bool,
    machine: Machine,
    most_rows: int = 1 << 30,
) -> tuple[int, int, float]:
    """(row tiles, panels) of a task, and the cycles of a step of the thread with the most to do. Each task fetches and packs B anew.

    most_rows: row tiles that a task may have. All splits are looked at that give each thread about one to four tasks.
    """
    element = product.bits // 8
    fetch, copy = element * fetch_cycles(product.n * product.k * element, machine), packed * copy_cycles(machine)
    rows, columns = ceil(product.m / tile.rows), ceil(product.n / tile.columns)
    best: tuple[float, float, int, int] | None = None
    for parts in range(ceil(rows / most_rows), min(rows, max(threads * TASKS, ceil(rows / most_rows))) + 1):
        row_tiles = ceil(rows / parts)
        for many in {ceil(number * threads / parts / product.batch) for number in range(1, TASKS + 1)} | {1, columns}:
            panels = ceil(columns / min(max(many, 1), columns))
            tasks = ceil(rows / row_tiles) * ceil(columns / panels) * product.batch
            task = _cycles(product, tile, row_tiles, panels, machine)
            task += copy * tile.vectors * panels + fetch * min(panels * tile.columns, product.n)
            work = ceil(tasks / threads) * task
            coarse = 1 / min(tasks, threads * TASKS) if threads > 1 else tasks
            if best is None or (work, coarse) < best[:2]:
                best = work, coarse, row_tiles, panels
    if best is None:  # nothing to compute
        return 1, 1, 0.0
    return best[2], best[3], best[0]


def _cycles(product: Product, tile: RegisterTile, row_tiles: int, panels: int, machine: Machine) -> float:
    """One step along the sum of a task: whole tiles, the last of which may be cut where the product ends."""
    rows = min(row_tiles * tile.rows, product.m)
    columns = min(panels * tile.columns, product.n)
    whole_rows, rest_rows = divmod(rows, tile.rows)
    whole_columns, rest_columns = divmod(columns, tile.columns)
    heights = [(tile.rows, whole_rows), (rest_rows, 1 if rest_rows else 0)]
    widths = [
        (tile.vectors, whole_columns),
        (ceil(rest_columns / machine.lanes(product.bits)), 1 if rest_columns else 0),
    ]
    return sum(a * b * tile_cycles(r, v, machine) for r, a in heights for v, b in widths if a * b)
