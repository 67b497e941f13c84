"""ONNX's layers: convolutions, pooling, normalisations, resizing."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ..conversion import Refused, few, product, scaled_extent
from ..types import Extent
from .context import Context, converts

__all__ = ["kernel_shape", "window_attributes"]


def window_attributes(c: Context, kernel: Sequence[int], value: str | int = 0) -> dict[str, Any]:
    """Stride, padding and dilation of a node; paddings that are named are worked out."""
    rank = len(kernel)
    stride = tuple(c.attribute("strides") or (1,) * rank)
    dilation = tuple(c.attribute("dilations") or (1,) * rank)
    mode = c.attribute("auto_pad", "NOTSET")
    padding = tuple(c.attribute("pads") or (0,) * 2 * rank)
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        # the standard counts the taps with the steps between them (MaxPool); onnxruntime's pools leave the steps out
        totals = [
            _same_total(size, (taps - 1) * far + 1, step)
            for size, taps, step, far in zip(c.type(value).shape[2:], kernel, stride, dilation, strict=True)
        ]
        # of an odd number of pads the last one goes to the end by "upper", to the beginning by "lower"
        low = [total // 2 if mode == "SAME_UPPER" else total - total // 2 for total in totals]
        padding = (*low, *(total - before for total, before in zip(totals, low, strict=True)))
    elif mode == "VALID":
        padding = (0,) * 2 * rank
    return {"stride": stride, "padding": padding, "dilation": dilation}


def _same_total(size: Extent, reach: int, step: int) -> int:
    """Return the padding that makes as many windows as there are steps: for steps of 1 the same for every size."""
    if isinstance(size, int):
        return max((-(-size // step) - 1) * step + reach - size, 0)
    if step != 1 and reach > 1:
        raise Refused(f"its padding depends on {size}: name its extent by shapes=, or export it with explicit pads")
    return reach - 1


def kernel_shape(c: Context, value: str | int = 1) -> tuple[int, ...]:
    """The taps of weights. Raises Refused where the node says others."""
    kernel = c.static(value, slice(2, None))
    if tuple(c.attribute("kernel_shape") or kernel) != kernel:
        raise Refused(f"its weights {c.type(value)} have other taps than it says, {c.attribute('kernel_shape')}")
    return kernel


@converts("Conv")
def _convert_conv(c: Context) -> str:
    groups = int(c.attribute("group", 1))
    value = c.fix_extent(c[0], 1, c.extent(1, 1) * groups)
    return c.emit("conv", value, *c.inputs[1:], groups=groups, **window_attributes(c, kernel_shape(c)))


@converts("ConvTranspose")
def _convert_conv_transpose(c: Context) -> str:
    kernel = kernel_shape(c)
    same = c.attribute("auto_pad", "NOTSET") in ("SAME_UPPER", "SAME_LOWER")
    windows = (
        window_attributes(c, kernel)
        if not same
        else {
            "stride": tuple(c.attribute("strides") or (1,) * len(kernel)),
            "padding": (0,) * 2 * len(kernel),
            "dilation": tuple(c.attribute("dilations") or (1,) * len(kernel)),
        }
    )
    more = list(c.attribute("output_padding") or (0,) * len(kernel))
    wanted = c.attribute("output_shape")
    before = [0] * len(kernel)
    if wanted is not None or same:
        sizes = c.static(0, slice(2, None))
        out = (
            wanted[-len(kernel) :]
            if wanted is not None
            else [size * step for size, step in zip(sizes, windows["stride"], strict=True)]
        )
        totals = [
            step * (size - 1) + extra + (taps - 1) * far + 1 - extent
            for step, size, extra, taps, far, extent in zip(
                windows["stride"], sizes, more, kernel, windows["dilation"], out, strict=True
            )
        ]
        if wanted is not None:  # what is longer than what the taps reach is so at its end
            more = [extra + max(-total, 0) for extra, total in zip(more, totals, strict=True)]
            # what was below 0 stands in output_padding now
            totals = [max(total, 0) for total in totals]
        upper = c.attribute("auto_pad", "NOTSET") == "SAME_UPPER"
        low = [total // 2 if upper else total - total // 2 for total in totals]
        high = [total - first for total, first in zip(totals, low, strict=True)]
        # a negative pad at one end means more output there, which conv_transpose takes at the end alone
        more = [extra + max(-last, 0) for extra, last in zip(more, high, strict=True)]
        before = [max(-first, 0) for first in low]
        windows["padding"] = tuple(max(pad, 0) for pad in (*low, *high))
    return _prepend_rows(c, before, groups=int(c.attribute("group", 1)), output_padding=tuple(more), **windows)


def _prepend_rows(c: Context, before: Sequence[int], **attributes: Any) -> str:
    """A transposed convolution whose result begins so many elements before what the first tap reaches: there it is the bias."""
    if not any(before):
        return c.emit("conv_transpose", *c.inputs, **attributes)
    result = c.emit("conv_transpose", *c.inputs[:2], **attributes)
    result = c.emit("pad", result, before=(0, 0, *before), after=(0, 0, *[0] * len(before)), value=0)
    return c.emit("add", result, c.reshape(c[2], (c.extent(2, 0), *[1] * len(before)))) if c.has(2) else result


@converts("MaxPool", "AveragePool", "LpPool")
def _convert_pool(c: Context) -> str | Sequence[str]:
    kind = {"MaxPool": "max_pool", "AveragePool": "avg_pool", "LpPool": "lp_pool"}[c.proto.op_type]
    kernel = tuple(c.attribute("kernel_shape"))
    if c.outputs > 1:
        return _convert_max_pool_positions(c, kernel)
    more: dict[str, Any] = {
        "avg_pool": {"count_padding": bool(c.attribute("count_include_pad", 0))},
        "lp_pool": {"p": int(c.attribute("p", 2))},
    }.get(kind, {})
    how = {"kernel": kernel, **window_attributes(c, kernel), **more}
    ceil = bool(c.attribute("ceil_mode", 0))
    if ceil and kind != "lp_pool" and not all(isinstance(size, int) for size in c.type(0).shape[-len(kernel) :]):
        return c.open_pool(kind, c[0], how)
    return c.emit(kind, c[0], ceil_mode=ceil, **how)


def _convert_max_pool_positions(c: Context, kernel: Sequence[int]) -> list[str]:
    """The greatest of windows, and their places among all elements, in row-major order, or, where storage_order says so, in
    column-major order of a channel."""
    if c.attribute("ceil_mode", 0):
        raise Refused("its windows may end beyond the padding, and their positions are an output")
    shape = c.static(0)
    values, places = c.emit_all("max_pool_with_places", c[0], kernel=tuple(kernel), **window_attributes(c, kernel))
    if c.attribute("storage_order", 0):
        places = _convert_to_column_major(c, places, shape[2:])
    # ONNX counts through the whole tensor, the operator within a channel
    lead = np.arange(few(*shape[:2])).reshape(*shape[:2], *[1] * len(kernel)) * prod(shape[2:])
    return [values, c.emit("add", places, c.constant(lead))]


def _convert_to_column_major(c: Context, places: str, shape: Sequence[int]) -> str:
    """Places of the elements of a shape in row-major order as those in column-major order."""
    result, rest = "", places
    for at in reversed(range(len(shape))):
        size, step = (c.constant(np.asarray(number, np.int64)) for number in (shape[at], prod(shape[:at])))
        part = c.emit("multiply", c.emit("floor_mod", rest, size), step)
        result, rest = c.emit("add", result, part) if result else part, c.emit("floor_divide", rest, size)
    return result


@converts("GlobalAveragePool", "GlobalMaxPool")
def _convert_global_pool(c: Context) -> str:
    return c.emit(
        "mean" if "Average" in c.proto.op_type else "max", c[0], axes=tuple(range(2, c.rank(0))), keepdims=True
    )


@converts("GlobalLpPool")
def _convert_global_lp_pool(c: Context) -> str:
    return c.norm(c[0], int(c.attribute("p", 2)), tuple(range(2, c.rank(0))), True)


@converts("LpNormalization")
def _convert_lp_normalization(c: Context) -> str:
    norm = c.norm(c[0], int(c.attribute("p", 2)), (c.axis(-1),), True)
    # a vector of zeros stays so, where 0 / 0 would be NaN
    safe = c.emit("where", c.emit("equal", norm, c.constant(0, norm)), c.constant(1, norm), norm)
    return c.emit("divide", c[0], safe)


@converts("MeanVarianceNormalization")
def _convert_mean_variance(c: Context) -> str:
    axes = tuple(c.attribute("axes") or (0, 2, 3))
    far = c.emit("subtract", c[0], c.emit("mean", c[0], axes=axes, keepdims=True))
    deviation = c.root(c.emit("mean", c.emit("square", far), axes=axes, keepdims=True))
    return c.emit("divide", far, c.emit("add", deviation, c.constant(1e-9, deviation)))


@converts("BatchNormalization")
def _batch_norm(c: Context) -> str | Sequence[str]:
    epsilon = float(c.attribute("epsilon", 1e-5))
    if c.opset < 14 and c.outputs > 1:
        raise Refused("it is in training, in a form before version 14")
    if not c.attribute("training_mode", 0):
        return c.emit("batch_norm", *c.inputs, epsilon=epsilon)
    # channels are the second axis in all of ONNX's layouts
    axes = tuple(at for at in range(c.rank(0)) if at != 1)
    mean = c.emit("mean", c[0], axes=axes, keepdims=True)
    far = c.emit("square", c.emit("subtract", c[0], mean))
    own = [c.reshape(mean, (c.type(0).shape[1],)), c.emit("mean", far, axes=axes)]
    kept = float(c.attribute("momentum", 0.9))
    running = [
        c.emit(
            "add",
            c.emit("multiply", c[at], c.constant(kept, at)),
            c.emit("multiply", c.cast(value, c.type(at).dtype), c.constant(1 - kept, at)),
        )
        for at, value in zip((3, 4), own, strict=True)
    ]
    weights = [c[1], c[2], *(c.cast(value, c.type(3).dtype) for value in own)]
    return [c.emit("batch_norm", c[0], *weights, epsilon=epsilon), *running][: c.outputs]


@converts("LayerNormalization")
def _convert_layer_norm(c: Context) -> Sequence[str]:
    axis, epsilon = c.axis(-1), float(c.attribute("epsilon", 1e-5))
    results = [c.emit("layer_norm", *c.inputs, axis=axis, epsilon=epsilon)]
    if c.outputs > 1:
        axes = tuple(range(axis, c.rank(0)))
        # stash_type: the specification has statistics in float32 unless it is named
        wide = c.cast(c[0], "float32")
        mean = c.emit("mean", wide, axes=axes, keepdims=True)
        variance = c.emit("mean", c.emit("square", c.emit("subtract", wide, mean)), axes=axes, keepdims=True)
        results += [mean, c.emit("rsqrt", c.emit("add", variance, c.constant(epsilon, variance)))]
    return results[: c.outputs]


@converts("GroupNormalization")
def _group_norm(c: Context) -> str:
    groups = int(c.attribute("num_groups"))
    weights = list(c.inputs[1:])
    if c.opset < 21:  # one for each group
        channels = c.extent(0, 1)
        each = c.constant(np.repeat(np.arange(groups), few(channels) // groups))
        weights = [c.emit("take", value, each) for value in weights]
    return c.emit("group_norm", c[0], *weights, groups=groups, epsilon=float(c.attribute("epsilon", 1e-5)))


@converts("LRN")
def _convert_lrn(c: Context) -> str:
    size = int(c.attribute("size"))
    alpha, beta, bias = (
        float(c.attribute(name, value)) for name, value in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0))
    )
    if size % 2 or size < 1:
        return c.emit("lrn", c[0], size=size, alpha=alpha, beta=beta, bias=bias)
    shape = c.type(0).shape  # a window of an even size has one neighbour more behind
    planes = c.reshape(c.emit("square", c[0]), (shape[0], 1, shape[1], product(shape[2:])))
    means = c.emit(
        "avg_pool",
        planes,
        kernel=(size, 1),
        stride=(1, 1),
        padding=((size - 1) // 2, 0, size // 2, 0),
        dilation=(1, 1),
        count_padding=True,
    )
    scales = c.emit("add", c.emit("multiply", c.reshape(means, shape), c.constant(alpha, 0)), c.constant(bias, 0))
    return c.emit("divide", c[0], c.emit("power", scales, c.constant(beta, 0)))


@converts("Resize", "Upsample")
def _resize(c: Context) -> str:
    shape = c.type(0).shape
    old = c.opset < 11
    axes = [c.within(at, len(shape)) for at in c.attribute("axes") or range(len(shape))]
    where = c.attribute("coordinate_transformation_mode", "half_pixel" if not old else "asymmetric")
    scales_at, sizes_at = (1, 3) if old else (2, 3)
    scales = [1.0] * len(shape)
    sizes = list(shape)
    if not old and c.has(sizes_at):
        _sizes(c, axes, sizes, scales, c.extents(sizes_at))
    else:
        given = (
            list(c.attribute("scales")) if c.opset < 9 else [float(scale) for scale in c.array(scales_at).reshape(-1)]
        )
        for at, scale in zip(axes, given, strict=True):
            scales[at], sizes[at] = float(scale), scaled_extent(shape[at], float(scale))
    region: tuple[float, ...] = ()
    if where == "tf_crop_and_resize":
        numbers = c.array(1).reshape(-1).tolist()
        low, high = [0.0] * len(shape), [1.0] * len(shape)
        for at, axis in enumerate(axes):
            low[axis], high[axis] = numbers[at], numbers[at + len(axes)]
        region = (*low, *high)
    mode, value = c.attribute("mode", "nearest"), c[0]
    if (
        c.opset == 10 and mode == "nearest" and min(scales) < 1
    ):  # where it shrinks, it takes the neighbour behind: an axis after the other
        small = [scale if scale < 1 else 1.0 for scale in scales]
        value = c.emit(
            "resize",
            value,
            sizes=tuple(
                size if scale < 1 else extent for size, scale, extent in zip(sizes, scales, shape, strict=True)
            ),
            scales=tuple(small),
            mode=mode,
            coordinates=where,
            rounding="ceil",
        )
        scales = [max(scale, 1.0) for scale in scales]
    return c.emit(
        "resize",
        value,
        sizes=tuple(sizes),
        scales=tuple(scales),
        mode=mode,
        coordinates=where,
        rounding=c.attribute("nearest_mode", "round_prefer_floor") if not old else "floor",
        cubic=float(c.attribute("cubic_coeff_a", -0.75)),
        exclude_outside=bool(c.attribute("exclude_outside", 0)),
        antialias=bool(c.attribute("antialias", 0)),
        region=region,
        outside=float(c.attribute("extrapolation_value", 0.0)),
    )


def _sizes(c: Context, axes: Sequence[int], sizes: list[Extent], scales: list[float], wanted: Sequence[Extent]) -> None:
    """Sizes as they are asked for, or the nearest ones that keep the proportions. Scales between symbols are 0: as sizes say."""
    policy = c.attribute("keep_aspect_ratio_policy", "stretch")
    if policy != "stretch":
        ratios = [size / c.extent(0, at) for at, size in zip(axes, c.numbers(3), strict=True)]
        ratio = min(ratios) if policy == "not_larger" else max(ratios)
        for at in axes:
            sizes[at], scales[at] = int(np.floor(c.extent(0, at) * ratio + 0.5)), ratio
        return
    for at, size in zip(axes, wanted, strict=True):
        before = c.type(0).shape[at]
        scales[at] = (
            1.0 if size == before else size / before if isinstance(size, int) and isinstance(before, int) else 0.0
        )
        sizes[at] = size
