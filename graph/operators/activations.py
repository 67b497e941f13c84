"""Activations: what networks do to each element. Integers give float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import te, topi
from ...te.elementwise import operate
from .elementwise import erf, wide
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


def _mish(value: Any) -> Any:
    return value * te.tanh(te.max(value, 0) + te.log1p(te.exp(-te.abs(value))))


_row("relu", lambda x: np.maximum(x, 0), lambda x: topi.nn.relu(x))
_row("sigmoid", wide(_sigmoid), lambda x: topi.nn.sigmoid(x))
_row("silu", wide(_silu), lambda x: topi.nn.silu(x))
_row("softplus", wide(_softplus), lambda x: topi.nn.softplus(x))
_row("softsign", wide(_softsign), lambda x: operate("softsign", lambda v: v / (1 + te.abs(v)), x))
_row("mish", wide(_numpy_mish), lambda x: operate("mish", _mish, x))


def _numpy_prelu(x: NDArray[Any], slope: NDArray[Any]) -> Any:
    return np.where(x < 0, x * slope, x)


@operator("prelu", _numpy_prelu, "elementwise")
def _prelu(x: Any, slope: Any) -> Any:
    return operate("prelu", lambda v, s: te.select(v < 0, v * s, v), x, slope)


def _numpy_gelu(x: Any, *, approximate: str) -> Any:
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))
    return 0.5 * x * (1 + erf(x / np.sqrt(2)))


@operator("gelu", wide(_numpy_gelu), "elementwise")
def _gelu(x: Any, *, approximate: str = "none") -> Any:
    return topi.nn.gelu(x, approximate)


def _numpy_leaky_relu(x: NDArray[Any], *, alpha: float) -> Any:
    return np.where(x < 0, x * np.asarray(alpha, x.dtype), x)


@operator("leaky_relu", _numpy_leaky_relu, "elementwise")
def _leaky_relu(x: Any, *, alpha: float) -> Any:
    return topi.nn.leaky_relu(x, alpha)


def _numpy_elu(x: NDArray[Any], *, alpha: float) -> Any:
    return np.where(x < 0, alpha * np.expm1(x), x)


@operator("elu", wide(_numpy_elu), "elementwise")
def _elu(x: Any, *, alpha: float = 1.0) -> Any:
    return topi.nn.elu(x, alpha)


def _numpy_selu(x: NDArray[Any], *, alpha: float, gamma: float) -> Any:
    return gamma * _numpy_elu(x, alpha=alpha)


@operator("selu", wide(_numpy_selu), "elementwise")
def _selu(x: Any, *, alpha: float, gamma: float) -> Any:
    return operate("selu", lambda v: te.select(v < 0, te.expm1(v) * alpha, v) * gamma, x)


def _numpy_celu(x: Any, *, alpha: float) -> Any:
    return np.maximum(x, 0) + np.minimum(0, alpha * np.expm1(x / alpha))


@operator("celu", wide(_numpy_celu), "elementwise")
def _celu(x: Any, *, alpha: float = 1.0) -> Any:
    return operate("celu", lambda v: te.max(v, 0.0) + te.min(te.expm1(v / alpha) * alpha, 0.0), x)


def _numpy_hard_sigmoid(x: NDArray[Any], *, alpha: float, beta: float) -> Any:
    return np.clip(alpha * x + beta, 0, 1)


@operator("hard_sigmoid", wide(_numpy_hard_sigmoid), "elementwise")
def _hard_sigmoid(x: Any, *, alpha: float, beta: float) -> Any:
    return operate("hard_sigmoid", lambda v: te.max(te.min(v * alpha + beta, 1.0), 0.0), x)


def _numpy_hard_swish(x: NDArray[Any]) -> Any:
    return x * np.clip(x / 6 + 0.5, 0, 1)


@operator("hard_swish", wide(_numpy_hard_swish), "elementwise")
def _hard_swish(x: Any) -> Any:
    return topi.nn.hard_swish(x)


def _numpy_thresholded_relu(x: NDArray[Any], *, alpha: float) -> Any:
    return np.where(x > alpha, x, 0)


@operator("thresholded_relu", wide(_numpy_thresholded_relu), "elementwise")
def _thresholded_relu(x: Any, *, alpha: float) -> Any:
    return operate("thresholded_relu", lambda v: te.select(v > alpha, v, 0), x)


def _numpy_shrink(x: NDArray[Any], *, lambd: float, bias: float) -> Any:
    return np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, 0))


@operator("shrink", _numpy_shrink, "elementwise")
def _shrink(x: Any, *, lambd: float, bias: float) -> Any:
    return operate("shrink", lambda v: te.select(v < -lambd, (v + bias).astype(v.dtype),
                                                te.select(v > lambd, (v - bias).astype(v.dtype), 0)), x)
