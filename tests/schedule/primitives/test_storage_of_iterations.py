"""double_buffer, rolling_buffer and prefetch: what iterations of a loop share of storage, and what they ask for ahead."""

from __future__ import annotations

from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from every_backend import EMULATED, as_declared, holds, replays
from lowered import allocated, guards, loops
from schedule_state import exact
from tilewright import te
from tilewright.base.errors import LoweringError, ScheduleError
from tilewright.schedule import errors
from tilewright.schedule.lowering import errors as lower_errors


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-8, 9, shape).astype("float32")


def chain(n: Any) -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1, name="B")
    return A, B, te.compute((n,), lambda i: B[i] * 2, name="C")


def refused(s: te.Schedule, error: type[ScheduleError], text: str, call: Any) -> None:
    before = exact(s)
    with pytest.raises(error, match=text):
        call()
    assert exact(s) == before


# double_buffer


@pytest.mark.parametrize("n", [0, 1, 7, 8, 30, 32])
def test_the_next_tile_is_computed_while_one_is_used(n: int) -> None:
    A, B, C = chain(n)
    s = te.create_schedule(C.op)
    outer, _ = s[C].split(C.op.axis[0], 8)
    s[B].compute_at(s[C], outer)
    s[B].double_buffer()
    a = floats(n)
    function = holds(s, [A, C], [a], [(a + 1) * 2])
    replays(s, [C.op])
    if n > 8:
        assert allocated(function) == {"B": ("2", "8")}
        assert "B[(i.outer + 1) % 2, i] = A[i.outer * 8 + i + 8] + 1.0" in str(function)
        assert "B[i.outer % 2, i.inner]" in str(function)
        assert loops(function)[0] == "i:8", "the first tile is computed before the loop"
    elif n:
        assert allocated(function) == {"B": (str(n),)}, "a loop that runs once has no next iteration"


