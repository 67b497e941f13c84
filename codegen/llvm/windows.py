"""Gathers from a window: where all lanes read within a few vectors from one place on, those are loaded, and lanes picked.

    T[base + min(max(offset[lane], 0), 40)]        three vectors from T[base] on, of which offsets pick: two instructions a pair

On machines whose permutations take any lane of two vectors (AVX-512); a gather there asks for each element by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ...ir import Add, Broadcast, Buffer, Call, Cast, DType, Expr, FloorMod, IntImm, Max, Min
from .emitter import ExprEmitter
from .types import llvm_type, mangle_type, shuffle_mask

__all__ = ["Address", "Window", "find_window", "greatest_offset", "split_uniform", "window_vectors"]

MOST_VECTORS = 6
"""Vectors of a window: beyond, a gather is no slower."""
_PERMUTATIONS = {(32, True): "ps", (32, False): "d", (16, False): "hi"}
"""The end of the instruction's name, by bits and whether they are floats."""


Address = Callable[[Expr], tuple[str, int]]
"""An element's address by its index, and what that is a multiple of, in bytes."""


class Window:
    """Window of a buffer that lanes read.

    base: where the window begins; offsets: each lane's element, counted from there; size: of the window, in elements;
    extent: elements of the buffer.
    """

    __slots__ = ("base", "extent", "offsets", "size")

    def __init__(self, base: Expr, offsets: Expr, size: int, extent: int) -> None:
        self.base, self.offsets, self.size, self.extent = base, offsets, size, extent


