"""Memory that a function works in, passed by whoever calls it instead of allocated in each call."""

from __future__ import annotations

from dataclasses import replace

from ...ir import Allocate, Broadcast, Buffer, BufferLoad, BufferStore, Expr, For, Function, LoopKind, Node, Ramp, Stmt
from ...ir.visit import free_vars, rewrite, rewrite_statements
from ..abi.signature import is_checkable
from .outline import constant_bytes

__all__ = ["WORKSPACES", "provide_workspaces"]

WORKSPACES = "workspaces"
"""The attribute of a function that tells how many of its last arguments are such memory."""
_KEPT = 8 * 1024
"""Bytes that stay on the stack, in all."""


def provide_workspaces(function: Function) -> Function:
    """`function`, of stage "final", whose larger memory at the root, where storage planning has put it, is passed as further
    arguments, where its size is known or follows from scalar ones. What the bodies of its parallel loops need is taken from the
    stacks of their threads; where its size follows from scalars, each iteration has its own, and all are passed."""
    lifted: list[Buffer] = []
    kept: list[Buffer] = []
    left, body = _KEPT, function.body
    while isinstance(body, Allocate):
        size = constant_bytes(body.buffer)
        if body.buffer.data is None and (_follows(body.buffer.shape, function) if size is None else size > left):
            lifted.append(body.buffer)
        else:
            kept.append(body.buffer)
            left -= size or 0
        body = body.body
    body = rewrite_statements(body, lambda node: _divide_workspaces(node, function, lifted))
    for buffer in reversed(kept):
        body = Allocate(buffer, body)
    arguments = function.arguments
    return replace(
        function,
        params=(*arguments, *lifted, *function.params[len(arguments) :]),
        outputs=(*function.outputs, *lifted),
        body=body if lifted else function.body,
        attrs={**function.attrs, WORKSPACES: len(lifted)},
    )


def _follows(extents: tuple[Expr, ...], function: Function) -> bool:
    """Return whether extents are arithmetic over the scalar arguments."""
    return all(is_checkable(extent) and set(free_vars(extent)) <= set(function.scalars) for extent in extents)


def _divide_workspaces(node: Node, function: Function, lifted: list[Buffer]) -> Stmt | None:
    """A parallel loop whose iterations work in parts of memory from outside, which `lifted` gains; None where they need none."""
    if (
        not isinstance(node, For)
        or node.kind is not LoopKind.PARALLEL
        or not _follows((node.begin, node.extent), function)
    ):
        return None
    wholes: dict[Buffer, tuple[Buffer, Expr]] = {}
    kept: list[Buffer] = []
    body = node.body
    while isinstance(body, Allocate):
        buffer = body.buffer
        if (
            constant_bytes(buffer) is None
            and buffer.data is None
            and len(buffer.shape) == 1
            and _follows(buffer.shape, function)
        ):
            size = buffer.shape[0]
            whole = replace(buffer, shape=(node.extent.astype("int64") * size,))
            wholes[buffer] = whole, (node.var - node.begin).astype("int64") * size
        else:
            kept.append(buffer)
        body = body.body
    if not wholes:
        return None

    def moved(access: Node) -> Node | None:
        if not isinstance(access, (BufferLoad, BufferStore)) or access.buffer not in wholes:
            return None
        whole, begin = wholes[access.buffer]
        return replace(access, buffer=whole, indices=(_shift(access.indices[0], begin),))

    body = rewrite(body, moved)
    for buffer in reversed(kept):
        body = Allocate(buffer, body)
    lifted += [whole for whole, _ in wholes.values()]
    return replace(node, body=body)


def _shift(index: Expr, by: Expr) -> Expr:
    """An index, or indices, so many elements further on."""
    wide = by.astype(index.dtype.with_lanes(1))
    if isinstance(index, Ramp):
        return Ramp(index.base + wide, index.stride, index.lanes)
    return index + (wide if index.dtype.lanes == 1 else Broadcast(wide, index.dtype.lanes))
