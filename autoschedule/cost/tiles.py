"""Instructions and registers of tiles on GPUs whose work is counted from their numbers: products, and online sums.

Each is what the kernels take that NVRTC makes of such tiles for sm_80 and sm_90a.
"""

from __future__ import annotations

__all__ = [
    "CORE_SCORE",
    "DESCRIPTORS",
    "FRAGMENT_ADDED",
    "FRAGMENT_SUM",
    "GROUP_ADDED",
    "GROUP_SUM",
    "MERGED",
    "MERGED_BYTES",
    "MULTIPLIED",
    "OF_POWER",
    "PASSES",
    "POWERS_OF_PART",
    "ROUNDED",
    "SCORE",
    "SCORES",
    "SUM",
]

MULTIPLIED = 1.25
"""Instructions for each multiply-add of an online sum, its loads among them."""
SCORE, CORE_SCORE = 20, 7
"""And for each score, without tensor cores and with them."""
OF_POWER = 3
"""Instructions for which a thread of these waits for its power of each score: a warp's takes its scheduler's unit eight cycles."""
SUM, FRAGMENT_SUM, GROUP_SUM = 3, 2, 1
"""The same for each element of what is merged: in registers of threads, of warps that multiply fragments, and of warpgroups, whose
products add to it."""
FRAGMENT_ADDED, GROUP_ADDED = (3, 2, 40), (2, 1)
"""Of those with tensor cores, sums and products of each score, of each element of what is merged, and of each row, in all lanes that
have it. A part that stands apart scales its scores, and what it adds."""
POWERS_OF_PART = 2
"""Powers of a row, by which its sums and those of a part are scaled before they are merged."""
MERGED, MERGED_BYTES = 3, 4
"""Numbers of a part for each result, the largest score, the total and the sum; and bytes of each."""
PASSES, SCORES = 6, 4096
"""Where each operation is a kernel, how often scores go to memory or come from there, and how many a block has."""
ROUNDED = 2
"""Instructions that round a number to TF32."""
DESCRIPTORS = 24
"""Registers of a thread of a warpgroup that say where tiles and parts of the result lie."""
