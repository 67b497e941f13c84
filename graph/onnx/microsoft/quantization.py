"""Operators on quantised numbers: between two scales, and products with weights in bytes or in fewer bits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...conversion import Conversion, Refused
from ...recurrent import Product
from ..context import Context, converts
from ..layers import window_attributes
from ..quantization import dequantize, emit_quantize, emit_round, products
from ..recurrent import Weights, convert_layers
from .fused_layers import add_bias

__all__ = ["integer_product"]


def _real(c: Context, at: int) -> str:
    """A value whose scale and zero point are the next two inputs, as floats."""
    return dequantize(c, c[at], c[at + 1], c[at + 2] if c.has(at + 2) else "", 0, "float32")


def _round_to_scale(c: Context, value: str, at: int, dtype: str) -> str:
    """Floats by a scale and a zero point, which are these inputs, as whole numbers."""
    return emit_quantize(c, value, c[at], c[at + 1] if c.has(at + 1) else "", dtype, 0)


@converts("com.microsoft.QLinearAdd", "com.microsoft.QLinearMul")
def _convert_arithmetic(c: Context) -> str:
    name = "add" if c.proto.op_type == "QLinearAdd" else "multiply"
    return _round_to_scale(c, c.emit(name, _real(c, 0), _real(c, 3)), 6, c.type(0).dtype)


_FUNCTIONS: dict[str, Callable[[Context, str], str]] = {
    "QLinearLeakyRelu": lambda c, x: c.emit("leaky_relu", x, alpha=float(c.attribute("alpha", 0.01))),
    "QLinearSigmoid": lambda c, x: c.emit("sigmoid", x),
    "QLinearSoftmax": lambda c, x: _softmax(c, x),
}


@converts(*(f"com.microsoft.{name}" for name in _FUNCTIONS))
def _convert_function(c: Context) -> str:
    return _round_to_scale(c, _FUNCTIONS[c.proto.op_type](c, _real(c, 0)), 3, c.type(0).dtype)


def _softmax(c: Context, x: str) -> str:
    axis = c.axis(-1)
    if int(c.attribute("opset", 13)) < 13 and axis != c.rank(x) - 1:
        raise Refused("its softmax runs over several dimensions")
    return c.emit("softmax", x, axis=axis)


@converts("com.microsoft.QLinearWhere")
def _convert_where(c: Context) -> str:
    return _round_to_scale(c, c.emit("where", c[0], _real(c, 1), _real(c, 4)), 7, c.type(1).dtype)


@converts("com.microsoft.QLinearConcat")
def _convert_concat(c: Context) -> str:
    parts = [_real(c, at) for at in range(2, len(c.inputs), 3)]
    return _round_to_scale(c, c.emit("concat", *parts, axis=c.axis(0, c.rank(2))), 0, c.type(2).dtype)


@converts("com.microsoft.QLinearAveragePool", "com.microsoft.QLinearGlobalAveragePool")
def _convert_pool(c: Context) -> str:
    value, rank = _real(c, 0), c.rank(0)
    last = bool(c.attribute("channels_last", 0))
    if last:
        value = c.emit("transpose", value, axes=(0, rank - 1, *range(1, rank - 1)))
    if c.proto.op_type == "QLinearGlobalAveragePool":
        value = c.emit("mean", value, axes=tuple(range(2, rank)), keepdims=True)
    else:
        kernel = tuple(c.attribute("kernel_shape"))
        value = c.emit(
            "avg_pool",
            value,
            kernel=kernel,
            ceil_mode=bool(c.attribute("ceil_mode", 0)),
            count_padding=bool(c.attribute("count_include_pad", 0)),
            **window_attributes(c, kernel, value),
        )
    if last:
        value = c.emit("transpose", value, axes=(0, *range(2, rank), 1))
    return _round_to_scale(c, value, 3, c.type(0).dtype)


@converts("com.microsoft.QuantizeLinear")
def _quantize(c: Context) -> str:
    dtype = c.type(2).dtype if c.has(2) else "uint8"
    return emit_quantize(c, c[0], c[1], c[2] if c.has(2) else "", dtype, c.axis(1) if c.rank(0) > 1 else 0)


@converts("com.microsoft.DequantizeLinear")
def _dequantize(c: Context) -> str:
    axis = c.axis(1) if c.rank(0) > 1 else 0
    return dequantize(c, c[0], c[1], c[2] if c.has(2) else "", axis, c.type(1).dtype)


def integer_product(c: Conversion, x: tuple[str, str, str], w: tuple[str, str, str]) -> str:
    """A product of matrices of bytes as floats. x, w: the numbers, their scale, and their zero point or "": of w one, or one for
    each column."""
    total = c.cast(products(c, x[0], w[0], (x[2], w[2])), "float32")
    return c.emit("multiply", total, c.emit("multiply", *(_row(c, one) for one in (x[1], w[1]))))


def _row(c: Conversion, scale: str) -> str:
    """A scale, one or one for each column."""
    return c.reshape(scale, ()) if c.type(scale).shape == (1,) else scale


@converts("com.microsoft.MatMulIntegerToFloat")
def _convert_matmul_to_float(c: Context) -> str:
    zeros = [c[at] if c.has(at) else "" for at in (4, 5)]
    return add_bias(c, integer_product(c, (c[0], c[2], zeros[0]), (c[1], c[3], zeros[1])), 6)


@converts("com.microsoft.DynamicQuantizeMatMul")
def _convert_dynamic(c: Context) -> str:
    """x is rounded to bytes by the least and the greatest of its elements."""
    levels, scale, zero = emit_round(c, c[0])
    return add_bias(c, integer_product(c, (levels, scale, zero), (c[1], c[2], c[3] if c.has(3) else "")), 4)


@converts("com.microsoft.DynamicQuantizeLSTM")
def _convert_dynamic_lstm(c: Context) -> Sequence[str]:
    """An LSTM whose weights are bytes: its inputs, all steps at once, and what comes from the step before are rounded to bytes by
    the least and the greatest of their elements."""
    if c.has(4):
        raise Refused("its sequences have lengths, and what is rounded after their ends differs among runtimes")
    if not c.attribute("hidden_size", 0):
        raise Refused("its hidden_size is not given")

    def product(direction: int, at: int) -> Product:
        """Product of bytes whose scale and zero points are the inputs from `at` on."""

        def part(position: int) -> str:
            value = c.emit("slice", c[position], begin=(direction,), end=(direction + 1,), step=(1,), axes=(0,))
            return c.reshape(value, c.type(value).shape[1:])

        scale, zero = part(at), part(at + 1) if c.has(at + 1) else ""

        def times(inner: Conversion, taken: Callable[[str], str], value: str, weights: str) -> str:
            levels, step, offset = emit_round(inner, value)
            return integer_product(inner, (levels, step, offset), (weights, taken(scale), taken(zero) if zero else ""))

        return times

    return convert_layers(
        c,
        "LSTM",
        int(c.attribute("hidden_size", 0)),
        lambda direction: Weights(1, product(direction, 8), product(direction, 10)),
    )


@converts("com.microsoft.QGemm")
def _convert_gemm(c: Context) -> str:
    sides = [
        c.emit("transpose", c[at], axes=(1, 0)) if c.attribute(name, 0) else c[at]
        for at, name in ((0, "transA"), (3, "transB"))
    ]
    sums = add_bias(c, products(c, sides[0], sides[1], (c[2], c[5])), 6)
    alpha = float(c.attribute("alpha", 1.0))
    scale = c.emit("multiply", _row(c, c[1]), _row(c, c[4]))
    scale = scale if alpha == 1 else c.emit("multiply", scale, c.constant(alpha, scale))
    result = c.emit("multiply", c.cast(sums, "float32"), scale)
    return _round_to_scale(c, result, 7, c.type(8).dtype if c.has(8) else "uint8") if c.has(7) else result


@converts("com.microsoft.MatMulNBits")
def _convert_matmul_bits(c: Context) -> str:
    """A product with a matrix of weights in so many bits, each block of them along the sum with a scale and a zero of its own."""
    outs, depth, block, bits = (int(c.attribute(name, 4)) for name in ("N", "K", "block_size", "bits"))
    c.attribute("accuracy_level")
    if c.has(4) or c.attribute("weight_prepacked", 0) or bits not in (2, 4, 8) or min(outs, depth, block) < 1:
        raise Refused("its weights are in an order of their own, or have other than 2, 4 or 8 bits")
    blocks = -(-depth // block)
    weights = _steps(c, c.array(1).reshape(outs, blocks, -1), (outs, blocks, bits), 3)[:, :, :block]
    weights = (weights * c.array(2).reshape(outs, blocks, 1).astype(np.float32)).reshape(outs, -1)[:, :depth]
    return add_bias(c, c.emit("matmul", c[0], c.constant(weights, 0), transpose_b=True), 5)


@converts("com.microsoft.GatherBlockQuantized")
def _gather(c: Context) -> str:
    """Rows of a table in so many bits."""
    block, bits = int(c.attribute("block_size", 128)), int(c.attribute("bits", 4))
    rank = c.rank(0)
    axis, along = (
        c.within(int(c.attribute(f"{name}_axis", value)), rank) for name, value in (("gather", 0), ("quantize", 1))
    )
    table = c.array(0)
    if rank != 2 or axis != 0 or along != 1 or bits not in (2, 4, 8) or table.dtype != np.uint8:
        raise Refused("its table is not a matrix of bytes whose rows are gathered")
    scales = c.array(2)
    outs, blocks = scales.shape
    levels = _unpack_bits(table, bits)
    depth = levels.shape[1]
    if blocks != -(-depth // block):
        raise Refused(f"{depth} columns are not {blocks} blocks of {block}")
    whole = np.pad(levels, [(0, 0), (0, blocks * block - depth)]).reshape(outs, blocks, block)
    weights = (_less_zeros(c, whole, (outs, blocks, bits), 3) * scales[:, :, None].astype(np.float32)).reshape(
        outs, -1
    )[:, :depth]
    return c.emit("take", c.constant(weights.astype(scales.dtype)), c[1], axis=0)


def _steps(c: Context, packed: Any, of: tuple[int, int, int], zeros: int) -> Any:
    return _less_zeros(c, _unpack_bits(packed, of[2]), of, zeros)


def _less_zeros(c: Context, levels: Any, of: tuple[int, int, int], at: int) -> Any:
    """Numbers less the zero points that an input has, packed or as floats. of: how many rows, blocks in each, and bits."""
    outs, blocks, bits = of
    zeros: Any = np.asarray(1 << bits - 1)
    if c.has(at):
        given = c.array(at)
        zeros = _unpack_bits(given.reshape(outs, -1), bits)[:, :blocks] if given.dtype == np.uint8 else given
        zeros = zeros.reshape(outs, blocks, 1)
    return levels.astype(np.float32) - zeros.astype(np.float32)


def _unpack_bits(packed: Any, bits: int) -> Any:
    """Bytes as numbers of so many bits, the lowest of each byte first."""
    parts: Sequence[Any] = [packed >> shift & (1 << bits) - 1 for shift in range(0, 8, bits)]
    return np.stack(parts, -1).reshape(*packed.shape[:-1], -1)
