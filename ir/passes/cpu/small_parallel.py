"""Parallel loops with less work than it takes to wake other threads, to serial ones.

    for i in parallel(0, 4): C[i] = A[i] + 1      →      for i in 0, 4: C[i] = A[i] + 1

Only where that is certain: extents are constants, and nothing but loads, stores and arithmetic is done. Work is counted in
operations on whole registers, those of both branches of a condition. Other threads cost a fork and a join, which take as
long as some 6000 such operations on data in the first cache (tools/benchmarks/overheads.py measures it). It stands after unroll,
when vectors and what is unrolled are seen.
"""

from __future__ import annotations

from ...expr import BufferLoad, Call, Expr, IntImm
from ...intrinsics import INTRINSICS, is_pure
from ...stmt import Allocate, Attr, BufferStore, For, Function, If, LetStmt, LoopKind, Seq, Stmt
from ...visit import Rewriter, children, rebuild

__all__ = ["SMALL", "run_small_serially"]

SMALL = 6000
"""The operations that a loop must do to be worth a second thread."""
_FUNCTION = 20
"""What a mathematical function counts as."""


def run_small_serially(function: Function, vector_bits: int) -> Function:
    """`function` with PARALLEL loops of little work made SERIAL. vector_bits: width of the vector registers."""
    return function.with_body(_Small(vector_bits).visit(function.body))


class _Small(Rewriter):
    def __init__(self, vector_bits: int) -> None:
        self.vector_bits = vector_bits

    def For(self, node: For) -> Stmt:
        if node.kind is LoopKind.PARALLEL:
            work = self._work(node, SMALL)
            if work is None or work >= SMALL:
                return node  # no parallel loop stands within another
            return For(node.var, node.begin, node.extent, LoopKind.SERIAL, node.body, node.thread, node.pragmas, node.line)
        return rebuild(node, [node.begin, node.extent, self.visit(node.body)])

    def _work(self, stmt: Stmt, limit: int) -> int | None:
        """The operations of a statement; None if they are not known or no fewer than `limit`."""
        match stmt:
            case For(extent=IntImm(value=count)):
                once = self._work(stmt.body, limit)
                return None if once is None else self._below(limit, count * (once + 1))
            case BufferStore():
                value = self._of_expr(stmt.value)
                return None if value is None else self._below(limit, value + self._registers(stmt.value))
            case Seq() | Allocate() | LetStmt() | Attr() | If():
                total = 0
                for child in children(stmt):
                    part = self._work(child, limit) if isinstance(child, Stmt) else self._of_expr(child)
                    if part is None:
                        return None
                    total += part
                return self._below(limit, total)
            case _:  # outside code, or a loop of an extent that is not known
                return None

    def _of_expr(self, root: object) -> int | None:
        total, stack = 0, [root]
        while stack:
            node = stack.pop()
            if not isinstance(node, Expr):
                continue
            if isinstance(node, Call) and (not is_pure(node.name) or node.name == "call_pure_extern"):
                return None
            weight = _FUNCTION if isinstance(node, Call) and INTRINSICS[node.name].operands == "float" else 1
            total += weight * self._registers(node)
            if not isinstance(node, BufferLoad):  # addresses cost next to nothing
                stack.extend(children(node))
        return total

    def _registers(self, node: Expr) -> int:
        return max(1, -(-node.dtype.bits * node.dtype.lanes // self.vector_bits))

    @staticmethod
    def _below(limit: int, work: int) -> int | None:
        return work if work < limit else None
