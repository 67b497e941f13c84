"""The page of what GPUs would do (gpu_counts.py): the counted table, what falls short, estimates beside published figures."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from .gpu_operators import NOT_COUNTED
from .gpu_published import published_table

__all__ = ["page"]

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
    """What falls short, each with the machines where it does."""
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
