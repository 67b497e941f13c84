"""Dot products of AArch64: four sums of 32 bits, each of four bytes, of two numbers of bfloat16, or of one of float16.

    c[i] += a[0] * b[i, 0] + ... + a[3] * b[i, 3]      sdot, udot, usdot: bytes, c: int32[4]
    c[i] += a[0] * b[i, 0] + a[1] * b[i, 1]            bfmlal (bfmlalb, bfmlalt), bfdot: bfloat16, c: float32[4]
    c[i] += a[0] * b[i, 0]                             fmlal (fmlal, fmlal2): float16, c: float32[8]
    c[i, j] += a[i, 0] * b[j, 0] + ... + a[i, 7] * b[j, 7]      smmla, ummla, usmmla: bytes, c: int32[2, 2]; bfmmla: of 4 bfloat16

Bytes are exact. bfmlal and fmlal round as multiply-adds in float32 do, term by term. bfdot and bfmmla add products up before they round, to
odd and without subnormal numbers: they are for sums that may be inexact. Where the target lacks the instruction, loops do the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir import Buffer, DType, Expr, Shuffle, Stmt
from ...ir.builder import ir_builder
from ...ir.combine import mul_add
from ...ir.ops import cast, const
from ..axis import reduce_axis, var
from ..compute import compute, placeholder
from ..extern_calls import call_llvm_intrin, target_has
from ..intrin_declaration import decl_buffer, decl_tensor_intrin
from ..reduce import sum as reduce_sum
from ..tensor_intrin import TensorIntrin
from .dots import declare_dots
from .registry import register_intrinsic

__all__ = ["BF16", "DOTPROD", "I8MM", "WIDTH", "bfloat_pairs_added", "bytes_dotted", "bytes_multiplied", "lane_quad"]

DOTPROD, I8MM, BF16, FP16FML = "dotprod", "i8mm", "bf16", "fp16fml"
WIDTH = 4
"""Sums of 32 bits in a register."""
_SUMS, _BYTES = DType("int32x4"), 16
_LETTERS = {("int8", "int8"): "s", ("uint8", "uint8"): "u", ("uint8", "int8"): "us"}


def bytes_dotted(sums: Expr, left: Expr, right: Expr) -> Expr:
    """Four dot products of four bytes of two vectors, added to sums: where the target has DOTPROD, or I8MM for bytes of two kinds."""
    if left.dtype == right.dtype:
        left, right = right, left  # LLVM takes four bytes by their place (lane_quad) as the second operand alone
    return _byte_instruction("dot", sums, left, right)


def bytes_multiplied(sums: Expr, left: Expr, right: Expr) -> Expr:
    """Products of two rows of eight bytes by two columns, added to sums: where the target has I8MM. Of bytes of two kinds the
    unsigned ones are rows, whichever side they come from."""
    return _byte_instruction("mmla", sums, left, right)


def _byte_instruction(instruction: str, sums: Expr, left: Expr, right: Expr) -> Expr:
    if (str(left.dtype.element), str(right.dtype.element)) == ("int8", "uint8"):
        left, right = right, left
    letters = _LETTERS[str(left.dtype.element), str(right.dtype.element)]
    return call_llvm_intrin(_SUMS, f"llvm.aarch64.neon.{letters}{instruction}.v4i32.v16i8", sums, left, right)


def lane_quad(values: Expr, at: int) -> Expr:
    """Four bytes of 16, in every lane: an operand that instructions take as it stands in its register."""
    return Shuffle((values,), tuple(range(at * 4, at * 4 + 4)) * 4)


def _spread(a: Buffer, length: int) -> Expr:
    """All elements of a, so many, in each of four lanes."""
    return Shuffle((a.vload([0], a.dtype.with_lanes(length)),), tuple(range(length)) * WIDTH)


def _byte_dots(a: Buffer, b: Buffer, c: Buffer, sums: Expr) -> Stmt:
    ib = ir_builder()
    # usdot came later, with I8MM; sdot and udot are of DOTPROD
    feature = DOTPROD if a.dtype == b.dtype else I8MM
    columns = b.vload([0, 0], b.dtype.with_lanes(_BYTES))
    with ib.if_scope(target_has(feature)):
        ib.emit(c.vstore([0], bytes_dotted(sums, _spread(a, 4), columns)))
    with ib.else_scope():
        for k in range(4):
            ones = Shuffle((columns,), tuple(range(k, _BYTES, 4)))
            sums = sums + cast(cast(a.vload([k]), "int32"), _SUMS) * cast(ones, _SUMS)
        ib.emit(c.vstore([0], sums))
    return ib.get()


@register_intrinsic("arm.sdot")
def sdot() -> TensorIntrin:
    """Return the intrinsic for `te.sum(A[..., k].astype("int32") * B[..., i, k].astype("int32"), axis=k)` over 4 i and 4 k of int8, B
    being packed so that the 16 bytes lie side by side."""
    return declare_dots("sdot", ("int8", "int8"), 4, "int32", _byte_dots, WIDTH)


@register_intrinsic("arm.udot")
def udot() -> TensorIntrin:
    """The same of uint8."""
    return declare_dots("udot", ("uint8", "uint8"), 4, "int32", _byte_dots, WIDTH)


@register_intrinsic("arm.usdot")
def usdot() -> TensorIntrin:
    """The same of a uint8 A and an int8 B."""
    return declare_dots("usdot", ("uint8", "int8"), 4, "int32", _byte_dots, WIDTH)


@register_intrinsic("arm.bfmlal")
def bfmlal() -> TensorIntrin:
    """Return the intrinsic for `te.sum(A[..., k].astype("float32") * B[..., i, k].astype("float32"), axis=k)` over 4 i and 2 k of
    bfloat16: two multiply-adds of float32 in turn."""
    return declare_dots("bfmlal", ("bfloat16", "bfloat16"), 2, "float32", _bfloat_steps, WIDTH)


@register_intrinsic("arm.bfdot")
def bfdot() -> TensorIntrin:
    """The same in one instruction, which rounds both products' sum once, to odd, and takes subnormal numbers as 0."""
    return declare_dots("bfdot", ("bfloat16", "bfloat16"), 2, "float32", _bfloat_dots, WIDTH)


