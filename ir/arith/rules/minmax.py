"""Min and Max of integers: a distributive lattice. What bounds decide is decided before these are tried."""

from __future__ import annotations

from ..pattern import Rule, c0, c1, maximum, minimum, x, y, z

MINMAX_RULES = (
    Rule("min-of-min", minimum(minimum(x, y), x), minimum(x, y)),
    Rule("max-of-max", maximum(maximum(x, y), x), maximum(x, y)),
    Rule("min-of-max", minimum(maximum(x, y), x), x),
    Rule("max-of-min", maximum(minimum(x, y), x), x),
    Rule("min-constants", minimum(minimum(x, c0), c1), minimum(x, minimum(c0, c1))),
    Rule("max-constants", maximum(maximum(x, c0), c1), maximum(x, maximum(c0, c1))),
    Rule("min-of-maxes", minimum(maximum(x, y), maximum(x, z)), maximum(x, minimum(y, z))),
    Rule("max-of-mins", maximum(minimum(x, y), minimum(x, z)), minimum(x, maximum(y, z))),
    Rule("min-of-mins", minimum(minimum(x, y), minimum(x, z)), minimum(minimum(x, y), z)),
    Rule("max-of-maxes", maximum(maximum(x, y), maximum(x, z)), maximum(maximum(x, y), z)),
)

EXACT_MINMAX_RULES = (
    Rule(
        "max-of-lowered-max",
        maximum(maximum(x, 0) * c0 - c1, 0),
        maximum(x * c0 - c1, 0),
        when=lambda c0, c1: c0 > 0 and c1 >= 0,
    ),
)
"""Bounds within bounds, as windows of windows have them at a border."""
