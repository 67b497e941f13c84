"""Models beside onnxruntime, torch, torch.compile and OpenVINO, float32.

    python -m tools.benchmarks.models [--only resnet18,vgg11@4x193] [--seconds 20] [--threads 2] [--profile] [--whole]
                                      [--peers torch,onnxruntime]

Weights are drawn, from a fixed seed; nothing is downloaded. It needs torch, torchvision and transformers, the packages that ship
the files, and the peers that are to be measured; what is missing leaves its column or row out. Each model is run by all in turn,
for so many seconds; what is compared is the least CPU time of a call, so that what else runs on the machine counts little, and with
several threads the least time of the clock. Outputs are compared with torch's, and those of files with onnxruntime's. Ours is read
from torch's program where there is one, the others from ONNX; `_int8` and `_int4` behind a name pack our weights. Any model of
torchvision has a name; `@193` behind it is the size of the image, `@4x193` with the size of the batch.

--whole starts a process for each runtime, and tells of the model's file of ONNX what building it takes with an empty cache and from
the cache (seconds of CPU time and of the clock), the most memory of the process, the nodes after passes beside onnxruntime's, and
the arena beside the most that lives in it at one time.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import tilewright as tw
from numpy.typing import NDArray
from tilewright.runtime.threads import set_num_threads

from .model_peers import PEERS, Model, Run, list_results, optimised_nodes
from .zoo import FILES, MODULES, load_file, load_module

TOLERANCE = 1e-3
"""Of the largest magnitude of an output; other orders of sums, a hundred layers deep."""

PACKED = {"_int8": "weights_int8", "_int4": "weights_int4"}


def export_model(name: str, folder: Path, threads: int = 1) -> Model:
    """A model of the zoo, its module written as a file of ONNX."""
    if name in FILES:
        file, inputs = load_file(name)
        return Model(name, file, inputs, threads=threads)
    import torch

    module, tensors = load_module(name)
    names = [f"x{at}" for at in range(len(tensors))]
    file = folder / f"{name}.onnx"
    torch.onnx.export(module, tensors, str(file), dynamo=False, opset_version=17, input_names=names)
    return Model(
        name,
        file,
        {each: tensor.numpy() for each, tensor in zip(names, tensors, strict=True)},
        module,
        tensors,
        threads,
    )


def ours(model: Model, pack: str | None) -> tuple[tw.Model, Run]:
    """The model as it is built from torch's program, or from the file where there is none."""
    began = time.perf_counter()
    g = (
        tw.graph.from_onnx(str(model.file), shapes={name: array.shape for name, array in model.inputs.items()})
        if model.module is None
        else tw.graph.from_torch(model.module, model.tensors)
    )
    if isinstance(g, tw.graph.OpenGraph):
        g = g.close(**model.inputs)
    m = tw.build(g.transform(pack) if pack else g)
    print(
        f"  built in {time.perf_counter() - began:.1f} s, {len(m.kernels)} kernels, {sum(m.kernels.values())} calls, "
        f"arena {m.arena_bytes / 1e6:.1f} MB"
    )
    arrays = [model.inputs[name] for name in m.inputs] if model.module is None else list(model.inputs.values())
    return m, lambda: list_results(m(*arrays))


def measured(runs: dict[str, Run], seconds: float, clock: Callable[[], float]) -> dict[str, float]:
    """The least seconds of a call of each, run in turn, by this clock."""
    best = dict.fromkeys(runs, math.inf)
    end = time.perf_counter() + seconds
    turns = 0
    while turns < 3 or time.perf_counter() < end:
        for name, run in runs.items():
            began = clock()
            run()
            best[name] = min(best[name], clock() - began)
        turns += 1
    return best


def differs(ours: Sequence[NDArray[Any]], theirs: Sequence[NDArray[Any]]) -> float:
    """The largest difference of an output, of its largest magnitude."""
    return max(
        float(np.abs(a.astype("float64") - b).max() / max(np.abs(b).max(), 1e-9))
        for a, b in zip(ours, theirs, strict=True)
    )


def times(model: Model, pack: str | None, peers: Sequence[str], seconds: float, profile: bool) -> dict[str, float]:
    """The times of a model, ours first, and how far ours is from the reference."""
    m, run = ours(model, pack)
    runs: dict[str, Run] = {"tilewright": run}
    for peer in peers:
        try:
            runs[peer] = PEERS[peer](model)
            runs[peer]()
        except Exception as problem:  # noqa: BLE001  other runtimes raise what they like; the column stays empty
            runs.pop(peer, None)
            print(f"  {peer}: {type(problem).__name__}: {str(problem)[:200]}")
    reference = "onnxruntime" if model.module is None else "torch"
    difference = differs(run(), PEERS[reference](model)())
    print(f"  {'differs' if difference > TOLERANCE else 'agrees'}: {difference:.1e} from {reference}", flush=True)
    if profile:
        print(
            m.profile(*(model.inputs[name] for name in m.inputs) if model.module is None else model.inputs.values()),
            flush=True,
        )
    return measured(runs, seconds, time.process_time if model.threads == 1 else time.perf_counter)


