"""Counts for GPUs of each of topi's operators under the rules' schedules, without a GPU.

    python -m tools.benchmarks.gpu_counts [WORD ...] [--page out/gpu-counts.md]

The emulator counts what a run moves; NVRTC says what the code is made of, for each architecture. Writes out/gpu_counts.json, and
the page."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import tilewright as tw
from tilewright import te, topi
from tilewright.autoschedule.plan import time_text
from tilewright.runtime.array import numpy_dtype

from .gpu_operators import CASES, NOT_COUNTED, Case

__all__ = ["MACHINES", "counts", "find_placeholders", "page"]

OUT = Path("out/gpu_counts.json")
MACHINES = ("sm_80", "sm_86", "sm_89", "sm_90a", "sm_100")
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
            args = [*find_placeholders(outputs), *outputs]
            rng = np.random.default_rng(0)
            arrays = arrays or [_values(tensor, rng) for tensor in args]
            chosen = "; ".join(decision.description for decision in s.plan)
            if chosen not in moved:
                moved[chosen] = _measure_traffic(s, args, arrays, arch)
            machines[arch] = {**_count_instructions(s, args, arch), **moved[chosen], "chosen": chosen}
        except tw.TilewrightError as error:
            machines[arch] = {"error": str(error).splitlines()[0]}
    return {"operator": name, "machines": machines}


def _measure_traffic(s: Any, args: Sequence[Any], arrays: Sequence[np.ndarray], arch: str) -> dict[str, Any]:
    """Return the traffic of a run on the emulator."""
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


def _count_instructions(s: Any, args: Sequence[Any], arch: str) -> dict[str, Any]:
    """Return the instructions of an architecture's code, and its estimated time."""
    kernels = tw.build(s, args, target=f"cuda -arch={arch}").kernels
    seconds = estimate_seconds(s)
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


def estimate_seconds(s: Any) -> float | None:
    """The estimate of all that the rules chose for a schedule; None where one of them made none."""
    seconds: list[Any] = [decision.seconds for decision in s.plan]
    return sum(seconds) if seconds and None not in seconds else None


def find_placeholders(outputs: Sequence[Any]) -> list[Any]:
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


# The page

HEAD = """# Operators on GPUs, counted

What the rules' schedules make of topi's operators, without a GPU: the emulator counts the sectors of 32 bytes of global memory and
the passes through shared memory of a run, NVRTC's machine code says the rest, and times are the scheduler's estimates, which no
GPU has confirmed. `make counts` writes this page. This one was written on {day}, of commit {commit}.

"""
TITLES = (
    "operator",
    "chosen",
    "kernels",
    "moved / least",
    "16 bytes",
    "coalesced",
    "conflicts",
    "occupancy",
    "registers",
    "spills",
    "estimate",
    "main loop",
)
LEGEND = """
*moved / least*: bytes of all sectors that warps touch, over those of the inputs and outputs; caches are not counted. *16 bytes*:
the part of global accesses that are so wide. *coalesced*: the sectors that the bytes need, over those touched. *conflicts*: passes
through shared memory beyond those needed. *occupancy*: of the kernel with the least. *main loop*: what counts of the last kernel's.

"""
OTHERS = """## Other machines

The estimate, registers of a thread, bytes spilled where there are any, and occupancy. Where another schedule is chosen than on
sm_80, its conflicts and the part of its sectors that is needed stand behind.

"""
SHORT = """## What falls short

Spills, conflicts, less than three quarters of the sectors needed, or less than half of the threads, on any machine.

"""
GOOD_SECTORS, GOOD_OCCUPANCY = 0.75, 0.5


def page(rows: Sequence[Mapping[str, Any]]) -> str:
    """The page in Markdown."""
    machines = list(rows[0]["machines"]) if rows else []
    text = HEAD.format(day=date.today().isoformat(), commit=_commit())
    text += f"## {machines[0]}\n\n" if machines else ""
    text += _table(TITLES, [_row(row["operator"], row["machines"][machines[0]]) for row in rows]) + LEGEND
    text += OTHERS + _table(
        ("operator", *machines[1:]),
        [
            (row["operator"], *(_cell(row["machines"][arch], row["machines"][machines[0]]) for arch in machines[1:]))
            for row in rows
        ],
    )
    short = [(row["operator"], "; ".join(said)) for row in rows if (said := _short(row["machines"]))]
    text += "\n" + SHORT + (_table(("operator", "what"), short) if short else "Nothing.\n")
    text += "\n## Estimates beside published figures\n\n" + published_table()
    text += "\n## What is not counted\n\n" + "".join(
        f"- {why}: {', '.join(f'`{name}`' for name in names.split())}\n" for names, why in NOT_COUNTED.items()
    )
    return text


