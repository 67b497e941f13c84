"""Sums of a fixed number of weighted values, written out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ir.combine import mul_add
from ..ir.expr import Expr


def weighted_sum(values: Sequence[Expr], weights: Sequence[Expr]) -> Expr:
    """values[0] * weights[0] + values[1] * weights[1] + ..., from the first on. Products of float32 and float64 are taken up as
    those of a te.sum are: with one rounding on targets that fuse."""
    total = values[0] * weights[0]
    for value, weight in zip(values[1:], weights[1:], strict=True):
        total = mul_add(value, weight, total)
    return total


def scaled_and_moved(value: Expr, by: Expr, plus: Expr) -> Expr:
    """value * by + plus, floats rounded as in weighted_sum."""
    return mul_add(value, by, plus)


def keys_weights(t: Expr, a: float) -> tuple[Expr, ...]:
    """Keys' weights of the four pixels around a place that is t past the second."""

    def near(x: Any) -> Expr:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: Any) -> Expr:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return far(t + 1), near(t), near(1 - t), far(2 - t)
