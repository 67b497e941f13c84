"""Computation of registers without the guards of the final stores.

    sums: local float32[4, 4]                          sums: local float32[4, 4]
    for k in 16:                                       for k in 16:
        for i, j:                                          for i, j:
            if block * 64 + thread * 4 + i < n:    →           sums[i, j] += a[i] * b[j]
                sums[i, j] += a[i] * b[j]
    for i, j:                                          for i, j:
        if block * 64 + thread * 4 + i < n:                if block * 64 + thread * 4 + i < n:
            C[..] = sums[i, j]                                 C[..] = sums[i, j]

Elements that a guard excludes from every store are never written, so nothing that the program means can depend on them, and they
may hold anything. So are the sums of warpgroups, whose instructions a condition around would have the compiler keep in memory.
A guard goes where it says the same of an element in every store to the memory, and where all that would then
be read lies in the block's own memory, within its bounds: arithmetic on whatever stands there does no harm.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ....base.dataclass import dataclass
from ...arith.analyzer import Analyzer
from ...buffer import Buffer
from ...copies import called
from ...expr import Add, BufferLoad, Call, Cast, Expr, FloatImm, IntImm, Max, Min, Mul, Range, Select, Sub, Var
from ...ops import const, logical_and
from ...stmt import Allocate, BufferStore, Evaluate, For, Function, If, Seq, Stmt
from ...structural import structural_key
from ...visit import statements, substitute, walk
from ..common.simplify import build_analyzer
from .interior import is_guard, remove_guards

__all__ = ["free_registers"]

PRODUCTS, STORES = "tw_wgmma", "tw_wgmma_store"
"""The names with which calls of warpgroups begin, and those of them that store sums."""
_HARMLESS = (Add, Sub, Mul, Min, Max, Select, IntImm, FloatImm, Var, BufferLoad)


def free_registers(function: Function, whole: Function) -> Function:
    """`function`, a kernel of `whole` with its thread loops outermost, without guards of what stays in registers."""
    analyzer = build_analyzer(whole)
    for node in walk(function.body):
        if isinstance(node, For):
            analyzer.bind(node.var, Range(node.begin, node.extent))
    guards = {
        guard
        for node in statements(function.body)
        if isinstance(node, Allocate) and node.buffer.scope == "local"
        for guard in _needless(node, analyzer)
    }
    guards |= _list_product_guards(function.body, analyzer)
    return function.with_body(remove_guards(function.body, guards)) if guards else function


def _list_product_guards(body: Stmt, analyzer: Analyzer) -> set[If]:
    """The guards around products of warpgroups alone, of what lies in the block's own memory, whose sums are stored under the same
    condition, and touched elsewhere by nothing."""
    guards = [node for node in statements(body) if is_guard(node)]
    inner = {guard: _list_sums(guard, analyzer) for guard in guards}
    own = {guard: sums or _list_stored_sums(guard) for guard, sums in inner.items()}
    touched: dict[Buffer, set[object]] = {}  # by a memory, the conditions under which it is
    for guard, buffers in own.items():
        for buffer in buffers:
            touched.setdefault(buffer, set()).add(structural_key(guard.condition))
    counts = Counter(node.buffer for node in walk(body) if isinstance(node, BufferLoad) and node.buffer in touched)
    below = Counter(
        node.buffer
        for guard, buffers in own.items()
        if buffers
        for node in walk(guard.then_body)
        if isinstance(node, BufferLoad) and node.buffer in touched
    )
    free = {buffer for buffer, keys in touched.items() if len(keys) == 1 and counts[buffer] == below[buffer]}
    return {guard for guard, sums in inner.items() if sums and sums <= free}


def _list_sums(guard: If, analyzer: Analyzer) -> set[Buffer]:
    """The sums of the warpgroups' instructions under a guard; none where there is anything else under it."""
    sums = set[Buffer]()
    parts = guard.then_body.body if isinstance(guard.then_body, Seq) else (guard.then_body,)
    for part in parts:
        if not called(part).startswith(PRODUCTS) or called(part).startswith(STORES):
            return set()
        for node in walk(part):
            if isinstance(node, BufferLoad):
                if node.buffer.scope == "local":
                    sums.add(node.buffer)
                elif node.buffer.scope == "global" or not _is_in_bounds(node.buffer, node.indices, analyzer):
                    return set()
    return sums


