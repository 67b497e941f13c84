"""Atomic updates: an element that grows by a value in one step, so that iterations of a parallel loop may share it.

    o[b] = atomic_add(o[b], 1)

To whoever does not know it this is a store of a sum: run serially, it is one. Code generation reads the value and the element from
it, and makes one instruction of them.
"""

from __future__ import annotations

from .buffer import Buffer
from .errors import MixedTypes
from .expr import BufferLoad, Call, Expr, Node
from .stmt import BufferStore
from .structural import structural_key
from .visit import post_order

__all__ = ["ATOMIC_TYPES", "added", "atomic_add", "is_atomic", "only_updated"]

ATOMIC_TYPES = ("int32", "uint32", "int64", "uint64", "float32", "float64")
"""The dtypes of elements that every target updates in one step."""


def atomic_add(buffer: Buffer, indices: tuple[Expr, ...], value: Expr) -> BufferStore:
    """`buffer[indices] += value` in one step. The value has the buffer's dtype, one of ATOMIC_TYPES."""
    if value.dtype != buffer.dtype or str(buffer.dtype) not in ATOMIC_TYPES:
        raise MixedTypes(
            f"cannot add {value.dtype} to an element of {buffer.dtype} in one step",
            reason=f"the element is {buffer.name}'s",
            allowed=", ".join(ATOMIC_TYPES),
        )
    return BufferStore(buffer, Call("atomic_add", (BufferLoad(buffer, indices), value), buffer.dtype), indices)


def is_atomic(node: Node) -> bool:
    """Return whether this is an atomic update."""
    return isinstance(node, BufferStore) and isinstance(node.value, Call) and node.value.name == "atomic_add"


def added(store: BufferStore) -> Expr | None:
    """Return the summand of an atomic update; None for any other store."""
    if not (isinstance(store.value, Call) and store.value.name == "atomic_add"):
        return None
    element, value = store.value.args
    assert (
        isinstance(element, BufferLoad)
        and element.buffer is store.buffer
        and len(store.indices) == len(element.indices)
    )
    assert [*map(structural_key, element.indices)] == [*map(structural_key, store.indices)], "an update of one element"
    return value


def only_updated(body: Node) -> set[Buffer]:
    """The buffers that atomic updates touch, and nothing else does."""
    updated: set[Buffer] = set()
    own: set[int] = set()
    for node in post_order(body):
        if isinstance(node, BufferStore) and isinstance(node.value, Call) and node.value.name == "atomic_add":
            updated.add(node.buffer)
            own.update((id(node), id(node.value.args[0])))
    others = {
        node.buffer for node in post_order(body) if isinstance(node, (BufferLoad, BufferStore)) and id(node) not in own
    }
    return updated - others
