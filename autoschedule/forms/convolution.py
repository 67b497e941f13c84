"""Convolutions by what they read, whoever declared them.

    y[n, o, i, j] = sum over c, p, q of  x[n, o // each * inputs + c, i * step + p * apart, j * step + q * apart] * w[o, c, p, q]

with channels first or last, or in blocks; the weights as they are shown, or with the channels of the result last.
"""

from __future__ import annotations

from ...base.dataclass import dataclass
from ...ir.expr import Expr, FloorDiv, FloorMod, IntImm, IterVar, ProducerLoad
from ...te.factors import factors, strip_casts
from ...te.operation import Operation
from ...te.tensor import Tensor
from ..accesses import dimension, domain_axes, load_axes, source
from ..operations import fixed_extent

__all__ = ["LAYOUTS", "Convolution", "Layout", "match_convolution"]


@dataclass(frozen=True)
class Layout:
    """The order of the result's dimensions. rule: its name; channels: the dimension of the channels, or of their blocks; lane: of the
    channels of a block."""

    rule: str
    channels: int
    rows: int
    columns: int
    lane: int | None = None


LAYOUTS = (Layout("conv2d_nchw", 1, 2, 3), Layout("conv2d_nhwc", 3, 1, 2), Layout("conv2d_NCHWc", 1, 2, 3, 4))


@dataclass(frozen=True)
class Convolution:
    """A sum recognised as a convolution.

    image, weights: the tensors that are read. inputs: channels of each of the `groups`; taps, stride: along height and width.
    plain: true where the weights are w[o, c, p, q].
    """

    layout: Layout
    image: Tensor
    weights: Tensor
    groups: int
    inputs: int
    taps: tuple[int, int]
    stride: tuple[int, int]
    plain: bool


def match_convolution(op: Operation) -> Convolution | None:
    """Match a convolution by its accesses; None for any other operation."""
    both = factors(op)
    loads = [load for load in map(strip_casts, both or ()) if isinstance(load, ProducerLoad)]
    if len(loads) < 2 or loads[0].producer is loads[1].producer or any(domain_axes(axis) for axis in op.reduce_axis):
        return None
    found = (
        _match_layout(op, layout, image, weights)
        for layout in LAYOUTS
        if len(op.axis) == (4 if layout.lane is None else 5)
        for image, weights in (loads, reversed(loads))
    )
    return next((each for each in found if each is not None), None)


def _match_layout(op: Operation, layout: Layout, image: ProducerLoad, weights: ProducerLoad) -> Convolution | None:
    """Match a convolution with the dimensions of this layout."""
    if len(image.indices) != len(op.axis) or not _is_axis(image.indices[0], op.axis[0]):
        return None
    channels, lane = op.axis[layout.channels], [op.axis[layout.lane]] if layout.lane is not None else []
    windows = [_window(image.indices[at], op.axis[at]) for at in (layout.rows, layout.columns)]
    group = _group(image.indices[layout.channels], channels)
    inside = image.indices[layout.lane] if layout.lane is not None else None
    if (
        group is None
        or None in windows
        or inside is not None
        and not (isinstance(inside, IterVar) and inside.kind == "reduce")
    ):
        return None
    (p, down), (q, across) = (window for window in windows if window is not None)
    c, groups = group
    summed = [c, p, q, *([inside] if isinstance(inside, IterVar) else [])]
    if (
        {*summed} != {*op.reduce_axis}
        or len({*summed}) < len(summed)
        or not load_axes(weights) <= {channels, *lane, *summed}
    ):
        return None
    plain = layout.channels == 1 and not lane and tuple(weights.indices) == (channels, c, p, q)
    if not plain and not _is_contiguous(weights.indices[-1], lane[0] if lane else channels):
        return None
    inputs = fixed_extent(c) * (fixed_extent(summed[3]) if lane else 1)
    return Convolution(
        layout,
        source(image),
        source(weights),
        groups,
        inputs,
        (fixed_extent(p), fixed_extent(q)),
        (down, across),
        plain,
    )


def _is_axis(index: Expr, axis: IterVar) -> bool:
    return index is axis or fixed_extent(axis) == 1 and isinstance(index, IntImm)


def _window(index: Expr, axis: IterVar) -> tuple[IterVar, int] | None:
    """The reduce axis that slides along an axis of the result, and by how much that moves."""
    at = dimension(index)
    stride, taps = at.steps.get(axis, 0), [(each, by) for each, by in at.steps.items() if each is not axis]
    if at.rest or stride < 1 or len(taps) != 1:
        return None
    ((tap, by),) = taps
    return (tap, stride) if by >= 1 and tap.kind == "reduce" else None


def _group(index: Expr, channels: IterVar) -> tuple[IterVar, int] | None:
    """The reduce axis over channels, and how many groups of them there are."""
    at = dimension(index)
    summed = [axis for axis, by in at.steps.items() if by == 1 and axis.kind == "reduce"]
    if len(summed) != 1 or len(at.steps) > 1 or len(at.rest) > 1:
        return None
    if not at.rest:
        return summed[0], 1
    ((part, by),) = at.rest
    if (
        by != fixed_extent(summed[0])
        or not isinstance(part, FloorDiv)
        or part.a is not channels
        or not isinstance(part.b, IntImm)
        or fixed_extent(channels) % part.b.value
    ):
        return None
    return summed[0], fixed_extent(channels) // part.b.value


def _is_contiguous(index: Expr, channels: IterVar) -> bool:
    """Return whether neighbouring channels are contiguous, in blocks perhaps."""
    return index is channels or isinstance(index, FloorMod) and index.a is channels
