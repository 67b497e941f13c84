# ruff: noqa: F821
"""Hybrid scripts under schedules: every primitive holds, and computes the same, or raises and changes nothing."""

from __future__ import annotations

import warnings
from copy import copy
from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from hybrid_run import agree
from lowered import loops
from tilewright import te
from tilewright.views.report import page


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


@te.hybrid.script
def outer_product(a, b):
    c = output_tensor((a.shape[0], b.shape[0]), a.dtype)
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            c[i, j] = a[i] * b[j]
    return c


@te.hybrid.script
def matmul(a, b):
    n, l, m = a.shape[0], a.shape[1], b.shape[1]
    c = output_tensor((n, m), a.dtype)
    for x in range(n):
        for y in range(m):
            c[x, y] = 0.0
    for i in range(n):
        for j in range(m):
            for k in range(l):
                c[i, j] += a[i, k] * b[k, j]
    return c


def axis(tensor, name: str):
    return next(one for one in tensor.op.axis if one.name == name)


def state(s) -> tuple:
    return tuple((stage.save_state()[:8], str(stage.scope)) for stage in s.stages), s.records


# Loops


@pytest.mark.parametrize("n, m", [(0, 3), (1, 1), (7, 5), (13, 17), (16, 32)])
def test_split_reorder_and_kinds(n: int, m: int) -> None:
    a, b = floats(n), floats(m, seed=1)

    def schedule(s, outputs):
        (c,) = outputs
        i, j = c.op.axis
        io, ii = s[c].split(i, 4)
        jo, ji = s[c].split(j, 4)
        joo, joi = s[c].split(jo, nparts=2)
        s[c].reorder(ii, io, joo, joi, ji)
        s[c].parallel(ii)
        s[c].vectorize(ji)
        s[c].unroll(joi)

    s = agree(outer_product, [a, b], np.outer(a, b), schedule)
    assert len(s.records) == 7


def test_the_loops_as_they_stand() -> None:
    a, b = te.placeholder((64,), name="a"), te.placeholder((64,), name="b")
    c = outer_product(a, b)
    s = te.create_schedule(c.op)
    assert [one.name for one in s[c].leaf_iter_vars] == ["i", "j"]
    assert s[c].op.axis == c.op.axis
    i, j = c.op.axis
    io, ii = s[c].split(i, 4)
    s[c].parallel(ii)
    jo, ji = s[c].split(j, 4)
    joo, joi = s[c].split(jo, 4)
    s[c].vectorize(ji)
    s[c].reorder(ii, io, joo, joi, ji)
    assert loops(tw.lower(s, [a, b, c])) == [
        "i.inner:4",
        "i.outer:16",
        "j.outer.outer:4",
        "j.outer.inner:4",
        "j.inner:4",
    ]


@pytest.mark.parametrize("n, m", [(1, 1), (5, 7), (4, 0)])
def test_fused_loops(n: int, m: int) -> None:
    a, b = floats(n), floats(m, seed=1)

    def schedule(s, outputs):
        (c,) = outputs
        outer, inner = s[c].split(s[c].fuse(*c.op.axis), 3)
        s[c].parallel(outer)
        s[c].vectorize(inner)

    agree(outer_product, [a, b], np.outer(a, b), schedule)


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("n, l, m", drawn.part([(1, 1, 1), (7, 5, 11), (3, 0, 2), (13, 8, 16)], 2))
def test_a_tiled_product_of_matrices(n: int, l: int, m: int, symbolic: bool) -> None:
    a, b = floats(n, l), floats(l, m, seed=1)

    def schedule(s, outputs):
        (c,) = outputs
        i, j, k = (axis(c, name) for name in "ijk")
        io, ii = s[c].split(i, 4)
        jo, ji = s[c].split(j, 8)
        ko, ki = s[c].split(k, 2)
        s[c].reorder(io, jo, ko, ki, ii, ji)
        s[c].parallel(io)
        s[c].vectorize(ji)
        s[c].vectorize(s[c].split(axis(c, "y"), 4)[1])

    agree(matmul, [a, b], a @ b, schedule, symbolic=symbolic, exact=False)


