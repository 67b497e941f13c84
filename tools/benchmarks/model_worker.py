"""One runtime with one model in a process of its own: what building takes, and the most memory that the process held.

    python -m tools.benchmarks.model_worker tilewright model.onnx inputs.npz

prints a line of JSON. torch takes the name of a module in place of a file. `python -m tools.benchmarks.models` starts it.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .model_peers import PEERS, Model
from .zoo import load_module

TURNS = 3


def most_memory() -> int:
    """The most bytes of memory that this process held so far."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    return 0


@contextmanager
def measured(facts: dict[str, Any], what: str) -> Any:
    """Seconds of CPU time, of all threads, and of the clock."""
    cpu, wall = time.process_time(), time.perf_counter()
    yield
    facts[f"{what}_cpu"], facts[f"{what}_wall"] = time.process_time() - cpu, time.perf_counter() - wall


def ours(file: Path, inputs: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """The model read, built and called; its nodes after passes, its kernels, and its arena beside the most that lives at one
    time."""
    import tilewright as tw
    from tilewright.runtime.threads import set_num_threads

    set_num_threads(1)
    facts: dict[str, Any] = {}
    with measured(facts, "read"):
        g = tw.graph.from_onnx(str(file), shapes={name: array.shape for name, array in inputs.items()})
        g = g.close(**inputs) if isinstance(g, tw.graph.OpenGraph) else g
    with measured(facts, "build"):
        m = tw.build(g)
    for _ in range(TURNS):
        m(**{name: inputs[name] for name in m.inputs})
    facts["memory"] = most_memory()
    return {
        **facts,
        "nodes": len(g.transform().nodes),
        "kernels": len(m.kernels),
        "calls": sum(m.kernels.values()),
        "arena": m.arena_bytes,
        "live": _live(m),
        "weights": sum(array.nbytes for array in g.params.values()),
    }


def _live(m: Any) -> int:
    """The most bytes of a model's arena that live at one time."""
    from tilewright.graph.arena import peak

    program = m._program({})
    return peak(program.plan.lifetimes(program.parts))


def theirs(runtime: str, file: str, inputs: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """The most memory of another runtime."""
    facts: dict[str, Any] = {}
    with measured(facts, "build"):
        module, tensors = load_module(file) if runtime.startswith("torch") else (None, ())
        run = PEERS[runtime](Model(file, Path(file), inputs, module, tensors))
        run()
    for _ in range(TURNS - 1):
        run()
    return {**facts, "memory": most_memory()}


def main() -> None:
    warnings.filterwarnings("ignore")
    runtime, file, *rest = sys.argv[1:]
    inputs = dict(np.load(rest[0])) if rest else {}
    print(json.dumps(ours(Path(file), inputs) if runtime == "tilewright" else theirs(runtime, file, inputs)))


if __name__ == "__main__":
    main()
