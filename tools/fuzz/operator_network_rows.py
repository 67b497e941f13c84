"""Operators of networks that tools/fuzz/operators.py composes: convolutions, pools, norms, attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import topi
from ...topi.row import find_reference
from . import references
from .operator_rows import WIDE, Operands, Rows, Value, known, product_error
from .terms import EPSILON, FLOATS, INTEGERS

__all__ = ["ROWS"]

_FLOAT32 = 2.0**-24


def _unit(dtype: str) -> float:
    """The rounding that a bound for float32 is about where `dtype` is computed with: narrower floats in float32."""
    return EPSILON["float64"] if dtype == "float64" else EPSILON["float32"]


def _bound_result(draw: Operands, tensor: Any, expected: Any, bound: Any, more: float, dtype: str) -> Value:
    """A result within a bound that is stated for float32, and off by `more` because of its operands."""
    most = float(np.max(bound, initial=0.0)) * 1.02 * _unit(dtype) / _FLOAT32
    return draw.rounded(tensor, expected, dtype, most + more)


# Convolutions


def _image(draw: Operands, x: Value, dtypes: tuple[str, ...], most: int = 20_000) -> Value | None:
    """x where it is a batch of images, (N, C, H, W); sometimes a new one where it is not."""
    if (
        x.dtype in dtypes
        and x.array.ndim == 4
        and 0 not in x.shape[2:]
        and x.array.size <= most
        and known(x)
        and x.shape[1] <= 64
    ):
        return x
    if draw.chance(0.4):
        return None
    channels = draw.pick([1, 3, 16, 7, 32, 2, 6, 12]) if draw.chance(0.97) else 0
    return draw.fresh(
        [draw.number(1, 2) if draw.chance(0.97) else 0, channels, draw.number(1, 17), draw.number(1, 33)],
        draw.pick(dtypes),
    )


def _window(draw: Operands, x: Value, top: int = 5) -> dict[str, Any] | None:
    """Draw the windows over images; None where none fits."""
    reach = (
        [draw.pick([1, 3, 2, 5, 4][:top]) for _ in range(2)]
        if draw.chance(0.4)
        else [draw.pick([1, 3, 2, 5][:top])] * 2
    )
    stride = [draw.number(1, 3) for _ in range(2)] if draw.chance(0.3) else [draw.pick([1, 2])] * 2
    dilation = [draw.number(1, 2) for _ in range(2)] if draw.chance(0.3) else [1, 1]
    pads = [draw.number(0, 3) for _ in range(4)] if draw.chance(0.3) else [draw.pick([0, 1, 2])] * 4
    for d in (0, 1):
        if x.shape[2 + d] + pads[d] + pads[d + 2] < (reach[d] - 1) * dilation[d] + 1:
            return None
    return {"reach": reach, "stride": stride, "dilation": dilation, "pads": pads}


def _sum_error(x: Value, w: Any) -> float:
    """Return the error of a sum from the errors of the data: w (O, ...)."""
    return x.error * float(np.abs(w.astype("float64")).reshape(len(w), -1).sum(1).max(initial=0.0)) if w.size else 0.0


def _convolution_result(draw: Operands, result: Any, expected: Any, bound: Any, x: Value, w: Any, dtype: str) -> Value:
    if dtype not in FLOATS:
        return Value(result, np.rint(expected).astype(dtype), dtype)
    return _bound_result(draw, result, expected, bound, _sum_error(x, w), dtype)


SUMS = {
    "float32": "float32",
    "float64": "float64",
    "float16": "float32",
    "int8": "int32",
    "uint8": "int32",
    "bfloat16": "float32",
}
"""What images of each type are summed in."""


def _weights(draw: Operands, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    rng = draw.choices.contents()
    if dtype in INTEGERS:
        return rng.integers(0 if dtype.startswith("u") else -9, 10, shape).astype(dtype)
    return rng.integers(-16, 17, shape) / 8


def conv2d(draw: Operands, x: Value) -> Value | None:
    """Convolutions in groups, dilated, padded unevenly: NCHW, NHWC, with packed weights."""
    image = _image(draw, x, tuple(SUMS))
    how = _window(draw, image) if image is not None else None
    if image is None or how is None:
        return None
    channels = image.shape[1]
    groups = draw.pick([n for n in (1, 2, 3, 4) if channels and channels % n == 0] or [1]) if draw.chance(0.4) else 1
    outs = groups * draw.pick([1, 4, 17, 32, 3, 16])
    w = _weights(draw, (outs, channels // groups, *how["reach"]), image.dtype)
    rest = (how["stride"], how["pads"], how["dilation"], groups)
    sums = SUMS[image.dtype]
    expected, bound = references.convolution(image.array, w, *rest)
    kind = draw.number(0, 4)
    if kind == 0:
        result = topi.nn.conv2d(image.tensor, draw.holding(w, image.dtype).tensor, *rest, "NCHW", sums)
    elif kind == 1:
        packed = topi.nn.conv2d_prepack(w, groups)
        result = topi.nn.conv2d_prepacked(image.tensor, draw.holding(packed, image.dtype).tensor, outs, *rest, sums)
    elif kind == 2:
        packed = topi.nn.conv2d_prepack(draw.holding(w, image.dtype).tensor, groups)
        result = topi.nn.conv2d_prepacked(image.tensor, packed, outs, *rest, sums)
    else:
        last = topi.transpose(image.tensor, (0, 2, 3, 1))
        result = topi.nn.conv2d(last, draw.holding(w.transpose(2, 3, 1, 0), image.dtype).tensor, *rest, "NHWC", sums)
        expected, bound = expected.transpose(0, 2, 3, 1), bound.transpose(0, 2, 3, 1)
    return _convolution_result(draw, result, expected, bound, image, w, sums)


def conv2d_blocked(draw: Operands, x: Value) -> Value | None:
    """Convolutions of images whose channels come in blocks."""
    image = _image(draw, x, ("float32", "float32", "float64"))
    how = _window(draw, image) if image is not None else None
    if image is None or how is None or not image.shape[1]:
        return None
    channels = image.shape[1]
    block, out_block = draw.pick([n for n in (4, 8, 16, 3, 2, 1) if channels % n == 0]), draw.pick([4, 16, 8, 5])
    chunks = channels // block
    groups = draw.pick([n for n in (1, 2, 3) if chunks % n == 0]) if draw.chance(0.3) else 1
    outs = groups * draw.number(1, 2) * out_block
    w = _weights(draw, (outs, channels // groups, *how["reach"]), image.dtype)
    expected, bound = references.convolution(image.array, w, how["stride"], how["pads"], how["dilation"], groups)
    kernel = w.reshape(outs // out_block, out_block, chunks // groups, block, *how["reach"]).transpose(0, 2, 4, 5, 3, 1)
    result = topi.nn.conv2d(
        topi.layout_transform(image.tensor, "NCHW", f"NCHW{block}c"),
        draw.holding(kernel, image.dtype).tensor,
        how["stride"],
        how["pads"],
        how["dilation"],
        groups,
        f"NCHW{block}c",
    )
    n, _, high, wide = expected.shape

    def place(y: Any) -> Any:
        return y.reshape(n, outs // out_block, out_block, high, wide).transpose(0, 1, 3, 4, 2)

    return _convolution_result(draw, result, place(expected), place(bound), image, w, image.dtype)


def conv2d_transposed(draw: Operands, x: Value) -> Value | None:
    """Transposed convolutions, with more rows and columns at the end or not."""
    image = _image(draw, x, WIDE, 4000)
    if image is None or not image.array.size:
        return None
    reach = [draw.pick([3, 1, 2, 4]) for _ in range(2)]
    stride = [draw.number(1, 3) for _ in range(2)]
    pads = [draw.number(0, reach[d % 2] - 1) for d in range(4)]
    more = [draw.number(0, stride[d] - 1) for d in (0, 1)]
    if any((image.shape[2 + d] - 1) * stride[d] + reach[d] + more[d] - pads[d] - pads[d + 2] < 1 for d in (0, 1)):
        return None
    w = _weights(draw, (image.shape[1], draw.pick([1, 4, 17, 16]), *reach), image.dtype)
    expected, bound = references.transposed_convolution(image.array, w, stride, pads, more)
    result = topi.nn.conv2d_transpose(image.tensor, draw.holding(w, image.dtype).tensor, stride, pads, more)
    return _convolution_result(draw, result, expected, bound, image, w.swapaxes(0, 1), image.dtype)


def conv2d_winograd(draw: Operands, x: Value) -> Value | None:
    """Winograd's convolutions by both tiles, weights packed before or not."""
    image = _image(draw, x, ("float32",), 10_000)
    pads = [draw.number(0, 2) for _ in range(4)] if draw.chance(0.3) else [draw.pick([1, 0])] * 4
    if image is None or any(image.shape[2 + d] + pads[d] + pads[d + 2] < 3 for d in (0, 1)):
        return None
    tile, outs = draw.pick([2, 4]), draw.pick([1, 5, 16, 20, 33])
    w = _weights(draw, (outs, image.shape[1], 3, 3), image.dtype)
    expected, bound = references.convolution(image.array, w, pads=pads)
    sums = bound / (references.UNIT * 9 * max(image.shape[1], 1))
    if draw.chance(0.5):
        kernel = draw.holding(w, image.dtype).tensor
        result = (
            topi.nn.conv2d(image.tensor, kernel, 1, pads, algorithm="winograd")
            if tile == 2
            else topi.nn.conv2d_winograd(image.tensor, kernel, pads, tile)
        )
    else:
        packed = draw.holding(topi.nn.conv2d_winograd_prepack(w.astype("float32"), tile))
        result = topi.nn.conv2d_winograd_prepacked(image.tensor, packed.tensor, outs, pads)
    return _convolution_result(
        draw, result, expected, sums * references.UNIT * {2: 16, 4: 128}[tile], image, w, image.dtype
    )


