"""Gain of 64 trials over the rules' choice, and over MetaSchedule: `python -m tools.benchmarks.tuning_gain [TASK ...]`.

Each task is one text that tilewright's `te` and TVM's understand; each side works in a process of its own, one thread. Times are
processor time, the least of many short runs: what else the machine does does not count. What is tuned runs in turn with what the
rules choose. MetaSchedule takes part where tvm can be imported (pip install apache-tvm==0.27.0 apache-tvm-ffi==0.1.14.post0 xgboost
cloudpickle tornado), or `--tvm PYTHON` names an interpreter that can. Rows are printed as JSON, and written to out/tuned.json.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

OUT = Path("out")
ROUNDS, TURN = 25, 0.02
"""So many turns, of so many seconds each."""
Run = Callable[[], object]
Declared = Sequence[Any]
"""Tensors, of which the last is computed."""


def _reduce_axes(te: Any, *extents: int) -> list[Any]:
    return [te.reduce_axis((0, extent), name) for extent, name in zip(extents, "kmn", strict=False)]


def matmul(te: Any) -> Declared:
    a, b = te.placeholder((509, 511), "float32", name="A"), te.placeholder((511, 487), "float32", name="B")
    (k,) = _reduce_axes(te, 511)
    return a, b, te.compute((509, 487), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")


def conv1d(te: Any) -> Declared:
    data, kernel = (
        te.placeholder((71, 1791), "float32", name="data"),
        te.placeholder((193, 71, 3), "float32", name="kernel"),
    )
    c, d = _reduce_axes(te, 71, 3)
    return (
        data,
        kernel,
        te.compute((193, 1789), lambda o, x: te.sum(data[c, x + d] * kernel[o, c, d], axis=[c, d]), name="conv"),
    )


def conv2d(te: Any) -> Declared:
    data = te.placeholder((37, 53, 63), "float32", name="data")
    kernel = te.placeholder((37, 37, 5, 5), "float32", name="kernel")
    c, dy, dx = _reduce_axes(te, 37, 5, 5)
    return (
        data,
        kernel,
        te.compute(
            (37, 49, 59),
            lambda o, y, x: te.sum(data[c, y + dy, x + dx] * kernel[o, c, dy, dx], axis=[c, dy, dx]),
            name="conv",
        ),
    )


def contraction(te: Any) -> Declared:
    a = te.placeholder((17, 19, 23, 31), "float32", name="A")
    b = te.placeholder((17, 31, 31, 19), "float32", name="B")
    e, f = _reduce_axes(te, 19, 31)
    return (
        a,
        b,
        te.compute(
            (17, 23, 31, 17), lambda a_, b_, c, d: te.sum(a[a_, e, b_, f] * b[d, f, c, e], axis=[e, f]), name="C"
        ),
    )


def mttkrp(te: Any) -> Declared:
    x = te.placeholder((129, 135, 129), "float32", name="X")
    b, c = te.placeholder((135, 31), "float32", name="B"), te.placeholder((129, 31), "float32", name="C")
    k, m = _reduce_axes(te, 135, 129)
    return x, b, c, te.compute((129, 31), lambda i, r: te.sum(x[i, k, m] * b[k, r] * c[m, r], axis=[k, m]), name="M")


def ata(te: Any) -> Declared:
    a = te.placeholder((827, 483), "float32", name="A")
    (k,) = _reduce_axes(te, 827)
    return a, te.compute((483, 483), lambda i, j: te.sum(a[k, i] * a[k, j], axis=k), name="G")


def max_plus(te: Any) -> Declared:
    a, b = (te.placeholder((255, 255), "float32", name=name) for name in "AB")
    (k,) = _reduce_axes(te, 255)
    return a, b, te.compute((255, 255), lambda i, j: te.max(a[i, k] + b[k, j], axis=k), name="C")


def softmax(te: Any) -> Declared:
    """Declare softmax along the middle axis."""
    x = te.placeholder((11, 221, 379), "float32", name="X")
    k, m = _reduce_axes(te, 221, 221)
    most = te.compute((11, 379), lambda i, j: te.max(x[i, k, j], axis=k), name="most")
    raised = te.compute((11, 221, 379), lambda i, at, j: te.exp(x[i, at, j] - most[i, j]), name="raised")
    total = te.compute((11, 379), lambda i, j: te.sum(raised[i, m, j], axis=m), name="total")
    return x, te.compute((11, 221, 379), lambda i, at, j: raised[i, at, j] / total[i, j], name="softmax")


def blur(te: Any) -> Declared:
    x = te.placeholder((1025, 1265), "float32", name="X")
    across = te.compute(
        (1025, 1261),
        lambda i, j: (x[i, j] + x[i, j + 4] + (x[i, j + 1] + x[i, j + 3]) * 4.0 + x[i, j + 2] * 6.0) * 0.0625,
        name="across",
    )
    return x, te.compute(
        (1021, 1261),
        lambda i, j: (
            (across[i, j] + across[i + 4, j] + (across[i + 1, j] + across[i + 3, j]) * 4.0 + across[i + 2, j] * 6.0)
            * 0.0625
        ),
        name="blur",
    )


def variance(te: Any) -> Declared:
    x = te.placeholder((541, 1621), "float32", name="X")
    k, m = _reduce_axes(te, 541, 541)
    mean = te.compute((1621,), lambda j: te.sum(x[k, j] * (1 / 541), axis=k), name="mean")
    return x, te.compute(
        (1621,), lambda j: te.sum((x[m, j] - mean[j]) * (x[m, j] - mean[j]) * (1 / 541), axis=m), name="variance"
    )


TASKS: Mapping[str, Callable[[Any], Declared]] = {
    "conv1d": conv1d,
    "contraction": contraction,
    "max-plus": max_plus,
    "softmax": softmax,
    "mttkrp": mttkrp,
    "AtA": ata,
    "conv2d": conv2d,
    "matmul": matmul,
    "blur": blur,
    "variance": variance,
}
MET = 8
"""So many of them, the first ones, MetaSchedule tunes too."""


def draw_arrays(declared: Declared) -> list[np.ndarray]:
    """Drawn inputs, and an array for the result."""
    rng = np.random.default_rng(0)
    return [
        rng.random(tuple(int(extent) for extent in tensor.shape), dtype=np.float32) - np.float32(0.5)
        for tensor in declared
    ]


def least_times(*runs: Run) -> list[float]:
    """Seconds of processor time of each, run in turn: the least of all turns."""
    numbers: list[int] = []
    for run in runs:
        run()
        began = time.process_time()
        run()
        numbers.append(max(1, round(TURN / max(time.process_time() - began, 1e-6))))
    spent: list[list[float]] = [[] for _ in runs]
    for _ in range(ROUNDS):
        for run, number, times in zip(runs, numbers, spent, strict=True):
            began = time.process_time()
            for _ in range(number):
                run()
            times.append((time.process_time() - began) / number)
    return [min(times) for times in spent]


def ours(name: str, trials: int) -> dict[str, Any]:
    """Tunes a task with tilewright, into a fresh database."""
    import tilewright as tw
    from tilewright import autotune, te

    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "tuned.sqlite"
        began, busy = time.perf_counter(), _processor_seconds()
        result = autotune.tune(list(TASKS[name](te)), trials=trials, database=database, progress=False)
        wall, spent = time.perf_counter() - began, _processor_seconds() - busy
        tuned, usual = tw.build(list(TASKS[name](te)), tuned=database), tw.build(list(TASKS[name](te)))
    arrays = draw_arrays(TASKS[name](te))
    ms = [seconds * 1e3 for seconds in least_times(lambda: usual(*arrays), lambda: tuned(*arrays))]
    return {
        "task": name,
        "side": "tilewright",
        "trials": len(result.history),
        "failures": sum(result.failures.values()),
        "wall_s": wall,
        "processor_s": spent,
        "trials_per_s": len(result.history) / wall,
        "default_ms": ms[0],
        "tuned_ms": ms[1],
        "gain": ms[0] / ms[1],
        "is_default": result.comparison is not None and result.comparison.best == result.comparison.usual,
    }


class _Here:
    """Stand-in for TVM's pool of processes, whose workers do not come back from the first build where this was tried: builds and
    runs in this process, which saves MetaSchedule their start."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def submit(self, function: Callable[..., Any], *given: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(function(*given))
        except Exception as error:  # noqa: BLE001 - whoever asks for the result hears of it
            done.set_exception(error)
        return done

    def map_with_error_catching(self, function: Callable[..., Any], items: Iterable[Any]) -> Iterator[Any]:
        pool: Any = import_module("tvm.support.popen_pool")
        for item in items:
            future = self.submit(function, item)
            error = future.exception()
            yield (
                pool.MapResult(pool.StatusKind.EXCEPTION, error)
                if error is not None
                else pool.MapResult(pool.StatusKind.COMPLETE, future.result())
            )

    def shutdown(self, *_: Any, **__: Any) -> None:
        pass