def find_window(em: ExprEmitter, buffer: Buffer, index: Expr, *, masked: bool) -> Window | None:
    """A vector index as a window, where it is one that this machine has instructions for. masked: perhaps no lane is read, and
    the base lies anywhere."""
    dtype = buffer.dtype
    if (
        not em.maths.avx512
        or (dtype.bits, dtype.is_float) not in _PERMUTATIONS
        or not 128 <= index.dtype.lanes * dtype.bits <= 512
    ):
        return None
    if (
        dtype.bits == 16
        and not em.maths.words
        or buffer.strides
        or not all(isinstance(extent, IntImm) for extent in buffer.shape)
    ):
        return None
    uniform, others = split_uniform(em, index)
    if len(others) != 1 or not uniform:
        return None
    last = greatest_offset(others[0])
    if last is None or last >= MOST_VECTORS * (512 // dtype.bits):
        return None
    base = uniform[0]
    for term in uniform[1:]:
        base = Add(base, term)
    if not all(map(em.facts.not_negative, uniform)):
        return None
    extent = prod(extent.value for extent in buffer.shape if isinstance(extent, IntImm))
    if masked and extent < MOST_VECTORS * (512 // dtype.bits):
        return None
    return Window(base, others[0], last + 1, extent)


def split_uniform(em: ExprEmitter, index: Expr) -> tuple[list[Expr], list[Expr]]:
    """The terms of a vector index that are the same in all lanes, as scalars, and the others."""
    if isinstance(index, Broadcast):
        return [index.value], []
    if isinstance(index, Add):
        (a, b), (c, d) = split_uniform(em, index.a), split_uniform(em, index.b)
        return a + c, b + d
    if isinstance(index, Cast) and index.value.dtype.kind == "int" and index.value.dtype.bits < index.dtype.bits:
        uniform, others = split_uniform(em, index.value)
        known = [em.facts.bounds(term).hi for term in uniform] + [greatest_offset(term) for term in others]
        greatest = sum(extent for extent in known if extent is not None)  # the sum must not wrap before it is widened
        if (
            None not in known
            and greatest <= index.value.dtype.element.greatest
            and all(map(em.facts.not_negative, uniform))
        ):
            return [Cast(term, index.dtype.element) for term in uniform], others
    return [], [index]


def greatest_offset(offsets: Expr) -> int | None:
    """Return the greatest lane index; lanes are clamped to 0 up to it, whatever they are made of:

    data that the index is taken from is not known.
    """
    match offsets:
        case Max(a=Min(a=_, b=Broadcast(value=IntImm(value=most))), b=Broadcast(value=IntImm(value=0))) if most >= 0:
            return most
        case Min(a=Max(a=_, b=Broadcast(value=IntImm(value=0))), b=Broadcast(value=IntImm(value=most))) if most >= 0:
            return most
        case FloorMod(a=_, b=Broadcast(value=IntImm(value=size))) if size > 0:
            return size - 1
        case Call(name="bitwise_and", args=(_, Broadcast(value=IntImm(value=most)))) if most >= 0:
            return most
        case _:
            return None


def window_vectors(em: ExprEmitter, buffer: Buffer, window: Window, dtype: DType, mask: str | None, at: Address) -> str:
    """The picked lanes: in whole registers, of which the first lanes are wanted. at: gives an element's address."""
    bits, lanes = dtype.bits, 512 // dtype.bits
    whole = dtype.with_lanes(lanes)
    counted = f"<{lanes} x i{bits}>"
    picks = _extend_lanes(em, em.value(window.offsets), window.offsets.dtype, lanes)
    if window.offsets.dtype.bits != bits:
        picks = em.f.op(f"trunc <{lanes} x i{window.offsets.dtype.bits}> {picks} to {counted}")
    starts = range(0, window.size, lanes)
    pointer, alignment = at(window.base)
    if len(starts) * lanes <= window.extent:
        picks, pointer = _clamp_window(em, buffer, window, picks, len(starts) * lanes, masked=mask is not None)
        alignment, left = dtype.element.bytes, ""
    else:
        left = _count_elements(em, window)
    parts = [_part(em, pointer, min(alignment, dtype.element.bytes), whole, start, left) for start in starts]
    result = _pick_lanes(em, parts, picks, whole)
    kind = llvm_type(dtype)
    if lanes != dtype.lanes:
        many = llvm_type(whole)
        result = em.f.op(f"shufflevector {many} {result}, {many} poison, {shuffle_mask(range(dtype.lanes))}")
    return (
        result
        if mask is None
        else em.f.op(f"select <{dtype.lanes} x i1> {mask}, {kind} {result}, {kind} zeroinitializer")
    )


def _extend_lanes(em: ExprEmitter, value: str, dtype: DType, lanes: int) -> str:
    """A vector with lanes added, which are its first."""
    if dtype.lanes == lanes:
        return value
    kind = llvm_type(dtype)
    order = [*range(dtype.lanes), *[0] * (lanes - dtype.lanes)]
    return em.f.op(f"shufflevector {kind} {value}, {kind} poison, {shuffle_mask(order)}")


def _clamp_window(
    em: ExprEmitter, buffer: Buffer, window: Window, picks: str, size: int, *, masked: bool
) -> tuple[str, str]:
    """The window so far down that all of its vectors lie in the buffer: its lanes then, and its address."""
    lanes, bits = 512 // buffer.dtype.bits, buffer.dtype.bits
    wide = f"i{window.base.dtype.bits}"
    base = em.value(window.base)
    if masked:
        base = em.f.op(f"call {wide} @llvm.smax.{wide}({wide} {base}, {wide} 0)")
    start = em.f.op(f"call {wide} @llvm.smin.{wide}({wide} {base}, {wide} {window.extent - size})")
    moved = em.f.op(f"sub {wide} {base}, {start}")
    narrow = moved if wide == f"i{bits}" else em.f.op(f"trunc {wide} {moved} to i{bits}")
    shift = em.splat(narrow, DType(f"int{bits}").with_lanes(lanes))
    added = em.f.op(f"add <{lanes} x i{bits}> {picks}, {shift}")
    return added, em.f.op(f"getelementptr {llvm_type(buffer.dtype)}, ptr {em.place(buffer).pointer}, {wide} {start}")


def _count_elements(em: ExprEmitter, window: Window) -> str:
    """Return the number of elements from the base on, typed."""
    wide = f"i{window.base.dtype.bits}"
    return f"{wide} " + em.f.op(f"sub {wide} {window.extent}, {em.value(window.base)}")


def _part(em: ExprEmitter, pointer: str, alignment: int, dtype: DType, at: int, left: str) -> str:
    """A vector of the window; where it may be short, without what lies beyond."""
    kind = llvm_type(dtype)
    there = em.f.op(f"getelementptr {llvm_type(dtype.element)}, ptr {pointer}, i64 {at}") if at else pointer
    if not left:
        return em.f.read(f"load {kind}, ptr {there}, align {alignment}")
    wide, count = left.split()
    counts = em.splat(count, DType(wide.replace("i", "int")).with_lanes(dtype.lanes))
    places = ", ".join(f"{wide} {at + lane}" for lane in range(dtype.lanes))
    # As a comparison: without optimising, LLVM 22 ends the process over get.active.lane.mask.
    within = em.f.op(f"icmp ult <{dtype.lanes} x {wide}> <{places}>, {counts}")
    return em.f.read(
        f"call {kind} @llvm.masked.load.{mangle_type(dtype)}.p0(ptr align {alignment} {there}, "
        f"<{dtype.lanes} x i1> {within}, {kind} zeroinitializer)"
    )


def _pick_lanes(em: ExprEmitter, parts: list[str], picks: str, dtype: DType) -> str:
    """Lanes of several vectors, a pair after the other."""
    kind, lanes, bits = llvm_type(dtype), dtype.lanes, dtype.bits
    counted = f"<{lanes} x i{bits}>"
    result = ""
    for at in range(0, len(parts), 2):
        first, other = parts[at], parts[min(at + 1, len(parts) - 1)]
        chosen = em.f.op(
            f"call {kind} @llvm.x86.avx512.vpermi2var.{_PERMUTATIONS[bits, dtype.is_float]}.512("
            f"{kind} {first}, {counted} {picks}, {kind} {other})"
        )
        if at:
            beyond = em.f.op(f"icmp uge {counted} {picks}, splat (i{bits} {at * lanes})")
            chosen = em.f.op(f"select <{lanes} x i1> {beyond}, {kind} {chosen}, {kind} {result}")
        result = chosen
    return result
