"""Tensor cores as TVM's programs write them: matrices in the scopes "wmma.matrix_a", "wmma.matrix_b" and "wmma.accumulator",
and intrinsics whose bodies call tvm_load_matrix_sync, tvm_mma_sync, tvm_fill_fragment and tvm_store_matrix_sync.

The scopes are ours, "mma_a", "mma_b" and "mma_c", and what such an intrinsic computes is done by one of ours of its size.
"""

from __future__ import annotations

from typing import Any

from ...base.arguments import to_list
from ...base.errors import TensorExpressionError, user_source
from ...ir import Call, IntImm, Node, StringImm, post_order
from ...ir.dtype import HANDLE
from ...ir.ops import convert
from ...te.errors import BadTensorIntrin
from ...te.intrinsics import get
from ...te.tensor_intrin import TensorIntrin

__all__ = ["CALLS", "call", "intrinsic", "scope_of"]

_SCOPES = {"wmma.matrix_a": "mma_a", "wmma.matrix_b": "mma_b", "wmma.accumulator": "mma_c"}
CALLS = ("tvm_fill_fragment", "tvm_load_matrix_sync", "tvm_mma_sync", "tvm_store_matrix_sync")
"""The calls whose meaning is that of a whole intrinsic."""


def scope_of(scope: str) -> str:
    """A scope of TVM's as ours names it."""
    return _SCOPES.get(scope, scope)


def call(name: str, *args: Any) -> Call:
    """One of CALLS, which stands for the intrinsic whose body it is."""
    return Call(name, tuple(map(convert, args)), HANDLE)


def intrinsic(declared: TensorIntrin, bodies: Any) -> TensorIntrin | None:
    """Our intrinsic for one with these bodies (a statement, or a tuple of them); None where none of them calls tensor cores.
    Raises BadTensorIntrin (TW0132) for sizes and layouts that are none of ours."""
    statements = [each for each in to_list(bodies) if isinstance(each, Node)]
    found = {node.name: node for node in post_order(*statements) if isinstance(node, Call) and node.name in CALLS}
    if not found:
        return None
    shape = [_number(extent) for extent in declared.op.output(0).shape]
    if "tvm_mma_sync" in found:
        depth = declared.op.reduce_axis[0].dom
        return get("cuda.mma_m16n8k16", "kn", *shape, _number(depth.extent if depth is not None else None))
    if "tvm_store_matrix_sync" in found:
        _require_row_major(found["tvm_store_matrix_sync"])
        return get("cuda.mma_store", *shape)
    if "tvm_load_matrix_sync" not in found:
        raise _none_of_ours(
            "it fills a fragment, and that begins a product", "declare the product, with its reduce_init"
        )
    _require_row_major(found["tvm_load_matrix_sync"])
    source, target = (declared.buffers[tensor] for tensor in (*declared.inputs, declared.op.output(0)))
    where = source.scope or "shared"
    return (
        get("cuda.mma_load_a", where, *shape)
        if target.scope == "mma_a"
        else get("cuda.mma_load_b", "kn", where, *shape)
    )


def _require_row_major(node: Call) -> None:
    if isinstance(node.args[-1], StringImm) and node.args[-1].value != "row_major":
        raise _none_of_ours(
            f"{node.name} is asked for {node.args[-1].value}",
            'take te.intrinsics.get("cuda.mma_load_b", "nk"), whose scope is "mma_bt"',
        )


def _number(extent: Any) -> int:
    if not isinstance(extent, IntImm):
        raise _none_of_ours(f"its extent {extent} is not a number", "declare it with the sizes of the tiles")
    return extent.value


def _none_of_ours(reason: str, fix: str) -> TensorExpressionError:
    return BadTensorIntrin("cannot do an intrinsic of a tensor core", reason=reason, called=user_source(), fix=fix)
