"""Chains of stencils over tensors that are continued beyond their shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...te import polymorphic as te
from .choices import Choices
from .program import Draw, Program, exact_sum
from .terms import INTEGERS, Size, numpy_type

__all__ = ["BOUNDARY_TYPES", "draw_boundaries"]

BOUNDARY_TYPES = (*INTEGERS, "float32", "float64")
"""What the sums of a chain are whole numbers in."""

_PAD: dict[str, dict[str, Any]] = {
    "clamped": {"mode": "edge"},
    "mirrored": {"mode": "symmetric"},
    "wrapped": {"mode": "wrap"},
    "padded": {"mode": "constant", "constant_values": 2},
}


def draw_boundaries(choices: Choices) -> Program:
    """Two to four stencils, each over the one before, which is continued by a helper or by a clamp that is written out."""
    draw = Draw(choices, "boundaries")
    symbolic = 0.6 if draw.chance(0.4) else 0.0
    shape = tuple(
        size if size.value else Size(3, 3) for size in (draw.size(33, symbolic) for _ in range(draw.number(1, 2)))
    )
    dtype = draw.pick(BOUNDARY_TYPES)
    a = draw.source(shape, dtype)
    tensor, expected = a.tensor, exact_sum(a.array, dtype)
    extents = tuple(size.te for size in shape)
    for number in range(draw.number(2, 4)):
        name = draw.pick([*_PAD, "clamped"])
        reach = draw.pick([1, 1, 1, 2, 6])
        offsets = [tuple(draw.number(-reach, reach) for _ in shape) for _ in range(draw.number(1, 3))]
        factors = [draw.number(1, 2) for _ in offsets]
        read, wide = _read_extended(draw, name, tensor, extents), np.pad(expected, reach, **_PAD[name])
        tensor = te.compute(extents, _stencil(read, offsets, factors, dtype), f"T{number}")
        parts = (
            wide[tuple(slice(reach + o, reach + o + size.value) for o, size in zip(offset, shape, strict=True))]
            * np.asarray(factor).astype(wide.dtype)
            for offset, factor in zip(offsets, factors, strict=True)
        )
        expected = np.asarray(sum(parts)).astype(wide.dtype)
    draw.program.result(tensor, expected.astype(numpy_type(dtype)))
    return draw.finish()


def _stencil(
    read: Callable[..., Any], offsets: list[tuple[int, ...]], factors: list[int], dtype: str
) -> Callable[..., Any]:
    def element(*at: Any) -> Any:
        parts = [
            read(*(i + o for i, o in zip(at, offset, strict=True))) * te.const(factor, dtype)
            for offset, factor in zip(offsets, factors, strict=True)
        ]
        return sum(parts[1:], parts[0])

    return element


def _read_extended(draw: Draw, name: str, tensor: te.Tensor, extents: tuple[Any, ...]) -> Callable[..., Any]:
    """Read an element at any indices."""
    if name == "padded":
        return te.padded(tensor, 2)
    if name != "clamped" or draw.chance(0.3):
        return getattr(te, name)(tensor)
    clamp = draw.pick(_CLAMPS)
    return lambda *at: tensor(*(clamp(i, n) for i, n in zip(at, extents, strict=True)))


_CLAMPS: tuple[Callable[[Any, Any], Any], ...] = (
    lambda i, n: te.max(te.min(i, n - 1), 0),
    lambda i, n: te.min(te.max(i, 0), n - 1),
    lambda i, n: te.select(i < 0, 0, te.select(i >= n, n - 1, i)),
    lambda i, n: te.if_then_else(i > n - 1, n - 1, te.if_then_else(i > 0, i, 0)),
    lambda i, n: te.max(te.select(n > i, i, n - 1), 0),
    lambda i, n: te.max(te.select(i + 1 < n, i, n - 1), 0),
    lambda i, n: te.min(te.if_then_else(i - 1 >= 0, i, 0), n - 1),
)
