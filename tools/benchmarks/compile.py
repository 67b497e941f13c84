"""Time of a build by its steps, for forty kernels; its growth with the program; the cost of choosing schedules for networks.

`python -m tools.benchmarks.compile` prints the tables and writes out/compile.json and out/compile.png. Medians of 5.
"""

from __future__ import annotations

import cProfile
import json
import math
import pstats
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import tilewright as tw
from rich.console import Console
from rich.table import Table
from tilewright import te, topi

from .compile_steps import STEPS, time_kept, time_steps
from .programs import PROGRAMS

RUNS = 5
OUT = Path("out")


def _program(make: Callable[[], tuple[te.Schedule, list[Any]]]) -> Callable[[], object]:
    schedule, args = make()
    return lambda: tw.build(schedule, args)


def _operator(outputs: Callable[..., te.Tensor], *shapes: tuple[int, ...]) -> Callable[[], object]:
    """The build of an operator on float32 of these shapes, whose schedule the rules choose."""
    inputs = [te.placeholder(shape, name=f"x{at}") for at, shape in enumerate(shapes)]
    tensors = [*inputs, outputs(*inputs)]
    return lambda: tw.build(tensors)


IMAGE, ROWS = (1, 32, 56, 56), (512, 768)
OPERATORS: dict[str, tuple[Any, ...]] = {
    "relu": (topi.nn.relu, IMAGE),
    "tanh": (topi.tanh, ROWS),
    "exp": (topi.exp, ROWS),
    "erf": (topi.erf, ROWS),
    "gelu": (topi.nn.gelu, ROWS),
    "add": (topi.add, ROWS, ROWS),
    "add a row": (topi.add, ROWS, ROWS[1:]),
    "clip": (lambda x: topi.clip(x, -1.0, 1.0), ROWS),
    "sum of rows": (lambda x: topi.sum(x, axis=1), ROWS),
    "sum of columns": (lambda x: topi.sum(x, axis=0), ROWS),
    "mean of images": (lambda x: topi.mean(x, axis=(2, 3)), IMAGE),
    "argmax": (lambda x: topi.argmax(x, axis=1), ROWS),
    "softmax of rows": (topi.nn.softmax, ROWS),
    "log_softmax": (topi.nn.log_softmax, ROWS),
    "cumsum": (lambda x: topi.cumsum(x, axis=1), ROWS),
    "transpose of images": (lambda x: topi.transpose(x, (0, 2, 3, 1)), IMAGE),
    "reshape": (lambda x: topi.reshape(x, (256, 1536)), ROWS),
    "concatenate": (lambda x, y: topi.concatenate([x, y], axis=1), ROWS, ROWS),
    "flip": (lambda x: topi.flip(x, axis=1), ROWS),
    "matmul": (topi.matmul, (256, 256), (256, 256)),
    "matmul of a row": (topi.matmul, (1, 1024), (1024, 1024)),
    "matmul with tails": (topi.matmul, (37, 513), (513, 1000)),
    "batched matmul": (topi.batch_matmul, (8, 64, 64), (8, 64, 64)),
    "conv 1x1": (lambda x, w: topi.nn.conv2d(x, w, 1, 0), IMAGE, (64, 32, 1, 1)),
    "conv 3x3": (lambda x, w: topi.nn.conv2d(x, w, 1, 1), IMAGE, (32, 32, 3, 3)),
    "conv 3x3, stride 2": (lambda x, w: topi.nn.conv2d(x, w, 2, 1), IMAGE, (64, 32, 3, 3)),
    "conv 7x7, stride 2": (lambda x, w: topi.nn.conv2d(x, w, 2, 3), (1, 3, 112, 112), (64, 3, 7, 7)),
    "conv, a square, relu": (lambda x, w: topi.nn.relu(topi.square(topi.nn.conv2d(x, w, 1, 1))), IMAGE, (32, 32, 3, 3)),
}


def bench_kernels(console: Console) -> list[dict[str, Any]]:
    """Medians of each step of forty kernels, in milliseconds: twelve scheduled by hand, the others by the rules."""
    rows: list[dict[str, Any]] = []
    shown = (*STEPS[1:], "whole", "kept")
    table = Table("kernel, ms", *shown, "slowest pass")
    builds = {name: _program(make) for name, make in PROGRAMS.items()}
    builds |= {name: _operator(*what) for name, what in OPERATORS.items()}
    for name, build in builds.items():
        runs = [time_steps(build) for _ in range(RUNS)]
        step = {key: 1e3 * statistics.median(run[0][key] for run in runs) for key in runs[0][0]}
        step["kept"] = 1e3 * time_kept(build)
        passes = {key: 1e3 * statistics.median(run[1][key] for run in runs) for key in runs[0][1]}
        rows.append({"kernel": name, **step, "by pass": passes})
        slowest = max(passes, key=lambda key: passes[key])
        table.add_row(name, *(f"{step[key]:.1f}" for key in shown), f"{slowest} {passes[slowest]:.1f}")
    console.print(table)
    return rows


# Growth


def nest(depth: int) -> tuple[te.Schedule, list[Any]]:
    """A sum within `depth` loops, none of which can be left out: their extents are not known."""
    n = te.var("n")
    a = te.placeholder((2,), name="A")
    axes = [te.reduce_axis((0, n), name=f"k{at}") for at in range(depth - 1)]
    b = te.compute((2,), lambda i: te.sum(a[i] + axes[-1], axis=axes), name="B")
    return te.create_schedule(b), [a, b, n]


def chain(length: int) -> tuple[te.Schedule, list[te.Tensor]]:
    """One expression of `length` operators."""
    a = te.placeholder((1024,), name="A")

    def body(i: te.Expr) -> te.Expr:
        value = a[i]
        for step in range(length):
            value = value * 0.5 + 1.0 if step % 2 else te.max(value, a[(i + step) % 1024])
        return value

    b = te.compute((1024,), body, name="B")
    return te.create_schedule(b), [a, b]


