"""Sums of which divisibility leaves terms out, phase by phase: transposed convolutions, and what is read with zeros put in between.

    apart[y] = x[y // 2] if y % 2 == 0 else 0          C.phase0[y] = sum over k of x[y + k] * w[2 * k]
    C[y] = sum over k of apart[y + k] * w[k]     →     C.phase1[y] = sum over k of x[y + k + 1] * w[2 * k + 1]

Every phase is a sum like any other, whose rule does not know where it came from. It is done before the graph is cut into groups,
for every target, wherever it takes terms away: nothing takes less time than no term at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from ..ir import EQ, Expr, FloorMod, IfThenElse, IntImm, IterVar, Select, post_order
from ..schedule import Schedule, Stage
from ..schedule.model.exactness import stays_exact
from ..schedule.model.inlining import expand_inlined
from ..schedule.primitives.polyphase import MOST, congruences, find_omitted
from ..te.operation import Operation
from ..te.rewrite import collect_loads
from ..te.shape import constant_extent
from ..te.tensor import Tensor
from .accesses import dimension, domain_axes, find_axes, max_reads
from .operations import TRIVIAL, is_plain, weight

__all__ = ["split_phases"]

MOST_STAGES = 64
"""Phases of one sum."""


def split_phases(s: Schedule, exact: bool) -> None:
    """Split such sums of a schedule that nobody has touched. exact: not those of which that is another order."""
    if not any(
        isinstance(node, FloorMod) for stage in s.stages for value in stage.op.values for node in post_order(value)
    ):
        return
    for op in [stage.op for stage in s.stages if stage.op.reduction is not None and stage.op.num_outputs == 1]:
        extents = [constant_extent(axis) for axis in (*op.axis, *op.reduce_axis)]
        if not all(extents) or op.calls_intrinsic or any(domain_axes(axis) for axis in op.reduce_axis):
            continue
        with s.attempt() as attempt:
            taken = _split_sum(s, op)
        if not taken or exact and not stays_exact(attempt):
            s.undo(attempt)


def _split_sum(s: Schedule, op: Operation) -> bool:
    """Split one sum, and what it alone reads; return whether that leaves terms out."""
    for head in s[op].producers:
        if _is_own(head) and _inline_conditions(head):
            _split_tensor(s, head.op.output(0), _own_steps(head))
            head.compute_inline()
        elif (
            _is_own(head)
            and weight(head.op) <= TRIVIAL
            and not any(isinstance(node, IfThenElse | Select) for node in post_order(*head.op.values))
        ):
            head.compute_inline()
    return _split_tensor(s, op.output(0), _steps(s[op]))


def _is_own(stage: Stage) -> bool:
    """Return whether one other stage alone reads it, and can have its expression."""
    return is_plain(stage.op) and not stage.is_output and len(stage.readers) == 1


def _inline_conditions(stage: Stage) -> bool:
    """Inlines into a stage what it alone reads of conditions of divisibility; returns whether there are any."""
    for producer in stage.producers:
        if _is_own(producer) and max_reads(producer.op, [stage.op]) == 1 and _inline_conditions(producer):
            producer.compute_inline()
    return bool(_divisions(expand_inlined(stage)))


def _divisions(value: Expr) -> list[FloorMod]:
    """The remainders by numbers that conditions ask for."""
    return [
        node.a
        for node in post_order(value)
        if isinstance(node, EQ)
        and isinstance(node.a, FloorMod)
        and isinstance(node.a.b, IntImm)
        and isinstance(node.b, IntImm)
    ]


def _own_steps(head: Stage) -> dict[int, int]:
    """Steps of the data axes, by their places, of whose remainders by a number alone it depends what an element is; with the number."""
    steps: dict[int, int] = {}
    for division in _divisions(expand_inlined(head)):
        assert isinstance(division.b, IntImm)
        modulus = division.b.value
        left = dimension(division.a).remainder(modulus)
        for atom, by in left.items() if len(left) == 1 else ():
            if isinstance(atom, IterVar) and atom in head.op.axis:
                steps.setdefault(head.op.axis.index(atom), modulus // gcd(by, modulus))
    return steps


def _steps(stage: Stage) -> dict[int, int]:
    """Steps of the data axes of a sum, by their places, in whose phases reduce axes take steps, or places that are read are told without
    remainders; with the number of phases."""
    value = expand_inlined(stage)
    steps: dict[int, int] = {}
    for at, axis in enumerate(stage.op.axis):
        found = next(congruences(value, axis, stage.op.reduce_axis), None)
        step = found.modulus // gcd(found.of_axis, found.modulus) if found is not None else 1
        if step == 1 or find_omitted(value, axis, step) is None:
            step = _period(value, axis, stage.op.reduce_axis)
        if step > 1:
            steps[at] = step
    return steps


def _period(value: Expr, axis: IterVar, reduced: Sequence[IterVar]) -> int:
    """Return the number of values of an axis after which the places read begin anew, of those that go on along a reduce axis; 1 where
    none do. That is so of gradients of strided convolutions, w[y % 2 + 2 * k]."""
    for load in collect_loads(value):
        for index in load.indices:
            for node in post_order(index) if not find_axes(index).isdisjoint(reduced) else ():
                if isinstance(node, FloorMod) and isinstance(node.b, IntImm):
                    left = dimension(node.a).remainder(node.b.value)
                    if left.keys() == {axis}:
                        return node.b.value // gcd(left[axis], node.b.value)
    return 1


def _split_tensor(s: Schedule, tensor: Tensor, steps: dict[int, int]) -> bool:
    """The phases of a tensor along several axes, as many as are few; returns whether there are any."""
    parts: list[Tensor] = [tensor]
    for at, step in steps.items():
        if step > MOST or len(parts) * step > MOST_STAGES:
            continue
        phases: list[Tensor] = []
        for part in parts:
            stage = s[part]
            name = f"{stage.op.name}.phase"
            phases += [
                each
                for each in s.polyphase(stage.op.output(0), stage.op.axis[at], step)
                if each.op.name.startswith(name)
            ]
            if part is not tensor:
                stage.compute_inline()
        parts = phases
    return parts != [tensor]
