"""ONNX's operators that look images up at places that are data, and those of windows as columns."""

from __future__ import annotations

from math import prod

import numpy as np

from ..conversion import Refused
from .context import Context, converts
from .layers import kernel_shape, window_attributes

__all__: list[str] = []

_MODES = {"bilinear": "linear", "bicubic": "cubic"}


@converts("GridSample")
def _convert_grid_sample(c: Context) -> str:
    mode, padding = c.attribute("mode", "linear"), c.attribute("padding_mode", "zeros")
    mode, align, grid = _MODES.get(mode, mode), bool(c.attribute("align_corners", 0)), c[1]
    if mode == "cubic" and padding == "border":
        grid = _clamp_grid(c, align)
    if "float" not in c.type(0).dtype and mode != "nearest":
        raise Refused("integers are weighed")
    return c.emit("grid_sample", c[0], grid, mode=mode, padding=padding, align_corners=align)


def _clamp_grid(c: Context, align: bool) -> str:
    """A grid whose places outside are those of the outermost elements: ONNX moves them there before it looks for neighbours."""
    one = c.constant(1, 1)
    sizes = np.asarray(c.static(0)[:1:-1])
    edge = c.constant(np.ones_like(sizes) if align else (sizes - 1) / sizes, 1)
    moved = c.emit("maximum", c.emit("minimum", c[1], edge), c.emit("negative", edge))
    return c.emit("where", c.emit("greater", c.emit("abs", c[1]), one), moved, c[1])


@converts("RoiAlign")
def _convert_roi_align(c: Context) -> str:
    where = c.attribute("coordinate_transformation_mode", "half_pixel" if c.opset >= 16 else "output_half_pixel")
    return c.emit(
        "roi_align",
        c[0],
        c[1],
        c[2],
        size=(int(c.attribute("output_height", 1)), int(c.attribute("output_width", 1))),
        scale=float(c.attribute("spatial_scale", 1.0)),
        samples=int(c.attribute("sampling_ratio", 0)),
        mode="max_terms" if c.attribute("mode", "avg") == "max" else "avg",
        aligned=where == "half_pixel",
    )


@converts("MaxRoiPool")
def _convert_roi_pool(c: Context) -> str:
    return c.emit(
        "roi_pool", c[0], c[1], size=tuple(c.attribute("pooled_shape")), scale=float(c.attribute("spatial_scale", 1.0))
    )


@converts("DeformConv")
def _convert_deform_conv(c: Context) -> str:
    kernel = kernel_shape(c)
    mask = [c[4]] if c.has(4) else []
    result = c.emit(
        "deform_conv",
        c[0],
        c[2],
        c[1],
        *mask,
        groups=int(c.attribute("group", 1)),
        offset_groups=int(c.attribute("offset_group", 1)),
        **window_attributes(c, kernel),
    )
    return c.emit("add", result, c.reshape(c[3], (c.extent(3, 0), *[1] * len(kernel)))) if c.has(3) else result


@converts("Col2Im")
def _convert_col2im(c: Context) -> str:
    return c.emit(
        "col2im", c[0], image=tuple(c.numbers(1)), kernel=tuple(kernel := c.numbers(2)), **window_attributes(c, kernel)
    )


@converts("MaxUnpool")
def _convert_max_unpool(c: Context) -> str:
    """The elements at their places of zeros of the shape that was pooled, which is the upper left of what is asked for; where a
    place is outside of that shape, all of them are places of what is asked for."""
    kernel, shape = tuple(c.attribute("kernel_shape")), c.static(0)
    windows = window_attributes(c, kernel)
    rank = len(kernel)
    own = [
        (size - 1) * step - low - high + taps
        for size, step, low, high, taps in zip(
            shape[2:], windows["stride"], windows["padding"][:rank], windows["padding"][rank:], kernel, strict=True
        )
    ]
    whole = (*shape[:2], *own)
    wanted = tuple(c.numbers(2)) if c.has(2) else whole
    if len(wanted) != len(whole) or any(size < extent for size, extent in zip(wanted, whole, strict=True)):
        raise Refused(f"its output of shape {wanted} is smaller than what was pooled")
    places, values = (c.reshape(c[at], (prod(shape),)) for at in (1, 0))
    if wanted != whole and prod(shape):
        beyond = c.emit(
            "greater_equal", c.emit("max", places, axes=(0,)), c.constant(np.asarray(prod(whole), np.int64))
        )
        places = c.emit("where", beyond, places, _widen_positions(c, places, whole, wanted))
    zeros = c.emit("broadcast_to", c.constant(0, 0), shape=(prod(wanted),))
    return c.reshape(c.emit("scatter_elements", zeros, places, values, axis=0), wanted)


def _widen_positions(c: Context, places: str, shape: tuple[int, ...], wider: tuple[int, ...]) -> str:
    """Places of the elements of a shape as those of the same elements of a wider one, in row-major order."""
    result, rest, far = "", places, 1
    for extent, room in zip(reversed(shape), reversed(wider), strict=True):
        size = c.constant(np.asarray(extent, np.int64))
        part = c.emit("multiply", c.emit("floor_mod", rest, size), c.constant(np.asarray(far, np.int64)))
        result, rest, far = (
            c.emit("add", result, part) if result else part,
            c.emit("floor_divide", rest, size),
            far * room,
        )
    return result
