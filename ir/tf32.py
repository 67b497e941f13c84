"""Rounding to TF32 as an expression: to 10 bits of mantissa, to the nearest, halves away from zero (cvt.rna.tf32.f32)."""

from __future__ import annotations

from . import ops
from .expr import EQ, Expr, Select
from .structural import structural_key

__all__ = ["round_tf32", "unwrap_tf32"]

_DROPPED = 13
"""Bits of a float32's mantissa that TF32 has not."""


def round_tf32(value: Expr) -> Expr:
    """A float32 rounded to TF32; a NaN stays as it is."""
    bits = ops.call("reinterpret", value, dtype="uint32")
    kept = ops.call("bitwise_and", bits + (1 << _DROPPED - 1), ops.const(0xFFFFFFFF >> _DROPPED << _DROPPED, "uint32"))
    return ops.select(value.equal(value), ops.call("reinterpret", kept, dtype="float32"), value)


def unwrap_tf32(value: Expr) -> Expr:
    """Return what is rounded, where a value is something rounded to TF32; else the value."""
    if not isinstance(value, Select) or not isinstance(value.condition, EQ):
        return value
    return value.condition.a if structural_key(value) == structural_key(round_tf32(value.condition.a)) else value
