"""A function whose result lies where one of its inputs does, so that what it stores is in the cache already.

for i, j:  y[i, j] = relu(sums[i, j] + x[i, j])      →      for i, j:  y[i, j] = relu(sums[i, j] + y[i, j])
"""

from __future__ import annotations

from dataclasses import replace

from ..ir.buffer import Buffer
from ..ir.expr import BufferLoad, Node, Var
from ..ir.ops import const
from ..ir.stmt import Allocate, BufferStore, For, Function, LoopKind, Seq, Stmt
from ..ir.structural import equal
from ..ir.visit import rewrite, walk

__all__ = ["put_over"]


def put_over(function: Function) -> Function:
    """The function with its output in the memory of the input before it, which it is no longer passed. Where an element of that is
    read elsewhere than in what is stored at its own place, once, the function reads a copy that it makes first."""
    under, result = [each for each in function.arguments if isinstance(each, Buffer)][-2:]
    near = _reads_in_place(function.body, under, result)
    read = result if near else Buffer(f"{under.name}.before", under.shape, under.dtype)

    def rule(node: Node) -> Node | None:
        return replace(node, buffer=read) if isinstance(node, BufferLoad) and node.buffer is under else None

    body: Stmt = rewrite(function.body, rule)
    if not near:
        body = Allocate(read, Seq((_copied(result, read), body)))
    return replace(function, params=tuple(each for each in function.params if each is not under), body=body)


def _reads_in_place(body: Stmt, under: Buffer, result: Buffer) -> bool:
    """Whether the one statement that stores the result is the only one that reads what lies under it, and at the same place."""
    storing = [node for node in walk(body) if isinstance(node, BufferStore) and node.buffer is result]
    if len(storing) != 1:
        return False
    (store,) = storing
    beside = [node for node in walk(store.value) if isinstance(node, BufferLoad) and node.buffer is under]
    reads = sum(isinstance(node, BufferLoad) and node.buffer is under for node in walk(body))
    others = any(isinstance(node, BufferLoad) and node.buffer is result for node in walk(body))
    return (
        reads == len(beside)
        and not others
        and all(all(equal(*pair) for pair in zip(load.indices, store.indices, strict=True)) for load in beside)
    )


def _copied(source: Buffer, copy: Buffer) -> Stmt:
    """The loops that copy all of a buffer."""
    loops = [Var(f"at{at}", extent.dtype) for at, extent in enumerate(source.shape)]
    body: Stmt = BufferStore(copy, BufferLoad(source, tuple(loops)), tuple(loops))
    for var, extent in zip(reversed(loops), reversed(source.shape), strict=True):
        body = For(var, const(0, var.dtype), extent, LoopKind.SERIAL, body)
    return body
