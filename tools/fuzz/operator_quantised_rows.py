"""Operators of few bits that tools/fuzz/operators.py composes.

Scales are powers of two, so that what becomes bytes is exact before it is rounded, and results compare exactly.
"""

from __future__ import annotations

import numpy as np

from ... import topi
from ...topi.row import find_reference
from . import references
from .operator_rows import Operands, Rows, Value, known
from .terms import FLOATS, numpy_type

__all__ = ["ROWS"]

_BYTES = ("int8", "uint8")


def _matrix(draw: Operands, x: Value, dtypes: tuple[str, ...], deepest: int = 200) -> Value | None:
    """x where it is a matrix of one of these types, sometimes a new one where it is not: of bytes, all of them."""
    if x.dtype in dtypes and x.array.ndim == 2 and x.shape[1] <= deepest and known(x):
        return x
    if draw.chance(0.5):
        return None
    shape, dtype = [draw.length(33), draw.length(65)], draw.pick(dtypes)
    return draw.holding(_bytes(draw, dtype, shape)) if dtype in _BYTES else draw.fresh(shape, dtype)


def _bytes(draw: Operands, dtype: str, shape: list[int]) -> np.ndarray:
    ends = np.iinfo(dtype)
    return draw.choices.contents().integers(ends.min, ends.max + 1, shape).astype(dtype)


def dense_bytes(draw: Operands, x: Value) -> Value | None:
    """Products of bytes, exactly: packed when it is called, or before."""
    x8 = _matrix(draw, x, _BYTES)
    if x8 is None:
        return None
    w = _bytes(draw, "int8", [draw.pick([1, 5, 16, 33, 17]), x8.shape[1]])
    if draw.chance(0.5):
        result = topi.nn.dense_int8(x8.tensor, draw.holding(w).tensor)
    else:
        packed, sums = topi.nn.prepack_int8(w)
        result = topi.nn.packed_dense_int8(x8.tensor, draw.holding(packed).tensor, draw.holding(sums).tensor)
    return Value(result, (x8.array.astype("int64") @ w.T.astype("int64")).astype("int32"), "int32")


def dense_bfloat16(draw: Operands, x: Value) -> Value | None:
    """Products of bfloat16, added up in float32."""
    wide = _matrix(draw, x, ("bfloat16",))
    if wide is None:
        return None
    rows, depth = draw.pick([1, 5, 16, 33, 17]), wide.shape[1]
    w = draw.choices.contents().integers(-16, 17, (rows, depth)) / 8
    if draw.chance(0.5):
        result = topi.nn.dense_bf16(wide.tensor, draw.holding(w, "bfloat16").tensor)
    else:
        packed = draw.holding(topi.nn.prepack_bf16(w.astype(numpy_type("bfloat16"))), "bfloat16")
        result = topi.nn.packed_dense_bf16(wide.tensor, packed.tensor, rows)
    bound = (depth + 1) * references.UNIT * (np.abs(wide.array) @ np.abs(w.T))
    more = wide.error * float(np.abs(w).sum(1).max(initial=0.0)) * (1 + depth * references.UNIT)
    return draw.rounded(result, wide.array @ w.T, "float32", float(bound.max(initial=0.0)) * 1.02 + more)


def _power(draw: Operands) -> float:
    return 2.0 ** -draw.number(0, 6)


