"""16 dot products of 4 bytes, unsigned by signed or signed by unsigned, added to 16 sums of 32 bits.

    c[i] += a[0] * b[i, 0] + ... + a[3] * b[i, 3]      a: uint8[4], b: int8[16, 4] compact, c: int32[16]
                                                       a: int8[4], b: uint8[16, 4] compact, c: int32[16]

One instruction (vpdpbusd) with AVX-512 VNNI; elsewhere products of pairs of 16 bits (vpmaddwd), those of the bytes at even places
and those of the others. Exact either way.
"""

from __future__ import annotations

from ...ir.buffer import Buffer
from ...ir.builder import ir_builder
from ...ir.dtype import DType
from ...ir.expr import Expr
from ...ir.ops import call, cast, const
from ...ir.stmt import Stmt
from ..extern_calls import call_llvm_intrin, target_has
from ..tensor_intrin import TensorIntrin
from .dots import LANES, declare_dots, neighbours_added
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
        for ours, theirs in zip(_in_halves(bytes_of_a), _in_halves(bytes_of_b), strict=True):
            sums = sums + neighbours_added(cast(ours, "int32x32") * cast(theirs, "int32x32"))
        ib.emit(c.vstore([0], sums))
    return ib.get()


def _in_halves(values: Expr) -> tuple[Expr, ...]:
    """Every other byte as a number of 16 bits, those at even places and those at odd ones: by shifts, where vectors stay whole."""
    wide = DType("int16x32") if values.dtype.with_lanes(1) == "int8" else DType("uint16x32")
    both, eight = call("reinterpret", values, dtype=wide), const(8, wide)
    return tuple(call("reinterpret", half, dtype="int16x32") for half in (both << eight >> eight, both >> eight))
