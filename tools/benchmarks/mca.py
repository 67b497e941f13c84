"""Cycles of kernels' main loops on other processors, by LLVM's models of them (llvm-mca) and by the rows of machines.

    python -m tools.benchmarks.mca [KERNEL ...] [--cpus cortex-a55,neoverse-n1] [--markdown] [--loops]

The main loop of a kernel is the innermost one with the most multiply-adds, or else with the most vector arithmetic; of copies for borders
and for what lies within, the latter.

ports: cycles that a row of the machine (codegen/machines) allows at best: the largest of vector operations, divisions, loads and stores
over their rates, and instructions over the width. slots: the share of multiply-add slots that the loop fills at that. cycles and units:
those of an iteration by llvm-mca, where it has a model of the processor, and those for which its busiest unit works at least. spills:
accesses to the stack in the loop. Prints one JSON object each, or a table.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import tilewright as tw
from tilewright.codegen.machine import Machine, find_machine
from tilewright.codegen.target import Target

from .main_loops import CASES

TRIPLES = {"aarch64": "aarch64-unknown-linux-gnu", "riscv64": "riscv64-unknown-linux-gnu"}
CPUS = (
    "cortex-a53 cortex-a55 cortex-a72 neoverse-n1 neoverse-n2 neoverse-v1 neoverse-v2 apple-m1 a64fx sifive-u74 spacemit-x60 sifive-p670"
).split()
MODELS = {
    "cortex-a53": "cortex-a53",
    "cortex-a55": "cortex-a55",
    "cortex-a72": "cortex-a72",
    "neoverse-n2": "neoverse-n2",
    "a64fx": "a64fx",
    "sifive-u74": "sifive-u74",
}
"""Processors of which llvm-mca 14 to 16 has a model, or of the design before that shares it."""
ITERATIONS = 200
ALIKE = 0.75
"""The part of the most multiply-adds from which on a loop may be the main one."""
MULTIPLIES = re.compile(
    r"^(f?ml[as]l?2?|[us]+dot|[us]+mmla|[us]mlal2?|bfmlal[bt]|fmadd\.s|vfn?m(acc|add)\.v[vf]|vw?macc\w*\.v[vx])$"
)


def target_text(cpu: str) -> str:
    architecture = "riscv64" if cpu.startswith(("sifive", "spacemit", "thead")) else "aarch64"
    return f"llvm -mtriple={TRIPLES[architecture]} -mcpu={cpu} -cores=1"


@dataclass(frozen=True)
class Loop:
    """Main loop of a kernel.

    group: registers of a RISC-V operation on vectors.
    """

    instructions: tuple[str, ...] = ()
    group: int = 1

    @property
    def names(self) -> list[str]:
        return [each.split("\t")[0] for each in self.instructions]


def main_loop(assembly: str) -> Loop:
    """The innermost loop with the most multiply-adds, or else with the most vector arithmetic; of loops with nearly as many, the one with
    the least beside them, since those for the borders of an image have conditions too."""

    def work(loop: Loop) -> tuple[int, int]:
        return sum(map(bool, map(MULTIPLIES.match, loop.names))), sum(map(_is_vector, loop.instructions))

    loops = list(_loops(assembly))
    at = 0 if any(work(loop)[0] for loop in loops) else 1
    most = max((work(loop)[at] for loop in loops), default=0)
    large = [loop for loop in loops if work(loop)[at] >= most * ALIKE]
    return max(large, key=lambda loop: work(loop)[at] / len(loop.instructions), default=Loop())


def _loops(assembly: str) -> Iterator[Loop]:
    parts = re.split(r"^(\.LBB\w+):.*$", assembly, flags=re.MULTILINE)
    group = _last_group(parts[0], 1)
    for name, body in zip(parts[1::2], parts[2::2], strict=True):
        end = re.search(rf"^\t(b\.\w+|cbn?z|tbn?z|b[a-z]+)\t.*{re.escape(name)}$", body, re.MULTILINE)
        if end is not None:
            lines = body[: end.end()].splitlines()
            instructions = [line.split("//")[0].strip() for line in lines if re.match(r"\t[a-z]", line)]
            yield Loop(tuple(instructions), _last_group(body[: end.end()], group))
        group = _last_group(body, group)


def _last_group(text: str, otherwise: int) -> int:
    found = re.findall(r"\tvseti?vli\t.*\bm(f?\d),", text)
    return int(found[-1]) if found and found[-1].isdigit() else 1 if found else otherwise


def _is_vector(instruction: str) -> bool:
    name, _, operands = instruction.partition("\t")
    if is_load(name) or is_store(name):
        return False
    return bool(re.match(r"[vz]\d", operands)) or name.startswith(("f", "vf", "vw", "vm", "va")) and name != "fence"


def is_load(name: str) -> bool:
    """Return whether an instruction is called like one that loads."""
    return bool(re.match(r"ld|fl[wd]$|vl\d?r?e?\d|l[wdhb]u?$", name))


def is_store(name: str) -> bool:
    """Return whether an instruction is called like one that stores."""
    return bool(re.match(r"st|fs[wd]$|vs\d?r?e\d|s[wdhb]$", name))


def port_cycles(loop: Loop, machine: Machine) -> tuple[float, float]:
    """Cycles that the row allows an iteration at best, and those of its multiply-adds alone."""
    units, names = machine.instructions, loop.names
    scale = 4 if machine.name == "scalar" else 1 / loop.group  # a vector is four registers there
    count = sum(map(bool, map(MULTIPLIES.match, names)))
    rates = [rate for part, rate in (("dot", machine.dots), ("mmla", machine.matrices)) if part in " ".join(names)]
    multiplies = count / (rates[0] if rates else units.fma.rate * scale)
    others = [
        name
        for each, name in zip(loop.instructions, names, strict=True)
        if _is_vector(each) and not MULTIPLIES.match(name)
    ]
    divisions, roots = (sum(part in name for name in others) for part in ("div", "sqrt"))
    blocked = (divisions / units.div.rate + roots / units.sqrt.rate) / scale
    loads, stores = (
        sum(2 if name == pair else 1 for name in names if moves(name)) / (rate * (scale if scale >= 1 else 1))
        for moves, pair, rate in ((is_load, "ldp", units.load.rate), (is_store, "stp", units.store.rate))
    )
    arithmetic = multiplies + len(others) / (units.fma.rate * scale)
    return max(arithmetic, blocked, loads, stores, len(names) / machine.width), multiplies


def _separate_update(instruction: str) -> str:
    """Return a load or store that moves its address as two instructions: llvm-mca lets the address wait as long as what is loaded,
    where by Arm's guides it takes one cycle."""
    found = re.fullmatch(r"(.*\[(\w+))(?:\], (#-?\d+)|, (#-?\d+)\]!)", instruction)
    if found is None:
        return instruction
    access, address, after, before = found.groups()
    moved = f"add\t{address}, {address}, {after or before}"
    return f"{access}]\n{moved}" if after else f"{moved}\n{access}]"


