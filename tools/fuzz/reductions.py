"""Reductions as te lets anyone declare them: any combiner, over one to three reads of one tensor or several, each in an order of
axes of its own, with windows, steps, dilations and diagonals; conditions on what is summed; several that read the same tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...te import polymorphic as te
from .chains import IDENTITY, REDUCERS, UFUNC
from .choices import Choices
from .program import Draw, Program, exact_sum, product_types, small
from .terms import EXACT, FLOATS, INTEGERS, numpy_type

__all__ = ["draw_reduction"]

MOST = 20_000
"""Terms of one reduction."""
EXTENTS = (1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 33)


def _greater(a: Any, b: Any) -> Any:
    return te.select(a > b, a, te.const(0, a.dtype))


COMBINED: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = {
    "product": (lambda a, b: a * b, lambda a, b: a * b),
    "sum": (lambda a, b: a + b, lambda a, b: a + b),
    "square": (lambda a, b: (a - b) * (a - b), lambda a, b: (a - b) * (a - b)),
    "distance": (lambda a, b: te.max(a, b) - te.min(a, b), lambda a, b: np.maximum(a, b) - np.minimum(a, b)),
    "greater": (_greater, lambda a, b: np.where(a > b, a, np.array(0, a.dtype))),
    "least": (te.min, np.minimum),
}
"""What two reads make, in te and in numpy."""


@dataclass(frozen=True)
class Index:
    """A dimension's place: step * axis + dilation * other + begin. `other` may be absent."""

    axis: str
    step: int = 1
    other: str = ""
    dilation: int = 1
    begin: int = 0

    def at(self, axes: dict[str, Any]) -> Any:
        place = axes[self.axis] * self.step + self.begin if (self.step, self.begin) != (1, 0) else axes[self.axis]
        return place + axes[self.other] * self.dilation if self.other else place

    def extent(self, extents: dict[str, int]) -> int:
        last = {axis: max(size - 1, 0) for axis, size in extents.items()}
        return (
            self.begin
            + (last[self.axis] * self.step if self.step > 0 else 0)
            + (last[self.other] * self.dilation if self.other else 0)
            + 1
        )


@dataclass(frozen=True)
class Read:
    """A tensor with what it holds, and where it is read."""

    tensor: Any
    array: np.ndarray
    places: tuple[Index, ...]

    def __call__(self, axes: dict[str, Any], wide: str) -> Any:
        return self.tensor[tuple(place.at(axes) for place in self.places)].astype(wide)

    def values(self, grids: dict[str, np.ndarray], wide: str) -> np.ndarray:
        return exact_sum(self.array, wide)[tuple(place.at(grids) for place in self.places)]


def _index(draw: Draw, axis: str, extents: dict[str, int], windows: list[str]) -> Index:
    if draw.chance(0.06):  # backwards
        return Index(axis, -1, begin=max(extents[axis] - 1, 0))
    step = draw.pick([1, 1, 1, 2, 3]) if draw.chance(0.4) else 1
    if windows and draw.chance(0.35):
        return Index(axis, step, windows.pop(), draw.pick([1, 1, 2, 3]))
    return Index(axis, step, begin=draw.pick([0, 0, 1]))


def _read(draw: Draw, extents: dict[str, int], reduced: Sequence[str], dtype: str, must: Sequence[str]) -> Read:
    """A read of a new tensor over some of the axes; over all of `must`."""
    axes = [axis for axis in extents if axis in must or draw.chance(0.6)] or [next(iter(extents))]
    windows = (
        [axis for axis in axes if axis in reduced][:1]
        if draw.chance(0.4) and any(a not in reduced for a in axes)
        else []
    )
    inside = [axes[at] for at in draw.choices.permutation(len(axes)) if axes[at] not in windows]
    left = list(windows)
    places = [_index(draw, axis, extents, left if axis not in reduced else []) for axis in inside]
    places += [Index(axis) for axis in left]
    if draw.chance(0.08):  # a diagonal
        places.append(Index(places[0].axis))
    shape = tuple(place.extent(extents) for place in places)
    array = small(draw, shape, dtype)
    return Read(draw.program.add_argument(te.placeholder(shape, dtype, draw.name("A")), array), array, tuple(places))


