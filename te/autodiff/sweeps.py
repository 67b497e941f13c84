"""Programs run backwards: a sweep forward that keeps what the way back needs, and the sweep back.

    for i:                       forward   for i:                        back   for i, in reverse:
        if s > 1:                              taken = s > 1                        if taken_i[i]:
            s = s * x[i]                       if taken: s_0[i] = s; s = s * x[i]       s = s_0[i]
                                               taken_i[i] = taken                       g = d_s; d_s = 0
                                                                                        d_s += g * x[i]; d_x[i] += g * s

Back, each store gives back the value that it had overwritten, so that every statement is met again in the state in which it ran.
What is kept is what some derivative, index or choice on the way back reads: nothing for a sum of products. It stands in an element
for each iteration; where nobody knows how many there are before the loops have run, as in a while loop, on a stack, as long as a
count of its own, by a first run, says. Outside of loops it is a variable.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from ...base import SourceLine, dataclass, field, replace, user_source
from ...ir import ops
from ...ir.buffer import Buffer
from ...ir.dtype import INT64, DType
from ...ir.expr import NE, BufferLoad, Expr, Node, ProducerLoad, Var
from ...ir.stmt import Allocate, BufferStore, For, If, LetStmt, LoopKind, Seq, Stmt, While
from ...ir.visit import post_order, rewrite, seq, substitute
from .backward import Contribution, adjoints_of_reads
from .errors import NotDifferentiable
from .programs import Program, fresh_loop, is_fixed, reads_own_memory

__all__ = ["Sweeps", "Target", "build_sweeps"]

Target = Callable[[ProducerLoad], "tuple[Buffer, tuple[Expr, ...]] | None"]
"""Where the adjoint of an element of an input is added up; None where nobody wants it."""


@dataclass(frozen=True)
class Sweeps:
    """Forward and backward run of a program.

    by_output: the memory of the adjoint of the output, which the way back begins with. counting: the run that counts, for the
    stacks.
    """

    forward: Stmt
    back: Stmt
    by_output: Buffer
    counting: Stmt
    stacks: tuple[_Stack, ...]

    def allocate_stacks(self, body: Stmt) -> Stmt:
        """`body`, around which the stacks are allocated after the first run, in memory of its own, has told how long they are."""
        if not self.stacks:
            return body
        for stack in self.stacks:
            length = ops.maximum(BufferLoad(stack.top, ()), ops.const(1, INT64))
            start = BufferStore(stack.top, ops.const(0, INT64), ())
            body = LetStmt(stack.length, length, Allocate(stack.memory, seq(start, body)))
        starts = [BufferStore(stack.top, ops.const(0, INT64), ()) for stack in self.stacks]
        body = seq(*starts, _allocate_own(self.counting, [stack.top for stack in self.stacks]), body)
        for stack in self.stacks:
            body = Allocate(stack.top, body)
        return body


def _allocate_own(body: Stmt, shared: Collection[Buffer]) -> Stmt:
    """The statement over memory of its own, save what is shared."""
    own = {
        node.buffer: replace(node.buffer)
        for node in post_order(body)
        if isinstance(node, (BufferLoad, BufferStore)) and node.buffer not in shared
    }

    def rule(node: Node) -> Node | None:
        if isinstance(node, (BufferLoad, BufferStore)) and node.buffer in own:
            return replace(node, buffer=own[node.buffer])
        return None

    made: Stmt = rewrite(body, rule)
    for buffer in own.values():
        start = seq() if buffer.shape else BufferStore(buffer, ops.const(0, buffer.dtype), ())
        made = Allocate(buffer, seq(start, made))
    return made


class _Stack:
    """Values of one dtype whose number is known at run time. top: how many there are."""

    def __init__(self, dtype: DType) -> None:
        self.length, self.top = Var("length", INT64), Buffer("top", (), INT64, scope="local")
        self.memory = Buffer("kept", (self.length,), dtype)


@dataclass(frozen=True)
class _Place:
    """A loop around a statement: its variable on the way there, the iteration's number, and how many there are; count is None where
    that is known at run time alone."""

    var: Var
    number: Expr
    count: Expr | None


@dataclass
class _Kept:
    """Storage of a value: what stores it, and counts it in the first run; how it is read back, after `back` was run."""

    store: Callable[[Expr], Stmt]
    count: Stmt
    back: Stmt
    value: Expr


def build_sweeps(program: Program, output: Buffer, target: Target, declared: SourceLine | None) -> Sweeps:
    """The sweeps of a program towards the inputs that have a target, from the adjoint of an output's buffer."""
    active = _active(program.body, target)
    needed = {*program.buffers, *program.memory}
    while True:  # what nobody reads on the way back need not be there, nor what leads to it
        maker = _Maker(target, active, needed, declared)
        made = maker.visit(program.body, ())
        read = _read_back(made.back, needed)
        if needed == read:
            break
        needed = read
    wanted = {*needed, *maker.keepers}
    counting = _only(made.counting, wanted) if maker.stacks else seq()
    return Sweeps(_only(made.forward, wanted), made.back, maker.adjoint(output), counting, tuple(maker.stacks.values()))


