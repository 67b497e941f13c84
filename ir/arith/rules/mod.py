"""Remainders of integers. What sums in the numerator allow is in `arith.divide`."""

from __future__ import annotations

from ..pattern import Rule, c0, c1, truncmod, x, y

MOD_RULES = (
    Rule("mod-of-zero", 0 % x, 0),
    Rule("mod-by-zero", x % 0, 0),
    Rule("mod-by-one", x % 1, 0),
    Rule("mod-by-minus-one", x % -1, 0),
    Rule("mod-self", x % x, 0),
    Rule("mod-of-mod", (x % c0) % c1, x % c1, when=lambda c0, c1: c1 != 0 and c0 % c1 == 0 and c0 != 0),
    Rule("mod-of-own-mod", (x % y) % y, x % y),
    Rule("truncmod-of-zero", truncmod(0, x), 0),
    Rule("truncmod-by-zero", truncmod(x, 0), 0),
    Rule("truncmod-by-one", truncmod(x, 1), 0),
    Rule("truncmod-self", truncmod(x, x), 0),
    Rule("truncmod-is-floor", truncmod(x, y), x % y, given=(x >= 0, y > 0)),
    Rule(
        "truncmod-of-truncmod",
        truncmod(truncmod(x, c0), c1),
        truncmod(x, c1),
        when=lambda c0, c1: c0 > 0 and c1 > 0 and c0 % c1 == 0,
    ),
)

EXACT_MOD_RULES = (Rule("mod-of-multiple", (x * y) % y, 0),)
