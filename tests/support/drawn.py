"""Drawn checks: random cases from a seed that is printed, few in CI and many under `make soak`.

    for case in range(drawn.count(300, 20_000)):
        rng = drawn.rng("schedules", case)

The seed of a checkout is its commit's: each change draws afresh, and two runs of one commit, here and in CI, draw the
same. TILEWRIGHT_SEED=n sets another; TILEWRIGHT_SOAK=1 takes the full counts and the time as its seed.
"""

from __future__ import annotations

import os
import subprocess
import time
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

import numpy

T = TypeVar("T")
SOAK = os.environ.get("TILEWRIGHT_SOAK") == "1"


def commit_seed() -> int:
    """Return the first 31 bits of the commit that is checked out; 0 outside of a git checkout, or without git."""
    try:
        shown = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True, timeout=10
        )
        return int(shown.stdout[:8] or "0", 16) >> 1
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return 0


SEED = int(os.environ.get("TILEWRIGHT_SEED", "0")) or (0 if SOAK else commit_seed()) or int(time.time())


def count(sample: int, full: int) -> int:
    """How many cases to draw: `sample` in an ordinary run, `full` under `make soak`."""
    return full if SOAK else sample


def part(table: Iterable[T], size: int) -> list[T]:
    """As many rows of a table of cases, drawn, in its order; the whole table under `make soak`."""
    rows = list(table)
    if SOAK or size >= len(rows):
        return rows
    chosen = rng(f"{size} of {len(rows)} rows").choice(len(rows), size, replace=False)
    return [rows[at] for at in sorted(chosen)]


def rng(name: str, case: int = 0) -> numpy.random.Generator:
    """A generator for one case of one check. The same seed, name and case draw the same."""
    return numpy.random.default_rng([SEED, zlib.crc32(name.encode()), case])


def normal(rng: numpy.random.Generator, *shape: int) -> numpy.ndarray:
    """float32 values of the standard normal distribution."""
    return rng.standard_normal(shape).astype(numpy.float32)
