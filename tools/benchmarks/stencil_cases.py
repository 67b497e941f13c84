"""Depthwise convolutions of MobileNet-V2, and image kernels: box blur, unsharp mask, bilateral slices with their gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
from tilewright import te, topi
from tilewright.topi.image.blur import gaussian_taps

from . import stencil_peers as peers
from .cases import Arrays, Case, Runner, draw, draw_integers, floats, scheduled
from .peers import halide_peer, numba_peer, onnx_peers, opencv_peer, torch_peer
from .peers.onnx_model import Node

LAYERS = (
    (32, 112, 1),
    (96, 112, 2),
    (144, 56, 1),
    (144, 56, 2),
    (192, 28, 1),
    (192, 28, 2),
    (384, 14, 1),
    (576, 14, 1),
    (576, 14, 2),
    (960, 7, 1),
)
"""Channels, size of the square image and stride, as Sandler et al. 2018 have them."""
CELLS, DEPTH = 16, 8
"""Of the grid: as Gharbi et al. 2017 have it."""


def depthwise(channels: int, size: int, stride: int) -> Case:
    out = (size - 1) // stride + 1
    shapes = (1, channels, size, size), (channels, 1, 3, 3)

    window = {"strides": [stride] * 2, "pads": [1] * 4, "kernel_shape": [3, 3], "group": channels}
    return Case(
        group="depthwise",
        name=f"{channels} @{size}" + (f" s{stride}" if stride > 1 else ""),
        inputs=floats(*shapes),
        outputs=[((1, channels, out, out), "float32")],
        ours=scheduled(lambda x, w: topi.nn.depthwise_conv2d(x, w, stride, 1), *shapes),
        peers={
            "torch": torch_peer.call(
                lambda torch, x, w: torch.nn.functional.conv2d(x, w, None, stride, 1, 1, channels)
            ),
            **onnx_peers.call([Node("Conv", ["x0", "x1"], attributes=window)], constants=[1]),
        },
        flops=18 * channels * out**2,
        bytes=4 * channels * (size**2 + out**2 + 9),
        tolerance=(1e-4, 1e-4),
    )


def box_blur(high: int, wide: int) -> Case:
    """3x3 means of 16-bit pixels that have all neighbours, each pass rounded down, sums in 16 bits."""

    shape = high + 2, wide + 2
    return Case(
        group="box blur",
        name=f"{wide}x{high} uint16",
        inputs=draw_integers(0, 20000, np.uint16, shape),
        outputs=[((high, wide), "uint16")],
        ours=scheduled(lambda x: topi.image.box_blur(x, 3, "valid", sum_dtype="uint16"), shape, dtype="uint16"),
        ceiling="copy",
        bytes=4 * high * wide,
        peers={
            "halide": halide_peer.box_blur,
            "halide auto": halide_peer.auto(peers.halide_box_blur),
            "numba": numba_peer.call(peers.numba_box_blur),
        },
        tolerance=(0, 0),
    )


def unsharp(high: int, wide: int) -> Case:
    """5x5, of bytes with three channels. OpenCV rounds the blur to bytes before it is subtracted, and so differs by more."""
    taps = gaussian_taps(5)

    return Case(
        group="unsharp",
        name=f"{wide}x{high} RGB",
        inputs=draw_integers(0, 256, np.uint8, (high, wide, 3)),
        outputs=[((high, wide, 3), "uint8")],
        ours=scheduled(topi.image.unsharp_mask, (high, wide, 3), dtype="uint8"),
        ceiling="copy",
        bytes=6 * high * wide,
        peers={
            "opencv": opencv_peer.call(peers.opencv_unsharp),
            "halide": halide_peer.call(peers.halide_unsharp(taps, True)),
            "halide auto": halide_peer.auto(peers.halide_unsharp(taps, False)),
            "numba": numba_peer.call(peers.numba_unsharp(taps)),
            "torch": torch_peer.call(peers.torch_unsharp(taps)),
        },
        tolerance=(3, 0),
    )


def bilateral(size: int) -> Case:
    shapes = _shapes(size)[:3]

    return Case(
        group="bilateral",
        name=f"slice {size}x{size}",
        inputs=_colours(*shapes),
        outputs=[((3, size, size), "float32")],
        ours=scheduled(topi.image.bilateral_slice, *shapes),
        bytes=28 * size**2,
        flops=2 * 12 * 9 * size**2,
        peers={
            "numba": numba_peer.call(peers.numba_slice),
            "halide": halide_peer.call(peers.halide_slice(True)),
            "halide auto": halide_peer.auto(peers.halide_slice(False)),
            "torch": torch_peer.call(peers.torch_slice),
        },
        tolerance=(1e-3, 1e-3),
    )


def bilateral_gradients(size: int) -> Case:
    shapes = _shapes(size)

    def differentiate(*given: te.Tensor) -> list[te.Tensor]:
        return te.gradient(topi.image.bilateral_slice(*given[:3]), list(given[:3]), given[3])

    return Case(
        group="bilateral",
        name=f"gradients {size}x{size}",
        inputs=_colours(*shapes),
        outputs=[(shape, "float32") for shape in shapes[:3]],
        ours=scheduled(differentiate, *shapes),
        bytes=40 * size**2,
        flops=2 * 12 * 26 * size**2,
        tolerance=(5e-2, 1e-3),
        peers={
            "numba": numba_peer.call(peers.numba_slice_gradients),
            "torch": _torch_gradients,
            "halide auto": halide_peer.gradients(peers.halide_slice_gradients),
        },
    )


def _torch_gradients(inputs: Arrays, _outputs: Arrays) -> Runner:
    import torch

    given = [
        tensor.requires_grad_(i < 3) for i, tensor in enumerate(torch_peer.tensors([array.copy() for array in inputs]))
    ]
    grid, guide, image, head = given
    return lambda: torch.autograd.grad(peers.torch_slice(torch, grid, guide, image), [grid, guide, image], head)


def _shapes(size: int) -> tuple[tuple[int, ...], ...]:
    return (CELLS, CELLS, DEPTH, 3, 4), (size, size), (3, size, size), (3, size, size)


def _colours(*shapes: tuple[int, ...]) -> Any:
    return draw(lambda rng, shape: rng.random(shape, np.float32), *shapes)


CASES = [
    *(depthwise(*layer) for layer in LAYERS),
    box_blur(1600, 2560),
    unsharp(3000, 4000),
    *(make(size) for size in (1024, 2048) for make in (bilateral, bilateral_gradients)),
]
