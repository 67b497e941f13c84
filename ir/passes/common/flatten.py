"""Buffers of n dimensions to buffers of one: offsets instead of indices.

    A: float32[64, 100];  A[i * 4 + j, k]      →      A: float32[6400];  A[400 * int64(i) + 100 * int64(j) + int64(k)]

Offsets are int64: a tensor may have more than 2^31 elements while each index fits int32. Casts stand at the loop
variables, so that an offset is a plain sum, ordered by the loops that its terms belong to: what an outer loop fixes
comes first and can be hoisted. Strides, the ones of storage_align too, and element offsets end here.

It stands before vectorize, which then sees one index an access, and after every pass that reasons about dimensions.
"""

from __future__ import annotations

from dataclasses import replace

from ....base.limits import INT32_EXTENT_LIMIT
from ...analysis.linear import expression, is_index, linear, merge_divisions, occurs, terms
from ...arith.linear import LinearForm
from ...buffer import Buffer
from ...dtype import INT32, INT64
from ...expr import Add, Broadcast, BufferLoad, Cast, Expr, FloorDiv, FloorMod, IntImm, Let, Mul, Ramp, Sub, Var
from ...ops import binary, cast, const
from ...stmt import Allocate, Attr, BufferStore, For, Function, LetStmt, Stmt
from ...structural import structural_key
from ...visit import SharingRewriter, post_order

__all__ = ["flat_buffer", "flatten", "buffer_strides"]


def flatten(function: Function) -> Function:
    """`function` over one-dimensional buffers. Shape symbols keep the order of their first appearance in the params."""
    flattener = _Flattener()
    params = tuple(flattener.flat(p) if isinstance(p, Buffer) else p for p in function.params)
    outputs = tuple(flattener.flat(buffer) for buffer in function.outputs)
    return replace(function, params=params, outputs=outputs, body=flattener.visit(function.body))


def buffer_strides(buffer: Buffer) -> tuple[Expr, ...]:
    """The int64 strides in elements: the buffer's own, or those of compact row-major order."""
    if buffer.strides:
        return tuple(cast(stride, INT64) for stride in buffer.strides)
    strides: list[Expr] = []
    step: Expr = const(1, INT64)
    for extent in reversed(buffer.shape):
        strides.append(step)
        step = step * cast(extent, INT64)
    return tuple(reversed(strides))


def flat_buffer(buffer: Buffer) -> Buffer:
    """The one-dimensional buffer over the same memory: as many elements as from the first to past the last."""
    return replace(buffer, shape=(_size(buffer),), strides=(), elem_offset=None)


def _size(buffer: Buffer) -> Expr:
    if not buffer.shape:
        return const(1, INT64)
    if buffer.strides:
        # the formula below would give one element, or fewer than none
        if any(isinstance(extent, IntImm) and extent.value == 0 for extent in buffer.shape):
            return const(0, INT64)
        last: Expr = const(1, INT64)
        for extent, stride in zip(buffer.shape, buffer_strides(buffer), strict=True):
            last = last + (cast(extent, INT64) - 1) * stride
        return last if buffer.elem_offset is None else last + cast(buffer.elem_offset, INT64)
    size: Expr = cast(buffer.shape[0], INT64)
    for extent in buffer.shape[1:]:
        # Mul, not ops.multiply: a symbol beside an extent of 0 must not vanish, for the call reads it from the shape
        factor = cast(extent, INT64)
        size = Mul(size, factor) if not isinstance(size, IntImm) or not isinstance(factor, IntImm) else size * factor
    return size


