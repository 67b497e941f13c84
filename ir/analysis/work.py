"""Work of a program: iterations of its loops, the operations of each iteration, and its accesses.

    work = measure_work(function)
    for loop in work.all_loops():
        print(loop.loop, loop.iterations, loop.bytes)           # i 64 49152

One tree for whoever asks: the numbers that people are shown, the tuner's features, the bounds of what is tried or
interpreted. A program is a lowered function of stage "loops", or any statement; of a declared operation it is the loops that
the operation is without a schedule (te.Operation.statement). Loops and statements are counted when the tree is made, in time
linear in their number; operations and accesses of a statement when they are asked for, in time linear in its size.

Numbers are polynomials of the symbols of the program where extents are symbolic, and otherwise integers. A number that is
not exact is an upper bound: of an extent that changes with other loops the greatest value counts, and of a statement under a
condition every iteration.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ...base import dataclass, field
from ..accesses import written_buffers
from ..arith.analyzer import Analyzer
from ..buffer import Buffer
from ..dtype import INT32
from ..expr import BufferLoad, Call, Expr, IntImm, ProducerLoad, Range, Var
from ..lazy_values import cached_property
from ..ops import cast
from ..pointers import pointed_buffer
from ..stmt import Allocate, Assert, BufferStore, Evaluate, For, Function, If, LetStmt, LoopKind, Stmt, While
from ..visit import children, free_vars, post_order, substitute, walk
from .count import ONE, ZERO, Count, Number
from .footprint import Access, Array, count_bytes, count_values
from .operations import Kind, Operations, count_operations

__all__ = ["Statement", "Work", "elementary", "executions", "innermost", "count_widths", "measure_work"]

_FREE_CALLS = frozenset({"likely", "reinterpret", "target_has", "address_of", "access_ptr"})


@dataclass(eq=False)
class _Scope:
    """Variables that are bound around a statement: by `binding`, and further out. values: what they stand for, once somebody has
    asked, as few do who count work."""

    binding: LetStmt
    around: _Scope | None
    values: Mapping[Var, Expr] | None = None

    def resolve(self) -> Mapping[Var, Expr]:
        """Put values in place of the variables of those around."""
        scopes: list[_Scope] = [self]
        while (outer := scopes[-1].around) is not None and outer.values is None:
            scopes.append(outer)
        values: Mapping[Var, Expr] = {} if outer is None or outer.values is None else outer.values
        for scope in reversed(scopes):
            values = scope.values = {**values, scope.binding.var: substitute(scope.binding.value, values)}
        return values


@dataclass(frozen=True, eq=False)
class Statement:
    """A statement that computes something: a store, a binding, a call, a condition.

    around: the loops that it stands in, outermost first. guards: how many conditions it stands under. scope: of the
    variables that are bound around it. program: that it is a statement of.
    """

    node: Stmt
    around: tuple[Work, ...]
    guards: int
    scope: _Scope | None
    program: _Program

    @property
    def bindings(self) -> Mapping[Var, Expr]:
        """Values that the variables around it are bound to."""
        return {} if self.scope is None else self.scope.values or self.scope.resolve()

    @property
    def loops(self) -> tuple[For, ...]:
        """Loops around it."""
        return tuple(work.loop for work in self.around if work.loop is not None)

    @cached_property
    def values(self) -> tuple[Expr, ...]:
        """Values that it computes."""
        return (self.node.value,) if isinstance(self.node, (BufferStore, LetStmt, Evaluate)) else ()

    @cached_property
    def conditions(self) -> tuple[Expr, ...]:
        """Conditions by which it decides."""
        return (self.node.condition,) if isinstance(self.node, (If, Assert)) else ()

    @cached_property
    def operations(self) -> Operations:
        """Operations of one execution."""
        return count_operations(self.values, self.conditions)

    @cached_property
    def accesses(self) -> tuple[Access, ...]:
        """The elements that one execution writes or reads, those of indices included; what it stores to is the first."""
        accesses: list[Access] = []
        if isinstance(self.node, BufferStore):
            accesses.append(self._access(self.node.buffer, self.node.indices, True))
        for node in post_order(*self.values, *self.conditions):
            if isinstance(node, BufferLoad):
                accesses.append(self._access(node.buffer, node.indices))
            elif isinstance(node, ProducerLoad):
                accesses.append(self._access(node.producer, node.indices))
            pointed = pointed_buffer(node)
            if pointed is not None:  # outside code may go anywhere
                accesses.append(self._access(pointed[0], None))
        return tuple(accesses)

    def _access(self, array: Array, indices: tuple[Expr, ...] | None, stored: bool = False) -> Access:
        if self.bindings and indices is not None:
            indices = tuple(substitute(index, self.bindings) for index in indices)
        shape = tuple(map(self.program.size, array.shape))
        return Access(array, indices, shape, stored, self.program.written)


@dataclass(eq=False)
class Work:
    """A loop, or the whole program (loop None).

    trips: iterations of one run. runs: how often it is entered in the whole program. body: the statements and loops directly
    inside, in the order of the program. allocations: the buffers that are allocated directly inside.
    """

    loop: For | None
    trips: Count
    runs: Count
    body: list[Statement | Work] = field(default_factory=lambda: list[Statement | Work]())
    allocations: list[Buffer] = field(default_factory=list[Buffer])

    @property
    def statements(self) -> list[Statement]:
        """The statements directly inside."""
        return [item for item in self.body if isinstance(item, Statement)]

    @property
    def parts(self) -> list[Work]:
        """The loops directly inside."""
        return [item for item in self.body if isinstance(item, Work)]

    def number(self, unknown: int) -> int:
        """Iterations of one run as an integer. unknown: what an extent counts as that is a symbol or has no bound."""
        trips = self.trips.value
        return unknown if trips is None else trips if trips < INT32.greatest else min(self._walked, default=unknown)

    @cached_property
    def _walked(self) -> list[int]:
        """The extents of what the loop's variable is an index of, or a term of one: no more iterations stay within, whatever data say."""
        return [
            extent
            for statement in self.all_statements()
            for access in statement.accesses
            for index, extent in zip(access.indices or (), access.shape, strict=False)
            if isinstance(extent, int) and self.loop is not None and any(node is self.loop.var for node in walk(index))
        ]

    @property
    def iterations(self) -> Count:
        """Iterations in the whole program."""
        return self.runs * self.trips

    @cached_property
    def operations(self) -> Count:
        """Operations on elements in the whole program: a sum, product, quotient, comparison or call counts one; arithmetic
        of indices, conditions and conversions none."""
        once, exact = 0, True
        for statement in self.statements:
            number = elementary(statement.operations)
            once += number
            exact = exact and (not number or not statement.guards and statement.operations.is_exact)
        own = self.iterations.times(once)
        return sum((part.operations for part in self.parts), own if exact else own.cap())

    @cached_property
    def touched(self) -> dict[Array, Count]:
        """Distinct bytes that one run reads or writes, by buffer or tensor (see footprint.py)."""
        accesses = (access for statement in self.all_statements() for access in statement.accesses)
        return {
            array: size if isinstance(size, Count) else Count.of(size)
            for array, size in count_bytes(accesses, count_widths(self.all_loops())).items()
        }

    @property
    def bytes(self) -> Count:
        """Distinct bytes that one run touches."""
        return sum(self.touched.values(), ZERO)

    @property
    def intensity(self) -> float | None:
        """Operations for each byte touched, in one run; None where that depends on symbols, or nothing is touched."""
        operations, runs, size = self.operations.value, self.runs.value, self.bytes.value
        return operations / runs / size if operations is not None and runs and size else None

    def all_loops(self) -> list[Work]:
        """It and all loops inside, in the order of the program."""
        nested: list[Work] = []
        stack: list[Work] = [self]
        while stack:
            nested.append(stack.pop())
            stack.extend(reversed(nested[-1].parts))
        return nested

    def all_statements(self) -> Iterator[Statement]:
        """The statements inside, in the order of the program."""
        stack: list[Statement | Work] = [self]
        while stack:
            item = stack.pop()
            if isinstance(item, Statement):
                yield item
            else:
                stack.extend(reversed(item.body))


