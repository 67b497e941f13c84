"""Features of a candidate: numbers, read off its loops as lowered, from which the model learns what is fast.

For each store: how often it runs, in which kinds of loops, its arithmetic, how its accesses step along the innermost and
the vector loop, and how much memory moves at each level of the cache. That last one is counted from footprints: of the
loops around the store, those inside which everything touched fits into the level run without traffic; each iteration of
the others fetches that footprint anew. The features of the two stores with most work stand first, then sums over all.
Large numbers enter as logarithms. What is counted is counted by ir/analysis/work.py. Last stand the terms of the estimate that the
rules choose by, so that what is learnt is what it leaves over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log2, prod

import numpy as np

from ..autoschedule.cost.cpu import estimate
from ..autoschedule.cost.estimate import Estimate
from ..autoschedule.lowered_nests import build_nest
from ..codegen.machine import Machine
from ..ir.analysis.footprint import Access, Array, access_box, line_bytes
from ..ir.analysis.operations import Kind
from ..ir.analysis.work import Statement, Work, count_widths, measure_work
from ..ir.ops import integer_value
from ..ir.stmt import BufferStore, For, Function, LoopKind

__all__ = ["FEATURES", "features"]

LEVELS = (1 << 11, 32 << 10, 1 << 20, 16 << 20)
"""Bytes of the registers, and of the first, second and third cache, more or less: the model finds where it matters."""
_UNKNOWN = 8
"""The value that stands for an extent that is not a constant."""
_DETAILED = 2
_PER_STORE = 21
_TOTALS = 9 + len(LEVELS)
TERMS = (
    "throughput",
    "loads",
    "stores",
    "shuffles",
    "instructions",
    "latency of the sum",
    "L2 bandwidth",
    "L3 bandwidth",
    "memory bandwidth",
    "loops",
    "fork-join",
)
"""How the names of an estimate's terms end; one of another name counts in the sum alone."""
FEATURES = _DETAILED * (_PER_STORE + len(LEVELS)) + _TOTALS + len(TERMS) + 1


def features(function: Function, machine: Machine) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """The features of a function of stage "loops", to run on a machine: FEATURES numbers."""
    work = measure_work(function)
    statements = [statement for statement in work.all_statements() if isinstance(statement.node, BufferStore)]
    # in the order of the program, reversed: the last stores are mostly the result's
    stores = [_StoreFeatures(statement) for statement in reversed(statements)]
    stores.sort(key=lambda store: -store.work)
    detailed: list[float] = []
    for at in range(_DETAILED):
        # zeros where there are fewer stores than are described
        detailed += stores[at].row() if at < len(stores) else [0.0] * (_PER_STORE + len(LEVELS))
    return np.asarray(
        detailed + _totals(stores, work) + _terms(estimate(build_nest(work, machine), machine)), np.float32
    )


def _terms(estimated: Estimate) -> list[float]:
    """The terms of an estimate in nanoseconds, and their sum."""
    parts = [sum(seconds for name, seconds in estimated.parts if name.endswith(term)) for term in TERMS]
    return [_log(seconds * 1e9) for seconds in (*parts, estimated.seconds)]


def _totals(stores: Sequence[_StoreFeatures], work: Work) -> list[float]:
    def total(values: Iterator[float]) -> float:
        return _log(sum(values))

    serial = [store for store in stores if store.parallel == 1]
    return [
        float(len(stores)),
        # more than one thread counts as two, whatever machine it is for
        total(store.instructions / min(store.parallel, 2) for store in stores),
        total(store.instructions for store in serial),
        total(store.iterations for store in stores if store.vector == 1),
        total(store.iterations * store.flops for store in stores),
        total(store.code for store in stores),
        total(store.guards * store.iterations for store in stores),
        total(_allocated_buffers(work)),
        total(store.starts for store in stores),
        *(total(store.traffic[level] / min(store.parallel, 2) for store in stores) for level in range(len(LEVELS))),
    ]


