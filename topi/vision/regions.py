"""Regions of images brought to one size: windows whose ends are data."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.errors import user_source
from ...ir import ops
from ...te import polymorphic as te
from ...te.indices import clipped_index
from ...te.tensor import Tensor, tensor_text
from ..checks import BadOperand, BadParameter, integers, tensor
from ..image.sampling import weigh_neighbours
from ..nn.window import Sizes, pair
from ..row import floating, operator, sample

__all__ = ["roi_align", "roi_pool"]


def roi_align(
    data: Tensor,
    rois: Tensor,
    pooled_size: Sizes,
    spatial_scale: float,
    mode: str = "avg",
    sample_ratio: int = -1,
    batch_indices: Tensor | None = None,
    aligned: bool = False,
) -> Tensor:
    """Regions of images as so many bins, each the mean or the greatest of samples.

    Parameters
    ----------
    data : Tensor
        (N, C, H, W).
    rois : Tensor
        (regions, 5), a number of the batch before x0, y0, x1, y1; or (regions, 4), where batch_indices has those
        numbers.
    pooled_size : int or sequence of int
        Bins of a region: a number, or along height and width.
    spatial_scale : float
        The factor of the regions' coordinates.
    mode : str, default "avg"
        "avg", "max", or "max_terms", the greatest among the four weighted neighbours of all samples, as ONNX has it.
    sample_ratio : int, default -1
        Samples along each side of a bin; below 1 as many as it has elements.
    batch_indices : Tensor or None, default None
        Integers, (regions,), or None.
    aligned : bool, default False
        Whether centres of elements lie half an element farther.

    Returns
    -------
    Tensor
        (regions, C, height, width), in the dtype of data.

    Raises
    ------
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    BadParameter (TW0182)
        A parameter of another kind, or out of range.
    BadWindow (TW0190)
        Windows, strides, dilations or paddings of a wrong size or number.
    """
    source, boxes, lead = _regions(data, rois, batch_indices, "roi_align")
    high, wide = pair(pooled_size, "pooled_size")
    (ratio,) = integers(sample_ratio, "sample_ratio of roi_align")
    if mode not in ("avg", "max", "max_terms"):
        raise BadParameter(
            f"roi_align has no mode {mode!r}",
            called=user_source(),
            allowed='"avg", "max", "max_terms"',
            fix='mode="avg"',
        )
    kind = _wide(source, boxes)
    bins = _Bins(boxes, lead, (high, wide), spatial_scale, ratio, aligned, kind)

    def pooled(r: Any, c: Any, y: Any, x: Any) -> Any:
        taps = [te.reduce_axis((0, bins.samples(r, dim)), name) for dim, name in enumerate(("sy", "sx"))]
        places = [bins.place(r, dim, at, tap) for dim, (at, tap) in enumerate(zip((y, x), taps, strict=True))]
        sizes = [source.shape[2 + dim].astype(kind) for dim in (0, 1)]
        inside = [there for place, size in zip(places, sizes, strict=True) for there in (place >= -1, place <= size)]
        places = [te.max(te.min(place, size), -1) for place, size in zip(places, sizes, strict=True)]
        batch = _batch(source, boxes, batch_indices, r)
        value = (
            _greatest_term(source, (batch, c), places)
            if mode == "max_terms"
            else weigh_neighbours(source, (batch, c), places, 2, "border")
        )
        value = te.select(te.all(*inside), value, te.const(0, kind))
        return te.sum(value, axis=taps) if mode == "avg" else te.max(value, axis=taps)

    shape = (boxes.shape[0], source.shape[1], high, wide)
    found = te.compute(shape, pooled, name=f"roi_align_{mode}")

    def result(r: Any, *i: Any) -> Any:
        total = bins.samples(r, 0) * bins.samples(r, 1)
        value = (
            found[(r, *i)] / te.max(total, 1).astype(kind)
            if mode == "avg"
            else te.select(total > 0, found[(r, *i)], te.const(0, kind))
        )
        return value.astype(source.dtype)

    return te.compute(shape, result, name="roi_align", tag="injective")


_SIDES = (1, 0)
"""Of height and width the place of the first coordinate in a box."""


class _Bins:
    """Positions of the samples of regions. lead: places before the coordinates in a box. size: bins along height and width. ratio:
    samples along each side of a bin; below 1 as many as it has elements, which are counted once for each region."""

    def __init__(
        self,
        boxes: Tensor,
        lead: int,
        size: tuple[int, int],
        scale: float,
        ratio: int,
        aligned: bool,
        kind: str,
    ) -> None:
        self.boxes, self.lead, self.size, self.scale = boxes, lead, size, scale
        self.ratio, self.aligned, self.kind = ratio, aligned, kind
        self.counts: Any = te.compute((boxes.shape[0], 2), self._count, name="roi_samples") if ratio < 1 else None

    def side(self, r: Any, dim: int) -> tuple[Any, Any]:
        """Return the begin of a region, and the extent of a bin."""
        begin, end = (
            self.boxes[r, self.lead + _SIDES[dim] + far].astype(self.kind) * te.const(self.scale, self.kind)
            - te.const(0.5 * self.aligned, self.kind)
            for far in (0, 2)
        )
        extent = end - begin if self.aligned else te.max(end - begin, 1)
        return begin, extent / te.const(self.size[dim], self.kind)

    def samples(self, r: Any, dim: int) -> Any:
        """Return the number of samples along a side of a bin."""
        return te.const(self.ratio, "int32") if self.counts is None else self.counts[r, dim]

    def place(self, r: Any, dim: int, at: Any, tap: Any) -> Any:
        """Return the position of sample `tap` of bin `at`."""
        begin, extent = self.side(r, dim)
        each = extent / self.samples(r, dim).astype(self.kind)
        return begin + at.astype(self.kind) * extent + (tap.astype(self.kind) + te.const(0.5, self.kind)) * each

    def _count(self, r: Any, d: Any) -> Any:
        numbers = [te.ceil(te.max(te.min(self.side(r, dim)[1], 1 << 20), 0)).astype("int32") for dim in (0, 1)]
        return te.select(d.equal(0), *numbers)


def _greatest_term(source: Tensor, lead: tuple[Any, ...], places: list[Any]) -> Any:
    """The greatest of the weighted neighbours of a place."""
    firsts = [
        te.min(te.floor(te.max(place, 0)), (extent - 1).astype(place.dtype))
        for place, extent in zip(places, source.shape[2:], strict=True)
    ]
    parts = [
        te.max(te.min(place, (extent - 1).astype(place.dtype)), 0) - first
        for place, first, extent in zip(places, firsts, source.shape[2:], strict=True)
    ]

    def term(down: int, right: int) -> Any:
        at = [
            te.max(te.min(first.astype("int32") + far, extent - 1), 0)
            for first, far, extent in zip(firsts, (down, right), source.shape[2:], strict=True)
        ]
        weights = (parts[0] if down else 1 - parts[0]), (parts[1] if right else 1 - parts[1])
        return source[(*lead, *at)].astype(places[0].dtype) * weights[0] * weights[1]

    terms = [term(down, right) for down in (0, 1) for right in (0, 1)]
    return te.max(te.max(terms[0], terms[1]), te.max(terms[2], terms[3]))


def _numpy_roi_pool(x: Any, rois: Any, *, size: Any, scale: float) -> Any:
    result = np.zeros((len(rois), x.shape[1], *size), np.float64)
    for r, (batch, *box) in enumerate(rois.astype(np.float32)):
        scaled = np.asarray(box, np.float32) * np.float32(scale)
        x0, y0, x1, y1 = np.trunc(scaled + np.copysign(np.float32(0.5), scaled))
        image = x[int(np.clip(batch, 0, len(x) - 1))]
        each = [
            np.float32(max(end - begin + 1, 1)) / np.float32(count)
            for begin, end, count in zip((y0, x0), (y1, x1), size, strict=True)
        ]
        for bins in np.ndindex(*size):
            ends = [
                np.clip([np.floor(bin * one) + begin, np.ceil((bin + 1) * one) + begin], 0, extent).astype(int)
                for bin, one, begin, extent in zip(bins, each, (y0, x0), x.shape[2:], strict=True)
            ]
            part = image[:, slice(*ends[0]), slice(*ends[1])]
            if part.size:
                result[(r, slice(None), *bins)] = part.max((1, 2))
    return result


@operator(
    "roi_pool",
    reference=_numpy_roi_pool,
    attributes={"size": "pooled_size", "scale": "spatial_scale"},
    samples=[
        sample(
            floating(2, 3, 9, 7),
            np.asarray([[0.0, 1.0, 2.0, 9.0, 12.0], [1.0, -3.0, 4.5, 2.0, 30.0], [1.0, 5.0, 5.0, 4.0, 4.0]], "float32"),
            size=(3, 2),
            scale=0.6,
        )
    ],
)
def roi_pool(data: Tensor, rois: Tensor, pooled_size: Sizes, spatial_scale: float = 1.0) -> Tensor:
    """Regions of images as so many bins, each the greatest of its elements, 0 of none.

    Parameters
    ----------
    data : Tensor
        (N, C, H, W).
    rois : Tensor
        (regions, 5), a number of the batch before x0, y0, x1, y1, which are rounded.
    pooled_size : int or sequence of int
        Bins of a region: a number, or along height and width.
    spatial_scale : float, default 1.0
        The factor of the regions' coordinates.

    Returns
    -------
    Tensor
        (regions, C, height, width), in the dtype of data.

    Raises
    ------
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    BadWindow (TW0190)
        Windows, strides, dilations or paddings of a wrong size or number.
    """
    source, boxes, lead = _regions(data, rois, None, "roi_pool")
    sizes = pair(pooled_size, "pooled_size")
    kind = _wide(boxes, boxes)

    def bound(r: Any, dim: Any, bin: Any, end: int) -> Any:
        first, last = (
            te.round(
                te.select(dim.equal(0), boxes[r, lead + 1 + far], boxes[r, lead + far]).astype(kind)
                * te.const(spatial_scale, kind)
            )
            for far in (0, 2)
        )
        count, size = (
            te.select(dim.equal(0), *pair_of)
            for pair_of in (
                tuple(te.const(one, kind) for one in sizes),
                tuple(ops.cast(one, kind) for one in source.shape[2:]),
            )
        )
        each = te.max(last - first + 1, 1) / count
        far = te.ceil((bin + 1).astype(kind) * each) if end else te.floor(bin.astype(kind) * each)
        return te.max(te.min(far + first, size), 0).astype("int32")

    begins, ends = (
        te.compute((boxes.shape[0], 2, max(sizes)), lambda r, dim, bin, end=end: bound(r, dim, bin, end), name=name)
        for end, name in ((0, "roi_begin"), (1, "roi_end"))
    )

    def pooled(r: Any, c: Any, y: Any, x: Any) -> Any:
        taps = [
            te.reduce_axis((0, te.max(ends[r, dim, bin] - begins[r, dim, bin], 0)), name)
            for dim, (bin, name) in enumerate(((y, "ry"), (x, "rx")))
        ]
        at = [
            te.min(begins[r, dim, bin] + tap, extent - 1)
            for dim, (bin, tap, extent) in enumerate(zip((y, x), taps, source.shape[2:], strict=True))
        ]
        return te.max(source[(_batch(source, boxes, None, r), c, *at)], axis=taps)

    shape = (boxes.shape[0], source.shape[1], *sizes)
    found = te.compute(shape, pooled, name="roi_pool_max")

    def result(r: Any, c: Any, y: Any, x: Any) -> Any:
        some = te.all(*(ends[r, dim, bin] > begins[r, dim, bin] for dim, bin in enumerate((y, x))))
        return te.select(some, found[r, c, y, x], te.const(0, source.dtype))

    return te.compute(shape, result, name="roi_pool", tag="injective")


def _regions(data: Any, rois: Any, batch_indices: Any, subject: str) -> tuple[Tensor, Tensor, int]:
    """Data, boxes, and where coordinates begin in a box."""
    source, boxes = tensor(data, subject, 4), tensor(rois, f"the regions of {subject}", 2)
    lead = 1 if batch_indices is None else 0
    if batch_indices is not None:
        tensor(batch_indices, f"the batch indices of {subject}", 1)
    if not source.dtype.is_float or not boxes.dtype.is_float or not ops.is_const(boxes.shape[1], lead + 4):
        raise BadOperand(
            f"{subject}: {tensor_text(boxes)} are not regions of {tensor_text(source)}",
            declared=boxes.source,
            called=user_source(),
            reason=f"a region is {lead + 4} floats, and so are the elements of the data",
            fix="rois (regions, 5), or (regions, 4) and batch_indices",
        )
    return source, boxes, lead


def _batch(source: Tensor, boxes: Tensor, batch_indices: Tensor | None, r: Any) -> Any:
    """The image of a region, inside whatever is said."""
    given = boxes[r, 0].astype("int32") if batch_indices is None else batch_indices[r]
    return clipped_index(given, source.shape[0])


def _wide(*tensors: Tensor) -> str:
    return "float64" if any(str(one.dtype) == "float64" for one in tensors) else "float32"