def _list_stored_sums(guard: If) -> set[Buffer]:
    """The sums of warpgroups that are stored under a guard."""
    return {
        node.buffer
        for part in statements(guard.then_body)
        if isinstance(part, Evaluate) and called(part).startswith(STORES)
        for node in walk(part)
        if isinstance(node, BufferLoad) and node.buffer.scope == "local"
    }


@dataclass(frozen=True)
class _Store:
    """A store and the guards around it, by what each says of the element."""

    store: BufferStore
    guards: dict[object, If]


def _needless(memory: Allocate, analyzer: Analyzer) -> Iterator[If]:
    """The guards that every store to it has alike."""
    buffer = memory.buffer
    places = tuple(Var(f"e{at}", index.dtype) for at, index in enumerate(buffer.shape))
    found = list(_stores(memory.body, buffer, places, (), ()))
    whole = sum(isinstance(node, BufferStore) and node.buffer is buffer for node in statements(memory.body))
    # a store that is not below plain loops and guards is not understood
    if not found or len(found) < whole or not all(_is_harmless(each.store, analyzer) for each in found):
        return
    # a guard that one store does not have protects an element that another writes
    shared = set(found[0].guards).intersection(*(each.guards for each in found[1:]))
    for each in found:
        yield from (guard for key, guard in each.guards.items() if key in shared)


def _stores(
    body: Stmt,
    buffer: Buffer,
    places: tuple[Var, ...],
    loops: tuple[Var, ...],
    guards: tuple[If, ...],
) -> Iterator[_Store]:
    """The stores to a buffer below loops and guards."""
    if isinstance(body, Seq):
        for each in body.body:
            yield from _stores(each, buffer, places, loops, guards)
    elif isinstance(body, Allocate):
        yield from _stores(body.body, buffer, places, loops, guards)
    elif isinstance(body, For):
        yield from _stores(body.body, buffer, places, (*loops, body.var), guards)
    elif is_guard(body):
        yield from _stores(body.then_body, buffer, places, loops, (*guards, body))
    # a masked store decides by itself
    elif isinstance(body, BufferStore) and body.buffer is buffer and body.predicate is None:
        yield _Store(body, dict(_find_guards(body, places, loops, guards)))


def _find_guards(
    store: BufferStore,
    places: tuple[Var, ...],
    loops: tuple[Var, ...],
    guards: tuple[If, ...],
) -> Iterator[tuple[object, If]]:
    """Return the guards on the stored element, those whose every loop variable is one of its indices and that concern nothing
    else."""
    own: dict[Var, Expr] = {
        index: place for index, place in zip(store.indices, places, strict=True) if isinstance(index, Var)
    }
    for guard in guards:
        # a guard about a loop that is no index speaks of something else than the element
        concerned = {node for node in walk(guard.condition) if isinstance(node, Var)} & set(loops)
        # data may differ by the time the element is read
        reads = any(isinstance(node, BufferLoad) for node in walk(guard.condition))
        if (
            concerned <= own.keys()
            and not reads
            and all(
                node.buffer is store.buffer for node in statements(guard.then_body) if isinstance(node, BufferStore)
            )
        ):
            yield structural_key(substitute(guard.condition, own)), guard


def _is_harmless(store: BufferStore, analyzer: Analyzer) -> bool:
    """Return whether it can be computed whatever a guard says."""
    nodes = list(walk(store.value))
    within = all(
        _is_in_bounds(store.buffer, store.indices, analyzer)
        if node is store
        # global memory is not ours to read beyond what the guard allows
        else node.buffer.scope in ("local", "shared") and _is_in_bounds(node.buffer, node.indices, analyzer)
        for node in (store, *nodes)
        if isinstance(node, (BufferLoad, BufferStore))
    )
    return within and all(  # a division or a conversion to an integer may trap
        isinstance(node, _HARMLESS)
        or isinstance(node, Call)
        and node.name == "fma"
        or isinstance(node, Cast)
        and node.dtype.is_float
        for node in nodes
    )


def _is_in_bounds(buffer: Buffer, indices: tuple[Expr, ...], analyzer: Analyzer) -> bool:
    return all(
        analyzer.can_prove(logical_and(index >= const(0, index.dtype), index < extent))
        for index, extent in zip(indices, buffer.shape, strict=True)
    )
