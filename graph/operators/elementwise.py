"""Operators element by element, with numpy's broadcasting: arithmetic, comparisons, logic, bits, mathematics.

They mean what topi's operators of their names mean; numpy's function of the third column says it a second time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import te, topi
from ...ir.dtype import DType
from ...ir.ops import common_dtype
from ...te.operation import ZERO_GRADIENT
from ...te.tensor import Tensor
from ..types import array_dtype
from .row import operator

__all__: list[str] = []

erf = np.vectorize(math.erf, otypes=[np.float64])


def wide(function: Callable[..., Any]) -> Callable[..., Any]:
    """A reference that computes in float64 what is given in floats, integers as they are, and bools as what they count."""

    def as_wide(x: NDArray[Any]) -> NDArray[Any]:
        return x if x.dtype.kind in "iu" else x.astype(np.int32 if x.dtype.kind == "b" else np.float64)

    return lambda *arrays, **attributes: function(*map(as_wide, arrays), **attributes)


def floats(function: Callable[..., Any]) -> Callable[..., Any]:
    """A reference that computes in float64, whatever it is given."""
    return lambda *arrays, **attributes: function(*(x.astype(np.float64) for x in arrays), **attributes)


def _numbers(function: Callable[..., Any]) -> Callable[..., Any]:
    """Of bools the function of what they count: 0 and 1 as int32."""
    return lambda *arrays: function(*(x.astype(np.int32) if x.dtype.kind == "b" else x for x in arrays))


def alike(x: NDArray[Any], y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Two operands in the dtype in which they meet, which is often another one than numpy's."""
    if x.dtype == y.dtype:
        return x, y
    kind = array_dtype(str(common_dtype(DType(str(x.dtype)), DType(str(y.dtype)))))
    return x.astype(kind), y.astype(kind)


def _rsqrt(x: Any) -> Any:
    return 1 / np.sqrt(x)


