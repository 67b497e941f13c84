"""The greatest common divisor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from ... import te, topi
from ...topi.row import integers, sample
from .row import operator

__all__: list[str] = []

_STEPS_A_BIT = 1.4405
"""Steps of Euclid's algorithm for each bit of its operands: consecutive Fibonacci numbers take the most (G. Lamé, 1844)."""


def _euclid(x: Sequence[Any], _: Sequence[Any]) -> tuple[Any, Any]:
    """A step on two numbers, the result and 0 where it is found."""
    first, second = x
    ended = second.equal(0)  # finished once the rest is 0; further steps keep it so
    return cast("Any", te.select(ended, first, second)), cast("Any", te.select(ended, second, first % second))


@operator(
    "gcd",
    np.gcd,
    samples=[
        sample(integers(3, 17), integers(17)),
        sample(np.asarray([-4, 0, 0, -6, 1836311903], "int32"), np.asarray([6, 0, -5, -9, 1134903170], "int32")),
        sample(integers(5, dtype="uint8"), integers(1, dtype="uint8")),
    ],
)
def _gcd(x: Any, y: Any) -> Any:
    """The greatest number that divides both of two integers, 0 for two zeros, with numpy's broadcasting."""
    bits = x.dtype.bits
    # at least as many steps as any two numbers of these bits take
    step = te.reduce_axis((0, int(bits * _STEPS_A_BIT) + 2), "step")
    steps = te.comm_reducer(_euclid, lambda a, b: (te.const(0, a), te.const(0, b)), name="euclid")
    shape = (x + y).shape
    first, second = topi.broadcast_to(x, shape), topi.broadcast_to(y, shape)

    def size(value: Any) -> Any:
        # the divisor of negative numbers is that of their sizes
        return cast("Any", te.max(value, -value)) if str(x.dtype)[0] == "i" else value

    zero = te.const(0, x.dtype)

    def element(*i: Any) -> Any:
        # a reduction over steps, whose combiner is one step
        return cast("Any", steps((zero, zero), axis=step, init=(size(first[i]), size(second[i]))))

    found: Any = te.compute(shape, element, name="gcd")
    return found[0]
