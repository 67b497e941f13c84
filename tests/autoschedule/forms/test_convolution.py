"""Convolutions, windows and pools that nobody tagged: they are scheduled as topi's are."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import drawn
import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi
from tilewright.autoschedule.forms.convolution import match_convolution

Read = Callable[..., te.Expr]


def padded(a: te.Tensor, pad: int, at: Sequence[int]) -> te.Tensor:
    """A tensor with zeros around two of its dimensions."""
    size = [int(str(extent)) for extent in a.shape]

    def element(*index: te.Expr) -> te.Expr:
        there = [i - pad if d in at else i for d, i in enumerate(index)]
        inside = [condition for d in at for condition in (index[d] >= pad, index[d] < size[d] + pad)]
        return te.if_then_else(te.all(*inside), a[tuple(there)], 0.0)

    return te.compute([extent + 2 * pad * (d in at) for d, extent in enumerate(size)], element, name="around")


def channels_first(a: te.Tensor, w: te.Tensor, stride: int, pad: int, groups: int) -> te.Tensor:
    """A convolution of (n, c, y, x), its groups told by quotients."""
    n, _, high, wide = (int(str(extent)) for extent in a.shape)
    o, inputs, *taps = (int(str(extent)) for extent in w.shape)
    c, p, q = (te.reduce_axis((0, extent), name) for extent, name in zip((inputs, *taps), "cpq", strict=True))
    x, each = padded(a, pad, (2, 3)), o // groups
    size = [(extent + 2 * pad - tap) // stride + 1 for extent, tap in zip((high, wide), taps, strict=True)]
    return te.compute(
        (n, o, *size),
        lambda b, k, i, j: te.sum(
            x[b, k // each * inputs + c if groups > 1 else c, i * stride + p, j * stride + q] * w[k, c, p, q], [c, p, q]
        ),
        name="mine",
    )


def channels_last(a: te.Tensor, w: te.Tensor, stride: int, pad: int, groups: int) -> te.Tensor:
    """One of (n, y, x, c)."""
    n, high, wide, _ = (int(str(extent)) for extent in a.shape)
    *taps, inputs, o = (int(str(extent)) for extent in w.shape)
    p, q, c = (te.reduce_axis((0, extent), name) for extent, name in zip((*taps, inputs), "pqc", strict=True))
    x, each = padded(a, pad, (1, 2)), o // groups
    size = [(extent + 2 * pad - tap) // stride + 1 for extent, tap in zip((high, wide), taps, strict=True)]
    return te.compute(
        (n, *size, o),
        lambda b, i, j, k: te.sum(
            x[b, i * stride + p, j * stride + q, k // each * inputs + c if groups > 1 else c] * w[p, q, c, k], [p, q, c]
        ),
        name="mine",
    )


@pytest.mark.parametrize(
    ("layout", "inputs", "outputs", "size", "taps", "stride", "groups"),
    drawn.part(
        [
            ("NCHW", 6, 32, 9, 3, 1, 1),
            ("NCHW", 5, 24, 14, 3, 1, 1),
            ("NCHW", 16, 16, 8, 3, 2, 8),
            ("NHWC", 7, 32, 9, 3, 2, 1),
            ("NHWC", 4, 64, 6, 5, 1, 2),
            ("NCHW", 3, 2, 21, 1, 1, 1),
        ],
        3,
    ),
)
def test_by_hand_is_as_topis(
    layout: str, inputs: int, outputs: int, size: int, taps: int, stride: int, groups: int
) -> None:
    pad = taps // 2
    image, weights = (1, inputs, size, size), (outputs, inputs // groups, taps, taps)
    if layout == "NHWC":
        image, weights = (1, size, size, inputs), (taps, taps, inputs // groups, outputs)
    a, w = te.placeholder(image, name="a"), te.placeholder(weights, name="w")
    mine = (channels_first if layout == "NCHW" else channels_last)(a, w, stride, max(pad, 1), groups)
    theirs = topi.nn.conv2d(a, w, stride, max(pad, 1), groups=groups, layout=layout)
    target = "llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512"
    plans = [tw.autoschedule.schedule(y, target).plan[0] for y in (mine, theirs)]
    assert plans[0].rule == plans[1].rule and len(plans[0].candidates) == len(plans[1].candidates)
    assert plans[0].chosen == plans[1].chosen
    draw, results = np.random.default_rng(7), list[np.ndarray]()
    arrays = [draw.standard_normal(shape).astype("float32") for shape in (image, weights)]
    for y in (mine, theirs):
        results.append(np.full([int(str(extent)) for extent in y.shape], np.nan, "float32"))
        tw.build([a, w, y])(*arrays, results[-1])
    assert results[0].tobytes() == results[1].tobytes()


def test_what_is_no_convolution_is_none() -> None:
    a, w = te.placeholder((1, 8, 9, 9), name="a"), te.placeholder((8, 8, 3, 3), name="w")
    c, p, q = (te.reduce_axis((0, extent), name) for extent, name in ((8, "c"), (3, "p"), (3, "q")))

    def of(image: Read, weight: Read) -> te.Tensor:
        return te.compute((1, 8, 7, 7), lambda n, o, i, j: te.sum(image(n, o, i, j) * weight(n, o, i, j), [c, p, q]))

    def usual(n: te.Expr, o: te.Expr, i: te.Expr, j: te.Expr) -> te.Expr:
        return a[n, c, i + p, j + q]

    def weight(n: te.Expr, o: te.Expr, i: te.Expr, j: te.Expr) -> te.Expr:
        return w[o, c, p, q]

    found = match_convolution(of(usual, weight).op)
    assert (
        found is not None
        and found.plain
        and (found.groups, found.inputs, found.taps, found.stride) == (1, 8, (3, 3), (1, 1))
    )
    others: list[tuple[Read, Read]] = [
        (lambda n, o, i, j: a[n, c, i + j, j + q], lambda n, o, i, j: w[o, c, p, q]),
        (lambda n, o, i, j: a[n, c, i + p, i + q], lambda n, o, i, j: w[o, c, p, q]),
        (lambda n, o, i, j: a[n, o, i + p, j + q], lambda n, o, i, j: w[o, c, p, q]),
        (usual, lambda n, o, i, j: w[o, c, q, p]),
        (usual, lambda n, o, i, j: w[c, o, p, q]),
        (usual, lambda n, o, i, j: w[o, c, p, i % 3]),
        (lambda n, o, i, j: a[n, c, 6 - i + p, j + q], weight),
    ]
    for image, other in others:
        assert match_convolution(of(image, other).op) is None