def _commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True
    )
    return done.stdout.strip() or "none"


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles)]
    lines += ["| " + " | ".join([*row, *[""] * (len(titles) - len(row))]) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _row(name: str, row: Mapping[str, Any]) -> list[str]:
    if "error" in row:
        return [name, row["error"]]
    chosen = "; ".join([row["chosen"], *row["reasons"]])
    return [
        name,
        chosen,
        str(row["kernels"]),
        f"{row['moved']:.2f}",
        f"{row['wide']:.0%}",
        f"{row['coalesced']:.0%}",
        str(row["conflicts"]),
        f"{row['occupancy']:.0%}",
        str(row["registers"]),
        str(row["spills"]),
        row["time"],
        ", ".join(f"{count} {name}" for name, count in row["loop"].items()),
    ]


def _cell(row: Mapping[str, Any], first: Mapping[str, Any]) -> str:
    if "error" in row:
        return row["error"]
    spilled = f"{row['spills']} spilled" if row["spills"] else ""
    parts = [row["time"], f"{row['registers']} r", spilled, f"{row['occupancy']:.0%}"]
    if row["chosen"] != first.get("chosen"):
        parts += [f"{row['conflicts']} conflicts", f"{row['coalesced']:.0%} of sectors"]
    return ", ".join(filter(None, parts))


def _short(machines: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The shortfalls, each with the machines where it does."""
    found: dict[str, list[str]] = {}
    for arch, row in machines.items():
        if "error" in row:
            found.setdefault(row["error"], []).append(arch)
            continue
        said = {
            f"{row['spills']} bytes spilled": row["spills"] > 0,
            f"{row['conflicts']} conflicts": row["conflicts"] > 0,
            f"{row['coalesced']:.0%} of sectors needed": row["coalesced"] < GOOD_SECTORS,
            f"{row['occupancy']:.0%} of threads, by {'/'.join(dict.fromkeys(row['bound']))}": row["occupancy"]
            < GOOD_OCCUPANCY,
        }
        for what in (text for text, holds in said.items() if holds):
            found.setdefault(what, []).append(arch)
    return [what if len(where) == len(machines) else f"{what} ({', '.join(where)})" for what, where in found.items()]


# What others have published of libraries on A100 and H100


@dataclass(frozen=True)
class Published:
    """program, on a machine: what is measured; declare(): the same in topi; operations: floating-point operations of it. by:
    whose code; rate: teraflops a second, as the source has it. source: where it was published."""

    machine: str
    arch: str
    program: str
    declare: Callable[[], Any]
    operations: float
    by: str
    rate: float
    source: str


def _product(m: int, n: int, k: int, dtype: str) -> Callable[[], Any]:
    def declare() -> Any:
        a, b = te.placeholder((m, k), dtype, name="A"), te.placeholder((k, n), dtype, name="B")
        sums = topi.matmul(a, b, out_dtype="float32")
        return sums if dtype == "float32" else te.compute((m, n), lambda i, j: sums[i, j].astype(dtype), name="C")

    return declare


def _attention(heads: int, length: int, depth: int) -> Callable[[], Any]:
    def declare() -> Any:
        q, k, v = (te.placeholder((heads, length, depth), "float16", name=name) for name in "qkv")
        return topi.nn.attention(q, k, v)

    return declare


def _gemm(
    machine: str, arch: str, shape: tuple[int, int, int], dtype: str, by: str, rate: float, source: str
) -> Published:
    m, n, k = shape
    program = f"product {m} x {n} x {k}, {dtype}"
    return Published(machine, arch, program, _product(m, n, k, dtype), 2.0 * m * n * k, by, rate, source)


_ISSUES = "https://github.com/triton-lang/triton/issues/"
_SGEMM = "https://github.com/Yinghan-Li/YHs_Sample/issues/4"
_FLASH = "https://github.com/pytorch/benchmark/pull/2391"
_EVEN = (3200, 3200, 3200)

PUBLISHED = (
    _gemm("A100", "sm_80", (5120, 4096, 4096), "float32", "cuBLAS", 18.88, _SGEMM),
    _gemm("A100", "sm_80", (5120, 4096, 4096), "float32", "Triton", 17.95, _SGEMM),
    _gemm("A100", "sm_80", _EVEN, "float16", "cuBLAS", 244.3, _ISSUES + "3551"),
    _gemm("A100", "sm_80", _EVEN, "float16", "Triton", 244.3, _ISSUES + "3551"),
    _gemm("H100", "sm_90a", (2048, 2048, 2048), "float16", "cuBLAS", 511.3, _ISSUES + "3672"),
    _gemm("H100", "sm_90a", (3072, 3072, 3072), "float16", "cuBLAS", 584.7, _ISSUES + "3672"),
    _gemm("H100", "sm_90a", (3072, 3072, 3072), "float16", "Triton", 524.7, _ISSUES + "3672"),
    _gemm(
        "H100",
        "sm_90a",
        (4224, 2048, 8192),
        "bfloat16",
        "CUTLASS and cuBLAS, the best by torch.compile",
        780.2,
        "https://gist.github.com/Chillee/2ec89696db8b7ed1c24461159e325405",
    ),
    *(
        Published(
            "H100",
            "sm_90a",
            f"attention, {batch} x 16 heads of {length} x 128, float16",
            _attention(16 * batch, length, 128),
            4.0 * 16 * batch * length * length * 128,
            by,
            rate,
            _FLASH,
        )
        for batch, length, triton, third in ((8, 2048, 433.7, 565.5), (4, 4096, 458.4, 590.2), (1, 16384, 476.8, 620.7))
        for by, rate in (("Triton", triton), ("FlashAttention-3", third))
    ),
)
"""Facts of others, on machines of theirs."""


def published_table() -> str:
    """Each figure beside our estimate, and its error if our code were theirs, as a table in Markdown. An estimate is none of the
    measurements that it stands beside."""
    lines = [
        "| machine | program | by | published TFLOP/s | estimate of ours TFLOP/s | error | source |",
        "|" + "---|" * 7,
    ]
    known: dict[tuple[str, str], float | None] = {}
    for row in PUBLISHED:
        key = row.arch, row.program
        if key not in known:
            known[key] = estimate_seconds(tw.autoschedule.schedule([row.declare()], target=f"cuda -arch={row.arch}"))
        seconds = known[key]
        ours = f"{row.operations / seconds / 1e12:.1f}" if seconds else "none"
        error = f"{row.operations / seconds / 1e12 / row.rate - 1:+.0%}" if seconds else ""
        lines.append(f"| {row.machine} | {row.program} | {row.by} | {row.rate:.1f} | {ours} | {error} | {row.source} |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str]) -> int:
    """The exit status: 1 where an operator was refused."""
    parser = argparse.ArgumentParser(description="counts of operators on GPUs")
    parser.add_argument("words", nargs="*", help="only operators whose name contains one of these")
    parser.add_argument("--page", type=Path, help="the page in Markdown to write")
    parser.add_argument("--from-file", action="store_true", help="write the page from the last run's file")
    options = parser.parse_args(arguments)
    names = [name for name in CASES if not options.words or any(word in name for word in options.words)]
    OUT.parent.mkdir(exist_ok=True)
    rows: list[dict[str, Any]] = json.loads(OUT.read_text()) if options.from_file else []
    for name in () if options.from_file else names:
        rows.append(counts(name, CASES[name]))
        first = rows[-1]["machines"][MACHINES[0]]
        print(name, *(f"{key}={value}" for key, value in first.items()), sep=" | ", flush=True)
        OUT.write_text(json.dumps(rows, indent=1))
    if options.page is not None:
        options.page.write_text(page(rows))
    return int(any("error" in row for each in rows for row in each["machines"].values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
