"""The work of kernels, counted from their loop nests: threads, memories, instructions, transactions, waits.

    for blockIdx.x in 64:                        blocks 64 of 256 threads
      A.shared = ..       threadIdx.x in 256     a phase: 4 loads of 16 bytes a thread from memory, a barrier
      for k in 32:        threadIdx.x in 256     a phase: 32 multiply-adds, 32 loads from shared memory by every warp

What a block does between two barriers is a phase. Transactions of a warp are told by the addresses of its threads, which lie as far
apart as steps of the loops bound to thread axes are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from math import ceil, log2, prod
from typing import TypeAlias

from ...base import dataclass, field
from ...ir import ProducerLoad, Var, post_order
from ...ir.analysis.footprint import Access, Array, access_box, line_bytes
from ...ir.analysis.warps import LINE, SECTOR, WARP, WORD, count_transactions
from ...ir.structural import Key
from ...te.compute import placeholder
from ..accesses import ASSUMED, Dimension
from ..loop_nest import Body, Memory, Nest, Transfer

__all__ = [
    "PARTS",
    "RESULT",
    "SLOTS",
    "SLOTS_OF_TRANSFER",
    "KernelWork",
    "Phase",
    "Unique",
    "count_kernel",
    "fill_phase",
]

GROUP = 4
"""Warps that multiply together."""
FRAGMENTS = {"mma": WARP, "wgmma": GROUP * WARP}
"""How scopes of registers begin that threads have together, and how many these are."""
SLOTS = {"div": 10, "sqrt": 8, "call": 20, "join": 0, "mma": 1 / 2048, "wgmma": 0}
"""Instructions behind one operator, where they are several: of NVRTC for sm_80, of calls in between (exp 10, tanh 17, log 31)."""
SLOTS_OF_TRANSFER = 2
"""For the address, and for the load or store."""
POWERS = {"div": 1, "sqrt": 1, "call": 1}
"""Of them, those of the unit for special functions."""
ARITHMETIC = ("add", "mul", "fma")


@dataclass
class Phase:
    """The work of a block between barriers, in all of its runs. issued, of_thread: instructions of all warps, and of one thread;
    arithmetic, special: those of these units, of threads; mma, wgmma: multiply-adds of 16 bits by tensor cores, as instructions of a
    warp and of four; accessed: cycles of shared memory and of the first cache; loads: of a thread, from memory. joins, crossed:
    steps in which threads join their sums, and how often those of several warps do. stages: of the pipeline; is_synchronized:
    whether a barrier stands behind it. late: cycles beyond those of a load until the data of a run are there; alone: cycles for
    which a block waits for its own instructions; begins: how often a pipeline begins anew."""

    runs: float
    stages: int = 1
    is_synchronized: bool = False
    issued: float = 0.0
    of_thread: float = 0.0
    arithmetic: float = 0.0
    special: float = 0.0
    mma: float = 0.0
    wgmma: float = 0.0
    accessed: float = 0.0
    loads: float = 0.0
    joins: float = 0.0
    crossed: float = 0.0
    late: float = 0.0
    alone: float = 0.0
    begins: float = 1.0


PARTS, RESULT = placeholder((1,), name="parts"), placeholder((1,), name="result")
"""Stand for the parts of sums that one kernel stores and another adds up, and for their sums."""


def fill_phase(runs: float, stages: int, threads: int, copies: float, stored: float) -> Phase:
    """The phase in which the threads of a block copy to shared memory. copies: of a thread, of 16 bytes mostly; stored: bytes."""
    slots = 2 * SLOTS_OF_TRANSFER * copies
    return Phase(runs, stages, True, threads / WARP * slots, slots, accessed=stored / LINE, loads=copies)


Unique: TypeAlias = dict[tuple[Array, bool], float]
"""Bytes of arrays, by whether they are stored."""


@dataclass
class KernelWork:
    """Work of a GPU kernel.

    blocks: of so many threads, each thread with registers for its arrays, each block with bytes of shared memory. loaded, moved:
    bytes of a block between the L2 cache and it, where the first cache keeps what is read again and where not; unique: of all
    blocks together, by the array and whether it is stored; at_once: bytes of the lines that a block's threads read at one time.
    """

    blocks: int = 1
    threads: int = 1
    registers: float = 0.0
    shared: int = 0
    loaded: float = 0.0
    moved: float = 0.0
    unique: Unique = field(default_factory=dict[tuple[Array, bool], float])
    at_once: float = 0.0
    phases: list[Phase] = field(default_factory=list[Phase])


Path = tuple[tuple[Var | None, int, str, float], ...]
"""Loops around, the outermost first: axis, trips, thread axis, share. Where a stage begins stands one without an axis."""


_Form = tuple[Array, tuple[Key, ...], bool]
"""Accesses of one form to one array, which share what they touch; and whether they store."""


def count_kernel(nest: Nest) -> KernelWork:
    """Count the work of a kernel."""
    threads = _find_threads(nest, {}, {})
    lanes = threads.pop("", 1)  # instructions of several threads have them, whatever loops are bound to
    threads.setdefault("threadIdx.x", lanes)
    counter = _Counter(threads)
    counter.walk(nest, (), Phase(1.0))
    work = counter.finish()
    work.threads = max(work.threads, nest.memory.among if nest.memory is not None else 1)
    return work


def _find_threads(part: Nest | Body, around: Mapping[str, float], found: dict[str, int]) -> dict[str, int]:
    """Find the threads of a block by their tags: as many as the stage with the most has; under "" those that have registers together.
    around: those of loops around; what all threads fill together begins anew."""
    if isinstance(part, Body):
        return found
    scope = part.memory.scope if part.memory is not None else ""
    if scope == "shared":
        around = {}
    found[""] = max(found.get("", 1), _count_sharers(scope))
    if part.thread.startswith("threadIdx"):
        around = {**around, part.thread: around.get(part.thread, 1) * part.trips * part.share}
        # a share of the threads that a loop is bound to
        found[part.thread] = max(found.get(part.thread, 1), round(around[part.thread]))
    for inside in part.body:
        _find_threads(inside, around, found)
    return found


def _count_sharers(scope: str) -> int:
    """Count the threads that have memory of a scope together as fragments of it; 1 of any other."""
    return next((lanes for name, lanes in FRAGMENTS.items() if scope.startswith(name)), 1)


@dataclass(slots=True)
class _Lifetime:
    """An array in registers of a thread. first, last: the bodies between which it holds what is needed: the last one may give its
    registers to what it stores."""

    first: int
    last: int = 0
    registers: float = 0.0


@dataclass(frozen=True, slots=True)
class _Site:
    """The loops around a body. steps: the innermost first, each as axis, trips, values of the axis inside, thread axis. runs: of a
    thread; warps: that run it; inner: loops in the body; widths: the values of axes in all of them."""

    path: Path
    steps: Sequence[tuple[Var, int, int, str]]
    runs: float
    warps: int
    inner: Sequence[tuple[Var, int]]
    widths: Mapping[Var, int]

    def widths_of_block(self) -> dict[Var, int]:
        """The values of axes in one block."""
        widths: dict[Var, int] = {}
        loops = [(axis, trips) for axis, trips, _, thread in self.steps if not thread.startswith("blockIdx")]
        for axis, trips in (*self.inner, *loops):
            widths[axis] = widths.get(axis, 1) * trips
        return widths


class _Counter:
    def __init__(self, threads: Mapping[str, int]) -> None:
        self.threads = threads
        self.work = KernelWork(threads=prod(threads.values()))
        self.of_block: dict[_Form, float] = defaultdict(float)
        self.of_all: dict[_Form, float] = defaultdict(float)
        self.now = 0
        self.blocks = 1.0
        self.arrays: dict[Array, _Lifetime] = {}
        self.shared: dict[Array, int] = {}

    def finish(self) -> KernelWork:
        """The work, once all has been walked."""
        self.work.blocks = round(self.blocks)
        self.work.loaded = sum(self.of_block.values())
        for (array, _, stored), size in self.of_all.items():
            self.work.unique[array, stored] = self.work.unique.get((array, stored), 0.0) + size
        self.work.shared = sum(self.shared.values())
        arrays = self.arrays.values()
        self.work.registers = max(
            (
                # registers of a dead array may be given to another one
                sum(each.registers for each in arrays if each.first <= now < max(each.last, each.first + 1))
                for now in {each.first for each in arrays}
            ),
            default=0.0,
        )
        return self.work

    def walk(self, part: Nest | Body, path: Path, phase: Phase) -> None:
        """Count a part in the loops around it."""
        if isinstance(part, Body):
            self.now += 1
            for array in part.kept:
                if array in self.arrays:
                    self.arrays[array].last = self.now
            self.add_body(part, path, phase)
            return
        memory = part.memory
        if memory is not None:
            if memory.scope == "shared":
                # shared memory is filled by all threads of the block
                path = tuple(each for each in path if not each[2] or each[2].startswith("blockIdx"))
                runs = _count_runs(path)
                # a pipeline has several places
                self.shared[memory.array] = max(memory.bytes * memory.stages, self.shared.get(memory.array, 0))
                fill = Phase(runs, memory.stages, True)
                self.work.phases.append(fill)
                phase = fill
            elif not path:
                self.work.phases.append(phase)
            elif memory.scope != "global":
                self.add_registers(memory, path)
            path = (*path, (None, 1, "", 1.0))  # from here on the stage's own loops count
        if part.axis is not None:
            path = (*path, (part.axis, part.trips, part.thread, part.share))
        if part.thread.startswith("blockIdx"):
            self.blocks *= part.trips * part.share
        for inside in part.body:
            self.walk(inside, path, phase)

    def add_registers(self, memory: Memory, path: Path) -> None:
        """Add the registers of a thread that hold a stage: its elements, those of each virtual thread, shared among the threads that
        its own loops are bound to."""
        virtual = prod(trips for _, trips, thread, _ in path if thread.startswith("vthread"))
        # a fragment's registers are divided among a warp
        own = _count_sharers(memory.scope)
        among = own if own > 1 else memory.among
        if own == GROUP * WARP:  # each four warps have rows of their own, where the stage's own loops are bound to them
            around = {thread for _, _, thread, _ in path}
            among = max(own, prod(count for tag, count in self.threads.items() if tag not in around))
        known = self.arrays.setdefault(memory.array, _Lifetime(self.now + 1))
        known.registers = max(known.registers, memory.bytes / WORD * virtual / among)

    def add_body(self, body: Body, path: Path, phase: Phase) -> None:
        """Add the work of a body to that of its phase."""
        own = _own_threads(path)
        widths: dict[Var, int] = {}
        for axis, trips in body.inner:
            widths[axis] = widths.get(axis, 1) * trips
        steps: list[tuple[Var, int, int, str]] = []  # axis, trips, values inside, thread
        for axis, trips, thread, _ in reversed(path):
            if axis is not None:
                steps.append((axis, trips, widths.get(axis, 1), thread))
                widths[axis] = widths.get(axis, 1) * trips
        used = [transfer.access for transfer in body.transfers]
        runs = prod(
            trips * share
            for axis, trips, thread, share in path
            if axis is not None
            # virtual threads repeat only what depends on them; of sums in registers alone, all do
            and (not thread or thread.startswith("vthread") and (not used or any(access.step(axis) for access in used)))
        )
        active = prod(own.get(tag, extent) for tag, extent in self.threads.items())
        warps = ceil(active / WARP)
        if "join" in body.instructions:  # joining is counted as steps, not as instructions
            threads = body.instructions["join"]
            phase.joins += runs * log2(threads)
            phase.crossed += runs * (threads > WARP)
            return
        count = body.instructions
        transfers = sum(transfer.times for transfer in body.transfers if transfer.by == "thread")
        slots = sum(times * SLOTS.get(name, 1) for name, times in count.items()) + SLOTS_OF_TRANSFER * transfers
        phase.issued += runs * warps * slots
        phase.of_thread += runs * slots
        phase.arithmetic += runs * warps * WARP * sum(count.get(name, 0) for name in ARITHMETIC)
        phase.mma += runs * warps * count.get("mma", 0)
        phase.wgmma += runs * warps / GROUP * count.get("wgmma", 0)
        phase.special += runs * warps * WARP * sum(count.get(name, 0) * times for name, times in POWERS.items())
        site = _Site(path, steps, runs, warps, body.inner, widths)
        for transfer in body.transfers:
            self.add_transfer(transfer, site, phase)

    def add_transfer(self, transfer: Transfer, site: _Site, phase: Phase) -> None:
        """Add the transactions of loads or stores."""
        access, by_data = transfer.access, _is_by_data(transfer.access)
        times = site.runs * site.warps * transfer.times
        together = {"warp": 1, "group": GROUP, "engine": site.warps}.get(transfer.by)
        if together is not None:  # whole lines, whoever has which part
            moved = times * transfer.bytes / together
            phase.accessed += moved / LINE
            if transfer.scope != "shared":
                self.work.moved += moved
                phase.loads += 0 if access.stored else site.runs
                self.add_boxes(access, site)
            return
        if by_data:  # data may send each thread elsewhere
            count, lines = WARP, WARP
        else:
            lanes = tuple(self.find_lanes(access, site))
            begin = 0 if transfer.scope == "shared" or _begins_sector(access) else transfer.bytes
            count, lines = _transactions(lanes, access.bytes, transfer.bytes, transfer.scope, begin)
        if transfer.scope == "shared":
            phase.accessed += times * count
            return  # shared memory has no cache behind it
        phase.accessed += times * max(count * SECTOR / LINE, lines)
        self.work.moved += times * count * SECTOR
        if not access.stored:
            # an index that is read comes first: two loads wait
            phase.loads += site.runs * transfer.times * (2 if by_data else 1)
            self.work.at_once += site.warps * transfer.times * lines * LINE
        self.add_boxes(access, site, times * WARP * SECTOR if by_data else 0.0)

    def add_boxes(self, access: Access, site: _Site, anywhere: float = 0.0) -> None:
        """Add the bytes that an access touches. anywhere: those of a block, where data say which."""
        form = (access.array, access.pattern[0], access.stored)
        if anywhere:
            sizes = [anywhere, anywhere * self.blocks]
        else:
            sizes = [_box_bytes(access, widths) for widths in (site.widths_of_block(), site.widths)]
        self.of_block[form] = max(self.of_block[form], sizes[0])  # accesses of one form share what they touch
        self.of_all[form] = max(self.of_all[form], sizes[1])

    def find_lanes(self, access: Access, site: _Site) -> Iterator[tuple[int, int]]:
        """The threads of a block as digits, the fastest first, each with how many elements lie between two."""
        own = _own_loops(site.path)
        for tag in ("threadIdx.x", "threadIdx.y", "threadIdx.z"):
            if tag in own:
                digits = [(trips, by * access.step(axis)) for axis, trips, by, thread in site.steps if thread == tag]
                yield from digits[: own[tag]]
            elif tag in self.threads:
                yield self.threads[tag], 0


def _count_runs(path: Path) -> float:
    return prod(trips * share for _, trips, thread, share in path if not thread)


def _own_loops(path: Path) -> dict[str, int]:
    """The loops bound to each thread axis in the innermost stage that has such, by their number."""
    found: dict[str, int] = {}
    closed: set[str] = set()
    for axis, _, thread, _ in reversed(path):
        if axis is None:
            closed.update(found)
        # a stage's own loops hide those of the stages around
        elif thread.startswith("threadIdx") and thread not in closed:
            found[thread] = found.get(thread, 0) + 1
    return found


def _own_threads(path: Path) -> dict[str, float]:
    """The threads along each axis that run what is in a path."""
    loops = _own_loops(path)
    found: dict[str, float] = {}
    for axis, trips, thread, share in reversed(path):
        if axis is not None and loops.get(thread, 0):
            loops[thread] -= 1
            found[thread] = found.get(thread, 1.0) * trips * share
    return found


def _is_by_data(access: Access) -> bool:
    """Return whether data say which element is meant."""
    atoms = [part for form in access.forms for part, _ in Dimension(form).rest if not isinstance(part, Var)]
    return access.indices is None or any(isinstance(node, ProducerLoad) for node in post_order(*atoms))


def _begins_sector(access: Access) -> bool:
    """Return whether rows of what is read begin where sectors do, which is so of whole arrays."""
    offset, rows = access.pattern[1], access.shape[-1:]
    whole = all(isinstance(extent, int) and extent * access.bytes % SECTOR == 0 for extent in rows)
    return (len(access.shape) < 2 or whole) and not (offset and offset[-1] * access.bytes % SECTOR)


def _box_bytes(access: Access, widths: Mapping[Var, int]) -> float:
    return line_bytes(access_box(access, widths), access.bytes, ASSUMED, access.shape, SECTOR)


@lru_cache(4096)
def _transactions(lanes: tuple[tuple[int, int], ...], item: int, size: int, scope: str, begin: int) -> tuple[int, int]:
    """Transactions of a warp, and the lines that they lie in. lanes: digits of the thread's number, the fastest first, each with the
    elements between two; item: bytes of an element, size: of what a thread moves; begin: the address of the first."""
    places: list[int] = []
    for lane in range(WARP):
        place, rest = 0, lane
        for trips, step in lanes:
            place += rest % trips * step
            rest //= trips
        if rest == 0:  # lanes beyond the threads of the block do nothing
            places.append(begin + place * item)
    lines = {line for place in places for line in range(place // LINE, (place + size - 1) // LINE + 1)}
    return count_transactions(places, size, scope == "shared"), len(lines)
