"""Programs on TVM's topi, with their import lines changed and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from tilewright.compat import topi as top_level
from tilewright.compat import tvm
from tilewright.compat.tvm import te, topi


def arrays(*shapes, dtype="float32"):
    rng = np.random.default_rng(3)
    return [tvm.nd.array(rng.uniform(-1, 1, shape).astype(dtype)) for shape in shapes]


def test_the_introduction_to_topi() -> None:
    n, m = te.var("n"), te.var("m")
    A = te.placeholder((n, m), name="A")
    B = topi.sum(A, axis=1)
    s = te.create_schedule(B.op)
    assert "A" in str(tvm.lower(s, [A], simple_mode=True))

    x, y = 100, 10
    a = te.placeholder((x, y, y), name="a")
    b = te.placeholder((y, y), name="b")
    c = a + b
    d = a * b
    e = topi.elemwise_sum([c, d])
    f = e / 2.0
    g = topi.sum(f)
    with tvm.target.Target("llvm"):
        sg = topi.generic.schedule_reduce(g)
    assert sg.stages
    func = tvm.build(sg, [a, b, g], "llvm")
    a_np, b_np = np.random.uniform(size=(x, y, y)).astype("float32"), np.random.uniform(size=(y, y)).astype("float32")
    g_nd = tvm.nd.array(np.zeros((), "float32"))
    func(tvm.nd.array(a_np), tvm.nd.array(b_np), g_nd)
    np.testing.assert_allclose(g_nd.numpy(), np.sum(np.add(a_np + b_np, a_np * b_np) / 2.0), rtol=1e-4)

    tarray = te.placeholder((512, 512), name="tarray")
    softmax_topi = topi.nn.softmax(tarray)
    ss = topi.x86.schedule_softmax(softmax_topi)
    (t,) = arrays((512, 512))
    out = tvm.nd.empty((512, 512))
    tvm.build(ss, [tarray, softmax_topi])(t, out)
    np.testing.assert_allclose(out.numpy().sum(1), 1, rtol=1e-5)


def test_a_convolution_with_its_tail() -> None:
    data = te.placeholder((1, 3, 12, 14), name="data")
    kernel = te.placeholder((10, 3, 5, 5), name="kernel")
    conv = topi.nn.conv2d(data, kernel, strides=1, padding=2, dilation=1)
    out = topi.nn.relu(conv)
    with tvm.target.Target("llvm"):
        s = topi.generic.schedule_conv2d_nchw([out])
    d, k = arrays((1, 3, 12, 14), (10, 3, 5, 5))
    o = tvm.nd.empty((1, 10, 12, 14))
    tvm.build(s, [data, kernel, out], "llvm")(d, k, o)
    windows = np.lib.stride_tricks.sliding_window_view(
        np.pad(d.numpy(), ((0, 0), (0, 0), (2, 2), (2, 2))), (5, 5), (2, 3)
    )
    want = np.maximum(np.einsum("nchwyx,ocyx->nohw", windows, k.numpy()), 0)
    tvm.testing.assert_allclose(o.numpy(), want, rtol=1e-4, atol=1e-4)
    with pytest.raises(ValueError, match="layout names H, I, O, W"):
        topi.nn.conv2d(data, kernel, 1, 2, 1, "NCHW", "HWC")


def test_schedules_for_gpus_bind_their_threads() -> None:
    A = te.placeholder((32, 32), name="A")
    B = topi.tanh(A)
    assert "threadIdx.x" in str(topi.cuda.schedule_injective([B]))
    with tvm.target.Target("cuda"):
        assert "threadIdx.x" in str(topi.generic.schedule_injective(B))
    assert "threadIdx.x" not in str(topi.x86.schedule_injective(B))


def test_integers_divide_as_in_tvm() -> None:
    A = te.placeholder((5,), "int32", name="A")
    B = topi.divide(A, 2)
    C = topi.mod(A, 3)
    s = topi.generic.schedule_injective([B, C])
    b, c = (tvm.nd.empty((5,), "int32") for _ in range(2))
    tvm.build(s, [A, B, C])(tvm.nd.array(np.array([-5, -1, 0, 4, 7], "int32")), b, c)
    np.testing.assert_array_equal(b.numpy(), [-2, 0, 0, 2, 3])
    np.testing.assert_array_equal(c.numpy(), [-2, -1, 0, 1, 1])
    assert topi.divide(te.placeholder((2,), name="F"), 2).dtype == "float32"


def test_operators_and_schedules_of_ones_own() -> None:
    A, B = te.placeholder((8, 16), name="A"), te.placeholder((4, 16), name="B")
    doubled = topi.multiply(A, 2.0)
    C = topi.nn.matmul(doubled, B, transpose_b=True)
    out = topi.nn.leaky_relu(C, 0.1)
    assert topi.utils.get_const_tuple(out.shape) == (8, 4) and topi.utils.get_const_int(out.shape[1]) == 4
    assert topi.tag.is_broadcast(out.op.tag) and topi.tag.is_injective(topi.transpose(A).op.tag)
    s = te.create_schedule(out.op)
    found = []
    topi.utils.traverse_inline(s, out.op, lambda op: found.append(op.tag))
    assert "matmul" in found
    batch = topi.nn.batch_matmul(te.placeholder((2, 3, 5), name="X"), te.placeholder((2, 4, 5), name="Y"))
    assert topi.utils.get_const_tuple(batch.shape) == (2, 3, 4)
    assert topi.utils.equal_const_int(batch.shape[0], 2) and not topi.utils.equal_const_int(te.var("n"), 2)
    with pytest.raises(ValueError, match="constant int"):
        topi.utils.get_const_int(te.var("n"))


def test_older_names_and_places() -> None:
    assert tvm.topi is topi and top_level.nn is topi.nn and top_level.sum is topi.sum
    assert topi.util is topi.utils
    A = te.placeholder((3,), name="A")
    assert topi.broadcast_add(A, A).op.tag == "broadcast" and "sum" in dir(topi)
    with pytest.raises(AttributeError, match="topi has no sumo"):
        _ = topi.sumo
