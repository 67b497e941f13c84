"""Time of a build by its parts, for twelve kernels; its growth with the program; the cost of choosing schedules for networks.

`python -m tools.benchmarks.compile` prints the tables and writes out/compile.json and out/compile.png. Medians of 9.
"""

from __future__ import annotations

import cProfile
import json
import math
import pstats
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import tilewright as tw
from rich.console import Console
from rich.table import Table
from tilewright import te, topi
from tilewright.codegen.abi.parallel import PARALLEL_FOR, parallel_for_address
from tilewright.codegen.llvm import jit
from tilewright.codegen.llvm.build import CodegenOptions, module_text
from tilewright.codegen.llvm.pipeline import build_pipeline
from tilewright.codegen.target import Target
from tilewright.ir.passes.common.runner import pass_times, run_pipeline
from tilewright.ir.visit import deep_recursion

from .programs import PROGRAMS

RUNS = 9
OUT = Path("out")
STEPS = ("declare", "lower", "passes", "emit", "parse", "optimise", "object")
"""Of a build. What lies before "optimise" is ours."""
BARS = {"lower": 20.0, "before the optimiser": 35.0}
"""Milliseconds, for the packed product and the padded convolution on two cores."""


class Clock:
    """Seconds by step, of one build."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def step(self, name: str) -> Any:
        began = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - began


def build_in_steps(
    program: Callable[[], tuple[te.Schedule, list[Any]]],
    target: Target,
) -> tuple[dict[str, float], dict[str, float]]:
    """(seconds by step, seconds by pass) of one build."""
    clock = Clock()
    machine = target.machine()
    with deep_recursion():
        with clock.step("declare"):
            schedule, args = program()
        with clock.step("lower"):
            function = tw.lower(schedule, args)
        with clock.step("passes"), pass_times() as passes:
            pipeline = build_pipeline(target)
            final = run_pipeline(function, pipeline)
        with clock.step("emit"):
            text, _ = module_text([final], target, CodegenOptions(symbols={PARALLEL_FOR: parallel_for_address()}))
    with llvm.create_context() as context:
        with clock.step("parse"):
            module = llvm.parse_assembly(text, context)
        with module:  # it must go before its context
            with clock.step("optimise"):
                jit._optimise(module, machine)
            with clock.step("object"):
                machine.emit_object(module)
    return clock.seconds, dict(passes)


def bench_kernels(console: Console) -> list[dict[str, Any]]:
    """Medians of each step of each kernel, in milliseconds."""
    target, rows = Target.parse("llvm"), []
    table = Table("kernel, ms", *STEPS, "before the optimiser", "slowest pass")
    for name, program in PROGRAMS.items():
        runs = [build_in_steps(program, target) for _ in range(RUNS)]
        step = {key: 1e3 * statistics.median(run[0][key] for run in runs) for key in STEPS}
        passes = {key: 1e3 * statistics.median(run[1][key] for run in runs) for key in runs[0][1]}
        before = sum(step[key] for key in STEPS[1 : STEPS.index("optimise")])
        rows.append({"kernel": name, **step, "before": before, "passes": passes})
        slowest = max(passes, key=lambda key: passes[key])
        table.add_row(name, *(f"{step[key]:.1f}" for key in STEPS), f"{before:.1f}", f"{slowest} {passes[slowest]:.1f}")
    console.print(table)
    for row in rows:
        if row["kernel"] in ("packed_matmul", "conv2d"):
            console.print(
                f"{row['kernel']}: lower {row['lower']:.1f} ms (bar {BARS['lower']:.0f}), "
                f"before the optimiser {row['before']:.1f} ms (bar {BARS['before the optimiser']:.0f})"
            )
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
    target = Target.parse("llvm")
    times_by_program: dict[str, list[dict[str, float]]] = {}
    table = Table("what grows", "n", "ours, ms", "LLVM, ms", "power of n, ours", "power of n, LLVM")
    for what, (program, sizes) in GROWTH.items():
        rows = times_by_program[what] = []
        for size in sizes:
            runs = [build_in_steps(partial(program, size), target)[0] for _ in range(3)]
            best = {key: statistics.median(run[key] for run in runs) for key in STEPS}
            llvm_seconds = best["parse"] + best["optimise"] + best["object"]
            rows.append({"n": size, "ours": sum(best.values()) - llvm_seconds, "llvm": llvm_seconds})
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
