"""The worker: a process that builds candidates and runs them, so that none can take the tuner down.

It reads requests as JSON lines from one pipe and answers on another; its standard output and error are a log file, so
that whatever a candidate prints disturbs nobody. It knows nothing of schedules: a candidate is the text of its loops.
Started as `python -m tilewright.autotune.worker READ WRITE PARENT MEMORY`.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..base.errors import TilewrightError
from ..base.nibbles import PACKED_TYPES, holds_integers
from ..codegen.build import build_kernels
from ..codegen.export.timing_library import measured_library
from ..codegen.target import Target
from ..ir import Function, parse
from ..ir.constant import Constant, aligned_copy
from ..runtime import Kernel, set_num_threads
from ..runtime.array import array, numpy_dtype
from ..runtime.cuda_array import DeviceArray, device_array
from ..runtime.hosts import host
from .outcome import SCHEDULE_FAULTS
from .reference import Reference

__all__ = ["FAULTS", "main"]

_MAX_FILE_BYTES = 4 << 30
SHORT = 1e-4
"""Seconds of a call below which it is timed with care in any case: a single call is not told from what is around it."""
_ROUNDS = 9
"""How often a kernel on a GPU is timed, each time for two milliseconds."""
WARMED = 1e-2
"""Seconds of a first call below which one more goes before those that are timed: what came before them, the comparison with the
reference, left other data in the caches and the threads of parallel loops asleep."""
FAR = 4.0
"""How much longer than what is hopeless a first call takes that says enough, cold caches or not."""

BEHIND = 0.8
"""Share of what is hopeless above which three times say enough: the fastest are measured again in turn, within a tenth of the first."""

FAULTS = (*SCHEDULE_FAULTS, MemoryError, RuntimeError)
"""What building or running a candidate may raise; anything else ends the worker, and is a failure as well."""


class Worker:
    """The state between requests: the workload's arrays, its reference outputs, and the kernels built so far."""

    def __init__(self) -> None:
        self.kernels: dict[int, Kernel] = {}
        self.ranks: dict[int, float] = {}
        self.target = Target()
        self.on_gpu = False
        self.copies: list[DeviceArray] = []
        """The arrays in a GPU's memory, where kernels run there."""
        self.arrays: list[np.ndarray[Any, Any]] = []
        self.outputs: list[int] = []
        self.constants: tuple[Constant, ...] = ()
        self.references: list[Reference] = []
        self.folder = Path()

    def setup(self, request: dict[str, Any]) -> dict[str, Any]:
        """The workload: where its arrays are, which of them are outputs, how many of the last are constants, the target and
        the number of threads."""
        set_num_threads(request["threads"])
        self.target, self.folder = Target.parse(request["target"]), Path(request["folder"])
        self.on_gpu = self.target.backend.device(self.target) == "cuda"
        self.outputs = request["outputs"]
        for at, (shape, dtype) in enumerate(request["args"]):
            if at in self.outputs:
                self.arrays.append(np.empty(shape, numpy_dtype(dtype)))
            else:
                values = load_array(self.folder / str(at), shape, dtype)
                # packed once, not by each call
                self.arrays.append(array(values) if dtype in PACKED_TYPES else values)
        count = len(self.arrays) - request["constants"]
        self.constants = tuple(Constant("constant", aligned_copy(values)) for values in self.arrays[count:])
        del self.arrays[count:]
        return {}

    def reference(self, request: dict[str, Any]) -> dict[str, Any]:
        """Build and runs the unscheduled program, keeps what it computes, and times it."""
        kernel = self._build_kernel(request["function"], Target() if self.on_gpu else self.target)
        self._poison()
        start = time.perf_counter()
        kernel(*self.arrays)
        first = time.perf_counter() - start
        for at in self.outputs:
            self.arrays[at].tofile(self.folder / str(at))
        times = [first]
        while sum(times) < 0.1 and len(times) < 5:
            start = time.perf_counter()
            kernel(*self.arrays)
            times.append(time.perf_counter() - start)
        return {"seconds": statistics.median(times)}

    def load(self, request: dict[str, Any]) -> dict[str, Any]:
        """The reference outputs that some worker has computed."""
        self.references = []
        for at in self.outputs:
            output = self.arrays[at]
            self.references.append(Reference(load_array(self.folder / str(at), output.shape, output.dtype)))
        return {}

    def build(self, request: dict[str, Any]) -> dict[str, Any]:
        """Make a kernel of a candidate, to be run later."""
        start = time.perf_counter()
        self.kernels[request["id"]] = self._build_kernel(request["function"], self.target)
        return {"seconds": time.perf_counter() - start}

    def probe(self, request: dict[str, Any]) -> dict[str, Any]:
        """Look at a candidate for a GPU that is not here: its rank is told in the place of times."""
        from .gpu_ranking import rank_candidate

        start = time.perf_counter()
        rank, wrong = rank_candidate(Path(request["function"]).read_text(encoding="utf-8"), self.target)
        if wrong:
            return {"failure": "wrong output", "message": wrong}
        self.ranks[request["id"]] = rank
        return {"seconds": time.perf_counter() - start}

    def library(self, request: dict[str, Any]) -> dict[str, Any]:
        """Make a library of a candidate for another machine, beside its text: NUMBER.so."""
        start = time.perf_counter()
        path = Path(request["function"])
        path.with_suffix(".so").write_bytes(measured_library(self._read(path), self.target))
        return {"seconds": time.perf_counter() - start}

    def run(self, request: dict[str, Any]) -> dict[str, Any]:
        """Run a kernel that was built, compares what it computes with the reference, and times it."""
        if request["id"] in self.ranks:
            return {"times": [self.ranks.pop(request["id"])]}
        kernel = self.kernels.pop(request["id"])
        gc.collect()
        self._poison()
        if self.on_gpu:
            return self._run_on_gpu(kernel)
        start = time.perf_counter()
        kernel(*self.arrays)
        first = time.perf_counter() - start
        wrong = self._difference()
        if wrong:
            return {"failure": "wrong output", "message": wrong}
        times = _times(kernel, self.arrays, first, request["budget"], request["cutoff"])
        wrong = self._difference() if len(times) > 1 else ""
        return {"failure": "wrong output", "message": f"at a later call: {wrong}"} if wrong else {"times": times}

    def rivals(self, request: dict[str, Any]) -> dict[str, Any]:
        """Times several built kernels in turn, so that a drift of the machine's speed meets all of them."""
        kernels = [self.kernels.pop(number) for number in request["ids"]]
        times: list[list[float]] = [[] for _ in kernels]
        if self.on_gpu:
            for _ in range(_ROUNDS):
                for kernel, seconds in zip(kernels, times, strict=True):
                    seconds += kernel.time(*self._copy_to_gpu(), repeat=1, min_repeat_ms=2.0).results
            return {"times": times}
        numbers: list[int] = []
        for kernel in kernels:
            start = time.perf_counter()
            kernel(*self.arrays)
            numbers.append(max(1, int(2e-3 / max(time.perf_counter() - start, 1e-7))))
        stop = time.perf_counter() + request["budget"]
        while len(times[0]) < 5 or (time.perf_counter() < stop and len(times[0]) < 101):
            for kernel, number, seconds in zip(kernels, numbers, times, strict=True):
                seconds.append(_seconds(kernel, self.arrays, number))
        return {"times": times}

    def _copy_to_gpu(self) -> list[DeviceArray]:
        self.copies = self.copies or [device_array(array) for array in self.arrays]
        return self.copies

    def _run_on_gpu(self, kernel: Kernel) -> dict[str, Any]:
        """Time a kernel on the GPU. Before the times and after them, the outputs are brought back and compared."""
        copies, times = self._copy_to_gpu(), tuple[float, ...]()
        for at in self.outputs:
            copies[at].copyfrom(self.arrays[at])
        kernel(*copies)
        for later in (False, True):
            for at in self.outputs:
                self.arrays[at][...] = copies[at].numpy()
            wrong = self._difference()
            if wrong:
                return {"failure": "wrong output", "message": f"at a later call: {wrong}" if later else wrong}
            if not later:
                times = kernel.time(*copies, repeat=_ROUNDS, min_repeat_ms=2.0).results
        return {"times": list(times)}

    def _build_kernel(self, path: str, target: Target) -> Kernel:
        """Build the kernel of the function that a file holds."""
        function = self._read(Path(path))
        return build_kernels([function], target).module[function.name]

    def _read(self, path: Path) -> Function:
        return replace(parse(path.read_text(encoding="utf-8")), constants=self.constants)

    def _poison(self) -> None:
        """Fills the outputs with what no program computes by chance."""
        for at in self.outputs:
            output = self.arrays[at]
            output.fill(output.dtype.type(0x5A) if holds_integers(output.dtype) else np.nan)

    def _difference(self) -> str:
        """Return how the outputs differ from the reference; "" where they do not."""
        for at, wanted in zip(self.outputs, self.references, strict=True):
            difference = wanted.difference(self.arrays[at])
            if difference:
                return f"argument {at}: {difference}"
        return ""


