"""Products by instructions that take several small numbers at once: 4 bytes, or 2 of bfloat16.

    x.taken = x as the instruction wants it                          # signs, and zeros behind the last column
    for task (rows, panels of weights; in parallel):
        for columns (a few panels):
            for rows (a few):
                sums = 0                                             # in registers
                for step of 4 bytes:  for row:  for panel:  sums += dot4(x.taken[row, step], packed[panel, step])
                y[rows, columns] = sums ...                          # with what follows element by element: scales, bytes

A panel of weights is read as it lies: sums run along all of k, which for bytes stays within the second cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import te
from ...codegen.machine import RegisterTile
from ...ir.expr import IterVar
from ...te.intrinsics.byte_units import DENSE_DOTS
from ...te.operation import Operation
from ...te.shape import constant_extent
from ..accesses import ASSUMED, op_loads
from ..loops import share_loops
from .gemm_plan import Product, grid
from .integer_dots import prepare_dots, register_tile
from .threads import worth_threads

if TYPE_CHECKING:
    from ..groups import Group

__all__ = ["dense_dots", "pack_dots"]


def dense_dots(group: Group) -> None:
    """The rule."""
    summed = prepare_dots(group, _take)
    if summed is None:
        return
    tile, row_tiles, panels, threads = _plan(group, summed)
    stage = group.s[group.output]
    i, j = stage.op.axis
    rows, i = stage.split(i, factor=tile.rows)
    columns, j = stage.split(j, factor=tile.columns)
    some_rows, rows = stage.split(rows, factor=row_tiles)
    some_columns, columns = stage.split(columns, factor=panels)
    stage.reorder(some_rows, some_columns, columns, rows, i, j)
    share_loops(stage, [some_rows, some_columns], threads)
    stage.vectorize(j)
    _sums(group, summed, rows)


def _sums(group: Group, op: Operation, at: IterVar) -> None:
    """The tile, within the loop `at` of the output."""
    s = group.s
    name, step = DENSE_DOTS[str(op_loads(op)[0].dtype)]
    sums = s[op]
    sums.set_scope("local")
    sums.compute_at(s[group.output], at)
    i, panel, lane = sums.op.axis
    k, inner = sums.split(sums.op.reduce_axis[0], factor=step)
    sums.reorder(k, i, panel, lane, inner)
    sums.unroll(i)
    sums.unroll(panel)
    sums.tensorize(lane, te.intrinsics.get(name))


def _plan(group: Group, op: Operation) -> tuple[RegisterTile, int, int, bool]:
    """The tile, how many of its rows and columns make a task, and whether tasks go to threads."""
    machine, axes = group.machine, (*group.anchor.axis, op.reduce_axis[0])
    m, n, k = (constant_extent(axis) or ASSUMED for axis in axes)
    tile = register_tile(machine, m, n, 1)  # the element of a row
    threads = machine.cores if worth_threads(axes, 1 / _step(op)) else 1
    row_tiles, panels, _ = grid(Product(m, n, k), tile, threads, False, machine)
    return tile, row_tiles, panels, threads > 1


def _step(op: Operation) -> int:
    """The terms that an instruction takes at once."""
    return DENSE_DOTS[str(op_loads(op)[0].dtype)][1]


def _take(group: Group, op: Operation) -> None:
    """x once for all tasks; where it is taken as it is, in place."""
    s = group.s
    (value,) = op.values
    load = op_loads(op)[0]
    if value is load and op.input_tensors[0].op.is_given:
        s[op].compute_inline()
        return
    stage = s[op]
    i, k = stage.op.axis
    _, k = stage.split(k, factor=group.machine.vector_bytes)
    stage.vectorize(k)
    if worth_threads(op.axis, load.dtype.bits / 32):
        stage.parallel(i)


def pack_dots(group: Group) -> None:
    """The rule of weights packed by a kernel: the numbers of an instruction together, panels over the threads."""
    s = group.s
    group.inline_heads()
    stage = s[group.output]
    *batch, panel, _, i, inner = stage.op.axis
    stage.parallel(stage.fuse(*batch, panel))
    stage.unroll(i)
    stage.vectorize(inner)
