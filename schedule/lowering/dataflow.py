"""Dataflow between the stages of a schedule, once inlined definitions stand in their consumers' bodies, and
under which loops each one lies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ...base.errors import user_source
from ...ir import Expr, IterVar, Node, ProducerLoad, Range, rewrite
from ...ir.arith.analyzer import Analyzer
from ...te.operation import Operation
from ...te.rewrite import substitute_axes
from ...te.tensor import Tensor, find_tensor
from ..model.checks import find_place, outline
from ..model.schedule import Schedule
from ..model.stage import Stage
from .bounds_proof import Judgement, guard_reads, order_evaluation
from .computation import Computation, Dataflow
from .errors import AttachCycle, AttachedNowhere, ConsumerOutsideAttach, InlinedTooOften, OutputNotAtRoot
from .kinds import find_kind
from .scan import check_states
from .shared_loops import children_first, follow

__all__ = ["analyse", "scan_states"]


def analyse(schedule: Schedule, kept: Sequence[Operation] = (), judgement: Judgement | None = None) -> Dataflow:
    """The dataflow of what the outputs need, and of `kept`: operations whose results the caller wants as well. judgement: on what
    may be computed that is not needed.

    Raises OutputNotAtRoot (TW0336), AttachedNowhere (TW0335), AttachCycle (TW0334) and ConsumerOutsideAttach (TW0333).
    """
    definitions = _substitute_inlined(schedule, judgement or Judgement())
    wanted = {stage.op for stage in schedule.stages if stage.is_output} | set(kept)
    computations: list[Computation] = []
    consumers: dict[Operation, list[Computation]] = {}
    for stage in reversed(schedule.stages):
        op = stage.op
        if stage.is_output:
            _check_output(stage)
        # what nobody wants is not computed
        if op not in definitions or stage.attach_type == "inlined" or op not in wanted and op not in consumers:
            continue
        computation = definitions[op]
        computation.is_output = op in wanted
        computations.append(computation)
        find_kind(op).collect_reads(computation)
        for reader in dict.fromkeys(tensor.op for tensor in computation.reads):
            consumers.setdefault(reader, []).append(computation)
    computations.reverse()
    by_op: dict[Operation, Computation] = {computation.op: computation for computation in computations}
    states = scan_states(schedule)
    read = (tensor for computation in computations for tensor in computation.reads)
    outside = dict.fromkeys(tensor for tensor in read if tensor.op not in by_op and tensor not in states)
    dataflow = Dataflow(schedule, computations, by_op, consumers, outside)
    _attach(dataflow)
    return dataflow


def scan_states(schedule: Schedule) -> set[Tensor]:
    """The placeholders that stand for states of scans, which nobody passes."""
    return {state for stage in schedule.stages for state in stage.op.own_placeholders}


def _check_output(stage: Stage) -> None:
    leader = stage.attach_stage if stage.attach_type == "with" else None
    if stage.attach_type == "root" or leader is not None and leader.attach_type == "root":
        return
    where = getattr(stage.attach_stage, "name", "?")
    how = {"at": f"computed at a loop of {where}", "with": f"computed with {where}, which is not at root"}.get(
        stage.attach_type, "inlined"
    )
    raise OutputNotAtRoot(
        f"cannot lower: the output {stage.name} is {how}",
        declared=stage.op.source,
        called=user_source(),
        reason=f"{stage.name} is an output of the schedule, so all of it must be computed, once",
        fix=f"s[{stage.name}].compute_root()",
    )


# Inlining


def _substitute_inlined(schedule: Schedule, judgement: Judgement) -> dict[Operation, Computation]:
    """Every stage that computes something, the definitions of inlined stages substituted in it."""
    computations: dict[Operation, Computation] = {}
    inlined: dict[Tensor, Expr] = {}
    expanded: dict[tuple[Tensor, tuple[Expr, ...]], Expr] = {}

    def rule(node: Node) -> Node | None:
        """A read of an inlined tensor becomes its definition, in which reads of further ones are expanded in turn."""
        if not isinstance(node, ProducerLoad) or node.producer not in inlined:
            return None
        key = (
            find_tensor(node),
            tuple(map(analyzer.simplify, node.indices)),
        )  # 7 - (7 - i) is i: what is shared stays shared
        value = expanded.get(key)
        if value is None:
            op = key[0].op  # equal indices after simplification share one definition
            if len(expanded) >= _MOST_EXPANDED:  # each element is code of its own: the kernel would not end
                raise _inlined_too_often(tensor.op for tensor, _ in expanded)
            value = expanded[key] = rewrite(substitute_axes(inlined[key[0]], op.axis, node.indices), rule)
        return value

    partial, analyzer = judgement.partial_now(schedule.stages), Analyzer()

    def judged(op: Operation, values: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """The values of an operation, which read nothing outside whatever a schedule computes of it."""
        values = order_evaluation(op, values)
        return guard_reads(op, values, judgement.states) if op in partial else values

    for stage in schedule.stages:
        op = stage.op
        if op.is_given:
            continue
        if stage.attach_type == "inline":
            inlined[op.output(0)] = judged(op, op.values)[0]
            continue
        kind = find_kind(op)
        values, domains = kind.definition(op)
        values = judged(op, values)
        # most operations read no inlined tensor
        if values and inlined and not inlined.keys().isdisjoint(op.input_tensors):
            values = tuple(rewrite(value, rule) for value in values)
            domains = {
                axis: Range(rewrite(dom.begin, rule), rewrite(dom.extent, rule)) for axis, dom in domains.items()
            }
        computations[op] = Computation(stage, op, values, domains, stage.is_output, kind.whole)
        computations[op].free.update(_find_unlooped(op))
    return computations


def _find_unlooped(op: Operation) -> dict[IterVar, Range]:
    """The dimensions of an operation's outputs that are none of its loops."""
    axes = {*op.axis}
    return {
        axis: axis.dom
        for dimensions in op.dimensions
        for axis in dimensions
        if axis not in axes and axis.dom is not None
    }


