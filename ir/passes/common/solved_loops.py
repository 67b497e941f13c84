"""Loops over all values of a variable of which a condition leaves one, that one computed.

    for b in 64:                                       b: int32 = place[i]
        if place[i] == b: H[b] += w[i]       →         if 0 <= b and b < 64: H[b] += w[i]

So a sum over what data puts into a cell takes a step for each element, once the loop over the cells is the inner one. What the
condition says besides stands around it where the loop does not change it. The body must not write what the equation reads.

    H[b] += 1 if place[i] == b else 0                  says the same of whole numbers, to which 0 adds nothing

It stands after hoist, which takes what else there is out of the loops.
"""

from __future__ import annotations

from dataclasses import replace

from ... import ops
from ...expr import EQ, Add, And, BufferLoad, Call, Expr, IfThenElse, IntImm, Select, Var
from ...intrinsics import is_pure
from ...stmt import BufferStore, For, Function, If, LetStmt, LoopKind, Stmt
from ...structural import structural_key
from ...visit import Rewriter, free_vars, loads, rebuild, stores, walk

__all__ = ["solve_loops"]


def solve_loops(function: Function) -> Function:
    """`function` without the serial loops whose variable an equation gives."""
    return function.with_body(_Solver().visit(function.body))


class _Solver(Rewriter):
    def For(self, node: For) -> Stmt:
        loop: For = rebuild(
            node, [node.begin, node.extent, self.visit(node.body)]
        )  # inner loops first: their guards are ours then
        guard = _guarded(loop.body)
        if loop.kind is not LoopKind.SERIAL or loop.pragmas or not isinstance(guard, If) or guard.else_body is not None:
            return loop
        if not isinstance(loop.extent, IntImm) or loop.extent.value < 1:
            return loop  # where there is no iteration, nobody may read what the equation reads
        parts = _parts(guard.condition)
        for at, part in enumerate(parts):
            value = _solution(part, loop.var)
            if value is not None and _may_move(value, guard.then_body):
                return _solved(loop, value, parts[:at], parts[at + 1 :], guard.then_body)
            if loop.var in free_vars(part):  # it may guard what follows it
                return loop
        return loop


def _guarded(body: Stmt) -> Stmt:
    """H[b] = H[b] + (v if c else 0) as what is done where c holds; any other statement as it is."""
    if not isinstance(body, BufferStore) or body.predicate is not None or not isinstance(body.value, Add):
        return body
    before, choice = body.value.a, body.value.b
    if not isinstance(before, BufferLoad):
        before, choice = choice, before
    if not isinstance(before, BufferLoad) or not isinstance(choice, IfThenElse | Select):
        return body
    here = before.buffer is body.buffer and list(map(structural_key, before.indices)) == list(
        map(structural_key, body.indices)
    )
    if not here or not choice.dtype.is_integer or not ops.is_const(choice.false_value, 0):
        return body
    return If(choice.condition, replace(body, value=Add(before, choice.true_value)))


def _parts(condition: Expr) -> list[Expr]:
    """What has to hold, one after another: a part is asked for only where those before it hold."""
    parts: list[Expr] = []
    stack = [condition]
    while stack:
        part = stack.pop()
        if isinstance(part, And):
            stack += [part.b, part.a]
        elif isinstance(part, IfThenElse) and ops.is_const(part.false_value, 0):
            stack += [part.true_value, part.condition]
        else:
            parts.append(part)
    return parts


def _solution(part: Expr, var: Var) -> Expr | None:
    """What `var` equals, if a condition says so."""
    if isinstance(part, EQ):
        for value, side in ((part.a, part.b), (part.b, part.a)):
            if side is var and value.dtype == var.dtype and var not in free_vars(value):
                return value
    return None


def _may_move(value: Expr, body: Stmt) -> bool:
    """Whether `value` is the same in each iteration, and may be computed once."""
    written = {store.buffer for store in stores(body)}
    calls = all(is_pure(node.name) for node in walk(value) if isinstance(node, Call))
    return calls and all(load.buffer not in written for load in loads(value))


def _solved(loop: For, value: Expr, before: list[Expr], after: list[Expr], body: Stmt) -> Stmt:
    inside = ops.logical_and(loop.var >= loop.begin, loop.var < loop.begin + loop.extent)
    for part in reversed([inside, *after]):
        body = If(part, body)
    body = LetStmt(loop.var, value, body)
    for part in reversed(before):
        body = If(part, body)
    return body
