"""Algorithms that operators offer for what they compute, taken where they cost less than what is declared.

Each declaration is scheduled by its rules for inputs that are given, and estimated by the same model.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import prod

from ..codegen.machine import Machine
from ..schedule import Schedule, Stage
from ..schedule.primitives.redeclare import SEPARABLE, SWEEP, offered_declarations
from ..te.compute import placeholder
from ..te.operation import Operation
from ..te.shape import constant_extent
from ..te.tensor import Tensor
from .cost.doubts import UNFORESEEN
from .cost.estimate import pad_estimate
from .factoring import SMALL, Scheduler, estimate_alone
from .operations import fixed_extent, is_known
from .plan import Candidate, Chooser, Decision, decide

__all__ = ["choose_algorithms"]


def choose_algorithms(
    s: Schedule, machine: Machine, chooser: Chooser, exact: bool, scheduled: Scheduler
) -> list[Decision]:
    """Redeclare what costs less by an algorithm that its operator offers, as a sweep, or a window by dimensions, in a schedule that nobody
    has touched, and tell what was decided. exact: what changes no bit. scheduled: applies the rules to a part of the program, without
    alternatives."""
    decisions: list[Decision] = []
    for stage in list(s.stages)[::-1]:  # what a sweep takes up is gone
        if stage.is_gone or not (offered := offered_declarations(stage)):
            continue
        op = stage.op
        ways = {name: way for name, way in offered.items() if _is_worth_estimating(name, stage, exact)}
        if not ways or None in map(constant_extent, (*op.axis[1:], *op.reduce_axis)):
            continue  # sizes decide; of an unknown batch one image tells enough
        # the operator's inputs, as they are computed now
        inputs = {one: s[one].op.output(one.value_index) for way in ways.values() for one in _tensors(way)}
        given = {now: now if is_known(now) else placeholder(now.shape, now.dtype, now.name) for now in inputs.values()}
        declared = _rebuild(op, given)
        candidates = [Candidate("as declared", lambda: None, estimate_alone(scheduled, declared))]
        for name, way in ways.items():
            alone = way.func(
                *(given[inputs[one]] if isinstance(one, Tensor) else one for one in way.args), **way.keywords
            )
            apply = partial(_redeclare, s, op.output(0), name)
            more = UNFORESEEN if name == SEPARABLE else 0.0
            candidates.append(Candidate(name, apply, pad_estimate(estimate_alone(scheduled, alone.op), more)))
        decisions.append(decide("algorithm", op, candidates, chooser, machine))
        candidates[decisions[-1].chosen].apply()
    return decisions[::-1]


def _is_worth_estimating(name: str, stage: Stage, exact: bool) -> bool:
    """Return whether a declaration may be taken, and may be the better one."""
    if name == SEPARABLE:
        return prod(fixed_extent(axis) or SMALL for axis in (*stage.op.axis, *stage.op.reduce_axis)) >= SMALL
    return not _feeds_scans(stage) if name == SWEEP else not exact


def _feeds_scans(stage: Stage) -> bool:
    """Return whether scans are computed from a stage, which share its columns perhaps, and then the blocks that it is computed in."""
    waiting, met = [stage], {stage}
    while waiting:
        readers = waiting.pop().readers.keys() - met
        if any(reader.op.is_stepwise for reader in readers):
            return True
        met |= readers
        waiting += readers
    return False


def _redeclare(s: Schedule, tensor: Tensor, name: str) -> None:
    s.redeclare(tensor, name)


def _tensors(way: partial[Tensor]) -> list[Tensor]:
    return [one for one in way.args if isinstance(one, Tensor)]


def _rebuild(op: Operation, given: Mapping[Tensor, Tensor]) -> Operation:
    """An operation, and what it is computed from, of tensors in place of others."""
    rebuilt: dict[Operation, Operation] = {}

    def read(tensor: Tensor) -> Tensor:
        return given[tensor] if tensor in given else rebuild(tensor.op).output(tensor.value_index)

    def rebuild(one: Operation) -> Operation:
        if one not in rebuilt:
            rebuilt[one] = one.replace_inputs({tensor: read(tensor) for tensor in one.input_tensors})
        return rebuilt[one]

    return rebuild(op)
