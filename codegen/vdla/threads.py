"""Virtual threads in one stream.

    for v in thread("vthread", 2):                           for v in 2:
        for k in 8:                                              fill C[v]
            dma_copy2d A[...v...]                            for k in 8:
            dma_copy2d B[...v...]                  →             for v in 2:
            gemm C, A, B                                             dma_copy2d A[v]; dma_copy2d B[v]; gemm C[v], A[v], B[v]

The pass that GPUs use takes each statement for itself; here those of one thread that stand side by side stay together, since each
queue keeps its order: what thread 0 loads next must not stand behind what thread 1 has no room for yet. What the threads share, a
buffer in which nothing depends on v, is filled once for all, before their own; it has as many places as there are threads, taken in
turn.
"""

from __future__ import annotations

from itertools import count
from math import prod

from ...base import dataclass, replace
from ...ir import Allocate, Call, Evaluate, Expr, For, IntImm, LoopKind, Node, Seq, Stmt, StringImm, Var
from ...ir.accesses import written_buffers
from ...ir.passes.gpu.vthread import inject_virtual_threads
from ...ir.visit import Rewriter, children, rebuild, rewrite, seq, substitute, walk
from .machine import MACHINE

__all__ = ["Kept", "interleaved", "kept"]


@dataclass(frozen=True, slots=True)
class Kept:
    """A buffer under virtual threads. rank: its dimensions, for one thread; threads: how many there are around it."""

    rank: int
    threads: int


def kept(body: Stmt) -> dict[str, Kept]:
    """The buffers that a body allocates, by name; without names that stand for several."""
    found: dict[str, list[Kept]] = {}

    def collect(node: Node, threads: tuple[int, ...]) -> None:
        if isinstance(node, For) and node.kind is LoopKind.THREAD and isinstance(node.extent, IntImm):
            threads = (*threads, node.extent.value)
        if isinstance(node, Allocate):
            found.setdefault(node.buffer.name, []).append(Kept(node.buffer.ndim, prod(threads)))
        for child in children(node):
            if isinstance(child, Stmt):
                collect(child, threads)

    collect(body, ())
    return {name: known[0] for name, known in found.items() if len(known) == 1}


def interleaved(body: Stmt) -> Stmt:
    """`body`, in which nests are calls (see select), without virtual threads."""

    names = count()

    def rule(node: Node) -> Stmt | None:
        if isinstance(node, For) and node.kind is LoopKind.UNROLLED:
            return replace(node, kind=LoopKind.SERIAL)
        if isinstance(node, For) and node.kind is LoopKind.THREAD:
            var = Var(f"vthread{next(names)}", node.var.dtype)
            values: dict[Var, Expr] = {node.var: var}
            return replace(node, var=var, body=substitute(node.body, values))
        return None

    return _Joined().visit(
        inject_virtual_threads(rewrite(body, rule))
    )  # the unrolled loops are threads now, each by its name


class _Joined(Rewriter):
    """Loops over one thread axis that stand side by side become one."""

    def Seq(self, node: Seq) -> Stmt:
        done = self.generic(node)
        parts: list[Stmt] = []
        for part in done.body if isinstance(done, Seq) else (done,):
            before = parts[-1] if parts else None
            joined = (
                _prepend_loop_begin(before, part)
                if isinstance(before, For) and before.kind is LoopKind.UNROLLED
                else None
            )
            if joined is None:
                parts.append(part)
            else:
                parts[-1] = joined
        return seq(*parts)


def _prepend_loop_begin(loop: For, part: Stmt) -> Stmt | None:
    """`part`, with what the loop does before the same threads begin there; None where they do not."""
    if isinstance(part, Allocate):
        body = _prepend_loop_begin(loop, part.body)
        return None if body is None else Allocate(part.buffer, body)
    if isinstance(part, Seq) and part.body:
        first = _prepend_loop_begin(loop, part.body[0])
        return None if first is None else seq(first, *part.body[1:])
    if isinstance(part, Evaluate) and _only_loads(part) and _only_loads(loop):
        return seq(part, loop)
    if not isinstance(part, For) or part.kind is not LoopKind.UNROLLED or part.var.name != loop.var.name:
        return None
    names: dict[Var, Expr] = {part.var: loop.var}
    return rebuild(loop, [loop.begin, loop.extent, seq(loop.body, substitute(part.body, names))])


def _only_loads(part: Stmt) -> bool:
    """Return whether a statement copies to scratchpads, and does nothing else."""
    calls = [node for node in walk(part) if isinstance(node, Call) and node.name == "call_extern"]
    copies = all(isinstance(call.args[0], StringImm) and call.args[0].value == "dma_copy2d" for call in calls)
    return copies and bool(calls) and all(buffer.scope in MACHINE.scratchpads for buffer in written_buffers(part))
