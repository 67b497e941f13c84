"""A fault of LLVM 22's, and the way around it.

A load under a mask that is one condition for all lanes, and another one that holds for the first lanes of the first register
alone, is split into registers' loads of which later ones have a mask of zeros. Where that is seen too late, x86's code generator
ends the process by an assertion, or reads lanes that the mask leaves out:

    masked.load(%p, and (splat %whole), <1, 1, 1, 1, 1, 1, 0, ... 0>)      of 32 floats on AVX2
    →  masked.load(%p, select %whole, <1, 1, 1, 1, 1, 1, 0, ... 0>, zeros)

So masks choose by a condition that all lanes share, rather than to spread it over the lanes.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from ....ir.expr import Broadcast, Expr, Ramp
from ....ir.ops import conjuncts
from ....ir.visit import post_order

if TYPE_CHECKING:
    from ..emitter import ExprEmitter

__all__ = ["PROGRAM", "VERSIONS", "mask_of"]

VERSIONS = (22,)

PROGRAM = """
define void @f(ptr noalias %from, ptr noalias %to, i1 %whole) {
  %all = insertelement <32 x i1> poison, i1 %whole, i64 0
  %spread = shufflevector <32 x i1> %all, <32 x i1> poison, <32 x i32> zeroinitializer
  %mask = and <32 x i1> %spread, <i1 1, i1 1, i1 1, i1 1, i1 1, i1 1, i1 0, i1 0, i1 0, i1 0, i1 0, i1 0, i1 0, i1 0, i1 0, i1 0,
    i1 0, i1 0, i1 0, i1 0, i1 0, i1 0, i1 0, i1 0, i1 0, i1 0, i1 0, i1 0, i1 0, i1 0, i1 0, i1 0>
  %v = call <32 x float> @llvm.masked.load.v32f32.p0(ptr align 4 %from, <32 x i1> %mask, <32 x float> zeroinitializer)
  store <32 x float> %v, ptr %to, align 4
  ret void
}
declare <32 x float> @llvm.masked.load.v32f32.p0(ptr, <32 x i1>, <32 x float>)
"""


def mask_of(em: ExprEmitter, predicate: Expr) -> str:
    """The value of a predicate over lanes, or of a scalar one."""
    parts = conjuncts(predicate) if predicate.dtype.lanes > 1 else []
    shared = [part.value for part in parts if isinstance(part, Broadcast) and part.value.dtype.lanes == 1]
    own = [
        part
        for part in parts
        if not isinstance(part, Broadcast) and any(isinstance(node, Ramp) for node in post_order(part))
    ]
    if not shared or not own or len(shared) + len(own) < len(parts):
        return em.value(predicate)
    kind = f"<{predicate.dtype.lanes} x i1>"
    whole, lanes = (
        reduce(lambda a, b, of=of: em.f.op(f"and {of} {a}, {b}"), map(em.value, each))
        for of, each in (("i1", shared), (kind, own))
    )
    return em.f.op(f"select i1 {whole}, {kind} {lanes}, {kind} zeroinitializer")
