"""compute_at: a stage is computed within an iteration of a loop of another."""

# pyright: reportUnnecessaryIsInstance=false
from __future__ import annotations

from collections.abc import Iterator

from ...base.errors import user_source
from ...ir.expr import IterVar
from ..errors import CannotAttach, NestedParallel
from ..model.checks import enclosing_parallel, find_leaf, outline, wrong_stage
from ..model.foreign import AXIS, STAGE
from ..model.hybrid_loops import refuse_hybrid
from ..model.methods import StagePrimitives
from ..model.primitive import Attempt, Drawer, Try, primitive
from ..model.stage import Stage

__all__ = ["check_attachable", "compute_at"]


def _tries(stage: Stage) -> Iterator[Try]:
    if stage.op.is_given:
        return
    for at, reader in enumerate(stage.schedule.stages):
        if reader.reads(stage):
            for axis in reader.leaf_iter_vars:
                yield (
                    f"{reader.name}, {axis.name}",
                    lambda one, at=at, axis=axis: one.compute_at(one.schedule.stages[at], axis),
                )


def _draw(drawer: Drawer) -> Attempt | None:
    stage = drawer.some_stage(lambda stage: not stage.is_output and drawer.readers(stage))
    if stage is None:
        return None
    readers = drawer.readers(stage)
    # several readers seldom lie within one loop: nearly all such draws are refused
    if len(readers) > 1 and drawer.chance(0.9):
        return None
    parent = readers[0]
    if parent.attach_type in ("inline", "inlined") or not parent.leaf_iter_vars:
        return None
    has_parallel = any(stage.attr(leaf).kind == "parallel" for leaf in stage.leaf_iter_vars)
    # a parallel loop inside of another is refused when both are known
    if has_parallel and drawer.chance(0.8):
        return None
    axis = drawer.pick(parent.leaf_iter_vars)
    return f"compute {stage.name} at {axis.name} of {parent.name}", lambda: stage.compute_at(parent, axis)


@primitive(StagePrimitives, "placement", tries=_tries, draw=_draw, weight=11, foreign={"parent": STAGE, "scope": AXIS})
def compute_at(stage: Stage, parent: Stage, scope: IterVar) -> None:
    """Compute what one iteration of the loop `scope` of `parent` needs, within that iteration.

        for i in 64:                       for i in 64:
            B[i] = A[i] + 1                    B: float32[1]
        for i in 64:               →           B[0] = A[i] + 1
            C[i] = B[i] * 2                    C[i] = B[0] * 2

    parent: a stage, s[C], that reads this one, directly or through others. scope: a loop of it; where that is split later,
    the place is in the inner loop, where it is fused, in the fused one. Every stage that reads this one has to lie within
    that loop, which is looked at when the schedule is lowered.

    Raises CannotAttach (TW0215), NestedParallel (TW0209), AxisIsNoLoop (TW0205), NotAnAxisOfStage (TW0202), WrongArgument
    (TW0222), NotOfHybridStages (TW0282).
    """
    if not isinstance(parent, Stage):
        raise wrong_stage(stage, parent, "cannot place stage")
    check_attachable(stage, parent, scope)
    _check_group(stage, parent)
    stage.schedule.record("compute_at", stage, parent=parent, scope=scope)
    stage.attach("at", parent, scope)


def check_attachable(stage: Stage, parent: Stage, axis: IterVar) -> None:
    """Raise where a stage cannot be computed at a loop of another."""
    _check_stage(stage, parent)
    find_leaf(parent, axis, f"cannot compute {stage.name} at")
    _check_parallel(stage, parent, axis)


def _check_stage(stage: Stage, parent: Stage) -> None:
    name, above = stage.name, parent.name
    if parent.schedule is not stage.schedule:
        raise _bad(stage, parent, f"stage {above} is of another schedule", "use the stages of one schedule")
    if stage is parent:
        raise _bad(stage, parent, f"{name} cannot be computed within its own loops", "name a stage that reads it")
    if stage.op.is_given:
        raise _bad(
            stage,
            parent,
            f"{name} is {stage.op.noun}, nothing is computed",
            f's.cache_read({name}, "local", readers) gives a copy that can be placed',
        )
    if stage.is_output:
        raise _bad(
            stage,
            parent,
            f"{name} is an output: all of it is computed once, whatever {above} reads",
            f'attach a stage that it reads, or s.cache_write({name}, "local") and attach the cache',
        )
    refuse_hybrid(
        parent,
        f"cannot compute {name} at",
        "its loops read any part of their inputs, under any condition",
        f"s[{name}].compute_root(), or s[{name}].compute_inline() where it is an expression",
    )
    if parent.attach_type in ("inline", "inlined"):
        raise _bad(
            stage, parent, f"{above} is inlined and has no loops", f"compute {name} at a stage that reads {above}"
        )
    if stage.reads(parent):
        raise _bad(
            stage,
            parent,
            f"{name} reads {above}, so it cannot be computed before {above} is done (a cycle)",
            f"s[{above}].compute_at(s[{name}], axis) is the possible direction",
        )
    if not parent.reads(stage):
        readers = [other.name for other in stage.schedule.stages if other.reads(stage)]
        raise _bad(
            stage,
            parent,
            f"{above} does not read {name}, directly or through other stages",
            f"name a stage that does: {', '.join(readers)}" if readers else "",
        )


def _check_group(stage: Stage, parent: Stage) -> None:
    """A stage is placed within its group."""
    if stage.group is not None and not stage.group.holds(parent):
        raise _bad(
            stage,
            parent,
            f"{stage.name} belongs to {stage.group!r}, and {parent.name} does not",
            f"place the group, which s.create_group returned: group.compute_at(s[{parent.name}], axis)",
        )


def _bad(stage: Stage, parent: Stage, reason: str, fix: str) -> CannotAttach:
    return CannotAttach(
        f"cannot compute {stage.name} at stage {parent.name}",
        reason=reason,
        declared=stage.op.source,
        called=user_source(),
        loops=outline(parent),
        fix=fix,
    )


def _check_parallel(stage: Stage, parent: Stage, axis: IterVar) -> None:
    """A parallel loop of the stage, or of what is attached to it, would end up within one of the parent's."""
    inner = next((leaf for leaf in stage.leaf_iter_vars if stage.attr(leaf).kind == "parallel"), None)
    if inner is None:
        return
    around: list[tuple[Stage, IterVar]] = []
    for leaf in parent.leaf_iter_vars:
        if parent.attr(leaf).kind == "parallel":
            around.append((parent, leaf))
        if leaf is axis:
            break
    above = around[-1] if around else enclosing_parallel(parent)
    if above is not None:
        raise NestedParallel(
            f"cannot compute {stage.name} at '{axis.name}' of stage {parent.name}",
            reason=f"{inner.name} of {stage.name} is parallel, and so is {above[1].name} of {above[0].name}, which "
            "would surround it: parallel loops do not nest",
            declared=stage.op.source,
            called=user_source(),
            loops=outline(parent, [axis]),
            fix=f"leave {inner.name} serial",
        )
