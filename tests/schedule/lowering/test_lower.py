"""What a lowered schedule means, rule by rule: the programs run in the interpreter and are compared with numpy."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import lowered
import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.base.errors import LoweringError, ScheduleError
from tilewright.ir.stmt import Allocate, For, If, LoopKind
from tilewright.ir.visit import post_order
from tilewright.schedule import create_schedule
from tilewright.schedule.lowering.errors import InlinedTooOften
from tilewright.schedule.lowering.lower import lower

SIZES = [0, 1, 2, 3, 7, 8, 9, 13, 16, 17]


def vector_add(n: Any) -> tuple[Any, list[Any]]:
    A, B = te.placeholder((n,), name="A"), te.placeholder((n,), name="B")
    C = te.compute((n,), lambda i: A[i] + B[i], name="C")
    return C, [A, B, C]


def matmul(m: int, n: int, k: int) -> tuple[Any, list[Any], list[np.ndarray], np.ndarray]:
    A, B = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), "k")
    C = te.compute((m, n), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")
    a, b = lowered.floats(m, k), lowered.floats(k, n, seed=1)
    return C, [A, B, C], [a, b], a @ b


def stencil(n: int, taps: int = 3) -> tuple[Any, Any, list[Any], np.ndarray, np.ndarray]:
    """C[i] = sum of B[i .. i + taps - 1], B = 2 * A."""
    A = te.placeholder((n + taps - 1,), name="A")
    B = te.compute((n + taps - 1,), lambda i: A[i] * 2.0, name="B")
    C = te.compute((n,), lambda i: sum((B[i + t] for t in range(1, taps)), B[i]), name="C")
    a = lowered.floats(n + taps - 1)
    return B, C, [A, C], a, sum(2 * a[t : t + n] for t in range(taps)).astype("float32")


# Splits and guards


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("factor", [1, 4, 32])
def test_rule_split_of_any_extent(n: int, factor: int) -> None:
    C, args = vector_add(n)
    s = create_schedule(C.op)
    s[C].split(C.op.axis[0], factor=factor)
    a, b = lowered.floats(n), lowered.floats(n, seed=1)
    lowered.check(s, args, [a, b], a + b)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("nparts", [1, 3, 20])
def test_rule_split_into_parts(n: int, nparts: int) -> None:
    C, args = vector_add(n)
    s = create_schedule(C.op)
    s[C].split(C.op.axis[0], nparts=nparts)
    a, b = lowered.floats(n), lowered.floats(n, seed=1)
    lowered.check(s, args, [a, b], a + b)


def test_rule_split_inner_extent_is_the_least_of_factor_and_extent() -> None:
    C, args = vector_add(5)
    s = create_schedule(C.op)
    s[C].split(C.op.axis[0], factor=8)
    function = lower(s, args)
    assert lowered.loops(function) == ["i.inner:5"]
    assert lowered.guards(function) == []


def test_rule_split_bound_to_a_thread_keeps_the_factor() -> None:
    C, args = vector_add(5)
    s = create_schedule(C.op)
    outer, inner = s[C].split(C.op.axis[0], factor=8)
    s[C].bind(outer, te.thread_axis("blockIdx.x"))
    s[C].bind(inner, te.thread_axis("threadIdx.x"))
    function = lowered.check(s, args, [np.ones(5, "f"), np.ones(5, "f")], np.full(5, 2, "f"))
    assert lowered.loops(function) == ["i.outer:1", "i.inner:8"]
    assert lowered.guards(function) == ["likely(i.inner < 5)"]


def test_rule_non_divisible_split_has_one_likely_guard() -> None:
    C, args = vector_add(10)
    s = create_schedule(C.op)
    s[C].split(C.op.axis[0], factor=4)
    function = lower(s, args)
    assert lowered.loops(function) == ["i.outer:3", "i.inner:4"]
    assert lowered.guards(function) == ["likely(i.outer * 4 + i.inner < 10)"]


def test_rule_divisible_split_has_no_guard() -> None:
    C, args = vector_add(12)
    s = create_schedule(C.op)
    s[C].split(C.op.axis[0], factor=4)
    assert lowered.guards(lower(s, args)) == []


def test_rule_nested_inexact_splits_emit_both_guards() -> None:
    C, args = vector_add(10)
    s = create_schedule(C.op)
    outer, _ = s[C].split(C.op.axis[0], factor=4)
    s[C].split(outer, factor=2)
    a = lowered.floats(10)
    function = lowered.check(s, args, [a, a], a + a)
    assert sorted(lowered.guards(function)) == [
        "likely(i.outer.outer * 2 + i.outer.inner < 3)",
        "likely(i.outer.outer * 8 + i.outer.inner * 4 + i.inner < 10)",
    ]


@pytest.mark.parametrize("n", SIZES)
def test_rule_symbolic_extent(n: int) -> None:
    symbol = te.var("n")
    C, args = vector_add(symbol)
    s = create_schedule(C.op)
    outer, _ = s[C].split(C.op.axis[0], factor=4)
    s[C].parallel(outer)
    a, b = lowered.floats(n), lowered.floats(n, seed=1)
    function = lowered.check(s, args, [a, b], a + b)
    assert len(lowered.guards(function)) == 1


@pytest.mark.parametrize("shape", [(3, 5), (0, 4), (1, 1), (7, 8)])
def test_rule_fused_symbolic_extents(shape: tuple[int, int]) -> None:
    m, n = te.var("m"), te.var("n")
    A = te.placeholder((m, n), name="A")
    C = te.compute((m, n), lambda i, j: A[i, j] + i * 10 + j, name="C")
    s = create_schedule(C.op)
    fused = s[C].fuse(*C.op.axis)
    s[C].split(fused, factor=4)
    a = lowered.floats(*shape)
    i, j = np.indices(shape)
    function = lowered.check(s, [A, C], [a], (a + i * 10 + j).astype("f"))
    assert all(loop.var.dtype == "int64" for loop in lowered.find(function, For))  # m * n may exceed 32 bits


def test_rule_integer_width() -> None:
    """Loops count in 64 bits where 32 do not certainly suffice, and only there."""
    big = te.placeholder((1 << 33,), name="A")
    C = te.compute((1 << 33,), lambda i: big[i] + 1.0, name="C")
    s = create_schedule(C.op)
    s[C].split(C.op.axis[0], factor=16)
    assert {loop.var.dtype for loop in lowered.find(lower(s, [big, C]), For)} == {"int64"}
    D, args = vector_add(1 << 20)
    assert {loop.var.dtype for loop in lowered.find(lower(create_schedule(D.op), args), For)} == {"int32"}


def test_rule_fused_constant_extents_beyond_32_bits() -> None:
    A = te.placeholder((1 << 18, 1 << 18), name="A")
    C = te.compute((1 << 18, 1 << 18), lambda i, j: A[i, j] + 1.0, name="C")
    s = create_schedule(C.op)
    s[C].fuse(*C.op.axis)
    (loop,) = lowered.find(lower(s, [A, C]), For)
    assert loop.var.dtype == "int64"
    assert loop.extent.value == 1 << 36


# Reductions


@pytest.mark.parametrize("m, n, k", [(8, 8, 8), (7, 5, 3), (1, 9, 17), (4, 1, 1), (3, 4, 0), (0, 3, 2)])
def test_rule_matmul_tiled(m: int, n: int, k: int) -> None:
    C, args, inputs, expected = matmul(m, n, k)
    s = create_schedule(C.op)
    xo, yo, xi, yi = s[C].tile(C.op.axis[0], C.op.axis[1], 4, 4)
    ko, ki = s[C].split(C.op.reduce_axis[0], factor=4)
    s[C].reorder(xo, yo, ko, xi, ki, yi)
    lowered.check(s, args, inputs, expected)


def test_rule_init_stands_before_the_first_reduce_loop() -> None:
    C, args, inputs, expected = matmul(6, 8, 5)
    s = create_schedule(C.op)
    i, j = C.op.axis
    s[C].reorder(i, C.op.reduce_axis[0], j)
    function = lowered.check(s, args, inputs, expected)
    assert lowered.loops(function) == ["i:6", "j:8", "k:5", "j:8"]
    outer = lowered.find(function, For)[0]
    assert [type(part).__name__ for part in outer.body.body] == ["For", "For"]


def test_rule_init_loops_have_the_kinds_and_guards_of_the_data_loops() -> None:
    C, args, inputs, expected = matmul(4, 10, 3)
    s = create_schedule(C.op)
    jo, ji = s[C].split(C.op.axis[1], factor=4)
    s[C].reorder(C.op.axis[0], C.op.reduce_axis[0], jo, ji)
    s[C].vectorize(ji)
    function = lowered.check(s, args, inputs, expected)
    vectorized = lowered.find(function, For, lambda loop: loop.kind is LoopKind.VECTORIZED)
    assert len(vectorized) == 2
    assert lowered.guards(function) == ["likely(j.outer * 4 + j.inner < 10)"] * 2


@pytest.mark.parametrize("k", [0, 1, 5])
@pytest.mark.parametrize("factor", [1, 2, 4])
def test_rule_fuse_of_data_and_reduce_axes_is_a_reduce_loop(k: int, factor: int) -> None:
    C, args, inputs, expected = matmul(4, 3, k)
    s = create_schedule(C.op)
    jo, ji = s[C].split(C.op.axis[1], factor=2)
    fused = s[C].fuse(ji, C.op.reduce_axis[0])
    fo, fi = s[C].split(fused, factor=factor)
    s[C].reorder(C.op.axis[0], fo, jo, fi)
    function = lowered.check(s, args, inputs, expected)
    assert "j.inner:2" in lowered.loops(
        function
    )  # init runs over the data alone, also where there is nothing to reduce


def test_rule_init_replaces_the_identity() -> None:
    A = te.placeholder((5, 6), name="A")
    k = te.reduce_axis((0, 6), "k")
    C = te.compute((5,), lambda i: te.sum(A[i, k], axis=k, init=3.0), name="C")
    a = lowered.floats(5, 6)
    lowered.check(create_schedule(C.op), [A, C], [a], (a.sum(1) + 3).astype("f"))


def test_rule_where_masks_the_reduction() -> None:
    A = te.placeholder((5, 6), name="A")
    k = te.reduce_axis((0, 6), "k")
    C = te.compute((5,), lambda i: te.sum(A[i, k], axis=k, where=te.all(k > 1, A[i, k] > 0.0)), name="C")
    s = create_schedule(C.op)
    s[C].split(k, factor=4)
    a = lowered.floats(5, 6)
    expected = np.where((np.arange(6) > 1) & (a > 0), a, 0).sum(1).astype("f")
    lowered.check(s, [A, C], [a], expected)


@pytest.mark.parametrize("n, k", [(1, 1), (5, 7), (4, 16)])
def test_rule_argmax_combines_all_values_before_storing(n: int, k: int) -> None:
    def combine(x: Any, y: Any) -> Any:
        return te.select(x[1] >= y[1], x[0], y[0]), te.select(x[1] >= y[1], x[1], y[1])

    argmax = te.comm_reducer(combine, lambda t0, t1: (te.const(-1, t0), te.min_value(t1)), name="argmax")
    V = te.placeholder((n, k), name="V")
    r = te.reduce_axis((0, k), "r")
    index, value = te.compute((n,), lambda i: argmax((r, V[i, r]), axis=r), name="T")
    s = create_schedule(index.op)
    assert s[index] is s[value]
    s[index].split(r, factor=4)
    v = lowered.floats(n, k)
    function = lower(s, [V, index, value])
    at, best = np.zeros(n, "int32"), np.zeros(n, "float32")
    lowered.interpreter.run(function, [v, at, best], check=True)
    np.testing.assert_array_equal(at, v.argmax(1))
    np.testing.assert_array_equal(best, v.max(1))


def test_rule_only_one_of_several_outputs_is_passed() -> None:
    A = te.placeholder((5,), name="A")
    B, _ = te.compute((5,), lambda i: (A[i] + 1.0, A[i] * 2.0), name="B")
    a = lowered.floats(5)
    lowered.check(create_schedule(B.op), [A, B], [a], a + 1)


@pytest.mark.parametrize("n", [1, 2, 5, 8])
@pytest.mark.parametrize("factor", [1, 3])
def test_rule_triangular_reduction(n: int, factor: int) -> None:
    A = te.placeholder((n, n), name="A")
    axes: dict[str, Any] = {}

    def row_sum(i: Any) -> Any:
        axes["k"] = te.reduce_axis((0, i + 1), "k")
        return te.sum(A[i, axes["k"]], axis=axes["k"])

    C = te.compute((n,), row_sum, name="C")
    s = create_schedule(C.op)
    s[C].split(C.op.reduce_axis[0], factor=factor)
    s[C].split(C.op.axis[0], factor=2)
    a = lowered.floats(n, n)
    lowered.check(s, [A, C], [a], np.tril(a).sum(1).astype("f"))


@pytest.mark.parametrize("n", [8, 11])
@pytest.mark.parametrize("rows", [8, 10])
def test_rule_a_producer_of_a_triangular_reduction_is_computed_as_far_as_it_is_read(n: int, rows: int) -> None:
    """Rows come in tiles of 4, and row i sums up to where its tile ends, or the columns: so far go the squares."""
    A = te.placeholder((rows, n), name="A")
    S = te.compute((3, n, 4), lambda t, k, i: A[te.min(t * 4 + i, rows - 1), k] * 2.0, name="S")
    C = te.compute(
        (rows,),
        lambda i: te.sum(S[i // 4, (k := te.reduce_axis((0, te.min(n, i // 4 * 4 + 4)), "k")), i % 4], axis=k),
        name="C",
    )
    s = create_schedule(C.op)
    outer, _ = s[C].split(C.op.axis[0], factor=4)
    s[S].compute_at(s[C], outer)
    text = str(s)
    assert f"for k in {n}:" not in text
    assert f"for k in {'min(' if n < -(-rows // 4) * 4 else 'i.outer * 4 + 4'}" in text
    a = lowered.floats(rows, n)
    ends = [min(n, i // 4 * 4 + 4) for i in range(rows)]
    lowered.check(s, [A, C], [a], np.array([2 * a[i, :end].sum() for i, end in enumerate(ends)], "f"))


def ragged() -> tuple[Any, Any, list[Any], list[np.ndarray], np.ndarray]:
    starts = te.placeholder((5,), "int32", name="starts")
    data = te.placeholder((9,), name="data")
    C = te.compute(
        (4,), lambda i: te.sum(data[(k := te.reduce_axis((starts[i], starts[i + 1]), "k"))], axis=k), name="C"
    )
    begin = np.array([0, 2, 2, 6, 9], "int32")
    values = lowered.floats(9)
    expected = np.array([values[a:b].sum() for a, b in pairwise(begin)], "f")
    return starts, C, [starts, data, C], [begin, values], expected


def test_rule_reduction_over_a_range_read_from_memory() -> None:
    _, C, args, inputs, expected = ragged()
    lowered.check(create_schedule(C.op), args, inputs, expected)


@pytest.mark.parametrize("factor", [1, 2, 3])
def test_rule_guards_stand_outside_a_range_read_from_memory(factor: int) -> None:
    """The tail of the split must not read starts[i + 1] either."""
    starts, C, args, inputs, expected = ragged()
    s = create_schedule(C.op)
    copied = s.cache_read(starts, "local", [C])
    outer, _ = s[C].split(C.op.axis[0], factor=factor)
    s[C].split(s[C].op.reduce_axis[0], factor=2)
    s[copied].compute_at(s[C], outer)
    lowered.check(s, args, inputs, expected)


def test_rule_a_triangle_read_backwards_in_blocks() -> None:
    """Iterations of C outside its domain have larger triangles than any inside."""
    n = 5
    A = te.placeholder((n, n), name="A")
    B = te.compute((n, n), lambda i, j: A[j, i] + 1.0, name="B")
    C = te.compute((n,), lambda i: te.sum(B[i, (k := te.reduce_axis((i, n), "k"))] * B[k, i], axis=k), name="C")
    D = te.compute((n,), lambda i: C[n - 1 - i], name="D")
    s = create_schedule(D.op)
    outer, _ = s[D].split(D.op.axis[0], factor=2)
    s[C].compute_at(s[D], outer)
    s[B].compute_at(s[C], C.op.axis[0])
    a = lowered.floats(n, n)
    b = a.T + 1
    lowered.check(s, [A, D], [a], np.triu(b * b.T).sum(1)[::-1].astype("f"))


# Regions


@pytest.mark.parametrize("n", [1, 5, 8, 9, 16])
@pytest.mark.parametrize("factor", [1, 4])
def test_rule_region_is_what_the_consumer_reads(n: int, factor: int) -> None:
    B, C, args, a, expected = stencil(n)
    s = create_schedule(C.op)
    outer, _ = s[C].split(C.op.axis[0], factor=factor)
    s[B].compute_at(s[C], outer)
    function = lowered.check(s, args, [a], expected)
    assert lowered.allocated(function) == {"B": (str(min(factor, n) + 2),)}


def test_rule_compute_at_under_a_non_divisible_split_guards_both_sides() -> None:
    B, C, args, a, expected = stencil(10)
    s = create_schedule(C.op)
    outer, _ = s[C].split(C.op.axis[0], factor=4)
    s[B].compute_at(s[C], outer)
    function = lowered.check(s, args, [a], expected)
    assert lowered.guards(function) == ["likely(i.outer * 4 + i < 12)", "likely(i.outer * 4 + i.inner < 10)"]


def test_rule_region_is_the_union_over_consumers() -> None:
    A = te.placeholder((20,), name="A")
    B = te.compute((20,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((16,), lambda i: B[i + 1] * 2.0, name="C")
    D = te.compute((16,), lambda i: C[i] + B[i + 3], name="D")
    s = create_schedule(D.op)
    outer, _ = s[D].split(D.op.axis[0], factor=4)
    s[C].compute_at(s[D], outer)
    s[B].compute_at(s[D], outer)
    a = lowered.floats(20)
    expected = (a[1:17] + 1) * 2 + a[3:19] + 1
    function = lowered.check(s, [A, D], [a], expected.astype("f"))
    assert lowered.allocated(function) == {"B": ("6",), "C": ("4",)}


def test_rule_region_at_root_is_only_what_is_read() -> None:
    A = te.placeholder((20,), name="A")
    B = te.compute((20,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((5,), lambda i: B[2 * i + 3], name="C")
    a = lowered.floats(20)
    function = lowered.check(create_schedule(C.op), [A, C], [a], a[3:12:2] + 1)
    assert lowered.allocated(function) == {"B": ("9",)}


def test_rule_data_dependent_index_takes_the_declared_extent() -> None:
    A = te.placeholder((20,), name="A")
    at = te.placeholder((6,), "int32", name="at")
    B = te.compute((20,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((6,), lambda i: B[at[i]], name="C")
    s = create_schedule(C.op)
    s[B].compute_at(s[C], C.op.axis[0])
    a, where = lowered.floats(20), np.array([3, 0, 19, 7, 7, 1], "int32")
    function = lowered.check(s, [A, at, C], [a, where], a[where] + 1)
    assert lowered.allocated(function) == {"B": ("20",)}


@pytest.mark.parametrize("n", [1, 2, 5, 9])
@pytest.mark.parametrize("factor", [1, 2, 4])
def test_rule_clamped_stencil_has_a_constant_region(n: int, factor: int) -> None:
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * 2.0, name="B")
    C = te.compute((n,), lambda i: B[te.max(i - 1, 0)] + B[i] + B[te.min(i + 1, n - 1)], name="C")
    s = create_schedule(C.op)
    outer, _ = s[C].split(C.op.axis[0], factor=factor)
    s[B].compute_at(s[C], outer)
    a = lowered.floats(n)
    p = np.pad(2 * a, 1, mode="edge")
    function = lowered.check(s, [A, C], [a], (p[:-2] + p[1:-1] + p[2:]).astype("f"))
    assert all(int(extent) <= min(n, factor + 2) for shape in lowered.allocated(function).values() for extent in shape)


@pytest.mark.parametrize("n", [1, 4, 7])
def test_rule_padding_never_reads_outside(n: int) -> None:
    A = te.placeholder((n,), name="A")
    P = te.compute((n + 2,), lambda i: te.if_then_else(te.all(i >= 1, i < n + 1), A[i - 1], 0.0), name="P")
    C = te.compute((n,), lambda i: P[i] + P[i + 2], name="C")
    s = create_schedule(C.op)
    outer, _ = s[C].split(C.op.axis[0], factor=3)
    s[P].compute_at(s[C], outer)
    a = lowered.floats(n)
    p = np.pad(a, 1)
    lowered.check(s, [A, C], [a], p[:-2] + p[2:])


def test_rule_region_through_division_and_modulo() -> None:
    """A packed layout read in blocks: one block of it is the region."""
    A = te.placeholder((4, 16), name="A")
    P = te.compute((2, 4, 8), lambda jo, i, ji: A[i, jo * 8 + ji] + 1.0, name="P")
    C = te.compute((4, 16), lambda i, j: P[j // 8, i, j % 8] * 2.0, name="C")
    s = create_schedule(C.op)
    jo, _ = s[C].split(C.op.axis[1], factor=8)
    s[C].reorder(jo, C.op.axis[0])
    s[P].compute_at(s[C], jo)
    a = lowered.floats(4, 16)
    function = lowered.check(s, [A, C], [a], (a + 1) * 2)
    assert lowered.allocated(function) == {"P": ("1", "4", "8")}


@pytest.mark.parametrize("factor", [4, 5, 8])
def test_rule_region_of_a_fused_and_split_consumer(factor: int) -> None:
    A = te.placeholder((6, 8), name="A")
    B = te.compute((6, 8), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((6, 8), lambda i, j: B[i, j] * 2.0, name="C")
    s = create_schedule(C.op)
    outer, _ = s[C].split(s[C].fuse(*C.op.axis), factor=factor)
    s[B].compute_at(s[C], outer)
    a = lowered.floats(6, 8)
    function = lowered.check(s, [A, C], [a], (a + 1) * 2)
    assert lowered.allocated(function) == {"B": ("1", str(factor)) if factor != 5 else ("2", "8")}


def test_rule_triangular_consumer_has_a_triangular_region() -> None:
    n = 6
    A = te.placeholder((n, n), name="A")
    B = te.compute((n, n), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((n,), lambda i: te.sum(B[i, (k := te.reduce_axis((0, i + 1), "k"))], axis=k), name="C")
    s = create_schedule(C.op)
    s[B].compute_at(s[C], C.op.axis[0])
    a = lowered.floats(n, n)
    function = lowered.check(s, [A, C], [a], np.tril(a + 1).sum(1).astype("f"))
    assert lowered.allocated(function) == {"B": ("1", "6")}
    assert "j:i + 1" in lowered.loops(function)


def test_rule_attach_inside_the_reduction_of_the_consumer() -> None:
    C, args, inputs, expected = matmul(6, 8, 10)
    s = create_schedule(C.op)
    AA = s.cache_read(args[0], "local", [C])
    ko, _ = s[C].split(C.op.reduce_axis[0], factor=4)
    s[C].reorder(ko, C.op.axis[0], C.op.axis[1])
    s[AA].compute_at(s[C], ko)
    function = lowered.check(s, args, inputs, expected)
    assert list(lowered.allocated(function).values()) == [("6", "4")]


def test_rule_attach_of_a_stage_inside_an_attached_stage() -> None:
    A = te.placeholder((32,), name="A")
    B = te.compute((32,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((31,), lambda i: B[i] + B[i + 1], name="C")
    D = te.compute((30,), lambda i: C[i] + C[i + 1], name="D")
    s = create_schedule(D.op)
    outer, _ = s[D].split(D.op.axis[0], factor=8)
    s[C].compute_at(s[D], outer)
    c_outer, _ = s[C].split(C.op.axis[0], factor=3)
    s[B].compute_at(s[C], c_outer)
    a = lowered.floats(32)
    b = a + 1
    c = b[:-1] + b[1:]
    function = lowered.check(s, [A, D], [a], c[:-1] + c[1:])
    assert lowered.allocated(function) == {"C": ("9",), "B": ("4",)}


def test_rule_attach_point_moves_with_split_and_fuse() -> None:
    A = te.placeholder((8, 12), name="A")
    B = te.compute((8, 12), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((8, 12), lambda i, j: B[i, j] * 2.0, name="C")
    a = lowered.floats(8, 12)
    s = create_schedule(C.op)
    s[B].compute_at(s[C], C.op.axis[1])
    s[C].split(C.op.axis[1], factor=4)
    assert lowered.allocated(lowered.check(s, [A, C], [a], (a + 1) * 2)) == {"B": ("1", "1")}
    s = create_schedule(C.op)
    s[B].compute_at(s[C], C.op.axis[0])
    s[C].fuse(*C.op.axis)
    assert lowered.allocated(lowered.check(s, [A, C], [a], (a + 1) * 2)) == {"B": ("1", "1")}


@pytest.mark.parametrize("n", [0, 1, 5, 16])
def test_rule_symbolic_region(n: int) -> None:
    symbol = te.size_var("n")
    A = te.placeholder((symbol + 2,), name="A")
    B = te.compute((symbol + 2,), lambda i: A[i] * 2.0, name="B")
    C = te.compute((symbol,), lambda i: B[i] + B[i + 2], name="C")
    a = lowered.floats(n + 2)
    for attach in (False, True):
        s = create_schedule(C.op)
        outer, _ = s[C].split(C.op.axis[0], factor=4)
        if attach:
            s[B].compute_at(s[C], outer)
        function = lowered.check(s, [A, C], [a], 2 * (a[:-2] + a[2:]))
        assert lowered.allocated(function) == {"B": ("6",) if attach else ("n + 2",)}


# Threads


def two_level(n: int = 32) -> tuple[Any, Any, Any, list[Any], Any, Any]:
    """C[i] = B[i] + 1 over 4 blocks of 8 threads."""
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * 2.0, name="B")
    C = te.compute((n,), lambda i: B[i] + 1.0, name="C")
    s = create_schedule(C.op)
    block, thread = s[C].split(C.op.axis[0], factor=8)
    s[C].bind(block, te.thread_axis("blockIdx.x"))
    s[C].bind(thread, te.thread_axis("threadIdx.x"))
    return s, B, C, [A, C], block, thread


@pytest.mark.parametrize("scope, extent", [("global", 32), ("shared", 8), ("warp", 8), ("local", 1)])
def test_rule_region_of_threads_follows_the_scope(scope: str, extent: int) -> None:
    s, B, C, args, _, thread = two_level()
    s[B].set_scope(scope)
    s[B].compute_at(s[C], thread)
    a = lowered.floats(32)
    function = lowered.check(s, args, [a], a * 2 + 1)
    assert lowered.allocated(function) == {"B": (str(extent),)}


def test_rule_default_scope_follows_the_attach_path() -> None:
    found = []
    for place in ("root", "block", "thread"):
        s, B, C, args, block, thread = two_level()
        if place != "root":
            s[B].compute_at(s[C], block if place == "block" else thread)
        a = lowered.floats(32)
        function = lowered.check(s, args, [a], a * 2 + 1)
        (allocation,) = lowered.find(function, Allocate)
        found.append((allocation.buffer.scope, str(allocation.buffer.shape[0])))
    assert found == [("global", "32"), ("shared", "8"), ("local", "1")]


def test_rule_cooperative_fetch_into_shared_memory() -> None:
    s, B, C, args, _, thread = two_level()
    s[B].set_scope("shared")
    s[B].compute_at(s[C], thread)
    _, inner = s[B].split(B.op.axis[0], factor=8)
    s[B].bind(inner, te.thread_axis("threadIdx.x"))
    a = lowered.floats(32)
    lowered.check(s, args, [a], a * 2 + 1)


def test_rule_virtual_threads_run_as_loops() -> None:
    C, args, inputs, expected = matmul(8, 8, 4)
    s = create_schedule(C.op)
    L = s.cache_write(C, "local")
    i, j = s[C].op.axis
    vx, tx = s[C].split(i, nparts=2)
    s[C].reorder(vx, tx, j)
    s[C].bind(vx, te.thread_axis("vthread"))
    s[C].bind(tx, te.thread_axis("threadIdx.x"))
    s[L].compute_at(s[C], tx)
    function = lowered.check(s, args, inputs, expected)
    assert [loop.thread for loop in lowered.find(function, For) if loop.kind is LoopKind.THREAD] == [
        "vthread",
        "threadIdx.x",
    ]


@pytest.mark.parametrize("n, k", [(4, 16), (5, 7), (1, 1), (3, 8)])
@pytest.mark.parametrize("predicate", [False, True])
def test_rule_cross_thread_reduction(n: int, k: int, predicate: bool) -> None:
    A = te.placeholder((n, k), name="A")
    r = te.reduce_axis((0, k), "r")
    B = te.compute((n,), lambda i: te.sum(A[i, r], axis=r), name="B")
    s = create_schedule(B.op)
    _, ri = s[B].split(r, factor=4)
    BF = s.rfactor(B, ri)
    tx = te.thread_axis("threadIdx.x")
    xo, xi = s[B].split(s[B].op.axis[0], factor=2)
    s[B].bind(xo, te.thread_axis("blockIdx.x"))
    s[B].bind(xi, te.thread_axis("threadIdx.y"))
    s[B].bind(s[B].op.reduce_axis[0], tx)
    s[BF].compute_at(s[B], s[B].op.reduce_axis[0])
    if predicate:
        s[B].set_store_predicate(tx.var.equal(0))
    a = lowered.floats(n, k)
    lowered.check(s, [A, B], [a], a.sum(1).astype("f"))


def test_rule_store_predicate_guards_the_store_only() -> None:
    A = te.placeholder((4, 8), name="A")
    r = te.reduce_axis((0, 8), "r")
    B = te.compute((4,), lambda i: te.sum(A[i, r], axis=r), name="B")
    s = create_schedule(B.op)
    tx, ty = te.thread_axis("threadIdx.x"), te.thread_axis("threadIdx.y")
    s[B].bind(s[B].op.axis[0], ty)
    s[B].bind(r, tx)
    s[B].set_store_predicate(te.all(tx.var.equal(3), ty.var > 0))
    a = lowered.floats(4, 8)
    expected = a.sum(1).astype("f")
    expected[0] = 77  # what was there before: no thread of row 0 stores
    function = lowered.check(s, [A, B], [a], expected)
    stored = [node for node in lowered.find(function, If) if "threadIdx" not in str(node)]
    assert len(lowered.stores_to(function, "B")) == 1
    assert stored


def test_rule_init_is_illegal_across_threads() -> None:
    A = te.placeholder((4, 8), name="A")
    r = te.reduce_axis((0, 8), "r")
    B = te.compute((4,), lambda i: te.sum(A[i, r], axis=r, init=1.0), name="B")
    s = create_schedule(B.op)
    with pytest.raises(ScheduleError, match="reduces with init="):
        s[B].bind(r, te.thread_axis("threadIdx.x"))
    lowered.check(s, [A, B], [np.ones((4, 8), "f")], np.full(4, 9, "f"))


def test_rule_one_extent_a_thread_tag() -> None:
    s, B, C, args, _, thread = two_level()
    s[B].set_scope("shared")
    s[B].compute_at(s[C], thread)
    _, inner = s[B].split(B.op.axis[0], factor=4)
    s[B].bind(inner, te.thread_axis("threadIdx.x"))
    with pytest.raises(LoweringError, match=r"TW0339: cannot lower: threadIdx.x has two extents"):
        lower(s, args)


def test_rule_thread_axis_with_a_domain() -> None:
    C, args = vector_add(32)
    s = create_schedule(C.op)
    s[C].bind(C.op.axis[0], te.thread_axis((0, 16), "threadIdx.x"))
    with pytest.raises(LoweringError, match=r"its extent is 32, .* was declared with 16"):
        lower(s, args)


# Storage


def test_rule_storage_align_sets_strides() -> None:
    A = te.placeholder((6, 8), name="A")
    B = te.compute((6, 8), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((6, 8), lambda i, j: B[5 - i, j] * 2.0, name="C")
    s = create_schedule(C.op)
    s[B].storage_align(B.op.axis[0], 16, 3)
    a = lowered.floats(6, 8)
    function = lowered.check(s, [A, C], [a], (a[::-1] + 1) * 2)
    (allocation,) = lowered.find(function, Allocate)
    assert [str(stride) for stride in allocation.buffer.strides] == ["19", "1"]


def test_rule_intermediate_argument_is_written_and_not_allocated() -> None:
    A = te.placeholder((6,), name="A")
    B = te.compute((6,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((3,), lambda i: B[i] * 2.0, name="C")
    s = create_schedule(C.op)
    function = lower(s, [A, B, C])
    assert lowered.allocated(function) == {}
    a, b, c = lowered.floats(6), np.zeros(6, "f"), np.zeros(3, "f")
    lowered.interpreter.run(function, [a, b, c], check=True)
    np.testing.assert_allclose(b, a + 1)  # all of it, though C reads half
    np.testing.assert_allclose(c, (a[:3] + 1) * 2, rtol=1e-6)


# Extents 0 and 1, rank 0, factors beyond the extent


def test_rule_rank_zero() -> None:
    A = te.placeholder((), name="A")
    B = te.compute((), lambda: A() + 1.0, name="B")
    C = te.compute((), lambda: B[()] * 2.0, name="C")
    lowered.check(create_schedule(C.op), [A, C], [np.array(3, "f")], np.array(8, "f"))


def test_rule_reduction_to_rank_zero() -> None:
    A = te.placeholder((7,), name="A")
    k = te.reduce_axis((0, 7), "k")
    C = te.compute((), lambda: te.sum(A[k], axis=k), name="C")
    s = create_schedule(C.op)
    s[C].split(k, factor=3)
    a = lowered.floats(7)
    lowered.check(s, [A, C], [a], np.array(a.sum(), "f"))


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (1, 1), (1, 9)])
def test_rule_zero_and_one_extents_with_everything(shape: tuple[int, int]) -> None:
    m, n = shape
    A = te.placeholder((m, n), name="A")
    B = te.compute((m, n), lambda i, j: A[i, j] + 1.0, name="B")
    k = te.reduce_axis((0, n), "k")
    C = te.compute((m,), lambda i: te.sum(B[i, k], axis=k), name="C")
    s = create_schedule(C.op)
    io, _ = s[C].split(C.op.axis[0], factor=4)
    ko, _ = s[C].split(k, nparts=4)
    s[C].reorder(ko, io)
    s[B].compute_at(s[C], io)
    s[B].fuse(*B.op.axis)
    a = lowered.floats(m, n)
    lowered.check(s, [A, C], [a], (a + 1).sum(1).astype("f"))


def test_rule_unit_loops_vanish_and_still_take_stages() -> None:
    A = te.placeholder((1, 6), name="A")
    B = te.compute((1, 6), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((1, 6), lambda i, j: B[i, j] * 2.0, name="C")
    s = create_schedule(C.op)
    s[B].compute_at(s[C], C.op.axis[0])
    a = lowered.floats(1, 6)
    function = lowered.check(s, [A, C], [a], (a + 1) * 2)
    assert lowered.loops(function) == ["j:6", "j:6"]


# Inlining


def test_rule_inlined_stages_stand_in_their_consumers() -> None:
    A = te.placeholder((6, 6), name="A")
    B = te.compute((6, 6), lambda i, j: A[j, i] + 1.0, name="B")
    C = te.compute((6, 6), lambda i, j: B[i, j] * B[j, i], name="C")
    k = te.reduce_axis((0, 6), "k")
    D = te.compute((6,), lambda i: te.sum(C[i, k], axis=k), name="D")
    s = create_schedule(D.op)
    s[B].compute_inline()
    s[C].compute_inline()
    s[D].split(k, factor=4)
    a = lowered.floats(6, 6)
    function = lowered.check(s, [A, D], [a], ((a + 1) * (a.T + 1)).sum(1).astype("f"))
    assert lowered.allocated(function) == {}


# Size


def test_a_graph_of_300_stages_lowers() -> None:
    A = te.placeholder((4,), name="A")
    T = A
    for at in range(300):
        T = te.compute((4,), lambda i, T=T: T[i] + 1.0, name=f"T{at}")
    a = lowered.floats(4)
    lowered.check(create_schedule(T.op), [A, T], [a], a + 300)
    s = create_schedule(T.op)
    for stage in s.stages[1:-1]:
        stage.compute_inline()
    lowered.check(s, [A, T], [a], a + 300)


def test_200_nested_loops_lower() -> None:
    A = te.placeholder((2,) * 4, name="A")
    C = te.compute((2,) * 4, lambda *i: A[i] + 1.0, name="C")
    s = create_schedule(C.op)
    axis = C.op.axis[0]
    for _ in range(200):
        axis, _ = s[C].split(axis, factor=1)
    a = lowered.floats(2, 2, 2, 2)
    lowered.check(s, [A, C], [a], a + 1)


def mirrored_sums(levels: int) -> tuple[te.Tensor, list[te.Tensor]]:
    """Each level reads two elements of the one before, of which there are two all the way down."""
    x = te.placeholder((8,), name="x")
    made = [x]
    for level in range(levels):
        made.append(te.compute((8,), lambda i, last=made[-1]: last[i] * last[i] + last[7 - i], name=f"level{level}"))
    return x, made[1:]


@pytest.mark.parametrize("target", ["llvm", "c", "interpret"])
def test_what_inlined_levels_share_is_computed_once(target: str) -> None:
    x, levels = mirrored_sums(16)
    s = te.create_schedule(levels[-1].op)
    for level in levels[:-1]:
        s[level].compute_inline()
    a, found = np.linspace(-0.2, 0.2, 8, dtype="float32"), np.zeros(8, "float32")
    f = tw.build(s, [x, levels[-1]], target=target)
    assert len({id(node) for node in post_order(tw.lower(s, [x, levels[-1]]).body)}) < 500
    f(a, found)
    wanted = a.astype("float64")
    for _ in levels:
        wanted = wanted * wanted + wanted[::-1]
    np.testing.assert_allclose(found, wanted, rtol=1e-4)


def test_definitions_that_would_fill_a_kernel_are_refused() -> None:
    x = te.placeholder((1 << 13,), name="x")
    made = [x]
    for level in range(13):
        made.append(
            te.compute((4096 >> level,), lambda i, last=made[-1]: last[2 * i] + last[2 * i + 1], name=f"sum{level}")
        )
    s = te.create_schedule(made[-1].op)
    for tensor in made[1:-1]:
        s[tensor].compute_inline()
    with pytest.raises(
        InlinedTooOften, match=r"(?s)TW0349: cannot inline sum\d+.*more than 4096 definitions.*compute_root"
    ):
        tw.lower(s, [x, made[-1]])
