"""Loops with guards to a main part, where the guards are proved, and the iterations around it.

    for i in 32:                                         for i in 31:
        for j in vectorized(32):                             for j in vectorized(32):
            if likely(i * 32 + j < 1000): S(i, j)     →          S(i, j)
                                                         for j in vectorized(8):           # of i = 31
                                                             S(31, j)

A guard is a comparison of sums: in an If; in an if_then_else under `likely`, or one in which lanes differ, and would be
masked; in a select that chooses an index, in which lanes differ; or the one that a clamped index makes, min(i + 1, n - 1),
in which lanes differ, and would be gathered. For the
outermost loop in which a guard is monotone, the iterations are found in which it holds whatever the loops inside do;
bounds may be symbolic. Each of the parts is searched again for loops inside it. A budget bounds how often a statement
is copied. A loop with the pragma loop_partition_hint is cut for each if_then_else and clamped index in its body, as if all were likely.

It stands before vectorize and unroll (a guard left inside a lane would mask it, one inside an unrolled body would be
copied with it), and while indices are n-d, because simplify comes after it to decide what is left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ....base import dataclass, replace
from ...analysis.linear import Atom, atom_key, expression, is_index, linear, terms
from ...arith.linear import LinearForm
from ...contents import require_any
from ...expr import (
    GE,
    GT,
    LE,
    LT,
    Add,
    And,
    BufferLoad,
    Expr,
    FloorMod,
    IfThenElse,
    IntImm,
    Max,
    Min,
    Node,
    Select,
    Var,
)
from ...ops import TRUE, const, integer_value, is_const, maximum, minimum
from ...stmt import For, Function, If, LoopKind, Stmt
from ...visit import Rewriter, children, seq, statements, walk
from .fresh_copy import Copier, fold, fresh_copy
from .guard_bounds import GuardBound, guard_bound, split_comparisons

__all__ = ["HINT", "MAX_COPIES", "Cut", "find_cut", "loop_partition"]

HINT = "loop_partition_hint"
"""The pragma of a loop that is cut for guards of values too."""

MAX_COPIES = 16
"""How many copies of one statement partitioning may leave."""
MARGIN = 6
"""Where bounds are symbolic, the iterations before and after a main part get this part of the copies: they are few, and the
main part, which runs, can then be cut for the guards of the loops inside it too."""
MAX_NODES = 6000
"""A larger body is not copied: its guard costs little beside it."""
_GUARDS = frozenset({IfThenElse, Min, Max, Select})
"""Expressions that may guard something."""


@require_any(If, *_GUARDS)
def loop_partition(function: Function, masked_lanes: int = 0) -> Function:
    """`function` with loops cut where their guards end. masked_lanes: a vectorized loop of so many iterations or fewer is
    only cut where guards choose indices: the machine masks such a vector at no cost, but would gather it."""
    return function.with_body(_Partitioner(masked_lanes).visit(function.body))


@dataclass(frozen=True, slots=True)
class Cut:
    """The iterations [low, high) of a loop (None: from its begin, to its end) in which each of `guards` holds, or, if
    it is a clamp, does nothing; the guards are nodes of its body, known by identity."""

    low: Expr | None
    high: Expr | None
    guards: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class _Guard:
    """A comparison in a loop's body. node: what is decided where it holds, itself or the clamp that it is made from.
    likely: the schedule's own guard of a split. inner: the loops between. lanes: whether it may differ between the
    lanes of a vectorized loop. place: whether it chooses where to read, so that lanes would be gathered. around: whether it
    guards a loop."""

    condition: Expr
    node: Expr
    likely: bool
    inner: tuple[For, ...]
    lanes: bool = False
    place: bool = False
    around: bool = False

    @property
    def worth_symbols(self) -> bool:
        """Return whether to cut for it at a bound that the call decides, or a loop outside, which may leave the main part empty. Once
        for a loop it costs little."""
        return self.likely or self.lanes or not self.inner and not self.around


@dataclass(frozen=True, slots=True)
class _Bound:
    """Up to where, or from where on, `guard` holds."""

    guard: _Guard
    where: GuardBound

    def expr(self, var: Var) -> Expr:
        return self.where.expr(var)


# Finding where to cut


def find_cut(
    loop: For, masked_lanes: int = 0, places: bool = False, guarded: _GuardedStatements | None = None
) -> Cut | None:
    """Find the iteration at which to cut `loop`, or None. masked_lanes: as of loop_partition. places: only for guards that choose
    what lanes read. guarded: shared by questions about loops within each other."""
    one_vector = (
        # one masked vector costs no more than a full one, and a cut would add a tail
        loop.kind is LoopKind.VECTORIZED and isinstance(loop.extent, IntImm) and loop.extent.value <= masked_lanes
    )
    guards = (
        guard
        for guard in _guards(loop, _GuardedStatements() if guarded is None else guarded)
        if guard.place and (guard.lanes or not places) or not (one_vector or places)
    )
    found = (
        (guard, guard_bound(guard.condition, loop.var, guard.inner, digits=guard.likely or guard.lanes))
        for guard in guards
    )
    bounds = [_Bound(guard, where) for guard, where in found if where is not None]
    if not bounds:
        return None
    begin, extent = loop.begin, loop.extent
    if isinstance(begin, IntImm) and isinstance(extent, IntImm):
        constant = [bound for bound in bounds if isinstance(bound.expr(loop.var), IntImm)]
        # symbols would ask for another loop, which lanes and threads cannot have
        if len(constant) == len(bounds) or loop.kind not in (LoopKind.SERIAL, LoopKind.PARALLEL):
            return _constant_cut(constant, loop.var, begin.value, begin.value + extent.value)
    if loop.kind not in (LoopKind.SERIAL, LoopKind.PARALLEL):
        return None
    return _symbolic_cut([bound for bound in bounds if bound.guard.worth_symbols], loop.var)


def _constant_cut(bounds: list[_Bound], var: Var, begin: int, end: int) -> Cut | None:
    low, high = begin, end
    guards: list[Expr] = []
    # likely guards first: they fail at an edge only, so the main part stays long
    for bound in sorted(bounds, key=lambda bound: not bound.guard.likely):
        value = bound.expr(var)
        assert isinstance(value, IntImm)
        new_low, new_high = (low, min(high, value.value)) if bound.where.upper else (max(low, value.value), high)
        # another guard must leave at least half of the loop, or the cut costs more code than it saves
        least = 1 if bound.guard.likely else (end - begin + 1) // 2
        if new_high - new_low >= max(least, 1):
            low, high = new_low, new_high
            guards.append(bound.guard.node)
    if not guards:
        return None
    return Cut(const(low, var.dtype), const(high, var.dtype), tuple(guards))


def _symbolic_cut(bounds: list[_Bound], var: Var) -> Cut | None:
    if not bounds:
        return None
    low: Expr | None = None
    high: Expr | None = None
    for bound in _tightest(bounds):
        value = bound.expr(var)
        if bound.where.upper:
            high = value if high is None else minimum(high, value)
        else:
            low = value if low is None else maximum(low, value)
    return Cut(low, high, tuple(bound.guard.node for bound in bounds))


def _tightest(bounds: list[_Bound]) -> Iterator[_Bound]:
    """The tightest of bounds that differ in a constant: the one that implies the others."""
    tightest: dict[object, tuple[int, _Bound]] = {}
    for bound in bounds:
        where = bound.where
        # a constant compares with itself alone
        form = LinearForm({}, where.value) if isinstance(where.value, int) else where.value
        tightness = -form.const if where.upper else form.const
        key = (where.upper, where.divisor, form.key)
        if key not in tightest or tightness > tightest[key][0]:
            tightest[key] = (tightness, bound)
    return (bound for _, bound in tightest.values())


class _GuardedStatements:
    """The statements in which anything may be a guard, their expressions that may be, and their sizes: each looked at once however
    many loops stand around it. Objects are kept, as their identities are the keys."""

    def __init__(self) -> None:
        self._guarded: dict[int, tuple[Stmt, bool]] = {}
        self._choices: dict[int, tuple[Node, list[tuple[Expr, bool]]]] = {}
        self._sizes: dict[int, tuple[Stmt, int]] = {}

    def __contains__(self, stmt: Stmt) -> bool:
        known = self._guarded.get(id(stmt))
        if known is None:
            found = isinstance(stmt, If) or any(
                child in self if isinstance(child, Stmt) else bool(self.choices(child)) for child in children(stmt)
            )
            known = self._guarded[id(stmt)] = stmt, found
        return known[1]

    def choices(self, value: Node) -> list[tuple[Expr, bool]]:
        """The choices and clamps in an expression of a statement, each with whether it is part of an index."""
        known = self._choices.get(id(value))
        if known is None:
            known = self._choices[id(value)] = value, _find_choices(value)
        return known[1]

    def size(self, stmt: Stmt) -> int:
        """The nodes of a statement."""
        known = self._sizes.get(id(stmt))
        if known is None:
            sizes = [
                self.size(child) if isinstance(child, Stmt) else sum(1 for _ in walk(child)) for child in children(stmt)
            ]
            known = self._sizes[id(stmt)] = stmt, 1 + sum(sizes)
        return known[1]


def _find_choices(value: Node) -> list[tuple[Expr, bool]]:
    found: list[tuple[Expr, bool]] = []
    stack: list[tuple[Node, bool]] = [(value, False)]
    met: set[tuple[int, bool]] = set()
    while stack:
        node, in_index = stack.pop()
        if (
            id(node),
            in_index,
        ) not in met:  # a shared operand is a place once for each role: as an index and as a value
            met.add((id(node), in_index))
            if isinstance(node, Expr) and type(node) in _GUARDS:
                found.append((node, in_index))
            in_index = in_index or isinstance(node, BufferLoad)
            stack += [(child, in_index) for child in children(node)]
    return found


def _guards(loop: For, guarded: _GuardedStatements) -> Iterator[_Guard]:
    """The comparisons that guard something in the body of `loop`, with the loops that stand between."""
    hinted = any(key == HINT and not is_const(value, 0) for key, value in loop.pragmas)
    stack: list[tuple[Node, tuple[For, ...]]] = [(loop.body, ())]
    while stack:
        node, inner = stack.pop()
        if isinstance(node, Expr):
            yield from _guards_of_value(guarded.choices(node), loop, inner, hinted)
            continue
        if isinstance(node, If):
            around = any(isinstance(below, For) for below in statements(node))
            for part, likely in split_comparisons(node.condition):
                yield _Guard(part, part, likely, inner, _differs_in_lanes(part, (loop, *inner)), around=around)
        elif isinstance(node, For):
            inner = (*inner, node)
        stack += [(child, inner) for child in children(node) if not isinstance(child, Stmt) or child in guarded]


def _guards_of_value(
    choices: Sequence[tuple[Expr, bool]], loop: For, inner: tuple[For, ...], hinted: bool
) -> Iterator[_Guard]:
    """The comparisons by which an expression chooses. hinted: whether the loop is cut for those of values too."""
    for node, in_index in choices:
        if isinstance(node, IfThenElse) or (isinstance(node, Select) and in_index):
            for part, likely in split_comparisons(node.condition):
                lanes = _differs_in_lanes(part, (loop, *inner))
                # an if_then_else by itself is a branch of a value, cheap where lanes agree
                if likely or lanes or hinted:
                    yield _Guard(part, part, likely or hinted, inner, lanes, in_index)
        elif isinstance(node, (Min, Max)) and is_index(node):
            condition = _clamps_nothing(node)
            if _differs_in_lanes(condition, (loop, *inner)) or hinted and in_index:
                yield _Guard(condition, node, False, inner, True, True)


def _differs_in_lanes(condition: Expr, loops: tuple[For, ...]) -> bool:
    lanes = {loop.var for loop in loops if loop.kind is LoopKind.VECTORIZED}
    return bool(lanes) and any(isinstance(node, Var) and node in lanes for node in walk(condition))


def _find_clamp(node: Min | Max) -> tuple[Expr, Expr]:
    """Return the value that a clamp clamps, and its bound."""
    # simplify puts constants on the right, but a clamp from below may have it on the left
    return (node.b, node.a) if isinstance(node.a, IntImm) else (node.a, node.b)


def _clamps_nothing(node: Min | Max) -> Expr:
    """The comparison under which a clamped index is the index itself, clamps within having done nothing either."""
    value, bound = _find_clamp(node)
    while isinstance(value, (Min, Max)):
        value = _find_clamp(value)[0]
    return LE(value, bound) if isinstance(node, Min) else GE(value, bound)


# Cutting


class _Partitioner(Rewriter):
    def __init__(self, masked_lanes: int) -> None:
        self.copies = MAX_COPIES
        self.masked_lanes = masked_lanes
        self.guarded = _GuardedStatements()

    def For(self, node: For) -> Stmt:
        # walking the copier over a large body costs more than this look
        if node.body not in self.guarded:
            return node  # nor is there anything to cut in the loops within
        if (
            self.copies <= 1 or self.guarded.size(node.body) >= MAX_NODES
        ):  # the budget is spent, or the body is too large to be copied
            return self.generic(node)
        cut = find_cut(node, self.masked_lanes, guarded=self.guarded)
        if cut is None:
            pieces = self._partition_by_digit(node)
        else:
            pieces = self._branches(node, cut) if node.kind is LoopKind.PARALLEL else self._sequence(node, cut)
        return self.generic(node) if pieces is None else pieces

    def _sequence(self, loop: For, cut: Cut) -> Stmt | None:
        """The iterations before, within and after the cut; None where that makes too many copies."""
        begin, end = loop.begin, fold(Add, loop.begin, loop.extent)
        # the main part begins at `low` itself, wherever the loop ends: simplify then knows a constant bound
        low = begin if cut.low is None else maximum(begin, cut.low)
        high = end if cut.high is None else minimum(cut.high, end)
        before = begin if cut.low is None else minimum(low, end)
        parts: list[tuple[Expr, Expr, tuple[Expr, ...]]] = [] if cut.low is None else [(begin, before, ())]
        parts.append((low, high, cut.guards))
        parts += [] if cut.high is None else [(maximum(high, before), end, ())]
        # a part that is known to be empty would still cost a loop header
        parts = [(part, other, proved) for part, other, proved in parts if not _is_empty(_length(part, other))]
        if all(_length(part, other).is_const for part, other, _ in parts):  # most of what is left decides itself
            main = margin = self.copies // 2
        else:
            margin = max(1, self.copies // MARGIN)
            main = self.copies - (len(parts) - 1) * margin
            if main < 1:
                return None  # too little budget for the main part and its edges: better one loop
        return seq(
            *(self._part(loop, part, other, proved, main if proved else margin) for part, other, proved in parts)
        )

    def _body(self, body: Stmt, copies: int) -> Stmt:
        """A body, its loops cut into no more than so many copies."""
        before, self.copies = self.copies, copies
        rewritten = self.visit(body)
        self.copies = before
        return rewritten  # budgets are for nested bodies: siblings get the same again

    def _part(self, loop: For, low: Expr, high: Expr, proved: tuple[Expr, ...], copies: int) -> Stmt:
        """The iterations [low, high), without the guards that are proved there. The loop itself is not cut again; what
        is left of its guards may cut the loops inside."""
        extent = _length(low, high)
        pragmas = tuple(pair for pair in loop.pragmas if pair[0] != HINT)
        # one iteration needs no loop, unless somebody asked for one by a pragma
        if extent.is_const and extent.const == 1 and not pragmas:
            return self._body(_Prover({loop.var: low}, proved).visit(loop.body), copies)
        var = Var(loop.var.name, loop.var.dtype)
        body = self._body(_Prover({loop.var: var}, proved).visit(loop.body), copies)
        # a symbolic part may be empty, and a negative extent is not
        count = maximum(expression(extent, var.dtype), const(0, var.dtype))
        return For(var, low, count, loop.kind, body, loop.thread, pragmas, loop.line)

    def _branches(self, loop: For, cut: Cut) -> Stmt | None:
        """One parallel loop over all iterations: two of them would meet at a barrier between."""
        if self.copies <= 1:
            return None
        inside = TRUE
        if cut.low is not None:
            inside = fold(And, inside, GE(loop.var, cut.low)) if not _same(cut.low, loop.begin) else inside
        if cut.high is not None:
            inside = fold(And, inside, LT(loop.var, cut.high))
        main = self._body(_Prover({}, cut.guards).visit(loop.body), self.copies // 2)
        # an edge of one iteration folds its indices
        rest = self._body(fresh_copy(loop.body, _only_other(loop, cut)), self.copies // 2)
        return replace(loop, body=If(inside, main, rest))

    def _partition_by_digit(self, loop: For) -> Stmt | None:
        """A loop that several were fused into, by where it is in one of them: in its first or last panel of columns, or in another.
        On machines that mask lanes at no cost only where lanes would be gathered."""
        for digit, extent in _digits(loop, self.guarded):
            place = Var(loop.var.name, digit.dtype)
            # a fused loop has guards on its remainders, not on its variable
            body = _InPlaceOf(digit, place).visit(loop.body)
            whole = For(
                place, const(0, digit.dtype), const(extent, digit.dtype), LoopKind.UNROLLED, body
            )  # bounds are known
            cut = find_cut(whole, self.masked_lanes, bool(self.masked_lanes), self.guarded)
            # only a constant cut of a digit tells panels apart
            if cut is None or not isinstance(cut.low, IntImm) or not isinstance(cut.high, IntImm):
                continue
            low, high = cut.low.value, cut.high.value
            ends = [(0, low), (high, extent)]
            ends = [(first, end) for first, end in ends if first < end]
            main = self._body(_Prover({place: digit}, cut.guards).visit(body), self.copies // 2)
            for first, end in reversed(ends):
                value = const(first, digit.dtype) if end - first == 1 else digit
                rest = self._body(fresh_copy(body, {place: value}), self.copies // 2 // len(ends))
                # edges are tested first: a chain from outside in
                begun = GE(digit, const(end, digit.dtype)) if not first else LT(digit, const(first, digit.dtype))
                main = If(begun, main, rest)
            return replace(loop, body=main)
        return None


def _only_other(loop: For, cut: Cut) -> dict[Var, Expr]:
    """The loop's variable and its value, where a cut leaves out a single one."""
    bounds = loop.begin, loop.begin if cut.low is None else cut.low, cut.high, fold(Add, loop.begin, loop.extent)
    begin, low, high, end = (integer_value(bound) for bound in bounds)
    # more than one iteration outside the cut has no single value
    if begin is None or low is None or high is None or end is None or low - begin + end - high != 1:
        return {}
    return {loop.var: const(begin if low > begin else high, loop.var.dtype)}


