"""Activations, and what else networks do element by element: biases, scales, batch norms of trained networks.

Elements of float16 and bfloat16 are computed in float32 and rounded once where the expression has more than one operator.
Tagged "elemwise" or "broadcast", so that topi.schedule computes them where the operator before stores its result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...base.errors import user_source
from ...ir import ops
from ...te import polymorphic as te
from ...te.elementwise import operate
from ...te.shape import Extent, same_extent
from ...te.tensor import Tensor, tensor_text
from .. import elementwise, mathematics, transform
from ..checks import BadOperand, BadParameter, normalize_axis, tensor
from ..references import alike, erf, floats, wide
from ..row import floating, integers, operator, sample
from ..signatures import Scalar
from ..weighted_sums import scaled_and_moved

__all__ = [
    "batch_norm_inference",
    "bias_add",
    "celu",
    "elu",
    "flatten",
    "gelu",
    "hard_sigmoid",
    "hard_swish",
    "leaky_relu",
    "mish",
    "pad",
    "prelu",
    "relu",
    "relu6",
    "scale_shift_nchw",
    "scale_shift_nhwc",
    "selu",
    "shrink",
    "sigmoid",
    "silu",
    "softplus",
    "softsign",
    "tanh",
    "thresholded_relu",
]


def _activation(name: str, x: Tensor, function: Callable[[Any], Any]) -> Tensor:
    """function of the elements: in float32 for float16 and bfloat16, and for integers, whose products and signs would wrap."""
    source = tensor(x, name)

    def element(value: Any) -> Any:
        if value.dtype.is_float and value.dtype.bits <= 16:
            return function(value.astype("float32")).astype(value.dtype)
        return function(value if value.dtype.is_float else value.astype("float32"))

    activated: Tensor = operate(name, element, source)
    return activated


_ERROR = 8
"""By how many units in the last place of its greatest term an activation may miss what it should be."""
_NUMBERS, _BYTES = floating(3, 5), integers(11, below=200, dtype="uint8")


def _numpy_relu(x: Any) -> Any:
    return np.maximum(x, 0)


@operator(
    "relu",
    reference=_numpy_relu,
    fusion="elementwise",
    derivative=("where(a > 0.0, g, 0.0)",),
    growth=1,
    samples=[sample(_NUMBERS)],
)
def relu(x: Tensor) -> Tensor:
    """max(x, 0), in the shape and the dtype of x; a NaN stays a NaN. Raises BadOperand (TW0181)."""
    activated: Tensor = operate("relu", lambda value: te.max(value, ops.const(0, value.dtype)), tensor(x, "relu"))
    return activated


def relu6(x: Tensor) -> Tensor:
    """min(max(x, 0), 6), in the shape and the dtype of x. Raises BadOperand (TW0181)."""
    return elementwise.clip(tensor(x, "relu6"), 0, 6)


def _numpy_leaky_relu(x: NDArray[Any], *, alpha: float) -> Any:
    return np.where(x < 0, x * np.asarray(alpha, np.float32 if x.dtype.kind in "iub" else x.dtype), x)


@operator(
    "leaky_relu",
    reference=_numpy_leaky_relu,
    fusion="elementwise",
    derivative=("where(a > 0.0, g, g * alpha)",),
    error=1,
    growth=1,
    samples=[sample(floating(17), alpha=0.125), sample(integers(11, below=9, dtype="int32"), alpha=0.1)],
)
def leaky_relu(x: Tensor, alpha: float) -> Tensor:
    """x where it is positive, alpha * x elsewhere, in the shape of x and its dtype, float32 for integers. Raises BadOperand
    (TW0181)."""
    return _activation("leaky_relu", x, lambda value: te.select(value > 0, value, value * alpha))


def _numpy_prelu(x: NDArray[Any], slope: NDArray[Any]) -> Any:
    value, factor = alike(x, slope)
    return np.where(x > 0, value, value * factor)


@operator(
    "prelu",
    reference=_numpy_prelu,
    fusion="elementwise",
    derivative=("where(a > 0.0, g, g * b)", "where(a > 0.0, 0.0, g * a)"),
    error=1,
    samples=[sample(floating(3, 1, 5), floating(4, 1))],
)
def _broadcast_prelu(x: Tensor, slope: Tensor) -> Tensor:
    activated: Tensor = operate("prelu", lambda value, by: te.select(value > 0, value, value * by), x, slope)
    return activated


def prelu(x: Tensor, slope: Tensor, axis: int = 1) -> Tensor:
    """x where it is positive, slope[c] * x elsewhere, c being the index along the axis.

    Parameters
    ----------
    x : Tensor
        Of any shape.
    slope : Tensor
        (extent of the axis,).
    axis : int, default 1
        Negative ones count from the end.

    Returns
    -------
    Tensor
        The shape of x.

    Raises
    ------
    BadAxis (TW0180)
        An axis that the tensor does not have.
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    """
    source = tensor(x, "prelu")
    return _broadcast_prelu(source, _broadcast_axis(source, slope, axis, "prelu"))


def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + exp(-x)), in the shape of x and its dtype, float32 for integers. Raises BadOperand (TW0181)."""
    return mathematics.sigmoid(tensor(x, "sigmoid"))


