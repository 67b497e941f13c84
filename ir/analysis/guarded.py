"""Accesses with what stands around them: the loops that they run in and the conditions under which they happen.

    for i in 10: C[i] = if_then_else(i >= 1, A[i - 1], 0)      the read of A: i in [0, 10), i >= 1
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from ..accesses import reads_memory
from ..arith.analyzer import Analyzer
from ..expr import And, BufferLoad, Call, Expr, IfThenElse, Let, Node, Or, ProducerLoad, Range, Select, Var
from ..intrinsics import is_pure
from ..ops import all_of, is_const, logical_and, logical_not, logical_or
from ..stmt import Allocate, Assert, Attr, BufferStore, Evaluate, For, If, LetStmt, Seq, Stmt
from ..visit import children, post_order, rewrite, substitute, without_lets

__all__ = ["LAZY", "Access", "Around", "accesses_within", "depends_on_data", "guarded_loads"]

ExprT = TypeVar("ExprT", bound=Expr)
Load: TypeAlias = BufferLoad | ProducerLoad
Path: TypeAlias = tuple[Expr, ...]


def guarded_loads(
    root: Expr, choices: tuple[type[Expr], ...] = (IfThenElse,), names: Mapping[Var, Expr] | None = None,
) -> list[tuple[Load, Path]]:
    """Every load that evaluating `root` may do, with the conditions under which it does, outermost first; operands come first.

    What has a name only within the expression, or in `names`, stands for itself. choices: the nodes of which one side is
    evaluated where a condition says so, the first operand of `and` and `or` included.
    """
    loads: list[tuple[Load, Path]] = []
    stack: list[tuple[Node, Path]] = [(root, ())]
    bound: dict[Var, Expr] = dict(names or {})
    met: set[tuple[int, ...]] = set()
    opposite: dict[int, Expr] = {}
    while stack:
        node, path = stack.pop()
        place = (id(node), *map(id, path))
        if place in met:  # what is shared is met once under the same conditions
            continue
        met.add(place)
        if isinstance(node, (BufferLoad, ProducerLoad)):
            loads.append((_plain(node, bound), path))
        if isinstance(node, choices) and isinstance(node, (And, Or)):
            first = _plain(node.a, bound)
            path_of_b = first if isinstance(node, And) else opposite.setdefault(id(node), logical_not(first))
            stack += [(node.a, path), (node.b, (*path, path_of_b))]
        elif isinstance(node, choices):
            assert isinstance(node, (IfThenElse, Select))
            condition = _plain(node.condition, bound)
            otherwise = opposite.setdefault(id(node), logical_not(condition))
            stack += [(node.condition, path), (node.true_value, (*path, condition)), (node.false_value, (*path, otherwise))]
        elif isinstance(node, Let):
            bound[node.var] = _plain(node.value, bound)
            stack += [(node.value, path), (node.body, path)]
        else:
            stack.extend((child, path) for child in children(node))
    loads.reverse()
    return loads


def as_logic(condition: Expr) -> Expr:
    """A condition with `and` and `or` in place of the choices that say in which order they are evaluated."""

    def rule(node: Node) -> Expr | None:
        if isinstance(node, IfThenElse) and is_const(node.false_value, 0) and node.dtype.is_bool:
            return logical_and(node.condition, node.true_value)
        if isinstance(node, IfThenElse) and is_const(node.true_value, 1) and node.dtype.is_bool:
            return logical_or(node.condition, node.false_value)
        return None

    return rewrite(condition, rule)


def _plain(expr: ExprT, bound: dict[Var, Expr]) -> ExprT:
    """What an expression means outside of the one that it stands in, with no names of its own: those it has already."""
    if not any(isinstance(node, Let) or node in bound for node in post_order(expr) if isinstance(node, (Let, Var))):
        return expr
    return without_lets(substitute(expr, bound))


@dataclass(frozen=True, slots=True, eq=False)
class Around:
    """A loop (its variable and range; depends_on_data: the range does) or a condition, around an access."""

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


def depends_on_data(value: Expr, data: frozenset[Var] | set[Var] = frozenset()) -> bool:
    """Whether a value depends on what memory holds, or on outside code. data: the variables that do."""
    return reads_memory(value) or any(
        node in data if isinstance(node, Var) else isinstance(node, Call) and (not is_pure(node.name) or "extern" in node.name)
        for node in post_order(value))


LAZY = (IfThenElse, Select, And, Or)
"""What guards a read in a program as it is declared."""


def accesses_within(
    stmt: Stmt, analyzer: Analyzer, ranges: Mapping[Var, Range] | None = None, choices: tuple[type[Expr], ...] = LAZY,
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
            condition = as_logic(self.plain(node.condition))
            yield from self.under(condition, node.then_body)
            if node.else_body is not None:
                yield from self.under(logical_not(condition), node.else_body)
        elif isinstance(node, LetStmt):
            yield from self.loads(node.value)
            self.names[node.var] = self.plain(node.value)
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
        if self.never(within.extent > 0):
            return
        unknown = depends_on_data(within.begin, self.data) or depends_on_data(within.extent, self.data)
        if unknown:
            self.data.add(node.var)
        self.analyzer.bind(node.var, within)
        self.around.append(Around(node.var, within, depends_on_data=unknown))
        yield from self.statement(node.body)
        self.around.pop()

    def under(self, condition: Expr, body: Stmt) -> Iterator[Access]:
        if not self.never(condition):
            self.around.append(Around(condition=condition))
            with self.analyzer.constraint(condition):
                yield from self.statement(body)
            self.around.pop()

    def never(self, condition: Expr) -> bool:
        """Whether a condition is known not to hold, so that it says nothing of what is done under it."""
        return is_const(self.analyzer.simplify(condition), 0)

    def loads(self, *values: Expr) -> Iterator[Access]:
        for value in values:
            for load, guards in guarded_loads(value, self.choices, self.names):
                path = tuple(map(as_logic, guards))
                condition = all_of(*path)
                if not self.never(condition):
                    with self.analyzer.constraint(condition):
                        yield self.access(load, load.indices, path)

    def access(self, node: Load | BufferStore, indices: Sequence[Expr], path: Path) -> Access:
        return Access(node, tuple(indices), (*self.around, *(Around(condition=condition) for condition in path)),
                      frozenset(self.data))