def bfloat_pairs_added(sums: Expr, left: Expr, right: Expr) -> Expr:
    """Two multiply-adds of float32 for four lanes of pairs: where the target has BF16."""
    # even elements, then odd ones, each rounded as multiply-adds of float32 are
    for name in ("bfmlalb", "bfmlalt"):
        sums = call_llvm_intrin(sums.dtype, f"llvm.aarch64.neon.{name}", sums, left, right)
    return sums


def _multiply_adds(a: Buffer, b: Buffer, sums: Expr, lanes: int, length: int) -> Expr:
    values = b.vload([0, 0], b.dtype.with_lanes(lanes * length))
    for k in range(length):
        ones = Shuffle((values,), tuple(range(k, lanes * length, length)))
        sums = mul_add(cast(cast(a.vload([k]), "float32"), sums.dtype), cast(ones, sums.dtype), sums)
    return sums


def _bfloat_steps(a: Buffer, b: Buffer, c: Buffer, sums: Expr) -> Stmt:
    ib = ir_builder()
    with ib.if_scope(target_has(BF16)):
        ib.emit(c.vstore([0], bfloat_pairs_added(sums, _spread(a, 2), b.vload([0, 0], "bfloat16x8"))))
    with ib.else_scope():
        ib.emit(c.vstore([0], _multiply_adds(a, b, sums, WIDTH, 2)))
    return ib.get()


def _bfloat_dots(a: Buffer, b: Buffer, c: Buffer, sums: Expr) -> Stmt:
    ib = ir_builder()
    with ib.if_scope(target_has(BF16)):
        dots = call_llvm_intrin(
            sums.dtype,
            "llvm.aarch64.neon.bfdot.v4f32.v8bf16",
            sums,
            _spread(a, 2),
            b.vload([0, 0], "bfloat16x8"),
        )
        ib.emit(c.vstore([0], dots))
    with ib.else_scope():
        ib.emit(c.vstore([0], _multiply_adds(a, b, sums, WIDTH, 2)))
    return ib.get()


@register_intrinsic("arm.fmlal")
def fmlal() -> TensorIntrin:
    """Return the intrinsic for `te.sum(A[..., k].astype("float32") * B[..., i, k].astype("float32"), axis=k)` over 8 i and one k of
    float16."""
    return declare_dots("fmlal", ("float16", "float16"), 1, "float32", _half_steps, 2 * WIDTH)


