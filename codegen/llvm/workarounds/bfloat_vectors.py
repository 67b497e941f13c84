"""A fault of LLVM 22's, and the way around it.

There are vectors of bfloat that its code generators cannot make, of which they say so by ending the process:

    masked loads of <8 x bfloat> on ARM      →      LLVM ERROR: Cannot select: v8bf16,ch = masked_load<...>

So a bfloat16 is its bits, an integer of 16 bits, in registers and in memory; only the instructions of AVX512-BF16 see a bfloat.
"""

from __future__ import annotations

__all__ = ["CARRIED_AS", "CPU", "PROGRAM", "TRIPLE", "VERSIONS"]

VERSIONS = (22,)

CARRIED_AS = "i16"
"""LLVM's type of a value of bfloat16."""

TRIPLE, CPU = "aarch64-unknown-linux-gnu", "neoverse-v1"
PROGRAM = """
declare <8 x bfloat> @llvm.masked.load.v8bf16.p0(ptr, <8 x i1>, <8 x bfloat>)

define void @f(ptr %from, ptr %to, <8 x i1> %where) {
  %v = call <8 x bfloat> @llvm.masked.load.v8bf16.p0(ptr align 2 %from, <8 x i1> %where, <8 x bfloat> zeroinitializer)
  store <8 x bfloat> %v, ptr %to
  ret void
}
"""
"""Ends the process that emits it, with the fault."""
