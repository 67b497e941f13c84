"""What a CUDA build launches, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .signature import Extent, evaluate_extent

__all__ = ["KernelLaunch", "Workspace"]


@dataclass(frozen=True, slots=True)
class KernelLaunch:
    """One launch: its name in the CUDA text; grid and block as x, y, z. A grid extent that the shapes of a call decide is
    an extent of the signature instead of an int.

    args: what each of the kernel's parameters is, by its place in the function's parameters, then its workspaces, then its
    shape symbols. aligned: the parameters that are read or written as vectors of 16 bytes.
    """

    name: str
    grid: tuple[Extent, Extent, Extent]
    block: tuple[int, int, int]
    dynamic_shared_bytes: int
    args: tuple[int, ...]
    aligned: tuple[int, ...] = ()

    def blocks(self, values: Mapping[str, int]) -> tuple[int, int, int]:
        """The grid for the values of scalars and shape symbols."""
        x, y, z = (max(evaluate_extent(extent, values), 0) for extent in self.grid)
        return x, y, z


@dataclass(frozen=True, slots=True)
class Workspace:
    """Memory between the kernels of one call."""

    name: str
    dtype: str
    elements: Extent