def theirs(name: str, trials: int) -> dict[str, Any]:
    """Tunes a task with MetaSchedule, as TVM's pages say but for the processes."""
    tvm: Any = import_module("tvm")
    schedules: Any = import_module("tvm.s_tir.meta_schedule")
    for module in ("builder.local_builder", "runner.local_runner"):
        vars(import_module(f"tvm.s_tir.meta_schedule.{module}"))["PopenPoolExecutor"] = _Here
    target = tvm.target.Target({"kind": "llvm", "mcpu": _processor(), "num-cores": 1})
    declared = TASKS[name](tvm.te)
    module = tvm.IRModule({"main": tvm.te.create_prim_func(list(declared)).with_attr("global_symbol", "main")})
    began, busy = time.perf_counter(), _processor_seconds()
    with tempfile.TemporaryDirectory() as folder:
        database = schedules.tune_tir(module, target, folder, trials, num_tuning_cores=2, seed=0)
        found = schedules.tir_integration.compile_tir(database, module, target)
    wall, spent = time.perf_counter() - began, _processor_seconds() - busy
    if found is None:
        return {"task": name, "side": "MetaSchedule", "wall_s": wall, "failed": "nothing was measured"}
    kernel = tvm.compile(found.mod, target=target)["main"]
    arrays = [tvm.runtime.tensor(array) for array in draw_arrays(declared)]
    ms = least_times(lambda: kernel(*arrays))[0] * 1e3
    return {
        "task": name,
        "side": "MetaSchedule",
        "trials": trials,
        "wall_s": wall,
        "processor_s": spent,
        "trials_per_s": trials / wall,
        "tuned_ms": ms,
    }


