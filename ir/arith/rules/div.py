"""Divisions of integers. What sums in the numerator allow is in `arith.divide`."""

from __future__ import annotations

from ..pattern import Rule, c0, c1, truncdiv, unequal, x, y

DIV_RULES = (
    Rule("div-of-zero", 0 // x, 0),
    Rule("div-by-zero", x // 0, 0),
    Rule("div-by-one", x // 1, x),
    Rule("div-by-minus-one", x // -1, 0 - x),
    Rule("div-self", x // x, 1, given=(unequal(x, 0),)),
    Rule("div-of-div", (x // c0) // c1, x // (c0 * c1), when=lambda c0, c1: c0 > 0 and c1 > 0),
    Rule("div-of-mod", (x % c0) // c1, (x // c1) % (c0 // c1), when=lambda c0, c1: c0 > 0 and c1 > 0 and c0 % c1 == 0),
    Rule("div-of-own-mod", (x % y) // y, 0),
    Rule("truncdiv-of-zero", truncdiv(0, x), 0),
    Rule("truncdiv-by-zero", truncdiv(x, 0), 0),
    Rule("truncdiv-by-one", truncdiv(x, 1), x),
    Rule("truncdiv-self", truncdiv(x, x), 1, given=(unequal(x, 0),)),
    Rule("truncdiv-is-floor", truncdiv(x, y), x // y, given=(x >= 0, y > 0)),
    Rule(
        "truncdiv-of-truncdiv",
        truncdiv(truncdiv(x, c0), c1),
        truncdiv(x, c0 * c1),
        when=lambda c0, c1: c0 > 0 and c1 > 0,
    ),
)

EXACT_DIV_RULES = (Rule("div-of-multiple", (x * y) // y, x, given=(unequal(y, 0),)),)
