"""The derivative of what one kernel computes, by te.gradient: for operators that have no rule of their own.

dx: float32[1, 3, 8, 8] = vjp(x, head, body="lrn(x0, size=3)", wrt=0)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import te
from ...driver.build import build
from ...topi.row import floating, sample
from ..types import type_of_array
from .fusion import declare_body
from .row import operator

__all__: list[str] = []


def _numpy_vjp(*arrays: Any, body: str, wrt: int, value: int | None) -> Any:
    """The same in float64, by the interpreter."""
    # in float64, so that the reference is more exact than what it tests
    wide = [array if array.dtype.kind in "iub" else array.astype(np.float64) for array in arrays]
    given = [te.placeholder(array.shape, type_of_array(array).dtype, name=f"x{at}") for at, array in enumerate(wide)]
    derivative = _pulled_back(given, body, wrt, value)
    result = np.empty(wide[wrt].shape, np.float64)
    build([*given, derivative], target="interpret")(
        *(np.ascontiguousarray(array).reshape(array.shape) for array in wide), result
    )
    return result


@operator(
    "vjp",
    _numpy_vjp,
    samples=[
        sample(floating(2, 5), floating(2, 5), body="gelu(x0)", wrt=0),
        sample(floating(1, 4, 3, 3), floating(1, 4, 3, 3), body="lrn(x0, size=3)", wrt=0),
    ],
)
def _vjp(*xs: Any, body: str, wrt: int, value: int | None = None) -> Any:
    """Return the vector-Jacobian product of the body by its input number `wrt`; the last input is the derivative of something by
    the body's value, of several that one of this place."""
    if not 0 <= wrt < len(xs) - 1:
        raise ValueError(f"the body has no input number {wrt}")
    return _pulled_back(xs, body, wrt, value)


def _pulled_back(xs: Sequence[te.Tensor], body: str, wrt: int, value: int | None) -> te.Tensor:
    given, x = list(xs[:-1]), xs[wrt]
    if sum(one is x for one in given) > 1:  # only one of them is meant
        given[wrt] = x = te.compute(x.shape, lambda *i: xs[wrt](*i), name="copy", tag="elemwise")
    (derivative,) = te.gradient(declare_body(body, given, value=value), [x], head=xs[-1])
    return derivative
