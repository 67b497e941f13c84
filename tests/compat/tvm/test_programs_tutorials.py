"""Programs in the manner of TVM's tutorials, on tensors, reductions and primitives: only the import lines differ."""

from __future__ import annotations

import numpy as np
import pytest
from tilewright.compat import tvm
from tilewright.compat.tvm import te


def test_get_started_compares_schedules_and_keeps_a_log() -> None:
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.placeholder((n,), name="B")
    C = te.compute(A.shape, lambda i: A[i] + B[i], name="C")
    assert isinstance(C, te.Tensor)
    tgt = tvm.target.Target(target="llvm", host="llvm")
    dev = tvm.device(tgt.kind.name, 0)
    size = 32768
    a = tvm.nd.array(np.random.uniform(size=size).astype(A.dtype), dev)
    b = tvm.nd.array(np.random.uniform(size=size).astype(B.dtype), dev)
    c = tvm.nd.array(np.zeros(size, dtype=C.dtype), dev)
    log = []

    def evaluate_addition(func, target, optimization, log):
        dev = tvm.device(target.kind.name, 0)
        evaluator = func.time_evaluator(func.entry_name, dev, number=10)
        mean_time = evaluator(a, b, c).mean
        log.append((optimization, mean_time))

    s = te.create_schedule(C.op)
    naive = tvm.build(s, [A, B, C], tgt, name="myadd")
    naive(a, b, c)
    tvm.testing.assert_allclose(c.numpy(), a.numpy() + b.numpy())
    evaluate_addition(naive, tgt, "naive", log=log)
    s[C].parallel(C.op.axis[0])
    text = str(tvm.lower(s, [A, B, C], simple_mode=True))
    assert "parallel" in text
    evaluate_addition(tvm.build(s, [A, B, C], tgt, name="myadd_parallel"), tgt, "parallel", log=log)

    s = te.create_schedule(C.op)
    factor = 4
    outer, inner = s[C].split(C.op.axis[0], factor=factor)
    s[C].parallel(outer)
    s[C].vectorize(inner)
    fadd_vector = tvm.build(s, [A, B, C], tgt, name="myadd_parallel")
    c.copyfrom(np.zeros(size, dtype=C.dtype))
    fadd_vector(a, b, c)
    tvm.testing.assert_allclose(c.numpy(), a.numpy() + b.numpy())
    evaluate_addition(fadd_vector, tgt, "vector", log=log)
    assert [name for name, _ in log] == ["naive", "parallel", "vector"]
    assert all(0 < mean < 1 for _, mean in log)


def test_gpu_style_vector_add_runs_on_the_host() -> None:
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.placeholder((n,), name="B")
    C = te.compute(A.shape, lambda i: A[i] + B[i], name="C")
    s = te.create_schedule(C.op)
    bx, tx = s[C].split(C.op.axis[0], factor=64)
    s[C].bind(bx, te.thread_axis("blockIdx.x"))
    s[C].bind(tx, te.thread_axis("threadIdx.x"))
    fadd = tvm.build(s, [A, B, C], "llvm", target_host="llvm", name="myadd")
    for size in (1, 63, 64, 65, 1000):
        a, b = np.random.rand(size).astype("float32"), np.random.rand(size).astype("float32")
        c = tvm.nd.empty((size,), "float32", tvm.cpu())
        fadd(tvm.nd.array(a), tvm.nd.array(b), c)
        tvm.testing.assert_allclose(c.asnumpy(), a + b)


def test_compute_with_tuple_inputs() -> None:
    m, n = te.var("m"), te.var("n")
    A0 = te.placeholder((m, n), name="A0")
    A1 = te.placeholder((m, n), name="A1")
    B0, B1 = te.compute((m, n), lambda i, j: (A0[i, j] + 2, A1[i, j] * 3), name="B")
    s = te.create_schedule(B0.op)
    lowered = tvm.lower(s, [A0, A1, B0, B1], simple_mode=True)
    assert str(lowered)
    f = tvm.build(s, [A0, A1, B0, B1])
    x, y = np.random.rand(3, 5).astype("float32"), np.random.rand(3, 5).astype("float32")
    u, v = tvm.nd.empty((3, 5)), tvm.nd.empty((3, 5))
    f(tvm.nd.array(x), tvm.nd.array(y), u, v)
    tvm.testing.assert_allclose(u.numpy(), x + 2)
    tvm.testing.assert_allclose(v.numpy(), y * 3)


