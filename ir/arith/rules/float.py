"""Floats: only what is exact. NaN, infinities and the sign of zero survive (x + 0.0 would lose that of -0.0)."""

from __future__ import annotations

from ...expr import Add
from ..pattern import Rule, operation, x

FLOAT_RULES = (
    Rule("float-times-one", x * 1.0, x),
    Rule("float-over-one", x / 1.0, x),
    Rule("float-plus-minus-zero", x + -0.0, x),
    Rule("float-minus-zero-plus", operation(Add, -0.0, x), x),
    Rule("float-minus-zero", x - 0.0, x),
    Rule("float-negate-twice", (x * -1.0) * -1.0, x),
)
