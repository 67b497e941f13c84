"""What each loop of a lowered program costs: iterations, operations, and the bytes that it touches.

Counted from the loops as they stand, before any pass. Operations are those on elements: an addition, product, division,
comparison for a minimum or call of a function counts one, arithmetic of indices none; where a guard, a condition or a
choice leaves some out, the count is one that is not exceeded. Bytes touched are the distinct elements that one run of
the loop reads or writes, a box for each buffer: what has to come from memory once if it all stays in the cache
(the footprint of Williams, Waterman and Patterson's roofline model, 2009).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..ir.analysis.count import ONE, ZERO, Count
from ..ir.analysis.regions import Span, SpanEvaluator, union
from ..ir.arith.analyzer import Analyzer
from ..ir.buffer import Buffer
from ..ir.expr import BinaryOp, BufferLoad, Call, Expr, IfThenElse, IntImm, Let, LogicalOp, Node, Range, Select, Var
from ..ir.ops import cast
from ..ir.pointers import pointed_to
from ..ir.stmt import Assert, BufferStore, Evaluate, For, Function, If, LetStmt, Stmt
from ..ir.visit import children, free_vars, post_order

__all__ = ["LoopCost", "program_cost"]

_FREE_CALLS = frozenset({"likely", "reinterpret", "target_has", "address_of", "access_ptr"})


@dataclass(slots=True)
class LoopCost:
    """The cost of a loop, or of the whole program (loop None).

    trips: iterations of one run. runs: how often it is entered in the whole program. operations: of all its runs
    together. touched: distinct bytes that one run reads or writes, by buffer. parts: the loops directly inside.
    """

    loop: For | None
    trips: Count
    runs: Count
    operations: Count = ZERO
    touched: dict[Buffer, Count] = field(default_factory=dict[Buffer, Count])
    parts: list[LoopCost] = field(default_factory=lambda: list[LoopCost]())

    @property
    def iterations(self) -> Count:
        """Iterations in the whole program."""
        return self.runs * self.trips

    @property
    def bytes(self) -> Count:
        """Distinct bytes that one run touches."""
        return sum(self.touched.values(), ZERO)

    @property
    def intensity(self) -> float | None:
        """Operations for each byte touched, in one run; None where that depends on symbols, or nothing is touched."""
        operations, runs, size = self.operations.value, self.runs.value, self.bytes.value
        return operations / runs / size if operations is not None and runs and size else None

    def nested(self) -> list[LoopCost]:
        """It and all loops inside, in the order of the program."""
        found: list[LoopCost] = []
        stack: list[LoopCost] = [self]
        while stack:
            found.append(stack.pop())
            stack.extend(reversed(found[-1].parts))
        return found


@dataclass(frozen=True, slots=True, eq=False)
class _Access:
    """An element that is read or written under `loops`, outermost first."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    loops: tuple[For, ...]


def program_cost(function: Function) -> LoopCost:
    """The cost of a function of stage "loops"."""
    return _Counting(function).run()


