"""Rules of algebra that hold to the bit, a line each.

    input x: float32[4]
    param one: float32[] = (1.0)
    a: float32[4] = negative(x)
    b: float32[4] = negative(a)
    c: float32[4] = multiply(b, one)
    y: float32[4] = relu(c)
    output y

becomes

    input x: float32[4]
    y: float32[4] = relu(x)
    output y

They hold to the bit, NaN, infinities, signed zeros and the wrap of integers included: x * 0 is 0 of integers only, and x + 0 is x
of integers, since -0.0 + 0 is 0.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .pattern import Match, Rule, has_float_result, has_integer_result, rule_pass
from .rewriter import GraphPass

__all__ = ["ALGEBRA", "RULES", "STOPS"]


def _bools(match: Match) -> bool:
    return all(match.type(name).dtype == "bool" for name in match.values)


def _halves(match: Match) -> bool:
    """Return whether the divisors are powers of two whose reciprocals are floats too: dividing and multiplying round alike."""
    c = match.known("c")
    if c.dtype not in (np.float32, np.float64) or c.size > 4096:
        return False
    mantissas, exponents = np.frexp(c)
    return bool((np.abs(mantissas) == 0.5).all() and (np.abs(exponents) < 100).all())


def _build_reciprocal(match: Match) -> str:
    c = match.known("c")
    return match.r.node(
        "multiply", match["x"], match.r.constant((1 / c).astype(c.dtype)), outputs=match.nodes[0].outputs
    )


def _widens(match: Match) -> bool:
    """Return whether the first of two casts keeps every value, so that the second alone gives the same: floats become integers as integers
    do only where these hold them."""
    x, between, after = match.type("x").dtype, str(match["A"]), str(match["B"])
    through_floats = "int" in x and "float" in between and "int" in after
    return _keeps(x, between) and (not through_floats or _keeps(x, after))


def _keeps(narrow: str, wide: str) -> bool:
    if "bfloat16" in (narrow, wide):
        return (narrow, wide) in (("bfloat16", "float32"), ("bfloat16", "float64"))
    if narrow in ("int64", "uint64") and "float" in wide:
        return False  # numpy calls that safe, though 53 bits are all that a float64 has
    return narrow != "bool" and np.can_cast(narrow, wide, "safe")


def _full(number: int) -> Callable[[Match], str]:
    """A number everywhere."""

    def result(match: Match) -> str:
        one = match.r.constant(number, match.result.dtype)
        return match.r.node("broadcast_to", one, shape=match.result.shape, outputs=match.nodes[0].outputs)

    return result


def _reassociation_rule(operator: str) -> Rule:
    """Two known operands of an operator on integers, which wrap, are one: they may be joined in any order."""

    def result(match: Match) -> str:
        both = match.r.node(operator, match["c1"], match["c2"])
        return match.r.node(operator, match["x"], both, outputs=match.nodes[0].outputs)

    return Rule(f"{operator}-{operator}", f"{operator}({operator}(x, c1), c2)", result, when=_one_integer_type)


def _one_integer_type(match: Match) -> bool:
    return has_integer_result(match) and all(match.type(name).dtype == match.result.dtype for name in match.values)


def _has_sign(match: Match) -> bool:
    return not match.type("x").dtype.startswith(("uint", "bool"))


def _negated_as_wide(match: Match) -> bool:
    """Return whether y is negated as the sum has it: narrow integers wrap before they are widened."""
    dtype = match.type("y").dtype
    return "float" in dtype or dtype == match.result.dtype


def _one_type(match: Match) -> bool:
    return match.type("x") == match.result


RULES = (
    Rule("identity", "identity(x)", "x"),
    Rule("add-zero", "add(x, 0)", "x", when=has_integer_result),
    Rule("add-negative-zero", "add(x, -0.0)", "x", when=has_float_result),
    Rule("subtract-zero", "subtract(x, 0)", "x"),
    Rule("multiply-one", "multiply(x, 1)", "x"),
    Rule("divide-one", "divide(x, 1)", "x"),
    Rule("floor-divide-one", "floor_divide(x, 1)", "x", when=has_integer_result),
    Rule("trunc-divide-one", "trunc_divide(x, 1)", "x", when=has_integer_result),
    Rule("multiply-zero", "multiply(x, 0)", _full(0), when=has_integer_result),
    Rule("subtract-itself", "subtract(x, x)", _full(0), when=has_integer_result),
    Rule("xor-itself", "bitwise_xor(x, x)", _full(0), when=has_integer_result),
    Rule("and-itself", "bitwise_and(x, x)", "x", when=has_integer_result),
    Rule("or-itself", "bitwise_or(x, x)", "x", when=has_integer_result),
    Rule("both-itself", "logical_and(x, x)", "x", when=_bools),
    Rule("either-itself", "logical_or(x, x)", "x", when=_bools),
    Rule("and-true", "logical_and(x, 1)", "x", when=_bools),
    Rule("or-false", "logical_or(x, 0)", "x", when=_bools),
    Rule("maximum-itself", "maximum(x, x)", "x"),
    Rule("minimum-itself", "minimum(x, x)", "x"),
    Rule("negative-negative", "negative(negative(x))", "x"),
    Rule("not-not", "logical_not(logical_not(x))", "x", when=_bools),
    Rule("invert-invert", "bitwise_not(bitwise_not(x))", "x"),
    Rule("abs-abs", "abs(abs(x))", "abs(x)"),
    Rule("abs-negative", "abs(negative(x))", "abs(x)", when=_has_sign),
    Rule("square-negative", "square(negative(x))", "square(x)"),
    Rule("square-abs", "square(abs(x))", "square(x)"),
    Rule("multiply-itself", "multiply(x, x)", "square(x)"),
    Rule("relu-relu", "relu(relu(x))", "relu(x)", when=_one_type),
    Rule("floor-floor", "floor(floor(x))", "floor(x)"),
    Rule("ceil-ceil", "ceil(ceil(x))", "ceil(x)"),
    Rule("trunc-trunc", "trunc(trunc(x))", "trunc(x)"),
    Rule("round-round", "nearbyint(nearbyint(x))", "nearbyint(x)"),
    Rule("add-negative", "add(x, negative(y))", "subtract(x, y)", when=_negated_as_wide),
    Rule("subtract-negative", "subtract(x, negative(y))", "add(x, y)", when=_negated_as_wide),
    Rule("divide-by-power-of-two", "divide(x, c)", _build_reciprocal, when=_halves),
    Rule("cast-to-itself", "cast(x, dtype=A)", "x", when=_one_type),
    Rule("cast-cast", "cast(cast(x, dtype=A), dtype=B)", "cast(x, dtype=B)", when=_widens),
    Rule("where-same", "where(b, x, x)", "x"),
    Rule("where-not", "where(logical_not(b), x, y)", "where(b, y, x)", when=lambda m: m.type("b").dtype == "bool"),
    Rule("where-true", "where(1, x, y)", "x"),
    Rule("where-false", "where(0, x, y)", "y"),
    Rule("not-equal", "logical_not(equal(x, y))", "not_equal(x, y)"),
    Rule("not-not-equal", "logical_not(not_equal(x, y))", "equal(x, y)"),
    _reassociation_rule("add"),
    _reassociation_rule("multiply"),
)

ALGEBRA = GraphPass(
    "algebra",
    "rules of algebra that hold to the bit: x * 1, --x, integers in any order",
    "exact",
    rule_pass(RULES),
    __doc__,
)

STOPS = GraphPass(
    "stops",
    "stop_gradient(x) is x, which only derivatives tell apart: builds run it, g.transform() where it is named",
    "exact",
    rule_pass((Rule("stop-gradient", "stop_gradient(x)", "x"),)),
    """stop_gradient computes nothing: derivatives alone ask for it.

    input x: float32[4]
    y: float32[4] = stop_gradient(x)
    z: float32[4] = add(y, x)
    output z

becomes

    input x: float32[4]
    z: float32[4] = add(x, x)
    output z
""",
)
