"""Loops over all values of a variable of which a condition leaves one, that one computed.

    for b in 64:                                       b: int32 = place[i]
        if place[i] == b: H[b] += w[i]       →         if 0 <= b and b < 64: H[b] += w[i]

So a sum over what data puts into a cell takes a step for each element, once the loop over the cells is the inner one. What the
condition says besides stands around it where the loop does not change it. The body must not write what the equation reads.

    H[b] += 1 if place[i] == b else 0                  says the same, since 0 adds nothing to a sum that is not -0

    for b in 64:                                       loops that the condition ignores go with what it guards
        for j in 16:
            if place[i] == b: H[b, j] += w[i, j]

It stands after hoist, which takes what else there is out of the loops.
"""

from __future__ import annotations

from dataclasses import replace
from math import copysign

from ... import ops
from ...analysis.conditional_values import value_or_zero
from ...buffer import Buffer
from ...contents import require_any
from ...expr import EQ, Add, And, Broadcast, BufferLoad, Call, Cast, Expr, FloatImm, IfThenElse, IntImm, Select, Var
from ...intrinsics import is_pure
from ...stmt import BufferStore, For, Function, If, LetStmt, LoopKind, Stmt
from ...structural import structural_key
from ...visit import Rewriter, free_vars, loads, rebuild, stores, walk

__all__ = ["solve_loops"]


@require_any(If, IfThenElse, Select, Cast)  # what may say that a value is 0 elsewhere
def solve_loops(function: Function) -> Function:
    """`function` without the serial loops whose variable an equation gives."""
    return function.with_body(_Solver(_begun_at_zero(function)).visit(function.body))


def _begun_at_zero(function: Function) -> set[Buffer]:
    """The buffers of floats that are -0 nowhere: of which each element begins as a number that is not, and is added to after that.
    (A sum is -0 only where both of its operands are.)"""
    begun, others = set[Buffer](), set[Buffer]()
    for store in stores(function.body):
        value = store.value.value if isinstance(store.value, Broadcast) else store.value
        if (
            isinstance(value, FloatImm) and copysign(1, value.value) > 0
        ):  # what begins at +0 never becomes -0 by additions
            begun.add(store.buffer)
        elif _addition(store) is None:
            others.add(store.buffer)
    # a caller may have put -0 into a buffer that it passes
    given = {buffer for buffer in function.buffers if all(buffer is not output for output in function.outputs)}
    return begun - others - given


def _addition(store: BufferStore) -> tuple[BufferLoad, Expr] | None:
    """The element that a store adds to, and the value; None of any other store."""
    if not isinstance(store.value, Add):
        return None
    for before, value in ((store.value.a, store.value.b), (store.value.b, store.value.a)):
        if (
            isinstance(before, BufferLoad)
            and before.buffer is store.buffer
            and list(map(structural_key, before.indices)) == list(map(structural_key, store.indices))
        ):
            return before, value
    return None


class _Solver(Rewriter):
    """Rewriter that solves loops by equations.

    begun_at_zero: buffers whose elements are -0 at no time.
    """

    def __init__(self, begun_at_zero: set[Buffer]) -> None:
        super().__init__()
        self.begun_at_zero = begun_at_zero

    def For(self, node: For) -> Stmt:
        loop: For = rebuild(
            node, [node.begin, node.extent, self.visit(node.body)]
        )  # inner loops first: their guards are ours then
        guard = self._guard(loop.body)
        if loop.kind is not LoopKind.SERIAL or loop.pragmas or not isinstance(guard, If) or guard.else_body is not None:
            return loop
        # the equation is read before the loop: with no iteration it must not be
        if not isinstance(loop.extent, IntImm) or loop.extent.value < 1:
            return loop  # where there is no iteration, nobody may read what the equation reads
        parts = _parts(guard.condition)
        for at, part in enumerate(parts):
            value = _solution(part, loop.var)
            # the value must hold for all iterations, and may not trap where it did not run
            if value is not None and _may_move(value, guard.then_body):
                return _solve(loop, value, parts[:at], parts[at + 1 :], guard.then_body)
            if loop.var in free_vars(part):  # it may guard what follows it
                return loop
        return loop

    def _guard(self, body: Stmt) -> Stmt:
        """A body as what is done where a condition holds, if it can be said so: H[b] = H[b] + (v if c else 0) where c holds, and a
        loop that the condition around its body ignores within that condition."""
        if isinstance(body, BufferStore) and body.predicate is None:
            addition = _addition(body)
            choice = None if addition is None else value_or_zero(addition[1])
            # adding 0 to -0 would change it to +0
            if choice is not None and (not body.value.dtype.is_float or body.buffer in self.begun_at_zero):
                assert addition is not None
                return If(choice[0], replace(body, value=Add(addition[0], choice[1])))
        if isinstance(body, For) and body.kind in (LoopKind.SERIAL, LoopKind.VECTORIZED) and not body.pragmas:
            guard = self._guard(body.body)
            if (
                isinstance(guard, If)
                and guard.else_body is None
                and isinstance(body.extent, IntImm)  # with no inner iteration the guard would not have been evaluated
                and body.extent.value > 0
                and body.var not in free_vars(guard.condition)
                and _may_move(guard.condition, guard.then_body)
            ):
                return If(guard.condition, rebuild(body, [body.begin, body.extent, guard.then_body]))
        return body


def _parts(condition: Expr) -> list[Expr]:
    """Return the conjuncts of a condition, in order: a part is asked for only where those before it hold."""
    parts: list[Expr] = []
    stack = [condition]
    while stack:
        part = stack.pop()
        if isinstance(part, And):
            stack += [part.b, part.a]  # pushed in reverse: popped in source order
        elif isinstance(part, IfThenElse) and ops.is_const(part.false_value, 0):
            stack += [part.true_value, part.condition]
        else:
            parts.append(part)
    return parts


def _solution(part: Expr, var: Var) -> Expr | None:
    """Return the value that `var` must equal, if a condition says so."""
    if isinstance(part, EQ):
        for value, side in ((part.a, part.b), (part.b, part.a)):
            if side is var and value.dtype == var.dtype and var not in free_vars(value):
                return value
    return None


def _may_move(value: Expr, body: Stmt) -> bool:
    """Return whether `value` is the same in each iteration, and may be computed once."""
    written = {store.buffer for store in stores(body)}
    calls = all(is_pure(node.name) for node in walk(value) if isinstance(node, Call))
    return calls and all(load.buffer not in written for load in loads(value))


def _solve(loop: For, value: Expr, before: list[Expr], after: list[Expr], body: Stmt) -> Stmt:
    # the solution may lie outside of the loop
    inside = ops.logical_and(loop.var >= loop.begin, loop.var < loop.begin + loop.extent)
    for part in reversed([inside, *after]):
        body = If(part, body)
    body = LetStmt(loop.var, value, body)
    for part in reversed(before):  # conditions before the equation guard it, those after are guarded by it
        body = If(part, body)
    return body
