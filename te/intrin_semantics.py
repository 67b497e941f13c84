"""Semantics of a tensor intrinsic, as plain loops over its buffers.

The loops stand beside a body that only hardware or outside code can run, under te.target_has("interpreter"), so that a
tensorized function can be interpreted and checked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..ir.combine import combine_values
from ..ir.expr import BufferLoad, Call, Expr, IterVar, Node, ProducerLoad, Reduce, StringImm, Var
from ..ir.externs import EXTERNS
from ..ir.ops import is_const
from ..ir.packed_functions import find_func
from ..ir.passes.common.target_facts import resolve_target
from ..ir.stmt import BufferStore, For, If, LetStmt, LoopKind, Stmt
from ..ir.visit import post_order, rewrite, seq
from .extern_calls import target_has
from .tensor import Tensor
from .tensor_intrin import TensorIntrin

__all__ = ["begun", "interpretable"]


def interpretable(intrinsic: TensorIntrin, part: Stmt, begins: bool, goes_on: bool) -> Stmt:
    """`part`, one of the intrinsic's bodies, with what it does as loops beside it where the interpreter cannot run it.

    begins: it sets the outputs, or begins the reduction. goes_on: it takes up the elements of the reduction.
    """
    if not _is_opaque(part):
        return part
    return If(
        target_has("interpreter"),
        seq(
            *([_init(intrinsic)] if begins and intrinsic.op.reduction is not None else []),
            *([_update(intrinsic)] if goes_on else []),
        ),
        part,
    )


def _is_opaque(part: Stmt) -> bool:
    """Return whether the interpreter would meet code that it does not know."""
    interpreted = resolve_target(part, lambda name: name == "interpreter")
    return any(
        isinstance(node, Call)
        and node.name.startswith("call_")
        and isinstance(node.args[0], StringImm)
        and not _is_known(node.name, node.args[0].value)
        for node in post_order(interpreted)
    )


def _is_known(kind: str, name: str) -> bool:
    """Return whether the interpreter can call this: a registered function of Python, which may simulate hardware, or one that
    has been said to be the like of a C function."""
    return find_func(name) is not None if kind == "call_packed" else name in EXTERNS


def begun(intrinsic: TensorIntrin) -> Stmt:
    """The elements of an intrinsic that reduces, as the reduction begins, by plain loops over its buffers."""
    return _init(intrinsic)


def _init(intrinsic: TensorIntrin) -> Stmt:
    op = intrinsic.op
    reduction = op.reduction
    assert reduction is not None
    loops, axes = _loops(op.axis)
    values = [_value(intrinsic, value, axes) for value in reduction.init or reduction.combiner.identity]
    return _nest(loops, _stores(intrinsic, axes, values))


def _update(intrinsic: TensorIntrin) -> Stmt:
    op = intrinsic.op
    reduction = op.reduction
    if reduction is None:
        loops, axes = _loops(op.axis)
        return _nest(loops, _stores(intrinsic, axes, [_value(intrinsic, value, axes) for value in op.body]))
    loops, axes = _loops((*op.axis, *op.reduce_axis))
    return _nest(loops, _taken_up(intrinsic, reduction, axes))


def _taken_up(intrinsic: TensorIntrin, reduction: Reduce, axes: Mapping[IterVar, Var]) -> Stmt:
    """One element of the reduction combined with what is there: all values are computed before any is stored."""
    op = intrinsic.op
    place = tuple(axes[axis] for axis in op.axis)
    there = [BufferLoad(intrinsic.buffers[tensor], place) for tensor in op.outputs]
    sources = [_value(intrinsic, source, axes) for source in reduction.sources]
    results = combine_values(reduction, there, sources)
    named = [Var("next", result.dtype) for result in results]
    body = _stores(intrinsic, axes, named)
    for var, result in reversed(list(zip(named, results, strict=True))):
        body = LetStmt(var, result, body)
    condition = _value(intrinsic, reduction.condition, axes)
    return body if is_const(condition, 1) else If(condition, body)


def _loops(axes: Sequence[IterVar]) -> tuple[list[tuple[Var, IterVar]], dict[IterVar, Var]]:
    loops = [(Var(axis.name, axis.dtype), axis) for axis in axes]
    return loops, {axis: var for var, axis in loops}


def _nest(loops: list[tuple[Var, IterVar]], body: Stmt) -> Stmt:
    for var, axis in reversed(loops):
        assert axis.dom is not None
        body = For(var, axis.dom.begin, axis.dom.extent, LoopKind.SERIAL, body)
    return body


def _stores(intrinsic: TensorIntrin, axes: Mapping[IterVar, Var], values: Sequence[Expr]) -> Stmt:
    place = tuple(axes[axis] for axis in intrinsic.op.axis)
    return seq(
        *(
            BufferStore(intrinsic.buffers[tensor], value, place)
            for tensor, value in zip(intrinsic.op.outputs, values, strict=True)
        )
    )


def _value(intrinsic: TensorIntrin, value: Expr, axes: Mapping[IterVar, Var]) -> Expr:
    def rule(node: Node) -> Expr | None:
        if isinstance(node, IterVar):
            return axes.get(node)
        if isinstance(node, ProducerLoad):
            assert isinstance(node.producer, Tensor)
            return BufferLoad(intrinsic.buffers[node.producer], node.indices)
        return None

    return rewrite(value, rule)
