"""Buffers: typed, shaped memory with a scope."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..base.dataclass import dataclass
from .dtype import DType
from .expr import BufferLoad, Call, Expr, Var

if TYPE_CHECKING:
    from .stmt import BufferStore

__all__ = ["SCOPES", "Buffer", "add_scope", "is_scope"]

SCOPES = (
    "global",
    "shared",
    "local",
    "warp",
    "mma_a",
    "mma_at",
    "mma_b",
    "mma_bt",
    "mma_c",
    "mma_a8",
    "mma_at8",
    "mma_b8",
    "mma_bt8",
    "swizzled",
    "wgmma_a",
    "wgmma_c",
)
"""Who shares the memory: everyone, the threads of a block, one thread, the lanes of a warp; those of mma and wgmma are registers
that tensor cores read (see ir/fragments.py), and "swizzled" is shared memory in an order that they know (see
ir/passes/gpu/swizzle.py). On a CPU only lifetime differs."""

_ADDED: set[str] = set()


def add_scope(name: str) -> None:
    """Make `name`, "target.memory", a scope: a memory that an accelerator brings with it. Each thread has its own part of it."""
    _ADDED.add(name)


def is_scope(name: str) -> bool:
    """Return whether buffers may lie there: in one of SCOPES, or in what an accelerator brought."""
    return name in SCOPES or name in _ADDED


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Buffer:
    """A name for memory. The object is its identity; equal text does not make two buffers one.

    shape: extents, outermost first; () is one element. strides: in elements, () for compact row-major. elem_offset: of
    the first element. scope: see is_scope. alignment: in bytes, what the first element's address is a multiple of
    (0: only of the element's own size).
    """

    name: str
    shape: tuple[Expr, ...]
    dtype: DType
    strides: tuple[Expr, ...] = ()
    elem_offset: Expr | None = None
    scope: str = "global"
    alignment: int = 0
    data: Var | None = None
    """The pointer, where a program speaks of it (external calls); None otherwise."""
    offset_factor: int = 0
    """Of a tensor intrinsic's buffer: what elem_offset is a multiple of (0: of nothing)."""

    def vload(self, begin: Any, dtype: object = None) -> BufferLoad:
        """The elements from index `begin` on: one, or as many as `dtype` ("int8x64") has lanes, in row-major order.

        Raises BadBufferAccess where the indices or the element type do not fit.
        """
        return _pointers.vector_load(self, begin, dtype)

    def vstore(self, begin: Any, value: Any) -> BufferStore:
        """The statement that stores `value`, a scalar or a vector, from index `begin` on. Raises BadBufferAccess."""
        return _pointers.vector_store(self, begin, value)

    def access_ptr(self, access_mask: Any, *, offset: Any = 0) -> Call:
        """A pointer to the first element, `offset` elements further on, for outside code.

        access_mask: what is done through it, "r", "w" or "rw". Raises BadBufferAccess.
        """
        return _pointers.access_pointer(self, access_mask, offset)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __repr__(self) -> str:
        return f"Buffer({self.name}: {self.dtype}[{', '.join(map(str, self.shape))}])"


from . import pointers as _pointers  # noqa: E402  (accesses are made of nodes, which know buffers)
