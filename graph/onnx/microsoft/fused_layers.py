"""Layers with what follows them, activations, normalisations of sums, and positions that turn vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ...conversion import Refused
from ...types import Extent
from ..context import Context, converts
from ..layers import kernel_shape, window_attributes

__all__ = ["add_bias", "rotate_pairs"]


def add_bias(c: Context, value: str, at: int) -> str:
    """A value and an input that is added to it, where it is there."""
    return c.emit("add", value, c[at]) if c.has(at) else value


def _quick(c: Context, value: str, alpha: float) -> str:
    """x * sigmoid(alpha * x)."""
    return c.emit("multiply", value, c.emit("sigmoid", c.emit("multiply", value, c.constant(alpha, value))))


_ACTIVATIONS: Mapping[str, Callable[[Context, str, Sequence[float]], str]] = {
    "": lambda c, x, _: x,
    "Clip": lambda c, x, of: c.emit("clip", x, low=of[0], high=of[1]),
    "Elu": lambda c, x, of: c.emit("elu", x, alpha=(*of, 1.0)[0]),
    "HardSigmoid": lambda c, x, of: c.emit("hard_sigmoid", x, alpha=of[0], beta=of[1]),
    "HardSwish": lambda c, x, _: c.emit("hard_swish", x),
    "LeakyRelu": lambda c, x, of: c.emit("leaky_relu", x, alpha=(*of, 0.01)[0]),
    "QuickGelu": lambda c, x, of: _quick(c, x, (*of, 1.702)[0]),
    "Relu": lambda c, x, _: c.emit("relu", x),
    "Sigmoid": lambda c, x, _: c.emit("sigmoid", x),
    "Tanh": lambda c, x, _: c.emit("tanh", x),
}
"""What may follow a layer, with its parameters."""


def _emit_activation(c: Context, value: str, parameters: Sequence[float]) -> str:
    name = c.attribute("activation", "")
    if name not in _ACTIVATIONS:
        raise Refused(f"its activation {name!r} is not known")
    return _ACTIVATIONS[name](c, value, parameters)


@converts("com.microsoft.FusedConv")
def _convert_conv(c: Context) -> str:
    groups = int(c.attribute("group", 1))
    value = c.fix_extent(c[0], 1, c.extent(1, 1) * groups)
    bias = [c[2]] if c.has(2) else []
    result = c.emit("conv", value, c[1], *bias, groups=groups, **window_attributes(c, kernel_shape(c)))
    return _emit_activation(c, add_bias(c, result, 3), list(c.attribute("activation_params") or ()))


@converts("com.microsoft.FusedGemm")
def _convert_gemm(c: Context) -> str:
    product = c.emit(
        "matmul", c[0], c[1], transpose_a=bool(c.attribute("transA", 0)), transpose_b=bool(c.attribute("transB", 0))
    )
    product = _scale(c, product, float(c.attribute("alpha", 1.0)))
    beta = float(c.attribute("beta", 1.0))
    if c.has(2) and beta:
        product = c.emit("add", product, _scale(c, c[2], beta))
    return _emit_activation(c, product, _parameters(c))


def _parameters(c: Context) -> list[float]:
    """Parameters of an activation that a product has."""
    given = [c.attribute(f"activation_{name}") for name in ("alpha", "beta", "gamma")]
    return [float(one) for one in given if one is not None]


def _scale(c: Context, value: str, factor: float) -> str:
    return value if factor == 1 else c.emit("multiply", value, c.constant(factor, value))


@converts("com.microsoft.FusedMatMul", "com.microsoft.TransposeMatMul", "com.microsoft.FusedMatMulActivation")
def _convert_matmul(c: Context) -> str:
    sides: list[str] = []
    for at, name in enumerate("AB"):
        value = c[at]
        if c.attribute(f"transBatch{name}", 0) and c.rank(value) > 2:
            rank = c.rank(value)
            value = c.emit("transpose", value, axes=(*range(1, rank - 1), 0, rank - 1))
        sides.append(value)
    swapped = [bool(c.attribute(f"trans{name}", 0)) and c.rank(at) > 1 for at, name in enumerate("AB")]
    product = c.emit("matmul", *sides, transpose_a=swapped[0], transpose_b=swapped[1])
    return _emit_activation(c, _scale(c, product, float(c.attribute("alpha", 1.0))), _parameters(c))


@converts("com.microsoft.Gelu", "com.microsoft.BiasGelu", "com.microsoft.FastGelu")
def _convert_gelu(c: Context) -> str:
    # as onnxruntime documents them: by erf, but FastGelu by tanh
    return c.emit("gelu", add_bias(c, c[0], 1), approximate="tanh" if c.proto.op_type == "FastGelu" else "none")


@converts("com.microsoft.QuickGelu")
def _convert_quick_gelu(c: Context) -> str:
    return _quick(c, c[0], float(c.attribute("alpha", 1.702)))


@converts("com.microsoft.BiasSoftmax")
def _convert_bias_softmax(c: Context) -> str:
    # looked at, else it would be refused as an attribute that nobody read
    c.attribute("is_inner_broadcast")
    axis = c.axis(1)
    if axis != c.rank(0) - 1:
        raise Refused("its softmax runs over several dimensions")
    return c.emit("softmax", c.emit("add", c[0], c[1]), axis=axis)


@converts("com.microsoft.BiasAdd")
def _convert_bias_add(c: Context) -> str:
    return add_bias(c, add_bias(c, c[0], 1), 2)


def _normal(c: Context, value: str, scale: str, shift: str, epsilon: float) -> str:
    """Normalise over the last dimension, mean 0 where there is a shift to be."""
    return c.emit("layer_norm", value, scale, *([shift] if shift else []), axis=c.rank(value) - 1, epsilon=epsilon)


@converts("com.microsoft.SkipLayerNormalization")
def _skip_layer_norm(c: Context) -> Sequence[str]:
    total = add_bias(c, c.emit("add", c[0], c[1]), 4)
    result = _normal(c, total, c[2], c[3] if c.has(3) else "", float(c.attribute("epsilon", 1e-12)))
    # the mean and the inverse deviation between them are for training alone
    return [result, "", "", total][: c.outputs]


@converts("com.microsoft.SkipSimplifiedLayerNormalization")
def _skip_rms_norm(c: Context) -> Sequence[str]:
    total = add_bias(c, c.emit("add", c[0], c[1]), 3)
    result = c.emit("rms_norm", total, c[2], axis=c.rank(total) - 1, epsilon=float(c.attribute("epsilon", 1e-12)))
    return [result, "", "", total][: c.outputs]


@converts("SimplifiedLayerNormalization", "com.microsoft.SimplifiedLayerNormalization")
def _convert_rms_norm(c: Context) -> Sequence[str]:
    """Convert the RMS norm as onnxruntime writes it, in ONNX's own domain."""
    return [c.emit("rms_norm", c[0], c[1], axis=c.axis(-1), epsilon=float(c.attribute("epsilon", 1e-5))), ""][
        : c.outputs
    ]


