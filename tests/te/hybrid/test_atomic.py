"""Parallel loops of scripts whose iterations may meet: refused, or updates in one step."""

from __future__ import annotations

from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from hybrid_run import agree
from tilewright import te
from tilewright.te.hybrid import allocate, atomic_add, output_tensor, parallel, serial

TYPES = ["int32", "uint32", "int64", "uint64", "float32", "float64"]


@te.hybrid.script
def histogram(values, bins, dtype, by):
    counts = output_tensor((bins,), dtype)
    for i in parallel(values.shape[0]):
        if values[i] >= 0 and values[i] < bins:
            atomic_add(counts, values[i], by)
    return counts


@te.hybrid.script
def racing(values, bins):
    counts = output_tensor((bins,), "int32")
    for i in parallel(values.shape[0]):
        counts[values[i]] += 1
    return counts


@te.hybrid.script
def read_between(values, bins):
    counts = output_tensor((bins,), "int32")
    last = output_tensor((bins,), "int32")
    for i in parallel(values.shape[0]):
        atomic_add(counts, values[i], 1)
        last[i] = counts[values[i]]
    return counts, last


@te.hybrid.script
def shifted(a):
    c = output_tensor(a.shape, a.dtype)
    for i in parallel(a.shape[0] - 1):
        c[i] = a[i]
        c[i + 1] = a[i]
    return c


@te.hybrid.script
def diagonals(a):
    """The sums of the diagonals, every row adding to those that it crosses."""
    n, m = a.shape[0], a.shape[1]
    sums = output_tensor((2, n + m), "int64")
    for i in parallel(n):
        for j in serial(m):
            atomic_add(sums, (0, i + j), a[i, j])
            atomic_add(sums, (1, i - j + m), a[i, j])
    return sums


@te.hybrid.script
def own_rows(a):
    c = output_tensor(a.shape, a.dtype)
    for i in parallel(a.shape[0]):
        row = allocate((a.shape[1],), a.dtype)
        for j in serial(a.shape[1]):
            row[j] = a[i, j] * 2
        for j in serial(a.shape[1]):
            c[i, j] = row[a.shape[1] - 1 - j]
    return c


@pytest.mark.parametrize("dtype", drawn.part(TYPES, 3))
@pytest.mark.parametrize("target", ["llvm", "c", "interpret"])
def test_no_count_is_lost(target: str, dtype: str) -> None:
    n = 1009 if target == "interpret" else 300_007
    values = np.random.default_rng(3).integers(-2, 13, n).astype("int32")
    by = 0.5 if dtype.startswith("float") else 3  # every partial sum of halves is exact
    wanted = np.bincount(values[(values >= 0) & (values < 11)], minlength=11) * by
    V = te.placeholder((n,), "int32", name="V")
    C = histogram(V, 11, dtype, by)
    f = tw.build(te.create_schedule(C.op), [V, C], target=target)
    for _ in range(3):
        counts = np.ones(11, dtype)
        f(values, counts)
        np.testing.assert_array_equal(counts, wanted)
    np.testing.assert_array_equal(histogram(values[:200], 11, dtype, by), tried(values[:200], 11) * by)


def tried(values: Any, bins: int) -> Any:
    return np.bincount(values[(values >= 0) & (values < bins)], minlength=bins)


@te.hybrid.script
def on_threads(values, bins, dtype):
    counts = output_tensor((bins,), dtype)
    for i in bind("threadIdx.x", 32):  # noqa: F821
        for j in serial(7):
            atomic_add(counts, values[i * 7 + j], 2)
    return counts


@pytest.mark.parametrize("dtype", TYPES)
def test_threads_of_a_gpu_add_in_one_step(dtype: str) -> None:
    values = np.random.default_rng(4).integers(0, 5, 224).astype("int32")
    V = te.placeholder((224,), "int32", name="V")
    C = on_threads(V, 5, dtype)
    f = tw.build(te.create_schedule(C.op), [V, C], target="cuda -emulate")
    assert "atomicAdd(" in f.source("cuda")
    counts = np.zeros(5, dtype)
    f(values, counts)
    np.testing.assert_array_equal(counts, np.bincount(values, minlength=5) * 2)


@pytest.mark.parametrize("target", ["llvm", "c", "interpret"])
def test_elements_of_several_dimensions_and_constant_places(target: str) -> None:
    a = np.arange(7 * 5).reshape(7, 5).astype("int64")
    A = te.placeholder((7, 5), "int64", name="A")
    S = diagonals(A)
    found = np.zeros((2, 12), "int64")
    tw.build(te.create_schedule(S.op), [A, S], target=target)(a, found)
    np.testing.assert_array_equal(found[0], [sum(a[i, d - i] for i in range(7) if 0 <= d - i < 5) for d in range(12)])
    np.testing.assert_array_equal(
        found[1], [sum(a[i, i - d + 5] for i in range(7) if 0 <= i - d + 5 < 5) for d in range(12)]
    )