def _digits(loop: For, guarded: _GuardedStatements) -> Iterator[tuple[Expr, int]]:
    """Return the remainders of a loop's variable by a constant in guards of lanes in its body, each with how many there are."""
    met: set[Atom] = set()
    for guard in _guards(loop, guarded) if loop.kind in (LoopKind.SERIAL, LoopKind.PARALLEL) else ():
        if not _differs_in_lanes(guard.condition, guard.inner):
            continue
        assert isinstance(guard.condition, (LT, LE, GT, GE))
        for side in (guard.condition.a, guard.condition.b):
            for atom, _ in terms(linear(side)):
                if (
                    isinstance(atom, FloorMod)
                    and isinstance(atom.b, IntImm)
                    and atom.b.value > 1
                    and atom_key(atom) not in met
                    and all(node is loop.var for node in walk(atom.a) if isinstance(node, Var))
                ):
                    met.add(atom_key(atom))
                    yield atom, atom.b.value


class _InPlaceOf(Rewriter):
    """An expression's occurrences, by its structure, replaced by a variable."""

    def __init__(self, expr: Expr, var: Var) -> None:
        self.expr, self.var, self.key = expr, var, atom_key(expr)

    def visit(self, node: Any) -> Any:
        if type(node) is type(self.expr) and node.dtype == self.var.dtype and atom_key(node) == self.key:
            return self.var
        return super().visit(node)


def _length(low: Expr, high: Expr) -> LinearForm:
    return linear(high).plus(linear(low), -1)


def _is_empty(length: LinearForm) -> bool:
    return length.is_const and length.const <= 0


def _same(a: Expr, b: Expr) -> bool:
    return isinstance(a, IntImm) and isinstance(b, IntImm) and a.value == b.value


class _Prover(Copier):
    """A copy in which the given conditions, known by identity, are true, and the given clamps undone."""

    def __init__(self, values: dict[Var, Expr], proved: tuple[Expr, ...]) -> None:
        super().__init__(values)
        self.proved = {id(condition) for condition in proved}

    def visit(self, node: Any) -> Any:
        if id(node) not in self.proved:
            return super().visit(node)
        if not isinstance(node, (Min, Max)):
            return TRUE
        value = _find_clamp(node)[0]  # that it is within this bound says nothing of the bound of a clamp inside
        undone = not isinstance(value, (Min, Max)) or id(value) in self.proved
        # a clamp whose inner clamp still acts is not undone
        return self.visit(value) if undone else super().visit(node)
