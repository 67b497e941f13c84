"""Windows: operations that read neighbours of each result's place, by their accesses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TypeAlias

from ...base.dataclass import dataclass
from ...ir import IterVar, ProducerLoad, Var, post_order
from ...te.operation import Operation
from ...te.rewrite import collect_loads
from ...te.shape import constant_extent
from ...te.tensor import Tensor
from ..accesses import dimension, domain_axes, find_axes, load_axes, op_loads, source, strip_clamps
from ..operations import fixed_extent, iteration_count
from .convolution import match_convolution

__all__ = ["Reach", "Window", "find_reaches", "is_sliding", "is_window", "match_windows"]

MAX_TAPS = 64
"""Elements of a window on a CPU, which are written out one after the other."""
MAX_MIXED = 4
"""Values of a reduce axis that does not slide, as over the channels of a pixel."""
MIN_REUSE = 1.5
"""Reads of an element of a window by a block of a GPU, on average, from which on it is kept in shared memory."""
MIN_CLAMPED = 8
"""Elements around each result from which on clamped windows are kept: fewer come as soon from the first cache."""
WARP = 32
"""Values of the last two axes over which the reuse of a window is counted."""
Span: TypeAlias = "tuple[int, int]"
Reach: TypeAlias = "tuple[Span, ...]"


def is_window(op: Operation) -> bool:
    """Return whether a reduction takes up few neighbours of each result's place, of which no two results share all, as those of a
    product do."""
    reduction = op.reduction
    if reduction is None or len(op.values) != 1 or op.num_outputs != 1 or op.calls_intrinsic:
        return False
    taps = [constant_extent(axis) or MAX_TAPS + 1 for axis in op.reduce_axis]
    convolution = match_convolution(op)
    if convolution is not None and convolution.inputs > 1:  # results of several channels share what they read
        return False
    if prod(taps) > MAX_TAPS or any(domain_axes(axis) for axis in op.reduce_axis):
        return False
    data = {axis for axis in op.axis if constant_extent(axis) != 1}
    sliding: set[IterVar] = set()
    streams = False
    for load in op_loads(op):
        used = [find_axes(index) for index in load.indices]
        if data <= set[IterVar]().union(*used):
            streams = True
            sliding.update(axis for axes in used if not axes.isdisjoint(data) for axis in axes)
    return streams and all(
        axis in sliding or count <= MAX_MIXED for axis, count in zip(op.reduce_axis, taps, strict=True)
    )


def is_sliding(op: Operation, axis: IterVar) -> bool:
    """Return whether an axis is added to one of the other kind in some index. Reduce axes that are not, as channels, make an
    operation more than a window."""
    sums = [dimension(strip_clamps(index, mirrors=True)).steps for load in op_loads(op) for index in load.indices]
    return any(axis in steps and any(other.kind != axis.kind for other in steps) for steps in sums)


def find_reaches(op: Operation) -> dict[Tensor, tuple[int, Reach]] | None:
    """The tensors that an operation reads around an element's place, with the number of elements and the reach; None where it reads
    any in another way. Tensors that no data axis indexes, as weights, are left out."""
    found: dict[Tensor, dict[Reach, None]] = {}
    for load in collect_loads(*op.values):
        if load_axes(load).isdisjoint(op.axis):
            continue
        reach = _reach(op, load)
        if reach is None:
            return None
        found.setdefault(source(load), {})[reach] = None
    return {
        tensor: (
            sum(prod(high - low + 1 for low, high in reach) for reach in reaches),
            tuple(
                (min(low for low, _ in spans), max(high for _, high in spans)) for spans in zip(*reaches, strict=True)
            ),
        )
        for tensor, reaches in found.items()
    }


def _reach(op: Operation, load: ProducerLoad) -> Reach | None:
    """The offsets of a load from an element's place, per dimension; None where it reads elsewhere."""
    if len(load.indices) != len(op.axis):
        return None
    spans: list[Span] = []
    for axis, index in zip(op.axis, load.indices, strict=True):
        at = dimension(strip_clamps(index, mirrors=True))
        low = high = at.offset
        taps = {part: step for part, step in at.steps.items() if part is not axis}
        if at.rest or at.steps.get(axis, 0) != 1 or not taps.keys() <= {*op.reduce_axis}:
            return None
        for part, step in taps.items():
            far = step * (fixed_extent(part) - 1)
            low, high = low + min(far, 0), high + max(far, 0)
        spans.append((low, high))
    return tuple(spans)


@dataclass(frozen=True)
class Window:
    """A tensor that is read around each result, at `loads` places.

    steps: for each dimension the axes of its index with their factors; spread: the difference between the greatest and the least
    offset. fixed: the axes on which an index depends in any other way, as c // 4, a group of channels: a block has one value of
    each.
    """

    tensor: Tensor
    loads: int
    steps: tuple[Mapping[IterVar, int], ...]
    spread: tuple[int, ...]
    fixed: frozenset[IterVar]

    def elements(self, extents: Mapping[IterVar, int]) -> int:
        """The number of elements that are read while axes take `extents` of their values; all values of axes that are not given."""
        return prod(
            1 + spread + sum(abs(factor) * (extents.get(axis, fixed_extent(axis)) - 1) for axis, factor in form.items())
            for form, spread in zip(self.steps, self.spread, strict=True)
        )


def match_windows(op: Operation) -> list[Window]:
    """The windows that an operation reads around each of its results, a row of a tensor by neighbours of a row."""
    places: dict[Tensor, list[ProducerLoad]] = {}
    for load in op_loads(op):
        places.setdefault(source(load), []).append(load)
    found = [_window(tensor, loads, op) for tensor, loads in places.items()]
    return [window for window in found if window is not None]


def _window(tensor: Tensor, loads: Sequence[ProducerLoad], op: Operation) -> Window | None:
    """The window of several loads; None where indices are more than sums of axes and functions of outer axes, or differ in more than
    constants, or nothing is read twice."""
    axes, outer = {*op.axis, *op.reduce_axis}, frozenset(op.axis[:-2])
    sums: list[Mapping[IterVar, int]] = []
    offsets: list[tuple[int, ...]] = []
    fixed: set[IterVar] = set()
    many = len(loads) * iteration_count(op.reduce_axis) >= MIN_CLAMPED
    for indices in zip(*(load.indices for load in loads), strict=True):
        made = [dimension(strip_clamps(index, mirrors=True) if many else index) for index in indices]
        parts, others = made[0].steps, [part for part, _ in made[0].rest]
        decided = [{node for node in post_order(part) if isinstance(node, (Var, ProducerLoad))} for part in others]
        if not all(map(made[0].differs_by_constant, made)) or not axes.issuperset(parts):
            return None
        if not all(map(outer.issuperset, decided)):
            return None
        fixed.update(axis for part in others for axis in find_axes(part))
        sums.append(parts)
        offsets.append(tuple(each.offset for each in made))
    places = len(set(zip(*offsets, strict=True)))  # branches that read the same place read it once
    window = Window(
        tensor, places, tuple(sums), tuple(max(consts) - min(consts) for consts in offsets), frozenset(fixed)
    )
    if not sums or op.axis[-1] not in sums[-1] or any(op.axis[-1] in steps for steps in sums[:-1]):
        return None
    whole = {axis: min(fixed_extent(axis), WARP) for axis in op.axis[-2:]} | dict.fromkeys(op.axis[:-2], 1)
    used = {axis for steps in sums for axis in steps}
    reads = places * prod(whole.get(axis, fixed_extent(axis)) for axis in used)
    return window if reads >= MIN_REUSE * window.elements(whole) else None
