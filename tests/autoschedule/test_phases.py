"""Sums of which divisibility leaves terms out are scheduled phase by phase, and have the values that were declared."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi


def spread_by_hand(x: te.Tensor, w: te.Tensor, step: int, pad: int) -> te.Tensor:
    """x (c, n) and w (c, o, k): zeros between the elements of x and around them, then a convolution with w turned."""
    c, n = (int(str(extent)) for extent in x.shape)
    o, taps = (int(str(extent)) for extent in w.shape[1:])
    before = taps - 1 - pad

    def element(q: te.Expr, y: te.Expr) -> te.Expr:
        at = y - before
        return te.if_then_else(te.all(at >= 0, at < n * step, at % step == 0), x[q, at // step], 0.0)

    apart = te.compute((c, (n - 1) * step + 1 + 2 * before), element, name="apart")
    q, k = te.reduce_axis((0, c), "q"), te.reduce_axis((0, taps), "k")
    return te.compute(
        (o, (n - 1) * step + taps - 2 * pad),
        lambda f, y: te.sum(apart[q, y + k] * w[q, f, taps - 1 - k], [q, k]),
        name="C",
    )


def drawn(draw: Random, form: str) -> tuple[list[te.Tensor], te.Tensor]:
    step, taps, n = draw.choice((2, 3, 5)), draw.choice((1, 2, 3, 4, 7)), draw.choice((1, 2, 5, 8))
    channels, outputs = draw.choice((1, 3)), draw.choice((1, 9))
    pad = min(draw.randrange(taps), ((n - 1) * step + taps - 1) // 2)
    more = draw.randrange(step)
    space = {"by hand": 1, "conv1d": 1, "conv2d": 2, "conv3d": 3}[form]
    batch = [] if form == "by hand" else [draw.choice((1, 2))]
    x = te.placeholder((*batch, channels, *[n] * space), name="x")
    w = te.placeholder((channels, outputs, *[taps] * space), name="w")
    if form == "by hand":
        return [x, w], spread_by_hand(x, w, step, pad)
    if form == "conv1d":
        return [x, w], topi.nn.conv1d_transpose_ncw(x, w, step, pad, output_padding=more)
    if form == "conv2d":
        return [x, w], topi.nn.conv2d_transpose(x, w, (step, 2), pad, (more, 0))
    return [x, w], topi.nn.conv3d_transpose_ncdhw(x, w, (1, 2, 2), pad)


@pytest.mark.parametrize("form", ["by hand", "conv1d", "conv2d", "conv3d"])
def test_the_values_are_those_declared_weights_that_are_no_numbers_included(form: str) -> None:
    draw = Random(form)
    arguments, C = drawn(draw, form)
    rng = np.random.default_rng(3)
    arrays = [rng.integers(-4, 5, [int(str(extent)) for extent in each.shape]).astype(np.float32) for each in arguments]
    arrays[1].flat[draw.randrange(arrays[1].size)] = draw.choice((np.inf, np.nan))  # 0 times that is no 0
    shape = [int(str(extent)) for extent in C.shape]
    expected = np.empty(shape, np.float32)
    tw.build(te.create_schedule(C.op), [*arguments, C])(*arrays, expected)
    s, result = tw.autoschedule.schedule(C), np.empty(shape, np.float32)
    assert any(".phase" in stage.op.name for stage in s.stages)
    tw.build(s, [*arguments, C])(*arrays, result)
    np.testing.assert_array_equal(result, expected)
    s = tw.autoschedule.schedule(C, exact=True)
    assert s.is_exact and not any(".phase" in stage.op.name for stage in s.stages)


def test_a_condition_on_the_sum_is_taken_apart_where_bits_must_stay() -> None:
    x, w, k = te.placeholder((9, 7), name="x"), te.placeholder((5,), name="w"), te.reduce_axis((0, 5), "k")
    C = te.compute(
        (9, 17),
        lambda i, y: te.sum(
            x[i, te.max(te.min((y - k) // 2, 6), 0)] * w[k], k, where=te.all(y >= k, (y - k) % 2 == 0, y - k < 14)
        ),
        name="C",
    )
    s = tw.autoschedule.schedule(C, exact=True)
    assert s.is_exact and [stage.op.name for stage in s.stages if stage.op.name.startswith("C.phase")]
    assert s.verify()


def test_every_axis_that_is_strided_has_phases() -> None:
    x, w = te.placeholder((1, 3, 5, 6), name="x"), te.placeholder((3, 2, 4, 4), name="w")
    s = tw.autoschedule.schedule(topi.nn.conv2d_transpose(x, w, 2, 1))
    sums = [stage.op for stage in s.stages if stage.op.name.count(".phase") == 2 and stage.op.name.startswith("conv2d")]
    taps = {
        stage.op.name: [int(str(axis.dom.extent)) for axis in stage.op.reduce_axis]
        for stage in s.stages
        if stage.op in sums and stage.op.reduce_axis
    }
    assert len(taps) == 4 and all(extents == [3, 2, 2] for extents in taps.values())


def test_gradients_of_strided_convolutions_read_by_phases() -> None:
    x, w, h = te.placeholder((3, 13), name="x"), te.placeholder((5, 3, 4), name="w"), te.placeholder((5, 4), name="h")
    c, k = te.reduce_axis((0, 3), "c"), te.reduce_axis((0, 4), "k")
    y = te.compute((5, 4), lambda f, i: te.sum(x[c, 3 * i + k] * w[f, c, k], [c, k]), name="y")
    (g,) = te.gradient(y, [x], head=h)
    s = tw.autoschedule.schedule(g, exact=True)
    phases = [stage.op for stage in s.stages if stage.op.name.rpartition(".")[2] in ("phase0", "phase1", "phase2")]
    assert s.is_exact and len(phases) == 3 and not any("%" in str(op.values[0]) for op in phases)
    rng = np.random.default_rng(5)
    arrays = [rng.integers(-4, 5, shape).astype(np.float32) for shape in ((5, 4), (5, 3, 4))]
    results = [np.empty((3, 13), np.float32) for _ in range(2)]
    for each, result in zip((s, te.create_schedule(g.op)), results, strict=True):
        tw.build(each, [h, w, g])(*arrays, result)
    np.testing.assert_array_equal(*results)


def test_sums_without_conditions_of_divisibility_are_left_alone() -> None:
    x, k = te.placeholder((9, 34), name="x"), te.reduce_axis((0, 3), "k")
    strided = te.compute((9, 16), lambda i, y: te.sum(x[i, 2 * y + k], k), name="strided")
    even = te.compute((9, 16), lambda i, y: te.sum(te.if_then_else(k % 2 == 0, x[i, y + k], 0.0), k), name="even")
    for each in (strided, even):
        assert not any("phase" in stage.op.name for stage in tw.autoschedule.schedule(each).stages)
