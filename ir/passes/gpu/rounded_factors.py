"""Factors of warpgroups' products in TF32, rounded where threads store them: the instruction reads float32 and drops 13 bits.

    A.matrix: swizzled float32[64, 32]                   A.matrix: swizzled float32[64, 32]
    A.matrix[i, k] = A[i, k]                      →      A.matrix[i, k] = tf32(A[i, k])
    tw_wgmma_float32_64(.., &A.matrix[0, 0], ..)         the same

A workspace that is copied to such memory alone holds rounded elements itself, so that the copies may be asynchronous, or the copy
engine's.
"""

from __future__ import annotations

from ....base.errors import user_source
from ...analysis.buffer_reads import collect_reads
from ...buffer import Buffer
from ...copies import BULK_COPY
from ...expr import BufferLoad, Call, Node
from ...fragments import HELD, WARPGROUP_CALLS
from ...pointers import pointed_buffer
from ...stmt import Allocate, Attr, BufferStore, Function
from ...tf32 import round_tf32, unwrap_tf32
from ...visit import children, rewrite, stores, walk
from .barriers import called_function
from .errors import CannotCopyInBulk, FragmentMisused
from .swizzle import SCOPE

__all__ = ["round_factors"]

_PRODUCTS = f"{WARPGROUP_CALLS}float32_", f"{WARPGROUP_CALLS}{HELD}float32_"


def round_factors(function: Function) -> Function:
    """Return `function`, before it is cut into kernels, with the stores that round. Raises FragmentMisused (TW0840) where something
    else reads the factors, CannotCopyInBulk (TW0841) where the copy engine is to store what is not rounded."""
    factors = {
        pointed[0]
        for node in walk(function.body)
        if _is_product(node)
        for child in children(node)
        if (pointed := pointed_buffer(child)) is not None and pointed[0].scope in (SCOPE, "wgmma_a")
    }
    if not factors:
        return function
    rounded = factors | _collect_workspaces(function, factors)

    def rule(node: Node) -> Node | None:
        if not isinstance(node, BufferStore) or not _is_wide(node, rounded):
            return None
        return BufferStore(node.buffer, round_tf32(node.value), node.indices, node.predicate)

    for node in walk(function.body):
        if isinstance(node, Attr) and node.key == BULK_COPY:
            _check_copies(node, rounded)
    return function.with_body(rewrite(function.body, rule))


def _collect_workspaces(function: Function, factors: set[Buffer]) -> set[Buffer]:
    """Return the workspaces that are copied to factors alone. Raises FragmentMisused."""
    reads = collect_reads(function.body)
    for buffer in factors:
        if not all(_is_product(node) for node, _ in reads[buffer]):
            raise FragmentMisused(
                f"cannot lower: {buffer.name} is multiplied as TF32, and read by something else",
                reason="its elements are rounded where they are stored, which others would see",
                fix="give the product a copy of its own: s.cache_read(tensor, scope, [sums])",
            )

    def is_copied(node: Node, load: Node) -> bool:
        return isinstance(node, BufferStore) and node.value is load and node.buffer in factors

    allocated = {node.buffer for node in walk(function.body) if isinstance(node, Allocate)}
    return {buffer for buffer in allocated & reads.keys() if all(is_copied(*read) for read in reads[buffer])}


def _is_wide(store: BufferStore, rounded: set[Buffer]) -> bool:
    """Return whether a store to such memory is of a value with more bits."""
    is_copy = isinstance(store.value, BufferLoad) and store.value.buffer in rounded
    return store.buffer in rounded and not is_copy and unwrap_tf32(store.value) is store.value


def _check_copies(copies: Attr, rounded: set[Buffer]) -> None:
    for store in stores(copies):
        if _is_wide(store, rounded):
            name = store.buffer.name
            raise CannotCopyInBulk(
                f"cannot build: {name} is to be filled by the copy engine",
                reason="it is multiplied as TF32, and the engine copies float32 without rounding it",
                called=user_source(),
                allowed="a workspace that only such memory is copied from, which threads round as they store it",
                fix=f's[{name}].pipeline(stages), by "cp.async"; or compute a copy of the tensor first',
            )


def _is_product(node: Node) -> bool:
    return isinstance(node, Call) and called_function(node).startswith(_PRODUCTS)
