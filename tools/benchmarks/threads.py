"""Two threads against one under what goes on between calls: pauses, other libraries, busy processes.

    python -m tools.benchmarks.threads [ROW ...] [--seconds 4]

Each row is a process of its own. It calls a product of 768 x 768 on one thread and on all, in turn, each time after the same thing:
a pause, an operator of another library, whose workers may still be awake, or what the tuner does before it times a candidate. The
table has medians in milliseconds and their ratio, which the row `ceiling` bounds: how much more two processes do at once than one.
The row `fork` is what a parallel loop costs beyond a perfect share, in microseconds. Rounds in which other programs, or a hypervisor's
other machines, took more than a twentieth of the CPUs are left out and counted; the row `busy` has as many busy processes as there
are CPUs, its own.
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
from tilewright import te, topi
from tilewright.autotune.reference import Reference

from .shared_cpus import FORK_JOIN_ELEMENTS, polynomial

SIZE, OTHER_SIZE = 768, 512
PAUSES_MS = (0, 1, 5, 30, 100, 1000)
CALLS = 5
"""Measured in a row, where a call and what lies between take less than 50 ms; else one."""
COUNTED_LOOP = "n = 0\nfor i in range(10_000_000): n += i"

Call = Callable[[], object]


def own_product() -> Call:
    """A product of ours on arrays of its own, checked."""
    a, b = (te.placeholder((SIZE, SIZE), name=name) for name in "AB")
    c = topi.matmul(a, b)
    kernel = tw.build(topi.schedule(c), [a, b, c], name="product")
    left, right = (np.random.default_rng(seed).random((SIZE, SIZE), "float32") for seed in (0, 1))
    out = np.empty_like(left)
    kernel(left, right, out)
    np.testing.assert_allclose(out, left @ right, rtol=1e-3)
    return lambda: kernel(left, right, out)


def pause(milliseconds: float) -> Call:
    return lambda: time.sleep(milliseconds * 1e-3) if milliseconds else None


def _numpy(x: np.ndarray[Any, Any]) -> Call:
    out = np.empty_like(x)
    return lambda: np.matmul(x, x, out=out)


def _torch(x: np.ndarray[Any, Any]) -> Call:
    import torch

    tensor = torch.from_numpy(x)
    return lambda: torch.relu(tensor)


def _onnxruntime(x: np.ndarray[Any, Any]) -> Call:
    import onnxruntime
    from onnx import TensorProto, helper

    shape = list(x.shape)
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xy"]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "x"], ["y"])], "product", values[:1], values[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return lambda: session.run(None, {"x": x})


def _jax(x: np.ndarray[Any, Any]) -> Call:
    import jax

    function, array = jax.jit(lambda y: y @ y), jax.device_put(x)
    return lambda: function(array).block_until_ready()


def _openvino(x: np.ndarray[Any, Any]) -> Call:
    import openvino
    from openvino import opset13

    one = opset13.parameter(list(x.shape), np.float32)
    model = openvino.Model([opset13.matmul(one, one, False, False)], [one])
    request = openvino.Core().compile_model(model, "CPU").create_infer_request()
    return lambda: request.infer([x])


def _tuner(x: np.ndarray[Any, Any]) -> Call:
    """Comparing an output with the reference, as the tuner's workers do before they time a candidate."""
    reference = Reference(x)
    return lambda: reference.difference(x)


LIBRARIES: dict[str, Callable[[np.ndarray[Any, Any]], Call]] = {
    "numpy": _numpy,
    "torch": _torch,
    "onnxruntime": _onnxruntime,
    "jax": _jax,
    "openvino": _openvino,
}
ROWS = ("ceiling", *(f"{ms} ms" for ms in PAUSES_MS), *LIBRARIES, "tuner", "busy", "fork")


class Disturbance:
    """CPU seconds that others take, this process's own children aside that are given."""

    def __init__(self, children: list[subprocess.Popen[bytes]]) -> None:
        self.children = children
        self.begin, self.taken = time.perf_counter(), self._busy_seconds()

    def _busy_seconds(self) -> float:
        tick = os.sysconf("SC_CLK_TCK")
        fields = [int(word) for word in Path("/proc/stat").read_text().split("\n")[0].split()[1:]]
        own = os.times()
        theirs = 0.0
        for child in self.children:
            words = Path(f"/proc/{child.pid}/stat").read_text().rsplit(")", 1)[1].split()
            theirs += (int(words[11]) + int(words[12])) / tick
        return sum((*fields[:3], *fields[5:8])) / tick - own.user - own.system - theirs

    def is_large(self) -> bool:
        """More than a twentieth of the CPUs since the beginning, and than the clock's grain."""
        return self._busy_seconds() - self.taken > 0.04 + 0.05 * (time.perf_counter() - self.begin)


