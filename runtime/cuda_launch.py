"""Launches of a CUDA build, as plain data."""

from __future__ import annotations

from collections.abc import Mapping

from ..base import dataclass, user_source
from .abi import ITEM_BYTES
from .cuda_errors import LaunchFailed
from .errors import KernelOutOfMemory
from .signature import Extent, evaluate_extent
from .tensor_map import TensorMap

__all__ = ["KernelLaunch", "Workspace"]

_MOST_BLOCKS = (2**31 - 1, 65535, 65535)
_MOST_BYTES = 1 << 62


@dataclass(frozen=True, slots=True)
class KernelLaunch:
    """One launch: its name in the CUDA text; grid and block as x, y, z. A grid extent that the shapes of a call decide is
    an extent of the signature instead of an int.

    args: what each of the kernel's parameters is, by its place in the function's parameters, then its workspaces, then its
    shape symbols; or how boxes of a tensor lie, which stand first. aligned: the parameters that are read or written as vectors of
    16 bytes. cluster: blocks that run beside each other and reach each other's shared memory, as x, y, z. parts: of the work, of
    which as many blocks along x as the GPU holds take one after the other, in whole clusters; 0 where each block has its own.
    """

    name: str
    grid: tuple[Extent, Extent, Extent]
    block: tuple[int, int, int]
    dynamic_shared_bytes: int
    args: tuple[int | TensorMap, ...]
    aligned: tuple[int, ...] = ()
    cluster: tuple[int, int, int] = (1, 1, 1)
    parts: int = 0

    @property
    def maps(self) -> tuple[TensorMap, ...]:
        """Tensor maps of the tensors whose boxes the copy engine fetches."""
        return tuple(arg for arg in self.args if isinstance(arg, TensorMap))

    @property
    def aligned_items(self) -> tuple[int, ...]:
        """Items that are read or written as vectors, by places as those of `args`."""
        found = (self.args[parameter] for parameter in self.aligned)
        return tuple(arg.argument if isinstance(arg, TensorMap) else arg for arg in found)

    def blocks(self, values: Mapping[str, int]) -> tuple[int, int, int]:
        """The grid for the values of scalars and shape symbols. Raises LaunchFailed (TW0834) where no GPU has so many blocks."""
        x, y, z = grid = tuple(max(evaluate_extent(extent, values), 0) for extent in self.grid)
        # an empty grid needs no limit: nothing is launched
        if x and y and z and any(extent > most for extent, most in zip(grid, _MOST_BLOCKS, strict=True)):
            raise LaunchFailed(
                f"{self.name} cannot be launched on {x} x {y} x {z} blocks",
                called=user_source(),
                reason=f"a grid has at most {' x '.join(map(str, _MOST_BLOCKS))}",
                fix="split the axis that is bound to blockIdx, and let each block compute more",
            )
        return x, y, z


@dataclass(frozen=True, slots=True)
class Workspace:
    """Memory between the kernels of one call."""

    name: str
    dtype: str
    elements: Extent

    def bytes(self, values: Mapping[str, int]) -> int:
        """Its size for the values of scalars and shape symbols. Raises KernelOutOfMemory (TW0517) where no memory holds it."""
        size = max(evaluate_extent(self.elements, values), 0) * ITEM_BYTES[self.dtype]
        if size >= _MOST_BYTES:  # no memory holds so much: said before the driver is asked
            raise KernelOutOfMemory(
                f"could not get memory for the intermediate {self.name}",
                reason=f"it has {size} bytes",
                called=user_source(),
                fix="call it on smaller tensors, or compute it at its consumer",
            )
        return size
