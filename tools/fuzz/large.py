"""Small results of tensors whose extents lie around 2**15, 2**16 and 2**31, and of which few elements are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...te import polymorphic as te
from ...views.sparse import sparse
from .choices import Choices
from .expressions import draw_data
from .program import Draw, Program, grids
from .terms import NUMBERS, Size, numpy_type

__all__ = ["draw_large"]

_MOST_BYTES = 1 << 34
_Place = Callable[..., Any]
"""The index of one dimension from the axes of the result: of tensor expressions, or of arrays."""


@dataclass(frozen=True)
class _Extents:
    """The extents of a large tensor, and the sizes of which they are made."""

    shape: tuple[Size, ...]
    parts: tuple[Size, ...]


def draw_large(choices: Choices) -> Program:
    """A tensor whose extents are symbols, sums or products of them; sometimes a stage over all of it, of which a run of elements
    is needed; and a result that reads at the ends, across rows, far apart or beyond the end, whole or by the greatest of rows."""
    draw = Draw(choices, "large")
    dtype = draw.pick(NUMBERS)
    extents = _extents(draw, _MOST_BYTES // numpy_type(dtype).itemsize)
    sides = tuple(draw.number(1, 9) for _ in range(2))
    staged = draw.chance(0.3)
    count = 2 if draw.chance(0.4) and not staged else 1
    reads = [_draw_positions(draw, extents, sides, (_flat_end,) if staged else _FLAT) for _ in range(count)]
    summed = draw.chance(0.3)
    grid = [axis.astype("int64") for axis in grids(*sides)]
    shape = tuple(size.value for size in extents.shape)
    spots = [np.ravel_multi_index(tuple(np.asarray(place(*grid, False)) for place in read), shape) for read in reads]
    chosen = np.unique(np.concatenate([spot.reshape(-1) for spot in spots]))
    contents = draw_data(choices.contents(), chosen.shape, dtype)[0]
    held = {int(place): value for place, value in zip(chosen, contents, strict=True)}
    array = sparse(shape, numpy_type(dtype), held)
    tensor = draw.program.add_argument(te.placeholder(tuple(size.te for size in extents.shape), dtype, "A"), array)
    values = [array.reshape(-1)[spot].view(np.ndarray) for spot in spots]
    if staged:
        whole = tensor
        tensor = te.compute(whole.shape, lambda *at: te.max(whole[at], te.const(1, dtype)), "T")
        values = [np.maximum(value, np.asarray(1).astype(value.dtype)) for value in values]
    axis = te.reduce_axis((0, sides[1]), "k")

    def element(*at: Any) -> Any:
        i, j = (at[0], axis) if summed else at
        parts = [tensor[tuple(place(i, j, True) for place in read)] for read in reads]
        value = parts[0] if len(parts) == 1 else te.max(*parts)
        return te.max(value, axis=axis) if summed else value

    result = te.compute(sides[: 2 - summed], element, "R")
    expected = np.maximum.reduce(values)
    draw.program.result(result, expected.max(axis=1) if summed else expected)
    return draw.finish()


def _extents(draw: Draw, most: int) -> _Extents:
    """Extents of at most so many elements."""
    if draw.chance(0.3):  # one that int32 does not hold, or just so
        symbol = te.var("n", "int64")
        size = Size(symbol, min((1 << 31) + draw.number(-3, 3), most))
        draw.symbols.append((symbol, size.value))
        return _Extents((size,), (size,))
    a, b = (_symbol(draw, 15 + draw.number(0, 1)) for _ in range(2))
    b = a if draw.chance(0.4) else b
    form = draw.pick((0, 0, 0, 1, 1, 2))
    if a.value * b.value + b.value > most:
        form = 2
    if form == 0:
        return _Extents((Size(a.te * b.te, a.value * b.value),), (a, b))
    if form == 1:
        more = draw.number(0, 2)
        return _Extents((Size(a.te + more, a.value + more) if more else a, b), (a, b))
    return _Extents((Size(a.te * 3 - 1, a.value * 3 - 1), Size(2, 2)), (a, a))


def _symbol(draw: Draw, bits: int) -> Size:
    value = (1 << bits) + draw.number(-2, 2)
    return Size(draw.symbol(value), value)


def _draw_positions(
    draw: Draw, extents: _Extents, sides: tuple[int, ...], flat: Sequence[Callable[..., _Place]]
) -> tuple[_Place, ...]:
    """Draw, for each dimension, where an element of the result reads. flat: how, where there is one."""
    if len(extents.shape) == 1:
        return (draw.pick(flat)(draw, extents, sides),)
    return tuple(
        _end(size, draw.number(0, 2), at, draw.chance(0.5)) if size.value > 20 else _wrapped_position(size, at)
        for at, size in enumerate(extents.shape)
    )


def _end(size: Size, away: int, axis: int, last: bool) -> _Place:
    def place(i: Any, j: Any, symbolic: bool) -> Any:
        extent, own = (size.te if symbolic else size.value), (i, j)[axis]
        return extent - 1 - away - own if last else own + away

    return place


def _wrapped_position(size: Size, axis: int) -> _Place:
    def place(i: Any, j: Any, _symbolic: bool) -> Any:
        return (i, j)[axis] % size.value

    return place


def _rows(draw: Draw, extents: _Extents, sides: tuple[int, ...]) -> _Place:
    """Elements of the first or last rows of a matrix that is stored flat."""
    rows, columns = extents.parts[0], extents.parts[-1]
    last = draw.chance(0.7)
    if len(extents.parts) == 1:
        return _flat_end(draw, extents, sides)

    def place(i: Any, j: Any, symbolic: bool) -> Any:
        m, n = (rows.te, columns.te) if symbolic else (rows.value, columns.value)
        return (m - 1 - i) * n + (n - 1 - j) if last else i * n + j

    return place


def _flat_end(draw: Draw, extents: _Extents, sides: tuple[int, ...]) -> _Place:
    """A run of elements, up to the last or from the first."""
    size, last = extents.shape[0], draw.chance(0.7)

    def place(i: Any, j: Any, symbolic: bool) -> Any:
        at = i * sides[1] + j
        return (size.te if symbolic else size.value) - 1 - at if last else at

    return place


def _steps(_draw: Draw, extents: _Extents, sides: tuple[int, ...]) -> _Place:
    """Elements that lie far apart."""
    size = extents.shape[0]

    def place(i: Any, j: Any, symbolic: bool) -> Any:
        return i * ((size.te if symbolic else size.value) // sides[0]) + j % 2

    return place


def _draw_wrapping(draw: Draw, extents: _Extents, _sides: tuple[int, ...]) -> _Place:
    """Elements beyond the end, which wrap around."""
    size, first = extents.shape[0], draw.number(0, 5)

    def place(i: Any, j: Any, symbolic: bool) -> Any:
        extent = size.te if symbolic else size.value
        return (extent - first + i * 3 + j) % extent

    return place


def _draw_clamping(draw: Draw, extents: _Extents, _sides: tuple[int, ...]) -> _Place:
    """Elements about the end, what lies beyond it being the last."""
    size, first = extents.shape[0], draw.number(0, 5)

    def place(i: Any, j: Any, symbolic: bool) -> Any:
        extent = size.te if symbolic else size.value
        at = extent - first + i * 3 + j
        return te.max(te.min(at, extent - 1), 0) if symbolic else np.clip(at, 0, extent - 1)

    return place


_FLAT = (_flat_end, _rows, _steps, _draw_wrapping, _draw_clamping)