class _StoreFeatures:
    """Counts of one store."""

    def __init__(self, store: Statement) -> None:
        self.around = store.around
        self.loops = store.loops
        # at least 1, so that products do not vanish
        self.extents = [max(work.number(_UNKNOWN), 1) for work in store.around]
        self.accesses = store.accesses
        operations = store.operations.all
        self.flops = operations.number(Kind.ARITHMETIC, Kind.COMPARISON)
        self.calls = operations.number(Kind.CALL, but=("likely",))
        self.divisions = operations.number(Kind.DIVISION)
        self.selects = operations.number(Kind.CHOICE)
        self.guards = store.guards
        self.iterations = prod(self.extents)
        self.vector = self._loop_product(LoopKind.VECTORIZED)
        self.unrolled = self._loop_product(LoopKind.UNROLLED)
        self.parallel = self._loop_product(LoopKind.PARALLEL)
        # elements of the narrowest access in a register of 64 bytes
        width = max(1, 64 // min(access.bytes for access in self.accesses))
        self.vectors = -(-self.vector // width)
        self.instructions = (
            # rough weights: a call is some twelve instructions, a division eight
            self.iterations / self.vector * self.vectors * (1 + self.flops + 12 * self.calls + 8 * self.divisions)
        )
        self.waste = self.vectors * width / self.vector if self.vector > 1 else 1.0
        self.code = self.unrolled * self.vectors
        # how often a parallel loop is entered
        self.starts = prod(self.extents[: self._first(LoopKind.PARALLEL) + 1]) if self.parallel > 1 else 0
        self.work = self.iterations * (1 + self.flops + 8 * self.calls)
        self.footprints = [self._footprint(place) for place in range(len(self.loops) + 1)]
        self.traffic = [self._traffic(level) for level in LEVELS]

    def row(self) -> list[float]:
        """The features of this store."""
        inner = self.loops[-1] if self.loops else None
        lane = next((loop for loop in self.loops if loop.kind is LoopKind.VECTORIZED), None)
        serial = next((loop for loop in reversed(self.loops) if loop.kind is LoopKind.SERIAL), None)
        reads = [access for access in self.accesses if not access.stored]
        return [
            _log(self.iterations),
            float(self.flops),
            float(self.calls),
            float(self.divisions),
            float(self.selects),
            float(self.guards),
            _log(self.vector),
            _log(self.vectors),
            self.waste,
            _log(self.unrolled),
            _log(self.code),
            _log(self.parallel),
            _log(self.starts),
            float(lane is not None and lane is inner),
            _log(self.extents[self.loops.index(serial)]) if serial is not None else 0.0,
            float(len(reads)),
            float(sum(_kind_of_step(access, lane) == 1 for access in reads)) if lane is not None else 0.0,
            float(sum(_kind_of_step(access, lane) == 2 for access in reads)) if lane is not None else 0.0,
            float(_kind_of_step(self.accesses[0], lane)) if lane is not None else 0.0,
            _log(sum(abs(access.step(serial.var)) for access in reads)) if serial is not None else 0.0,
            _log(self.instructions / min(self.parallel, 2)),
            *(_log(moved / min(self.parallel, 2)) for moved in self.traffic),
        ]

    def _loop_product(self, kind: LoopKind) -> int:
        return prod(extent for loop, extent in zip(self.loops, self.extents, strict=True) if loop.kind is kind)

    def _first(self, kind: LoopKind) -> int:
        return next((at for at, loop in enumerate(self.loops) if loop.kind is kind), -1)

    def _footprint(self, place: int) -> float:
        """Bytes of the lines that one run of the loops from `place` on touches."""
        widths = count_widths(self.around[place:], _UNKNOWN)
        sizes: dict[Array, float] = {}
        for access in self.accesses:
            size = line_bytes(access_box(access, widths), access.bytes, _UNKNOWN)
            sizes[access.array] = max(sizes.get(access.array, 0.0), size)  # accesses of one array share its lines
        return sum(sizes.values())

    def _traffic(self, level: int) -> float:
        """Bytes that move into a cache of `level` bytes."""
        for place, size in enumerate(self.footprints):
            if size <= level:
                return prod(self.extents[:place]) * size  # the loops outside of the level fetch it anew
        return self.iterations * self.footprints[-1]  # nothing fits: each iteration fetches


def _allocated_buffers(work: Work) -> Iterator[float]:
    """Bytes of each allocation."""
    for buffer in (buffer for loop in work.all_loops() for buffer in loop.allocations):
        yield prod(integer_value(extent, 1) for extent in buffer.shape) * (buffer.dtype.bits / 8)


def _kind_of_step(access: Access, loop: For | None) -> int:
    """0: the same element, 1: the next one, 2: another."""
    step = 0 if loop is None else abs(access.step(loop.var))
    return min(step, 2)


def _log(value: float) -> float:
    return log2(1 + max(value, 0.0))  # log2 of 1 + x, so that 0 stays 0
