"""Conditions and bindings that a loop does not change, out of the loop.

    for j in n:                             if i < m:                       for j in n:            x: int32 = i * i
        if i < m: S(i, j)           →           for j in n: S(i, j)             x: int32 = i * i   for j in n:
                                                                                S(x, j)         →      S(x, j)

A condition is hoisted where it reads no memory, so that it costs and risks nothing to decide it early. Where the loop
does more than what is conditional it is copied, once with and once without, if its body is small.

It stands after loop_partition, which needs guards where they are, and before vectorize, so that a condition about other
loops does not stand within the lanes.
"""

from __future__ import annotations

from ...contents import require_any
from ...expr import BufferLoad, Call, Expr, Var
from ...intrinsics import INTRINSICS, is_pure
from ...stmt import For, Function, If, LetStmt, LoopKind, Seq, Stmt
from ...visit import Rewriter, rebuild, seq, walk
from .fresh_copy import fresh_copy

__all__ = ["MAX_COPIED_NODES", "hoist_invariants"]

MAX_COPIED_NODES = 400
"""The largest loop body that is copied for a condition's sake."""


@require_any(If, LetStmt)
def hoist_invariants(function: Function) -> Function:
    """`function` with invariant conditions and bindings outside of their loops."""
    return function.with_body(_Hoister().visit(function.body))


class _Hoister(Rewriter):
    def For(self, node: For) -> Stmt:
        loop: For = rebuild(node, [node.begin, node.extent, self.visit(node.body)])  # inner loops pass theirs on
        if node.kind is LoopKind.PARALLEL or not any(
            isinstance(statement, (If, LetStmt)) for statement in _statements(loop.body)
        ):
            return loop
        bound = _find_bound_variables(loop)
        if isinstance(loop.body, LetStmt) and _movable(loop.body.value, bound - {loop.body.var}):
            binding = loop.body
            # the loop that is left may have another binding to give
            return LetStmt(binding.var, binding.value, self.For(rebuild(loop, [loop.begin, loop.extent, binding.body])))
        guard = _invariant_guard(loop, bound)
        return loop if guard is None else _unswitch(loop, guard)


def _statements(body: Stmt) -> tuple[Stmt, ...]:
    return body.body if isinstance(body, Seq) else (body,)


def _find_bound_variables(loop: For) -> set[Var]:
    return {loop.var} | {node.var for node in walk(loop.body) if isinstance(node, (For, LetStmt))}


def _movable(value: Expr, bound: set[Var]) -> bool:
    """Return whether `value` is the same, and may be computed, outside of the loop."""
    for node in walk(value):
        if isinstance(node, BufferLoad) or isinstance(node, Var) and node in bound:
            return False
        # a call of outside code may do something, and a thread index differs by place
        if isinstance(node, Call) and not (is_pure(node.name) and INTRINSICS[node.name].arity >= 0):
            return False
    return True


def _invariant_guard(loop: For, bound: set[Var]) -> If | None:
    """An If directly in the loop's body whose condition the loop does not change."""
    statements = _statements(loop.body)
    for statement in statements:
        if isinstance(statement, If) and _movable(statement.condition, bound):
            alone = len(statements) == 1 and statement.else_body is None
            # an If beside other statements copies the body, which has to be small
            if alone or sum(1 for _ in walk(loop.body)) <= MAX_COPIED_NODES:
                return statement
    return None


def _unswitch(loop: For, guard: If) -> Stmt:
    """The loop with the guard's branch, if its condition holds; else the loop without."""
    with_branch = rebuild(loop, [loop.begin, loop.extent, _replace(loop.body, guard, guard.then_body)])
    rest = _replace(loop.body, guard, guard.else_body)
    if isinstance(rest, Seq) and not rest.body:
        return If(guard.condition, with_branch)
    # two loops of one function may not share a variable
    otherwise = fresh_copy(rebuild(loop, [loop.begin, loop.extent, rest]), {})
    return If(guard.condition, with_branch, otherwise)


def _replace(body: Stmt, guard: If, by: Stmt | None) -> Stmt:
    statements = body.body if isinstance(body, Seq) else (body,)
    return seq(*[by if statement is guard else statement for statement in statements])