def load_array(path: Path, shape: Any, dtype: Any) -> np.ndarray[Any, Any]:
    """An array from the bytes in a file."""
    kind = numpy_dtype(dtype) if isinstance(dtype, str) else dtype
    return np.fromfile(path, kind).reshape(shape)


def _seconds(kernel: Kernel, arrays: list[np.ndarray[Any, Any]], number: int) -> float:
    start = time.perf_counter()
    for _ in range(number):
        kernel(*arrays)
    return (time.perf_counter() - start) / number


def _times(
    kernel: Kernel, arrays: list[np.ndarray[Any, Any]], first: float, budget: float, cutoff: float | None
) -> list[float]:
    """Seconds of a call, several times within `budget`. A candidate beyond `cutoff` is timed once more and left, one far beyond at
    once."""
    least = max(cutoff, SHORT) if cutoff is not None else float("inf")
    if first > FAR * least:
        return [first]
    if first < WARMED:
        kernel(*arrays)
    second = _seconds(kernel, arrays, 1)
    if min(first, second) > least:
        return [first, second]
    number = max(1, int(1e-3 / max(second, 1e-7)))
    times = [second] if number == 1 else []
    stop = time.perf_counter() + budget
    while len(times) < 3 or (min(times) <= BEHIND * least and time.perf_counter() < stop and len(times) < 15):
        times.append(_seconds(kernel, arrays, number))
    return times


