"""Convolutions against a sum written out in float64."""

import drawn
import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi
from tilewright.tools.fuzz.references import convolution as reference
from tilewright.tools.fuzz.references import transposed_convolution
from tilewright.topi.nn.window import BadConvolution, BadWindow


def run(made, *arrays, target="llvm"):
    """Schedules and builds a function of placeholders (in order) and its result, and calls it."""
    inputs, out = made
    shape = [int(extent) if isinstance(extent, int) else extent.value for extent in out.shape]
    f = tw.build(topi.schedule(out, target), [*inputs, out], target)
    y = np.full(shape, np.nan, np.float32)
    f(*arrays, y)
    return y


def check(y, x, w, **how):
    wanted, bound = reference(x, w, **how)
    assert y.shape == wanted.shape
    assert (abs(y - wanted) <= bound + 1e-30).all(), abs(y - wanted).max()


def nchw(x, w, stride, padding, dilation=1, groups=1):
    a, b = te.placeholder(x.shape, name="x"), te.placeholder(w.shape, name="w")
    return run(([a, b], topi.nn.conv2d(a, b, stride, padding, dilation, groups)), x, w)


SHAPES = {
    "3x3": ((1, 16, 12, 14), (32, 16, 3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1),
    "7x7 stride 2 of three channels": ((1, 3, 29, 31), (20, 3, 7, 7), (2, 2), (3, 3, 3, 3), (1, 1), 1),
    "1x1": ((2, 40, 7, 7), (48, 40, 1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1),
    "1x1 on short rows": ((2, 37, 5, 13), (41, 37, 1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1),
    "1x1 on an image of one place a row": ((1, 9, 11, 1), (17, 9, 1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1),
    "1x1 stride 2": ((1, 33, 14, 13), (64, 33, 1, 1), (2, 2), (0, 0, 0, 0), (1, 1), 1),
    "nothing is round": ((3, 7, 17, 19), (13, 7, 3, 2), (2, 3), (0, 2, 1, 3), (1, 2), 1),
    "a row": ((1, 5, 1, 67), (9, 5, 1, 5), (1, 1), (0, 2, 0, 2), (1, 1), 1),
    "a column": ((1, 5, 67, 1), (33, 5, 5, 1), (1, 1), (2, 0, 2, 0), (1, 1), 1),
    "one of everything": ((1, 1, 1, 1), (1, 1, 1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1),
    "whole groups of lanes": ((1, 32, 9, 9), (64, 16, 3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 2),
    "small groups": ((1, 12, 10, 11), (18, 4, 3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 3),
    "dilated": ((1, 8, 15, 15), (17, 8, 3, 3), (1, 1), (2, 2, 2, 2), (2, 2), 1),
    "all padding": ((1, 3, 1, 1), (5, 3, 3, 3), (1, 1), (2, 2, 2, 2), (1, 1), 1),
    "no input channels": ((1, 0, 5, 5), (4, 0, 3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1),
}


@pytest.mark.parametrize("name", drawn.part(SHAPES, 6))
def test_channels_first(name):
    data, kernel, stride, pads, dilation, groups = SHAPES[name]
    rng = drawn.rng(name)
    x, w = drawn.normal(rng, *data), drawn.normal(rng, *kernel)
    y = nchw(x, w, stride, pads, dilation, groups)
    check(y, x, w, stride=stride, pads=pads, dilation=dilation, groups=groups)


@pytest.mark.parametrize("name", drawn.part(SHAPES, 6))
def test_channels_last(name):
    data, kernel, stride, pads, dilation, groups = SHAPES[name]
    rng = drawn.rng(name)
    x, w = drawn.normal(rng, *data), drawn.normal(rng, *kernel)
    last, hwio = np.ascontiguousarray(x.transpose(0, 2, 3, 1)), np.ascontiguousarray(w.transpose(2, 3, 1, 0))
    a, b = te.placeholder(last.shape, name="x"), te.placeholder(hwio.shape, name="w")
    y = run(([a, b], topi.nn.conv2d(a, b, stride, pads, dilation, groups, layout="NHWC")), last, hwio)
    check(y.transpose(0, 3, 1, 2), x, w, stride=stride, pads=pads, dilation=dilation, groups=groups)


@pytest.mark.parametrize("name", drawn.part(SHAPES, 6))
def test_weights_packed_before(name):
    data, kernel, stride, pads, dilation, groups = SHAPES[name]
    rng = drawn.rng(name)
    x, w = drawn.normal(rng, *data), drawn.normal(rng, *kernel)
    packed = topi.nn.conv2d_prepack(w, groups)
    a, b = te.placeholder(x.shape, name="x"), te.placeholder(packed.shape, name="w")
    y = run(([a, b], topi.nn.conv2d_prepacked(a, b, w.shape[0], stride, pads, dilation, groups)), x, packed)
    check(y, x, w, stride=stride, pads=pads, dilation=dilation, groups=groups)


@pytest.mark.parametrize("groups", [1, 2])
def test_packing_in_a_kernel_is_packing_by_numpy(groups):
    w = drawn.normal(drawn.rng("pack", groups), 22, 3, 3, 2)
    a = te.placeholder(w.shape, name="w")
    packed = topi.nn.conv2d_prepack(w, groups)
    made = topi.nn.conv2d_prepack(a, groups)
    assert packed.shape == (2, 3, 3, 2, 16)
    np.testing.assert_array_equal(run(([a], made), w), packed)


@pytest.mark.parametrize(("block", "out_block"), [(8, 16), (4, 8), (16, 16), (3, 5)])
def test_blocked(block, out_block):
    rng = drawn.rng("blocked", block)
    x, w = drawn.normal(rng, 2, 2 * block, 9, 11), drawn.normal(rng, 3 * out_block, 2 * block, 3, 3)
    data = np.ascontiguousarray(x.reshape(2, 2, block, 9, 11).transpose(0, 1, 3, 4, 2))
    kernel = np.ascontiguousarray(w.reshape(3, out_block, 2, block, 3, 3).transpose(0, 2, 4, 5, 3, 1))
    a, b = te.placeholder(data.shape, name="x"), te.placeholder(kernel.shape, name="w")
    y = run(([a, b], topi.nn.conv2d(a, b, 1, 1, layout=f"NCHW{block}c")), data, kernel)
    check(y.transpose(0, 1, 4, 2, 3).reshape(2, 3 * out_block, 9, 11), x, w, pads=(1, 1, 1, 1))


@pytest.mark.parametrize("batch", [1, 3])
def test_batch_unknown_until_the_call(batch):
    rng = drawn.rng("batch", batch)
    x, w = drawn.normal(rng, batch, 8, 10, 10), drawn.normal(rng, 24, 8, 3, 3)
    a, b = te.placeholder((te.size_var("n"), 8, 10, 10), name="x"), te.placeholder(w.shape, name="w")
    out = topi.nn.conv2d(a, b, 1, 1)
    f = tw.build(topi.schedule(out), [a, b, out])
    y = np.empty((batch, 24, 10, 10), np.float32)
    f(x, w, y)
    check(y, x, w, pads=(1, 1, 1, 1))


def test_size_unknown_until_the_call():
    rng = drawn.rng("size")
    h, wide = te.size_var("h"), te.size_var("w")
    a, b = te.placeholder((1, 8, h, wide), name="x"), te.placeholder((24, 8, 3, 3), name="w")
    out = topi.nn.conv2d(a, b, 2, 1)
    f = tw.build(topi.schedule(out), [a, b, out])
    w = drawn.normal(rng, 24, 8, 3, 3)
    for size in ((9, 30), (1, 1), (16, 17)):
        x = drawn.normal(rng, 1, 8, *size)
        y = np.empty((1, 24, (size[0] - 1) // 2 + 1, (size[1] - 1) // 2 + 1), np.float32)
        f(x, w, y)
        check(y, x, w, stride=(2, 2), pads=(1, 1, 1, 1))


def test_a_tail_goes_into_the_store():
    rng = drawn.rng("tail")
    x, w = drawn.normal(rng, 1, 16, 9, 9), drawn.normal(rng, 40, 16, 3, 3)
    residual, bias = drawn.normal(rng, 1, 40, 9, 9), drawn.normal(rng, 40)
    a, b, r, c = (
        te.placeholder(one.shape, name=name) for one, name in zip((x, w, residual, bias), "xwrb", strict=True)
    )
    y = topi.nn.conv2d(a, b, 1, 1)
    biased = te.compute(y.shape, lambda n, o, i, j: y[n, o, i, j] + c[o], name="biased")
    added = te.compute(y.shape, lambda *at: biased(*at) + r(*at), name="added")
    out = te.compute(y.shape, lambda *at: te.max(added(*at), 0.0), name="relu")
    result = run(([a, b, r, c], out), x, w, residual, bias)
    wanted, bound = reference(x, w, pads=(1, 1, 1, 1))
    wanted = np.maximum(wanted + residual + bias[None, :, None, None], 0)
    assert (abs(result - wanted) <= bound + 1e-6).all()


@pytest.mark.parametrize("padding", ["SAME", "VALID", 2, (1, 2), (0, 1, 2, 3)])
def test_paddings(padding):
    rng = drawn.rng(str(padding))
    x, w = drawn.normal(rng, 1, 3, 8, 9), drawn.normal(rng, 4, 3, 4, 3)
    pads = {"SAME": (2, 1, 1, 1), "VALID": (0,) * 4, 2: (2,) * 4, (1, 2): (1, 2, 1, 2)}.get(padding, padding)
    check(nchw(x, w, 1, padding), x, w, pads=pads)


@pytest.mark.parametrize(
    "make", [lambda x, w: topi.nn.conv2d_nchw(x, w, 1, 1), lambda x, w: topi.nn.group_conv2d_nchw(x, w, 1, 1, 1, 1)]
)
def test_names_of_tvm(make):
    x, w = te.placeholder((1, 4, 6, 6), name="x"), te.placeholder((8, 4, 3, 3), name="w")
    rng = drawn.rng("names")
    a, b = drawn.normal(rng, 1, 4, 6, 6), drawn.normal(rng, 8, 4, 3, 3)
    check(run(([x, w], make(x, w)), a, b), a, b, pads=(1, 1, 1, 1))


def test_half_precision_sums_in_what_is_asked_for():
    rng = drawn.rng("half")
    x, w = drawn.normal(rng, 1, 8, 6, 6).astype(np.float16), drawn.normal(rng, 16, 8, 3, 3).astype(np.float16)
    a, b = te.placeholder(x.shape, "float16", "x"), te.placeholder(w.shape, "float16", "w")
    y = run(([a, b], topi.nn.conv2d(a, b, 1, 1, out_dtype="float32")), x, w)
    check(y, x, w, pads=(1, 1, 1, 1))


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_operands_that_are_computed(layout):
    """Data and weights that are cast before: into the panel, and into the packed weights."""
    rng = drawn.rng("heads")
    x, w = rng.integers(-9, 9, (1, 20, 9, 9)).astype(np.int8), rng.integers(-9, 9, (20, 20, 3, 3)).astype(np.int8)
    last, hwio = (x, w) if layout == "NCHW" else (x.transpose(0, 2, 3, 1).copy(), w.transpose(2, 3, 1, 0).copy())
    a, b = te.placeholder(last.shape, "int8", "x"), te.placeholder(hwio.shape, "int8", "w")
    wide = [
        te.compute(one.shape, lambda *at, one=one: one(*at).astype("float32"), name=f"{one.name}_wide")
        for one in (a, b)
    ]
    y = run(([a, b], topi.nn.conv2d(*wide, 1, 1, layout=layout)), last, hwio)
    wanted, _ = reference(x, w, pads=(1, 1, 1, 1))
    np.testing.assert_array_equal(y if layout == "NCHW" else y.transpose(0, 3, 1, 2), wanted)


@pytest.mark.parametrize(
    ("size", "reach", "stride", "pads", "more"),
    drawn.part(
        [
            ((5, 7), (3, 3), (2, 2), (1, 1, 1, 1), (1, 1)),
            ((4, 4), (4, 4), (2, 2), (1, 1, 1, 1), (0, 0)),
            ((6, 5), (2, 3), (1, 3), (0, 2, 1, 0), (0, 2)),
            ((3, 3), (1, 1), (2, 1), (0, 0, 0, 0), (0, 0)),
            ((1, 1), (5, 5), (1, 1), (2, 2, 2, 2), (0, 0)),
        ],
        3,
    ),
)
def test_transposed(size, reach, stride, pads, more):
    rng = drawn.rng("transposed", size[0])
    x, w = drawn.normal(rng, 2, 6, *size), drawn.normal(rng, 6, 19, *reach)
    wanted, bound = transposed_convolution(x, w, stride, pads, more)
    a, b = te.placeholder(x.shape, name="x"), te.placeholder(w.shape, name="w")
    y = run(([a, b], topi.nn.conv2d_transpose(a, b, stride, pads, more)), x, w)
    assert y.shape == wanted.shape and (abs(y - wanted) <= bound + 1e-30).all()


@pytest.mark.parametrize("case", range(drawn.count(8, 400)))
def test_drawn(case):
    """Any sizes, strides, dilations, paddings and groups, in each layout and with weights packed or not."""
    rng = drawn.rng("convolutions", case)
    pick = lambda low, high: int(rng.integers(low, high + 1))
    groups = pick(1, 3) if rng.random() < 0.3 else 1
    channels, outputs = groups * pick(1, 24), groups * pick(1, 40)
    reach, stride, dilation = ((pick(1, 4), pick(1, 4)), (pick(1, 3), pick(1, 3)), (pick(1, 2), pick(1, 2)))
    pads = tuple(pick(0, 3) for _ in range(4))
    size = [
        pick(1, 3) + max((reach[at] - 1) * dilation[at] - pads[at] - pads[at + 2], 0) + pick(0, 30) for at in (0, 1)
    ]
    x, w = drawn.normal(rng, pick(1, 2), channels, *size), drawn.normal(rng, outputs, channels // groups, *reach)
    how = {"stride": stride, "pads": pads, "dilation": dilation, "groups": groups}
    kind = ("plain", "packed", "last")[pick(0, 2)]
    if kind == "plain":
        y = nchw(x, w, stride, pads, dilation, groups)
    elif kind == "packed":
        packed = topi.nn.conv2d_prepack(w, groups)
        a, b = te.placeholder(x.shape, name="x"), te.placeholder(packed.shape, name="w")
        y = run(([a, b], topi.nn.conv2d_prepacked(a, b, outputs, stride, pads, dilation, groups)), x, packed)
    else:
        last, hwio = np.ascontiguousarray(x.transpose(0, 2, 3, 1)), np.ascontiguousarray(w.transpose(2, 3, 1, 0))
        a, b = te.placeholder(last.shape, name="x"), te.placeholder(hwio.shape, name="w")
        y = run(([a, b], topi.nn.conv2d(a, b, stride, pads, dilation, groups, "NHWC")), last, hwio).transpose(
            0, 3, 1, 2
        )
    check(y, x, w, **how)


def test_what_is_no_window():
    x, w = te.placeholder((1, 3, 8, 8), name="x"), te.placeholder((4, 3, 3, 3), name="w")
    for how, words in (
        ({"stride": 0}, "stride is 0"),
        ({"padding": (1, 2, 3)}, "padding is"),
        ({"padding": "FULL"}, "FULL"),
        ({"padding": -1}, "padding is -1"),
        ({"dilation": (1, 2, 3)}, "dilation is"),
        ({"dilation": 4}, "does not fit"),
    ):
        with pytest.raises(BadWindow, match=words):
            topi.nn.conv2d(x, w, **({"stride": 1, "padding": 0} | how))


def test_what_does_not_fit():
    x, w = te.placeholder((1, 8, 8, 8), name="x"), te.placeholder((4, 3, 3, 3), name="w")
    with pytest.raises(BadConvolution, match="8 channels, the kernel reads 3"):
        topi.nn.conv2d(x, w, 1, 0)
    with pytest.raises(BadConvolution, match="not cut into 3 equal groups"):
        topi.nn.conv2d(x, w, 1, 0, groups=3)
    with pytest.raises(BadConvolution, match="no layout 'NWHC'"):
        topi.nn.conv2d(x, w, 1, 0, layout="NWHC")
    with pytest.raises(BadConvolution, match="is not NCHW8c"):
        topi.nn.conv2d(x, w, 1, 0, layout="NCHW8c")
    with pytest.raises(BadConvolution, match="3 dimensions"):
        topi.nn.conv2d(te.placeholder((8, 8, 8), name="y"), w, 1, 0)
    with pytest.raises(BadConvolution, match="not a constant"):
        topi.nn.conv2d(x, te.placeholder((4, 8, te.size_var("k"), 3), name="w"), 1, 0)