def test_tuple_outputs_read_by_a_third_stage() -> None:
    m, n = te.var("m"), te.var("n")
    A0 = te.placeholder((m, n), name="A0")
    B0, B1 = te.compute((m, n), lambda i, j: (A0[i, j] + 2, A0[i, j] * 3), name="B")
    A1 = te.placeholder((m, n), name="A1")
    C = te.compute((m, n), lambda i, j: A1[i, j] + B0[i, j], name="C")
    s = te.create_schedule(C.op)
    s[B0].compute_at(s[C], C.op.axis[0])
    f = tvm.build(s, [A0, A1, C])
    x, y, c = np.random.rand(6, 4).astype("float32"), np.random.rand(6, 4).astype("float32"), tvm.nd.empty((6, 4))
    f(tvm.nd.array(x), tvm.nd.array(y), c)
    tvm.testing.assert_allclose(c.numpy(), y + (x + 2), rtol=1e-6)


def test_reduction_tutorial_from_rows_to_factored_and_bound() -> None:
    n, m = te.var("n"), te.var("m")
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), "k")
    B = te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="B")
    a = np.random.uniform(size=(65, 130)).astype("float32")

    def check(s):
        f = tvm.build(s, [A, B], "llvm")
        b = tvm.nd.array(np.zeros(65, dtype="float32"))
        f(tvm.nd.array(a), b)
        tvm.testing.assert_allclose(b.numpy(), a.sum(axis=1), rtol=1e-4)

    s = te.create_schedule(B.op)
    check(s)
    ko, ki = s[B].split(B.op.reduce_axis[0], factor=16)
    xo, xi = s[B].split(B.op.axis[0], factor=32)
    check(s)
    s[B].bind(xo, te.thread_axis("blockIdx.x"))
    s[B].bind(xi, te.thread_axis("threadIdx.x"))
    check(s)
    s = te.create_schedule(B.op)
    ko, ki = s[B].split(B.op.reduce_axis[0], factor=16)
    BF = s.rfactor(B, ki)
    check(s)
    assert len(s[B].op.reduce_axis) == 1
    assert [axis.var.name for axis in s[BF].op.axis] == [ki.var.name, "i"]
    xo, xi = s[B].split(s[B].op.axis[0], factor=32)
    s[B].bind(xo, te.thread_axis("blockIdx.x"))
    s[B].bind(xi, te.thread_axis("threadIdx.y"))
    tx = te.thread_axis("threadIdx.x")
    s[B].bind(s[B].op.reduce_axis[0], tx)
    s[BF].compute_at(s[B], s[B].op.reduce_axis[0])
    s[B].set_store_predicate(tx.var.equal(0))
    check(s)


def test_convolution_by_reduction_and_a_general_commutative_reduction() -> None:
    n = te.var("n")
    Input = te.placeholder((n, n), name="Input")
    Filter = te.placeholder((3, 3), name="Filter")
    di, dj = te.reduce_axis((0, 3), name="di"), te.reduce_axis((0, 3), name="dj")
    Output = te.compute(
        (n - 2, n - 2), lambda i, j: te.sum(Input[i + di, j + dj] * Filter[di, dj], axis=[di, dj]), name="Output"
    )
    s = te.create_schedule(Output.op)
    f = tvm.build(s, [Input, Filter, Output])
    x, w = np.random.rand(11, 11).astype("float32"), np.random.rand(3, 3).astype("float32")
    out = tvm.nd.empty((9, 9))
    f(tvm.nd.array(x), tvm.nd.array(w), out)
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3))
    tvm.testing.assert_allclose(out.numpy(), np.einsum("ijab,ab->ij", windows, w), rtol=1e-5)

    m = te.var("m")
    product = te.comm_reducer(lambda x, y: x * y, lambda t: tvm.tir.const(1, dtype=t), name="product")
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), name="k")
    B = te.compute((n,), lambda i: product(A[i, k], axis=k), name="B")
    f = tvm.build(te.create_schedule(B.op), [A, B])
    a, b = np.random.uniform(0.5, 1.5, (4, 9)).astype("float32"), tvm.nd.empty((4,))
    f(tvm.nd.array(a), b)
    tvm.testing.assert_allclose(b.numpy(), a.prod(axis=1), rtol=1e-5)


