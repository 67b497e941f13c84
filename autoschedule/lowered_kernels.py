"""Kernels as they were lowered, as nests that can be estimated: of choices that a rule did not estimate, and beside drafts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

from ..codegen.machine import Machine
from ..ir.analysis.work import Statement, Work, measure_work
from ..ir.buffer import Buffer
from ..ir.expr import BufferLoad, Expr, Var
from ..ir.ops import integer_value
from ..ir.stmt import BufferStore, For, LoopKind
from ..ir.visit import post_order, walk
from .accesses import ASSUMED
from .cost.instructions import distinct_elements, list_work
from .drafts.kernels import make_transfer
from .loop_nest import Body, Memory, Nest, Transfer

__all__ = ["nest_of_kernel"]


def nest_of_kernel(kernel: For, machine: Machine) -> Nest:
    """The nest of a kernel, whose outermost loop is given."""
    work = measure_work(kernel)
    parts = tuple(_Kernel(kernel, machine).parts(work, {}, {}))
    stored = next((node.buffer for node in _stores(work) if node.buffer.scope == "global"), None)
    assert stored is not None, "a kernel stores something"
    return Nest(None, 1, parts, memory=Memory(stored, "global", 0))


def _stores(item: Work | Statement) -> Iterator[BufferStore]:
    for statement in item.all_statements() if isinstance(item, Work) else (item,):
        if isinstance(statement.node, BufferStore):
            yield statement.node


class _Kernel:
    """threads: the loops on thread axes of a block, with their extents. filled: the memories of the stages around."""

    def __init__(self, kernel: For, machine: Machine) -> None:
        self.machine = machine
        self.filled: list[Buffer] = []
        self.threads = {
            node.var: integer_value(node.extent, ASSUMED)
            for node in walk(kernel)
            if isinstance(node, For) and node.thread.startswith("threadIdx")
        }

    def parts(
        self, item: Work | Statement, written: Mapping[Var, int], lanes: Mapping[Var, int]
    ) -> Iterator[Nest | Body]:
        """The nest or body of a loop or a statement."""
        if isinstance(item, Statement):
            yield _body(item, self.machine, written, lanes)
            return
        loop, trips = item.loop, item.number(ASSUMED)
        if loop is not None and (
            loop.kind is LoopKind.VECTORIZED or loop.kind is LoopKind.UNROLLED and _has_no_loops(item)
        ):
            if loop.kind is LoopKind.VECTORIZED:
                lanes = {**lanes, loop.var: trips}
            else:
                written = {**written, loop.var: trips}
            for each in item.body:
                yield from self.parts(each, written, lanes)
            return
        inside = tuple(part for each in item.body for part in self.stage(each))
        for axis, values in (*written.items(), *lanes.items()):  # written out around a loop
            inside = (Nest(axis, values, inside),)
        if loop is None or trips == 1:
            yield from inside
        else:
            yield Nest(loop.var, trips, inside, thread=loop.thread if loop.kind is LoopKind.THREAD else "")

    def stage(self, item: Work | Statement) -> Iterator[Nest | Body]:
        """A part of a loop; where it alone stores to memory of the block or of a thread, as the stage that it is."""
        within = (
            {buffer for each in item.all_loops() for buffer in each.allocations}
            if isinstance(item, Work)
            else set[Buffer]()
        )
        stores = [node for node in _stores(item) if node.buffer not in within]
        stored = {node.buffer for node in stores}
        if len(stored) != 1 or stores[0].buffer.scope == "global" or stores[0].buffer in self.filled:
            yield from self.parts(item, {}, {})
            return
        (buffer,) = stored
        self.filled.append(buffer)
        parts = tuple(self.parts(item, {}, {}))
        self.filled.pop()
        extents = buffer.strides[:1] + buffer.shape[:1] if buffer.strides else buffer.shape
        size = prod(integer_value(extent, ASSUMED) for extent in extents) * buffer.dtype.bytes
        among = prod(
            self.threads[index] for index in stores[0].indices if isinstance(index, Var) and index in self.threads
        )
        yield Nest(None, 1, parts, memory=Memory(buffer, buffer.scope, size, among=among))


def _has_no_loops(work: Work) -> bool:
    kinds = {inner.loop.kind for inner in work.all_loops() if inner.loop is not None}
    return kinds <= {LoopKind.UNROLLED, LoopKind.VECTORIZED}


def _body(statement: Statement, machine: Machine, written: Mapping[Var, int], lanes: Mapping[Var, int]) -> Body:
    """The work of a statement."""
    inner, stored = {**written, **lanes}, {node.buffer for node in _stores(statement)}
    count: dict[str, float] = {}
    for work in list_work(statement.values, machine):
        bound = {var for own in work.own if own in statement.bindings for var in _variables(statement.bindings[own])}
        sums = any(isinstance(node, BufferLoad) and node.buffer in stored for node in post_order(work.node))
        times = prod(trips for axis, trips in inner.items() if sums or axis in work.own or axis in bound)
        for name in work.classes:
            count[name] = count.get(name, 0) + times * max(work.bits // 32, 1)
    transfers: list[Transfer] = []
    kept: list[Buffer] = []
    for access in {id(each): each for each in statement.accesses}.values():
        buffer = access.array
        if not isinstance(buffer, Buffer) or buffer.scope not in ("global", "shared"):
            kept += [buffer] if isinstance(buffer, Buffer) else []
            continue
        transfers.append(make_transfer(access, buffer.scope, distinct_elements(access, written), lanes))
    return Body(count, inner=tuple(inner.items()), transfers=tuple(transfers), kept=tuple(kept))


def _variables(value: Expr) -> set[Var]:
    return {node for node in post_order(value) if isinstance(node, Var)}
