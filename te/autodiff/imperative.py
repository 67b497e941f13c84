"""Gradients through operations whose elements are not expressions: hybrid scripts, stores at places that are data, recurrences.

The gradients by all that such a program reads are one program: it runs forward once more, keeping what is needed, and then
backwards.

Recurrences as programs: te.scan as the loop over time that it is.

for k: S[k] = init[k]
for t: for each stage of a step: W[t] = ...; S[t] = update[t]
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import cast

from ...base.errors import user_source
from ...ir import Allocate, Buffer, BufferLoad, BufferStore, Expr, For, IterVar, LoopKind, Node, ProducerLoad, Stmt, ops
from ...ir.visit import post_order, rewrite, seq, substitute
from ..hybrid.op import HybridOp
from ..loops import compute_loops, nest_loops
from ..operation import ComputeOp, Operation, producers_first
from ..scan import ScanOp
from ..shape import declare_axes
from ..tag import current_tag
from ..tensor import Tensor
from .backward import Contribution
from .errors import NotDifferentiable
from .programs import build_program
from .sweeps import Sweeps, build_sweeps

__all__ = ["build_steps", "propagate_gradients"]


def propagate_gradients(
    op: Operation,
    tensor: Tensor,
    prefix: Sequence[Expr],
    adjoint: Callable[[tuple[Expr, ...]], Contribution],
    relevant: Collection[Tensor],
) -> dict[Tensor, Tensor] | None:
    """Return what one output of `op` gives to the adjoint of each relevant tensor that it reads, of shape (*prefix, *tensor.shape); None
    for a kind of operation that is no program. adjoint: of the output's element, at the head's axes and its own. Raises
    NotDifferentiable (TW0170)."""
    if isinstance(op, HybridOp):
        body, outputs = op.body, op.buffers
    elif isinstance(op, ScanOp):
        body, outputs = build_steps(op, relevant)
    else:
        return None
    program = build_program(body, outputs, op.source)
    # in the order of the program, each tensor once
    reads = (node.producer for node in post_order(program.body) if isinstance(node, ProducerLoad))
    wanted = [cast("Tensor", read) for read in dict.fromkeys(reads) if read in relevant]
    heads = declare_axes(prefix, "h")
    # one result for each tensor, whatever the number of reads
    results = {read: Buffer(f"grad_{read.name}", (*prefix, *read.shape), read.dtype) for read in wanted}

    def target(load: ProducerLoad) -> tuple[Buffer, tuple[Expr, ...]] | None:
        result = results.get(cast("Tensor", load.producer))
        return None if result is None else (result, (*heads, *load.indices))

    sweeps = build_sweeps(program, program.buffers[tensor.value_index], target, op.source)
    # the program runs once for each element of the head
    made = nest_loops(heads, _run(sweeps, program.buffers[tensor.value_index], heads, adjoint, list(results.values())))
    gradient = HybridOp(
        name=f"grad_{op.name}",
        tag=current_tag() or "hybrid",
        source=user_source(),
        body=made,
        buffers=tuple(results.values()),
    )
    return dict(zip(wanted, gradient.outputs, strict=True))


def _run(
    sweeps: Sweeps,
    output: Buffer,
    heads: Sequence[IterVar],
    adjoint: Callable[[tuple[Expr, ...]], Contribution],
    results: Collection[Buffer],
) -> Stmt:
    """Both sweeps, from the adjoint of the output on, over memory of their own."""
    axes = declare_axes(output.shape, "i")
    seeded = nest_loops(axes, BufferStore(sweeps.by_output, adjoint((*heads, *axes)).chosen(), axes))
    body = sweeps.allocate_stacks(seq(seeded, sweeps.forward, sweeps.back))
    # stacks allocate their memory themselves
    apart = {*results, *(node.buffer for node in post_order(body) if isinstance(node, Allocate))}
    own = dict.fromkeys(
        node.buffer
        for node in post_order(body)
        if isinstance(node, (BufferLoad, BufferStore)) and node.buffer not in apart
    )
    # scalars are not initialised by stores to elements
    scalars = [BufferStore(buffer, ops.const(0, buffer.dtype), ()) for buffer in own if not buffer.shape]
    body = seq(*scalars, body)
    for buffer in own:
        body = Allocate(buffer, body)
    return body


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
