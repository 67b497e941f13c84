"""Powers and roots that have operators of their own, which round less often.

    input x: float32[4]
    param two: float32[] = (2.0)
    y: float32[4] = power(x, two)
    output y

becomes

    input x: float32[4]
    y: float32[4] = square(x)
    output y
"""

from __future__ import annotations

from .pattern import Rule, has_float_result, rule_pass
from .rewriter import GraphPass

__all__ = ["POWERS", "RULES"]

RULES = (
    Rule("power-two", "power(x, 2)", "square(x)"),
    Rule("power-one", "power(x, 1)", "x"),
    Rule("power-minus-one", "power(x, -1)", "divide(1, x)", when=has_float_result),
    Rule("reciprocal-root", "divide(1, sqrt(x))", "rsqrt(x)", when=has_float_result),
)

POWERS = GraphPass("powers", "x ** 2 is x * x, 1 / sqrt(x) is rsqrt(x)", "rounds", rule_pass(RULES), __doc__)
