"""Rules that hold of real numbers, and of NaN, which stays: for fast_math.

    input x: float32[4]
    a: float32[4] = exp(x)
    b: float32[4] = log(a)
    y: float32[4] = relu(b)
    output y

becomes, though exp(x) may overflow,

    input x: float32[4]
    y: float32[4] = relu(x)
    output y
"""

from __future__ import annotations

from .pattern import Rule, has_float_result, rule_pass
from .rewriter import GraphPass

__all__ = ["FAST_ALGEBRA", "RULES"]

RULES = (
    Rule("log-exp", "log(exp(x))", "x"),
    Rule("root-square", "sqrt(square(x))", "abs(x)"),
    Rule("add-zero", "add(x, 0)", "x", when=has_float_result),
    Rule("add-add", "add(add(x, c1), c2)", "add(x, add(c1, c2))", when=has_float_result),
    Rule("multiply-multiply", "multiply(multiply(x, c1), c2)", "multiply(x, multiply(c1, c2))", when=has_float_result),
)
"""None of them makes a NaN of a number, or a number of a NaN."""

FAST_ALGEBRA = GraphPass(
    "fast_algebra",
    "rules of real numbers: log(exp(x)) is x, x + 0 is x, floats in any order",
    "fast",
    rule_pass(RULES),
    __doc__,
)