def quantized_dense(draw: Operands, x: Value) -> Value | None:
    """Layers of bytes with zero points, scales for all or for each output, a bias; to bytes or to floats."""
    x8 = _matrix(draw, x, _BYTES)
    if x8 is None:
        return None
    outs: int = draw.pick([1, 5, 16, 33, 17])
    depth = x8.shape[1]
    w = _bytes(draw, "int8", [outs, depth])
    packed, sums = topi.nn.prepack_int8(w)
    P, S = draw.holding(packed), draw.holding(sums)
    rng = draw.choices.contents()
    x_scale, x_zero, several = _power(draw), draw.pick([0, 11, -5]), draw.chance(0.5)
    w_scale = 2.0 ** -rng.integers(0, 7, outs) if several else np.full(outs, _power(draw))
    w_zero = rng.integers(-9, 10, outs) if several and draw.chance(0.5) else np.full(outs, draw.pick([0, 7]))
    W = draw.holding(w_scale, "float32").tensor if several else float(w_scale[0])
    Z = draw.holding(w_zero, "int32").tensor if w_zero.min() != w_zero.max() else int(w_zero[0])
    bias = draw.fresh([outs], "float32") if draw.chance(0.5) else None
    exact = (x8.array.astype("f8") - x_zero) @ (w.astype("f8") - w_zero[:, None]).T * (x_scale * w_scale)
    real = exact + (bias.array if bias is not None else 0)
    rest = (x8.tensor, P.tensor, S.tensor, x_scale, W, x_zero, Z, bias and bias.tensor)
    if draw.chance(0.5):
        bound = 6 * references.UNIT * (np.abs(exact) + np.abs(real - exact))
        return draw.rounded(topi.nn.quantized_dense(*rest), real, "float32", float(bound.max(initial=0.0)))
    if (
        np.abs(exact).max(initial=0.0) / (x_scale * w_scale.min()) >= 2**20
    ):  # beside the bias, all of it is exact in float32
        return None
    dtype, by, zero = draw.pick(_BYTES), 2.0 ** draw.number(0, 12), draw.pick([0, -4, 100])
    ends = np.iinfo(dtype)
    expected = np.clip(np.rint(real / by) + zero, ends.min, ends.max).astype(dtype)
    return Value(topi.nn.quantized_dense(*rest, out_scale=by, out_zero_point=zero, out_dtype=dtype), expected, dtype)


def quantize_values(draw: Operands, x: Value) -> Value | None:
    """Numbers as bytes, bytes as numbers, sums of 32 bits as bytes."""
    if x.array.ndim and draw.chance(0.4) and known(x):
        scales = 2.0 ** -draw.choices.contents().integers(0, 5, x.shape[-1])
        zeros = draw.choices.contents().integers(-9, 10, x.shape[-1])
        s, z = draw.holding(scales, "float32").tensor, draw.holding(zeros, "int32").tensor
    else:
        scales, zeros = _power(draw), draw.pick([0, 3, -20])
        s, z = scales, zeros
    dtype = draw.pick(_BYTES)
    given = x.array, np.asarray(scales, "float32"), np.asarray(zeros, "int32")
    if x.is_float and x.is_exact and x.scale < 1e4:
        return Value(topi.nn.quantize(x.tensor, s, z, dtype), find_reference("quantize")(*given, dtype=dtype), dtype)
    if x.dtype in _BYTES:
        return draw.rounded(topi.nn.dequantize(x.tensor, s, z), find_reference("dequantize")(*given), "float32")
    if x.dtype == "int32" and x.scale < 2**24:
        expected = find_reference("requantize")(*given, dtype=dtype)
        return Value(topi.nn.requantize(x.tensor, s, z, dtype), expected, dtype)
    return None


def weight_only(draw: Operands, x: Value) -> Value | None:
    """Layers whose weights alone have 4 or 8 bits, for a few rows of x."""
    rows = _matrix(draw, x, ("float32", "float32", *FLOATS[:3]), 500)
    if rows is None or rows.shape[0] > 70:
        return None
    outs, depth, bits = draw.pick([1, 5, 16, 33, 17]), rows.shape[1], draw.pick([4, 8])
    w = draw.choices.contents().standard_normal((outs, depth)).astype("float32")
    packed, scales = topi.nn.quantize_groups(w, bits)
    whole = topi.nn.dequantize_groups(packed, scales, outs, depth, bits)
    bias = draw.fresh([outs], "float32") if draw.chance(0.4) else None
    result = topi.nn.weight_only_dense(
        rows.tensor, draw.holding(packed).tensor, draw.holding(scales).tensor, outs, bits, bias and bias.tensor
    )
    expected, bound = references.weight_only(rows.array, whole)
    off = float(bound.max(initial=0.0)) * 1.02 + rows.error * 1.02 * float(np.abs(whole).sum(1).max(initial=0.0))
    return draw.rounded(result, expected + (bias.array if bias is not None else 0), rows.dtype, off, 2)


ROWS: Rows = ((1, dense_bytes), (0.8, dense_bfloat16), (1, quantized_dense), (0.8, quantize_values), (0.8, weight_only))
"""By weight."""
