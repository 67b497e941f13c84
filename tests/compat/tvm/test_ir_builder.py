"""Programs that TVM's ir_builder writes, threads among them; Winograd's matrices, and figures of arithmetic by what authors say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tilewright.compat import tvm
from tilewright.compat.tvm import auto_scheduler, te, topi
from tilewright.compat.tvm.topi.nn.winograd_util import winograd_transform_matrices


@pytest.mark.parametrize("n", [1, 32, 77])
def test_threads_of_a_builder_run_the_rest_of_their_scope(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_EMULATE", "1")
    extent = te.size_var("n")
    a, b = te.placeholder((extent,), name="A"), te.placeholder((extent,), name="B")

    def added(left: Any, right: Any, out: Any) -> Any:
        ib = tvm.tir.ir_builder.create()
        bx, tx = te.thread_axis("blockIdx.x"), te.thread_axis("threadIdx.x")
        with ib.new_scope():
            ib.scope_attr(bx, "thread_extent", tvm.tir.indexdiv(extent + 31, 32))
            ib.scope_attr(tx, "thread_extent", 32)
            at = bx.var * 32 + tx.var
            x, y, z = (ib.buffer_ptr(buffer) for buffer in (left, right, out))
            with ib.if_scope(ib.likely(at < extent)):
                z[at] = x[at] + y[at]
        return ib.get()

    c = te.extern(a.shape, [a, b], lambda ins, outs: added(*ins, *outs), name="C", dtype="float32")
    f = tvm.build(te.create_schedule(c.op), [a, b, c], "cuda")
    assert "blockIdx.x" in f.imported_modules[0].get_source()
    x, y = (np.random.default_rng(seed).random(n, dtype="float32") for seed in (0, 1))
    got = tvm.nd.empty((n,))
    f(tvm.nd.array(x), tvm.nd.array(y), got)
    np.testing.assert_array_equal(got.numpy(), x + y)


def test_statements_of_a_builder_have_tvms_names() -> None:
    ib = tvm.tir.ir_builder.create()
    n = te.size_var("n")
    memory = ib.pointer("float32", name="A")
    with ib.for_range(0, n, name="i", for_type="parallel") as i:
        with ib.if_scope(tvm.tir.truncmod(i, 2) == 0):
            memory[i] = memory[i] + 1
        with ib.else_scope():
            memory[0] = memory[i] + 2
    loop = ib.get()
    assert loop.loop_var.name == "i" and loop.min.value == 0 and isinstance(loop.body.condition, tvm.tir.EQ)
    assert isinstance(loop.body.then_case.index, tvm.tir.Var) and loop.body.else_case.index.value == 0


@pytest.mark.parametrize(("tile", "kernel"), [(2, 3), (4, 3), (6, 3), (3, 2), (1, 5), (4, 1)])
def test_winograds_matrices_make_a_convolution(tile: int, kernel: int) -> None:
    matrices = [
        te.compute(each.shape, lambda i, j, each=each: each[i, j] * 1, name=f"copy_of_{each.op.name}")
        for each in winograd_transform_matrices(tile, kernel, "float64")
    ]
    arrays = [tvm.nd.empty(each.shape, "float64") for each in matrices]
    tvm.build(te.create_schedule([each.op for each in matrices]), matrices, "llvm")(*arrays)
    a, b, g = (array.numpy() for array in arrays)
    rng = np.random.default_rng(0)
    data, weights = rng.random(tile + kernel - 1), rng.random(kernel)
    np.testing.assert_allclose(a.T @ ((g @ weights) * (b.T @ data)), np.correlate(data, weights), rtol=1e-9)


def test_more_points_than_float32_tells_apart_are_refused() -> None:
    with pytest.raises(ValueError, match="no tiles of 11 for kernels of 3: a side has 1 to 12 elements"):
        winograd_transform_matrices(11, 3, "float32")
    assert topi.nn.get_pad_tuple((1, 2), (3, 3)) == (1, 2, 1, 2)


def test_arithmetic_is_what_an_operation_says_or_does_to_values() -> None:
    a = te.placeholder((8, 8), name="A")
    said = te.compute((8, 8), lambda i, j: a[i, j], name="said", attrs={"FLOP": 1234})
    chosen = te.compute((8, 8), lambda i, j: te.if_then_else(a[i, j] > 0, a[i, j], 0), name="chosen")
    inside = te.compute((8, 8), lambda i, j: te.if_then_else(i > 0, a[i, j], 0), name="inside")
    assert [auto_scheduler.ComputeDAG([a, each]).flop_ct for each in (said, chosen, inside)] == [1234, 64, 0]
