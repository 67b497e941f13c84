"""Two faults of LLVM 22's, and the way around them.

LLVM's vectorizer of straight lines can join stores before one of their values is computed. So can what takes local buffers apart
(SROA): the parts of a vector that is read whole are joined where the store to the last of them stands, though it be the first to
run, as that of zeros behind a row. Emitting such code ends the process; so it is verified first, and made again with less of LLVM's
vectorizers, and then with loops that stay, until it is valid.

    for tile in 3:  for i, j in 4, 4:  C[i, tile * 4 + j] = sum of A[i, k] * B[tile * 4 + j, k], k in 4;  then D = C + 1
    C = topi.matmul(A, B, False, True)  of (2, 3) and (6, 3)
"""

from __future__ import annotations

__all__ = ["ATTEMPTS", "PROGRAM", "VERSIONS"]

VERSIONS = (22,)

ATTEMPTS = (
    (True, True, True, 3),
    (True, False, True, 3),
    (False, False, True, 3),
    (True, True, False, 3),
    (False, False, False, 0),
)
"""Whether LLVM looks for loops, and for straight lines, that the schedule left scalar, and takes small loops apart, and its level:
one after the other until the code is valid."""

PROGRAM = """
define void @f(ptr noalias %p, ptr noalias %q) {
  %s = alloca [8 x float], align 64
  %zeros = getelementptr inbounds float, ptr %s, i64 4
  store <4 x float> zeroinitializer, ptr %zeros, align 16
  %row = load <4 x float>, ptr %p, align 4
  store <4 x float> %row, ptr %s, align 64
  br label %next
next:
  %v = load <8 x float>, ptr %s, align 32
  %w = fadd <8 x float> %v, %v
  store <8 x float> %w, ptr %q, align 4
  ret void
}
"""
