"""Buffers: typed, shaped memory with a scope."""

from __future__ import annotations

from dataclasses import dataclass

from .dtype import DType
from .expr import Expr, Var

__all__ = ["SCOPES", "Buffer"]

SCOPES = ("global", "shared", "local", "warp")
"""Who shares the memory: everyone, the threads of a block, one thread, the lanes of a warp. On a CPU only lifetime
differs."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Buffer:
    """A name for memory. The object is its identity; equal text does not make two buffers one.

    shape: extents, outermost first; () is one element. strides: in elements, () for compact row-major. elem_offset: of
    the first element. scope: one of SCOPES. alignment: in bytes, what the first element's address is a multiple of
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

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __repr__(self) -> str:
        return f"Buffer({self.name}: {self.dtype}[{', '.join(map(str, self.shape))}])"
