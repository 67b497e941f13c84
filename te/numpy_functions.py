"""Advice for methods and functions of numpy's arrays that te's tensors do not have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..base.errors import user_source
from ..ir.errors import NumpyFunctionUnknown

__all__ = ["WRITTEN", "refuse"]

_SAME = (
    "argmax argmin argsort broadcast_to clip concatenate cumprod cumsum einsum expand_dims flip full_like max mean min prod "
    "repeat reshape sort split squeeze stack sum take tensordot tile transpose where"
).split()
WRITTEN: Mapping[str, str] = {
    **{name: f"topi.{name}" for name in _SAME},
    "T": "topi.transpose",
    "dot": "topi.matmul",
    "inner": "topi.matmul",
    "amax": "topi.max",
    "amin": "topi.min",
    "swapaxes": "topi.transpose",
    "moveaxis": "topi.transpose",
    "vstack": "topi.concatenate",
    "hstack": "topi.concatenate",
    "pad": "topi.nn.pad",
    "ravel": "topi.reshape(x, (-1,))",
    "flatten": "topi.reshape(x, (-1,))",
    "copy": "topi.identity",
    "zeros_like": "topi.full_like(x, 0)",
    "ones_like": "topi.full_like(x, 1)",
    "round": "te.nearbyint(x)",
    "around": "te.nearbyint(x)",
    "size": "the product of A.shape",
    "isclose": "te.abs(a - b) <= tolerance",
    "allclose": "topi.all(te.abs(a - b) <= tolerance)",
    "array_equal": "topi.all(topi.equal(a, b))",
    "fft": "topi.dft",
    "nan_to_num": "te.if_then_else(te.isnan(A), 0, A)",
    "norm": "te.sqrt(topi.sum(A * A))",
    "linspace": "a scaled topi.arange",
    "var": "the mean of squares of A - topi.mean(A, axis, keepdims=True)",
    "std": "te.sqrt of the variance",
    "outer": "te.compute((n, m), lambda i, j: a[i] * b[j])",
    "trace": "te.sum(A[k, k], axis=k)",
    "diagonal": "te.compute((n,), lambda i: A[i, i])",
    "tril": "topi.trilu",
    "triu": "topi.trilu",
    "roll": "te.wrapped(A)[i - shift]",
    "copyto": "topi.identity",
    "cumulative_sum": "topi.cumsum",
    "matvec": "topi.matmul",
    "vdot": "topi.sum(a * b)",
    "ptp": "topi.max(A) - topi.min(A)",
    "nansum": "topi.sum(te.if_then_else(te.isnan(A), 0, A))",
}
"""numpy's name -> ours."""


def refuse(function: Callable[..., Any]) -> NumpyFunctionUnknown:
    """The error for a function of numpy's that was given a tensor."""
    written = WRITTEN.get(function.__name__)
    return NumpyFunctionUnknown(
        f"np.{function.__name__} has no meaning for symbolic tensors",
        called=user_source(),
        reason="numpy computes with values, and those of a te program are known when its kernel runs",
        allowed="numpy's functions of elements that te has too: np.exp(A), np.maximum(A, B)",
        fix=f"write {written}" if written else "declare it by te.compute, or by topi's operators",
    )
