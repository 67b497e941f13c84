"""create_group: stages that are placed together, and where a group of them is computed.

g = s.create_group(outputs=C, inputs=A)       # the stages on the ways from A to C, here B and C
g.compute_at(s[D], D.op.axis[0])              # each of them that stands at the root of the group, at that loop
"""

# pyright: reportUnnecessaryIsInstance=false
from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...base.errors import user_source
from ...ir.expr import IterVar
from ...te.operation import Operation
from ...te.tensor import Tensor
from ..errors import BadGroup, CannotAttach
from ..model.checks import outline, require_list, wrong_stage
from ..model.foreign import AXIS, FLAG, GROUP, STAGE, TENSORS
from ..model.group import Group, chain
from ..model.methods import GroupPrimitives, SchedulePrimitives
from ..model.primitive import Attempt, Drawer, Try, primitive
from ..model.schedule import Schedule
from ..model.stage import Stage
from .compute_at import check_attachable

__all__ = ["create_group"]


def _tries(stage: Stage) -> Iterator[Try]:
    inputs = [tensor for tensor in stage.op.input_tensors if tensor in stage.schedule]
    if inputs:
        names = ", ".join(tensor.name for tensor in inputs)
        yield f"from {names}", lambda one: one.schedule.create_group(list(one.op.outputs), inputs)


def _draw(drawer: Drawer) -> Attempt | None:
    """A stage, with those that only it reads or not, as one; or such a group put to a loop of its reader."""
    unplaced = [group for group in drawer.s.groups if group.own_placement.type == "root" and group.members]
    if unplaced and drawer.chance(0.7):
        group = unplaced[-1]
        last = group.members[-1]
        drawer.about(last)
        readers = [reader for reader in drawer.readers(last) if reader.leaf_iter_vars]
        if not readers:
            return None
        axis = drawer.pick(readers[0].leaf_iter_vars)
        return f"{group} at {axis.name} of {readers[0].name}", lambda: group.compute_at(readers[0], axis)
    stage = drawer.some_stage(
        lambda stage: not stage.is_output and stage.op.input_tensors and len(drawer.readers(stage)) == 1
    )
    if stage is None:
        return None
    inputs, whole = list(stage.op.input_tensors), drawer.chance(0.5)
    return (
        f"create_group({stage.name}, {inputs}, {whole})",
        lambda: drawer.s.create_group(stage.op.output(0), inputs, whole),
    )


@primitive(
    SchedulePrimitives,
    "stages",
    tries=_tries,
    draw=_draw,
    weight=1,
    rare=True,
    foreign={"outputs": TENSORS, "inputs": TENSORS, "include_inputs": FLAG},
)
def create_group(
    schedule: Schedule,
    outputs: Tensor | Operation | Sequence[Tensor | Operation],
    inputs: Tensor | Operation | Sequence[Tensor | Operation],
    include_inputs: bool = False,
) -> Group:
    """A group of the stages on the ways from `inputs` to `outputs`, which its compute_at places together.

        for i in 64: B[i] = A[i] + 1       for i in 64:                   # s.create_group(C, A).compute_at(s[D], i)
        for i in 64: C[i] = B[i] * 2   →       B[0] = A[i] + 1
        for i in 64: D[i] = C[i] - 3           C[0] = B[0] * 2
                                               D[i] = C[0] - 3

    Groups contain each other or have nothing in common.

    Parameters
    ----------
    outputs : Tensor, Operation or sequence of these
        The last stages, which belong to the group.
    inputs : Tensor, Operation or sequence of these
        The stages that the group begins behind.
    include_inputs : bool, default False
        Whether the inputs' stages belong to it; placeholders never do.

    Returns
    -------
    Group
        The group.

    Raises
    ------
    BadGroup (TW0250)
        The stages cannot be placed together.
    UnknownStage (TW0201)
        The schedule has no such tensor.
    """
    ends, begins = (_stages(schedule, given, what) for given, what in ((outputs, "outputs"), (inputs, "inputs")))
    members = [
        stage for stage in _intermediate_stages(schedule, ends, begins, bool(include_inputs)) if not stage.op.is_given
    ]
    if not members:
        raise _bad(
            "no stage lies between them",
            f"outputs {_names(ends)}, inputs {_names(begins)}",
            "name what the first stages of the group read as inputs, and its last stages as outputs",
        )
    chains = [chain(stage.group) for stage in members]
    outer = next((axis for axis in chains[0] if all(axis in other for other in chains)), None)
    moved: dict[Stage | Group, None] = {}
    for stage in members:
        inside = chain(stage.group)
        depth = inside.index(outer) if outer is not None else len(inside)
        moved[inside[depth - 1] if depth else stage] = None
    _check_complete(schedule, moved, members)
    _check_contained(moved, members)
    schedule.record(
        "create_group",
        outputs=tuple(stage.op.output(0) for stage in ends),
        inputs=tuple(stage.op.output(0) for stage in begins),
        include_inputs=bool(include_inputs),
    )
    group = schedule.GROUP(schedule, outer)
    schedule.groups.append(group)
    for member in moved:
        if isinstance(member, Group):
            member.outer = group
        else:
            member.group = group
    return group


