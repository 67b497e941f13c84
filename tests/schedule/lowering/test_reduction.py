"""Reductions whose extent changes with a data axis: triangles, bands, rows whose lengths are read from a tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from every_backend import EMULATED, as_declared, holds, replays
from schedule_state import exact
from tilewright import te
from tilewright.schedule.errors import BadReorder, BadRfactor, FuseApart

Way = Callable[[te.Schedule, te.Tensor, Any], Any]


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-8, 9, shape).astype("float32")


def lower_triangle(n: Any) -> tuple[te.Tensor, te.Tensor, Any]:
    A, axes = te.placeholder((n, n), name="A"), list[Any]()

    def row(i: Any) -> Any:
        axes.append(te.reduce_axis((0, i + 1), "k"))
        return te.sum(A[i, axes[0]], axis=axes[0])

    return A, te.compute((n,), row, name="C"), axes[0]


def upper_triangle(n: Any) -> tuple[te.Tensor, te.Tensor, Any]:
    A, axes = te.placeholder((n, n), name="A"), list[Any]()

    def row(i: Any) -> Any:
        axes.append(te.reduce_axis((i, n), "k"))
        return te.sum(A[i, axes[0]], axis=axes[0])

    return A, te.compute((n,), row, name="C"), axes[0]


def _both_split(s: te.Schedule, C: te.Tensor, k: Any) -> None:
    outer, inner = s[C].split(C.op.axis[0], 4)
    ko, ki = s[C].split(k, 3)
    s[C].reorder(outer, inner, ko, ki)
    s[C].unroll(ki)
    s[C].parallel(outer)


def _cached_row(s: te.Schedule, C: te.Tensor, k: Any) -> None:
    del k
    row = s.cache_read(C.op.input_tensors[0], "local", [C])
    s[row].compute_at(s[C], C.op.axis[0])


def _cached_part(s: te.Schedule, C: te.Tensor, k: Any) -> None:
    outer, _ = s[C].split(k, 4)
    part = s.cache_read(C.op.input_tensors[0], "local", [C])
    s[part].compute_at(s[C], outer)


def _factored_in_place(s: te.Schedule, C: te.Tensor, k: Any) -> None:
    partial = s.rfactor(C, s[C].split(k, 4)[1], -1)
    s[partial].compute_at(s[C], C.op.axis[0])
    s[partial].vectorize(s[partial].op.axis[1])


WAYS: dict[str, Way] = {
    "as declared": lambda s, C, k: None,
    "split": lambda s, C, k: s[C].split(k, 4),
    "in parts": lambda s, C, k: s[C].split(k, nparts=3),
    "both split": _both_split,
    "vector lanes": lambda s, C, k: s[C].vectorize(s[C].split(C.op.axis[0], 4)[1]),
    "inner factored": lambda s, C, k: s.rfactor(C, s[C].split(k, 4)[1]),
    "factored in place": _factored_in_place,
    "outer factored": lambda s, C, k: s.rfactor(C, s[C].split(k, nparts=4)[0], -1),
    "row cached": _cached_row,
    "part cached": _cached_part,
    "written to a cache": lambda s, C, k: s[s.cache_write(C, "local")].compute_at(s[C], C.op.axis[0]),
    "inner loop outside": lambda s, C, k: (lambda outer, inner: s[C].reorder(inner, outer))(*s[C].split(k, 4)),
}


@pytest.mark.parametrize("way", drawn.part(WAYS, 4))
@pytest.mark.parametrize("triangle", [lower_triangle, upper_triangle])
def test_triangles(way: str, triangle: Any) -> None:
    sizes = (0, 1, 7, 16)
    n = te.var("n")
    A, C, k = triangle(n)
    s = te.create_schedule(C.op)
    WAYS[way](s, C, k)
    kernels = [tw.build(s, [A, C], target=target) for target in ("interpret", "llvm")]
    for size in sizes:
        a = floats(size, size)
        expected = (np.tril(a) if triangle is lower_triangle else np.triu(a)).sum(1)
        np.testing.assert_array_equal(as_declared([A, C], [a], [((size,), "float32")])[0], expected)
        for kernel in kernels:
            c = np.full(size, 77, "float32")
            kernel(a, c)
            np.testing.assert_array_equal(c, expected)
    replays(s, [C.op])


def test_what_is_no_rectangle_is_not_fused_factored_or_turned_round() -> None:
    _, C, k = lower_triangle(8)
    s = te.create_schedule(C.op)
    i = C.op.axis[0]
    before = exact(s)
    with pytest.raises(
        BadRfactor, match=r"its extent i \+ 1 changes with other axes, so the partial results have no shape"
    ):
        s.rfactor(C, k)
    with pytest.raises(FuseApart, match="the extent of k changes with i, so their iterations do not form a rectangle"):
        s[C].fuse(i, k)
    with pytest.raises(BadReorder, match="the extent of k changes with i: k has to stay within i"):
        s[C].reorder(k, i)
    assert exact(s) == before
    outer, _ = s[C].split(k, 4)
    with pytest.raises(BadRfactor, match="changes with other axes"):
        s.rfactor(C, outer)


BANDS: dict[str, Callable[[te.Schedule, te.Tensor, Any, Any], Any]] = {
    "as declared": lambda s, C, k, m: None,
    "tiled": lambda s, C, k, m: (s[C].tile(*C.op.axis, 4, 4), s[C].split(m, 2)),
    "second factored": lambda s, C, k, m: s.rfactor(C, s[C].split(m, 2)[1], 1),
    "first factored": lambda s, C, k, m: s.rfactor(C, s[C].split(k, 2)[1], -1),
    "vector lanes": lambda s, C, k, m: s[C].vectorize(s[C].split(C.op.axis[1], 4)[1]),
    "fused": lambda s, C, k, m: s[C].fuse(*C.op.axis),
    "cached": lambda s, C, k, m: s[s.cache_write(C, "local")].compute_at(s[C], C.op.axis[1]),
}


@pytest.mark.parametrize("way", drawn.part(BANDS, 4))
def test_reduce_axes_that_depend_on_two_axes_and_on_each_other(way: str) -> None:
    for n in (0, 1, 6):
        A, axes = te.placeholder((n, n, n), name="A"), list[Any]()

        def element(i: Any, j: Any, A: te.Tensor = A, axes: list[Any] = axes) -> Any:
            k = te.reduce_axis((0, te.min(i, j) + 1), "k")
            m = te.reduce_axis((0, k + 1), "m")
            axes.extend((k, m))
            return te.sum(A[k, m, j], axis=[k, m])

        C = te.compute((n, n), element, name="C")
        s = te.create_schedule(C.op)
        BANDS[way](s, C, *axes)
        a = floats(n, n, n)
        expected = np.array(
            [[sum(a[k, : k + 1, j].sum() for k in range(min(i, j) + 1)) for j in range(n)] for i in range(n)], "float32"
        ).reshape(n, n)
        holds(s, [A, C], [a], [expected])
        replays(s, [C.op])


def ragged(n: int, m: int, computed: bool) -> tuple[te.Schedule, list[te.Tensor], te.Tensor, Any]:
    """The greatest of the first elements of each row, as many as a tensor says, itself computed or not."""
    A, starts = te.placeholder((n, m), name="A"), te.placeholder((n + computed,), "int32", name="starts")
    lengths = te.compute((n,), lambda i: starts[i + 1] - starts[i], name="lengths") if computed else starts

    def row(i: Any) -> Any:
        k = te.reduce_axis((0, lengths[i]), "k")
        return te.max(A[i, k], axis=k)

    C = te.compute((n,), row, name="C")
    return te.create_schedule(C.op), [A, starts, C], lengths, C.op.reduce_axis[0]


@pytest.mark.parametrize("way", drawn.part(WAYS, 4))
@pytest.mark.parametrize("place", ["argument", "inline", "root"])
def test_lengths_are_read_from_a_tensor(way: str, place: str) -> None:
    n, m = 9, 7
    s, args, lengths, k = ragged(n, m, place != "argument")
    C = args[-1]
    if place == "inline":
        s[lengths].compute_inline()
    WAYS[way](s, C, s[C].op.reduce_axis[0] if place == "inline" else k)
    a, counts = floats(n, m), np.random.default_rng(1).integers(0, m + 1, n).astype("int32")
    counts[0] = 0
    starts = counts if place == "argument" else np.append(0, np.cumsum(counts)).astype("int32")
    expected = np.array([a[i, : counts[i]].max() if counts[i] else -np.inf for i in range(n)], "float32")
    holds(s, args, [a, starts], [expected])
    replays(s, [C.op])


def test_rows_of_a_sparse_matrix_on_threads() -> None:
    n, columns = 7, 9
    size = te.var("size")
    P, J = te.placeholder((n + 1,), "int32", name="P"), te.placeholder((size,), "int32", name="J")
    V, X = te.placeholder((size,), name="V"), te.placeholder((columns,), name="X")

    def row(i: Any) -> Any:
        k = te.reduce_axis((0, P[i + 1] - P[i]), "k")
        return te.sum(V[P[i] + k] * X[J[P[i] + k]], axis=k)

    Y = te.compute((n,), row, name="Y")
    starts = np.array([0, 3, 3, 8, 10, 10, 11, 15], "int32")
    j = np.random.default_rng(0).integers(0, columns, 15).astype("int32")
    v, x = floats(15), floats(columns, seed=1)
    expected = np.array([(v[a:b] * x[j[a:b]]).sum() for a, b in zip(starts, starts[1:], strict=False)], "float32")  # noqa: RUF007
    for bound in (False, True):
        s = te.create_schedule(Y.op)
        if bound:
            block, thread = s[Y].split(Y.op.axis[0], 4)
            s[Y].bind(block, te.thread_axis("blockIdx.x"))
            s[Y].bind(thread, te.thread_axis("threadIdx.x"))
        else:
            s[Y].parallel(s[Y].split(Y.op.axis[0], 2)[0])
        holds(s, [P, J, V, X, Y], [starts, j, v, x], [expected], EMULATED if bound else ("interpret", "llvm"))
        replays(s, [Y.op])