def test_order_that_matters_is_kept() -> None:
    """k may lie outside i and j, which write elements of their own; its own parts may not trade places."""
    a, b = te.placeholder((8, 8), name="a"), te.placeholder((8, 8), name="b")
    c = matmul(a, b)
    s = te.create_schedule(c.op)
    i, j, k = (axis(c, name) for name in "ijk")
    ko, ki = s[c].split(k, 2)
    s[c].reorder(ko, i, j, ki)
    before = state(s)
    with pytest.raises(tw.ScheduleError, match=r"TW0280: cannot reorder k\.inner and k\.outer .*\n.*c\[i, j\] may be"):
        s[c].reorder(ki, ko)
    with pytest.raises(tw.ScheduleError, match=r"TW0280: cannot vectorize 'k\.inner'"):
        s[c].vectorize(ki)
    with pytest.raises(tw.ScheduleError, match=r"TW0280: cannot make parallel 'k\.outer'"):
        s[c].parallel(ko)
    with pytest.raises(tw.ScheduleError, match="TW0281: cannot reorder i and x"):
        s[c].reorder(i, axis(c, "x"))
    with pytest.raises(tw.ScheduleError, match=r"TW0281: cannot fuse k\.inner and x"):
        s[c].fuse(ki, axis(c, "x"))
    assert state(s) == before
    s[c].parallel(i)


@te.hybrid.script
def wave(a):
    """Every row from the one before: rows follow each other, columns of a row are free."""
    n, m = a.shape[0], a.shape[1]
    c = output_tensor((n, m), a.dtype)
    for j in range(m):
        c[0, j] = a[0, j]
    for t in range(1, n):
        for x in range(1, m - 1):
            c[t, x] = c[t - 1, x - 1] + c[t - 1, x + 1] - a[t, x]
    return c


@pytest.mark.parametrize("n, m", [(1, 1), (2, 3), (5, 9), (7, 17)])
def test_a_wave(n: int, m: int) -> None:
    a = np.random.default_rng(n).integers(-5, 5, (n, m)).astype("int32")
    expected = np.zeros_like(a)
    expected[0] = a[0]
    for t in range(1, n):
        expected[t, 1:-1] = expected[t - 1, :-2] + expected[t - 1, 2:] - a[t, 1:-1]

    def schedule(s, outputs):
        (c,) = outputs
        t, x = axis(c, "t"), axis(c, "x")
        if n > 2:  # one row has no other to depend on
            with pytest.raises(tw.ScheduleError, match="TW0280"):
                s[c].parallel(t)
            with pytest.raises(tw.ScheduleError, match="TW0280: cannot reorder x and t"):
                s[c].reorder(x, t)
        xo, xi = s[c].split(x, 4)
        s[c].vectorize(xi)
        s[c].parallel(xo)

    agree(wave, [a], expected, schedule)


@te.hybrid.script
def blocks(a):
    """Iterations write blocks of their own: 4 i + j with j below 4."""
    c = output_tensor((a.shape[0] * 4,), a.dtype)
    for i in range(a.shape[0]):
        for j in range(4):
            c[4 * i + j] = a[i] + j
        for j in range(3):
            c[4 * i + j + 1] += c[4 * i + j]
    return c


def test_blocks_are_written_in_parallel() -> None:
    a = np.arange(7, dtype="int32") * 10
    expected = np.cumsum(a[:, None] + np.arange(4), axis=1).reshape(-1).astype("int32")

    def schedule(s, outputs):
        (c,) = outputs
        with pytest.raises(tw.ScheduleError, match="TW0280"):
            s[c].vectorize(c.op.axis[1])  # of loops after each other the last one comes first
        s[c].parallel(c.op.axis[0])
        s[c].vectorize(c.op.axis[2])

    agree(blocks, [a], expected, schedule)


@te.hybrid.script
def scatter(a, order):
    c = output_tensor(a.shape, a.dtype)
    for i in range(a.shape[0]):
        c[order[i]] = a[i]
    return c


@te.hybrid.script
def scatter_parallel(a, order):
    c = output_tensor(a.shape, a.dtype)
    for i in parallel(a.shape[0]):
        c[order[i]] = a[i]
    return c


