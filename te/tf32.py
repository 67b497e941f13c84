"""TF32: float32 with 10 bits of mantissa, what NVIDIA's tensor cores multiply where float32 is asked of them.

    C[i, j] = te.sum(te.tf32(A[i, k]) * te.tf32(B[k, j]), axis=k)

The rounding is written, so that it is the same on every target and no schedule changes it. It is cvt.rna.tf32.f32 of the PTX ISA:
to the nearest, halves away from zero.
"""

from __future__ import annotations

from typing import Any

from ..ir import ops
from ..ir.dtype import FLOAT32
from ..ir.tf32 import round_tf32
from .elementwise import lift

__all__ = ["tf32"]


@lift
def tf32(x: Any) -> Any:
    """x as float32, rounded to 10 bits of mantissa: to the nearest, halves away from zero. What exceeds the greatest becomes
    infinite, a NaN stays one, zeros keep their sign. Of tensors it is a tensor. Raises NotAnExpression (TW0106)."""
    return round_tf32(ops.cast(ops.convert(x), FLOAT32))