def _elementwise(n, m):
    A = te.placeholder((n, m), name="A")
    B = te.placeholder((n, m), name="B")
    C = te.compute((n, m), lambda i, j: A[i, j] * B[i, j], name="C")
    return A, B, C


def _primitive_split(s, C):
    s[C].split(C.op.axis[0], factor=32)


def _primitive_nparts(s, C):
    s[C].split(s[C].op.axis[0], nparts=32)


def _primitive_tile(s, C):
    xo, yo, xi, yi = s[C].tile(C.op.axis[0], C.op.axis[1], x_factor=10, y_factor=5)
    assert [axis.var.name for axis in (xo, yo)] == [axis.var.name for axis in s[C].leaf_iter_vars[:2]]


def _primitive_fuse(s, C):
    xo, yo, xi, yi = s[C].tile(C.op.axis[0], C.op.axis[1], x_factor=10, y_factor=5)
    s[C].fuse(xi, yi)


def _primitive_reorder(s, C):
    xo, yo, xi, yi = s[C].tile(C.op.axis[0], C.op.axis[1], x_factor=10, y_factor=5)
    s[C].reorder(xi, yo, xo, yi)


def _primitive_bind(s, C):
    bx, tx = s[C].split(C.op.axis[0], factor=64)
    s[C].bind(bx, te.thread_axis("blockIdx.x"))
    s[C].bind(tx, te.thread_axis("threadIdx.x"))


def _primitive_fuse_all_and_parallel(s, C):
    fused = s[C].fuse(*C.op.axis)
    outer, inner = s[C].split(fused, factor=16)
    s[C].parallel(outer)
    s[C].vectorize(inner)


def _primitive_unroll_and_pragmas(s, C):
    outer, inner = s[C].split(C.op.axis[1], factor=4)
    s[C].unroll(inner)
    s[C].pragma(C.op.axis[0], "auto_unroll_max_step", 16)
    s[C].pragma(outer, "unroll_explicit", True)


@pytest.mark.parametrize(
    "primitive",
    [
        _primitive_split,
        _primitive_nparts,
        _primitive_tile,
        _primitive_fuse,
        _primitive_reorder,
        _primitive_bind,
        _primitive_fuse_all_and_parallel,
        _primitive_unroll_and_pragmas,
    ],
)
def test_schedule_primitives_one_by_one(primitive) -> None:
    n, m = te.var("n"), te.var("m")
    A, B, C = _elementwise(n, m)
    s = te.create_schedule([C.op])
    primitive(s, C)
    assert "for " in str(tvm.lower(s, [A, B, C], simple_mode=True))
    f = tvm.build(s, [A, B, C])
    a, b = np.random.rand(37, 41).astype("float32"), np.random.rand(37, 41).astype("float32")
    c = tvm.nd.empty((37, 41))
    f(tvm.nd.array(a), tvm.nd.array(b), c)
    tvm.testing.assert_allclose(c.numpy(), a * b)


