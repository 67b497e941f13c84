"""Stages, their axes and relations, attach points: the data that lowering reads."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from te_evaluate import fold
from tilewright import te
from tilewright.ir.expr import IntImm, IterVar, Range
from tilewright.schedule import errors
from tilewright.schedule.model.checks import declared_ranges, outline
from tilewright.schedule.model.relations import pass_down_range, pass_down_value, pass_up_value


def three() -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    A = te.placeholder((16, 24), name="A")
    B = te.compute((16, 24), lambda i, j: A[i, j] * 2, name="B")
    k = te.reduce_axis((0, 24), "k")
    C = te.compute((16,), lambda i: te.sum(B[i, k], axis=k), name="C")
    return A, B, C


def names(axes: list[IterVar]) -> list[str]:
    return [axis.name for axis in axes]


def test_stages_stand_after_what_they_read() -> None:
    A, B, C = three()
    D = te.compute((16,), lambda i: B[i, 0] + C[i], name="D")
    s = te.create_schedule([D.op, B])
    assert [stage.name for stage in s.stages] == ["A", "B", "C", "D"]
    assert [stage.is_output for stage in s.stages] == [False, True, False, True]
    assert s.outputs == [D.op, B.op]
    assert s[A].op.kind == "placeholder"
    assert s[C].origin_op is s[C.op].op is C.op
    assert C in s
    assert "C" not in s
    assert (s[C].attach_type, s[C].scope, s[C].attach_axis) == ("root", "", None)


def test_outputs_of_one_operation_are_one_stage() -> None:
    A = te.placeholder((4,), name="A")
    P, Q = te.compute((4,), lambda i: (A[i], A[i] + 1), name="P")
    s = te.create_schedule(P)
    assert s[P] is s[Q]
    assert len(s.stages) == 2


def test_split_fuse_and_reorder_name_and_place_loops_as_in_tvm() -> None:
    _, B, _ = three()
    s = te.create_schedule(B)
    i, j = B.op.axis
    io, ii = s[B].split(i, factor=4)
    jo, ji = s[B].split(j, nparts=3)
    assert names(s[B].leaf_iter_vars) == ["i.outer", "i.inner", "j.outer", "j.inner"]
    s[B].reorder(ji, io)
    assert s[B].leaf_iter_vars == [ji, ii, jo, io]
    fused = s[B].fuse(jo, io)
    assert fused.name == "j.outer.i.outer.fused"
    assert s[B].leaf_iter_vars == [ji, ii, fused]
    assert names(s[B].all_iter_vars) == ["i", "j", "i.outer", "i.inner", "j.outer", "j.inner", "j.outer.i.outer.fused"]
    assert [type(one).__name__ for one in s[B].relations] == ["Split", "Split", "Fuse"]
    assert {axis.name: str(one.extent) for axis, one in declared_ranges(s[B]).items()} == {
        "i": "16",
        "j": "24",
        "i.outer": "4",
        "i.inner": "4",
        "j.outer": "3",
        "j.inner": "8",
        fused.name: "12",
    }


def test_fuse_takes_two_loops_in_either_order_three_in_theirs_and_none() -> None:
    _, B, C = three()
    s = te.create_schedule(C)
    i, j = B.op.axis
    assert s[B].fuse(j, i).name == "i.j.fused"
    mixed = s[C].fuse(*C.op.axis, *C.op.reduce_axis)
    assert mixed.kind == "reduce"
    assert s[C].fuse(mixed) is mixed
    unit = s[C].fuse()
    assert s[C].leaf_iter_vars == [unit, mixed]
    assert str(declared_ranges(s[C])[unit].extent) == "1"


def test_rank_zero_has_a_loop_to_annotate_once_nothing_is_fused() -> None:
    A = te.placeholder((), name="A")
    B = te.compute((), lambda: A() + 1, name="B")
    s = te.create_schedule(B)
    assert s[B].leaf_iter_vars == []
    s[B].parallel(s[B].fuse(*B.op.axis))
    assert s[B].attr(s[B].leaf_iter_vars[0]).kind == "parallel"


def test_the_last_kind_given_wins() -> None:
    _, B, _ = three()
    s = te.create_schedule(B)
    i, _ = B.op.axis
    s[B].pragma(i, "auto_unroll_max_step", 4)
    s[B].bind(i, te.thread_axis("threadIdx.x"))
    s[B].parallel(i)
    s[B].vectorize(i)
    s[B].pragma(i, "auto_unroll_max_step", 16)
    attr = s[B].attr(i)
    assert (attr.kind, attr.bind_thread) == ("vectorized", None)
    assert [(key, str(value)) for key, value in attr.pragmas] == [("auto_unroll_max_step", "16")]


def test_an_attach_point_moves_inside_a_split_and_onto_a_fusion() -> None:
    _, B, C = three()
    s = te.create_schedule(C)
    (i,), (k,) = C.op.axis, C.op.reduce_axis
    s[B].compute_at(s[C], i)
    assert s[B].attach_axis is i
    io, ii = s[C].split(i, 4)
    assert s[B].attach_axis is ii
    fused = s[C].fuse(io, ii)
    assert s[B].attach_axis is fused
    ko, _ = s[C].split(k, 3)
    s[B].compute_at(s[C], ko)
    assert s[B].attach_axis is ko
    both = s[C].fuse(fused, ko)
    assert s[B].attach_axis is both
    s[B].compute_root()
    assert (s[B].attach_type, s[B].attach_axis, s[B].attach_stage) == ("root", None, None)


def test_virtual_threads_may_share_a_tag() -> None:
    _, B, _ = three()
    s = te.create_schedule(B)
    i, j = B.op.axis
    s[B].bind(i, te.thread_axis((0, 16), "vthread"))
    s[B].bind(j, te.thread_axis((0, 24), "vthread"))
    assert s[B].attr(j).bind_thread is not s[B].attr(i).bind_thread


def test_counting_a_fused_loop_is_widened_where_32_bits_may_not_do() -> None:
    n = te.size_var("n")
    A = te.placeholder((n, 1 << 16, 1 << 15), name="A")
    B = te.compute((n, 1 << 16, 1 << 15), lambda i, j, k: A[i, j, k], name="B")
    s = te.create_schedule(B)
    i, j, k = B.op.axis
    assert te.create_schedule(B)[B].fuse(i, j).dtype == "int64"
    fused = s[B].fuse(j, k)
    assert fused.dtype == "int64"
    assert int(declared_ranges(s[B])[fused].extent) == 1 << 31  # pyright: ignore[reportArgumentType]


def test_a_bound_inner_loop_keeps_its_factor() -> None:
    A = te.placeholder((10,), name="A")
    B = te.compute((10,), lambda i: A[i], name="B")
    s = te.create_schedule(B)
    (i,) = B.op.axis
    _, inner = s[B].split(i, 32)
    roots = {i: i.dom}
    assert str(pass_down_range(s[B].relations, roots)[inner].extent) == "10"  # pyright: ignore[reportArgumentType]
    assert str(pass_down_range(s[B].relations, roots, {inner})[inner].extent) == "32"  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("seed", range(20))
def test_values_go_up_to_where_they_came_from(seed: int) -> None:
    """For drawn relations over small domains: down and up again is the identity, and leaves reach every root point."""
    rng = np.random.default_rng(seed)
    axes = [
        te.reduce_axis((int(begin), int(begin + extent)), name)
        for name, begin, extent in zip("xyz", rng.integers(-3, 4, 3), rng.integers(1, 7, 3), strict=True)
    ]
    x, y, z = axes
    A = te.placeholder((64,), name="A")
    C = te.compute((1,), lambda i: te.sum(A[x + y + z + i + 9], axis=axes), name="C")
    s = te.create_schedule(C)
    stage = s[C]
    for _ in range(4):
        leaves = stage.leaf_iter_vars
        at = int(rng.integers(len(leaves)))
        if rng.integers(2) and at + 1 < len(leaves):
            stage.fuse(leaves[at], leaves[at + 1])
        elif rng.integers(2):
            stage.split(leaves[at], factor=int(rng.integers(1, 5)))
        else:
            stage.split(leaves[at], nparts=int(rng.integers(1, 5)))
    roots = list(stage.root_iter_vars)
    ranges = declared_ranges(stage)
    down = pass_down_value(stage.relations, ranges, {root: root for root in roots})
    up = pass_up_value(stage.relations, ranges, {leaf: leaf for leaf in stage.leaf_iter_vars})
    leaf_sizes = [ranges[leaf].extent for leaf in stage.leaf_iter_vars]
    for point in itertools.product(*(_points(ranges[root]) for root in roots)):
        at_roots = dict(zip(roots, point, strict=True))
        leaves = {leaf: fold(down[leaf], at_roots) for leaf in stage.leaf_iter_vars}
        for leaf, size in zip(stage.leaf_iter_vars, leaf_sizes, strict=True):
            begin = int(ranges[leaf].begin)  # pyright: ignore[reportArgumentType]
            assert begin <= leaves[leaf] < begin + int(size), (leaf, point)  # pyright: ignore[reportArgumentType]
        assert tuple(fold(up[root], leaves) for root in roots) == point


def _points(within: Range) -> range:
    assert isinstance(within.begin, IntImm)
    assert isinstance(within.extent, IntImm)
    return range(within.begin.value, within.begin.value + within.extent.value)


def test_the_outline_shows_loops_kinds_and_the_axis_in_question() -> None:
    _, _, C = three()
    s = te.create_schedule(C)
    io, ii = s[C].split(C.op.axis[0], 4)
    s[C].bind(io, te.thread_axis("blockIdx.x"))
    s[C].unroll(ii)
    assert (
        outline(s[C], [ii])
        == """\
for i.outer in 4:       # blockIdx.x
  for i.inner in 4:     # unrolled
      ^^^^^^^
    for k in 24:        # reduce"""
    )


def test_a_failing_part_of_a_compound_primitive_undoes_the_whole() -> None:
    _, B, _ = three()
    s = te.create_schedule(B)
    i, j = B.op.axis
    with pytest.raises(errors.BadSplit, match="y_factor is -1"):
        s[B].tile(i, j, 4, -1)
    assert s[B].leaf_iter_vars == [i, j]
    s[B].parallel(j)
    with pytest.raises(errors.AnnotationWouldBeLost, match="j is parallel"):
        s[B].tile(i, j, 4, 4)
    assert s[B].leaf_iter_vars == [i, j]
    assert [record.primitive for record in s.trace] == ["parallel"]


def test_printing_shows_the_loops_of_the_moment() -> None:
    _, B, C = three()
    s = te.create_schedule(C)
    assert "for k in 24:" in str(s)
    s[C].split(C.op.reduce_axis[0], 8)
    assert "for k.outer in 3:" in str(s)
    s[B].compute_inline()
    assert "B" not in str(s).replace("Buffer", "")
