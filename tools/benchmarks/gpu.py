"""`make gpu`: every GPU kernel of the tests checked on this machine's GPU, then the large ones timed against torch, which
calls cuBLAS and cuDNN, or cupy. Prints tables and writes out/gpu.json. Without a GPU it says what is missing, and no more."""

from __future__ import annotations

import importlib
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tilewright as tw
from rich.console import Console
from rich.table import Table
from tilewright.errors import CudaError
from tilewright.runtime.cuda_driver import find_driver

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests/support"))
from gpu_programs import PROGRAMS, Program, conv2d, matmul, mma_matmul, softmax, transpose, vector_add

OUT = Path("out/gpu.json")
ROUNDS = 9


@dataclass(frozen=True)
class Work:
    """A kernel to time. make(size): its program. peer(library, *inputs): the same by a library of arrays, torch or cupy, or
    None where that has no such function. amount(size): floating-point operations, or bytes of memory, of a call."""

    name: str
    size: int
    make: Callable[[int], Program]
    peer: Callable[..., Any]
    amount: Callable[[int], float]
    unit: str
    tolerance: float = 1e-4


def _conv(library: Any, image: Any, weights: Any) -> Any:
    functions = getattr(getattr(library, "nn", None), "functional", None)
    return None if functions is None else functions.conv2d(image[None], weights, padding=1)[0]


def _softmax(library: Any, rows: Any) -> Any:
    return library.softmax(rows, dim=1) if hasattr(library, "softmax") else None


def _half_product(library: Any, a: Any, b: Any) -> Any:
    return library.matmul(a, b)


WORK = (
    Work("vector add", 1 << 25, lambda n: vector_add(n, 256, vector=4), lambda _, a, b: a + b, lambda n: 12.0 * n, "GB/s"),
    Work("transpose", 8192, lambda n: transpose(n, n, 32, align=True), lambda _, a: a.T + 0, lambda n: 8.0 * n * n, "GB/s"),
    Work("matmul float32", 2048, lambda n: matmul(n, n, n, vector=4, unroll=True), lambda library, a, b: library.matmul(a, b),
         lambda n: 2.0 * n**3, "GFLOP/s", 1e-3),
    Work("conv2d 3x3", 56, lambda n: conv2d(64, n, 64), _conv, lambda n: 2.0 * 64 * 64 * 9 * n * n, "GFLOP/s", 1e-3),
    Work("softmax", 4096, lambda n: softmax(n, n, 256), _softmax, lambda n: 8.0 * n * n, "GB/s"),
    Work("matmul float16, tensor cores", 4096, lambda n: mma_matmul(n, n, n, warps=(2, 2), sums=(64, 64), vector=8), _half_product,
         lambda n: 2.0 * n**3, "GFLOP/s", 2e-2),
)


class Torch:
    """torch on one device."""

    def __init__(self, device: str = "cuda") -> None:
        self.library: Any = importlib.import_module("torch")
        self.device = device
        self.name = f"torch {self.library.__version__}"
        if device == "cuda" and not self.library.cuda.is_available():
            raise ImportError("torch was built without CUDA, or finds no GPU")
        self.library.backends.cuda.matmul.allow_tf32 = False  # what float32 says is what is compared
        self.library.backends.cudnn.allow_tf32 = False

    def put(self, values: np.ndarray) -> Any:
        return self.library.from_numpy(values).to(self.device)

    def get(self, tensor: Any) -> np.ndarray:
        return tensor.cpu().numpy()

    def seconds(self, run: Callable[[], Any]) -> float:
        return _seconds(run, self.library.cuda.synchronize if self.device == "cuda" else lambda: None)


class Cupy:
    """cupy, for those operations that it has."""

    def __init__(self) -> None:
        self.library: Any = importlib.import_module("cupy")
        self.name = f"cupy {self.library.__version__}"

    def put(self, values: np.ndarray) -> Any:
        return self.library.asarray(values)

    def get(self, tensor: Any) -> np.ndarray:
        return self.library.asnumpy(tensor)

    def seconds(self, run: Callable[[], Any]) -> float:
        return _seconds(run, self.library.cuda.Device().synchronize)


class Alone:
    """Our own arrays, where there is no other library."""

    name, library = "", None

    def put(self, values: np.ndarray) -> Any:
        return tw.array(values, tw.cuda(0))

    def get(self, tensor: Any) -> np.ndarray:
        return tensor.numpy()

    def seconds(self, run: Callable[[], Any]) -> float:
        raise AssertionError(f"there is nothing to compare {run} with")


Peer = Torch | Cupy | Alone


