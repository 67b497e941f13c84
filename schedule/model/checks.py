"""Preconditions that several primitives share, each with its error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from ...base.errors import user_source
from ...ir.buffer import SCOPES, is_scope
from ...ir.expr import IterVar
from ...te.tensor import Tensor
from ..errors import ScanLoopsStay, UnknownScope, WrongArgument
from .axes import outline
from .group import Group
from .stage import Stage

__all__ = ["require_list", "check_scope", "enclosing_parallel", "refuse_ordered", "wrong_stage"]


def check_scope(scope: object, doing: str) -> str:
    """`scope`, if it is one ("" means the default of its place). Raises UnknownScope (TW0216)."""
    if not isinstance(scope, str) or (scope and not is_scope(scope)):  # "" is the default of its place
        raise UnknownScope(
            doing,
            reason=f"{scope!r} is not a storage scope"[:200],
            called=user_source(),
            allowed=", ".join(f'"{scope}"' for scope in SCOPES) + ', or "" for the default of its place',
            fix='"local" for what one thread uses, "shared" for a block of threads, "global" for all',
        )
    return scope


def require_list(given: Any) -> list[Any]:
    """Return what was given as a list or a tuple, or as one thing."""
    return list(cast("Sequence[Any]", given)) if isinstance(given, (list, tuple)) else [given]


def wrong_stage(stage: Stage | Group, given: object, doing: str) -> WrongArgument:
    """The error for something that should be a stage."""
    return WrongArgument(
        f"{doing} {stage.name}",
        reason=f"expected a stage, got {type(given).__name__}",
        called=user_source(),
        fix=f"pass s[{given.name}]" if isinstance(given, Tensor) else "pass s[T], T being a tensor or an operation",
    )


def refuse_ordered(stage: Stage, axes: Sequence[IterVar], doing: str) -> None:
    """Raise ScanLoopsStay where one of `axes` is a scan's time, or a thread around it."""
    fixed = next(
        # threads of a scan stand around its steps
        (axis for axis in axes if axis.kind == "ordered" or (axis.kind == "thread" and stage.op.is_stepwise)),
        None,
    )
    if fixed is not None:
        why = "each step is computed from earlier ones" if fixed.kind == "ordered" else "it stands around all steps"
        raise ScanLoopsStay(
            f"{doing} '{fixed.name}' of stage {stage.name}",
            reason=f"{fixed.name} is a loop of a scan: {why}",
            declared=stage.op.source,
            called=user_source(),
            loops=outline(stage, [fixed]),
            fix="schedule the loops of the updates, s[update].op.axis; for a tile of steps (s[update].compute_at(s[scan], outer), outer "
            "being a loop that time was split into) the first of them, its time, too",
        )


def enclosing_parallel(stage: Stage) -> tuple[Stage, IterVar] | None:
    """The innermost parallel loop of other stages that the stage is computed in, with its stage."""
    while stage.attach_type in ("at", "with") and stage.attach_stage is not None:  # outwards, from loop to loop
        at, stage = stage.attach_axis, stage.attach_stage
        innermost = None
        for axis in stage.leaf_iter_vars:
            if stage.attr(axis).kind == "parallel":  # the innermost that stands around the attach point
                innermost = axis
            if axis is at:
                break
        if innermost is not None:
            return stage, innermost
    return None