def _reread(draw: Draw, read: Read, extents: dict[str, int]) -> Read:
    """The same tensor, read over other axes that fit into it."""
    places: list[Index] = []
    for place, extent in zip(read.places, read.array.shape, strict=True):
        fitting = [axis for axis, size in extents.items() if size <= extent]
        keep = not fitting or draw.chance(0.4)
        places.append(place if keep else Index(draw.pick(fitting)))
    return Read(read.tensor, read.array, tuple(places))


def _reads(
    draw: Draw, extents: dict[str, int], reduced: Sequence[str], dtype: str, known: Sequence[Read]
) -> list[Read]:
    if known and draw.chance(0.7):
        reads = [draw.pick(known)]
    else:
        reads = [_read(draw, extents, reduced, dtype, reduced)]
    for _ in range(draw.pick([1, 1, 0, 2])):
        reads.append(
            _reread(draw, reads[0], extents) if draw.chance(0.25) else _read(draw, extents, reduced, dtype, ())
        )
    return reads


class _Value:
    """An element of the sum, in te and over the grid of all axes."""

    def __init__(self, draw: Draw, reads: list[Read], wide: str) -> None:
        self.reads, self.wide = reads, wide
        kinds = ["product", "product", "product", "sum", "square", "distance", "greater", "least"]
        self.how = [draw.pick(kinds) for _ in reads[1:]]

    def te(self, axes: dict[str, Any]) -> Any:
        value = self.reads[0](axes, self.wide)
        for read, how in zip(self.reads[1:], self.how, strict=True):
            value = COMBINED[how][0](value, read(axes, self.wide))
        return value

    def over(self, grids: dict[str, np.ndarray], extents: dict[str, int]) -> np.ndarray:
        value = self.reads[0].values(grids, self.wide)
        for read, how in zip(self.reads[1:], self.how, strict=True):
            value = COMBINED[how][1](value, read.values(grids, self.wide))
        return np.broadcast_to(value, tuple(extents.values()))


def _best(index: str, worst: Any, greatest: bool, no_place: int) -> Any:
    """The reducer of a place and a value: the first of the greatest, or of the least."""

    def combine(x: Any, y: Any) -> Any:
        first = te.any(x[1] > y[1] if greatest else x[1] < y[1], te.all(x[1].equal(y[1]), x[0] < y[0]))
        return te.select(first, x[0], y[0]), te.select(first, x[1], y[1])

    return te.comm_reducer(combine, lambda at, value: (te.const(no_place, index), te.const(worst, value)), "best")


def _several(worst: Any) -> Any:
    """A reducer of the user's: sum, greatest and how many."""
    return te.comm_reducer(
        lambda x, y: (x[0] + y[0], te.max(x[1], y[1]), x[2] + y[2]),
        lambda total, most, count: (te.const(0, total), te.const(worst, most), te.const(0, count)),
        "several",
    )


