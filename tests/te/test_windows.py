"""Windows over several dimensions, drawn, bit for bit the same as one after the other; and those that are chosen and refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from this_machine import runnable
from tilewright import te
from tilewright.schedule.primitives.redeclare import SEPARABLE, offered_declarations

TARGETS = ("llvm -cores=1", "llvm -cores=2", *runnable("llvm -mcpu=haswell -cores=1"))
SPECIAL = np.array([np.nan, -0.0, 0.0, -np.inf, np.inf], "float32")
Reducer = Callable[..., Any]


def window(
    read: Callable[..., Any], shape: tuple[int, ...], sizes: tuple[int, ...], strides: tuple[int, ...], reduce: Reducer
) -> te.Tensor:
    """A window around each element, or around each second one of a dimension, of what may be read beyond its ends."""
    axes = [te.reduce_axis((0, size), f"w{at}") for at, size in enumerate(sizes)]
    moved = list(zip(strides, axes, sizes, strict=True))
    return te.compute(
        shape,
        lambda *i: reduce(
            read(*(at * step + axis - size // 2 for at, (step, axis, size) in zip(i, moved, strict=True))), axes
        ),
        "D",
    )


def test_drawn_windows_one_after_the_other_are_bit_for_bit_as_declared() -> None:
    for case in range(drawn.count(3, 2_000)):
        rng = drawn.rng("windows", case)
        rank = int(rng.choice([2, 2, 3]))
        shape = tuple(int(rng.choice([5, 9, 17, 70][: 6 - rank])) for _ in range(rank))
        sizes = tuple(int(rng.choice([1, 2, 3, 7][: 6 - rank])) for _ in range(rank))
        strides = tuple(int(rng.choice([1, 1, 2])) for _ in range(rank))
        dtype = str(rng.choice(["uint8", "int16", "float32"]))
        a = te.placeholder(shape, dtype, "A")
        extended: Any = [te.clamped, te.mirrored, te.wrapped, lambda t: te.padded(t, int(rng.choice([0, 3])))]
        read = extended[int(rng.integers(4))](a)
        reducers: list[Reducer] = [te.max, te.min]
        reducers += [te.sum, lambda x, axes: te.sum(x.astype("int32"), axes)] if dtype != "float32" else []
        reduce = reducers[int(rng.integers(len(reducers)))]
        result = window(
            read, tuple(-(-n // step) for n, step in zip(shape, strides, strict=True)), sizes, strides, reduce
        )
        values = rng.integers(-9 * (dtype != "uint8"), 120, shape).astype(dtype)
        if dtype == "float32":
            values = np.where(rng.integers(8, size=shape) == 0, rng.choice(SPECIAL, shape), values)
        target = str(rng.choice(TARGETS))
        schedules = [te.create_schedule(result.op), tw.autoschedule.schedule(result, target, exact=True)]
        if SEPARABLE in offered_declarations(schedules[0][result]):
            schedules.append(te.create_schedule(result.op))
            schedules[-1].redeclare(result, SEPARABLE)
        outputs = [np.full([int(n) for n in result.shape], 77, result.dtype) for _ in schedules]
        for s, output in zip(schedules, outputs, strict=True):
            assert s.is_exact
            tw.build(s, [a, result], target=target)(values, output)
        for output in outputs[1:]:  # any NaN equals any other; the sign of a zero counts
            np.testing.assert_array_equal(outputs[0], output, str((case, shape, sizes, strides, target)))
            if dtype == "float32":
                numbers = ~np.isnan(output)
                assert np.array_equal(np.signbit(outputs[0])[numbers], np.signbit(output)[numbers])


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_large_windows_are_chosen_by_dimensions_under_exact(dtype: str) -> None:
    image = te.placeholder((384, 384), dtype, "A")
    result = window(te.clamped(image), (384, 384), (7, 7), (1, 1), te.max)
    s = tw.autoschedule.schedule(result, "llvm -mcpu=haswell -cores=1", exact=True)
    assert [row.description for row in s.plan if row.rule == "algorithm"] == [SEPARABLE]
    assert [stage.op.name for stage in s.stages] == ["A", "D.w0", "D"] and s.is_exact


def offered(result: te.Tensor) -> bool:
    return SEPARABLE in offered_declarations(te.create_schedule(result.op)[result])


def test_what_is_no_window_by_dimensions_or_is_rounded_is_not_offered() -> None:
    a, mask = te.placeholder((40, 40), name="A"), te.placeholder((7, 7), name="mask")
    y, x = te.reduce_axis((0, 7), "y"), te.reduce_axis((0, 7), "x")
    shape, both = (34, 34), [y, x]
    assert offered(te.compute(shape, lambda i, j: te.max(a[i + y, j + x], both)))
    assert not offered(te.compute(shape, lambda i, j: te.sum(a[i + y, j + x], both))), "sums of floats are rounded"
    assert not offered(te.compute(shape, lambda i, j: te.max(a[i + y, j + x] + mask[y, x], both)))
    assert not offered(te.compute(shape, lambda i, j: te.max(a[i + y, j + x], both, where=y + x < 9))), "a round window"
    assert not offered(te.compute(shape, lambda i, j: te.max(te.if_then_else(y + x < 9, a[i + y, j + x], 0.0), both)))
    assert not offered(te.compute((20,), lambda i: te.max(a[i + y, i + x], both))), "an axis of two dimensions"
    p, q = te.reduce_axis((0, 2), "p"), te.reduce_axis((0, 2), "q")
    assert not offered(te.compute((20, 20), lambda i, j: te.max(a[2 * i + p, 2 * j + q], [p, q]))), "windows apart"
    counts = te.placeholder((40, 40), "int32", "counts")
    filled = te.padded(counts, 1)
    assert not offered(te.compute((40, 40), lambda i, j: te.sum(filled[i + y - 3, j + x - 3], both))), "ones add up"
    saturated = te.comm_reducer(lambda p, q: te.min(p + q, 99), lambda dtype: te.const(0, dtype), "saturated")
    assert not offered(te.compute((40, 40), lambda i, j: saturated(filled[i + y - 3, j + x - 3], both))), "as these do"
    shift = te.var("shift")

    def guarded(i: Any, j: Any) -> Any:
        return te.max(te.if_then_else(te.all(shift >= 0, shift < 7), a[i + y + shift, j + x], 0.0), both)

    assert not offered(te.compute((28, 34), guarded)), "what holds the shift within the image is of no dimension"
