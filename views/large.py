"""Sizes that 16 or 32 bits do not hold, or whose products they do not, for checks of schedules: of programs that evaluate little
there, on memory that is there once it is touched."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..base.limits import INT32_EXTENT_LIMIT
from ..ir.dtype import INT32
from ..ir.expr import Var
from ..runtime.hosts import host
from .sparse import sparse

__all__ = ["LONGEST_DENSE", "large_sizes", "noting", "scatter"]

LONGEST_DENSE = 1 << 20
"""Elements of arrays that are drawn whole; of longer ones what is read is drawn."""

_SIZES = ((1 << 15) + 1, (1 << 16) + 1, (1 << 31) + 1)


def large_sizes(
    symbols: Sequence[Var],
    small: Mapping[Var, int],
    reason_against: Callable[[dict[Var, int]], str],
) -> tuple[list[dict[Var, int]], list[str]]:
    """Values of symbols, and what was left out, with the reason. For each large size: of all symbols, or else of the first one of
    which it may be, the others being small. reason_against: why a program is not run at sizes; empty where it is."""
    sizes: list[dict[Var, int]] = []
    left: list[str] = []
    for size in _SIZES:
        ways = [{symbol: min(size, _greatest(symbol)) for symbol in symbols}]
        ways += [{**small, symbol: ways[0][symbol]} for symbol in symbols if len(symbols) > 1]
        reasons = [reason_against(way) for way in ways]
        fit = [way for way, reason in zip(ways, reasons, strict=True) if not reason]
        if fit:
            sizes.append(fit[0])
        else:
            left.append(f"{', '.join(f'{symbol.name} = {value}' for symbol, value in ways[0].items())}: {reasons[0]}")
    return sizes, left


def _greatest(symbol: Var) -> int:
    """Return the greatest size that a call takes."""
    return INT32_EXTENT_LIMIT - 1 if symbol.dtype == INT32 else symbol.dtype.greatest


class _Noting(np.ndarray[Any, Any]):
    """Zeros that note which places are read."""

    places: set[int]

    def __array_finalize__(self, of: Any) -> None:
        self.places = getattr(of, "places", set())

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, int):
            self.places.add(place)
        return super().__getitem__(place)


def noting(shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[np.ndarray[Any, Any], set[int]]:
    """Zeros, and the places in row-major order at which elements of them are read from now on."""
    count = math.prod(shape)
    array = (
        np.frombuffer(host().reserved_memory(max(count * dtype.itemsize, 1)), dtype, count).reshape(shape).view(_Noting)
    )
    return array, array.places


def scatter(
    shape: tuple[int, ...], dtype: np.dtype[Any], places: Iterable[int], values: Iterable[Any]
) -> np.ndarray[Any, Any]:
    """An array with these values at places in row-major order, and zeros elsewhere, which take no memory."""
    return sparse(shape, dtype, dict(zip(places, values, strict=True)))
