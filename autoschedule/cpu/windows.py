"""Windows whose sums stay in registers: lanes along rows of the result, several neighbours along another axis computed together, so
that what is read for one is used for those around it.

    for others (in parallel):
        image = ...                              # what windows read around each place, for the task; or it is inlined
        for vectors of a row:                    # written out where there are few, and masks of some: these are then constants
            for y.outer:
                for y.inner in ROWS (unrolled):  for taps (unrolled):  sums[y.inner, lanes] += image[...] * weights[...]
                result[y.inner, lanes] = sums[y.inner, lanes] ...

Of what tag a program is makes no difference: windows are known by what they read (see chain_plan.is_window).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import ceil
from typing import TYPE_CHECKING

from ...base.dataclass import dataclass
from ...ir import IfThenElse, IterVar, post_order
from ...schedule import Stage
from ...schedule.model.inlining import expand_inlined
from ...te.operation import Operation
from ...te.rewrite import collect_loads, inline
from ...te.shape import constant_extent
from ..accesses import ASSUMED, find_axes
from ..cost.chains import tap_product
from ..cost.cpu import Lines
from ..cost.doubts import WINDOWS_APART, WINDOWS_BEGUN, WINDOWS_FAR
from ..cost.estimate import Estimate, pad_estimate
from ..drafts.draft import Drafts
from ..forms.window import is_sliding, is_window
from ..loops import fuse_axes, unroll_loops
from ..operations import LIGHT, weight
from ..plan import Candidate
from .chain_plan import ends_within_vectors
from .lanes import VECTORS, floor_power
from .sum_plan import MOST_OPERATORS
from .threads import worth_threads

if TYPE_CHECKING:
    from ..groups import Group

__all__ = ["time_of_images", "window_ways"]

ROWS = (4, 8, 6, 3, 2, 1)
"""Places computed together, of those that take about as long the first."""
MOST_GUARDED = 150
"""Taps of all places together that are written out where guards make several copies of them, at borders and within."""


@dataclass(frozen=True)
class WindowPlan:
    """Plan of a reduction over windows.

    rows: how many places along the data axis `along` of the result are computed together. stored: whether what windows read
    around each place is stored for each task, rather than computed wherever it is read.
    """

    along: int
    rows: int
    stored: bool

    def describe(self, axis: IterVar) -> str:
        return (
            f"windows of {self.rows} places of {axis.name} in registers{', their image stored' if self.stored else ''}"
        )


def window_ways(group: Group, parts: Sequence[Operation]) -> list[Candidate]:
    """The ways to compute a group whose output is a window, or takes windows up element by element, with its parts; none where it
    is anything else. parts: what is neither inlined nor placed yet, producers first."""
    sums, images = _sums_and_images(group, parts)
    axes = group.s[group.output].op.axis
    if not sums or len(axes) < 2 or any(constant_extent(axis) == 0 for axis in axes):
        return []
    ways: list[Candidate] = []
    drafts, lines, guarded = Drafts(), Lines(), _guarded_axes(group, sums, images)
    for plan in _plans(group, sums, images, guarded):
        time = group.draft(lambda own, plan=plan: _apply(own, sums, images, plan), drafts, lines)
        time = pad_estimate(time, _unforeseen(group, plan, guarded))
        ways.append(Candidate(plan.describe(axes[plan.along]), partial(_apply, group, sums, images, plan), time))
    return ways


def time_of_images(group: Group, images: Sequence[Operation]) -> Estimate:
    """The time of what windows read around each place, stored before them."""

    def store(own: Group) -> None:
        for image in images:
            _schedule_image(own, own.s[image])

    return group.draft(store, Drafts(), Lines(), images)


def _unforeseen(group: Group, plan: WindowPlan, guarded: set[int]) -> float:
    """The part of the time of windows that is not foreseen."""
    axes = group.s[group.output].op.axis
    far = any(constant_extent(axis) != 1 for axis in axes[plan.along + 1 : -1])
    apart = not plan.stored and len(axes) - 1 in guarded and not group.machine.masks
    return WINDOWS_BEGUN / plan.rows + WINDOWS_FAR * far + WINDOWS_APART * apart


def _guarded_axes(group: Group, sums: Sequence[Operation], images: Sequence[Operation]) -> set[int]:
    """The axes of the output, by their places, that guards ask for in what windows read, images inlined."""
    s = group.s
    places: set[int] = set()
    for op in sums:
        value = expand_inlined(s[s[op].op])
        for image in reversed(images):
            now = s[image].op
            value = inline(value, image.output(0), now.axis, expand_inlined(s[now]))
        axes = s[op].op.axis
        for node in post_order(value):
            if isinstance(node, IfThenElse):
                places.update(axes.index(axis) for axis in find_axes(node.condition) if axis in axes)
    return places


def _plans(group: Group, sums: Sequence[Operation], images: Sequence[Operation], guarded: set[int]) -> list[WindowPlan]:
    """The plans worth estimating: along axes that windows slide along, where there are such beside the lanes'. Where guards ask for an
    axis that is one of several that make up tasks, they would stay around every tap: such are left out, unless all are."""
    taps, axes = max(map(tap_product, sums)), group.s[group.output].op.axis
    held = [True] if any(weight(image) > LIGHT for image in images) else [False]
    if held == [False] and any(map(partial(ends_within_vectors, machine=group.machine), images)):
        held = [False, True]
    plans: dict[WindowPlan, bool] = {}
    for along in _directions(group, sums):
        extent = constant_extent(axes[along]) or max(ROWS)
        evenly = ceil(extent / ceil(extent / max(ROWS)))
        sizes = dict.fromkeys(min(rows, extent) for rows in (*ROWS, evenly))
        others = [at for at in range(len(axes) - 1) if at != along and constant_extent(axes[at]) != 1]
        for stored in held:
            inside = stored or len(others) < 2 or guarded.isdisjoint(others)
            most = MOST_GUARDED if guarded and not stored else MOST_OPERATORS
            plans.update(
                (WindowPlan(along, rows, stored), inside) for rows in sizes if rows * taps <= most or rows == 1
            )
    return [plan for plan, inside in plans.items() if inside or not any(plans.values())]


def _directions(group: Group, sums: Sequence[Operation]) -> list[int]:
    """The data axes, by their places, along which results share what they read, the last one first; others where there are none."""
    axes = group.s[group.output].op.axis
    several = [at for at in reversed(range(len(axes) - 1)) if constant_extent(axes[at]) != 1 or len(axes) == 2]
    return [at for at in several if any(is_sliding(op, op.axis[at]) for op in sums)] or several


def _sums_and_images(group: Group, parts: Sequence[Operation]) -> tuple[list[Operation], list[Operation]]:
    """The windows of a group, each read by the output at its own place alone; and what these read."""
    s, output = group.s, group.output
    sums = [op for op in (*parts, output) if op.reduction is not None]
    images = [op for op in parts if op.reduction is None]
    if not all(map(is_window, sums)):
        return [], []
    axes = s[output].op.axis
    reads = collect_loads(expand_inlined(s[s[output].op]))
    for op in sums:
        if op is not output and not all(
            len(load.indices) == len(axes) and all(a is b for a, b in zip(load.indices, axes, strict=True))
            for load in reads
            if load.producer is op.output(0)
        ):
            return [], []
        if op is not output and any(op in (tensor.op for tensor in other.input_tensors) for other in (*sums, *images)):
            return [], []
    return sums, images


def _apply(group: Group, sums: Sequence[Operation], images: Sequence[Operation], plan: WindowPlan) -> None:
    s, output = group.s, group.output
    if not plan.stored:
        for image in reversed(images):
            s[image].compute_inline()
    held = [s.cache_write(list(op.outputs), "local")[0].op if op is output else op for op in sums]
    stage = s[output]
    axes = list(stage.op.axis)
    place, last = axes[plan.along], axes[-1]
    outer = [axis for axis in axes if axis is not place and axis is not last]
    width, extent = group.machine.lanes(output.output(0).dtype.bits), constant_extent(last) or ASSUMED
    vector, lane = stage.split(last, factor=_vector(extent, width))
    block, row = stage.split(place, factor=plan.rows)
    steps = (vector, block) if outer else (block, vector)  # rows of blocks are the tasks, where there is nothing around
    stage.reorder(*outer, *steps, row, lane)
    stage.unroll(row)
    stage.vectorize(lane)
    task = fuse_axes(stage, outer) if outer else None
    guards = [
        (node, op) for op in held for node in post_order(expand_inlined(s[s[op].op])) if isinstance(node, IfThenElse)
    ]
    ragged = (
        constant_extent(last) is None
        or bool(extent % width)
        or any(s[op].op.axis[-1] in find_axes(guard.condition) for guard, op in guards)
    )
    if ragged and -(-extent // width) <= VECTORS:
        stage.unroll(vector)
    for loop in (block, *([task] if task is not None else [])) if guards else ():
        stage.pragma(loop, "loop_partition_hint")
    if worth_threads(axes, _operators(sums)):
        stage.parallel(task if task is not None else block)
    for op in held:
        s[op].compute_at(stage, steps[-1])
        _sum_up(s[op])
    for image in images if plan.stored else ():
        if task is not None:
            s[image].compute_at(stage, task)
        _schedule_image(group, s[image])


def _operators(sums: Sequence[Operation]) -> int:
    """Operators of an element, in all taps."""
    return sum(2 * tap_product(op) for op in sums)


def _sum_up(stage: Stage) -> None:
    """The sums of one tile: place after place, so that few of the data are held at a time."""
    *outer, lane = stage.op.axis
    taps = list(stage.op.reduce_axis)
    stage.reorder(*outer, *taps, lane)
    unroll_loops(stage, (*outer, *taps))
    stage.vectorize(lane)


def _schedule_image(group: Group, stage: Stage) -> None:
    """An image, a row at a time in vectors."""
    column = stage.op.axis[-1]
    width, extent = group.machine.lanes(stage.op.output(0).dtype.bits), constant_extent(column) or ASSUMED
    vector, lane = stage.split(column, factor=_vector(extent, width))
    if -(-extent // width) <= VECTORS:
        stage.unroll(vector)
    stage.vectorize(lane)


def _vector(extent: int, width: int) -> int:
    """Lanes along an axis of so many values: a vector, or the least power of two that holds a shorter axis."""
    return width if extent >= width else floor_power(2 * extent - 1)
