"""Reductions and chains of rows that rules schedule for GPUs: right on the emulator, and of the bits that are asked for."""

from __future__ import annotations

from typing import Any

import drawn
import gpu_choices
import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi


def reduced(rng: np.random.Generator) -> Any:
    """One of several reductions over some axes of a drawn tensor, and something after it."""
    shape = [int(rng.integers(1, 40)) for _ in range(int(rng.integers(1, 4)))]
    A = te.placeholder(shape, "float32" if rng.integers(3) else "int32", name="A")
    axes = [at for at in range(len(shape)) if rng.integers(2)] or [len(shape) - 1]
    kind = [topi.sum, topi.max, topi.min, topi.argmax][int(rng.integers(4))]
    output = kind(A, axes[0] if kind is topi.argmax else axes)
    return topi.add(output, output) if rng.integers(2) else output


def rows(rng: np.random.Generator) -> Any:
    """A softmax or a norm along a drawn axis."""
    shape = [int(rng.integers(1, extent)) for extent in (4, 40, 300)]
    A = te.placeholder(shape, name="A")
    if rng.integers(2):
        return topi.nn.softmax(A, int(rng.integers(3)))
    return topi.nn.layer_norm(
        A, te.placeholder(shape[2:], name="gamma"), te.placeholder(shape[2:], name="beta"), axis=[2]
    )


@pytest.mark.parametrize("shape", [(3, 3000), (1, 1 << 15)])
def test_sums_that_begin_with_a_value_of_their_own_begin_with_it_once(shape: tuple[int, int]) -> None:
    A = te.placeholder(shape, name="A")
    k, m = te.reduce_axis((0, shape[1]), "k"), te.reduce_axis((0, shape[1]), "m")
    totals = te.compute(shape[:1], lambda i: te.sum(A[i, k], axis=k, init=te.const(2.0)), name="totals")
    tops = te.compute(shape[:1], lambda i: te.max(A[i, m], axis=m, init=te.const(0.5)), name="tops")
    rows = te.compute(shape, lambda i, j: A[i, j] - tops[i], name="rows")
    for output in (totals, rows):
        assert gpu_choices.differs(output, np.random.default_rng(3), lambda ways: len(ways) - 1) == ""


@pytest.mark.parametrize("at", range(drawn.count(3, 300)))
@pytest.mark.parametrize("draw", [reduced, rows])
def test_drawn_reductions_are_right_in_every_way_that_there_is(draw: Any, at: int) -> None:
    rng = drawn.rng(f"gpu {draw.__name__}", at)
    assert gpu_choices.differs(draw(rng), rng, lambda ways: int(rng.integers(len(ways))), bits=draw is reduced) == ""


@pytest.mark.parametrize("draw", [reduced, rows])
def test_exact_schedules_keep_the_order_of_every_sum(draw: Any) -> None:
    rng = drawn.rng(f"gpu exact {draw.__name__}")
    assert gpu_choices.differs(draw(rng), rng, exact=True, bits=draw is reduced) == ""


@pytest.mark.parametrize(
    ("shape", "axis", "chosen"),
    [
        ((64, 4096), 1, "threads a row"),
        ((4096, 64), 0, "threads a row"),
        ((4, 1 << 22), 0, "an element a thread"),
    ],
)
def test_threads_share_a_sum_where_there_are_few(shape: tuple[int, int], axis: int, chosen: str) -> None:
    s = tw.autoschedule.schedule([topi.sum(te.placeholder(shape, name="A"), axis)], target="cuda -arch=sm_90")
    assert s.plan[0].description.endswith(chosen)


def test_a_softmax_is_one_kernel_whose_neighbouring_threads_read_neighbours() -> None:
    output = topi.nn.softmax(te.placeholder((128, 1000), name="A"))
    text = gpu_choices.text_of(tw.autoschedule.schedule([output], target="cuda -arch=sm_90"), output)
    assert text.count("__global__") == 1 and "thread_x" in text and "__shared__" in text


