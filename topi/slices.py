"""Operators that move elements: shapes, orders, parts, joints. Texts inside of `shape` are extents over symbols."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import topi
from ..ir import IntImm, ops
from ..ir.arith.analyzer import simplify
from ..ir.ops import is_const
from ..te import polymorphic as te
from ..te.shape import same_extent
from .row import floating, operator, sample
from .transform import injective

_NO_END = 1 << 30
"""From here on a slice has no end."""


def _numpy_split(x: NDArray[Any], *, sizes: tuple[int, ...], axis: int) -> Any:
    return np.split(x, list(accumulate(sizes))[:-1], axis)


@operator(
    "split",
    reference=_numpy_split,
    samples=[sample(floating(2, 7), sizes=(3, 4), axis=1), sample(floating(2, 7), sizes=(7, 0), axis=1)],
)
def _split(x: Any, *, sizes: tuple[int, ...], axis: int) -> Any:
    """Parts of these sizes, which make up the extent of the axis."""
    ends = list(accumulate(sizes))
    if not same_extent(ops.convert(ends[-1]), x.shape[axis]):
        raise ValueError(f"parts of {sizes} do not make up {x.shape[axis]}")
    if isinstance(x.shape[axis], IntImm):
        return topi.split(x, ends[:-1], axis)
    return [_part(x, axis % x.ndim, low, size) for low, size in zip((0, *ends), sizes, strict=False)]


def _numpy_slice(
    x: Any, *, begin: tuple[int, ...], end: tuple[int, ...], step: tuple[int, ...], axes: tuple[int, ...]
) -> Any:
    parts = [slice(None)] * x.ndim
    for low, high, by, axis in zip(begin, end, step, axes, strict=True):
        parts[axis] = slice(low, high, by)
    return x[tuple(parts)]


@operator(
    "slice",
    reference=_numpy_slice,
    fusion="injective",
    samples=[sample(floating(9, 7), begin=(1, -1), end=(8, -100), step=(3, -2), axes=(0, 1))],
)
def _slice(
    x: Any, *, begin: tuple[Any, ...], end: tuple[Any, ...], step: tuple[int, ...], axes: tuple[int, ...]
) -> Any:
    """x[begin:end:step] along the axes, as Python's slices. Ends over symbols count from the beginning, and lie inside."""
    if all(isinstance(one, int) for one in (*begin, *end)) and all(isinstance(x.shape[axis], IntImm) for axis in axes):
        return topi.strided_slice(x, begin, end, step, axes)
    for low, high, by, axis in zip(begin, end, step, axes, strict=True):
        size = x.shape[axis]
        if all(isinstance(one, (int, IntImm)) for one in (low, high, size)):
            x = topi.strided_slice(x, (low,), (high,), (by,), (axis,))
        elif by < 1:
            raise ValueError(f"a slice of {size} elements by steps of {by}")
        else:
            ((first, last, _),) = slice_ends((size,), (low,), (high,), (0,))
            x = _part(x, axis % x.ndim, first, simplify((last - first + (by - 1)) // by), by)
    return x


def slice_ends(
    shape: Sequence[Any],
    begin: Sequence[Any],
    end: Sequence[Any],
    axes: Sequence[int],
) -> list[tuple[Any, Any, Any]]:
    """Begin and end of a slice along each of these axes, counted from the beginning, and the extent in which both lie."""
    return [
        (_slice_end(low, shape[axis], False), _slice_end(high, shape[axis], True), shape[axis])
        for low, high, axis in zip(begin, end, axes, strict=True)
    ]


def _slice_end(end: Any, size: Any, is_end: bool) -> Any:
    """An end of a slice, counted from the beginning."""
    whole = ops.cast(size, "int64")
    if not isinstance(end, int):
        return ops.cast(end, "int64")
    if end < 0:
        return simplify(whole + end)
    if is_end:
        return whole if end >= _NO_END else simplify(te.min(ops.const(end, "int64"), whole))
    return ops.const(end, "int64")


def _part(x: Any, axis: int, begin: Any, count: Any, step: int = 1) -> Any:
    """So many slices of an axis from one on. What would lie outside, where symbols are not as they should be, is the last one."""
    last = x.shape[axis] - 1
    return injective(
        (*x.shape[:axis], count, *x.shape[axis + 1 :]),
        lambda *i: x[(*i[:axis], te.min(begin + i[axis] * step, last), *i[axis + 1 :])],
        "part",
    )


def _numpy_continue_edges(x: NDArray[Any], *, before: tuple[int, ...], after: tuple[int, ...], mode: Any) -> Any:
    return np.pad(x, list(zip(before, after, strict=True)), mode) if x.ndim else x


@operator(
    "pad_with",
    reference=_numpy_continue_edges,
    fusion="injective",
    samples=[
        sample(floating(4, 5), before=(3, 2), after=(0, 4), mode="edge"),
        sample(floating(4, 5), before=(3, 2), after=(0, 4), mode="reflect"),
        sample(floating(4, 5), before=(3, 2), after=(0, 4), mode="wrap"),
        sample(floating(), before=(), after=(), mode="edge"),
    ],
)
def _continue_edges(x: Any, *, before: tuple[int, ...], after: tuple[int, ...], mode: str) -> Any:
    """Padding that continues the elements: mode "edge", "reflect" or "wrap", as numpy's."""
    if mode not in ("edge", "reflect", "wrap"):
        raise ValueError(f"there is no mode {mode!r}")
    if any(is_const(extent, 0) and (low or high) for extent, low, high in zip(x.shape, before, after, strict=True)):
        raise ValueError("nothing cannot be continued")

    def place(index: Any, low: int, extent: Any) -> Any:
        at = index - low
        if mode == "edge":
            return te.max(te.min(at, extent - 1), 0)
        if mode == "wrap":
            return te.indexmod(at + low * extent, extent)
        period = te.max((extent - 1) * 2, 1)
        turned = te.indexmod(at + low * period, period)
        return te.min(turned, period - turned)

    shape = [extent + low + high for extent, low, high in zip(x.shape, before, after, strict=True)]
    return injective(
        shape,
        lambda *i: x[
            tuple(
                place(index, low, extent) if low or high else index
                for index, low, high, extent in zip(i, before, after, x.shape, strict=True)
            )
        ],
        "pad_with",
    )


def _numpy_eye_like(x: Any, *, k: int, dtype: str) -> Any:
    return np.eye(*x.shape, k=k).astype(dtype)


@operator(
    "eye_like", reference=_numpy_eye_like, fusion="injective", samples=[sample(floating(3, 5), k=1, dtype="float32")]
)
def _eye_like(x: Any, *, k: int = 0, dtype: str = "float32") -> Any:
    def element(i: Any, j: Any) -> Any:
        return te.select((j - i).equal(k), te.const(1, dtype), te.const(0, dtype))

    return injective(x.shape, element, "eye_like")


def _numpy_shape(x: Any) -> Any:
    return np.asarray(x.shape, np.int64)


@operator("shape", reference=_numpy_shape, samples=[sample(floating(3, 0, 2))])
def _shape(x: Any) -> Any:
    """The extents, as a vector of int64."""
    return topi.shape(x, "int64")


def _numpy_arange(*, shape: tuple[int, ...], start: tuple[int, ...]) -> Any:
    return start[0] + np.arange(shape[0])


@operator(
    "arange", reference=_numpy_arange, fusion="injective", samples=[sample(shape=(7,), start=(-3,)), sample(shape=(1,))]
)
def _arange(*, shape: tuple[Any, ...], start: tuple[Any, ...] = (0,)) -> Any:
    """The integers from start[0] on, of int64, as a vector of this shape."""
    first = start[0]

    def element(i: Any) -> Any:
        return i.astype("int64") + first

    return injective(shape, element, "arange")