class _Counting:
    def __init__(self, function: Function) -> None:
        self.function = function
        self.analyzer = Analyzer()
        self.fixed: set[Var] = {*function.scalars}
        for buffer in function.buffers:
            for extent in buffer.shape:
                for symbol in free_vars(extent):
                    self.fixed.add(symbol)
                    self.analyzer.bind(symbol, (0, None))
        self.accesses: list[_Access] = []

    def run(self) -> LoopCost:
        whole = LoopCost(None, ONE, ONE)
        self._count(whole, self.function.body)
        inside: dict[For | None, list[_Access]] = {}
        for access in self.accesses:
            for loop in (None, *access.loops):
                inside.setdefault(loop, []).append(access)
        for cost in whole.nested():
            cost.touched = self._touched(cost.loop, inside.get(cost.loop, []))
        return whole

    # Operations

    def _count(self, whole: LoopCost, body: Stmt) -> None:
        """Make the costs of the loops in `body`, and add what its statements do to those around them."""
        stack: list[tuple[Stmt, tuple[LoopCost, ...], bool]] = [(body, (whole,), False)]
        while stack:
            stmt, around, guarded = stack.pop()
            inside = guarded or isinstance(stmt, If)
            if isinstance(stmt, For):
                self.analyzer.bind(stmt.var, Range(stmt.begin, cast(stmt.extent, stmt.begin.dtype)))
                trips = Count.extent(stmt.extent, self.analyzer, self.fixed)
                made = LoopCost(stmt, trips, around[-1].iterations)
                around[-1].parts.append(made)
                around = (*around, made)
            self._statement(stmt, around, guarded)
            stack.extend((child, around, inside) for child in reversed(children(stmt)) if isinstance(child, Stmt))

    def _statement(self, stmt: Stmt, around: Sequence[LoopCost], guarded: bool) -> None:
        loops = tuple(cost.loop for cost in around if cost.loop is not None)
        values: list[Expr] = []
        if isinstance(stmt, BufferStore):
            self.accesses.append(_Access(stmt.buffer, stmt.indices, loops))
            values = [stmt.value]
        elif isinstance(stmt, (LetStmt, Evaluate)):
            values = [stmt.value]
        elif isinstance(stmt, (If, Assert)):
            values = [stmt.condition]
        for value in values:
            self._loads(value, loops)
            found, maybe = (0, False) if isinstance(stmt, (If, Assert)) else _operations(value)
            if found:
                count = around[-1].iterations.times(found)
                count = count.at_most() if guarded or maybe else count
                for cost in around:
                    cost.operations = cost.operations + count

    def _loads(self, value: Expr, loops: tuple[For, ...]) -> None:
        for node in post_order(value):
            if isinstance(node, BufferLoad):
                self.accesses.append(_Access(node.buffer, node.indices, loops))
            pointed = pointed_to(node)
            if pointed is not None:  # outside code may go anywhere
                self.accesses.append(_Access(pointed[0], (), loops))

    # Bytes

    def _touched(self, loop: For | None, accesses: Sequence[_Access]) -> dict[Buffer, Count]:
        boxes: dict[Buffer, list[list[Span] | None]] = {}
        evaluators: dict[tuple[For, ...], SpanEvaluator] = {}
        for access in accesses:
            at = 0 if loop is None else access.loops.index(loop)
            varying = access.loops[at:]
            evaluate = evaluators.get(varying)
            if evaluate is None:
                evaluate = evaluators[varying] = SpanEvaluator(self._spans(varying), self.analyzer)
            box = boxes.setdefault(access.buffer, [[] for _ in access.buffer.shape])
            if not access.indices:
                box[:] = [None] * len(box)
            for dimension, index in enumerate(access.indices):
                span, so_far = evaluate(index), box[dimension]
                if span is None or so_far is None:
                    box[dimension] = None
                else:
                    so_far.append(span)
        return {buffer: self._size(buffer, box) for buffer, box in boxes.items()}

    def _spans(self, loops: Sequence[For]) -> Mapping[Var, Span]:
        """What the variables of loops take, outermost first: an inner extent may change with an outer variable."""
        spans: dict[Var, Span] = {}
        for loop in loops:
            evaluate = SpanEvaluator(spans, self.analyzer)
            begin, extent = evaluate(loop.begin), evaluate(loop.extent)
            if begin is None or extent is None:
                continue
            if begin.is_point and extent.is_point:
                spans[loop.var] = Span.of(begin.low, extent.low)
            else:
                spans[loop.var] = Span(begin.low, self.analyzer.simplify(begin.high + extent.high - 1), None)
        return spans

    def _size(self, buffer: Buffer, box: Sequence[list[Span] | None]) -> Count:
        size = Count.of(max(1, buffer.dtype.bytes))
        for spans, extent in zip(box, buffer.shape, strict=True):
            size = size * self._length(spans, extent)
        return size

    def _length(self, spans: list[Span] | None, extent: Expr) -> Count:
        """How many indices of a dimension are touched, never more than it has."""
        whole = Count.extent(extent, self.analyzer, self.fixed)
        if not spans:
            return whole.at_most()
        span = union(spans, self.analyzer)
        length = self.analyzer.simplify(span.high - span.low + 1)
        if isinstance(length, IntImm):
            found = Count.of(max(length.value, 0))
        elif span.width is not None:
            found = Count.of(span.width, is_exact=False)
        elif self.analyzer.can_prove(length >= cast(extent, length.dtype)):
            return whole
        else:
            found = Count.extent(length, self.analyzer, self.fixed)
        if whole.value is not None and (found.value is None or found.value > whole.value):
            return whole
        return found


def _operations(value: Expr) -> tuple[int, bool]:
    """The operations of an expression, indices aside, and whether some of them may be left out."""
    count, maybe = 0, False
    seen: set[int] = set()
    stack: list[Node] = [value]
    while stack:
        node = stack.pop()
        if id(node) in seen or isinstance(node, BufferLoad):
            continue
        seen.add(id(node))
        if isinstance(node, Call):
            count += node.name not in _FREE_CALLS
        elif isinstance(node, BinaryOp) and not isinstance(node, LogicalOp):
            count += 1
        if isinstance(node, (IfThenElse, Select)):
            maybe = True
            stack.extend(children(node)[1:])
        elif isinstance(node, Let):
            stack.extend((node.value, node.body))
        else:
            stack.extend(children(node))
    return count, maybe and count > 0