def test_short_sums_over_windows_of_which_none_is_read_twice_have_a_thread_each() -> None:
    s = tw.autoschedule.schedule(
        [topi.nn.avg_pool2d(te.placeholder((2, 32, 28, 28), name="data"), 2, 2, 0)], "cuda -arch=sm_80"
    )
    assert s.plan[0].description == "an element a thread"


@pytest.mark.parametrize("kind", ["float32", "float16"])
def test_sums_of_many_lengths_have_tiles_in_registers(kind: str) -> None:
    weight, right = te.placeholder((2, 128, 64), kind, name="weight"), te.placeholder((128, 32), kind, name="right")

    def element(b: Any, i: Any, e: Any) -> Any:
        j = te.reduce_axis((0, b * 64 + 64), name="j")
        return te.sum(weight[b, j, i].astype("float32") * right[j, e].astype("float32"), axis=j)

    output = te.compute((2, 64, 32), element, name="value")
    s = tw.autoschedule.schedule([output], target="cuda -arch=sm_80")
    assert s.plan[0].description.startswith("4 x 4 a thread")
    assert gpu_choices.differs(output, np.random.default_rng(4), tolerance=1e-5) == ""
    row = te.placeholder((5,), "int32", name="row")
    assert gpu_choices.differs(_triangle(row), np.random.default_rng(5), exact=False) == ""


def _triangle(scales: Any) -> Any:
    """Sums over as many terms as a row has before it, of integers: every order gives the same bits."""
    weight = te.compute((5, 40, 8), lambda b, j, i: scales[b] + j * 3 - i, name="weight")
    right = te.compute((40, 12), lambda j, e: scales[j % 5] * e + j, name="right")

    def element(b: Any, i: Any, e: Any) -> Any:
        j = te.reduce_axis((0, b * 8 + 3), name="j")
        return te.sum(weight[b, j, i] * right[j, e], axis=j)

    return te.compute((5, 8, 12), element, name="triangle")


@pytest.mark.parametrize("extents", [(5, 40), (3, 7)])
def test_a_tensor_without_dimensions_is_read_like_any_other(extents: tuple[int, int]) -> None:
    A, scale = te.placeholder(extents, name="A"), te.placeholder((), name="scale")
    k = te.reduce_axis((0, extents[1]), name="k")
    output = te.compute(extents[:1], lambda i: te.sum(te.exp(scale() * A[i, k]), axis=k), name="B")
    assert gpu_choices.differs(output, np.random.default_rng(2), bits=False) == ""


def test_what_lies_along_is_told_by_most_of_what_is_read() -> None:
    """A row times a matrix: neighbouring results read neighbours of the matrix, however the row lies."""
    A, x = te.placeholder((4096, 4096), name="A"), te.placeholder((4096,), name="x")
    k = te.reduce_axis((0, 4096), "k")
    y = te.compute((4096,), lambda j: te.sum(A[k, j] * x[k], axis=k), name="y")
    plan = tw.autoschedule.schedule([y], "cuda -arch=sm_80").plan
    (row,) = plan
    assert row.reason == "" and row.estimate is not None and row.estimate.seconds > 4e-5, "64 MB are read"
    B = te.placeholder((200, 70), name="B")
    z = te.placeholder((200,), name="z")
    m = te.reduce_axis((0, 200), "m")
    output = te.compute((70,), lambda j: te.sum(B[m, j] * z[m], axis=m), name="w")
    assert not gpu_choices.differs(output, np.random.default_rng(0), bits=False, tolerance=2e-5)


def test_few_long_rows_are_shared_by_blocks() -> None:
    def variance(rows: int, columns: int) -> Any:
        A = te.placeholder((rows, columns), name="A")
        centred = A - topi.mean(A, axis=0, keepdims=True)
        return topi.mean(centred * centred, axis=0)

    plan = tw.autoschedule.schedule([variance(20000, 50)], "cuda -arch=sm_80").plan
    assert [row.rule for row in plan] == ["rows", "sums", "sums", "injective"] and "blocks a sum" in str(plan)
    apart = gpu_choices.differs(
        variance(300, 5),
        np.random.default_rng(0),
        lambda ways: next((at for at, way in enumerate(ways) if "apart" in way.description), len(ways) - 1),
        bits=False,
        tolerance=2e-5,
    )
    assert not apart
