"""Loops that are over before their last iteration are left there.

    for i in n:                               i_next[0] = 0
        if not left[0]: S(i)        →         while i_next[0] < n and not left[0]:
                                                  i: int32 = i_next[0]
                                                  S(i)
                                                  i_next[0] = i + 1

An iteration does nothing where the condition of the `if` that it consists of is false. Where that condition does not depend on
the loop's variable it is false for good then, since it changes by what an iteration does: a script's `break` is such a loop.
Only conditions count that an iteration changes, by a flag of the function's own: others are better left to LLVM, and those that
read no memory are hoist's.

It stands after everything that knows of loops' ranges and before storage, which places the counter.
"""

from __future__ import annotations

from ...accesses import written_buffers
from ...buffer import Buffer
from ...contents import require_any
from ...expr import BufferLoad, Expr, Var
from ...ops import conjunction, conjuncts, const, is_const
from ...stmt import Allocate, BufferStore, For, Function, If, LetStmt, LoopKind, Stmt, While
from ...visit import Rewriter, loads, post_order, rebuild, seq

__all__ = ["leave_loops"]


@require_any(If)
def leave_loops(function: Function) -> Function:
    """`function`, of one index an access, with loops left whose condition has become false."""
    return function.with_body(_Leaver().visit(function.body))


class _Leaver(Rewriter):
    def For(self, node: For) -> Stmt:
        body = self.visit(node.body)
        # another order of iterations, or an else, does something after the condition fails
        if node.kind is not LoopKind.SERIAL or not isinstance(body, If) or body.else_body is not None:
            return rebuild(node, [node.begin, node.extent, body])
        parts = conjuncts(body.condition, hints=True)
        own = [part for part in parts if not _mentions(part, node.var)]
        written = written_buffers(body.then_body)
        # without a store to the flag the condition is invariant, which is hoist's
        if not any(_is_flag(load.buffer) and load.buffer in written for part in own for load in loads(part)):
            return rebuild(node, [node.begin, node.extent, body])
        rest = [part for part in parts if _mentions(part, node.var)]
        inner = If(conjunction(*rest), body.then_body) if rest else body.then_body
        # a counter in memory, since a While binds no variable
        counter = Buffer(f"{node.var.name}_next", (const(1),), node.var.dtype, scope="local")
        count, first = BufferLoad(counter, (const(0),)), (const(0),)
        step = LetStmt(node.var, count, seq(inner, BufferStore(counter, node.var + 1, first)))
        loop = While(conjunction(count < node.begin + node.extent, *own), step)
        return Allocate(counter, seq(BufferStore(counter, node.begin, first), loop))


def _is_flag(buffer: Buffer) -> bool:
    """Return whether it is one element of the function's own, or one for each lane of a vector; what others own, and other buffers, are
    left to loops that run on."""
    return buffer.scope == "local" and all(
        is_const(extent, 1) or buffer.dtype.is_bool and is_const(extent) for extent in buffer.shape
    )


def _mentions(value: Expr, var: Var) -> bool:
    return any(node is var for node in post_order(value))
