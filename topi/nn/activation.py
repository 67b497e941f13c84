"""Activations, and what else networks do element by element: biases, scales, batch norms of trained networks.

Elements of float16 and bfloat16 are computed in float32 and rounded once where the expression has more than one operator.
Tagged "elemwise" or "broadcast", so that topi.schedule computes them where the operator before stores its result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ...errors import user_source
from ...ir import ops
from ...te import either as te
from ...te.elementwise import operate
from ...te.shape import same_extent
from ...te.tensor import Tensor, tensor_text
from .. import elementwise, transform
from ..checks import axis_of, tensor
from ..errors import BadOperand, BadParameter
from ..weighted import scaled_and_moved

__all__ = [
    "batch_norm_inference",
    "bias_add",
    "elu",
    "flatten",
    "gelu",
    "hard_sigmoid",
    "hard_swish",
    "leaky_relu",
    "pad",
    "prelu",
    "relu",
    "relu6",
    "scale_shift_nchw",
    "scale_shift_nhwc",
    "sigmoid",
    "silu",
    "softplus",
    "tanh",
]


def _activation(name: str, x: Tensor, function: Callable[[Any], Any]) -> Tensor:
    """function of the elements: in float32 for float16 and bfloat16, and for integers, whose products and signs would wrap."""
    source = tensor(x, name)

    def element(value: Any) -> Any:
        if value.dtype.is_float and value.dtype.bits == 16:
            return function(value.astype("float32")).astype(value.dtype)
        return function(value if value.dtype.is_float else value.astype("float32"))

    activated: Tensor = operate(name, element, source)
    return activated


def relu(x: Tensor) -> Tensor:
    """max(x, 0), in the shape and the dtype of x; a NaN stays a NaN. Raises BadOperand (TW0181)."""
    activated: Tensor = operate("relu", lambda value: te.max(value, ops.const(0, value.dtype)), tensor(x, "relu"))
    return activated


def relu6(x: Tensor) -> Tensor:
    """min(max(x, 0), 6), in the shape and the dtype of x. Raises BadOperand (TW0181)."""
    return elementwise.clip(tensor(x, "relu6"), 0, 6)


def leaky_relu(x: Tensor, alpha: float) -> Tensor:
    """x where it is positive, alpha * x elsewhere, in the shape of x and its dtype, float32 for integers. Raises BadOperand
    (TW0181)."""
    return _activation("leaky_relu", x, lambda value: te.select(value > 0, value, value * alpha))


def prelu(x: Tensor, slope: Tensor, axis: int = 1) -> Tensor:
    """x where it is positive, slope[c] * x elsewhere, c being the index along `axis`, in the shape of x. slope: (extent of that
    axis,). Raises BadAxis (TW0180), BadOperand (TW0181)."""
    source = tensor(x, "prelu")
    factor = _along(source, slope, axis, "prelu")
    activated: Tensor = operate("prelu", lambda value, by: te.select(value > 0, value, value * by), source, factor)
    return activated


def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + exp(-x)), in the shape of x and its dtype, float32 for integers. Raises BadOperand (TW0181)."""
    return elementwise.sigmoid(tensor(x, "sigmoid"))


def tanh(x: Tensor) -> Tensor:
    """The hyperbolic tangent, in the shape of x and its dtype, float32 for integers. Raises BadOperand (TW0181)."""
    return elementwise.tanh(tensor(x, "tanh"))


def silu(x: Tensor) -> Tensor:
    """x * sigmoid(x), also called swish, in the shape of x and its dtype, float32 for integers. Raises BadOperand (TW0181)."""
    return _activation("silu", x, lambda value: value * te.sigmoid(value))


def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    """x times the probability that a normal variable is below x (Hendrycks and Gimpel, arXiv:1606.08415).

    approximate "none": 0.5 x (1 + erf(x / sqrt 2)); "tanh": 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
    Raises BadParameter (TW0182) for another word.
    """
    if approximate not in ("none", "tanh"):
        raise BadParameter(
            f"gelu has no approximation {approximate!r}",
            called=user_source(),
            allowed='"none" and "tanh"',
            fix='approximate="none" for the error function',
        )

    def by_erf(value: Any) -> Any:
        return value * 0.5 * (te.erf(value * math.sqrt(0.5)) + 1.0)

    def by_tanh(value: Any) -> Any:
        return value * 0.5 * (te.tanh((value * value * 0.044715 + 1.0) * value * math.sqrt(2 / math.pi)) + 1.0)

    return _activation("gelu", x, by_erf if approximate == "none" else by_tanh)


def elu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """x where it is positive, alpha * (exp(x) - 1) elsewhere, in the shape of x and its dtype, float32 for integers. Raises
    BadOperand (TW0181)."""
    return _activation("elu", x, lambda value: te.select(value > 0, value, te.expm1(te.min(value, 0.0)) * alpha))


def softplus(x: Tensor) -> Tensor:
    """log(1 + exp(x)), without overflow on the way, in the shape of x and its dtype, float32 for integers. Raises BadOperand
    (TW0181)."""
    # At 0 max(x, 0) is flat and min(x, -x) rises: half of it.
    return _activation("softplus", x, lambda value: te.max(value, 0.0) + te.log1p(te.exp(te.min(value, -value))))