def _whole(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Integers divided by 0 are 0."""

    def divided(a: NDArray[Any], b: NDArray[Any]) -> Any:
        return function(a, b) if a.dtype.kind not in "iub" else np.where(b == 0, 0, function(a, np.where(b == 0, 1, b)))

    return divided


def _trunc_divide(a: Any, b: Any) -> Any:
    if a.dtype.kind not in "iub":
        wide = np.promote_types(a.dtype, np.float32) if a.dtype.kind == "f" else np.float32
        return np.trunc(a.astype(wide) / b.astype(wide)).astype(a.dtype)
    return np.floor_divide(a, b) + ((np.remainder(a, b) != 0) & ((a < 0) != (b < 0)))


def _stopped(x: Any) -> Any:
    """x itself, of which te.gradient takes no derivative either: it may stand in a kernel."""
    return te.compute(x.shape, lambda *i: x[i], "stop_gradient", tag="elemwise", attrs={ZERO_GRADIENT: True})


_Rows = dict[str, tuple[Callable[..., Any], Callable[..., Any]]]

_UNARY: _Rows = {
    "abs": (topi.abs, np.abs),
    "negative": (topi.negative, _numbers(np.negative)),
    "sign": (topi.sign, _numbers(np.sign)),
    "square": (topi.square, np.square),
    "identity": (topi.identity, np.copy),
    "stop_gradient": (_stopped, np.copy),
    "floor": (topi.floor, np.floor),
    "ceil": (topi.ceil, np.ceil),
    "trunc": (topi.trunc, np.trunc),
    "nearbyint": (topi.nearbyint, np.rint),
    "exp": (topi.exp, floats(np.exp)),
    "log": (topi.log, floats(np.log)),
    "log1p": (topi.log1p, floats(np.log1p)),
    "expm1": (topi.expm1, floats(np.expm1)),
    "sqrt": (topi.sqrt, floats(np.sqrt)),
    "rsqrt": (topi.rsqrt, floats(_rsqrt)),
    "erf": (topi.erf, floats(erf)),
    "sin": (topi.sin, floats(np.sin)),
    "cos": (topi.cos, floats(np.cos)),
    "tan": (topi.tan, floats(np.tan)),
    "asin": (topi.asin, floats(np.arcsin)),
    "acos": (topi.acos, floats(np.arccos)),
    "atan": (topi.atan, floats(np.arctan)),
    "sinh": (topi.sinh, floats(np.sinh)),
    "cosh": (topi.cosh, floats(np.cosh)),
    "tanh": (topi.tanh, floats(np.tanh)),
    "asinh": (topi.asinh, floats(np.arcsinh)),
    "acosh": (topi.acosh, floats(np.arccosh)),
    "atanh": (topi.atanh, floats(np.arctanh)),
    "isnan": (topi.isnan, np.isnan),
    "isinf": (topi.isinf, np.isinf),
    "isfinite": (topi.isfinite, np.isfinite),
    "logical_not": (topi.logical_not, np.logical_not),
    "bitwise_not": (topi.bitwise_not, np.invert),
}

_BINARY: _Rows = {
    "add": (topi.add, _numbers(np.add)),
    "subtract": (topi.subtract, _numbers(np.subtract)),
    "multiply": (topi.multiply, np.multiply),
    "divide": (topi.divide, np.divide),
    "floor_divide": (topi.floor_divide, _whole(np.floor_divide)),
    "trunc_divide": (topi.trunc_divide, _whole(_trunc_divide)),
    "floor_mod": (topi.floor_mod, np.mod),
    "trunc_mod": (topi.trunc_mod, np.fmod),
    "maximum": (topi.maximum, np.maximum),
    "minimum": (topi.minimum, np.minimum),
    "power": (topi.power, np.power),
    "atan2": (topi.atan2, floats(np.arctan2)),
    "log_add_exp": (topi.log_add_exp, floats(np.logaddexp)),
    "equal": (topi.equal, np.equal),
    "not_equal": (topi.not_equal, np.not_equal),
    "less": (topi.less, np.less),
    "less_equal": (topi.less_equal, np.less_equal),
    "greater": (topi.greater, np.greater),
    "greater_equal": (topi.greater_equal, np.greater_equal),
    "logical_and": (topi.logical_and, np.logical_and),
    "logical_or": (topi.logical_or, np.logical_or),
    "logical_xor": (topi.logical_xor, np.logical_xor),
    "bitwise_and": (topi.bitwise_and, np.bitwise_and),
    "bitwise_or": (topi.bitwise_or, np.bitwise_or),
    "bitwise_xor": (topi.bitwise_xor, np.bitwise_xor),
    "left_shift": (topi.left_shift, np.left_shift),
    "right_shift": (topi.right_shift, np.right_shift),
}


def _unary_row(name: str, function: Callable[..., Any], reference: Callable[..., Any]) -> None:
    def declared(x: Any) -> Any:
        return function(x)

    operator(name, reference, "elementwise", declared)


def _binary_row(name: str, function: Callable[..., Any], reference: Callable[..., Any]) -> None:
    def declared(x: Any, y: Any) -> Any:
        return function(x, y)

    def computed(x: NDArray[Any], y: NDArray[Any]) -> Any:
        return reference(*alike(x, y))

    operator(name, computed, "elementwise", declared)


for _name, (_function, _reference) in _UNARY.items():
    _unary_row(_name, _function, _reference)
for _name, (_function, _reference) in _BINARY.items():
    _binary_row(_name, _function, _reference)


def _chosen(condition: NDArray[Any], x: NDArray[Any], y: NDArray[Any]) -> Any:
    return np.where(condition, *alike(x, y))


@operator("where", _chosen, "elementwise")
def _where(condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return topi.where(condition, x, y)


def _converted(x: Any, *, dtype: str) -> Any:
    """numpy's conversion; of floats to bool, whether they are not 0."""
    return x != 0 if dtype == "bool" else x.astype(array_dtype(dtype))


@operator("cast", _converted, "elementwise")
def _cast(x: Tensor, *, dtype: str) -> Tensor:
    return topi.cast(x, dtype)


def _viewed(x: Any, *, dtype: str) -> Any:
    return x.view(array_dtype(dtype))


@operator("bitcast", _viewed, "elementwise")
def _bitcast(x: Tensor, *, dtype: str) -> Tensor:
    """The bits of x as a dtype of the same width."""
    return topi.reinterpret(x, dtype)


def _clipped(x: NDArray[Any], *, low: float, high: float) -> Any:
    if x.dtype.kind not in "iu":
        return np.clip(x.astype(np.float64), low, high).astype(x.dtype)
    info = np.iinfo(x.dtype)
    least, greatest = (int(min(max(bound, info.min), info.max)) for bound in (low, high))
    return np.clip(x, least, greatest)


@operator("clip", _clipped, "elementwise")
def _clip(x: Tensor, *, low: float, high: float) -> Tensor:
    return topi.clip(x, low, high)
