"""The steps that stages of a scan read: each was computed before.

    for t.outer in 5:                             # s[update].compute_at(s[S], t.outer)
        for d in 39:                              # d = x + t, in a parallelogram of places and steps
            for t in 8:
                ... update[t, d - t] = (state[t - 1, d - t - 1] + state[t - 1, d - t + 1]) / 2 ...

An update that is computed for a tile of steps reads steps of its own tile. Its loops are then in a right order where each
element still follows those that it is computed from, which distance vectors tell as they do of a script
(model/distance_vectors.py); all other stages read steps of earlier tiles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...base.errors import user_source
from ...ir import Buffer, children, post_order, substitute
from ...ir.accesses import reads_memory
from ...ir.analysis.dependence import Indices, Iterations
from ...ir.analysis.linear import linear
from ...ir.expr import Call, Expr, IfThenElse, LogicalOp, Node, ProducerLoad, Reduce, Select
from ...ir.ops import conjuncts, const, is_const
from ...te.operation import Operation
from ...te.tensor import Tensor, find_tensor
from ..model.checks import outline
from ..model.distance_vectors import NestDistances, Pair
from .computation import Bounds, Computation, StageBounds
from .errors import ReadsOtherSteps
from .scan import find_attached
from .spans import find_span

__all__ = ["check_steps"]


def check_steps(bounds: Bounds, scan: Computation) -> None:
    """Raise ReadsOtherSteps (TW0348) where a stage reads steps of a state that no step before has computed, unless a condition
    decides whether it does: of one step it may; of what a layout mixes with time it says nothing."""
    states = scan.op.own_placeholders
    for computation in bounds.dataflow.computations:
        # stages outside of the scan read its result, and no states
        if not any(state in computation.reads for state in states):
            continue
        stage_bounds = bounds.of[computation]
        values = computation.values
        if values:
            # what a layout guards cannot be judged by its element
            certain = {load for value in values for load in unguarded_loads(value, layouts=True)}
            loads = [
                (find_tensor(node), node.indices, node in certain)
                for value in values
                for node in post_order(value)
                if isinstance(node, ProducerLoad)
            ]
        else:
            loads = [(tensor, indices, True) for tensor, reads in computation.reads.items() for indices in reads]
        for state, indices, sure in loads:
            if any(state is own for own in states):
                _check_step(bounds, stage_bounds, bounds.of[scan], state, indices, sure)


def _check_step(
    bounds: Bounds,
    stage_bounds: StageBounds,
    scan: StageBounds,
    state: Tensor,
    indices: Sequence[Expr],
    sure: bool,
) -> None:
    op, analyzer, index = scan.computation.op, bounds.analyzer, indices[0]
    # The steps for which the stage is computed at once begin at `now`.
    attached = find_attached(stage_bounds.computation, scan.computation)
    tile = scan.loops[attached.place + 1 :] if attached is not None else ()
    begin = {loop.var: const(0, loop.var.dtype) for loop in tile if loop.var is not None}
    now = analyzer.simplify(substitute(scan.values[op.axis[0]], begin)) if begin else scan.values[op.axis[0]]
    span = find_span(stage_bounds, index, analyzer)
    # data, or a scan without steps: the assertion at run time decides
    if (span is None and reads_memory(index)) or is_const(scan.ranges[op.axis[0]].extent, 0):
        return
    if not sure and (span is None or span.is_point):  # a guarded read of one step is left to its guard
        return
    if span is None or not (analyzer.can_prove(span.low >= 0) and analyzer.can_prove(span.high < now)):
        name, why, advice = stage_bounds.computation.name, "", ""
        if span is not None and begin and attached is stage_bounds.computation and analyzer.can_prove(span.low >= 0):
            conflict = _order_conflict(stage_bounds, op, state, tuple(indices))
            if conflict is None:
                return
            why = f"; {conflict}"
            advice = f"; s[{name}].skew(axis, time) lets a loop follow the steps of a tile"
        steps = (
            "steps that are not known"
            if span is None
            else (f"step {span.low}" if span.is_point else f"steps {span.low} to {span.high}")
        )
        raise ReadsOtherSteps(
            f"cannot compute {name} in a step of the scan {scan.computation.name}",
            reason=f"it reads {steps} of {state.name} by `{index}`: at step {now} only those from 0 to {now - 1} are there{why}",
            declared=stage_bounds.computation.op.source,
            called=user_source(),
            loops=outline(stage_bounds.computation.stage),
            fix=f"s[{attached.name}].compute_root() computes it in each step{advice}"
            if begin and attached is not None
            else f"give more initial steps, or guard the read; what reads {name} at other steps, or whole, has all of it computed",
        )


def _order_conflict(update: StageBounds, scan: Operation, state: Tensor, indices: Indices) -> str | None:
    """The reason why loops over a tile of steps would read an element before it is computed; None where they follow the steps."""
    computation = update.computation
    op, stage = computation.op, computation.stage
    memory = dict(scan.shared_memory)
    if not computation.values or all(memory.get(tensor) is not memory[state] for tensor in op.outputs):
        return f"only the update of {state.name} itself may read steps of its own tile"
    time, nest = op.axis[0], (*op.axis, *op.reduce_axis)
    distance = linear(time - indices[0])
    if distance.coeffs or distance.const < 1:
        return "which is not so many steps before in each step"
    equations = Iterations(None, {axis: axis.dom for axis in nest}).equations(op.axis, indices)
    if equations is None:
        return None
    pair = Pair(Buffer(state.name, state.shape, state.dtype), op.axis, indices, *equations)
    distances = NestDistances(stage, nest, [pair], ranges=update.ranges)
    reversal = distances.reversal(stage.leaf_iter_vars)
    if reversal is not None:
        return f"the loop over {reversal.back.name} would go back where {reversal.ahead.name} goes on"
    for loop in update.loops:
        if loop.attr.kind not in ("serial", "unrolled") and (
            loop.attr.kind == "tensorized" or distances.carried_pair(loop.axis, stage.leaf_iter_vars) is not None
        ):
            return f"iterations of the {loop.attr.kind} loop {loop.axis.name} read what others of them compute"
    return None


# The reads that an element does whatever its conditions say.


def unguarded_loads(value: Expr, layouts: bool = False) -> Iterator[ProducerLoad]:
    """The reads that happen for every element. layouts: guards of `likely` conditions, as the layouts of caches have them,
    do not count."""
    stack: list[Node] = [value]
    seen: set[int] = set()
    while stack:
        node = stack.pop()
        if id(node) in seen:  # shared parts are visited once
            continue
        seen.add(id(node))
        if isinstance(node, (IfThenElse, Select)):
            stack.append(node.condition)
            if layouts and all(
                isinstance(part, Call) and part.name == "likely" for part in conjuncts(node.condition, hints=True)
            ):
                stack.append(node.true_value)
        elif isinstance(node, Reduce) and not is_const(node.condition, 1):  # a conditional reduction may read nothing
            stack.extend((node.condition, *node.init))
        elif not isinstance(node, LogicalOp):  # the second operand of and/or may not be evaluated
            if isinstance(node, ProducerLoad):
                yield node
            stack.extend(children(node))