@pytest.mark.parametrize("rows", [0, 1, 5])
def test_in_a_reduction_of_symbolic_extent_with_aligned_rows(rows: int) -> None:
    n = te.var("n")
    A, W, k = te.placeholder((n, 20), name="A"), te.placeholder((20, 13), name="W"), te.reduce_axis((0, 20), "k")
    C = te.compute((n, 13), lambda i, j: te.sum(A[i, k] * W[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    ko, ki = s[C].split(k, 6)
    s[C].reorder(ko, C.op.axis[0], C.op.axis[1], ki)
    WW = s.cache_read(W, "local", [C])
    s[WW].compute_at(s[C], ko)
    s[WW].double_buffer()
    s[WW].storage_align(s[WW].op.axis[0], 8, 1)
    a, w = floats(rows, 20), floats(20, 13, seed=1)
    function = holds(s, [A, W, C], [a, w], [a @ w])
    replays(s, [C.op])
    assert "W.local: local float32[2, 6, 13, strides=[102, 17, 1]]" in str(function)


def test_two_stages_of_which_one_reads_the_other_take_turns_together() -> None:
    A = te.placeholder((40,), name="A")
    B = te.compute((40,), lambda i: A[i] + 1, name="B")
    C = te.compute((39,), lambda i: B[i] * B[i + 1], name="C")
    D = te.compute((39,), lambda i: C[i] - 3, name="D")
    s = te.create_schedule(D.op)
    outer, _ = s[D].split(D.op.axis[0], 8)
    for stage in (C, B):
        s[stage].compute_at(s[D], outer)
    s[C].double_buffer()
    with pytest.raises(
        lower_errors.CannotComputeAhead,
        match=r"(?s)it reads B, which an iteration of i.outer computes itself.*"
        r"fix: s\[B\].double_buffer\(\) too",
    ):
        tw.lower(s, [A, D])
    s[B].double_buffer()
    a = floats(40)
    holds(s, [A, D], [a], [(a[:-1] + 1) * (a[1:] + 1) - 3])


def test_only_iterations_that_follow_each_other_take_turns() -> None:
    for kind in ("parallel", "vectorize"):
        A, B, C = chain(32)
        s = te.create_schedule(C.op)
        outer, _ = s[C].split(C.op.axis[0], 8)
        getattr(s[C], kind)(outer)
        s[B].compute_at(s[C], outer)
        s[B].double_buffer()
        with pytest.raises(
            lower_errors.CannotComputeAhead, match=r"do not follow each other: it is (parallel|vectorized)"
        ):
            tw.lower(s, [A, C])
    A, B, C = chain(32)
    s = te.create_schedule(C.op)
    s[B].double_buffer()
    with pytest.raises(lower_errors.StorageNotShared, match="it is computed at root, once"):
        tw.lower(s, [A, C])
    assert "open: cannot lower: stage B is to have a double buffer" in str(s)
    refused(s, errors.BadOverlap, "C is an output", lambda: s[C].double_buffer())
    refused(s, errors.BadOverlap, "A is a placeholder", lambda: s[A].rolling_buffer())
    refused(s, errors.BadOverlap, "double_buffer was called on it", lambda: s[B].rolling_buffer())
    s[B].compute_inline()
    refused(s, errors.BadOverlap, "it is inlined", lambda: s[B].double_buffer())


def shared_gemm(n: int, m: int, depth: int, *, double: bool, virtual: int) -> tuple[te.Schedule, list[te.Tensor]]:
    """A tiled product through shared memory, its tiles padded, its rows on virtual threads."""
    A, B, k = (
        te.placeholder((n, depth), name="A"),
        te.placeholder((depth, m), name="B"),
        te.reduce_axis((0, depth), "k"),
    )
    C = te.compute((n, m), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    CL = s.cache_write(C, "local")
    tiles = [s.cache_read(one, "shared", [CL]) for one in (A, B)]
    (bi, i), (bj, j) = (s[C].split(axis, 16) for axis in C.op.axis)
    vi, i = s[C].split(i, nparts=virtual)
    (ti, ii), (tj, jj) = s[C].split(i, nparts=4), s[C].split(j, nparts=8)
    s[C].reorder(bi, bj, vi, ti, tj, ii, jj)
    ty, tx = te.thread_axis((0, 4), "threadIdx.y"), te.thread_axis((0, 8), "threadIdx.x")
    for axis, thread in (
        (bi, te.thread_axis("blockIdx.y")),
        (bj, te.thread_axis("blockIdx.x")),
        (vi, te.thread_axis("vthread")),
        (ti, ty),
        (tj, tx),
    ):
        s[C].bind(axis, thread)
    s[CL].compute_at(s[C], tj)
    ko, ki = s[CL].split(s[CL].op.reduce_axis[0], 4)
    s[CL].reorder(ko, ki, *s[CL].op.axis)
    for tile in tiles:
        s[tile].compute_at(s[CL], ko)
        s[tile].storage_align(s[tile].op.axis[0], 8, 1)
        rest, x = s[tile].split(s[tile].fuse(*s[tile].op.axis), 8)
        _, y = s[tile].split(rest, 4)
        s[tile].bind(y, ty)
        s[tile].bind(x, tx)
        if double:
            s[tile].double_buffer()
    return s, [A, B, C]


@pytest.mark.parametrize(("shape", "virtual"), [((32, 32, 16), 2), ((17, 33, 7), 1)])
def test_shared_tiles_take_turns_on_a_gpu_with_one_barrier_an_iteration(
    shape: tuple[int, int, int], virtual: int
) -> None:
    n, m, depth = shape
    a, b = floats(n, depth), floats(depth, m, seed=1)
    s, args = shared_gemm(n, m, depth, double=True, virtual=virtual)
    holds(s, args, [a, b], [a @ b], EMULATED)
    replays(s, [args[2].op])
    if depth % 4 == 0:  # otherwise there are several loops, with guards and without
        source = tw.build(s, args, target="cuda -emulate").source("cuda")
        assert source.count("__syncthreads") == 1
        plain, args = shared_gemm(n, m, depth, double=False, virtual=virtual)
        assert tw.build(plain, args, target="cuda -emulate").source("cuda").count("__syncthreads") == 2


# rolling_buffer


def blur(h: int, w: int, taps: int, stride: int = 1, pad: int = 0) -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    rows, columns = ((extent - 1) * stride + taps - 2 * pad for extent in (h, w))
    A = te.placeholder((rows, columns), name="A")
    B = te.compute((rows, columns), lambda i, j: A[i, j] * 2, name="B")
    r, c = te.reduce_axis((0, taps), "r"), te.reduce_axis((0, taps), "c")

    def at(y: Any, x: Any) -> Any:
        row, column = y * stride + r - pad, x * stride + c - pad
        if not pad:
            return B[row, column]
        inside = te.all(row >= 0, row < rows, column >= 0, column < columns)
        return te.if_then_else(inside, B[row, column], te.const(0, "float32"))

    return A, B, te.compute((h, w), lambda y, x: te.sum(at(y, x), axis=[r, c]), name="C")


def blurred(a: np.ndarray, h: int, w: int, taps: int, stride: int, pad: int) -> np.ndarray:
    padded = np.pad(a * 2, pad)
    return sum(
        padded[i : i + h * stride : stride, j : j + w * stride : stride][:h, :w]
        for i in range(taps)
        for j in range(taps)
    )


def test_rows_go_around_a_ring() -> None:
    A, B, C = blur(8, 8, 3)
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], C.op.axis[0])
    s[B].rolling_buffer()
    a = floats(10, 10)
    function = holds(s, [A, C], [a], [blurred(a, 8, 8, 3, 1, 0)])
    replays(s, [C.op])
    assert allocated(function) == {"B": ("3", "10")}
    assert guards(function) == ["y == 0 or 2 <= i"]
    assert "B[(i + y) % 3, j] = A[i + y, j] * 2.0" in str(function)


def test_inside_two_loops_each_element_is_computed_once() -> None:
    A, B, C = blur(6, 9, 3)
    s = te.create_schedule(C.op)
    _, xo, _, _ = s[C].tile(*C.op.axis, 2, 3)
    s[B].compute_at(s[C], xo)
    s[B].rolling_buffer()
    function = holds(s, [A, C], [floats(8, 11)], [blurred(floats(8, 11), 6, 9, 3, 1, 0)])
    assert allocated(function) == {"B": ("4", "11")}, "a ring of rows of full width"
    assert guards(function)[:2] == ["x.outer == 0 or 2 <= j", "y.outer == 0 or 2 <= i"]


def cannot_roll(s: te.Schedule, args: list[te.Tensor]) -> str:
    """Why the schedule cannot be lowered; nothing where it can."""
    try:
        tw.lower(s, args)
    except lower_errors.CannotRoll as error:
        return error.reason
    return ""


@pytest.mark.parametrize("case", range(drawn.count(7, 300)))
def test_rolling_buffers_hold_what_the_whole_stage_holds(case: int) -> None:
    rng = drawn.rng("rolling", case)
    h, w, taps = (int(rng.integers(1, high)) for high in (8, 8, 5))
    stride, pad = int(rng.integers(1, 3)), int(rng.integers(0, 2)) if taps > 2 else 0
    A, B, C = blur(h, w, taps, stride, pad)
    rows, columns = (int(extent) for extent in A.shape)
    if rows < 1 or columns < 1:
        return
    s = te.create_schedule(C.op)
    y, x = C.op.axis
    factors = [int(value) for value in rng.integers(1, 4, 2)]
    yo, xo, yi, xi = s[C].tile(y, x, *factors)
    kind = int(rng.integers(0, 4))
    s[B].compute_at(s[C], (yo, xo, xo, yi)[kind])
    if kind == 2:
        s[C].parallel(yo)
    if rng.integers(0, 2):
        s[B].vectorize(s[B].split(B.op.axis[1], 4)[1])
    s[B].rolling_buffer()
    a = floats(rows, columns, seed=case)
    expected = blurred(a, h, w, taps, stride, pad)
    np.testing.assert_array_equal(as_declared([A, C], [a], [((h, w), "float32")])[0], expected)
    problem = cannot_roll(s, [A, C])
    if not problem:
        holds(s, [A, C], [a], [expected])
    else:
        known = (
            "need nothing of B",
            "does not move by a constant step",
            "no serial loop" if kind == 2 else "need nothing of B",
        )
        assert any(one in problem for one in known), f"seed {drawn.SEED}: {problem}"
    replays(s, [C.op])


def test_a_reduction_rolls_and_so_does_what_it_reads() -> None:
    A = te.placeholder((12, 5), name="A")
    r, q = te.reduce_axis((0, 3), "r"), te.reduce_axis((0, 2), "q")
    B = te.compute((10, 5), lambda i, j: te.sum(A[i + r, j], axis=r), name="B")
    C = te.compute((9, 5), lambda i, j: te.max(B[i + q, j], axis=q), name="C")
    s = te.create_schedule(C.op)
    AA = s.cache_read(A, "local", [B])
    for stage in (B, AA):
        s[stage].compute_at(s[C], C.op.axis[0])
        s[stage].rolling_buffer()
    a = floats(12, 5)
    b = a[:-2] + a[1:-1] + a[2:]
    function = holds(s, [A, C], [a], [np.maximum(b[:-1], b[1:])])
    assert allocated(function) == {"A.local": ("4", "5"), "B": ("2", "5")}
    replays(s, [C.op])


def test_what_need_not_roll_is_computed_in_each_iteration_instead() -> None:
    A, B, C = blur(8, 8, 1)
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], C.op.axis[0])
    s[B].rolling_buffer(strict=False)
    function = holds(s, [A, C], [floats(8, 8)], [blurred(floats(8, 8), 8, 8, 1, 1, 0)])
    assert allocated(function) == {"B": ("1", "8")}, "nothing of it is used again, so there is no ring"
    replays(s, [C.op])
    A, B, C = blur(8, 8, 3)
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], C.op.axis[0])
    s[B].rolling_buffer(strict=False)
    function = holds(s, [A, C], [floats(10, 10)], [blurred(floats(10, 10), 8, 8, 3, 1, 0)])
    assert guards(function) == ["y == 0 or 2 <= i"], "where it can roll it does"


