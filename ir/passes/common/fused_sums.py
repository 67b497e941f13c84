"""Decision of how a product in a sum is rounded on this target.

    C[i] = mul_add(A[i, k], B[k], C[i])      →      C[i] = fma(A[i, k], B[k], C[i])        where the target fuses
                                                    C[i] = C[i] + A[i, k] * B[k]           where it does not

It stands after whatever takes reductions apart, which has to tell the term from the sum.
"""

from __future__ import annotations

from ...contents import require_any
from ...expr import Add, Call, Mul, Node
from ...stmt import Function
from ...visit import rewrite

__all__ = ["round_sums"]


@require_any("mul_add")
def round_sums(function: Function, fuses: bool) -> Function:
    """`function` with every `mul_add` as one operation, rounded once, or as two."""

    def rule(node: Node) -> Node | None:
        if not isinstance(node, Call) or node.name != "mul_add":
            return None
        a, b, c = node.args
        # as the declaration has it: the sum stands left
        return Call("fma", node.args, node.dtype) if fuses else Add(c, Mul(a, b))

    return function.with_body(rewrite(function.body, rule))
