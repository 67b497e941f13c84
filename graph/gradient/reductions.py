"""Rules of reductions and of running sums."""

from __future__ import annotations

import math

from ..types import Extent
from .rule import Pullback, differentiate_declaration, rule

__all__: list[str] = []


def _axes(p: Pullback) -> list[int]:
    rank = len(p.shape(p.inputs[0]))
    return sorted({axis % rank for axis in p["axes"]}) if rank else []


def _restore_dims(p: Pullback, value: str) -> str:
    """Restore extents of 1 where a reduction reduced, in its result or its gradient."""
    axes = _axes(p)
    shape: list[Extent] = [1 if at in axes else extent for at, extent in enumerate(p.shape(p.inputs[0]))]
    return p.reshape(value, shape)


@rule("sum")
def _sum(p: Pullback) -> list[str | None]:
    return [_restore_dims(p, p.head)]


@rule("mean")
def _differentiate_mean(p: Pullback) -> list[str | None]:
    extents = [p.shape(p.inputs[0])[axis] for axis in _axes(p)]
    if not all(isinstance(extent, int) for extent in extents):
        return differentiate_declaration(p)
    return [p.scale(_restore_dims(p, p.head), 1 / max(math.prod(map(int, extents)), 1))]


@rule("cumsum")
def _differentiate_cumsum(p: Pullback) -> list[str | None]:
    """The sum from the other end."""
    return [p.emit("cumsum", p.head, axis=p["axis"], exclusive=p["exclusive"], reverse=not p["reverse"])]
