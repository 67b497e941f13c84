"""Losses."""

from __future__ import annotations

from typing import Any

from ...base.errors import user_source
from ...ir import ops
from ...te import polymorphic as te
from ...te.indices import clipped_index, signed_index
from ...te.tensor import Tensor, tensor_text
from .. import reduction as sums
from ..checks import BadOperand, BadParameter, tensor

__all__ = ["nll_loss"]


def nll_loss(
    predictions: Tensor, targets: Tensor, weights: Tensor, reduction: str = "mean", ignore_index: int = -100
) -> Tensor:
    """-predictions[n, targets[n, ...], ...] * weights[targets[n, ...]], and 0 where the target is ignore_index.

    Parameters
    ----------
    predictions : Tensor
        Logarithms of probabilities, (N, C, ...).
    targets : Tensor
        Integers below C, (N, ...).
    weights : Tensor
        (C,).
    reduction : str, default "mean"
        "none", "sum", or "mean", the sum over that of the weights.
    ignore_index : int, default -100
        The target that counts nothing.

    Returns
    -------
    Tensor
        (N, ...) with "none", else of rank 0.

    Raises
    ------
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    BadParameter (TW0182)
        A parameter of another kind, or out of range.
    """
    source, classes = tensor(predictions, "nll_loss"), tensor(weights, "weights of nll_loss", 1)
    target = tensor(targets, "targets of nll_loss", source.ndim - 1)
    if not target.dtype.is_integer:
        raise BadOperand(
            f"nll_loss: {tensor_text(target)} names no classes",
            declared=target.source,
            called=user_source(),
            fix='topi.cast(targets, "int32")',
        )
    if reduction not in ("none", "sum", "mean"):
        raise BadParameter(
            f"nll_loss has no reduction {reduction!r}",
            called=user_source(),
            allowed='"none", "sum", "mean"',
            fix='"mean"',
        )

    def of(*i: Any) -> tuple[Any, Any]:
        which = target[i]
        return ops.equal(signed_index(which), ignore_index), clipped_index(which, source.shape[1])

    def loss(*i: Any) -> Any:
        ignored, which = of(*i)
        return te.if_then_else(ignored, te.const(0, source.dtype), -source[(i[0], which, *i[1:])] * classes[which])

    def weight(*i: Any) -> Any:
        ignored, which = of(*i)
        return te.if_then_else(ignored, te.const(0, classes.dtype), classes[which])

    each: Tensor = te.compute(target.shape, loss, name="nll_loss", tag="broadcast")
    if reduction == "none" or not target.ndim:
        return each
    total = sums.sum(each)
    if reduction == "sum":
        return total
    weighed = sums.sum(te.compute(target.shape, weight, name="nll_loss.weight", tag="broadcast"))
    mean: Tensor = te.compute((), lambda: total[()] / weighed[()], name="nll_loss.mean", tag="broadcast")
    return mean
