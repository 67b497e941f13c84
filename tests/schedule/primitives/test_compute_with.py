"""compute_with: stages in the same loops compute what they computed apart, bit for bit, or are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.schedule.model.serialise import from_json, to_json


def agrees(s: Any, args: list[Any], seed: int = 3) -> None:
    """Bits of the scheduled program, built, are those of the unscheduled one."""
    rng = np.random.default_rng(seed)
    shapes = [tuple(int(extent) for extent in arg.shape) for arg in args]
    given = [rng.standard_normal(shape).astype("float32") for shape in shapes]
    plain = [each.copy() for each in given]
    tw.build(te.create_schedule(s.outputs), args)(*plain)
    tw.build(s, args)(*given)
    for one, other in zip(plain, given, strict=True):
        assert one.tobytes() == other.tobytes()


def sums(rows: int = 5, depth: int = 7) -> tuple[Any, Any, Any]:
    """A matrix, the sums of its rows and those of their squares."""
    A = te.placeholder((rows, depth), name="A")
    k, m = te.reduce_axis((0, depth), "k"), te.reduce_axis((0, depth), "m")
    B = te.compute((rows,), lambda i: te.sum(A[i, k], axis=k), name="B")
    C = te.compute((rows,), lambda i: te.sum(A[i, m] * A[i, m], axis=m), name="C")
    return A, B, C


def test_the_loops_after_it() -> None:
    _, B, C = sums(64, 32)
    s = te.create_schedule([B.op, C.op])
    s[C].compute_with(s[B], B.op.reduce_axis[0])
    assert (s[C].attach_type, s[C].attach_stage, s[C].attach_axis) == ("with", s[B], B.op.reduce_axis[0])
    assert str(s) == (
        "def B_C(A: float32[64, 32], B: out float32[64], C: out float32[64]):\n"
        "    for i in 64:\n"
        "        C[i] = 0.0\n"
        "        B[i] = 0.0\n"
        "        for k in 32:\n"
        "            B[i] = B[i] + A[i, k]\n"
        "            C[i] = mul_add(A[i, k], A[i, k], C[i])"
    )
    again = te.Schedule.replay(from_json(to_json(s.records)), [B.op, C.op])
    assert str(again) == str(s) and "s[C].compute_with(s[B], k)" in s.as_python() and s.is_exact
    s[C].compute_root()
    assert str(s) == str(te.create_schedule([B.op, C.op]))


@pytest.mark.parametrize(
    ("rows", "depth", "depth_shared"), [(1, 1, 2), (0, 3, 1), (5, 0, 3), (13, 1, 2), (17, 31, 1), (17, 31, 3)]
)
def test_whatever_is_shared_and_however_long_it_is(rows: int, depth: int, depth_shared: int) -> None:
    A, B, C = sums(rows, depth)
    s = te.create_schedule([B.op, C.op])
    for tensor in (B, C):
        outer, inner = s[tensor].split(tensor.op.reduce_axis[0], factor=4)
        s[tensor].reorder(outer, inner, tensor.op.axis[0]) if depth_shared == 3 else None
    s[C].compute_with(s[B], s[B].leaf_iter_vars[depth_shared - 1])
    agrees(s, [A, B, C])


def test_extents_that_differ_are_guarded_by_the_splits() -> None:
    A = te.placeholder((100,), name="A")
    B = te.compute((100,), lambda i: A[i] + 1, name="B")
    C = te.compute((97,), lambda i: A[i] * A[i + 3], name="C")
    s = te.create_schedule([B.op, C.op])
    s[C].compute_with(s[B], B.op.axis[0])
    with pytest.raises(tw.LoweringError, match=r"TW0342(?s:.*)'i' of B runs 100 times, and 'i' of C 97 times"):
        tw.lower(s, [A, B, C])
    s[C].compute_root()
    _, inner = s[B].split(B.op.axis[0], factor=8)
    s[C].split(C.op.axis[0], factor=8)
    s[B].vectorize(inner)
    s[C].compute_with(s[B], inner)
    assert str(s).count("for ") == 2
    agrees(s, [A, B, C])


def test_symbols_are_equal_where_that_is_proved() -> None:
    n, m = te.var("n"), te.var("m")
    A, D = te.placeholder((n,), name="A"), te.placeholder((m,), name="D")
    B, C = (te.compute((n,), lambda i, by=by: A[i] * by, name=f"B{by}") for by in (2, 3))
    E = te.compute((m,), lambda i: D[i] + 1, name="E")
    s = te.create_schedule([B.op, C.op, E.op])
    s[C].compute_with(s[B], B.op.axis[0])
    assert str(s).count("for ") == 2
    s[E].compute_with(s[B], B.op.axis[0])
    with pytest.raises(tw.LoweringError, match="TW0342"):
        tw.lower(s, [A, D, B, C, E])


def windows(roll: bool) -> tuple[Any, list[Any]]:
    """Two stencils of one intermediate stage, computed at a loop that both share."""
    A = te.placeholder((6, 12), name="A")
    P = te.compute((6, 12), lambda i, j: A[i, j] * A[i, j], name="P")
    Q = te.compute((4, 12), lambda i, j: P[i, j] + P[i + 2, j], name="Q")
    R = te.compute((4, 12), lambda i, j: P[i + 1, j] * 3, name="R")
    s = te.create_schedule([Q.op, R.op])
    s[P].compute_at(s[Q], Q.op.axis[0])
    if roll:
        s[P].rolling_buffer()
    s[R].compute_with(s[Q], Q.op.axis[0])
    return s, [A, Q, R]


@pytest.mark.parametrize("roll", [False, True])
def test_what_both_read_is_computed_at_a_loop_that_they_share(roll: bool) -> None:
    s, args = windows(roll)
    assert "P: float32[3, 12]" in str(s), "three rows at a time, for both"
    agrees(s, args)


def test_within_a_loop_of_what_reads_them_and_what_they_read_in_turn_in_theirs() -> None:
    A, B, C = sums(6, 10)
    D = te.compute((6, 10), lambda i, j: A[i, j] - B[i], name="D")
    E = te.compute((6, 10), lambda i, j: A[i, j] * C[i], name="E")
    F = te.compute((6, 10), lambda i, j: D[i, j] + E[i, j], name="F")
    s = te.create_schedule(F.op)
    s[D].compute_at(s[F], F.op.axis[0])
    s[E].compute_with(s[D], D.op.axis[1])
    s[D].vectorize(D.op.axis[1])
    s[B].compute_at(s[D], D.op.axis[0])
    s[C].compute_with(s[B], B.op.reduce_axis[0])
    assert str(s).count("for ") == 4, "rows; sums; what lies between; F"
    agrees(s, [A, F])


def test_nests_are_put_into_an_order_that_holds() -> None:
    A = te.placeholder((9,), name="A")
    B = te.compute((9,), lambda i: A[i] + 1, name="B")
    X = te.compute((9,), lambda i: B[8 - i] * 2, name="X")  # reads all of B, and stands before Y and C
    Y = te.compute((9,), lambda i: A[8 - i] - 5, name="Y")
    C = te.compute((9,), lambda i: Y[8 - i] * 3, name="C")
    s = te.create_schedule([X.op, C.op, B.op, Y.op])
    s[C].compute_with(s[B], B.op.axis[0])
    agrees(s, [A, B, X, Y, C])
    s[X].compute_with(s[Y], Y.op.axis[0])  # one of the two nests would have to stand before the other, and after it
    with pytest.raises(tw.LoweringError, match=r"TW0342(?s:.*)would have to be computed before the others"):
        tw.lower(s, [A, B, X, Y, C])


def test_threads_of_a_block() -> None:
    A, B, C = sums(33, 8)
    s = te.create_schedule([B.op, C.op])
    for tensor in (B, C):
        s[tensor].split(tensor.op.axis[0], factor=32)
    outer, inner, k = s[B].leaf_iter_vars
    s[C].compute_with(s[B], k)
    s[B].bind(outer, te.thread_axis("blockIdx.x"))
    s[B].bind(inner, te.thread_axis("threadIdx.x"))
    kernel = tw.build(s, [A, B, C], "cuda -emulate")
    assert len(kernel.kernels) == 1
    a = np.random.default_rng(0).standard_normal((33, 8)).astype("float32")
    b, c = np.empty(33, "float32"), np.empty(33, "float32")
    kernel(a, b, c)
    np.testing.assert_allclose((b, c), (a.sum(1), (a * a).sum(1)), rtol=1e-5)


def _parallel_sum(s: Any, B: Any, C: Any) -> None:
    D = s[B]
    s[C].reorder(*C.op.reduce_axis, *C.op.axis)
    s[C].compute_with(D, B.op.axis[0])
    D.parallel(B.op.axis[0])


def _annotated_later(s: Any, B: Any, C: Any) -> None:
    s[C].compute_with(s[B], B.op.axis[0])
    s[C].vectorize(C.op.axis[0])


@pytest.mark.parametrize(("change", "reason"), [(_parallel_sum, "race"), (_annotated_later, "'i' of C is vectorized")])
def test_loops_that_cannot_run_as_the_others_do(change: Callable[[Any, Any, Any], None], reason: str) -> None:
    A, B, C = sums(7, 7)
    s = te.create_schedule([B.op, C.op])
    change(s, B, C)
    with pytest.raises(tw.LoweringError, match=rf"TW0342(?s:.*){reason}"):
        tw.lower(s, [A, B, C])
    assert "open:" in str(s) and "computed with i of B" in str(s)


def test_a_refused_one_says_why() -> None:
    A, B, C = sums()
    D = te.compute((5,), lambda i: B[i] + 1, name="D")
    s = te.create_schedule([D.op, C.op])
    i = B.op.axis[0]
    records = s.records

    def refused(match: str, stage: Any, other: Any, axis: Any) -> None:
        with pytest.raises(tw.ScheduleError, match=match):
            stage.compute_with(other, axis)
        assert s.records == records

    refused(r"TW0229(?s:.*)D reads B", s[D], s[B], i)
    refused(r"TW0229(?s:.*)D reads B", s[B], s[D], D.op.axis[0])
    refused(r"TW0229(?s:.*)it is one stage", s[B], s[B], i)
    refused(r"TW0229(?s:.*)A is a placeholder", s[A], s[B], i)
    refused(r"TW0229(?s:.*)m is loop 2 of C from outside, and D has 1", s[D], s[C], C.op.reduce_axis[0])
    refused("TW0202", s[C], s[B], C.op.axis[0])
    refused("TW0222", s[C], B, i)
    s[C].parallel(C.op.axis[0])
    records = s.records
    refused(r"TW0213(?s:.*)annotate i of B", s[C], s[B], i)


def test_two_followers_do_not_read_each_other_and_leaders_do_not_follow() -> None:
    A, B, C = sums()
    D = te.compute((5,), lambda i: C[i] + 1, name="D")
    s = te.create_schedule([B.op, D.op])
    s[C].compute_with(s[B], B.op.axis[0])
    with pytest.raises(tw.ScheduleError, match=r"TW0229(?s:.*)D reads C"):
        s[D].compute_with(s[B], B.op.axis[0])
    E = te.compute((5,), lambda i: A[i, 0], name="E")
    s = te.create_schedule([B.op, C.op, E.op])
    s[C].compute_with(s[B], B.op.axis[0])
    with pytest.raises(tw.ScheduleError, match=r"TW0229(?s:.*)C itself is computed with B"):
        s[E].compute_with(s[C], C.op.axis[0])
    with pytest.raises(tw.ScheduleError, match=r"TW0229(?s:.*)C is computed with B"):
        s[B].compute_with(s[E], E.op.axis[0])
    s[E].compute_with(s[B], B.op.axis[0])
    agrees(s, [A, B, C, E])
