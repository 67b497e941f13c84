"""The loops that a declared operation is without a schedule, as a statement: for those who ask how much work it is.

    C[i, j] = sum(A[i, k] * B[k, j])        for i: for j: { C[i, j] = 0; for k: C[i, j] = mul_add(A[i, k], B[k, j], C[i, j]) }

What it reads stays tensors; what it computes stands as buffers.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir import Buffer, BufferLoad, BufferStore, Expr, For, If, IterVar, LoopKind, Producer, Reduce, Seq, Stmt
from ..ir.combine import combine_values
from ..ir.ops import is_const

__all__ = ["compute_loops", "nest_loops"]


def compute_loops(axes: Sequence[IterVar], body: Sequence[Expr], outputs: Sequence[Producer]) -> Stmt:
    """The loops of a compute: over `axes` its body, one value for each output, or over theirs too where it reduces."""
    buffers = [Buffer(output.name, output.shape, output.dtype) for output in outputs]
    first = body[0]
    values = _reduce(first, buffers, axes) if isinstance(first, Reduce) else _stores(buffers, body, axes)
    return nest_loops(axes, values)


def nest_loops(axes: Sequence[IterVar], body: Stmt) -> Stmt:
    """Serial loops around a statement, the first axis outermost."""
    for axis in reversed(axes):
        assert axis.dom is not None, "axes of operations have a domain"
        body = For(axis, axis.dom.begin, axis.dom.extent, LoopKind.SERIAL, body)
    return body


def _reduce(value: Reduce, buffers: Sequence[Buffer], axes: Sequence[IterVar]) -> Stmt:
    so_far = [BufferLoad(buffer, tuple(axes)) for buffer in buffers]
    update = _stores(buffers, combine_values(value, so_far, value.sources), axes)
    if not is_const(value.condition, 1):
        update = If(value.condition, update)
    return Seq((_stores(buffers, value.init or value.combiner.identity, axes), nest_loops(value.axes, update)))


def _stores(buffers: Sequence[Buffer], values: Sequence[Expr], axes: Sequence[IterVar]) -> Stmt:
    stores = tuple(BufferStore(buffer, value, tuple(axes)) for buffer, value in zip(buffers, values, strict=True))
    return stores[0] if len(stores) == 1 else Seq(stores)
