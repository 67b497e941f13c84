"""Fragments: tiles of matrices that lie spread over the registers of a warp, as a tensor core reads them.

A buffer of such a scope is a matrix like any other to whatever looks at indices; its last two dimensions consist of whole
tiles. Which lane has which element is known to the instructions alone, so that only they can touch it on a GPU.
"""

from __future__ import annotations

from math import prod

from ..errors import InternalError
from .buffer import Buffer
from .dtype import DType
from .expr import Call, Node, StringImm

__all__ = ["FRAGMENT_SCOPES", "WARP_CALLS", "WARP_LANES", "fragment_registers", "fragment_tile", "is_warp_call"]

_M, _N, _K_BYTES = 16, 8, 32
FRAGMENT_SCOPES = {"mma_a": "mk", "mma_at": "km", "mma_b": "kn", "mma_bt": "nk", "mma_c": "mn"}
"""By scope, what rows and columns of a tile are of mma.sync.m16n8, whose k is 32 bytes of elements."""
WARP_LANES = 32
WARP_CALLS = "tw_mma_"
"""How the names of device functions begin that all lanes of a warp must call together, with the same arguments."""


def fragment_tile(scope: str, dtype: DType) -> tuple[int, int]:
    """Rows and columns of a tile of such elements."""
    sizes = {"m": _M, "n": _N, "k": _K_BYTES // dtype.bytes}
    rows, columns = FRAGMENT_SCOPES[scope]
    return sizes[rows], sizes[columns]


def fragment_registers(buffer: Buffer) -> int:
    """How many elements of one tile of a fragment each lane has."""
    if buffer.scope not in FRAGMENT_SCOPES:
        raise InternalError(f"{buffer.name}, in {buffer.scope} memory, is no fragment")
    return prod(fragment_tile(buffer.scope, buffer.dtype)) // WARP_LANES


def is_warp_call(node: Node) -> bool:
    """Whether this is a call that the lanes of a warp make together."""
    if not isinstance(node, Call) or node.name != "call_extern":
        return False
    name = node.args[0]
    return isinstance(name, StringImm) and name.value.startswith(WARP_CALLS)
