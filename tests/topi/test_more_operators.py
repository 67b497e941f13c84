"""Operators beside the common ones, against numpy: sizes 0, 1 and odd ones."""

from __future__ import annotations

import drawn
import numpy as np
import pytest
import tilewright as tw
from numpy.lib.stride_tricks import sliding_window_view
from tilewright import te, topi
from tilewright.compat.tvm.topi import testing
from tilewright.topi.row import find_reference, load_rows
from topi_run import floats, run, whole


def close(got, want, tolerance=2e-6) -> None:
    assert got.shape == np.shape(want)
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("size", [1, 2, 7])
@pytest.mark.parametrize(("stride", "padding", "dilation"), [(1, 0, 1), (2, (1, 2), 1), (1, "SAME", 3)])
def test_convolution_of_one_dimension(size, stride, padding, dilation) -> None:
    x, w = floats((2, 3, size)), floats((4, 3, 1 if padding == 0 else 2), seed=1)
    total = (w.shape[2] - 1) * dilation
    pads = {0: (0, 0), "SAME": (-(-total // 2), total // 2)}.get(padding, padding)
    want = find_reference("conv")(x, w, stride=(stride,), padding=pads, dilation=(dilation,))
    close(run(lambda a, b: topi.nn.conv1d(a, b, stride, padding, dilation), x, w), want)
    across = run(
        lambda a, b: topi.nn.conv1d(a, b, stride, padding, dilation, 1, "NWC"),
        x.transpose(0, 2, 1).copy(),
        w.transpose(2, 1, 0).copy(),
    )
    close(across, want.transpose(0, 2, 1))


def test_groups_of_one_and_three_dimensions() -> None:
    x, w = floats((1, 6, 3, 4, 5)), floats((4, 3, 2, 2, 3), seed=1)
    want = find_reference("conv")(x, w, groups=2)
    close(run(lambda a, b: topi.nn.conv3d_ncdhw(a, b, 1, 0, 1, 2), x, w), want)
    last = run(
        lambda a, b: topi.nn.conv3d_ndhwc(a, b, 1, 0, 1, 2),
        x.transpose(0, 2, 3, 4, 1).copy(),
        w.transpose(2, 3, 4, 1, 0).copy(),
    )
    close(last, want.transpose(0, 2, 3, 4, 1))
    close(
        run(lambda a, b: topi.nn.group_conv1d_ncw(a, b, 1, 0, 1, 2), x[:, :, 0, 0].copy(), w[:, :, 0, 0].copy()),
        run(lambda a, b: topi.nn.group_conv2d_nchw(a, b, 1, 0, 1, 2), x[:, :, :1, 0].copy(), w[:, :, :1, 0].copy())[
            :, :, 0
        ],
    )
    with pytest.raises(tw.TilewrightError, match="do not fit"):
        topi.nn.conv1d_ncw(te.placeholder((1, 4, 9)), te.placeholder((2, 3, 3)))
    with pytest.raises(tw.TilewrightError, match="there is no layout 'NCHW' of one dimension"):
        topi.nn.conv1d(te.placeholder((1, 4, 9)), te.placeholder((2, 3, 3)), data_layout="NCHW")


def test_transposed_convolution_is_the_gradient_of_a_convolution() -> None:
    y, w = floats((2, 3, 4)), floats((3, 2, 3), seed=1)
    want = find_reference("conv_transpose")(y, w, stride=(2,), padding=(1, 0), output_padding=(1,))
    close(run(lambda a, b: topi.nn.conv1d_transpose_ncw(a, b, 2, (1, 0), "float32", 1), y, w), want)
    with pytest.raises(tw.TilewrightError, match="takes away more"):
        topi.nn.conv1d_transpose_ncw(te.placeholder((1, 3, 4)), te.placeholder((3, 2, 3)), 1, 3)


def test_pooling_of_one_and_three_dimensions() -> None:
    x = floats((1, 2, 5, 4, 7))
    greatest, mean = find_reference("max_pool"), find_reference("avg_pool")
    want = greatest(x, kernel=(2, 3, 2), stride=(2, 1, 3))
    close(run(lambda a: topi.nn.pool3d(a, (2, 3, 2), (2, 1, 3), 1, 0, "max"), x), want, 0)
    want = mean(x, kernel=(2, 2, 2), padding=(1, 0, 0, 0, 0, 0), count_padding=True)
    close(run(lambda a: topi.nn.pool3d(a, 2, 1, 1, (1, 0, 0, 0, 0, 0), "avg"), x), want)
    row = x[:, :, 0, 0].copy()
    want = greatest(row, kernel=(3,), stride=(2,), dilation=(2,), padding=(1, 1))
    close(run(lambda a: topi.nn.pool1d(a, 3, 2, 2, (1, 1), "max"), row), want, 0)
    close(run(lambda a: topi.nn.adaptive_pool1d(a, 3, "avg"), row), find_reference("adaptive_pool")(row, size=(3,)))
    close(run(lambda a: topi.nn.adaptive_pool3d(a, 1, "max"), x), x.max((2, 3, 4), keepdims=True), 0)
    with pytest.raises(tw.TilewrightError, match="is not 'NCW'"):
        topi.nn.pool1d(te.placeholder((1, 2)), 1, 1, 1, 0, "max")


@pytest.mark.parametrize("shape", [(3, 4), (1, 1), (0, 3), (2, 0)])
def test_dilation(shape) -> None:
    x = floats(shape)
    close(run(lambda a: topi.nn.dilate(a, (2, 3), 5.0), x), testing.dilate_python(x, (2, 3), 5.0), 0)
    with pytest.raises(tw.TilewrightError, match="takes a number from 1 on"):
        topi.nn.dilate(te.placeholder((3,)), (0,))


def test_reflections() -> None:
    x = floats((3, 5))
    for mode in ("reflect", "symmetric"):
        close(
            run(lambda a, mode=mode: topi.nn.mirror_pad(a, (2, 0), (1, 4), mode.upper()), x),
            np.pad(x, ((2, 1), (0, 4)), mode=mode),
            0,
        )
    with pytest.raises(tw.TilewrightError, match="told no reflection"):
        topi.nn.mirror_pad(te.placeholder((3,)), (3,), (0,), "REFLECT")


def test_space_to_depth_and_batch_and_back() -> None:
    x = floats((3, 2, 4, 6))
    deep = find_reference("space_to_depth")(x, block=2)
    close(run(lambda a: topi.nn.space_to_depth(a, 2), x), deep, 0)
    close(run(lambda a: topi.nn.depth_to_space(a, 2), deep.copy()), x, 0)
    by_channel = floats((1, 8, 1, 3))
    want = find_reference("depth_to_space")(by_channel, block=2, mode="CRD")
    close(run(lambda a: topi.nn.depth_to_space(a, 2, mode="CRD"), by_channel), want, 0)
    y = floats((2, 3, 4, 1))
    many = run(lambda a: topi.nn.space_to_batch_nd(a, (2, 3), (1, 0), (0, 2)), y)
    close(many, testing.space_to_batch_nd_python(y, (2, 3), (1, 0), (0, 2)), 0)
    close(run(lambda a: topi.nn.batch_to_space_nd(a, (2, 3), (1, 0), (0, 2)), many), y, 0)
    with pytest.raises(tw.TilewrightError, match="3 is not a multiple of 2"):
        topi.nn.space_to_depth(te.placeholder((1, 1, 3, 4)), 2)


@pytest.mark.parametrize(
    "declare, shape, whole_size",
    [
        (lambda a: topi.nn.space_to_depth(a, 2), (1, 2, "n", 4), 6),
        (lambda a: topi.nn.depth_to_space(a, 2), (1, "n", 3, 1), 8),
        (lambda a: topi.nn.space_to_batch_nd(a, [2], [1], [0]), (1, "n", 3), 5),
        (lambda a: topi.nn.batch_to_space_nd(a, [3], [0], [0]), ("n", 2, 1), 9),
        (lambda a: topi.reshape(a, (-1, 2)), ("n",), 6),
    ],
    ids=["depth", "space", "batch", "back", "reshape"],
)
def test_symbolic_sizes_that_leave_a_rest_are_refused_at_the_call(declare, shape, whole_size) -> None:
    """What no block had taken was left out without a word."""
    n = te.var("n")
    a = te.placeholder([n if extent == "n" else extent for extent in shape], name="A")
    b = declare(a)
    kernel = tw.build([a, b])

    def call(size: int) -> None:
        extents = [size if extent == "n" else extent for extent in shape]
        result = [eval(str(extent), {"n": size}) for extent in b.shape]
        kernel(floats(extents), np.empty(result, "float32"))

    call(whole_size)
    with pytest.raises(tw.TilewrightError, match="reads outside"):
        call(whole_size + 1)


def test_norms_by_groups_and_batches() -> None:
    x, g, b = floats((3, 6, 5)), floats((6,), seed=1), floats((6,), seed=2)
    close(run(lambda *t: topi.nn.group_norm(*t, 2), x, g, b), find_reference("group_norm")(x, g, b, groups=2), 1e-5)
    mean, var = floats((6,), seed=3), floats((6,), low=0.5, seed=4)
    by_batches = find_reference("batch_norm")
    kept, m, v = run(lambda *t: topi.nn.batch_norm(*t, axis=1), x, g, b, mean, var)
    close(kept, by_batches(x, g, b, mean, var), 1e-5)
    assert (m == mean).all() and (v == var).all()
    trained, m, v = run(
        lambda *t: topi.nn.batch_norm(*t, axis=1, scale=False, training=True, momentum=0.25), x, g, b, mean, var
    )
    ours, theirs = x.mean((0, 2)), x.var((0, 2))
    close(trained, by_batches(x, np.ones(6), b, ours, theirs), 1e-5)
    close(m, mean * 0.75 + ours * 0.25)
    close(v, var * 0.75 + theirs * 0.25)
    with pytest.raises(tw.TilewrightError, match="cannot cut 6 channels into 4 groups"):
        topi.nn.group_norm(te.placeholder((1, 6, 2)), None, None, 4)
    with pytest.raises(tw.TilewrightError, match="momentum of"):
        topi.nn.batch_norm(te.placeholder((1, 2)), *(te.placeholder((2,)) for _ in range(4)), training=True, momentum=2)


def test_products_of_tensors() -> None:
    a, b = floats((3, 4, 5)), floats((5, 4, 2), seed=1)
    close(run(lambda x, y: topi.tensordot(x, y, ((2, 1), (0, 1))), a, b), np.tensordot(a, b, ((2, 1), (0, 1))), 1e-5)
    close(run(lambda x, y: topi.tensordot(x, y, 1), a, b), np.tensordot(a, b, 1), 1e-5)
    close(run(lambda x, y: topi.tensordot(x, y, 0), a[0, 0], b[0, 0]), np.multiply.outer(a[0, 0], b[0, 0]))
    for text, *of in (
        ("ijk,kjl->il", a, b),
        ("ijk->ki", a),
        ("ijk,ijk", a, a),
        ("...k,k->...", a, b[:, 0, 0]),
        ("ii->i", a[:3, :3, 0]),
    ):
        close(run(lambda *t, text=text: topi.einsum(text, *t), *(one.copy() for one in of)), np.einsum(text, *of), 1e-5)
    with pytest.raises(tw.TilewrightError, match="cannot read 'ij->ik'"):
        topi.einsum("ij->ik", te.placeholder((2, 2)))
    with pytest.raises(tw.TilewrightError, match="a dimension of 3 meets one of 2"):
        topi.einsum("ij,jk->ik", te.placeholder((2, 2)), te.placeholder((3, 2)))
    with pytest.raises(tw.TilewrightError, match="a dimension of 1 meets one of 4"):  # of one tensor: no broadcast
        topi.einsum("ii->i", te.placeholder((4, 1)))


@pytest.mark.parametrize("shape", drawn.part([(3, 9), (1, 1), (0, 4), (2, 0)], 2))
@pytest.mark.parametrize("ascending", [True, False])
def test_order(shape, ascending) -> None:
    x = whole(shape, "int32", -3, 3).astype("float32")
    if x.size > 5:
        x[0, 2] = np.nan
    ordered, order = load_rows()["topk"].reference(x, k=-1, axis=1, largest=not ascending)
    np.testing.assert_array_equal(run(lambda a: topi.argsort(a, axis=1, is_ascend=ascending, dtype="int32"), x), order)
    np.testing.assert_array_equal(run(lambda a: topi.sort(a, 1, ascending), x), ordered)
    if x.shape[1] > 1:
        values, places = run(lambda a: topi.topk(a, 2, 1, "both", ascending), x)
        np.testing.assert_array_equal(places, order[:, :2])
        np.testing.assert_array_equal(values, ordered[:, :2])
        assert places.dtype == "int64"
    with pytest.raises(tw.TilewrightError, match="cannot give 3"):
        topi.topk(te.placeholder((2,)), 3)


def test_orders_of_a_part_and_of_a_permutation() -> None:
    x, count = np.array([[3, 1, 2, 0], [3, 1, 2, 0]], "float32"), np.array([2, 4], "int32")
    np.testing.assert_array_equal(run(lambda a, n: topi.argsort(a, n), x, count), [[1, 0, 2, 3], [3, 1, 2, 0]])
    np.testing.assert_array_equal(run(topi.invert_permutation, np.array([2, 0, 3, 1], "int64")), [1, 3, 0, 2])


@pytest.mark.parametrize("kind", ["add", "mul", "min", "max", "update"])
def test_writing_to_places(kind) -> None:
    x, updates = whole((4, 3), "int32"), whole((5, 3), "int32", seed=1)
    index = np.array([[0, 3, 1], [-1, 0, 1], [2, 2, 1], [0, 1, 1], [3, 0, 0]], "int64")
    want = find_reference("scatter_elements")(x, index, updates, axis=0, reduction=kind)
    np.testing.assert_array_equal(run(lambda a, k, u: topi.scatter_elements(a, k, u, 0, kind), x, index, updates), want)
    at, rows = np.array([[1, 0, 1]], "int32"), updates[:3].copy()
    want = find_reference("scatter_nd")(x, at.T, rows, reduction=kind)
    np.testing.assert_array_equal(run(lambda a, k, u: topi.scatter_nd(a, k, u, kind), x, at, rows), want)
    with pytest.raises(tw.TilewrightError, match="no reduction 'sub'"):
        topi.scatter_nd(te.placeholder((2,)), te.placeholder((1, 2), "int32"), te.placeholder((2,)), "sub")


def test_sequences() -> None:
    x, lengths = floats((5, 3)), np.array([0, 5, 2], "int32")
    for axis, data in ((0, x), (1, x.T.copy())):
        want = testing.sequence_mask(data, lengths, 7, axis)
        close(run(lambda a, n, axis=axis: topi.sequence_mask(a, n, 7, axis), data, lengths), want, 0)
    want = find_reference("reverse_sequence")(x, lengths, time_axis=0, batch_axis=1)
    close(run(lambda a, n: topi.reverse_sequence(a, n, 0, 1), x, lengths), want, 0)


def test_diagonals() -> None:
    x = floats((2, 3, 5))
    close(run(lambda a: topi.trilu(a, -1, True), x), np.triu(x, -1), 0)
    close(run(lambda a: topi.trilu(a, 2, False), x), np.tril(x, 2), 0)
    for diagonals, at in ((floats((2, 3), seed=1), 1), (floats((2, 2, 3), seed=2), (-1, 0))):
        want = testing.matrix_set_diag(x, diagonals, at)
        close(run(lambda a, d, at=at: topi.matrix_set_diag(a, d, at), x, diagonals), want, 0)


def test_grids_shapes_and_windows() -> None:
    a, b = floats((3,)), floats((4,), seed=1)
    for indexing in ("ij", "xy"):
        for got, want in zip(
            run(lambda x, y, how=indexing: topi.meshgrid([x, y], how), a, b),
            np.meshgrid(a, b, indexing=indexing),
            strict=True,
        ):
            close(got, want, 0)
    index = np.array([0, 5, 11], "int32")
    np.testing.assert_array_equal(run(lambda i: topi.unravel_index(i, (3, 4)), index), np.unravel_index(index, (3, 4)))
    x = floats((3, 1, 4))
    np.testing.assert_array_equal(run(topi.shape, x), (3, 1, 4))
    np.testing.assert_array_equal(run(lambda t: topi.ndarray_size(t, "int64"), x), 12)
    close(run(lambda t: topi.collapse_sum(t, (1, 4)), x), x.sum(0), 1e-6)
    close(run(lambda t, like: topi.expand_like(t, like, (0, 1)), b, x), np.broadcast_to(b, x.shape), 0)
    close(
        run(lambda t: topi.sliding_window(t, 1, (1, 2), (1, 2)), x),
        sliding_window_view(x, (1, 2), (1, 2))[:, :, ::2],
        0,
    )
    with pytest.raises(tw.TilewrightError, match="cannot bring"):
        topi.collapse_sum(te.placeholder((3, 4)), (2, 4))


@pytest.mark.parametrize("cut", [(0, 6, 1), (1, 5, 2), (-2, 100, 1), (4, 0, -2), (3, 3, 1)])
def test_a_part_is_replaced(cut) -> None:
    x = floats((6, 2))
    part, ends = floats(x[slice(*cut)].shape, seed=1), [[one] for one in cut]
    want = testing.strided_set_python(x, part, *ends)
    close(run(lambda a, v: topi.strided_set(a, v, *ends), x, part), want, 0)


def test_lookups() -> None:
    x, i, j = floats((5, 6, 2)), np.array([[0], [-1]], "int32"), np.array([1, 5, 3], "int32")
    close(run(lambda a, p, q: topi.adv_index(a, [p, q]), x, i, j), x[i, j], 0)
    places = np.array([[[1, 0], [2, 5]] * 2 + [[3, 3]]], "int32")
    want = find_reference("gather_nd")(x, np.moveaxis(places, 0, -1), batch_dims=1)
    close(run(lambda a, p: topi.gather_nd(a, p, 1), x, places), want, 0)


@pytest.mark.parametrize("how", ["none", "sum", "mean"])
def test_negative_log_likelihood(how) -> None:
    x, w, target = floats((4, 3)), floats((3,), low=0.1, seed=1), np.array([0, 2, -100, 1], "int32")
    want = testing.nll_loss(x, target, w, how)
    close(run(lambda p, t, v: topi.nn.nll_loss(p, t, v, how), x, target, w), want)


@pytest.mark.parametrize(("stride", "padding", "far"), [(1, 0, 1), ((2, 1), (1, 2), (1, 2))])
def test_dilation_by_a_structuring_function(stride, padding, far) -> None:
    x, w = floats((2, 3, 9, 8)), floats((3, 3, 2), seed=1)
    steps, pads, apart = ([value] * 2 if isinstance(value, int) else value for value in (stride, padding, far))
    wide = np.pad(x, ((0, 0), (0, 0), (pads[0],) * 2, (pads[1],) * 2))
    reach = [(extent - 1) * by + 1 for extent, by in zip(w.shape[1:], apart, strict=True)]
    windows = sliding_window_view(wide, reach, (2, 3))[:, :, :: steps[0], :: steps[1], :: apart[0], :: apart[1]]
    want = (windows + w[:, None, None]).max((4, 5))
    close(run(lambda a, b: topi.image.dilation2d_nchw(a, b, stride, padding, far), x, w), want)
    last = run(
        lambda a, b: topi.image.dilation2d_nhwc(a, b, stride, padding, far),
        x.transpose(0, 2, 3, 1).copy(),
        w.transpose(1, 2, 0).copy(),
    )
    close(last, want.transpose(0, 2, 3, 1))
    with pytest.raises(tw.TilewrightError, match="not a window for the channels"):
        topi.image.dilation2d_nchw(te.placeholder((1, 2, 3, 3)), te.placeholder((3, 2, 2)), 1, 0)


@pytest.mark.parametrize(("stride", "size"), [(1, 7), (2, 8)])
def test_gradients_of_depthwise_convolutions(stride, size) -> None:
    x, w = floats((2, size, 6, 3)), floats((3, 2, 3, 2), seed=1)
    windows = sliding_window_view(np.pad(x, ((0, 0), (1, 1), (0, 0), (0, 0))), (3, 2), (1, 2))[:, ::stride, ::stride]
    grads = floats((2, *windows.shape[1:3], 6), seed=2)
    heads = grads.reshape(*grads.shape[:3], 3, 2)
    by_weight = run(
        lambda a, g: topi.nn.depthwise_conv2d_backward_weight_nhwc(a, g, grads.shape, w.shape, stride, (1, 0)), x, grads
    )
    close(by_weight, np.einsum("nyxcpq,nyxcm->pqcm", windows, heads), 1e-5)
    want = np.zeros((2, size + 2, 6, 3))
    for y, p in np.ndindex(heads.shape[1], 3):
        for at, q in np.ndindex(heads.shape[2], 2):
            want[:, y * stride + p, at * stride + q] += np.einsum("ncm,cm->nc", heads[:, y, at], w[p, q])
    by_data = run(
        lambda a, g: topi.nn.depthwise_conv2d_backward_input_nhwc(a, g, grads.shape, x.shape, stride, (1, 0)), w, grads
    )
    close(by_data, want[:, 1:-1], 1e-5)


def test_transposed_convolution_in_groups() -> None:
    x, w = floats((1, 4, 5, 6)), floats((4, 3, 3, 2), seed=1)
    parts = [
        run(lambda a, b: topi.nn.conv2d_transpose(a, b, 2, 1, (1, 0)), x[:, part].copy(), w[part].copy())
        for part in (slice(0, 2), slice(2, 4))
    ]
    close(run(lambda a, b: topi.nn.conv2d_transpose(a, b, 2, 1, (1, 0), None, 2), x, w), np.concatenate(parts, 1))
    for channels, inputs, groups in ((4, 4, 3), (5, 4, 2), (4, 5, 2)):
        with pytest.raises(tw.TilewrightError, match="do not fit"):
            topi.nn.conv2d_transpose(
                te.placeholder((1, channels, 5, 6)), te.placeholder((inputs, 3, 3, 2)), groups=groups
            )
