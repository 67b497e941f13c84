"""Parallel loops with less work than it takes to wake other threads, to serial ones.

    for i in parallel(0, 4): C[i] = A[i] + 1      →      for i in 0, 4: C[i] = A[i] + 1

Only where that is certain: extents are constants, and nothing but loads, stores and arithmetic is done. Work is counted in
operations on whole registers, those of both branches of a condition. Other threads cost a fork and a join, which take as
long as some 6000 such operations on data in the first cache (tools/benchmarks/overheads.py measures it). It stands after unroll,
when vectors and what is unrolled are seen.
"""

from __future__ import annotations

from ...analysis.operations import Kind
from ...analysis.work import Statement, executions, measure_work
from ...contents import require_any
from ...dtype import DType
from ...intrinsics import INTRINSICS, is_pure
from ...stmt import BufferStore, For, Function, If, LetStmt, LoopKind, Stmt
from ...visit import Rewriter, rebuild

__all__ = ["SMALL", "run_small_serially"]

SMALL = 6000
"""The operations that a loop must do to be worth a second thread."""
_FUNCTION = 20
"""What a mathematical function counts as."""


@require_any(LoopKind.PARALLEL)
def run_small_serially(function: Function, vector_bits: int) -> Function:
    """`function` with PARALLEL loops of little work made SERIAL. vector_bits: width of the vector registers."""
    return function.with_body(_Small(vector_bits).visit(function.body))


class _Small(Rewriter):
    def __init__(self, vector_bits: int) -> None:
        self.vector_bits = vector_bits

    def For(self, node: For) -> Stmt:
        if node.kind is LoopKind.PARALLEL:  # no parallel loop stands within another
            return (
                For(node.var, node.begin, node.extent, LoopKind.SERIAL, node.body, node.thread, node.pragmas, node.line)
                if self._is_small(node)
                else node
            )
        return rebuild(node, [node.begin, node.extent, self.visit(node.body)])

    def _is_small(self, loop: For) -> bool:
        """Return whether a loop certainly does less than SMALL operations."""
        works = list(executions(measure_work(loop, bounds=False), unknown=0))
        # a statement does one operation at least: most loops are told by that
        if sum(times * len(work.statements) for work, times in works) >= SMALL:
            return False
        total = 0
        for work, times in works:
            if work.trips.value is None:  # a loop of unknown length may be worth any number of threads
                return False
            # an iteration costs a comparison and a step beside its statements
            total += times if work.loop is not None else 0
            for statement in work.statements:
                once = self._count_register_operations(statement)
                if once is None:  # outside code
                    return False
                total += once * times
            if total >= SMALL:  # counting further would change nothing
                return False
        return True

    def _count_register_operations(self, statement: Statement) -> int | None:
        """The operations on whole registers of one execution; None where that is not known."""
        # an Evaluate is outside code, and an Allocate may cost anything
        if not isinstance(statement.node, (BufferStore, LetStmt, If)):
            return None
        total = self._registers(statement.node.value.dtype) if isinstance(statement.node, BufferStore) else 0
        for operator, count in statement.operations.all.items():
            is_call = operator.kind is Kind.CALL
            if is_call and (not is_pure(operator.name) or operator.name == "call_pure_extern"):
                return None
            weight = _FUNCTION if is_call and INTRINSICS[operator.name].operands == "float" else 1
            total += weight * count * self._registers(operator.dtype)
        return total

    def _registers(self, dtype: DType) -> int:
        # a narrow type still takes a whole register operation
        return max(1, -(-dtype.bits * dtype.lanes // self.vector_bits))
