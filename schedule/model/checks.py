"""Preconditions that several primitives share, each with its error: above all the loop that a primitive speaks of, found and shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ...base.errors import ScheduleError, user_source
from ...ir import Expr, IntImm, IterVar, Range, free_vars
from ...ir.buffer import SCOPES, is_scope
from ...te.tensor import Tensor
from ..errors import (
    AnnotationWouldBeLost,
    AxisIsNoLoop,
    BadReorder,
    NotAnAxisOfStage,
    ScanLoopsStay,
    UnknownScope,
    WrongArgument,
)
from .group import Group
from .relations import pass_down_range, spread_down, spread_up
from .stage import Stage

if TYPE_CHECKING:
    from .stage import Stage

__all__ = [
    "check_scope",
    "declared_ranges",
    "derived_roots",
    "describe_fate",
    "enclosing_parallel",
    "extent_text",
    "find_axis",
    "find_leaf",
    "find_place",
    "outline",
    "refusal",
    "refuse_lost_annotation",
    "refuse_ordered",
    "require_list",
    "sort_by_program",
    "wrong_stage",
]

ErrorT = TypeVar("ErrorT", bound=ScheduleError)


def find_place(axes: Sequence[IterVar], axis: object) -> int:
    """The place of `axis` among `axes` by identity, or -1."""
    for at, candidate in enumerate(axes):
        if candidate is axis:  # axes are told apart by identity: two may have one name
            return at
    return -1


def declared_ranges(stage: Stage) -> dict[IterVar, Range]:
    """The range of every axis when the whole declared domain is computed (an attached stage may compute less)."""
    # without a domain, as thread axes, nothing is known
    roots = {axis: axis.dom for axis in stage.root_iter_vars if axis.dom is not None}
    return pass_down_range(stage.relations, roots)


def extent_text(extent: Expr | None) -> str:
    return "?" if extent is None else str(extent)


def outline(stage: Stage, marked: Sequence[IterVar] = ()) -> str:
    """The loops of the stage, outermost first, with a caret under the names of the marked ones."""
    ranges, lines = declared_ranges(stage), list[str]()
    for depth, axis in sort_by_program(stage):
        notes, attr = list[str](), stage.iter_var_attrs.get(axis)
        if axis.kind == "reduce":
            notes.append("reduce")
        if attr is not None and attr.kind != "serial":
            notes.append(attr.bind_thread.thread_tag if attr.bind_thread is not None else attr.kind)
        extent = extent_text(ranges[axis].extent if axis in ranges else None)
        line = f"{'  ' * depth}for {axis.name} in {extent}:"
        lines.append(f"{line:<22}  # {', '.join(notes)}" if notes else line)
        if find_place(marked, axis) >= 0:
            lines.append("  " * depth + "    " + "^" * len(axis.name))
    return "\n".join(lines)


def refusal(
    kind: type[ErrorT], stage: Stage, headline: str, marked: Sequence[IterVar], reason: str, fix: str
) -> ErrorT:
    """The error of a primitive that the stage does not admit, with its loops, those that it is about marked."""
    return kind(
        headline,
        reason=reason,
        declared=stage.op.source,
        called=user_source(),
        loops=outline(stage, marked),
        fix=fix,
    )


def sort_by_program(stage: Stage) -> list[tuple[int, IterVar]]:
    """The loops with the number of loops around each. Those that were declared stand as they do there."""
    declared, leaves = stage.op.declared_loops, stage.leaf_iter_vars
    # by identity of the nest: loops of one nest stand directly inside each other
    nest_of = {leaf: declared.axis_chain(roots[0]) if (roots := derived_roots(stage, leaf)) else () for leaf in leaves}
    rows = list(enumerate(leaf for leaf in leaves if not nest_of[leaf]))
    inside: dict[tuple[IterVar, ...], int] = {(): len(rows)}
    for nest, around in declared.nests.items():
        mine = [leaf for leaf in leaves if nest_of[leaf] is nest]
        rows += enumerate(mine, inside[around])  # those without a nest stand around all
        inside[nest] = inside[around] + len(mine)
    return rows


def describe_fate(stage: Stage, axis: IterVar) -> tuple[str, tuple[IterVar, ...]]:
    """Return what a primitive made of an axis that is no longer a loop, as a sentence, and the loops that stand for it now."""
    sentences, current = list[str](), [axis]
    for relation in stage.relations:
        hit = next((axis for axis in current if any(axis is parent for parent in relation.parents)), None)
        if hit is not None:
            sentences.append(relation.sentence(hit) + (f" at {relation.source}" if relation.source is not None else ""))
            # what an axis became may have become something else
            current = [axis for axis in current if axis is not hit] + list(relation.children)
    leaves = tuple(axis for axis in current if find_place(stage.leaf_iter_vars, axis) >= 0)
    return ", then ".join(sentences), leaves


def find_axis(stage: Stage, axis: object, doing: str) -> IterVar:
    """`axis`, if it is one of the stage's. `doing` begins the headline of the error: "cannot split".

    Raises WrongArgument (TW0222) and NotAnAxisOfStage (TW0202)."""
    if not isinstance(axis, IterVar):
        raise WrongArgument(
            f"{doing} {axis!r} of stage {stage.name}"[:200],
            reason=f"expected an axis, got {type(axis).__name__}",
            declared=stage.op.source,
            called=user_source(),
            loops=outline(stage),
            fix=f"pass them one by one: *s[{stage.name}].op.axis"
            if isinstance(axis, (list, tuple))
            else f"pass one of s[{stage.name}].leaf_iter_vars",
        )
    if find_place(stage.all_iter_vars, axis) < 0:
        raise _foreign(stage, axis, doing)
    return axis


def _foreign(stage: Stage, axis: IterVar, doing: str) -> NotAnAxisOfStage:
    schedule, name = stage.schedule, stage.name
    fix = f"use an axis of {name}: {_names(stage.leaf_iter_vars)}"
    # the latest first: a name may have been taken again
    gone = next((sentence for retired, sentence in reversed(schedule.retired) if retired is axis), None)
    owner = next((stage for stage in schedule.stages if find_place(stage.all_iter_vars, axis) >= 0), None)
    if owner is not None:
        reason = f"{axis.name} is an axis of stage {owner.name}, not of {name}"
    elif gone is not None:
        reason = gone
    elif axis.kind == "thread":
        reason = f"{axis.name} is a thread axis, not a loop of {name}"
        fix = f"bind a loop to it: s[{name}].bind({_names(stage.leaf_iter_vars[:1])}, {axis.name})"
    else:
        # by its name alone it could be one of them
        reason = f"{axis.name} is not an axis of any stage of this schedule (was it made for another schedule?)"
    if not stage.leaf_iter_vars:
        fix = f"{name} has no loops of its own; schedule the stages that read it" if stage.op.is_given else ""
    return NotAnAxisOfStage(
        f"{doing} '{axis.name}' of stage {name}",
        reason=reason,
        declared=stage.op.source,
        called=user_source(),
        loops=outline(stage),
        fix=fix,
    )


def find_leaf(stage: Stage, axis: object, doing: str) -> int:
    """The place of `axis` among the stage's loops.

    Raises WrongArgument (TW0222), NotAnAxisOfStage (TW0202) and, where the loop is gone, AxisIsNoLoop (TW0205), which says what
    became of it."""
    var = find_axis(stage, axis, doing)
    place = find_place(stage.leaf_iter_vars, var)
    if place < 0:  # an axis of the stage that is no loop any more
        became, leaves = describe_fate(stage, var)
        raise AxisIsNoLoop(
            f"{doing} '{var.name}' of stage {stage.name}",
            reason=became,
            declared=stage.op.source,
            called=user_source(),
            loops=outline(stage, leaves),
            fix=f"use {_names(leaves, ' or ')}",
        )
    return place


def _names(axes: Sequence[IterVar], joined: str = ", ") -> str:
    return joined.join(axis.name for axis in axes)


def refuse_lost_annotation(stage: Stage, axis: IterVar, doing: str, then: str) -> None:
    """Raise AnnotationWouldBeLost where the loop `axis`, about to vanish, is annotated. `then` is the fix."""
    attr = stage.iter_var_attrs.get(axis)
    if attr is None or not attr.annotates_loop:
        return
    kind = attr.kind if attr.bind_thread is None else f"bound to {attr.bind_thread.thread_tag}"
    carried = (
        f"is {kind}"
        if attr.kind != "serial"  # the kind says more than a pragma
        else (f"has the pragma {attr.pragmas[0][0]}" if attr.pragmas else str(attr.notes[0]))
    )
    raise AnnotationWouldBeLost(
        f"{doing} '{axis.name}' of stage {stage.name}",
        reason=f"{axis.name} {carried}, which would be lost with the loop",
        declared=stage.op.source,
        called=user_source(),
        loops=outline(stage, [axis]),
        fix=then,
    )


def derived_roots(stage: Stage, axis: IterVar) -> tuple[IterVar, ...]:
    """The root axes that `axis` derives from."""
    # marks spread from the loop up to the declared axes
    marks = spread_up(stage.relations, {axis: True}, lambda a, b: a or b)
    return tuple(root for root in stage.root_iter_vars if root in marks)


def dependences(stage: Stage) -> list[tuple[IterVar, IterVar]]:
    """Pairs of root axes of which the second's domain changes with the first: its loops lie within the first's."""
    roots = stage.root_iter_vars
    return [
        (first, second)
        for second in roots
        if second.dom is not None and not isinstance(second.dom.extent, IntImm)  # constants depend on nothing
        for var in {*free_vars(second.dom.begin), *free_vars(second.dom.extent)}
        for first in roots
        if first is var
    ]


def refuse_swapped(stage: Stage, leaves: Sequence[IterVar], doing: str) -> None:
    """Raise BadReorder where, with `leaves` as loops, one whose extent changes with another would not lie within it."""
    for first, second in dependences(stage):
        outer, inner = (spread_down(stage.relations, {root: True}, lambda a, b: a or b) for root in (first, second))
        last = max(at for at, leaf in enumerate(leaves) if leaf in outer)  # the innermost of the outer axis's loops
        offending = next((leaf for leaf in leaves[:last] if leaf in inner), None)
        if offending is not None:
            raise BadReorder(
                f"{doing} the loops of stage {stage.name}",
                reason=f"the extent of {second.name} changes with {first.name}: {offending.name} has to stay within "
                f"{leaves[last].name}",
                declared=stage.op.source,
                called=user_source(),
                loops=outline(stage, [leaves[last], offending]),
                fix=f"keep the loops over {second.name} inside those over {first.name}",
            )


def mixes_data_and_reduce(stage: Stage, axis: IterVar) -> bool:
    """Return whether the loop runs over data axes and reduce axes at once, as a fusion of both does."""
    return len({root.kind for root in derived_roots(stage, axis)}) > 1  # as a fusion of both kinds


def related_axes(stage: Stage, axis: IterVar) -> dict[IterVar, bool]:
    """Every axis that relations lead to from `axis`, up to roots and down again: a loop fused of parts joins their roots."""
    related: dict[IterVar, bool] = {}
    grown = {axis: True}
    while len(grown) > len(related):  # until neither direction adds an axis
        related = grown
        up = spread_up(stage.relations, related, lambda a, b: a or b)
        grown = spread_down(stage.relations, up, lambda a, b: a or b)
    return grown


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
