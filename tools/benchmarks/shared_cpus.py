"""Parallel kernels beside other work: how much longer they take while as many processes as there are CPUs are busy.

    python -m tools.benchmarks.shared_cpus [--seconds 3]

For each way to wait (our own threads; OpenMP's) a process of its own measures a kernel of about 1 ms and one of about 20 ms, quiet
and then beside the busy processes, several times in turn, and prints medians, their ratios, and what a fork and join costs when
all is quiet. Ratios of one run mean something; what else runs on the machine counts as load in both halves.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tilewright as tw
from tilewright import te
from tilewright.runtime.threads import VARIABLE

KINDS = {"own": "our own threads", "openmp": "OpenMP's threads"}
WANTED_MS = (1.0, 20.0)
ROUNDS, TERMS = 3, 64
FORK_JOIN_ELEMENTS = 1 << 15


def polynomial(n: int, terms: int, parallel: bool) -> Any:
    """A kernel that computes much of little memory: `terms` steps of Horner's rule over n floats in chunks of 64."""
    A = te.placeholder((n,), name="A")

    def value(i: Any) -> Any:
        total = A[i]
        for k in range(terms):
            total = total * A[i] + te.const(1 / (k + 1), "float32")
        return total

    B = te.compute((n,), value, name="B")
    s = te.create_schedule(B.op)
    outer, inner = s[B].split(B.op.axis[0], 64)
    s[B].vectorize(inner)
    if parallel:
        s[B].parallel(outer)
    return tw.build(s, [A, B])


def times(call: Callable[[], object], seconds: float) -> list[float]:
    """Seconds of each call, for so long."""
    found: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(found) < 5:
        begin = time.perf_counter()
        call()
        found.append(time.perf_counter() - begin)
    return found


def busy() -> subprocess.Popen[bytes]:
    """A process that keeps a CPU."""
    return subprocess.Popen([sys.executable, "-c", "while True: pass"])


def elements_per_ms() -> int:
    """Return the number of elements that all threads together should do in a millisecond, from what one does: the same for all kinds."""
    n = 1 << 16
    kernel, arrays = polynomial(n, TERMS, parallel=False), _arrays(n)
    return int(n * tw.num_threads() / (min(times(lambda: kernel(*arrays), 0.5)) * 1e3))


def measure(seconds: float, per_ms: int) -> None:
    """Measure in a process of one kind: a line for each kernel."""
    for wanted in WANTED_MS:
        n = int(per_ms * wanted) // 64 * 64
        kernel, arrays = polynomial(n, TERMS, parallel=True), _arrays(n)
        call = lambda k=kernel, a=arrays: k(*a)
        call()
        quiet: list[float] = []
        loaded: list[float] = []
        for _ in range(ROUNDS):
            quiet += times(call, seconds / ROUNDS)
            others = [busy() for _ in range(len(os.sched_getaffinity(0)))]
            time.sleep(0.2)
            loaded += times(call, seconds / ROUNDS)
            for other in others:
                other.kill()
                other.wait()
        before, after = statistics.median(quiet) * 1e3, statistics.median(loaded) * 1e3
        print(
            f"{wanted:5.0f} ms kernel: {before:8.3f} ms quiet, {after:8.3f} ms beside {len(others)} busy processes: "
            f"{after / before:5.2f} times",
            flush=True,
        )
    shared, alone = (polynomial(FORK_JOIN_ELEMENTS, 1, parallel) for parallel in (True, False))
    arrays = _arrays(FORK_JOIN_ELEMENTS)
    costs = [kernel.time(*arrays, number=1000, repeat=25, min_repeat_ms=0).median * 1e6 for kernel in (shared, alone)]
    share = costs[1] / tw.num_threads()
    print(f"fork and join: {costs[0] - share:.2f} µs beyond a perfect share of {costs[1]:.2f} µs of work", flush=True)


def _arrays(n: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    return np.linspace(0, 0.9, n, dtype="float32"), np.empty(n, "float32")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0, help="for each kernel, quiet and loaded")
    parser.add_argument("--kind", choices=KINDS, help=argparse.SUPPRESS)
    parser.add_argument("--per-ms", type=int, default=0, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.kind:
        measure(given.seconds, given.per_ms)
        return
    per_ms = str(elements_per_ms())
    for kind, meaning in KINDS.items():
        print(f"{meaning} ({kind}):", flush=True)
        command = [
            sys.executable,
            "-m",
            "tools.benchmarks.shared_cpus",
            "--kind",
            kind,
            "--seconds",
            str(given.seconds),
        ]
        command += ["--per-ms", per_ms]
        subprocess.run(command, check=True, env={**os.environ, VARIABLE: kind}, cwd=Path(__file__).parent.parent.parent)


if __name__ == "__main__":
    main()
