"""ONNX's operators on quantised numbers, as the arithmetic that they stand for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...ir.rounding import FLOAT8
from ..conversion import Conversion, Refused, few
from .arithmetic import limit_range
from .context import Context, converts
from .layers import window_attributes
from .package import dtype_named

__all__ = ["dequantize", "products", "emit_quantize", "emit_round"]

_WHOLE = ("int8", "uint8", "int16", "uint16", "int32")


def _spread(c: Conversion, value: str, like: str, axis: int) -> str:
    """A scale or a zero point as it meets the elements: one, one for each index along an axis, or one for each block."""
    kind, shape = c.type(value), c.type(like).shape
    if len(kind.shape) == 0 or kind.shape == (1,):
        return c.reshape(value, ())
    if len(kind.shape) == 1:
        return c.reshape(value, [kind.shape[0] if at == axis else 1 for at in range(len(shape))])
    extent = c.extent(like, axis)
    block = int(c.attribute("block_size", 0) if isinstance(c, Context) else 0) or -(-extent // int(kind.shape[axis]))
    each = c.constant(np.minimum(np.arange(few(extent)) // block, int(kind.shape[axis]) - 1))
    return c.emit("take", value, each, axis=axis)


def emit_quantize(c: Conversion, x: str, scale: str, zero: str, dtype: str, axis: int) -> str:
    """round(x / scale) + zero within the range of the dtype."""
    if dtype not in _WHOLE:
        raise Refused(f"it gives {dtype}")
    return c.emit(
        "quantize", x, _spread(c, scale, x, axis), *([_spread(c, zero, x, axis)] if zero else []), dtype=dtype
    )


def dequantize(c: Conversion, x: str, scale: str, zero: str, axis: int, dtype: str) -> str:
    """(x - zero) * scale."""
    if c.type(x).dtype not in _WHOLE:
        raise Refused(f"it takes {c.type(x).dtype}")
    return c.emit(
        "dequantize", x, _spread(c, scale, x, axis), *([_spread(c, zero, x, axis)] if zero else []), dtype=dtype
    )


@converts("QuantizeLinear")
def _quantize(c: Context) -> str:
    kind = int(c.attribute("output_dtype", 0))
    dtype = c.type(2).dtype if c.has(2) else dtype_named(kind) if kind else "uint8"
    if dtype in FLOAT8:  # whose zero point is 0
        scale = _spread(c, c[1], c[0], c.axis(1) if c.rank(0) > 1 else 0)
        scaled = c.emit("divide", c[0], c.cast(scale, c.type(0).dtype))
        return c.cast(limit_range(c, scaled, dtype), dtype)
    return emit_quantize(c, c[0], c[1], c[2] if c.has(2) else "", dtype, c.axis(1) if c.rank(0) > 1 else 0)


@converts("DequantizeLinear")
def _dequantize(c: Context) -> str:
    kind = int(c.attribute("output_dtype", 0))
    dtype = dtype_named(kind) if kind else c.type(1).dtype
    if c.type(0).dtype in FLOAT8:
        scale = _spread(c, c[1], c[0], c.axis(1) if c.rank(0) > 1 else 0)
        return c.cast(c.emit("multiply", c.cast(c[0], c.type(1).dtype), scale), dtype)
    return dequantize(c, c[0], c[1], c[2] if c.has(2) else "", c.axis(1) if c.rank(0) > 1 else 0, dtype)


@converts("DynamicQuantizeLinear")
def _convert_dynamic(c: Context) -> Sequence[str]:
    return emit_round(c, c[0])


def emit_round(c: Conversion, x: str) -> list[str]:
    """Floats as bytes by the least and the greatest of them, the scale of these, and their zero point. Where all are 0, or so small
    that their scale is none, it is 1, as in onnxruntime: nothing is divided by 0."""
    axes = tuple(range(c.rank(x)))
    zero = c.constant(0, x)
    high = c.emit("maximum", c.emit("max", x, axes=axes), zero)
    low = c.emit("minimum", c.emit("min", x, axes=axes), zero)
    step = c.emit("divide", c.emit("subtract", high, low), c.constant(255, x))
    scale = c.emit("where", c.emit("equal", step, zero), c.constant(1, x), step)
    offset = c.emit("clip", c.emit("nearbyint", c.emit("divide", c.emit("negative", low), scale)), low=0.0, high=255.0)
    zero_point = c.cast(offset, "uint8")
    return [emit_quantize(c, x, scale, zero_point, "uint8", 0), scale, zero_point]


def _subtract_zero(c: Conversion, value: str, zero: str, axis: int) -> str:
    """Quantised numbers as int32, less their zero point."""
    wide = c.cast(value, "int32")
    return c.emit("subtract", wide, c.cast(_spread(c, zero, value, axis), "int32")) if zero else wide


def products(c: Conversion, x: str, w: str, zeros: tuple[str, str]) -> str:
    """Products of matrices of bytes, or of batches of them, in int32. zeros: their zero points, "" where there is none."""
    left, right = zeros
    alike = (
        c.rank(w) == 2
        or c.rank(w) == c.rank(x) > 2
        and c.type(w).shape[:-2] == c.type(x).shape[:-2]
        and (not right or _is_one(c, right))
    )
    if c.rank(x) > 1 and alike and (not left or _is_one(c, left)):
        return c.emit("integer_matmul", x, w, c.reshape(left, ()) if left else "", _flat(c, right) if right else "")
    return c.emit(
        "matmul", _subtract_zero(c, x, left, max(c.rank(x) - 2, 0)), _subtract_zero(c, w, right, c.rank(w) - 1)
    )


def _is_one(c: Conversion, value: str) -> bool:
    return all(extent == 1 for extent in c.type(value).shape)


def _flat(c: Conversion, value: str) -> str:
    """A zero point, or a scale, as one number or as one dimension."""
    return c.reshape(value, [extent for extent in c.type(value).shape if extent != 1])


@converts("MatMulInteger")
def _convert_matmul_integer(c: Context) -> str:
    return products(c, c[0], c[1], (c[2] if c.has(2) else "", c[3] if c.has(3) else ""))


def _convolve(c: Context, x: int, w: int, zeros: tuple[int, int]) -> str:
    """Convolution of bytes, in int32, channels last."""
    taps = tuple(c.attribute("kernel_shape") or c.static(w, slice(2, None)))
    left, right = (c[at] if c.has(at) else "" for at in zeros)
    last = c.emit("transpose", c[x], axes=(0, *range(2, c.rank(x)), 1))
    return c.emit(
        "integer_conv",
        last,
        c[w],
        c.reshape(left, ()) if left else "",
        _flat(c, right) if right else "",
        groups=int(c.attribute("group", 1)),
        **window_attributes(c, taps, c[x]),
    )


def _channels_second(c: Context, value: str) -> str:
    rank = c.rank(value)
    return c.emit("transpose", value, axes=(0, rank - 1, *range(1, rank - 1)))


@converts("ConvInteger")
def _convert_conv_integer(c: Context) -> str:
    return _channels_second(c, _convolve(c, 0, 1, (2, 3)))


def _requantize(c: Context, sums: str, scales: tuple[str, str, str], zero: str) -> str:
    """Sums of products of quantised numbers as quantised numbers, the scales of columns along the last dimension."""
    x, w, y = (c.cast(_flat(c, scale), "float32") for scale in scales)
    step = c.emit("divide", c.emit("multiply", x, w), y)
    dtype = c.type(zero).dtype
    if dtype not in ("int8", "uint8"):
        raise Refused(f"it gives {dtype}")
    return c.emit("requantize", sums, step, _flat(c, zero), dtype=dtype)


@converts("QLinearConv")
def _convert_qlinear_conv(c: Context) -> str:
    sums = _convolve(c, 0, 3, (2, 5))
    return _channels_second(
        c, _requantize(c, c.emit("add", sums, c[8]) if c.has(8) else sums, (c[1], c[4], c[6]), c[7])
    )


@converts("QLinearMatMul")
def _convert_qlinear_matmul(c: Context) -> str:
    return _requantize(c, products(c, c[0], c[3], (c[2], c[5])), (c[1], c[4], c[6]), c[7])
