"""Instructions of the accelerator, and the listing of them.

Every instruction is a nest of counted loops around one step. An operand has a first element, and a stride for each loop, 0 where
it stays: a product of 8 by 8 by 8 in 4 tiles is five loops, (4, 8, 8, 8), of which the sums have the strides (64, 8, 1, 0).

    op            what a step does
    dma_copy2d    target = source, between DRAM and a scratchpad; converts integers as astype does
    gemm          target += first * second, int8 by int8 into int32
    fill          target = number
    mov           target = source
    add max min   target = first op second, or op number
    shr           target = source >> number, keeping the sign
    clip          target = min(max(source, number), number)
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...base.dataclass import dataclass

__all__ = ["DRAM", "UNITS", "Instruction", "Operand", "Place", "grid", "accessed_offsets"]

UNITS = ("ld", "ex", "st")
"""The queues: load, compute and store, as listings name them."""

DRAM = "dram"


@dataclass(frozen=True, slots=True)
class Place:
    """Place of a buffer. memory: the scope of a scratchpad, or "dram:" and a name, since each tensor there is a memory of its
    own. begin, size: in elements."""

    name: str
    memory: str
    begin: int
    size: int
    dtype: str

    @property
    def is_dram(self) -> bool:
        return self.memory.startswith(DRAM)


@dataclass(frozen=True, slots=True)
class Operand:
    """Elements of a buffer. offset: of the first one, in the buffer. strides: one for each loop of the instruction."""

    place: Place
    offset: int
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Instruction:
    """Instruction of the accelerator.

    operands: the first is written, and read too by what takes up what is there. pops: units whose token it waits for before it
    begins; pushes: units that get a token when it has ended.
    """

    op: str
    extents: tuple[int, ...]
    operands: tuple[Operand, ...]
    numbers: tuple[int, ...] = ()
    pops: tuple[str, ...] = ()
    pushes: tuple[str, ...] = ()

    @property
    def unit(self) -> str:
        """The queue that it goes into."""
        if self.op != "dma_copy2d":
            return "ex"
        return "st" if self.operands[0].place.is_dram else "ld"

    @property
    def reads(self) -> tuple[Operand, ...]:
        """Elements that have to be there before it begins."""
        return self.operands if self.op == "gemm" else self.operands[1:]

    @property
    def products(self) -> int:
        """The number of operations that it multiplies and adds."""
        return prod(self.extents) if self.op == "gemm" else 0

    @property
    def dram_bytes(self) -> int:
        """The number of bytes that it moves to or from DRAM."""
        dram = next((each.place for each in self.operands if each.place.is_dram), None)
        return prod(self.extents) * np.dtype(dram.dtype).itemsize if dram is not None else 0

    def __str__(self) -> str:
        operands = [*(_show_operand(each, self.extents) for each in self.operands), *map(str, self.numbers)]
        pops = "".join(f"{self.unit}.pop_dep_from({unit}); " for unit in self.pops)
        pushes = "".join(f"; {self.unit}.push_dep_to({unit})" for unit in self.pushes)
        loops = " x ".join(map(str, self.extents)) or "1"
        return f"{pops}{self.unit}.{self.op}({', '.join(operands)}) over {loops}{pushes}"


def _show_operand(operand: Operand, extents: tuple[int, ...]) -> str:
    """`A.vdla.inp_buffer[64: 8, 1]`: the first element, and a stride for each loop."""
    strides = ", ".join(map(str, operand.strides)) if extents else ""
    return f"{operand.place.name}[{operand.offset}{': ' + strides if strides else ''}]"


@lru_cache(maxsize=512)
def grid(extents: tuple[int, ...], strides: tuple[int, ...]) -> NDArray[Any]:
    """The offset of each step from the first, with a dimension of one element for each loop whose stride is 0."""
    total: NDArray[Any] = np.zeros((1,) * len(extents), np.int64)
    for at, (extent, stride) in enumerate(zip(extents, strides, strict=True)):
        if stride:
            shape = [1] * len(extents)
            shape[at] = extent
            total = total + (np.arange(extent, dtype=np.int64) * stride).reshape(shape)
    return total


@lru_cache(maxsize=512)
def accessed_offsets(extents: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, int, NDArray[Any] | None]:
    """(lowest, highest + 1, all) of the offsets that are touched; None for all of them in between."""
    offsets = grid(extents, strides).reshape(-1)
    low, high = int(offsets.min()), int(offsets.max()) + 1
    distinct = np.unique(offsets)
    return low, high, None if len(distinct) == high - low else distinct
