"""Schedules that are written step by step in the words of TVM's auto_scheduler."""

from __future__ import annotations

import numpy as np
import pytest
from tilewright.compat import tvm
from tilewright.compat.tvm import auto_scheduler, te
from tilewright.compat.tvm.testing import auto_scheduler as workloads


def product_of(dag, state, n, m, k):
    s, args = dag.apply_steps_from_state(state)
    a, b = np.random.default_rng(3).integers(-4, 5, (n, k)).astype("float32"), np.ones((k, m), "float32")
    b[0] = 3
    c = tvm.nd.empty((n, m))
    tvm.build(s, args)(tvm.nd.array(a), tvm.nd.array(b), c)
    assert (c.numpy() == a @ b).all()
    return s


def test_a_state_is_split_fused_and_marked_and_computes_what_it_did() -> None:
    a, b, c = workloads.matmul_auto_scheduler_test(24, 14, 10)
    dag = auto_scheduler.ComputeDAG([a, b, c])
    state = dag.get_init_state()
    assert [op.name for op in state.stage_ops] == ["A", "B", "C"]
    i, j, k = state[c].iters
    tiles = state.split(c, i, [4, 3])
    assert [axis.var.name for axis in state[c].iters[:3]] == [axis.var.name for axis in tiles] and len(
        state[c].iters
    ) == 5
    state.reorder(c, [*tiles, k, j])
    both = state.fuse(c, tiles[:2])
    state.parallel(c, both)
    state.vectorize(c, j)
    state.unroll(c, k, max_unroll=8)
    assert [step[0] for step in state.transform_steps] == ["SP", "RE", "FU", "AN", "AN"], (
        "a loop of 10 is longer than 8"
    )
    s = product_of(dag, state, 24, 14, 10)
    text = str(s)
    assert "parallel" in text and "vectorize" in text
    kept = state.copy()
    state.unroll(c, state[c].iters[1])
    assert len(kept.transform_steps) == 5 and "unroll" not in str(kept) and "unroll" in str(state), "a copy is its own"
    assert "parallel" in dag.print_python_code_from_state(kept)


def test_caches_and_partial_results_are_stages_of_the_state() -> None:
    a, b, c = workloads.matmul_auto_scheduler_test(9, 8, 16)
    dag = auto_scheduler.ComputeDAG([a, b, c])
    state = dag.get_init_state()
    local = state.cache_write(c, "local")
    assert [op.name for op in state.stage_ops] == ["A", "B", "C.local", "C"]
    outer, inner = state.split(c, state[c].iters[1], [4])
    state.compute_at(local, c, outer)
    copied = state.cache_read(b, "local", [local])
    state.compute_at(copied, local, state[local].iters[0])
    assert state[c].iters[1] is outer and state[copied].compute_at == "at" and inner is state[c].iters[2]
    product_of(dag, state, 9, 8, 16)
    other = dag.get_init_state()
    other.split(c, other[c].iters[2], [4], inner_to_outer=True)
    partial = other.rfactor(c, other[c].iters[3], 2)
    assert len(other[partial].iters) == 4 and len(other[c].iters) == 3
    product_of(dag, other, 9, 8, 16)


def test_splits_follow_earlier_ones() -> None:
    a, b, c = workloads.matmul_auto_scheduler_test(16, 12, 8)
    dag = auto_scheduler.ComputeDAG([a, b, c])
    state = dag.get_init_state()
    local = state.cache_write(c, "global")
    state.split(local, state[local].iters[0], [2, 2])
    parts = state.follow_split(c, state[c].iters[0], 1, 1)
    assert len(parts) == 2
    state.compute_at(local, c, parts[0])
    s = product_of(dag, state, 16, 12, 8)
    assert "for i.inner in 4" in str(tvm.lower(s, [a, b, c])), "the product of the lengths that were followed"


def test_states_refuse_what_they_do_not_hold() -> None:
    a, b, c = workloads.matmul_auto_scheduler_test(4, 4, 4)
    state = auto_scheduler.ComputeDAG([a, b, c]).get_init_state()
    with pytest.raises(ValueError, match="the state has no stage 'other'"):
        state.compute_inline(te.compute((4,), lambda i: a[i, 0], name="other"))
    i = state[c].iters[0]
    state.split(c, i, [2])
    with pytest.raises(ValueError, match=r"i is not a loop of C; there are i\.outer, i\.inner, j, k"):
        state.vectorize(c, i)


def test_the_workloads_of_tvms_tests_have_their_keys() -> None:
    dag, state = workloads.get_tiled_matmul()
    assert [axis.var.name for axis in state[dag.tensors[2]].iters][:4] == [
        "i.outer.outer.outer",
        "j.outer.outer.outer",
        "i.outer.outer.inner",
        "j.outer.outer.inner",
    ]
    same = auto_scheduler.ComputeDAG(workloads.matmul_auto_scheduler_test(512, 512, 512))
    other = auto_scheduler.ComputeDAG(workloads.matmul_auto_scheduler_test(512, 512, 256))
    assert dag.hash_key() == same.hash_key() != other.hash_key()
    key = auto_scheduler.make_workload_key("softmax_nm_auto_scheduler_test", (3, 5))
    assert [tuple(map(int, tensor.shape)) for tensor in auto_scheduler.workload_key_to_tensors(key)] == [(3, 5), (3, 5)]
    for function, args, flop in (
        (workloads.double_matmul_auto_scheduler_test, (4,), 256),
        (workloads.parallel_matmul_auto_scheduler_test, (4,), 256),
        (workloads.min_nm_auto_scheduler_test, (3, 4), 12),
        (workloads.zero_rank_compute_auto_scheduler_test, (8,), 9),
    ):
        assert auto_scheduler.ComputeDAG(function(*args)).flop_ct == flop, function.__name__
    conv = workloads.conv2d_nchw_bn_relu_auto_scheduler_test(1, 7, 7, 3, 4, 3, 1, 1)
    assert tuple(map(int, conv[-1].shape)) == (1, 4, 7, 7)
    assert tuple(map(int, workloads.max_pool2d_auto_scheduler_test(1, 6, 6, 2, 1)[-1].shape)) == (1, 2, 7, 7)
    decode, factor = auto_scheduler.utils.decode_workload_key, auto_scheduler.utils.calc_workload_dis_factor
    large, small = decode('["f", [8, 3, 224], [0, 0], "float32"]'), decode('["f", [1, 3, 112], [0, 0], "float32"]')
    assert factor(large, small) == 16 and factor(large, large) == 1
    assert factor(small, large) == factor(large, decode('["f", [8, 3, 224], [0, 0], "int8"]')) == float("inf")