@converts("com.microsoft.EmbedLayerNormalization")
def _convert_embedding(c: Context) -> Sequence[str]:
    batch, length = c.type(0).shape
    places = c[8] if c.has(8) else c.emit("arange", shape=(length,))
    total = c.emit("add", c.emit("take", c[2], c[0], axis=0), c.emit("take", c[3], places, axis=0))
    if c.has(1) and c.has(4):
        total = c.emit("add", total, c.emit("take", c[4], c[1], axis=0))
    result = _normal(c, total, c[5], c[6], float(c.attribute("epsilon", 1e-12)))
    c.attribute("mask_index_type")
    lengths = (
        c.emit("sum", c.cast(c[7], "int32"), axes=(1,))
        if c.has(7)
        # onnxruntime gives zeros where there is no mask
        else c.emit("broadcast_to", c.constant(np.zeros((), np.int32)), shape=(batch,))
    )
    return [result, c.cast(lengths, "int32"), total][: c.outputs]


def rotate_pairs(c: Context, value: str, angles: tuple[str, str], places: str, interleaved: bool) -> str:
    """(batch, heads, length, depth) whose vectors are turned, in pairs of their first components, by angles that rows of tables
    tell. angles: cosines and sines, (positions, half). places: (batch or 1, length)."""
    half = c.extent(angles[0], 1)
    batch, heads, length, depth = c.type(value).shape
    if not isinstance(depth, int):
        raise Refused("the length of its vectors is not known")
    cosine, sine = (
        c.reshape(c.emit("take", one, places, axis=0), (c.type(places).shape[0], 1, length, half)) for one in angles
    )

    def part(begin: int, end: int, step: int = 1) -> str:
        return c.emit("slice", value, begin=(begin,), end=(end,), step=(step,), axes=(3,))

    # neighbours, as GPT-J has them, or halves, as GPT-NeoX and Llama
    first, second = (
        (part(0, 2 * half, 2), part(1, 2 * half, 2)) if interleaved else (part(0, half), part(half, 2 * half))
    )
    turned = [
        c.emit(name, c.emit("multiply", first, one), c.emit("multiply", second, other))
        for name, one, other in (("subtract", cosine, sine), ("add", sine, cosine))
    ]
    whole = (
        c.reshape(c.emit("stack", *turned, axis=4), (batch, heads, length, 2 * half))
        if interleaved
        else c.emit("concat", *turned, axis=3)
    )
    return whole if 2 * half == depth else c.emit("concat", whole, part(2 * half, depth), axis=3)


@converts("com.microsoft.RotaryEmbedding")
def _convert_rotary(c: Context) -> str:
    if c.attribute("is_packed_batching", 0) or float(c.attribute("scale", 1.0)) != 1:
        raise Refused("its batches are packed, or its angles scaled")
    shape, half = c.type(0).shape, c.extent(2, 1)
    heads, own = int(c.attribute("num_heads", 0)), int(c.attribute("rotary_embedding_dim", 0))
    value = c[0]
    if len(shape) == 3:
        width = c.extent(0, 2)
        depth = width // heads if heads and own else 2 * half
        value = c.emit("transpose", c.reshape(value, (*shape[:2], width // depth, depth)), axes=(0, 2, 1, 3))
    length = c.type(value).shape[2]
    result = rotate_pairs(
        c, value, (c[2], c[3]), _sequence_positions(c, c[1], length), bool(c.attribute("interleaved", 0))
    )
    return result if len(shape) == 4 else c.reshape(c.emit("transpose", result, axes=(0, 2, 1, 3)), shape)


def _sequence_positions(c: Context, given: str, length: Extent) -> str:
    """Positions of each sequence of a batch, or of all from a first one on."""
    if c.rank(given) == 2:
        return given
    counted = c.reshape(c.emit("arange", shape=(length,)), (1, length))
    return c.emit("add", counted, c.reshape(c.cast(given, "int64"), (1, 1)))
