"""Values that would be huge written out: each part that stands in several places gets a name, and is computed once.

    B[i] = if_then_else(A[i] > 0.5, x, y)      with x and y made of the same z, 12 levels deep
    →    z: float32 = ...                      # where only `i > 0` wants it: if_then_else(i > 0, ..., 0.0)
         x: float32 = if_then_else(z > 0.5, z * 2.0, z + 1.0)
         ...

A chain of inlined stages is small while its values are shared, and without end written out: each choice between elements of the
stage before would hold them in both of its branches. So what is shared is computed ahead, also where a branch alone wants it and
data decide which. What data do not decide stays in force, since it says which elements there are: a value is computed only
where the conditions on loops and symbols around one of its places hold. A read at an index that comes from data is kept inside
its buffer by a guard of its own.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from ...analysis.access_context import possible
from ...dtype import BOOL
from ...expr import BufferLoad, Call, Expr, IfThenElse, Let, Var
from ...ops import conjunction, const, disjunction, if_then_else, is_const
from ...stmt import BufferStore, LetStmt, Stmt
from ...visit import post_order, rebuild, rewrite
from .numbering import MIN_COST, Numbering, name_value, operation_cost, reinterpret_bits

__all__ = ["WRITTEN_OUT", "name_large_values", "name_shared"]

WRITTEN_OUT = 2000
"""Nodes up to which a value is written out, whatever it shares."""
_LONG_INDEX = 64
"""Nodes from which on shared index arithmetic has a name: passes look into the rest."""
_MOST_WAYS = 8
"""Ways to a value that are told apart by their conditions; more of them have one name."""

Way = frozenset[int]
"""Conditions that hold together, by number."""
Ways = frozenset[Way]
"""Of which one holds."""
_ALWAYS: Ways = frozenset((frozenset(),))


def name_large_values(body: Stmt) -> Stmt:
    """`body` without values that are huge written out, as far as that is because they share parts."""

    def rule(node: Any) -> Stmt | None:
        return name_shared(node) if isinstance(node, BufferStore) else None

    return rewrite(body, rule)


def name_shared(store: BufferStore) -> Stmt:
    """A store, after the names of what its value shares, where it is too large to be written out."""
    numbering = Numbering()
    top = numbering.number(store.value)
    # lanes are not numbered apart, and stages are not in vectors yet
    if numbering.values[top].size <= WRITTEN_OUT or any(value.expr.dtype.lanes > 1 for value in numbering.values):
        return store
    naming = _Naming(numbering, top)
    if not naming.chosen:
        return store
    bindings, value = naming.result()
    result: Stmt = replace(store, value=value)
    for var, bound in reversed(bindings):
        result = LetStmt(var, bound, result)
    return result


class _Naming:
    def __init__(self, numbering: Numbering, top: int) -> None:
        self.numbering, self.top = numbering, top
        self.count = len(numbering.values)
        """Values of the expression itself; conditions that are made on the way come after them."""
        self.stays = self._staying()
        self.chosen = self._choose()
        self.names: dict[int, Expr] = {}
        self.built: dict[int, Expr] = {}
        self.conditions: list[tuple[Var, Ways]] = []
        """Names for one of many ways."""
        self.possible: dict[int, list[Ways]] = {}
        """Of conditions, the ways where they fail and where they hold, as far as data do not say."""
        self.opposite: dict[int, int] = {}
        """Conditions of which one holds."""

    def result(self) -> tuple[list[tuple[Var, Expr]], Expr]:
        """Bindings, in order, and the value over them."""
        wanted = self._ways()
        variables: dict[int, Var] = {}
        for number in self.chosen:
            variables[number], self.names[number] = name_value(self.numbering.values[number].expr)
        reads = self._reads()
        indices, data = list[tuple[Var, Expr]](), list[tuple[Var, Expr]]()
        for number, var in variables.items():
            value = self._definition(number)
            if number in reads and wanted[number] != _ALWAYS:
                # a load that nobody wants might be out of range
                value = if_then_else(self._condition(wanted[number]), value, const(0, value.dtype))
            # indices first: conditions and data are over them
            (data if self.numbering.values[number].on_data else indices).append(
                (var, reinterpret_bits(value, var.dtype))
            )
        conditions = [(var, self._condition(ways)) for var, ways in self.conditions]
        return [*indices, *conditions, *data], self._definition(self.top)

    # What is named

    def _staying(self) -> list[bool]:
        """Tell of each value whether it stays where it is: it speaks of a name that is bound within, or calls outside code."""
        values = self.numbering.values
        bound = {value.expr.var for value in values if isinstance(value.expr, Let)}
        stays: list[bool] = []
        for value in values:
            stays.append(
                value.expr in bound
                or isinstance(value.expr, Call)
                # outside code may have an effect, and is called as often as it is written
                and "extern" in value.expr.name
                or any(stays[part] for part in value.operands)
            )
        return stays

    def _choose(self) -> dict[int, None]:
        """The values that get names: they stand in several places, and are worth it by what they are over other names."""
        values = self.numbering.values
        uses = Counter(part for value in values for part in value.operands)
        costs, sizes, chosen = list[int](), list[int](), dict[int, None]()
        for number, value in enumerate(values):
            costs.append(operation_cost(value.expr, [costs[part] for part in value.operands]))
            sizes.append(1 + sum(sizes[part] for part in value.operands))
            free = value.nameable and not self.stays[number] and value.expr.dtype.kind != "handle"
            worth = costs[number] >= MIN_COST and not isinstance(value.expr, BufferLoad) or sizes[number] >= _LONG_INDEX
            if uses[number] > 1 and free and worth:
                chosen[number] = None
                # beside its name the value costs its users one read
                costs[number], sizes[number] = min(costs[number], 1), 1
        return chosen

    def _reads(self) -> set[int]:
        """The values that read memory by themselves, not by what has a name."""
        reads: set[int] = set()
        for number, value in enumerate(self.numbering.values[: self.count]):
            if isinstance(value.expr, BufferLoad) or any(
                part in reads and part not in self.chosen for part in value.operands
            ):
                reads.add(number)
        return reads

    # Under which conditions it is wanted

    def _ways(self) -> list[Ways]:
        """The ways to each value: the conditions on loops and symbols that stand around its places."""
        wanted: list[Ways] = [frozenset()] * self.count
        wanted[self.top] = _ALWAYS
        # from the whole to its parts: all users of a value are known when it is met
        for number in reversed(range(self.count)):
            value, ways = self.numbering.values[number], wanted[number]
            for place, part in enumerate(value.operands):
                inside = ways
                if isinstance(value.expr, IfThenElse) and place:
                    inside = self._both(ways, self._condition_ways(value.operands[0], place == 1))
                wanted[part] = self._either(wanted[part], inside)
        return wanted

    def _condition_ways(self, number: int, truth: bool) -> Ways:
        if number not in self.possible:
            condition = self.numbering.values[number].expr
            sides = [possible(condition, self._depends_on_data, side) for side in (False, True)]
            places = [self.numbering.number(side) for side in sides]
            if not any(is_const(side, 1) for side in sides):  # a side that data decide is possible whatever holds
                self.opposite[min(places)] = max(places)
            self.possible[number] = [
                _ALWAYS if is_const(side, 1) else frozenset((frozenset((place,)),))
                for side, place in zip(sides, places, strict=True)
            ]
        return self.possible[number][truth]

    def _depends_on_data(self, condition: Expr) -> bool:
        number = self.numbering.number(condition)
        return self.numbering.values[number].on_data or (number < self.count and self.stays[number])

    def _both(self, a: Ways, b: Ways) -> Ways:
        return self._few(self._least({x | y for x in a for y in b}))

    def _either(self, a: Ways, b: Ways) -> Ways:
        return self._few(self._least(a | b))

    def _least(self, ways: set[Way] | Ways) -> Ways:
        """`ways` without those that others hold in; what is wanted on either side of a condition is wanted whatever it says."""
        least: set[Way] = set()
        todo = list(ways)
        while todo:
            way = todo.pop()
            for other in least:
                apart = way ^ other
                # x under c, and x under not c: x whatever c is
                if len(apart) == 2 and self.opposite.get(min(apart)) == max(apart):
                    least.remove(other)
                    todo.append(way & other)
                    break
            else:
                least.add(way)
        return frozenset(way for way in least if not any(other < way for other in least))

    def _few(self, ways: Ways) -> Ways:
        """`ways`, by one name where they are many."""
        if len(ways) <= _MOST_WAYS and all(len(way) <= _MOST_WAYS for way in ways):
            return ways
        var = Var("wanted", BOOL)
        self.conditions.append((var, ways))
        return frozenset((frozenset((self.numbering.number(var),)),))

    def _condition(self, ways: Ways) -> Expr:
        return disjunction(  # sorted, so that equal programs give equal text
            *(conjunction(*map(self._substitute_names, sorted(way))) for way in sorted(ways, key=sorted))
        )

    # Over names

    def _substitute_names(self, number: int) -> Expr:
        return self.names[number] if number in self.names else self._definition(number)

    def _definition(self, number: int) -> Expr:
        """A value over the names of its parts."""
        values = self.numbering.values
        for node in post_order(values[number].expr, below=self._unbuilt):
            at = self.numbering.number(node)
            if at not in self.built:
                parts: list[Any] = [
                    self.names[part] if part in self.names else self.built[part] for part in values[at].operands
                ]
                made = rebuild(values[at].expr, parts)
                self.built[at] = self._clamp_read(made) if isinstance(made, BufferLoad) else made
        return self.built[number]

    def _unbuilt(self, node: Expr) -> list[Expr]:
        """The parts that are still to be built."""
        value = self.numbering.values[self.numbering.number(node)]
        return [
            self.numbering.values[part].expr
            for part in value.operands
            if part not in self.built and part not in self.names
        ]

    def _clamp_read(self, load: BufferLoad) -> Expr:
        """A read, in range where data say where it goes, since what data say of that is left out of account."""
        doubtful = [
            (index, extent)
            for index, extent in zip(load.indices, load.buffer.shape, strict=True)
            if self.numbering.values[self.numbering.number(index)].on_data
        ]
        if not doubtful:
            return load
        inside = conjunction(*(part for index, extent in doubtful for part in (index >= 0, index < extent)))
        return if_then_else(inside, load, const(0, load.dtype))
