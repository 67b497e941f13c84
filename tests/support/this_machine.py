"""The machine that the suite runs on: targets whose code it runs, and the time that it needs, which is longer where it is emulated."""

from __future__ import annotations

import os

from tilewright.codegen.errors import UnknownFeature
from tilewright.codegen.target import Target

__all__ = ["PATIENCE", "runnable"]

PATIENCE = float(os.environ.get("EMULATED_PATIENCE", "1"))
"""The factor of limits of time; tools.emulated_python sets it."""


def runnable(*targets: str) -> list[str]:
    """Return those of the targets whose code runs here, in their order."""
    return [target for target in targets if _is_runnable(target)]


def _is_runnable(target: str) -> bool:
    try:
        return Target.parse(target).runs_here
    except UnknownFeature:  # of another architecture
        return False
