"""Drawn programs of torch: one operator or a few over tensors whose sizes are numbers or symbols.

program = draw(random, at)                   # of the row at this place of the tables
exported = torch.export.export(program.module, program.arguments(random, program.known), dynamic_shapes=program.open)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from drawn_rows import Input
from drawn_torch_rows import ROWS
from numpy.random import Generator
from torch import nn
from torch.nn import functional as F

__all__ = ["ROWS", "Module", "Program", "draw"]

_NAMES = {"torch": torch, "F": F, "aten": torch.ops.aten, "inf": float("inf")}
_SIZES = (0, 1, 2, 3, 5, 7)


class Module(nn.Module):  # type: ignore[misc]
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


@dataclass
class Program:
    """A program. known: the extents of its symbols as drawn."""

    text: str
    module: Module
    inputs: dict[str, Input]
    known: dict[str, int]
    tolerance: float

    def arguments(self, random: Generator, sizes: Mapping[str, int]) -> tuple[Any, ...]:
        return tuple(torch.tensor(one.values(random, one.shape(sizes))) for one in self.inputs.values())

    @property
    def open(self) -> tuple[tuple[dict[int, Any], ...]] | None:
        """As torch.export takes them, for a module of any number of arguments."""
        found = tuple(
            {at: torch.export.Dim.AUTO for at, extent in enumerate(one.dims) if isinstance(extent, str)}
            for one in self.inputs.values()
        )
        return (found,) if any(found) else None

    def other_sizes(self, random: Generator) -> Iterator[dict[str, int]]:
        yield dict(self.known)
        if self.known:
            for _ in range(3):
                yield {name: int(random.choice(_SIZES)) for name in self.known}


def draw(random: Generator, at: int) -> Program:
    row = ROWS[at]
    text, inputs, known = row.draw(random, least=2, most=6)
    function = eval(f"lambda {', '.join(inputs)}: {text}", _NAMES)
    return Program(text, Module(function), inputs, known, row.tolerance)
