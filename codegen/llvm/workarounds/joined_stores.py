"""A fault of LLVM 22's, and the way around it.

LLVM's vectorizer of straight lines can join stores before one of their values is computed. Emitting such code ends the process;
so it is verified first, and made again with less of LLVM's vectorizers until it is valid.

    for tile in 3:  for i, j in 4, 4:  C[i, tile * 4 + j] = sum of A[i, k] * B[tile * 4 + j, k], k in 4;  then D = C + 1
"""

from __future__ import annotations

__all__ = ["ATTEMPTS", "VERSIONS"]

VERSIONS = (22,)

ATTEMPTS = ((True, True), (True, False), (False, False))
"""Whether LLVM looks for loops, and for straight lines, that the schedule left scalar: one after the other until the code is
valid."""
