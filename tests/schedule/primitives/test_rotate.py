"""rotate: a loop that begins elsewhere in each iteration of another one computes what it computed before."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.schedule.primitives.rotate import Rotate


def product(n: int = 6, m: int = 8, depth: int = 5) -> tuple[Any, list[Any], Any, Any]:
    """A schedule of a matrix product in integers, its arguments, C, and the reduce axis."""
    A, B = te.placeholder((n, depth), "int32", name="A"), te.placeholder((depth, m), "int32", name="B")
    k = te.reduce_axis((0, depth), "k")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, k] * B[k, j], k), name="C")
    return te.create_schedule(C), [A, B, C], C, k


def agrees(s: Any, args: list[Any], target: str = "llvm") -> None:
    rng = np.random.default_rng(7)
    arrays = [rng.integers(-9, 9, [int(extent) for extent in arg.shape]).astype(str(arg.dtype)) for arg in args]
    tw.build(s, args, target)(*arrays)
    np.testing.assert_array_equal(arrays[-1], arrays[0] @ arrays[1])


def test_the_loops_after_it() -> None:
    A = te.placeholder((4, 4), name="A")
    C = te.compute((4, 4), lambda i, j: A[i, j] + 1, name="C")
    s = te.create_schedule(C)
    i, j = C.op.axis
    rotated = s[C].rotate(j, i)
    assert rotated.name == "j.rotated" and s[C].leaf_iter_vars == [i, rotated]
    assert str(s) == (
        "def C(A: float32[4, 4], C: out float32[4, 4]):\n"
        "    for i in 4:\n"
        "        for j.rotated in 4:\n"
        "            C[i, (i + j.rotated) % 4] = A[i, (i + j.rotated) % 4] + 1.0"
    )


@pytest.mark.parametrize("factor", [1, -1, 3, -7, 2**29, -(2**30) + 1])
def test_whatever_the_factor(factor: int) -> None:
    s, args, C, _ = product()
    i, j = C.op.axis
    s[C].rotate(j, i, factor)
    relation = s[C].relations[-1]
    assert isinstance(relation, Rotate) and (relation.dtype == "int64") == (abs(factor) > 1000), (
        "a sum that could wrap is wider"
    )
    agrees(s, args)


@pytest.mark.parametrize("kinds", list(itertools.permutations("ijk", 2)))
def test_each_loop_by_each_other_in_each_order(kinds: tuple[str, str]) -> None:
    for order in itertools.permutations("ijk"):
        s, args, C, k = product()
        axes = dict(zip("ijk", (*C.op.axis, k), strict=True))
        if kinds[0] != "k" and kinds[1] == "k":
            with pytest.raises(tw.ScheduleError, match=r"TW0225(?s:.*)a loop over a reduce axis"):
                s[C].rotate(axes["ij"[kinds[0] == "j"]], axes["k"])
            return
        axes[kinds[0]] = s[C].rotate(axes[kinds[0]], axes[kinds[1]], 2)
        s[C].reorder(*(axes[name] for name in order))
        agrees(s, args)


@pytest.mark.parametrize("factor", [2, 3, 4, 5])
def test_its_loops_are_split_fused_and_run_like_others(factor: int) -> None:
    s, args, C, k = product()
    i, j = C.op.axis
    jo, ji = s[C].split(j, factor)
    outer, inner = s[C].split(s[C].rotate(jo, i), 2)
    io, ii = s[C].split(i, 4)
    s[C].split(s[C].rotate(k, ii, -1), 2)
    fused = s[C].fuse(io, ii)
    s[C].parallel(fused)
    s[C].unroll(outer)
    s[C].vectorize(ji)
    s[C].reorder(outer, inner, ji)
    agrees(s, args)


def test_on_threads() -> None:
    s, args, C, k = product(16, 32, 8)
    i, j = C.op.axis
    jo, ji = s[C].split(j, 8)
    diagonal = s[C].rotate(jo, i)
    s[C].bind(i, te.thread_axis("blockIdx.y"))
    s[C].bind(diagonal, te.thread_axis("blockIdx.x"))
    s[C].bind(ji, te.thread_axis("threadIdx.x"))
    s[C].rotate(k, ji)
    agrees(s, args, "cuda -emulate")


def test_shapes_that_are_not_known() -> None:
    n, m = te.var("n"), te.var("m")
    A = te.placeholder((n, m), "int32", name="A")
    C = te.compute((n, m), lambda i, j: A[i, j] * 3, name="C")
    s = te.create_schedule(C)
    i, j = C.op.axis
    _, inner = s[C].split(s[C].rotate(j, i, -2), 4)
    s[C].vectorize(inner)
    kernel = tw.build(s, [A, C])
    for shape in ((1, 1), (3, 7), (9, 4), (5, 1)):
        a = np.arange(np.prod(shape), dtype="int32").reshape(shape)
        c = np.zeros_like(a)
        kernel(a, c)
        np.testing.assert_array_equal(c, a * 3)


def test_what_is_computed_at_its_loop_is_what_an_iteration_needs() -> None:
    A = te.placeholder((6, 8), "int32", name="A")
    B = te.compute((6, 8), lambda i, j: A[i, j] + 1, name="B")
    C = te.compute((6, 8), lambda i, j: B[i, j] * 2, name="C")
    s = te.create_schedule(C)
    i, j = C.op.axis
    s[B].compute_at(s[C], j)
    rotated = s[C].rotate(j, i)
    assert s[B].attach_axis is rotated
    assert "B: int32[1, 1]" in str(tw.lower(s, [A, C]))
    s[C].reorder(rotated, i)  # the other loop runs inside: any column
    assert "B: int32[6, 8]" in str(tw.lower(s, [A, C]))
    a = np.arange(48, dtype="int32").reshape(6, 8)
    c = np.zeros_like(a)
    tw.build(s, [A, C])(a, c)
    np.testing.assert_array_equal(c, (a + 1) * 2)


def test_a_cache_for_a_rotated_loop_lies_rotated() -> None:
    s, args, C, _ = product()
    s[C].rotate(C.op.axis[1], C.op.axis[0])
    CC = s.cache_write(C, "global")
    i, j = C.op.axis
    text = str(tw.lower(s, args))
    assert "C[i, j] = C.global[i, (j - i) % 8]" in text or "C[i, j] = C.global[i, (j + i * -1) % 8]" in text, text
    assert [int(extent) for extent in CC.shape] == [6, 8]
    agrees(s, args)


@pytest.mark.parametrize("by", [1, 2])
def test_an_intrinsic_takes_all_of_a_rotated_loop_or_is_refused(by: int) -> None:
    P, Q = te.placeholder((2, 1, 4, 4), name="P"), te.placeholder((2, 1, 4, 4), name="Q")
    k = te.reduce_axis((0, 4), "k")
    C = te.compute((2, 2, 4, 4), lambda a, b, i, j: te.sum(P[a, 0, k, i] * Q[b, 0, k, j], k), name="C")
    s = te.create_schedule(C)
    i, j = C.op.axis[2:]
    rotated = s[C].rotate(j, C.op.axis[by])
    s[C].reorder(i, rotated, k)
    s[C].tensorize(i, te.intrinsics.get("vector.outer_product_4x4", 4, "float32"))
    if by == 1:  # a tile's columns begin elsewhere in each tile, and go around within it
        with pytest.raises(tw.LoweringError, match=r"j takes the values `\(j\.rotated \+ b\) % 4` there"):
            tw.lower(s, [P, Q, C])
        return
    p, q = (np.random.default_rng(at).random((2, 1, 4, 4), dtype="float32") for at in range(2))
    c = np.zeros((2, 2, 4, 4), "float32")
    tw.build(s, [P, Q, C])(p, q, c)
    np.testing.assert_allclose(c, np.einsum("aki,bkj->abij", p[:, 0], q[:, 0]), rtol=1e-5)


def test_the_check_of_a_schedule_holds_for_it() -> None:
    s, _, C, k = product(12, 20, 9)
    i, j = C.op.axis
    jo, _ = s[C].split(j, 6)
    s[C].parallel(i)
    s[C].rotate(jo, i, 3)
    s[C].rotate(k, i)
    s.verify()
