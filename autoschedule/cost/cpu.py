"""The time of a loop nest on a CPU, in closed form: nothing is lowered, compiled or run.

    nest                                     is counted as
    for task in parallel:                    tasks, shared among the threads; a fork
      for panel:                             bytes that cross into each cache, by what fits
        for k:                               cycles of a body: arithmetic, loads, stores, or waiting for the sum
          c[6, 16] += a[6, k] * b[k, 16]     a body: 12 multiply-adds, 6 + 2 loads, one link of a chain

**Cycles of a body**: the largest of what each kind of unit takes (instructions by their rates), of what is begun at once, and
of the latency of the instructions that wait for those of the iteration before; several runs of a short loop overlap as far as
the processor looks ahead. That is the analytical model for register tiles of Low, Igual, Smith and Quintana-Ortí (Analytical
Modeling Is Enough for High-Performance BLIS, 2016), for any body.

**Bytes that cross into a cache**: a loop whose whole run touches no more than the cache holds costs the bytes that it touches,
once. So does one of which an iteration does, since what iterations share stays. Any other costs the sum of its iterations.
(Mullapudi et al., Automatically Scheduling Halide Image Processing Pipelines, 2016, count so for one cache; Springer and
Bientinesi, Design of a High-Performance GEMM-like Tensor-Tensor Multiplication, 2018, order loops of contractions by it.) Bytes
touched are those of the lines under the boxes of footprint.py.

**Time**: the cycles of the bodies, or those of their loads and stores with the transfers, whichever is longer: while lines move
into the first cache nothing is loaded from it, and arithmetic goes on (the execution-cache-memory model of Stengel, Treibig,
Hager and Wellein, Quantifying Performance Bottlenecks of Stencil Computations, 2015). What is shared among threads takes as long
as that with the most tasks; and the fork. An estimate says what its time goes to, so that the largest part is what binds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from math import ceil, inf, prod

from ...base.dataclass import dataclass
from ...codegen.machine import Machine
from ...ir.analysis.footprint import Access, Array, access_box, line_bytes, lines_in_cache
from ...ir.expr import Var
from ..accesses import ASSUMED
from ..loop_nest import Body, Nest
from .estimate import Estimate, Parts

__all__ = [
    "BEGUN",
    "FORK",
    "LEAVE",
    "PAGE",
    "ROOM",
    "Lines",
    "body_cycles",
    "copy_cycles",
    "estimate",
    "fetch_cycles",
    "least_of_loops",
    "least_of_products",
    "operator_cycles",
    "tile_cycles",
]


FORK = "fork-join"
"""Under which the time is told that threads take to begin and to end."""
PAGE = 4096
"""Bytes of which the processor remembers where they are."""
STREAMS, BEGUN = 32, 40
"""Pages of memory in which the processor reads ahead at once, and cycles until the first lines of another one come."""
ROOM = 0.75
"""The part of a cache that a program's own data can have."""
LOOP, LEAVE = 2, 4
"""Instructions of a loop's own in each iteration, and cycles at its end."""
STEP = 1.0
"""Cycles that each iteration of a loop over terms loses, as measured for tiles of all shapes on two cores (0.65 to 1.4): larger tiles
pay it less often."""


class Lines:
    """The memory that accesses touch, each examined once in all nests that are estimated with it: the same ones, for one machine."""

    def __init__(self) -> None:
        self.sizes: dict[tuple[Access, tuple[int, ...]], tuple[float, float, float]] = {}
        self.forms: dict[Access, tuple[int, Mapping[Var, None]]] = {}
        self.numbers: dict[tuple[Array, object], int] = {}

    def form(self, access: Access) -> tuple[int, Mapping[Var, None]]:
        """A number that accesses of one form to one array share, and the variables in its indices."""
        form = self.forms.get(access)
        if form is None:
            key = access.array, access.pattern[0] if access.indices is not None else None
            form = self.forms[access] = self.numbers.setdefault(key, len(self.numbers)), dict.fromkeys(access.variables)
        return form

    def size(
        self, access: Access, widths: Mapping[Var, int], key: tuple[int, ...], line: int
    ) -> tuple[float, float, float]:
        """The bytes of the lines that an access touches, of the pages, and of the room in a cache. key: the widths of its own
        variables."""
        size = self.sizes.get((access, key))
        if size is None:
            box, times = access_box(access, widths), prod(key) if access.indices and access.sums is None else inf
            lines, room = lines_in_cache(box, access.bytes, ASSUMED, access.shape, line, PAGE)
            pages = line_bytes(box, access.bytes, ASSUMED, access.shape, PAGE)
            # where a place is data the box is the whole array, of which no more lines are read than there are reads
            size = min(lines, times * line), min(pages, times * PAGE), min(room, times * line)
            self.sizes[access, key] = size
        return size


