"""Convolutions written by hand in te, of any number of dimensions: odd channels, groups, strides, dilation, transposed, and blocks
of them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from tilewright import te

from .cases import Builder, Case
from .declared_programs import Draw, program
from .peers import jax_peer, onnx_peers, torch_peer
from .peers.onnx_model import Node

__all__ = ["draw_cases"]


def window_sums(
    x: te.Tensor,
    w: te.Tensor,
    out: Sequence[int],
    strides: int,
    pads: int,
    dilation: int,
    groups: int,
    tag: str,
) -> te.Tensor:
    """Declare sums over windows.

    x: (channels, ...), w: (outputs, channels of a group, ...).
    """
    extents, each = [int(str(extent)) for extent in x.shape], int(str(w.shape[1]))
    outputs, taps = int(str(w.shape[0])), [int(str(extent)) for extent in w.shape[2:]]
    padded = x
    if pads:

        def inside(c: te.Expr, *at: te.Expr) -> te.Expr:
            within = [
                condition
                for i, extent in zip(at, extents[1:], strict=True)
                for condition in (i >= pads, i < extent + pads)
            ]
            return te.if_then_else(te.all(*within), x(c, *(i - pads for i in at)), 0.0)

        padded = te.compute((extents[0], *(extent + 2 * pads for extent in extents[1:])), inside, name=f"padded{tag}")
    channel = te.reduce_axis((0, each), "c")
    offsets = [te.reduce_axis((0, tap), "k") for tap in taps]

    def element(o: te.Expr, *at: te.Expr) -> te.Expr:
        first = o // (outputs // groups) * each if groups > 1 else 0
        places = [i * strides + k * dilation for i, k in zip(at, offsets, strict=True)]
        factor = w(o, *offsets) if each == 1 and w.ndim < x.ndim + 1 else w(o, channel, *offsets)
        return te.sum(padded(first + channel, *places) * factor, [channel, *offsets])

    return te.compute((outputs, *out), element, name=f"conv{tag}")


def libraries(
    dimensions: int, strides: int, pads: int, dilation: int, groups: int, kernel: Sequence[int]
) -> dict[str, Builder]:
    """Return the libraries that have convolutions as an operator, for one image without a batch axis."""

    def in_torch(torch: Any, x: Any, w: Any) -> Any:
        conv = getattr(torch.nn.functional, f"conv{dimensions}d")
        return conv(x[None], w, None, strides, pads, dilation, groups)[0]

    attributes = {
        "strides": [strides] * dimensions,
        "pads": [pads] * 2 * dimensions,
        "dilations": [dilation] * dimensions,
        "group": groups,
        "kernel_shape": list(kernel),
    }
    onnx = onnx_peers.call(
        [
            Node("Unsqueeze", ["x0", "first"], ["x"]),
            Node("Conv", ["x", "x1"], ["y"], attributes),
            Node("Squeeze", ["y", "first"]),
        ],
        [1],
        {"first": _first()},
    )
    return {
        "torch": torch_peer.call(in_torch),
        **onnx,
        "jax": jax_peer.call(
            lambda jax, x, w: jax.lax.conv_general_dilated(
                x[None],
                w,
                [strides] * dimensions,
                [(pads, pads)] * dimensions,
                rhs_dilation=[dilation] * dimensions,
                feature_group_count=groups,
            )[0]
        ),
    }


def _first() -> Any:
    import numpy as np

    return np.array([0], np.int64)


def conv(
    name: str,
    channels: int,
    outputs: int,
    size: Sequence[int],
    kernel: Sequence[int],
    strides: int = 1,
    pads: int = 0,
    dilation: int = 1,
    groups: int = 1,
) -> Case:
    """Declare a convolution.

    size: of the input, without its padding.
    """
    channels, outputs = channels // groups * groups, outputs // groups * groups
    out = [
        (extent + 2 * pads - dilation * (tap - 1) - 1) // strides + 1 for extent, tap in zip(size, kernel, strict=True)
    ]
    shapes = [(channels, *size), (outputs, channels // groups, *kernel)]
    text = f"{name} {channels}->{outputs} @{'x'.join(map(str, size))} k{'x'.join(map(str, kernel))}"
    return program(
        text,
        lambda x, w: window_sums(x, w, out, strides, pads, dilation, groups, ""),
        shapes,
        libraries(len(size), strides, pads, dilation, groups, kernel),
        tolerance=(1e-2, 1e-3),
        flops=2 * outputs * prod(out) * channels // groups * prod(kernel),
    )


def channels_last(draw: Draw) -> Case:
    c, o, size = draw.near(37), draw.near(51), draw.near(60)

    def declare(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        cc, dy, dx = te.reduce_axis((0, c), "c"), te.reduce_axis((0, 3), "dy"), te.reduce_axis((0, 3), "dx")
        return te.compute(
            (size, size, o), lambda y, z, f: te.sum(x[y + dy, z + dx, cc] * w[dy, dx, cc, f], [dy, dx, cc]), name="conv"
        )

    return program(
        f"conv2d channels last {c}->{o} @{size}",
        declare,
        [(size + 2, size + 2, c), (3, 3, c, o)],
        {
            "torch": torch_peer.call(
                lambda torch, x, w: (
                    torch.nn.functional.conv2d(x[None].permute(0, 3, 1, 2), w.permute(3, 2, 0, 1))[0]
                    .permute(1, 2, 0)
                    .contiguous()
                )
            ),
            "jax": jax_peer.call(
                lambda jax, x, w: jax.lax.conv_general_dilated(
                    x[None], w, [1, 1], "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
                )[0]
            ),
        },
        flops=18 * c * o * size**2,
        tolerance=(1e-2, 1e-3),
    )


def transposed(draw: Draw) -> Case:
    """Stride 2, kernel 4, padding 1: each result takes the four taps whose place is even."""
    c, o, size = draw.near(48), draw.near(40), draw.near(37)

    def declare(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        def spread(k: te.Expr, y: te.Expr, z: te.Expr) -> te.Expr:
            within = te.all(y >= 2, z >= 2, y < 2 * size + 2, z < 2 * size + 2, y % 2 == 0, z % 2 == 0)
            return te.if_then_else(within, x[k, y // 2 - 1, z // 2 - 1], 0.0)

        apart = te.compute((c, 2 * size + 3, 2 * size + 3), spread, name="apart")
        cc, dy, dx = te.reduce_axis((0, c), "c"), te.reduce_axis((0, 4), "dy"), te.reduce_axis((0, 4), "dx")
        return te.compute(
            (o, 2 * size, 2 * size),
            lambda f, y, z: te.sum(apart[cc, y + dy, z + dx] * w[cc, f, 3 - dy, 3 - dx], [cc, dy, dx]),
            name="conv",
        )

    return program(
        f"transposed conv2d {c}->{o} @{size}",
        declare,
        [(c, size, size), (c, o, 4, 4)],
        {"torch": torch_peer.call(lambda torch, x, w: torch.nn.functional.conv_transpose2d(x[None], w, None, 2, 1)[0])},
        flops=8 * c * o * (2 * size) ** 2,
        tolerance=(1e-2, 1e-3),
    )


def block(draw: Draw) -> Case:
    """1x1 to more channels, 3x3 of each, 1x1 to fewer, with ReLUs between."""
    c, wide, size = draw.near(24), draw.near(120), draw.near(56)

    def declare(x: te.Tensor, w1: te.Tensor, w2: te.Tensor, w3: te.Tensor) -> te.Tensor:
        cc, dy, dx, ee = (te.reduce_axis((0, n), name) for name, n in (("c", c), ("dy", 3), ("dx", 3), ("e", wide)))
        up = te.compute((wide, size, size), lambda f, y, z: te.sum(x[cc, y, z] * w1[f, cc], cc), name="up")
        bent = te.compute(up.shape, lambda *at: te.max(up(*at), 0.0), name="bent")
        padded = te.compute(
            (wide, size + 2, size + 2),
            lambda f, y, z: te.if_then_else(te.all(y >= 1, y <= size, z >= 1, z <= size), bent[f, y - 1, z - 1], 0.0),
            name="padded",
        )
        own = te.compute(
            (wide, size, size), lambda f, y, z: te.sum(padded[f, y + dy, z + dx] * w2[f, dy, dx], [dy, dx]), name="own"
        )
        again = te.compute(own.shape, lambda *at: te.max(own(*at), 0.0), name="again")
        return te.compute((c, size, size), lambda f, y, z: te.sum(again[ee, y, z] * w3[f, ee], ee), name="down")

    def in_torch(torch: Any, x: Any, w1: Any, w2: Any, w3: Any) -> Any:
        conv, relu = torch.nn.functional.conv2d, torch.relu
        up = relu(conv(x[None], w1[:, :, None, None]))
        return conv(relu(conv(up, w2[:, None], None, 1, 1, 1, wide)), w3[:, :, None, None])[0]

    return program(
        f"1x1, 3x3 each, 1x1 {c}->{wide} @{size}",
        declare,
        [(c, size, size), (wide, c), (wide, 3, 3), (c, wide)],
        {"torch": torch_peer.call(in_torch)},
        flops=2 * size**2 * wide * (2 * c + 9),
        tolerance=(1e-2, 1e-3),
    )


def draw_cases(seed: int) -> Sequence[Case]:
    """The cases at the shapes of a seed."""
    draw = Draw(seed, "convolutions")
    near = draw.near
    return [
        conv("conv1d", near(80), near(200), [near(1500)], [3], pads=1),
        conv("conv1d dilated", near(33), near(47), [near(6000)], [7], dilation=2),
        conv("conv1d groups 4", near(64), near(128), [near(4000)], [5], groups=4),
        conv("conv2d", near(33), near(35), [near(56), near(60)], [5, 5]),
        conv("conv2d 3x3", near(65), near(67), [near(50), near(50)], [3, 3], pads=1),
        conv("conv2d dilated", near(24), near(36), [near(70), near(66)], [5, 5], dilation=2, pads=4),
        conv("conv2d groups 3", near(48), near(96), [near(80), near(80)], [3, 3], pads=1, groups=3),
        conv("conv2d stride 2", near(48), near(96), [near(75), near(75)], [3, 3], strides=2, pads=1),
        conv("conv2d first", 3, near(48), [near(180), near(180)], [7, 7], strides=2, pads=3),
        conv("conv2d 1x1", near(130), near(200), [near(50), near(50)], [1, 1]),
        conv("conv2d small", near(200), near(190), [near(9), near(9)], [3, 3], pads=1),
        conv("conv3d", near(19), near(23), [near(14), near(30), near(32)], [3, 3, 3]),
        conv("conv3d padded", near(16), near(33), [near(10), near(28), near(28)], [3, 3, 3], pads=1),
        channels_last(Draw(seed, "channels last")),
        transposed(Draw(seed, "transposed")),
        block(Draw(seed, "block")),
    ]
