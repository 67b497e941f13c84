"""What compilers of schedules are known to get wrong, each as a test of its own: scheduled programs against numpy, and
against the unscheduled program in the interpreter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from lowered import floats
from tilewright import te
from tilewright.ir.visit import free_vars
from tilewright.schedule.lowering.lower import lower


def agree(
    args: list[Any],
    arrays: list[np.ndarray],
    expected: np.ndarray,
    *schedules: Callable[[Any], None],
    targets: tuple[str, ...] = ("llvm", "interpret"),
    exact: bool = False,
) -> list[Any]:
    """Each of the schedules gives `expected` on each target, and so does the unscheduled program by the interpreter."""
    made: list[Any] = []
    for apply in (lambda s: None, *schedules):
        s = te.create_schedule(args[-1].op)
        apply(s)
        made.append(s)
        assert not free_vars(lower(s, args)), "every variable is defined around its use"
        for target in targets if made[1:] else ("interpret",):
            found = np.full(expected.shape, 77).astype(expected.dtype)
            tw.build(s, args, target=target)(*arrays, found)
            if exact:
                np.testing.assert_array_equal(found, expected, err_msg=f"{target}\n{s}")
            else:
                np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4, err_msg=f"{target}\n{s}")
    return made


def integers(*shape: int, low: int = -50, high: int = 50, dtype: str = "int32", seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


def test_parallel_reduce() -> None:
    """Threads never share an element: data loops around a reduction, also fused and with the reduction outermost in its
    own part, and the partial results of rfactor; the reduce axis itself is refused."""
    n, d = 13, 37
    A, B = te.placeholder((n, d), name="A"), te.placeholder((d, n), name="B")
    k = te.reduce_axis((0, d), "k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), "C")
    a, b = floats(n, d), floats(d, n, seed=1)

    def fused(s: Any) -> None:
        i, j = s[C].op.axis
        ij = s[C].fuse(i, j)
        outer, _ = s[C].split(ij, 10)
        s[C].parallel(outer)

    def reduction_between(s: Any) -> None:
        i, j = s[C].op.axis
        outer, inner = s[C].split(i, 4)
        s[C].reorder(outer, k, j, inner)
        s[C].parallel(outer)
        s[C].vectorize(inner)

    def partial(s: Any) -> None:
        outer, _ = s[C].split(k, 8)
        rf = s.rfactor(C, outer)
        s[rf].parallel(s[rf].op.axis[0])
        s[C].parallel(s[C].op.axis[0])

    agree([A, B, C], [a, b], a @ b, fused, reduction_between, partial)
    s = te.create_schedule(C.op)
    with pytest.raises(tw.ScheduleError, match=r"(?s)TW0204: cannot make 'k' of stage C parallel.*threads would race"):
        s[C].parallel(k)


@pytest.mark.parametrize("first", ["compute_at", "fuse"])
@pytest.mark.parametrize("factor", [None, 5])
def test_an_axis_used_before_it_is_defined_after_fuse_and_compute_at(first: str, factor: int | None) -> None:
    """A producer at a fused loop, attached before or after the fuse (and a split): its region speaks of loops that are
    around it, never of those inside."""
    n, m = 6, 7
    A = te.placeholder((n, m + 2), name="A")
    B = te.compute((n, m + 2), lambda i, j: A[i, j] * 2, "B")
    C = te.compute((n, m), lambda i, j: B[i, j] + B[i, j + 2], "C")
    a = floats(n, m + 2)

    def schedule(s: Any) -> None:
        i, j = s[C].op.axis
        if first == "compute_at":
            s[B].compute_at(s[C], j)
        fused = s[C].fuse(i, j)
        if first == "fuse":
            s[B].compute_at(s[C], fused)
        if factor is not None:
            s[C].split(fused, factor)
        s[B].fuse(*s[B].op.axis)
        function = tw.lower(s, [A, C])
        assert not free_vars(function)
        text = str(function)
        loop = "for i.j.fused.inner in 5" if factor else "for i.j.fused in 42"
        assert text.index(loop) < text.index("B: float32[1, 3]"), "the region is that of one iteration"

    agree([A, C], [a], 2 * (a[:, :m] + a[:, 2:]), schedule)


def test_floormod_by_a_reduce_variable() -> None:
    n, d = 23, 9
    A = te.placeholder((n,), "int32", "A")
    k = te.reduce_axis((1, d), "k")
    C = te.compute((n,), lambda i: te.sum(A[i % k] + i // k, axis=k), "C")
    a = integers(n)
    i = np.arange(n)
    expected = sum(a[i % k] + i // k for k in range(1, d)).astype("int32")

    def split(s: Any) -> None:
        ko, ki = s[C].split(k, 3)
        io, ii = s[C].split(C.op.axis[0], 4)
        s[C].reorder(ko, io, ki, ii)
        s[C].vectorize(ii)

    def cached(s: Any) -> None:
        local = s.cache_read(A, "local", [C])
        s[local].compute_at(s[C], k)

    agree([A, C], [a], expected, split, cached, exact=True)


@pytest.mark.parametrize("factor", [1, 3, 8])
def test_guarded_indices_with_compute_at(factor: int) -> None:
    """The guard of a read bounds what is read, not what the producer computes: its region may begin at -1."""
    n = 10
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: te.exp(A[i]), "B")
    C = te.compute(
        (n + 4,), lambda i: te.if_then_else(te.all(i >= 2, i < n + 2), B[i - 2] + B[te.min(i - 1, n - 1)], -1.0), "C"
    )
    a = floats(n)
    e = np.exp(a)
    expected = np.full(n + 4, -1, "float32")
    expected[2 : n + 2] = e + e[np.minimum(np.arange(1, n + 1), n - 1)]

    def schedule(vector: bool) -> Callable[[Any], None]:
        def apply(s: Any) -> None:
            outer, inner = s[C].split(C.op.axis[0], factor)
            s[B].compute_at(s[C], outer)
            if vector:
                s[C].vectorize(inner)
                s[B].vectorize(s[B].op.axis[0])

        return apply

    agree([A, C], [a], expected, schedule(False), schedule(True))


@pytest.mark.parametrize(("stride", "pad"), [(2, 1), (3, 2), (2, 0)])
def test_dilate_and_pad(stride: int, pad: int) -> None:
    """A transposed convolution: dilated, padded, convolved, each stage inlined, computed at a tile, or vectorized."""
    n, w = 7, 3
    A, W = te.placeholder((n,), name="A"), te.placeholder((w,), name="W")
    dilated = (n - 1) * stride + 1
    padded = dilated + 2 * pad
    D = te.compute((dilated,), lambda i: te.if_then_else((i % stride).equal(0), A[i // stride], 0.0), "D")
    P = te.compute((padded,), lambda i: te.if_then_else(te.all(i >= pad, i < dilated + pad), D[i - pad], 0.0), "P")
    k = te.reduce_axis((0, w), "k")
    C = te.compute((padded - w + 1,), lambda i: te.sum(P[i + k] * W[k], axis=k), "C")
    a, weight = floats(n), floats(w, seed=1)
    source = np.zeros(padded, "float32")
    source[pad : pad + dilated : stride] = a

    def inlined(s: Any) -> None:
        s[D].compute_inline()
        s[P].compute_inline()
        outer, inner = s[C].split(C.op.axis[0], 4)
        s[C].reorder(outer, k, inner)
        s[C].vectorize(inner)

    def tiled(s: Any) -> None:
        outer, inner = s[C].split(C.op.axis[0], 4)
        s[P].compute_at(s[C], outer)
        s[D].compute_at(s[P], s[P].op.axis[0])
        s[C].unroll(k)

    def vectors(s: Any) -> None:
        outer, _ = s[C].split(C.op.axis[0], 5)
        s[D].compute_inline()
        s[P].compute_at(s[C], outer)
        s[P].vectorize(s[P].op.axis[0])

    agree([A, W, C], [a, weight], np.correlate(source, weight, "valid"), inlined, tiled, vectors)


def test_batch_matmul_of_a_tensor_with_itself_cached_twice() -> None:
    """Both operands are one tensor: the copy holds what both reads touch, at each level."""
    batch, n, d = 2, 7, 10
    X = te.placeholder((batch, n, d), name="X")
    reduced = te.reduce_axis((0, d), "k")
    Y = te.compute((batch, n, n), lambda b, i, j: te.sum(X[b, i, reduced] * X[b, j, reduced], axis=reduced), "Y")
    x = floats(batch, n, d)

    def twice(s: Any) -> None:
        shared = s.cache_read(X, "shared", [Y])
        local = s.cache_read(shared, "local", [Y])
        b, i, j = s[Y].op.axis
        (k,) = s[Y].op.reduce_axis
        io, ii = s[Y].split(i, 3)
        jo, ji = s[Y].split(j, 2)
        ko, ki = s[Y].split(k, 4)
        s[Y].reorder(b, io, jo, ko, ii, ji, ki)
        s[shared].compute_at(s[Y], jo)
        s[local].compute_at(s[Y], ko)

    def apart(s: Any) -> None:
        s[s.cache_read(X, "local", [Y])].compute_at(s[Y], s[Y].op.axis[2])

    agree([X, Y], [x], x @ x.transpose(0, 2, 1), twice, apart)
    s = te.create_schedule(Y.op)
    first = s.cache_read(X, "shared", [Y])
    with pytest.raises(tw.ScheduleError, match=rf"(?s)does not read X any more: {first.name} is what it reads"):
        s.cache_read(X, "shared", [Y])


@pytest.mark.parametrize("target", ["llvm", "cuda -emulate"])
def test_a_padded_tile_of_extent_97_in_a_cache(target: str) -> None:
    """Neither tiles nor threads divide 97, and the padding leaves the tensor on both sides."""
    n, pad, tile, threads = 97, 2, 16, 8
    A = te.placeholder((n, n), name="A")
    P = te.compute(
        (n + 2 * pad, n + 2 * pad),
        lambda y, x: te.if_then_else(te.all(y >= pad, y < n + pad, x >= pad, x < n + pad), A[y - pad, x - pad], 0.0),
        "P",
    )
    C = te.compute((n, n), lambda y, x: P[y, x] + P[y + 2, x + 4] * 2 + P[y + 4, x + 1], "C")
    a = floats(n, n)
    p = np.pad(a, pad)
    expected = p[:n, :n] + 2 * p[2 : n + 2, 4 : n + 4] + p[4 : n + 4, 1 : n + 1]
    s = te.create_schedule(C.op)
    cache = s.cache_read(P, "shared", [C])
    s[P].compute_inline()
    yo, xo, yi, xi = s[C].tile(*s[C].op.axis, tile, tile)
    if target == "llvm":
        s[C].parallel(yo)
        s[C].vectorize(xi)
        s[cache].compute_at(s[C], xo)
        s[cache].vectorize(s[cache].op.axis[1])
    else:
        x, y = te.thread_axis("threadIdx.x"), te.thread_axis("threadIdx.y")
        s[C].bind(yo, te.thread_axis("blockIdx.y"))
        s[C].bind(xo, te.thread_axis("blockIdx.x"))
        _, ty = s[C].split(yi, threads)
        _, tx = s[C].split(xi, threads)
        s[C].bind(ty, y)
        s[C].bind(tx, x)
        s[cache].compute_at(s[C], xo)
        fused = s[cache].fuse(*s[cache].op.axis)
        rest, tx = s[cache].split(fused, threads)
        _, ty = s[cache].split(rest, threads)
        s[cache].bind(tx, x)
        s[cache].bind(ty, y)
    found = np.zeros((n, n), "float32")
    tw.build(s, [A, C], target=target)(a, found)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("factor", [1, 4, 5, 16])
def test_partition_with_extents_read_from_tensors(factor: int) -> None:
    """A ragged row: how far the loop runs is an element of a tensor, and so is where its guard ends."""
    n, widest = 9, 11
    L, A = te.placeholder((n,), "int32", "L"), te.placeholder((n, widest), name="A")
    lengths, a = integers(n, low=0, high=widest + 1), floats(n, widest)
    lengths[:3] = 0, widest, 1
    expected = np.array([row[:length].sum() for row, length in zip(a, lengths, strict=True)], "float32")
    made: list[Any] = []

    def element(i: Any) -> Any:
        made.append(te.reduce_axis((0, L[i]), "k"))
        return te.sum(A[i, made[-1]], axis=made[-1])

    C = te.compute((n,), element, "C")
    k = made[-1]

    def split(s: Any) -> None:
        s[C].split(k, factor)
        s[C].parallel(s[C].op.axis[0])

    def unrolled(s: Any) -> None:
        _, inner = s[C].split(k, factor)
        s[C].unroll(inner)
        outer, _ = s[C].split(s[C].op.axis[0], 2)
        s[C].parallel(outer)

    agree([L, A, C], [lengths, a], expected, split, unrolled)
    s = te.create_schedule(C.op)
    split(s)
    found = np.zeros(n, "float32")
    tw.build(s, [L, A, C], bounds_check=True)(lengths, a, found)
    np.testing.assert_allclose(found, expected, rtol=1e-4)


@pytest.mark.parametrize("n", [1, 8])
def test_reduction_ranges_that_depend_on_data_axes(n: int) -> None:
    """Triangles from both ends; init stands over every element, also where the range is empty."""
    A = te.placeholder((n, n), name="A")
    a = floats(n, n)
    for below in (True, False):
        made: list[Any] = []

        def element(i: Any, j: Any, below: bool = below, made: list[Any] = made) -> Any:
            k = te.reduce_axis((0, i) if below else (j, n), "k")
            made.append(k)
            return te.sum(A[i, k] * A[k, j], axis=k)

        C = te.compute((n, n), element, "C")
        k = made[-1]
        D = te.compute((n, n), lambda i, j, C=C: C[i, j] + 1, "D")
        mask = np.arange(n)[:, None, None] > np.arange(n) if below else np.arange(n)[None, :, None] <= np.arange(n)
        expected = np.einsum("ijk,ik,kj->ij", np.broadcast_to(mask, (n, n, n)), a, a).astype("float32") + 1

        def split(s: Any, C: Any = C, k: Any = k) -> None:
            s[C].split(k, 3)
            outer, _ = s[C].split(C.op.axis[0], 2)
            s[C].parallel(outer)

        def attached(s: Any, C: Any = C, D: Any = D, k: Any = k) -> None:
            outer, inner = s[D].split(D.op.axis[0], 5)
            s[C].compute_at(s[D], outer)
            i, j = C.op.axis
            jo, ji = s[C].split(j, 4)
            s[C].reorder(i, jo, ji, k)
            s[C].unroll(ji)

        agree([A, D], [a], expected, split, attached)


@pytest.mark.parametrize("stride", [2, 3])
@pytest.mark.parametrize("window", drawn.part([1, 2, 4], 2))
def test_strided_compute_at(stride: int, window: int) -> None:
    """What a tile of a strided reader needs: its windows, with what lies between them, and nothing beyond the tensor."""
    n = 11
    size = (n - 1) * stride + window
    A = te.placeholder((size, size), name="A")
    B = te.compute((size, size), lambda y, x: A[y, x] * 3, "B")
    ry, rx = te.reduce_axis((0, window), "ry"), te.reduce_axis((0, window), "rx")
    C = te.compute((n, n), lambda y, x: te.max(B[y * stride + ry, x * stride + rx], axis=[ry, rx]), "C")
    a = floats(size, size)
    windows = np.lib.stride_tricks.sliding_window_view(a * 3, (window, window))[::stride, ::stride]

    def at(depth: int) -> Callable[[Any], None]:
        def apply(s: Any) -> None:
            yo, xo, yi, xi = s[C].tile(*s[C].op.axis, 4, 3)
            s[B].compute_at(s[C], (yo, xo, yi, xi)[depth])
            s[B].vectorize(s[B].op.axis[1])

        return apply

    made = agree([A, C], [a], windows.max((2, 3)), at(0), at(1), at(3))
    rows, columns = 3 * stride + window, 2 * stride + window
    assert f"B: float32[{rows}, {columns}]" in str(made[2])
    assert f"B: float32[{window}, {window}]" in str(made[3])


@pytest.mark.parametrize("stride", [2, 3])
def test_strided_compute_at_of_an_unknown_number(stride: int) -> None:
    """As above along a symbolic dimension: the storage of a tile still is of constant size."""
    n = te.var("n")
    A = te.placeholder((n,), "int32", "A")
    B = te.compute((n,), lambda i: A[i] * 3, "B")
    C = te.compute(((n - 2) // stride,), lambda i: B[i * stride] + B[i * stride + 2], "C")
    s = te.create_schedule(C.op)
    outer, _ = s[C].split(C.op.axis[0], 4)
    s[B].compute_at(s[C], outer)
    assert f"B: int32[{3 * stride + 3}]" in str(s)
    for size in (2, 3, 5, 30, 31, 32, 33):
        a = integers(size)
        count = (size - 2) // stride
        for target in ("llvm", "interpret"):
            found = np.zeros(count, "int32")
            tw.build(s, [A, C], target=target)(a, found)
            np.testing.assert_array_equal(
                found, 3 * (a[: count * stride : stride] + a[2 : 2 + count * stride : stride])
            )


@pytest.mark.parametrize(("first", "second"), drawn.part([(8, 4), (10, 3), (97, 2), (5, 7)], 2))
def test_nested_rfactor_with_predicates(first: int, second: int) -> None:
    """97 is a prime: both splits leave tails, of which the second lies within the partial results of the first."""
    n, d = 3, 97
    A = te.placeholder((n, d), "int32", "A")
    k = te.reduce_axis((0, d), "k")
    C = te.compute((n,), lambda i: te.sum(A[i, k], axis=k, where=A[i, k] % 3 != 0), "C")
    a = integers(n, d)

    def nested(factor_axis: int) -> Callable[[Any], None]:
        def apply(s: Any) -> None:
            _, inner = s[C].split(s[C].op.reduce_axis[0], first)
            rf = s.rfactor(C, inner, factor_axis)
            left = s[rf].op.reduce_axis[0]
            _, inner = s[rf].split(left, second)
            again = s.rfactor(rf, inner)
            s[again].parallel(s[again].op.axis[0])
            s[rf].compute_at(s[C], s[C].op.axis[0])

        return apply

    agree([A, C], [a], np.where(a % 3 != 0, a, 0).sum(1).astype("int32"), nested(0), nested(1), exact=True)


@pytest.mark.parametrize("kind", ["vectorize", "unroll"])
def test_lanes_of_a_declared_extent_where_a_symbol_tells_how_many_are_read(kind: str) -> None:
    """What is computed once is computed whole, though only n + 3 elements may be read of its four."""
    n = te.var("n")
    x, w = te.placeholder((n,), name="x"), te.placeholder((4,), name="w")
    h = te.compute((4,), lambda c: w[c] * 2.0, "h")
    y = te.compute((4 + n,), lambda i: te.if_then_else(i < 4, h[i], x[i - 4]), "y")
    z = te.compute((n + 3,), lambda i: y[i + 1] + 1.0, "z")

    s = te.create_schedule(z.op)
    getattr(s[h], kind)(h.op.axis[0])
    for target in ("llvm", "interpret"):
        for size in (0, 1, 5):
            given, weights, found = np.arange(size, dtype="float32"), floats(4), np.zeros(size + 3, "float32")
            tw.build(s, [x, w, z], target=target)(given, weights, found)
            np.testing.assert_array_equal(found, np.concatenate([2 * weights, given])[1:] + 1)


@pytest.mark.parametrize(("outer", "inner"), drawn.part([(10, 4), (12, 5), (7, 3), (9, 9)], 2))
def test_nested_modulo_where_the_factor_does_not_divide(outer: int, inner: int) -> None:
    """(i % 10) % 4 is not i % 4; with i split and fused the simplifier is offered many ways to think so."""
    n = 61
    A = te.placeholder((n,), "int32", "A")
    C = te.compute((n,), lambda i: A[(i % outer) % inner] * 100 + (i % outer) // inner * 10 + (i // inner) % outer, "C")
    a = integers(n)
    i = np.arange(n)
    expected = a[(i % outer) % inner] * 100 + (i % outer) // inner * 10 + (i // inner) % outer

    def nest(factors: tuple[int, ...], vector: bool) -> Callable[[Any], None]:
        def apply(s: Any) -> None:
            rest = C.op.axis[0]
            for factor in factors:
                rest, last = s[C].split(rest, factor)
            if vector:
                s[C].vectorize(last)

        return apply

    schedules = (nest((outer,), False), nest((inner, outer), True), nest((2, inner), True))
    agree([A, C], [a], expected.astype("int32"), *schedules, exact=True)


@pytest.mark.parametrize("dtype", ["float32", "int8", "float64", "uint16"])
def test_vectors_of_48(dtype: str) -> None:
    """48 lanes are not a power of two, and more than a register: strip-mined, also with a tail and a condition."""
    n = 48 * 2 + 13
    A = te.placeholder((3, n), dtype, "A")
    B = te.compute((3, n), lambda i, j: A[i, j] + A[2 - i, j], "B")
    C = te.compute((3, n), lambda i, j: te.select(B[i, j] > 3, B[i, j], (j % 7).astype(dtype)), "C")
    a = integers(3, n, low=0, high=20).astype(dtype)
    b = a + a[::-1]
    expected = np.where(b > 3, b, (np.arange(n) % 7).astype(dtype))

    def vectors(s: Any) -> None:
        outer, inner = s[C].split(C.op.axis[1], 48)
        s[C].vectorize(inner)
        s[B].compute_at(s[C], outer)
        s[B].vectorize(s[B].op.axis[1])

    agree([A, C], [a], expected, vectors, exact=True)


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0)])
def test_extents_of_nothing(shape: tuple[int, int]) -> None:
    """No element, no row, nothing to reduce: every primitive still lowers, and nothing is touched."""
    n, m = shape
    A = te.placeholder(shape, name="A")
    B = te.compute(shape, lambda i, j: A[i, j] * 2, "B")
    k = te.reduce_axis((0, m), "k")
    C = te.compute((n,), lambda i: te.sum(B[i, k], axis=k), "C")
    D = te.compute((n, m), lambda i, j: B[i, j] + C[i], "D")
    E = te.compute((n,), lambda i: C[i] + 1, "E")
    a = floats(*shape)

    def loops(out: Any) -> Callable[[Any], None]:
        def apply(s: Any) -> None:
            outer, inner = s[out].split(out.op.axis[0], 4)
            s[out].parallel(outer)
            s[out].vectorize(inner)
            s[C].compute_at(s[out], outer)
            ko, ki = s[C].split(k, 3)
            s[C].unroll(ki)
            s[B].compute_at(s[C], ko)

        return apply

    def caches(s: Any) -> None:
        local = s.cache_write(C, "local")
        s[local].split(s[local].op.reduce_axis[0], 2)
        s[s.cache_read(A, "local", [B])].fuse(*s[s.stages[1].op].op.axis)

    def factored(s: Any) -> None:
        rf = s.rfactor(C, s[C].split(k, 2)[0])
        s[rf].fuse(*s[rf].op.axis)

    agree([A, E], [a], np.ones(n, "float32") + 2 * a.sum(1), loops(E), caches, factored)
    agree([A, D], [a], 2 * a + 2 * a.sum(1, keepdims=True), lambda s: s[D].fuse(*D.op.axis), caches)


def test_symbols_that_no_extent_is_alone_are_solved_for_by_the_interpreter_too() -> None:
    n, m = te.var("n"), te.var("m")
    A = te.placeholder((n * 4, 3 + m), "int32", "A")
    B = te.compute((n * 4, m + 3), lambda i, j: A[i, j] * n + m, "B")
    s = te.create_schedule(B.op)
    a = np.arange(40, dtype="int32").reshape(8, 5)
    for target in ("llvm", "interpret"):
        found = np.zeros((8, 5), "int32")
        tw.build(s, [A, B], target=target)(a, found)
        np.testing.assert_array_equal(found, a * 2 + 2)