def test_what_nobody_can_prove_stays_serial() -> None:
    a, order = floats(9), np.random.default_rng(0).permutation(9).astype("int32")
    expected = np.zeros_like(a)
    expected[order] = a

    def refused(s, outputs):
        with pytest.raises(tw.ScheduleError, match=r"`for i in parallel\(...\)` and atomic_add let iterations meet"):
            s[outputs[0]].parallel(outputs[0].op.axis[0])

    agree(scatter, [a, order], expected, refused)
    with pytest.raises(
        tw.TensorExpressionError, match=r"(?s)TW0159.*may meet in an element of 'c'.*written depends on data"
    ):
        scatter_parallel(te.placeholder((9,), name="a"), te.placeholder((9,), "int32", name="order"))


@te.hybrid.script
def triangle(a):
    n = a.shape[0]
    out = output_tensor((n, n), a.dtype)
    for i in range(n):
        for j in range(i, n):
            out[i, j] = a[j] * a[i]
    return out


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("n", [0, 1, 5, 13])
def test_triangles(n: int, symbolic: bool) -> None:
    a = floats(n)

    def schedule(s, outputs):
        (c,) = outputs
        i, j = c.op.axis
        if n > 1 or symbolic:
            with pytest.raises(tw.ScheduleError, match="TW0208: cannot fuse i, j"):
                s[c].fuse(i, j)
            with pytest.raises(tw.ScheduleError, match="TW0207: cannot reorder the loops"):
                s[c].reorder(j, i)
        io, ii = s[c].split(i, 4)
        jo, ji = s[c].split(j, 3)
        if n > 1 or symbolic:
            with pytest.raises(tw.ScheduleError, match="TW0207: cannot reorder the loops"):
                s[c].reorder(jo, ii)
        s[c].reorder(io, ii, jo, ji)
        s[c].parallel(io)

    agree(triangle, [a], np.triu(np.outer(a, a)), schedule, symbolic=symbolic)


def test_a_loop_around_all_others() -> None:
    a, b = floats(3), floats(4, seed=1)

    def schedule(s, outputs):
        s[outputs[0]].pragma(s[outputs[0]].fuse(), "auto_unroll_max_step", 4)

    agree(outer_product, [a, b], np.outer(a, b), schedule)


# Between other stages


def test_producers_and_consumers() -> None:
    x, y = floats(6, 5), floats(5, 7, seed=1)
    expected = np.maximum((x + 1) @ (y * 2), 0).sum(axis=1)
    for placed in ("root", "inline", "cached", "at"):
        A, B = te.placeholder((6, 5), name="A"), te.placeholder((5, 7), name="B")
        P = te.compute((6, 5), lambda i, j: A[i, j] + 1, name="P")
        Q = te.compute((5, 7), lambda i, j: B[i, j] * 2, name="Q")
        C = matmul(P, Q)
        R = te.compute((6, 7), lambda i, j: te.max(C[i, j], 0), name="R")
        k = te.reduce_axis((0, 7), "k")
        S = te.compute((6,), lambda i: te.sum(R[i, k], axis=k), name="S")
        s = te.create_schedule(S.op)
        if placed == "inline":
            s[P].compute_inline()
            s[Q].compute_inline()
            s[R].compute_inline()
        elif placed == "cached":
            cache = s.cache_read(C, "local", [R])
            s[cache].compute_at(s[R], R.op.axis[0])
            copied = s.cache_read(P, "global", [C])
            s[copied].vectorize(s[copied].op.axis[1])
        elif placed == "at":
            s[C].compute_at(s[R], R.op.axis[0])  # all of it, for each row
            s[P].compute_at(s[R], R.op.axis[0])
            s[R].parallel(R.op.axis[0])
        for target in ("interpret", "llvm"):
            found = np.full(6, 9, "float32")
            tw.build(s, [A, B, S], target=target)(x, y, found)
            np.testing.assert_allclose(found, expected, rtol=1e-5, err_msg=placed)


