"""skew: a loop over a parallelogram; and the orders of a script's loops that distance vectors allow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.schedule.model.serialise import from_json, to_json
from tilewright.te.hybrid import output_tensor, script


@script
def diagonal(a: Any, rows: int, columns: int) -> Any:
    h = output_tensor((rows + 1, columns + 1), "int32")
    for i in range(rows):
        for j in range(columns):
            h[i + 1, j + 1] = h[i, j] + a[i, j]
    return h


@script
def alignment(a: Any, rows: int, columns: int) -> Any:
    h = output_tensor((rows + 1, columns + 1), "int32")
    for i in range(rows):
        for j in range(columns):
            h[i + 1, j + 1] = max(h[i, j + 1], h[i + 1, j]) + a[i, j] * h[i, j] + 1
    return h


@script
def stencil(a: Any, rows: int, columns: int) -> Any:
    h = output_tensor((rows + 1, columns + 2), "int32")
    for i in range(columns):
        h[0, i + 1] = a[0, i]
    for t in range(rows):
        for i in range(columns):
            h[t + 1, i + 1] = h[t, i] + h[t, i + 1] * 2 + h[t, i + 2]
    return h


def scheduled(function: Any, rows: Any = 13, columns: Any = 9) -> tuple[Any, Any, Any, Any, list[Any]]:
    A = te.placeholder((rows, columns), "int32", name="A")
    H = function(A, rows, columns)
    s = te.create_schedule(H.op)
    i, j = H.op.declared_loops.axis_chain(H.op.axis[0])
    return s, H, i, j, [A, H]


def computes_the_same(s: Any, args: list[Any], target: str = "interpret", shape: tuple[int, int] = (13, 9)) -> None:
    """The interpreter finds races of parallel loops too."""
    a = np.random.default_rng(3).integers(-3, 4, shape).astype("int32")
    columns = 2 if args[1].op.name == "stencil" else 1
    first, second = (np.full((shape[0] + 1, shape[1] + columns), 7, "int32") for _ in range(2))
    tw.build(s, args, target)(a, first)
    tw.build(te.create_schedule(args[1].op), args, target)(a, second)
    np.testing.assert_array_equal(first, second)


def test_loops_whose_distances_go_on_in_both_are_exchanged_and_tiled() -> None:
    s, H, i, j, args = scheduled(diagonal)
    s[H].tile(j, i, 4, 3)
    computes_the_same(s, args)
    s, H, i, j, args = scheduled(alignment)
    s[H].reorder(j, i)
    computes_the_same(s, args)
    with pytest.raises(tw.ScheduleError, match=r"TW0280: cannot make parallel 'i'"):
        s[H].parallel(i)


def test_a_distance_that_would_go_back_is_named() -> None:
    s, H, t, i, _ = scheduled(stencil)
    with pytest.raises(
        tw.ScheduleError,
        match=r"h\[t \+ 1, i_1 \+ 1\] and h\[t, i_1 \+ 2\] .* go on in t and would go back in i_1\.outer",
    ):
        s[H].tile(t, i, 4, 4)
    with pytest.raises(tw.ScheduleError, match=r"(?s)cannot rotate 't'.*skew the loop that stands within"):
        s[H].rotate(t, i)


@pytest.mark.parametrize("slope", [1, 2])
def test_a_wavefront_is_shared_among_threads(slope: int) -> None:
    s, H, i, j, args = scheduled(alignment)
    front = s[H].skew(j, i, slope)
    assert front.name == "j.skewed" and s[H].leaf_iter_vars == [i, front]
    s[H].reorder(front, i)
    s[H].parallel(i)
    text = str(s)
    assert "for i in parallel(13):" in text and f"for j.skewed in {9 + slope * 12}:" in text
    computes_the_same(s, args)
    s.verify()


def test_a_slope_that_lets_distances_go_back_is_refused_at_the_reorder() -> None:
    s, H, i, j, _ = scheduled(alignment)
    front = s[H].skew(j, i, -1)
    with pytest.raises(tw.ScheduleError, match=r"would go back in j\.skewed"):
        s[H].reorder(front, i)
    s, H, i, j, _ = scheduled(alignment)
    with pytest.raises(tw.ScheduleError, match=r"(?s)cannot skew 'i' of .*go on in j and would go back in i\.skewed"):
        s[H].skew(i, j, -1)


def test_tiles_of_a_skewed_stencil() -> None:
    s, H, t, i, args = scheduled(stencil)
    moved = s[H].skew(i, t)
    outer, tiles, *inner = s[H].tile(t, moved, 4, 4)
    s[H].reorder(s[H].skew(tiles, outer), outer, *inner)
    s[H].parallel(outer)
    computes_the_same(s, args)


def test_the_inner_loop_of_a_wavefront_runs_over_what_is_there() -> None:
    s, H, i, j, args = scheduled(alignment)
    s[H].reorder(s[H].skew(j, i), i)
    computes_the_same(s, args, "llvm")
    assert "likely" not in str(tw.lower(s, args)), "guards that many iterations fail cut the loop"


def test_unknown_shapes() -> None:
    n, m = te.var("n"), te.var("m")
    s, H, i, j, args = scheduled(alignment, n, m)
    front = s[H].skew(j, i)
    assert front.dtype == "int64", "a sum that could wrap is wider"
    s[H].reorder(front, i)
    for shape in ((1, 1), (5, 17), (17, 5), (0, 3), (3, 0)):
        computes_the_same(s, args, "llvm", shape)
    with pytest.raises(tw.ScheduleError, match="not constants of which 32 bits are enough"):
        s[H].skew(i, front, 2)


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 2, 0), (2, 1, 0)])
def test_a_stage_of_expressions_computes_what_it_computed(order: tuple[int, ...]) -> None:
    A = te.placeholder((5, 7), "int32", name="A")
    B = te.compute((5, 7), lambda i, j: A[i, j] * 3, name="B")
    k = te.reduce_axis((0, 4), "k")
    C = te.compute((5, 7), lambda i, j: te.sum(B[i, (j + k) % 7], k), name="C")
    s = te.create_schedule(C.op)
    moved = s[C].skew(C.op.axis[1], C.op.axis[0], -2)
    loops = [C.op.axis[0], moved, k]
    s[C].reorder(*(loops[at] for at in order))
    s[B].compute_at(s[C], loops[order[1]])
    s.verify()


@pytest.mark.parametrize("factored", [False, True])
@pytest.mark.parametrize("shape", [(2, 1), (1, 2), (2, 3)])
def test_caches_of_a_skewed_sum_read_what_is_there(shape: tuple[int, int], factored: bool) -> None:
    rows, columns = shape
    A = te.placeholder((columns, 4, rows), "int32", name="A")
    b, c = te.reduce_axis((0, 4), "b"), te.reduce_axis((0, 3), "c")
    C = te.compute(shape, lambda i, j: te.sum(A[j, b, i] * c, [b, c]), name="C")
    s = te.create_schedule(C.op)
    moved = s[C].skew(C.op.axis[1], C.op.axis[0], -2)
    s[C].skew(C.op.axis[0], moved)
    if factored:
        s.rfactor(C, b)
    else:
        s.cache_write(C, "local")
    s.verify()  # reads outside are an error of the interpreter


def test_records_of_the_release_in_which_rotate_was_named_skew() -> None:
    A = te.placeholder((4, 6), name="A")
    C = te.compute((4, 6), lambda i, j: A[i, j] + 1, name="C")
    s = te.create_schedule(C.op)
    s[C].rotate(C.op.axis[1], C.op.axis[0], 2)
    old = to_json(s.trace).replace('"rotate"', '"skew"')
    assert str(te.Schedule.replay(from_json(old), [C.op])) == str(s)
    t = te.create_schedule(C.op)
    t[C].skew(C.op.axis[1], C.op.axis[0], 2)
    assert str(te.Schedule.replay(from_json(to_json(t.trace)), [C.op])) == str(t) != str(s)
