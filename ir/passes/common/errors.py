"""Errors of passes: TW0360 to TW0379."""

from __future__ import annotations

from ....base.errors import LoweringError


class UnrollNotConstant(LoweringError):
    """A loop that was to be unrolled has an extent that is not known when the kernel is built."""

    code = "TW0360"


class UnrollTooLarge(LoweringError):
    """Unrolling would make a program too large to compile."""

    code = "TW0361"


class PackedPointer(LoweringError):
    """A program speaks of the address of an integer of 4 bits, of which two share a byte, or of strides between them."""

    code = "TW0362"
