"""Vectors of a buffer's elements, and pointers to them for outside code.

A pointer is `access_ptr(handle, A[i, j], offset, mode)`: the address of an element, `offset` elements further on. The
element stands there as a BufferLoad so that whatever rewrites buffers and indices treats it like any access; it is not
read. `mode` is what happens through the pointer: READS, WRITES or both; or MEETS, where threads meet at what lies there, a
barrier in memory, and use it at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base.arguments import to_list
from ..base.errors import user_source
from .buffer import Buffer
from .dtype import HANDLE, DType
from .errors import BadBufferAccess
from .expr import BufferLoad, Call, Expr, IntImm, Node, Ramp
from .ops import cast, const, convert, floordiv, floormod, is_const
from .stmt import BufferStore

__all__ = [
    "MEETS",
    "READS",
    "WRITES",
    "access_pointer",
    "packed_array",
    "pointed_buffer",
    "pointer",
    "vector_load",
    "vector_store",
]

MEETS, READS, WRITES = 0, 1, 2


def pointer(buffer: Buffer, indices: Sequence[Expr], offset: Expr, mode: int) -> Call:
    """The address of an element, `offset` elements further on."""
    return Call("access_ptr", (BufferLoad(buffer, tuple(indices)), offset, const(mode)), HANDLE)


def pointed_buffer(node: Node) -> tuple[Buffer, int] | None:
    """The buffer that a node makes a pointer to, and the pointer's mode; None for any other node."""
    if isinstance(node, Call) and node.name == "access_ptr":
        load, _, mode = node.args
        assert isinstance(load, BufferLoad) and isinstance(mode, IntImm), (
            "access_ptr takes an element, an offset, a mode"
        )
        return load.buffer, mode.value
    return None


def packed_array(buffer: Buffer) -> Call:
    """A whole buffer as a Python function gets it: `packed_array(pointer, rank, extents..., strides...)`, the strides left
    out where it is compact."""
    start = access_pointer(buffer, READS | WRITES, 0)
    return Call("packed_array", (start, const(buffer.ndim), *buffer.shape, *buffer.strides), HANDLE)


def access_pointer(buffer: Buffer, mode: Any, offset: Any) -> Call:
    """See Buffer.access_ptr."""
    chosen = mode
    if isinstance(mode, str) and mode and set(mode) <= {"r", "w"}:
        chosen = (READS if "r" in mode else 0) | (WRITES if "w" in mode else 0)
    if isinstance(chosen, str) or chosen not in (READS, WRITES, READS | WRITES):
        raise BadBufferAccess(
            f"cannot make a pointer to {buffer.name}",
            reason=f"its mode is {mode!r}",
            called=user_source(),
            allowed='"r", "w", "rw", or a mask: 1 reads, 2 writes, 3 both',
            fix=f'{buffer.name}.access_ptr("r")',
        )
    start = tuple(const(0, extent.dtype) for extent in buffer.shape)
    return pointer(buffer, start, _integer(buffer, offset, "the offset"), int(chosen))


def vector_load(buffer: Buffer, begin: Any, dtype: object) -> BufferLoad:
    """See Buffer.vload."""
    wanted = buffer.dtype if dtype is None else DType(dtype)
    if wanted.element != buffer.dtype:
        raise BadBufferAccess(
            f"cannot load {wanted} from {buffer.name}",
            reason=f"its elements are {buffer.dtype}",
            called=user_source(),
            fix=f'load "{buffer.dtype.with_lanes(wanted.lanes)}", then reinterpret',
        )
    return BufferLoad(buffer, _vector_indices(buffer, begin, wanted.lanes))


def vector_store(buffer: Buffer, begin: Any, value: Any) -> BufferStore:
    """See Buffer.vstore."""
    stored = value if isinstance(value, Expr) else const(value, buffer.dtype)
    if stored.dtype.element != buffer.dtype:
        wanted = buffer.dtype.with_lanes(stored.dtype.lanes)
        raise BadBufferAccess(
            f"cannot store {stored.dtype} to {buffer.name}",
            reason=f"its elements are {buffer.dtype}",
            called=user_source(),
            fix=f'convert it: value.astype("{wanted}")',
        )
    return BufferStore(buffer, stored, _vector_indices(buffer, begin, stored.dtype.lanes))


def _integer(buffer: Buffer, value: Any, what: str) -> Expr:
    index = convert(value)
    if not index.dtype.is_integer:
        raise BadBufferAccess(
            f"{what} of an access to {buffer.name} is not an integer",
            reason=f"got {value!r}, {index.dtype}"[:200],
            called=user_source(),
            fix="pass integers or integer expressions",
        )
    return index


def _vector_indices(buffer: Buffer, begin: Any, lanes: int) -> tuple[Expr, ...]:
    """The indices of `lanes` elements from `begin` on. They lie in the last dimension where that has as many elements;
    a longer vector goes on in the next row."""
    given = to_list(begin)
    if len(given) != buffer.ndim:
        raise BadBufferAccess(
            f"{buffer.name} has {buffer.ndim} dimension{'s' if buffer.ndim != 1 else ''} and was accessed with {len(given)} "
            f"{'index' if len(given) == 1 else 'indices'}",
            reason=f"{buffer!r}",
            called=user_source(),
            fix="give the index of the first element, one number for each dimension",
        )
    indices: list[Expr] = []
    for index, extent in zip(given, buffer.shape, strict=True):
        indices.append(_widen_index(_integer(buffer, index, "the index"), extent))
    if lanes == 1:
        return tuple(indices)
    if not indices or any(index.dtype.lanes > 1 for index in indices):
        raise BadBufferAccess(
            f"cannot access {lanes} lanes of {buffer.name}",
            called=user_source(),
            reason="a vector begins at one element of a buffer that has a dimension",
        )
    step = const(1, indices[-1].dtype)
    row = buffer.shape[-1]
    if not isinstance(row, IntImm) or row.value >= lanes or buffer.ndim == 1:
        return (*indices[:-1], Ramp(indices[-1], step, lanes))
    rest: Expr = Ramp(indices[-1], step, lanes)
    inner: list[Expr] = []
    for index, extent in zip(reversed(indices[:-1]), reversed(buffer.shape[1:]), strict=True):
        width = cast(extent, rest.dtype)
        inner.insert(0, floormod(rest, width))
        rest = floordiv(rest, width)
        if not is_const(index, 0):
            rest = rest + cast(index, rest.dtype)
    return (rest, *inner)


def _widen_index(index: Expr, extent: Expr) -> Expr:
    """An index in the type of the extent, where that is wider."""
    return cast(index, extent.dtype) if extent.dtype.bits > index.dtype.bits else index
