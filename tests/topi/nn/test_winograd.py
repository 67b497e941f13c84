"""Winograd's convolution against a sum in float64, within the error that its module states."""

import drawn
import numpy as np
import pytest
import tilewright as tw
from this_machine import runnable
from tilewright import te, topi
from tilewright.schedule.errors import BadAlternative
from tilewright.te.constant import open_constant
from tilewright.tools.fuzz.references import convolution as reference
from tilewright.topi.nn.window import BadConvolution
from tilewright.topi.nn.winograd import conv2d_winograd_NCHWc

ERROR = {2: 16 * 2.0**-24, 4: 128 * 2.0**-24}


def check(y, x, w, pads, tile):
    wanted, bound = reference(x, w, pads=pads)
    sizes = bound / (2.0**-24 * 9 * max(x.shape[1], 1))
    assert y.shape == wanted.shape
    assert abs(y - wanted).max(initial=0) <= ERROR[tile] * sizes.max(initial=0)


def run(x, w, padding, tile, packed=False):
    weights = topi.nn.conv2d_winograd_prepack(w, tile) if packed else w
    a, b = te.placeholder(x.shape, name="x"), te.placeholder(weights.shape, name="w")
    made = (
        topi.nn.conv2d_winograd_prepacked(a, b, w.shape[0], padding)
        if packed
        else topi.nn.conv2d_winograd(a, b, padding, tile)
    )
    f = tw.build(topi.schedule(made), [a, b, made])
    y = np.full([extent.value for extent in made.shape], np.nan, np.float32)
    f(x, weights, y)
    return y


SHAPES = {
    "whole tiles": ((1, 16, 16, 16), 32, (1, 1, 1, 1)),
    "cut tiles": ((2, 3, 15, 13), 20, (1, 1, 1, 1)),
    "few places": ((1, 40, 7, 7), 48, (1, 1, 1, 1)),
    "a band for each row": ((1, 8, 57, 24), 16, (1, 1, 1, 1)),
    "no padding": ((1, 5, 6, 11), 17, (0, 0, 0, 0)),
    "more padding than image": ((1, 3, 1, 2), 5, (2, 2, 1, 3)),
    "one of everything": ((1, 1, 3, 3), 1, (0, 0, 0, 0)),
    "no channels": ((1, 0, 5, 5), 4, (1, 1, 1, 1)),
}


@pytest.mark.parametrize("tile", [2, 4])
@pytest.mark.parametrize("name", drawn.part(SHAPES, 2))
def test_weights_packed_before(name, tile):
    data, outputs, pads = SHAPES[name]
    rng = drawn.rng(name, tile)
    x, w = drawn.normal(rng, *data), drawn.normal(rng, outputs, data[1], 3, 3)
    check(run(x, w, pads, tile, packed=True), x, w, pads, tile)


@pytest.mark.parametrize("tile", [2, 4])
@pytest.mark.parametrize("name", ["whole tiles", "cut tiles"])
def test_weights_as_they_are(name, tile):
    data, outputs, pads = SHAPES[name]
    rng = drawn.rng(name, tile)
    x, w = drawn.normal(rng, *data), drawn.normal(rng, outputs, data[1], 3, 3)
    check(run(x, w, pads, tile), x, w, pads, tile)


