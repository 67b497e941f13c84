"""Programs as people who know TVM write them: its names, its orders of arguments, its places."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import tilewright as tw
from tilewright.compat import tvm
from tilewright.compat.tvm import te, topi

SEED = np.random.default_rng(5)


def drawn(*shape, dtype="float32"):
    return (
        SEED.uniform(-1, 1, shape).astype(dtype)
        if dtype.startswith("float")
        else SEED.integers(-9, 9, shape).astype(dtype)
    )


def run(operator, *arrays, schedule=topi.generic.schedule_injective):
    tensors = [te.placeholder(array.shape, str(array.dtype), name=f"in{at}") for at, array in enumerate(arrays)]
    out = operator(*tensors)
    with tvm.target.Target("llvm"):
        s = schedule([out])
    func = tvm.build(s, [*tensors, out], "llvm")
    result = tvm.nd.empty(topi.utils.get_const_tuple(out.shape), out.dtype, tvm.cpu(0))
    func(*(tvm.nd.array(array, tvm.cpu(0)) for array in arrays), result)
    return result.numpy()


@pytest.mark.parametrize(
    ("data_layout", "kernel_layout", "schedule"),
    [
        ("NCHW", "OIHW", "schedule_conv2d_nchw"),
        ("NHWC", "HWIO", "schedule_conv2d_nhwc"),
        ("HWCN", "HWIO", "schedule_conv2d_hwcn"),
        ("NCHW", "HWIO", "schedule_conv2d_nchw"),
    ],
)
def test_convolution_in_every_layout(data_layout, kernel_layout, schedule) -> None:
    data, kernel = drawn(2, 3, 7, 6), drawn(4, 3, 3, 3)
    want = topi.testing.conv2d_nchw_python(data, kernel, (2, 1), (1, 1))
    got = run(
        lambda a, w: topi.nn.conv2d(
            input=a,
            filter=w,
            strides=(2, 1),
            padding=(1, 1, 1, 1),
            dilation=1,
            data_layout=data_layout,
            kernel_layout=kernel_layout,
            out_dtype="float32",
        ),
        data.transpose(["NCHW".index(one) for one in data_layout]).copy(),
        kernel.transpose(["OIHW".index(one) for one in kernel_layout]).copy(),
        schedule=getattr(topi.generic, schedule),
    )
    tvm.testing.assert_allclose(got, want.transpose(["NCHW".index(one) for one in data_layout]), rtol=1e-4, atol=1e-5)


def test_convolutions_by_their_own_names_and_keywords() -> None:
    data, kernel, depth = drawn(1, 4, 6, 5), drawn(6, 2, 3, 3), drawn(4, 2, 3, 3)
    got = run(
        lambda a, w: topi.nn.group_conv2d_nchw(Input=a, Filter=w, stride=1, padding="SAME", dilation=1, groups=2),
        data,
        kernel,
    )
    tvm.testing.assert_allclose(
        got, topi.testing.conv2d_nchw_python(data, kernel, 1, "SAME", groups=2), rtol=1e-4, atol=1e-5
    )
    got = run(
        lambda a, w: topi.nn.depthwise_conv2d_nchw(Input=a, Filter=w, stride=(1, 2), padding=0, dilation=1), data, depth
    )
    tvm.testing.assert_allclose(
        got, topi.testing.depthwise_conv2d_python_nchw(data, depth, (1, 2), "VALID"), rtol=1e-4, atol=1e-5
    )
    back = run(lambda a, w: topi.nn.conv2d_transpose_nchw(a, w, (2, 2), (1, 1), "float32", (1, 1)), data, depth)
    assert back.shape == (1, 2, 12, 10)
    wide = np.pad(topi.testing.dilate_python(data, (1, 1, 2, 2)), ((0, 0), (0, 0), (1, 2), (1, 2)))
    turned = depth.transpose(1, 0, 2, 3)[:, :, ::-1, ::-1]
    tvm.testing.assert_allclose(back, topi.testing.conv2d_nchw_python(wide, turned, 1, 0), rtol=1e-4, atol=1e-5)


def test_products_by_their_keywords() -> None:
    a, w, b = drawn(5, 9), drawn(4, 9), drawn(4)
    got = run(
        lambda x, y, z: topi.nn.dense(data=x, weight=y, bias=z, out_dtype=None),
        a,
        w,
        b,
        schedule=topi.x86.schedule_dense,
    )
    tvm.testing.assert_allclose(got, a @ w.T + b, rtol=1e-4, atol=1e-5)
    got = run(lambda x, y: topi.matmul(x, y, transp_a=True, transp_b=True), a.T.copy(), w)
    tvm.testing.assert_allclose(got, a @ w.T, rtol=1e-4, atol=1e-5)
    x, y = drawn(3, 2, 5), drawn(3, 4, 5)
    tvm.testing.assert_allclose(
        run(lambda p, q: topi.nn.batch_matmul(p, q, oshape=(3, 2, 4)), x, y),
        topi.testing.batch_matmul(x, y),
        rtol=1e-4,
        atol=1e-5,
    )


@pytest.mark.parametrize(
    ("operator", "reference"),
    [
        (lambda a: topi.nn.log_softmax(a, axis=1), lambda a: topi.testing.log_softmax_python(a, 1)),
        (
            lambda a: topi.nn.pool2d(
                a,
                kernel=(3, 2),
                stride=(2, 2),
                dilation=(1, 1),
                padding=(1, 0, 1, 0),
                pool_type="avg",
                ceil_mode=True,
                layout="NCHW",
                count_include_pad=False,
            ),
            lambda a: topi.testing.poolnd_python(a, (3, 2), (2, 2), (1, 1), (1, 0), (1, 0), "avg", False, True),
        ),
        (
            lambda a: topi.nn.pool(a, (2, 2), (1, 1), (0, 0, 0, 0), "max"),
            lambda a: topi.testing.poolnd_python(a, (2, 2), (1, 1), (1, 1), (0, 0), (0, 0), "max"),
        ),
        (
            lambda a: topi.nn.adaptive_pool(a, (2, 3), pool_type="avg"),
            lambda a: topi.testing.adaptive_pool(a, (2, 3), "avg"),
        ),
        (lambda a: topi.nn.upsampling(a, 2, 3), lambda a: topi.testing.upsampling_python(a, (2, 3))),
        (
            lambda a: topi.nn.l2_normalize(a, 1e-3, axis=[1, 2]),
            lambda a: topi.testing.l2_normalize_python(a, 1e-3, (1, 2)),
        ),
        (
            lambda a: topi.strided_slice(a, [0, 0, 4], [1, 2, -5], [1, 1, -2], assume_inbound=False),
            lambda a: topi.testing.strided_slice_python(a, [0, 0, 4], [1, 2, -5], [1, 1, -2]),
        ),
        (
            lambda a: topi.image.resize2d(
                a,
                (0.0,) * 4,
                (10, 12),
                method="nearest_neighbor",
                coordinate_transformation_mode="asymmetric",
                bicubic_exclude=0,
                extrapolation_value=0.0,
                out_dtype="float32",
            ),
            lambda a: topi.testing.upsampling_python(a, (2, 2)),
        ),
        (lambda a: topi.cumsum(a, axis=2, exclusive=None), lambda a: a.cumsum(2)),
        (lambda a: topi.fast_tanh(a), np.tanh),
    ],
)
def test_operators_against_the_references_of_topi_testing(operator, reference) -> None:
    data = drawn(2, 3, 5, 6)
    got = run(operator, data)
    tvm.testing.assert_allclose(got, reference(data), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [1, 5, 20])
def test_powers_of_rows_that_are_no_vectors(size) -> None:
    data = np.abs(drawn(size)) + 0.1
    A = te.placeholder((size,), name="A")
    B = te.compute((size,), lambda i: te.power(A[i], te.const(0.75, "float32")), name="B")
    s = te.create_schedule(B.op)
    s[B].vectorize(B.op.axis[0])
    out = tvm.nd.empty((size,))
    tvm.build(s, [A, B])(tvm.nd.array(data), out)
    tvm.testing.assert_allclose(out.numpy(), data ** np.float32(0.75), rtol=1e-5)
    image = drawn(2, 3, 4, 5)
    tvm.testing.assert_allclose(
        run(lambda a: topi.nn.lrn(a, 3, 1, 0.5, 0.75, 2), image),
        topi.testing.lrn_python(image, 3, 1, 2, 0.5, 0.75),
        rtol=1e-4,
        atol=1e-5,
    )


def test_lookups_from_the_end() -> None:
    data, places = drawn(4, 3), np.array([[0, -1, 2], [-4, 1, -2]], "int32")
    np.testing.assert_array_equal(
        run(lambda a, i: topi.gather(a, 0, i), data, places), topi.testing.gather_python(data, 0, places)
    )
    coordinates = np.array([[3, 0], [1, 2]], "int32")
    np.testing.assert_array_equal(
        run(lambda a, i: topi.gather_nd(a, i, batch_dims=0, index_rank=2), data, coordinates),
        topi.testing.gather_nd_python(data, coordinates),
    )
    hot = run(lambda i: topi.one_hot(i, 1, 0, 4, -1, "int32"), coordinates)
    np.testing.assert_array_equal(hot, topi.testing.one_hot(coordinates, 1, 0, 4, -1, "int32"))


def test_a_batch_norm_and_its_moving_averages() -> None:
    shapes = [(2, 3, 4, 4), (3,), (3,), (3,), (3,)]
    tensors = [te.placeholder(shape, name=f"t{at}") for at, shape in enumerate(shapes)]
    outs = topi.nn.batch_norm(*tensors, axis=None, epsilon=None)
    s = topi.generic.schedule_injective(outs)
    x, g, b, m, v = arrays = [np.abs(drawn(*shape)) + 0.1 for shape in shapes]
    results = [tvm.nd.empty(shape) for shape in (shapes[0], (3,), (3,))]
    tvm.build(s, [*tensors, *outs])(*map(tvm.nd.array, arrays), *results)
    g, b, m, v = (one.reshape(3, 1, 1) for one in (g, b, m, v))
    tvm.testing.assert_allclose(results[0].numpy(), (x - m) / np.sqrt(v + 1e-5) * g + b, rtol=1e-4, atol=1e-4)
    tvm.testing.assert_allclose(results[2].numpy(), v.ravel())


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
def test_saved_objects_of_parallel_kernels_are_linked_and_loaded() -> None:
    n = te.var("n")
    A, B = te.placeholder((n,), name="A"), te.placeholder((n,), name="B")
    C = te.compute((n,), lambda i: A[i] + B[i], name="C")
    s = te.create_schedule(C.op)
    outer, inner = s[C].split(C.op.axis[0], factor=64)
    s[C].parallel(outer)
    s[C].vectorize(inner)
    built = tvm.build(s, [A, B, C], tvm.target.Target("llvm", host="llvm"), name="myadd")
    folder = tvm.contrib.utils.tempdir()
    built.save(folder.relpath("myadd.o"))
    tvm.contrib.cc.create_shared(folder.relpath("myadd.so"), [folder.relpath("myadd.o")])
    loaded = tvm.runtime.load_module(folder.relpath("myadd.so"))
    a, b = drawn(1000), drawn(1000)
    c = tvm.nd.empty((1000,))
    loaded(tvm.nd.array(a), tvm.nd.array(b), c)
    tvm.testing.assert_allclose(c.numpy(), a + b)


def test_names_of_nodes_and_arrays() -> None:
    A = te.placeholder((4, 5), name="A")
    B = te.compute((4, 5), lambda i, j: A[i, j] + 1, name="B")
    s = te.create_schedule(B.op)
    s[B].vectorize(B.op.axis[1])
    assert s[B].iter_var_attrs[B.op.axis[1]].kind == "vectorized"
    assert B.same_as(B) and not A.same_as(B) and B.op.same_as(B.op) and B.shape[0].same_as(B.shape[0])
    a = tvm.nd.array(drawn(4, 5))
    shared = tvm.nd.from_dlpack(a.to_dlpack())
    shared[0, 0] = 7
    assert a.numpy()[0, 0] == 7 and a.same_as(a)
    out = tvm.nd.empty((4, 5))
    tvm.build(te.create_prim_func([A, B]))(a, out)
    tvm.testing.assert_allclose(out.numpy(), a.numpy() + 1)


def test_utilities_of_topi() -> None:
    n = te.var("n")
    assert topi.utils.prod((2, 3, 4)) == 24 and topi.utils.prod(()) == 1
    assert topi.utils.simplify(n - n + 3) == 3 and topi.utils.simplify(5) == 5
    assert topi.utils.get_const_float(te.const(1.5, "float32")) == 1.5
    assert topi.utils.get_shape((1, 2, 3, 4), "NCHW", "NHWC") == (1, 3, 4, 2)
    assert topi.utils.ravel_index((1, 2), (3, 4)) == 6 and topi.utils.unravel_index(6, (3, 4)) == [1, 2]
    assert topi.math is topi and topi.testing.dispatch("llvm", {"generic": 1, "cpu": 2}) == 2
    with pytest.raises(ValueError, match="constant float"):
        topi.utils.get_const_float(n)


@tvm.testing.parametrize_targets("llvm", "cuda")
def test_decorators_choose_targets(target, dev) -> None:
    A = te.placeholder((33,), name="A")
    B = topi.nn.relu(A)
    s = topi.testing.get_injective_schedule(target)(B)
    a, b = tvm.nd.array(drawn(33), dev), tvm.nd.empty((33,), "float32", dev)
    tvm.build(s, [A, B], target)(a, b)
    tvm.testing.assert_allclose(b.numpy(), np.maximum(a.numpy(), 0))


width = tvm.testing.parameter(1, 3)


@tvm.testing.requires_llvm
@tvm.testing.uses_gpu
def test_parameters_are_fixtures(width) -> None:
    A = te.placeholder((width, 2), name="A")
    np.testing.assert_array_equal(run(lambda a: topi.flip(a, axis=0), drawn(width, 2) * 0), np.zeros((width, 2)))
    assert width in (1, 3) and topi.utils.get_const_tuple(A.shape) == (width, 2)


def test_what_is_not_here_says_what_stands_in_its_place() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'meta_schedule'; tilewright.autotune derives"):
        _ = tvm.meta_schedule
    with pytest.raises(AttributeError, match="'relax'; networks are compositions"):
        _ = tvm.relax
    with pytest.raises(ValueError, match="bicubic_exclude=0"):
        topi.image.resize2d(te.placeholder((1, 1, 2, 2)), None, (4, 4), method="cubic", bicubic_exclude=1)
    with pytest.raises(tw.TilewrightError, match="has 2 dimensions"):
        topi.nn.conv2d_nchw(te.placeholder((2, 2)), te.placeholder((1, 1, 1, 1)), 1, 0)