def test_compute_at_inline_and_root_of_the_primitives_tutorial() -> None:
    m = te.var("m")
    A = te.placeholder((m,), name="A")
    B = te.compute((m,), lambda i: A[i] + 1, name="B")
    C = te.compute((m,), lambda i: B[i] * 2, name="C")
    texts = {}

    def keep(name, s):
        texts[name] = str(tvm.lower(s, [A, B, C], simple_mode=True))
        f = tvm.build(s, [A, B, C])
        a, b, c = np.arange(10, dtype="float32"), tvm.nd.empty((10,)), tvm.nd.empty((10,))
        f(tvm.nd.array(a), b, c)
        tvm.testing.assert_allclose(c.numpy(), (a + 1) * 2)

    keep("apart", te.create_schedule(C.op))
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], C.op.axis[0])
    keep("at", s)
    s[B].compute_root()
    keep("root", s)
    assert texts["root"] == texts["apart"] != texts["at"]
    s = te.create_schedule(C.op)
    s[B].compute_inline()
    text = str(tvm.lower(s, [A, C], simple_mode=True))
    assert "B" not in text.split(":", 1)[1]


def test_intrinsics_and_math_functions() -> None:
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute(A.shape, lambda i: te.exp(A[i]), name="B")
    s = te.create_schedule(B.op)
    bx, tx = s[B].split(B.op.axis[0], factor=64)
    s[B].bind(bx, te.thread_axis("blockIdx.x"))
    s[B].bind(tx, te.thread_axis("threadIdx.x"))
    f = tvm.build(s, [A, B], "llvm", name="myexp")
    a, b = np.linspace(-3, 3, 101, dtype="float32"), tvm.nd.empty((101,))
    f(tvm.nd.array(a), b)
    tvm.testing.assert_allclose(b.numpy(), np.exp(a), rtol=1e-5)
    for unary, reference in (
        (te.tanh, np.tanh),
        (te.log1p, np.log1p),
        (te.sqrt, np.sqrt),
        (tvm.tir.floor, np.floor),
        (tvm.tir.sigmoid, lambda x: 1 / (1 + np.exp(-x))),
        (tvm.tir.abs, np.abs),
    ):
        C = te.compute(A.shape, lambda i: unary(A[i] + 4), name="C")
        f = tvm.build(te.create_schedule(C.op), [A, C])
        c = tvm.nd.empty((101,))
        f(tvm.nd.array(a), c)
        tvm.testing.assert_allclose(c.numpy(), reference(a + 4), rtol=1e-5, atol=1e-6)


def test_names_from_before_tvm_te() -> None:
    n = tvm.var("n")
    A = tvm.placeholder((n, 8), name="A")
    k = tvm.reduce_axis((0, 8), "k")
    B = tvm.compute((n,), lambda i: tvm.sum(A[i, k] * tvm.const(2, "float32"), axis=k), name="B")
    C = tvm.compute((n,), lambda i: tvm.select(B[i] > 3.0, tvm.max(B[i], 4.0), tvm.exp(tvm.min(B[i], 1.0))), name="C")
    s = tvm.create_schedule(C.op)
    xo, xi = s[C].split(C.op.axis[0], 4)
    s[C].bind(xo, tvm.thread_axis("blockIdx.x"))
    s[C].bind(xi, tvm.thread_axis("threadIdx.x"))
    s[B].compute_at(s[C], xi)
    with tvm.target.create("llvm"):
        f = tvm.build(s, [A, C])
    ctx = tvm.context("llvm", 0)
    a = np.random.rand(6, 8).astype("float32")
    c = tvm.nd.array(np.zeros(6, "float32"), ctx=ctx)
    f(tvm.nd.array(a, ctx), c)
    total = (a * 2).sum(axis=1)
    expected = np.where(total > 3, np.maximum(total, 4), np.exp(np.minimum(total, 1)))
    tvm.testing.assert_allclose(c.asnumpy(), expected, rtol=1e-5)


