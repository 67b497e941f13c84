"""Hybrid scripts as a kind of operation: the loops of a statement, each nest of which a schedule may change.

for i in n:                    for i.outer in ceildiv(n, 4):
  x = a[i]                →      for i.inner in 4:
  for j in m:                      if likely(i.outer * 4 + i.inner < n):
    ...                              x = a[...]
                                     for j in m: ...
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

from ...ir import Buffer, BufferLoad, Expr, IntImm, IterVar, Node, Range, Var
from ...ir.ops import TRUE
from ...ir.stmt import INDEPENDENT, Allocate, BufferStore, For, If, LoopKind, Stmt
from ...ir.visit import Rewriter, children, post_order, rebuild, rewrite, seq, substitute
from ...te.hybrid.op import HybridOp
from ...te.hybrid.zeros import has_threads, insert_zeros
from ...te.operation import Operation
from ..model.checks import derived_roots
from ..model.relations import spread_down
from .computation import Computation
from .kind import Definition, OperationKind
from .kind_extern import read_all
from .nest import Nest

__all__ = ["KIND"]


def _definition(op: Operation) -> Definition:
    assert isinstance(op, HybridOp)
    return (cast(Expr, op.body),), {}  # a statement: what is inlined is put into it as into an expression


def _collect_reads(computation: Computation) -> None:
    """Collect the reads of a script: its ifs decide, so the whole of each input."""
    op = computation.op
    assert isinstance(op, HybridOp)
    for tensor in op.find_reads(cast(Stmt, computation.values[0])):
        read_all(computation, tensor)


def _nest(nest: Nest) -> Stmt:
    op, stage = nest.computation.op, nest.computation.stage
    assert isinstance(op, HybridOp)
    body = cast(Stmt, nest.computation.values[0])
    # threads need the zeros before any of them adds
    on_threads = any(loop.thread for loop in nest.stage_bounds.loops) or has_threads(body)
    if not op.begins_undefined:
        body = insert_zeros(body, op.buffers, on_threads, op.written)
    body = _HybridNest(nest, op).build(body)
    units = [loop for loop in nest.stage_bounds.loops if not derived_roots(stage, loop.axis)]
    return nest.loops(units, body, attach=True)


class _HybridNest(Rewriter):
    """Put the scheduled loops in place of the script's, and memory in place of its tensors and buffers."""

    def __init__(self, nest: Nest, op: HybridOp) -> None:
        self.nest, self.op, self.stage_bounds = nest, op, nest.stage_bounds
        self.axes: dict[IterVar, Expr] = {}
        self.values: dict[Var, Expr] = {}
        roots = {axis: op.declared_loops.axis_chain(axis) for axis in op.axis}
        self.nest_of = spread_down(nest.computation.stage.relations, roots, lambda a, _: a)
        """Which loops of the script, directly inside each other, an axis derives from."""
        self.private: frozenset[Buffer] = frozenset()
        """Memory that the script allocates in loops over threads: each thread has its own."""

    def build(self, body: Stmt) -> Stmt:
        """The statement over the scheduled loops."""
        values = self.stage_bounds.values
        self.axes = {axis: values[axis] for axis in self.op.axis}
        self.values = {**self.axes}
        self.private = frozenset(self._private(body))
        return self.visit(self._place(body))

    def _private(self, body: Stmt) -> Iterator[Buffer]:
        bound = {
            root
            for loop in self.stage_bounds.loops
            if loop.thread.startswith("threadIdx")
            for root in derived_roots(self.nest.computation.stage, loop.axis)
        }
        for loop in post_order(body):
            # memory declared inside of a thread loop is one for each thread
            if isinstance(loop, For) and (loop.var in bound or loop.thread.startswith("threadIdx")):
                yield from (
                    node.buffer
                    for node in post_order(loop.body)
                    if isinstance(node, Allocate) and node.buffer.scope == "global"
                )

    def _place(self, body: Stmt) -> Stmt:
        """The statement with its outputs where the schedule keeps them, and its own memory as large as the loops say."""
        buffers: dict[Buffer, Buffer] = dict(zip(self.op.buffers, self.nest.buffers, strict=True))

        def rule(node: Node) -> Node | None:
            buffer = getattr(node, "buffer", None)
            if isinstance(node, Allocate):
                return Allocate(self._own(node.buffer, buffers), node.body)
            if isinstance(node, (BufferLoad, BufferStore)):
                assert isinstance(buffer, Buffer)
                return replace(node, buffer=self._own(buffer, buffers))
            return None

        return rewrite(body, rule)

    def _own(self, buffer: Buffer, buffers: dict[Buffer, Buffer]) -> Buffer:
        if buffer not in buffers:
            shape = tuple(substitute(extent, self.values) for extent in buffer.shape)
            # extents may speak of the script's axes, which are loops now
            buffers[buffer] = replace(buffer, shape=shape, scope="local" if buffer in self.private else buffer.scope)
        return buffers[buffer]

    def generic(self, node: Any) -> Any:
        """Statements keep their form; expressions are put in terms of loops and memory."""
        parts: list[Node] = []
        for child in children(node):
            parts.append(self.nest.value(child, self.axes) if isinstance(child, Expr) else self.visit(child))
        return rebuild(node, parts)

    def If(self, node: If) -> Stmt:
        rebuilt = self.generic(node)
        if isinstance(rebuilt, If) and isinstance(rebuilt.condition, IntImm):
            # a decided branch needs no test in the kernel
            return rebuilt.then_body if rebuilt.condition.value else rebuilt.else_body or seq()
        return rebuilt

    def For(self, node: For) -> Stmt:
        # a loop that the schedule knows nothing of stays as it is
        if not isinstance(node.var, IterVar) or node.var not in self.axes:
            self.nest.analyzer.bind(node.var, Range(node.begin, node.extent))
            return self.generic(node)
        chain = self.op.declared_loops.axis_chain(node.var)
        inner: Stmt = node
        for _ in chain:
            assert isinstance(inner, For)
            inner = inner.body
        loops = [loop for loop in self.stage_bounds.loops if self.nest_of.get(loop.axis) is chain]
        others = frozenset(  # guards of other nests do not stand around this one
            axis for axis in self.nest.computation.stage.all_iter_vars if self.nest_of.get(axis) is not chain
        )
        body = self.nest.guard(self.visit(inner), self.stage_bounds.offsets, others)
        return self._mark_independent(self.nest.loops(loops, body, attach=True), chain)

    def _mark_independent(self, nest: Stmt, chain: Sequence[IterVar]) -> Stmt:
        """A nest whose loops over threads say that their iterations never meet, which they were bound for. Not where other stages are
        computed in them, of which nothing was proved, or where the script itself says that its loops have no order."""
        stage, declared = self.nest.computation.stage, self.op.declared_loops
        if stage.placed or any(declared.loop(axis).kind is not LoopKind.SERIAL for axis in chain):
            return nest
        bound = {loop.var for loop in self.stage_bounds.loops if loop.thread.startswith("threadIdx")}

        def rule(node: Node) -> Node | None:
            if isinstance(node, For) and node.var in bound:
                return replace(node, pragmas=(*node.pragmas, (INDEPENDENT, TRUE)))
            return None

        return rewrite(nest, rule) if bound else nest


KIND = OperationKind("hybrid", _collect_reads, _nest, _definition, whole=True)
