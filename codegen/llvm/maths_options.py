"""Instructions of a processor that code for functions and extrema of floats may use."""

from __future__ import annotations

from ...base.dataclass import dataclass

__all__ = ["PORTABLE", "MathsOptions"]


@dataclass(frozen=True)
class MathsOptions:
    """Options of mathematical functions.

    fast: errors up to 16 units in the last place instead of 2. fused: a * b + c with one rounding is an instruction.
    avx512: vectors of 4, 8 and 16 floats have AVX-512's instructions for exponents and mantissas. lanes: of a register.
    words: vectors of 32 words have AVX-512's instructions too. ranges: there are instructions for the greater of two floats, which
    know -0 from +0. seconds: those that do not give the second where one is a NaN or both are equal, as x86's do. extrema: those
    that give a NaN where one is, and know -0 from +0, as te.max does. permutes: eight lanes may be taken from a register in any
    order, by AVX2; bytes: and bytes from two, by AVX-512's VBMI. rounds: there is an instruction for the nearest integer.
    """

    fast: bool = False
    fused: bool = False
    avx512: bool = False
    lanes: int = 4
    words: bool = False
    ranges: bool = False
    seconds: bool = False
    permutes: bool = False
    rounds: bool = False
    bytes: bool = False
    extrema: bool = False


PORTABLE = MathsOptions()
"""What every machine can do."""
