"""compute_with: a stage is computed in loops that are another stage's too.

Halide's name for it; elsewhere it is horizontal fusion, or fusion of loops. What both read is then read once: each iteration does
what the iteration of the one did, then what that of the other did, while it lies in a register or in a near cache.
"""

# pyright: reportUnnecessaryIsInstance=false
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...base.errors import user_source
from ...ir.expr import IterVar
from ..errors import CannotComputeWith
from ..model.checks import find_leaf, outline, refuse_lost_annotation, wrong_stage
from ..model.foreign import AXIS, STAGE
from ..model.methods import StagePrimitives
from ..model.primitive import Attempt, Drawer, Try, primitive
from ..model.stage import Stage

__all__ = ["compute_with"]


def _others(stage: Stage) -> list[Stage]:
    """The stages beside a stage that have loops."""
    return [
        other
        for other in stage.schedule.stages
        if other is not stage
        and other.op.values
        and other.leaf_iter_vars
        and other.attach_type in ("root", "at")
        and not any(each.reads(stage) or stage.reads(each) for each in _collect_sharing(other))
    ]


def _collect_sharing(stage: Stage) -> list[Stage]:
    """A stage and those that are computed with it."""
    return [stage, *(each for each in stage.schedule.find_computed(stage) if each.attach_type == "with")]


def _tries(stage: Stage) -> Iterator[Try]:
    if stage.op.values:
        for other in _others(stage):
            at = stage.schedule.find_place(other)
            for axis in other.leaf_iter_vars[: len(stage.leaf_iter_vars)]:
                yield (
                    f"{other.name}, {axis.name}",
                    lambda one, at=at, axis=axis: one.compute_with(one.schedule.stages[at], axis),
                )


def _draw(drawer: Drawer) -> Attempt | None:
    def fits(stage: Stage) -> bool:
        return bool(stage.op.values) and any(_alike(drawer, stage, other) for other in _others(stage))

    stage = drawer.some_stage(fits)
    if stage is None:
        return None
    other = drawer.pick([each for each in _others(stage) if _alike(drawer, stage, each)])
    axis = drawer.pick(other.leaf_iter_vars[: _alike(drawer, stage, other)])
    return f"compute {stage.name} with {axis.name} of {other.name}", lambda: stage.compute_with(other, axis)


def _alike(drawer: Drawer, stage: Stage, other: Stage) -> int:
    """Return the number of outer loops of both that run equally often."""
    count = 0
    for own, theirs in zip(stage.leaf_iter_vars, other.leaf_iter_vars, strict=False):
        extent = drawer.extent(stage, own)
        if extent is None or extent != drawer.extent(other, theirs):
            break
        count += 1
    return count


@primitive(
    StagePrimitives, "placement", tries=_tries, draw=_draw, weight=4, rare=True, foreign={"other": STAGE, "axis": AXIS}
)
def compute_with(stage: Stage, other: Stage, axis: IterVar) -> None:
    """Compute the stage in the loops of another, from the outermost to `axis`, so that what both read is read once.

        for i in 64:                           for i in 64:                          # s[C].compute_with(s[B], k)
            B[i] = 0                               C[i] = 0
            for k in 32: B[i] += A[i, k]           B[i] = 0
        for i in 64:                       →       for k in 32:
            C[i] = 0                                   B[i] += A[i, k]
            for k in 32: C[i] += A[i, k] ** 2          C[i] += A[i, k] ** 2

    other: a stage, s[B]; neither may read the other, directly or through other stages. axis: a loop of it; where that is split
    later, it is the inner one, where it is fused, the fused one. The stage is computed wherever `other` is, after it in each
    iteration; its own loops in these places become the shared ones. They run as those of `other` do (in parallel, in lanes, on
    threads) and equally often, which is looked at when the schedule is lowered (LoopsNotShared, TW0342): where extents differ,
    split both by one factor, and what is left over is guarded. Stages that both read can be computed at a shared loop of
    `other`. No bit of any result changes.

    Raises CannotComputeWith (TW0229), AxisIsNoLoop (TW0205), NotAnAxisOfStage (TW0202), AnnotationWouldBeLost (TW0213),
    WrongArgument (TW0222).
    """
    if not isinstance(other, Stage):
        raise wrong_stage(stage, other, "cannot compute, with what is not a stage,")
    _check(stage, other)
    place = find_leaf(other, axis, f"cannot compute {stage.name} with")
    if place >= len(stage.leaf_iter_vars):
        raise _bad(
            stage,
            other,
            f"{axis.name} is loop {place + 1} of {other.name} from outside, and {stage.name} has "
            f"{len(stage.leaf_iter_vars)}",
            f"share a loop further out, or split loops of {stage.name} first",
        )
    for own, theirs in zip(stage.leaf_iter_vars[: place + 1], other.leaf_iter_vars, strict=False):
        if not stage.attr(own).has_kind(other.attr(theirs)) and replace(stage.attr(own), notes=()).annotates_loop:
            refuse_lost_annotation(
                stage, own, "cannot share", f"annotate {theirs.name} of {other.name}: that is how both run"
            )
    stage.schedule.record("compute_with", stage, other=other, axis=axis)
    stage.attach("with", other, axis)


def _bad(stage: Stage, other: Stage, reason: str, fix: str) -> CannotComputeWith:
    return CannotComputeWith(
        f"cannot compute {stage.name} with stage {other.name}",
        reason=reason,
        declared=stage.op.source,
        called=user_source(),
        loops=outline(other),
        fix=fix,
    )


def _check(stage: Stage, other: Stage) -> None:
    name, leader = stage.name, other.name
    if other.schedule is not stage.schedule:
        raise _bad(stage, other, f"stage {leader} is of another schedule", "use the stages of one schedule")
    if other is stage:
        raise _bad(stage, other, "it is one stage", "name a stage that reads the same tensors")
    for each in (stage, other):
        if not each.op.values or each.op.calls_intrinsic:
            raise _bad(
                stage,
                other,
                f"{each.name} is {each.op.noun}, no expression for each element: its loops are its own",
                f's.cache_read({each.name}, "local", readers) gives a stage with loops' if each.op.is_given else "",
            )
        if each.attach_type in ("inline", "inlined"):
            raise _bad(
                stage, other, f"{each.name} is inlined, so it has no loops", f"s[{each.name}].compute_root() first"
            )
    for each in _collect_sharing(other):
        first, second = (stage, each) if stage.reads(each) else (each, stage)
        if first.reads(second):
            raise _bad(
                stage,
                other,
                f"{first.name} reads {second.name}, which has to be computed before",
                f"s[{second.name}].compute_at(s[{first.name}], axis) computes what an iteration of {first.name} needs",
            )
    if other.attach_type == "with":
        where = other.attach_stage.name if other.attach_stage is not None else "another"
        raise _bad(
            stage, other, f"{leader} itself is computed with {where}", f"s[{name}].compute_with(s[{where}], axis)"
        )
    follower = next(iter(_collect_sharing(stage)[1:]), None)
    if follower is not None:
        raise _bad(
            stage,
            other,
            f"{follower.name} is computed with {name}",
            f"s[{follower.name}].compute_with(s[{leader}], axis) first",
        )
    if stage.group is not None and not stage.group.holds(other):
        raise _bad(
            stage, other, f"{name} belongs to {stage.group!r}, and {leader} does not", "share loops within the group"
        )
