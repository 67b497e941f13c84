"""Programs for "cuda" where there is no GPU: TILEWRIGHT_EMULATE gives them the emulated one."""

from __future__ import annotations

import numpy as np
import pytest
from tilewright.compat import tvm
from tilewright.compat.tvm import te
from tilewright.compat.tvm.contrib import nvcc


@pytest.fixture
def emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_EMULATE", "1")


@pytest.mark.usefixtures("emulated")
def test_a_kernel_and_its_arrays_are_on_the_emulated_gpu() -> None:
    dev = tvm.cuda(0)
    assert dev.exist and tvm.device("cuda").exist and nvcc.have_tensorcore(dev.compute_version)
    assert dev.max_threads_per_block == 1024 and dev.max_shared_memory_per_block == 48 * 1024 and dev.warp_size == 32
    with tvm.target.Target("cuda"):
        target = tvm.target.current_target(allow_none=False)
    assert (
        target.max_num_threads == 1024
        and target.thread_warp_size == 32
        and tvm.target.Target("llvm").max_num_threads == 1
    )
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * 3, name="B")
    s = te.create_schedule(B.op)
    block, thread = s[B].split(B.op.axis[0], factor=32)
    s[B].bind(block, te.thread_axis("blockIdx.x"))
    s[B].bind(thread, te.thread_axis("threadIdx.x"))
    f = tvm.build(s, [A, B], "cuda", name="triple")
    a = tvm.nd.array(np.arange(45, dtype="float32"), dev)
    b = tvm.nd.empty((45,), "float32", dev)
    f(a, b)
    dev.sync()
    np.testing.assert_array_equal(b.numpy(), 3 * a.numpy())
    assert "__global__" in f.imported_modules[0].get_source()
    timed = f.time_evaluator(f.entry_name, dev, number=10**9, repeat=2)(a, b)
    assert timed.mean > 0 and len(timed.results) == 2 and timed.number == 1, (
        "each repeat is one call where times say nothing"
    )


def test_a_gpu_that_is_not_there_has_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TILEWRIGHT_EMULATE", raising=False)
    far = tvm.cuda(63)
    assert not far.exist and far.compute_version is None and far.max_threads_per_block is None


def _load(scope: str, rows: int, columns: int, order: str = "row_major"):
    A = te.placeholder((rows, columns), "float16", "A")
    C = te.compute((rows, columns), lambda i, j: A[i, j], name="C")
    size = rows * columns
    binds = {
        A: tvm.tir.decl_buffer(A.shape, A.dtype, scope="shared", data_alignment=32, offset_factor=size),
        C: tvm.tir.decl_buffer(C.shape, C.dtype, scope=scope, data_alignment=32, offset_factor=size),
    }

    def body(ins, outs):
        ib = tvm.tir.ir_builder.create()
        ib.emit(
            tvm.tir.call_intrin(
                "handle",
                "tir.tvm_load_matrix_sync",
                outs[0].data,
                rows,
                columns,
                16,
                outs[0].elem_offset // size,
                ins[0].access_ptr("r"),
                columns,
                order,
            )
        )
        return ib.get()

    return te.decl_tensor_intrin(C.op, body, binds=binds)


def _product(m: int, n: int):
    A, B = te.placeholder((m, 16), "float16", "A"), te.placeholder((16, n), "float16", "B")
    k = te.reduce_axis((0, 16), "k")
    C = te.compute((m, n), lambda i, j: te.sum(A[i, k].astype("float") * B[k, j].astype("float"), axis=k), name="C")
    binds = {
        T: tvm.tir.decl_buffer(T.shape, T.dtype, scope=scope, offset_factor=m * n)
        for T, scope in ((A, "wmma.matrix_a"), (B, "wmma.matrix_b"), (C, "wmma.accumulator"))
    }

    def body(ins, outs):
        def call(name, *args):
            ib = tvm.tir.ir_builder.create()
            ib.emit(tvm.tir.call_intrin("handle", name, *args))
            return ib.get()

        begin = call("tir.tvm_fill_fragment", outs[0].data, m, n, 16, 0, 0.0)
        go_on = call("tir.tvm_mma_sync", outs[0].data, 0, ins[0].data, 0, ins[1].data, 0, outs[0].data, 0)
        return go_on, begin, go_on

    return te.decl_tensor_intrin(C.op, body, binds=binds)


def _store(m: int, n: int):
    A = te.placeholder((m, n), name="A")
    C = te.compute((m, n), lambda i, j: A[i, j], name="C")
    binds = {
        A: tvm.tir.decl_buffer(A.shape, A.dtype, scope="wmma.accumulator"),
        C: tvm.tir.decl_buffer(C.shape, C.dtype),
    }

    def body(ins, outs):
        ib = tvm.tir.ir_builder.create()
        ib.emit(
            tvm.tir.call_intrin(
                "handle", "tir.tvm_store_matrix_sync", ins[0].data, m, n, 16, 0, outs[0].access_ptr("w"), n, "row_major"
            )
        )
        return ib.get()

    return te.decl_tensor_intrin(C.op, body, binds=binds)


