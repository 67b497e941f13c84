"""16 dot products of 2 bfloat16, added to 16 sums of float32.

    c[i] += a[0] * b[i, 0] + a[1] * b[i, 1]            a: bfloat16[2], b: bfloat16[16, 2] compact, c: float32[16]

One instruction (vdpbf16ps) with AVX512-BF16, which takes subnormal numbers as 0 and rounds each of the two additions to
nearest. Two multiply-adds for four sums (bfmlalb, bfmlalt) with AArch64's BF16; elsewhere, conversions and multiply-adds in float32.
"""

from __future__ import annotations

from ...ir import Buffer, DType, Expr, Shuffle, Stmt
from ...ir.builder import ir_builder
from ...ir.combine import mul_add
from ...ir.ops import call, cast
from ..extern_calls import call_llvm_intrin, target_has
from ..tensor_intrin import TensorIntrin
from .arm_dots import BF16, WIDTH, bfloat_pairs_added
from .dots import LANES, declare_dots
from .registry import register_intrinsic

__all__ = ["dot_bf16_16x2"]

GROUP = 2
_SUMS = DType("float32x16")
_PAIRS = DType("bfloat16x32")


@register_intrinsic("x86.dot_bf16_16x2")
def dot_bf16_16x2() -> TensorIntrin:
    """The intrinsic. For `te.sum(A[..., k].astype("float32") * B[..., i, k].astype("float32"), axis=k)` over 16 i and 2 k,
    B being packed so that the 32 numbers lie side by side."""
    return declare_dots("dot_bf16_16x2", ("bfloat16", "bfloat16"), GROUP, "float32", _dot)


def _dot(a: Buffer, b: Buffer, c: Buffer, sums: Expr) -> Stmt:
    ib = ir_builder()
    pairs = b.vload([0, 0], _PAIRS)
    with ib.if_scope(target_has("avx512bf16")):
        pair = call("reinterpret", a.vload([0], "bfloat16x2"), dtype="int32")
        everywhere = call("reinterpret", cast(pair, "int32x16"), dtype=_PAIRS)
        ib.emit(c.vstore([0], call_llvm_intrin(_SUMS, "llvm.x86.avx512bf16.dpbf16ps.512", sums, everywhere, pairs)))
    with ib.else_scope():
        with ib.if_scope(target_has(BF16)):
            pair = call("reinterpret", a.vload([0], "bfloat16x2"), dtype="int32")
            left = call("reinterpret", cast(pair, "int32x4"), dtype="bfloat16x8")
            quarters = [
                bfloat_pairs_added(Shuffle((sums,), tuple(range(at, at + WIDTH))), left, b.vload([at, 0], "bfloat16x8"))
                for at in range(0, LANES, WIDTH)
            ]
            ib.emit(c.vstore([0], Shuffle(tuple(quarters), tuple(range(LANES)))))
        with ib.else_scope():
            for k in range(GROUP):
                ones = Shuffle((pairs,), tuple(range(k, LANES * GROUP, GROUP)))
                sums = mul_add(cast(cast(a.vload([k]), "float32"), _SUMS), cast(ones, _SUMS), sums)
            ib.emit(c.vstore([0], sums))
    return ib.get()
