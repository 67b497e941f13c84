"""Floats: only what is exact. NaN, infinities and the sign of zero survive (x + 0.0 would lose that of -0.0)."""

from __future__ import annotations

from ..pattern import Rule, maximum, minimum, operation, x
from ...expr import Add

FLOAT_RULES = (
    Rule("float-times-one", x * 1.0, x),
    Rule("float-over-one", x / 1.0, x),
    Rule("float-plus-minus-zero", x + -0.0, x),
    Rule("float-minus-zero-plus", operation(Add, -0.0, x), x),
    Rule("float-minus-zero", x - 0.0, x),
    Rule("float-negate-twice", (x * -1.0) * -1.0, x),
    Rule("float-min-same", minimum(x, x), x),
    Rule("float-max-same", maximum(x, x), x),
)