def test_an_intermediate_is_allocated_and_an_output_is_passed() -> None:
    A = te.placeholder((4,), name="A")
    B = te.placeholder((3,), name="B")
    C = outer_product(A, B)
    D = te.compute((4, 3), lambda i, j: C[i, j] + 1, name="D")
    text = str(tw.lower(te.create_schedule(D.op), [A, B, D]))
    assert "c: float32[4, 3]\n" in text and "out float32[4, 3]" in text
    both = tw.lower(te.create_schedule([C.op, D.op]), [A, B, C, D])
    assert "c: out float32[4, 3]" in str(both)


def test_several_outputs_are_one_stage() -> None:
    @te.hybrid.script
    def extremes(a):
        low = output_tensor((a.shape[0],), a.dtype)
        both = output_tensor((a.shape[0], 2), a.dtype)
        for i in range(a.shape[0]):
            least, most = a[i, 0], a[i, 0]
            for j in range(a.shape[1]):
                least = min(least, a[i, j])
                most = max(most, a[i, j])
            low[i] = least
            both[i, 0] = least
            both[i, 1] = most
        return low, both

    x = floats(5, 7)
    agree(
        extremes,
        [x],
        [x.min(1), np.stack([x.min(1), x.max(1)], 1)],
        lambda s, out: s[out[0]].parallel(axis(out[0], "i")),
    )
    low, both = extremes(te.placeholder((5, 7), name="a"))
    s = te.create_schedule(low.op)
    assert s[low] is s[both]


# Refusals


def test_primitives_that_scripts_do_not_have() -> None:
    a, b = te.placeholder((8, 8), name="a"), te.placeholder((8, 8), name="b")
    P = te.compute((8, 8), lambda i, j: a[i, j] + 1, name="P")
    C = matmul(P, b)
    D = te.compute((8, 8), lambda i, j: C[i, j] + 1, name="D")
    s = te.create_schedule(D.op)
    i, k = axis(C, "i"), axis(C, "k")
    before = state(s)
    with pytest.raises(tw.ScheduleError, match="TW0282: cannot compute P at stage matmul"):
        s[P].compute_at(s[C], i)
    with pytest.raises(tw.ScheduleError, match="TW0282: cannot cache writes of stage matmul"):
        s.cache_write(C, "local")
    with pytest.raises(tw.ScheduleError, match="TW0221: cannot factor stage matmul"):
        s.rfactor(C, k)
    with pytest.raises(tw.ScheduleError, match="TW0210: cannot inline stage matmul"):
        s[C].compute_inline()
    with pytest.raises(tw.ScheduleError, match="TW0282: cannot tensorize 'i' of stage matmul"):
        s[C].tensorize(i, tensor_intrin())
    with pytest.raises(tw.ScheduleError, match="TW0282: cannot set the store predicate of stage matmul"):
        s[C].set_store_predicate(i.equal(0))
    with pytest.raises(tw.ScheduleError, match="TW0282: cannot align the stride of 'i' of stage matmul"):
        s[C].storage_align(i, 8, 1)
    assert state(s) == before


def tensor_intrin():
    x = te.placeholder((4,), name="x")
    y = te.compute((4,), lambda i: x[i] + 1, name="y")

    def body(ins, outs):
        ib = tw.ir_builder()
        with ib.for_range(0, 4) as i:
            ib.emit(outs[0].vstore([i], ins[0].vload([i]) + 1))
        return ib.get()

    return te.decl_tensor_intrin(y.op, body)


# Records


def test_records_copies_and_python_make_the_same_program() -> None:
    n = te.size_var("n")
    a, b = te.placeholder((n,), name="a"), te.placeholder((n,), name="b")
    c = outer_product(a, b)
    s = te.create_schedule(c.op)
    i, j = c.op.axis
    io, ii = s[c].split(i, 4)
    s[c].reorder(j, ii)
    s[c].parallel(io)
    text = str(tw.lower(s, [a, b, c]))
    assert str(tw.lower(copy(s), [a, b, c])) == text
    assert str(tw.lower(te.Schedule.replay(s.records, c.op), [a, b, c])) == text
    names: dict = {"te": te, "ops": c.op}
    exec(s.as_python(), names)
    assert str(tw.lower(names["s"], [a, b, c])) == text
    other = outer_product(a, b)
    assert str(tw.lower(te.Schedule.replay(s.records, other.op), [a, b, other])) == text
    assert "for j in n:" in str(s)


