"""Sums along rows in their declared order: by lanes across rows, bit for bit."""

from __future__ import annotations

import drawn
import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi

HASWELL = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=haswell"


def placeholder_of(values: np.ndarray) -> te.Tensor:
    return te.placeholder(values.shape, str(values.dtype), "x")


def bits_agree(x: te.Tensor, output: te.Tensor, values: np.ndarray) -> None:
    s = tw.autoschedule.schedule(output, exact=True)
    assert s.is_exact
    results: list[np.ndarray] = []
    for each in (te.create_schedule(output.op), s):
        got = np.full([int(str(extent)) for extent in output.shape], 77, str(output.dtype))
        tw.build(each, [x, output])(values, got)
        results.append(got)
    assert results[0].tobytes() == results[1].tobytes()


@pytest.mark.parametrize(
    ("shape", "axes"),
    drawn.part(
        [
            ((33, 65), (1,)),
            ((7, 65), (1,)),
            ((65, 7), (1,)),
            ((8, 8), (1,)),
            ((129, 1024), (1,)),
            ((3, 17, 31), (2,)),
            ((17, 3, 31), (2,)),
            ((9, 20, 33), (0, 2)),
            ((9, 20, 33), (1, 2)),
            ((1, 300), (1,)),
            ((40, 1), (1,)),
            ((5, 16, 33), (2,)),
        ],
        3,
    ),
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_sums_of_rows(shape: tuple[int, ...], axes: tuple[int, ...], dtype: str) -> None:
    values = np.random.default_rng(1).standard_normal(shape).astype(dtype)
    x = placeholder_of(values)
    bits_agree(x, topi.sum(x, axes), values)


def test_what_is_read_beside_the_rows_and_what_follows() -> None:
    values = np.random.default_rng(2).standard_normal((37, 67)).astype("float32")
    x = placeholder_of(values)
    k = te.reduce_axis((0, 67), "k")
    doubled = te.compute((37, 67), lambda i, j: x[i, j] * 2.0, "doubled")
    total = te.compute((37,), lambda i: te.sum(doubled[i, k] * x[i, 66 - k] - x[36 - i, 0], axis=k), "total")
    bits_agree(x, te.compute((37,), lambda i: te.sqrt(te.abs(total[i])), "output"), values)


def test_lanes_run_across_rows() -> None:
    x = te.placeholder((64, 1000), name="x")
    output = topi.sum(x, 1)
    kernel = tw.build(tw.autoschedule.schedule(output, HASWELL, exact=True), [x, output], target=HASWELL)
    text = kernel.source("asm")
    assert "vaddps" in text and "ymm" in text and "vgather" not in text and "vaddss" not in text


@pytest.mark.parametrize("shape", drawn.part([(70, 5), (33, 9), (41, 23), (19, 31), (9, 8)], 2))
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_places_along_short_rows(shape: tuple[int, int], dtype: str) -> None:
    """Lanes across rows, without being asked for the order: ties go to the first place."""

    def first(a: tuple[te.Expr, te.Expr], b: tuple[te.Expr, te.Expr]) -> tuple[te.Expr, te.Expr]:
        left = te.any(a[1] > b[1], te.all(a[1] == b[1], a[0] < b[0]))
        return te.select(left, a[0], b[0]), te.select(left, a[1], b[1])

    best = te.comm_reducer(first, lambda place, value: (te.max_value("int32"), te.min_value(value)))
    values = np.random.default_rng(3).integers(-4, 4, shape).astype(dtype)
    x, k = placeholder_of(values), te.reduce_axis((0, shape[1]), "k")
    place = te.compute(shape[:1], lambda i: best((k, x[i, k]), axis=k), name="place")[0]
    for target in ("llvm", HASWELL):
        s = tw.autoschedule.schedule(place, target)
        assert s.is_exact or shape[1] > 20 and dtype == "float64"
        got = np.full(shape[0], 77, "int32")
        tw.build(tw.lower(s, [x, place]), target="llvm")(values, got)
        np.testing.assert_array_equal(got, values.argmax(1))
