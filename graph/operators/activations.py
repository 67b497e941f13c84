"""Activations: what networks do to each element. Integers give float32."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import te, topi
from ...te.elementwise import operate
from .elementwise import erf, wide
from .row import operator

__all__: list[str] = []


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _softplus(x: Any) -> Any:
    return np.logaddexp(x, 0)


operator("relu", lambda x: np.maximum(x, 0), "elementwise", lambda x: topi.nn.relu(x))
operator("sigmoid", wide(_sigmoid), "elementwise", lambda x: topi.nn.sigmoid(x))
operator("silu", wide(lambda x: x * _sigmoid(x)), "elementwise", lambda x: topi.nn.silu(x))
operator("softplus", wide(_softplus), "elementwise", lambda x: topi.nn.softplus(x))
operator("softsign", wide(lambda x: x / (1 + abs(x))), "elementwise",
         lambda x: operate("softsign", lambda v: v / (1 + te.abs(v)), x))
operator("mish", wide(lambda x: x * np.tanh(_softplus(x))), "elementwise", lambda x: operate("mish", _mish, x))
operator("prelu", lambda x, slope: np.where(x < 0, x * slope, x), "elementwise",
         lambda x, slope: operate("prelu", lambda v, s: te.select(v < 0, v * s, v), x, slope))


def _mish(value: Any) -> Any:
    return value * te.tanh(te.max(value, 0) + te.log1p(te.exp(-te.abs(value))))


@operator("gelu", wide(lambda x, *, approximate: _gelu(x, approximate)), "elementwise")
def _declared_gelu(x: Any, *, approximate: str = "none") -> Any:
    return topi.nn.gelu(x, approximate)


def _gelu(x: Any, approximate: str) -> Any:
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))
    return 0.5 * x * (1 + erf(x / np.sqrt(2)))


@operator("leaky_relu", lambda x, *, alpha: np.where(x < 0, x * np.asarray(alpha, x.dtype), x), "elementwise")
def _leaky_relu(x: Any, *, alpha: float) -> Any:
    return topi.nn.leaky_relu(x, alpha)


@operator("elu", wide(lambda x, *, alpha: np.where(x < 0, alpha * np.expm1(x), x)), "elementwise")
def _elu(x: Any, *, alpha: float = 1.0) -> Any:
    return topi.nn.elu(x, alpha)


@operator("selu", wide(lambda x, *, alpha, gamma: gamma * np.where(x < 0, alpha * np.expm1(x), x)), "elementwise")
def _selu(x: Any, *, alpha: float, gamma: float) -> Any:
    return operate("selu", lambda v: te.select(v < 0, te.expm1(v) * alpha, v) * gamma, x)


@operator("celu", wide(lambda x, *, alpha: np.maximum(x, 0) + np.minimum(0, alpha * np.expm1(x / alpha))), "elementwise")
def _celu(x: Any, *, alpha: float = 1.0) -> Any:
    return operate("celu", lambda v: te.max(v, 0.0) + te.min(te.expm1(v / alpha) * alpha, 0.0), x)


@operator("hard_sigmoid", wide(lambda x, *, alpha, beta: np.clip(alpha * x + beta, 0, 1)), "elementwise")
def _hard_sigmoid(x: Any, *, alpha: float, beta: float) -> Any:
    return operate("hard_sigmoid", lambda v: te.max(te.min(v * alpha + beta, 1.0), 0.0), x)


@operator("hard_swish", wide(lambda x: x * np.clip(x / 6 + 0.5, 0, 1)), "elementwise")
def _hard_swish(x: Any) -> Any:
    return topi.nn.hard_swish(x)


@operator("thresholded_relu", wide(lambda x, *, alpha: np.where(x > alpha, x, 0)), "elementwise")
def _thresholded_relu(x: Any, *, alpha: float) -> Any:
    return operate("thresholded_relu", lambda v: te.select(v > alpha, v, 0), x)


@operator("shrink", lambda x, *, lambd, bias: np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, 0)), "elementwise")
def _shrink(x: Any, *, lambd: float, bias: float) -> Any:
    return operate("shrink", lambda v: te.select(v < -lambd, (v + bias).astype(v.dtype),
                                                te.select(v > lambd, (v - bias).astype(v.dtype), 0)), x)
