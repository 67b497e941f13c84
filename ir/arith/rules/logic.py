"""And, Or and Not. Chains of scalar conditions were cleared of duplicates, and simplified in context, before."""

from __future__ import annotations

from ..pattern import Rule, equal, unequal, x, y

LOGIC_RULES = (
    Rule("and-same", x & x, x),
    Rule("or-same", x | x, x),
    Rule("and-true", x & 1, x),
    Rule("and-false", x & 0, False),
    Rule("or-true", x | 1, True),
    Rule("or-false", x | 0, x),
    Rule("and-not", x & ~x, False),
    Rule("or-not", x | ~x, True),
    Rule("and-or", x & (x | y), x),
    Rule("or-and", x | (x & y), x),
    Rule("split-on", (x & y) | (x & ~y), x),
    Rule("not-not", ~~x, x),
    Rule("not-and", ~(x & y), ~x | ~y),
    Rule("not-or", ~(x | y), ~x & ~y),
    Rule("not-equal", ~equal(x, y), unequal(x, y)),
    Rule("not-unequal", ~unequal(x, y), equal(x, y)),
)
