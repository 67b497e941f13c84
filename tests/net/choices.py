"""What the scheduler chooses for the frozen declarations: the records of its schedules, on four targets."""

from __future__ import annotations

from typing import Any

import tilewright as tw
from tilewright.schedule import to_json

from .programs import load_declarations

__all__ = ["CHOICE_TARGETS", "choices_of", "declarations"]

CHOICE_TARGETS = {
    # A named processor has a row's caches and cores, not this machine's.
    "znver4": "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=znver4 -uncalibrated",
    "haswell": "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=haswell -uncalibrated",
    "sm_80": "cuda -arch=sm_80",
    "sm_90": "cuda -arch=sm_90",
}

declarations = load_declarations()


def choices_of(name: str) -> dict[str, str]:
    """The records that are chosen, as JSON, by the target's name; a refusal's code in their place."""
    return {label: _choice(name, target) for label, target in CHOICE_TARGETS.items()}


def _choice(name: str, target: str) -> str:
    ops: list[Any]
    ops, _ = declarations[name]()
    try:
        return to_json(tw.autoschedule.schedule(ops, target).records)
    except tw.TilewrightError as error:
        return f"refused: {error.code}"