@pytest.mark.parametrize("tile", [2, 4])
@pytest.mark.parametrize(
    ("data", "outputs", "pads", "block"),
    drawn.part(
        [
            ((1, 32, 12, 16), 32, (1, 1, 1, 1), 16),
            ((2, 16, 15, 13), 48, (1, 0, 1, 2), 16),
            ((1, 12, 1, 2), 16, (2, 2, 1, 3), 4),
            ((1, 64, 57, 23), 16, (1, 1, 1, 1), 16),
            ((0, 16, 4, 4), 16, (1, 1, 1, 1), 16),
            ((1, 0, 5, 5), 16, (1, 1, 1, 1), 16),
        ],
        3,
    ),
)
@pytest.mark.parametrize("target", runnable("llvm", "llvm -mcpu=x86-64-v3"))
def test_channels_in_blocks(data, outputs, pads, block, tile, target):
    rng = drawn.rng(f"blocks {data}", tile)
    x, w = drawn.normal(rng, *data), drawn.normal(rng, outputs, data[1], 3, 3)
    batch, channels, high, wide = data
    blocks = np.ascontiguousarray(x.reshape(batch, channels // block, block, high, wide).transpose(0, 1, 3, 4, 2))
    packed = topi.nn.conv2d_winograd_prepack(w, tile)
    a, b = te.placeholder(blocks.shape, name="x"), te.placeholder(packed.shape, name="w")
    made = conv2d_winograd_NCHWc(a, b, pads)
    after = te.compute(made.shape, lambda *i: te.max(made(*i), -1e9), name="after")
    y = np.full([extent.value for extent in made.shape], np.nan, np.float32)
    tw.build([a, b, after], target=target)(blocks, packed, y)
    check(y.transpose(0, 1, 4, 2, 3).reshape(batch, outputs, *y.shape[2:4]), x, w, pads, tile)


def test_an_element_has_part_in_the_results_of_its_own_windows_alone():
    rng = drawn.rng("reach")
    x, w = drawn.normal(rng, 1, 16, 9, 9), drawn.normal(rng, 16, 16, 3, 3)
    x[0, 3, 4, 5] = np.nan
    y = run(x, w, (1, 1, 1, 1), 2)
    reached = np.zeros((9, 9), bool)
    reached[3:6, 4:7] = True
    assert (np.isnan(y) == reached).all()


def test_a_tail_goes_into_the_store():
    rng = drawn.rng("winograd tail")
    x, w, bias = drawn.normal(rng, 1, 16, 12, 12), drawn.normal(rng, 16, 16, 3, 3), drawn.normal(rng, 16)
    packed = topi.nn.conv2d_winograd_prepack(w)
    a, b, c = (te.placeholder(one.shape, name=name) for one, name in zip((x, packed, bias), "xwb", strict=True))
    y = topi.nn.conv2d_winograd_prepacked(a, b, 16)
    out = te.compute(y.shape, lambda n, o, i, j: te.max(y[n, o, i, j] + c[o], 0.0), name="relu")
    f = tw.build(topi.schedule(out), [a, b, c, out])
    result = np.empty((1, 16, 12, 12), np.float32)
    f(x, packed, bias, result)
    wanted, _ = reference(x, w, pads=(1, 1, 1, 1))
    np.testing.assert_allclose(result, np.maximum(wanted + bias[None, :, None, None], 0), atol=1e-4)


def test_batch_unknown_until_the_call():
    rng = drawn.rng("winograd batch")
    w = drawn.normal(rng, 16, 8, 3, 3)
    a, b = te.placeholder((te.size_var("n"), 8, 10, 10), name="x"), te.placeholder(w.shape, name="w")
    out = topi.nn.conv2d_winograd(a, b)
    f = tw.build(topi.schedule(out), [a, b, out])
    for batch in (1, 3):
        x, y = drawn.normal(rng, batch, 8, 10, 10), np.empty((batch, 16, 10, 10), np.float32)
        f(x, w, y)
        check(y, x, w, (1, 1, 1, 1), 2)


def test_what_it_does_not_take():
    x, w = te.placeholder((1, 8, 8, 8), name="x"), te.placeholder((4, 8, 5, 5), name="w")
    with pytest.raises(BadConvolution, match="not 3 by 3"):
        topi.nn.conv2d_winograd(x, w)
    with pytest.raises(BadConvolution, match="no tile of 3"):
        topi.nn.conv2d_winograd_prepack(np.zeros((4, 8, 3, 3), np.float32), 3)
    with pytest.raises(BadConvolution, match="do not fit"):
        topi.nn.conv2d_winograd_prepacked(x, te.placeholder((4, 4, 1, 7, 16), name="w"), 16)
    with pytest.raises(BadConvolution, match="output channels"):
        topi.nn.conv2d_winograd(x, te.placeholder((te.size_var("o"), 8, 3, 3), name="w"))


def offered(shape, outputs, dtype="float32", reach=(3, 3), groups=1, **rest):
    """The schedule of a convolution by any algorithm, and the convolution."""
    x = te.placeholder(shape, dtype, name="x")
    w = te.placeholder((outputs, shape[1] // groups, *reach), dtype, name="w")
    y = topi.nn.conv2d(x, w, padding=1, groups=groups, algorithm="auto", **rest)
    return te.create_schedule(y.op), y


def test_auto_offers_it():
    s, y = offered((1, 16, 14, 14), 16)
    assert [tensor.name for tensor in s.redeclare(y, "winograd")][-1] == "winograd_results"
    direct = topi.nn.conv2d(*y.op.input_tensors[:1], y.op.input_tensors[1])
    with pytest.raises(BadAlternative, match="offers nothing else"):
        te.create_schedule(direct.op).redeclare(direct, "winograd")


@pytest.mark.parametrize(
    "how",
    [
        {"stride": 2},
        {"dilation": (1, 2)},
        {"groups": 2},
        {"out_dtype": "float64"},
        {"dtype": "float64"},
        {"dtype": "float16"},
        {"reach": (3, 1)},
    ],
    ids=str,
)
def test_auto_does_not_offer_it_elsewhere(how):
    s, y = offered((1, 64, 56, 56), 64, **how)
    with pytest.raises(BadAlternative, match="offers nothing else"):
        s.redeclare(y, "winograd")


MACHINE = "llvm -mcpu=rocketlake -uncalibrated -cores=1 -l2=2M -l3=32M"


@pytest.mark.parametrize(
    ("shape", "outputs", "known", "taken"),
    [
        ((1, 64, 56, 56), 64, False, True),
        ((1, 128, 28, 28), 128, True, True),
        ((1, 512, 7, 7), 512, True, False),
        ((1, 256, 14, 14), 256, False, False),
        ((1, 8, 64, 64), 8, True, False),
        ((1, 64, te.size_var("h"), 56), 64, True, False),
    ],
    ids=str,
)
def test_the_estimate_chooses(shape, outputs, known, taken):
    weights = (outputs, shape[1], 3, 3)
    w = open_constant(weights, np.dtype("float32"), "w") if known else te.placeholder(weights, name="w")
    y = topi.nn.conv2d(te.placeholder(shape, name="x"), w, padding=1, algorithm="auto")
    s = topi.schedule(y, MACHINE)
    assert any(stage.name == "winograd_products" for stage in s.stages) == taken
    assert not any(stage.name == "winograd_products" for stage in topi.schedule(y, MACHINE, exact=True).stages)


@pytest.mark.parametrize("layout", ["NCHW", "NCHWc"])
def test_redeclared_is_right_with_what_stands_around_it(layout):
    rng = drawn.rng(f"auto {layout}")
    x, w = drawn.normal(rng, 1, 32, 13, 14), drawn.normal(rng, 16, 32, 3, 3)
    given, weights = x, w
    if layout == "NCHWc":
        given = np.ascontiguousarray(x.reshape(1, 2, 16, 13, 14).transpose(0, 1, 3, 4, 2))
        weights = np.ascontiguousarray(w.reshape(1, 16, 2, 16, 3, 3).transpose(0, 2, 4, 5, 3, 1))
    a, b = te.placeholder(given.shape, name="x"), te.placeholder(weights.shape, name="w")
    doubled = te.compute(a.shape, lambda *i: a(*i) * 2.0, name="doubled")
    y = topi.nn.conv2d(doubled, b, 1, (1, 0, 2, 1), layout=layout, algorithm="auto")
    out = te.compute(y.shape, lambda *i: y(*i) * 0.5, name="halved")
    s = te.create_schedule(out.op)
    s.redeclare(y, "winograd")
    again = te.Schedule.replay(s.trace, [out.op])
    assert [stage.name for stage in again.stages] == [stage.name for stage in s.stages]
    for schedule in (s, again.copy()):
        result = np.full([extent.value for extent in out.shape], np.nan, np.float32)
        tw.build(schedule, [a, b, out])(given, weights, result)
        if layout == "NCHWc":
            result = result.transpose(0, 1, 4, 2, 3).reshape(1, 16, *result.shape[2:4])
        check(result, x, w, (1, 0, 2, 1), 2)


def test_algorithms_that_there_are_not():
    x, w = te.placeholder((1, 8, 8, 8), name="x"), te.placeholder((4, 8, 3, 3), name="w")
    with pytest.raises(BadConvolution, match="no algorithm 'fft'"):
        topi.nn.conv2d(x, w, algorithm="fft")
    with pytest.raises(BadConvolution, match=r"does not compute this[\s\S]*stride \(2, 2\)"):
        topi.nn.conv2d(x, w, 2, algorithm="winograd")
    assert topi.nn.conv2d(x, w, algorithm="winograd").op.tag == "conv2d_winograd"
