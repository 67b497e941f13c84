"""torch's operators that look images up at places that are data, torchvision's on regions, and windows as columns."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ..conversion import Refused, few, open_extent
from .call import Call, aten
from .layers import add_batch, cover_windows, many, remove_batch

__all__: list[str] = []

_MODES = ("linear", "nearest", "cubic")
_PADDINGS = ("zeros", "border", "reflection")


@aten("grid_sampler.default", "grid_sampler_2d.default", "grid_sampler_3d.default")
def _convert_grid_sample(c: Call) -> str:
    mode, padding = c.integer("interpolation_mode"), c.integer("padding_mode")
    return c.emit(
        "grid_sample",
        c.tensor("input"),
        c.tensor("grid"),
        mode=_MODES[mode],
        padding=_PADDINGS[padding],
        align_corners=bool(c.known("align_corners")),
    )


@aten("affine_grid_generator.default")
def _convert_affine_grid(c: Call) -> str:
    """The points of an image, in coordinates from -1 to 1, times the maps."""
    theta, align = c.tensor("theta"), bool(c.known("align_corners"))
    batch, _, *extents = c.extents("size")
    sizes = [size for size in extents if isinstance(size, int)]
    if len(sizes) < len(extents):
        raise Refused(f"its size {extents} has to be known, but for the number of images")
    few(*sizes)
    axes = [
        np.linspace(-1, 1, size) * (1 if align else (size - 1) / size) if size > 1 else np.zeros(1) for size in sizes
    ]
    points = np.stack([*np.meshgrid(*axes, indexing="ij")[::-1], np.ones(sizes)], -1).reshape(
        prod(sizes), len(sizes) + 1
    )
    result = c.emit("matmul", c.constant(points, theta), theta, transpose_b=True)
    return c.reshape(result, (batch, *sizes, len(sizes)))


@aten("torch.ops.torchvision.roi_align.default")
def _convert_roi_align(c: Call) -> str:
    rois, count = c.tensor("rois"), c.extent(c.tensor("rois"), 0)
    batch, boxes = c.emit_all("split", rois, sizes=(1, 4), axis=1)
    return c.emit(
        "roi_align",
        c.tensor("input"),
        boxes,
        c.cast(c.reshape(batch, (count,)), "int64"),
        mode="avg",
        size=(c.integer("pooled_height"), c.integer("pooled_width")),
        scale=float(c.known("spatial_scale")),
        samples=c.integer("sampling_ratio"),
        aligned=bool(c.known("aligned", False)),
    )


@aten("torch.ops.torchvision.deform_conv2d.default")
def _convert_deform_conv(c: Call) -> str:
    weight, bias = c.tensor("weight"), c.tensor("bias")
    mask = [c.tensor("mask")] if c.known("use_mask") else []
    c.argument("mask", None)
    pads = (c.integer("pad_h"), c.integer("pad_w"))
    result = c.emit(
        "deform_conv",
        c.tensor("input"),
        c.tensor("offset"),
        weight,
        *mask,
        padding=(*pads, *pads),
        stride=(c.integer("stride_h"), c.integer("stride_w")),
        groups=c.integer("groups"),
        dilation=(c.integer("dilation_h"), c.integer("dilation_w")),
        offset_groups=c.integer("offset_groups"),
    )
    return c.emit("add", result, c.reshape(bias, (c.extent(bias, 0), 1, 1)))


@aten("im2col.default", "col2im.default")
def _convert_columns(c: Call) -> str:
    kernel = many(c.integers("kernel_size"), 2)
    pads = many(c.integers("padding"), 2)
    how = {
        "kernel": kernel,
        "stride": many(c.integers("stride"), 2),
        "padding": (*pads, *pads),
        "dilation": many(c.integers("dilation"), 2),
    }
    if c.target.startswith("im2col"):
        value, single = add_batch(c, c.tensor(), 2)
        return remove_batch(c, c.emit("im2col", value, **how), single)
    value, single = add_batch(c, c.tensor(), 1)
    return remove_batch(c, c.emit("col2im", value, image=tuple(c.extents("output_size")), **how), single)


@aten("max_unpool2d.default", "max_unpool3d.default")
def _convert_max_unpool(c: Call) -> str:
    """The elements at their places of zeros: each channel by itself."""
    shape, sizes = c.static(c.tensor()), c.integers("output_size")
    c.argument("stride", None)
    c.argument("padding", None)
    channels, count = prod(shape[: -len(sizes)]), prod(shape[-len(sizes) :])
    zeros = c.emit("broadcast_to", c.scalar(0, c.dtype), shape=(channels, prod(sizes)))
    flat = [c.reshape(c.tensor(name), (channels, count)) for name in ("indices", "self")]
    return c.reshape(c.emit("scatter_elements", zeros, *flat, axis=1), (*shape[: -len(sizes)], *sizes))


@aten("channel_shuffle.default", "native_channel_shuffle.default")
def _convert_channel_shuffle(c: Call) -> str:
    shape, groups = c.type(c.tensor()).shape, c.integer("groups")
    parts = c.reshape(c.tensor(), (shape[0], groups, open_extent(shape[1:2], (groups,)), *shape[2:]))
    return c.reshape(c.emit("transpose", parts, axes=(0, 2, 1, *range(3, len(shape) + 1))), shape)


@aten("max_pool1d_with_indices.default", "max_pool2d_with_indices.default", "max_pool3d_with_indices.default")
def _convert_max_pool_indices(c: Call) -> Sequence[str]:
    rank = int(c.target[8])
    value, single = add_batch(c, c.tensor(), rank)
    kernel = many(c.integers("kernel_size"), rank)
    pads = many(c.integers("padding", (0,)), rank)
    how = {
        "kernel": kernel,
        "stride": many(c.integers("stride"), rank) or kernel,
        "padding": (*pads, *pads),
        "dilation": many(c.integers("dilation", (1,)), rank),
    }
    values = c.emit("max_pool", value, ceil_mode=bool(c.known("ceil_mode", False)), **how)
    if c.known("ceil_mode", False) and c.type(values).shape != c.type(c.emit("max_pool", value, **how)).shape:
        return [remove_batch(c, values, single), ""]
    return [
        remove_batch(c, values, single),
        remove_batch(c, c.emit_all("max_pool_with_places", value, **how)[1], single),
    ]


@aten("adaptive_max_pool2d.default", "adaptive_max_pool1d.default", "adaptive_max_pool3d.default")
def _convert_adaptive_greatest(c: Call) -> Sequence[str]:
    """The whole, or windows; not where their greatest elements lie."""
    rank = int(c.target.partition("_pool")[2][0])
    value, wanted = c.tensor(), many(c.integers("output_size"), rank)
    first = c.rank(value) - rank
    if all(count == 1 for count in wanted):
        return [c.emit("max", value, axes=tuple(range(first, first + rank)), keepdims=True), ""]
    return [cover_windows(c, value, wanted, "max"), ""]
