"""Stores of components that lie side by side, each a few elements apart, become one store of their interleaved lanes.

    O[Ramp(2 i, 2, 16)]     = re
    O[Ramp(2 i + 1, 2, 16)] = im            →            O[Ramp(2 i, 1, 32)] = Shuffle((re, im), 0, 16, 1, 17, ...)

Alone, each would be a scatter: as many stores as it has lanes.

It stands after unroll, whose copies are the components, and before shared_windows, which reads what they are made of once.
"""

from __future__ import annotations

from ....base import dataclass, replace
from ...analysis.linear import expression, is_index, linear
from ...arith.linear import LinearForm
from ...buffer import Buffer
from ...contents import require_any
from ...expr import BufferLoad, IntImm, Ramp, Shuffle
from ...ops import const
from ...stmt import BufferStore, Function, Stmt
from ...structural import Key
from ...visit import distinct
from .store_runs import StoreRuns

__all__ = ["interleaved_stores"]

MOST = 4
"""Components of an element at most."""


@dataclass(frozen=True, slots=True)
class _Lanes:
    """Lanes of a buffer that lie `stride` elements apart. rest: all but a number of their place."""

    buffer: Buffer
    stride: int
    lanes: int
    rest: Key


@require_any(*((BufferStore, stride) for stride in range(2, MOST + 1)))
def interleaved_stores(function: Function) -> Function:
    """`function` with components that are stored together."""
    return function.with_body(StoreRuns(_interleave).visit(function.body))


def _interleave(run: list[Stmt]) -> list[Stmt]:
    """Consecutive stores, those of an element's components as one where the last of them stands, if none reads what others store."""
    stores = [store for store in run if isinstance(store, BufferStore)]
    groups: dict[_Lanes, dict[int, BufferStore]] = {}
    for store in stores:
        key, at = _place(store)
        if key is not None:
            groups.setdefault(key, {})[at] = store
    if not any(len(group) > 1 for group in groups.values()):
        return run
    stored = [store.buffer for store in stores]
    if any(isinstance(node, BufferLoad) and node.buffer in stored for node in distinct(*run)):
        return run
    whole: dict[int, list[tuple[int, BufferStore]]] = {}
    for key, group in groups.items():
        if stored.count(key.buffer) != len(group) or _overlap(sorted(group), key):
            continue
        while group:
            first = min(group)
            parts = [(at, group.pop(at)) for at in range(first, first + key.stride) if at in group]
            if len(parts) == key.stride:
                last = max(run.index(store) for _, store in parts)
                whole |= {id(store): [] for _, store in parts} | {id(run[last]): parts}
    return [store for old in run for store in _join(old, whole.get(id(old)))]


def _place(store: BufferStore) -> tuple[_Lanes | None, int]:
    """The lanes of a store, where they lie a few elements apart, and the number in their place."""
    index = store.indices[0] if len(store.indices) == 1 else None
    if not isinstance(index, Ramp) or not isinstance(index.stride, IntImm) or store.predicate is not None:
        return None, 0
    if not 1 < index.stride.value <= MOST or not is_index(index.base):
        return None, 0
    form = linear(index.base)
    return _Lanes(store.buffer, index.stride.value, index.lanes, form.key), form.const


def _overlap(places: list[int], of: _Lanes) -> bool:
    """Return whether two of several stores have elements in common."""
    pairs = ((a, b) for at, a in enumerate(places) for b in places[at + 1 :])
    return any((b - a) % of.stride == 0 and b - a < of.stride * of.lanes for a, b in pairs)


def _join(store: Stmt, parts: list[tuple[int, BufferStore]] | None) -> list[Stmt]:
    """A store as it is, or those of an element's components as one; nothing for those that others stand for."""
    if parts is None:
        return [store]
    if not parts:
        return []
    at, first = parts[0]
    index = first.indices[0]
    assert isinstance(index, Ramp)
    lanes, many = index.lanes, len(parts)
    picked = tuple(part * lanes + lane for lane in range(lanes) for part in range(many))
    base = expression(LinearForm(linear(index.base).coeffs, at), index.base.dtype)
    value = Shuffle(tuple(part.value for _, part in parts), picked)
    return [replace(first, value=value, indices=(Ramp(base, const(1, index.base.dtype), lanes * many),))]
