"""Histograms, segment sums and other sums into cells that data chooses."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ...te import polymorphic as te
from .choices import Choices
from .program import Draw, Program, exact_sum, small
from .terms import INTEGERS, numpy_type

__all__ = ["draw_cells"]

MAX_STEPS = 100_000
FORMS = ("where", "choice", "select", "truth")


def draw_cells(choices: Choices) -> Program:
    """S[cell, ..] = sum over i of X[i, ..], where place[i] is the cell: as a condition of the sum, of its terms, or counted."""
    draw = Draw(choices, "gather")
    cells, count = draw.pick((1, 3, 17, 20, 33, 65)), draw.pick((0, 1, 5, 33, 130, 257))
    inside: list[int] = []
    for _ in range(draw.number(0, 2)):
        # The interpreter visits each cell for each element.
        inside.append(draw.pick([n for n in (1, 2, 7, 16, 33) if cells * count * prod(inside) * n <= MAX_STEPS]))
    dtype, form = draw.pick([*INTEGERS, "float32", "float32", "float64"]), draw.pick(FORMS)
    kind = draw.pick(["int32", "int64", "uint8", "int8"])
    beyond: Any = np.array(choices.contents().integers(0 if kind == "uint8" else -2, cells + 2, count), kind)
    place = draw.program.add_argument(te.placeholder((count,), kind, "P"), beyond)
    shape = (count, *inside)
    given = draw.program.add_argument(te.placeholder(shape, dtype, "X"), small(draw, shape, dtype))
    values = exact_sum(draw.program.values[1], dtype)
    i = te.reduce_axis((0, count), "i")
    first, choose = draw.chance(0.7), te.select if form == "select" else te.if_then_else

    def element(*at: Any) -> Any:
        cell, *others = at if first else (at[-1], *at[:-1])
        met = place[i].astype("int32") == cell
        if form == "where":
            return te.sum(given[(i, *others)], i, where=met)
        if form == "truth":
            return te.sum(met.astype(dtype), i)
        return te.sum(choose(met, given[(i, *others)], te.const(0, dtype)), i)

    sums = te.compute((cells, *inside) if first else (*inside, cells), element, "S")
    expected = np.zeros((cells, *inside), values.dtype)
    inner = (beyond >= 0) & (beyond < cells)
    np.add.at(
        expected, beyond[inner].astype("int64"), np.ones_like(values[inner]) if form == "truth" else values[inner]
    )
    expected = expected if first else np.moveaxis(expected, 0, -1)
    draw.program.result(sums, np.ascontiguousarray(expected).astype(numpy_type(dtype)))
    return draw.finish()