@dataclass(frozen=True)
class Whole:
    """Measurements of a model's file: ours built with an empty cache and from the cache, other runtimes' facts by name, and the nodes that
    onnxruntime leaves."""

    cold: dict[str, float]
    cached: dict[str, float]
    peers: dict[str, dict[str, float]]
    nodes: int

    def __str__(self) -> str:
        def build(facts: dict[str, float]) -> str:
            return f"{facts['build_cpu']:.1f} s of CPU time, {facts['build_wall']:.1f} s"

        memory = ", ".join(f"{name} {facts['memory'] / 1e6:.0f}" for name, facts in self.peers.items())
        calls = f"calls {self.cold['calls']} of {self.cold['kernels']} kernels"
        arena = f"arena {self.cold['arena']:,} of {self.cold['live']:,} live ({self.cold['arena'] / max(self.cold['live'], 1):.2f})"
        return (
            f"  build {build(self.cold)} (reading {self.cold['read_wall']:.1f} s); from the cache {build(self.cached)}\n"
            f"  nodes {self.cold['nodes']}, onnxruntime {self.nodes}; {calls}\n"
            f"  {arena}\n"
            f"  most memory in MB: tilewright {self.cached['memory'] / 1e6:.0f} ({self.cold['memory'] / 1e6:.0f} with an empty "
            f"cache), {memory}; weights {self.cold['weights'] / 1e6:.0f}"
        )


def report_model(model: Model, peers: Sequence[str], folder: Path) -> Whole:
    """Report a model's file by processes of their own."""
    inputs = folder / f"{model.name}.npz"
    np.savez(inputs, **dict(model.inputs))
    cold, cached = (_process("tilewright", model.file, inputs) for _ in range(2))
    others: dict[str, dict[str, float]] = {}
    for peer in peers:
        if peer in ("onnxruntime", "openvino") or (peer == "torch" and model.module is not None):
            try:
                others[peer] = _process(peer, model.name if peer == "torch" else model.file, inputs)
            except subprocess.CalledProcessError as problem:
                print(f"  {peer}: {problem.stderr[-200:]}")
    return Whole(cold, cached, others, optimised_nodes(model.file, folder))


def _process(runtime: str, what: object, inputs: Path) -> dict[str, float]:
    package = f"{__package__}.model_worker"
    done = subprocess.run(
        [sys.executable, "-m", package, runtime, str(what), str(inputs)], check=True, text=True, capture_output=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def rows(options: argparse.Namespace, peers: Sequence[str]) -> Iterator[tuple[str, dict[str, float]]]:
    """The times of each model, and with --whole the rest, which is printed."""
    with TemporaryDirectory() as folder:
        for name in options.only.split(","):
            print(name, flush=True)
            pack = next((ending for ending in PACKED if name.endswith(ending)), None)
            try:
                model = export_model(name.removesuffix(pack or ""), Path(folder), options.threads)
                if options.whole and pack is None:
                    os.environ["TILEWRIGHT_CACHE_DIR"] = str(Path(folder) / f"{name}.cache")
                    print(report_model(model, peers, Path(folder)), flush=True)
                yield name, times(model, PACKED.get(pack or ""), peers, options.seconds, options.profile)
            except Exception as problem:  # noqa: BLE001  exporters raise what they like; the row is left out
                print(f"  {type(problem).__name__}: {str(problem)[:400]}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join([*MODULES, "gpt2_token_int8", "gpt2_token_int4", *FILES]))
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--whole", action="store_true")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    set_num_threads(options.threads)
    peers = [peer for peer in options.peers.split(",") if peer]
    ratios: list[float] = []
    what = "ms of CPU time a call" if options.threads == 1 else "ms of a call"
    print(f"{what:22}" + "".join(f"{name:>14}" for name in ("tilewright", *peers, "best / ours")))
    for name, best in rows(options, peers):
        others = [best[peer] for peer in peers if peer in best]
        ratio = min(others) / best["tilewright"] if others else math.nan
        ratios.append(ratio)
        cells = [f"{best[each] * 1e3:14.2f}" if each in best else f"{'-':>14}" for each in ("tilewright", *peers)]
        print(f"{name:22}" + "".join(cells) + f"{ratio:14.2f}", flush=True)
    print(f"geometric mean {math.exp(sum(map(math.log, ratios)) / max(len(ratios), 1)):.2f}")


if __name__ == "__main__":
    main()
