"""16 dot products of 4 bytes, unsigned by signed or signed by unsigned, added to 16 sums of 32 bits.

    c[i] += a[0] * b[i, 0] + ... + a[3] * b[i, 3]      a: uint8[4], b: int8[16, 4] compact, c: int32[16]
                                                       a: int8[4], b: uint8[16, 4] compact, c: int32[16]

One instruction (vpdpbusd) with AVX-512 VNNI; elsewhere products of bytes, of which neighbours are added twice. Exact
either way.
"""

from __future__ import annotations

from ...ir.buffer import Buffer
from ...ir.builder import ir_builder
from ...ir.dtype import DType
from ...ir.expr import Expr, Shuffle
from ...ir.ops import call, cast
from ...ir.stmt import Stmt
from ..extern_calls import call_llvm_intrin, target_has
from ..tensor_intrin import TensorIntrin
from .dots import LANES, declare_dots
from .registry import shipped

__all__ = ["dot_i8u8_16x4", "dot_u8i8_16x4"]

GROUP = 4
_SUMS = DType("int32x16")


@shipped("x86.dot_u8i8_16x4")
def dot_u8i8_16x4() -> TensorIntrin:
    """The intrinsic. For `te.sum(A[..., k].astype("int32") * B[..., i, k].astype("int32"), axis=k)` over 16 i and 4 k,
    B being packed so that the 64 bytes lie side by side."""
    return declare_dots("dot_u8i8_16x4", ("uint8", "int8"), GROUP, "int32", _dot)


@shipped("x86.dot_i8u8_16x4")
def dot_i8u8_16x4() -> TensorIntrin:
    """The same with the signs exchanged: A[..., k] is int8, and the packed B[..., i, k] uint8."""
    return declare_dots("dot_i8u8_16x4", ("int8", "uint8"), GROUP, "int32", _dot)


def _dot(a: Buffer, b: Buffer, c: Buffer, sums: Expr) -> Stmt:
    ib = ir_builder()
    quad = call("reinterpret", a.vload([0], a.dtype.with_lanes(GROUP)), dtype="int32")
    bytes_of_a = call("reinterpret", cast(quad, _SUMS), dtype=a.dtype.with_lanes(LANES * GROUP))
    bytes_of_b = b.vload([0, 0], b.dtype.with_lanes(LANES * GROUP))
    with ib.if_scope(target_has("avx512vnni")):
        unsigned, signed = (bytes_of_a, bytes_of_b) if a.dtype == "uint8" else (bytes_of_b, bytes_of_a)
        ib.emit(c.vstore([0], call_llvm_intrin(_SUMS, "llvm.x86.avx512.vpdpbusd.512", sums, unsigned, signed)))
    with ib.else_scope():
        products = cast(bytes_of_a, "int32x64") * cast(bytes_of_b, "int32x64")
        ib.emit(c.vstore([0], sums + _neighbours_added(_neighbours_added(products))))
    return ib.get()


def _neighbours_added(values: Expr) -> Expr:
    """v[0] + v[1], v[2] + v[3] ...: of products of bytes this is one instruction on most processors."""
    lanes = values.dtype.lanes
    return Shuffle((values,), tuple(range(0, lanes, 2))) + Shuffle((values,), tuple(range(1, lanes, 2)))