def _seconds(run: Callable[[], Any], synchronize: Callable[[], Any]) -> float:
    """Of a call, from the host's clock around many calls: the median of a few measurements."""
    run()
    count, seconds = 1, list[float]()
    while len(seconds) < ROUNDS:
        synchronize()
        begin = time.perf_counter()
        for _ in range(count):
            run()
        synchronize()
        spent = time.perf_counter() - begin
        if not seconds and spent < 0.01:
            count *= 4
            continue
        seconds.append(spent / count)
    return statistics.median(seconds)


def find_peer() -> Peer:
    """The library to compare with."""
    for kind in (Torch, Cupy):
        try:
            return kind()
        except ImportError:
            continue
    return Alone()


def check(name: str, target: str, peer: Peer) -> dict[str, Any]:
    """One program of the tests against numpy; "error" is "" where they agree."""
    program = PROGRAMS[name]()
    inputs = program.inputs()
    output = peer.put(program.output())
    error = ""
    try:
        tw.build(program.schedule, program.args, target=target)(*map(peer.put, inputs), output)
        expected, ours = program.reference(*inputs).astype("float64"), peer.get(output).astype("float64")
        np.testing.assert_allclose(ours, expected, rtol=program.tolerance, atol=program.tolerance)
    except (tw.TilewrightError, AssertionError) as fault:
        error = str(fault)
    return {"kernel": name, "error": error}


def measure(work: Work, size: int, target: str, peer: Peer) -> dict[str, Any]:
    """Times one kernel, and the peer on the same inputs; the two must agree."""
    program = work.make(size)
    kernel = tw.build(program.schedule, program.args, target=target)
    inputs, output = [peer.put(values) for values in program.inputs()], peer.put(program.output())
    kernel(*inputs, output)
    theirs = None if peer.library is None else work.peer(peer.library, *inputs)
    seconds = kernel.time(*inputs, output).median
    row = {"work": work.name, "size": size, "ms": seconds * 1e3, "rate": work.amount(size) / seconds / 1e9, "unit": work.unit,
           "peer": "", "peer_ms": None, "agrees": None}
    if theirs is not None:
        ours, expected = peer.get(output).astype("float64"), peer.get(theirs).astype("float64")
        scale = max(float(np.abs(expected).max()), 1.0)
        row |= {"peer": peer.name, "peer_ms": peer.seconds(lambda: work.peer(peer.library, *inputs)) * 1e3,
                "agrees": bool(np.abs(ours - expected).max() <= work.tolerance * scale)}
    return row


def architecture() -> str:
    """The target of this machine's GPU. Raises CudaError where nothing can run, saying what is missing."""
    driver = find_driver()
    major, minor = driver.Device(0).compute_capability()
    known = [name for name in ("sm_90", "sm_80") if int(name[3:]) <= major * 10 + minor]
    if not known:
        raise CudaError(f"cannot run on this GPU: it is sm_{major}{minor}", reason="code is made for sm_80 and later")
    return known[0]


def show(console: Console, checks: Sequence[dict[str, Any]], rows: Sequence[dict[str, Any]]) -> None:
    table = Table("work", "size", "ours", "rate", "peer", "theirs", "ratio", "agree")
    for row in rows:
        theirs = row["peer_ms"]
        table.add_row(row["work"], str(row["size"]), f"{row['ms']:.4f} ms", f"{row['rate']:.0f} {row['unit']}", row["peer"],
                      f"{theirs:.4f} ms" if theirs else "", f"{theirs / row['ms']:.2f}" if theirs else "",
                      {True: "yes", False: "NO", None: ""}[row["agrees"]])
    console.print(table)
    failed = [check for check in checks if check["error"]]
    console.print(f"{len(checks) - len(failed)} of {len(checks)} kernels agree with numpy", highlight=False)
    for check in failed:
        console.print(f"{check['kernel']}: {check['error']}", markup=False, highlight=False)


def main() -> int:
    """The exit status: 0 also where nothing could be run."""
    console = Console()
    OUT.parent.mkdir(exist_ok=True)
    try:
        arch = architecture()
    except CudaError as missing:
        why = "\n".join(line for line in str(missing).splitlines() if not line.startswith("  called at"))
        print(f"not run: {why}")
        OUT.write_text(json.dumps({"ran": False, "why": why}, indent=1))
        return 0
    target, peer = f"cuda -arch={arch}", find_peer()
    checks = [check(name, target, peer) for name in PROGRAMS]
    rows = [measure(work, work.size, target, peer) for work in WORK]
    show(console, checks, rows)
    OUT.write_text(json.dumps({"ran": True, "target": target, "checks": checks, "rows": rows}, indent=1))
    console.print(f"written to {OUT.absolute()}", highlight=False, markup=False)
    return int(any(entry["error"] for entry in checks) or any(row["agrees"] is False for row in rows))


if __name__ == "__main__":
    sys.exit(main())