def test_what_does_not_overlap_is_not_rolled() -> None:
    A, B, C = blur(8, 8, 1)
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], C.op.axis[0])
    s[B].rolling_buffer()
    with pytest.raises(lower_errors.CannotRoll, match="iterations of y need nothing of B that the last one computed"):
        tw.lower(s, [A, C])
    A, B, C = blur(8, 8, 3)
    s = te.create_schedule(C.op)
    s[C].parallel(C.op.axis[0])
    s[B].compute_at(s[C], C.op.axis[0])
    s[B].rolling_buffer()
    with pytest.raises(LoweringError, match=r"TW0352(?s:.*)no serial loop is around it"):
        tw.lower(s, [A, C])


# prefetch


@pytest.mark.parametrize("at", ["row", "tile", "vector"])
def test_prefetches_stay_within_the_tensor_and_change_nothing(at: str) -> None:
    n, m = te.var("n"), te.var("m")
    A = te.placeholder((n, m), name="A")
    C = te.compute((n, m), lambda i, j: A[i, j] * 2 + A[i, te.max(j - 1, 0)], name="C")
    s = te.create_schedule(C.op)
    i, j = C.op.axis
    if at == "row":
        s[C].prefetch(A, i, 1)
    elif at == "tile":
        _, jo, _, ji = s[C].tile(i, j, 4, 8)
        s[C].vectorize(ji)
        s[C].prefetch(A, jo, 2)
    else:
        _, ji = s[C].split(j, 8)
        s[C].prefetch(A, ji, -3)
        s[C].vectorize(ji)
    kernels = [tw.build(s, [A, C], target=target) for target in ("interpret", "llvm")]
    for shape in ((0, 0), (1, 5), (4, 64), (7, 33)):
        a = floats(*shape)
        for f in kernels:
            c = np.full(shape, 77, "float32")
            f(a, c)
            np.testing.assert_array_equal(c, a * 2 + np.concatenate([a[:, :1], a[:, :-1]], axis=1))
    replays(s, [C.op])
    function = tw.lower(s, [A, C])
    assert "prefetch(" in str(function)
    assert "llvm.prefetch" in kernels[1].source("llvm")
    if at == "row":
        assert "for line1 in (m + 15) // 16:" in str(function), "one for each line of 64 bytes"
        assert guards(function) == ["i + 1 < n"]


