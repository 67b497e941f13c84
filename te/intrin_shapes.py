"""Tensor intrinsics whose shapes have symbols, made for the sizes that they are used with.

    n = te.size_var("n"); x = te.placeholder((n,)); z = te.compute((n,), lambda i: x[i] * 2)

is one intrinsic for all n, which the body may pass on: each use makes one of its own for the n that it has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..ir.arith.analyzer import Analyzer
from ..ir.buffer import Buffer
from ..ir.expr import Expr, IntImm, IterVar, Node, ProducerLoad, Range, Reduce, Var
from ..ir.ops import cast
from ..ir.passes.common.fresh_copy import Copier
from ..ir.stmt import Stmt
from ..ir.visit import rewrite, substitute
from .operation import ComputeOp, PlaceholderOp
from .tensor import Tensor

if TYPE_CHECKING:
    from .tensor_intrin import TensorIntrin

__all__ = ["solved", "specialised"]


def solved(extents: Sequence[Expr | int], wanted: Sequence[Expr], values: dict[Var, Expr]) -> tuple[int, ...] | None:
    """Which dimensions of a box are those `wanted`, paired from the last on; dimensions of one element may be left out.
    Symbols among `wanted` take the extents that they meet, in `values`. None where it does not fit."""
    sizes = [extent.value if isinstance(extent, IntImm) else extent for extent in extents]
    rest = list(range(len(sizes)))
    dims: list[int] = []
    for extent in reversed(wanted):
        size: Any = values.get(extent, extent) if isinstance(extent, Var) else Analyzer().simplify(substitute(extent, values))
        if isinstance(size, IntImm):
            size = size.value
        while rest and sizes[rest[-1]] == 1 and isinstance(size, int) and size != 1:
            rest.pop()
        if not rest or not isinstance(sizes[rest[-1]], int):
            return None
        at = rest.pop()
        if isinstance(size, Var):
            values[size] = cast(IntImm(int(sizes[at])), size.dtype)
        elif size != sizes[at]:
            return None
        dims.insert(0, at)
    return tuple(dims) if all(sizes[at] == 1 for at in rest) else None


def specialised(intrinsic: TensorIntrin, values: Mapping[Var, Expr]) -> TensorIntrin:
    """The intrinsic with symbols replaced in its operation, its buffers and its bodies; itself without any."""
    if not values:
        return intrinsic
    inputs = {tensor: _placeholder(tensor, values) for tensor in intrinsic.inputs}
    op = _operation(intrinsic.op, inputs, values)
    tensors = {**inputs, **dict(zip(intrinsic.op.outputs, op.outputs, strict=True))}
    buffers = {tensors[tensor]: _buffer(buffer, values) for tensor, buffer in intrinsic.buffers.items()}
    renamed = {buffer: buffers[tensors[tensor]] for tensor, buffer in intrinsic.buffers.items()}

    def made(part: Stmt | None) -> Stmt | None:
        return None if part is None else _body(part, renamed, values)

    body = _body(intrinsic.body, renamed, values)
    return replace(intrinsic, op=op, inputs=tuple(inputs.values()), buffers=buffers, body=body,
                   reduce_init=made(intrinsic.reduce_init), reduce_update=made(intrinsic.reduce_update))


def _known(value: Expr, values: Mapping[Var, Expr]) -> Expr:
    return Analyzer().simplify(substitute(value, values))


def _placeholder(tensor: Tensor, values: Mapping[Var, Expr]) -> Tensor:
    shape = tuple(_known(extent, values) for extent in tensor.shape)
    return PlaceholderOp(name=tensor.name, shape=shape, dtype=tensor.dtype, source=tensor.source).output(0)


def _buffer(buffer: Buffer, values: Mapping[Var, Expr]) -> Buffer:
    shape, strides = (tuple(_known(one, values) for one in ones) for ones in (buffer.shape, buffer.strides))
    return replace(buffer, shape=shape, strides=strides)


def _body(part: Stmt, renamed: Mapping[Buffer, Buffer], values: Mapping[Var, Expr]) -> Stmt:
    copier = Copier(values, fresh=False)
    for old, new in renamed.items():
        copier.rename(old, new)
    return copier.visit(part)


def _operation(op: ComputeOp, inputs: Mapping[Tensor, Tensor], values: Mapping[Var, Expr]) -> ComputeOp:
    known: dict[Var, Expr] = dict(values)
    axes: dict[IterVar, IterVar] = {}
    for axis in (*op.axis, *op.reduce_axis):
        assert axis.dom is not None, "the axes of an operation have domains"
        made = replace(axis, dom=Range(_known(axis.dom.begin, known), _known(axis.dom.extent, known)))
        axes[axis] = known[axis] = made

    def rule(node: Node) -> Node | None:
        if isinstance(node, Var):
            return known.get(node)
        if isinstance(node, ProducerLoad) and isinstance(node.producer, Tensor):
            return ProducerLoad(inputs[node.producer], node.indices)
        return None

    body: list[Expr] = []
    for value in op.body:
        new = rewrite(value, rule)
        body.append(replace(new, axes=tuple(axes[axis] for axis in op.reduce_axis)) if isinstance(new, Reduce) else new)
    if isinstance(body[0], Reduce):
        body = [replace(body[0], value_index=at) for at in range(len(body))]
    return replace(op, axis=tuple(axes[axis] for axis in op.axis), body=tuple(body))
