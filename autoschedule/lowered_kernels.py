"""Kernels as they were lowered, as nests that can be estimated: of choices that a rule did not estimate, and beside drafts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import pairwise
from math import prod

from ..codegen.machine import Machine
from ..ir import Attr, Buffer, BufferLoad, BufferStore, Call, Expr, For, If, LoopKind, Node, Stmt, StringImm, Var
from ..ir.analysis.footprint import Access
from ..ir.analysis.work import Statement, Work, measure_work
from ..ir.copies import BULK_COPY, BULK_PIPELINE, ROLES
from ..ir.fragments import WARPGROUP_LANES
from ..ir.ops import integer_value
from ..ir.visit import children, post_order, rewrite_statements, walk
from .accesses import ASSUMED
from .cost.instructions import distinct_elements, list_work
from .drafts.kernels import make_transfer
from .loop_nest import Body, Memory, Nest, Transfer

__all__ = ["nest_of_kernel"]

TOGETHER = {"mma": "warp", "wgmma": "group"}
"""Who does what a target is asked for, by how that begins: a warp together, or four."""
PRODUCTS = {"warp": "mma", "group": "wgmma"}
"""The instructions by which they multiply."""


def nest_of_kernel(kernel: For, machine: Machine) -> Nest:
    """The nest of a kernel, whose outermost loop is given."""
    together: dict[int, str] = {}
    kernel = rewrite_statements(kernel, partial(_find_together, together))
    work = measure_work(kernel)
    counted = _Kernel(kernel, machine, together)
    parts = tuple(counted.parts(work, {}, {}))
    stored = next((node.buffer for node in _stores(work) if node.buffer.scope == "global"), None)
    assert stored is not None, "a kernel stores something"
    roles = any(isinstance(node, Attr) and node.key == BULK_PIPELINE and node.subject == ROLES for node in walk(kernel))
    extents: dict[str, int] = {}
    for node in walk(kernel):
        if isinstance(node, For) and node.var in counted.threads:
            extents[node.thread] = max(counted.threads[node.var], extents.get(node.thread, 1))
    # instructions of four warps have their threads, though no loop is bound to them; and with those that ask the copy engine
    among = prod({"threadIdx.x": WARPGROUP_LANES, **extents}.values()) + WARPGROUP_LANES if roles else 1
    return Nest(None, 1, parts, memory=Memory(stored, "global", 0, among=among))


def _find_together(together: dict[int, str], node: Stmt) -> Stmt | None:
    """Note the loops that are an instruction of several threads, or a request to the copy engine, by their identities; of the
    two ways to compute what such an instruction does, take the loops."""
    by, inside = "", node
    if isinstance(node, If) and node.else_body is not None and isinstance(node.condition, Call):
        asked = [each.value for each in node.condition.args if isinstance(each, StringImm)]
        if node.condition.name == "target_has" and asked:
            by = next((each for name, each in TOGETHER.items() if asked[0].startswith(name)), "")
            inside = node.else_body
    elif isinstance(node, Attr) and node.key == BULK_COPY:
        by, inside = "engine", node.body
    if not by:
        return None
    waiting: list[Node] = [inside]
    while waiting:
        each = waiting.pop()
        if isinstance(each, For):
            together[id(each)] = by
        else:
            waiting += children(each)
    return inside


def _stores(item: Work | Statement) -> Iterator[BufferStore]:
    for statement in item.all_statements() if isinstance(item, Work) else (item,):
        if isinstance(statement.node, BufferStore):
            yield statement.node


class _Kernel:
    """Lowered GPU kernel.

    threads: the loops on thread axes of a block, with their extents. filled: the memories of the stages around. together: the
    loops that several threads run as one, by identity, and who does.
    """

    def __init__(self, kernel: For, machine: Machine, together: Mapping[int, str]) -> None:
        self.machine, self.together = machine, together
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
        if loop is not None and id(loop) in self.together:
            yield from map(partial(_body_together, item, self.together[id(loop)]), item.all_statements())
            return
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
        yield Nest(None, 1, parts, memory=Memory(buffer, _scope(buffer), size, among=among))


def _body_together(work: Work, by: str, statement: Statement) -> Body:
    """The work of all iterations of loops by an instruction of several threads, or by the copy engine."""
    inner = {loop.loop.var: loop.number(ASSUMED) for loop in work.all_loops() if loop.loop is not None}
    elements, stored = prod(inner.values()), {node.buffer for node in _stores(statement)}
    buffers = [access.array for access in statement.accesses if isinstance(access.array, Buffer)]
    sides = [buffer.dtype.bytes for buffer in buffers if buffer not in stored]
    # a product takes up its own sums
    multiplies = len(buffers) > len(sides) + 1
    count = {PRODUCTS[by]: elements * min(sides) / 2} if multiplies and sides else {}
    transfers = tuple(
        Transfer(access, _scope(access.array), elements, access.bytes, by)
        for access in (() if multiplies else statement.accesses)
        if isinstance(access.array, Buffer) and _scope(access.array) in ("global", "shared")
    )
    kept = tuple(buffer for buffer in buffers if _scope(buffer) not in ("global", "shared"))
    return Body(count, inner=tuple(inner.items()), transfers=transfers, kept=kept)


def _pad(access: Access) -> Access:
    """An access whose rows lie as far apart as they do in memory."""
    if not isinstance(access.array, Buffer) or not access.array.strides:
        return access
    strides = [integer_value(stride, ASSUMED) for stride in access.array.strides]
    inner = [outer // max(own, 1) for outer, own in pairwise(strides)]
    return replace(access, shape=(*access.shape[:1], *inner))


def _scope(buffer: Buffer) -> str:
    """The memory of a buffer, however its rows are exchanged."""
    return "shared" if buffer.scope == "swizzled" else buffer.scope


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
    for access in map(_pad, {id(each): each for each in statement.accesses}.values()):
        buffer = access.array
        if not isinstance(buffer, Buffer) or _scope(buffer) not in ("global", "shared"):
            kept += [buffer] if isinstance(buffer, Buffer) else []
            continue
        transfers.append(make_transfer(access, _scope(buffer), distinct_elements(access, written), lanes))
    return Body(count, inner=tuple(inner.items()), transfers=tuple(transfers), kept=tuple(kept))


def _variables(value: Expr) -> set[Var]:
    return {node for node in post_order(value) if isinstance(node, Var)}
