"""Reductions across threads: a partial result in each thread, then all of them joined.

    C[i] = 0                                          P = 0                      # local
    for k.outer in 4:                                 for k.outer in 4:
        for k in thread("threadIdx.x", 32):    →          for k in thread("threadIdx.x", 32):
            if k.outer * 32 + k < n:                          if k.outer * 32 + k < n:
                C[i] = C[i] + A[k.outer * 32 + k]                 P = P + A[k.outer * 32 + k]
                                                      P = P of all 32 threads joined
                                                      C[i] = P

Every thread takes part in the joining, whatever guards say: who has nothing to add holds the identity. Threads that lie
side by side in one warp exchange values by shuffles; whole warps then meet in shared memory; other arrangements of
threads meet in shared memory at once. It stands first: it needs the nests as lowering leaves them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....base import dataclass, replace
from ...buffer import Buffer
from ...dtype import INT32
from ...expr import Add, BufferLoad, Call, Expr, IntImm, Node, StringImm, Var
from ...ops import const, floordiv, floormod, if_then_else, is_const, logical_and
from ...stmt import Allocate, Attr, BufferStore, For, If, LetStmt, LoopKind, Seq, Stmt
from ...structural import structural_key
from ...visit import Rewriter, children, rebuild, rewrite, seq, statements, substitute, walk
from .errors import LocalNotConstant, ReductionNotRecognised
from .hardware import THREAD_TAGS, Hardware, is_hardware

__all__ = ["OF_WARPS", "SHUFFLE", "SHUFFLE_DOWN", "WARP", "join_thread_reductions", "pair_inits"]

WARP = 32
SHUFFLE, SHUFFLE_DOWN = "tw_shuffle", "tw_shuffle_down"
"""(value, lane or distance, width): another lane's value, of the aligned group of `width` lanes that the thread is in."""
OF_WARPS = {SHUFFLE: "tw_warp_shuffle", SHUFFLE_DOWN: "tw_warp_shuffle_down"}
"""The same where all lanes of the warp are there, and do it together."""


def join_thread_reductions(body: Stmt, hardware: Hardware) -> Stmt:
    """`body` with its reductions across threads made explicit.

    Raises ReductionNotRecognised where several threads update one element in any other way.
    """
    return _Joiner(hardware).visit(body)


def pair_inits(statements: Sequence[Stmt]) -> list[tuple[Stmt, ...]]:
    """Statements in order, each alone, but that a reduction stands with its init where both must be one kernel: it is
    joined across threads, or its init is the work of a single thread."""
    groups: list[tuple[Stmt, ...]] = []
    for statement in statements:
        nest = _nest(statement)
        # an init pairs with its update only while nothing else was put between
        if nest is not None and _updates(nest) and all(len(group) == 1 for group in groups[-len(nest.stores) :]):
            before = [group[0] for group in groups]
            first = _take_init(before, nest)
            # an init across many threads is a kernel of its own
            if first is not None and (nest.across or not any(is_hardware(node) for node in walk(first))):
                inits = groups[len(before) :]
                del groups[len(before) :]
                groups.append((*(init for group in inits for init in group), statement))
                continue
        groups.append((statement,))
    return groups


@dataclass(frozen=True, slots=True)
class _Nest:
    """The loops, outermost first, over a group of stores of one iteration, and what of the group's lets and stores."""

    loops: tuple[For, ...]
    group: Stmt
    stores: tuple[BufferStore, ...]

    def uses(self, loop: For) -> bool:
        """Return whether the stores' elements depend on a loop."""
        return any(node is loop.var for store in self.stores for index in store.indices for node in walk(index))

    @property
    def across(self) -> tuple[For, ...]:
        """The thread loops whose threads meet in one element."""
        threads = (loop for loop in self.loops if is_hardware(loop) and loop.thread in THREAD_TAGS)
        # threads whose index the element depends on do not meet in it
        return tuple(loop for loop in threads if not is_const(loop.extent, 1) and not self.uses(loop))

    @property
    def data(self) -> tuple[For, ...]:
        return tuple(loop for loop in self.loops if self.uses(loop))