def tanh(x: Tensor) -> Tensor:
    """The hyperbolic tangent, in the shape of x and its dtype, float32 for integers. Raises BadOperand (TW0181)."""
    return mathematics.tanh(tensor(x, "tanh"))


def _numpy_silu(x: Any) -> Any:
    return x / (1 + np.exp(-x))


@operator(
    "silu",
    reference=floats(_numpy_silu),
    fusion="elementwise",
    error=_ERROR,
    growth=1.1,
    samples=[sample(_NUMBERS)],
)
def silu(x: Tensor) -> Tensor:
    """x * sigmoid(x), also called swish, in the shape of x and its dtype, float32 for integers. Raises BadOperand (TW0181)."""
    return _activation("silu", x, lambda value: value * te.sigmoid(value))


def _numpy_gelu(x: Any, *, approximate: str = "none") -> Any:
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + erf(x / np.sqrt(2)))


@operator(
    "gelu",
    reference=floats(_numpy_gelu),
    fusion="elementwise",
    error=_ERROR,
    growth=1.2,
    samples=[
        sample(_NUMBERS),
        sample(_NUMBERS, approximate="tanh"),
        sample(integers(11, below=128, dtype="int8"), approximate="tanh"),
    ],
)
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


def _numpy_elu(x: NDArray[Any], *, alpha: float) -> Any:
    return np.where(x < 0, alpha * np.expm1(x), x)


@operator(
    "elu",
    reference=floats(_numpy_elu),
    fusion="elementwise",
    derivative=("where(a > 0.0, g, g * (alpha * exp(a)))",),
    error=_ERROR,
    samples=[sample(_NUMBERS)],
)
def elu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """x where it is positive, alpha * (exp(x) - 1) elsewhere, in the shape of x and its dtype, float32 for integers. Raises
    BadOperand (TW0181)."""
    return _activation("elu", x, lambda value: te.select(value > 0, value, te.expm1(te.min(value, 0.0)) * alpha))


def _numpy_selu(x: NDArray[Any], *, alpha: float, gamma: float) -> Any:
    return gamma * _numpy_elu(x, alpha=alpha)


@operator(
    "selu",
    reference=floats(_numpy_selu),
    fusion="elementwise",
    derivative=("where(a > 0.0, g, g * (exp(a) * alpha)) * gamma",),
    error=_ERROR,
    samples=[sample(floating(17), alpha=1.67, gamma=1.05)],
)
def selu(x: Tensor, alpha: float = 1.6732632423543772, gamma: float = 1.0507009873554805) -> Tensor:
    """gamma * elu(x, alpha) (Klambauer et al., arXiv:1706.02515).

    Parameters
    ----------
    x : Tensor
        Of any shape.
    alpha : float, default 1.6732632423543772
        The factor of what is below 0.
    gamma : float, default 1.0507009873554805
        The factor of the whole.

    Returns
    -------
    Tensor
        The shape and the dtype of x, float32 for integers.

    Raises
    ------
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    """
    return _activation(
        "selu", x, lambda value: te.select(value > 0, value, te.expm1(te.min(value, 0.0)) * alpha) * gamma
    )


def _numpy_celu(x: Any, *, alpha: float) -> Any:
    return np.maximum(x, 0) + np.minimum(0, alpha * np.expm1(x / alpha))


@operator(
    "celu",
    reference=floats(_numpy_celu),
    fusion="elementwise",
    derivative=("where(a > 0.0, g, g * exp(a / alpha))",),
    error=_ERROR,
    samples=[sample(_NUMBERS)],
)
def celu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """max(x, 0) + min(alpha * (exp(x / alpha) - 1), 0), in the shape of x and its dtype, float32 for integers. Raises BadOperand
    (TW0181)."""
    return _activation("celu", x, lambda value: te.max(value, 0.0) + te.min(te.expm1(value / alpha) * alpha, 0.0))


def _numpy_softplus(x: Any) -> Any:
    return np.logaddexp(x, 0)


@operator(
    "softplus",
    reference=floats(_numpy_softplus),
    fusion="elementwise",
    derivative=("g * sigmoid(a)",),
    error=_ERROR,
    growth=1,
    samples=[sample(_NUMBERS), sample(_BYTES)],
)
def softplus(x: Tensor) -> Tensor:
    """log(1 + exp(x)), without overflow on the way, in the shape of x and its dtype, float32 for integers. Raises BadOperand
    (TW0181)."""
    return _activation("softplus", x, _softplus)


