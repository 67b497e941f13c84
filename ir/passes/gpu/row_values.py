"""Exponentials, and what else takes a call of mathematics, that a loop does not change, before the loop.

    for e in unrolled(8):                                   x: float32 = peak[i]
        x: float32 = peak[i]                                y: float32 = exp(largest[i] - x)
        sum[e] = sum[e] * exp(largest[i] - x)      →        for e in unrolled(8):
                                                                sum[e] = sum[e] * y

Compilers of a GPU's code do not see that elements' values are equal where instructions stand in them that they do not know. What is
moved reads variables and the thread's own memory alone, of which the loop stores nothing, and is computed in every iteration.
"""

from __future__ import annotations

from ...buffer import Buffer
from ...expr import BufferLoad, Call, Expr, IfThenElse, IntImm, Let, Node, Var
from ...intrinsics import INTRINSICS, is_pure
from ...pointers import WRITES, pointed_buffer
from ...stmt import Allocate, BufferStore, For, Function, LetStmt, LoopKind, Seq, Stmt
from ...structural import Key, structural_key
from ...visit import Rewriter, children, rebuild, walk

__all__ = ["move_row_values"]

_CHEAP = ("likely", "if_then_else", "select", "reinterpret", "abs", "mul_add", "fma")


def move_row_values(function: Function) -> Function:
    """`function`, a kernel, with such values before their loops."""
    return function.with_body(_Mover().visit(function.body))


class _Mover(Rewriter):
    def For(self, node: For) -> Stmt:
        loop: For = rebuild(node, [node.begin, node.extent, self.visit(node.body)])  # inner loops pass theirs on
        repeats = (  # one iteration computes the value once anyway
            loop.kind in (LoopKind.SERIAL, LoopKind.UNROLLED)
            and isinstance(loop.extent, IntImm)
            and loop.extent.value > 1
        )
        if not repeats or not any(_is_expensive(each) for each in walk(loop.body)):
            return loop
        return _Loop(loop).without()


class _Loop:
    """One loop. moved: what stands before it, in order; inside: the variables that it sets; stored: the memory that it changes."""

    def __init__(self, loop: For) -> None:
        self.loop = loop
        self.moved: list[tuple[Var, Expr]] = []
        self.names: dict[Key, Var] = {}
        self.inside = {loop.var}
        self.stored: set[Buffer] = set()
        for node in walk(loop.body):
            pointed = pointed_buffer(node)
            if isinstance(node, (BufferStore, Allocate)):
                self.stored.add(node.buffer)  # what is stored in the loop changes from iteration to iteration
            elif isinstance(node, For):
                self.inside.add(node.var)
            elif pointed is not None and pointed[1] & WRITES:
                self.stored.add(pointed[0])

    def without(self) -> Stmt:
        """The loop, after what it does not change."""
        body = self._statement(self.loop.body)
        done: Stmt = self.loop if not self.moved else rebuild(self.loop, [self.loop.begin, self.loop.extent, body])
        for var, value in reversed(self.moved):
            done = LetStmt(var, value, done)
        return done

    def _statement(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, LetStmt):
            if self._is_fixed(stmt.value):
                # a fixed let moves as it is, and may be used by what moves after it
                self.moved.append((stmt.var, stmt.value))
                return self._statement(stmt.body)
            self.inside.add(stmt.var)
            return LetStmt(stmt.var, self._expr(stmt.value), self._statement(stmt.body))
        if isinstance(stmt, Seq):
            return Seq(tuple(map(self._statement, stmt.body)))
        return (
            rebuild(stmt, [self._expr(each) if isinstance(each, Expr) else each for each in children(stmt)])
            if isinstance(stmt, BufferStore) and stmt.predicate is None
            else stmt
        )

    def _expr(self, value: Expr) -> Expr:
        """A value with the largest parts that the loop does not change, and that cost something, as variables."""
        # a branch may not run, and a load costs less than a register for long
        if isinstance(value, (IfThenElse, Let, BufferLoad)):
            return value
        if not self._is_fixed(value):
            return rebuild(value, [self._expr(each) for each in children(value)])
        if not any(map(_is_expensive, walk(value))):  # plain arithmetic is cheaper than the register that would hold it
            return value
        key = structural_key(value)
        if key not in self.names:
            self.names[key] = Var("moved", value.dtype)
            self.moved.append((self.names[key], value))
        return self.names[key]

    def _is_fixed(self, value: Expr) -> bool:
        for node in walk(value):
            if isinstance(node, Var) and node in self.inside or isinstance(node, Let):
                return False
            # other threads may store to memory that is not the thread's own
            if isinstance(node, BufferLoad) and (node.buffer.scope != "local" or node.buffer in self.stored):
                return False
            if isinstance(node, Call) and not (is_pure(node.name) and INTRINSICS[node.name].arity >= 0):
                return False
        return True


def _is_expensive(node: Node) -> bool:
    return isinstance(node, Call) and node.name in INTRINSICS and node.name not in _CHEAP and node.dtype.is_float
