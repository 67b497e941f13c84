"""What GPUs would do for each of topi's operators under the rules' schedules, counted without one.

    python -m tools.benchmarks.gpu_counts [WORD ...] [--page out/gpu_counts.md]

The emulator counts what a run moves, NVRTC says what the code is made of (for sm_80). Writes out/gpu_counts.json, and the page."""

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
from tilewright.runtime.array import numpy_dtype

from .gpu_counted import CASES, Case

OUT = Path("out/gpu_counts.json")
TARGET, EMULATED = "cuda -arch=sm_80", "cuda -arch=sm_80 -emulate"
MATH = ("FFMA", "HMMA", "IMMA", "FADD", "FMUL", "MUFU")
TITLES = ("operator", "chosen", "kernels", "moved / least", "16 bytes", "coalesced", "conflicts", "occupancy", "registers",
          "spills", "main loop")
PAGE = """# Operators on GPUs, counted

What the rules' schedules make of topi's operators for sm_80, without a GPU: the emulator counts the sectors of 32 bytes of global
memory and the passes through shared memory of a run, NVRTC's code the rest. This writes the page:

    make counts

*moved / least*: bytes of all sectors that warps touch, over those of the inputs and outputs; caches are not counted. *16 bytes*:
the part of global accesses that are so wide. *coalesced*: the sectors that the bytes need, over those touched. *conflicts*: passes
through shared memory beyond those needed. *occupancy*: of the kernel with the least. *main loop*: what counts of the last kernel's.

"""


def counts(name: str, case: Case) -> dict[str, Any]:
    """The row of one operator; "error" says what refused it."""
    try:
        return {"operator": name, **_counts(case)}
    except tw.TilewrightError as error:
        return {"operator": name, "error": str(error).splitlines()[0]}


def _counts(case: Case) -> dict[str, Any]:
    declared = case()
    outputs = list(declared) if isinstance(declared, (list, tuple)) else [declared]
    s = tw.autoschedule.schedule(outputs, target=TARGET)
    args = [*_inputs(outputs), *outputs]
    rng = np.random.default_rng(0)
    arrays = [_values(tensor, rng) for tensor in args]
    emulated = tw.build(s, args, target=EMULATED)
    emulated(*arrays)
    kernels = tw.build(s, args, target=TARGET).kernels
    rows = [row for kernel in emulated.kernels for row in kernel.traffic]
    memory = [row for row in rows if row.memory == "global"]
    touched, needed = sum(row.transactions for row in memory), sum(row.least for row in memory)
    loop = Counter[str]()
    for kernel in kernels[-1:]:
        loop.update({key: count for key, count in kernel.instructions.items()
                     if key in MATH or key.startswith(("LDG", "STG", "LDS"))})
    accesses = sum(row.instructions for row in memory)
    return {
        "chosen": "; ".join(decision.description for decision in s.plan), "kernels": len(kernels),
        "moved": touched * 32 / sum(array.nbytes for array in arrays),
        "wide": sum(row.instructions for row in memory if row.bytes == 16) / max(accesses, 1),
        "coalesced": needed / max(touched, 1),
        "conflicts": sum(kernel.bank_conflicts for kernel in emulated.kernels),
        "occupancy": min(kernel.occupancy.share for kernel in kernels), "bound": [kernel.occupancy.bound for kernel in kernels],
        "registers": max(kernel.registers for kernel in kernels), "spills": sum(kernel.spilled_bytes for kernel in kernels),
        "loop": dict(loop.most_common(6)),
    }


def _inputs(outputs: Sequence[Any]) -> list[Any]:
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


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Rows as a table in Markdown."""
    lines = ["| " + " | ".join(TITLES) + " |", "|" + "---|" * len(TITLES)]
    for row in rows:
        cells = [row["operator"], row["error"]] if "error" in row else [
            row["operator"], row["chosen"], str(row["kernels"]), f"{row['moved']:.2f}", f"{row['wide']:.0%}",
            f"{row['coalesced']:.0%}", str(row["conflicts"]), f"{row['occupancy']:.0%}", str(row["registers"]), str(row["spills"]),
            ", ".join(f"{count} {name}" for name, count in row["loop"].items())]
        lines.append("| " + " | ".join([*cells, *[""] * (len(TITLES) - len(cells))]) + " |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str]) -> int:
    """The exit status: 1 where an operator was refused."""
    parser = argparse.ArgumentParser(description="counts of operators on GPUs")
    parser.add_argument("words", nargs="*", help="only operators whose name contains one of these")
    parser.add_argument("--page", type=Path, help="the page in Markdown to write")
    options = parser.parse_args(arguments)
    names = [name for name in CASES if not options.words or any(word in name for word in options.words)]
    rows: list[dict[str, Any]] = []
    for name in names:
        rows.append(counts(name, CASES[name]))
        print(table(rows[-1:]).splitlines()[2], flush=True)
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(rows, indent=1))
    if options.page is not None:
        options.page.write_text(PAGE + table(rows))
    return int(any("error" in row for row in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