def estimate(nest: Nest, machine: Machine, lines: Lines | None = None) -> Estimate:
    """The time of a nest, of data that stay where they fit when it runs again and again. lines: who estimates several nests of
    the same accesses hands in one dictionary, so that each is looked at once."""
    pieces = list(_sequence(nest))
    second, least = machine.clock * 1e9, 0.0
    cores: list[dict[str, float]] = []
    for part in pieces:  # pieces run one after the other, and so do their times
        core: dict[str, float] = {}
        _add_core(part, 1.0, machine, core)
        cores.append(core)
        moving = core.get(MOVING, 0.0)
        threads, share = _share(part, machine)
        # the shortest that it can take, whatever the caches do
        least += max(sum(core.values()) - moving, moving) * share + (machine.fork if threads > 1 else 0.0)

    def parts() -> Parts:
        sizes = _Sizes(Lines() if lines is None else lines, machine)
        run, known = sizes.run_size(nest), machine.pages * PAGE
        total: dict[str, float] = {}
        for part, core in zip(pieces, cores, strict=True):
            threads, share = _share(part, machine)
            transfers = _transfers(part, machine, sizes, run.held, threads)
            if run.pages > known:  # pages that the translation buffer does not hold
                transfers["pages"] = _pages_crossing(part, known, sizes) / PAGE * machine.page_miss
            if run.held > machine.levels[-2].size:  # lines come from memory, and are read ahead in few pages
                transfers["runs of memory"] = _pages_crossing(part, STREAMS * PAGE, sizes) / PAGE * BEGUN
            for name, cycles in _limits(core, transfers).items():
                total[name] = total.get(name, 0.0) + cycles * share
            if threads > 1:
                total[FORK] = total.get(FORK, 0.0) + machine.fork
        return tuple((name, cycles / second) for name, cycles in total.items() if cycles)

    return Estimate(parts, least / second)


@lru_cache(maxsize=1024)
def tile_cycles(rows: int, vectors: int, machine: Machine) -> float:
    """Cycles of a step along the sum of a tile in registers: a multiply-add for each of `rows` and of `vectors`, which are loaded."""
    return body_cycles(Body({"fma": rows * vectors, "load": rows + vectors}, chain=("fma", 1)), machine)


def body_cycles(body: Body, machine: Machine) -> float:
    """Cycles of an iteration of a long loop, of what the first cache holds."""
    _, cycles, moving = _body_cycles(body, ASSUMED, machine)
    return max(cycles, moving)


def copy_cycles(machine: Machine) -> float:
    """Cycles of a vector that is loaded and stored elsewhere."""
    return body_cycles(Body({"load": 1, "store": 1}), machine)


def fetch_cycles(size: float, machine: Machine) -> float:
    """Cycles that a byte takes to come of so many that are read again and again; 0 where a core's own caches hold them."""
    own, shared = machine.l2 * ROOM, machine.l3 * ROOM
    return 0.0 if size <= own else 1 / (machine.l3_rate if size <= shared else machine.memory_rate)


def least_of_loops(iterations: int, machine: Machine) -> Estimate:
    """A time that no loops of so many iterations, one element at a time on one thread, fall below: each begins one instruction
    beside the loop's own."""
    cycles = iterations * (LOOP + 1) / machine.width
    return Estimate((("instructions", cycles / machine.clock / 1e9),))


def least_of_products(vectors: float, machine: Machine) -> Estimate:
    """A time that so many multiply-adds of vectors never fall below, whatever the cores that share them."""
    cycles = vectors / machine.instructions.fma.rate / machine.cores
    return Estimate((("fma throughput", cycles / machine.clock / 1e9),))


def _share(part: Nest, machine: Machine) -> tuple[int, float]:
    """The number of threads that share a piece, and the part of it that the one with the most tasks has."""
    tasks = _tasks(part)
    threads = max(min(machine.cores, tasks), 1)
    return threads, ceil(tasks / threads) / max(tasks, 1)  # the thread with the most tasks is waited for


def _limits(core: Mapping[str, float], transfers: Mapping[str, float]) -> Mapping[str, float]:
    """The cycles of a piece by what they are spent on: those of its bodies, or of what is moved for them."""
    bodies = {name: cycles for name, cycles in core.items() if name != MOVING}
    moving = core.get(MOVING, 0.0)
    # arithmetic goes on while lines move, loads do not
    return {"loads": moving, **transfers} if sum(bodies.values()) < moving + sum(transfers.values()) else bodies


def _sequence(nest: Nest) -> Iterable[Nest]:
    """The nests that run one after the other, each with its tasks."""
    if nest.axis is not None:
        yield nest
        return
    for part in nest.body:
        yield from _sequence(part) if isinstance(part, Nest) else [Nest(None, 1, (part,))]


