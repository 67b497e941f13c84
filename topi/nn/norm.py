"""Normalisations: rows brought to mean 0 and variance 1, or to a length."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...base.arguments import is_a
from ...base.errors import user_source
from ...ir.expr import Expr
from ...te import polymorphic as te
from ...te.tensor import Tensor
from ..checks import BadAxis, BadParameter, normalize_axis
from ..row import floating, operator, sample
from ..weighted_sums import scaled_and_moved
from .rowwise import Rows, wide_dtype

__all__ = ["instance_norm", "l2_normalize", "layer_norm", "lrn", "rms_norm"]


def layer_norm(
    data: Tensor,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    axis: int | Sequence[int] = -1,
    epsilon: float = 1e-5,
) -> Tensor:
    """(data - mean) / sqrt(variance + epsilon) * gamma + beta, mean and variance being those of the row along the axes.

    The variance is the mean of squared distances from the mean, taken in a second pass while the row is in the cache:
    where the mean is large beside the deviation, E[x^2] - E[x]^2 would cancel. float16, bfloat16 and integers are
    computed in float32. In float32 the error of the normalised value, before gamma and beta, is at most (n / 16 + 16) *
    2^-24 * (1 + |value| + largest |x| / deviation) for rows of n.

    Parameters
    ----------
    data : Tensor
        Of any shape.
    gamma : Tensor or None, default None
        Of the extents of the axes, or None for 1.
    beta : Tensor or None, default None
        Of the extents of the axes, or None for 0.
    axis : int or sequence of int, default -1
        One, or several; negative ones count from the end.
    epsilon : float, default 1e-05
        Added to the variance before its root.

    Returns
    -------
    Tensor
        The shape of data; its dtype if that is one of floats, else float32.

    Raises
    ------
    BadAxis (TW0180)
        An axis that the tensor does not have.
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    """
    rows = Rows("layer_norm", data, axis)
    rows.check_weights("gamma", gamma, rows.axes)
    rows.check_weights("beta", beta, rows.axes)
    return _standardize(rows, epsilon, gamma, beta, rows.within)


def instance_norm(
    data: Tensor,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    channel_axis: int = 1,
    axis: int | Sequence[int] = (2, 3),
    epsilon: float = 1e-5,
) -> Tensor:
    """layer_norm along the axes of an image, with gamma and beta a number for each channel. Types and bounds are those
    of layer_norm.

    Parameters
    ----------
    data : Tensor
        Of any shape.
    gamma : Tensor or None, default None
        (channels,), or None for 1.
    beta : Tensor or None, default None
        (channels,), or None for 0.
    channel_axis : int, default 1
        That of the channels.
    axis : int or sequence of int, default (2, 3)
        Those of a row: of images, height and width.
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
    rows = Rows("instance_norm", data, axis)
    channel = normalize_axis(data, channel_axis, "topi.nn.instance_norm")
    if channel in rows.axes:
        raise BadAxis(
            f"topi.nn.instance_norm cannot normalise along axis {channel}",
            reason="it is that of the channels",
            declared=data.source,
            called=user_source(),
            fix="leave it out of axis, or use topi.nn.layer_norm",
        )
    rows.check_weights("gamma", gamma, (channel,))
    rows.check_weights("beta", beta, (channel,))
    return _standardize(rows, epsilon, gamma, beta, lambda i: (i[channel],))


def _standardize(
    rows: Rows,
    epsilon: float,
    gamma: Tensor | None,
    beta: Tensor | None,
    place: Callable[[Sequence[Any]], tuple[Any, ...]],
) -> Tensor:
    """Mean 0, variance 1, then weights, of which `place` says where those of an element are."""
    count = rows.count.astype(rows.wide)
    total = rows.reduce("sum", te.sum, rows.value)
    mean = rows.declare_row("mean", lambda row: total[row] / count)
    squares = rows.reduce("squares", te.sum, lambda i: _square(rows.value(i) - mean[rows.row_of(i)]))
    scale = rows.declare_row("scale", lambda row: 1 / te.sqrt(squares[row] / count + te.const(epsilon, rows.wide)))

    def element(i: Sequence[Any]) -> Expr:
        value = rows.value(i) - mean[rows.row_of(i)]
        if gamma is not None:  # before the scale, which is known last
            value = value * gamma[place(i)].astype(rows.wide)
        if beta is None:
            return value * scale[rows.row_of(i)]
        return scaled_and_moved(value, scale[rows.row_of(i)], beta[place(i)].astype(rows.wide))

    return rows.result(element)


