"""cache_read, cache_write, rfactor and inlining rewrite operations: what is computed stays the same."""

from __future__ import annotations

import re
from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from te_evaluate import evaluate
from tilewright import te
from tilewright.schedule import AutoInlineBroadcast, AutoInlineElemWise, AutoInlineInjective, Schedule, errors

N, M, K = 5, 6, 7


def values(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-4, 5, shape).astype("float32")


def matmul() -> tuple[te.Tensor, te.Tensor, te.Tensor, dict[te.Tensor, np.ndarray]]:
    A, B = te.placeholder((N, K), name="A"), te.placeholder((K, M), name="B")
    k = te.reduce_axis((0, K), "k")
    C = te.compute((N, M), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    return A, B, C, {A: values(N, K), B: values(K, M, seed=1)}


def same(s: Schedule, tensor: te.Tensor, inputs: dict[te.Tensor, np.ndarray]) -> None:
    """Assert that the schedule's own operation for `tensor` computes what was declared."""
    now = s[tensor].op.output(tensor.value_index)
    np.testing.assert_array_equal(evaluate(now, inputs), evaluate(tensor, inputs))


def test_cache_read_redirects_the_listed_readers_only() -> None:
    A, _, C, inputs = matmul()
    D = te.compute((N, M), lambda i, j: C[i, j] + A[i, j], name="D")
    s = te.create_schedule(D)
    AA = s.cache_read(A, "shared", [C])
    assert (AA.name, s[AA].scope, AA.shape[1]) == ("A.shared", "shared", A.shape[1])
    assert [stage.name for stage in s.stages] == ["A", "A.shared", "B", "C", "D"]
    assert AA in s[C].op.input_tensors
    assert A not in s[C].op.input_tensors
    assert A in s[D].op.input_tensors
    assert AA not in s[D].op.input_tensors
    assert s[C].op is not C.op
    assert s[C].origin_op is C.op
    assert s[D].op.input_tensors[0] is s[C].op.output(0), "D reads what C's stage computes now"
    same(s, D, inputs)


def test_a_cache_can_be_cached_and_read_by_names_of_any_age() -> None:
    A, _, C, inputs = matmul()
    s = te.create_schedule(C)
    AA = s.cache_read(A, "shared", C)
    AL = s.cache_read(AA, "local", [C.op])
    assert [stage.name for stage in s.stages] == ["A", "A.shared", "A.shared.local", "B", "C"]
    assert s[C].op.input_tensors[0] is AL
    CC = s.cache_write(C, "local")
    AX = s.cache_read(AL, "", [s[CC]])
    assert AX.name == "A.shared.local.global"
    assert s[AX].scope == ""
    same(s, C, inputs)


def test_cache_write_makes_the_stage_a_copy_and_keeps_its_axes() -> None:
    _, _, C, inputs = matmul()
    s = te.create_schedule(C)
    CC = s.cache_write(C, "local")
    assert CC.name == "C.local"
    assert s[CC].scope == "local"
    assert not s[CC].is_output
    assert s[C].is_output
    assert s[C].op.axis == C.op.axis
    assert s[C].op.reduce_axis == ()
    assert s[CC].op.reduce_axis == C.op.reduce_axis
    assert not set(s[CC].op.axis) & set(C.op.axis)
    xo, xi = s[C].split(C.op.axis[0], 4)
    s[CC].compute_at(s[C], xo)
    s[CC].split(s[CC].op.reduce_axis[0], 2)
    assert s[CC].attach_axis is xo
    assert s[C].leaf_iter_vars[1] is xi
    same(s, C, inputs)


def test_splits_and_reorders_before_cache_write_define_its_layout() -> None:
    _, _, C, inputs = matmul()
    s = te.create_schedule(C)
    i, j = C.op.axis
    io, ii = s[C].split(i, 2)
    jo, ji = s[C].split(j, nparts=4)
    s[C].reorder(jo, io, ji, ii)
    CC = s.cache_write(C, "global")
    assert [int(extent) for extent in CC.shape] == [4, 3, 2, 2]
    assert [axis.name for axis in s[CC].leaf_iter_vars] == ["j.outer.c", "i.outer.c", "j.inner.c", "i.inner.c", "k"]
    assert s[C].leaf_iter_vars == [i, j]
    assert s[C].relations == []
    same(s, C, inputs)


def test_cache_write_of_fused_loops_and_of_a_value_without_reduction() -> None:
    A = te.placeholder((N, M), name="A")
    B = te.compute((N, M), lambda i, j: te.log(A[i, j]) + A[N - 1 - i, j], name="B")
    s = te.create_schedule(B)
    fused = s[B].fuse(*B.op.axis)
    s[B].split(fused, 4)
    BB = s.cache_write(B, "local")
    assert [int(extent) for extent in BB.shape] == [8, 4]
    assert "if_then_else" in str(s[BB].op.body[0]) or " if " in str(s[BB].op.body[0]), (
        "30 elements in 32 places need a guard"
    )


def test_what_was_done_to_reduce_axes_moves_to_the_cache() -> None:
    _, _, C, inputs = matmul()
    s = te.create_schedule(C)
    k = C.op.reduce_axis[0]
    ko, ki = s[C].split(k, 3)
    s[C].unroll(ki)
    s[C].reorder(ko, *C.op.axis, ki)
    CC = s.cache_write(C, "local")
    assert [axis.name for axis in s[CC].leaf_iter_vars] == ["k.outer", "i.c", "j.c", "k.inner"]
    assert s[CC].attr(ki).kind == "unrolled"
    assert len(s[CC].relations) == 1
    same(s, C, inputs)


def test_cache_write_of_all_outputs_of_an_operation() -> None:
    A = te.placeholder((N, M), name="A")
    P, Q = te.compute((N, M), lambda i, j: (A[i, j] + 1, A[i, j] * 2), name="P")
    D = te.compute((N, M), lambda i, j: P[i, j] - Q[i, j], name="D")
    s = te.create_schedule(D)
    QQ, PP = s.cache_write([Q, P], "local")
    assert s[P] is s[Q]
    assert s[PP] is s[QQ]
    assert (PP.value_index, QQ.value_index) == (0, 1)
    same(s, D, {A: values(N, M)})


def test_stages_attached_at_loops_that_vanish_follow_to_the_cache() -> None:
    A, _, C, inputs = matmul()
    s = te.create_schedule(C)
    AA = s.cache_read(A, "local", C)
    io, _ = s[C].split(C.op.axis[0], 2)
    s[AA].compute_at(s[C], io)
    CC = s.cache_write(C, "local")
    assert s[AA].attach_stage is s[CC]
    assert s[AA].attach_axis is s[CC].op.axis[0]
    same(s, C, inputs)


@pytest.mark.parametrize("factor_axis", [0, 1, 2, -1, -3])
@pytest.mark.parametrize("factor", drawn.part([1, 2, 3, 7, 9], 2))
def test_rfactor_of_any_split_is_the_same_sum(factor: int, factor_axis: int) -> None:
    _, _, C, inputs = matmul()
    s = te.create_schedule(C)
    _, ki = s[C].split(C.op.reduce_axis[0], factor)
    CF = s.rfactor(C, ki, factor_axis)
    assert CF.name == "C.rf"
    assert int(CF.shape[factor_axis]) == min(factor, K)
    assert s[C].op.axis == C.op.axis
    assert len(s[C].op.reduce_axis) == 1
    assert [stage.name for stage in s.stages][2:] == ["C.rf", "C"]
    same(s, C, inputs)


def test_rfactor_over_the_outer_part_the_whole_axis_and_again() -> None:
    A = te.placeholder((N, K, M), name="A")
    k, m = te.reduce_axis((0, K), "k"), te.reduce_axis((0, M), "m")
    B = te.compute((N,), lambda i: te.max(A[i, k, m], axis=[k, m], where=k + m > 2), name="B")
    inputs = {A: values(N, K, M)}

    s = te.create_schedule(B)
    ko, _ = s[B].split(k, nparts=3)
    s.rfactor(B, ko)
    same(s, B, inputs)

    s = te.create_schedule(B)
    fused = s[B].fuse(k, m)
    _fo, fi = s[B].split(fused, 5)
    _fio, fii = s[B].split(fi, 2)
    BF = s.rfactor(B, fii)
    BFF = s.rfactor(BF, s[BF].op.reduce_axis[0], -1)
    assert len(BFF.shape) == 3
    same(s, B, inputs)

    s = te.create_schedule(B)
    BK = s.rfactor(B, k)
    assert s[BK].op.reduce_axis == (m,)
    s.rfactor(BK, m)
    same(s, B, inputs)


def test_rfactor_of_a_tuple_reduction() -> None:
    A = te.placeholder((N, K), name="A")
    k = te.reduce_axis((0, K), "k")
    argmax = te.comm_reducer(
        lambda x, y: (te.select(x[1] >= y[1], x[0], y[0]), te.select(x[1] >= y[1], x[1], y[1])),
        lambda t0, t1: (te.const(-1, t0), te.min_value(t1)),
        name="argmax",
    )
    index, best = te.compute((N,), lambda i: argmax((k, A[i, k]), axis=k), name="T")
    s = te.create_schedule(best)
    _, ki = s[best].split(k, 4)
    factored = s.rfactor(best, ki)
    assert isinstance(factored, list)
    assert len(factored) == 2
    inputs = {A: np.random.default_rng(3).permutation(N * K).reshape(N, K).astype("float32")}
    same(s, best, inputs)
    same(s, index, inputs)


def test_init_goes_to_the_last_stage_alone() -> None:
    A = te.placeholder((N, K), name="A")
    k = te.reduce_axis((0, K), "k")
    B = te.compute((N,), lambda i: te.sum(A[i, k], axis=k, init=te.const(10.0, "float32")), name="B")
    s = te.create_schedule(B)
    BF = s.rfactor(B, s[B].split(k, 3)[1])
    assert s[BF].op.body[0].init == ()
    assert str(s[B].op.body[0].init[0]) == str(B.op.body[0].init[0])
    same(s, B, {A: values(N, K)})


def test_a_reduction_over_a_triangle_is_cached_and_factored() -> None:
    A = te.placeholder((K, K), name="A")

    def element(i: Any) -> Any:
        k = te.reduce_axis((0, i + 1), "k")
        return te.sum(A[i, k], axis=k)

    B = te.compute((K,), element, name="B")
    inputs = {A: values(K, K)}
    s = te.create_schedule(B)
    BB = s.cache_write(B, "local")
    same(s, B, inputs)
    s.rfactor(BB, s[BB].split(s[BB].op.reduce_axis[0], 3)[1])
    same(s, B, inputs)


def test_normalize_puts_inlined_stages_into_their_readers() -> None:
    _A, _, C, inputs = matmul()
    P = te.compute((N, M), lambda i, j: C[i, j] + 1, name="P")
    Q = te.compute((M, N), lambda i, j: P[j, i] * P[j, i], name="Q")
    D = te.compute((N, M), lambda i, j: Q[j, i] - P[i, j], name="D")
    s = te.create_schedule(D)
    s[P].compute_inline()
    s[Q].compute_inline()
    before = [stage.op for stage in s.stages]
    made = s.normalize()
    assert [stage.op for stage in s.stages] == before, "normalize leaves its schedule alone"
    assert made[D].op.input_tensors == (C,)
    assert made[P].attach_type == made[Q].attach_type == "inlined"
    same(made, D, inputs)
    assert [axis.name for axis in made[D].leaf_iter_vars] == ["i", "j"]
    assert not set(made[D].leaf_iter_vars) & set(D.op.axis)


@pytest.mark.parametrize(
    ("auto", "inlined"),
    [(AutoInlineElemWise, ["E"]), (AutoInlineBroadcast, ["E", "R"]), (AutoInlineInjective, ["E", "R", "X"])],
)
def test_auto_inline_takes_what_its_name_says(auto: Any, inlined: list[str]) -> None:
    A, V = te.placeholder((N, N), name="A"), te.placeholder((N,), name="V")
    E = te.compute((N, N), lambda i, j: A[i, j] + 1, name="E")
    R = te.compute((N, N), lambda i, j: E[i, j] + V[j], name="R")
    X = te.compute((N, N), lambda i, j: R[j, i], name="X")
    k = te.reduce_axis((0, N), "k")
    S = te.compute((N,), lambda i: te.sum(X[i, k], axis=k), name="S")
    P, Q = te.compute((N,), lambda i: (S[i], S[i] + 1), name="P")
    U = te.compute((N,), lambda i: P[i] + Q[i], name="U")
    W = te.compute((N,), lambda i: U[i] + 1, name="W")
    s = te.create_schedule(W)
    s[U].split(U.op.axis[0], 2)
    auto(s)
    assert [stage.name for stage in s.stages if stage.attach_type == "inline"] == inlined, (
        "U is scheduled, W is the output"
    )


def test_an_axis_whose_extent_reads_a_replaced_tensor_is_made_anew_with_what_was_done_to_it() -> None:
    A, R = te.placeholder((N, K), name="A"), te.placeholder((N,), "int32", name="R")

    def element(i: Any) -> Any:
        k = te.reduce_axis((0, R[i]), "k")
        return te.sum(A[i, k], axis=k)

    B = te.compute((N,), element, name="B")
    inputs = {A: values(N, K), R: np.array([0, 3, 7, 1, 5], "int32")}
    k = B.op.reduce_axis[0]
    s = te.create_schedule(B)
    s[B].set_store_predicate(te.all(k < 100, B.op.axis[0] < 100))
    ko, ki = s[B].split(k, 3)
    s[B].unroll(ki)
    s.cache_read(R, "local", B)
    new = s[B].op.reduce_axis[0]
    assert new is not k
    assert s[B].relations[0].parents == (new,)
    assert s[B].leaf_iter_vars[1:] == [ko, ki]
    assert s[B].all_iter_vars[1] is new
    assert str(s[B].store_predicate) == "k < 100 and i < 100"
    with pytest.raises(errors.NotAnAxisOfStage, match=r"k was made anew .* s\[B\].op has the new one"):
        s[B].split(k, 2)
    same(s, B, inputs)

    s = te.create_schedule(B)
    AA = s.cache_read(A, "local", B)
    s[AA].compute_at(s[B], k)
    s.cache_read(R, "local", B)
    assert s[AA].attach_axis is s[B].op.reduce_axis[0] is s[B].leaf_iter_vars[1]
    BB = s.cache_write(B, "local")
    assert s[AA].attach_stage is s[BB]
    assert s[AA].attach_axis is s[BB].op.reduce_axis[0]
    same(s, B, inputs)


def windows() -> tuple[te.Tensor, te.Tensor, te.Tensor, dict[te.Tensor, np.ndarray]]:
    A, W = te.placeholder((N + 2,), name="A"), te.placeholder((3,), name="W")
    k = te.reduce_axis((0, 3), "k")
    C = te.compute((N,), lambda i: te.sum(A[i + k] * W[k], axis=k), name="C")
    return A, W, C, {A: values(N + 2), W: values(3, seed=1)}


def test_a_reindexed_copy_has_the_readers_axes_and_holds_what_is_read_at_each() -> None:
    A, W, C, inputs = windows()
    s = te.create_schedule(C)
    AA = s.cache_read(A, "local", [C], reindex=True)
    assert tuple(map(str, AA.shape)) == (str(N), "3"), "i and k, side by side"
    assert "A.local[i, k]" in str(s)
    same(s, C, inputs)
    s[AA].compute_at(s[C], s[C].op.axis[0])
    s.verify()
    assert s.replay(s.records, [C]).records == s.records and "reindex=True" in s.as_python()


def test_a_reindexed_copy_takes_the_axes_that_are_read_alone() -> None:
    _, B, C, inputs = matmul()
    s = te.create_schedule(C)
    BB = s.cache_read(B, "global", [C], reindex=True)
    assert tuple(map(str, BB.shape)) == (str(M), str(K)), "data axes before those that are summed over"
    same(s, C, inputs)


def test_of_several_places_a_reindexed_copy_has_what_is_read_at_the_first() -> None:
    A = te.placeholder((N, 5), name="A")
    k = te.reduce_axis((0, 5), "k")
    C = te.compute((N, N), lambda i, j: te.sum(A[i, k] * A[j, k], axis=k), name="C")
    s = te.create_schedule(C)
    s.cache_read(A, "global", [C], reindex=True)
    columns = s.cache_read(A, "local", [C], reindex=True)
    assert "A.global[i, k], A.local[j, k]" in str(s)
    s[columns].compute_at(s[C], s[C].op.axis[0])
    same(s, C, {A: values(N, 5)})
    assert s.replay(s.records, [C]).records == s.records


def test_reads_that_the_axes_do_not_tell_are_not_copied_by_them() -> None:
    A = te.placeholder((N + 2,), name="A")
    C = te.compute((N,), lambda i: te.if_then_else(i > 0, A[te.max(i - 1, 0)] + 1.0, 0.0), name="C")
    s = te.create_schedule(C)
    with pytest.raises(errors.BadCacheRead, match="C reads it only where a condition holds"):
        s.cache_read(A, "local", [C], reindex=True)
    assert not s.records, "the schedule is as it was"


def test_a_guarded_read_is_copied_with_its_guard() -> None:
    A, w = te.placeholder((N,), name="A"), te.placeholder((3,), name="w")
    k = te.reduce_axis((0, 3), "k")
    C = te.compute(
        (N,), lambda i: te.sum(te.if_then_else(te.all(i + k > 0, i + k <= N), A[i + k - 1], 7.0) * w[k], k), name="C"
    )
    s = te.create_schedule(C)
    s.cache_read(A, "global", [C], reindex=True)
    text = str(s)
    assert re.search(r"A.global\[\S+, \S+\] = if_then_else\(", text) and text.count("if_then_else") == 1, (
        "the sum reads the copy"
    )
    a, b = np.random.default_rng(0).standard_normal(N, "float32"), np.float32([0.5, -2.0, 3.0])
    c = np.empty(N, "float32")
    tw.build(s, [A, w, C])(a, b, c)
    around = np.concatenate([[7.0], a, [7.0]])
    np.testing.assert_allclose(c, [around[i : i + 3] @ b for i in range(N)], rtol=1e-5)
    assert s.replay(s.records, [C]).records == s.records


def test_what_a_script_reads_is_not_copied_by_its_axes() -> None:
    @te.hybrid.script
    def doubled(a: Any) -> Any:
        c = output_tensor(a.shape, a.dtype)  # noqa: F821
        for i in range(a.shape[0]):
            c[i] = a[i] * 2.0
        return c

    A = te.placeholder((N,), name="A")
    s = te.create_schedule(doubled(A).op)
    with pytest.raises(errors.BadCacheRead, match="doubled is loops of its own"):
        s.cache_read(A, "local", reindex=True)


def test_all_readers_are_found_though_a_cache_before_made_them_anew() -> None:
    A, b = te.placeholder((4,), name="A"), te.placeholder((4,), name="b")
    S = te.compute((4,), lambda i: A[i] + 1, name="S")
    R = te.compute((4,), lambda i: S[i] + b[i], name="R")
    T = te.compute((4,), lambda i: R[i] * b[i], name="T")
    s = te.create_schedule(T.op)
    s.cache_read(A, "local")
    copy = s.cache_read(b, "local")
    assert s[copy].op.input_tensors == (b,)
    assert [copy in s[stage].op.input_tensors for stage in (R, T)] == [True, True]
