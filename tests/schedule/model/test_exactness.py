"""s.is_exact: whether a schedule keeps every bit, and if not, since which record."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import te


def product(dtype: str = "float32") -> tuple[te.Schedule, te.Tensor, list[te.Tensor]]:
    A, B = te.placeholder((13, 35), dtype, name="A"), te.placeholder((35, 11), dtype, name="B")
    k = te.reduce_axis((0, 35), "k")
    C = te.compute((13, 11), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    return te.create_schedule(C.op), C, [A, B, C]


def reduced(dtype: str, reducer: Any) -> tuple[te.Schedule, te.Tensor]:
    A = te.placeholder((13, 35), dtype, name="A")
    k = te.reduce_axis((0, 35), "k")
    C = te.compute((13,), lambda i: reducer(A[i, k], axis=k), name="C")
    return te.create_schedule(C.op), C


def result(s: te.Schedule, args: list[te.Tensor], target: str = "llvm") -> bytes:
    rng = np.random.default_rng(7)
    arrays = [rng.standard_normal([int(n) for n in arg.shape]).astype(str(arg.dtype)) for arg in args]
    tw.build(s, args, target=target)(*arrays)
    return arrays[-1].tobytes()


def test_whatever_leaves_the_order_of_sums_is_exact_and_keeps_the_bits() -> None:
    plain, _, plain_args = product()
    s, C, args = product()
    i, j = C.op.axis
    cache = s.cache_write(C, "local")
    outer, inner = s[C].split(i, factor=4)
    s[C].parallel(outer)
    s[C].vectorize(j)
    s[cache].compute_at(s[C], outer)
    some, few = s[cache].split(s[cache].op.reduce_axis[0], factor=8)
    ci, cj = s[cache].op.axis
    s[cache].reorder(some, ci, few, cj)
    s[cache].vectorize(cj)
    s[cache].unroll(few)
    assert s.is_exact
    assert str(s.is_exact).startswith("exact")
    assert s.is_exact.record is None
    assert result(s, args) == result(plain, plain_args)
    assert str(s.verify()).count("equal") >= 2


def test_loops_over_data_and_what_they_reduce_over_may_be_one() -> None:
    s, C, args = product()
    (_, j), (k,) = C.op.axis, C.op.reduce_axis
    outer, inner = s[C].split(s[C].fuse(j, k), factor=6)
    assert s.is_exact
    plain, _, plain_args = product()
    assert result(s, args) == result(plain, plain_args)
    s[C].reorder(inner, outer)
    assert not s.is_exact


def test_reordered_sums_are_named_with_the_loops() -> None:
    s, C, args = product()
    outer, inner = s[C].split(C.op.reduce_axis[0], factor=4)
    s[C].reorder(inner, outer)
    cache = s.cache_write(C, "local")
    exact = s.is_exact
    assert not exact
    assert exact.record is s.records[1]
    assert exact.source is not None
    assert "s[C].reorder(k_inner, k_outer): the loops over the reduce axes" in str(exact)
    plain, _, plain_args = product()
    assert result(s, args) != result(plain, plain_args), "the order shows"
    s.verify()
    s[cache].reorder(outer, inner)
    assert s.is_exact, "the loops stand as declared again"
    assert result(s, args) == result(plain, plain_args)


@pytest.mark.parametrize(
    ("name", "apply"),
    [
        ("rfactor", lambda s, C: s.rfactor(C, s[C].split(C.op.reduce_axis[0], factor=4)[1])),
        ("bind", lambda s, C: s[C].bind(C.op.reduce_axis[0], te.thread_axis("threadIdx.x"))),
        ("rotate", lambda s, C: s[C].rotate(C.op.reduce_axis[0], C.op.axis[1])),
    ],
)
def test_what_adds_in_another_order_is_no_longer_exact(name: str, apply: Any) -> None:
    s, C, _ = product()
    apply(s, C)
    assert not s.is_exact
    assert s.is_exact.record is not None
    assert s.is_exact.record.primitive == name
    integers, D, _ = product("int32")
    apply(integers, D)
    assert integers.is_exact, "sums of integers are the same in any order"


def test_several_reduce_axes_stay_in_the_order_in_which_they_are_listed() -> None:
    A = te.placeholder((5, 7, 11), name="A")
    p, q = te.reduce_axis((0, 7), "p"), te.reduce_axis((0, 11), "q")
    C = te.compute((5,), lambda i: te.sum(A[i, p, q], axis=[p, q]), name="C")
    s = te.create_schedule(C.op)
    both = s[C].fuse(p, q)
    s[C].split(both, factor=9)
    assert s.is_exact
    s = te.create_schedule(C.op)
    s[C].reorder(q, p)
    assert not s.is_exact
    s[C].reorder(p, q)
    assert s.is_exact


@pytest.mark.parametrize(
    ("dtype", "reducer", "exact"),
    [
        ("float32", te.sum, False),
        ("float32", te.prod, False),
        ("float16", te.sum, False),
        ("int32", te.sum, True),
        ("uint8", te.prod, True),
        ("float32", te.max, True),
        ("float64", te.min, True),
        ("float32", te.comm_reducer(lambda a, b: te.select(b > a, b, a), lambda t: te.min_value(t)), False),
        ("int16", te.comm_reducer(lambda a, b: te.select(b > a, b, a), lambda t: te.min_value(t)), True),
    ],
)
def test_which_reductions_depend_on_their_order(dtype: str, reducer: Any, exact: bool) -> None:
    s, C = reduced(dtype, reducer)
    outer, inner = s[C].split(C.op.reduce_axis[0], factor=4)
    s[C].reorder(inner, outer)
    assert bool(s.is_exact) == exact


def test_the_greatest_in_another_order_has_the_same_bits() -> None:
    A = te.placeholder((3, 32), name="A")
    k = te.reduce_axis((0, 32), "k")
    M = te.compute((3,), lambda i: te.max(A[i, k], axis=k), name="M")
    a = np.where(np.arange(96).reshape(3, 32) % 3, -0.0, 0.0).astype("float32")
    a[1] = -0.0
    for factor in (0, 8):
        s = te.create_schedule(M.op)
        if factor:
            partial = s.rfactor(M, s[M].split(k, factor=factor)[1], 1)
            s[partial].vectorize(partial.op.axis[-1])
            s[partial].reorder(partial.op.axis[0], *partial.op.reduce_axis, partial.op.axis[1])
        assert s.is_exact
        out = np.ones(3, "float32")
        tw.build(s, [A, M])(a, out)
        assert np.signbit(out).tolist() == [False, True, False]


def test_tensorized_floats_are_not_exact_and_integers_are() -> None:
    for dtype, exact in (("float32", False), ("int32", True)):
        A, B = te.placeholder((8, 4), dtype, name="A"), te.placeholder((8, 4), dtype, name="B")
        k = te.reduce_axis((0, 8), "k")
        C = te.compute((4, 4), lambda i, j: te.sum(A[k, i] * B[k, j], axis=k), name="C")
        s = te.create_schedule(C.op)
        i, j = C.op.axis
        outer, inner = s[C].split(k, factor=2)
        s[C].reorder(outer, i, j, inner)
        s[C].tensorize(i, te.intrinsics.get("vector.outer_product_4x4", 2, dtype))
        assert bool(s.is_exact) == exact
        assert exact or s.is_exact.record.primitive == "tensorize"  # pyright: ignore[reportOptionalMemberAccess]


def test_verify_compares_bits_where_the_schedule_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    s, C, _ = product()
    s[C].split(C.op.reduce_axis[0], factor=4)
    assert s.verify().exact
    assert all(check.worst == 0 for check in s.verify().checks)
    from tilewright.schedule.model import exactness

    s[C].reorder(*reversed(s[C].leaf_iter_vars))
    assert not s.verify().exact
    monkeypatch.setattr(exactness, "exactness", lambda schedule: exactness.Exactness())
    with pytest.raises(tw.ScheduleError, match="the schedule changes C"):
        s.verify()


def test_floats_that_threads_add_to_are_not_exact() -> None:
    from tilewright.te.hybrid import atomic_add, output_tensor, parallel

    def histogram(places: Any, values: Any) -> Any:
        bins = output_tensor((4,), values.dtype)
        for b in range(4):
            bins[b] = 0
        for i in parallel(64):
            atomic_add(bins, places[i], values[i])
        return bins

    for dtype, exact in (("float32", False), ("int32", True)):
        places, values = te.placeholder((64,), "int32", name="places"), te.placeholder((64,), dtype, name="values")
        s = te.create_schedule(te.hybrid.script(histogram)(places, values).op)
        assert bool(s.is_exact) == exact
        assert exact or "not exact: the threads of" in str(s.is_exact)