def _nest(stmt: Stmt) -> _Nest | None:
    """The nest of the last stores below, which is where lowering puts a stage after all that is computed at its loops."""
    loops: list[For] = []
    while True:
        group = _group(stmt)
        if group is not None:
            return _Nest(tuple(loops), stmt, group)
        if isinstance(stmt, For):
            loops.append(stmt)
            stmt = stmt.body
        elif isinstance(stmt, (Allocate, Attr, LetStmt)):
            stmt = stmt.body
        elif isinstance(stmt, If) and stmt.else_body is None:
            stmt = stmt.then_body
        elif isinstance(stmt, Seq) and stmt.body:
            stmt = stmt.body[-1]  # what is computed at a loop of the stage stands before its stores
        else:
            return None


def _group(stmt: Stmt) -> tuple[BufferStore, ...] | None:
    while isinstance(stmt, LetStmt):
        stmt = stmt.body
    parts = stmt.body if isinstance(stmt, Seq) else (stmt,)
    stores = tuple(part for part in parts if isinstance(part, BufferStore))
    return stores if stores and len(stores) == len(parts) else None


def _updates(nest: _Nest) -> bool:
    """Return whether it reads the elements that it stores: a step of a recurrence reads others."""
    # a recurrence reads elements that it stored earlier, and no partial results
    places = {(store.buffer, *map(structural_key, store.indices)) for store in nest.stores}
    return any(
        isinstance(node, BufferLoad) and (node.buffer, *map(structural_key, node.indices)) in places
        for node in walk(nest.group)
    )


class _Joiner(Rewriter):
    def __init__(self, hardware: Hardware) -> None:
        self.hardware = hardware
        self.accepted: set[For] = set()
        """Thread loops of reductions that are being joined."""
        self.never = False
        """Within a loop without iterations: its elements may look like one that all threads update."""

    def Seq(self, node: Seq) -> Stmt:
        done: list[Stmt] = []
        for statement in node.body:
            nest = _nest(statement)
            if nest is None or self.never or not nest.across or not _updates(nest):
                done.append(self.visit(statement))
                continue
            first = _take_init(done, nest)
            init = None if first is None else _nest(first)
            if first is None or init is None:
                # an init inside of the nest starts each partial result already
                if not _has_inner_init(statement, nest):
                    raise _not_recognised(nest)
                done.append(self.visit(statement))
                continue
            self.accepted.update(nest.across)
            done.append(_Join(self.hardware, init, first, nest, self.visit(statement), statement).build())
        return seq(*done)

    def For(self, node: For) -> Stmt:
        if self.never or is_const(node.extent, 0):
            # in a loop without iterations indices are folded, so elements look shared
            outside, self.never = self.never, True
            done = self.generic(node)
            self.never = outside
            return done
        if is_hardware(node) and node not in self.accepted and not isinstance(node.body, Seq):
            nest = _nest(node)
            if nest is not None and node in nest.across and _updates(nest) and not _allocates(node.body, nest):
                raise _not_recognised(nest)  # memory allocated within belongs to the thread
        return self.generic(node)


def _has_inner_init(statement: Stmt, nest: _Nest) -> bool:
    """Return whether a reduction's init lies further inside, beside the update."""
    wanted = {store.buffer for store in nest.stores}
    return any(
        isinstance(node, BufferStore) and node.buffer in wanted and node not in nest.stores
        for node in statements(statement)
    )


def _take_init(done: list[Stmt], nest: _Nest) -> Stmt | None:
    """Take from the end of `done` the statement, or the plain stores, that begin the reduction of `nest`, if it is there."""
    wanted = {store.buffer for store in nest.stores}
    for count in range(1, min(len(wanted), len(done)) + 1):
        first = seq(*done[-count:])
        init = _nest(first)
        if init is not None and {store.buffer for store in init.stores} == wanted:
            del done[-count:]
            return first
    return None


def _allocates(body: Stmt, nest: _Nest) -> bool:
    buffers = {store.buffer for store in nest.stores}
    return any(isinstance(node, Allocate) and node.buffer in buffers for node in statements(body))


