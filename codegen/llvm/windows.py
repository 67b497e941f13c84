"""Gathers from a window: where all lanes read within a few vectors from one place on, those are loaded, and lanes picked.

    T[base + min(max(offset[lane], 0), 40)]        three vectors from T[base] on, of which offsets pick: two instructions a pair

On machines whose permutations take any lane of two vectors (AVX-512); a gather there asks for each element by itself.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from ...ir.buffer import Buffer
from ...ir.dtype import DType
from ...ir.expr import Add, Broadcast, Call, Expr, FloorMod, IntImm, Max, Min
from .types import llvm_type, mangled

if TYPE_CHECKING:
    from .emit_expr import ExprEmitter

__all__ = ["Window", "window_of", "window_vectors"]

MOST_VECTORS = 6
"""Vectors of a window: beyond, a gather is no slower."""
_PERMUTATIONS = {(32, True): "ps", (32, False): "d", (16, False): "hi"}
"""The end of the instruction's name, by bits and whether they are floats."""


class Window:
    """base: where the window begins; offsets: each lane's element, counted from there; size: of the window, in elements;
    extent: elements of the buffer."""

    __slots__ = ("base", "extent", "offsets", "size")

    def __init__(self, base: Expr, offsets: Expr, size: int, extent: int) -> None:
        self.base, self.offsets, self.size, self.extent = base, offsets, size, extent


def window_of(em: ExprEmitter, buffer: Buffer, index: Expr) -> Window | None:
    """A vector index as a window, where it is one that this machine has instructions for."""
    dtype = buffer.dtype
    if not em.maths.avx512 or (dtype.bits, dtype.is_float) not in _PERMUTATIONS or index.dtype.lanes * dtype.bits != 512:
        return None
    if dtype.bits == 16 and not em.maths.words or buffer.strides or not all(isinstance(extent, IntImm) for extent in buffer.shape):
        return None
    uniform: list[Expr] = []
    others: list[Expr] = []
    stack = [index]
    while stack:
        node = stack.pop()
        if isinstance(node, Add):
            stack += (node.a, node.b)
        elif isinstance(node, Broadcast):
            uniform.append(node.value)
        else:
            others.append(node)
    if len(others) != 1 or not uniform:
        return None
    last = _greatest(others[0])
    if last is None or last >= MOST_VECTORS * index.dtype.lanes:
        return None
    base = uniform[0]
    for term in uniform[1:]:
        base = Add(base, term)
    if not em.facts.not_negative(base):
        return None
    extent = prod(extent.value for extent in buffer.shape if isinstance(extent, IntImm))
    return Window(base, others[0], last + 1, extent)


def _greatest(offsets: Expr) -> int | None:
    """What lanes are kept from 0 to, whatever they are made of: data that the index is taken from is not known."""
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


def window_vectors(em: ExprEmitter, window: Window, pointer: str, alignment: int, dtype: DType, mask: str | None) -> str:
    """The picked lanes. Of the window what lies beyond the buffer is not read."""
    kind, lanes, bits = llvm_type(dtype), dtype.lanes, dtype.bits
    end = _PERMUTATIONS[bits, dtype.is_float]
    counted = f"<{lanes} x i{bits}>"
    whole = f"<{lanes} x i{window.offsets.dtype.bits}>"
    offsets = em.value(window.offsets)
    picks = offsets if window.offsets.dtype.bits == bits else em.f.op(f"trunc {whole} {offsets} to {counted}")
    base = em.value(window.base)
    wide = f"i{window.base.dtype.bits}"
    left = em.f.op(f"sub {wide} {window.extent}, {base}")
    if mask is not None:  # without any lane, the base may lie anywhere
        left = em.f.op(f"call {wide} @llvm.smax.{wide}({wide} {left}, {wide} 0)")
    parts = [_part(em, pointer, alignment, dtype, at, f"{wide} {left}") for at in range(0, window.size, lanes)]
    result = ""
    for at in range(0, len(parts), 2):
        other = parts[at + 1] if at + 1 < len(parts) else parts[at]
        chosen = em.f.op(f"call {kind} @llvm.x86.avx512.vpermi2var.{end}.512("
                         f"{kind} {parts[at]}, {counted} {picks}, {kind} {other})")
        if at:
            beyond = em.f.op(f"icmp uge {counted} {picks}, splat (i{bits} {at * lanes})")
            chosen = em.f.op(f"select <{lanes} x i1> {beyond}, {kind} {chosen}, {kind} {result}")
        result = chosen
    if mask is None:
        return result
    return em.f.op(f"select <{lanes} x i1> {mask}, {kind} {result}, {kind} zeroinitializer")


def _part(em: ExprEmitter, pointer: str, alignment: int, dtype: DType, at: int, left: str) -> str:
    """A vector of the window, without what lies beyond the buffer."""
    kind, wide = llvm_type(dtype), left.split()[0]
    there = em.f.op(f"getelementptr {llvm_type(dtype.element)}, ptr {pointer}, i64 {at}") if at else pointer
    within = em.f.op(f"call <{dtype.lanes} x i1> @llvm.get.active.lane.mask.v{dtype.lanes}i1.{wide}({wide} {at}, {left})")
    return em.f.read(f"call {kind} @llvm.masked.load.{mangled(dtype)}.p0(ptr align {min(alignment, dtype.element.bytes)} {there}, "
                     f"<{dtype.lanes} x i1> {within}, {kind} zeroinitializer)")
