"""The accelerator, simulated: three queues in order, tokens between them, a table of cycles, and memories that are really written.

The instruction that can begin first runs first: when its unit is free, its tokens are there, and, for copies, DRAM is free. So
data move in the order that the tokens leave to time. What they do not order is found, whatever the times were: every unit knows up
to where the others have ended, by the tokens that it took, and whoever touches what another one touches has to know that it has
ended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...base import dataclass, field, user_source
from .errors import QueueDeadlock, QueueRace, ScratchpadFault, TokenLeft
from .history import History
from .instructions import UNITS, Instruction, Operand, accessed_offsets, grid
from .machine import MACHINE, Machine

__all__ = ["Report", "simulate"]


@dataclass(slots=True)
class Report:
    """Cycles of a run. busy: cycles in which each unit worked. stalls: cycles for which it waited, by (unit, what for), for the
    token of another unit or for "dram". products: of the array. dram_bytes: moved."""

    machine: Machine
    cycles: int = 0
    instructions: int = 0
    products: int = 0
    dram_bytes: int = 0
    busy: dict[str, int] = field(default_factory=lambda: dict.fromkeys(UNITS, 0))
    stalls: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    spans: list[tuple[str, int, int, Instruction]] = field(default_factory=list[tuple[str, int, int, Instruction]])
    """Unit, begin, end of each instruction, in the order in which they began."""

    @property
    def utilisation(self) -> float:
        """Share of what the array could have multiplied in this time, the part that it did."""
        return self.products / max(self.cycles * self.machine.peak, 1)

    def __str__(self) -> str:
        lines = [
            f"{self.instructions} instructions, {self.cycles} cycles, {self.products} products "
            f"({self.utilisation:.1%} of the array), {self.dram_bytes} bytes to and from DRAM"
        ]
        for unit in UNITS:
            waits = ", ".join(
                f"{cycles} for {what}" for (who, what), cycles in sorted(self.stalls.items()) if who == unit
            )
            lines.append(f"  {unit}: busy {self.busy[unit]}, waited {waits or 'never'}")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class _Token:
    """Token that one unit passes to another.

    time: when it is there. known: up to which instruction of each unit everything had ended then.
    """

    time: int
    known: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Turn:
    """The next instruction of a unit. wait: what it waits for last."""

    begin: int
    unit: int
    wait: str


def simulate(
    stream: Sequence[Instruction], memories: Mapping[str, NDArray[Any]] | None, machine: Machine = MACHINE
) -> Report:
    """Run `stream`. memories: the content of each, flat, written in place; None looks at the time alone.

    Raises QueueDeadlock (TW0443) and TokenLeft (TW0444); with memories QueueRace (TW0442) and ScratchpadFault (TW0445) too.
    """
    queues = _Queues(stream, machine)
    checked = None if memories is None else _Memories(stream, memories)
    while (turn := queues.next_turn()) is not None:
        instruction, known, number = queues.begin(turn)
        if checked is not None:
            checked.run(instruction, turn.unit, known, number)
    queues.check_end()
    if checked is not None and checked.fault is not None:
        raise checked.fault
    return queues.report


class _Queues:
    """The three queues, and the tokens on their way."""

    def __init__(self, stream: Sequence[Instruction], machine: Machine) -> None:
        self.machine, self.report = machine, Report(machine, instructions=len(stream))
        self.queues = tuple(deque(each for each in stream if each.unit == unit) for unit in UNITS)
        self.tokens = {(giver, taker): deque[_Token]() for giver in UNITS for taker in UNITS}
        self.free = [0] * len(UNITS)
        self.dram_free = 0
        self.known = [[0] * len(UNITS) for _ in UNITS]

    def next_turn(self) -> _Turn | None:
        """The unit that can begin first; None where none can."""
        turns = [turn for unit in range(len(UNITS)) if (turn := self._turn(unit)) is not None]
        return min(turns, key=lambda turn: turn.begin, default=None)

    def _turn(self, unit: int) -> _Turn | None:
        if not self.queues[unit]:
            return None
        instruction, begin, wait = self.queues[unit][0], self.free[unit], ""
        for giver in instruction.pops:
            tokens = self.tokens[giver, UNITS[unit]]
            if not tokens:
                return None
            if tokens[0].time > begin:
                begin, wait = tokens[0].time, f"a token of {giver}"
        if instruction.op == "dma_copy2d" and self.dram_free > begin:
            begin, wait = self.dram_free, "dram"
        return _Turn(begin, unit, wait)

    def begin(self, turn: _Turn) -> tuple[Instruction, Sequence[int], int]:
        """Take the instruction from its queue and note its times: it, what its unit knows when it begins, its number there."""
        unit, report = turn.unit, self.report
        instruction = self.queues[unit].popleft()
        for giver in instruction.pops:
            token = self.tokens[giver, UNITS[unit]].popleft()
            self.known[unit] = [max(mine, its) for mine, its in zip(self.known[unit], token.known, strict=True)]
        cycles, known = _cycles(instruction, self.machine), list(self.known[unit])
        if turn.wait:
            key = (UNITS[unit], turn.wait)
            report.stalls[key] = report.stalls.get(key, 0) + turn.begin - self.free[unit]
        end = self.free[unit] = turn.begin + cycles
        if instruction.op == "dma_copy2d":
            self.dram_free = end - self.machine.dma_setup  # the next copy prepares while this one ends
        self.known[unit][unit] += 1
        for taker in instruction.pushes:
            self.tokens[UNITS[unit], taker].append(_Token(end, tuple(self.known[unit])))
        report.busy[UNITS[unit]] += cycles
        report.cycles = max(report.cycles, end)
        report.products += instruction.products
        report.dram_bytes += instruction.dram_bytes
        report.spans.append((UNITS[unit], turn.begin, end, instruction))
        return instruction, known, self.known[unit][unit]

    def check_end(self) -> None:
        """Raise where instructions or tokens are left."""
        waiting = [queue[0] for queue in self.queues if queue]
        if waiting:
            raise QueueDeadlock(
                f"deadlock of the queues with {sum(map(len, self.queues))} instructions left",
                called=user_source(),
                reason="; ".join(f"`{each}` waits for a token of {', '.join(each.pops)}" for each in waiting),
                fix="every pop_dep_from needs a push_dep_to on the other side, before it in program order",
            )
        left = next(((giver, taker, len(tokens)) for (giver, taker), tokens in self.tokens.items() if tokens), None)
        if left is not None:
            raise TokenLeft(
                f"of the tokens from {left[0]} to {left[1]}, {left[2]} were never taken",
                called=user_source(),
                reason="a wait is missing, and whatever waits behind it takes a token that was meant for another",
                fix=f"every {left[0]}.push_dep_to({left[1]}) needs one {left[1]}.pop_dep_from({left[0]})",
            )


def _cycles(instruction: Instruction, machine: Machine) -> int:
    """Look up the cycles in the table."""
    if instruction.op == "gemm":
        first, second = (operand.place.memory for operand in instruction.operands[1:])
        return machine.gemm_cycles(prod(instruction.extents[:-2]), first == second)
    if instruction.op != "dma_copy2d":
        return machine.alu_cycles(prod(instruction.extents))
    dram = next(each for each in instruction.operands if each.place.is_dram)
    width = instruction.extents[-1] if instruction.extents and dram.strides[-1] == 1 else 1
    return machine.dma_cycles(prod(instruction.extents) // width, width * np.dtype(dram.place.dtype).itemsize)


class _Memories:
    """The memories, what of the scratchpads has been written, and who touched what."""

    def __init__(self, stream: Sequence[Instruction], memories: Mapping[str, NDArray[Any]]) -> None:
        self.content = memories
        self.history = History(stream, {name: len(memory) for name, memory in memories.items()})
        self.written = {name: np.zeros(len(memories[name]), np.bool_) for name in MACHINE.scratchpads}
        self.order: tuple[list[Instruction], ...] = tuple([] for _ in UNITS)
        self.fault: ScratchpadFault | None = None
        """The first read of what nobody had written: raised at the end, since whoever writes it too late is a race."""

    def run(self, instruction: Instruction, unit: int, known: Sequence[int], number: int) -> None:
        """Check an instruction, then do it. known: up to where each unit has ended; number: its own in its unit."""
        for operand in instruction.operands:
            self._check_place(instruction, operand)
        for operand in instruction.reads:
            self._check_written(instruction, operand)
        self.order[unit].append(instruction)
        for other, last in enumerate(self.history.before(instruction)):
            if other != unit and last > known[other]:
                raise QueueRace(
                    f"`{self.order[other][last - 1]}` and `{instruction}` access the same address",
                    called=user_source(),
                    reason=f"{UNITS[other]} and {UNITS[unit]} run in parallel, and no token orders these two instructions",
                    fix=f"{UNITS[other]}.push_dep_to({UNITS[unit]}) behind the one, "
                    f"{UNITS[unit]}.pop_dep_from({UNITS[other]}) before the other",
                )
        self.history.note(instruction, number)
        _DO[instruction.op](instruction, [self._elements(instruction, each) for each in instruction.operands])
        target = instruction.operands[0]
        if target.place.memory in self.written:
            self.written[target.place.memory][self._offsets(instruction, target)] = True

    def _check_place(self, instruction: Instruction, operand: Operand) -> None:
        low, high, _ = accessed_offsets(instruction.extents, operand.strides)
        if operand.offset + low < 0 or operand.offset + high > operand.place.size:
            raise ScratchpadFault(
                f"`{instruction}` leaves {operand.place.name}",
                called=user_source(),
                reason=f"it touches elements {operand.offset + low} to {operand.offset + high - 1} of "
                f"{operand.place.size}",
                fix="the first element and the strides must stay in the buffer",
            )

    def _check_written(self, instruction: Instruction, operand: Operand) -> None:
        written = self.written.get(operand.place.memory)
        if self.fault is None and written is not None and not written[self._offsets(instruction, operand)].all():
            self.fault = ScratchpadFault(
                f"`{instruction}` reads what nobody has written",
                called=user_source(),
                reason=f"elements of {operand.place.name} have no value yet",
                fix="a copy, or a fill, has to come before it",
            )

    def _offsets(self, instruction: Instruction, operand: Operand) -> NDArray[Any]:
        return grid(instruction.extents, operand.strides) + (operand.place.begin + operand.offset)

    def _elements(self, instruction: Instruction, operand: Operand) -> tuple[NDArray[Any], NDArray[Any]]:
        return self.content[operand.place.memory], self._offsets(instruction, operand)


_Elements = Sequence[tuple[NDArray[Any], NDArray[Any]]]
"""For each operand its memory and the places there, with a dimension for each loop."""


def _copy(instruction: Instruction, operands: _Elements) -> None:
    (target, to), (source, places) = operands
    target[np.broadcast_to(to, instruction.extents)] = np.broadcast_to(source[places], instruction.extents)


def _fill(instruction: Instruction, operands: _Elements) -> None:
    target, to = operands[0]
    target[to] = instruction.numbers[0]


def _product(instruction: Instruction, operands: _Elements) -> None:
    """int8 by int8 is exact in float64, and so is a sum of as many as fit into a scratchpad; int32 wraps."""
    (target, to), (first, rows), (second, lanes) = operands
    outer = instruction.extents[:-3]
    left = first[rows].astype(np.float64)[..., :, 0, :]
    right = second[lanes].astype(np.float64)[..., 0, :, :]
    result = np.broadcast_to(left @ np.swapaxes(right, -1, -2), (*outer, *instruction.extents[-3:-1]))
    again = tuple(at for at, stride in enumerate(instruction.operands[0].strides[:-3]) if not stride)
    np.add.at(target, to[..., 0], result.sum(axis=again, keepdims=True).astype(np.int64).astype(np.int32))


_UFUNCS: dict[str, np.ufunc] = {"add": np.add, "max": np.maximum, "min": np.minimum}


def _shift(instruction: Instruction, operands: _Elements) -> None:
    (target, to), (source, places) = operands
    target[to] = source[places] >> min(instruction.numbers[0], 31)


def _clip(instruction: Instruction, operands: _Elements) -> None:
    (target, to), (source, places) = operands
    low, high = instruction.numbers
    target[to] = np.clip(source[places], low, high)


def _arithmetic(instruction: Instruction, operands: _Elements) -> None:
    """Compute in place: elements may be the target of several steps, one after another."""
    (target, to), (first, places), *rest = operands
    other = rest[0][0][rest[0][1]] if rest else np.array(instruction.numbers[0], np.int32)
    operation = _UFUNCS[instruction.op]
    if instruction.operands[0] == instruction.operands[1]:
        operation.at(target, np.broadcast_to(to, instruction.extents), np.broadcast_to(other, instruction.extents))
    else:
        target[to] = operation(first[places], other)


_DO: dict[str, Callable[[Instruction, _Elements], None]] = {
    "dma_copy2d": _copy,
    "mov": _copy,
    "fill": _fill,
    "gemm": _product,
    "shr": _shift,
    "clip": _clip,
    **dict.fromkeys(_UFUNCS, _arithmetic),
}