def _not_recognised(nest: _Nest) -> ReductionNotRecognised:
    loop, buffer = nest.across[0], nest.stores[0].buffer
    return ReductionNotRecognised(
        f"cannot lower: the threads of {loop.thread} ('{loop.var.name}') all update the same elements of {buffer.name}",
        reason="a reduction across threads starts from its identity, in a loop nest of its own just before",
        fix=f"bind a data axis of {buffer.name} to {loop.thread}, or a reduce axis of a te.compute",
    )


class _Join:
    """One reduction: `init` over `first`, `update` over `statement`."""

    def __init__(
        self, hardware: Hardware, init: _Nest, first: Stmt, update: _Nest, statement: Stmt, original: Stmt
    ) -> None:
        self.hardware, self.init, self.first = hardware, init, first
        nest = _nest(statement)
        assert nest is not None, "the nest is still there"
        self.update, self.statement = nest, statement
        self.tags = [tag for tag in THREAD_TAGS if any(loop.thread == tag for loop in update.across)]
        serial = [loop for loop in nest.data if not is_hardware(loop)]
        own = [loop for loop in init.data if not is_hardware(loop)]
        if len(serial) != len(own):  # init and update must run over the same elements
            raise _not_recognised(update)
        for loop in serial:
            if not isinstance(loop.extent, IntImm):
                raise LocalNotConstant(
                    f"cannot lower: each thread holds a partial result of {update.stores[0].buffer.name} "
                    f"for every '{loop.var.name}'",
                    reason=f"the extent {loop.extent} is not known when the kernel is built",
                    fix="reorder the data loops outside of the reduce loops",
                )
        self.serial, self.own = serial, own
        shape = tuple(loop.extent for loop in serial)
        self.buffers = [store.buffer for store in nest.stores]
        self.partials = [
            Buffer(f"{buffer.name}.partial", shape, buffer.dtype, scope="local") for buffer in self.buffers
        ]
        identities = {store.buffer: store.value for store in init.stores}
        self.identities = [identities[buffer] for buffer in self.buffers]

    def build(self) -> Stmt:
        """The whole: partial results begun, made and joined, and the elements stored."""
        body = seq(self._begin(), self._partial(), self._final())
        for buffer in reversed(self.partials):
            body = Allocate(buffer, body)
        return body

    def _begin(self) -> Stmt:
        fresh = [Var(loop.var.name, loop.var.dtype) for loop in self.serial]
        body = seq(
            *(BufferStore(p, value, tuple(fresh)) for p, value in zip(self.partials, self.identities, strict=True))
        )
        for var, loop in reversed(list(zip(fresh, self.serial, strict=True))):
            # partial results have to be registers, so their indices must be constants
            body = For(var, const(0, var.dtype), loop.extent, LoopKind.UNROLLED, body)
        return body

    def _partial(self) -> Stmt:
        """The update, into the partial results."""
        place = tuple(loop.var for loop in self.serial)
        new = dict(zip(self.buffers, self.partials, strict=True))

        def rule(node: Node) -> Node | None:
            if isinstance(node, (BufferLoad, BufferStore)) and node.buffer in new:
                return replace(node, buffer=new[node.buffer], indices=place)
            return None

        return rewrite(self.statement, rule)

    def _final(self) -> Stmt:
        """The elements' loops, of init, around joining and, under the guards of init, storing."""
        place = tuple(loop.var for loop in self.own)
        total = {
            buffer: BufferLoad(partial, place) for buffer, partial in zip(self.buffers, self.partials, strict=True)
        }
        threads = _Threads(self.hardware, self.tags, self._combine, self.partials, place, self.identities)
        joined = threads.join()
        innermost = self.init.loops[-1] if self.init.loops else None

        def with_staging(body: Stmt) -> Stmt:  # within the data loops: a virtual thread among them needs its own
            for buffer in threads.staging:
                body = Allocate(buffer, body)
            return body

        def rebuilt(stmt: Stmt) -> Stmt:
            if stmt is self.init.group:
                return seq(*(replace(store, value=total[store.buffer]) for store in self.init.stores))
            if isinstance(stmt, For):
                body = rebuilt(stmt.body)
                if stmt is innermost:
                    body = with_staging(seq(joined, body))
                # parallel or unrolled loops of init are serial here: joining is done inside
                kind = stmt.kind if stmt.kind is LoopKind.THREAD else LoopKind.SERIAL
                return For(stmt.var, stmt.begin, stmt.extent, kind, body, stmt.thread)
            if isinstance(stmt, If):
                return If(stmt.condition, rebuilt(stmt.then_body))
            return rebuild(stmt, [rebuilt(child) if isinstance(child, Stmt) else child for child in children(stmt)])

        stored = rebuilt(self.first)
        return stored if innermost is not None else with_staging(seq(joined, stored))

    def _combine(self, left: Sequence[Expr], right: Sequence[Expr]) -> Stmt:
        """partials = combiner(left, right), by the lets and the values of the update."""
        stmt: Stmt = self.update.group
        bindings: list[tuple[Var, Expr]] = []
        while isinstance(stmt, LetStmt):
            bindings.append((stmt.var, stmt.value))
            stmt = stmt.body
        following = (
            len(self.buffers) if len(self.buffers) > 1 else 0
        )  # of several elements the next values have names too
        sources, rest = bindings[: len(bindings) - following], bindings[len(bindings) - following :]
        results = [value for _, value in rest] or [store.value for store in self.update.stores]
        values: dict[Var, Expr] = {}
        names = iter([var for var, _ in sources])
        for result, other in zip(results, right, strict=True):
            values[next(names)] = other
            if _is_fused(result):
                next(names)  # of a product that is fused each factor has a name
        lefts = dict(zip(self.buffers, left, strict=True))

        def combined(value: Expr) -> Expr:
            def rule(node: Node) -> Node | None:
                if isinstance(node, Call) and _is_fused(node):  # partial sums are added
                    element, factor = node.args[2], node.args[0]
                    return Add(element, values[factor]) if isinstance(factor, Var) else None
                return lefts.get(node.buffer) if isinstance(node, BufferLoad) else None

            return substitute(rewrite(value, rule), values)

        lets: list[tuple[Var, Expr]] = []
        for var, value in rest:
            fresh = Var(var.name, var.dtype)
            lets.append((fresh, combined(value)))
            values[var] = fresh
        place = tuple(loop.var for loop in self.own)
        body = seq(
            *(
                BufferStore(partial, combined(store.value), place)
                for partial, store in zip(self.partials, self.update.stores, strict=True)
            )
        )
        for var, value in reversed(lets):
            body = LetStmt(var, value, body)
        return body