def test_tags_attributes_and_auto_inline() -> None:
    n = 12
    A = te.placeholder((n, n), name="A")
    with te.tag_scope(tag="broadcast"):
        B = te.compute((n, n), lambda i, j: A[i, 0] + 1.0, name="B")
    with te.tag_scope(tag="injective"):
        C = te.compute((n, n), lambda i, j: B[j, i] * 2.0, name="C")
    with te.tag_scope(tag="elemwise"):
        D = te.compute((n, n), lambda i, j: te.sqrt(C[i, j]), name="D", attrs={"why": "root"})
    assert (B.op.tag, C.op.tag, D.op.tag, D.op.attrs["why"]) == ("broadcast", "injective", "elemwise", "root")

    @te.tag_scope(tag="mine")
    def scaled(x):
        return te.compute(x.shape, lambda *i: x(*i) * 3.0, name="E")

    E = scaled(D)
    assert E.op.tag == "mine"
    a = np.random.rand(n, n).astype("float32")
    expected = 3 * np.sqrt(2 * (a[:, :1] + 1).repeat(n, 1).T)
    gone = {}
    for helper in (te.schedule.AutoInlineElemWise, te.schedule.AutoInlineBroadcast, te.schedule.AutoInlineInjective):
        s = te.create_schedule(E.op)
        helper(s)
        gone[helper.__name__] = [stage.op.name for stage in s.stages if stage.attach_type in ("inline", "inlined")]
        f = tvm.build(s, [A, E])
        e = tvm.nd.empty((n, n))
        f(tvm.nd.array(a), e)
        tvm.testing.assert_allclose(e.numpy(), expected, rtol=1e-5)
    assert "C" not in gone["AutoInlineElemWise"]
    assert set(gone["AutoInlineInjective"]) == {"B", "C", "D"}


def test_infer_bound_of_tiled_attached_stages() -> None:
    n = 64
    A = te.placeholder((n + 2, n + 2), name="A")
    B = te.compute((n + 2, n), lambda y, x: A[y, x] + A[y, x + 1] + A[y, x + 2], name="B")
    C = te.compute((n, n), lambda y, x: B[y, x] + B[y + 1, x] + B[y + 2, x], name="C")
    s = te.create_schedule(C.op)
    yo, xo, yi, xi = s[C].tile(C.op.axis[0], C.op.axis[1], 8, 16)
    s[B].compute_at(s[C], xo)
    s = s.normalize()
    bounds = tvm.te.schedule.InferBound(s)
    assert isinstance(bounds, dict) or len(bounds)
    assert [bounds[axis].extent.value for axis in B.op.axis] == [10, 16]
    assert [int(bounds[axis].extent) for axis in (yo, xo, yi, xi)] == [8, 4, 8, 16]
    assert bounds[C.op.axis[0]].min.value == 0


def test_what_a_schedule_and_its_stages_show() -> None:
    A = te.placeholder((8, 8), name="A")
    B = te.compute((8, 8), lambda i, j: A[i, j] + 1, name="B")
    C = te.compute((8, 8), lambda i, j: B[i, j] * 2, name="C")
    s = te.create_schedule(C.op)
    assert [stage.op.name for stage in s.stages] == ["A", "B", "C"]
    assert s.outputs[0] == C.op
    outer, inner = s[C].split(C.op.axis[0], 4)
    assert list(s[C].leaf_iter_vars)[:2] == [outer, inner]
    assert len(s[C].all_iter_vars) == 4
    assert len(s[C].relations) == 1
    assert s[C].relations[0].parent == C.op.axis[0]
    assert isinstance(s[B].op, te.ComputeOp)
    assert isinstance(A.op, te.PlaceholderOp)
    assert isinstance(s[B].op, tvm.te.tensor.ComputeOp)
    assert s[B].op.input_tensors[0] == A
    assert s[B].op.body[0].dtype == "float32"
    assert B.op.output(0) == B
    assert B.op.num_outputs == 1
    assert B.shape[0].value == 8
    assert [int(x) for x in B.shape] == [8, 8]
    assert s[B].origin_op is B.op
    axis = C.op.axis[0]
    assert axis.dom.extent.value == 8
    assert axis.var.name == "i"
