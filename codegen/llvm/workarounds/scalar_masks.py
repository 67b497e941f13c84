"""A fault of LLVM 22's, and the way around it.

A load under a mask that is one condition for all lanes, and another one that holds for the first lanes of the first register
alone, is split into registers' loads of which later ones have a mask of zeros. Where that is seen too late, x86's code generator
ends the process by an assertion, or reads lanes that the mask leaves out, whether the two are joined by `and` or by `select`:

    masked.load(%p, select %whole, <1, 1, 1, 1, 1, 1, 0, ... 0>, zeros)      of 16 floats on AVX2
    →  masked.load(%p, <0, 1, 2 ... 15> < splat (select %whole, 6, least))

So a condition that all lanes share chooses the bound that the lanes are compared with: no part of the mask is a constant then.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from ....ir import EQ, GE, GT, LE, LT, And, Broadcast, BufferLoad, Expr, ProducerLoad, Ramp, Select, post_order
from ....ir.ops import conjuncts, const

if TYPE_CHECKING:
    from ..emitter import ExprEmitter

__all__ = ["CHOSEN", "PROGRAM", "VERSIONS", "emit_mask"]

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

CHOSEN = """
define void @f(ptr noalias %from, ptr noalias %to, i1 %whole) {
  %mask = select i1 %whole, <16 x i1> <i1 1, i1 1, i1 1, i1 1, i1 1, i1 1, i1 0, i1 0, i1 0, i1 0, i1 0, i1 0, i1 0, i1 0, i1 0, i1 0>,
    <16 x i1> zeroinitializer
  %v = call <16 x float> @llvm.masked.load.v16f32.p0(ptr align 4 %from, <16 x i1> %mask, <16 x float> zeroinitializer)
  %a = call <16 x float> @llvm.fabs.v16f32(<16 x float> %v)
  store <16 x float> %a, ptr %to, align 4
  ret void
}
declare <16 x float> @llvm.masked.load.v16f32.p0(ptr, <16 x i1>, <16 x float>)
declare <16 x float> @llvm.fabs.v16f32(<16 x float>)
"""
"""The same by a choice: the second register is loaded whole."""


def emit_mask(em: ExprEmitter, predicate: Expr) -> str:
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
    condition = reduce(And, shared)
    bounded = (
        [] if em.maths.avx512 else [_bound_comparison(part, condition) for part in own]
    )  # mask registers are split rightly
    if any(part is not None for part in bounded):
        joined = [part if part is not None else each for part, each in zip(bounded, own, strict=True)]
        return em.value(reduce(And, joined))
    kind = f"<{predicate.dtype.lanes} x i1>"
    whole, lanes = (
        reduce(lambda a, b, of=of: em.f.op(f"and {of} {a}, {b}"), map(em.value, each))
        for of, each in (("i1", shared), (kind, own))
    )
    return em.f.op(f"select i1 {whole}, {kind} {lanes}, {kind} zeroinitializer")


def _bound_comparison(part: Expr, condition: Expr) -> Expr | None:
    """A comparison of lanes with one number that holds for none of them unless `condition` does; None for what is none. Places are
    never at the ends of their type; data may be, which nothing is beyond."""
    if not isinstance(part, (LT, LE, GT, GE, EQ)) or not part.a.dtype.is_integer:
        return None
    loads = any(isinstance(node, (BufferLoad, ProducerLoad)) for node in post_order(part))
    if loads and not isinstance(part, (LT, GT)):
        return None
    below = isinstance(part, (LT, LE))
    for name, number, least in (("b", part.b, below), ("a", part.a, not below)):
        if isinstance(number, Broadcast) and number.value.dtype.lanes == 1:
            dtype = number.value.dtype
            bound = Select(condition, number.value, const(dtype.least if least else dtype.greatest, dtype))
            return replace(part, **{name: Broadcast(bound, number.lanes)})
    return None