def _processor_seconds() -> float:
    """CPU seconds of this process and of those that it has waited for."""
    return sum(os.times()[:4])


def _processor() -> str:
    """LLVM's name of this machine's processor."""
    from llvmlite import binding

    return binding.get_host_cpu_name()


def _measure_side(interpreter: str, side: str, name: str, trials: int) -> dict[str, Any]:
    """The row of one side, from a process of its own."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "TVM_NUM_THREADS", "TILEWRIGHT_NUM_THREADS"), "1")
    command = [
        interpreter,
        "-m",
        "tilewright.tools.benchmarks.tuning_gain",
        "--side",
        side,
        "--trials",
        str(trials),
        name,
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, env={**os.environ, **threads})
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"task"')]
    return (
        json.loads(lines[-1])
        if lines
        else {"task": name, "side": side, "failed": f"it ended with status {done.returncode}"}
    )


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Geometric means over what was measured on both sides."""

    def mean(values: Sequence[float]) -> float | None:
        return math.exp(sum(map(math.log, values)) / len(values)) if values else None

    mine, met = (
        {row["task"]: row for row in rows if row["side"] == side and "failed" not in row}
        for side in ("tilewright", "MetaSchedule")
    )
    both = [(mine[task], met[task]) for task in mine if task in met]
    gains = [row["gain"] for row in mine.values()]
    return {
        "gain": mean(gains),
        "least_gain": min(gains, default=None),
        "times_MetaSchedule": mean([other["tuned_ms"] / own["tuned_ms"] for own, other in both]),
        "ahead": f"{sum(own['tuned_ms'] < other['tuned_ms'] for own, other in both)} of {len(both)}",
        "share_of_its_wall_time": mean([own["wall_s"] / other["wall_s"] for own, other in both]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", metavar="TASK", help=f"of {', '.join(TASKS)}; default: all")
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument(
        "--tvm", default=sys.executable if find_spec("tvm") else None, help="an interpreter that has tvm"
    )
    parser.add_argument("--side", choices=["ours", "theirs"], help=argparse.SUPPRESS)
    given = parser.parse_args()
    wanted = given.tasks or list(TASKS)
    if given.side:
        print(json.dumps((ours if given.side == "ours" else theirs)(wanted[0], given.trials)), flush=True)
        return
    rows: list[dict[str, Any]] = []
    for name in wanted:
        sides = [("ours", sys.executable)]
        if given.tvm and name in list(TASKS)[:MET]:
            sides.append(("theirs", given.tvm))
        for side, interpreter in sides:
            rows.append(_measure_side(interpreter, side, name, given.trials))
            print(json.dumps(rows[-1]), flush=True)
    OUT.mkdir(exist_ok=True)
    (OUT / "tuned.json").write_text(json.dumps({"rows": rows, "summary": summary(rows)}, indent=1))
    print(json.dumps(summary(rows)))


if __name__ == "__main__":
    main()
