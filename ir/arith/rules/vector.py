"""Ramps and broadcasts. A rule holds lane by lane: lane k of ramp(x, y) is x + k * y."""

from __future__ import annotations

from ...expr import (
    EQ,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryOp,
    Div,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mul,
    Or,
    Sub,
    TruncDiv,
    TruncMod,
)
from ..pattern import Rule, broadcast, c0, c1, lanes, operation, ramp, select, w, x, y, z


def _lift(kind: type[BinaryOp]) -> Rule:
    pattern, result = operation(kind, broadcast(x), broadcast(y)), broadcast(operation(kind, x, y))
    return Rule(f"broadcasts-{kind.__name__.lower()}", pattern, result)


BROADCAST_RULES = (
    *[
        _lift(kind)
        for kind in (Add, Sub, Mul, Div, FloorDiv, FloorMod, TruncDiv, TruncMod, Min, Max, LT, LE, EQ, NE, And, Or)
    ],
    Rule("not-broadcast", ~broadcast(x), broadcast(~x)),
    Rule("select-broadcasts", select(broadcast(w), broadcast(x), broadcast(y)), broadcast(select(w, x, y))),
    Rule("select-by-broadcast", select(broadcast(w), x, y), select(w, x, y)),
)

VECTOR_RULES = (
    Rule("ramp-still", ramp(x, 0), broadcast(x)),
    Rule("ramp-plus", ramp(x, y) + broadcast(z), ramp(x + z, y)),
    Rule("plus-ramp", broadcast(z) + ramp(x, y), ramp(z + x, y)),
    Rule("ramp-minus", ramp(x, y) - broadcast(z), ramp(x - z, y)),
    Rule("minus-ramp", broadcast(z) - ramp(x, y), ramp(z - x, 0 - y)),
    Rule("ramp-plus-ramp", ramp(x, y) + ramp(z, w), ramp(x + z, y + w)),
    Rule("ramp-minus-ramp", ramp(x, y) - ramp(z, w), ramp(x - z, y - w)),
    Rule("ramp-times", ramp(x, y) * broadcast(z), ramp(x * z, y * z)),
)

EXACT_VECTOR_RULES = (
    Rule(
        "ramp-div", ramp(x, c0) // broadcast(c1), ramp(x // c1, c0 // c1), when=lambda c0, c1: c1 > 0 and c0 % c1 == 0
    ),
    Rule("ramp-mod", ramp(x, c0) % broadcast(c1), broadcast(x % c1), when=lambda c0, c1: c1 > 0 and c0 % c1 == 0),
    Rule(
        "ramp-div-within",
        ramp(x, c0) // broadcast(c1),
        broadcast(x // c1),
        when=lambda c0, c1: c0 >= 0 and c1 > 0,
        given=(x % c1 + c0 * (lanes - 1) < c1,),
    ),
    Rule(
        "ramp-mod-within",
        ramp(x, c0) % broadcast(c1),
        ramp(x % c1, c0),
        when=lambda c0, c1: c0 >= 0 and c1 > 0,
        given=(x % c1 + c0 * (lanes - 1) < c1,),
    ),
    Rule(
        "ramp-below",
        ramp(x, c0) < broadcast(y),
        broadcast(True),
        when=lambda c0: c0 >= 0,
        given=(x + c0 * (lanes - 1) < y,),
    ),
    Rule("ramp-never-below", ramp(x, c0) < broadcast(y), broadcast(False), when=lambda c0: c0 >= 0, given=(y <= x,)),
    Rule(
        "ramp-at-most",
        ramp(x, c0) <= broadcast(y),
        broadcast(True),
        when=lambda c0: c0 >= 0,
        given=(x + c0 * (lanes - 1) <= y,),
    ),
    Rule("ramp-never-at-most", ramp(x, c0) <= broadcast(y), broadcast(False), when=lambda c0: c0 >= 0, given=(y < x,)),
    Rule("below-ramp", broadcast(y) < ramp(x, c0), broadcast(True), when=lambda c0: c0 >= 0, given=(y < x,)),
    Rule(
        "never-below-ramp",
        broadcast(y) < ramp(x, c0),
        broadcast(False),
        when=lambda c0: c0 >= 0,
        given=(x + c0 * (lanes - 1) <= y,),
    ),
    Rule("at-most-ramp", broadcast(y) <= ramp(x, c0), broadcast(True), when=lambda c0: c0 >= 0, given=(y <= x,)),
    Rule(
        "never-at-most-ramp",
        broadcast(y) <= ramp(x, c0),
        broadcast(False),
        when=lambda c0: c0 >= 0,
        given=(x + c0 * (lanes - 1) < y,),
    ),
)