def _softplus(value: Any) -> Any:
    # At 0 max(x, 0) is flat and min(x, -x) rises: half of it.
    return te.max(value, 0.0) + te.log1p(te.exp(te.min(value, -value)))


def _numpy_softsign(x: Any) -> Any:
    return x / (1 + np.abs(x))


@operator(
    "softsign",
    reference=floats(_numpy_softsign),
    fusion="elementwise",
    derivative=("g * square(1.0 - abs(y))",),
    error=_ERROR,
    growth=1,
    samples=[sample(_NUMBERS), sample(_BYTES), sample(np.asarray([-128, 127, 3], "int8"))],
)
def softsign(x: Tensor) -> Tensor:
    """x / (1 + |x|), in the shape of x and its dtype, float32 for integers. Raises BadOperand (TW0181)."""
    return _activation("softsign", x, lambda value: value / (1 + te.abs(value)))


def _numpy_mish(x: Any) -> Any:
    return x * np.tanh(_numpy_softplus(x))


@operator(
    "mish",
    reference=floats(_numpy_mish),
    fusion="elementwise",
    error=_ERROR,
    growth=1.2,
    samples=[sample(_NUMBERS), sample(_BYTES)],
)
def mish(x: Tensor) -> Tensor:
    """x * tanh(softplus(x)) (Misra, arXiv:1908.08681), in the shape of x and its dtype, float32 for integers. Raises BadOperand
    (TW0181)."""
    return _activation("mish", x, lambda value: value * te.tanh(_softplus(value)))


def _numpy_hard_sigmoid(x: NDArray[Any], *, alpha: float, beta: float) -> Any:
    return np.clip(alpha * x + beta, 0, 1)


@operator(
    "hard_sigmoid",
    reference=floats(_numpy_hard_sigmoid),
    fusion="elementwise",
    error=_ERROR,
    growth=1,
    samples=[sample(floating(17), alpha=0.2, beta=0.5)],
)
def hard_sigmoid(x: Tensor, alpha: float = 1 / 6, beta: float = 0.5) -> Tensor:
    """min(max(alpha * x + beta, 0), 1).

    Parameters
    ----------
    x : Tensor
        Of any shape.
    alpha : float, default 1 / 6
        The slope.
    beta : float, default 0.5
        The value at 0.

    Returns
    -------
    Tensor
        The shape and the dtype of x, float32 for integers.

    Raises
    ------
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    """
    return _activation("hard_sigmoid", x, lambda value: te.max(te.min(value * alpha + beta, 1.0), 0.0))


def _numpy_thresholded_relu(x: NDArray[Any], *, alpha: float) -> Any:
    return np.where(x > alpha, x, 0)


@operator(
    "thresholded_relu",
    reference=wide(_numpy_thresholded_relu),
    fusion="elementwise",
    derivative=("where(a > alpha, g, 0.0)",),
    samples=[sample(floating(17), alpha=0.3)],
)
def thresholded_relu(x: Tensor, alpha: float) -> Tensor:
    """x where it is above alpha, 0 elsewhere, in the shape and the dtype of x. Raises BadOperand (TW0181)."""
    activated: Tensor = operate(
        "thresholded_relu", lambda value: te.select(value > alpha, value, 0), tensor(x, "thresholded_relu")
    )
    return activated


def _numpy_shrink(x: NDArray[Any], *, lambd: float, bias: float) -> Any:
    return np.where(x < -lambd, (x + bias).astype(x.dtype), np.where(x > lambd, (x - bias).astype(x.dtype), 0))


@operator(
    "shrink",
    reference=_numpy_shrink,
    fusion="elementwise",
    derivative=("where(abs(a) > lambd, g, 0.0)",),
    samples=[sample(floating(17), lambd=0.3, bias=0.1)],
)
def shrink(x: Tensor, lambd: float, bias: float) -> Tensor:
    """x + bias below -lambd, x - bias above lambd, 0 between.

    Parameters
    ----------
    x : Tensor
        Of any shape.
    lambd : float
        The border of what becomes 0.
    bias : float
        What the others are moved by, towards 0.

    Returns
    -------
    Tensor
        The shape and the dtype of x.

    Raises
    ------
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    """

    def element(value: Any) -> Any:
        low, high = (value + bias).astype(value.dtype), (value - bias).astype(value.dtype)
        return te.select(value < -lambd, low, te.select(value > lambd, high, 0))

    activated: Tensor = operate("shrink", element, tensor(x, "shrink"))
    return activated


def _numpy_hard_swish(x: NDArray[Any]) -> Any:
    return x * np.clip(x / 6 + 0.5, 0, 1)


