"""Drawn checks: random cases from a seed that is printed, few in CI and many under `make soak`.

    for case in range(drawn.count(300, 20_000)):
        rng = drawn.rng("schedules", case)

TILEWRIGHT_SEED=n repeats a run; TILEWRIGHT_SOAK=1 takes the full counts.
"""

from __future__ import annotations

import os
import time
import zlib

import numpy

SEED = int(os.environ.get("TILEWRIGHT_SEED", "0")) or int(time.time())
SOAK = os.environ.get("TILEWRIGHT_SOAK") == "1"


def count(sample: int, full: int) -> int:
    """How many cases to draw: `sample` in an ordinary run, `full` under `make soak`."""
    return full if SOAK else sample


def rng(name: str, case: int = 0) -> numpy.random.Generator:
    """A generator for one case of one check. The same seed, name and case draw the same."""
    return numpy.random.default_rng([SEED, zlib.crc32(name.encode()), case])


def normal(rng: numpy.random.Generator, *shape: int) -> numpy.ndarray:
    """float32 values of the standard normal distribution."""
    return rng.standard_normal(shape).astype(numpy.float32)
