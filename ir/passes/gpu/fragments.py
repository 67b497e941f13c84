"""Fragments to the registers of each lane.

    F: mma_a float16[32, 16]                         F: local float16[2, 1, 8]
    tw_mma_load_a(&F[i * 16, 0], ...)         →      tw_mma_load_a(&F[i, 0, 0], ...)

A warp is the 32 threads of threadIdx.x. It stands before threads are mapped to hardware, when the loops that a call stands
in still tell which threads make it.
"""

from __future__ import annotations

from dataclasses import replace

from ...arith.analyzer import Analyzer
from ...buffer import Buffer
from ...expr import BufferLoad, Call, Expr, IntImm, Range
from ...fragments import FRAGMENT_SCOPES, WARP_LANES, fragment_registers, fragment_tile, is_warp_call, lanes_together
from ...ops import const, floordiv, floormod, is_const
from ...pointers import pointed_to, pointer
from ...stmt import Allocate, BufferStore, For, LoopKind, Stmt
from ...visit import Rewriter, rebuild, walk
from .errors import FragmentMisused
from .hardware import Hardware

__all__ = ["place_fragments"]


def place_fragments(body: Stmt, hardware: Hardware, analyzer: Analyzer) -> Stmt:
    """`body` of a kernel with its fragments as local memory. Raises FragmentMisused."""
    if not any(is_warp_call(node) or (isinstance(node, Allocate) and node.buffer.scope in FRAGMENT_SCOPES) for node in walk(body)):
        return body
    return _Placer(hardware, analyzer).visit(body)


class _Placer(Rewriter):
    def __init__(self, hardware: Hardware, analyzer: Analyzer) -> None:
        self.lanes, self.analyzer = hardware.extent("threadIdx.x"), analyzer
        self.placed: dict[Buffer, Buffer] = {}
        self.lane_loop: For | None = None

    def For(self, node: For) -> Stmt:
        self.analyzer.bind(node.var, Range(node.begin, node.extent))
        before = self.lane_loop
        if node.kind is LoopKind.THREAD and node.thread == "threadIdx.x":
            self.lane_loop = node
        body = self.visit(node.body)
        self.lane_loop = before
        return rebuild(node, [node.begin, node.extent, body])

    def Allocate(self, node: Allocate) -> Stmt:
        buffer = node.buffer
        if buffer.scope not in FRAGMENT_SCOPES:
            return self.generic(node)
        tile, shape = fragment_tile(buffer.scope, buffer.dtype), buffer.shape
        whole = len(shape) >= 2 and all(isinstance(extent, IntImm) and extent.value % size == 0
                                        for extent, size in zip(shape[-2:], tile, strict=True))
        if not whole:
            raise FragmentMisused(
                f"cannot lower: {buffer.name}, of shape [{', '.join(map(str, shape))}], lies in {buffer.scope}",
                reason=f"such registers hold whole tiles of {tile[0]} by {tile[1]} in the last two dimensions",
                fix=f"split the loops that it is computed at by multiples of {tile[0]} and {tile[1]}")
        counts = [const(extent.value // size, extent.dtype) for extent, size in zip(shape[-2:], tile, strict=True)
                  if isinstance(extent, IntImm)]
        registers = replace(buffer, shape=(*shape[:-2], *counts, const(fragment_registers(buffer))), strides=(), scope="local")
        self.placed[buffer] = registers
        return Allocate(registers, self.visit(node.body))

    def Call(self, node: Call) -> Expr:
        if is_warp_call(node):
            self._check_lanes(lanes_together(node))
        pointed = pointed_to(node)
        if pointed is None or pointed[0] not in self.placed:
            return self.generic(node)
        load, offset, mode = node.args
        assert isinstance(load, BufferLoad) and isinstance(mode, IntImm)
        return pointer(self.placed[load.buffer], self._tile_of(load), offset, mode.value)

    def _tile_of(self, load: BufferLoad) -> tuple[Expr, ...]:
        """The registers of the tile that begins at an element."""
        tile: list[Expr] = []
        for index, size in zip(load.indices[-2:], fragment_tile(load.buffer.scope, load.buffer.dtype), strict=True):
            if not is_const(self.analyzer.simplify(floormod(index, size)), 0):
                raise FragmentMisused(
                    f"cannot lower: an instruction begins at {index} of {load.buffer.name}, which lies in {load.buffer.scope}",
                    reason=f"tiles begin at multiples of {size} there, and this is not proved to be one",
                    fix=f"split the loops outside of the tensorized one by multiples of {size}")
            tile.append(self.analyzer.simplify(floordiv(index, size)))
        return (*load.indices[:-2], *tile, const(0))

    def _check_lanes(self, lanes: int) -> None:
        group = "a whole warp" if lanes == WARP_LANES else "four warps"
        if self.lanes != lanes:
            raise FragmentMisused(
                f"cannot lower: the kernel has {self.lanes} threads along threadIdx.x, and an instruction of {group}",
                reason=f"the lanes of {group.removeprefix('a whole ')} are {lanes} threads of threadIdx.x",
                fix=f'bind a loop of the stages that fetch tiles to te.thread_axis((0, {lanes}), "threadIdx.x")')
        if self.lane_loop is not None:
            raise FragmentMisused(
                f"cannot lower: an instruction of {group} stands in '{self.lane_loop.var.name}', bound to threadIdx.x",
                reason="each lane would do it for another tile, and all lanes do it together",
                fix="bind loops outside of the tensorized one to threadIdx.y, threadIdx.z and blocks alone")

    def BufferLoad(self, node: BufferLoad) -> Expr:
        self._check_access(node.buffer)
        return self.generic(node)

    def BufferStore(self, node: BufferStore) -> Stmt:
        self._check_access(node.buffer)
        return self.generic(node)

    def _check_access(self, buffer: Buffer) -> None:
        if buffer in self.placed:
            raise FragmentMisused(
                f"cannot lower: {buffer.name}, in {buffer.scope}, is accessed an element at a time",
                reason="which lane has which element is known to the tensor core's instructions alone",
                fix='tensorize the stages that write and read it, by te.intrinsics.get("cuda.mma_load_a"), "cuda.mma_store"')
