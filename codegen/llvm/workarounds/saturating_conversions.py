"""A fault of LLVM 22's, and the way around it.

A conversion that saturates is taken apart into single lanes on x86, with two comparisons for each:

    llvm.fptosi.sat.v8i32.v8f32      →      vcvttss2si, vucomiss, cmova, vucomiss, cmovp, vpinsrd     eight times

So values are clamped first, by comparisons of whole vectors, and converted by the plain instruction (arithmetic.convert).
"""

from __future__ import annotations

from ....ir.dtype import BOOL, DType
from ..text import FunctionText
from ..types import float_constant, llvm_type

__all__ = ["PROGRAM", "VERSIONS", "clamped"]

VERSIONS = (22,)

PROGRAM = """
declare <8 x i32> @llvm.fptosi.sat.v8i32.v8f32(<8 x float>)

define void @f(ptr %from, ptr %to) {
  %x = load <8 x float>, ptr %from
  %r = call <8 x i32> @llvm.fptosi.sat.v8i32.v8f32(<8 x float> %x)
  store <8 x i32> %r, ptr %to
  ret void
}
"""


def clamped(f: FunctionText, value: str, source: DType, low: float, high: float) -> str:
    """A float of dtype `source` within [low, high]; `low` for a NaN."""
    kind, condition = llvm_type(source), llvm_type(BOOL.with_lanes(source.lanes))
    for bound, comparison in ((low, "ogt"), (high, "olt")):
        end = float_constant(bound, source)
        within = f.op(f"fcmp {comparison} {kind} {value}, {end}")
        value = f.op(f"select {condition} {within}, {kind} {value}, {kind} {end}")
    return value