def _active(body: Stmt, target: Target) -> set[Buffer]:
    """The buffers of floats that change with inputs that have a target."""
    stores = [node for node in post_order(body) if isinstance(node, BufferStore) and node.buffer.dtype.is_float]
    active: set[Buffer] = set()
    before = -1
    while len(active) > before:
        before = len(active)
        for store in stores:
            if any(
                isinstance(node, ProducerLoad)
                and node.dtype.is_float
                and target(node) is not None
                or isinstance(node, BufferLoad)
                and node.buffer in active
                for node in post_order(store.value)
            ):
                active.add(store.buffer)
    return active


def _read_back(back: Stmt, own: Collection[Buffer]) -> set[Buffer]:
    return {node.buffer for node in post_order(back) if isinstance(node, BufferLoad) and node.buffer in own}


def _only(body: Stmt, buffers: Collection[Buffer]) -> Stmt:
    """Return what of a sweep gives the values that stand in these buffers at its end."""
    wanted, before = set(buffers), -1
    while len(wanted) > before:
        before = len(wanted)
        wanted.update(list(_feeding(body, wanted)))
    return _prune(body, wanted) or seq()


def _feeding(body: Stmt, wanted: Collection[Buffer]) -> Iterator[Buffer]:
    """Return what is read for stores to what is wanted, by choices and by loops around them too."""
    pruned = _prune(body, wanted)
    return (
        (node.buffer for node in post_order(pruned) if isinstance(node, BufferLoad)) if pruned is not None else iter(())
    )


def _prune(node: Stmt, wanted: Collection[Buffer]) -> Stmt | None:
    if isinstance(node, BufferStore):
        return node if node.buffer in wanted else None
    if isinstance(node, Seq):
        parts = [part for one in node.body if (part := _prune(one, wanted)) is not None]
        return seq(*parts) if parts else None
    if isinstance(node, For):
        inner = _prune(node.body, wanted)
        return None if inner is None else For(node.var, node.begin, node.extent, node.kind, inner)
    if isinstance(node, While):
        inner = _prune(node.body, wanted)
        return None if inner is None else While(node.condition, inner)
    if isinstance(node, If):
        branches = [None if part is None else _prune(part, wanted) for part in (node.then_body, node.else_body)]
        return None if branches == [None, None] else If(node.condition, branches[0] or seq(), branches[1])
    assert isinstance(node, LetStmt), "sweeps are made of these"
    inner = _prune(node.body, wanted)
    return None if inner is None else LetStmt(node.var, node.value, inner)


@dataclass(frozen=True)
class _Both:
    """A statement's sweeps. counting: what the first run does."""

    forward: Stmt
    back: Stmt
    counting: Stmt


