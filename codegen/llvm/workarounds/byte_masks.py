"""A fault of LLVM 22's, and the way around it.

A few comparisons of bytes, side by side, are made 16 on AVX-512, and what is found for those that nobody asked for is shifted
into the mask of the few:

    %c = icmp eq <8 x i8> %x, zeroinitializer; %next = %c shifted by a lane, with false at the end
    →  vptestnmb %xmm0, %xmm0, %k0;  kshiftrw $1, %k0, %k1        the last lane is that of the ninth byte, which is 0

Such vectors are what LLVM's vectorizer of straight lines makes of scalar comparisons: where they come out of it, the code is
made again without it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["VERSIONS", "has_short_masks", "may_get_short_masks"]

VERSIONS = (22,)

_NARROW_COMPARE = re.compile(r"icmp \w+ i(8|16) ")
_SHORT_MASKS = re.compile(r"shufflevector <[248] x i1>")


def may_get_short_masks(parts: Iterable[str]) -> bool:
    """Return whether there are scalar comparisons of bytes or words in the texts of a module."""
    return any(_NARROW_COMPARE.search(part) for part in parts)


def has_short_masks(text: str) -> bool:
    """Return whether lanes of masks of a few lanes are moved in the text of a module."""
    return _SHORT_MASKS.search(text) is not None