def stages(number: int) -> tuple[te.Schedule, list[te.Tensor]]:
    """A graph of as many stages."""
    first = te.placeholder((64,), name="A")
    last = first
    for at in range(number):
        last = te.compute((64,), lambda i, before=last: before[i] * 0.5 + 1.0, name=f"T{at}")
    return te.create_schedule(last), [first, last]


GROWTH: dict[str, tuple[Callable[[int], Any], Sequence[int]]] = {
    "loops in a nest": (nest, (25, 50, 100, 200)),
    "operators in an expression": (chain, (1250, 2500, 5000, 10000)),
    "stages in a graph": (stages, (38, 75, 150, 300)),
}


def bench_growth(console: Console) -> dict[str, list[dict[str, float]]]:
    """Seconds of a whole build by size, and their growth as a power of n."""
    times_by_program: dict[str, list[dict[str, float]]] = {}
    table = Table("what grows", "n", "ours, ms", "LLVM, ms", "power of n, ours", "power of n, LLVM")
    for what, (program, sizes) in GROWTH.items():
        rows = times_by_program[what] = []
        for size in sizes:
            build = _program(partial(program, size))
            runs = [time_steps(build)[0] for _ in range(3)]
            best = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
            llvm_seconds = best["parse"] + best["optimise"] + best["object"]
            rows.append({"n": size, "ours": best["whole"] - llvm_seconds, "llvm": llvm_seconds})
        for at, row in enumerate(rows):
            power = [math.log2(row[key] / rows[at - 1][key]) if at else 0.0 for key in ("ours", "llvm")]
            table.add_row(
                what if not at else "",
                str(int(row["n"])),
                f"{row['ours'] * 1e3:.0f}",
                f"{row['llvm'] * 1e3:.0f}",
                *(f"{p:.2f}" if at else "" for p in power),
            )
    console.print(table)
    return times_by_program


# Choosing


def network(layers: int, channels: int = 64, size: int = 28) -> tuple[te.Tensor, list[te.Tensor]]:
    """(result, inputs) of so many convolutions 3×3, each with batch norm and relu, every second one with a residual addition."""
    data = te.placeholder((1, channels, size, size), name="data")
    inputs, last, kept = [data], data, data
    for at in range(layers):
        weight = te.placeholder((channels, channels, 3, 3), name=f"weight{at}")
        norm = [te.placeholder((channels,), name=f"{name}{at}") for name in ("gamma", "beta", "mean", "variance")]
        inputs += [weight, *norm]
        last = topi.nn.batch_norm_inference(topi.nn.conv2d(last, weight, 1, 1), *norm)
        last = topi.nn.relu(last + kept if at % 2 else last)
        kept = last if at % 2 else kept
    return last, inputs


def bench_choosing(console: Console) -> list[dict[str, float]]:
    """Seconds of this thread for choosing a schedule and for lowering it, by the number of stages that were declared."""
    rows: list[dict[str, float]] = []
    table = Table("convolutions", "stages", "choosing, ms", "a stage, ms", "function calls a stage", "lowering, ms")
    topi.schedule(network(2)[0])
    for layers in (20, 40, 80, 160):
        result, inputs = network(layers)
        stages = len(te.create_schedule(result).stages)
        began = time.thread_time()
        schedule = topi.schedule(result)
        chosen = time.thread_time()
        tw.lower(schedule, [*inputs, result])
        lowered = time.thread_time()
        profile = cProfile.Profile()
        profile.runcall(topi.schedule, result)
        calls = pstats.Stats(profile).total_calls
        rows.append(
            {
                "layers": layers,
                "stages": stages,
                "choosing": chosen - began,
                "lowering": lowered - chosen,
                "calls": calls,
            }
        )
        table.add_row(
            str(layers),
            str(stages),
            f"{1e3 * (chosen - began):.0f}",
            f"{1e3 * (chosen - began) / stages:.2f}",
            f"{calls / stages:.0f}",
            f"{1e3 * (lowered - chosen):.0f}",
        )
    console.print(table)
    return rows


def plot(growth: dict[str, list[dict[str, float]]], place: Path) -> None:
    """The times against n, beside n log n through the first point."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as pyplot

    figure, panels = pyplot.subplots(1, len(growth), figsize=(4.2 * len(growth), 3.6), layout="constrained")
    for panel, (what, rows) in zip(panels, growth.items(), strict=True):
        sizes = [row["n"] for row in rows]
        for key, label in (("ours", "tilewright"), ("llvm", "LLVM")):
            panel.plot(sizes, [row[key] * 1e3 for row in rows], "o-", label=label)
        first = rows[0]
        scale = (first["ours"] + first["llvm"]) * 1e3 / (first["n"] * math.log2(first["n"]))
        panel.plot(sizes, [scale * n * math.log2(n) for n in sizes], "--", color="grey", label="n log n")
        panel.set(xscale="log", yscale="log", xlabel=what, ylabel="ms to build")
        panel.legend()
    figure.savefig(place, dpi=110)


def main() -> None:
    console = Console(width=160)
    kernels = bench_kernels(console)
    growth = bench_growth(console)
    choosing = bench_choosing(console)
    OUT.mkdir(exist_ok=True)
    (OUT / "compile.json").write_text(
        json.dumps({"kernels": kernels, "growth": growth, "choosing": choosing}, indent=1)
    )
    plot(growth, OUT / "compile.png")
    console.print(
        f"written to {(OUT / 'compile.json').absolute()} and {(OUT / 'compile.png').absolute()}", highlight=False
    )


if __name__ == "__main__":
    main()
