"""A matrix product in six steps, from the declaration alone to what hand-tuned libraries do: the first half of the demo."""

from __future__ import annotations

from collections.abc import Callable

from .. import te
from ..base.dataclass import dataclass
from ..codegen.machine import find_machine
from ..codegen.target import Target
from ..schedule import Schedule

DEPTH = 4
"""How far the reduction is split."""


@dataclass(frozen=True)
class Tile:
    """Register tile: the elements of C that are summed up at a time."""

    rows: int
    columns: int


def register_tile(target: str = "llvm") -> Tile:
    """Rows of two vectors, whose sums take half of a machine's registers: the rest holds what they are made of."""
    machine = find_machine(Target.parse(target))
    return Tile(machine.registers // 4, 2 * machine.lanes(32))


@dataclass(frozen=True)
class Step:
    """A schedule and the tensors of its function."""

    schedule: Schedule
    args: list[te.Tensor]


def naive(size: int) -> Step:
    """The declaration alone: three loops, the sum innermost."""
    a, b, c = declare(size)
    return Step(te.create_schedule(c), [a, b, c])


def schedule_blocks(size: int) -> Step:
    """Tiles of C, so that what is loaded is used more than once; the reduction outside the tile's own loops."""
    a, b, c = declare(size)
    s = te.create_schedule(c)
    row, column, row_in, column_in = s[c].tile(c.op.axis[0], c.op.axis[1], 32, 32)
    (k,) = c.op.reduce_axis
    k_out, k_in = s[c].split(k, DEPTH)
    s[c].reorder(row, column, k_out, k_in, row_in, column_in)
    return Step(s, [a, b, c])


def vectorized(size: int) -> Step:
    """The tile's innermost loop as vectors."""
    a, b, c = declare(size)
    s = te.create_schedule(c)
    row, column, row_in, column_in = s[c].tile(c.op.axis[0], c.op.axis[1], 32, 32)
    (k,) = c.op.reduce_axis
    k_out, k_in = s[c].split(k, DEPTH)
    s[c].reorder(row, column, k_out, k_in, row_in, column_in)
    s[c].vectorize(column_in)
    return Step(s, [a, b, c])


def packed(size: int, tile: Tile | None = None) -> Step:
    """B rearranged into panels as wide as the tile, so that the inner loop reads it without a gap."""
    tile = tile or register_tile()
    a, b, panels, c = declare_packed(size, tile)
    s = te.create_schedule(c)
    row, column, row_in, column_in = s[c].tile(c.op.axis[0], c.op.axis[1], tile.rows, tile.columns)
    (k,) = c.op.reduce_axis
    s[c].reorder(column, row, k, row_in, column_in)
    s[c].vectorize(column_in)
    s[c].unroll(row_in)
    s[panels].vectorize(panels.op.axis[2])
    return Step(s, [a, b, c])


def schedule_cache(size: int, tile: Tile | None = None) -> Step:
    """The tile accumulates in a buffer of its own, which the compiler keeps in registers, and is written once."""
    tile = tile or register_tile()
    a, b, panels, c = declare_packed(size, tile)
    s = te.create_schedule(c)
    accumulate(s, panels, c, tile)
    return Step(s, [a, b, c])


def parallel(size: int, tile: Tile | None = None) -> Step:
    """Panels over the threads."""
    tile = tile or register_tile()
    a, b, panels, c = declare_packed(size, tile)
    s = te.create_schedule(c)
    outermost = accumulate(s, panels, c, tile)
    s[c].parallel(outermost)
    s[panels].parallel(panels.op.axis[0])
    return Step(s, [a, b, c])


def accumulate(s: Schedule, panels: te.Tensor, c: te.Tensor, tile: Tile) -> te.IterVar:
    """Tiles C over a cache in registers; returns the outermost loop."""
    sums = s.cache_write(c, "local")
    row, column, row_in, column_in = s[c].tile(c.op.axis[0], c.op.axis[1], tile.rows, tile.columns)
    s[c].reorder(column, row, row_in, column_in)
    s[c].vectorize(column_in)
    s[sums].compute_at(s[c], row)
    (k,) = sums.op.reduce_axis
    sums_row, sums_column = sums.op.axis
    s[sums].reorder(k, sums_row, sums_column)
    s[sums].unroll(sums_row)
    s[sums].vectorize(sums_column)
    s[panels].vectorize(panels.op.axis[2])
    return column


def declare(size: int) -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    """C = A B for square float32 matrices."""
    a = te.placeholder((size, size), name="A")
    b = te.placeholder((size, size), name="B")
    k = te.reduce_axis((0, size), name="k")
    return a, b, te.compute((size, size), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")


def declare_packed(size: int, tile: Tile) -> tuple[te.Tensor, te.Tensor, te.Tensor, te.Tensor]:
    """C = A B through B's panels."""
    a = te.placeholder((size, size), name="A")
    b = te.placeholder((size, size), name="B")
    panels = te.compute(
        (size // tile.columns, size, tile.columns),
        lambda panel, k, lane: b[k, panel * tile.columns + lane],
        name="panels",
    )
    k = te.reduce_axis((0, size), name="k")
    c = te.compute(
        (size, size), lambda i, j: te.sum(a[i, k] * panels[j // tile.columns, k, j % tile.columns], axis=k), name="C"
    )
    return a, b, panels, c


STEPS: dict[str, Callable[[int], Step]] = {
    "naive": naive,
    "blocked": schedule_blocks,
    "vectorized": vectorized,
    "packed": packed,
    "cached": schedule_cache,
    "parallel": parallel,
}
"""In the order of the demo, by the names that it prints."""