def _reduction(
    draw: Draw, extents: dict[str, int], reduced: Sequence[str], value: _Value
) -> list[tuple[Any, np.ndarray]]:
    """The results of one reduction, each with what it holds."""
    wide, count = value.wide, int(np.prod([extents[axis] for axis in reduced], dtype=int))
    kept = [axis for axis in extents if axis not in reduced]
    kept = [kept[at] for at in draw.choices.permutation(len(kept))] if draw.chance(0.4) else kept
    grids = dict(zip(extents, np.indices(tuple(extents.values()), sparse=True), strict=True))
    whole = value.over(grids, extents)
    most = float(np.abs(whole.astype("float64")).max()) if whole.size else 0.0
    kind = draw.pick(["sum", "sum", "sum", "max", "min", "best", "several", "prod"])
    if kind == "prod" and wide in FLOATS and most > 1:
        kind = "sum"
    if kind in ("sum", "several") and most * max(count, 1) > EXACT.get(wide, np.inf):
        kind = "max"
    if kind == "best" and not count:
        kind = "max"
    order = [list(extents).index(axis) for axis in (*kept, *reduced)]
    flat = whole.transpose(order).reshape(*(extents[axis] for axis in kept), count)
    axes = {axis: te.reduce_axis((0, extents[axis]), axis) for axis in reduced}
    over, shape = list(axes.values()), [extents[axis] for axis in kept]

    def all_axes(at: Sequence[Any]) -> dict[str, Any]:
        return dict(zip(kept, at, strict=True)) | axes

    if kind == "best":
        greatest, index = draw.chance(0.5), draw.pick(["int32", "int64"])
        worst = IDENTITY["max" if greatest else "min"](wide)
        place: Any = over[0] * 1
        for axis in over[1:]:
            place = place * extents[axis.var.name] + axis
        no_place = np.iinfo(index).max
        results = te.compute(
            shape,
            lambda *at: _best(index, worst, greatest, no_place)(
                (place.astype(index), value.te(all_axes(at))), axis=over
            ),
            draw.name("best"),
        )
        found = (flat.argmax(-1) if greatest else flat.argmin(-1)).astype(index)
        return [(results[0], found), (results[1], np.take_along_axis(flat, found[..., None].astype(int), -1)[..., 0])]
    if kind == "several":
        results = te.compute(
            shape,
            lambda *at: _several(IDENTITY["max"](wide))(
                (value.te(all_axes(at)), value.te(all_axes(at)), te.const(1, "int32")), axis=over
            ),
            draw.name("several"),
        )
        lowest: Any = np.asarray(IDENTITY["max"](wide)).astype(flat.dtype)
        return [
            (results[0], UFUNC["sum"].reduce(flat, -1, dtype=flat.dtype)),
            (results[1], np.max(flat, -1, initial=lowest)),
            (results[2], np.full(shape, count, "int32")),
        ]
    first, last = next(iter(extents)), reduced[-1]
    where = draw.chance(0.15)
    if where:  # a triangle, most often
        identity = np.asarray(IDENTITY[kind](wide)).astype(flat.dtype)
        kept_apart = np.broadcast_to(grids[last] <= grids[first], whole.shape)
        flat = np.where(kept_apart, whole, identity).transpose(order).reshape(flat.shape)
    result = te.compute(
        shape,
        lambda *at: REDUCERS[kind](
            value.te(all_axes(at)), axis=over, where=axes[last] <= all_axes(at)[first] if where else None
        ),
        draw.name("R"),
    )
    identity = np.asarray(IDENTITY[kind](wide)).astype(flat.dtype)
    return [(result, UFUNC[kind].reduce(flat, -1, dtype=flat.dtype, initial=identity))]


def draw_reduction(choices: Choices) -> Program:
    """One to three reductions of drawn forms, and what follows them element by element or as a reduction of its own."""
    draw = Draw(choices, "reduction")
    names = [*"ijcl"[: draw.number(1, 4)]]
    reduced = [*"kmn"[: draw.number(1, 2)]]
    extents = {axis: draw.pick(EXTENTS) for axis in (*names, *reduced)}
    if len(names) > 1 and draw.chance(0.3):  # results that mirror themselves
        extents["j"] = extents["i"]
    for axis in extents:
        while np.prod(list(extents.values())) > MOST and extents[axis] > 2:
            extents[axis] //= 2
    if draw.chance(0.02):
        extents[draw.pick(list(extents))] = 0
    dtype, wide = product_types(draw)
    reads: list[Read] = []
    results: list[tuple[Any, np.ndarray]] = []
    for _ in range(draw.pick([1, 1, 1, 2, 3])):
        mine = _reads(draw, extents, reduced, dtype, reads)
        reads += mine
        results += _reduction(draw, extents, reduced, _Value(draw, mine, wide))
    tensor, array = results[-1]
    if draw.chance(0.4):
        tensor, array = _append_stage(draw, tensor, array)
        results[-1] = tensor, array
    for tensor, array in results:
        draw.program.result(tensor, array.astype(numpy_type(str(tensor.dtype))))
    return draw.finish()


def _append_stage(draw: Draw, tensor: Any, array: np.ndarray) -> tuple[Any, np.ndarray]:
    """Return the stage after a result: twice as much and at least 0, or, of whole numbers, its sum along an axis."""
    dtype, held = str(tensor.dtype), array.astype(numpy_type(str(tensor.dtype)))
    if dtype in INTEGERS and array.ndim and draw.chance(0.4):
        k, places = te.reduce_axis((0, array.shape[-1]), "z"), array.shape[:-1]
        total = te.compute(places, lambda *at: te.sum(tensor[(*at, k)], axis=k), draw.name("Z"))
        return total, np.add.reduce(held, -1, dtype=held.dtype)
    doubled = te.compute(
        array.shape, lambda *at: te.max(tensor[at] * te.const(2, dtype), te.const(0, dtype)), draw.name("Z")
    )
    return doubled, np.maximum(held * np.asarray(2).astype(held.dtype), np.zeros((), held.dtype))