@dataclass
class _Maker:
    """Builder of both runs.

    needed: the buffers whose values the way back reads.
    """

    target: Target
    active: Collection[Buffer]
    needed: Collection[Buffer]
    declared: SourceLine | None
    adjoints: dict[Buffer, Buffer] = field(default_factory=dict[Buffer, Buffer])
    stacks: dict[DType, _Stack] = field(default_factory=dict[DType, _Stack])
    keepers: set[Buffer] = field(default_factory=set[Buffer])
    """The memory in which values are kept."""

    def visit(self, node: Stmt, around: tuple[_Place, ...]) -> _Both:
        """The sweeps of a statement within loops."""
        if isinstance(node, BufferStore):
            return self._store(node, around)
        if isinstance(node, For):
            return self._loop(node, around)
        if isinstance(node, While):
            return self._while(node, around)
        if isinstance(node, If):
            return self._choice(node, around)
        assert isinstance(node, Seq), "programs are made of these"
        parts = [self.visit(part, around) for part in node.body]
        return _Both(
            seq(*(part.forward for part in parts)),
            seq(*(part.back for part in reversed(parts))),
            seq(*(part.counting for part in parts)),
        )

    def adjoint(self, buffer: Buffer) -> Buffer:
        """The memory of the adjoints of a buffer's elements."""
        if buffer not in self.adjoints:
            self.adjoints[buffer] = Buffer(f"d_{buffer.name}", buffer.shape, buffer.dtype, scope=buffer.scope)
        return self.adjoints[buffer]

    # Statements

    def _store(self, node: BufferStore, around: tuple[_Place, ...]) -> _Both:
        if any(isinstance(inner, BufferLoad) and inner.buffer is node.buffer for inner in post_order(*node.indices)):
            raise NotDifferentiable(
                f"an element of {node.buffer.name} is stored at a place that {node.buffer.name} itself says",
                reason=f"`{str(node).strip()[:120]}`",
                declared=self.declared,
                called=user_source(),
                fix=f"keep the places in another buffer than {node.buffer.name}",
            )
        back: list[Stmt] = []
        forward: Stmt = node
        counting: Stmt = node
        if node.buffer in self.needed:
            kept = self._keep_value(node.buffer.dtype, around)
            before = BufferLoad(node.buffer, node.indices)
            forward, counting = seq(kept.store(before), node), seq(kept.count, node)
            back += [kept.back, BufferStore(node.buffer, kept.value, node.indices)]
        if node.buffer not in self.active:
            return _Both(forward, seq(*back), counting)
        adjoint = self.adjoint(node.buffer)
        by_value = Var(f"g_{node.buffer.name}", adjoint.dtype)
        body = seq(
            BufferStore(adjoint, ops.const(0, adjoint.dtype), node.indices), *back, *self._contributions(node, by_value)
        )
        return _Both(forward, LetStmt(by_value, BufferLoad(adjoint, node.indices), body), counting)

    def _contributions(self, node: BufferStore, by_value: Expr) -> list[Stmt]:
        def matters(load: ProducerLoad | BufferLoad) -> bool:
            return load.buffer in self.active if isinstance(load, BufferLoad) else self.target(load) is not None

        added: list[Stmt] = []
        for load, part in adjoints_of_reads(node.value, Contribution((), by_value), matters, self.declared):
            if isinstance(load, BufferLoad):
                place: tuple[Buffer, tuple[Expr, ...]] | None = self.adjoint(load.buffer), load.indices
            else:
                place = self.target(load)
            assert place is not None, "only what matters is met"
            adjoint, indices = place
            sum_ = ops.add(BufferLoad(adjoint, indices), ops.cast(part.value, adjoint.dtype))
            stored: Stmt = BufferStore(adjoint, sum_, indices)
            for condition in reversed(part.conditions):
                stored = If(condition.holds, stored)
            added.append(stored)
        return added

    def _choice(self, node: If, around: tuple[_Place, ...]) -> _Both:
        first = self.visit(node.then_body, around)
        second = self.visit(node.else_body, around) if node.else_body is not None else None

        def chosen(condition: Expr, branch: Callable[[_Both], Stmt]) -> Stmt:
            return If(condition, branch(first), branch(second) if second is not None else None)

        if _is_nothing(first.back) and (second is None or _is_nothing(second.back)):
            return _Both(
                chosen(node.condition, lambda one: one.forward), seq(), chosen(node.condition, lambda one: one.counting)
            )
        if not reads_own_memory(node.condition):
            return _Both(
                chosen(node.condition, lambda one: one.forward),
                chosen(node.condition, lambda one: one.back),
                chosen(node.condition, lambda one: one.counting),
            )
        kept = self._keep_value(DType("int8"), around)
        forward, back, counting = (Var("taken", DType("bool")) for _ in range(3))
        number = ops.select(forward, ops.const(1, "int8"), ops.const(0, "int8"))
        return _Both(
            LetStmt(forward, node.condition, seq(chosen(forward, lambda one: one.forward), kept.store(number))),
            seq(kept.back, LetStmt(back, ops.compare(NE, kept.value, 0), chosen(back, lambda one: one.back))),
            LetStmt(counting, node.condition, seq(chosen(counting, lambda one: one.counting), kept.count)),
        )

    def _loop(self, node: For, around: tuple[_Place, ...]) -> _Both:
        if reads_own_memory(node.begin):
            raise NotDifferentiable(
                "a loop begins where the program says only while it runs",
                reason=f"at {node.begin}"[:200],
                declared=self.declared,
                called=user_source(),
                fix="begin it at 0, and leave iterations out by an if",
            )
        own = reads_own_memory(node.extent)
        fixed = is_fixed(node, [place.var for place in around])
        place = _Place(node.var, ops.subtract(node.var, node.begin), node.extent if fixed else None)
        inner = self.visit(node.body, (*around, place))
        nothing = _is_nothing(inner.back)
        if not own or nothing:
            return _Both(
                _rebuild(node, node.extent, inner.forward, fixed),
                seq() if nothing else _reverse(node, node.extent, inner.back, fixed),
                _rebuild(node, node.extent, inner.counting, fixed),
            )
        kept = self._keep_value(INT64, around)
        forward, back, counting = (Var("trips", node.extent.dtype) for _ in range(3))
        return _Both(
            LetStmt(
                forward,
                node.extent,
                seq(_rebuild(node, forward, inner.forward, False), kept.store(ops.cast(forward, INT64))),
            ),
            seq(kept.back, LetStmt(back, ops.cast(kept.value, back.dtype), _reverse(node, back, inner.back, False))),
            LetStmt(counting, node.extent, seq(_rebuild(node, counting, inner.counting, False), kept.count)),
        )

    def _while(self, node: While, around: tuple[_Place, ...]) -> _Both:
        """Its trips are counted as they run, and kept."""
        turn = Var("turn", INT64)
        inner = self.visit(node.body, (*around, _Place(turn, turn, None)))
        forward, counting = While(node.condition, inner.forward), While(node.condition, inner.counting)
        if _is_nothing(inner.back):
            return _Both(forward, seq(), counting)
        kept = self._keep_value(INT64, around)
        trips = Buffer("trips", (), INT64, scope="local")
        ran, back = BufferLoad(trips, ()), Var("trips", INT64)
        more = BufferStore(trips, ops.add(ran, ops.const(1, INT64)), ())
        return _Both(
            seq(
                BufferStore(trips, ops.const(0, INT64), ()),
                While(node.condition, seq(inner.forward, more)),
                kept.store(ran),
            ),
            seq(
                kept.back, LetStmt(back, kept.value, For(turn, ops.const(0, INT64), back, LoopKind.SERIAL, inner.back))
            ),
            seq(counting, kept.count),
        )

    def _keep_value(self, dtype: DType, around: tuple[_Place, ...]) -> _Kept:
        """Room for a value at each run of a statement."""
        counts = [place.count for place in around if place.count is not None]
        if len(counts) == len(around):
            memory = Buffer("kept", tuple(counts), dtype, scope="global" if counts else "local")
            indices = tuple(place.number for place in around)
            self.keepers.add(memory)
            return _Kept(lambda value: BufferStore(memory, value, indices), seq(), seq(), BufferLoad(memory, indices))
        stack = self.stacks.setdefault(dtype, _Stack(dtype))
        self.keepers.update((stack.memory, stack.top))
        top = BufferLoad(stack.top, ())
        grown = BufferStore(stack.top, ops.add(top, ops.const(1, INT64)), ())
        shrunk = BufferStore(stack.top, ops.subtract(top, ops.const(1, INT64)), ())
        return _Kept(
            lambda value: seq(BufferStore(stack.memory, value, (top,)), grown),
            grown,
            shrunk,
            BufferLoad(stack.memory, (top,)),
        )


def _rebuild(loop: For, extent: Expr, body: Stmt, fixed: bool) -> Stmt:
    """The loop around another body, with a variable of its own."""
    var = fresh_loop(loop, loop.begin, extent, fixed)
    return For(var, loop.begin, extent, LoopKind.SERIAL, substitute(body, {loop.var: var}))


def _reverse(loop: For, extent: Expr, body: Stmt, fixed: bool) -> Stmt:
    """The loop around another body, from its last iteration to its first."""
    var = fresh_loop(loop, loop.begin, extent, fixed)
    last = ops.subtract(ops.add(loop.begin, extent), ops.const(1, extent.dtype))
    now = ops.subtract(last, var if ops.is_const(loop.begin, 0) else ops.subtract(var, loop.begin))
    return For(var, loop.begin, extent, LoopKind.SERIAL, substitute(body, {loop.var: now}))


def _is_nothing(node: Stmt) -> bool:
    return isinstance(node, Seq) and not node.body
