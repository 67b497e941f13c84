"""Time of the builds of whole models, step by step: five networks of usual makes, with drawn weights.

`python -m tools.benchmarks.compile_models [NAME ...]` prints a table, of processor time and of the clock. Nothing is kept of a build
that the next could find.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Any
from unittest.mock import patch

import numpy as np
import tilewright as tw
from rich.console import Console
from rich.table import Table
from tilewright.codegen.llvm import backend, jit
from tilewright.driver import linking
from tilewright.driver import lower as lowering
from tilewright.graph import Builder, Graph
from tilewright.graph import graph as graphs

__all__ = ["MODELS", "STEPS", "steps_of_build"]

STEPS = ("graph", "choose", "lower", "passes", "text", "parse", "optimise", "object", "link")
"""The graph's passes, then what is done for each kernel. Each is the processor time of the thread that does it, without the steps
within."""


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


MODELS: dict[str, Callable[[], Graph]] = {
    each.__name__: each for each in (residual, dense, depthwise, encoder, hourglass)
}


def _steps() -> Iterator[tuple[str, Any, str]]:
    """The functions that do each step."""
    yield "graph", graphs, "transformed"
    yield "choose", lowering, "scheduled"
    yield "lower", linking, "lowered_programs"
    yield "passes", backend, "run_pipeline"
    yield "text", backend, "build_unit"
    yield "parse", jit, "_link_parts"
    yield "optimise", jit, "_optimise"
    yield "object", jit, "_object"
    yield "link", jit, "_link"


@contextmanager
def _clocks(seconds: Counter[str]) -> Generator[None]:
    """Add up the time of each step within a `with` block."""
    within: list[float] = []

    def timed(step: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*args: Any, **named: Any) -> Any:
            began = time.thread_time()
            within.append(0.0)
            try:
                return function(*args, **named)
            finally:
                spent = time.thread_time() - began
                seconds[step] += spent - within.pop()
                if within:
                    within[-1] += spent

        return call

    plain = jit._object.__wrapped__  # the part that runs on the shielded thread, in this one
    patches = [patch.object(jit, "_object", timed("object", plain))]
    patches += [
        patch.object(module, name, timed(step, getattr(module, name)))
        for step, module, name in _steps()
        if step != "object"
    ]
    for each in patches:
        each.start()
    try:
        yield
    finally:
        for each in patches:
            each.stop()


def steps_of_build(g: Graph) -> Mapping[str, float]:
    """Seconds of each step of a build, one kernel after the other in this thread."""
    seconds: Counter[str] = Counter()

    class Here:
        """Run the work of a thread at once."""

        def submit(self, work: Callable[[], Any]) -> Any:
            result = work()
            return type("Done", (), {"result": lambda _: result, "done": lambda _: True})()

        def shutdown(self, **_: Any) -> None:
            """Nothing is left to do."""

    with (
        patch.dict(os.environ, {"TILEWRIGHT_CACHE": "0", "TILEWRIGHT_JOBS": "1"}),
        patch("tilewright.driver.batch.ThreadPoolExecutor", lambda *_: Here()),
        _clocks(seconds),
    ):
        began = time.process_time()
        tw.build(g)
        seconds["whole"] = time.process_time() - began
    return {step: seconds[step] for step in (*STEPS, "whole")}


def _wall(g: Graph, **variables: str) -> float:
    with patch.dict(os.environ, variables):
        began = time.perf_counter()
        tw.build(g)
        return time.perf_counter() - began


def main() -> None:
    console = Console(width=160)
    wanted = sys.argv[1:] or list(MODELS)
    table = Table(
        "model", "kernels", *(f"{step}, s" for step in STEPS), "whole, s", "one job, s", "all jobs, s", "kept, s"
    )
    tw.build(depthwise())  # what a process does once
    for name in wanted:
        g = MODELS[name]()
        steps = steps_of_build(g)
        with tempfile.TemporaryDirectory() as folder:
            alone = _wall(g, TILEWRIGHT_CACHE="0", TILEWRIGHT_JOBS="1")
            together = _wall(g, TILEWRIGHT_CACHE_DIR=folder, TILEWRIGHT_CACHE="1")
            kept = _wall(g, TILEWRIGHT_CACHE_DIR=folder, TILEWRIGHT_CACHE="1")
        table.add_row(
            name,
            str(len(tw.build(g).kernels)),
            *(f"{steps[step]:.2f}" for step in (*STEPS, "whole")),
            *(f"{seconds:.2f}" for seconds in (alone, together, kept)),
        )
    console.print(table)


if __name__ == "__main__":
    main()
