"""Instructions and registers of tiles on GPUs whose work is counted from their numbers: products, and online sums.

Each is what the kernels take that NVRTC makes of such tiles for sm_80 and sm_90a.
"""

from __future__ import annotations

__all__ = [
    "ADDED",
    "CORE_SCORE",
    "CORE_SUM",
    "DESCRIPTORS",
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
SUM, CORE_SUM = 3, 1
"""The same for each element of what is merged; with tensor cores twice as many where products do not add to it."""
ADDED = (2, 1, 40)
"""Of those with tensor cores, sums and products of each score, of each element of what is merged, and of each row, in all lanes that
have it."""
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
