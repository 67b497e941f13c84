"""Overheads of importing, compiling and calling. Prints one JSON object a row: medians of 9."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import numpy as np
import tilewright as tw
from tilewright import te
from tilewright.demo import matmul

RUNS = 9


def median(program: Callable[[], object]) -> float:
    """Seconds, the median of RUNS."""
    spent = []
    for _ in range(RUNS):
        start = time.perf_counter()
        program()
        spent.append(time.perf_counter() - start)
    return statistics.median(spent)


def row(name: str, seconds: float, bar: float) -> None:
    print(json.dumps({"cost": name, "ms": seconds * 1e3, "bar_ms": bar * 1e3}), flush=True)


def bench_import() -> None:
    timer = "import time; t = time.perf_counter(); import tilewright; print(time.perf_counter() - t)"
    spent = [
        float(subprocess.run([sys.executable, "-c", timer], capture_output=True, check=True).stdout)
        for _ in range(RUNS)
    ]
    row("import tilewright", statistics.median(spent), 0.25)


def bench_compile() -> None:
    scheduled = matmul.parallel(1024)
    row("lower, packed matmul 1024", median(lambda: tw.lower(scheduled.schedule, scheduled.args)), 0.060)
    os.environ["TILEWRIGHT_CACHE"] = "0"
    row("build, packed matmul 1024", median(lambda: tw.build(scheduled.schedule, scheduled.args)), 0.300)


_SECOND = """
import time
import tilewright as tw, tilewright.driver.build
from tilewright import te, topi
topi.schedule
A, B = te.placeholder((1000, 1000), name="A"), te.placeholder((1000, 1000), name="B")
C = topi.matmul(A, B)
start = time.perf_counter()
tw.build(topi.schedule(C), [A, B, C])
print(time.perf_counter() - start)
"""


def bench_kept() -> None:
    """Measure the time that a process that finds its kernel on disk spends on scheduling and building, after its imports."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "TILEWRIGHT_CACHE": "1", "TILEWRIGHT_CACHE_DIR": folder}
        spent = [
            float(
                subprocess.run([sys.executable, "-c", _SECOND], env=environment, capture_output=True, check=True).stdout
            )
            for _ in range(RUNS + 1)
        ]
    row("schedule and build, matmul 1000", spent[0], 1.0)
    row("schedule and build, found on disk", statistics.median(spent[1:]), 0.050)


def bench_call() -> None:
    a, b = (te.placeholder((16,), name=name) for name in "AB")
    c = te.compute((16,), lambda i: a[i] + b[i], name="C")
    f = tw.build(te.create_schedule(c), [a, b, c])
    x, y, z = (np.ones(16, np.float32) for _ in range(3))

    def many(call: Callable[[], object], number: int = 100_000) -> float:
        def loop() -> None:
            for _ in range(number):
                call()

        return median(loop) / number

    nothing = many(lambda: None)
    row("call, three arrays of 16 floats", many(lambda: f(x, y, z)) - nothing, 0.3e-6)
    jitted = tw.jit(lambda a, b: te.compute(a.shape, lambda i: a[i] + b[i]))
    row("call through tw.jit, with its result", many(lambda: jitted(x, y)) - nothing, 3e-6)
    row("call through tw.jit, out=", many(lambda: jitted(x, y, out=z)) - nothing, 2.5e-6)
    row("numpy.add, the same", many(lambda: np.add(x, y, out=z)) - nothing, 0.3e-6)


def bench_fork() -> None:
    """Measure the cost of a parallel loop of two tasks with next to nothing to do beyond a serial one: a fork and a join. Its extent
    is not known before the call, or it would be made serial."""
    n = te.var("n")
    a = te.placeholder((n,), "int32", name="A")
    c = te.compute((n,), lambda i: a[i] + 1, name="C")
    s = te.create_schedule(c)
    s[c].parallel(c.op.axis[0])
    forked, alone = tw.build(s, [a, c]), tw.build(te.create_schedule(c), [a, c])
    x, y = (np.ones(2, np.int32) for _ in range(2))

    def many(call: Callable[..., object], number: int = 20_000) -> float:
        def loop() -> None:
            for _ in range(number):
                call(x, y)

        return median(loop) / number

    row("parallel loop of 2 tasks, beyond a serial one", many(forked) - many(alone), 3e-6)


if __name__ == "__main__":
    bench_fork()
    bench_import()
    bench_compile()
    bench_kept()
    bench_call()