def simulated_cycles(loop: Loop, cpu: str, architecture: str) -> tuple[float, float] | None:
    """Cycles an iteration by llvm-mca, and those of its busiest unit; None where there is no model, or no llvm-mca."""
    tool = next(filter(None, map(shutil.which, ("llvm-mca-16", "llvm-mca"))), None)
    if tool is None or cpu not in MODELS:
        return None
    features = {"aarch64": "+sve,+sve2,+dotprod,+i8mm,+bf16,+fullfp16,+fp16fml", "riscv64": "+m,+f,+d,+c"}[architecture]
    command = [tool, f"-mtriple={TRIPLES[architecture]}", f"-mcpu={MODELS[cpu]}", f"-mattr={features}"]
    text = "\n".join(re.sub(r"\.LBB\w+", "0f", _separate_update(each)) for each in loop.instructions) + "\n0:\n"
    done = subprocess.run(
        [*command, f"-iterations={ITERATIONS}"], input=text, capture_output=True, text=True, timeout=60, check=False
    )
    total, units = (
        re.search(rf"^{name}:\s+([\d.]+)", done.stdout, re.MULTILINE) for name in ("Total Cycles", "Block RThroughput")
    )
    return (int(total[1]) / ITERATIONS, float(units[1])) if total and units else None


def measured(name: str, cpu: str) -> dict[str, Any]:
    """The row of the table for a kernel on a processor."""
    target = Target.parse(target_text(cpu))
    args = CASES[name]()
    s = tw.autoschedule.schedule(args[-1], str(target))
    loop = main_loop(tw.build(s, args, target=str(target)).source("asm"))
    ports, multiplies = port_cycles(loop, find_machine(target))
    names, (cycles, busiest) = loop.names, simulated_cycles(loop, cpu, target.architecture) or (0.0, 0.0)
    return {
        "kernel": name,
        "cpu": cpu,
        "instructions": len(names),
        "multiply-adds": sum(map(bool, map(MULTIPLIES.match, names))) * loop.group,
        "loads": sum(map(is_load, names)),
        "paired": names.count("ldp"),
        "spills": sum("[sp" in each or "(sp)" in each for each in loop.instructions),
        "ports": round(ports, 1),
        "slots": round(multiplies / ports, 2) if multiplies else None,
        "cycles": round(cycles, 1) or None,
        "units": busiest or None,
        "loop": loop.instructions,
    }


def cell(row: dict[str, Any]) -> str:
    """Return slots, cycles over ports or units, and spills of a kernel on a processor, as the table has them."""
    slots = "" if row["slots"] is None else f"{row['slots']:.2f}"
    cycles = f"{row['cycles'] / max(row['ports'], row['units']):.2f} x" if row["cycles"] else ""
    spills = f"{row['spills']} spills" if row["spills"] else ""
    return ", ".join(filter(None, (slots, cycles, spills))) or "-"


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The table of docs/main-loops.md: a line for each kernel, a column for each processor."""
    cells = {(row["kernel"], row["cpu"]): cell(row) for row in rows}
    kernels, cpus = (list(dict.fromkeys(row[key] for row in rows)) for key in ("kernel", "cpu"))
    lines = [f"| {kernel} | {' | '.join(cells.get((kernel, cpu), '') for cpu in cpus)} |" for kernel in kernels]
    return "\n".join([f"| kernel | {' | '.join(cpus)} |", "|---" * (len(cpus) + 1) + "|", *lines])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", nargs="*", help=f"of {', '.join(CASES)}")
    parser.add_argument("--cpus", default=",".join(CPUS))
    parser.add_argument("--markdown", action="store_true", help="a table, as docs/main-loops.md has it")
    parser.add_argument("--loops", action="store_true", help="the instructions too")
    chosen = parser.parse_args()
    rows = []
    for name in chosen.kernels or CASES:
        for cpu in chosen.cpus.split(","):
            row = measured(name, cpu)
            loop = row.pop("loop")
            rows.append(row)
            print(json.dumps(row), file=sys.stderr if chosen.markdown else sys.stdout, flush=True)
            if chosen.loops:
                print("\n".join(f"    {each}" for each in loop))
    if chosen.markdown:
        print(table(rows))


if __name__ == "__main__":
    main()
