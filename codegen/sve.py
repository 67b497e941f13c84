"""SVE, whose vectors have 128 to 2048 bits, as the processor says.

Code for any length uses its registers as vectors of 128 bits: schedules need to know how many lanes there are. Code for
one length has whole registers, by LLVM's `vscale_range`, and is right on processors of that length alone: so what is
built here asks this machine, and what is exported asks the processor that loads it.
"""

from __future__ import annotations

__all__ = ["ANY_LENGTH", "CORES", "LENGTHS", "NEON_FIRST", "length_attribute"]

ANY_LENGTH = "scalable"
LENGTHS = ("128", "256", "512")
"""Bits that code can be made for, as clang's -msve-vector-bits has them: no processor that is made has longer vectors."""
CORES = {"a64fx": 512, "fujitsu-monaka": 256}
"""Processors with vectors of more than 128 bits, by LLVM's names, as their makers' manuals give them."""
NEON_FIRST = ("neoverse-v1",)
"""Processors whose four units of 128 bits do as much as SVE on two of 256: NEON takes an element of a register as a factor, where SVE needs
a vector of it, a fifth of what a product of matrices begins (docs/main-loops.md)."""


def length_attribute(bits: int) -> str:
    """Return the attribute for the vector length; nothing for 0. Such a function stays one: within one that says nothing
    LLVM would cut its vectors into those of 128 bits."""
    return f" noinline vscale_range({bits // 128},{bits // 128})" if bits else ""
