"""Discrete Fourier transforms of topi as passes of small transforms, where that costs less than products with matrices.

The factors are those of which vectors are full and passes are few: all factorisations of the length are looked at, and all ways to give
their factors to the two steps (te/fourier.py). A length with a large prime factor is a convolution of a length without.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial

from ...codegen.machine import Machine
from ...schedule import Schedule
from ...schedule.primitives.fast_fourier import fourier_points
from ...te.tensor import Tensor
from ..accesses import numeric_shape
from ..cost.fourier import PassCycles, Steps, time_of_matrices, time_of_passes
from ..plan import Candidate, Chooser, Decision, decide

__all__ = ["fast_fouriers", "fourier_steps"]

WRITTEN_OUT = (2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 16, 17, 19, 23)
"""Factors whose transforms are written out."""
FEWEST = 16
"""Points from which on passes have lanes to fill."""


def fast_fouriers(s: Schedule, machine: Machine, chooser: Chooser) -> list[Decision]:
    """Let transforms of a schedule that nobody has touched be passes where that costs less, and tell what was decided."""
    decisions: list[Decision] = []
    for stage in list(s.stages):
        points = fourier_points(stage) or 0
        if points < FEWEST:
            continue
        tensor = stage.op.output(0)
        lanes, rows = machine.lanes(tensor.dtype.bits), numeric_shape(tensor)[0]
        passes = PassCycles(lanes, machine)
        steps = fourier_steps(points, passes)
        text = " x ".join(" ".join(map(str, step)) for step in steps if step)
        candidates = [
            Candidate("products with matrices", lambda: None, time_of_matrices(rows, points, lanes, machine)),
            Candidate(
                f"passes of {text}",
                partial(_apply_passes, s, tensor, steps),
                time_of_passes(steps, rows, points, passes),
            ),
        ]
        decisions.append(decide("fourier", stage.op, candidates, chooser, machine))
        candidates[decisions[-1].chosen].apply()
    return decisions


def _apply_passes(s: Schedule, tensor: Tensor, steps: Steps) -> None:
    s.fast_fourier(tensor, steps)


def fourier_steps(points: int, passes: PassCycles) -> Steps:
    """The factors of both steps that cost least: of the length itself, or of one that is as long as a convolution must be."""
    best = _best_steps(points, passes)
    if best is not None:
        return best
    longer = filter(None, (_best_steps(length, passes) for length in _smooth_lengths(2 * points - 1)))
    return min(longer, key=passes.of)


def _smooth_lengths(least: int) -> Iterator[int]:
    """Lengths of small factors up to the next power of two."""
    for odd in (1, 3, 5, 7, 9, 15):
        yield odd << max((-(-least // odd) - 1).bit_length(), 0)


def _best_steps(points: int, passes: PassCycles) -> Steps | None:
    ways = (steps for factors in _factorisations(points, WRITTEN_OUT) for steps in _splits(factors))
    return min(ways, key=passes.of, default=None)


def _factorisations(points: int, among: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """The products that a number is, each in ascending order."""
    if points == 1:
        yield ()
    for at, factor in enumerate(among):
        if points % factor == 0:
            yield from ((factor, *others) for others in _factorisations(points // factor, among[at:]))


def _splits(factors: Sequence[int]) -> Iterator[Steps]:
    """The ways to give factors to two steps, at least one to the first."""
    counts = Counter(factors)
    chosen: list[list[int]] = [[]]
    for factor, count in counts.items():
        chosen = [[*one, *[factor] * times] for one in chosen for times in range(count + 1)]
    for one in chosen:
        if one:
            yield tuple(one), tuple((counts - Counter(one)).elements())
