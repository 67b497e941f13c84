"""Operators that give their input as it is, and say something of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import te
from ...te.operation import ZERO_GRADIENT
from ...topi.row import floating, sample
from ...topi.transform import injective
from .row import operator

__all__: list[str] = []


@operator("stop_gradient", np.copy, "elementwise", samples=[sample(floating(3, 5))], derivative=(None,))
def _stop_gradient(x: Any) -> Any:
    """x itself, of which te.gradient takes no derivative either: it may stand in a kernel."""
    return te.compute(x.shape, lambda *i: x[i], "stop_gradient", tag="elemwise", attrs={ZERO_GRADIENT: True})


def _numpy_order(x: Any, _: Any) -> Any:
    return x


@operator("after", _numpy_order, "injective", samples=[sample(floating(3, 5), floating(2))])
def _order(x: Any, y: Any) -> Any:
    """x, once there is y: what is made of it is not a computation that stood there before."""
    del y  # y is read for the order alone
    return injective(x.shape, lambda *i: x[i], "after")
