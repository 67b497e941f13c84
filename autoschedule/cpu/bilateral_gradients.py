"""The gradients of slicing a bilateral grid, as te.gradient declares them: a row of pixels at a time.

    for y (parallel):                                    # what a row gives to the cells around it
        for j, z:
            for vectors of the pixels near cell j:  partial[o, c, lanes] += ...     # all coefficients in registers
            sums over lanes
    cells: sums over their rows
    for y (parallel):  for vectors of pixels:  the guide's gradient
    for y (parallel):  for vectors of pixels:  the coefficients again, and the image's gradient
    for y (parallel):  for vectors of pixels:  the coefficients again, and the slice, where it is wanted too

A head with further dimensions before those of the result gives a gradient for each of its elements along them: rows of
all of them are shared among the threads, and pixels take their coefficients once for all.

topi.schedule finds them by what they read (autoschedule/slice_gradients.py), whatever the tensors are called.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ...codegen.machine import machine_of
from ...codegen.target import Target
from ...ir.expr import IterVar
from ...schedule import Schedule, Stage, create_schedule
from ...te.operation import Operation
from ...te.shape import constant_extent
from ...te.tensor import Tensor
from ..slice_gradients import gradients_of_slices, roles_of
from .bilateral import coefficients, pixels
from .lanes import halves

if TYPE_CHECKING:
    from ..groups import Group

__all__ = ["bilateral_slice_gradients", "schedule_bilateral_gradients"]

MOST_BODIES = 32
"""Multiply-adds that are written out in a loop: more take longer to compile, and run no faster."""


def bilateral_slice_gradients(group: Group) -> None:
    """The rule."""
    _schedule(group.s, roles_of((*group.parts, group.anchor)), group.machine.lanes(group.anchor.output(0).dtype.bits))


def schedule_bilateral_gradients(gradients: Sequence[Tensor], target: str | Target = "llvm") -> Schedule:
    """A schedule for `te.gradient(bilateral_slice(grid, guide, image), [grid, guide, image], head)`, or some of the three:
    what topi.schedule makes of them, where whatever else there is stays as it was declared."""
    s = create_schedule([tensor.op for tensor in gradients])
    lanes = machine_of(Target.parse(target)).lanes(gradients[0].dtype.bits)
    for gradients_of_one in gradients_of_slices([stage.op for stage in s.stages], s.outputs):
        _schedule(s, roles_of(gradients_of_one), lanes)
    return s


def _schedule(s: Schedule, ops: Mapping[str, Operation], lanes: int) -> None:
    for name in ("ones", "grad_affine", "near"):
        if name in ops:
            s[ops[name]].compute_inline()
    if "rows" in ops:
        _flat(s, ops["around"], 2)
        _flat(s, ops["rows"], 1)
    if "grad_grid" in ops:
        _grid(s, ops, lanes)
    if "grad_guide" in ops:
        _guide(s, ops, lanes)
    if "slice" in ops:
        _slice(s, ops, lanes)
    if "grad_image" in ops:
        _image(s, ops, lanes)


def _flat(s: Schedule, op: Operation, at: int, more: int = 0) -> None:
    """Threads over the first axis, lanes over those from `at` on. more: axes of the head's that stand before the first."""
    stage = s[op]
    stage.vectorize(stage.fuse(*stage.op.axis[more + at:]))
    _shared(stage, stage.op.axis[:more + 1])


def _shared(stage: Stage, axes: Sequence[IterVar]) -> None:
    """Threads over these axes, the first ones of a stage."""
    stage.parallel(stage.fuse(*axes) if len(axes) > 1 else axes[0])


def _grid(s: Schedule, ops: Mapping[str, Operation], lanes: int) -> None:
    rows = ops["grad_rows"]
    _, lane = s[rows].split(rows.reduce_axis[0], factor=lanes)
    partial = s[s.rfactor(rows.output(0), lane, -1)]
    sums = halves(s, rows, s[rows].op.reduce_axis[0])
    *heads, y, _, z, o, c = s[rows].op.axis
    _shared(s[rows], [*heads, y])
    for axis in (o, c):
        s[rows].unroll(axis)
    for stage in (partial, *sums):
        stage.compute_at(s[rows], z)
        *outer, o, c, lane = stage.op.axis
        stage.reorder(*outer, *stage.op.reduce_axis, o, c, lane)
        stage.unroll(o)
        stage.unroll(c)
        stage.vectorize(lane)
    for name in ("grad_around_0", "grad_around_1"):
        if name in ops:
            stage = s[ops[name]]
            i, j, *flat = stage.op.axis[len(heads):]
            inner = stage.fuse(*flat)
            stage.reorder(i, j, *stage.op.reduce_axis, inner)
            stage.vectorize(inner)
            _shared(stage, stage.op.axis[:len(heads) + 1])
    if "grad_around" in ops and "grad_around_0" in ops:
        s[ops["grad_around"]].compute_inline()
    _flat(s, ops["grad_grid"], 2, len(heads))


def _guide(s: Schedule, ops: Mapping[str, Operation], lanes: int) -> None:
    guide = ops["grad_guide"]
    sums = s[s.cache_write(guide.output(0), "local")]
    stage = s[guide]
    *rows, x = stage.op.axis
    vector, lane = stage.split(x, factor=lanes)
    _shared(stage, rows)
    stage.vectorize(lane)
    sums.compute_at(stage, vector)
    _sum(sums, sums.op.reduce_axis, ())
    near = s[ops["grad_near"]]
    near.compute_at(stage, vector)
    *_, z, y, _ = near.op.axis
    near.reorder(y, z)
    _sum(near, near.op.reduce_axis, (z,))


def _slice(s: Schedule, ops: Mapping[str, Operation], lanes: int) -> None:
    """The slice itself, beside its gradients. Of its coefficients, which are too many to be stored, the gradient of the image
    makes others."""
    result, affine = ops["slice"], ops["affine"]
    mine: Operation = s.clone_in(affine.output(0), [result]).op if "grad_image" in ops else affine
    pixels(s, result, s.cache_write(result.output(0), "local").op, mine, lanes, threads=True)


def _image(s: Schedule, ops: Mapping[str, Operation], lanes: int) -> None:
    stage = s[ops["grad_image"]]
    *heads, c, y, x = stage.op.axis
    vector, lane = stage.split(x, factor=lanes)
    stage.reorder(y, vector, *heads, c, lane)
    stage.parallel(y)
    stage.unroll(c)
    stage.vectorize(lane)
    ones = s[ops["grad_ones"]]
    ones.compute_at(stage, heads[-1] if heads else vector)
    *_, c, y, _ = ones.op.axis
    ones.reorder(y, c)
    _sum(ones, ones.op.reduce_axis, (c,))
    coefficients(s[ops["affine"]])
    s[ops["affine"]].compute_at(stage, vector)


def _sum(stage: Stage, reduced: Sequence[IterVar], tile: Sequence[IterVar]) -> None:
    """A sum in registers: the tile unrolled, and as many of the reduced axes, from the last, as MOST_BODIES allow; the last
    axis is lanes."""
    lane = stage.op.axis[-1]
    stage.reorder(*reduced, *tile, lane)
    bodies = 1
    for axis in reversed((*reduced, *tile)):
        bodies *= constant_extent(axis) or 1
        if axis in tile or bodies <= MOST_BODIES:
            stage.unroll(axis)
    stage.vectorize(lane)
