"""Conditions of the terms of a sum that leave many out: a sum over a triangle takes the time of a triangle.

    C[i, j] = sum over k of (A[k, i] * B[k, j] if k > i else 0)

It is done before the graph is cut into groups, where comparisons of axes leave out a part of the terms: loops run over the others.
Conditions on data are left as they are: they are histograms, which need none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import prod

from ..codegen.machine import Machine
from ..ir.expr import Expr, IterVar
from ..ir.ops import conjuncts
from ..schedule import Schedule
from ..schedule.primitives.predicate import conditional_sum
from ..te.shape import constant_extent
from ..te.tensor import Tensor
from .accesses import Dimension, dimension, margin
from .cost.doubts import ENOUGH
from .cost.estimate import scale_estimate
from .factoring import SMALL, Scheduler, estimate_alone, make_standalone
from .operations import fixed_extent
from .plan import Candidate, Chooser, Decision, decide

__all__ = ["predicate_sums", "share_left"]

POINTS = 256
"""Terms of which the condition is looked at."""


def predicate_sums(
    s: Schedule, machine: Machine, chooser: Chooser, exact: bool, scheduled: Scheduler
) -> list[Decision]:
    """Leave out terms of the sums of a schedule that nobody has touched where that costs less, and tell what was decided. exact: their
    products are rounded before they are added, as declared."""
    decisions: list[Decision] = []
    for op in [stage.op for stage in s.stages]:
        restricted = conditional_sum(s[op]) if not op.algorithm else None
        left = share_left(restricted.condition, (*op.axis, *restricted.axes)) if restricted is not None else 1.0
        if left > ENOUGH or prod(map(fixed_extent, (*op.axis, *op.reduce_axis))) < SMALL:
            continue
        alone = make_standalone(s[op])
        candidates = [
            Candidate(
                f"over {left:.0%} of the terms",
                partial(_predicate, s, op.output(0), exact),
                scale_estimate(estimate_alone(scheduled, alone, partial(_predicate, exact=exact)), left),
            ),
            Candidate("as declared", lambda: None, estimate_alone(scheduled, alone)),
        ]
        decisions.append(decide("condition", op, candidates, chooser, machine))
        candidates[decisions[-1].chosen].apply()
    return decisions


def _predicate(s: Schedule, tensor: Tensor, exact: bool) -> None:
    s.predicate(tensor, fused=not exact)


def share_left(condition: Expr, axes: Sequence[IterVar]) -> float:
    """About which part of the points of these axes a condition leaves, which comparisons of sums of them bound; 1 where others decide,
    or extents are not known."""
    bounds = [margin(part) for part in conjuncts(condition)]
    extents = {axis: constant_extent(axis) for axis in axes}
    known = {axis: extent for axis, extent in extents.items() if extent}
    if len(known) < len(extents):
        return 1.0
    used = [bound for bound in bounds if bound is not None and not bound.rest and known.keys() >= bound.steps.keys()]
    inside = sum(all(_value(bound, point) >= 0 for bound in used) for point in _points(known)) if used else POINTS
    return inside / POINTS


def _points(extents: Mapping[IterVar, int]) -> list[dict[IterVar, int]]:
    """Points that are spread evenly over a box: multiples of powers of a root, modulo 1 (Roberts 2018)."""
    root = 1.5
    for _ in range(32):  # of x ** (axes + 1) = x + 1
        root = (1 + root) ** (1 / (len(extents) + 1))
    steps = [root ** -(at + 1) for at in range(len(extents))]
    return [
        {
            axis: int((at * step + 0.5) % 1 * extent) + _first(axis)
            for step, (axis, extent) in zip(steps, extents.items(), strict=True)
        }
        for at in range(POINTS)
    ]


def _first(axis: IterVar) -> int:
    """The least value of an axis, where it is known."""
    begin = dimension(axis.dom.begin) if axis.dom is not None else None
    return begin.offset if begin is not None and not begin.steps and not begin.rest else 0


def _value(bound: Dimension, point: Mapping[IterVar, int]) -> int:
    return bound.offset + sum(step * point[axis] for axis, step in bound.steps.items())
