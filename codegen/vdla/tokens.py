"""Tokens between queues: each instruction waits for what it needs of the other units, and for nothing more.

    ld.dma_copy2d(A.inp ...); ld.push_dep_to(ex)
    ex.pop_dep_from(ld); ex.gemm(C.acc, A.inp, B.wgt ...); ex.push_dep_to(ld)
    ld.pop_dep_from(ex); ld.dma_copy2d(A.inp ...)                                     # into the place that was read

Queues run by themselves, so what the program's order meant is lost but for tokens. In program order, an instruction needs of each
other unit the last one that wrote what it reads, or touched what it writes. Where nothing that it knows of that unit is as late,
one token goes from there to here; what the giver knew is known then too, so that nothing is waited for twice. Between two units
tokens stay in order, as the queues that hold them do: the givers come later and later. Virtual threads have places of their own,
so what belongs to one of them never waits for another, and copies go on while the array computes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from .history import History
from .instructions import UNITS, Instruction

__all__ = ["with_tokens"]


def with_tokens(stream: Sequence[Instruction], sizes: Mapping[str, int]) -> tuple[Instruction, ...]:
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