def test_short_rows_that_fill_a_line_together_are_one_prefetch() -> None:
    """A block of 16 rows of 4 bytes is a line; rows of 3 bytes do not fill lines, and are asked for one by one."""
    for rows, width, lines in ((16, 4, 1), (32, 4, 2), (12, 3, 12)):
        A = te.placeholder((9, rows, width), "uint8", name="A")
        B = te.compute(A.shape, lambda *at: A[at] + te.const(1, "uint8"), name="B")
        s = te.create_schedule(B.op)
        s[B].prefetch(A, B.op.axis[0], 2)
        text = str(s)
        head = text[: text.index("prefetch(")]
        assert ("for line1 in 2" in head) == (lines == 2)
        assert ("for ahead1 in 12" in head) == (lines == 12)
        assert ("access_ptr(handle, A[i0 + 2, 0, 0]" in text) == (lines == 1)
        a, found = (
            np.arange(9 * rows * width).astype("uint8").reshape(9, rows, width),
            np.zeros((9, rows, width), "uint8"),
        )
        tw.build(s, [A, B])(a, found)
        np.testing.assert_array_equal(found, a + np.uint8(1))


def test_a_stage_computed_where_it_is_read_prefetches_along_the_loop_around_it() -> None:
    A = te.placeholder((20, 64), name="A")
    B = te.compute(A.shape, lambda i, j: A[i, j] * 2.0, name="B")
    C = te.compute(A.shape, lambda i, j: B[i, j] + 1.0, name="C")
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], C.op.axis[0])
    s[B].prefetch(A, B.op.axis[0], 3)
    assert "A[i + 3, line1 * 16]" in str(s)
    a, found = np.random.default_rng(0).random((20, 64), dtype=np.float32), np.zeros((20, 64), "float32")
    tw.build(s, [A, C])(a, found)
    np.testing.assert_array_equal(found, a * 2 + 1)