_MOST_EXPANDED = 1 << 12
"""Elements of inlined stages that one program writes out: each is code of its own."""


def _inlined_too_often(ops: Iterable[Operation]) -> InlinedTooOften:
    counts = Counter(ops)
    often, _ = counts.most_common(1)[0]
    names = ", ".join(f"{op.name} ({count})" for op, count in counts.most_common(5))
    return InlinedTooOften(
        f"cannot inline {often.name}: its elements are needed at too many places",
        declared=often.source,
        called=user_source(),
        reason=f"more than {_MOST_EXPANDED} definitions would be written out, most often of {names}; what is shared counts once",
        fix=f"s[{often.name}].compute_root(), or compute it at a loop of its consumer",
    )


# Attach points


def _attach(dataflow: Dataflow) -> None:
    """Find the parent of every computation that is computed at a loop, and check that its consumers lie under it."""
    for computation in dataflow.computations:
        stage = computation.stage
        if stage.attach_type == "at":
            computation.parent, computation.place = _attach_point(dataflow, computation)
        elif stage.attach_type == "with":
            follow(computation, *_attach_point(dataflow, computation))
    # consumers first: a scan puts the stages of its step where their readers are
    for computation in reversed(dataflow.computations):
        find_kind(computation.op).place(dataflow, computation)
    for computation in dataflow.computations:
        if computation.leader is not None:
            # followers lie where their leader lies
            computation.parent, computation.place = computation.leader.parent, computation.leader.place
    check_states(dataflow)
    for computation in dataflow.computations:
        _check_no_cycle(computation)
    dataflow.computations = children_first(dataflow.computations, dataflow.consumers)
    for computation in dataflow.computations:
        if computation.parent is not None:
            for consumer in dataflow.consumers.get(computation.op, ()):
                _check_consumer(computation, consumer)


def _attach_point(dataflow: Dataflow, computation: Computation) -> tuple[Computation, int]:
    stage, onto, axis = computation.stage, computation.stage.attach_stage, computation.stage.attach_axis
    assert onto is not None and axis is not None, "an attached stage without attach point"
    headline = f"cannot compute {stage.name} {stage.attach_type} '{axis.name}' of {onto.name}"
    parent = dataflow.by_op.get(onto.op)
    if parent is None:
        how = "is inlined" if onto.attach_type in ("inline", "inlined") else "is not computed"
        raise AttachedNowhere(
            headline,
            reason=f"{onto.name} {how}, so it has no loops",
            declared=onto.op.source,
            called=user_source(),
            fix=f"compute {stage.name} at a stage that has loops, or at root",
        )
    place = find_place(onto.leaf_iter_vars, axis)
    if place < 0:
        raise AttachedNowhere(
            headline,
            reason=f"'{axis.name}' is not a loop of {onto.name} any more",
            declared=onto.op.source,
            called=user_source(),
            loops=outline(onto),
            fix=f"s[{stage.name}].compute_at(s[{onto.name}], one of its loops)",
        )
    return parent, place


def _check_no_cycle(computation: Computation) -> None:
    seen: list[Computation] = []
    current: Computation | None = computation
    while current is not None:  # a chain of attach points that returns is endless
        if current in seen:
            names = " at ".join(attached.name for attached in [*seen[seen.index(current) :], current])
            raise AttachCycle(
                f"cannot lower: stages are computed at each other ({names})",
                called=user_source(),
                declared=current.op.source,
                reason="each would have to lie inside the other",
                fix=f"s[{current.name}].compute_root(), or compute it at its consumer",
            )
        seen.append(current)
        current = current.parent


def _check_consumer(computation: Computation, consumer: Computation) -> None:
    """Raise unless `consumer` lies under the loop that `computation` is computed at."""
    parent, place = computation.parent, computation.place
    assert parent is not None
    path = consumer.path()
    if parent is consumer:
        return
    for at, outer in enumerate(path):
        # deeper in the path means further out: the place of the step before decides
        if outer is parent and path[at - 1].place >= place or outer.leader is parent and outer.shared > place:
            return
    axis = parent.stage.leaf_iter_vars[max(min(place, len(parent.stage.leaf_iter_vars) - 1), 0)]
    begins = any(init.op is consumer.op for init in parent.op.begins_with)
    outside = (
        f"let {consumer.name} read a declaration of its own, or "
        if begins
        else f"s[{consumer.name}].compute_at(s[{parent.name}], {axis.name}), or "
        if parent.stage.reads(consumer.stage)
        else ""
    )
    raise ConsumerOutsideAttach(
        f"cannot compute {computation.name} at '{axis.name}' of {parent.name}",
        reason=f"{consumer.name} reads {computation.name} too, but does not lie under that loop",
        declared=consumer.op.source,
        called=user_source(),
        loops=outline(parent.stage, [axis]),
        fix=f"{outside}s[{computation.name}].compute_root()",
    )
