"""Gradients through operations whose elements are not expressions: hybrid scripts, stores at places that are data, recurrences.

The gradients by all that such a program reads are one program: it runs forward once more, keeping what is needed, and then
backwards.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import cast

from ...base.errors import user_source
from ...ir import ops
from ...ir.buffer import Buffer
from ...ir.expr import BufferLoad, Expr, IterVar, ProducerLoad
from ...ir.stmt import Allocate, BufferStore, Stmt
from ...ir.visit import post_order, seq
from ..hybrid.op import HybridOp
from ..loops import nest_loops
from ..operation import Operation
from ..scan import ScanOp
from ..shape import declare_axes
from ..tag import current_tag
from ..tensor import Tensor
from .backward import Contribution
from .programs import build_program
from .recurrences import build_steps
from .sweeps import Sweeps, build_sweeps

__all__ = ["propagate_gradients"]


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
