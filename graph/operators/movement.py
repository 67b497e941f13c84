"""Operators that move elements: shapes, orders, parts, joints. Texts inside of `shape` are extents over symbols."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import topi
from ...ir import ops
from ...ir.arith.analyzer import simplify
from ...ir.expr import IntImm
from ...ir.ops import is_const
from ...te import either as te
from ...te.shape import same_extent
from ...te.tensor import Tensor
from ...topi.transform import injective
from ..types import extents
from .row import operator

__all__ = ["slice_ends"]

_NO_END = 1 << 30
"""From here on a slice has no end."""


def _numpy_reshape(x: Any, *, shape: tuple[int, ...]) -> Any:
    return x.reshape(shape)


@operator("reshape", _numpy_reshape, "injective")
def _reshape(x: Any, *, shape: tuple[Any, ...]) -> Any:
    return topi.reshape(x, extents(shape))


def _numpy_transpose(x: Any, *, axes: tuple[int, ...]) -> Any:
    return x.transpose(axes)


@operator("transpose", _numpy_transpose, "injective")
def _transpose(x: Any, *, axes: tuple[int, ...]) -> Any:
    return topi.transpose(x, axes)


def _numpy_broadcast_to(x: NDArray[Any], *, shape: tuple[int, ...]) -> Any:
    return np.broadcast_to(x, shape)


@operator("broadcast_to", _numpy_broadcast_to, "injective")
def _broadcast_to(x: Any, *, shape: tuple[Any, ...]) -> Any:
    return topi.broadcast_to(x, extents(shape))


def _numpy_tile(x: NDArray[Any], *, repeats: tuple[int, ...]) -> Any:
    return np.tile(x, repeats)


@operator("tile", _numpy_tile, "injective")
def _tile(x: Any, *, repeats: tuple[int, ...]) -> Any:
    return topi.tile(x, repeats)


def _numpy_concat(*xs: NDArray[Any], axis: int) -> Any:
    return np.concatenate(xs, axis)


@operator("concat", _numpy_concat, "injective")
def _concat(*xs: Any, axis: int) -> Any:
    return topi.concatenate(xs, axis)


def _numpy_stack(*xs: NDArray[Any], axis: int) -> Any:
    return np.stack(xs, axis)


@operator("stack", _numpy_stack, "injective")
def _stack(*xs: Any, axis: int) -> Any:
    return topi.stack(xs, axis)


def _numpy_split(x: NDArray[Any], *, sizes: tuple[int, ...], axis: int) -> Any:
    return np.split(x, list(accumulate(sizes))[:-1], axis)


@operator("split", _numpy_split)
def _split(x: Any, *, sizes: tuple[int, ...], axis: int) -> Any:
    """Parts of these sizes, which make up the extent of the axis."""
    ends = list(accumulate(extents(sizes)))
    if not same_extent(ops.convert(ends[-1]), x.shape[axis]):
        raise ValueError(f"parts of {sizes} do not make up {x.shape[axis]}")
    if isinstance(x.shape[axis], IntImm):
        return topi.split(x, ends[:-1], axis)
    return [_part(x, axis % x.ndim, low, size) for low, size in zip((0, *ends), extents(sizes), strict=False)]


def _numpy_slice(
    x: Any, *, begin: tuple[int, ...], end: tuple[int, ...], step: tuple[int, ...], axes: tuple[int, ...]
) -> Any:
    parts = [slice(None)] * x.ndim
    for low, high, by, axis in zip(begin, end, step, axes, strict=True):
        parts[axis] = slice(low, high, by)
    return x[tuple(parts)]


@operator("slice", _numpy_slice, "injective")
def _slice(
    x: Any, *, begin: tuple[Any, ...], end: tuple[Any, ...], step: tuple[int, ...], axes: tuple[int, ...]
) -> Any:
    """x[begin:end:step] along the axes, as Python's slices. Ends over symbols count from the beginning, and lie inside."""
    if all(isinstance(one, int) for one in (*begin, *end)) and all(isinstance(x.shape[axis], IntImm) for axis in axes):
        return topi.strided_slice(x, begin, end, step, axes)
    for low, high, by, axis in zip(extents(begin), extents(end), step, axes, strict=True):
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
    """Where a slice begins and ends along each of these axes, counted from the beginning, and the extent in which both lie."""
    return [
        (_inside(low, shape[axis], False), _inside(high, shape[axis], True), shape[axis])
        for low, high, axis in zip(extents(begin), extents(end), axes, strict=True)
    ]


def _inside(end: Any, size: Any, is_end: bool) -> Any:
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


