"""Time of the builds of whole models, step by step: twelve networks of usual makes, with drawn weights.

`python -m tools.benchmarks.compile_models [NAME ...]` prints a table, of processor time and of the clock. Nothing is kept of a build
that the next could find.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from unittest.mock import patch

import numpy as np
import tilewright as tw
from rich.console import Console
from rich.table import Table
from tilewright.graph import Builder, Graph

from .compile_steps import STEPS, time_kept, time_steps

__all__ = ["MODELS"]


class Net(Builder):
    """A network under construction: layers with weights that are drawn."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._random = np.random.default_rng(0)
        self._count = 0

    def weights(self, *shape: int) -> str:
        """A parameter."""
        self._count += 1
        return self.param(f"weight{self._count}", self._random.standard_normal(shape).astype("float32") / 8)

    def conv(self, x: str, size: tuple[int, int], window: int = 1, stride: int = 1, groups: int = 1) -> str:
        """A convolution from and to so many channels, with batch norm."""
        inputs, outputs = size
        reach = (window // 2,) * 4
        weight, numbers = (
            self.weights(outputs, inputs // groups, window, window),
            [self.weights(outputs) for _ in "abc"],
        )
        variance = self.param(f"variance{self._count}", np.ones(outputs, "float32"))
        y = self.node("conv", x, weight, stride=(stride,) * 2, padding=reach, groups=groups)
        return self.node("batch_norm", y, *numbers, variance)

    def relu(self, x: str) -> str:
        """It, and 0 where it is negative."""
        return self.node("relu", x)

    def finish(self, x: str) -> Graph:
        """The network that gives a value."""
        self.output("y", x)
        return self.graph()


def residual() -> Graph:
    """Sixteen bottlenecks, as ResNet-50 has."""
    net = Net("residual")
    x = net.relu(net.conv(net.input("x", (1, 3, 224, 224)), (3, 64), 7, 2))
    x = net.node("max_pool", x, kernel=(3, 3), stride=(2, 2), padding=(1, 1, 1, 1))
    inputs = 64
    for stage, (width, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            y = net.relu(net.conv(x, (inputs, width)))
            y = net.conv(net.relu(net.conv(y, (width, width), 3, stride)), (width, 4 * width))
            x = net.relu(net.node("add", y, x if block else net.conv(x, (inputs, 4 * width), 1, stride)))
            inputs = 4 * width
    return net.finish(net.node("matmul", net.node("mean", x, axes=(2, 3)), net.weights(2048, 1000)))


def dense() -> Graph:
    """Layers that read all before them, as DenseNet's do."""
    net = Net("dense")
    x, channels = net.relu(net.conv(net.input("x", (1, 3, 112, 112)), (3, 64), 3, 2)), 64
    for layers in (6, 8, 10):
        for _ in range(layers):
            y = net.relu(net.conv(net.relu(x), (channels, 128)))
            x, channels = net.node("concat", x, net.conv(y, (128, 32), 3), axis=1), channels + 32
        x, channels = net.conv(x, (channels, channels // 2)), channels // 2
        x = net.node("avg_pool", x, kernel=(2, 2), stride=(2, 2))
    return net.finish(net.node("matmul", net.node("mean", x, axes=(2, 3)), net.weights(channels, 1000)))


def depthwise() -> Graph:
    """Inverted bottlenecks around depthwise convolutions, as MobileNet's."""
    net = Net("depthwise")
    x, channels = net.node("hard_swish", net.conv(net.input("x", (1, 3, 224, 224)), (3, 16), 3, 2)), 16
    for outputs, stride, window in (
        (24, 2, 3),
        (24, 1, 3),
        (40, 2, 5),
        (40, 1, 5),
        (80, 2, 3),
        (112, 1, 3),
        (160, 2, 5),
    ):
        inner = 4 * channels
        y = net.node("hard_swish", net.conv(x, (channels, inner)))
        y = net.conv(net.node("hard_swish", net.conv(y, (inner, inner), window, stride, inner)), (inner, outputs))
        x, channels = net.node("add", x, y) if channels == outputs else y, outputs
    return net.finish(net.node("matmul", net.node("mean", x, axes=(2, 3)), net.weights(channels, 1000)))


def encoder() -> Graph:
    """Six layers of attention of width 384, over 197 rows."""
    net = Net("encoder")
    x, rows, heads, width = net.input("x", (1, 197, 384)), 197, 6, 64
    for _ in range(6):
        y = net.node("layer_norm", x, net.weights(384), net.weights(384))
        parts = [
            net.node(
                "transpose",
                net.node("reshape", net.node("matmul", y, net.weights(384, 384)), shape=(1, rows, heads, width)),
                axes=(0, 2, 1, 3),
            )
            for _ in "qkv"
        ]
        y = net.node("transpose", net.node("attention", *parts), axes=(0, 2, 1, 3))
        x = net.node("add", x, net.node("matmul", net.node("reshape", y, shape=(1, rows, 384)), net.weights(384, 384)))
        y = net.node("layer_norm", x, net.weights(384), net.weights(384))
        y = net.node("matmul", net.node("gelu", net.node("matmul", y, net.weights(384, 1536))), net.weights(1536, 384))
        x = net.node("add", x, y)
    return net.finish(x)


def hourglass() -> Graph:
    """Down and up again, with what was before beside it, as U-Net."""
    net = Net("hourglass")
    x, channels = net.input("x", (1, 3, 128, 96)), 3
    aside: list[tuple[str, int]] = []
    for width in (16, 32, 64, 128):
        x = net.relu(net.conv(net.relu(net.conv(x, (channels, width), 3)), (width, width), 3))
        aside.append((x, width))
        x, channels = net.node("max_pool", x, kernel=(2, 2), stride=(2, 2)), width
    for y, width in reversed(aside):
        sizes = (1, channels, 128 * 16 // width, 96 * 16 // width)
        x = net.node("resize", x, sizes=sizes, scales=(0.0,) * 4)
        x = net.node("concat", x, y, axis=1)
        x, channels = net.relu(net.conv(x, (channels + width, width), 3)), width
    return net.finish(net.conv(x, (channels, 1)))


def plain() -> Graph:
    """Convolutions alone, as VGG."""
    net = Net("plain")
    x, channels = net.input("x", (1, 3, 64, 64)), 3
    for width, layers in ((32, 2), (64, 2), (128, 3), (256, 3)):
        for _ in range(layers):
            x, channels = net.relu(net.conv(x, (channels, width), 3)), width
        x = net.node("max_pool", x, kernel=(2, 2), stride=(2, 2))
    x = net.relu(net.node("matmul", net.node("reshape", x, shape=(1, 16 * channels)), net.weights(16 * channels, 512)))
    return net.finish(net.node("matmul", x, net.weights(512, 1000)))


def branches() -> Graph:
    """Four ways from block to block, joined, as GoogLeNet."""
    net = Net("branches")
    x, channels = net.relu(net.conv(net.input("x", (1, 3, 56, 56)), (3, 64), 3, 2)), 64
    for width in (16, 24, 32, 48):
        pooled = net.node("max_pool", x, kernel=(3, 3), stride=(1, 1), padding=(1, 1, 1, 1))
        parts = [net.conv(x, (channels, width)), net.conv(pooled, (channels, width))]
        parts += [net.conv(net.relu(net.conv(x, (channels, width))), (width, 2 * width), size) for size in (3, 5)]
        x, channels = net.relu(net.node("concat", *parts, axis=1)), 6 * width
    return net.finish(net.node("matmul", net.node("mean", x, axes=(2, 3)), net.weights(channels, 1000)))


def grouped() -> Graph:
    """Bottlenecks with convolutions in groups, as RegNet."""
    net = Net("grouped")
    x, channels = net.relu(net.conv(net.input("x", (1, 3, 112, 112)), (3, 32), 3, 2)), 32
    for width, blocks in ((64, 1), (128, 2), (256, 3)):
        for block in range(blocks):
            stride = 1 if block else 2
            y = net.relu(net.conv(net.relu(net.conv(x, (channels, width))), (width, width), 3, stride, width // 16))
            beside = x if block else net.conv(x, (channels, width), 1, stride)
            x, channels = net.relu(net.node("add", net.conv(y, (width, width)), beside)), width
    return net.finish(net.node("matmul", net.node("mean", x, axes=(2, 3)), net.weights(channels, 1000)))


def convnext() -> Graph:
    """Depthwise windows of 7, norms of the channels, and products, as ConvNeXt."""
    net = Net("convnext")
    x, channels = net.input("x", (1, 3, 64, 64)), 3
    for width, stride in ((48, 4), (96, 2), (192, 2)):
        x, channels = net.conv(x, (channels, width), stride + 1, stride), width
        for _ in range(2):
            y = net.node("transpose", net.conv(x, (width, width), 7, 1, width), axes=(0, 2, 3, 1))
            y = net.node("layer_norm", y, net.weights(width), net.weights(width))
            y = net.node("gelu", net.node("matmul", y, net.weights(width, 4 * width)))
            y = net.node("transpose", net.node("matmul", y, net.weights(4 * width, width)), axes=(0, 3, 1, 2))
            x = net.node("add", x, y)
    return net.finish(net.node("matmul", net.node("mean", x, axes=(2, 3)), net.weights(channels, 1000)))


def mixer() -> Graph:
    """Products over places and over channels in turn, as MLP-Mixer."""
    net = Net("mixer")
    x, width = net.input("x", (1, 196, 256)), 256
    for _ in range(4):
        y = net.node("transpose", net.node("layer_norm", x, net.weights(width), net.weights(width)), axes=(0, 2, 1))
        y = net.node("matmul", net.node("gelu", net.node("matmul", y, net.weights(196, 98))), net.weights(98, 196))
        x = net.node("add", x, net.node("transpose", y, axes=(0, 2, 1)))
        y = net.node(
            "matmul", net.node("layer_norm", x, net.weights(width), net.weights(width)), net.weights(width, 512)
        )
        x = net.node("add", x, net.node("matmul", net.node("gelu", y), net.weights(512, width)))
    return net.finish(x)


def recurrent() -> Graph:
    """Twenty steps of a gated recurrent unit, written out."""
    net = Net("recurrent")
    width = 64
    x, h = net.input("x", (20, 1, width)), net.input("h", (1, width))
    gates = {gate: (net.weights(width, width), net.weights(width, width)) for gate in "zrn"}
    for step in range(20):
        now = net.node(
            "reshape", net.node("slice", x, begin=(step,), end=(step + 1,), step=(1,), axes=(0,)), shape=(1, width)
        )
        read = {
            gate: [net.node("matmul", value, w) for value, w in zip((now, h), gates[gate], strict=True)]
            for gate in gates
        }
        z, r = (net.node("sigmoid", net.node("add", *read[gate])) for gate in "zr")
        n = net.node("tanh", net.node("add", read["n"][0], net.node("multiply", r, read["n"][1])))
        h = net.node("add", n, net.node("multiply", z, net.node("subtract", h, n)))
    return net.finish(h)


def upscaler() -> Graph:
    """Residual blocks of one size, and pixels out of channels, as super-resolution."""
    net = Net("upscaler")
    x = first = net.conv(net.input("x", (1, 3, 48, 48)), (3, 32), 3)
    for _ in range(4):
        x = net.node("add", x, net.conv(net.relu(net.conv(x, (32, 32), 3)), (32, 32), 3))
    x = net.conv(net.node("add", x, first), (32, 128), 3)
    return net.finish(net.conv(net.node("depth_to_space", x, block=2), (32, 3), 3))


MODELS: dict[str, Callable[[], Graph]] = {
    each.__name__: each
    for each in (
        residual,
        dense,
        depthwise,
        encoder,
        hourglass,
        plain,
        branches,
        grouped,
        convnext,
        mixer,
        recurrent,
        upscaler,
    )
}


def _wall(g: Graph, **variables: str) -> float:
    with patch.dict(os.environ, variables):
        began = time.perf_counter()
        tw.build(g)
        return time.perf_counter() - began


def main() -> None:
    console = Console(width=160)
    wanted = sys.argv[1:] or list(MODELS)
    steps_of_all = (*STEPS, "whole")
    table = Table("model", "kernels", *(f"{step}, s" for step in (*steps_of_all, "kept", "one job", "all jobs")))
    tw.build(encoder())  # what a process does once
    for name in wanted:
        g = MODELS[name]()
        steps, _ = time_steps(lambda g=g: tw.build(g))
        steps["kept"] = time_kept(lambda g=g: tw.build(g))
        clock = [_wall(g, TILEWRIGHT_CACHE="0", TILEWRIGHT_JOBS=jobs) for jobs in ("1", "")]
        seconds = [*(steps[step] for step in (*steps_of_all, "kept")), *clock]
        table.add_row(name, str(len(tw.build(g).kernels)), *(f"{each:.2f}" for each in seconds))
    console.print(table)


if __name__ == "__main__":
    main()