def _tasks(nest: Nest) -> int:
    """The number of tasks: the iterations of the outermost loops that threads share."""
    tasks, part = 1, nest
    while part.parallel:
        tasks *= part.trips
        # a parallel loop with statements of its own is shared no further
        if len(part.body) != 1 or not isinstance(part.body[0], Nest):
            break
        part = part.body[0]
    return tasks


# Cycles


MOVING = "loads and stores"
"""Under which the cycles of loads and stores are added up, beside what binds each body."""


def _add_core(nest: Nest, runs: float, machine: Machine, core: dict[str, float]) -> None:
    """Add the cycles of `runs` runs of a nest to what binds each body."""
    times = runs * nest.trips
    if nest.axis is not None and nest.trips > 1:  # a loop of one iteration is no loop
        core["loops"] = core.get("loops", 0.0) + runs * LEAVE
    for part in nest.body:
        if isinstance(part, Nest):
            _add_core(part, times, machine, core)
        else:
            name, cycles, moving = _body_cycles(part, nest.trips, machine)
            core[name] = core.get(name, 0.0) + times * cycles
            core[MOVING] = core.get(MOVING, 0.0) + times * moving


def _body_cycles(body: Body, trips: int, machine: Machine) -> tuple[str, float, float]:
    """The limit of a body in a loop of `trips` iterations, its cycles, and those of its loads and stores."""
    count = body.instructions
    loads, stores, shuffles = (
        _cycles(count, machine, *names) for names in (("load", "picked", "gather"), ("store", "put"), ("shuffle",))
    )
    arithmetic = _busiest(count, machine)
    begun = sum(body.instructions.values()) + LOOP
    bounds: list[tuple[str, float]] = [
        (f"{max(arithmetic)[1]} throughput" if arithmetic else "", _busy(arithmetic)),
        ("loads", loads),
        ("stores", stores),
        ("shuffles", shuffles),
        ("instructions", begun / machine.width),
    ]
    if body.chain is not None:
        name, links = body.chain
        runs = max(machine.window / (begun * max(trips, 1)), 1.0)  # a short loop overlaps with the runs after it
        # a sum in memory is loaded and stored between terms
        again = machine.instructions.load.latency + machine.instructions.store.latency if body.spilled else 0.0
        busy = _busy(arithmetic) if body.spilled else 0.0
        waits = max(getattr(machine.instructions, name).latency * links / runs, busy)
        bounds.append(("latency of the sum", waits + again * body.spilled))
    binds, cycles = max(bounds, key=lambda bound: bound[1])
    lost = STEP if body.chain is not None and trips > 1 else 0.0
    return binds, cycles + lost, max(loads, stores) + lost


def operator_cycles(count: Mapping[str, float], machine: Machine) -> float:
    """Cycles that operators take from what is computed beside them."""
    return max(_busy(_busiest(count, machine)), sum(count.values()) / machine.width)


def _busiest(count: Mapping[str, float], machine: Machine) -> Sequence[tuple[float, str]]:
    """The cycles by class of the units that are busy for longest: units take what they can at the same time."""
    groups = machine.instructions.groups
    return max(([(count[name] * each, name) for name, each in group if name in count] for group in groups), key=_busy)


def _cycles(count: Mapping[str, float], machine: Machine, *names: str) -> float:
    """The cycles of the instructions of some classes, one after the other."""
    return sum([count[name] / getattr(machine.instructions, name).rate for name in names if name in count])


def _busy(shares: Sequence[tuple[float, str]]) -> float:
    """The cycles for which some units are, given those by class."""
    return sum([cycles for cycles, _ in shares])


# Bytes


_Touched = list[tuple[Access, dict[Var, int]]]


@dataclass(frozen=True, slots=True)
class _Size:
    """Bytes that are touched. held: the room in a cache that lines take; moved: of lines, those that
    are written `write` times; pages: of pages."""

    held: float
    moved: float
    pages: float


