"""TF32: float32 with 10 bits of mantissa, what NVIDIA's tensor cores multiply where float32 is asked of them.

    C[i, j] = te.sum(te.tf32(A[i, k]) * te.tf32(B[k, j]), axis=k)

The rounding is written, so that it is the same on every target and no schedule changes it. It is cvt.rna.tf32.f32 of the PTX ISA:
to the nearest, halves away from zero.
"""

from __future__ import annotations

from typing import Any

from ..ir import ops
from ..ir.dtype import FLOAT32
from ..ir.expr import EQ, Expr, Select
from ..ir.structural import structural_key
from .elementwise import lift

__all__ = ["tf32", "unwrap_tf32"]

_DROPPED = 13
"""Bits of a float32's mantissa that TF32 has not."""


@lift
def tf32(x: Any) -> Any:
    """x as float32, rounded to 10 bits of mantissa: to the nearest, halves away from zero. What exceeds the greatest becomes
    infinite, a NaN stays one, zeros keep their sign. Of tensors it is a tensor. Raises NotAnExpression (TW0106)."""
    return _round(ops.cast(ops.convert(x), FLOAT32))


def _round(value: Expr) -> Expr:
    bits = ops.call("reinterpret", value, dtype="uint32")
    kept = ops.call("bitwise_and", bits + (1 << _DROPPED - 1), ops.const(0xFFFFFFFF >> _DROPPED << _DROPPED, "uint32"))
    return ops.select(value.equal(value), ops.call("reinterpret", kept, dtype="float32"), value)


def unwrap_tf32(value: Expr) -> Expr:
    """Return what is rounded, where a value is something rounded to TF32; else the value."""
    if not isinstance(value, Select) or not isinstance(value.condition, EQ):
        return value
    return value.condition.a if structural_key(value) == structural_key(_round(value.condition.a)) else value