@operator(
    "hard_swish",
    reference=floats(_numpy_hard_swish),
    fusion="elementwise",
    derivative=("where(a <= -3.0, 0.0, where(a < 3.0, g * (a / 3.0 + 0.5), g))",),
    error=_ERROR,
    samples=[sample(_NUMBERS)],
)
def hard_swish(x: Tensor) -> Tensor:
    """x * min(max(x + 3, 0), 6) / 6, in the shape of x and its dtype, float32 for integers. Raises BadOperand (TW0181)."""

    def pieces(value: Any) -> Any:
        # In pieces, so that the gradient at -3 and 3 is that of the straight parts; and a product where it is 0, for -0 and NaN.
        between = value * ((value + 3.0) * (1 / 6))
        return te.select(value <= -3.0, value * 0.0, te.select(value < 3.0, between, value))

    return _activation("hard_swish", x, pieces)


# Along one dimension


def _broadcast_axis(data: Tensor, values: Tensor, axis: int, subject: str) -> Tensor:
    """A value for each index along `axis`, shaped so that it broadcasts to data."""
    vector = tensor(values, subject, 1)
    at = normalize_axis(data, axis, subject)
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
    """data + bias[c], c being the index along the axis.

    Parameters
    ----------
    data : Tensor
        Of any shape.
    bias : Tensor
        (extent of the axis,).
    axis : int, default 1
        Negative ones count from the end.

    Returns
    -------
    Tensor
        The shape of data.

    Raises
    ------
    BadAxis (TW0180)
        An axis that the tensor does not have.
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    """
    source = tensor(data, "bias_add")
    biased: Tensor = operate("bias_add", ops.add, source, _broadcast_axis(source, bias, axis, "bias_add"))
    return biased


def _scale_shift(data: Tensor, scale: Tensor, shift: Tensor, axis: int, name: str) -> Tensor:
    source = tensor(data, name)
    affine: Tensor = operate(
        name,
        scaled_and_moved,
        source,
        _broadcast_axis(source, scale, axis, name),
        _broadcast_axis(source, shift, axis, name),
    )
    return affine


def scale_shift_nchw(data: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """data * scale[c] + shift[c], c being the index along axis 1.

    Parameters
    ----------
    data : Tensor
        (N, C, ...).
    scale : Tensor
        (C,).
    shift : Tensor
        (C,).

    Returns
    -------
    Tensor
        The shape of data.

    Raises
    ------
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    """
    return _scale_shift(data, scale, shift, 1, "scale_shift")


def scale_shift_nhwc(data: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """data * scale[c] + shift[c], c being the index along the last axis.

    Parameters
    ----------
    data : Tensor
        (N, ..., C).
    scale : Tensor
        (C,).
    shift : Tensor
        (C,).

    Returns
    -------
    Tensor
        The shape of data.

    Raises
    ------
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    """
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
    """(data - moving_mean) / sqrt(moving_var + epsilon) * gamma + beta, each of them by the index along the axis.

    It is computed as data * factor + offset, both of which are computed once for each channel: the result differs from
    the formula's by a few roundings of the greatest of its terms.

    Parameters
    ----------
    data : Tensor
        Of any shape.
    gamma : Tensor
        (channels,).
    beta : Tensor
        (channels,).
    moving_mean : Tensor
        (channels,).
    moving_var : Tensor
        (channels,).
    axis : int, default 1
        That of the channels; negative ones count from the end.
    epsilon : float, default 1e-05
        Added to the variance before its root.

    Returns
    -------
    Tensor
        The shape of data.

    Raises
    ------
    BadAxis (TW0180)
        An axis that the tensor does not have.
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    """
    source = tensor(data, "batch_norm_inference")
    at = normalize_axis(source, axis, "batch_norm_inference")
    for parameter in (gamma, beta, moving_mean, moving_var):
        _broadcast_axis(source, parameter, at, "batch_norm_inference")
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
    pad_before: Sequence[Extent],
    pad_after: Sequence[Extent] | None = None,
    pad_value: Scalar = 0.0,
    name: str = "PadInput",
) -> Tensor:
    """topi.pad, where TVM has it, with its arguments and errors.

    Parameters
    ----------
    data : Tensor
        Of any shape.
    pad_before : sequence of numbers
        Elements before each dimension.
    pad_after : sequence of numbers or None, default None
        Elements after each dimension; those before where it is None.
    pad_value : number or expression, default 0.0
        What is added.
    name : str, default "PadInput"
        The name of the operation.

    Returns
    -------
    Tensor
        The extents plus what is added.

    Raises
    ------
    BadParameter (TW0182)
        A parameter of another kind, or out of range.
    """
    return transform.pad(data, pad_before, pad_after, pad_value, name)
