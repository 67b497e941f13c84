"""What GPUs would do for each of topi's operators under the rules' schedules, counted without one.

    python -m tools.benchmarks.gpu_counts [WORD ...] [--page out/gpu-counts.md]

The emulator counts what a run moves; NVRTC says what the code is made of, for each architecture. Writes out/gpu_counts.json, and
the page."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tilewright as tw
from tilewright.autoschedule.plan import time_text
from tilewright.runtime.array import numpy_dtype

from .gpu_counted import CASES, Case
from .gpu_operators import OTHERS
from .gpu_page import page
from .gpu_published import seconds_of

__all__ = ["ALL", "MACHINES", "counts", "inputs_of"]

OUT = Path("out/gpu_counts.json")
MACHINES = ("sm_80", "sm_86", "sm_89", "sm_90a", "sm_100")
ALL: dict[str, Case] = {**CASES, **OTHERS}
MATH = ("FFMA", "HMMA", "HGMMA", "IMMA", "FADD", "FMUL", "MUFU")


def counts(name: str, case: Case) -> dict[str, Any]:
    """The row of one operator: of each machine what was chosen and what that costs, or by "error" what refused it."""
    declared: Any = case()
    outputs: list[Any] = [*declared] if isinstance(declared, (list, tuple)) else [declared]
    arrays: list[np.ndarray] = []
    machines: dict[str, dict[str, Any]] = {}
    moved: dict[str, dict[str, Any]] = {}
    for arch in MACHINES:
        try:
            s = tw.autoschedule.schedule(outputs, target=f"cuda -arch={arch}")
            args = [*inputs_of(outputs), *outputs]
            rng = np.random.default_rng(0)
            arrays = arrays or [_values(tensor, rng) for tensor in args]
            chosen = "; ".join(decision.description for decision in s.plan)
            if chosen not in moved:
                moved[chosen] = _moved(s, args, arrays, arch)
            machines[arch] = {**_compiled(s, args, arch), **moved[chosen], "chosen": chosen}
        except tw.TilewrightError as error:
            machines[arch] = {"error": str(error).splitlines()[0]}
    return {"operator": name, "machines": machines}


def _moved(s: Any, args: Sequence[Any], arrays: Sequence[np.ndarray], arch: str) -> dict[str, Any]:
    """What a run on the emulator moves."""
    kernel = tw.build(s, args, target=f"cuda -arch={arch} -emulate")
    kernel(*arrays)
    memory = [row for launch in kernel.kernels for row in launch.traffic if row.memory == "global"]
    touched, needed = sum(row.transactions for row in memory), sum(row.least for row in memory)
    return {
        "moved": touched * 32 / max(sum(array.nbytes for array in arrays), 1),
        "wide": sum(row.instructions for row in memory if row.bytes == 16)
        / max(sum(row.instructions for row in memory), 1),
        "coalesced": needed / max(touched, 1),
        "conflicts": sum(launch.bank_conflicts for launch in kernel.kernels),
    }


def _compiled(s: Any, args: Sequence[Any], arch: str) -> dict[str, Any]:
    """What the code of an architecture is made of, and its estimated time."""
    kernels = tw.build(s, args, target=f"cuda -arch={arch}").kernels
    seconds = seconds_of(s)
    loop = Counter[str]()
    for kernel in kernels[-1:] if arch == MACHINES[0] else ():  # the disassembler takes longer than all the rest
        loop.update(
            {
                key: count
                for key, count in kernel.instructions.items()
                if key in MATH or key.startswith(("LDG", "STG", "LDS"))
            }
        )
    return {
        "kernels": len(kernels),
        "seconds": seconds,
        "time": time_text(seconds),
        "occupancy": min(kernel.occupancy.share for kernel in kernels),
        "bound": [kernel.occupancy.bound for kernel in kernels],
        "registers": max(kernel.registers for kernel in kernels),
        "spills": sum(kernel.spilled_bytes for kernel in kernels),
        "local": sum(kernel.local_bytes for kernel in kernels),
        "loop": dict(loop.most_common(6)),
        "reasons": [decision.reason for decision in s.plan if decision.reason],
    }


def inputs_of(outputs: Sequence[Any]) -> list[Any]:
    """The placeholders that tensors are computed from, in the order in which they are met."""
    met: dict[Any, None] = {}
    stack = list(outputs)
    while stack:
        tensor = stack.pop()
        if not tensor.op.input_tensors and not tensor.op.values and tensor.op.constant is None:
            met[tensor] = None
        stack.extend(tensor.op.input_tensors)
    return list(met)


def _values(tensor: Any, rng: np.random.Generator) -> np.ndarray:
    shape, kind = [int(extent) for extent in tensor.shape], numpy_dtype(tensor.dtype)
    return (rng.random(shape) * 9).astype(kind)


def main(arguments: Sequence[str]) -> int:
    """The exit status: 1 where an operator was refused."""
    parser = argparse.ArgumentParser(description="counts of operators on GPUs")
    parser.add_argument("words", nargs="*", help="only operators whose name contains one of these")
    parser.add_argument("--page", type=Path, help="the page in Markdown to write")
    parser.add_argument("--from-file", action="store_true", help="write the page from the last run's file")
    options = parser.parse_args(arguments)
    names = [name for name in ALL if not options.words or any(word in name for word in options.words)]
    OUT.parent.mkdir(exist_ok=True)
    rows: list[dict[str, Any]] = json.loads(OUT.read_text()) if options.from_file else []
    for name in () if options.from_file else names:
        rows.append(counts(name, ALL[name]))
        first = rows[-1]["machines"][MACHINES[0]]
        print(name, *(f"{key}={value}" for key, value in first.items()), sep=" | ", flush=True)
        OUT.write_text(json.dumps(rows, indent=1))
    if options.page is not None:
        options.page.write_text(page(rows))
    return int(any("error" in row for each in rows for row in each["machines"].values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
