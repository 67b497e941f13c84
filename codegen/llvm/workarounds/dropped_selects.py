"""A fault of LLVM 22's, and the way around it.

A select that is a maximum with 0 is taken for a number that is never below 0, and a second maximum with 0 behind it is dropped; but
a NaN comes through the first one, and was made 0 by the second:

    %m = select (fcmp olt %x, 0), 0, %x;  %n = select (fcmp ogt %m, 0), %m, 0      a NaN: %m is a NaN, %n is 0
    →  %n = %m                                                                     fptoui of it is poison

So maxima are calls of llvm.maximum, never selects (arithmetic.emit_maximum), and what a NaN becomes is chosen last, by a question
of its own.
"""

from __future__ import annotations

from ....ir.dtype import BOOL, DType
from ..text import FunctionText
from ..types import llvm_type, zero

__all__ = ["PROGRAM", "VERSIONS", "zero_for_nan"]

VERSIONS = (22,)

PROGRAM = """
define i32 @f(float %x) {
  %negative = fcmp olt float %x, 0.0
  %m = select i1 %negative, float 0.0, float %x
  %positive = fcmp ogt float %m, 0.0
  %n = select i1 %positive, float %m, float 0.0
  %r = fptoui float %n to i32
  ret i32 %r
}
"""
"""A float as an unsigned integer, and 0 for a NaN: with the fault the second select is gone."""


def zero_for_nan(f: FunctionText, value: str, source: DType, result: str, target: DType) -> str:
    """`result`, of dtype `target`, and 0 where `value`, of dtype `source`, is a NaN."""
    nan = f.op(f"fcmp uno {llvm_type(source)} {value}, {value}")
    kind = llvm_type(target)
    return f.op(f"select {llvm_type(BOOL.with_lanes(target.lanes))} {nan}, {kind} {zero(target)}, {kind} {result}")