def classify_failure(error: BaseException) -> tuple[str, str]:
    """The class of failures that an exception belongs to, and its first lines."""
    text = str(error) or type(error).__name__
    memory = isinstance(error, MemoryError) or "memory" in text.lower()
    kind = "memory" if memory else "refused" if isinstance(error, TilewrightError) else "fault"
    return kind, text[:2000] if isinstance(error, TilewrightError) else f"{type(error).__name__}: {text}"[:2000]


def serve(requests: Any, answers: Any) -> None:
    """Answer until the pipe is closed."""
    worker = Worker()
    handlers = {
        "setup": worker.setup,
        "reference": worker.reference,
        "load": worker.load,
        "build": worker.build,
        "library": worker.library,
        "probe": worker.probe,
        "run": worker.run,
        "rivals": worker.rivals,
    }
    for line in requests:
        request = json.loads(line)
        try:
            answer = handlers[request["do"]](request)
        except FAULTS as error:
            kind, message = classify_failure(error)
            answer = {"failure": kind, "message": message}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _confine(parent: int, memory: int) -> None:
    """Ends with the tuner, and takes no more than its share."""
    host().end_with_parent()
    if os.getppid() != parent:  # it ended before we asked to end with it
        sys.exit(1)
    host().limit_process(memory, _MAX_FILE_BYTES)


def main(arguments: list[str]) -> None:
    """The process's whole life. What was imported stays, and what builds leave is collected before a kernel is timed: never while
    one is built or runs."""
    gc.freeze()
    gc.disable()
    read, write, parent, memory = map(int, arguments)
    _confine(parent, memory)
    with os.fdopen(read, "r", encoding="utf-8") as requests, os.fdopen(write, "w", encoding="utf-8") as answers:
        serve(requests, answers)


if __name__ == "__main__":
    main(sys.argv[1:])
