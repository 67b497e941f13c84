"""Tables of bytes in registers: where lanes read anywhere in 256 bytes or fewer, these are loaded once, and lanes are picked.

    T[lane's byte]      with AVX-512's VBMI: of 128 bytes in two registers at once; of both halves one is chosen
                        with AVX2: of 16 bytes at once, which a shuffle gives as 0 where bit 7 of a place is set:
                            picked ^= shuffle(T[16 c ...] ^ T[16 c - 16 ...], place), place -= 16       the differences add up to T[place]

Each element would be loaded by itself otherwise: no instruction gathers bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod

from ...base.dataclass import dataclass
from ...ir import Add, Buffer, Cast, Expr, IntImm
from ...ir.dtype import UINT8, DType
from .emitter import ExprEmitter
from .types import llvm_type, shuffle_mask
from .windows import Address, greatest_offset, split_uniform

__all__ = ["ByteTable", "byte_vectors", "find_byte_table"]

MOST = 1 << UINT8.bits
"""Elements of a table, as many as a byte tells apart."""
BLOCK = 16
"""Bytes that a shuffle picks among; of both halves of a vector alike."""


@dataclass(frozen=True)
class ByteTable:
    """Elements of a buffer that lanes pick. base: of the first one, None for the buffer's; places: each lane's, counted from there; size:
    how many there are."""

    base: Expr | None
    places: Expr
    size: int


def find_byte_table(em: ExprEmitter, buffer: Buffer, index: Expr) -> ByteTable | None:
    """A vector index as places in a table, where it is one that this machine has instructions for: bytes, all of which lie in the
    buffer."""
    if not em.maths.permutes or buffer.dtype.bits != 8 or buffer.dtype.kind == "bool" or buffer.strides:
        return None
    if index.dtype.lanes < BLOCK or not all(isinstance(extent, IntImm) for extent in buffer.shape):
        return None
    uniform, others = split_uniform(em, index)
    if len(others) != 1 or not all(map(em.facts.not_negative, uniform)):
        return None
    (places,) = others
    extent = prod(extent.value for extent in buffer.shape if isinstance(extent, IntImm))
    last = greatest_offset(places)
    if isinstance(places, Cast) and places.value.dtype.element == UINT8:
        places, last = places.value, MOST - 1 if uniform else min(extent, MOST) - 1
    if last is None or last >= MOST:
        return None
    base: Expr | None = None
    for term in uniform:
        base = term if base is None else Add(base, term)
    begin = 0 if base is None else em.facts.bounds(base).hi
    return ByteTable(base, places, last + 1) if begin is not None and begin + last < extent else None


def byte_vectors(em: ExprEmitter, buffer: Buffer, table: ByteTable, dtype: DType, mask: str | None, at: Address) -> str:
    """The picked lanes, a register of them at a time; 0 where `mask` fails. at: gives an element's address."""
    kind, lanes, wide = llvm_type(dtype), dtype.lanes, em.maths.lanes * 4
    places = em.value(table.places)
    if table.places.dtype.bits != 8:
        places = em.f.op(f"trunc {llvm_type(table.places.dtype)} {places} to {kind}")
    pointer = em.place(buffer).pointer if table.base is None else at(table.base)[0]
    pick = _PickOfHalves(em, pointer, table.size) if em.maths.bytes else _PickOfBlocks(em, pointer, table.size, wide)
    parts: list[str] = []
    for begin in range(0, lanes, wide):
        own = [min(begin + lane, lanes - 1) for lane in range(wide)]
        parts.append(pick(em.f.op(f"shufflevector {kind} {places}, {kind} poison, {shuffle_mask(own)}")))
    result = _join(em, parts, wide, lanes)
    return result if mask is None else em.f.op(f"select <{lanes} x i1> {mask}, {kind} {result}, {kind} zeroinitializer")


