"""The loops that a stage begins with, before any primitive: what its operation declares."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...ir.dtype import INT32
from ...ir.expr import IterVar
from ...ir.stmt import For, LoopKind
from ...te.axis import thread_axis
from ...te.operation import Operation
from ...te.tensor_compute import TensorComputeOp, intrinsic_call
from .attributes import AxisKind, IterAttr
from .relations import Relation, Singleton

__all__ = ["FirstLoops", "first_loops"]


@dataclass(slots=True, eq=False)
class FirstLoops:
    """axes: the loops, outermost first. relations: of those that are no axes of the operation. attrs: what is noted about them."""

    axes: list[IterVar]
    relations: list[Relation] = field(default_factory=list[Relation])
    attrs: dict[IterVar, IterAttr] = field(default_factory=dict[IterVar, IterAttr])


def first_loops(op: Operation) -> FirstLoops:
    """A serial loop for each data axis, then for each reduce axis; of a call of a tensor intrinsic and of a script what they
    say."""
    call = intrinsic_call(op)
    if call is not None:
        return _around_intrinsic(call)
    declared = ((axis, _declared(loop)) for axis, loop in op.declared_loops.loops.items() if isinstance(axis, IterVar))
    return FirstLoops([*op.axis, *op.reduce_axis], attrs={axis: attr for axis, attr in declared if attr is not None})


def _around_intrinsic(op: TensorComputeOp) -> FirstLoops:
    """The axes around the intrinsic, outermost, then those that it takes in, under a tensorized loop."""
    inner = (*op.tensor_axis, *op.inner_reduce)
    loops = FirstLoops([*(axis for axis in (*op.axis, *op.reduce_axis) if axis not in inner), *inner])
    if not inner:  # one element a call
        call = Singleton(IterVar("call", INT32, kind="opaque"))
        loops.relations.append(call)
        loops.axes.append(call.iter)
    loops.attrs[inner[0] if inner else loops.axes[-1]] = IterAttr(kind="tensorized", intrinsic=op.intrinsic)
    return loops


def _declared(loop: For) -> IterAttr | None:
    """A loop of a script as it is written: parallel, vectorized, unrolled, on a thread; None for a serial one."""
    if loop.kind is LoopKind.THREAD:
        return IterAttr(kind="thread", bind_thread=thread_axis(loop.thread))
    kinds: dict[LoopKind, AxisKind] = {
        LoopKind.PARALLEL: "parallel",
        LoopKind.VECTORIZED: "vectorized",
        LoopKind.UNROLLED: "unrolled",
    }
    return IterAttr(kind=kinds[loop.kind]) if loop.kind in kinds else None
