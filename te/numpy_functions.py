"""What is written for the methods of numpy's arrays, and for its functions of whole arrays, which te's tensors do not have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..errors import user_source
from ..ir.errors import NumpyFunctionUnknown

__all__ = ["WRITTEN", "refuse"]

_SAME = ("argmax argmin argsort broadcast_to clip concatenate cumprod cumsum einsum expand_dims flip full_like max mean min prod "
         "repeat reshape sort split squeeze stack sum take tensordot tile transpose where").split()
WRITTEN: Mapping[str, str] = {
    **{name: f"topi.{name}" for name in _SAME}, "T": "topi.transpose", "dot": "topi.matmul", "inner": "topi.matmul",
    "amax": "topi.max", "amin": "topi.min", "swapaxes": "topi.transpose", "moveaxis": "topi.transpose",
    "vstack": "topi.concatenate", "hstack": "topi.concatenate", "pad": "topi.nn.pad",
    "ravel": "topi.reshape(x, (-1,))", "flatten": "topi.reshape(x, (-1,))",
    "copy": "topi.identity", "zeros_like": "topi.full_like(x, 0)", "ones_like": "topi.full_like(x, 1)",
}
"""numpy's name -> ours."""


def refuse(function: Callable[..., Any]) -> NumpyFunctionUnknown:
    """The error for a function of numpy's that was given a tensor."""
    written = WRITTEN.get(function.__name__)
    return NumpyFunctionUnknown(
        f"np.{function.__name__} has no meaning for symbolic tensors", called=user_source(),
        reason="numpy computes with values, and those of a te program are known when its kernel runs",
        allowed="numpy's functions of elements that te has too: np.exp(A), np.maximum(A, B)",
        fix=f"write {written}" if written else "declare it by te.compute, or by topi's operators")