def rms_norm(
    data: Tensor, weight: Tensor | None = None, axis: int | Sequence[int] = -1, epsilon: float = 1e-5
) -> Tensor:
    """data / sqrt(mean of data^2 + epsilon) * weight along the axes.

    float16, bfloat16 and integers are computed in float32. In float32 the relative error is at most (n / 32 + 8) *
    2^-24 for rows of n.

    Parameters
    ----------
    data : Tensor
        Of any shape.
    weight : Tensor or None, default None
        Of the extents of the axes, or None for 1.
    axis : int or sequence of int, default -1
        One, or several; negative ones count from the end.
    epsilon : float, default 1e-05
        Added to the mean before its root.

    Returns
    -------
    Tensor
        The shape of data; its dtype if that is one of floats, else float32.

    Raises
    ------
    BadAxis (TW0180)
        An axis that the tensor does not have.
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    """
    rows = Rows("rms_norm", data, axis)
    rows.check_weights("weight", weight, rows.axes)
    squares = rows.reduce("squares", te.sum, lambda i: _square(rows.value(i)))
    scale = rows.declare_row(
        "scale", lambda row: 1 / te.sqrt(squares[row] / rows.count.astype(rows.wide) + te.const(epsilon, rows.wide))
    )

    def element(i: Sequence[Any]) -> Expr:
        value = rows.value(i) if weight is None else rows.value(i) * weight[rows.within(i)].astype(rows.wide)
        return value * scale[rows.row_of(i)]

    return rows.result(element)


def l2_normalize(data: Tensor, eps: float, axis: int | Sequence[int] | None = None) -> Tensor:
    """data / sqrt(max(sum of data^2, eps)). Types and bounds are those of rms_norm.

    Parameters
    ----------
    data : Tensor
        Of any shape.
    eps : float
        The least sum.
    axis : int or sequence of int or None, default None
        One, or several; None for all.

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
    rows = Rows("l2_normalize", data, axis)
    squares = rows.reduce("squares", te.sum, lambda i: _square(rows.value(i)))
    scale = rows.declare_row("scale", lambda row: 1 / te.sqrt(te.max(squares[row], te.const(eps, rows.wide))))
    return rows.result(lambda i: rows.value(i) * scale[rows.row_of(i)])


def _numpy_lrn(x: NDArray[Any], *, size: int, alpha: float, beta: float, bias: float) -> Any:
    squares = np.pad(x.astype(np.float64) ** 2, [(0, 0), ((size - 1) // 2, size // 2)] + [(0, 0)] * (x.ndim - 2))
    total = sum(squares[:, at : at + x.shape[1]] for at in range(size))
    return x / (bias + alpha / size * total) ** beta


@operator(
    "lrn",
    reference=_numpy_lrn,
    attributes={"size": "size", "alpha": "alpha", "beta": "beta", "bias": "bias"},
    defaults={"bias": 1.0},
    samples=[sample(floating(2, 7, 3, 3), size=3, alpha=0.1, beta=0.75, bias=1.5)],
)
def lrn(data: Tensor, size: int, axis: int = 1, alpha: float = 0.0001, beta: float = 0.75, bias: float = 2.0) -> Tensor:
    """Local response normalisation: data / (bias + alpha / size * sum of the squares of `size` neighbours)^beta.

    Of neighbours beyond the ends the square is 0. float16 and bfloat16 are computed in float32, in which the relative
    error is at most (size + 8) * max(1, beta) * 2^-23.

    Parameters
    ----------
    data : Tensor
        Of any shape.
    size : int
        How many neighbours there are, an odd number.
    axis : int, default 1
        Along which neighbours lie.
    alpha : float, default 0.0001
        The factor of their mean square.
    beta : float, default 0.75
        The exponent.
    bias : float, default 2.0
        Added to the mean square.

    Returns
    -------
    Tensor
        The shape of data.

    Raises
    ------
    BadAxis (TW0180)
        An axis that the tensor does not have.
    BadParameter (TW0182)
        A parameter of another kind, or out of range.
    """
    rows = Rows("lrn", data, [axis])
    if isinstance(size, bool) or not is_a(size, int) or size < 1 or size % 2 == 0:
        raise BadParameter(
            "topi.nn.lrn takes an odd size",
            reason=f"got {size!r}",
            called=user_source(),
            fix="topi.nn.lrn(data, size=5): the element, and two on either side",
        )
    along, wide = rows.axes[0], wide_dtype(data.dtype)
    extent = data.shape[along]
    k = te.reduce_axis((0, size), name="k")

    def neighbour(i: Sequence[Any]) -> Expr:
        place = i[along] + k - size // 2
        value = rows.value((*i[:along], place, *i[along + 1 :]))
        return te.if_then_else(te.all(place >= 0, place < extent), _square(value), te.const(0, wide))

    squares = te.compute(data.shape, lambda *i: te.sum(neighbour(i), axis=k), name="lrn.squares", tag="comm_reduce")
    normalized: Tensor = te.compute(
        data.shape,
        lambda *i: (rows.value(i) / te.pow(squares[i] * (alpha / size) + bias, te.const(beta, wide))).astype(
            rows.dtype
        ),
        name="lrn",
        tag="broadcast",
    )
    return normalized


def _square(value: Expr) -> Expr:
    return value * value
