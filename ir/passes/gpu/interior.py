"""Blocks, and iterations of outer loops, that no guard concerns run without guards.

    for k in 32:                                       if blockIdx.x * 32 + 31 < n:          # a block within the tensor
        for i in 4:                                        for k in 32:
            if blockIdx.x * 32 + t * 4 + i < n:    →           for i in 4: S
                S                                      else:
                                                           for k in 32:
                                                               for i in 4: if ... : S

Guards of odd sizes stand in the innermost loops, where they cost as much as the work and keep loops from being unrolled.
What decides between the copies is the same for all threads of a block, so that barriers may stand in both. The guarded
copy is taken by the blocks at the tensors' edges alone; within the other, the outermost loops are treated likewise, for
guards on their own variables. Shared memory is allocated around both.

It stands before barriers are inserted, while guards speak of loops, and after the threads are mapped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeGuard

from ...analysis.bounds import symbolic_bounds
from ...arith.analyzer import Analyzer
from ...buffer import Buffer
from ...expr import GE, GT, LE, LT, BufferLoad, Call, Expr, IntImm, Node, Range, Var
from ...ops import conjuncts, const, logical_and
from ...stmt import Allocate, For, Function, If, LoopKind, Stmt
from ...structural import structural_key
from ...visit import Rewriter, rebuild, rewrite, statements, walk
from ..common.fresh_copy import fresh_copy
from ..common.simplify import build_analyzer
from .hardware import BLOCK_TAGS

__all__ = ["MAX_COPIED_NODES", "free_interiors", "remove_guards", "is_guard"]

MAX_COPIED_NODES = 4000
"""The largest kernel body that is copied."""


def free_interiors(function: Function, whole: Function) -> Function:
    """`function`, a kernel of `whole` with its thread loops outermost, with copies that need no guards."""
    hardware: list[For] = []
    body = function.body
    while isinstance(body, For) and body.kind is LoopKind.THREAD:
        hardware.append(body)
        body = body.body
    # a large body is not worth twice the code and the time to compile it
    if sum(1 for _ in walk(body)) > MAX_COPIED_NODES:
        return function
    analyzer = build_analyzer(whole)
    for loop in (*hardware, *(node for node in statements(body) if isinstance(node, For))):
        analyzer.bind(loop.var, Range(loop.begin, loop.extent))
    threads = {loop.var for loop in hardware if loop.thread not in BLOCK_TAGS}
    blocks = {loop.var for loop in hardware if loop.thread in BLOCK_TAGS}
    bare, shared = _extract_shared(body)  # shared memory is a block's, whichever copy runs
    apart = _Interior(analyzer, threads).separate(bare, blocks, then=True)
    if apart is bare:
        return function
    for buffer in shared:
        apart = Allocate(buffer, apart)
    for loop in reversed(hardware):
        apart = rebuild(loop, [loop.begin, loop.extent, apart])
    return function.with_body(apart)


def _extract_shared(body: Stmt) -> tuple[Stmt, list[Buffer]]:
    """`body` without its allocations of shared memory, and what they allocate, the innermost first."""
    buffers: list[Buffer] = []

    def rule(node: Node) -> Node | None:
        if isinstance(node, Allocate) and node.buffer.scope == "shared":
            buffers.append(node.buffer)
            return node.body
        return None

    return rewrite(body, rule), buffers


class _Interior:
    """Search for conditions that hold inside of the grid.

    threads: the variables that differ between threads of a block.
    """

    def __init__(self, analyzer: Analyzer, threads: set[Var]) -> None:
        self.analyzer, self.threads = analyzer, threads

    def separate(self, body: Stmt, about: set[Var], then: bool) -> Stmt:
        """`body`, or a choice between a copy without the guards about `about` and itself. then: treat the outermost loops
        of the copy likewise."""
        varying = self.threads | {node.var for node in statements(body) if isinstance(node, For)}
        always: dict[object, Expr] = {}
        without: set[If] = set()
        for guard in _guards_in_loops(body):
            condition = self._holds_for_all(guard.condition, varying, about)
            if condition is not None:
                without.add(guard)
                # a condition that always holds needs no choice
                if not (isinstance(condition, IntImm) and condition.value):
                    always[structural_key(condition)] = condition
        # no block would take the copy without guards
        if any(isinstance(condition, IntImm) for condition in always.values()):
            return self._outer_loops(body) if then else body  # some guard fails in every block
        copy = remove_guards(body, without)
        if then:
            copy = self._outer_loops(copy)
        if not always:
            return copy
        choice: Expr | None = None
        for condition in always.values():
            choice = condition if choice is None else logical_and(choice, condition)
        assert choice is not None
        return If(choice, copy, fresh_copy(body, {}))  # loops of both copies stand in one function: names may not clash

    def _outer_loops(self, body: Stmt) -> Stmt:
        return _OuterLoops(self).visit(body)

    def _holds_for_all(self, condition: Expr, varying: set[Var], about: set[Var]) -> Expr | None:
        """Return the condition under which a guard about `about` holds whatever the varying variables are; None where that is not known."""
        whole: Expr | None = None
        for part in conjuncts(condition):
            # only comparisons of integers have bounds that are linear
            if not isinstance(part, (LT, LE, GT, GE)) or not part.a.dtype.is_integer:
                return None
            nodes = list(walk(part))
            # a guard on data, or on other variables, stays
            if any(isinstance(node, BufferLoad) for node in nodes) or not any(node in about for node in nodes):
                return None
            less = isinstance(part, (LT, LE))
            low, high = symbolic_bounds(self.analyzer, part.a - part.b, varying)
            bound = high if less else low
            # no bound is known, or it depends on what varies itself
            if bound is None or any(node in varying for node in walk(bound)):
                return None
            zero = const(0, bound.dtype)
            holds = self.analyzer.simplify(type(part)(bound, zero))
            whole = holds if whole is None else logical_and(whole, holds)
        return whole


class _OuterLoops(Rewriter):
    """Treats the outermost serial loops."""

    def __init__(self, interior: _Interior) -> None:
        self.interior = interior

    def For(self, node: For) -> Stmt:
        if node.kind is not LoopKind.SERIAL or any(
            v in self.interior.threads for v in (*walk(node.begin), *walk(node.extent))
        ):
            return node  # a loop whose bounds differ between threads may not hold a barrier
        return rebuild(node, [node.begin, node.extent, self.interior.separate(node.body, {node.var}, then=False)])


def _guards_in_loops(body: Stmt) -> Iterator[If]:
    """The guards that stand within a loop of `body`, where they cost something."""
    for node in walk(body):
        if isinstance(node, For):
            yield from filter(is_guard, walk(node.body))


def is_guard(node: Node) -> TypeGuard[If]:
    """Return whether lowering has put it around what a loop of an odd size does too often."""
    return (
        isinstance(node, If)
        and node.else_body is None
        and isinstance(node.condition, Call)
        and node.condition.name == "likely"  # `likely` is what lowering puts around its own guards
    )


def remove_guards(body: Stmt, guards: Iterable[If]) -> Stmt:
    """`body` with the guards replaced by what they guard."""
    return _Freeing(set(guards)).visit(body)


class _Freeing(Rewriter):
    def __init__(self, guards: set[If]) -> None:
        self.guards = guards

    def If(self, node: If) -> Stmt:
        return self.visit(node.then_body) if node in self.guards else self.generic(node)
