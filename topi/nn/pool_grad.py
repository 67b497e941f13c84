"""Gradients of poolings by the images that were pooled."""

from __future__ import annotations

from typing import Any

from ... import te
from ...te.tensor import Tensor
from ..checks import tensor
from .pool import global_pool, pool2d

__all__ = ["global_pool_grad", "pool_grad"]


def pool_grad(
    grads: Tensor,
    data: Tensor,
    kernel: Any,
    stride: Any,
    padding: Any,
    pool_type: str,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    layout: str = "NCHW",
) -> Tensor:
    """The gradient by `data`, in its shape and dtype, where that by pool2d of it ("max" or "avg") is `grads`: by te.gradient.
    Raises BadWindow (TW0190), BadGradient (TW0170)."""
    return _differentiate(
        pool2d(data, kernel, stride, 1, padding, pool_type, ceil_mode, layout, count_include_pad), grads, data
    )


def global_pool_grad(grads: Tensor, data: Tensor, pool_type: str, layout: str = "NCHW") -> Tensor:
    """The same of global_pool. Raises BadWindow (TW0190), BadGradient (TW0170)."""
    return _differentiate(global_pool(data, pool_type, layout), grads, data)


def _differentiate(pooled: Tensor, grads: Tensor, data: Tensor) -> Tensor:
    (found,) = te.gradient(pooled, [data], head=tensor(grads, "pool_grad"))
    return found
