"""Reductions of tuples over an expression have lanes over any axis, and the declared values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from tilewright import te

Reducer = Callable[..., Any]


def first_place(distance: str) -> Reducer:
    """The first place of the least distance."""

    def nearer(x: Any, y: Any) -> Any:
        left = te.any(x[1] < y[1], te.all(x[1].equal(y[1]), x[0] < y[0]))
        return te.if_then_else(left, x[0], y[0]), te.min(x[1], y[1])

    return te.comm_reducer(nearer, lambda place, value: (te.max_value(place), te.max_value(value)), distance)


def extremes() -> Reducer:
    return te.comm_reducer(
        lambda x, y: (te.min(x[0], y[0]), te.max(x[1], y[1]), x[2] + y[2]),
        lambda a, b, c: (te.max_value(a), te.min_value(b), te.const(0, c)),
        "extremes",
    )


def run(s: Any, tensors: list[Any], arrays: list[np.ndarray], outputs: list[Any]) -> list[np.ndarray]:
    outs = [np.empty([int(str(extent)) for extent in each.shape], str(each.dtype)) for each in outputs]
    tw.build(s, [*tensors, *outputs])(*arrays, *outs)
    return outs


def nearest(rows: int, points: int, dtype: str) -> tuple[list[Any], list[Any]]:
    a, b = te.placeholder((rows, 3), dtype, "A"), te.placeholder((points, 3), dtype, "B")
    j = te.reduce_axis((0, points), "j")
    reducer = first_place("nearest")

    def element(i: Any) -> Any:
        return reducer((j, sum((a[i, c] - b[j, c]) * (a[i, c] - b[j, c]) for c in range(3))), axis=j)

    return [a, b], list(te.compute((rows,), element, "N"))


def test_places_of_least_distances_have_lanes_over_points_and_keep_every_bit() -> None:
    tensors, outputs = nearest(101, 63, "float32")
    arrays = [
        drawn.normal(drawn.rng("places", at), *(int(str(n)) for n in each.shape)) for at, each in enumerate(tensors)
    ]
    wanted = run(te.create_schedule(outputs[0].op), tensors, arrays, outputs)
    for exact in (False, True):
        s = tw.autoschedule.schedule(outputs, exact=exact)
        (row,) = s.plan
        assert row.rule == "tuples" and " of i" in row.description
        assert row.candidates[-1][0] == "as declared" and row.seconds < row.candidates[-1][1].seconds / 2
        assert s.is_exact
        for got, want in zip(run(s, tensors, arrays, outputs), wanted, strict=True):
            assert np.array_equal(got, want)


@pytest.mark.parametrize("case", range(drawn.count(6, 300)))
def test_drawn_tuples_have_the_values_of_numpy(case: int) -> None:
    rng = drawn.rng("tuples", case)
    dtype = str(rng.choice(["int32", "float64", "float32"]))
    sizes = [int(rng.choice([0, 1, 2, 7, 8, 17, 31, 64, 65])) for _ in range(4)]
    kept, reduced = sizes[: rng.integers(0, 3)], sizes[2 : 2 + rng.integers(1, 3)]
    picked = [[at for at in range(len(kept) + len(reduced)) if rng.random() < 0.7] for _ in range(2)]
    shapes = [[(*kept, *reduced)[at] for at in own] for own in picked]
    arrays = [rng.integers(-9, 10, shape).astype(dtype) for shape in shapes]
    tensors = [te.placeholder(shape, dtype, f"T{at}") for at, shape in enumerate(shapes)]
    axes = [te.reduce_axis((0, n), f"k{at}") for at, n in enumerate(reduced)]

    def element(*index: Any) -> Any:
        every = (*index, *axes)
        x, y = (each[tuple(every[at] for at in own)] for each, own in zip(tensors, picked, strict=True))
        return extremes()((x - y, x * y, x + y), axis=axes)

    outputs = list(te.compute(tuple(kept), element, "E"))
    every = (*kept, *reduced)
    x, y = (
        np.broadcast_to(each.reshape([n if at in own else 1 for at, n in enumerate(every)]), every)
        for each, own in zip(arrays, picked, strict=True)
    )
    along = tuple(range(len(kept), len(every)))
    big = np.iinfo(dtype) if dtype == "int32" else np.finfo(dtype)
    wanted = [
        np.min(x - y, along, initial=big.max),
        np.max(x * y, along, initial=big.min),
        np.sum(x + y, along, dtype=dtype),
    ]
    s = tw.autoschedule.schedule(outputs, exact=bool(rng.random() < 0.5))
    for got, want in zip(run(s, tensors, arrays, outputs), wanted, strict=True):
        assert np.array_equal(got, want), (sizes, picked, str(s.plan))
