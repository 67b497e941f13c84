"""Decision of how a product in a sum is rounded on this target.

    C[i] = mul_add(A[i, k], B[k], C[i])      →      C[i] = fma(A[i, k], B[k], C[i])        where the target fuses
                                                    C[i] = C[i] + A[i, k] * B[k]           where it does not

It stands after whatever takes reductions apart, which has to tell the term from the sum.
"""

from __future__ import annotations

from ...expr import Add, Call, Mul, Node
from ...stmt import Function
from ...visit import contains, rewrite

__all__ = ["round_sums"]


def round_sums(function: Function, fuses: bool) -> Function:
    """`function` with every `mul_add` as one operation, rounded once, or as two."""
    # most functions have none, and keep their identity
    if not contains(function.body, "mul_add"):
        return function

    def rule(node: Node) -> Node | None:
        if not isinstance(node, Call) or node.name != "mul_add":
            return None
        a, b, c = node.args
        # as the declaration has it: the sum stands left
        return Call("fma", node.args, node.dtype) if fuses else Add(c, Mul(a, b))

    return function.with_body(rewrite(function.body, rule))
