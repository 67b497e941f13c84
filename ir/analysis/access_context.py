"""Accesses with what stands around them: the loops that they run in and the conditions under which they happen.

for i in 10: C[i] = if_then_else(i >= 1, A[i - 1], 0)      the read of A: i in [0, 10), i >= 1
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias, TypeVar

from ...base.dataclass import dataclass
from ..accesses import reads_memory
from ..arith.analyzer import Analyzer
from ..expr import And, BufferLoad, Call, Expr, IfThenElse, IntImm, Let, Node, Not, Or, ProducerLoad, Range, Select, Var
from ..intrinsics import is_pure
from ..ops import TRUE, conjunction, is_const, logical_and, logical_not, logical_or
from ..stmt import Allocate, Assert, Attr, BufferStore, Evaluate, For, If, LetStmt, Seq, Stmt, While
from ..visit import children, post_order, rewrite, substitute, substitute_lets

__all__ = ["LAZY", "Access", "Around", "walk_accesses", "depends_on_data", "guarded_loads", "possible"]

ExprT = TypeVar("ExprT", bound=Expr)
Load: TypeAlias = BufferLoad | ProducerLoad
Path: TypeAlias = tuple[Expr, ...]


_MOST_PLACES = 1 << 12
"""Nodes under conditions that are told apart. What is shared by more ways than that has one condition for all of them."""


def guarded_loads(
    root: Expr,
    choices: tuple[type[Expr], ...] = (IfThenElse,),
    names: Mapping[Var, Expr] | None = None,
    depends: Callable[[Expr], bool] | None = None,
) -> list[tuple[Load, Path]]:
    """Every load that evaluating `root` may do, with the conditions under which it does, outermost first; operands come first.

    What has a name only within the expression, or in `names`, stands for itself. choices: the nodes of which one side is
    evaluated where a condition says so, the first operand of `and` and `or` included. depends: the conditions that count as true
    on either side, since they may come out either way; a path says once that there are some.
    """
    sides = _Sides(choices, dict(names or {}), depends)
    loads: list[tuple[Load, Path]] = []
    stack: list[tuple[Expr, Path]] = [(root, ())]
    met: set[tuple[int, ...]] = set()
    while stack:
        node, path = stack.pop()
        place = (id(node), *map(id, path))
        if place in met:  # what is shared is met once under the same conditions
            continue
        met.add(place)
        if len(met) > _MOST_PLACES:  # so many ways have one condition together, which is true and less precise
            return _merged_loads(root, sides)
        if isinstance(node, (BufferLoad, ProducerLoad)):
            loads.append((_plain(node, sides.bound), path))
        stack += [
            # TRUE says once that some condition was left out
            (child, path if condition is None or condition is TRUE and TRUE in path else (*path, condition))
            for child, condition in sides.of(node)
        ]
    loads.reverse()
    return loads


class _Sides:
    """The operands of nodes, with the condition under which each is evaluated."""

    def __init__(
        self, choices: tuple[type[Expr], ...], bound: dict[Var, Expr], depends: Callable[[Expr], bool] | None
    ) -> None:
        self.choices, self.bound, self.depends = choices, bound, depends
        self.opposite: dict[int, Expr] = {}
        """By the identity of a condition, what says that it does not hold."""
        self._conditions: dict[int, tuple[Expr, Expr]] = {}

    def of(self, node: Expr) -> list[tuple[Expr, Expr | None]]:
        """Operands, in order; None for those that are evaluated wherever the node is."""
        if isinstance(node, self.choices) and isinstance(node, (And, Or)):
            holds, fails = self._both(node, node.a)
            return [(node.a, None), (node.b, holds if isinstance(node, And) else fails)]
        if isinstance(node, self.choices):
            assert isinstance(node, (IfThenElse, Select))
            holds, fails = self._both(node, node.condition)
            return [(node.condition, None), (node.true_value, holds), (node.false_value, fails)]
        if isinstance(node, Let):
            self.bound[node.var] = _plain(node.value, self.bound)  # what is bound may be used below in any order
        return [(child, None) for child in children(node)]

    def _both(self, node: Expr, condition: Expr) -> tuple[Expr, Expr]:
        """Return the facts where the condition of a node holds, and where it does not; the same objects each time."""
        known = self._conditions.get(id(node))
        if known is None:
            condition = _plain(condition, self.bound)
            known = self._conditions[id(node)] = (
                self._evaluate_known(condition, True),
                self._evaluate_known(condition, False),
            )
            if known[0] is not TRUE and known[1] is not TRUE:  # a fact that always holds has no opposite
                self.opposite[id(known[0])], self.opposite[id(known[1])] = known[1], known[0]
        return known

    def _evaluate_known(self, condition: Expr, truth: bool) -> Expr:
        if self.depends is None:
            return condition if truth else logical_not(condition)
        left = possible(condition, self.depends, truth)
        return TRUE if is_const(left, 1) else left


def _merged_loads(root: Expr, sides: _Sides) -> list[tuple[Load, Path]]:
    """Merge the guarded loads: each load once, under one condition, which holds where one of the ways to it is taken."""
    made: dict[tuple[int, int], Expr] = {}

    def both(a: Expr, b: Expr | None) -> Expr:
        if b is None or b is TRUE or a is b:  # the condition adds nothing
            return a
        return b if a is TRUE else made.setdefault((id(a), id(b)), And(a, b))

    def either(a: Expr | None, b: Expr) -> Expr:
        if a is None or a is b:
            return b
        # one way or its opposite: the load happens in any case
        if a is TRUE or b is TRUE or sides.opposite.get(id(a)) is b:
            return TRUE
        if isinstance(a, And) and isinstance(b, And) and a.a is b.a and sides.opposite.get(id(a.b)) is b.b:
            return a.a
        return Or(a, b)

    order = list(post_order(root, below=lambda node: [child for child, _ in sides.of(node)]))
    wanted: dict[int, Expr] = {id(root): TRUE}
    for node in reversed(order):
        for child, condition in sides.of(node):
            wanted[id(child)] = either(wanted.get(id(child)), both(wanted[id(node)], condition))
    return [
        (_plain(node, sides.bound), (wanted[id(node)],))
        for node in order
        if isinstance(node, (BufferLoad, ProducerLoad))
    ]


def convert_to_logic(condition: Expr) -> Expr:
    """A condition with `and` and `or` in place of the choices that say in which order they are evaluated."""

    def rule(node: Node) -> Expr | None:
        if isinstance(node, IfThenElse) and is_const(node.false_value, 0) and node.dtype.is_bool:
            return logical_and(node.condition, node.true_value)
        if isinstance(node, IfThenElse) and is_const(node.true_value, 1) and node.dtype.is_bool:
            return logical_or(node.condition, node.false_value)
        return None

    return rewrite(condition, rule)


def _plain(expr: ExprT, bound: dict[Var, Expr]) -> ExprT:
    """Return the meaning of an expression outside of the one that it stands in, with no names of its own: those it has already."""
    # most expressions bind nothing
    if not any(isinstance(node, Let) or node in bound for node in post_order(expr) if isinstance(node, (Let, Var))):
        return expr
    return substitute_lets(substitute(expr, bound))


@dataclass(frozen=True, slots=True, eq=False)
class Around:
    """A loop (its variable and range; depends_on_data: the range does) or a condition, around an access."""

    # a rewriting with no let needs no copy

    var: Var | None = None
    within: Range | None = None
    condition: Expr | None = None
    depends_on_data: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Access:
    """One access. node: as it stands in the program; indices: with what has a name written out. around: outermost first."""

    node: Load | BufferStore
    indices: tuple[Expr, ...]
    around: tuple[Around, ...]
    data: frozenset[Var]
    """The variables around whose values depend on data."""

    @property
    def shape(self) -> tuple[Expr, ...]:
        return self.node.producer.shape if isinstance(self.node, ProducerLoad) else self.node.buffer.shape

    def at(self, dimension: int, index: Expr, condition: Expr) -> Access:
        """The access where its index in a dimension is another one, under a further condition."""
        indices = (*self.indices[:dimension], index, *self.indices[dimension + 1 :])
        return Access(self.node, indices, (*self.around, Around(condition=condition)), self.data)


def depends_on_data(value: Expr, data: frozenset[Var] | set[Var] = frozenset()) -> bool:
    """Return whether a value depends on what memory holds, or on outside code. data: the variables that do."""
    return reads_memory(value) or any(
        node in data
        if isinstance(node, Var)
        else isinstance(node, Call) and (not is_pure(node.name) or "extern" in node.name)
        for node in post_order(value)
    )


def possible(condition: Expr, depends: Callable[[Expr], bool], truth: bool = True) -> Expr:
    """A condition (or that it does not hold) with all that depends on data, as `depends` says, taken to be as it may be."""
    if isinstance(condition, Not):
        return possible(condition.value, depends, not truth)
    if isinstance(condition, Call) and condition.name == "likely":  # the hint says nothing about truth
        return possible(condition.args[0], depends, truth)
    if isinstance(condition, (And, Or)):
        parts = possible(condition.a, depends, truth), possible(condition.b, depends, truth)
        # De Morgan: without the second operand neither may be known
        return logical_and(*parts) if isinstance(condition, And) == truth else logical_or(*parts)
    if isinstance(condition, IfThenElse) and condition.dtype.is_bool:  # convert_to_logic, without a walk
        if is_const(condition.false_value, 0):
            return possible(And(condition.condition, condition.true_value), depends, truth)
        if is_const(condition.true_value, 1):
            return possible(Or(condition.condition, condition.false_value), depends, truth)
    if depends(condition):  # data may make it come out either way
        return TRUE
    return condition if truth else logical_not(condition)


LAZY = (IfThenElse, Select, And, Or)
"""What guards a read in a program as it is declared."""


def walk_accesses(
    stmt: Stmt,
    analyzer: Analyzer,
    ranges: Mapping[Var, Range] | None = None,
    choices: tuple[type[Expr], ...] = LAZY,
) -> Iterator[Access]:
    """The accesses of a statement in the order of the program. While one is looked at, `analyzer` knows the loops and conditions
    around it. ranges: of loops that take less than they say. choices: see guarded_loads."""
    return _Walk(analyzer, ranges or {}, choices).statement(stmt)


class _Walk:
    def __init__(self, analyzer: Analyzer, ranges: Mapping[Var, Range], choices: tuple[type[Expr], ...]) -> None:
        self.analyzer, self.ranges, self.choices = analyzer, ranges, choices
        self.around: list[Around] = []
        self.names: dict[Var, Expr] = {}
        self.data: set[Var] = set()

    def statement(self, node: Stmt) -> Iterator[Access]:
        if isinstance(node, Seq):
            for part in node.body:
                yield from self.statement(part)
        elif isinstance(node, For):
            yield from self.loop(node)
        elif isinstance(node, If):
            yield from self.loads(node.condition)
            condition = convert_to_logic(self.plain(node.condition))
            yield from self.under(condition, node.then_body)
            if node.else_body is not None:
                yield from self.under(logical_not(condition), node.else_body)
        elif isinstance(node, While):
            yield from self.loads(node.condition)
            yield from self.under(convert_to_logic(self.plain(node.condition)), node.body)
        elif isinstance(node, LetStmt):
            yield from self.loads(node.value)
            self.names[node.var] = self.plain(node.value)
            if depends_on_data(self.names[node.var], self.data):
                self.data.add(node.var)  # shapes name it: memory may have as many elements
            yield from self.statement(node.body)
        elif isinstance(node, BufferStore):
            yield from self.loads(*node.indices, node.value)
            yield self.access(node, tuple(map(self.plain, node.indices)), ())
        elif isinstance(node, (Evaluate, Assert)):
            yield from self.loads(node.value if isinstance(node, Evaluate) else node.condition)
        elif isinstance(node, (Allocate, Attr)):
            yield from self.statement(node.body)

    def plain(self, value: Expr) -> Expr:
        """A value with the names of statements around written out."""
        return substitute(value, self.names) if self.names else value

    def loop(self, node: For) -> Iterator[Access]:
        yield from self.loads(node.begin, node.extent)
        within = self.ranges.get(node.var) or Range(self.plain(node.begin), self.plain(node.extent))
        if self.never(within.extent > 0):  # a loop without iterations touches nothing
            return
        unknown = depends_on_data(within.begin, self.data) or depends_on_data(within.extent, self.data)
        if unknown:
            self.data.add(node.var)
        self.analyzer.bind(node.var, within)
        self.around.append(Around(node.var, within, depends_on_data=unknown))
        # inside of the loop there is an iteration
        with self.analyzer.constraint(TRUE if unknown or isinstance(within.extent, IntImm) else within.extent > 0):
            yield from self.statement(node.body)
        self.around.pop()

    def under(self, condition: Expr, body: Stmt) -> Iterator[Access]:
        if not self.never(condition):  # what is never done says nothing
            self.around.append(Around(condition=condition))
            with self.analyzer.constraint(condition):
                yield from self.statement(body)
            self.around.pop()

    def never(self, condition: Expr) -> bool:
        """Return whether a condition is known not to hold, so that it says nothing of what is done under it."""
        return is_const(self.analyzer.simplify(condition), 0)

    def loads(self, *values: Expr) -> Iterator[Access]:
        for value in values:
            for load, guards in guarded_loads(
                value, self.choices, self.names, lambda part: depends_on_data(part, self.data)
            ):
                path = tuple(map(convert_to_logic, guards))
                condition = conjunction(*path)
                if not self.never(condition):
                    with self.analyzer.constraint(condition):
                        yield self.access(load, load.indices, path)

    def access(self, node: Load | BufferStore, indices: Sequence[Expr], path: Path) -> Access:
        return Access(
            node,
            tuple(indices),
            (*self.around, *(Around(condition=condition) for condition in path)),
            frozenset(self.data),
        )
