"""Powers of 2 of which the smallest may be 0, of differences that are rounded once: two instructions, where the whole range takes seven.

    for j in unrolled(8) with flush_powers=1:            for j in unrolled(8) with flush_powers=1:
        W[j] = exp2(S[j] * scale - peak)         →           W[j] = tw_flushed_exp2(fma(S[j], scale, -peak))

An approximate power with a result below 2**-126 would lose its bits, so a compiler scales its argument before and its result behind.
Weights of a softmax, whose greatest is 1, need none of them.
"""

from __future__ import annotations

from ...dtype import FLOAT32
from ...expr import Call, Expr, Mul, Node, StringImm, Sub
from ...ops import const, is_const
from ...stmt import For, Function, Stmt
from ...visit import Rewriter, rebuild, rewrite

__all__ = ["FLUSH", "FLUSHED", "flush_powers"]

FLUSH = "flush_powers"
"""The pragma of a loop in which powers of 2 of float32 that are below 2**-126 may be 0, and products in their exponents are not rounded."""
FLUSHED = "tw_flushed_exp2"


def flush_powers(function: Function) -> Function:
    """`function`, a kernel, with such powers in the loops that have the pragma."""
    return function.with_body(_Flushing().visit(function.body))


class _Flushing(Rewriter):
    def For(self, node: For) -> Stmt:
        asked = any(key == FLUSH and not is_const(value, 0) for key, value in node.pragmas)
        body: Stmt = rewrite(node.body, _replace) if asked else self.visit(node.body)
        return rebuild(node, [node.begin, node.extent, body])


def _replace(node: Node) -> Expr | None:
    if not isinstance(node, Call) or node.name != "exp2" or node.dtype.element != FLOAT32:
        return None
    (exponent,) = node.args
    if isinstance(exponent, Sub) and isinstance(exponent.a, Mul):
        factors = exponent.a.a, exponent.a.b
        exponent = Call("fma", (*factors, Mul(exponent.b, const(-1, node.dtype))), node.dtype)
    return Call("call_pure_extern", (StringImm(FLUSHED), exponent), node.dtype)
