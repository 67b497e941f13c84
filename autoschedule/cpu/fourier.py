"""Discrete Fourier transforms of topi as passes of small transforms, where that costs less than products with matrices.

The factors are those of which vectors are full and passes are few: all factorisations of the length are looked at, and all ways to give
their factors to the two steps (te/fourier.py). A length with a large prime factor is a convolution of a length without.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache, partial
from math import ceil, prod

from ...codegen.machine import Machine
from ...ir.dtype import FLOAT32
from ...ir.expr import Expr, Var
from ...ir.visit import post_order
from ...schedule import Schedule, Stage
from ...schedule.primitives.fast_fourier import fourier_points
from ...te.butterflies import transform
from ...te.tensor import Tensor
from ..accesses import numeric_shape
from ..cost.estimate import Estimate
from ..plan import Candidate, Chooser, Decision, decide

__all__ = ["Steps", "fast_fouriers", "fourier_steps", "steps_cost"]

Steps = tuple[tuple[int, ...], tuple[int, ...]]

WRITTEN_OUT = (2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 16, 17, 19, 23)
"""Factors whose transforms are written out."""
FEWEST = 16
"""Points from which on passes have lanes to fill."""
PASS = 12
"""Cycles that a pass takes beside its vectors."""
SPILL = 6
"""Cycles for a number that registers do not hold, stored and loaded again."""
OTHERS = 6
"""Registers that a transform needs beside its numbers."""
TURN = 3
"""Cycles for a vector that is transposed."""
MATRIX = 4
"""Multiply-adds of a complex number with another."""
APART = 4
"""Times as long as vectors side by side take those of products, whose parts lie apart."""


def fast_fouriers(s: Schedule, machine: Machine, chooser: Chooser) -> list[Decision]:
    """Let transforms of a schedule that nobody has touched be passes where that costs less, and tell what was decided."""
    decisions: list[Decision] = []
    for stage in list(s.stages):
        points = fourier_points(stage) or 0
        if points < FEWEST:
            continue
        tensor = stage.op.output(0)
        steps, time = _passes(stage, points, machine)
        text = " x ".join(" ".join(map(str, step)) for step in steps if step)
        candidates = [
            Candidate("products with matrices", lambda: None, _time_of_products(stage, points, machine)),
            Candidate(f"passes of {text}", partial(_apply_passes, s, tensor, steps), time),
        ]
        decisions.append(decide("fourier", stage.op, candidates, chooser, machine))
        candidates[decisions[-1].chosen].apply()
    return decisions


def _apply_passes(s: Schedule, tensor: Tensor, steps: Steps) -> None:
    s.fast_fourier(tensor, steps)


def _rows(stage: Stage) -> int:
    return numeric_shape(stage.op.output(0))[0]


def _passes(stage: Stage, points: int, machine: Machine) -> tuple[Steps, Estimate]:
    """The factors, and the time of the passes."""
    bits = 64 if str(stage.op.output(0).dtype) == "float64" else 32
    lanes = max(machine.vector_bytes * 8 // bits, 1)
    registers = machine.registers
    steps = fourier_steps(points, lanes, registers)
    length = prod(map(prod, steps))
    times = 1 if length == points else 2
    cycles = _rows(stage) * (times * steps_cost(steps, lanes, registers) + 3 * length / lanes)
    bytes_moved = _rows(stage) * points * 4 * bits // 8
    seconds = 1e-9 / machine.clock
    waits = bytes_moved / machine.memory_rate if bytes_moved > machine.levels[-2].size else 0.0
    return steps, Estimate((("fma throughput", cycles * seconds), ("memory bandwidth", waits * seconds)))


def _time_of_products(stage: Stage, points: int, machine: Machine) -> Estimate:
    """The time of the transform as declared, were all vectors full."""
    factors: list[int] = []
    left = points
    while left > 64 and (outer := max((each for each in range(2, 33) if left % each == 0), default=1)) > 1:
        factors.append(outer)
        left //= outer
    terms = _rows(stage) * points * MATRIX * APART * (sum(factors) + left)
    lanes = machine.vector_bytes // stage.op.output(0).dtype.bytes
    return Estimate((("fma throughput", terms / lanes / machine.instructions.fma.rate * 1e-9 / machine.clock),))


@cache
def fourier_steps(points: int, lanes: int, registers: int) -> Steps:
    """The factors of both steps that cost least, of vectors of so many lanes: of the length itself, or of one that is as long as a
    convolution must be."""
    best = _best_steps(points, lanes, registers)
    if best is not None:
        return best
    longer = (_best_steps(length, lanes, registers) for length in _smooth_lengths(2 * points - 1))
    return min(filter(None, longer), key=lambda steps: steps_cost(steps, lanes, registers))


def _smooth_lengths(least: int) -> Iterator[int]:
    """Lengths of small factors up to the next power of two."""
    for odd in (1, 3, 5, 7, 9, 15):
        yield odd << max((-(-least // odd) - 1).bit_length(), 0)


def _best_steps(points: int, lanes: int, registers: int) -> Steps | None:
    ways = (steps for factors in _factorisations(points, WRITTEN_OUT) for steps in _splits(factors))
    return min(ways, key=lambda steps: steps_cost(steps, lanes, registers), default=None)


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


def steps_cost(steps: Steps, lanes: int, registers: int) -> float:
    """Cycles of a transform of one row, of two operations in a cycle."""
    over, within = map(prod, steps)
    cost = 0.0
    for factors, columns in zip(steps, (within, over), strict=True):
        width, left = columns, prod(factors)
        for factor in factors:
            left //= factor
            spilt = SPILL * max(2 * factor + OTHERS - registers, 0)
            rotated = 6 * (factor - 1) if left > 1 or factors is steps[0] and within > 1 else 0
            cost += (
                left * ceil(width / lanes) * (_operators(factor) + rotated + spilt + 4 * factor + PASS / 4) / 2 + PASS
            )
            width *= factor
    if within > 1:
        cost += TURN * 2 * within * ceil(over / lanes)
    return cost


@cache
def _operators(factor: int) -> int:
    """Operators of a transform that is written out."""
    made: list[Expr] = []

    def bind(value: Expr) -> Expr:
        made.append(value)
        return Var("t", value.dtype)

    transform([(Var("x", FLOAT32), Var("y", FLOAT32)) for _ in range(factor)], -1, bind)
    return sum(1 for value in made for node in post_order(value) if not isinstance(node, Var))
