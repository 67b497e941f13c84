"""Results of tensor cores on their way out, in the dtype that is stored: half of the shared memory, and of its traffic.

    S: shared float32[128, 136]                         S: shared float16[128, 136]
    tw_wgmma_store(&S[0, 0], &c[0], 136, 1)      →      tw_wgmma_store_float16(&S[0, 0], &c[0], 136, 1)
    C[i, j] = float16(S[i, j])                          C[i, j] = S[i, j]

The conversion is the same, wherever it is made; so nothing may read what is not converted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...analysis.buffer_reads import collect_reads
from ...buffer import Buffer
from ...dtype import FLOAT32, DType
from ...expr import BufferLoad, Call, Cast, Expr, Node, StringImm
from ...pointers import pointed_buffer
from ...stmt import Allocate, BufferStore, Function
from ...visit import rewrite, statements

__all__ = ["NARROW_RESULTS", "narrow_results"]

_STORES = ("tw_mma_store", "tw_wgmma_store")
NARROW_RESULTS = ("float16", "bfloat16")


def narrow_results(function: Function) -> Function:
    """`function`, the body of a kernel, with such memory in the dtype that all who read it convert it to."""
    held = {
        node.buffer
        for node in statements(function.body)
        if isinstance(node, Allocate) and node.buffer.scope in ("shared", "swizzled") and node.buffer.dtype == FLOAT32
    }
    if not held:
        return function
    # what threads store themselves is not converted on the way
    held -= {node.buffer for node in statements(function.body) if isinstance(node, BufferStore)}
    kinds = {buffer: _list_kinds(reads) for buffer, reads in collect_reads(function.body).items() if buffer in held}
    narrow = {
        buffer: replace(buffer, dtype=DType(next(iter(found))))
        for buffer, found in kinds.items()
        # two readers that convert differently need what both convert from
        if len(found) == 1 and found <= {*NARROW_RESULTS}
    }
    return function.with_body(rewrite(function.body, lambda node: _narrow(node, narrow))) if narrow else function


def _list_kinds(reads: Sequence[tuple[Node, Node]]) -> set[str]:
    """The dtypes that elements are converted to by what reads them, "" for an access that leaves them as they are, as outside code
    that gets their address may."""
    return {
        str(node.dtype) if isinstance(child, BufferLoad) and isinstance(node, Cast) else ""
        for node, child in reads
        if not _is_stored(node, child)
    }


def _is_stored(node: Node, pointer: Node) -> bool:
    """Return whether a call stores the sums of tensor cores at a pointer."""
    return (
        isinstance(node, Call)
        and node.name == "call_extern"
        and isinstance(node.args[0], StringImm)
        and node.args[0].value in _STORES
        and node.args[1] is pointer
    )


def _narrow(node: Node, narrow: dict[Buffer, Buffer]) -> Node | None:
    if isinstance(node, Allocate) and node.buffer in narrow:
        return Allocate(narrow[node.buffer], node.body)
    if isinstance(node, Cast) and isinstance(node.value, BufferLoad) and node.value.buffer in narrow:
        return BufferLoad(narrow[node.value.buffer], node.value.indices, node.value.predicate)
    if isinstance(node, Call) and node.name == "call_extern":
        pointed = pointed_buffer(node.args[1]) if len(node.args) > 1 else None
        if pointed is not None and pointed[0] in narrow:
            return _store(node, narrow[pointed[0]])
    return None


def _store(call: Call, buffer: Buffer) -> Call:
    name, to, *rest = call.args
    assert isinstance(name, StringImm) and isinstance(to, Call)
    load, *further = to.args
    assert isinstance(load, BufferLoad), "access_ptr takes an element"
    place: Expr = Call(to.name, (BufferLoad(buffer, load.indices), *further), to.dtype)
    return Call(call.name, (StringImm(f"{name.value}_{buffer.dtype}"), place, *rest), call.dtype)
