"""Epilogues behind any program: a stage whose neighbouring elements read the same ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir.expr import IntImm
from ...te import polymorphic as te
from .choices import Choices
from .program import Program

__all__ = ["WINDOW", "add_window_sums"]

WINDOW = "window"
"""The tag of the stage that reads neighbours."""


def add_window_sums(program: Program, choices: Choices) -> None:
    """Put sums of neighbours along one dimension in the place of the program's last result, or beside it: what rolling
    buffers are for.
    Leaves programs as they are whose result has no two elements in a row, or whose results' shapes tell what a symbol is."""
    at = max(place for place, is_result in enumerate(program.results) if is_result)
    whole, expected = program.args[at], program.values[at]
    places = [place for place, extent in enumerate(expected.shape) if extent > 1]
    shapes = [arg.shape for arg, is_result in zip(program.args, program.results, strict=True) if is_result]
    if not places or not all(isinstance(extent, (int, IntImm)) for shape in shapes for extent in shape):
        return
    place = choices.pick(places)
    shape = tuple(extent - (dim == place) for dim, extent in enumerate(expected.shape))

    def neighbours(*indices: Any) -> Any:
        following = whole[(*indices[:place], indices[place] + 1, *indices[place + 1 :])]
        return te.any(whole[indices], following) if str(whole.dtype) == "bool" else whole[indices] + following

    first = expected[tuple(slice(0, extent) for extent in shape)]
    second = expected[tuple(slice(dim == place, None) for dim in range(expected.ndim))]
    added = np.logical_or(first, second) if expected.dtype == bool else first + second
    stays = choices.chance(0.5)
    kept = [other for other, is_result in enumerate(program.results) if not is_result or stays and other == at]
    program.args = [*(program.args[other] for other in kept), te.compute(shape, neighbours, "N", WINDOW)]
    program.values = [*(program.values[other] for other in kept), np.asarray(added, expected.dtype)]
    program.results = [*(program.results[other] for other in kept), True]
    program.tolerance *= 3
