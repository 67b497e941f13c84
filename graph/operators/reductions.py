"""Reductions over axes, and places of the greatest and the least."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import topi
from ...te.tensor import Tensor
from .elementwise import wide
from .row import operator

__all__: list[str] = []

_ROWS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "sum": (topi.sum, wide(np.sum)),
    "prod": (topi.prod, wide(np.prod)),
    "max": (topi.max, np.max),
    "min": (topi.min, np.min),
    "mean": (topi.mean, wide(np.mean)),
    "all": (topi.all, np.all),
    "any": (topi.any, np.any),
}


def _row(name: str, function: Callable[..., Any], reference: Callable[..., Any]) -> None:
    def declare(x: Any, *, axes: tuple[int, ...], keepdims: bool = False) -> Any:
        return function(x, list(axes), keepdims)

    def computed(x: Any, *, axes: tuple[int, ...], keepdims: bool) -> Any:
        if name in ("max", "min") and not x.size:
            return (
                np.max(x, axis=axes, keepdims=keepdims, initial=_least(x.dtype))
                if name == "max"
                else np.min(x, axis=axes, keepdims=keepdims, initial=_greatest(x.dtype))
            )
        return reference(x, axis=axes, keepdims=keepdims)

    operator(name, computed, "heavy", declare)


def _least(dtype: np.dtype[Any]) -> Any:
    return False if dtype.kind == "b" else -np.inf if dtype.kind not in "iu" else np.iinfo(dtype).min


def _greatest(dtype: np.dtype[Any]) -> Any:
    return True if dtype.kind == "b" else np.inf if dtype.kind not in "iu" else np.iinfo(dtype).max


for _name, (_function, _reference) in _ROWS.items():
    _row(_name, _function, _reference)


def _place_row(name: str, function: Callable[..., Tensor], reference: Callable[..., Any]) -> None:
    def declare(x: Any, *, axis: int, keepdims: bool = False, last: bool = False) -> Any:
        return topi.cast(function(x, axis, keepdims, last), "int64")

    def computed(x: Any, *, axis: int, keepdims: bool, last: bool) -> Any:
        if last:
            return x.shape[axis] - 1 - reference(np.flip(x, axis), axis=axis, keepdims=keepdims)
        return reference(x, axis=axis, keepdims=keepdims)

    operator(name, computed, "heavy", declare)


_place_row("argmax", topi.argmax, np.argmax)
_place_row("argmin", topi.argmin, np.argmin)


def _running_row(name: str, function: Callable[..., Any], reference: Callable[..., Any]) -> None:
    def declare(x: Any, *, axis: int, exclusive: bool = False, reverse: bool = False) -> Any:
        if reverse:
            return topi.flip(function(topi.flip(x, axis), axis, exclusive=exclusive), axis)
        return function(x, axis, exclusive=exclusive)

    def computed(x: Any, *, axis: int, exclusive: bool, reverse: bool) -> Any:
        wide = x if x.dtype.kind in "iu" else x.astype(np.float64)
        source = np.flip(wide, axis) if reverse else wide
        if exclusive and source.shape[axis]:
            first = np.full_like(np.take(source, [0], axis), 0 if name == "cumsum" else 1)
            source = np.concatenate([first, np.delete(source, -1, axis)], axis)
        result = reference(source, axis, dtype=source.dtype)
        return np.flip(result, axis) if reverse else result

    operator(name, computed, "heavy", declare)


_running_row("cumsum", topi.cumsum, np.cumsum)
_running_row("cumprod", topi.cumprod, np.cumprod)
