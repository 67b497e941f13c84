"""Stores by the copy engine (sm_90a): boxes of shared memory that one thread has it put into a tensor, while all go on.

    S: swizzled float16[128, 64]                            S: swizzled float16[128, 64]
    ... S = sums                                            ... S = sums
    for i in 128:     # bulk_store                          if first thread:
      for j in 64:                                    →       tw_bulk_store_2(&S[0, 0], C_box, n * 64, b * 128)
        if b * 128 + i < m:                                   tw_bulk_store_commit()
          C[b * 128 + i, n * 64 + j] = S[i, j]                tw_bulk_store_wait()

The engine leaves out what lies beyond the tensor. It reads S until the wait. Where warps of their own fill what is computed with, so
that S shares its memory with nothing, the wait stands before S is stored to anew, and at the end of the kernel.
"""

from __future__ import annotations

from typing import TypeGuard

from ...buffer import Buffer
from ...copies import BULK_STORE
from ...dtype import INT32
from ...expr import BufferLoad, Call, Expr, StringImm, Var
from ...ops import conjunction, conjuncts, const, if_then_else
from ...stmt import Attr, BufferStore, Evaluate, For, If, Stmt
from ...visit import rebuild, statements, walk
from .errors import CannotCopyInBulk

__all__ = ["ONE_THREAD", "is_bulk_store", "list_staged", "mirror_copy", "await_stores"]

ONE_THREAD = "one_thread"
"""The key of an Attr whose statements the first thread of a block does alone."""


def is_bulk_store(node: Stmt) -> TypeGuard[For]:
    """Return whether loops are to be a store of boxes."""
    return isinstance(node, For) and any(key == BULK_STORE for key, _ in node.pragmas)


def list_staged(body: Stmt) -> set[Buffer]:
    """The memory that boxes are stored from."""
    return {
        node.buffer
        for loop in statements(body)
        if is_bulk_store(loop)
        for node in walk(loop)
        if isinstance(node, BufferLoad) and node.buffer.scope != "global"
    }


def mirror_copy(loop: For) -> tuple[Stmt, list[Expr]]:
    """A nest that stores elements of memory to a tensor, the other way round, since a box is the same in both directions, with zeros
    where conditions on its loops do not hold; and the other conditions. Raises CannotCopyInBulk (TW0841) where it does anything
    else."""
    loops, conditions = list[For](), list[Expr]()
    inner: Stmt = loop
    while isinstance(inner, For) or (isinstance(inner, If) and inner.else_body is None):
        if isinstance(inner, For):
            loops.append(inner)
            inner = inner.body
        else:
            conditions += conjuncts(inner.condition)
            inner = inner.then_body
    if not isinstance(inner, BufferStore) or not isinstance(inner.value, BufferLoad):
        raise CannotCopyInBulk(
            "cannot build: loops are to be a store by the copy engine",
            reason="they do something else than copy elements as they are",
            fix="compute the elements in the stage that is stored from, or leave the pragma out",
        )
    own = {each.var for each in loops}
    guards = [each for each in conditions if own.isdisjoint(node for node in walk(each) if isinstance(node, Var))]
    within = [each for each in conditions if each not in guards]
    value: Expr = BufferLoad(inner.buffer, inner.indices)
    if within:
        value = if_then_else(conjunction(*within), value, const(0, value.dtype))
    copy: Stmt = BufferStore(inner.value.buffer, value, inner.value.indices)
    for each in reversed(loops):
        copy = rebuild(each, [each.begin, each.extent, copy])
    return copy, guards


def await_stores() -> Stmt:
    """Wait, by the thread that stores, until the engine has read everything."""
    return Attr(ONE_THREAD, "", const(1), Evaluate(Call("call_extern", (StringImm("tw_bulk_store_wait"),), INT32)))
