"""Rules of convolutions."""

from __future__ import annotations

from typing import cast

from ...topi.nn.spatial import spatial
from .rule import Pullback, differentiate_declaration, rule

__all__: list[str] = []


def _known_shapes(p: Pullback) -> bool:
    return all(p.type(name).is_static for name in (*p.inputs, p.result) if name)


def _numbers(p: Pullback, value: str) -> tuple[int, ...]:
    return cast("tuple[int, ...]", p.shape(value))


@rule("conv")
def _differentiate_conv(p: Pullback) -> list[str | None]:
    """Return the gradients: by the data, the transposed convolution of the gradient; by the weights, a convolution of the data by the
    gradient, in which strides and dilations change places; by the bias, a sum."""
    if not _known_shapes(p):
        return differentiate_declaration(p)
    x, w, *bias = p.inputs
    rank = len(p.shape(x)) - 2
    stride, padding, dilation = spatial(rank, p["stride"], p["padding"], p["dilation"])
    reached = [
        (out - 1) * step + (taps - 1) * far + 1 - low - high
        for out, step, taps, far, low, high in zip(
            _numbers(p, p.result)[2:], stride, _numbers(p, w)[2:], dilation, padding[:rank], padding[rank:], strict=True
        )
    ]
    # rows behind the last window, which a stride may leave: no tap reads them, and their gradient is 0
    more = tuple(extent - end for extent, end in zip(_numbers(p, x)[2:], reached, strict=True))
    by_x = p.emit(
        "conv_transpose",
        p.head,
        w,
        stride=stride,
        padding=padding,
        dilation=dilation,
        groups=p["groups"],
        output_padding=more,
    )
    by_w = _differentiate_weights(p, stride, padding, dilation)
    by_bias = [p.sum(p.head, [0, *range(2, rank + 2)], keepdims=False)] if bias else []
    return [by_x, by_w, *by_bias]


def _differentiate_weights(
    p: Pullback, stride: tuple[int, ...], padding: tuple[int, ...], dilation: tuple[int, ...]
) -> str:
    x, w = p.inputs[:2]
    groups = int(p["groups"])
    (n, c, *size), (o, _, *taps), out = _numbers(p, x), _numbers(p, w), _numbers(p, p.result)[2:]
    # batch and channels change places: the sum over images is the convolution's over channels
    places = range(3, len(size) + 3)
    image = p.reshape(
        p.transpose(p.reshape(x, (n, groups, c // groups, *size)), (2, 1, 0, *places)), (c // groups, groups * n, *size)
    )
    kernel = p.reshape(p.transpose(p.reshape(p.head, (n, groups, o // groups, *out)), (1, 2, 0, *places)), (o, n, *out))
    found = p.emit("conv", image, kernel, stride=dilation, padding=padding, dilation=stride, groups=groups)
    # strides that leave rows over give taps that the weights do not have
    if _numbers(p, found)[2:] != tuple(taps):
        found = p.emit(
            "slice",
            found,
            begin=(0,) * len(taps),
            end=tuple(taps),
            step=(1,) * len(taps),
            axes=tuple(range(2, len(taps) + 2)),
        )
    return p.transpose(found, (1, 0, *range(2, len(taps) + 2)))


@rule("conv_transpose")
def _differentiate_conv_transpose(p: Pullback) -> list[str | None]:
    """Return the gradients: by the data, the convolution of the gradient; by the weights, that of the gradient by the data."""
    x, w, *bias = p.inputs
    rank = len(p.shape(x)) - 2
    stride, padding, dilation = spatial(rank, p["stride"], p["padding"], p["dilation"])
    more = tuple(p["output_padding"]) or (0,) * rank
    # with output_padding of a stride or more, the convolution would have more rows than x
    if not _known_shapes(p) or any(extra >= step for extra, step in zip(more, stride, strict=True)):
        return differentiate_declaration(p)
    by_x = p.emit("conv", p.head, w, stride=stride, padding=padding, dilation=dilation, groups=p["groups"])
    by_w = differentiate_declaration(p)[1]
    return [by_x, by_w, *([p.sum(p.head, [0, *range(2, rank + 2)], keepdims=False)] if bias else [])]
