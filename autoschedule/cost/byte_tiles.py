"""The time of products of bytes by tiles of an intrinsic, in closed form: copies of both sides, and the cycles of a unit for each tile.

Drafts of such tiles took twice as long to choose by, and chose no better (docs/architecture.md, Exceptions).
"""

from __future__ import annotations

from math import ceil

from ...codegen.machine import Machine
from .cpu import FORK
from .estimate import Estimate

__all__ = ["BEGUN_PAIRS", "is_worth_tiles", "time_of_tiles"]

BEGUN_PAIRS = 40
"""Cycles that a tile by pairs takes beside, whose sums never leave registers but to be stored."""
COPIED, TURNED, PACKED = 16, 4, 2
"""Bytes of rows that are copied in a cycle, where as many lie side by side; of columns that are packed, 16 of four terms at once, or by
the four of a lane."""
GAIN = 0.2
"""By which part tiles are slower than estimated."""


def time_of_tiles(
    tiles: int, cycles: float, rows: int, beside: int, columns: int, is_turned: bool, threads: int, machine: Machine
) -> Estimate:
    """The time of so many tiles, each of so many cycles. rows: bytes that are copied, `beside` of which lie side by side; columns: bytes
    that are packed. is_turned: 16 columns of four terms at once, which lie side by side."""
    seconds = 1 / (machine.clock * 1e9)
    copies = rows / min(COPIED, beside) + columns / (TURNED if is_turned else PACKED)
    return Estimate(
        (
            ("products of bytes", tiles * cycles / threads * seconds),
            ("copies", copies / threads * seconds),
            (FORK, machine.fork * seconds if threads > 1 else 0.0),
        )
    )


def is_worth_tiles(time: Estimate, rows: int, columns: int, threads: int, machine: Machine) -> bool:
    """Return whether tiles take less than vectors of int32, one a cycle, for so many elements of rows by so many columns."""
    seconds = rows * ceil(columns / machine.lanes(32)) / threads / (machine.clock * 1e9)
    return (1 + GAIN) * sum(part for name, part in time.parts if name != FORK) <= seconds