def _numpy_pad(x: NDArray[Any], *, before: tuple[int, ...], after: tuple[int, ...], value: float | int | bool) -> Any:
    return (
        np.pad(x, list(zip(before, after, strict=True)), constant_values=np.asarray(value).astype(x.dtype))
        if x.ndim
        else x
    )


@operator("pad", _numpy_pad, "injective")
def _pad(x: Any, *, before: tuple[int, ...], after: tuple[int, ...], value: float | int | bool = 0) -> Any:
    return topi.pad(x, before, after, value)


def _numpy_pad_with(x: NDArray[Any], *, before: tuple[int, ...], after: tuple[int, ...], mode: Any) -> Any:
    return np.pad(x, list(zip(before, after, strict=True)), mode) if x.ndim else x


@operator("pad_with", _numpy_pad_with, "injective")
def _pad_with(x: Any, *, before: tuple[int, ...], after: tuple[int, ...], mode: str) -> Any:
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


def _reversed(x: Any, lengths: Any, *, time_axis: int, batch_axis: int) -> Any:
    result = x.copy()
    into, source = (np.moveaxis(array, (batch_axis, time_axis), (0, 1)) for array in (result, x))
    for batch, length in enumerate(np.maximum(lengths, 0)):
        into[batch, :length] = source[batch, :length][::-1]
    return result


@operator("reverse_sequence", _reversed, "injective")
def _reverse_sequence(x: Tensor, lengths: Tensor, *, time_axis: int, batch_axis: int) -> Any:
    return topi.reverse_sequence(x, lengths, time_axis, batch_axis)


def _numpy_trilu(x: NDArray[Any], *, k: int, upper: bool) -> Any:
    return np.triu(x, k) if upper else np.tril(x, k)


@operator("trilu", _numpy_trilu, "injective")
def _trilu(x: Any, *, k: int = 0, upper: bool = True) -> Any:
    return topi.trilu(x, max(-(1 << 30), min(k, 1 << 30)), upper)


def _numpy_eye_like(x: Any, *, k: int, dtype: str) -> Any:
    return np.eye(*x.shape, k=k).astype(dtype)


@operator("eye_like", _numpy_eye_like, "injective")
def _eye_like(x: Any, *, k: int = 0, dtype: str = "float32") -> Any:
    def element(i: Any, j: Any) -> Any:
        return te.select((j - i).equal(k), te.const(1, dtype), te.const(0, dtype))

    return injective(x.shape, element, "eye_like")


def _blocks(x: Any, *, block: int, mode: str) -> Any:
    n, c, h, w = x.shape
    if mode == "DCR":
        parts = x.reshape(n, block, block, c // block**2, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        parts = x.reshape(n, c // block**2, block, block, h, w).transpose(0, 1, 4, 2, 5, 3)
    return parts.reshape(n, c // block**2, h * block, w * block)


@operator("depth_to_space", _blocks, "injective")
def _depth_to_space(x: Any, *, block: int, mode: str = "DCR") -> Any:
    return topi.nn.depth_to_space(x, block, "NCHW", mode)


def _channels(x: Any, *, block: int) -> Any:
    n, c, h, w = x.shape
    parts = x.reshape(n, c, h // block, block, w // block, block).transpose(0, 3, 5, 1, 2, 4)
    return parts.reshape(n, c * block**2, h // block, w // block)


@operator("space_to_depth", _channels, "injective")
def _space_to_depth(x: Any, *, block: int) -> Any:
    return topi.nn.space_to_depth(x, block, "NCHW")


def _numpy_shape(x: Any) -> Any:
    return np.asarray(x.shape, np.int64)


@operator("shape", _numpy_shape)
def _shape(x: Any) -> Any:
    """The extents, as a vector of int64."""
    return topi.shape(x, "int64")


def _numpy_arange(*, shape: tuple[int, ...], start: tuple[int, ...]) -> Any:
    return start[0] + np.arange(shape[0])


@operator("arange", _numpy_arange, "injective")
def _arange(*, shape: tuple[Any, ...], start: tuple[Any, ...] = (0,)) -> Any:
    """The integers from start[0] on, of int64, as a vector of this shape."""
    first = extents(start)[0]

    def element(i: Any) -> Any:
        return i.astype("int64") + first

    return injective(extents(shape), element, "arange")


def _numpy_flip(x: Any, *, axis: int) -> Any:
    return np.flip(x, axis)


@operator("flip", _numpy_flip, "injective")
def _flip(x: Any, *, axis: int) -> Any:
    """x with its slices along an axis in the other order."""
    return topi.flip(x, axis)
