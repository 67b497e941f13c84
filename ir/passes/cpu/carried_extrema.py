"""Minima and maxima of several values with the one last that the iteration before computed.

    for j in n:                                                     for j in n:
        d[j + 1] = c[j] + min(min(b[j], d[j]), a[j])     →              d[j + 1] = c[j] + min(min(b[j], a[j]), d[j])

So an iteration waits for one comparison of the one before, and for no more. The order of a minimum changes no bit of it: a NaN is
like any other, and -0 is less than +0.

It stands while indices are n-d, where the distance between two elements shows, and after partition, whose pieces are loops too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import pairwise
from typing import Any

from ...analysis.linear import linear, occurs
from ...buffer import Buffer
from ...contents import require_any
from ...expr import BufferLoad, Expr, Max, Min, Var
from ...stmt import For, Function, LetStmt, LoopKind, Stmt
from ...visit import Rewriter, stores, walk

__all__ = ["order_extrema"]

Indices = tuple[Expr, ...]


@require_any(Min, Max)
def order_extrema(function: Function) -> Function:
    """`function` with minima and maxima that take up last what they wait for."""
    return function.with_body(_Orderer().visit(function.body))


class _Orderer(Rewriter):
    """Rewriter of running minima and maxima.

    loop: the serial loop around, of the innermost; stored: what it stores to; values: what lets around stand for.
    """

    def __init__(self) -> None:
        self.loop: For | None = None
        self.stored: dict[Buffer, list[Indices]] = {}
        self.values: dict[Var, Expr] = {}

    def For(self, node: For) -> Stmt:
        if node.kind is not LoopKind.SERIAL:  # lanes and threads do not wait for one another
            return self.generic(node)
        before, self.loop, self.stored = (self.loop, self.stored), node, {}
        for store in stores(node.body):
            self.stored.setdefault(store.buffer, []).append(store.indices)
        rewritten = self.generic(node)
        self.loop, self.stored = before
        return rewritten

    def LetStmt(self, node: LetStmt) -> Stmt:
        self.values[node.var] = node.value
        return self.generic(node)

    def Min(self, node: Min) -> Any:
        return self._order(node)

    def Max(self, node: Max) -> Any:
        return self._order(node)

    def _order(self, node: Min | Max) -> Any:
        operands = _operands(node)
        # of two operands either order waits equally long
        waits = [self._wait(operand) for operand in operands] if self.loop is not None and len(operands) > 2 else []
        if all(a <= b for a, b in pairwise(waits)):  # already in order: keep the object
            return self.generic(node)
        order = sorted(range(len(operands)), key=waits.__getitem__)
        return reduce(type(node), [self.visit(operands[at]) for at in order])

    def _wait(self, operand: Expr) -> float:
        """Part of an iteration's time that there is to compute an operand, less: 1 for what the iteration before stores, 1/2 for the one
        before that; 0 for what is there at once."""
        loads = [node for node in walk(operand) if isinstance(node, BufferLoad)]
        loads += [  # a let around may hold a load of what the last iteration stored
            below
            for node in walk(operand)
            if isinstance(node, Var) and node in self.values
            for below in walk(self.values[node])
            if isinstance(below, BufferLoad)
        ]
        assert self.loop is not None
        distances = (
            _distance(stored, load.indices, self.loop.var)
            for load in loads
            for stored in self.stored.get(load.buffer, ())
        )
        return max((1 / distance for distance in distances if distance), default=0.0)


def _operands(node: Min | Max) -> list[Expr]:
    """The values that a minimum of minima is one of, from left to right."""
    operands, stack = list[Expr](), [node.b, node.a]
    while stack:
        each = stack.pop()
        if isinstance(each, Min | Max) and type(each) is type(node):
            stack += [each.b, each.a]
        else:
            operands.append(each)
    return operands


def _distance(stored: Sequence[Expr], loaded: Sequence[Expr], var: Var) -> int:
    """The number of iterations before in which a loop stores what it loads; 0 where there is none, or none is seen."""
    known: int | None = None
    for first, second in zip(stored, loaded, strict=True):
        if first.dtype.lanes > 1 or second.dtype.lanes > 1:  # lanes of one access lie at several distances
            return 0
        form, apart = linear(first), linear(first).plus(linear(second), -1)
        by = form.coefficient(var)
        # an index with another variable, or a non-integral step, has no fixed distance
        if not apart.is_const or occurs(var, form) or (apart.const % by if by else apart.const):
            return 0
        if by:
            if known not in (None, apart.const // by):  # two dimensions that disagree: the element is another one
                return 0
            known = apart.const // by
    return 1 if known is None else max(known, 0)
