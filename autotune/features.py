"""Features of a candidate: numbers, read off its loops as lowered, from which the model learns what is fast.

For each store: how often it runs, in which kinds of loops, its arithmetic, how its accesses step along the innermost and
the vector loop, and how much memory moves at each level of the cache. That last one is counted from footprints: of the
loops around the store, those inside which everything touched fits into the level run without traffic; each iteration of
the others fetches that footprint anew. The features of the two stores with most work stand first, then sums over all.
Large numbers enter as logarithms.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log2

import numpy as np

from ..ir.analysis.linear import linear, terms
from ..ir.arith.linear import LinearForm
from ..ir.buffer import Buffer
from ..ir.expr import (
    Add,
    BinaryOp,
    BufferLoad,
    Call,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IfThenElse,
    IntImm,
    LogicalOp,
    Mul,
    Select,
    Var,
)
from ..ir.stmt import Allocate, BufferStore, For, Function, If, LoopKind, Stmt
from ..ir.visit import children

__all__ = ["FEATURES", "features"]

LEVELS = (1 << 11, 32 << 10, 1 << 20, 16 << 20)
"""Bytes of the registers, and of the first, second and third cache, more or less: the model finds where it matters."""
_LINE = 64
_DETAILED = 2
_PER_STORE = 21
_TOTALS = 9 + len(LEVELS)
FEATURES = _DETAILED * (_PER_STORE + len(LEVELS)) + _TOTALS


@dataclass(frozen=True, slots=True)
class Access:
    """An element that is read or written: its buffer, and each index as a sum."""

    buffer: Buffer
    indices: tuple[LinearForm, ...]
    stored: bool = False

    @property
    def bytes(self) -> int:
        return max(1, self.buffer.dtype.bits // 8)

    def step(self, var: Var) -> int:
        """Elements between neighbouring values of a loop."""
        stride, found = 1, 0
        for index, extent in zip(reversed(self.indices), reversed(self.buffer.shape), strict=True):
            found += stride * _coefficient(index, var)
            stride *= extent.value if isinstance(extent, IntImm) else 1
        return found


@dataclass(frozen=True, slots=True)
class Store:
    """A store with the loops around it, outermost first, and how many conditions guard it."""

    statement: BufferStore
    loops: tuple[For, ...]
    guards: int


def features(function: Function) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """The features of a function of stage "loops": FEATURES numbers."""
    stores = [_StoreFeatures(store) for store in _stores(function.body)]
    stores.sort(key=lambda one: -one.work)
    detailed: list[float] = []
    for at in range(_DETAILED):
        detailed += stores[at].row() if at < len(stores) else [0.0] * (_PER_STORE + len(LEVELS))
    return np.asarray(detailed + _totals(stores, function.body), np.float32)


def _totals(stores: Sequence[_StoreFeatures], body: Stmt) -> list[float]:
    def total(values: Iterator[float]) -> float:
        return _log(sum(values))

    serial = [one for one in stores if one.parallel == 1]
    return [
        float(len(stores)),
        total(one.instructions / min(one.parallel, 2) for one in stores),
        total(one.instructions for one in serial),
        total(one.iterations for one in stores if one.vector == 1),
        total(one.iterations * one.flops for one in stores),
        total(one.code for one in stores),
        total(one.guards * one.iterations for one in stores),
        total(_allocated(body)),
        total(one.starts for one in stores),
        *(total(one.traffic[level] / min(one.parallel, 2) for one in stores) for level in range(len(LEVELS))),
    ]


class _StoreFeatures:
    """What is counted of one store."""

    def __init__(self, store: Store) -> None:
        self.loops = store.loops
        self.extents = [_extent(loop) for loop in store.loops]
        self.accesses = [_access(store.statement.buffer, store.statement.indices, True)]
        self.flops = self.calls = self.divisions = self.selects = 0
        self._count(store.statement.value)
        self.guards = store.guards
        self.iterations = _product(self.extents)
        self.vector = self._product_of(LoopKind.VECTORIZED)
        self.unrolled = self._product_of(LoopKind.UNROLLED)
        self.parallel = self._product_of(LoopKind.PARALLEL)
        width = max(1, 64 // min(access.bytes for access in self.accesses))
        self.vectors = -(-self.vector // width)
        self.instructions = self.iterations / self.vector * self.vectors * (1 + self.flops + 12 * self.calls + 8 * self.divisions)
        self.waste = self.vectors * width / self.vector if self.vector > 1 else 1.0
        self.code = self.unrolled * self.vectors
        self.starts = _product(self.extents[: self._first(LoopKind.PARALLEL) + 1]) if self.parallel > 1 else 0
        self.work = self.iterations * (1 + self.flops + 8 * self.calls)
        self.footprints = self._footprints()
        self.traffic = [self._traffic(level) for level in LEVELS]

    def row(self) -> list[float]:
        """The features of this store."""
        inner = self.loops[-1] if self.loops else None
        lane = next((loop for loop in self.loops if loop.kind is LoopKind.VECTORIZED), None)
        serial = next((loop for loop in reversed(self.loops) if loop.kind is LoopKind.SERIAL), None)
        reads = [access for access in self.accesses if not access.stored]
        return [
            _log(self.iterations), float(self.flops), float(self.calls), float(self.divisions), float(self.selects),
            float(self.guards), _log(self.vector), _log(self.vectors), self.waste, _log(self.unrolled), _log(self.code),
            _log(self.parallel), _log(self.starts), float(lane is not None and lane is inner),
            _log(_extent(serial)) if serial is not None else 0.0, float(len(reads)),
            float(sum(_kind_of_step(access, lane) == 1 for access in reads)) if lane is not None else 0.0,
            float(sum(_kind_of_step(access, lane) == 2 for access in reads)) if lane is not None else 0.0,
            float(_kind_of_step(self.accesses[0], lane)) if lane is not None else 0.0,
            _log(sum(abs(access.step(serial.var)) for access in reads)) if serial is not None else 0.0,
            _log(self.instructions / min(self.parallel, 2)),
            *(_log(moved / min(self.parallel, 2)) for moved in self.traffic),
        ]

    def _count(self, value: Expr) -> None:
        """Arithmetic and accesses of a value, its index arithmetic aside."""
        stack: list[Expr] = [value]
        while stack:
            node = stack.pop()
            if isinstance(node, BufferLoad):
                self.accesses.append(_access(node.buffer, node.indices))
                continue
            if isinstance(node, (Div, FloorDiv, FloorMod)):
                self.divisions += 1
            elif isinstance(node, Call):
                self.calls += node.name not in ("likely",)
            elif isinstance(node, (IfThenElse, Select)):
                self.selects += 1
            elif isinstance(node, BinaryOp) and not isinstance(node, LogicalOp):
                self.flops += 1
            stack.extend(child for child in children(node) if isinstance(child, Expr))

    def _product_of(self, kind: LoopKind) -> int:
        return _product([extent for loop, extent in zip(self.loops, self.extents, strict=True) if loop.kind is kind])

    def _first(self, kind: LoopKind) -> int:
        return next((at for at, loop in enumerate(self.loops) if loop.kind is kind), -1)

    def _footprints(self) -> list[float]:
        """Bytes touched by the loops from place n on, for every n; the last entry is of one iteration."""
        found: list[float] = []
        ranges: dict[Var, int] = {}
        for place in range(len(self.loops), -1, -1):
            if place < len(self.loops):
                ranges[self.loops[place].var] = self.extents[place]
            buffers: dict[Buffer, float] = {}
            for access in self.accesses:
                size = _touched(access, ranges)
                buffers[access.buffer] = max(buffers.get(access.buffer, 0.0), size)
            found.append(sum(buffers.values()))
        return found[::-1]

    def _traffic(self, level: int) -> float:
        """Bytes that move into a cache of `level` bytes."""
        for place, size in enumerate(self.footprints):
            if size <= level:
                return _product(self.extents[:place]) * size
        return self.iterations * self.footprints[-1]


def _stores(body: Stmt) -> Iterator[Store]:
    stack: list[tuple[object, tuple[For, ...], int]] = [(body, (), 0)]
    while stack:
        node, loops, guards = stack.pop()
        if isinstance(node, BufferStore):
            yield Store(node, loops, guards)
            continue
        if isinstance(node, For):
            stack.append((node.body, (*loops, node), guards))
        elif isinstance(node, Stmt):
            inner = guards + isinstance(node, If)
            stack.extend((child, loops, inner) for child in children(node) if isinstance(child, Stmt))


def _allocated(body: Stmt) -> Iterator[float]:
    """Bytes of each allocation."""
    stack: list[Stmt] = [body]
    while stack:
        node = stack.pop()
        if isinstance(node, Allocate):
            yield _product([extent.value if isinstance(extent, IntImm) else 1 for extent in node.buffer.shape]) * (
                node.buffer.dtype.bits / 8)
        stack.extend(child for child in children(node) if isinstance(child, Stmt))


def _access(buffer: Buffer, indices: Sequence[Expr], stored: bool = False) -> Access:
    return Access(buffer, tuple(linear(index) for index in indices), stored)


def _touched(access: Access, ranges: dict[Var, int]) -> float:
    """Bytes of the lines that an access touches while the loops in `ranges` run."""
    size, row = 1.0, 1.0
    for index, extent in zip(access.indices, access.buffer.shape, strict=True):
        span = 1
        for atom, coefficient in terms(index):
            span += abs(coefficient) * (_values(atom, ranges) - 1)
        row = float(min(span, extent.value) if isinstance(extent, IntImm) else span)
        size *= row
    return size / row * max(row * access.bytes, _LINE) if access.indices else access.bytes


def _values(atom: Expr, ranges: dict[Var, int]) -> int:
    """About how many values an index takes: fused loops leave x // 8 and x % 8 behind."""
    if isinstance(atom, Var):
        return ranges.get(atom, 1)
    if isinstance(atom, (FloorDiv, FloorMod)) and isinstance(atom.b, IntImm):
        inner = _values(atom.a, ranges)
        return min(inner, atom.b.value) if isinstance(atom, FloorMod) else -(-inner // max(atom.b.value, 1))
    if isinstance(atom, (Add, Mul)) and isinstance(atom.b, IntImm):
        return _values(atom.a, ranges)
    return _product([extent for var, extent in ranges.items() if _occurs(var, atom)])


def _occurs(var: Var, expr: Expr) -> bool:
    stack: list[object] = [expr]
    while stack:
        node = stack.pop()
        if node is var:
            return True
        if isinstance(node, Expr):
            stack.extend(children(node))
    return False


def _coefficient(index: LinearForm, var: Var) -> int:
    """How far an index moves with a loop; a large number where that is no constant."""
    direct = index.coefficient(var)
    if direct:
        return direct
    return next((coefficient for atom, coefficient in terms(index) if not isinstance(atom, Var) and _occurs(var, atom)), 0)


def _kind_of_step(access: Access, loop: For | None) -> int:
    """0: the same element, 1: the next one, 2: another."""
    step = 0 if loop is None else abs(access.step(loop.var))
    return min(step, 2)


def _extent(loop: For) -> int:
    return max(loop.extent.value, 1) if isinstance(loop.extent, IntImm) else 8


def _product(values: Sequence[int]) -> int:
    found = 1
    for value in values:
        found *= value
    return found


def _log(value: float) -> float:
    return log2(1 + max(value, 0.0))
