"""Model calls kept by the shapes and dtypes of their inputs.

Solving for sizes, comparing shapes and putting arguments in order take Python ten times as long as a small model runs. What came out
of them is kept by the inputs' shapes and dtypes; what generated code checks at each call (overlap, alignment) it goes on checking.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Generic, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from ..base.dataclass import dataclass
from .tensors import is_compact_tensor

__all__ = ["KnownCall", "KnownCalls"]

_MOST_CALLS = 64
"""Shapes of inputs whose calls are kept, at most."""

T = TypeVar("T")


@dataclass(frozen=True)
class KnownCall(Generic[T]):
    """A call on inputs of known shapes and dtypes.

    how: what its owner runs. updated: the places of inputs that must be writable. results: the shape and dtype of each output.
    """

    how: T
    updated: tuple[int, ...]
    results: tuple[tuple[tuple[int, ...], np.dtype[Any]], ...]

    def outputs(self, out: Any) -> list[NDArray[Any]] | None:
        """Return fresh arrays, or those of `out=`; None where these are not arrays of numpy's, or of another type."""
        if out is None:
            return [np.empty(shape, dtype) for shape, dtype in self.results]
        arrays = list(cast("Sequence[Any]", out)) if isinstance(out, (list, tuple)) else [out]
        fits = len(arrays) == len(self.results) and all(
            type(array) is np.ndarray and array.shape == shape and array.dtype == dtype
            for array, (shape, dtype) in zip(arrays, self.results, strict=True)
        )
        return arrays if fits else None


class KnownCalls(Generic[T]):
    """The calls of one model that are known. names: of its inputs, in order."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names, self._calls = tuple(names), dict[tuple[Hashable, ...], KnownCall[T]]()

    def order(self, arrays: Sequence[Any], named: Mapping[str, Any]) -> Sequence[Any]:
        """Return the inputs in their order; none where some are missing, or names are wrong."""
        rest = self._names[len(arrays) :]
        # a wrong name is told by the careful way
        if len(named) != len(rest) or len(arrays) > len(self._names) or not all(name in named for name in rest):
            return ()
        return [*arrays, *(named[name] for name in rest)] if rest else arrays

    def find(self, ordered: Sequence[Any]) -> KnownCall[T] | None:
        """Return the call on arrays like these; None where there was none, or they are not read as they lie."""
        key = _compact_shapes(ordered)
        known = self._calls.get(key) if key is not None else None
        # a read-only array is as well known, and must not be written
        return known if known is None or not known.updated or _are_writable(ordered, known.updated) else None

    def add(self, ordered: Sequence[Any], call: KnownCall[T]) -> None:
        """Keep a call that was checked and ran, where arrays like these are read as they lie."""
        key = _compact_shapes(ordered) if len(ordered) == len(self._names) else None
        if key is not None:
            if len(self._calls) >= _MOST_CALLS:  # a model that is called with ever new shapes must not grow
                self._calls = {}
            self._calls[key] = call

    def clear(self) -> None:
        """Forget them all."""
        self._calls = {}


def _compact_shapes(arrays: Sequence[Any]) -> tuple[Hashable, ...] | None:
    """The shapes and dtypes of arrays that a kernel can read as they lie; None where one is anything else."""
    key: list[Hashable] = []
    for array in arrays:
        if type(array) is np.ndarray:
            if not array.flags.c_contiguous:  # strides are no part of the key
                return None
        elif not is_compact_tensor(array):
            return None
        key += (array.shape, array.dtype)
    return tuple(key)


def _are_writable(arrays: Sequence[Any], places: Sequence[int]) -> bool:
    """Return whether those at these places may be written, as what torch has always may."""
    return all(type(arrays[at]) is not np.ndarray or arrays[at].flags.writeable for at in places)