def test_the_text_of_a_lowered_script_reads_back() -> None:
    from tilewright.ir.text.parser import parse

    a = te.placeholder((5,), name="a")
    c = triangle(a)
    text = str(tw.lower(te.create_schedule(c.op), [a, c]))
    assert str(parse(text)) == text


# GPUs


@te.hybrid.script
def add_on_threads(a, b):
    c = output_tensor(a.shape, a.dtype)
    for block in bind("blockIdx.x", ceil_div(a.shape[0], 32)):
        for thread in bind("threadIdx.x", 32):
            if block * 32 + thread < a.shape[0]:
                c[block * 32 + thread] = a[block * 32 + thread] + b[block * 32 + thread]
    return c


@te.hybrid.script
def through_shared(a):
    c = output_tensor((64,), "float32")
    for _block in bind("blockIdx.x", 1):
        shared = allocate((64,), "float32", "shared")
        for thread in bind("threadIdx.x", 64):
            shared[thread] = a[thread]
        for thread in bind("threadIdx.x", 64):
            c[thread] = shared[63 - thread]
    return c


@te.hybrid.script
def one_block(a, b):
    c = output_tensor(a.shape, "float32")
    shared = allocate(a.shape, "float32", "shared")
    for thread in bind("threadIdx.x", a.shape[0]):
        shared[thread] = a[thread]
    own = allocate(b.shape, "float32", "local")
    for thread in bind("threadIdx.x", a.shape[0]):
        own[thread] = b[thread]
    for thread in bind("threadIdx.x", a.shape[0]):
        c[thread] = shared[a.shape[0] - 1 - thread] + own[thread]
    return c


@pytest.mark.parametrize("n", [1, 37, 256])
def test_loops_of_one_blocks_threads_share_memory(n: int) -> None:
    """They were a kernel each, and shared memory between them was refused."""
    a, b = floats(n), floats(n, seed=1)
    agree(one_block, [a, b], a[::-1] + b, targets=("interpret", "cuda -emulate"))


@pytest.mark.parametrize("n", [1, 31, 32, 77])
def test_loops_on_threads_as_the_script_says(n: int) -> None:
    a, b = floats(n), floats(n, seed=1)
    agree(add_on_threads, [a, b], a + b, targets=("interpret", "cuda -emulate"))


def test_threads_meet_before_they_read_what_others_wrote() -> None:
    a = floats(64)
    agree(through_shared, [a], a[::-1], targets=("interpret", "cuda -emulate"))


def test_loops_bound_by_a_schedule() -> None:
    a, b = floats(13), floats(9, seed=1)

    def schedule(s, outputs):
        (c,) = outputs
        i, j = c.op.axis
        s[c].bind(i, te.thread_axis("blockIdx.x"))
        s[c].bind(j, te.thread_axis("threadIdx.x"))

    agree(outer_product, [a, b], np.outer(a, b), schedule, targets=("cuda -emulate", "interpret"))
    c = matmul(te.placeholder((4, 4), name="a"), te.placeholder((4, 4), name="b"))
    with pytest.raises(tw.ScheduleError, match=r"TW0280: cannot bind to threadIdx.x 'k' of stage matmul"):
        te.create_schedule(c.op)[c].bind(axis(c, "k"), te.thread_axis("threadIdx.x"))


# Loops after each other


@te.hybrid.script
def two_nests(a):
    n, m = a.shape[0], a.shape[1]
    c = output_tensor((n, m), a.dtype)
    d = output_tensor((m,), a.dtype)
    for i in range(n):
        for j in range(m):
            c[i, j] = a[i, j] * 2
    for k in range(m):
        for l in range(n):
            d[k] += c[l, k]
    return c, d


def test_loops_after_each_other_are_parallel_each() -> None:
    a = np.random.default_rng(0).integers(-9, 9, (7, 11)).astype("int32")

    def schedule(s, outputs):
        c, _ = outputs
        i, j, k, l = (axis(c, name) for name in "ijkl")
        assert s[c].op.axis == (k, l, i, j)  # TVM's order: of loops after each other the last one comes first
        s[c].parallel(i)
        s[c].parallel(k)
        with pytest.raises(tw.ScheduleError, match="TW0209: cannot make 'j' of stage two_nests parallel"):
            s[c].parallel(j)
        with pytest.raises(tw.ScheduleError, match="TW0280: cannot vectorize 'l'"):
            s[c].vectorize(l)

    agree(two_nests, [a], [a * 2, (a * 2).sum(0).astype("int32")], schedule)