def _half_steps(a: Buffer, b: Buffer, c: Buffer, sums: Expr) -> Stmt:
    ib = ir_builder()
    left, right = cast(a.vload([0]), "float16x8"), b.vload([0, 0], "float16x8")
    with ib.if_scope(target_has(FP16FML)):
        for half, name in enumerate(("fmlal", "fmlal2")):
            part = Shuffle((sums,), tuple(range(half * WIDTH, half * WIDTH + WIDTH)))
            added = call_llvm_intrin(part.dtype, f"llvm.aarch64.neon.{name}.v4f32.v8f16", part, left, right)
            ib.emit(c.vstore([half * WIDTH], added))
    with ib.else_scope():
        ib.emit(c.vstore([0], _multiply_adds(a, b, sums, 2 * WIDTH, 1)))
    return ib.get()


@register_intrinsic("arm.smmla")
def smmla() -> TensorIntrin:
    """Return the intrinsic for `te.sum(A[..., i, k].astype("int32") * B[..., j, k].astype("int32"), axis=k)` over 2 i, 2 j and 8 k of
    int8, both packed so that the 16 bytes lie side by side."""
    return _square("smmla", "int8", "int8")


@register_intrinsic("arm.ummla")
def ummla() -> TensorIntrin:
    """The same of uint8."""
    return _square("ummla", "uint8", "uint8")


@register_intrinsic("arm.usmmla")
def usmmla() -> TensorIntrin:
    """The same of a uint8 A and an int8 B."""
    return _square("usmmla", "uint8", "int8")


@register_intrinsic("arm.bfmmla")
def bfmmla() -> TensorIntrin:
    """Return the intrinsic for sums of products of bfloat16 over 2 i, 2 j and 4 k, which may be inexact: products are added up by two,
    each sum rounded to odd, and subnormal numbers are 0."""
    return _square("bfmmla", "bfloat16", "bfloat16")


def _square(name: str, a_dtype: str, b_dtype: str) -> TensorIntrin:
    """c[2, 2] += a[2, length] times the transpose of b[2, length]."""
    sums, length = ("float32", 4) if a_dtype == "bfloat16" else ("int32", 8)
    a, b = placeholder((2, length), a_dtype, "a"), placeholder((2, length), b_dtype, "b")
    k = reduce_axis((0, length), "k")
    c = compute((2, 2), lambda i, j: reduce_sum(a[i, k].astype(sums) * b[j, k].astype(sums), axis=k), "c")
    binds = {
        a: decl_buffer(a.shape, a.dtype, "a", strides=[length, 1], offset_factor=1),
        b: decl_buffer(b.shape, b.dtype, "b", strides=[length, 1], offset_factor=1),
        c: decl_buffer(c.shape, c.dtype, "c", strides=[var("c_row"), 1], offset_factor=1),
    }
    zero, wide = const(0, f"{sums}x4"), DType(f"{sums}x2")

    def stored(out: Buffer, values: Expr) -> Sequence[Stmt]:
        return [out.vstore([i, 0], Shuffle((values,), (2 * i, 2 * i + 1))) for i in range(2)]

    def body(ins: list[Buffer], out: Buffer, old: Expr, old_at: Sequence[Sequence[Expr]]) -> Stmt:
        ib, (left, right) = ir_builder(), ins
        with ib.if_scope(target_has(BF16 if sums == "float32" else I8MM)):
            rows, columns = (each.vload([0, 0], each.dtype.with_lanes(2 * length)) for each in (left, right))
            if sums == "int32":
                made = bytes_multiplied(old, rows, columns)
            else:
                made = call_llvm_intrin(old.dtype, "llvm.aarch64.neon.bfmmla", old, rows, columns)
            for each in stored(out, made):
                ib.emit(each)
        with ib.else_scope():
            for i in range(2):
                for j in range(2):
                    total = old_at[i][j]
                    for at in range(length):
                        one, other = cast(left.vload([i, at]), sums), cast(right.vload([j, at]), sums)
                        total = mul_add(one, other, total) if sums == "float32" else total + one * other
                    ib.emit(out.vstore([i, j], total))
        return ib.get()

    def bodies(ins: list[Buffer], outs: list[Buffer]) -> tuple[Stmt, Stmt, Stmt]:
        (out,) = outs
        none = [[const(0, sums)] * 2] * 2
        reset = ir_builder()
        for each in stored(out, zero):
            reset.emit(each)
        old = Shuffle((out.vload([0, 0], wide), out.vload([1, 0], wide)), (0, 1, 2, 3))
        here = [[out.vload([i, j]) for j in range(2)] for i in range(2)]
        return body(ins, out, zero, none), reset.get(), body(ins, out, old, here)

    return decl_tensor_intrin(c.op, bodies, name, binds)
