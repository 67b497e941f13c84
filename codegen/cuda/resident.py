"""Blocks that stay on the GPU and take one part of a kernel's work after the other, as many as the GPU at hand holds at once.

    for o in 4 with resident_blocks=1:                  for (part = blockIdx.x; part < 4 * 132; part += gridDim.x)
      for b in thread("blockIdx.x", 132): ...     →       o = part / 132, b = part % 132: ...

A schedule is made for one GPU of an architecture, and others of it have fewer multiprocessors, or parts of one. The number of blocks
is that of the launch, so that none has half of the blocks wait for the other half.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...base.dataclass import dataclass
from ...ir import BufferLoad, For, IntImm, LoopKind, Seq, Stmt
from ...ir.accesses import written_buffers
from ...ir.ops import is_const
from ...ir.passes.gpu.hardware import BLOCK_TAGS, RESIDENT
from ...ir.visit import rewrite, statements, walk

__all__ = ["ResidentLoops", "resident_loops"]


@dataclass(frozen=True, slots=True)
class ResidentLoops:
    """Loops over parts of the work of resident blocks.

    loops: over what blocks take one after the other, each with all uses of the index of a block, `block`. parts: how many there
    are for all blocks together.
    """

    loops: frozenset[For]
    block: For
    parts: int


def resident_loops(threads: Mapping[str, For], body: Stmt) -> ResidentLoops | None:
    """Return those of a kernel, by its thread loops and their body; None where there are none, or other axes of blocks, or blocks read
    what others store."""
    block = threads.get(BLOCK_TAGS[0])
    marked = frozenset(node for node in statements(body) if isinstance(node, For) and _is_marked(node))
    if block is None or not marked or not isinstance(block.extent, IntImm):
        return None
    extents = {loop.extent.value if isinstance(loop.extent, IntImm) else 0 for loop in marked}
    others = any(tag in threads and not is_const(threads[tag].extent, 1) for tag in BLOCK_TAGS[1:])
    outside = rewrite(body, lambda node: Seq(()) if node in marked else None)
    stored = {buffer for buffer in written_buffers(body) if buffer.scope == "global"}
    if (
        others
        or len(extents) != 1
        or 0 in extents
        or not all(is_const(loop.begin, 0) for loop in marked)
        or any(node is block.var for node in walk(outside))
        or any(isinstance(node, BufferLoad) and node.buffer in stored for node in walk(body))
    ):
        return None
    return ResidentLoops(marked, block, block.extent.value * extents.pop())


def _is_marked(loop: For) -> bool:
    asked = any(key == RESIDENT and not is_const(value, 0) for key, value in loop.pragmas)
    return asked and loop.kind is LoopKind.SERIAL
