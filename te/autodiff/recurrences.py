"""Recurrences as programs: te.scan as the loop over time that it is.

for k: S[k] = init[k]
for t: for each stage of a step: W[t] = ...; S[t] = update[t]
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import cast

from ...base.errors import user_source
from ...ir import ops
from ...ir.buffer import Buffer
from ...ir.expr import BufferLoad, Expr, IterVar, Node, ProducerLoad
from ...ir.stmt import Allocate, BufferStore, For, LoopKind, Stmt
from ...ir.visit import post_order, rewrite, seq, substitute
from ..loops import compute_loops
from ..operation import ComputeOp, Operation, producers_first
from ..scan import ScanOp
from ..tensor import Tensor
from .errors import NotDifferentiable

__all__ = ["build_steps"]


def build_steps(scan: ScanOp, wanted: Collection[Tensor]) -> tuple[Stmt, tuple[Buffer, ...]]:
    """The recurrence as a statement, and the buffers of its outputs. wanted: what the gradient goes through. Raises
    NotDifferentiable (TW0170)."""
    outputs = tuple(Buffer(output.name, output.shape, output.dtype) for output in scan.outputs)
    order = producers_first([scan])
    stages = [op for op in order if op in scan.steps(order)]
    inits = {init.op for init in scan.init}
    memory: dict[Tensor, Buffer] = {}
    for tensors in (scan.states, scan.update, scan.init):
        memory.update(zip(tensors, outputs, strict=True))
    own: list[Buffer] = []
    for op in stages:
        for tensor in op.outputs:
            if tensor not in memory:
                memory[tensor] = Buffer(tensor.name, tensor.shape, tensor.dtype)
                own.append(memory[tensor])
    inside = next((tensor for tensor in memory if tensor in wanted and not tensor.op.values), None)
    if inside is not None:
        raise _refusal(scan, f"{inside.name} stands for its states", "take the gradient by what the recurrence reads")
    first = [_loops(scan, op, memory) for op in stages if op in inits]
    time = scan.scan_axis
    assert time.dom is not None, "axes of operations have a domain"
    var = IterVar(time.name, time.dtype, time.dom)
    each = [_step(scan, op, memory, stages, var) for op in stages if op not in inits]
    body = seq(*first, For(var, time.dom.begin, time.dom.extent, LoopKind.SERIAL, seq(*each)))
    for buffer in own:
        body = Allocate(buffer, body)
    return body, outputs


def _loops(scan: ScanOp, op: Operation, memory: dict[Tensor, Buffer]) -> Stmt:
    """The loops of a stage, over the program's memory."""
    if not isinstance(op, ComputeOp):
        raise _refusal(scan, f"{op.name}, a stage of its steps, is {op.noun}", "declare each step by te.compute")
    made = compute_loops(op.axis, op.body, op.outputs)
    stored = list(dict.fromkeys(node.buffer for node in post_order(made) if isinstance(node, BufferStore)))
    places = {old: memory[tensor] for old, tensor in zip(stored, op.outputs, strict=True)}

    def rule(node: Node) -> Node | None:
        if isinstance(node, ProducerLoad) and node.producer in memory:
            return BufferLoad(memory[cast("Tensor", node.producer)], node.indices)
        if isinstance(node, (BufferLoad, BufferStore)) and node.buffer in places:
            place = places[node.buffer]
            return (
                BufferLoad(place, node.indices)
                if isinstance(node, BufferLoad)
                else BufferStore(place, node.value, node.indices)
            )
        return None

    return rewrite(made, rule)


def _step(scan: ScanOp, op: Operation, memory: dict[Tensor, Buffer], stages: Sequence[Operation], time: Expr) -> Stmt:
    """One step of a stage."""
    between = {tensor for stage in stages for tensor in stage.outputs} - {*scan.update, *scan.init}
    elsewhere = next(
        (load for load in op.loads if load.producer in between and load.indices[0] is not op.axis[0]), None
    )
    nest = _loops(scan, op, memory)
    if elsewhere is not None or not isinstance(nest, For):
        raise _refusal(
            scan, f"{op.name} reads {elsewhere}, which another step computes", "read other steps from the states"
        )
    return substitute(nest.body, {nest.var: ops.cast(time, nest.var.dtype)})


def _refusal(scan: ScanOp, reason: str, fix: str) -> NotDifferentiable:
    return NotDifferentiable(
        f"the gradient would go through {scan.name}, a recurrence that cannot be run backwards",
        reason=reason,
        declared=scan.source,
        called=user_source(),
        fix=fix,
    )
