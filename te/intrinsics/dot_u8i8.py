"""16 dot products of 4 bytes, unsigned by signed or signed by unsigned, added to 16 sums of 32 bits.

    c[i] += a[0] * b[i, 0] + ... + a[3] * b[i, 3]      a: uint8[4], b: int8[16, 4] compact, c: int32[16]
                                                       a: int8[4], b: uint8[16, 4] compact, c: int32[16]

One instruction (vpdpbusd) with AVX-512 VNNI, four (usdot) with AArch64's I8MM. With its DOTPROD alone, a is taken as bytes of b's
kind, each 128 more or less, and what is too much is taken off by further dot products, which all rows share. Elsewhere products of
pairs of 16 bits (vpmaddwd), those of the bytes at even places and those of the others. Exact either way.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir import Buffer, DType, Expr, Shuffle, Stmt
from ...ir.builder import ir_builder
from ...ir.ops import call, cast, const
from ..extern_calls import call_llvm_intrin, target_has
from ..tensor_intrin import TensorIntrin
from .arm_dots import DOTPROD, I8MM, WIDTH, bytes_dotted
from .dots import LANES, declare_dots, neighbours_added
from .registry import register_intrinsic

__all__ = ["FEATURE", "GROUP", "dot_i8u8_16x4", "dot_u8i8_16x4", "dots_at_once", "dots_by_pairs", "spread"]

GROUP = 4
FEATURE = "avx512vnni"
_SUMS = DType("int32x16")
_SIGNS = -0x7F7F7F80
"""0x80808080, the sign of each of four bytes."""


@register_intrinsic("x86.dot_u8i8_16x4")
def dot_u8i8_16x4() -> TensorIntrin:
    """The intrinsic. For `te.sum(A[..., k].astype("int32") * B[..., i, k].astype("int32"), axis=k)` over 16 i and 4 k,
    B being packed so that the 64 bytes lie side by side."""
    return declare_dots("dot_u8i8_16x4", ("uint8", "int8"), GROUP, "int32", _dot)


@register_intrinsic("x86.dot_i8u8_16x4")
def dot_i8u8_16x4() -> TensorIntrin:
    """The same with the signs exchanged: A[..., k] is int8, and the packed B[..., i, k] uint8."""
    return declare_dots("dot_i8u8_16x4", ("int8", "uint8"), GROUP, "int32", _dot)


def _dot(a: Buffer, b: Buffer, c: Buffer, sums: Expr) -> Stmt:
    ib = ir_builder()
    left, right = spread(a, [0]), b.vload([0, 0], b.dtype.with_lanes(LANES * GROUP))
    with ib.if_scope(target_has(FEATURE)):
        ib.emit(c.vstore([0], dots_at_once(sums, left, right)))
    with ib.else_scope():
        with ib.if_scope(target_has(I8MM)):
            ib.emit(c.vstore([0], _quarters(a, b, sums, turned=False)))
        with ib.else_scope():
            with ib.if_scope(target_has(DOTPROD)):
                ib.emit(c.vstore([0], _quarters(a, b, sums, turned=True)))
            with ib.else_scope():
                ib.emit(c.vstore([0], dots_by_pairs(sums, left, right)))
    return ib.get()


def _quarters(a: Buffer, b: Buffer, sums: Expr, *, turned: bool) -> Expr:
    """Four registers of four sums each. turned: a as bytes of b's kind."""
    size, quarters = WIDTH * GROUP, list[Expr]()
    left = spread(a, [0], turned=turned, lanes=WIDTH)
    for at in range(0, LANES, WIDTH):
        old = Shuffle((sums,), tuple(range(at, at + WIDTH)))
        right = b.vload([at, 0], b.dtype.with_lanes(size))
        if turned:  # 128 is no int8: two times 64 of signed bytes, and 128 of unsigned ones the other way
            extra: Expr = const(0, old.dtype)
            for half in (64, 64) if str(b.dtype) == "int8" else (128,):
                extra = bytes_dotted(extra, const(half, right.dtype), right)
            old = old + extra if str(b.dtype) == "int8" else old - extra
        quarters.append(bytes_dotted(old, left, right))
    return Shuffle(tuple(quarters), tuple(range(LANES)))


def spread(a: Buffer, at: Sequence[Expr | int], *, turned: bool = False, lanes: int = LANES) -> Expr:
    """Four bytes from this place on, in each of so many lanes. turned: with their signs' bits the other way round, as bytes of the
    other kind: 128 more of signed ones, or less of unsigned ones."""
    quad = call("reinterpret", a.vload(at, a.dtype.with_lanes(GROUP)), dtype="int32")
    kind = DType("int8" if (str(a.dtype) == "uint8") == turned else "uint8")
    return call(
        "reinterpret",
        cast(quad ^ const(_SIGNS, "int32") if turned else quad, DType("int32").with_lanes(lanes)),
        dtype=kind.with_lanes(lanes * GROUP),
    )


def dots_at_once(sums: Expr, left: Expr, right: Expr) -> Expr:
    """The dot products of groups of bytes, one side unsigned, added to sums: where the target has FEATURE."""
    # vpdpbusd takes the unsigned side first; products of integers commute
    unsigned, signed = (left, right) if left.dtype.element == "uint8" else (right, left)
    return call_llvm_intrin(_SUMS, "llvm.x86.avx512.vpdpbusd.512", sums, unsigned, signed)


def dots_by_pairs(sums: Expr, left: Expr, right: Expr) -> Expr:
    """The same by products of pairs of 16 bits, whatever the signs."""
    for ours, theirs in zip(_split_halves(left), _split_halves(right), strict=True):
        sums = sums + neighbours_added(cast(ours, "int32x32") * cast(theirs, "int32x32"))
    return sums


def _split_halves(values: Expr) -> tuple[Expr, ...]:
    """Every other byte as a number of 16 bits, those at even places and those at odd ones: by shifts, where vectors stay whole."""
    wide = DType("int16x32") if values.dtype.with_lanes(1) == "int8" else DType("uint16x32")
    # conversions of bytes to 16 bits would cross the halves of 512-bit registers
    both, eight = call("reinterpret", values, dtype=wide), const(8, wide)
    return tuple(call("reinterpret", half, dtype="int16x32") for half in (both << eight >> eight, both >> eight))
