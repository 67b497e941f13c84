"""Differences of the results of two programs, and the tolerance."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.nibbles import holds_integers
from ..ir import Call, post_order
from ..ir.intrinsics import INTRINSICS
from ..te.operation import producers_first
from ..te.shrink import iterations
from .verified_pair import Pair, element_count

__all__ = ["approximates", "differences", "longest_sum"]


def approximates(pair: Pair) -> bool:
    """Return whether targets may have functions of the program with other last bits."""
    return any(
        isinstance(node, Call) and node.name in INTRINSICS and INTRINSICS[node.name].approximate
        for node in post_order(pair.plain.body)
    )


def longest_sum(pair: Pair) -> int:
    """The number of terms of the longest reduction, about."""
    longest = 1
    for op in producers_first(pair.outputs):
        if op.reduce_axis:
            longest = max(longest, iterations([op], pair.values) // max(1, element_count(op, pair.values)))
    return longest


def _unit(dtype: np.dtype[Any]) -> float:
    """The distance of 1 to the next number."""
    import ml_dtypes  # registers bfloat16's limits

    return float(ml_dtypes.finfo(dtype).eps)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType] - not said there


def differences(want: Any, have: Any, slack: float) -> tuple[np.ndarray[Any, Any] | None, float]:
    """Return the indices where two results differ by more than `slack` units in the last place of the largest (None: nowhere), and by how
    much they do at most, relative to the largest. With a slack of 0 the signs of zeros count."""
    if holds_integers(want.dtype):
        wrong = want != have
        return (wrong if wrong.any() else None), 0.0
    unit = _unit(want.dtype)
    a, b = np.asarray(want, np.float64), np.asarray(have, np.float64)
    finite = np.isfinite(a) & np.isfinite(b)
    with np.errstate(invalid="ignore"):
        same = (a == b) & ((np.signbit(a) == np.signbit(b)) | (slack > 0)) | (np.isnan(a) & np.isnan(b))
        distance = np.where(same, 0.0, np.abs(a - b))
    largest = float(np.abs(a[finite]).max(initial=0.0))
    allowed = slack * unit * (largest if largest else 1.0)
    wrong = ~same & (~finite | (distance > allowed) | (slack == 0))
    apart = float(distance[finite].max(initial=0.0)) / largest if largest else 0.0
    return (wrong if wrong.any() else None), apart