def test_a_loop_whose_iterations_may_meet_is_refused() -> None:
    V, A = te.placeholder((64,), "int32", name="V"), te.placeholder((64,), name="A")
    for script, args, why in (
        (racing, (V, 16), "written depends on data"),
        (read_between, (V, 16), "written depends on data"),
        (shifted, (A,), "not proved that each value of i has elements of c of its own"),
    ):
        with pytest.raises(
            tw.TensorExpressionError, match=rf"(?s)TW0159: iterations of this parallel loop.*{why}.*atomic_add"
        ):
            script(*args)
    B = te.placeholder((6, 5), name="B")
    C = own_rows(B)
    b, c = np.arange(30, dtype="float32").reshape(6, 5), np.zeros((6, 5), "float32")
    tw.build(te.create_schedule(C.op), [B, C])(b, c)
    np.testing.assert_array_equal(c, b[:, ::-1] * 2)


def test_what_cannot_be_added_in_one_step_is_named() -> None:
    V = te.placeholder((8,), "int32", name="V")
    with pytest.raises(
        tw.TensorExpressionError, match=r"(?s)TW0154: cannot add to an element of `counts`.*its elements are int8"
    ):
        histogram(V, 4, "int8", 1)


def test_lanes_add_one_after_the_other() -> None:
    """A vectorized loop of updates runs serially; its text has no vector."""

    @te.hybrid.script
    def lanes(a):
        c = output_tensor((2,), "float32")
        for i in vectorize(16):  # noqa: F821
            atomic_add(c, i % 2, a[i])
        return c

    A = te.placeholder((16,), name="A")
    C = lanes(A)
    f = tw.build(te.create_schedule(C.op), [A, C])
    a, c = np.arange(16, dtype="float32"), np.zeros(2, "float32")
    f(a, c)
    assert c.tolist() == [a[::2].sum(), a[1::2].sum()]


@te.hybrid.script
def scattered(a, places):
    c = output_tensor(a.shape, a.dtype)
    for i in parallel(a.shape[0], independent=True):
        c[places[i]] = a[i]
    return c


@te.hybrid.script
def butterflies(a, stages):
    c = output_tensor(a.shape, a.dtype)
    for i in range(a.shape[0]):
        c[i] = a[i]
    for q in range(stages):
        for i in parallel(a.shape[0] // 2, independent=True):
            half = 1 << q
            low = i // half * 2 * half + i % half
            x = c[low]
            y = c[low + half]
            c[low] = x + y
            c[low + half] = x - y
    return c


@te.hybrid.script
def squares(a):
    c = output_tensor(a.shape, a.dtype)
    for i in parallel(a.shape[0], independent=True):
        c[(i * i) % a.shape[0]] = a[i]
    return c


def test_what_a_script_vouches_for_is_run_in_parallel_and_checked() -> None:
    a, places = np.arange(32, dtype="int32"), np.random.default_rng(1).permutation(32).astype("int32")
    for function, rest in ((scattered, (places,)), (butterflies, (5,))):
        s = agree(function, [a, *rest], function(a, *rest))
        assert "in parallel(" in str(s) and "32 elements equal" in str(s.verify()), "places are drawn as permutations"
    A, P = te.placeholder((32,), "int32", name="A"), te.placeholder((32,), "int32", name="P")
    C = scattered(A, P)
    with pytest.raises(tw.LoweringError, match=r"TW0305: iterations of a parallel loop .* race on c"):
        tw.build(te.create_schedule(C.op), [A, P, C], "interpret")(a, places // 2, np.zeros(32, "int32"))
    D = squares(A)
    with pytest.raises(tw.LoweringError, match=r"TW0305: iterations of a parallel loop .* race on c"):
        te.create_schedule(D.op).verify()


@te.hybrid.script
def placed(a, places):
    c = output_tensor(a.shape, a.dtype)
    for i in range(a.shape[0]):
        c[places[i]] = a[i]
    return c


def test_a_schedule_vouches_for_a_loop_of_a_script() -> None:
    a, places = np.arange(32, dtype="int32"), np.random.default_rng(1).permutation(32).astype("int32")
    A, P = te.placeholder((32,), "int32", name="A"), te.placeholder((32,), "int32", name="P")
    C = placed(A, P)
    s = te.create_schedule(C.op)
    with pytest.raises(tw.ScheduleError, match=r"TW0280.*(?s:.*)parallel\(i, independent=True\)"):
        s[C].parallel(C.op.axis[0])
    with pytest.raises(tw.ScheduleError, match=r"TW0222.*(?s:.*)independent is 1, neither True nor False"):
        s[C].parallel(C.op.axis[0], independent=1)
    outer, inner = s[C].split(C.op.axis[0], 8)
    s[C].parallel(outer, independent=True)
    assert "independent=True" in s.as_python() and "32 elements equal" in str(s.verify())
    out = np.zeros(32, "int32")
    tw.build(s, [A, P, C])(a, places, out)
    assert np.array_equal(out[places], a)
    with pytest.raises(tw.LoweringError, match=r"TW0305: iterations of a parallel loop .* race on c"):
        tw.build(s.copy(), [A, P, C], "interpret")(a, places // 2, out)
    with pytest.raises(tw.ScheduleError, match="TW0280"):
        s[C].vectorize(inner)


def test_a_loop_is_vouched_for_by_true_alone() -> None:
    @te.hybrid.script
    def unclear(a):
        c = output_tensor(a.shape, a.dtype)
        for i in parallel(a.shape[0], independent=a.shape[0]):
            c[i] = a[i]
        return c

    with pytest.raises(tw.TensorExpressionError, match="TW0157: independent is neither True nor False"):
        unclear(te.placeholder((4,), name="a"))