def time_alternately(call: Call, before: Call, seconds: float, children: list[subprocess.Popen[bytes]]) -> str:
    """A row: the product on one thread and on all."""
    counts = (1, tw.num_threads())
    times: dict[int, list[float]] = {count: [] for count in counts}
    begin = time.perf_counter()
    before(), call()
    calls = CALLS if time.perf_counter() - begin < 0.05 else 1
    rounds = disturbed = 0
    while time.perf_counter() < begin + seconds or rounds < 3:
        rounds += 1
        others = Disturbance(children)
        these = {count: _measure(call, before, count, calls) for count in counts}
        if others.is_large():
            disturbed += 1
            continue
        for count in counts:
            times[count] += these[count]
    if not all(times.values()):
        return f"others were busy in all of {rounds} rounds"
    one, all_of_them = (statistics.median(times[count]) * 1e3 for count in counts)
    return f"{one:8.2f} {all_of_them:8.2f} {one / all_of_them:8.2f} x   {disturbed} of {rounds} rounds left out"


def _measure(call: Call, before: Call, count: int, calls: int) -> list[float]:
    tw.set_num_threads(count)
    before(), call()
    times: list[float] = []
    for _ in range(calls):
        before()
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return times


def ceiling() -> str:
    """Return the throughput of as many processes as there are CPUs, in parts of that of one."""
    command, cpus = [sys.executable, "-c", COUNTED_LOOP], len(os.sched_getaffinity(0))
    alone: list[float] = []
    beside: list[float] = []
    for _ in range(3):
        for count, times in ((1, alone), (cpus, beside)):
            begin = time.perf_counter()
            for child in [subprocess.Popen(command) for _ in range(count)]:
                child.wait()
            times.append(time.perf_counter() - begin)
    one, many = min(alone), min(beside)
    return f"{one * 1e3:8.2f} {many * 1e3:8.2f} {cpus * one / many:8.2f} x"


def fork_join() -> str:
    """Return the time that a parallel loop of a few microseconds takes beyond a perfect share of it."""
    shared, alone = (polynomial(FORK_JOIN_ELEMENTS, 1, parallel) for parallel in (True, False))
    arrays = np.linspace(0, 0.9, FORK_JOIN_ELEMENTS, dtype="float32"), np.empty(FORK_JOIN_ELEMENTS, "float32")
    costs: list[float] = []
    for _ in range(5):
        one, many = (k.time(*arrays, number=1000, repeat=9, min_repeat_ms=0).median * 1e6 for k in (alone, shared))
        costs.append(many - one / tw.num_threads())
    return f"{statistics.median(costs):8.2f} us beyond a share of {one:.2f} us of work"


def row(name: str, seconds: float) -> str:
    """One row of the table, measured in this process."""
    if name == "ceiling":
        return ceiling()
    if name == "fork":
        return fork_join()
    children: list[subprocess.Popen[bytes]] = []
    try:
        if name in LIBRARIES or name == "tuner":
            before = LIBRARIES.get(name, _tuner)(np.random.default_rng(2).random((OTHER_SIZE, OTHER_SIZE), "float32"))
        elif name == "busy":
            before = pause(0)
            children += [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in os.sched_getaffinity(0)]
            time.sleep(0.2)
        else:
            before = pause(float(name.split()[0]))
        return time_alternately(own_product(), before, seconds, children)
    except ImportError as error:
        return f"{error.name} is not there"
    finally:
        for child in children:
            child.kill()
            child.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=", ".join(ROWS))
    parser.add_argument("--seconds", type=float, default=4.0, help="for each row")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    unknown = [name for name in given.rows if name not in ROWS]
    if unknown:
        parser.error(f"no row {unknown[0]!r}: {', '.join(ROWS)}")
    if given.here:
        print(row(given.rows[0], given.seconds), flush=True)
        return
    print(f"{'':12} {'one, ms':>8} {'all, ms':>8}")
    for name in given.rows or ROWS:
        command = [sys.executable, "-m", "tools.benchmarks.threads", name, "--here", "--seconds", str(given.seconds)]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=Path(__file__).parent.parent.parent
        )
        print(f"{name:12} {done.stdout.rstrip() or done.stderr.rstrip()[-200:]}", flush=True)


if __name__ == "__main__":
    main()
