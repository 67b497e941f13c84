"""numpy, whose products are OpenBLAS's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..cases import Arrays, Builder, Runner

__all__ = ["call", "matmul"]


def matmul(inputs: Arrays, outputs: Arrays) -> Runner:
    """C = A @ B, into the array given."""
    a, b = inputs
    return lambda: np.matmul(a, b, out=outputs[0])


def call(function: Callable[..., Any], out: bool = False) -> Builder:
    """Any function of the inputs; out: it takes out=."""

    def builder(inputs: Arrays, outputs: Arrays) -> Runner:
        if out:
            return lambda: function(*inputs, out=outputs[0])
        return lambda: function(*inputs)

    return builder