def test_a_gpu_is_not_asked_to_prefetch() -> None:
    A, _, C = chain(64)
    s = te.create_schedule(C.op)
    B = s.stages[1].op.output(0)
    s[B].compute_inline()
    bx, tx = s[C].split(C.op.axis[0], 16)
    s[C].bind(bx, te.thread_axis("blockIdx.x"))
    s[C].bind(tx, te.thread_axis("threadIdx.x"))
    s[C].prefetch(B, tx, 1)
    with pytest.raises(lower_errors.PrefetchUnread, match="C does not read B now: it is inlined"):
        tw.lower(s, [A, C])
    s[B].compute_root()
    s[B].bind(B.op.axis[0], te.thread_axis("threadIdx.x"))
    a = floats(64)
    holds(s, [A, C], [a], [(a + 1) * 2], EMULATED)
    assert "prefetch" not in tw.build(s, [A, C], target="cuda -emulate").source("cuda")


def test_a_loop_that_prefetches_is_not_split_and_others_are_refused() -> None:
    A, B, C = chain(64)
    s = te.create_schedule(C.op)
    i = C.op.axis[0]
    s[C].prefetch(B, i, 1)
    refused(s, errors.AnnotationWouldBeLost, "i prefetches B", lambda: s[C].split(i, 4))
    refused(s, errors.BadPrefetch, "C does not read A", lambda: s[C].prefetch(A, i, 1))
    refused(s, errors.BadPrefetch, "the offset is 1.5, not an integer", lambda: s[C].prefetch(B, i, 1.5))
    refused(s, errors.BadPrefetch, "expected a tensor, got int", lambda: s[C].prefetch(3, i, 1))
    refused(s, errors.BadPrefetch, "the level is 3, neither 1 nor 2", lambda: s[C].prefetch(B, i, 1, level=3))
    refused(s, errors.NotAnAxisOfStage, "is an axis of stage B", lambda: s[C].prefetch(B, B.op.axis[0], 1))


# Beside tensor intrinsics


def _gemv(depth: int, double: bool) -> tuple[te.Schedule, list[te.Tensor], te.Tensor]:
    A, B, k = te.placeholder((16, 32), name="A"), te.placeholder((32,), name="B"), te.reduce_axis((0, 32), "k")
    C = te.compute((16,), lambda i: te.sum(B[k] * A[i, k], axis=k), name="C")
    s = te.create_schedule(C.op)
    ko, ki = s[C].split(k, depth)
    io, ii = s[C].split(C.op.axis[0], 8)
    s[C].reorder(ko, io, ii, ki)
    caches = [s.cache_read(one, "global", [C]) for one in (A, B)]
    for cache in caches:
        s[cache].compute_at(s[C], ko)
        if double:
            s[cache].double_buffer()
    s[C].tensorize(ii, te.intrinsics.get("c.gemv_f32", 8, depth))
    return s, [A, B, C], caches[1]


def test_an_intrinsic_gets_pointers_to_either_half() -> None:
    s, args, _ = _gemv(16, double=True)
    a, b = floats(16, 32), floats(32, seed=1)
    holds(s, args, [a, b], [a @ b], ["interpret"])
    text = str(tw.lower(s, args))
    assert "access_ptr(handle, B.global[k.outer, 0], 0" in text, "of two iterations, each has its half"
    s, args, _ = _gemv(8, double=True)
    with pytest.raises(lower_errors.CannotComputeAhead, match="the second place would begin at byte 32"):
        tw.lower(s, args)
    s, args, cache = _gemv(16, double=False)
    s[cache].rolling_buffer()
    with pytest.raises(lower_errors.CannotRoll, match="C is tensorized, and takes memory as one piece: a ring is none"):
        tw.lower(s, args)