class _Flattener(SharingRewriter):
    def __init__(self) -> None:
        super().__init__()
        self.buffers: dict[Buffer, Buffer] = {}
        self.strides: dict[Buffer, tuple[Expr, ...]] = {}
        self.depth: dict[Var, int] = {}

    def flat(self, buffer: Buffer) -> Buffer:
        flattened = self.buffers.get(buffer)
        if flattened is None:
            # one object for each buffer: passes compare buffers by identity
            flattened = self.buffers[buffer] = flat_buffer(buffer)
            self.strides[buffer] = buffer_strides(buffer)
        return flattened

    def _bound(self, var: Var) -> None:
        self.depth[var] = len(self.depth) + 1  # binders are met outermost first; siblings never stand in one offset

    def For(self, node: For) -> Stmt:
        self._bound(node.var)
        return self.generic(node)

    def LetStmt(self, node: LetStmt) -> Stmt:
        self._bound(node.var)
        return self.generic(node)

    def Let(self, node: Let) -> Expr:
        self._bound(node.var)
        return self.generic(node)

    def Allocate(self, node: Allocate) -> Stmt:
        return Allocate(self.flat(node.buffer), self.visit(node.body))

    def BufferLoad(self, node: BufferLoad) -> Expr:
        buffer = self.flat(node.buffer)
        return BufferLoad(buffer, (self.offset(node.buffer, node.indices),), self._optional(node.predicate))

    def BufferStore(self, node: BufferStore) -> Stmt:
        buffer = self.flat(node.buffer)
        value, offset = self.visit(node.value), self.offset(node.buffer, node.indices)
        return BufferStore(buffer, value, (offset,), self._optional(node.predicate), node.line)

    def Attr(self, node: Attr) -> Stmt:
        subject = self.flat(node.subject) if isinstance(node.subject, Buffer) else node.subject
        return Attr(node.key, subject, self.visit(node.value), self.visit(node.body))

    def _optional(self, node: Expr | None) -> Expr | None:
        return None if node is None else self.visit(node)

    def offset(self, buffer: Buffer, indices: tuple[Expr, ...]) -> Expr:
        """The element offset, int64, of an access with these indices (of any lanes)."""
        visited: list[Expr] = []
        for index in indices:
            visited.append(self.visit(index))
        lanes = max([index.dtype.lanes for index in visited], default=1)
        if lanes > 1:
            return self._vector_offset(buffer, visited, lanes)
        form = LinearForm({}) if buffer.elem_offset is None else linear(buffer.elem_offset)
        products: list[Expr] = []
        for index, stride, extent in zip(visited, self.strides[buffer], buffer.shape, strict=True):
            if isinstance(stride, IntImm):  # a constant stride keeps the sum linear, so that equal terms meet
                form = form.plus(_index_form(index, extent), stride.value)
            else:
                products.append(expression(_index_form(index, extent), INT64, self._rank) * stride)
        form = merge_divisions(form)  # an index split over two dimensions, f // 16 and f % 16, meets here
        value: Expr | None = None
        for product in products:
            value = product if value is None else value + product
        rest = expression(form, INT64, self._rank)
        return rest if value is None else value + rest

    def _join_ramp(self, buffer: Buffer, indices: list[Expr], ramp: Ramp, lanes: int) -> Expr | None:
        """The offsets as one ramp, where they are evenly spaced: a vector that goes on in the next row of a compact part."""
        lane = Var("lane", ramp.base.dtype)
        scalars: list[Expr] = []
        for index in indices:
            scalar = _lane(index, lane)
            if scalar is None:
                return None
            scalars.append(scalar)
        form = linear(self.offset(buffer, tuple(scalars)))
        step = form.coefficient(lane)
        # lanes in steps that are no constant have no ramp
        if not step or not isinstance(ramp.stride, IntImm) or occurs(lane, form):
            return None
        rest = form.replaced(lane, linear(ramp.base))
        return Ramp(expression(rest, INT64, self._rank), const(step * ramp.stride.value, INT64), lanes)

    def _rank(self, atom: Expr) -> int:
        if isinstance(atom, Var):
            return self.depth.get(atom, 0)
        return max((self.depth.get(node, 0) for node in post_order(atom) if isinstance(node, Var)), default=0)

    def _vector_offset(self, buffer: Buffer, indices: list[Expr], lanes: int) -> Expr:
        ramps = {
            structural_key(node): node for index in indices for node in post_order(index) if isinstance(node, Ramp)
        }
        if len(ramps) == 1:
            (ramp,) = ramps.values()
            offset = self._join_ramp(buffer, indices, ramp, lanes)
            if offset is not None:
                return offset
        # no single ramp: each lane computes its own offset, a gather
        total: Expr = const(0, INT64) if buffer.elem_offset is None else cast(buffer.elem_offset, INT64)
        total = Broadcast(total, lanes)
        for index, stride in zip(indices, self.strides[buffer], strict=True):
            wide = cast(index, INT64.with_lanes(index.dtype.lanes))
            total = total + wide * stride
        return total


def _lane(value: Expr, lane: Var) -> Expr | None:
    """A vector of indices as its value in lane `lane`, `lane` standing in place of the one ramp; None if not known."""
    lanes: dict[int, Expr] = {}
    for node in post_order(value):
        assert isinstance(node, Expr)
        if isinstance(node, Ramp):
            lanes[id(node)] = lane
        elif isinstance(node, Broadcast):
            lanes[id(node)] = node.value
        elif node.dtype.lanes == 1:
            lanes[id(node)] = node
        elif isinstance(node, Cast):
            lanes[id(node)] = cast(lanes[id(node.value)], node.dtype.element)
        elif isinstance(node, (Add, Sub, Mul, FloorDiv, FloorMod)):
            lanes[id(node)] = binary(type(node), lanes[id(node.a)], lanes[id(node.b)])
        else:
            return None
    return lanes[id(value)]


def _index_form(index: Expr, extent: Expr) -> LinearForm:
    """The int64 value of an in-range index. A sum of index arithmetic and one loaded int32 is opened like index
    arithmetic: if it wrapped, it would leave [0, extent) for every extent of at most 2^30."""
    if index.dtype == INT32 and not is_index(index):
        form = linear(index, widen=False)
        loaded = [(atom, coefficient) for atom, coefficient in terms(form) if not is_index(atom)]
        narrow = extent.dtype == INT32 and (not isinstance(extent, IntImm) or extent.value <= INT32_EXTENT_LIMIT)
        if narrow and len(loaded) == 1 and loaded[0][1] == 1 and isinstance(index, (Add, Sub)):
            # int32 would have wrapped outside of [0, extent) anyway, so int64 gives the same in-range value
            return form
        return linear(cast(index, INT64), widen=False)
    return linear(index)