def depthwise(draw: Operands, x: Value) -> Value | None:
    """Depthwise convolutions in both layouts, with one window for each channel or several."""
    image = _image(draw, x, ("float32", "float32", "float64", "int8"))
    how = _window(draw, image) if image is not None else None
    if image is None or how is None or not image.shape[1]:
        return None
    channels, many, sums = image.shape[1], draw.pick([1, 1, 2, 3]), SUMS[image.dtype]
    w = _weights(draw, (channels, many, *how["reach"]), image.dtype)
    rest = (how["stride"], how["pads"], how["dilation"])
    expected, bound = references.depthwise(image.array, w, *rest)
    if draw.chance(0.5):
        kernel = draw.holding(w if draw.chance(0.5) else w.reshape(channels * many, 1, *how["reach"]), image.dtype)
        result = topi.nn.depthwise_conv2d(image.tensor, kernel.tensor, *rest, "NCHW", sums)
    else:
        kernel = draw.holding(w.transpose(2, 3, 0, 1), image.dtype)
        result = topi.nn.depthwise_conv2d(
            topi.transpose(image.tensor, (0, 2, 3, 1)), kernel.tensor, *rest, "NHWC", sums
        )
        expected, bound = expected.transpose(0, 2, 3, 1), bound.transpose(0, 2, 3, 1)
    return _convolution_result(draw, result, expected, bound, image, w.reshape(channels * many, -1), sums)


