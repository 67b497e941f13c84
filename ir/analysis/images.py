"""Indices that wrap around in a dimension, or are mirrored at its ends, and what they are the images of.

    (i - 1) % n      is the image of      i - 1      in a dimension of n

What is read at such indices is one window on a line, of which the dimension is a period.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from ..arith.analyzer import Analyzer
from ..expr import Add, Expr, FloorMod, IfThenElse, IntImm, Min, Mul, Select, Sub
from ..ops import const
from ..visit import rebuild
from .choices import merge_choices
from .linear import linear

__all__ = ["Image", "find_image", "project"]


class Image(NamedTuple):
    """Image that an index is, and how that is brought into the dimension."""

    kind: Literal["wrapped", "mirrored"]
    of: Expr


def find_image(index: Expr, extent: Expr, analyzer: Analyzer) -> Image | None:
    """Return the image that an index of a dimension is: of a choice between it, where that is an index, and where it comes to lie, or
    of a remainder; None where it is no such index."""
    if isinstance(index, (Select, IfThenElse)):  # a clamp is a choice in another form
        choice = merge_choices(index, analyzer)
        return None if choice is None else find_image(choice, extent, analyzer)
    equal = analyzer.can_prove_equal
    if isinstance(index, FloorMod) and equal(index.b, extent):
        return Image("wrapped", index.a)  # n minus an index below n is the same index from the other end
    if isinstance(index, Min):
        inner, other = (index.a, index.b) if isinstance(index.a, FloorMod) else (index.b, index.a)
        # reflected about both ends, with a period of twice the extent
        if isinstance(inner, FloorMod) and equal(inner.b, extent * 2) and equal(inner + other, inner.b - 1):
            return Image("mirrored", inner.a)
    return None


def project(value: Expr, extent: Expr, analyzer: Analyzer) -> Expr:
    """Return a value with the same remainder by an extent, without remainders by it and multiples of it where they only add to it."""
    value = _unwrap(value, extent, analyzer)
    if isinstance(extent, IntImm) and extent.value > 0:
        around = (linear(value).const + extent.value // 2) // extent.value
        value = value - around * extent.value if around else value
    return value


def _unwrap(value: Expr, extent: Expr, analyzer: Analyzer) -> Expr:
    if value is extent and not isinstance(extent, IntImm):  # adding the extent changes no remainder
        return const(0, value.dtype)
    if isinstance(value, (Add, Sub)):
        return rebuild(value, [_unwrap(part, extent, analyzer) for part in (value.a, value.b)])
    if isinstance(value, Mul) and (isinstance(value.a, IntImm) or isinstance(value.b, IntImm)):
        return rebuild(value, [_unwrap(part, extent, analyzer) for part in (value.a, value.b)])
    image = find_image(value, extent, analyzer) if isinstance(value, (FloorMod, Select, IfThenElse)) else None
    return value if image is None or image.kind != "wrapped" else _unwrap(image.of, extent, analyzer)
