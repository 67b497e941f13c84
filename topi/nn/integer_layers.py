"""Numbers in 8 bits and back, products of whole numbers, and products with weights in 8 or 4 bits.

Scales and zero points broadcast as numpy has it, zero points may be absent.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ... import topi
from ...te.tensor import Tensor
from ..references import array_dtype
from ..row import Drawn, Sample, find_reference, floating, integers, operator, positive, sample
from .spatial import spatial
from .weight_only import GROUP

if TYPE_CHECKING:
    from ...ir.expr import Expr


def _wide_dtype(dtype: str) -> str:
    """Return a floating dtype in which whole numbers of a dtype are exact."""
    return "float64" if dtype in ("int32", "uint32") else "float32"


def _numpy_quantize(x: Any, scale: Any, zero: Any = None, *, dtype: str) -> Any:
    wide = np.dtype(_wide_dtype(dtype))
    with np.errstate(all="ignore"):
        return _saturate(x.astype(wide) / scale.astype(wide), zero, dtype)


def _saturate(x: Any, zero: Any, dtype: str) -> Any:
    """Rounded, moved by a zero point, and kept within the range of a dtype; what is not a number is its upper end."""
    bounds, shift = np.iinfo(array_dtype(dtype)), 0 if zero is None else zero.astype(x.dtype)
    return np.clip(np.rint(np.where(np.isnan(x), np.inf, x)) + shift, bounds.min, bounds.max).astype(array_dtype(dtype))


@operator(
    "quantize",
    reference=_numpy_quantize,
    fusion="elementwise",
    samples=[
        sample(floating(3, 5), np.asarray(0.019999999552965164, "float32"), np.asarray(7, "uint8"), dtype="uint8"),
        sample(floating(3, 5), positive(3, 1), dtype="int8"),
    ],
)
def _quantize(x: Tensor, scale: Tensor, zero: Tensor | None = None, *, dtype: str) -> Tensor:
    """round(x / scale) + zero within the range of the dtype; halves go to even numbers."""
    wide, bounds = _wide_dtype(dtype), np.iinfo(array_dtype(dtype))
    steps = topi.divide(topi.cast(x, wide), topi.cast(scale, wide))
    shift = None if zero is None else topi.cast(zero, wide)
    low, high = (topi.full((), wide, float(end)) for end in (bounds.min, bounds.max))
    if shift is not None:
        low, high = topi.subtract(low, shift), topi.subtract(high, shift)
    below = topi.where(topi.less(steps, high), steps, high)
    whole = topi.nearbyint(topi.where(topi.greater(below, low), below, low))
    return topi.cast(topi.cast(whole if shift is None else topi.add(whole, shift), "int32"), dtype)


def _numpy_requantize(x: Any, step: Any, zero: Any = None, *, dtype: str) -> Any:
    with np.errstate(all="ignore"):
        return _saturate(x.astype(np.float32) * step, zero, dtype)


@operator(
    "requantize",
    reference=_numpy_requantize,
    fusion="elementwise",
    samples=[sample(integers(3, 5, below=9999, dtype="int32"), positive(5), np.asarray(7, "uint8"), dtype="uint8")],
)
def _requantize(x: Any, step: Any, zero: Any = None, *, dtype: str) -> Any:
    """round(x * step) + zero within the range of int8 or uint8, x of int32; step: one number, or one for each index of the last
    dimension. Computed in float32, halves go to even numbers."""
    return topi.nn.requantize(x, step, 0 if zero is None else zero, dtype)


def _numpy_dequantize(x: Any, scale: Any, zero: Any = None, *, dtype: str) -> Any:
    steps = x.astype(np.int32) if zero is None else x.astype(np.int32) - zero.astype(np.int32)
    return (steps.astype(np.float32) * scale.astype(np.float32)).astype(array_dtype(dtype))


@operator(
    "dequantize",
    reference=_numpy_dequantize,
    fusion="elementwise",
    samples=[sample(integers(3, 5, below=127, dtype="int8"), positive(5), integers(5, below=9, dtype="int8"))],
)
def _dequantize(x: Tensor, scale: Tensor, zero: Tensor | None = None, *, dtype: str = "float32") -> Tensor:
    """(x - zero) * scale, computed in int32 and float32."""
    steps = topi.cast(x, "int32") if zero is None else topi.subtract(topi.cast(x, "int32"), topi.cast(zero, "int32"))
    return topi.cast(topi.multiply(topi.cast(steps, "float32"), topi.cast(scale, "float32")), dtype)


def _less_zero(x: Any, zero: Any, channel: int) -> Any:
    """An array in int32, less its zero, one for all or for each channel."""
    if zero is None:
        return x.astype(np.int32)
    return x.astype(np.int32) - zero.astype(np.int32).reshape([-1 if at == channel else 1 for at in range(x.ndim)])


def _numpy_integer_matmul(x: Any, w: Any, x_zero: Any = None, w_zero: Any = None) -> Any:
    return np.matmul(_less_zero(x, x_zero, 0), _less_zero(w, w_zero, w.ndim - 1))


@operator(
    "integer_matmul",
    reference=_numpy_integer_matmul,
    samples=[
        sample(
            integers(2, 3, 7, below=255, dtype="uint8"),
            integers(7, 17, below=128, dtype="int8"),
            np.asarray(100, "uint8"),
        ),
        sample(
            integers(5, 8, below=127, dtype="int8"),
            integers(8, 3, below=255, dtype="uint8"),
            np.asarray(0, "int8"),
            np.asarray([3, 128, 255], "uint8"),
        ),
        sample(
            integers(2, 3, 5, 7, below=255, dtype="uint8"),
            integers(2, 3, 7, 17, below=255, dtype="uint8"),
            np.asarray(9, "uint8"),
            np.asarray(200, "uint8"),
        ),
    ],
)
def _integer_matmul(x: Any, w: Any, x_zero: Any = None, w_zero: Any = None) -> Any:
    """x (..., k) times w (k, n), or (..., m, k) times (..., k, n), bytes less their zeros, in int32. x_zero: one number; w_zero:
    one, or one for each column."""
    if w.ndim > 2:
        return topi.nn.integer_matmul(x, w, x_zero, w_zero)
    rows = x if x.ndim == 2 else topi.reshape(x, (cast("Expr", math.prod(x.shape[:-1])), x.shape[-1]))
    product = topi.nn.integer_matmul(rows, w, x_zero, w_zero)
    return product if x.ndim == 2 else topi.reshape(product, (*x.shape[:-1], w.shape[1]))


def _numpy_integer_conv(x: Any, w: Any, x_zero: Any = None, w_zero: Any = None, quads: bool = False, **how: Any) -> Any:
    del quads  # how, not what
    image, weights = np.moveaxis(_less_zero(x, x_zero, 0), -1, 1), _less_zero(w, w_zero, 0)
    return np.moveaxis(find_reference("conv")(image, weights, **how), 1, -1)


@operator(
    "integer_conv",
    reference=_numpy_integer_conv,
    samples=[
        sample(
            integers(1, 6, 7, 3, below=255, dtype="uint8"),
            integers(17, 3, 3, 2, below=128, dtype="int8"),
            np.asarray(100, "uint8"),
            stride=(2, 1),
            padding=(1, 0, 2, 1),
            dilation=(1, 2),
        ),
        sample(
            integers(2, 9, 4, below=127, dtype="int8"),
            integers(6, 2, 3, below=128, dtype="int8"),
            padding=(1, 1),
            groups=2,
        ),
        sample(
            integers(1, 5, 6, 4, below=255, dtype="uint8"),
            integers(4, 1, 3, 3, below=255, dtype="uint8"),
            np.asarray(100, "uint8"),
            np.asarray([1, 2, 128, 255], "uint8"),
            padding=(1, 1, 1, 1),
            groups=4,
        ),
        sample(
            integers(1, 4, 5, 6, 2, below=255, dtype="uint8"),
            integers(3, 2, 2, 2, 2, below=128, dtype="int8"),
            np.asarray(3, "uint8"),
        ),
        sample(
            integers(1, 6, 7, 6, below=255, dtype="uint8"),
            integers(17, 6, 3, 2, below=128, dtype="int8"),
            padding=(1, 0, 2, 1),
            quads=True,
        ),
    ],
)
def _integer_conv(
    x: Any,
    w: Any,
    x_zero: Any = None,
    w_zero: Any = None,
    *,
    stride: Any = (),
    padding: Any = (),
    dilation: Any = (),
    groups: int = 1,
    quads: bool = False,
) -> Any:
    """x (N, ..., C) with w (O, C / groups, ...), bytes less their zeros, in int32: (N, ..., O). x_zero: one number; w_zero: one, or
    one for each of the O. stride, padding, dilation: as conv has them. quads: as topi.nn.integer_conv has it."""
    stride, padding, dilation = spatial(x.ndim - 2, stride, padding, dilation)
    return topi.nn.integer_conv(x, w, x_zero, w_zero, stride, padding, dilation, groups, quads)


def _numpy_weight_only(x: Any, packed: Any, scales: Any, *, outs: int, bits: int) -> Any:
    """x in groups of whole numbers, rounded in float32 as kernels do; then exact but for one rounding."""
    depth, groups = x.shape[-1], scales.shape[1]
    rows = np.zeros((math.prod(x.shape[:-1]), groups * GROUP), np.float32)
    rows[:, :depth] = x.reshape(-1, depth)
    blocks = rows.reshape(-1, groups, GROUP)
    peak = np.abs(blocks).max(-1, keepdims=True)
    with np.errstate(all="ignore"):
        factor = np.where(peak > np.float32(1e-30), np.float32(127) / peak, np.float32(0))
    unit = peak * np.float32(1 / 127)
    whole = (np.rint(blocks * factor) * unit.astype(np.float64)).reshape(len(rows), -1)
    weights = topi.nn.dequantize_groups(packed, scales, outs, groups * GROUP, bits)
    return (whole @ weights.T.astype(np.float64)).reshape(*x.shape[:-1], outs)


def _weights_sample(bits: int) -> Sample:
    packed, scales = integers(2, 2, bits, 16, 4, below=256, dtype="uint8"), Drawn("positive", (2, 2, 16), "float16")
    return sample(floating(2, 3, 37), packed, scales, outs=19, bits=bits)


@operator("weight_only_matmul", reference=_numpy_weight_only, samples=[_weights_sample(4), _weights_sample(8)])
def _weight_only_matmul(x: Any, packed: Any, scales: Any, *, outs: int, bits: int) -> Any:
    """x (..., k) times a matrix (k, outs) that topi.nn.quantize_groups packed, x rounded to 8 bits in groups, as
    topi.nn.weight_only_dense does."""
    rows = x if x.ndim == 2 else topi.reshape(x, (cast("Expr", math.prod(x.shape[:-1])), x.shape[-1]))
    product = topi.nn.weight_only_dense(rows, packed, scales, outs, bits)
    return product if x.ndim == 2 else topi.reshape(product, (*x.shape[:-1], outs))
