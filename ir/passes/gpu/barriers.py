"""Barriers where threads of a block exchange values through memory.

    S[t] = A[t]                                       S[t] = A[t]
    C[t] = S[63 - t]                          →       barrier
                                                      C[t] = S[63 - t]

A barrier stands before a statement that touches what another thread may have touched since the last one, one of the two
storing: reading what was written, or writing what was read. (Two stores of one element with nothing that reads it between
them are two computations of one value.) Iterations of a loop follow each other, so the end of its body comes before its
beginning. No barrier is needed where the elements show that the thread is the same.

A thread that waits for its asynchronous copies knows nothing of those of others, so that a barrier stands behind each wait; and
behind a wait for the copy engine, whose next box goes where other threads may still read.

Every thread of the block must reach a barrier: within a condition, or a loop, that differs between threads there can be
none. One that is needed before such a statement stands before all of it; one that is needed inside is an error. In a loop
over threads of which the schedule has proved that iterations never meet (INDEPENDENT), as by more than an index tells, none is. It
stands after the threads are mapped and before flatten, since dimensions show which thread an element belongs to.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any

from ....base import dataclass, field, replace
from ...analysis.dependence import Iterations, Meets
from ...analysis.linear import linear
from ...arith.analyzer import Analyzer
from ...buffer import Buffer
from ...copies import BULK_CALLS, WAIT, called, is_bulk_wait, is_wait
from ...dtype import INT32
from ...expr import EQ, LE, LT, BufferLoad, Call, Cast, Expr, FloorMod, IntImm, Let, Node, Range, StringImm, Var
from ...fragments import WARP_LANES, is_warp_call, lanes_together
from ...ops import conjuncts, const
from ...pointers import READS, WRITES, pointed_buffer
from ...stmt import INDEPENDENT, Allocate, Attr, BufferStore, Evaluate, For, Function, If, LetStmt, LoopKind, Seq, Stmt
from ...structural import Key, structural_key
from ...visit import rebuild, seq, walk
from .errors import DivergentBarrier
from .hardware import THREAD_TAGS, Hardware
from .reduce import OF_WARPS, SHUFFLE, SHUFFLE_DOWN

__all__ = ["BARRIER", "COMPUTES", "barrier", "insert_barriers", "is_barrier"]

BARRIER = "tw_barrier"
COMPUTES = "tw_computes"
"""The call that is true of threads that compute, and false of those that only ask for copies: see warp_specialization.py."""
_COLLECTIVES = (SHUFFLE, SHUFFLE_DOWN, *OF_WARPS.values(), BARRIER, WAIT)


@dataclass(frozen=True, slots=True)
class _Access:
    """One access of memory that threads share. fixed: the thread indices that conditions around it pin to a constant.
    indices: None in dimensions where it may be of any element; key: what alike ones have in common."""

    buffer: Buffer
    stored: bool
    fixed: frozenset[tuple[str, int]]
    key: Key
    indices: tuple[Expr | None, ...] = field(compare=False)


Accesses = dict[_Access, None]


@dataclass(frozen=True, slots=True)
class _Part:
    """A statement with its barriers. entry: the accesses before the first of them; exit: those after the last; crossed:
    whether every run of it passes one."""

    stmt: Stmt
    entry: Accesses
    exit: Accesses
    crossed: bool = False


def insert_barriers(function: Function, hardware: Hardware, analyzer: Analyzer) -> Function:
    """`function`, the body of a kernel, with barriers. Raises DivergentBarrier."""
    if hardware.threads == 1:  # one thread waits for nobody
        return function
    lanes = max(WARP_LANES, *map(lanes_together, walk(function.body)))
    planner = _Planner(hardware, analyzer, frozenset(function.outputs), hardware.lane_tags(lanes))
    return function.with_body(planner.part(function.body).stmt)


def _depends_alike(x: Expr, y: Expr, var: Var) -> bool:
    """Return whether two indices have a variable as often, or are one that is made of it."""
    times = linear(x).coefficient(var)
    if times and times == linear(y).coefficient(var):
        return True
    return structural_key(x) == structural_key(y) and any(node is var for node in walk(x))


class _Planner:
    """Put statements together, a barrier before each whose entry meets what is pending."""

    def __init__(
        # two indices may move alike with the thread although each is no thread index by itself
        self,
        hardware: Hardware,
        analyzer: Analyzer,
        written: frozenset[Buffer],
        lane_tags: tuple[str, ...],
    ) -> None:
        self.analyzer, self.lane_tags = analyzer, lane_tags
        self.tags = {tag: hardware.variables[tag] for tag in THREAD_TAGS if hardware.extent(tag) > 1}
        self.written = set(written)
        self.varying: dict[Var, Range | None] = {
            var: Range(const(0), const(hardware.extent(tag))) for tag, var in self.tags.items()
        }
        """What may differ between threads that are in one iteration of the loops around."""
        self.own = dict(self.varying)
        """What may differ between threads at any time: variables of loops too."""
        self.iterations = {tag: Iterations(var, self.own, analyzer=analyzer) for tag, var in self.tags.items()}
        self.together = Iterations(None, self.varying, analyzer=analyzer)
        self.told: dict[tuple[str, Key, Key], bool] = {}
        self.fixed: dict[str, int] = {}
        self.free: tuple[str, ...] = ()
        """Thread axes: no two threads of one touch an element, which one of them stores to, in the statement that is looked at."""
        self.split_warps = False
        """Whether what is looked at is done by some lanes of a warp alone."""

    # What varies between threads

    def varies(self, value: Expr) -> bool:
        """Return whether threads of a block may see different values. What is read from memory may differ."""
        return any(
            isinstance(node, BufferLoad)
            or (isinstance(node, Var) and node in self.varying)
            or (isinstance(node, Call) and node.name == "call_extern")
            for node in walk(value)
        )

    # Statements

    def part(self, stmt: Stmt) -> _Part:
        if isinstance(stmt, Seq):
            return self._sequence([self.part(part) for part in stmt.body])
        if isinstance(stmt, For):
            return self._loop(stmt)
        if isinstance(stmt, If):
            return self._if(stmt)
        if isinstance(stmt, LetStmt):
            if self.varies(stmt.value):  # data may differ between threads, and so may what is named by them
                self.varying[stmt.var] = None
            self.own[stmt.var] = None
            return self._extend_part(
                self.accesses(stmt.value), self.part(stmt.body), lambda body: rebuild(stmt, [stmt.value, body])
            )
        if isinstance(stmt, Allocate):
            return self._surround(self.part(stmt.body), lambda body: rebuild(stmt, [body]))
        if isinstance(stmt, Attr) and stmt.key == INDEPENDENT:
            with self._free_threads(stmt):
                return self.part(stmt.body)
        if isinstance(stmt, Attr):
            return self._surround(self.part(stmt.body), lambda body: rebuild(stmt, [stmt.value, body]))
        if is_wait(stmt) or is_bulk_wait(
            stmt
        ):  # each thread waits for its own copies, and then for those of the others; or all
            return _Part(
                seq(stmt, barrier()), {}, {}, True
            )  # wait for a place, and then for who still reads the one before
        if is_barrier(stmt):
            return _Part(stmt, {}, {}, True)
        touched = self.accesses(stmt)
        return _Part(stmt, touched, touched)  # it both enters and leaves with what it touches: nothing orders its parts

    def _sequence(self, parts: list[_Part]) -> _Part:
        done: list[Stmt] = []
        entry: Accesses = {}
        pending: Accesses = {}
        crossed = False
        for part in parts:
            if self._conflict(pending, part.entry, together=True) is not None:
                done.append(barrier())
                crossed, pending = True, {}
            elif not crossed:
                # accesses before the first barrier may meet what the caller has pending
                entry = {**entry, **part.entry}
            done.append(part.stmt)
            # what came before the part's own last barrier is settled
            pending = part.exit if part.crossed else {**pending, **part.exit}
            crossed = crossed or part.crossed
        return _Part(seq(*done), entry, pending, crossed)

    def _extend_part(self, first: Accesses, part: _Part, rebuilt: Callable[[Stmt], Stmt]) -> _Part:
        """`part` within a statement that first touches `first`."""
        if self._conflict(first, part.entry) is None:
            entry = {**first, **part.entry}
            return _Part(rebuilt(part.stmt), entry, part.exit if part.crossed else {**first, **part.exit}, part.crossed)
        return _Part(rebuilt(seq(barrier(), part.stmt)), first, part.exit, True)

    def _surround(self, part: _Part, rebuilt: Callable[[Stmt], Stmt]) -> _Part:
        return replace(part, stmt=rebuilt(part.stmt))

    def _loop(self, stmt: For) -> _Part:
        self.analyzer.bind(stmt.var, Range(stmt.begin, stmt.extent))
        if stmt.kind is LoopKind.THREAD:
            return self._surround(self.part(stmt.body), lambda body: rebuild(stmt, [stmt.begin, stmt.extent, body]))
        self.own[stmt.var] = Range(stmt.begin, stmt.extent)
        if self.varies(stmt.begin) or self.varies(stmt.extent):
            self.varying[stmt.var] = self.own[stmt.var]
            return self._divergent(stmt)
        body = self.part(stmt.body)
        if self._conflict(body.exit, body.entry) is not None:  # an iteration and the next
            # the barrier is at the begin of an iteration, so that the last one ends without
            body = _Part(seq(barrier(), body.stmt), {}, body.exit, True)
        ran = isinstance(stmt.extent, IntImm) and stmt.extent.value > 0  # a loop without iterations passes no barrier
        return _Part(rebuild(stmt, [stmt.begin, stmt.extent, body.stmt]), body.entry, body.exit, body.crossed and ran)

    def _if(self, stmt: If) -> _Part:
        if called_function(stmt.condition) == COMPUTES:  # the others wait for what they need in memory
            then = self.part(stmt.then_body)
            return replace(then, stmt=If(stmt.condition, then.stmt, stmt.else_body))
        if self.varies(stmt.condition):
            return self._divergent(stmt)
        then = self.part(stmt.then_body)
        if stmt.else_body is None:
            # the branch may not run, so it has passed no barrier
            return _Part(If(stmt.condition, then.stmt), then.entry, then.exit)
        other = self.part(stmt.else_body)
        both = If(stmt.condition, then.stmt, other.stmt)
        # only where both branches pass a barrier is one passed for sure
        return _Part(both, {**then.entry, **other.entry}, {**then.exit, **other.exit}, then.crossed and other.crossed)

    def _divergent(self, stmt: Stmt) -> _Part:
        """A statement that not every thread runs alike: no barrier inside."""
        touched = self._collect_divergent(stmt, {}, stmt)
        return _Part(stmt, touched, touched)

    def _collect_divergent(self, stmt: Stmt, pending: Accesses, whole: Stmt) -> Accesses:
        """The accesses of a divergent statement, which must not conflict among themselves."""
        if isinstance(stmt, Seq):
            for part in stmt.body:
                pending = self._collect_divergent(part, pending, whole)
            return pending
        if isinstance(stmt, For):
            self.own[stmt.var] = Range(stmt.begin, stmt.extent)
            if self.varies(stmt.begin) or self.varies(stmt.extent):
                self.varying[stmt.var] = self.own[stmt.var]
            with self._diverge(stmt.begin, stmt.extent):
                # twice: an iteration may conflict with the next one
                return self._collect_divergent(stmt.body, self._collect_divergent(stmt.body, pending, whole), whole)
        if isinstance(stmt, If):
            before = dict(self.fixed)
            pending = self._check(self._collect_lone(stmt.condition, whole), pending, whole)
            self.fixed.update(self._find_pinned(stmt.condition))
            with self._diverge(stmt.condition):
                after = self._collect_divergent(stmt.then_body, pending, whole)
                self.fixed = before
                return (
                    after
                    if stmt.else_body is None
                    else {**after, **self._collect_divergent(stmt.else_body, pending, whole)}
                )
        if isinstance(stmt, LetStmt):
            # what is bound here differs between threads, whatever it is made of
            self.varying[stmt.var] = self.own[stmt.var] = None
            return self._collect_divergent(
                stmt.body, self._check(self._collect_lone(stmt.value, whole), pending, whole), whole
            )
        if isinstance(stmt, Attr) and stmt.key == INDEPENDENT:
            with self._free_threads(stmt):  # of this run of the statement, not of what is pending
                touched = self._collect_divergent(stmt.body, {}, whole)
            return self._check(touched, pending, whole)
        if isinstance(stmt, (Allocate, Attr)):
            return self._collect_divergent(stmt.body, pending, whole)
        return self._check(self._collect_lone(stmt, whole), pending, whole)

    @contextmanager
    def _free_threads(self, stmt: Attr) -> Generator[None]:
        """Take the iterations of a loop over threads, whose body `stmt` is, for independent."""
        self.free += (str(stmt.subject),)
        yield
        self.free = self.free[:-1]

    @contextmanager
    def _diverge(self, *values: Expr) -> Generator[None]:
        """Return the threads by which `values` decide, which may divide the lanes of a warp, or of four."""
        before, rows = self.split_warps, {var for tag, var in self.tags.items() if tag not in self.lane_tags}
        self.split_warps = before or any(
            isinstance(node, BufferLoad) or (isinstance(node, Var) and node in self.varying and node not in rows)
            for value in values
            for node in walk(value)
        )
        yield
        self.split_warps = before

    def _collect_lone(self, node: Node, whole: Stmt) -> Accesses:
        """The accesses of what threads do each by itself, or the lanes of a warp together where all of them come by."""
        if any(
            _is_collective(inner, *_COLLECTIVES) or (self.split_warps and is_warp_call(inner)) for inner in walk(node)
        ):  # a shuffle needs all lanes of its warp, a barrier all threads
            raise _divergent_error(whole, "it has the threads of a warp or a block work together")
        return self.accesses(node)

    def _check(self, touched: Accesses, pending: Accesses, whole: Stmt) -> Accesses:
        conflict = self._conflict(pending, touched)
        if conflict is not None:
            raise _divergent_error(whole, f"it both stores to {conflict.name}, which threads share, and reads it")
        return {**pending, **touched}

    # Accesses

    def accesses(self, node: Node) -> Accesses:
        """Return the accesses of a statement or a value that other threads touch too: loads first."""
        touched: Accesses = {}
        pointed_at: set[int] = set()
        of_tiles = called(node).startswith(BULK_CALLS) or any(is_warp_call(inner) for inner in walk(node))
        for inner in walk(node):
            pointed = pointed_buffer(inner)
            if pointed is not None and isinstance(inner, Call):
                pointed_at.add(id(inner.args[0]))
                touched.update(dict.fromkeys(self._resolve_pointer(inner.args[0], pointed[1], of_tiles)))
            elif id(inner) in pointed_at:  # the element that a pointer is made from is not read by that
                continue
            elif isinstance(inner, (BufferLoad, BufferStore)) and self._is_shared(inner.buffer):
                touched[self._access(inner)] = None
            elif isinstance(inner, Let):
                self.own[inner.var] = None
        return touched

    def _resolve_pointer(self, element: Expr, mode: int, of_tiles: bool) -> Iterator[_Access]:
        """Return the elements that a call may touch:

        any element, whichever thread makes it; one for a tile, any of the last two dimensions.
        """
        assert isinstance(element, BufferLoad), "pointers are to elements"
        fixed, outer = frozenset(self.fixed.items()), element.indices[:-2] if of_tiles else ()
        indices = (*outer, *([None] * (len(element.indices) - len(outer))))
        key = tuple(structural_key(index) for index in outer)
        if self._is_shared(element.buffer):  # memory of one thread needs no barrier
            yield from (
                _Access(element.buffer, bool(way & WRITES), fixed, key, indices)
                for way in (READS, WRITES)
                if mode & way
            )

    def _is_shared(self, buffer: Buffer) -> bool:
        return buffer.scope == "shared" or buffer in self.written

    def _access(self, node: BufferLoad | BufferStore) -> _Access:
        key = tuple(structural_key(index) for index in node.indices)
        return _Access(node.buffer, isinstance(node, BufferStore), frozenset(self.fixed.items()), key, node.indices)

    def _conflict(self, pending: Accesses, touched: Accesses, together: bool = False) -> Buffer | None:
        """The buffer that two threads may touch at once, if any. together: both are of one iteration of the loops around."""
        for new in touched:
            for old in pending:
                if (
                    old.buffer is new.buffer
                    # two stores of one element are two computations of one value
                    and old.stored != new.stored
                    and not _are_disjoint(old, new)
                    and not (self._same_thread(old, new))
                    and not (together and self._elsewhere(old, new))
                ):
                    return new.buffer
        return None

    def _same_thread(self, a: _Access, b: _Access) -> bool:
        """Return whether one element is touched by one thread alone: the known indices tell the thread, one of them by itself or all of
        them together, as a quotient and a remainder do."""
        pinned = {tag for tag, _ in a.fixed & b.fixed}
        return all(tag in pinned or tag in self.free or self._tell(tag, a, b) for tag in self.tags)

    def _tell(self, tag: str, a: _Access, b: _Access) -> bool:
        """Return whether the indices of two accesses are the same in no two threads that differ in `tag`. That is asked once, and only
        where one of them depends on the thread alike on both sides."""
        asked = tag, a.key, b.key
        # the question is the same for every pair of alike accesses: its proof is the slow part
        if asked not in self.told:
            var = self.tags[tag]
            known = [(x, y) for x, y in zip(a.indices, b.indices, strict=True) if x is not None and y is not None]
            alike = any(_depends_alike(x, y, var) for x, y in known)
            self.told[asked] = alike and not self.iterations[tag].between(*zip(*known, strict=True)).carried
        return self.told[asked]

    def _elsewhere(self, a: _Access, b: _Access) -> bool:
        """Return whether, in one iteration of all loops around both, this is another part of memory: halves that take turns."""
        return any(
            self.together.between((x,), (y,)).meets is Meets.NEVER
            for x, y in zip(a.indices, b.indices, strict=True)
            if x is not None and y is not None and isinstance(_bare(x), FloorMod) and isinstance(_bare(y), FloorMod)
        )

    def _find_pinned(self, condition: Expr) -> dict[str, int]:
        """The thread indices that a condition sets to a constant: also those that it lets be the least alone."""
        pinned: dict[str, int] = {}
        for part in conjuncts(condition):
            if isinstance(part, (EQ, LT, LE)) and isinstance(part.b, IntImm):
                value = part.b.value - isinstance(part, LT)
                if isinstance(part, EQ) or value == 0:  # thread indices begin at 0: below 1 is 0
                    pinned.update({tag: value for tag, var in self.tags.items() if _bare(part.a) is var})
        return pinned


def _are_disjoint(a: _Access, b: _Access) -> bool:
    """Return whether the two are told apart by a dimension in which both have a number."""
    return any(
        isinstance(x, IntImm) and isinstance(y, IntImm) and x.value != y.value
        for x, y in zip(a.indices, b.indices, strict=True)
    )


def _bare(atom: Expr) -> Expr:
    return atom.value if isinstance(atom, Cast) else atom


def _is_collective(node: Node, *names: str) -> bool:
    if not isinstance(node, Call) or node.name != "call_extern":
        return False
    first = node.args[0]
    return isinstance(first, StringImm) and first.value in names


def called_function(value: Expr) -> str:
    """The device function whose answer a value is; empty for others."""
    name = value.args[0] if isinstance(value, Call) and value.name == "call_extern" else None
    return name.value if isinstance(name, StringImm) else ""


def is_barrier(node: Node) -> bool:
    """Return whether this is a barrier of a block's threads."""
    return isinstance(node, Evaluate) and _is_collective(node.value, BARRIER)


def barrier() -> Stmt:
    """A barrier of a block's threads."""
    return Evaluate(Call("call_extern", (StringImm(BARRIER),), INT32))


def _divergent_error(whole: Stmt, why: str) -> DivergentBarrier:
    condition: Any = whole.condition if isinstance(whole, If) else whole.extent if isinstance(whole, For) else ""
    return DivergentBarrier(
        f"cannot lower: threads would have to wait for each other where not all of them come by, under `{condition}`",
        reason=why + ", and a barrier that some threads miss stops the kernel",
        fix="make the extents divide, compute the shared stage at a loop outside of the condition, or give it thread loops "
        "of the kernel's full extent",
    )