def elementary(operations: Operations) -> int:
    """Return the number of operations on elements that are among them (see Work.operations)."""
    return operations.values.number(Kind.ARITHMETIC, Kind.DIVISION, Kind.COMPARISON, Kind.CALL, but=_FREE_CALLS)


def measure_work(program: Function | Stmt, values: Mapping[Var, int] | None = None, bounds: bool = True) -> Work:
    """The work of a function of stage "loops", or of a statement. values: those of symbols; the others stay symbols. bounds:
    whether the greatest value is looked for of an extent that changes, which takes longer; else it counts as not known."""
    known = _Program(program, values or {}, bounds)
    whole = Work(None, ONE, ONE)
    stack: list[tuple[Stmt, tuple[Work, ...], int, _Scope | None]] = [(known.body, (whole,), 0, None)]
    while stack:
        stmt, around, guards, scope = stack.pop()
        if isinstance(stmt, If) and stmt.else_body is not None and _is_of_threads(stmt):
            stack.append((stmt.else_body, around, guards, scope))
            continue
        if isinstance(stmt, For):
            work = Work(stmt, known.trips(stmt), around[-1].iterations)
            around[-1].body.append(work)
            around = (*around, work)
        elif isinstance(stmt, Allocate):
            around[-1].allocations.append(stmt.buffer)
        elif isinstance(stmt, (BufferStore, LetStmt, Evaluate, If, While, Assert)):
            around[-1].body.append(Statement(stmt, around[1:], guards, scope, known))
        if isinstance(stmt, LetStmt):
            scope = _Scope(stmt, scope)
        inside = guards + isinstance(stmt, (If, While))
        stack.extend((child, around, inside, scope) for child in reversed(children(stmt)) if isinstance(child, Stmt))
    return whole


