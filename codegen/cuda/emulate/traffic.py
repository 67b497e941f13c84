"""Memory traffic of a launch as the emulator counts it: transactions of loads and stores, from the addresses of a run."""

from __future__ import annotations

import ctypes

from ....base.dataclass import dataclass
from .compiler import EmulatedLibrary

__all__ = ["Counts", "Traffic", "last_counts"]

_MOST_PLACES = 4096


@dataclass(frozen=True, slots=True)
class Traffic:
    """The loads, or stores, of one place in the text.

    line: of the CUDA text, 0 where it is not known. memory: "shared" or "global". bytes: of one thread's access. instructions: of
    warps. transactions: passes through the banks of shared memory, or sectors of 32 bytes of global memory. least: as many as the
    bytes that are touched would need in the best order.
    """

    line: int
    memory: str
    stores: bool
    bytes: int
    instructions: int
    transactions: int
    least: int


class _Row(ctypes.Structure):
    _fields_ = (
        ("instructions", ctypes.c_uint64),
        ("transactions", ctypes.c_uint64),
        ("least", ctypes.c_uint64),
        ("place", ctypes.c_uint32),
        ("size", ctypes.c_uint16),
        ("shared", ctypes.c_uint8),
        ("stores", ctypes.c_uint8),
    )
    instructions: int
    transactions: int
    least: int
    place: int
    size: int
    shared: int
    stores: int


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of a launch, by places in the library's code."""

    library: EmulatedLibrary
    rows: tuple[_Row, ...]

    def traffic(self) -> tuple[Traffic, ...]:
        """Return the traffic by lines of the text, in their order."""
        lines = self.library.lines([row.place for row in self.rows])
        return tuple(
            sorted(
                (
                    Traffic(
                        line or 0,
                        "shared" if row.shared else "global",
                        bool(row.stores),
                        row.size,
                        row.instructions,
                        row.transactions,
                        row.least,
                    )
                    for line, row in zip(lines, self.rows, strict=True)
                ),
                key=lambda row: (row.line, row.stores),
            )
        )


def last_counts(library: EmulatedLibrary) -> Counts:
    """Return the counts of the library's last launch."""
    rows = (_Row * _MOST_PLACES)()
    return Counts(library, tuple(rows[: library.library.tw_traffic(rows)]))