def _join(em: ExprEmitter, parts: Sequence[str], wide: int, lanes: int) -> str:
    """The first lanes of several registers."""
    result, count = parts[0], wide
    for part in parts[1:]:
        whole = em.f.op(
            f"shufflevector <{wide} x i8> {part}, <{wide} x i8> poison, {shuffle_mask([*range(wide), *[0] * (count - wide)])}"
        )
        order = [*range(count), *range(count, count + wide)]
        result = em.f.op(f"shufflevector <{count} x i8> {result}, <{count} x i8> {whole}, {shuffle_mask(order)}")
        count += wide
    if count == lanes:
        return result
    return em.f.op(f"shufflevector <{count} x i8> {result}, <{count} x i8> poison, {shuffle_mask(range(lanes))}")


def _load_bytes(em: ExprEmitter, pointer: str, begin: int, count: int, lanes: int) -> str:
    """So many bytes of a table, in a vector of so many lanes."""
    there = em.f.op(f"getelementptr i8, ptr {pointer}, i64 {begin}") if begin else pointer
    read = em.f.read(f"load <{count} x i8>, ptr {there}, align 1")
    order = [*range(count), *[0] * (lanes - count)]
    return em.f.op(f"shufflevector <{count} x i8> {read}, <{count} x i8> poison, {shuffle_mask(order)}")


class _PickOfHalves:
    """Lanes of up to four registers of 64 bytes."""

    def __init__(self, em: ExprEmitter, pointer: str, size: int) -> None:
        self.em = em
        self.parts = [_load_bytes(em, pointer, begin, min(64, size - begin), 64) for begin in range(0, size, 64)]

    def __call__(self, places: str) -> str:
        f, kind, halves = self.em.f, "<64 x i8>", list[str]()
        for at in range(0, len(self.parts), 2):
            first, other = self.parts[at], self.parts[min(at + 1, len(self.parts) - 1)]
            halves.append(
                f.op(f"call {kind} @llvm.x86.avx512.vpermi2var.qi.512({kind} {first}, {kind} {places}, {kind} {other})")
            )
        if len(halves) == 1:
            return halves[0]
        upper = f.op(f"icmp slt {kind} {places}, zeroinitializer")
        return f.op(f"select <64 x i1> {upper}, {kind} {halves[1]}, {kind} {halves[0]}")


_SHUFFLES = {16: "ssse3.pshuf.b.128", 32: "avx2.pshuf.b", 64: "avx512.pshuf.b.512"}
"""The instruction by the lanes of a register."""


class _PickOfBlocks:
    """Lanes of up to sixteen blocks of 16 bytes, by differences of neighbours. Places of 128 and more are negative, which a difference
    that saturates leaves them: they are picked of blocks of their own."""

    def __init__(self, em: ExprEmitter, pointer: str, size: int, wide: int) -> None:
        self.em, self.wide, self.kind = em, wide, f"<{wide} x i8>"
        self.halves: list[list[str]] = []
        for half in range(ceil(size / 128)):
            blocks: list[str] = []
            for begin in range(128 * half, min(128 * half + 128, size), BLOCK):
                block = _load_bytes(em, pointer, begin, min(BLOCK, size - begin), BLOCK)
                order = [lane % BLOCK for lane in range(wide)]
                blocks.append(
                    em.f.op(f"shufflevector <{BLOCK} x i8> {block}, <{BLOCK} x i8> poison, {shuffle_mask(order)}")
                )
            apart = [em.f.op(f"xor {self.kind} {a}, {b}") for a, b in zip(blocks[1:], blocks, strict=False)]
            self.halves.append([blocks[0], *apart])

    def __call__(self, places: str) -> str:
        f, kind, picked = self.em.f, self.kind, ""
        for half, blocks in enumerate(self.halves):
            place = f.op(f"xor {kind} {places}, splat (i8 -128)") if half else places
            for at, block in enumerate(blocks):
                if at:
                    place = f.op(
                        f"call {kind} @llvm.ssub.sat.v{self.wide}i8({kind} {place}, {kind} splat (i8 {BLOCK}))"
                    )
                one = f.op(f"call {kind} @llvm.x86.{_SHUFFLES[self.wide]}({kind} {block}, {kind} {place})")
                picked = f.op(f"xor {kind} {picked}, {one}") if picked else one
        return picked
