"""Comparisons. LT, LE, EQ and NE alone occur: GT and GE were turned round. What differences decide is decided before."""

from __future__ import annotations

from ..pattern import Rule, c0, c1, equal, unequal, x, y, z

COMPARE_RULES = (
    Rule("div-less", x // c0 < c1, x < c0 * c1, when=lambda c0: c0 > 0),
    Rule("div-at-least", c1 <= x // c0, c0 * c1 <= x, when=lambda c0: c0 > 0),
    Rule("div-above", c1 < x // c0, c0 * (c1 + 1) <= x, when=lambda c0: c0 > 0),
    Rule("div-at-most", x // c0 <= c1, x < c0 * (c1 + 1), when=lambda c0: c0 > 0),
)

EXACT_COMPARE_RULES = (
    Rule("less-common-factor", x * y < z * y, x < z, given=(y > 0,)),
    Rule("at-most-common-factor", x * y <= z * y, x <= z, given=(y > 0,)),
    Rule("equal-common-factor", equal(x * y, z * y), equal(x, z), given=(unequal(y, 0),)),
    Rule("unequal-common-factor", unequal(x * y, z * y), unequal(x, z), given=(unequal(y, 0),)),
)

BOOL_COMPARE_RULES = (
    Rule("equal-true", equal(x, 1), x),
    Rule("equal-false", equal(x, 0), ~x),
    Rule("unequal-true", unequal(x, 1), ~x),
    Rule("unequal-false", unequal(x, 0), x),
    Rule("equal-same", equal(x, x), True),
    Rule("unequal-same", unequal(x, x), False),
)
