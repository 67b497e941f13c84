"""Sums: two terms that belong together. See `sumrules` for how they are matched; factors of both terms come along."""

from __future__ import annotations

from ..pattern import Rule, c0, c1, convert_to_integer, maximum, minimum, unequal, x, y

SUM_RULES = (
    Rule("div-mod-join", (x // c0) * c0 + x % c0, x, when=lambda c0: c0 != 0),
    Rule("div-mod-join-symbol", (x // y) * y + x % y, x, given=(unequal(y, 0),)),
    Rule("mod-mod-join", ((x // c0) % c1) * c0 + x % c0, x % (c0 * c1), when=lambda c0, c1: c0 > 0 and c1 > 0),
    Rule("mod-from-div", x - (x // c0) * c0, x % c0, when=lambda c0: c0 != 0),
    Rule("div-from-mod", x - x % c0, (x // c0) * c0, when=lambda c0: c0 != 0),
    Rule("min-max-join", minimum(x, y) + maximum(x, y), x + y),
)

EXACT_SUM_RULES = (
    Rule("min-less-arm", minimum(x, y) - x, minimum(0, y - x)),
    Rule("max-less-arm", maximum(x, y) - x, maximum(0, y - x)),
    Rule("ceildiv", x // y + convert_to_integer(unequal(x % y, 0)), (x + y - 1) // y, given=(y >= 0,)),
)
