"""Drawn checks: random cases from a seed that is printed, few in CI and many under `make soak`.

    for case in range(drawn.count(300, 20_000)):
        rng = drawn.rng("schedules", case)

TILEWRIGHT_SEED=n repeats a run; TILEWRIGHT_SOAK=1 takes the full counts.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Iterable
from typing import TypeVar

import numpy

T = TypeVar("T")
SEED = int(os.environ.get("TILEWRIGHT_SEED", "0")) or int(time.time())
SOAK = os.environ.get("TILEWRIGHT_SOAK") == "1"


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
