"""transform_layout: tensors in another order and shape, inside and at the edge of a program."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from every_backend import EMULATED, holds, replays
from schedule_state import exact
from tilewright import te
from tilewright.ir.expr import ProducerLoad
from tilewright.ir.visit import post_order
from tilewright.schedule import from_json, to_json
from tilewright.schedule.errors import BadLayout


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-8, 9, shape).astype("float32")


def images() -> tuple[te.Schedule, list[te.Tensor]]:
    shape = (2, 6, 3, 5)
    A = te.placeholder(shape, name="A")
    B = te.compute(shape, lambda n, c, h, w: A[n, c, h, w] * 2, name="B")
    C = te.compute(shape, lambda n, c, h, w: B[n, c, h, w] + 1, name="C")
    return te.create_schedule(C.op), [A, B, C]


def in_fours(n: Any, c: Any, h: Any, w: Any) -> list[Any]:
    return [n, c // 4, h, w, c % 4]


def packed(a: np.ndarray, pad: float) -> np.ndarray:
    n, c, h, w = a.shape
    whole = np.full((n, -(-c // 4) * 4, h, w), pad, a.dtype)
    whole[:, :c] = a
    return np.ascontiguousarray(whole.reshape(n, -1, 4, h, w).transpose(0, 1, 3, 4, 2))


def test_an_intermediate_is_packed_and_padded() -> None:
    s, (A, B, C) = images()
    axes = s[B].transform_layout(in_fours, pad_value=7.0)
    assert [axis.name for axis in axes] == ["n", "c.outer", "h", "w", "c.inner"]
    assert all(a is b for a, b in zip(axes, s[B].leaf_iter_vars, strict=True)), "the loops of the stage"
    s[B].vectorize(axes[-1])
    a = numbers(2, 6, 3, 5)
    function = holds(s, [A, C], [a], [a * 2 + 1])
    assert "B: float32[2, 2, 3, 5, 4]" in str(function)
    assert "C[n, c, h, w] = B[n, c // 4, h, w, c % 4] + 1.0" in str(function)
    replays(s, [C.op])
    holds(s, [A, B, C], [a], [packed(a * 2, 7), a * 2 + 1])


def test_arguments_have_the_new_shape() -> None:
    s, (A, _, C) = images()
    assert s[A].transform_layout(in_fours) is None, "a placeholder has no loops"
    s[C].transform_layout(lambda n, c, h, w: [(n * 6 + c) * 15 + h * 5 + w])
    outer, inner = s[C].transform_layout(lambda i: [i // 16, i % 16], pad_value=-1)
    s[C].parallel(outer)
    s[C].vectorize(inner)
    a = numbers(2, 6, 3, 5)
    flat = np.full(192, -1, "float32")
    flat[:180] = (a * 2 + 1).reshape(-1)
    holds(s, [A, C], [packed(a, np.nan)], [flat.reshape(12, 16)])
    replays(s, [C.op])
    with pytest.raises(tw.TilewrightError, match="A"):
        tw.build(s, [A, C])(a, np.zeros((12, 16), "float32"))


def test_without_a_pad_value_padding_is_zero_and_a_one_to_one_layout_has_no_conditions() -> None:
    s, (A, B, C) = images()
    s[B].transform_layout(in_fours)
    a = numbers(2, 6, 3, 5)
    holds(s, [A, B, C], [a], [packed(a * 2, 0), a * 2 + 1])
    s, (A, B, C) = images()
    s[B].transform_layout(lambda n, c, h, w: [c // 2, n, c % 2, w * 3 + h])
    function = holds(s, [A, C], [a], [a * 2 + 1])
    assert "if" not in str(function), "nothing is padded"


@pytest.mark.parametrize("n", drawn.part([0, 1, 5, 8], 2))
def test_symbolic_extents(n: int) -> None:
    size = te.var("n")
    A = te.placeholder((size, 7), name="A")
    B = te.compute((size, 7), lambda i, j: A[i, j] + 1, name="B")
    C = te.compute((size, 7), lambda i, j: B[i, j] * 2, name="C")
    s = te.create_schedule(C.op)
    s[B].transform_layout(lambda i, j: [i // 4, j // 4, i % 4, j % 4], pad_value=1)
    a = numbers(n, 7)
    holds(s, [A, C], [a], [(a + 1) * 2])
    replays(s, [C.op])
    s = te.create_schedule(C.op)
    s[C].transform_layout(lambda i, j: [j * size + i])
    holds(s, [A, C], [a], [((a + 1) * 2).T.reshape(-1)])
    replays(s, [C.op])


def test_reductions_fill_their_padding_and_read_no_bounds_there() -> None:
    A, L = te.placeholder((6, 5), name="A"), te.placeholder((6,), "int32", name="L")

    def row(i: Any) -> Any:
        k = te.reduce_axis((0, L[i]), "k")
        return te.sum(A[i, k], axis=k)

    C = te.compute((6,), row, name="C")
    D = te.compute((6,), lambda i: C[i] + 1, name="D")
    s = te.create_schedule(D.op)
    outer, inner = s[C].transform_layout(lambda i: [i // 4, i % 4], pad_value=9)
    s[C].reorder(outer, inner)
    a, lengths = numbers(6, 5), np.array([0, 1, 5, 3, 2, 4], "int32")
    sums = np.array([a[i, : lengths[i]].sum() for i in range(6)], "float32")
    holds(s, [A, L, C, D], [a, lengths], [np.append(sums, [9, 9]).astype("float32").reshape(2, 4), sums + 1])
    replays(s, [D.op])


def test_several_outputs_move_together_each_with_its_pad_value() -> None:
    A, k = te.placeholder((5, 7), name="A"), te.reduce_axis((0, 7), "k")
    best = te.comm_reducer(
        lambda x, y: (te.select(x[1] >= y[1], x[0], y[0]), te.select(x[1] >= y[1], x[1], y[1])),
        lambda t0, t1: (te.const(-1, t0), te.min_value(t1)),
        "best",
    )
    T = te.compute((5,), lambda i: best((k, A[i, k]), axis=k), name="T")
    s = te.create_schedule(T[0].op)
    s[T[0]].transform_layout(lambda i: [i // 2, i % 2], pad_value=(-7, 0.5))
    a = np.random.default_rng(0).standard_normal((5, 7)).astype("float32")
    where = np.append(a.argmax(1), -7).astype("int32").reshape(3, 2)
    holds(s, [A, *T], [a], [where, np.append(a.max(1), 0.5).astype("float32").reshape(3, 2)])
    replays(s, [T[0].op])


def test_a_packed_stage_is_computed_at_a_loop_and_on_threads() -> None:
    s, (A, B, C) = images()
    s[B].transform_layout(in_fours, pad_value=3)
    n, c, h, w = C.op.axis
    s[C].reorder(n, h, c, w)
    fused = s[C].fuse(n, h)
    s[C].bind(fused, te.thread_axis("blockIdx.x"))
    s[C].bind(w, te.thread_axis((0, 5), "threadIdx.x"))
    s[B].compute_at(s[C], fused)
    s[B].bind(s[B].op.axis[3], te.thread_axis((0, 5), "threadIdx.x"))
    a = numbers(2, 6, 3, 5)
    holds(s, [A, C], [a], [a * 2 + 1], EMULATED)
    replays(s, [C.op])


REFUSED: list[tuple[Callable[..., Any], str]] = [
    (lambda n, c, h, w: [n, c // 4, h, w], "loses c % 4: two elements would have the same address"),
    (lambda n, c, h, w: [n, c % 4, h, w], "loses c // 4"),
    (lambda n, c, h, w: [n, c, h * w], "multiplies indices"),
    (lambda n, c, h, w: [n * 5 + c, h, w], "what is below the factor 5 reaches up to 6 - 1"),
    (lambda n, c, h, w: [n, c, h, w, c], "two indices of the new layout repeat the same part of c"),
    (lambda n, c, h, w: [n, c - 1, h, w], "counts down, or begins below 0"),
    (lambda n, c: [n, c], "takes 2 positional arguments but 4 were given"),
    (lambda n, c, h, w: [n, c, h, w + 0.5], "not an integer expression"),
    (lambda n, c, h, w: [n, c, h, te.min(w, 3)], "is not a sum of indices"),
]


@pytest.mark.parametrize(("function", "reason"), REFUSED)
def test_what_is_no_layout_is_refused(function: Callable[..., Any], reason: str) -> None:
    s, (_, B, _) = images()
    before = exact(s)
    with pytest.raises(BadLayout, match=reason.replace("*", r"\*")):
        s[B].transform_layout(function)
    assert exact(s) == before


def test_a_stage_whose_loops_are_scheduled_is_refused() -> None:
    s, (A, B, C) = images()
    s[C].split(C.op.axis[1], 2)
    with pytest.raises(BadLayout, match="call transform_layout first"):
        s[C].transform_layout(in_fours)
    s[B].compute_at(s[C], C.op.axis[0])
    s, (A, B, C) = images()
    s[B].compute_at(s[C], C.op.axis[0])
    with pytest.raises(BadLayout, match="B is computed at a loop of it"):
        s[C].transform_layout(in_fours)
    with pytest.raises(BadLayout, match="not a constant of type float32"):
        s[B].transform_layout(in_fours, pad_value=A[0, 0, 0, 0])
    s[B].compute_inline()
    with pytest.raises(BadLayout, match="B is inlined, so it lies nowhere"):
        s[B].transform_layout(in_fours)


@pytest.mark.parametrize("case", range(drawn.count(8, 1000)))
def test_drawn_layouts_hold(case: int) -> None:
    """Digits of the indices, dealt out to dimensions in any order."""
    rng = drawn.rng("layouts", case)
    shape = tuple(int(extent) for extent in rng.integers(1, 8, int(rng.integers(1, 4))))
    digits: list[tuple[int, int, int]] = []  # index, low, high (0: all the rest)
    for at in range(len(shape)):
        low = 1
        while rng.integers(0, 3) and low < 8:
            high = low * int(rng.integers(1, 4))
            digits.append((at, low, high))
            low = high
        digits.append((at, low, 0))
    order = rng.permutation(len(digits))
    cuts = sorted({0, len(digits), *(int(cut) for cut in rng.integers(0, len(digits) + 1, 3))})
    groups = [[digits[order[k]] for k in range(a, b)] for a, b in pairwise(cuts)]

    def extent(digit: tuple[int, int, int]) -> int:
        at, low, high = digit
        return high // low if high else -(-shape[at] // low)

    def layout(*indices: Any) -> list[Any]:
        places: list[Any] = []
        for group in groups:
            total: Any = None
            for at, low, high in group:
                value = indices[at] // low % (high // low) if high else indices[at] // low
                total = value if total is None else total * extent((at, low, high)) + value
            places.append(total)
        return places

    A = te.placeholder(shape, name="A")
    B = te.compute(shape, lambda *i: A[i] * 2 + 1, name="B")
    C = te.compute(shape, lambda *i: B[i] - 1, name="C")
    s = te.create_schedule(C.op)
    s[B].transform_layout(layout, pad_value=-5)
    a = numbers(*shape, seed=case)
    placed = tuple(int(np.prod([extent(digit) for digit in group])) for group in groups)
    expected = np.full(placed, -5, "float32")
    for index in np.ndindex(*shape):
        expected[tuple(layout(*index))] = a[index] * 2 + 1
    holds(s, [A, B, C], [a], [expected, a * 2], ("interpret",) if case % 4 else ("interpret", "llvm"))
    replays(s, [C.op])


def test_a_tile_of_fused_loops_needs_no_more_than_its_part_of_a_flat_layout() -> None:
    A = te.placeholder((7, 11, 5), name="A")
    B = te.compute(A.shape, lambda *i: A[i] * 2, name="B")
    C = te.compute(A.shape, lambda *i: B[i] + 1, name="C")
    s = te.create_schedule(C.op)
    s[B].transform_layout(lambda i, j, k: [(i * 11 + j) * 5 + k])
    tile, _ = s[C].split(s[C].fuse(s[C].fuse(*C.op.axis[:2]), C.op.axis[2]), factor=8)
    s[B].compute_at(s[C], tile)
    assert "B: float32[8]" in str(tw.lower(s, [A, C])), "8 neighbours, though they lie in up to three rows"
    a = numbers(7, 11, 5)
    holds(s, [A, C], [a], [a * 2 + 1])
    replays(s, [C.op])


def test_what_is_read_by_digits_is_read_at_the_new_axes() -> None:
    a = te.placeholder((3,), name="A")
    b = te.compute((12,), lambda i: a[i // 4] + (i % 4).astype("float32"), name="B")
    c = te.compute((12,), lambda i: b[i], name="C")
    s = te.create_schedule(c.op)
    outer, _ = s[b].transform_layout(lambda i: [i // 4, i % 4]) or []
    (load,) = [node for node in post_order(s[b].op.values[0]) if isinstance(node, ProducerLoad)]
    assert load.indices == (outer,)


def swizzled_transpose(places: Any) -> tuple[te.Schedule, list[te.Tensor]]:
    """Tiles of 32 by 32 in shared memory, written by rows and read by columns."""
    a = te.placeholder((96, 64), name="A")
    t = te.compute((64, 96), lambda i, j: a[j, i] * 2.0, name="T")
    s = te.create_schedule(t.op)
    tile = s.cache_read(a, "shared", [t])
    row, *_, column = s[tile].transform_layout(places) or s[tile].op.axis
    y, x, yi, xi = s[t].tile(*t.op.axis, 32, 32)
    for axis, tag in ((y, "blockIdx.y"), (x, "blockIdx.x"), (yi, "threadIdx.y"), (xi, "threadIdx.x")):
        s[t].bind(axis, te.thread_axis(tag))
    s[tile].compute_at(s[t], x)
    s[tile].bind(row, te.thread_axis((0, 32), "threadIdx.y"))
    s[tile].bind(column, te.thread_axis((0, 32), "threadIdx.x"))
    return s, [a, t]


def test_a_swizzle_keeps_columns_of_shared_memory_apart_without_padding() -> None:
    a = np.arange(96 * 64, dtype="float32").reshape(96, 64)
    conflicts: list[int] = []
    for places in (lambda i, j: [i, j // 32, j % 32], lambda i, j: [i, j // 32, j % 32 ^ i % 32]):
        s, args = swizzled_transpose(places)
        kernel = tw.build(s, args, target="cuda -emulate")
        found = np.zeros((64, 96), "float32")
        kernel(a, found)
        np.testing.assert_array_equal(found, a.T * 2)
        conflicts.append(kernel.kernels[0].bank_conflicts)
        assert str(te.Schedule.replay(from_json(to_json(s.trace)), [args[1].op])) == str(s)
        namespace: dict[str, Any] = {"te": te, "ops": [args[1].op]}
        exec(s.as_python(), namespace)
        assert str(namespace["s"]) == str(s)
    assert conflicts[0] > 0 and conflicts[1] == 0


@pytest.mark.parametrize(
    ("places", "reason"),
    [
        (lambda i, j: [i, j % 24 ^ i % 8, j // 24], "not a power of two"),
        (lambda i, j: [i, j ^ i], "may be 64 or more"),
        (lambda i, j: [i, j // 8 ^ j % 8, j // 8 % 8], "loses"),
        (lambda i, j: [i % 32, i // 32, j ^ j // 2], "depends on what is moved"),
    ],
)
def test_a_swizzle_that_would_lose_elements_is_refused(places: Any, reason: str) -> None:
    a = te.placeholder((96, 64), name="A")
    b = te.compute((96, 64), lambda i, j: a[i, j] + 1, name="B")
    c = te.compute((96, 64), lambda i, j: b[i, j], name="C")
    s = te.create_schedule(c.op)
    with pytest.raises(BadLayout, match=rf"TW0253(?s:.*)({reason})"):
        s[b].transform_layout(places)


def test_the_only_digit_of_a_sum_of_indices_tells_all_of_it() -> None:
    """Rows over two axes whose elements a thread has alone: `sum % 1` tells nothing, and asks for nothing."""
    A = te.placeholder((4, 9, 3), name="A")
    B = te.compute((4, 9, 3), lambda i, j, k: A[i, j, k] + 1, name="B")
    C = te.compute((4, 9, 3), lambda i, j, k: B[i, j, k] * 2, name="C")
    s = te.create_schedule(C.op)
    s[B].transform_layout(lambda i, j, k: (j, (i * 3 + k) // 1, (i * 3 + k) % 1))
    a, c = np.random.default_rng(3).random((4, 9, 3), np.float32), np.zeros((4, 9, 3), np.float32)
    tw.build(s, [A, C])(a, c)
    assert np.array_equal(c, (a + 1) * 2)
