"""Memory that a function works in, passed by whoever calls it instead of allocated in each call."""

from __future__ import annotations

from dataclasses import replace

from ...ir.buffer import Buffer
from ...ir.stmt import Allocate, Function
from .outline import constant_bytes

__all__ = ["WORKSPACES", "with_workspaces"]

WORKSPACES = "workspaces"
"""The attribute of a function that tells how many of its last arguments are such memory."""
_KEPT = 8 * 1024
"""Bytes that stay on the stack, in all."""


def with_workspaces(function: Function) -> Function:
    """`function`, of stage "final", whose larger memory of known size at the root, where storage planning has put it, is passed as
    further arguments; what the bodies of its parallel loops need is taken from the stacks of their threads."""
    lifted: list[Buffer] = []
    kept: list[Buffer] = []
    left, body = _KEPT, function.body
    while isinstance(body, Allocate):
        size = constant_bytes(body.buffer)
        if size is not None and size > left and body.buffer.data is None:
            lifted.append(body.buffer)
        else:
            kept.append(body.buffer)
            left -= size or 0
        body = body.body
    for buffer in reversed(kept):
        body = Allocate(buffer, body)
    arguments = function.arguments
    return replace(function, params=(*arguments, *lifted, *function.params[len(arguments):]), outputs=(*function.outputs, *lifted),
                   body=body if lifted else function.body, attrs={**function.attrs, WORKSPACES: len(lifted)})
