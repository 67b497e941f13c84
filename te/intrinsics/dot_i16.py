"""16 dot products of 2 numbers of 16 bits, added to 16 sums of 32 bits.

    c[i] += a[0] * b[i, 0] + a[1] * b[i, 1]            a: int16[2], b: int16[16, 2] or int8[16, 2] compact, c: int32[16]

Products of which neighbours are added: LLVM knows one instruction for that (vpmaddwd), and with AVX-512 VNNI for the addition too
(vpdpwssd). On AArch64 multiply-adds of the first numbers, and of the second ones (smlal), take half as many. Exact, but for
(-2**15)**2 twice, which wraps as int32 does: what is a difference of bytes stays far from that.
"""

from __future__ import annotations

from ...ir import Buffer, DType, Expr, Shuffle, Stmt
from ...ir.builder import ir_builder
from ...ir.ops import call, cast
from ..extern_calls import target_has
from ..tensor_intrin import TensorIntrin
from .dots import LANES, declare_dots, neighbours_added
from .registry import register_intrinsic

__all__ = ["dot_i16_16x2", "dot_i16i8_16x2"]

GROUP = 2
_SUMS = DType("int32x16")
_PAIRS = DType("int16x32")


@register_intrinsic("x86.dot_i16_16x2")
def dot_i16_16x2() -> TensorIntrin:
    """The intrinsic. For `te.sum(A[..., k].astype("int32") * B[..., i, k].astype("int32"), axis=k)` over 16 i and 2 k,
    B being packed so that the 32 numbers lie side by side."""
    return declare_dots("dot_i16_16x2", ("int16", "int16"), GROUP, "int32", _dot)


@register_intrinsic("x86.dot_i16i8_16x2")
def dot_i16i8_16x2() -> TensorIntrin:
    """The same with a B of bytes, which are widened as they are loaded."""
    return declare_dots("dot_i16i8_16x2", ("int16", "int8"), GROUP, "int32", _dot)


def _dot(a: Buffer, b: Buffer, c: Buffer, sums: Expr) -> Stmt:
    ib = ir_builder()
    pairs = cast(b.vload([0, 0], b.dtype.with_lanes(LANES * GROUP)), _PAIRS)
    with ib.if_scope(target_has("neon")):
        added = sums
        for k in range(GROUP):
            ones = Shuffle((pairs,), tuple(range(k, LANES * GROUP, GROUP)))
            added = added + cast(cast(a.vload([k]), ones.dtype), _SUMS) * cast(ones, _SUMS)
        ib.emit(c.vstore([0], added))
    with ib.else_scope():
        pair = call("reinterpret", a.vload([0], a.dtype.with_lanes(GROUP)), dtype="int32")
        everywhere = cast(pair, _SUMS)
        products = cast(call("reinterpret", everywhere, dtype=_PAIRS), "int32x32") * cast(pairs, "int32x32")
        ib.emit(c.vstore([0], sums + neighbours_added(products)))
    return ib.get()