def test_messages_show_the_loops_as_they_stand_in_the_script() -> None:
    c, _ = two_nests(te.placeholder((7, 11), name="a"))
    s = te.create_schedule(c.op)
    s[c].split(axis(c, "i"), 4)
    s[c].parallel(axis(c, "k"))
    with pytest.raises(tw.ScheduleError, match=r"own \(i\.outer, i\.inner, j, k\), or leave l serial") as error:
        s[c].parallel(axis(c, "l"))
    assert (
        error.value.loops
        == """\
for i.outer in 2:
  for i.inner in 4:
    for j in 11:
for k in 11:            # parallel
  for l in 7:
      ^"""
    )


def test_loops_after_each_other_run_on_the_same_threads() -> None:
    a = np.random.default_rng(0).integers(-9, 9, (7, 8)).astype("int32")

    def schedule(s, outputs):
        c, _ = outputs
        s[c].bind(axis(c, "i"), te.thread_axis("blockIdx.x"))
        with pytest.raises(tw.ScheduleError, match="TW0212"):
            s[c].bind(axis(c, "j"), te.thread_axis("blockIdx.x"))
        s[c].bind(axis(c, "j"), te.thread_axis("threadIdx.x"))
        s[c].bind(axis(c, "k"), te.thread_axis("threadIdx.x"))

    agree(two_nests, [a], [a * 2, (a * 2).sum(0).astype("int32")], schedule, targets=("cuda -emulate", "interpret"))


# Looking and checking


@te.hybrid.script
def counted(values, bins):
    counts = output_tensor((bins,), "int32")
    for i in range(values.shape[0]):
        counts[values[i]] += 1
    total = 0
    for b in range(bins):
        total += counts[b]
        counts[b] = total
    return counts


def test_schedules_of_scripts_are_verified_explained_and_shown() -> None:
    """What is drawn for values are places of bins, since they are read as such."""
    V = te.placeholder((40,), "int32", name="V")
    C = counted(V, 16)
    assert [str(extent) for extent in C.op.data_indexed] == ["16", "16"]
    s = te.create_schedule(C.op)
    s[C].split(axis(C, "i"), 7)
    assert "native code: counts[16]" in str(s.verify())
    assert "counts.ax0: all 16" in str(s.explain(C)) and "recompute factor: 1 " in str(s.explain(C))
    options = str(s.options(C))
    assert "its iterations may meet in an element: counts[V[i]] (TW0280)" in options
    assert "counts" in page(s)


def test_tuning_a_script_draws_places(tmp_path) -> None:
    from tilewright import autotune

    V = te.placeholder((40,), "int32", name="V")
    C = counted(V, 16)
    result = autotune.tune([V, C], trials=1, database=tmp_path / "tune.sqlite")
    assert result.best.seconds > 0


def chain():
    """D = 2 (A + 1) B, the product being a script."""
    A, B = te.placeholder((6, 5), name="A"), te.placeholder((5, 7), name="B")
    P = te.compute((6, 5), lambda i, j: A[i, j] + 1, name="P")
    C = matmul(P, B)
    D = te.compute((6, 7), lambda i, j: C[i, j] * 2, name="D")
    return te.create_schedule(D.op), A, B, P, C, D


def run_chain(s, A, B, D, target: str) -> None:
    x, y = floats(6, 5), floats(5, 7, seed=1)
    found = np.full((6, 7), 9, "float32")
    tw.build(s, [A, B, D], target=target)(x, y, found)
    np.testing.assert_allclose(found, (x + 1) @ y * 2, rtol=1e-5, atol=1e-5)


def at_blocks(s, P, C, D) -> None:
    """All of the product in every block, by its threads."""
    s[D].bind(D.op.axis[0], te.thread_axis("blockIdx.x"))
    s[D].bind(D.op.axis[1], te.thread_axis("threadIdx.x"))
    s[C].compute_at(s[D], D.op.axis[0])
    s[P].compute_inline()
    for name in "yj":
        s[C].bind(axis(C, name), te.thread_axis("threadIdx.x"))


