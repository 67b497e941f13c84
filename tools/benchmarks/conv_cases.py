"""ResNet-50's 20 distinct convolutions, one image at a time, channels first, weights packed beforehand on all sides.

Ours takes Winograd's algorithm with tiles of 2 for 3 by 3 at stride 1, as oneDNN does where it expects it to win; the rows of
"conv direct" are the same layers without it, those of "conv winograd4" with the larger tiles and their error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import tilewright as tw
from tilewright import te, topi

from .cases import Arrays, Builder, Case, Runner, align, floats
from .peers import onnx_peers, torch_peer
from .peers.onnx_model import Node

TOLERANCE = {"direct": (1e-3, 1e-3), "winograd2": (1e-3, 1e-3), "winograd4": (1e-2, 1e-2)}


@dataclass(frozen=True)
class Layer:
    """Convolution layer.

    inputs: channels; size: of the square image; kernel, stride, padding: the same both ways.
    """

    inputs: int
    outputs: int
    size: int
    kernel: int = 1
    stride: int = 1

    @property
    def padding(self) -> int:
        return self.kernel // 2

    @property
    def out(self) -> int:
        return (self.size + 2 * self.padding - self.kernel) // self.stride + 1

    @property
    def name(self) -> str:
        step = f" s{self.stride}" if self.stride > 1 else ""
        return f"{self.kernel}x{self.kernel}{step} {self.inputs}->{self.outputs} @{self.size}"


LAYERS = (
    Layer(3, 64, 224, 7, 2),
    Layer(64, 64, 56),
    Layer(64, 64, 56, 3),
    Layer(64, 256, 56),
    Layer(256, 64, 56),
    Layer(256, 512, 56, 1, 2),
    Layer(256, 128, 56, 1, 2),
    Layer(128, 128, 28, 3),
    Layer(128, 512, 28),
    Layer(512, 128, 28),
    Layer(512, 1024, 28, 1, 2),
    Layer(512, 256, 28, 1, 2),
    Layer(256, 256, 14, 3),
    Layer(256, 1024, 14),
    Layer(1024, 256, 14),
    Layer(1024, 2048, 14, 1, 2),
    Layer(1024, 512, 14, 1, 2),
    Layer(512, 512, 7, 3),
    Layer(512, 2048, 7),
    Layer(2048, 512, 7),
)
"""As He et al. 2016 have them: the stride in the first convolution of a block."""


def ours(layer: Layer, how: str) -> Builder:
    """Our kernel: "direct", or "winograd2" or "winograd4" by the size of the tiles."""

    def builder(inputs: Arrays, outputs: Arrays) -> Runner:
        x, w = inputs
        tile = int(how[-1]) if how != "direct" else 0
        packed = align(topi.nn.conv2d_winograd_prepack(w, tile) if tile else topi.nn.conv2d_prepack(w))
        a, b = te.placeholder(x.shape, name="x"), te.placeholder(packed.shape, name="w")
        if tile:
            y = topi.nn.conv2d_winograd_prepacked(a, b, layer.outputs, layer.padding)
        else:
            y = topi.nn.conv2d_prepacked(a, b, layer.outputs, layer.stride, layer.padding)
        f = tw.build(topi.schedule(y), [a, b, y], name="conv")
        out = outputs[0]
        return lambda: f(x, packed, out)

    return builder


def torch_prepacked(layer: Layer) -> Builder:
    """oneDNN through torch with the weights in the layout that it asks for."""

    def builder(inputs: Arrays, _outputs: Arrays) -> Runner:
        import torch

        x, w = torch_peer.tensors(inputs)
        window: tuple[Any, ...] = ([layer.padding] * 2, [layer.stride] * 2, [1, 1], 1)
        packed = torch._C._nn.mkldnn_reorder_conv2d_weight(w.to_mkldnn(), *window, list(x.shape))

        def run() -> Any:
            with torch.inference_mode():
                return torch.ops.mkldnn._convolution_pointwise(x, packed, None, *window, "none", [], "")

        return run

    return builder


def conv(layer: Layer, group: str, how: str) -> Case:
    shapes = (1, layer.inputs, layer.size, layer.size), (layer.outputs, layer.inputs, layer.kernel, layer.kernel)
    out = (1, layer.outputs, layer.out, layer.out)
    size, window = layer.kernel, {"strides": [layer.stride] * 2, "pads": [layer.padding] * 4}

    return Case(
        group=group,
        name=layer.name,
        inputs=floats(*shapes),
        outputs=[(out, "float32")],
        ours=ours(layer, how),
        ceiling="fma",
        peers={
            "torch": torch_peer.call(
                lambda torch, x, w: torch.nn.functional.conv2d(x, w, None, layer.stride, layer.padding)
            ),
            "torch packed": torch_prepacked(layer),
            **onnx_peers.call(
                [Node("Conv", ["x0", "x1"], attributes=window | {"kernel_shape": [size, size]})], constants=[1]
            ),
        },
        flops=2 * int(np.prod(out)) * layer.inputs * size**2,
        bytes=4 * sum(int(np.prod(shape)) for shape in (*shapes, out)),
        tolerance=TOLERANCE[how],
    )


def turns(layer: Layer) -> bool:
    """Return whether Winograd's algorithm does it."""
    return layer.kernel == 3 and layer.stride == 1


CASES = [
    *(conv(layer, "conv", "winograd2" if turns(layer) else "direct") for layer in LAYERS),
    *(conv(layer, "conv direct", "direct") for layer in LAYERS if turns(layer)),
    *(conv(layer, "conv winograd4", "winograd4") for layer in LAYERS if turns(layer)),
]
