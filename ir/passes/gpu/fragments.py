"""Fragments to the registers of each lane.

    F: mma_a float16[32, 16]                         F: local float16[2, 1, 8]
    tw_mma_load_a(&F[i * 16, 0], ...)         →      tw_mma_load_a(&F[i, 0, 0], ...)

    C: mma_c float32[16, 32]                         C: local float32[1, 4, 4]
    for i in 2, j in 4:
      for g in thread("threadIdx.y", 8):
        for t in thread("threadIdx.x", 4):    →
          for v in 2:
            C[i * 8 + g, j * 8 + t * 2 + v]          C[0, j, i * 2 + v]

A warp is the 32 threads of threadIdx.x, or 4 of threadIdx.x by 8 of threadIdx.y, where threads compute with the elements that they
have: an element's indices are proved to be those of the thread. It stands before threads are mapped to hardware, when the loops
that a call stands in still tell which threads make it.
"""

from __future__ import annotations

from dataclasses import replace

from ...arith.analyzer import Analyzer
from ...buffer import Buffer
from ...expr import BufferLoad, Call, Expr, IntImm, Range
from ...fragments import (
    FRAGMENT_SCOPES,
    LANES,
    WARP_LANES,
    fragment_registers,
    fragment_tile,
    is_warp_call,
    lanes_together,
    locate_element,
)
from ...ops import cast, const, floordiv, floormod, is_const
from ...pointers import pointed_buffer, pointer
from ...stmt import Allocate, BufferStore, For, LoopKind, Stmt
from ...visit import Rewriter, rebuild, walk
from .errors import FragmentMisused
from .hardware import Hardware

__all__ = ["place_fragments"]


def place_fragments(body: Stmt, hardware: Hardware, analyzer: Analyzer) -> Stmt:
    """`body` of a kernel with its fragments as local memory. Raises FragmentMisused."""
    if not any(  # kernels without tensor cores are left as they are
        is_warp_call(node) or (isinstance(node, Allocate) and node.buffer.scope in FRAGMENT_SCOPES)
        for node in walk(body)
    ):
        return body
    return _Placer(hardware, analyzer).visit(body)


