"""redeclare: a tensor as another declaration of its operator computes it, with its scans in one sweep, or a window by dimensions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from ...base.arguments import is_a
from ...base.errors import user_source
from ...te.operation import Operation, producers_first
from ...te.shape import same_extent
from ...te.sweep import find_sweep
from ...te.tensor import Tensor
from ...te.windows import has_separable_windows, separate_windows
from ..errors import BadAlternative
from ..model.checks import outline
from ..model.foreign import NAME, TENSORS
from ..model.layout import check_outputs, refuse_dangling_predicate
from ..model.methods import SchedulePrimitives
from ..model.primitive import Attempt, Drawer, Try, primitive
from ..model.schedule import Schedule
from ..model.stage import Stage

__all__ = ["EXACT", "SEPARABLE", "SWEEP", "offered_declarations", "redeclare"]

SWEEP = "sweep"
"""The name of scans and their readers as loops over time."""
SEPARABLE = "separable"
"""The name of a window over several dimensions as one after the other."""
EXACT = frozenset({SWEEP, SEPARABLE})
"""Declarations that round nothing elsewhere."""


def _tries(stage: Stage) -> Iterator[Try]:
    for name in offered_declarations(stage):
        yield f'"{name}"', lambda one, name=name: one.schedule.redeclare(one.op.output(0), name)


def _draw(drawer: Drawer) -> Attempt | None:
    stage = drawer.some_stage(lambda stage: bool(offered_declarations(stage)))
    if stage is None:
        return None
    name = next(iter(offered_declarations(stage)))
    return f"redeclare({stage.name}, {name!r})", lambda: drawer.s.redeclare(stage.op.output(0), name)


def offered_declarations(stage: Stage) -> Mapping[str, partial[Tensor]]:
    """Other declarations of what a stage computes, by their names, as its operator offers them; none of one that is scheduled."""
    op = stage.op.as_compute
    if not stage.is_untouched():
        return {}
    windows: dict[str, partial[Tensor]] = {}
    if op is not None and has_separable_windows(op):
        windows[SEPARABLE] = partial(separate_windows, op, *op.input_tensors)
    return {**({} if op is None else op.attrs.get("alternatives", {})), **windows, **_offered_sweeps(stage)}


def _offered_sweeps(stage: Stage) -> Mapping[str, partial[Tensor]]:
    """All scans that a stage is computed from, and that nothing else reads, as one sweep."""
    scans = [each.op for each in stage.schedule.stages if each.op.is_stepwise]
    order = [each.op for each in stage.schedule.stages] if scans else []
    is_step = any(stage.op in scan.steps(order) for scan in scans)
    sweep = find_sweep(stage.op) if scans and not is_step else None
    stages = [] if sweep is None else [stage.schedule[op] for op in sweep.members]
    others = [each for each in stages if each is not stage]
    holds = all(each.is_untouched() and not each.is_output and each.attach_type == "root" for each in others)
    if sweep is None or not holds or any(reader not in stages for each in others for reader in each.readers):
        return {}
    return {SWEEP: partial(sweep.declare, *sweep.inputs)}


@primitive(
    SchedulePrimitives,
    "stages",
    tries=_tries,
    draw=_draw,
    weight=1,
    rare=True,
    foreign={"tensor": TENSORS, "name": NAME},
)
def redeclare(schedule: Schedule, tensor: Tensor, name: str) -> list[Tensor]:
    """Compute a tensor by another declaration, which its operator offers, as a sweep, or a window by dimensions.

        for n, o, i, j:  for c, p, q:                      for ...: squares ... = transform of the image's tiles
          y[n, o, i, j] += x[...] * w[o, c, p, q]    →     for ...: products ... += squares ... * weights ...
                                                           for n, o, i, j: y[n, o, i, j] = transform of the products

    tensor: the result of an operator that has alternatives, not scheduled yet: `topi.nn.conv2d(..., algorithm="auto")` has
    "winograd". Results are rounded elsewhere, within the error that the operator states for the algorithm. What is computed element
    by element from scans at its own time, and several states of a scan, have "sweep", where nothing else reads these and steps are
    no neighbours: loops over time, each around those over columns, that keep the last steps alone. Minimum, maximum and sums of
    integers over windows of several dimensions have "separable": one dimension after the other. These change no bit. Returns the
    tensors that are new, in the order in which they are computed.

        for t: F[t, j] = F[t - 1, j] + x[t, j]              for t:                                 # redeclare(y, "sweep")
        for t: G[t, j] = max(G[t - 1, j], x[t, j])     →        for j: F = last_f[j] + x[t, j]; G = max(last_g[j], x[t, j])
        for t, j: y[t, j] = F[t, j] - G[t, j]                          y[t, j] = F - G; last_f[j] = F; last_g[j] = G

        for i, j:  for y, x: D[i, j] max= A[i + y, j + x]   for i, c:  for y: D.y[i, c] max= A[i + y, c]
                                                       →    for i, j:  for x: D[i, j] max= D.y[i, j + x]   # "separable"

    Raises BadAlternative (TW0265), UnknownStage (TW0201), WrongArgument (TW0222).
    """
    stage, _ = check_outputs(schedule, tensor, BadAlternative, "cannot redeclare")
    ways = offered_declarations(stage)
    if not is_a(name, str) or name not in ways:
        offered = ", ".join(f'"{way}"' for way in ways)
        raise BadAlternative(
            f"cannot redeclare {stage.name} as {name!r}"[:200],
            reason="its loops are scheduled already, or its operator offers nothing else"
            if not ways
            else "its operator offers no such declaration",
            declared=stage.op.source,
            called=user_source(),
            loops=outline(stage, stage.leaf_iter_vars),
            allowed=offered or "none",
            fix=f"s.redeclare({stage.name}, {offered})" if ways else 'topi.nn.conv2d(..., algorithm="auto")',
        )
    refuse_dangling_predicate(stage, (), BadAlternative, "cannot redeclare")
    with schedule.compound("redeclare", tensor=tensor, name=name):
        made = _declare(schedule, stage, ways[name]())
        before = stage.producers
        for op in made[:-1]:
            schedule.insert_stage(schedule.find_place(stage), op, stage)
        schedule.rewrite({}, anew={stage: made[-1]})
        _drop_unread(schedule, before)
        if name not in EXACT:
            schedule.losses.append(f"{stage.name} is computed as its operator's alternative {name!r}")
    return [op.output(0) for op in made[:-1]]


def _declare(schedule: Schedule, stage: Stage, result: Tensor) -> list[Operation]:
    """The operations of a declaration that the schedule has not, producers first, reading what its stages compute now."""
    assert all(map(same_extent, result.shape, stage.op.output(0).shape)), "an alternative computes the same tensor"
    made: dict[Operation, Operation] = {}
    for op in producers_first(
        [result.op], lambda op: (x.op for x in op.input_tensors if x.op not in schedule.stage_map)
    ):
        now = {
            tensor: made[tensor.op].output(tensor.value_index)
            if tensor.op in made
            else schedule[tensor].op.output(tensor.value_index)
            for tensor in op.input_tensors
        }
        made[op] = op.replace_inputs({old: new for old, new in now.items() if old is not new})
    last = made[result.op]
    return [*list(made.values())[:-1], replace(last, name=stage.name, source=stage.op.source)]


def _drop_unread(schedule: Schedule, stages: Sequence[Stage]) -> None:
    """Take away stages that nobody reads any more, and what they alone read."""
    schedule.refresh()
    waiting, states = list(stages), list[Stage]()
    while waiting:
        stage = waiting.pop()
        if stage.is_gone or stage.readers or stage.is_output or stage.op.is_given or schedule.find_placed(stage):
            continue
        waiting.extend(stage.producers)
        # a state that no step reads has no stage
        states += [schedule[state] for state in stage.op.own_placeholders if state.op in schedule.stage_map]
        schedule.drop_stage(stage)
    for state in states:
        if not state.readers:
            schedule.drop_stage(state)