def hard_sigmoid(x: Tensor) -> Tensor:
    """min(max(x + 3, 0), 6) / 6, in the shape of x and its dtype, float32 for integers. Raises BadOperand (TW0181)."""
    return _activation("hard_sigmoid", x, lambda value: te.max(te.min(value + 3.0, 6.0), 0.0) * (1 / 6))


def hard_swish(x: Tensor) -> Tensor:
    """x * min(max(x + 3, 0), 6) / 6, in the shape of x and its dtype, float32 for integers. Raises BadOperand (TW0181)."""

    def pieces(value: Any) -> Any:
        # In pieces, so that the gradient at -3 and 3 is that of the straight parts; and a product where it is 0, for -0 and NaN.
        between = value * ((value + 3.0) * (1 / 6))
        return te.select(value <= -3.0, value * 0.0, te.select(value < 3.0, between, value))

    return _activation("hard_swish", x, pieces)


# Along one dimension


def _along(data: Tensor, values: Tensor, axis: int, subject: str) -> Tensor:
    """A value for each index along `axis`, shaped so that it broadcasts to data."""
    vector = tensor(values, subject, 1)
    at = axis_of(data, axis, subject)
    if not same_extent(vector.shape[0], data.shape[at]):
        raise BadOperand(
            f"{subject}: {tensor_text(vector)} does not have a value for each index along axis {at}",
            reason=f"of {tensor_text(data)}",
            declared=vector.source,
            called=user_source(),
            fix="name the axis of the channels, 1 in NCHW and -1 in NHWC",
        )
    behind = data.ndim - at - 1
    shaped: Tensor = te.compute(
        (*vector.shape, *[1] * behind), lambda *i: vector[i[0]], name=vector.name, tag="injective"
    )
    return shaped if behind else vector


def bias_add(data: Tensor, bias: Tensor, axis: int = 1) -> Tensor:
    """data + bias[c], c being the index along `axis`, in the shape of data. bias: (extent of that axis,). Raises BadAxis (TW0180),
    BadOperand (TW0181)."""
    source = tensor(data, "bias_add")
    biased: Tensor = operate("bias_add", ops.add, source, _along(source, bias, axis, "bias_add"))
    return biased


def _scale_shift(data: Tensor, scale: Tensor, shift: Tensor, axis: int, name: str) -> Tensor:
    source = tensor(data, name)
    affine: Tensor = operate(
        name, scaled_and_moved, source, _along(source, scale, axis, name), _along(source, shift, axis, name)
    )
    return affine


def scale_shift_nchw(data: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """data * scale[c] + shift[c], c being the index along axis 1, in the shape of data. scale, shift: (channels,). Raises
    BadOperand (TW0181)."""
    return _scale_shift(data, scale, shift, 1, "scale_shift")


def scale_shift_nhwc(data: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """data * scale[c] + shift[c], c being the index along the last axis, in the shape of data. scale, shift: (channels,). Raises
    BadOperand (TW0181)."""
    return _scale_shift(data, scale, shift, -1, "scale_shift")


def batch_norm_inference(
    data: Tensor,
    gamma: Tensor,
    beta: Tensor,
    moving_mean: Tensor,
    moving_var: Tensor,
    axis: int = 1,
    epsilon: float = 1e-5,
) -> Tensor:
    """(data - moving_mean) / sqrt(moving_var + epsilon) * gamma + beta, each of them by the index along `axis`.

    It is computed as data * factor + offset, both of which are computed once for each channel: the result differs from the
    formula's by a few roundings of the greatest of its terms. Raises BadAxis (TW0180), BadOperand (TW0181).
    """
    source = tensor(data, "batch_norm_inference")
    at = axis_of(source, axis, "batch_norm_inference")
    for parameter in (gamma, beta, moving_mean, moving_var):
        _along(source, parameter, at, "batch_norm_inference")
    factor: Tensor = te.compute(
        gamma.shape, lambda c: gamma[c] / te.sqrt(moving_var[c] + epsilon), name="bn_factor", tag="elemwise"
    )
    offset: Tensor = te.compute(
        gamma.shape, lambda c: beta[c] - moving_mean[c] * factor[c], name="bn_offset", tag="elemwise"
    )
    return _scale_shift(source, factor, offset, at, "batch_norm")


# Shapes


def flatten(data: Tensor) -> Tensor:
    """(n, a, b, ...) as (n, a * b * ...). Raises BadOperand (TW0181) for a tensor of rank 0."""
    source = tensor(data, "flatten")
    if not source.ndim:
        raise BadOperand(
            f"flatten takes a tensor of at least one dimension, and {tensor_text(source)} has none",
            declared=source.source,
            called=user_source(),
            fix="topi.expand_dims(x, 0)",
        )
    rest: Any = math.prod(source.shape[1:]) if source.ndim > 1 else 1
    return transform.reshape(source, (source.shape[0], rest))


def pad(
    data: Tensor,
    pad_before: Sequence[Any],
    pad_after: Sequence[Any] | None = None,
    pad_value: Any = 0.0,
    name: str = "PadInput",
) -> Tensor:
    """topi.pad, where TVM has it, with its arguments and errors. Raises BadParameter (TW0182)."""
    return transform.pad(data, pad_before, pad_after, pad_value, name)
