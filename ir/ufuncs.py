"""numpy's functions of elements (ufuncs) on expressions: np.exp(A[i]) is te.exp(A[i]), and np.float32(2) * x is 2 * x.

numpy calls __array_ufunc__ of an operand that has one. What a ufunc means here is a row of UFUNCS.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ..base.errors import user_source
from . import ops
from .errors import NumpyFunctionUnknown
from .expr import EQ, GE, GT, LE, LT, NE, Expr

__all__ = ["UFUNCS", "meaning"]

_SAME = (
    "arctan2 copysign cos cosh ceil exp exp2 expm1 floor hypot isfinite isinf isnan log log10 log1p log2 sin sinh sqrt tan "
    "tanh trunc"
).split()
_RENAMED = {
    "arcsin": "asin",
    "arccos": "acos",
    "arctan": "atan",
    "arctan2": "atan2",
    "arcsinh": "asinh",
    "arccosh": "acosh",
    "arctanh": "atanh",
    "rint": "nearbyint",
    "bitwise_count": "popcount",
}
_COMPARISONS = {"less": LT, "less_equal": LE, "greater": GT, "greater_equal": GE, "equal": EQ, "not_equal": NE}


def _square(x: Any) -> Any:
    return ops.multiply(x, x)


def _divmod(a: Any, b: Any) -> tuple[Expr, Expr]:
    return ops.floordiv(a, b), ops.floormod(a, b)


UFUNCS: Mapping[str, Callable[..., Any]] = {
    **{name: partial(ops.call, _RENAMED.get(name, name)) for name in (*_SAME, *_RENAMED)},
    **{name: partial(ops.compare, kind) for name, kind in _COMPARISONS.items()},
    **{f"{side}_shift": partial(ops.bitwise, f"shift_{side}") for side in ("left", "right")},
    **{name: partial(ops.bitwise, name) for name in ("bitwise_and", "bitwise_or", "bitwise_xor")},
    "absolute": ops.absolute,
    "fabs": ops.absolute,
    "negative": ops.negative,
    "positive": ops.convert,
    "invert": ops.invert,
    "add": ops.add,
    "subtract": ops.subtract,
    "multiply": ops.multiply,
    "divide": ops.divide,
    "floor_divide": ops.floordiv,
    "remainder": ops.floormod,
    "fmod": ops.truncmod,
    "divmod": _divmod,
    "power": ops.power,
    "maximum": ops.maximum,
    "minimum": ops.minimum,
    "logical_and": ops.logical_and,
    "logical_or": ops.logical_or,
    "logical_not": ops.logical_not,
    "square": _square,
    "reciprocal": partial(ops.divide, 1.0),
}
"""The name of a ufunc -> what it is of scalars."""

_INSTEAD = {
    "add": "te.sum(x, axis=k)",
    "multiply": "te.prod(x, axis=k)",
    "maximum": "te.max(x, axis=k)",
    "minimum": "te.min(x, axis=k)",
    "logical_and": "te.all(...)",
    "logical_or": "te.any(...)",
    "sign": "te.if_then_else(x > 0, 1, te.if_then_else(x < 0, -1, 0))",
    "fmax": "te.max(a, b), which hands on NaN",
    "fmin": "te.min(a, b), which hands on NaN",
    "cbrt": "te.power(x, 1 / 3)",
    "matmul": "te.sum(A[i, k] * B[k, j], axis=k), or topi.matmul(A, B)",
    "float_power": "te.power(x, y)",
    "degrees": "x * (180 / math.pi)",
    "rad2deg": "x * (180 / math.pi)",
    "radians": "x * (math.pi / 180)",
    "deg2rad": "x * (math.pi / 180)",
    "logaddexp": "topi.log_add_exp(a, b)",
    "signbit": "x < 0, or the bits: te.reinterpret",
    "ldexp": "x * te.exp2(n)",
    "modf": "te.trunc(x) and x - te.trunc(x)",
    "conjugate": "x, which is real",
    "heaviside": "te.select(x < 0, 0.0, te.select(x > 0, 1.0, half))",
}
"""What to write instead of what numpy calls so (of add and its like: of their `reduce`)."""


def meaning(ufunc: Any, method: str, keywords: Mapping[str, Any]) -> Callable[..., Any]:
    """Return the meaning on scalars of a call of a numpy ufunc.

    Parameters
    ----------
    ufunc : numpy.ufunc
        Such as np.add.
    method : str
        "__call__", or "reduce" as in np.sum.
    keywords : dict
        Keyword arguments of the call.

    Raises
    ------
    NumpyFunctionUnknown (TW0128)
        The ufunc has no row; it is another method, or a keyword such as out= and where=.
    """
    function = UFUNCS.get(ufunc.__name__)
    if function is not None and method == "__call__" and not keywords:
        return function
    way = "" if method == "__call__" else f".{method}"
    said = f" with {', '.join(f'{key}=' for key in keywords)}" if keywords and method == "__call__" and function else ""
    instead = _INSTEAD.get(ufunc.__name__) if function is None or way else None
    raise NumpyFunctionUnknown(
        f"np.{ufunc.__name__}{way}{said} has no meaning for symbolic expressions",
        called=user_source(),
        reason="numpy computes with values, and those of a te program are known when its kernel runs",
        allowed="numpy's functions of elements that te has too, without keywords: np.exp(x), np.maximum(x, y)",
        fix=f"write {instead}" if instead else "declare it with te's functions",
    )


_SHAPE = {"shape": (), "ndim": 0, "size": 1}
_FUNCTIONS = {
    "where": "te.if_then_else(condition, a, b), or te.select, both sides of which may be evaluated",
    "clip": "te.min(te.max(x, low), high)",
    "round": "te.nearbyint(x)",
    "around": "te.nearbyint(x)",
    "sum": "te.sum(x, axis=k)",
    "prod": "te.prod(x, axis=k)",
    "max": "te.max(x, axis=k)",
    "amax": "te.max(x, axis=k)",
    "min": "te.min(x, axis=k)",
    "amin": "te.min(x, axis=k)",
    "mean": "te.sum(x, axis=k) in a stage, divided in the next",
    "dot": "te.sum(a[k] * b[k], axis=k)",
    "any": "te.any(...)",
    "all": "te.all(...)",
    "nan_to_num": "te.if_then_else(te.isnan(x), 0, x)",
    "isclose": "te.abs(a - b) <= tolerance",
    "allclose": "te.abs(a - b) <= tolerance",
    "real": "x",
    "fix": "te.trunc(x)",
    "sinc": "te.if_then_else(x.equal(0), 1.0, te.sin(math.pi * x) / (math.pi * x))",
}
"""What is written of elements instead of numpy's functions."""


def _apply_function(function: Callable[..., Any]) -> Any:
    """Apply a function of numpy's that is not a ufunc to an expression. Raises NumpyFunctionUnknown (TW0128)."""
    name = function.__name__
    if name in _SHAPE:
        return _SHAPE[name]
    raise NumpyFunctionUnknown(
        f"np.{name} has no meaning for symbolic expressions",
        called=user_source(),
        reason="numpy computes with values, and those of a te program are known when its kernel runs",
        allowed="numpy's functions of elements that te has too, without keywords: np.exp(x), np.maximum(x, y)",
        fix=f"write {_FUNCTIONS[name]}" if name in _FUNCTIONS else "declare it with te's functions",
    )


Expr.of_ufunc = meaning
Expr.of_function = _apply_function
