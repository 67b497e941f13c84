"""Arguments that are computed within loops of another stage whose iterations run at the same time.

Where the iterations compute parts that overlap, as those of a window do, an element is stored by several threads. Of one store of
one value that is harmless: all store the same. A reduction stores what it has summed so far.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...base.errors import user_source
from ...ir import Expr, Range, Var, post_order
from ...ir.analysis.dependence import Iterations
from ...ir.analysis.iterators import detect
from ...ir.ops import cast, const
from ..model.checks import outline
from .computation import Bounds, Loop, StageBounds
from .errors import RacingReduction

__all__ = ["check_races"]


def check_races(bounds: Bounds) -> None:
    """Raise RacingReduction (TW0344)."""
    for computation, stage in bounds.of.items():
        # stores of one value are the same from every thread
        if not computation.is_output or (computation.op.values and not computation.op.reduce_axis):
            continue
        own = {loop.thread for loop in stage.loops}
        for at, loop in enumerate(stage.enclosing):
            at_once = loop.attr.kind == "parallel" or (
                # a thread loop of its own divides the work among the threads
                loop.thread not in own and loop.thread.startswith(("blockIdx", "threadIdx"))
            )
            if at_once and loop.var is not None and _meet(stage, at, loop.var, bounds):
                raise _racing(stage, loop)


def _meet(stage: StageBounds, at: int, loop: Var, bounds: Bounds) -> bool:
    """Return whether different iterations of the loop at a place around a stage may compute one element."""

    def taken(each: Loop) -> dict[Var, Range | None]:
        return (
            {} if each.var is None else {each.var: Range(const(0, each.var.dtype), cast(each.extent, each.var.dtype))}
        )

    own: dict[Var, Range | None] = {}
    shared: dict[Var, Range] = {}
    for place, each in enumerate(stage.enclosing):
        if place >= at:  # the loop itself and what is inside vary between two iterations, what is outside does not
            own.update(taken(each))
        else:
            shared.update((var, within) for var, within in taken(each).items() if within is not None)
    indices: list[Expr] = []
    for axis in stage.computation.op.axis:
        within = stage.ranges[axis]
        own[inner := Var(axis.name, axis.dtype)] = Range(const(0, axis.dtype), cast(within.extent, axis.dtype))
        indices.append(within.begin + inner)
    every = {var: within for var, within in own.items() if within is not None}
    if _are_disjoint(stage, loop, every, bounds):  # digits of fused loops are beyond the distance test, and common
        return False
    return (
        Iterations(loop, own, shared=shared, analyzer=bounds.analyzer).between(tuple(indices), tuple(indices)).carried
    )


def _are_disjoint(stage: StageBounds, loop: Var, ranges: Mapping[Var, Range], bounds: Bounds) -> bool:
    """Return whether the parts begin at steps of iterators that are no shorter than they are, the digits of fused loops among them."""
    moving = [stage.ranges[axis] for axis in stage.computation.op.axis]
    begins = [bounds.analyzer.simplify(within.begin) for within in moving]
    read = {loop, *(node for begin in begins for node in post_order(begin) if isinstance(node, Var))}
    sums = detect(begins, {var: within for var, within in ranges.items() if var in read}, bijective=True)
    return len(sums) == len(begins) and all(
        bounds.analyzer.can_prove(split.scale >= within.extent)
        for each, within in zip(sums, moving, strict=True)
        for split in each.args
    )


def _racing(stage: StageBounds, loop: Loop) -> RacingReduction:
    name, consumer = stage.computation.name, loop.stage.name
    kind = f"bound to {loop.thread}" if loop.thread else "parallel"
    return RacingReduction(
        f"cannot lower: {name} is computed in the loop '{loop.axis.name}' of {consumer}, which is {kind}",
        reason=f"{name} is an argument, and its iterations may compute the same elements of it, which each of them sums up anew",
        declared=stage.computation.op.source,
        called=user_source(),
        loops=outline(loop.stage, [loop.axis]),
        fix=f"s[{name}].compute_root(), or do not pass {name}",
    )
