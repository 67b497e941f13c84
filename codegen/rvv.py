"""RVV, RISC-V's vectors, whose registers have 128 bits or more, as the processor says.

Code is for registers that have at least so many bits (+zvl256b, or what the named processor has): how long a vector is stands in
each operation, so that the same code is right on longer registers, parts of which stay unused. What a library was made for it
asks the processor that loads it.
"""

from __future__ import annotations

import re

__all__ = ["register_bits"]

_GROUP = re.compile(r"vseti?vli\t.*\be32, m(f?)(\d)")


def register_bits(assembly: str) -> int:
    """The bits of a register, from the code of a sum of 16 floats; 0 where that takes no vectors."""
    group = _GROUP.search(assembly)
    if group is None:
        return 0
    return 512 * int(group[2]) if group[1] else 512 // int(group[2])