def _bad(reason: str, shown: str, fix: str) -> BadGroup:
    return BadGroup(
        "cannot make a group of these stages", reason=f"{reason}: {shown}"[:300], called=user_source(), fix=fix
    )


def _names(stages: Sequence[Stage]) -> str:
    return ", ".join(stage.name for stage in stages) or "none"


def _stages(schedule: Schedule, given: Any, what: str) -> list[Stage]:
    listed = require_list(given)
    wrong = next((member for member in listed if not isinstance(member, (Tensor, Operation))), None)
    if wrong is not None or not listed:
        raise _bad(
            f"the {what} are tensors",
            "none given" if not listed else repr(wrong),
            "s.create_group(outputs=[C], inputs=[A])",
        )
    return list(dict.fromkeys(schedule[member] for member in listed))


def _intermediate_stages(
    schedule: Schedule, ends: list[Stage], begins: list[Stage], include_inputs: bool
) -> list[Stage]:
    """The stages on the ways from `begins` to `ends`, as TVM's GetSubGraph: nothing behind the begins is looked at."""
    edge = set(begins)
    seen: set[Stage] = set()
    stack = list(ends)
    while stack:
        stage = stack.pop()
        if stage not in seen:
            seen.add(stage)
            if stage not in edge:
                stack += [schedule[tensor] for tensor in stage.op.input_tensors]
    reaching = edge & seen
    for stage in schedule.stages:  # producers first
        if (
            stage in seen
            and stage not in edge
            and any(schedule[tensor] in reaching for tensor in stage.op.input_tensors)
        ):
            reaching.add(stage)
    return [stage for stage in schedule.stages if stage in reaching and (include_inputs or stage not in edge)]


def _check_complete(schedule: Schedule, moved: dict[Stage | Group, None], members: list[Stage]) -> None:
    """A group that would go into the new one goes as a whole."""
    for member in moved:
        if isinstance(member, Group):
            outside = [stage for stage in schedule.stages if member.holds(stage) and stage not in members]
            if outside:
                raise _bad(
                    "groups contain each other, or have nothing in common",
                    f"{member!r} is partly among {_names(members)}, without {_names(outside)}",
                    f"take {_names(outside)} in as well, or leave {member.name} out",
                )


def _check_contained(moved: dict[Stage | Group, None], members: list[Stage]) -> None:
    """Check that stages placed at a loop stay within the group that it belongs to."""
    for member in moved:
        at = member.own_placement.stage
        if at is not None and at not in members:
            raise _bad(
                "a member is computed at a loop outside",
                f"{member.name}, at stage {at.name}",
                f"call compute_root() of {member.name} first, or take {at.name} into the group",
            )


@primitive(GroupPrimitives, "placement", foreign={"group": GROUP, "parent": STAGE, "scope": AXIS})
def compute_at(group: Group, parent: Stage, scope: IterVar) -> None:
    """Compute all members that were not placed themselves within an iteration of the loop `scope` of `parent`.

    parent: a stage, s[D], that reads results of the group. scope: a loop of it.

    Raises CannotAttach (TW0215), NestedParallel (TW0209), AxisIsNoLoop (TW0205), NotAnAxisOfStage (TW0202), WrongArgument
    (TW0222).
    """
    if not isinstance(parent, Stage):
        raise wrong_stage(group, parent, "cannot place")
    _check_parent(group, parent)
    for stage in group.schedule.stages:
        if group.holds(stage) and _is_at_root(stage, group):
            check_attachable(stage, parent, scope)
    group.schedule.record("compute_at", group=group, parent=parent, scope=scope)
    group.attach("at", parent, scope)


@primitive(GroupPrimitives, "placement", foreign={"group": GROUP})
def compute_root(group: Group) -> None:
    """Compute its members before the stages that read them, at the root of the group around it where there is one."""
    group.schedule.record("compute_root", group=group)
    group.attach("root")


def _check_parent(group: Group, parent: Stage) -> None:
    around = f"it lies in {group.outer!r}, and {parent.name} does not" if group.outer is not None else ""
    reason = (
        f"{parent.name} belongs to it"
        if group.holds(parent)
        else (around if group.outer is not None and not group.outer.holds(parent) else "")
    )
    if reason:
        raise CannotAttach(
            f"cannot compute {group!r} at stage {parent.name}",
            reason=reason,
            declared=parent.op.source,
            called=user_source(),
            loops=outline(parent),
            fix="name a stage that reads the results of the group"
            if group.holds(parent)
            else "place the group around it",
        )


def _is_at_root(stage: Stage, group: Group) -> bool:
    """Return whether the placement of `group` is that of a stage in it."""
    inside = chain(stage.group)
    return all(member.own_placement.type == "root" for member in (stage, *inside[: inside.index(group)]))
