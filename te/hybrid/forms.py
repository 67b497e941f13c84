"""Two scripts for one operation: which of them runs is decided by what the target has.

order = where_target_has("cuda", sorted_in_blocks(keys), radix_sort_positions(keys))      # if target_has("cuda"): ... else: ...
"""

from __future__ import annotations

from dataclasses import replace

from ...ir import BufferLoad, BufferStore, Call, If, Node, Stmt, rewrite
from ..extern_calls import target_has
from ..tensor import Tensor
from .op import HybridOp

__all__ = ["is_fact", "where_target_has"]


def where_target_has(feature: str, tensor: Tensor, otherwise: Tensor) -> Tensor:
    """Compute one script where the target has a feature, another one elsewhere: two of one shape, dtype and
    meaning. On a GPU the first may bind its loops to threads itself."""
    one, other = tensor.op, otherwise.op
    assert isinstance(one, HybridOp) and isinstance(other, HybridOp), "both are what scripts compute"
    assert len(one.buffers) == len(other.buffers) == 1, "of one result"
    (own,) = one.buffers
    (shared,) = other.buffers

    def rule(node: Node) -> Node | None:
        if isinstance(node, (BufferLoad, BufferStore)) and node.buffer is own:
            return replace(node, buffer=shared)
        return None

    body = If(target_has(feature), rewrite(one.body, rule), other.body)
    both = HybridOp(name=other.name, tag=other.tag, source=other.source, body=body, buffers=other.buffers)
    return both.output(0)


def is_fact(stmt: Stmt) -> bool:
    """Return whether a statement is such a choice."""
    return isinstance(stmt, If) and isinstance(stmt.condition, Call) and stmt.condition.name == "target_has"
