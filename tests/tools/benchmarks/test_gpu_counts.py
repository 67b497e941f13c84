"""The counted table of operators on GPUs: what it has, and what it calls short."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

from tilewright import topi
from tilewright.tools.benchmarks import gpu_operators
from tilewright.tools.benchmarks.gpu_counts import page


def test_every_operator_has_a_row_or_a_reason() -> None:
    text = Path(gpu_operators.__file__ or "").read_text()
    alike = {name.rpartition(".")[2] for names, _, _ in gpu_operators.ALIKE for name in names.split()}
    excused = {name for names in gpu_operators.NOT_COUNTED for name in names.split()}
    for room in (topi, topi.nn, topi.image, topi.vision):
        names = {name for name in dir(room) if not name.startswith("_") and inspect.isfunction(getattr(room, name))}
        missing = {
            name for name in names - excused - alike if not re.search(rf"\b(topi|nn|image|vision)\.{name}\b", text)
        }
        assert missing == set(), f"{room.__name__} has operators that nobody counts"


def test_the_page_says_what_falls_short_and_where() -> None:
    good: dict[str, Any] = {
        "chosen": "4 elements a thread",
        "reasons": [],
        "kernels": 1,
        "moved": 1.0,
        "wide": 1.0,
        "coalesced": 1.0,
        "conflicts": 0,
        "occupancy": 1.0,
        "bound": ["threads"],
        "registers": 18,
        "spills": 0,
        "time": "3 us",
        "loop": {"FADD": 4},
    }
    short = {**good, "spills": 8, "occupancy": 0.25, "bound": ["registers"]}
    text = page(
        [
            {"operator": "good", "machines": {"sm_80": good, "sm_90a": good}},
            {"operator": "short", "machines": {"sm_80": good, "sm_90a": short}},
        ]
    )
    part = text[text.index("## What falls short") : text.index("## Estimates beside")]
    assert "| short | 8 bytes spilled (sm_90a); 25% of threads, by registers (sm_90a) |" in part
    assert "| good |" not in part