def _is_of_threads(choice: If) -> bool:
    """Return whether a target is asked for what has threads of its own, which only it runs: the work is that of the others."""
    fact = isinstance(choice.condition, Call) and choice.condition.name == "target_has"
    return fact and any(isinstance(node, For) and node.kind is LoopKind.THREAD for node in walk(choice.then_body))


def executions(work: Work, unknown: int) -> Iterator[tuple[Work, int]]:
    """A loop and all inside it, in the order of the program, each with its iterations in one run of the first. unknown: what
    an extent counts as that is a symbol or has no bound."""
    stack = [(work, 1)]
    while stack:
        inner, times = stack.pop()
        times *= inner.number(unknown)
        yield inner, times
        stack.extend((part, times) for part in reversed(inner.parts))


def innermost(work: Work, unknown: int) -> int:
    """Return the number of times the bodies of the innermost loops run, where one run of the whole has them. unknown: see executions."""
    return sum(times for inner, times in executions(work, unknown) if not inner.parts)


def count_widths(loops: Iterable[Work], unknown: int | None = None) -> dict[Var, Number | None]:
    """Return the number of values that the variable of each loop takes while they all run, outer loops before inner
    ones: where a loop begins may change too. unknown: what an extent counts as that is a symbol, where widths are to be
    integers."""
    widths: dict[Var, Number | None] = {}
    for work in loops:
        if work.loop is not None:
            trips = work.trips if unknown is None else work.number(unknown)
            begins = count_values(work.loop.begin, widths)
            widths[work.loop.var] = None if begins is None else trips + (begins - 1)
    return widths


class _Program:
    """Facts about the symbols and the loops of a program."""

    def __init__(self, program: Function | Stmt, values: Mapping[Var, int], bounds: bool) -> None:
        self.body = program.body if isinstance(program, Function) else program
        self.program, self.values, self.bounds = program, values, bounds
        self.unbound: list[For] = []
        """Loops of which the analyzer has not been told: most programs never ask it."""

    @cached_property
    def of_shapes(self) -> list[Var]:
        """The symbols of the shapes of parameters, which are not negative."""
        buffers = self.program.buffers if isinstance(self.program, Function) else ()
        return [symbol for buffer in buffers for extent in buffer.shape for symbol in free_vars(extent)]

    @cached_property
    def symbols(self) -> set[Var]:
        """Symbols: one number each throughout the program."""
        scalars = self.program.scalars if isinstance(self.program, Function) else free_vars(self.program)
        return {*self.of_shapes, *scalars}.difference(self.values)

    @cached_property
    def analyzer(self) -> Analyzer:
        """Analyzer with the ranges of symbols and loops."""
        analyzer = Analyzer()
        for symbol in self.of_shapes:
            analyzer.bind(symbol, (0, None))
        for symbol, value in self.values.items():
            analyzer.bind(symbol, (value, value))
        return analyzer

    @cached_property
    def _written(self) -> frozenset[Buffer]:
        return frozenset(written_buffers(self.body))

    def written(self) -> frozenset[Buffer]:
        """The buffers that the program writes."""
        return self._written

    def trips(self, loop: For) -> Count:
        """Return the number of times a loop runs; from here on its variable is known."""
        trips = self.size(loop.extent)
        self.unbound.append(loop)
        return trips if isinstance(trips, Count) else Count.of(max(trips, 0))

    def size(self, extent: Expr) -> Number:
        """An extent as a number."""
        if isinstance(extent, IntImm):
            return extent.value
        if not self.bounds:
            return Count.symbol(f"({extent})")
        for loop in self.unbound:
            self.analyzer.bind(loop.var, Range(loop.begin, cast(loop.extent, loop.begin.dtype)))
        self.unbound.clear()
        return Count.extent(extent, self.analyzer, self.symbols)
