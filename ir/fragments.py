"""Fragments: tiles of matrices that lie spread over the registers of a warp, or of four, as a tensor core reads them.

A buffer of such a scope is a matrix like any other to whatever looks at indices; its last two dimensions consist of whole
tiles. Which lane has which element is as the PTX ISA draws it (sections "Matrix Fragments for mma", "Register Fragments for
wgmma"): instructions know it, and `locate_element` tells it, for threads that compute with their own elements.
"""

from __future__ import annotations

from math import prod

from ..base.errors import InternalError
from .buffer import Buffer
from .dtype import DType
from .expr import Call, Expr, Node, StringImm
from .ops import floordiv, floormod

__all__ = [
    "HELD",
    "K_BYTES",
    "M",
    "N",
    "FRAGMENT_SCOPES",
    "HALF_SCOPES",
    "LANES",
    "LATE_STAGES",
    "PRODUCTS_WAIT",
    "WARPGROUP_CALLS",
    "WARPGROUP_LANES",
    "WGMMA_ROWS",
    "WARP_CALLS",
    "WARP_LANES",
    "WGMMA_COLUMNS",
    "locate_element",
    "fragment_registers",
    "fragment_tile",
    "is_warp_call",
    "lanes_together",
]

M, N, K_BYTES = 16, 8, 32
"""Rows and columns of an instruction of a warp, and bytes of its terms."""
HALF_SCOPES = {"mma_a8": "mk", "mma_at8": "km", "mma_b8": "kn", "mma_bt8": "nk"}
"""Of mma.sync.m16n8 whose k is 16 bytes of elements."""
FRAGMENT_SCOPES = {
    "mma_a": "mk",
    "mma_at": "km",
    "mma_b": "kn",
    "mma_bt": "nk",
    "mma_c": "mn",
    "wgmma_a": "mk",
    "wgmma_c": "mn",
    **HALF_SCOPES,
}
"""By scope, what rows and columns of a tile are of mma.sync.m16n8, whose other k is 32 bytes of elements, and of wgmma.m64n8, of
whose sums and whose A each of four warps has 16 rows."""
WGMMA_COLUMNS = {1: (8, 16, 24, *range(32, 257, 16)), 2: tuple(range(8, 257, 8)), 4: tuple(range(8, 257, 8))}
"""By the bytes of an element, the columns of sums that one wgmma has."""
WARP_LANES, WARPGROUP_LANES = 32, 128
WGMMA_ROWS = 64
"""Rows of the sums of one wgmma."""
LANES = (4, 8)
"""Of a warp, places in a group and groups: a group has a row of A and C, or a column of B."""
PRODUCTS_WAIT, LATE_STAGES = "tw_wgmma_wait", 4
"""The device function that waits for products of warpgroups; and the places of a pipeline from which on those of one iteration end in
the next, since two places are then being multiplied."""
WARP_CALLS, WARPGROUP_CALLS, HELD = "tw_mma_", "tw_wgmma_", "held_"
"""How the names of device functions begin that all lanes of a warp, or of four, must call together, with the same arguments; and how
those of products go on whose A lies in registers."""


def fragment_tile(scope: str, dtype: DType) -> tuple[int, int]:
    """Rows and columns of a tile of such elements."""
    depth = K_BYTES // (2 if scope in HALF_SCOPES else 1)
    sizes = {"m": M * _fragment_lanes(scope) // WARP_LANES, "n": N, "k": depth // dtype.bytes}
    rows, columns = FRAGMENT_SCOPES[scope]
    return sizes[rows], sizes[columns]


def fragment_registers(buffer: Buffer) -> int:
    """Return the number of elements of one tile of a fragment that each lane has."""
    if buffer.scope not in FRAGMENT_SCOPES:
        raise InternalError(f"{buffer.name}, in {buffer.scope} memory, is not a fragment")
    return prod(fragment_tile(buffer.scope, buffer.dtype)) // _fragment_lanes(buffer.scope)


def locate_element(buffer: Buffer, row: Expr, column: Expr) -> tuple[Expr, Expr, Expr]:
    """Return the owner of an element, of its tile:

    the group, of a warp or of four, the place in it, and which of the lane's elements it is.
    """
    own, other = (column, row) if FRAGMENT_SCOPES[buffer.scope] in ("km", "kn") else (row, column)
    each = 2 if "k" not in FRAGMENT_SCOPES[buffer.scope] else 4 // buffer.dtype.bytes  # neighbours in one lane
    group, place = floormod(own, LANES[1]), floormod(floordiv(other, each), LANES[0])
    if _fragment_lanes(buffer.scope) > WARP_LANES:
        group = floormod(floordiv(own, M), _fragment_lanes(buffer.scope) // WARP_LANES) * LANES[1] + group
    rows = M // LANES[1] if "m" in FRAGMENT_SCOPES[buffer.scope] else 1
    below, beside = (
        floormod(floordiv(own, LANES[1]), rows),
        floordiv(floormod(other, _fragment_width(buffer)), each * LANES[0]),
    )
    return group, place, (beside * rows + below) * each + floormod(other, each)


def _fragment_width(buffer: Buffer) -> int:
    """Columns of a tile of sums, or its terms."""
    rows, columns = fragment_tile(buffer.scope, buffer.dtype)
    return rows if FRAGMENT_SCOPES[buffer.scope] in ("km", "kn") else columns


def _fragment_lanes(scope: str) -> int:
    return WARPGROUP_LANES if scope.startswith("wgmma") else WARP_LANES


def lanes_together(node: Node) -> int:
    """Return the number of threads that make this call together: 32 of a warp, 128 of a warpgroup, or 0 where each makes it for itself."""
    if not isinstance(node, Call) or node.name != "call_extern" or not isinstance(node.args[0], StringImm):
        return 0
    name = node.args[0].value
    return WARP_LANES if name.startswith(WARP_CALLS) else WARPGROUP_LANES if name.startswith(WARPGROUP_CALLS) else 0


def is_warp_call(node: Node) -> bool:
    """Return whether this is a call that the lanes of a warp, or of four, make together."""
    return lanes_together(node) > 0