def double_buffered(s, P, C, D) -> None:
    s[C].compute_at(s[D], D.op.axis[0])
    s[C].double_buffer()


def grouped(s, P, C, D) -> None:
    s.create_group(outputs=[C], inputs=[P], include_inputs=True).compute_at(s[D], D.op.axis[0])


@pytest.mark.parametrize(
    "schedule, targets",
    [
        (at_blocks, ("cuda -emulate", "interpret")),
        (double_buffered, ("interpret", "llvm")),
        (grouped, ("interpret",)),
        (lambda s, P, C, D: s[C].tile(axis(C, "i"), axis(C, "j"), 2, 3), ("llvm",)),
        (lambda s, P, C, D: s[C].set_scope("local"), ("interpret",)),
        (lambda s, P, C, D: s[C].bind(axis(C, "i"), te.thread_axis("vthread")), ("interpret", "llvm")),
        (lambda s, P, C, D: s[C].pragma(axis(C, "k"), "unroll_explicit", True), ("llvm",)),
    ],
    ids=["blocks", "double buffer", "group", "tile", "scope", "vthread", "pragma"],
)
def test_primitives_of_placement_and_storage(schedule, targets) -> None:
    s, A, B, P, C, D = chain()
    schedule(s, P, C, D)
    assert s.records
    for target in targets:
        run_chain(s, A, B, D, target)
        run_chain(te.Schedule.replay(s.records, D.op), A, B, D, target)


def test_a_normalized_schedule() -> None:
    s, A, B, P, C, D = chain()
    s[P].compute_inline()
    s[C].split(axis(C, "i"), 4)
    run_chain(s.normalize(), A, B, D, "interpret")


def test_primitives_that_need_an_expression_for_each_element() -> None:
    s, _, _, P, C, D = chain()
    before = state(s)
    with pytest.raises(tw.ScheduleError, match="TW0253: cannot transform the layout of matmul"):
        s[C].transform_layout(lambda i, j: (j, i))
    with pytest.raises(tw.ScheduleError, match="TW0252: cannot give stage matmul a rolling buffer"):
        s[C].rolling_buffer()
    with pytest.raises(tw.ScheduleError, match="TW0282: cannot prefetch at 'i' of stage matmul"):
        s[C].prefetch(P, axis(C, "i"), 1)
    assert state(s) == before


def test_lanes_that_wait_for_each_other_are_warned_of() -> None:
    @te.hybrid.script
    def escape(a: Any) -> Any:
        b = output_tensor((64,), "int32")
        for i in range(64):
            count = 0
            x = a[i]
            for _k in range(50):
                if x > 4.0:
                    break
                x = x * x
                count = count + 1
            b[i] = count
        return b

    A = te.placeholder((64,), name="A")
    B = escape(A)
    s = te.create_schedule(B.op)
    outer, inner = s[B].split(B.op.axis[0], 16)
    with pytest.warns(
        tw.PerformanceWarning, match=r"lanes of i\.inner that leave the loop over _k early wait for the last of them"
    ):
        s[B].vectorize(inner)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        s[B].parallel(outer)
        te.Schedule.replay(s.records, B.op)
        tw.build([A, B])


@te.hybrid.script
def twice(a):
    b = output_tensor(a.shape, "int32")
    for i in range(a.shape[0]):
        b[i] = a[i]
    for i_1 in range(a.shape[0]):
        b[i_1] = b[i_1] + 1
    for i in range(a.shape[0]):
        b[i] = b[i] * 2
    return b


def test_loops_of_one_name_are_told_apart():
    """Which of two loops over `i` had been made parallel could be seen by its place alone."""
    A = te.placeholder((8,), "int32", name="A")
    B = twice(A)
    s = te.create_schedule(B.op)
    assert [axis.name for axis in B.op.axis] == ["i_2", "i_1", "i"]
    s[B].parallel(B.op.axis[0])
    assert "for i_2 in parallel(8):" in str(s) and "for i in 8:" in str(s)
    assert "parallel(i_2)" in s.as_python()
