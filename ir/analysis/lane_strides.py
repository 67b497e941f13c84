"""Lanes of vectorized loops whose elements lie apart in memory: each is stored by itself.

for i in vectorized(16):                 for j in vectorized(16):
    C[i, j] = ...                            C[i, j] = ...
64 elements apart in C of 16 x 64        side by side: one store
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...base.dataclass import dataclass
from ..buffer import Buffer
from ..expr import Expr, IntImm, Var
from ..stmt import For, LoopKind, Stmt
from ..visit import stores, walk
from .linear import linear, occurs

__all__ = ["ScatteredLanes", "find_scattered_lanes", "neighbour_distance"]


@dataclass(frozen=True, slots=True)
class ScatteredLanes:
    """A vectorized loop whose lanes store elements of a buffer that lie `stride` apart."""

    loop: For
    buffer: Buffer
    stride: int

    def __str__(self) -> str:
        return f"lanes of {self.loop.var.name} store elements of {self.buffer.name} that lie {self.stride} apart"


def find_scattered_lanes(body: Stmt) -> Iterator[ScatteredLanes]:
    """The loops of lanes that store to elements that lie apart, as far as extents are numbers; each buffer of a loop once."""
    for loop in walk(body):
        if isinstance(loop, For) and loop.kind is LoopKind.VECTORIZED:
            strides = {store.buffer: _stride(store.buffer, store.indices, loop) for store in stores(loop.body)}
            yield from (ScatteredLanes(loop, buffer, stride) for buffer, stride in strides.items() if stride > 1)


def _stride(buffer: Buffer, indices: tuple[Expr, ...], loop: For) -> int:
    """The distance of what neighbouring lanes store, in elements; 0 where it is one place, or no number."""
    distance, width = 0, 1
    for index, extent in zip(reversed(indices), reversed(buffer.shape), strict=True):
        form = linear(index)
        if buffer.strides or occurs(loop.var, form):
            return 0
        by = form.coefficient(loop.var)
        if by and not width:
            return 0
        distance += by * width
        width = width * extent.value if isinstance(extent, IntImm) else 0
    return abs(distance)


def neighbour_distance(indices: Sequence[Expr], var: Var) -> int | None:
    """The distance of the elements of neighbouring iterations; None where it is no number, or they lie in different rows."""
    forms = [linear(index) for index in indices]
    if any(occurs(var, form) for form in forms) or any(form.coefficient(var) for form in forms[:-1]):
        return None
    return forms[-1].coefficient(var) if forms else 0