# Pools


def draw_pool(draw: Operands, x: Value) -> Value | None:
    """The greatest or the mean of windows: strides, dilations, paddings, ceil mode, with the padding counted or not."""
    image = _image(draw, x, (*FLOATS, *FLOATS, "uint8", "int8", "int32"), 5000)
    how = _window(draw, image, 4) if image is not None else None
    if image is None or how is None or not image.array.size:
        return None
    kind, ceil, include = draw.pick(["max", "avg"]), draw.chance(0.3), draw.chance(0.5)
    rest = (how["reach"], how["stride"], how["pads"], how["dilation"], ceil, include)
    expected = references.pool(image.array, kind, *rest)
    magnitude = references.pool(np.abs(image.array.astype("float64")), "avg", *rest)
    result, turned = image.tensor, draw.chance(0.4)
    if turned:
        result, expected = topi.transpose(result, (0, 2, 3, 1)), expected.transpose(0, 2, 3, 1)
    result = topi.nn.pool2d(
        result,
        how["reach"],
        how["stride"],
        how["dilation"],
        how["pads"],
        kind,
        ceil,
        "NHWC" if turned else "NCHW",
        include,
    )
    return _window_values(draw, result, expected, magnitude, image, kind, math.prod(how["reach"]))


def _window_values(
    draw: Operands, result: Any, expected: Any, magnitude: Any, x: Value, kind: str, count: int
) -> Value | None:
    if not x.is_float:
        if not np.isfinite(expected).all():
            return None
        return Value(result, np.trunc(expected).astype(x.dtype), x.dtype)
    if kind == "max":
        return draw.exact(result, expected, x)
    return draw.rounded(
        result, expected, x.dtype, x.error + count * EPSILON[x.dtype] * float(magnitude.max(initial=0.0))
    )


