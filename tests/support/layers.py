"""Layers of networks, written out in te."""

from __future__ import annotations

from tilewright import te

__all__ = ["conv2d"]


def pad(x: te.Tensor, by: int) -> te.Tensor:
    n, c, h, w = x.shape
    return te.compute(
        (n, c, h + 2 * by, w + 2 * by),
        lambda b, f, i, j: te.if_then_else(
            te.all(i >= by, i < h + by, j >= by, j < w + by), x[b, f, i - by, j - by], 0.0
        ),
        "padded",
    )


def conv2d(x: te.Tensor, w: te.Tensor, stride: int, padding: int, dilation: int) -> te.Tensor:
    n, c, height, width = x.shape
    out, _, p, q = w.shape
    data = pad(x, padding) if padding else x
    rc, rp, rq = (te.reduce_axis((0, extent), name) for extent, name in ((c, "rc"), (p, "rp"), (q, "rq")))
    high, wide = (
        ((extent + 2 * padding - dilation * (k - 1) - 1) // stride + 1) for extent, k in ((height, p), (width, q))
    )
    return te.compute(
        (n, out, high, wide),
        lambda b, f, i, j: te.sum(
            data[b, rc, i * stride + rp * dilation, j * stride + rq * dilation] * w[f, rc, rp, rq], axis=[rc, rp, rq]
        ),
        "conv",
    )
