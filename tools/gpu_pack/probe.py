"""Tries a pack of kernels on the GPU of this machine: `python3 probe.py [--out FILE] [--seconds N] [--only WORD]`.

It needs Python and numpy, and beside it the files of the pack. Each case runs in a process of its own with a limit of time, so that one
that hangs or loses the GPU costs no other, and its line of JSON is in the file as soon as it ends: how far it is off, the registers of
its kernels, how many of their blocks the driver says run at once, and the times of ours and, with torch, of cuBLAS, cuDNN, and Triton.
The exit status is 0 where all is right, 1 where something is not, and 3 where nothing could run.
"""

# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false
# (torch brings no types here: it is asked for on the machine with the GPU alone)
from __future__ import annotations

import argparse
import ctypes
import importlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).resolve().parent
DRIVER = "libcuda.so.1"
LIMIT = 40.0
"""Seconds of one case."""
ROUNDS, CALLS, WARM = 7, 10, 3
_MAJOR, _MINOR, _PROCESSORS, _MOST_SHARED = 75, 76, 16, 97
_SHARED, _LOCAL, _REGISTERS, _DYNAMIC = 1, 3, 4, 8
_DTYPES = {"bfloat16": "uint16"}


class Driver:
    """NVIDIA's driver by ctypes, with the first GPU's primary context current."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL(DRIVER)
        self.call("cuInit", 0)
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxPushCurrent_v2", context)

    def call(self, name: str, *arguments: Any) -> None:
        status = getattr(self.library, name)(*arguments)
        if status:
            raise RuntimeError(f"{name} returned {status}")

    def attribute(self, number: int) -> int:
        value = ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(value), number, 0)
        return value.value

    def machine(self) -> dict[str, Any]:
        name, version = ctypes.create_string_buffer(256), ctypes.c_int()
        self.call("cuDeviceGetName", name, len(name), 0)
        self.call("cuDriverGetVersion", ctypes.byref(version))
        return {
            "gpu": name.value.decode(errors="replace"),
            "driver": version.value,
            "capability": self.attribute(_MAJOR) * 10 + self.attribute(_MINOR),
            "processors": self.attribute(_PROCESSORS),
            "block_shared": self.attribute(_MOST_SHARED),
        }

    def kernels(self, case: dict[str, Any], capability: int) -> list[dict[str, Any]]:
        """The driver's facts of each kernel of a case; nothing where its machine code is not for this GPU."""
        numbers = {int("".join(filter(str.isdigit, arch))): arch for arch in case["code"]}
        fitting = [each for each in numbers if each // 10 == capability // 10 and each <= capability]
        said: list[dict[str, Any]] = []
        for kernel in case["code"][numbers[max(fitting)]] if fitting else ():
            module, function, value = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int()
            code = (FOLDER / kernel["file"]).read_bytes()
            self.call("cuModuleLoadData", ctypes.byref(module), code)
            self.call("cuModuleGetFunction", ctypes.byref(function), module, kernel["name"].encode())
            found: dict[str, Any] = {"name": kernel["name"], "threads": kernel["threads"]}
            for what, number in (("registers", _REGISTERS), ("local_bytes", _LOCAL), ("static_shared", _SHARED)):
                self.call("cuFuncGetAttribute", ctypes.byref(value), number, function)
                found[what] = value.value
            shared = kernel["shared"]
            if shared:
                self.call("cuFuncSetAttribute", function, _DYNAMIC, shared)
            asked = (ctypes.byref(value), function, kernel["threads"], ctypes.c_size_t(shared))
            self.call("cuOccupancyMaxActiveBlocksPerMultiprocessor", *asked)
            said.append({**found, "shared": shared, "blocks_at_once": value.value})
            self.call("cuModuleUnload", module)
        return said

    def put(self, values: np.ndarray) -> int:
        """The address of a copy, which stays."""
        place = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(place), ctypes.c_size_t(max(values.nbytes, 1)))
        values = np.ascontiguousarray(values)
        self.call("cuMemcpyHtoD_v2", place, ctypes.c_void_p(values.ctypes.data), ctypes.c_size_t(values.nbytes))
        return place.value

    def get(self, address: int, shape: list[int], dtype: str) -> np.ndarray:
        values = np.empty(shape, dtype)
        host, size = ctypes.c_void_p(values.ctypes.data), ctypes.c_size_t(values.nbytes)
        self.call("cuMemcpyDtoH_v2", host, ctypes.c_uint64(address), size)
        return values

    def milliseconds(self, run: Callable[[], object]) -> float:
        """Milliseconds of a call: the median of several measurements by the GPU's own events, on the default stream."""
        for _ in range(WARM):
            run()
        found: list[float] = []
        for _ in range(ROUNDS):
            events = [ctypes.c_void_p(), ctypes.c_void_p()]
            for at, event in enumerate(events):
                self.call("cuEventCreate", ctypes.byref(event), 0)
                self.call("cuEventRecord", event, None)
                for _ in range(CALLS if at == 0 else 0):
                    run()
            time_of = ctypes.c_float()
            self.call("cuEventSynchronize", events[1])
            self.call("cuEventElapsedTime", ctypes.byref(time_of), *events)
            found.append(time_of.value / CALLS)
        return sorted(found)[len(found) // 2]


# The same by torch


def _functional(torch: Any) -> Any:
    return torch.nn.functional


def _attend(torch: Any, q: Any, k: Any, v: Any, causal: bool) -> Any:
    return _functional(torch).scaled_dot_product_attention(q[None], k[None], v[None], is_causal=causal)[0]


PEERS: dict[str, Callable[..., Any]] = {
    "matmul": lambda torch, a, b: a @ b,
    "matmul_columns": lambda torch, a, b: a @ b.T,
    "copy": lambda torch, a: a.clone(),
    "add": lambda torch, a, b: a + b,
    "transpose": lambda torch, a: a.T.contiguous(),
    "row_sums": lambda torch, a: a.sum(1),
    "softmax": lambda torch, a: torch.softmax(a, dim=1),
    "layer_norm": lambda torch, a, gamma, beta: _functional(torch).layer_norm(a, gamma.shape, gamma, beta),
    "attention": lambda torch, q, k, v: _attend(torch, q, k, v, False),
    "attention_causal": lambda torch, q, k, v: _attend(torch, q, k, v, True),
    "conv": lambda torch, image, weights, **options: _functional(torch).conv2d(image, weights, **options),
}
TRITON = """
import triton
import triton.language as tl

@triton.jit
def add_blocks(a, b, c, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(c + at, tl.load(a + at, mask=inside) + tl.load(b + at, mask=inside), mask=inside)

@triton.jit
def softmax_rows(a, c, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.program_id(0) * columns
    values = tl.load(a + row + at, mask=at < columns, other=-float("inf"))
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(c + row + at, powers / tl.sum(powers, axis=0), mask=at < columns)

def add(a, b, c):
    add_blocks[(-(-a.numel() // 4096),)](a, b, c, a.numel(), BLOCK=4096)

def softmax(a, c):
    softmax_rows[(a.shape[0],)](a, c, a.shape[1], BLOCK=1 << (a.shape[1] - 1).bit_length(), num_warps=16)
"""


def _torch() -> Any:
    """torch, where it is there and finds the GPU; else None."""
    if importlib.util.find_spec("torch") is None:
        return None
    torch = importlib.import_module("torch")
    if not torch.cuda.is_available():
        return None
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    return torch


def _triton(kind: str) -> Any:
    """The kernel of a kind by Triton, which reads its source from a file; None where there is none."""
    if importlib.util.find_spec("triton") is None or kind not in ("add", "softmax"):
        return None
    folder = tempfile.mkdtemp()
    Path(folder, "probe_triton_kernels.py").write_text(TRITON)
    sys.path.insert(0, folder)
    return getattr(importlib.import_module("probe_triton_kernels"), kind)


# One case


def run_case(case: dict[str, Any], say: Callable[[dict[str, Any]], None]) -> None:
    """Run a case, and say what is known of it each time that more is."""
    driver = Driver()
    found: dict[str, Any] = {"name": case["name"], "group": case["group"], "asked": case["asked"]}
    machine = driver.machine()
    found["kernels"] = driver.kernels(case, machine["capability"])
    say(found)
    entry = getattr(ctypes.CDLL(str(FOLDER / f"{case['name']}.so")), case["name"])
    torch = _torch() if case["reference"] != "file" else None
    inputs, tensors, expected = _inputs(case, torch)
    shape, dtype = case["arguments"][-1]
    stored: str = _DTYPES.get(dtype) or dtype
    places = [each.data_ptr() for each in tensors] if torch is not None else [driver.put(each) for each in inputs]
    output = driver.put(np.full(shape, 77).astype(stored))
    pointers = [ctypes.c_void_p(place) for place in (*places, output)]

    def run() -> int:
        return entry(None, *pointers)

    def peer() -> Any:
        return PEERS[case["reference"]](torch, *tensors, **case["options"])

    found["status"] = run()
    driver.call("cuCtxSynchronize")
    if torch is not None:
        expected = peer().double().cpu().numpy()
    if expected is not None:
        ours = _float_values(driver.get(output, shape, stored), dtype)
        scale = max(float(np.abs(expected).max(initial=0.0)), 1.0)
        found["off"] = float(np.abs(ours.reshape(-1) - expected.reshape(-1)).max(initial=0.0)) / scale
        found["right"] = found["status"] == 0 and bool(found["off"] <= case["tolerance"] + 1e-12)
    say(found)
    if not case["unit"] or found["status"]:
        return
    found["ms"] = driver.milliseconds(run)
    found["rate"], found["unit"] = case["amount"] / found["ms"] / 1e6, case["unit"]
    say(found)
    if torch is not None:
        found["peer_ms"] = driver.milliseconds(peer)
        found["ratio"] = found["peer_ms"] / found["ms"]
        kernel = _triton(case["reference"])
        if kernel is not None:
            result = torch.empty(shape, device="cuda")
            found["triton_ms"] = driver.milliseconds(lambda: kernel(*tensors, result))
        say(found)


def _inputs(case: dict[str, Any], torch: Any) -> tuple[list[np.ndarray], list[Any], np.ndarray | None]:
    """(arrays, tensors on the GPU, the expected output as far as it is known): of a file, or drawn."""
    given = case["arguments"][:-1]
    if case["reference"] == "file":
        held = np.load(FOLDER / f"{case['name']}.npz")
        return [held[key] for key in held.files if key != "expected"], [], held["expected"]
    if torch is None:
        drawn = np.random.default_rng(1)
        floats: list[Any] = [drawn.standard_normal(shape, dtype="float32") for shape, _ in given]
        return [_round(each, dtype) for each, (_, dtype) in zip(floats, given, strict=True)], [], None
    torch.manual_seed(1)
    return [], [torch.randn(shape, device="cuda").to(getattr(torch, dtype)) for shape, dtype in given], None


def _round(values: np.ndarray, dtype: str) -> np.ndarray:
    return (values.view(np.uint32) >> 16).astype(np.uint16) if dtype == "bfloat16" else values.astype(dtype)


def _float_values(values: np.ndarray, dtype: str) -> np.ndarray:
    if dtype == "bfloat16":
        values = (values.astype(np.uint32) << 16).view(np.float32)
    return values.astype("float64")


# All cases


def missing() -> str:
    """The part that everything needs and that is not there; "" where all is."""
    try:
        library, count = ctypes.CDLL(DRIVER), ctypes.c_int()
    except OSError as error:
        return f"this machine has no NVIDIA driver: {error}"
    status = library.cuInit(0) or library.cuDeviceGetCount(ctypes.byref(count))
    return f"the driver's status is {status}, and it finds {count.value} GPUs" if status or not count.value else ""


def run_separately(name: str, limit: float) -> dict[str, Any]:
    """A case in a process of its own: the last that it said, and how it ended."""
    command = [sys.executable, str(Path(__file__).resolve()), "--one", name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
        said, ended = (
            done.stdout,
            {} if done.returncode == 0 else {"ended": done.returncode, "error": done.stderr[-500:]},
        )
    except subprocess.TimeoutExpired as late:
        said, ended = (late.stdout or b"").decode(errors="replace"), {"ended": "time"}
    lines = [line for line in said.splitlines() if line.startswith("{")]
    return {"name": name, **(json.loads(lines[-1]) if lines else {}), **ended}


def is_wrong(line: dict[str, Any]) -> bool:
    return "ended" in line or line.get("status", 0) != 0 or line.get("right") is False


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="probe.py")
    parser.add_argument("--out", type=Path, default=FOLDER / "probe.jsonl")
    parser.add_argument("--seconds", type=float, default=500.0, help="after which nothing more is begun")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds of one case")
    parser.add_argument("--only", default="", help="cases whose names contain a word")
    parser.add_argument("--one", default="", help="this case, in this process")
    options = parser.parse_args(arguments)
    cases = json.loads((FOLDER / "cases.json").read_text())
    if options.one:
        case = next(each for each in cases if each["name"] == options.one)
        run_case(case, lambda found: print(json.dumps(found), flush=True))
        return 0
    begin, why = time.monotonic(), missing()
    if why:
        print(f"nothing could run: {why}")
        return 3
    wrong = left = 0
    with options.out.open("a") as log:

        def write(line: dict[str, Any]) -> None:
            log.write(json.dumps(line) + "\n")
            log.flush()
            os.fsync(log.fileno())
            print(json.dumps(line), flush=True)

        write(
            {"machine": Driver().machine(), "torch": importlib.util.find_spec("torch") is not None, "at": time.ctime()}
        )
        for case in (each for each in cases if options.only in each["name"]):
            if time.monotonic() - begin > options.seconds:
                write({"name": case["name"], "left": True})
                left += 1
                continue
            line = run_separately(case["name"], options.limit)
            wrong += is_wrong(line)
            write(line)
        write({"wrong": wrong, "left": left, "seconds": round(time.monotonic() - begin, 1)})
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
