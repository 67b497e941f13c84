"""Matrix products, convolutions and pooling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...te import polymorphic as te
from .chains import IDENTITY, REDUCERS, fold
from .choices import Choices
from .program import Draw, Program, exact_sum, product_types, small, terms, values
from .terms import DTYPES, Size, numpy_type

__all__ = ["draw_conv2d", "draw_matmul", "draw_pool"]


def draw_matmul(choices: Choices) -> Program:
    """C = op(A) @ op(B), both transposable, sometimes batched, symbolic, accumulated wider, with a tail."""
    draw = Draw(choices, "matmul")
    symbolic = 0.5 if draw.chance(0.2) else 0.0
    m, n, k = draw.size(33, symbolic), draw.size(33, symbolic), draw.size(33, symbolic)
    if m.value * n.value * k.value > 8000:
        k = Size(3, 3)
    batch = (draw.size(3),) if draw.chance(0.2) else ()
    dtype, wide = product_types(draw)
    ta, tb = draw.chance(0.4), draw.chance(0.4)
    left, right = (*batch, *((k, m) if ta else (m, k))), (*batch, *((n, k) if tb else (k, n)))
    a = draw.source(left, dtype, small(draw, values(*left), dtype))
    b = draw.source(right, dtype, small(draw, values(*right), dtype))
    r = te.reduce_axis((0, k.te), "r")

    def product(*axes: Any) -> Any:
        *at, i, j = axes
        left = a.tensor[(*at, r, i)] if ta else a.tensor[(*at, i, r)]
        right = b.tensor[(*at, j, r)] if tb else b.tensor[(*at, r, j)]
        return te.sum(left.astype(wide) * right.astype(wide), axis=r)

    c = te.compute(terms(*batch, m, n), product, "C")
    x = np.swapaxes(a.array, -1, -2) if ta else a.array
    y = np.swapaxes(b.array, -1, -2) if tb else b.array
    expected = np.matmul(exact_sum(x, wide), exact_sum(y, wide)).astype(numpy_type(wide))
    if draw.chance(0.5):
        bias = draw.source((n,), wide, small(draw, (n.value,), wide))
        d = te.compute(
            terms(*batch, m, n), lambda *axes: te.max(c[axes] + bias.tensor[axes[-1]], te.const(0, wide)), "D"
        )
        if draw.chance(0.2):
            draw.program.result(c, expected)
        c, expected = d, np.maximum(expected + bias.array, np.zeros((), expected.dtype))
    draw.program.result(c, expected)
    return draw.finish()


def draw_conv2d(choices: Choices) -> Program:
    """conv2d NCHW with stride, dilation, groups and padding; the padding a stage of its own or inside the sum."""
    draw = Draw(choices, "conv2d")
    groups, per_in, per_out = draw.pick([1, 1, 1, 2, 3]), draw.number(1, 3), draw.number(1, 3)
    batch, height, width = draw.number(1, 2), draw.pick([1, 3, 4, 7, 8, 9]), draw.pick([1, 3, 4, 7, 8, 9, 16, 17])
    kh, kw, stride = draw.number(1, 3), draw.number(1, 3), draw.number(1, 3)
    dilation, pad = draw.number(1, 2), draw.number(0, 2)
    reach_h, reach_w = (kh - 1) * dilation + 1, (kw - 1) * dilation + 1
    height, width = max(height, reach_h - 2 * pad), max(width, reach_w - 2 * pad)
    oh, ow = (height + 2 * pad - reach_h) // stride + 1, (width + 2 * pad - reach_w) // stride + 1
    dtype, wide = product_types(draw)
    data = te.placeholder((batch, groups * per_in, height, width), dtype, "data")
    kernel = te.placeholder((groups * per_out, per_in, kh, kw), dtype, "kernel")
    x = small(draw, (batch, groups * per_in, height, width), dtype)
    w = small(draw, (groups * per_out, per_in, kh, kw), dtype)
    draw.program.add_argument(data, x)
    draw.program.add_argument(kernel, w)
    choose = te.select if draw.chance(0.4) else te.if_then_else

    def padded(n: Any, c: Any, y: Any, z: Any) -> Any:
        if not pad:
            return data[n, c, y, z]
        inside = te.all(y >= pad, y < height + pad, z >= pad, z < width + pad)
        return choose(inside, data[n, c, y - pad, z - pad], te.const(0, dtype))

    source: Callable[..., Any] = padded
    if draw.chance(0.6):
        p = te.compute((batch, groups * per_in, height + 2 * pad, width + 2 * pad), padded, "P")
        source = lambda *at: p[at]
    rc, ry, rx = te.reduce_axis((0, per_in), "rc"), te.reduce_axis((0, kh), "ry"), te.reduce_axis((0, kw), "rx")
    out = te.compute(
        (batch, groups * per_out, oh, ow),
        lambda n, f, y, z: te.sum(
            source(n, f // per_out * per_in + rc, y * stride + ry * dilation, z * stride + rx * dilation).astype(wide)
            * kernel[f, rc, ry, rx].astype(wide),
            axis=[rc, ry, rx],
        ),
        "O",
    )
    xp = exact_sum(np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad))), wide)
    expected = np.zeros((batch, groups * per_out, oh, ow), xp.dtype)
    for f in range(groups * per_out):
        for c in range(per_in):
            for u in range(kh):
                for v in range(kw):
                    rows, columns = u * dilation, v * dilation
                    part = xp[
                        :,
                        f // per_out * per_in + c,
                        rows : rows + (oh - 1) * stride + 1 : stride,
                        columns : columns + (ow - 1) * stride + 1 : stride,
                    ]
                    expected[:, f] += part * exact_sum(w[f, c, u, v], wide)
    expected = expected.astype(numpy_type(wide))
    if draw.chance(0.4):
        relu = te.compute((batch, groups * per_out, oh, ow), lambda *at: te.max(out[at], te.const(0, wide)), "relu")
        out, expected = relu, np.maximum(expected, np.zeros((), expected.dtype))
    draw.program.result(out, expected)
    return draw.finish()


def draw_pool(choices: Choices) -> Program:
    """Maximum or sum over windows, padded with the identity."""
    draw = Draw(choices, "pool")
    h, w, k = draw.number(3, 9), draw.pick([3, 8, 9, 16, 17]), draw.number(1, 3)
    stride, pad = draw.number(1, 2), draw.number(0, 1)
    oh, ow = (h + 2 * pad - k) // stride + 1, (w + 2 * pad - k) // stride + 1
    dtype = draw.pick(DTYPES)
    kind = draw.pick(["max", "min"] if dtype == "bool" else ["max", "sum", "min"])
    a = draw.source((Size(h, h), Size(w, w)), dtype)
    neutral = IDENTITY[kind](dtype)
    ry, rx = te.reduce_axis((0, k), "ry"), te.reduce_axis((0, k), "rx")
    p = te.compute(
        (h + 2 * pad, w + 2 * pad),
        lambda i, j: te.if_then_else(
            te.all(i >= pad, i < h + pad, j >= pad, j < w + pad), a.tensor[i - pad, j - pad], te.const(neutral, dtype)
        ),
        "P",
    )
    o = te.compute((oh, ow), lambda i, j: REDUCERS[kind](p[i * stride + ry, j * stride + rx], axis=[ry, rx]), "O")
    ap = np.pad(a.array, pad, constant_values=np.asarray(neutral).astype(a.array.dtype))
    windows = np.lib.stride_tricks.sliding_window_view(ap, (k, k))[::stride, ::stride]
    draw.program.result(o, fold(kind, windows, 2, np.asarray(neutral)))
    return draw.finish()