def _is_fused(value: object) -> bool:
    return isinstance(value, Call) and value.name == "mul_add"


Combine = Callable[[Sequence[Expr], Sequence[Expr]], Stmt]


class _Threads:
    """Join the `partials` at `place` of all threads that differ in `tags` alone; each of them then holds the result."""

    def __init__(
        self,
        hardware: Hardware,
        tags: list[str],
        combine: Combine,
        partials: list[Buffer],
        place: tuple[Expr, ...],
        identities: Sequence[Expr],
    ) -> None:
        self.combine, self.partials, self.place, self.identities = combine, partials, place, identities
        present = [tag for tag in THREAD_TAGS if hardware.extent(tag) > 1]
        reduced = [tag for tag in present if tag in tags]
        # lanes are numbered by the fastest tags: only those are neighbours
        self.contiguous = present[: len(reduced)] == reduced
        self.index, self.size = _linear(hardware, reduced)
        self.group, self.groups = _linear(hardware, [tag for tag in present if tag not in reduced])
        self.in_warps = hardware.threads % WARP == 0
        self.staging: list[Buffer] = []

    def join(self) -> Stmt:  # one thread has the result already
        if self.size == 1:
            return seq()
        # a power of two within a warp needs no shared memory
        if self.contiguous and self.size <= WARP and self.size & (self.size - 1) == 0:
            return seq(*self._shuffle_lanes(self.size, self.size // 2))
        if self.contiguous and self.size % WARP == 0:  # whole warps join first, and exchange one value each
            return self._join_warps(self.size // WARP)
        return self._join_in_shared()

    def _own(self) -> list[Expr]:
        return [BufferLoad(partial, self.place) for partial in self.partials]

    def _store(self, values: Sequence[Expr]) -> list[Stmt]:
        return [BufferStore(partial, value, self.place) for partial, value in zip(self.partials, values, strict=True)]

    def _keep(self, place: tuple[Expr, ...]) -> Stmt:
        """The own results put where other threads see them."""
        return seq(*(BufferStore(s, own, place) for s, own in zip(self.staging, self._own(), strict=True)))

    def _stage(self, *shape: int) -> None:
        extents = tuple(map(const, shape))
        self.staging = [
            Buffer(f"{partial.name}.staging", extents, partial.dtype, scope="shared") for partial in self.partials
        ]

    def _combine(self, values: Sequence[Expr]) -> Stmt:
        """Named first: every value is read before any partial changes."""
        # the combiner may read all values of a tuple
        named = [
            Var(f"{partial.name}.other", value.dtype) for partial, value in zip(self.partials, values, strict=True)
        ]
        body = self.combine(self._own(), named)
        for var, value in reversed(list(zip(named, values, strict=True))):
            body = LetStmt(var, value, body)
        return body

    def _shuffle_lanes(self, width: int, distance: int) -> list[Stmt]:
        """Lanes joined with those at half the distance each time; then the first lane's result goes to all."""
        steps: list[Stmt] = []
        while distance:
            steps.append(self._combine([self._shuffle(SHUFFLE_DOWN, own, distance, width) for own in self._own()]))
            distance //= 2
        # only the first lane has all: the others have partial sums of fewer
        steps += self._store([self._shuffle(SHUFFLE, own, 0, width) for own in self._own()])
        return steps

    def _shuffle(self, name: str, value: Expr, lane: int, width: int) -> Expr:
        """Conditions that part threads have no reductions across threads under them, which the barriers' pass sees to."""
        # a warp-wide shuffle may be used where no lane has left
        called = OF_WARPS[name] if self.in_warps and width < WARP else name
        return Call("call_extern", (StringImm(called), value, const(lane, INT32), const(width, INT32)), value.dtype)

    def _join_warps(self, warps: int) -> Stmt:
        steps = self._shuffle_lanes(WARP, WARP // 2)
        if warps == 1:
            return seq(*steps)
        self._stage(self.groups, warps)
        lane, warp = floormod(self.index, WARP), floordiv(self.index, WARP)
        steps.append(If(lane.equal(0), self._keep((self.group, warp))))  # one lane writes for its warp
        steps += self._store(
            [
                # lanes beyond the number of warps hold the identity
                if_then_else(lane < warps, BufferLoad(s, (self.group, lane)), identity)
                for s, identity in zip(self.staging, self.identities, strict=True)
            ]
        )
        distance = 1
        while distance * 2 < warps:
            distance *= 2
        return seq(*steps, *self._shuffle_lanes(WARP, distance))

    def _join_in_shared(self) -> Stmt:
        """Neighbours stand side by side, whether they share a result or not: so no two threads of a warp meet in a bank."""
        # the fastest index runs along neighbours, so banks differ
        self._stage(*((self.groups, self.size) if self.contiguous else (self.size, self.groups)))

        def place(index: Expr) -> tuple[Expr, Expr]:
            return (self.group, index) if self.contiguous else (index, self.group)

        steps: list[Stmt] = [self._keep(place(self.index))]
        distance = 1
        while distance * 2 < self.size:
            distance *= 2
        while distance:
            further = self.index + distance
            # the last one of an odd number waits a round
            active = logical_and(self.index < distance, further < self.size)
            joined = self._combine([BufferLoad(s, place(further)) for s in self.staging])
            steps += [If(active, joined), If(active, self._keep(place(self.index)))]  # a barrier may stand between
            distance //= 2
        steps += self._store([BufferLoad(s, place(const(0))) for s in self.staging])
        return seq(*steps)


def _linear(hardware: Hardware, tags: Sequence[str]) -> tuple[Expr, int]:
    """The place of a thread among those that differ in `tags`, the first tag fastest, and their number."""
    index: Expr = const(0)
    count = 1
    for tag in tags:
        index = index + hardware.variables[tag] * count
        count *= hardware.extent(tag)
    return index, count
