"""Normalisation by groups of channels, and by batches, as layers that are trained have it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from ... import te
from ...base.errors import user_source
from ...ir.expr import Expr, IntImm
from ...te.shape import same_extent
from ...te.tensor import Tensor, tensor_text
from .. import filling, mathematics, reduction, transform
from ..checks import BadOperand, BadParameter, integers, normalize_axes, normalize_axis, tensor
from ..references import channel_weights, standardize
from ..row import floating, operator, sample
from .activation import batch_norm_inference
from .norm import layer_norm

__all__ = ["batch_norm", "group_norm"]


def batch_norm(
    data: Tensor,
    gamma: Tensor,
    beta: Tensor,
    moving_mean: Tensor,
    moving_var: Tensor,
    axis: int | None = 1,
    epsilon: float | None = 1e-5,
    center: bool | None = True,
    scale: bool | None = True,
    training: bool | None = False,
    momentum: float | None = 0.1,
) -> list[Tensor]:
    """(data - mean) / sqrt(variance + epsilon) * gamma + beta for each channel, and the moving mean and variance after
    it.

    None is the default of each of the numbers.

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
    axis : int or None, default 1
        That of the channels.
    epsilon : float or None, default 1e-05
        Added to the variance before its root.
    center : bool or None, default True
        Whether beta counts.
    scale : bool or None, default True
        Whether gamma counts.
    training : bool or None, default False
        Whether the batch's own mean and variance are taken.
    momentum : float or None, default 0.1
        How far, in training, the moving ones are moved towards those of this batch.

    Returns
    -------
    list of Tensor
        The result in the shape of data, the moving mean and the moving variance: those that were given, or, in
        training, the moved ones.

    Raises
    ------
    BadAxis (TW0180)
        An axis that the tensor does not have.
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    BadParameter (TW0182)
        A parameter of another kind, or out of range.
    """
    source = tensor(data, "topi.nn.batch_norm")
    at, small = (
        normalize_axis(source, 1 if axis is None else axis, "topi.nn.batch_norm"),
        1e-5 if epsilon is None else epsilon,
    )
    scaled, shifted = (gamma if scale is not False else None), (beta if center is not False else None)
    if scaled is None:
        scaled = filling.ones_like(moving_mean)
    if shifted is None:
        shifted = filling.zeros_like(moving_mean)
    if not training:
        normalized = batch_norm_inference(source, scaled, shifted, moving_mean, moving_var, at, small)
        return [normalized, mathematics.identity(moving_mean), mathematics.identity(moving_var)]
    rate = 0.1 if momentum is None else momentum
    if not 0 <= rate <= 1:
        raise BadParameter(
            "momentum of topi.nn.batch_norm is from 0 to 1",
            reason=f"got {rate!r}",
            called=user_source(),
            fix="momentum=0.1 moves the averages by a tenth",
        )
    others = [dim for dim in range(source.ndim) if dim != at]
    mean = reduction.mean(source, others)
    square = te.compute(
        source.shape,
        lambda *i: (source[i] - mean[i[at]]) * (source[i] - mean[i[at]]),
        name="batch_norm.square",
        tag="broadcast",
    )
    variance = reduction.mean(square, others)
    normalized = batch_norm_inference(source, scaled, shifted, mean, variance, at, small)
    moved = [
        te.compute(
            old.shape,
            lambda c, old=old, new=new: old[c] * (1 - rate) + new[c] * rate,
            name=f"{old.name}.moved",
            tag="elemwise",
        )
        for old, new in ((moving_mean, mean), (moving_var, variance))
    ]
    return [normalized, *moved]


def _numpy_group_norm(
    x: NDArray[Any], scale: Any = None, shift: Any = None, *, groups: int, epsilon: float = 1e-5
) -> Any:
    rows = x.reshape(x.shape[0], groups, math.prod(x.shape[1:]) // groups)
    normal = standardize(rows, (2,), epsilon).reshape(x.shape)
    normal = normal if scale is None else normal * channel_weights(x, scale, 1)
    return normal if shift is None else normal + channel_weights(x, shift, 1)


@operator(
    "group_norm",
    reference=_numpy_group_norm,
    attributes={"groups": "num_groups", "epsilon": "epsilon"},
    samples=[sample(floating(2, 6, 3, 5), floating(6), floating(6), groups=3)],
)
def group_norm(
    data: Tensor,
    gamma: Tensor | None,
    beta: Tensor | None,
    num_groups: int,
    channel_axis: int = 1,
    axes: Sequence[int] | None = None,
    epsilon: float = 1e-5,
) -> Tensor:
    """(data - mean) / sqrt(variance + epsilon) * gamma + beta, mean and variance over the axes and the channels of each
    group. Types and bounds are those of layer_norm.

    Parameters
    ----------
    data : Tensor
        Of any shape.
    gamma : Tensor or None
        (channels,), or None for 1.
    beta : Tensor or None
        (channels,), or None for 0.
    num_groups : int
        How many groups there are.
    channel_axis : int, default 1
        That of the channels.
    axes : sequence of int or None, default None
        Those of a row besides channel_axis; all after it where it is None.
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
    source = tensor(data, "topi.nn.group_norm")
    at = normalize_axis(source, channel_axis, "topi.nn.group_norm")
    within = normalize_axes(source, list(range(at + 1, source.ndim) if axes is None else axes), "topi.nn.group_norm")
    (groups,) = integers(num_groups, "num_groups of topi.nn.group_norm")
    channels = source.shape[at]
    if not isinstance(channels, IntImm) or groups < 1 or channels.value % groups:
        raise BadOperand(
            f"topi.nn.group_norm cannot cut {channels} channels into {groups} groups",
            declared=source.source,
            reason=f"they lie along axis {at} of {tensor_text(source)}",
            called=user_source(),
            fix="a number of groups that divides the channels",
        )
    for what, weights in (("gamma", gamma), ("beta", beta)):
        if weights is not None and (weights.ndim != 1 or not same_extent(weights.shape[0], channels)):
            raise BadOperand(
                f"topi.nn.group_norm cannot take {tensor_text(weights)} as {what}",
                declared=weights.source,
                reason=f"there are {channels} channels",
                called=user_source(),
                fix=f"{what} of shape ({channels},)",
            )
    each = channels.value // groups
    apart = transform.reshape(source, [*source.shape[:at], groups, each, *source.shape[at + 1 :]])
    normed = layer_norm(apart, None, None, [at + 1, *(dim + 1 if dim > at else dim for dim in within)], epsilon)
    joined = transform.reshape(normed, source.shape)

    def element(*i: Any) -> Expr:
        value = joined[i]
        value = value if gamma is None else value * gamma[i[at]].astype(value.dtype)
        return value if beta is None else value + beta[i[at]].astype(value.dtype)

    normalized: Tensor = te.compute(source.shape, element, name="group_norm", tag="broadcast")
    return normalized
