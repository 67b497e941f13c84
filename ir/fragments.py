"""Fragments: tiles of matrices that lie spread over the registers of a warp, as a tensor core reads them.

A buffer of such a scope is a matrix like any other to whatever looks at indices; its last two dimensions consist of whole
tiles. Which lane has which element is known to the instructions alone, so that only they can touch it on a GPU.
"""

from __future__ import annotations

from ..errors import InternalError
from .buffer import Buffer
from .expr import Call, Node, StringImm

__all__ = ["FRAGMENT_TILES", "WARP_CALLS", "WARP_LANES", "fragment_registers", "is_warp_call"]

FRAGMENT_TILES = {"mma_a": (16, 16), "mma_b": (16, 8), "mma_bt": (8, 16), "mma_c": (16, 8)}
"""By scope, the rows and columns of a tile: m by k, k by n, n by k, m by n of mma.sync.m16n8k16."""
WARP_LANES = 32
WARP_CALLS = "tw_mma_"
"""How the names of device functions begin that all lanes of a warp must call together, with the same arguments."""


def fragment_registers(buffer: Buffer) -> int:
    """How many elements of one tile of a fragment each lane has."""
    tile = FRAGMENT_TILES.get(buffer.scope)
    if tile is None:
        raise InternalError(f"{buffer.name}, in {buffer.scope} memory, is no fragment")
    return tile[0] * tile[1] // WARP_LANES


def is_warp_call(node: Node) -> bool:
    """Whether this is a call that the lanes of a warp make together."""
    if not isinstance(node, Call) or node.name != "call_extern":
        return False
    name = node.args[0]
    return isinstance(name, StringImm) and name.value.startswith(WARP_CALLS)
