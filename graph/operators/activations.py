"""Activations: what networks do to each element. Integers give float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import topi
from ...te import either as te
from ...te.elementwise import operate
from .elementwise import alike, erf, floats, wide
from .row import operator

__all__: list[str] = []


def _row(name: str, reference: Callable[[Any], Any], declare: Callable[[Any], Any]) -> None:
    """The row of an operator without attributes."""
    operator(name, reference, "elementwise", declare)


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _softplus(x: Any) -> Any:
    return np.logaddexp(x, 0)


def _silu(x: Any) -> Any:
    return x * _sigmoid(x)


def _softsign(x: Any) -> Any:
    return x / (1 + abs(x))


def _numpy_mish(x: Any) -> Any:
    return x * np.tanh(_softplus(x))


def _floating(value: Any) -> Any:
    """An element as a float: the signs and the sums of integers would wrap."""
    return value if value.dtype.is_float else value.astype("float32")


def _softsign_of(x: Any) -> Any:
    value = _floating(x)
    return value / (1 + te.abs(value))


def _mish(x: Any) -> Any:
    value = _floating(x)
    return value * te.tanh(te.max(value, 0) + te.log1p(te.exp(te.min(value, -value))))


_row("relu", lambda x: np.maximum(x, 0), lambda x: topi.nn.relu(x))
_row("sigmoid", floats(_sigmoid), lambda x: topi.nn.sigmoid(x))
_row("silu", floats(_silu), lambda x: topi.nn.silu(x))
_row("softplus", floats(_softplus), lambda x: topi.nn.softplus(x))
_row("softsign", floats(_softsign), lambda x: operate("softsign", _softsign_of, x))
_row("mish", floats(_numpy_mish), lambda x: operate("mish", _mish, x))


def _numpy_prelu(x: NDArray[Any], slope: NDArray[Any]) -> Any:
    value, factor = alike(x, slope)
    return np.where(x < 0, value * factor, value)


@operator("prelu", _numpy_prelu, "elementwise")
def _prelu(x: Any, slope: Any) -> Any:
    return operate("prelu", lambda v, s: te.select(v < 0, v * s, v), x, slope)


def _numpy_gelu(x: Any, *, approximate: str) -> Any:
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + erf(x / np.sqrt(2)))


@operator("gelu", floats(_numpy_gelu), "elementwise")
def _gelu(x: Any, *, approximate: str = "none") -> Any:
    return topi.nn.gelu(x, approximate)


def _numpy_leaky_relu(x: NDArray[Any], *, alpha: float) -> Any:
    return np.where(x < 0, x * np.asarray(alpha, np.float32 if x.dtype.kind in "iub" else x.dtype), x)


@operator("leaky_relu", _numpy_leaky_relu, "elementwise")
def _leaky_relu(x: Any, *, alpha: float) -> Any:
    return topi.nn.leaky_relu(x, alpha)


def _numpy_elu(x: NDArray[Any], *, alpha: float) -> Any:
    return np.where(x < 0, alpha * np.expm1(x), x)


@operator("elu", floats(_numpy_elu), "elementwise")
def _elu(x: Any, *, alpha: float = 1.0) -> Any:
    return topi.nn.elu(x, alpha)


def _numpy_selu(x: NDArray[Any], *, alpha: float, gamma: float) -> Any:
    return gamma * _numpy_elu(x, alpha=alpha)


@operator("selu", floats(_numpy_selu), "elementwise")
def _selu(x: Any, *, alpha: float, gamma: float) -> Any:
    return operate("selu", lambda v: te.select(v < 0, te.expm1(v) * alpha, v) * gamma, x)


def _numpy_celu(x: Any, *, alpha: float) -> Any:
    return np.maximum(x, 0) + np.minimum(0, alpha * np.expm1(x / alpha))


@operator("celu", floats(_numpy_celu), "elementwise")
def _celu(x: Any, *, alpha: float = 1.0) -> Any:
    return operate("celu", lambda v: te.max(v, 0.0) + te.min(te.expm1(v / alpha) * alpha, 0.0), x)


def _numpy_hard_sigmoid(x: NDArray[Any], *, alpha: float, beta: float) -> Any:
    return np.clip(alpha * x + beta, 0, 1)


@operator("hard_sigmoid", floats(_numpy_hard_sigmoid), "elementwise")
def _hard_sigmoid(x: Any, *, alpha: float, beta: float) -> Any:
    return operate("hard_sigmoid", lambda v: te.max(te.min(v * alpha + beta, 1.0), 0.0), x)


def _numpy_hard_swish(x: NDArray[Any]) -> Any:
    return x * np.clip(x / 6 + 0.5, 0, 1)


@operator("hard_swish", floats(_numpy_hard_swish), "elementwise")
def _hard_swish(x: Any) -> Any:
    return topi.nn.hard_swish(x)


def _numpy_thresholded_relu(x: NDArray[Any], *, alpha: float) -> Any:
    return np.where(x > alpha, x, 0)


@operator("thresholded_relu", wide(_numpy_thresholded_relu), "elementwise")
def _thresholded_relu(x: Any, *, alpha: float) -> Any:
    return operate("thresholded_relu", lambda v: te.select(v > alpha, v, 0), x)


def _numpy_shrink(x: NDArray[Any], *, lambd: float, bias: float) -> Any:
    return np.where(x < -lambd, (x + bias).astype(x.dtype), np.where(x > lambd, (x - bias).astype(x.dtype), 0))


@operator("shrink", _numpy_shrink, "elementwise")
def _shrink(x: Any, *, lambd: float, bias: float) -> Any:
    return operate(
        "shrink",
        lambda v: te.select(
            v < -lambd, (v + bias).astype(v.dtype), te.select(v > lambd, (v - bias).astype(v.dtype), 0)
        ),
        x,
    )
