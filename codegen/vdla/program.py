"""A program of the accelerator: what `f.kernels` of a build for "vdla" holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...base import dataclass, replace
from ...ir.constant import Constant
from ...ir.passes.common.remove_likely import remove_likely
from ...ir.passes.common.simplify import simplify
from ...ir.passes.common.target_facts import resolve_facts
from ...ir.stmt import Function
from ..abi.signature import unique_names
from .expand import expand
from .history import History
from .instructions import DRAM, UNITS, Instruction
from .intrinsics import FEATURE
from .machine import MACHINE, Machine
from .select import select
from .simulator import Report, simulate
from .threads import interleaved, kept

__all__ = ["Program", "build_program"]


@dataclass(frozen=True, slots=True)
class Program:
    """Program of the accelerator.

    stream: the instructions in program order, with their tokens. sizes: of each memory, in elements; dtypes: of their elements.
    constants: what of DRAM is known, by memory.
    """

    name: str
    stream: tuple[Instruction, ...]
    sizes: Mapping[str, int]
    dtypes: Mapping[str, str]
    constants: Mapping[str, Constant]

    @property
    def listing(self) -> str:
        """The instructions as text, a line each, with the tokens that they take and give."""
        width = len(str(len(self.stream)))
        return "\n".join(
            [
                f"; {self.name}: {len(self.stream)} instructions",
                *(f"{at:{width}}  {instruction}" for at, instruction in enumerate(self.stream)),
            ]
        )

    def replace_stream(self, stream: Sequence[Instruction]) -> Program:
        """The same memories with other instructions: for looking at what a change does."""
        return replace(self, stream=tuple(stream))

    def timed(self, machine: Machine = MACHINE) -> Report:
        """The cycles of a run, without its data. Raises QueueDeadlock (TW0443) and TokenLeft (TW0444)."""
        return simulate(self.stream, None, machine)

    def run(self, arguments: Mapping[str, NDArray[Any]]) -> Report:
        """Run it on arrays by the names of tensors, outputs being written in place. Everything is checked: raises QueueRace
        (TW0442), QueueDeadlock (TW0443), TokenLeft (TW0444) and ScratchpadFault (TW0445)."""
        memories = {f"{DRAM}:{name}": array.reshape(-1) for name, array in arguments.items()}
        memories |= {memory: constant.data.reshape(-1) for memory, constant in self.constants.items()}
        for memory, size in self.sizes.items():
            if memory not in memories:
                memories[memory] = np.zeros(size, self.dtypes[memory])
        return simulate(self.stream, memories)


def build_program(function: Function) -> Program:
    """The program of a lowered function (stage "loops") whose extents are numbers.

    Raises ScratchpadOverflow (TW0440) and NotOnAccelerator (TW0441).
    """
    prepared = remove_likely(simplify(resolve_facts(function, lambda name: name == FEATURE)))
    names = unique_names(function, ())
    hidden = {buffer: f"constant_{at}" for at, buffer in enumerate(function.constant_buffers)}
    given = {buffer: names[buffer] for buffer in function.buffers if buffer in names} | hidden
    expansion = expand(interleaved(select(prepared.body)), given, kept(prepared.body))
    dtypes = {scope: pad.dtype for scope, pad in MACHINE.scratchpads.items()}
    dtypes |= {place.memory: place.dtype for place in expansion.places.values()}
    constants = {f"{DRAM}:{hidden[buffer]}": held for buffer, held in function.constant_buffers.items()}
    stream = add_tokens(expansion.stream, expansion.sizes)
    return Program(function.name, stream, expansion.sizes, dtypes, constants)


# Tokens between queues: each instruction waits for what it needs of the other units, and for nothing more.
#
#     ld.dma_copy2d(A.inp ...); ld.push_dep_to(ex)
#     ex.pop_dep_from(ld); ex.gemm(C.acc, A.inp, B.wgt ...); ex.push_dep_to(ld)
#     ld.pop_dep_from(ex); ld.dma_copy2d(A.inp ...)                                     # into the place that was read
#
# Queues run by themselves, so what the program's order meant is lost but for tokens. In program order, an instruction needs of each
# other unit the last one that wrote what it reads, or touched what it writes. Where nothing that it knows of that unit is as late,
# one token goes from there to here; what the giver knew is known then too, so that nothing is waited for twice. Between two units
# tokens stay in order, as the queues that hold them do: the givers come later and later. Virtual threads have places of their own,
# so what belongs to one of them never waits for another, and copies go on while the array computes.


def add_tokens(stream: Sequence[Instruction], sizes: Mapping[str, int]) -> tuple[Instruction, ...]:
    """`stream`, in program order, with the tokens that keep its meaning. sizes: of each memory, in elements."""
    history = History(stream, sizes)
    known = [[0] * len(UNITS) for _ in UNITS]
    """By unit, up to which instruction of each unit everything has ended when its next one begins."""
    after: list[list[tuple[int, ...]]] = [[] for _ in UNITS]
    """By unit and instruction, what was known when it had ended."""
    places: list[list[int]] = [[] for _ in UNITS]
    pops: list[list[str]] = [[] for _ in stream]
    pushes: list[list[str]] = [[] for _ in stream]
    for at, instruction in enumerate(stream):
        unit = UNITS.index(instruction.unit)
        needed = history.before(instruction)
        for other in sorted(range(len(UNITS)), key=lambda other: -needed[other]):
            if other != unit and needed[other] > known[unit][other]:
                giver = needed[other] - 1
                pushes[places[other][giver]].append(UNITS[unit])
                pops[at].append(UNITS[other])
                known[unit] = [max(mine, its) for mine, its in zip(known[unit], after[other][giver], strict=True)]
        places[unit].append(at)
        known[unit][unit] = len(places[unit])
        after[unit].append(tuple(known[unit]))
        history.note(instruction, len(places[unit]))
    return tuple(
        replace(instruction, pops=tuple(taken), pushes=tuple(given)) if taken or given else instruction
        for instruction, taken, given in zip(stream, pops, pushes, strict=True)
    )
