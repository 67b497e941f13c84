"""ONNX's operators on quantised numbers, as the arithmetic that they stand for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..conversion import Refused
from .context import Context, converts
from .layers import windows_of
from .package import dtype_named

__all__: list[str] = []

_WHOLE = ("int8", "uint8", "int16", "uint16", "int32")


def _spread(c: Context, value: str, like: str, axis: int) -> str:
    """A scale or a zero point as it meets the elements: one, one for each index along an axis, or one for each block."""
    kind, shape = c.type(value), c.static(like)
    if len(kind.shape) == 0 or kind.shape == (1,):
        return c.reshape(value, ())
    if len(kind.shape) == 1:
        return c.reshape(value, [kind.shape[0] if at == axis else 1 for at in range(len(shape))])
    block = int(c.attribute("block_size", 0)) or -(-shape[axis] // int(kind.shape[axis]))
    each = c.constant(np.minimum(np.arange(shape[axis]) // block, int(kind.shape[axis]) - 1))
    return c.emit("take", value, each, axis=axis)


def quantized(c: Context, x: str, scale: str, zero: str, dtype: str, axis: int) -> str:
    """round(x / scale) + zero within the range of the dtype."""
    if dtype not in _WHOLE:
        raise Refused(f"it gives {dtype}")
    wide = "float64" if dtype == "int32" else "float32"
    steps = c.emit("nearbyint", c.emit("divide", c.cast(x, wide), c.cast(_spread(c, scale, x, axis), wide)))
    if zero:
        steps = c.emit("add", steps, c.cast(_spread(c, zero, x, axis), wide))
    bounds = np.iinfo(dtype)
    return c.cast(c.emit("clip", steps, low=float(bounds.min), high=float(bounds.max)), dtype)


def dequantized(c: Context, x: str, scale: str, zero: str, axis: int, dtype: str) -> str:
    """(x - zero) * scale."""
    if c.type(x).dtype not in _WHOLE:
        raise Refused(f"it takes {c.type(x).dtype}")
    steps = c.cast(x, "int32")
    if zero:
        steps = c.emit("subtract", steps, c.cast(_spread(c, zero, x, axis), "int32"))
    return c.cast(c.emit("multiply", c.cast(steps, "float32"), c.cast(_spread(c, scale, x, axis), "float32")), dtype)


@converts("QuantizeLinear")
def _quantize(c: Context) -> str:
    kind = int(c.attribute("output_dtype", 0))
    dtype = c.type(2).dtype if c.has(2) else dtype_named(kind) if kind else "uint8"
    return quantized(c, c[0], c[1], c[2] if c.has(2) else "", dtype, c.axis(1) if c.rank(0) > 1 else 0)


@converts("DequantizeLinear")
def _dequantize(c: Context) -> str:
    kind = int(c.attribute("output_dtype", 0))
    dtype = dtype_named(kind) if kind else c.type(1).dtype
    return dequantized(c, c[0], c[1], c[2] if c.has(2) else "", c.axis(1) if c.rank(0) > 1 else 0, dtype)


@converts("DynamicQuantizeLinear")
def _dynamic(c: Context) -> Sequence[str]:
    axes = tuple(range(c.rank(0)))
    zero = c.constant(0, 0)
    high = c.emit("maximum", c.emit("max", c[0], axes=axes), zero)
    low = c.emit("minimum", c.emit("min", c[0], axes=axes), zero)
    scale = c.emit("divide", c.emit("subtract", high, low), c.constant(255, 0))
    offset = c.emit("clip", c.emit("nearbyint", c.emit("divide", c.emit("negative", low), scale)), low=0.0, high=255.0)
    zero_point = c.cast(offset, "uint8")
    return [quantized(c, c[0], scale, zero_point, "uint8", 0), scale, zero_point]


def _moved(c: Context, value: str, zero: str, axis: int) -> str:
    """Quantised numbers as int32, less their zero point."""
    wide = c.cast(value, "int32")
    return c.emit("subtract", wide, c.cast(_spread(c, zero, value, axis), "int32")) if zero else wide


@converts("MatMulInteger")
def _matmul_integer(c: Context) -> str:
    left = _moved(c, c[0], c[2] if c.has(2) else "", max(c.rank(0) - 2, 0))
    return c.emit("matmul", left, _moved(c, c[1], c[3] if c.has(3) else "", c.rank(1) - 1))


def _conv(c: Context, x: str, w: str) -> str:
    return c.emit("conv", x, w, groups=int(c.attribute("group", 1)), **windows_of(c, tuple(c.static(w)[2:]), x))


@converts("ConvInteger")
def _conv_integer(c: Context) -> str:
    return _conv(c, _moved(c, c[0], c[2] if c.has(2) else "", 1), _moved(c, c[1], c[3] if c.has(3) else "", 0))


def _requantized(c: Context, sums: str, scales: tuple[str, str, str], zero: str, axis: int) -> str:
    """Sums of products of quantised numbers as quantised numbers."""
    wide = c.emit("multiply", c.cast(sums, "float32"), c.cast(_spread(c, scales[0], sums, axis), "float32"))
    wide = c.emit("multiply", wide, c.cast(_spread(c, scales[1], sums, axis), "float32"))
    return quantized(c, wide, scales[2], zero, c.type(zero).dtype, axis)


@converts("QLinearConv")
def _qlinear_conv(c: Context) -> str:
    sums = _conv(c, _moved(c, c[0], c[2], 1), _moved(c, c[3], c[5], 0))
    if c.has(8):
        sums = c.emit("add", sums, c.reshape(c[8], [*c.type(8).shape, *[1] * (c.rank(0) - 2)]))
    return _requantized(c, sums, (c[1], c[4], c[6]), c[7], 1)


@converts("QLinearMatMul")
def _qlinear_matmul(c: Context) -> str:
    sums = c.emit("matmul", _moved(c, c[0], c[2], c.rank(0) - 2), _moved(c, c[3], c[5], c.rank(3) - 1))
    return _requantized(c, sums, (c[1], c[4], c[6]), c[7], c.rank(sums) - 1)