class _Sizes:
    """The bytes that nests touch, each looked for once: what stays in a cache, and what crosses into it, where those that are
    written count `write` times."""

    def __init__(self, lines: Lines, machine: Machine) -> None:
        self.lines, self.write, self.line = lines, machine.write, machine.line
        self.touched: dict[int, _Touched] = {}
        self.sizes: dict[tuple[int, bool], _Size] = {}

    def run_size(self, nest: Nest | Body) -> _Size:
        """Bytes touched by a whole run."""
        return self._size(nest, True)

    def iteration_size(self, nest: Nest) -> _Size:
        """Bytes touched by one iteration: where it is one loop or body, of a run of that."""
        # one loop inside: its whole run is the iteration
        return self._size(nest.body[0], True) if len(nest.body) == 1 else self._size(nest, False)

    def _size(self, nest: Nest | Body, whole: bool) -> _Size:
        size = self.sizes.get((id(nest), whole))
        if size is None:
            touched = (
                _body_accesses(nest) if isinstance(nest, Body) else self._run(nest) if whole else self._iteration(nest)
            )
            size = self.sizes[id(nest), whole] = self._sum(touched)
        return size

    def _sum(self, touched: _Touched) -> _Size:
        """Bytes of the lines under accesses, and those that cross: of those of one form to one array the largest box, and of all forms
        to one array no more than it has."""
        sizes: dict[int, tuple[float, float, float]] = {}
        arrays: dict[Array, dict[int, Access]] = {}
        for access, widths in touched:
            form, variables = self.lines.form(access)
            size, page, room = self.lines.size(
                access, widths, tuple([widths.get(var, 1) for var in variables]), self.line
            )
            crossing = size * self.write if access.stored else size  # a stored line is read before it is written
            if room > size and all(width == 1 or axis in variables for axis, width in widths.items()):
                room = size  # each line is read once: none has to stay
            known = sizes.get(form)
            if known is None:
                arrays.setdefault(access.array, {})[form] = access
                sizes[form] = room, crossing, page
            elif room > known[0] or crossing > known[1] or page > known[2]:
                sizes[form] = max(room, known[0]), max(crossing, known[1]), max(page, known[2])
        held = moved = pages = 0.0
        for forms in arrays.values():
            if len(forms) == 1:
                (form,) = forms
                held, moved, pages = held + sizes[form][0], moved + sizes[form][1], pages + sizes[form][2]
                continue
            whole = max(map(_full_bytes, forms.values()))
            rooms, crossings, many = zip(*[sizes[form] for form in forms], strict=True)
            write = self.write if any(access.stored for access in forms.values()) else 1
            held += min(sum(rooms), max(whole, *rooms))
            moved += min(sum(crossings), max(whole * write, *crossings))
            pages += min(sum(many), max(whole + PAGE, *many))
        return _Size(held, moved, pages)

    def _run(self, nest: Nest) -> _Touched:
        known = self.touched.get(id(nest))
        if known is None:
            axis, known = nest.axis, self._iteration(nest)
            if axis is not None and nest.trips != 1:
                widths = {id(each): each for _, each in known}  # those of one body are one
                longer = {key: {**each, axis: each.get(axis, 1) * nest.trips} for key, each in widths.items()}
                known = [(access, longer[id(each)]) for access, each in known]
            self.touched[id(nest)] = known
        return known

    def _iteration(self, nest: Nest) -> _Touched:
        touched: _Touched = []
        for part in nest.body:
            touched += self._run(part) if isinstance(part, Nest) else _body_accesses(part)
        return touched


def _full_bytes(access: Access) -> float:
    """The bytes of an array, or of what is stored of it at a time."""
    return access.bytes * prod(extent if isinstance(extent, int) else ASSUMED for extent in access.shape)


def _body_accesses(body: Body) -> _Touched:
    widths: dict[Var, int] = {}
    for axis, values in body.inner:
        widths[axis] = widths.get(axis, 1) * values
    return [(access, widths) for access in body.accesses]


def _transfers(nest: Nest, machine: Machine, sizes: _Sizes, warm: float, threads: int) -> dict[str, float]:
    """Cycles by the level that bytes come from. warm: the bytes of the whole program, which stay where they fit."""
    transfers: dict[str, float] = {}
    for level, below in zip(machine.levels, machine.levels[1:], strict=False):
        if warm > level.size:  # what the whole program touches fits: it stays there
            rate = min(below.rate, below.shared / threads)  # threads share the bandwidth of the level below
            cycles = _crossing(nest, level.size * ROOM, sizes) / rate
            if cycles:
                transfers[f"{below.name} bandwidth"] = cycles
    return transfers


def _crossing(nest: Nest, room: float, sizes: _Sizes) -> float:
    """The bytes that cross into a cache with so much room in one run of a nest."""
    whole = sizes.run_size(nest)
    # what an iteration touches stays for the next one
    if whole.held <= room or sizes.iteration_size(nest).held <= room:
        return whole.moved
    return nest.trips * sum(
        _crossing(part, room, sizes) if isinstance(part, Nest) else sizes.run_size(part).moved for part in nest.body
    )


def _pages_crossing(nest: Nest, room: float, sizes: _Sizes) -> float:
    """The same of pages."""
    whole = sizes.run_size(nest)
    if whole.pages <= room or sizes.iteration_size(nest).pages <= room:
        return whole.pages
    return nest.trips * sum(
        _pages_crossing(part, room, sizes) if isinstance(part, Nest) else sizes.run_size(part).pages
        for part in nest.body
    )
