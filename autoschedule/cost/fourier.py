"""Cycles of Fourier transforms by passes of small transforms, and as products with matrices, in closed form.

A pass is written out by its operation, so that no loops of it are there for a draft; and hundreds of ways to give factors to two steps
are told apart, 20 us each. Loads and stores count beside operators: elements of a transform lie a power of two apart.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from math import ceil, prod

from ...codegen.machine import Machine
from ...ir import Expr, Var, post_order
from ...ir.dtype import FLOAT32
from ...te.butterflies import transform
from ..loop_nest import Body
from .cpu import LEAVE, body_cycles, operator_cycles
from .estimate import Estimate
from .instructions import instruction_class

__all__ = ["PassCycles", "Steps", "time_of_matrices", "time_of_passes"]

Steps = tuple[tuple[int, ...], tuple[int, ...]]

SPILLED, OTHERS = 3, 6
"""Times that a number without a register is stored and loaded again, and registers beside the numbers of a transform."""
LOOPS = 3
"""Of a pass, the ends of which count once each."""
WHOLE, DIVISORS = 64, range(2, 33)
"""Points up to which a transform is one product with a matrix, and by which longer ones are divided."""
MATRIX, APART = 4, 4
"""Multiply-adds of a complex number with another, and times as long as vectors side by side they take, whose parts lie apart."""


class PassCycles:
    """Cycles of the passes of a row, of vectors of so many lanes."""

    def __init__(self, lanes: int, machine: Machine) -> None:
        self.lanes, self.machine = lanes, machine
        self._cycles: dict[tuple[int, bool], float] = {}
        turned = Body({"load": 1, "shuffle": lanes.bit_length() - 1, "store": 1})
        self._turned = body_cycles(turned, machine)

    def of(self, steps: Steps) -> float:
        """Return the cycles of two steps by their factors: of passes of small transforms, and of rows that are turned between."""
        over, within = map(prod, steps)
        cycles = 2 * within * ceil(over / self.lanes) * self._turned if within > 1 else 0.0
        for factors, columns in zip(steps, (within, over), strict=True):
            width, left = columns, prod(factors)
            for factor in factors:
                left //= factor
                is_rotated = left > 1 or factors is steps[0] and within > 1
                cycles += LOOPS * LEAVE + left * (
                    LEAVE + ceil(width / self.lanes) * self._transform(factor, is_rotated)
                )
                width *= factor
        return cycles

    def _transform(self, factor: int, is_rotated: bool) -> float:
        """Cycles of a transform that is written out. is_rotated: numbers but the first are multiplied by roots behind it."""
        known = self._cycles.get((factor, is_rotated))
        if known is None:
            rotated = 2 * (factor - 1) * is_rotated
            operators = {**_count_operators(factor)}
            for name in ("mul", "fma"):
                operators[name] = operators.get(name, 0) + rotated
            moved = 2 * factor + SPILLED * max(2 * factor + OTHERS - self.machine.registers, 0)
            moving = Body({"load": moved + rotated, "store": moved})
            known = operator_cycles(operators, self.machine) + body_cycles(moving, self.machine)
            self._cycles[factor, is_rotated] = known
        return known


@cache
def _count_operators(factor: int) -> Counter[str]:
    """The operators of a transform that is written out, by their classes."""
    made: list[Expr] = []

    def bind(value: Expr) -> Expr:
        made.append(value)
        return Var("t", value.dtype)

    transform([(Var("x", FLOAT32), Var("y", FLOAT32)) for _ in range(factor)], -1, bind)
    return Counter(name for value in made for node in post_order(value) if (name := instruction_class(node)))


def time_of_passes(steps: Steps, rows: int, points: int, passes: PassCycles) -> Estimate:
    """The time of transforms of rows: of a length that is not that of the steps, a product between two transforms."""
    length, machine = prod(map(prod, steps)), passes.machine
    ends = ceil(length / passes.lanes) * body_cycles(Body({"load": 4, "fma": 4, "store": 2}), machine)
    cycles = passes.of(steps) * (1 if length == points else 2) + ends
    return Estimate((("passes", rows * cycles / machine.clock / 1e9),))


def time_of_matrices(rows: int, points: int, lanes: int, machine: Machine) -> Estimate:
    """The time of transforms as declared, were all vectors full."""
    factors, left = 0, points
    while left > WHOLE and (outer := max((each for each in DIVISORS if left % each == 0), default=1)) > 1:
        factors, left = factors + outer, left // outer
    vectors = rows * points / lanes * MATRIX * APART * (factors + left)
    return Estimate((("fma throughput", vectors / machine.instructions.fma.rate / machine.clock / 1e9),))