def adaptive(draw: Operands, x: Value) -> Value | None:
    """Windows that cover the whole image, one or more of them."""
    image = _image(draw, x, (*FLOATS, "float32", "uint8"), 5000)
    if image is None or not image.array.size:
        return None
    out = [1, 1] if draw.chance(0.5) else [draw.number(1, 7) for _ in range(2)]
    kind = draw.pick(["avg", "max"])
    expected = find_reference("adaptive_pool")(image.array, size=out, kind=kind)
    magnitude = find_reference("adaptive_pool")(np.abs(image.array.astype("float64")), size=out)
    result, layout = image.tensor, "NCHW"
    if draw.chance(0.4):
        result, layout, expected = topi.transpose(result, (0, 2, 3, 1)), "NHWC", expected.transpose(0, 2, 3, 1)
    result = (
        topi.nn.global_pool(result, kind, layout) if out == [1, 1] else topi.nn.adaptive_pool(result, out, kind, layout)
    )
    return _window_values(
        draw,
        result,
        expected,
        magnitude,
        image,
        kind,
        math.prod(-(-n // m) + 1 for n, m in zip(image.shape[2:], out, strict=True)),
    )


# Norms


def _steep(x: Value, deviation: Any) -> float | None:
    """Return by how much an error of x grows when it is divided by these; None where that cannot be told."""
    least = float(np.min(deviation, initial=np.inf))
    return None if x.error and x.error > 0.05 * least else 1.2 / least if x.error else 0.0


def softmax(draw: Operands, x: Value) -> Value | None:
    """Softmax and its logarithm over any axis."""
    if x.dtype not in (*FLOATS, "int8") or not x.array.ndim or 0 in x.shape:
        return None
    at = draw.axis(x)
    dtype = x.dtype if x.is_float else "float32"
    y, n = x.array.astype("float64"), x.shape[at]
    allowed = (n / 64 if at in (-1, x.array.ndim - 1) else n) - (y - y.max(at, keepdims=True)) + 16
    if draw.chance(0.5):
        expected = find_reference("softmax")(y, axis=at)
        return _bound_result(
            draw, topi.nn.softmax(x.tensor, at), expected, allowed * expected * _FLOAT32, 2 * x.error, dtype
        )
    expected, allowed = find_reference("log_softmax")(y, axis=at), (allowed + math.log(n)) * _FLOAT32
    return _bound_result(draw, topi.nn.log_softmax(x.tensor, at), expected, allowed, 2 * x.error, dtype)


def _axes(draw: Operands, x: Value) -> tuple[int, ...]:
    if draw.chance(0.5):
        return (draw.axis(x),)
    return tuple(draw.choices.some(list(range(x.array.ndim)), draw.number(1, x.array.ndim)))


def _row_weights(draw: Operands, x: Value, axes: tuple[int, ...]) -> tuple[Value | None, Any]:
    """Weights along these axes, or none, and what they are beside x."""
    if draw.chance(0.4):
        return None, 1.0
    axes = tuple(at % x.array.ndim for at in axes)
    w = draw.fresh(
        [x.tensor.shape[at] for at in axes], x.dtype if x.is_float else "float32", [x.shape[at] for at in axes]
    )
    return w, w.array.reshape([x.shape[at] if at in axes else 1 for at in range(x.array.ndim)])


def _norm_result(
    draw: Operands, x: Value, result: Any, axes: tuple[int, ...], epsilon: float, gamma: Any, beta: Any
) -> Value | None:
    if 0 in x.shape:
        return Value(result, x.array.astype("float64"), x.dtype if x.is_float else "float32")
    exact, allowed = references.layer_norm(x.array, axes, epsilon)
    growth = _steep(x, np.sqrt(x.array.astype("float64").var(axes) + epsilon))
    if growth is None:
        return None
    expected = exact * gamma + beta
    dtype = x.dtype if x.is_float else "float32"
    bound = np.abs(gamma) * allowed + 4 * _FLOAT32 * (np.abs(exact * gamma) + np.abs(beta))
    more = growth * x.error * (2 + float(np.abs(exact).max())) * float(np.max(np.abs(gamma)))
    return _bound_result(draw, result, expected, bound, more, dtype)


def layer_norm(draw: Operands, x: Value) -> Value | None:
    """Layer norm over any axes, with weights or without."""
    if x.dtype not in (*FLOATS, "int8", "uint8") or not x.array.ndim:
        return None
    axes, epsilon = _axes(draw, x), draw.pick([1e-5, 0.25])
    (gamma, g), (beta, b) = _row_weights(draw, x, axes), _row_weights(draw, x, axes)
    result = topi.nn.layer_norm(x.tensor, gamma and gamma.tensor, beta and beta.tensor, axes, epsilon)
    return _norm_result(draw, x, result, axes, epsilon, g, b if beta is not None else 0.0)


def instance_norm(draw: Operands, x: Value) -> Value | None:
    """Instance norm: over all axes but those of the batch and the channels."""
    if x.dtype not in FLOATS or x.array.ndim < 3:
        return None
    channel = draw.number(0, 1)
    axes, epsilon = tuple(range(2, x.array.ndim)), draw.pick([1e-5, 0.25])
    (gamma, g), (beta, b) = _row_weights(draw, x, (channel,)), _row_weights(draw, x, (channel,))
    result = topi.nn.instance_norm(x.tensor, gamma and gamma.tensor, beta and beta.tensor, channel, axes, epsilon)
    return _norm_result(draw, x, result, axes, epsilon, g, b if beta is not None else 0.0)


def rms_norm(draw: Operands, x: Value) -> Value | None:
    """Rows divided by the root of their mean square, over any axes."""
    if x.dtype not in FLOATS or not x.array.ndim or 0 in x.shape:
        return None
    axes, epsilon = _axes(draw, x), draw.pick([1e-5, 0.25])
    weight, w = _row_weights(draw, x, axes)
    root = np.sqrt((x.array**2).mean(axes, keepdims=True) + epsilon)
    result = topi.nn.rms_norm(x.tensor, weight and weight.tensor, axes, epsilon)
    return _rms_norm_result(draw, x, result, root, w, axes)


def l2_normalize(draw: Operands, x: Value) -> Value | None:
    """Rows divided by their length, over any axes or everything."""
    if x.dtype not in FLOATS or not x.array.ndim or 0 in x.shape:
        return None
    axes, eps = _axes(draw, x), draw.pick([0.25, 1e-12])
    whole = draw.chance(0.2)
    axes = tuple(range(x.array.ndim)) if whole else axes
    root = np.sqrt(np.maximum((x.array**2).sum(axes, keepdims=True), eps))
    return _rms_norm_result(draw, x, topi.nn.l2_normalize(x.tensor, eps, None if whole else axes), root, 1.0, axes)


def _rms_norm_result(
    draw: Operands, x: Value, result: Any, root: Any, weight: Any, axes: tuple[int, ...]
) -> Value | None:
    growth, expected = _steep(x, root), x.array / root
    if growth is None:
        return None
    n = math.prod(x.shape[at] for at in axes)
    more = growth * x.error * (1 + math.sqrt(n)) * float(np.max(np.abs(weight)))
    return _bound_result(
        draw, result, expected * weight, (n / 32 + 8) * _FLOAT32 * np.abs(expected * weight), more, x.dtype
    )


def lrn(draw: Operands, x: Value) -> Value | None:
    """Local response normalisation along any axis."""
    if x.dtype not in FLOATS or not x.array.ndim or x.array.size > 5000:
        return None
    at, size = draw.axis(x), draw.pick([3, 5, 1, 7])
    alpha, beta, bias = draw.pick([0.1, 1e-4]), draw.pick([0.75, 0.5, 1.0]), draw.pick([2.0, 1.0])
    expected, bound = references.local_response(x.array, size, at, alpha, beta, bias)
    more = x.error * (1 + 2 * beta * alpha * x.scale**2)
    return _bound_result(draw, topi.nn.lrn(x.tensor, size, at, alpha, beta, bias), expected, bound, more, x.dtype)


# Attention


def draw_attention(draw: Operands, x: Value) -> Value | None:
    """Attention of x, as queries, to new keys and values, of as many or of others; causal or not."""
    if x.dtype not in FLOATS or x.array.ndim not in (3, 4) or 0 in x.shape or x.scale > 30 or draw.symbols:
        if draw.chance(0.5):
            return None
        lead = [draw.number(1, 3)] if draw.chance(0.7) else [draw.number(1, 2), draw.number(1, 3)]
        dtype = draw.pick([*["float32"] * 4, *FLOATS])
        x = draw.fresh([*lead, draw.pick([1, 7, 33, 64, 65, 130]), draw.pick([8, 16, 5, 1])], dtype)
    lead, (queries, depth) = x.shape[:-2], x.shape[-2:]
    keys = queries if draw.chance(0.4) else draw.pick([1, 5, 17, 64, 129, 90])
    width = depth if draw.chance(0.5) else draw.pick([1, 8, 17, 33])
    causal, scale = draw.chance(0.5), None if draw.chance(0.6) else draw.pick([0.125, 1.0])
    k, v = (draw.fresh([*lead, keys, last], x.dtype) for last in (depth, width))
    expected, bound = references.attention(x.array, k.array, v.array, depth**-0.5 if scale is None else scale, causal)
    off = product_error(x, k, depth, x.dtype) * (depth**-0.5 if scale is None else scale) if x.error else 0.0
    result = topi.nn.attention(x.tensor, k.tensor, v.tensor, scale=scale, causal=causal)
    return _bound_result(draw, result, expected, bound, 2.2 * off * v.scale, x.dtype)


ROWS: Rows = (
    (1.2, conv2d),
    (0.6, conv2d_blocked),
    (0.5, conv2d_transposed),
    (0.7, conv2d_winograd),
    (0.8, depthwise),
    (1, draw_pool),
    (0.5, adaptive),
    (1.2, softmax),
    (1, layer_norm),
    (0.5, instance_norm),
    (0.6, rms_norm),
    (0.5, l2_normalize),
    (0.5, lrn),
    (1.2, draw_attention),
)
"""By weight."""