class _Placer(Rewriter):
    def __init__(self, hardware: Hardware, analyzer: Analyzer) -> None:
        self.lanes, self.analyzer = hardware.extent("threadIdx.x"), analyzer
        self.tags = ("threadIdx.x",)
        """Of the threads that are the lanes of a warp, or of four."""
        # 4 by 8 threads are the layout of a fragment's elements
        if self.lanes == LANES[0] and hardware.extent("threadIdx.y") % LANES[1] == 0:
            self.lanes, self.tags = LANES[0] * hardware.extent("threadIdx.y"), ("threadIdx.x", "threadIdx.y")
        self.placed: dict[Buffer, Buffer] = {}
        self.lane_loops: dict[str, For] = {}

    def For(self, node: For) -> Stmt:
        self.analyzer.bind(node.var, Range(node.begin, node.extent))
        before = self.lane_loops
        if node.kind is LoopKind.THREAD and node.thread in self.tags:
            # a collective call within a loop of its own lanes would run once for each of them
            self.lane_loops = {**before, node.thread: node}
        body = self.visit(node.body)
        self.lane_loops = before
        return rebuild(node, [node.begin, node.extent, body])

    def Allocate(self, node: Allocate) -> Stmt:
        buffer = node.buffer
        if buffer.scope not in FRAGMENT_SCOPES:
            return self.generic(node)
        tile, shape = fragment_tile(buffer.scope, buffer.dtype), buffer.shape
        whole = len(shape) >= 2 and all(
            isinstance(extent, IntImm) and extent.value % size == 0
            for extent, size in zip(shape[-2:], tile, strict=True)
        )
        if not whole:
            raise FragmentMisused(
                f"cannot lower: {buffer.name}, of shape [{', '.join(map(str, shape))}], lies in {buffer.scope}",
                reason=f"such registers hold whole tiles of {tile[0]} by {tile[1]} in the last two dimensions",
                fix=f"split the loops that it is computed at by multiples of {tile[0]} and {tile[1]}",
            )
        counts = [
            const(extent.value // size, extent.dtype)
            for extent, size in zip(shape[-2:], tile, strict=True)
            if isinstance(extent, IntImm)
        ]
        registers = replace(
            buffer, shape=(*shape[:-2], *counts, const(fragment_registers(buffer))), strides=(), scope="local"
        )
        self.placed[buffer] = registers
        return Allocate(registers, self.visit(node.body))

    def Call(self, node: Call) -> Expr:
        if is_warp_call(node):
            self._check_lanes(lanes_together(node))
        pointed = pointed_buffer(node)
        if pointed is None or pointed[0] not in self.placed:
            return self.generic(node)
        load, offset, mode = node.args
        assert isinstance(load, BufferLoad) and isinstance(mode, IntImm)
        return pointer(self.placed[load.buffer], self._find_tile(load), offset, mode.value)

    def _find_tile(self, load: BufferLoad) -> tuple[Expr, ...]:
        """The registers of the tile that begins at an element."""
        tile: list[Expr] = []
        for index, size in zip(load.indices[-2:], fragment_tile(load.buffer.scope, load.buffer.dtype), strict=True):
            # a tile that begins elsewhere lies in other lanes' registers
            if not is_const(self.analyzer.simplify(floormod(index, size)), 0):
                raise FragmentMisused(
                    f"cannot lower: an instruction begins at {index} of {load.buffer.name}, which lies in {load.buffer.scope}",
                    reason=f"tiles begin at multiples of {size} there, and this is not proved to be one",
                    fix=f"split the loops outside of the tensorized one by multiples of {size}",
                )
            tile.append(self.analyzer.simplify(floordiv(index, size)))
        return (*load.indices[:-2], *tile, const(0))

    def _check_lanes(self, lanes: int) -> None:
        group = "a whole warp" if lanes == WARP_LANES else "four warps"
        if self.lanes != lanes:
            raise FragmentMisused(
                f"cannot lower: the kernel has {self.lanes} threads along threadIdx.x, and an instruction of {group}",
                reason=f"the lanes of {group.removeprefix('a whole ')} are {lanes} threads of threadIdx.x, or {LANES[0]} of "
                f"threadIdx.x by {lanes // LANES[0]} of threadIdx.y",
                fix=f'bind a loop of the stages that fetch tiles to te.thread_axis((0, {lanes}), "threadIdx.x")',
            )
        for tag, loop in self.lane_loops.items():
            raise FragmentMisused(
                f"cannot lower: an instruction of {group} stands in '{loop.var.name}', bound to {tag}",
                reason="each lane would do it for another tile, and all lanes do it together",
                fix="bind loops outside of the tensorized one to threadIdx.y, threadIdx.z and blocks alone",
            )

    def BufferLoad(self, node: BufferLoad) -> Expr:
        done = self.generic(node)
        return done if node.buffer not in self.placed else BufferLoad(self.placed[node.buffer], self._own_element(node))

    def BufferStore(self, node: BufferStore) -> Stmt:
        done = self.generic(node)
        if node.buffer not in self.placed or not isinstance(done, BufferStore):
            return done
        return replace(done, buffer=self.placed[node.buffer], indices=self._own_element(node))

    def _own_element(self, node: BufferLoad | BufferStore) -> tuple[Expr, ...]:
        """The register of an element that the thread has itself."""
        *outer, row, column = node.indices
        group, place, register = locate_element(node.buffer, row, column)
        lanes = [self.lane_loops[tag].var for tag in self.tags if tag in self.lane_loops]
        held = (place, group) if len(self.tags) > 1 else (group * LANES[0] + place,)
        if len(lanes) < len(self.tags) or not all(  # another lane's register cannot be read
            self.analyzer.can_prove_equal(cast(lane, each.dtype), each) for lane, each in zip(lanes, held, strict=True)
        ):
            raise FragmentMisused(
                f"cannot lower: {node.buffer.name}[{', '.join(map(str, node.indices))}], in {node.buffer.scope}, is accessed by a "
                "thread that is not proved to have it",
                reason="an element lies in the registers of one lane, which its row and its column tell",
                fix='tensorize the stages that write and read it, by te.intrinsics.get("cuda.mma_load_a"), "cuda.mma_store"; '
                "or bind rows % 8 to 8 threads of threadIdx.y and columns // 2 % 4 to 4 of threadIdx.x",
            )
        tile = zip((row, column), fragment_tile(node.buffer.scope, node.buffer.dtype), strict=True)
        places = [*(floordiv(index, size) for index, size in tile), register]
        return (
            *outer,
            *(
                cast(self.analyzer.simplify(each), extent.dtype)
                for each, extent in zip(places, self.placed[node.buffer].shape[-3:], strict=True)
            ),
        )
