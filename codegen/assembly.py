"""Assembly by lines: each instruction with the line of the loops that it came from, whatever the machine."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..base import dataclass, replace

__all__ = ["AssemblyLine", "find_loops"]

_LABEL = re.compile(r"([.\w$]+):")


@dataclass(frozen=True, slots=True)
class AssemblyLine:
    """Line of assembly.

    text: an instruction, a label or a constant. line: of the text of the loops, from 1; 0 where it came from none, or
    from several, and for what is no instruction. within: the line of the innermost loop that it runs in, as far as the
    jumps tell; 0 for none.
    """

    text: str
    line: int
    is_instruction: bool
    within: int = 0


def find_loops(lines: Sequence[AssemblyLine], loops: set[int]) -> list[AssemblyLine]:
    """The lines with what they run in: from the target of each jump backwards that came from a loop, one of the lines `loops`, to
    the jump."""
    marked = list(lines)
    labels: dict[str, int] = {}
    for at, line in enumerate(lines):
        label = _LABEL.match(line.text)
        if label is not None and not line.is_instruction:
            labels[label[1]] = at
        elif line.is_instruction and line.line in loops:
            begin = labels.get(line.text.split()[-1])
            for inner in range(at + 1 if begin is None else begin, at + 1):
                if not marked[inner].within:  # inner loops end first
                    marked[inner] = replace(marked[inner], within=line.line)
    return marked
