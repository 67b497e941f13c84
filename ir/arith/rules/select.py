"""Choices. Of IfThenElse one side alone is evaluated, so nothing may move out of it."""

from __future__ import annotations

from ..pattern import Rule, if_then_else, maximum, minimum, select, w, x, y, z

CHOICE_RULES = (
    Rule("select-not", select(~w, x, y), select(w, y, x)),
    Rule("if-not", if_then_else(~w, x, y), if_then_else(w, y, x)),
    Rule("select-in-true", select(w, select(w, x, y), z), select(w, x, z)),
    Rule("select-in-false", select(w, x, select(w, y, z)), select(w, x, z)),
    Rule("if-in-true", if_then_else(w, if_then_else(w, x, y), z), if_then_else(w, x, z)),
    Rule("if-in-false", if_then_else(w, x, if_then_else(w, y, z)), if_then_else(w, x, z)),
)

INTEGER_CHOICE_RULES = (
    Rule("select-less", select(x < y, x, y), minimum(x, y)),
    Rule("select-at-most", select(x <= y, x, y), minimum(x, y)),
    Rule("select-not-less", select(x < y, y, x), maximum(x, y)),
    Rule("select-not-at-most", select(x <= y, y, x), maximum(x, y)),
)

BOOL_CHOICE_RULES = (
    Rule("select-true-false", select(w, 1, 0), w),
    Rule("select-false-true", select(w, 0, 1), ~w),
    Rule("select-true-else", select(w, 1, x), w | x),
    Rule("select-else-false", select(w, x, 0), w & x),
)
