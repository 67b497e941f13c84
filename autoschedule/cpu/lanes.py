"""Reductions across lanes: partial results in vector registers, then halves on halves.

    sum[i] = sum over k of A[i, k]          part: float32[64]                       # four vectors, which stay in registers
                                            for k.outer:
                                                for lane in vectorized(64):  part[lane] += A[i, k.outer * 64 + lane]
                                   →        for lane in vectorized(16):      p16[lane] = part[lane] + part[lane + 16] + ...
                                            for lane in vectorized(8):       p8[lane] = p16[lane] + p16[lane + 8]
                                            ...                              sum[i] = p2[0] + p2[1]

rfactor at each step, so that the order is the schedule's and what a user writes gets the same code.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...codegen.machine import Machine
from ...ir.expr import IterVar
from ...schedule import Schedule, Stage
from ...te.operation import Operation
from ...te.shape import constant_extent
from ..loops import fuse_axes, unroll_loops
from .declaration import calls_functions, functions_at_once

__all__ = [
    "CHAINS",
    "LONG",
    "ROUNDS",
    "VECTORS",
    "reduce_lanes",
    "halves",
    "length",
    "floor_power",
    "move_lane_last",
    "vectors_of_a_chain",
]

VECTORS = 4
"""Vectors side by side in a step: loads are under way, and sums that do not wait for each other, while others are computed on."""
LONG = 128
"""Terms of a sum that hide what it takes to add up the lanes of its parts, and up to which blocks of it gain nothing."""
CHAINS = 2
"""Vectors that are summed apart where rows are read as they lie: sums keep up with memory, and streams are no more than a processor
follows."""
ROUNDS = 6
"""Iterations that each accumulator takes part in at least: the tree above it has to pay, and shorter loops are unrolled, whose
many loads a processor does not see to be one stream that it could fetch ahead."""


def reduce_lanes(
    s: Schedule,
    op: Operation,
    axes: Sequence[IterVar],
    machine: Machine,
    accumulators: int | None = None,
) -> list[Stage]:
    """Reduces `op` over these reduce axes as over one, whose neighbours lie side by side where they are read, in vectors.

    Other reduce axes are loops around. accumulators: how many vectors of partial results; by default as many as the
    machine adds at once, and has registers for. Returns the stages, in order, the last being that of `op`: where the first is
    attached, attach all.
    """
    extent, lane = length(axes), fuse_axes(s[op], axes)
    lanes = machine.lanes(max(tensor.dtype.bits for tensor in op.outputs))
    room = max(machine.registers * 3 // 4 // op.num_outputs, 1)  # what takes up a term has the rest
    # what comes last in a step is waited for, less often in long ones: by llvm-mca 0.67 of the time of sums of rows on Cortex-A55
    own = machine.accumulators * (1 if machine.groups_registers else vectors_of_a_chain(machine))
    most = min(own, room) if accumulators is None else accumulators
    if accumulators is None and calls_functions(*op.values):
        most = min(most, functions_at_once(machine))
    if extent is None:
        width = lanes * floor_power(most)
    elif extent < lanes:
        width = _ceil_power(extent)
    else:
        width = lanes * floor_power(max(min(most, extent // (lanes * ROUNDS)), 1))
    partials: list[Stage] = []
    while width > 1:
        inner = s[op].split(lane, factor=width)[1]
        partials.append(_partial(s, op, inner, first=not partials))
        lane = s[op].op.reduce_axis[0]
        width = lanes if width > lanes else width // 2
    if partials:
        s[op].unroll(lane)
    return [*partials, s[op]]


def halves(s: Schedule, op: Operation, lane: IterVar) -> list[Stage]:
    """Reduces `op` over `lane`, a power of two that is left of its reduce axes, by halves. The stages before that of `op`."""
    partials: list[Stage] = []
    width = (length([lane]) or 1) // 2
    while width > 1:
        inner = s[op].split(lane, factor=width)[1]
        partials.append(_partial(s, op, inner, first=False))
        lane = s[op].op.reduce_axis[0]
        width //= 2
    s[op].unroll(lane)
    return partials


def _partial(s: Schedule, op: Operation, inner: IterVar, first: bool) -> Stage:
    """The stage of partial results for each value of `inner`, in vectors."""
    now = s[op].op
    stage = s[s.rfactor(list(now.outputs), inner, factor_axis=len(now.axis))[0].op]
    *data, lane = stage.op.axis
    stage.reorder(*data, *stage.op.reduce_axis, lane)
    stage.vectorize(lane)
    if not first:
        unroll_loops(stage, stage.op.reduce_axis)
    return stage


def length(axes: Sequence[IterVar]) -> int | None:
    """The product of the extents; None where one is not a constant."""
    known = [constant_extent(axis) for axis in axes]
    return prod(extent for extent in known if extent is not None) if None not in known else None


def vectors_of_a_chain(machine: Machine) -> int:
    """Vectors to compute side by side, each of which waits for itself: one where a core looks ahead to the next ones, or has none, for
    which numbers stand side by side as it is. By llvm-mca four take 0.28 to 0.47 of the time of one on Cortex-A55, 0.8 to 0.9 on
    A64FX, in sums of columns, products of one row, and recurrences."""
    return VECTORS if machine.is_latency_bound and machine.name != "scalar" else 1


def move_lane_last(axes: Sequence[IterVar]) -> list[IterVar]:
    """The axes, the last of those that have neighbours behind the others."""
    lane = next((axis for axis in reversed(axes) if constant_extent(axis) != 1), axes[-1])
    return [*(axis for axis in axes if axis is not lane), lane]


def floor_power(value: int) -> int:
    """The greatest power of two that is no greater."""
    return 1 << (value.bit_length() - 1)


def _ceil_power(value: int) -> int:
    return 1 << (max(value, 1) - 1).bit_length()
