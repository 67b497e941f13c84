"""Tensor intrinsics whose shapes have symbols, made for the sizes that they are used with.

    n = te.size_var("n"); x = te.placeholder((n,)); z = te.compute((n,), lambda i: x[i] * 2)

is one intrinsic for all n, which the body may pass on: each use makes one of its own for the n that it has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..ir.arith.analyzer import Analyzer
from ..ir.buffer import Buffer
from ..ir.expr import Expr, IntImm, IterVar, Node, ProducerLoad, Range, Reduce, Var
from ..ir.ops import cast, integer_value
from ..ir.passes.common.fresh_copy import Copier
from ..ir.stmt import Stmt
from ..ir.visit import rewrite, substitute
from .operation import ComputeOp, PlaceholderOp
from .tensor import Tensor

__all__ = ["sized_body", "sized_buffer", "sized_operation", "sized_placeholder", "pair_dimensions"]


def pair_dimensions(
    extents: Sequence[Expr | int], wanted: Sequence[Expr], values: dict[Var, Expr]
) -> tuple[int, ...] | None:
    """Return which dimensions of a box are those `wanted`, paired from the last on; dimensions of one element may be left out.
    Symbols among `wanted` take the extents that they meet, in `values`. None where it does not fit."""
    sizes = [integer_value(extent, extent) for extent in extents]
    rest = list(range(len(sizes)))
    dims: list[int] = []
    for extent in reversed(wanted):
        size: Any = (
            values.get(extent, extent) if isinstance(extent, Var) else Analyzer().simplify(substitute(extent, values))
        )
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


def _require_known(value: Expr, values: Mapping[Var, Expr]) -> Expr:
    return Analyzer().simplify(substitute(value, values))


def sized_placeholder(tensor: Tensor, values: Mapping[Var, Expr]) -> Tensor:
    """The placeholder with symbols in its shape replaced."""
    shape = tuple(_require_known(extent, values) for extent in tensor.shape)
    return PlaceholderOp(name=tensor.name, shape=shape, dtype=tensor.dtype, source=tensor.source).output(0)


def sized_buffer(buffer: Buffer, values: Mapping[Var, Expr]) -> Buffer:
    """The buffer with symbols in its shape and strides replaced."""
    shape, strides = (tuple(_require_known(size, values) for size in sizes) for sizes in (buffer.shape, buffer.strides))
    return replace(buffer, shape=shape, strides=strides)


def sized_body(part: Stmt, renamed: Mapping[Buffer, Buffer], values: Mapping[Var, Expr]) -> Stmt:
    """A body of an intrinsic with symbols replaced, on other buffers."""
    copier = Copier(values, fresh=False)
    for old, new in renamed.items():
        copier.rename(old, new)
    return copier.visit(part)


def sized_operation(op: ComputeOp, inputs: Mapping[Tensor, Tensor], values: Mapping[Var, Expr]) -> ComputeOp:
    """The operation with symbols replaced, over axes of these sizes, reading other tensors."""
    known: dict[Var, Expr] = dict(values)
    axes: dict[IterVar, IterVar] = {}
    for axis in (*op.axis, *op.reduce_axis):
        assert axis.dom is not None, "the axes of an operation have domains"
        sized = replace(axis, dom=Range(_require_known(axis.dom.begin, known), _require_known(axis.dom.extent, known)))
        axes[axis] = known[axis] = sized

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