@pytest.mark.usefixtures("emulated")
@pytest.mark.parametrize(("m", "n"), [(16, 16), (32, 8)])
def test_matrices_of_tensor_cores(m: int, n: int) -> None:
    # Two tiles along each of m, n and k, in blocks of their own dimensions.
    A = te.placeholder((2, 2, m, 16), "float16", "A")
    B = te.placeholder((2, 2, 16, n), "float16", "B")
    ko, ki = te.reduce_axis((0, 2), "ko"), te.reduce_axis((0, 16), "ki")
    C = te.compute(
        (2, 2, m, n),
        lambda i, j, ii, jj: te.sum(A[i, ko, ii, ki].astype("float") * B[ko, j, ki, jj].astype("float"), axis=[ko, ki]),
        name="C",
    )
    s = te.create_schedule(C.op)
    shared = [s.cache_read(T, "shared", [C]) for T in (A, B)]
    AF, BF = (s.cache_read(T, f"wmma.matrix_{which}", [C]) for T, which in zip(shared, "ab", strict=True))
    CF = s.cache_write(C, "wmma.accumulator")
    i, j, ii, _ = s[C].op.axis
    s[C].bind(i, te.thread_axis("blockIdx.x"))
    s[CF].compute_at(s[C], j)
    outer, inner = s[CF].op.reduce_axis
    first, second, rows, columns = s[CF].op.axis
    s[CF].reorder(outer, first, second, rows, columns, inner)
    for T, fragment in zip(shared, (AF, BF), strict=True):
        s[fragment].compute_at(s[CF], outer)
        s[T].compute_at(s[CF], outer)
        _, lane = s[T].split(s[T].fuse(*s[T].op.axis), 32)
        s[T].bind(lane, te.thread_axis("threadIdx.x"))
    s[AF].tensorize(AF.op.axis[-2], _load("wmma.matrix_a", m, 16))
    s[BF].tensorize(BF.op.axis[-2], _load("wmma.matrix_b", 16, n))
    s[CF].tensorize(rows, _product(m, n))
    s[C].tensorize(ii, _store(m, n))
    f = tvm.build(s, [A, B, C], "cuda")
    assert f.get_source().count("tw_mma_float16(&") == (m // 16) * (n // 8)
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 2, m, 16)).astype("float16"), rng.normal(size=(2, 2, 16, n)).astype("float16")
    c = np.empty((2, 2, m, n), "float32")
    f(a, b, c)
    wanted = np.einsum("ixuk,xjkv->ijuv", a.astype("float64"), b.astype("float64"))
    np.testing.assert_allclose(c, wanted, rtol=1e-4, atol=1e-4)


def test_tiles_that_are_none_of_ours_are_refused() -> None:
    with pytest.raises(tvm.TVMError, match=r"TW0132(.*\n)*.*tvm_load_matrix_sync is asked for col_major"):
        _load("wmma.matrix_b", 16, 16, "col_major")
    with pytest.raises(
        tvm.TVMError, match=r"TW0132: a tensor core takes no 8 by 16 elements in mma_a(.*\n)*.*16 by 16"
    ):
        _product(8, 32)


@pytest.mark.usefixtures("emulated")
@pytest.mark.parametrize("storing", [0, 5])
def test_a_store_by_one_thread_of_a_stage_that_is_computed_within(storing: int) -> None:
    A = te.placeholder((6, 64), name="A")
    k = te.reduce_axis((0, 64), name="k")
    B = te.compute((6,), lambda i: te.sum(A[i, k], axis=k), name="B")
    C = te.compute((6,), lambda i: B[i] * 2.0, name="C")
    s = te.create_schedule(C.op)
    tx = te.thread_axis((0, 32), "threadIdx.x")
    _, inner = s[B].split(B.op.reduce_axis[0], factor=32)
    partial = s.rfactor(B, inner)
    s[B].bind(s[B].op.reduce_axis[0], tx)
    s[partial].compute_at(s[B], s[B].op.reduce_axis[0])
    block, row = s[C].split(C.op.axis[0], 3)
    s[C].bind(block, te.thread_axis("blockIdx.x"))
    s[C].bind(row, te.thread_axis("threadIdx.y"))
    s[C].set_store_predicate(tx.var.equal(storing))
    with pytest.raises(tvm.TVMError, match="TW0341"):
        tvm.lower(s, [A, C])
    s[B].compute_at(s[C], row)
    func = tvm.build(s, [A, C], "cuda")
    assert f"if (thread_x == {storing})" in func.imported_modules[0].get_source()
    a = np.random.default_rng(1).integers(-4, 5, (6, 64)).astype("float32")
    c = tvm.nd.array(np.zeros(6, "float32"), tvm.cuda(0))
    func(tvm.nd.array(a, tvm.cuda(0)), c)
    np.testing.assert_array_equal(c.numpy(), a.sum(1) * 2)
