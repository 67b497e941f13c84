"""`tilewright doctor --calibrate`: what the estimate of schedules takes of a machine, measured by kernels of our own.

    a clock         a chain of shifts and exclusive ors, each of one cycle wherever there are any
    latency         sums of one vector, each waiting for the one before
    rate            sums of a tile that fills the registers, over data in the first cache
    bytes a cycle   what a pass over an array takes beyond its loads, and beyond the levels before: as the estimate adds them up
    a fork          what a loop on all threads takes beyond its share of the same loop on one

A kernel runs again and again, and its least time counts, so that what else the machine does changes little.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import inf, log2, prod
from time import perf_counter, thread_time
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from .. import te
from ..base.dataclass import dataclass
from ..codegen.calibration import MEASURES, VARIABLE, Calibration, keep, machine_text
from ..codegen.machine import Machine, find_machine, register_tiles
from ..codegen.target import Target
from ..driver.build import build
from ..runtime.array import numpy_dtype
from ..runtime.threads import available_cpus, num_threads, set_num_threads

__all__ = ["calibrate", "difference", "measured"]

DEPTH, TILES = 128, 128
"""Terms of a sum whose operands stay in the first cache, and how many tiles of sums a kernel computes."""
REPEAT, LEAST = 25, 4e-4
"""How often a kernel is timed, and for how many seconds each time at least."""
DIFFERS = 0.1
"""From which part of a value on a difference is pointed out."""
MOST_BYTES = 256 << 20

Term = Callable[[te.Expr, te.Expr], te.Expr]


def calibrate(console: Console) -> int:
    """Measures this machine, keeps what came out, and prints how it differs from the row of its processor. Returns 0, or 1 where it
    cannot be kept."""
    row = find_machine(Target.parse("llvm -uncalibrated"))
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("measuring this machine", total=len(MEASURES))
        values: dict[str, float] = {}
        for found in measured(row):
            values.update(found)
            progress.update(task, completed=len(values), description=f"measuring this machine: {', '.join(found)}")
    known = {
        name: float(f"{min(max(values[name], measure.least), measure.most):.3g}")
        for name, measure in MEASURES.items()
        if name in values
    }
    console.print(difference(row, known))
    try:
        path = keep(Calibration(tuple(known.items())))
        kept = f"kept in {path}" if path is not None else f"not kept: TILEWRIGHT_CACHE or {VARIABLE} says so"
    except OSError as error:
        kept = f"cannot be kept: {error}"
        path = error
    console.print(kept, highlight=False, markup=False, soft_wrap=True)
    return int(isinstance(path, OSError))


def difference(row: Machine, values: Mapping[str, float]) -> Table:
    """Return what was measured beside what the row of the processor says."""
    table = Table(title=f"{machine_text()}: row {row.name}", title_justify="left", box=None)
    table.add_column("")
    for title in ("row", "measured", "unit"):
        table.add_column(title, justify="left" if title == "unit" else "right")
    for name, value in values.items():
        usual = _row_cost(row, name)
        differs = abs(value / usual - 1) > DIFFERS
        table.add_row(name, f"{usual:.3g}", f"{value:.3g}", MEASURES[name].unit, style="bold" if differs else "dim")
    return table


def _row_cost(row: Machine, name: str) -> float:
    unit, _, part = name.partition(".")
    return float(getattr(getattr(row.instructions, unit), part) if part else getattr(row, name))


def measured(row: Machine) -> Iterator[dict[str, float]]:
    """Return what is measured, step by step. row: what is known of the machine otherwise."""
    threads = num_threads()
    set_num_threads(1)
    try:
        clock = _clock()
        yield {"clock": clock}
        bench = _Bench(row, clock)
        values: dict[str, float] = {}
        for found in (*map(bench.latency, _LATENCIES), *map(bench.rate, _RATES), *map(bench.elementwise, _ELEMENTWISE)):
            values |= found
            yield found
        for look in (bench.loads, bench.stores, bench.shuffles, bench.gathers, bench.masked_rows):
            found = look()
            values |= found
            yield found
        for found in bench.levels(values["load.rate"] * row.vector_bytes):
            values |= found
            yield found
        if available_cpus() > 1:
            yield from bench.threads(values["memory_rate"])
    finally:
        set_num_threads(threads)


_ADD: Term = lambda a, b: a + b
_MUL: Term = lambda a, b: a * b
_LARGER: Term = lambda a, b: te.max(a, b)
_LESSER: Term = lambda a, b: te.min(a, b)
_PRODUCT = te.comm_reducer(_MUL, lambda dtype: te.const(1, dtype), name="product")
_EITHER = te.comm_reducer(lambda a, b: a | b, lambda dtype: te.const(0, dtype), name="either")
_LATENCIES: tuple[tuple[str, Any, Term], ...] = (
    ("fma", te.sum, _MUL),
    ("add", te.sum, _LARGER),
    ("mul", _PRODUCT, _LARGER),
)
"""The combiner that waits, and its term."""
_RATES: tuple[tuple[str, Any, Term, int], ...] = (
    ("fma", te.sum, _MUL, 1),
    ("add", te.sum, _ADD, 2),
    ("mul", _PRODUCT, _MUL, 2),
    ("select", te.min, _LESSER, 4),
)
"""How many instructions of the class a term takes with its combiner: a minimum is asked for in both orders."""
_ELEMENTWISE: tuple[tuple[str, Term], ...] = (
    ("div", lambda a, b: a / b),
    ("sqrt", lambda a, b: te.sqrt(b)),
    ("call", lambda a, b: te.exp(b)),
)


def _clock() -> float:
    """10^9 cycles a second: seven instructions of one cycle wait for each other in each term."""

    def chained(x: Any, y: Any) -> Any:
        for left, bits in ((True, 13), (False, 7), (True, 17)):
            x = x ^ (x << te.const(bits, "uint64") if left else x >> te.const(bits, "uint64"))
        return x ^ y

    terms = 1 << 14
    reducer = te.comm_reducer(chained, lambda dtype: te.const(1, dtype), name="chained")
    a = te.placeholder((terms,), "uint64", name="a")
    k = te.reduce_axis((0, terms), "k")
    out = te.compute((1,), lambda i: reducer(a[k], axis=k), name="out")
    return 7 * terms / _seconds(te.create_schedule(out.op), [a, out]) * 1e-9


@dataclass(frozen=True)
class _Bench:
    """Measurements of a machine.

    row: of the machine; clock: 10^9 cycles a second.
    """

    row: Machine
    clock: float

    def cycles(self, schedule: te.Schedule, args: list[te.Tensor]) -> float:
        """The least that a call takes: of this thread, or of all that there are."""
        return _seconds(schedule, args, thread_time if num_threads() == 1 else perf_counter) * self.clock * 1e9

    def sums(self, combine: Any, term: Term, rows: int, vectors: int, dtype: str = "float32") -> float:
        """Cycles of a term of a tile of sums."""
        lanes = self.row.lanes(32)
        alone = (
            rows == vectors == 1
        )  # one sum, too long for the processor to see the next; all that it reads is an element
        depth, tiles = (16 * DEPTH, TILES // 16) if alone else (DEPTH, TILES)
        a = te.placeholder((rows, depth), dtype, name="a")
        b = te.placeholder((1 if alone else depth, vectors * lanes), dtype, name="b")
        k = te.reduce_axis((0, depth), "k")
        out = te.compute(
            (tiles, rows, vectors * lanes),
            lambda t, i, j: combine(term(a[i, k], b[0 if alone else k, j]), axis=k),
            name="out",
        )
        s = te.create_schedule(out.op)
        tile = s[s.cache_write(out, "local")]
        t, i, j = out.op.axis
        s[out].unroll(i)
        s[out].vectorize(j)
        tile.compute_at(s[out], t)
        tile.reorder(*tile.op.reduce_axis, *tile.op.axis[1:])
        tile.unroll(tile.op.axis[1])
        tile.vectorize(tile.op.axis[2])
        return self.cycles(s, [a, b, out]) / (tiles * depth)

    def latency(self, about: tuple[str, Any, Term]) -> dict[str, float]:
        """Latency of what combines the terms of a sum."""
        name, combine, term = about
        return {f"{name}.latency": self.sums(combine, term, 1, 1)}

    def rate(self, about: tuple[str, Any, Term, int]) -> dict[str, float]:
        """Rate of an instruction in a tile that fills the registers."""
        name, combine, term, count = about
        tile = register_tiles(self.row, 32)[0]
        return {f"{name}.rate": count * tile.rows * tile.vectors / self.sums(combine, term, tile.rows, tile.vectors)}

    def elementwise(self, about: tuple[str, Term]) -> dict[str, float]:
        """Rate of an instruction, or a function, that takes longer than the sum that takes it up."""
        name, term = about
        return {f"{name}.rate": 4 / self.sums(te.sum, term, 1, 4)}

    def loads(self) -> dict[str, float]:
        """Rate of loads of whole vectors: each is taken up by an exclusive or's kin, of which there are more than loads."""
        vectors = 4
        return {"load.rate": vectors / self.sums(_EITHER, lambda a, b: b, 1, vectors, "int32")}

    def stores(self) -> dict[str, float]:
        """Rate of stores of whole vectors: sums that lie in the first cache, each loaded and stored at every term."""
        count = self.row.l1 // 8
        a = te.placeholder((DEPTH,), "int32", name="a")
        k = te.reduce_axis((0, DEPTH), "k")
        out = te.compute((count,), lambda i: _EITHER(a[k], axis=k), name="out")
        s = te.create_schedule(out.op)
        outer, lane = s[out].split(out.op.axis[0], factor=4 * self.row.lanes(32))
        s[out].reorder(k, outer, lane)
        s[out].vectorize(lane)
        return {"store.rate": (DEPTH + 1) * count / self.row.lanes(32) / self.cycles(s, [a, out])}

    def shuffles(self) -> dict[str, float]:
        """Rate of shuffles of lanes exchanged, as a transposed copy does: for each square of vectors, lanes times the logarithm of
        lanes."""
        lanes = self.row.lanes(32)
        sides = (2 * lanes, 8 * lanes)
        cycles: list[float] = []
        for side in sides:
            a = te.placeholder((side, 4 * lanes), name="a")
            out = te.compute((4 * lanes, side), lambda i, j, a=a: a[j, i], name="out")
            s = te.create_schedule(out.op)
            across, inner = s[out].split(out.op.axis[0], factor=lanes)
            vector, lane = s[out].split(out.op.axis[1], factor=lanes)
            s[out].reorder(across, vector, inner, lane)
            s[out].unroll(inner)
            s[out].vectorize(lane)
            cycles.append(self.cycles(s, [a, out]))
        squares = 4 * (sides[1] - sides[0]) // lanes
        return {"shuffle.rate": lanes * log2(lanes) * squares / _more(cycles[1] - cycles[0])}

    def gathers(self) -> dict[str, float]:
        """Rate of gathers of as many elements as a vector has from as many rows."""
        lanes = self.row.lanes(32)
        a = te.placeholder((4 * lanes, DEPTH), name="a")
        k = te.reduce_axis((0, DEPTH), "k")
        out = te.compute((TILES, 4 * lanes), lambda t, j: te.sum(a[j, k], axis=k), name="out")
        s = te.create_schedule(out.op)
        tile = s[s.cache_write(out, "local")]
        s[out].vectorize(out.op.axis[1])
        tile.compute_at(s[out], out.op.axis[0])
        tile.reorder(*tile.op.reduce_axis, tile.op.axis[1])
        tile.vectorize(tile.op.axis[1])
        return {"gather.rate": 4 * TILES * DEPTH / self.cycles(s, [a, out])}

    def masked_rows(self) -> dict[str, float]:
        """Cycles of a load or a store of a part of a vector: what rows of nearly two vectors take beyond rows of one."""
        lanes, rows = self.row.lanes(32), 192
        cycles: list[float] = []
        for length in (lanes, 2 * lanes - 1):
            a = te.placeholder((rows, length), name="a")
            out = te.compute((rows, length), lambda i, j, a=a: a[i, j] + 1, name="out")
            s = te.create_schedule(out.op)
            s[out].vectorize(out.op.axis[1])
            cycles.append(self.cycles(s, [a, out]))
        return {"masked.rate": 2 * rows / _more(cycles[1] - cycles[0])}

    def levels(self, load: float) -> Iterator[dict[str, float]]:
        """Bytes that cross each cycle from each level, and for one that is written. load: bytes a cycle from the first cache."""
        known = 1 / load
        for level, within in zip(self.row.levels[1:], self.row.levels, strict=False):
            cycles = max(self.read(min(self.largest, int(4 * within.size))) - known, 1 / (8 * level.rate))
            known += cycles
            yield {f"{level.name.lower()}_rate": 1 / cycles}
        yield {"write": self.read(self.largest, writes=True) / (known - 1 / load)}

    @property
    def largest(self) -> int:
        """Bytes that no cache holds."""
        return min(4 * max(self.row.l2, self.row.l3), MOST_BYTES)

    def read(self, size: int, *, writes: bool = False, parallel: bool = False) -> float:
        """Cycles of a byte in passes over an array of that many bytes."""
        width = 8 * self.row.lanes(32)
        tasks = 8
        rows, passes = max(size // (4 * width * tasks), 1), 1 if writes else max((8 << 20) // size, 1)
        x = te.placeholder((passes,), "int32", name="x")
        if writes:
            out = te.compute((tasks, rows, width), lambda t, r, j: x[0] + 1, name="out")
            s = te.create_schedule(out.op)
            s[out].vectorize(out.op.axis[2])
            return self.cycles(s, [x, out]) / (4 * prod((tasks, rows, width)))
        a = te.placeholder((tasks, rows, width), "int32", name="a")
        r = te.reduce_axis((0, rows), "r")
        out = te.compute((passes, tasks, width), lambda p, t, j: _EITHER(a[t, r, j] | x[p], axis=r), name="out")
        s = te.create_schedule(out.op)
        tile = s[s.cache_write(out, "local")]
        task = s[out].fuse(*out.op.axis[:2])
        s[out].vectorize(out.op.axis[2])
        if parallel:
            s[out].parallel(task)
        tile.compute_at(s[out], task)
        tile.reorder(*tile.op.reduce_axis, *tile.op.axis)
        tile.vectorize(tile.op.axis[2])
        return self.cycles(s, [x, a, out]) / (4 * passes * prod((tasks, rows, width)))

    def threads(self, least: float) -> Iterator[dict[str, float]]:
        """Return what all cores take from memory together, which is no less than one does, and a fork."""
        cores = available_cpus()
        set_num_threads(cores)
        yield {"memory_shared": max(1 / self.read(self.largest, parallel=True), least)}
        alone, shared = self.passes(1), self.passes(cores)
        yield {"fork": _more(shared - alone)}

    def passes(self, threads: int) -> float:
        """Cycles of a loop of which each of so many threads has a task of one size."""
        count = self.row.l1 // 8
        a = te.placeholder((threads, count), name="a")
        out = te.compute((threads, count), lambda t, i: te.exp(a[t, i]), name="out")
        s = te.create_schedule(out.op)
        if threads > 1:
            s[out].parallel(out.op.axis[0])
        _, lane = s[out].split(out.op.axis[1], factor=self.row.lanes(32))
        s[out].vectorize(lane)
        return self.cycles(s, [a, out])


def _more(cycles: float) -> float:
    """A difference of times, of which noise leaves at least one cycle."""
    return max(cycles, 1.0)


def _seconds(schedule: te.Schedule, args: list[te.Tensor], elapsed: Callable[[], float] = thread_time) -> float:
    """The least time of a call on ones. elapsed: the clock; that of this thread stands still while others have its core."""
    kernel = build(
        schedule, args, target="llvm -uncalibrated", name="measure"
    )  # also where the file that is kept cannot be read
    arrays = [np.ones([int(str(extent)) for extent in each.shape], numpy_dtype(each.dtype)) for each in args]
    kernel(*arrays)
    number, least = 1, inf
    for _ in range(REPEAT):
        begin = elapsed()
        for _ in range(number):
            kernel(*arrays)
        seconds = (elapsed() - begin) / number
        least, number = min(least, seconds), max(number, int(LEAST / seconds) + 1)
    return least
