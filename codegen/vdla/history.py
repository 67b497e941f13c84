"""Last accesses of each element of each memory: what the compiler orders by tokens, and the simulator checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .instructions import UNITS, Instruction, Operand, accessed_offsets

__all__ = ["History"]


class History:
    """The last reads and writes by each unit, as numbers of its instructions, from 1 on; 0 for none."""

    def __init__(self, stream: Iterable[Instruction], sizes: Mapping[str, int]) -> None:
        """Begin with no access.

        sizes: of each memory, in elements. What a single unit of the stream touches is in order by itself.
        """
        users = {(operand.place.memory, each.unit) for each in stream for operand in each.operands}
        memories = [memory for memory, count in Counter(memory for memory, _ in users).items() if count > 1]
        self._reads = {memory: np.zeros((len(UNITS), sizes[memory]), np.int32) for memory in memories}
        self._writes = {memory: np.zeros((len(UNITS), sizes[memory]), np.int32) for memory in memories}

    def before(self, instruction: Instruction) -> tuple[int, ...]:
        """Return for each unit the last of its instructions that `instruction` must not run beside: what wrote what it reads or writes,
        and what read what it writes."""
        last = np.zeros(len(UNITS), np.int32)
        for at, operand in enumerate(instruction.operands):
            if operand.place.memory not in self._writes:
                continue
            place = _elements(instruction, operand)
            last = np.maximum(last, self._writes[operand.place.memory][place].max(axis=1))
            if at == 0:
                last = np.maximum(last, self._reads[operand.place.memory][place].max(axis=1))
        return tuple(map(int, last))

    def note(self, instruction: Instruction, number: int) -> None:
        """`instruction` is number `number` of its unit."""
        unit = UNITS.index(instruction.unit)
        for operand in instruction.reads:
            if operand.place.memory in self._reads:
                self._reads[operand.place.memory][(unit, *_elements(instruction, operand)[1:])] = number
        target = instruction.operands[0]
        if target.place.memory in self._writes:
            self._writes[target.place.memory][(unit, *_elements(instruction, target)[1:])] = number


def _elements(instruction: Instruction, operand: Operand) -> tuple[Any, slice | NDArray[Any]]:
    """All units, and the elements of the memory that an operand touches."""
    low, high, offsets = accessed_offsets(instruction.extents, operand.strides)
    first = operand.place.begin + operand.offset
    return slice(None), slice(first + low, first + high) if offsets is None else offsets + first
