"""Loads and stores: contiguous, reversed, strided, gathered; with and without a predicate.

An address is base + terms + constant, the constant as its own step, so that LLVM sees at once which accesses of one
buffer lie side by side and which accumulators are distinct.
"""

from __future__ import annotations

from dataclasses import replace

from ...ir import Add, Broadcast, Buffer, BufferLoad, BufferStore, Call, Expr, IntImm, Max, Min, Mul, Ramp, Select, Sub
from ...ir.combine import FUSED
from ...ir.dtype import BOOL, DType
from ...ir.structural import structural_key
from ...ir.visit import children, rebuild
from .byte_tables import byte_vectors, find_byte_table
from .emitter import ExprEmitter, Place
from .facts import split_constant
from .picked_lanes import PickedLanes, picked_lanes
from .types import llvm_type, mangle_type, memory_type, shuffle_mask
from .windows import find_window, window_vectors

__all__ = ["OWN_ALIGNMENT", "add", "address", "load", "widen_masked_update", "store"]

OWN_ALIGNMENT = 64
"""Of buffers that a kernel allocates, in bytes."""
_WIDEST_SHUFFLED_STRIDE = 4
"""Strided loads up to here read everything between and pick lanes; beyond, they gather."""


def load(em: ExprEmitter, buffer: Buffer, index: Expr, predicate: Expr | None) -> str:
    """The element, or vector of elements, at `index`; lanes where the predicate fails are 0 and touch no memory."""
    dtype = buffer.dtype.with_lanes(index.dtype.lanes)
    mask = em.access_mask(predicate, dtype.lanes)
    if dtype.lanes == 1:
        if mask is None:
            return _load_lanes(em, buffer, index, 0, dtype)
        return em.emit_guarded(mask, dtype, lambda: _load_lanes(em, buffer, index, 0, dtype))
    em.vector_accesses += 1
    base, stride = _split_ramp(index)
    if base is not None and mask is None and stride is not None and abs(stride) <= _WIDEST_SHUFFLED_STRIDE:
        return _strided_load(em, buffer, base, stride, dtype)
    if base is not None and stride == 1:
        pointer, alignment = _address(em, buffer, base, 0, inbounds=False)
        memory = memory_type(dtype)
        return _load_bool(
            em,
            em.f.read(
                f"call {memory} @llvm.masked.load.{_memory_mangled(dtype)}.p0(ptr align {alignment} {pointer}, "
                f"{_mask_type(dtype)} {mask}, {memory} zeroinitializer)"
            ),
            dtype,
        )
    picked = picked_lanes(index, predicate)
    if picked is not None:
        return _pick_lanes(em, buffer, picked, dtype)
    window = find_window(em, buffer, index, masked=mask is not None)
    if window is not None:
        return window_vectors(
            em, buffer, window, dtype, mask, lambda base: _address(em, buffer, base, 0, inbounds=False)
        )
    table = find_byte_table(em, buffer, index)
    if table is not None:
        return byte_vectors(em, buffer, table, dtype, mask, lambda base: _address(em, buffer, base, 0, inbounds=False))
    return _gather(em, buffer, index, dtype, mask)


def address(em: ExprEmitter, buffer: Buffer, index: Expr, offset: str) -> str:
    """The pointer to the element at `index`, and `offset` (typed text, "i64 %v3") elements further on."""
    pointer, _ = _address(em, buffer, index, 0, inbounds=False)
    element = memory_type(buffer.dtype)
    return pointer if offset.endswith(" 0") else em.f.op(f"getelementptr {element}, ptr {pointer}, {offset}")


def store(em: ExprEmitter, buffer: Buffer, index: Expr, value: str, predicate: Expr | None) -> None:
    """Write `value`, of the lanes of `index`, where the predicate holds."""
    dtype = buffer.dtype.with_lanes(index.dtype.lanes)
    value = _store_bool(em, value, dtype)
    mask = em.access_mask(predicate, dtype.lanes)
    if dtype.lanes == 1:
        if mask is None:
            _store_lanes(em, buffer, index, value, dtype)
        else:
            em.when(mask, lambda: _store_lanes(em, buffer, index, value, dtype))
        return
    em.vector_accesses += 1
    base, stride = _split_ramp(index)
    memory = memory_type(dtype)
    if base is not None and stride == 1:
        if mask is not None and _is_own(em, buffer, base, dtype):  # a register where a masked store would be memory
            kept = _load_lanes(em, buffer, base, 0, dtype)
            value = em.f.op(f"select {_mask_type(dtype)} {mask}, {memory} {value}, {memory} {kept}")
            mask = None
        if mask is None:
            _store_lanes(em, buffer, base, value, dtype)
            return
        pointer, alignment = _address(em, buffer, base, 0, inbounds=False)
        em.f.do(
            f"call void @llvm.masked.store.{_memory_mangled(dtype)}.p0({memory} {value}, "
            f"ptr align {alignment} {pointer}, {_mask_type(dtype)} {mask})"
        )
        return
    if base is not None and stride == -1 and mask is None:
        pointer, alignment = _address(em, buffer, base, 1 - dtype.lanes, inbounds=True)
        em.f.do(f"store {memory} {_reverse(em, value, dtype)}, ptr {pointer}, align {alignment}")
        return
    pointers, kind, alignment = _addresses(em, buffer, index, dtype, inbounds=mask is None)
    em.f.do(
        f"call void @llvm.masked.scatter.{_memory_mangled(dtype)}.v{dtype.lanes}p0({memory} {value}, "
        f"{kind} align {alignment} {pointers}, {_mask_type(dtype)} {mask or 'splat (i1 true)'})"
    )


def add(em: ExprEmitter, buffer: Buffer, index: Expr, value: str, predicate: Expr | None) -> None:
    """Add `value`, a scalar, to the element at `index` in one step, where the predicate holds."""
    pointer, alignment = _address(em, buffer, index, 0, inbounds=False)
    operator, kind = "fadd" if buffer.dtype.is_float else "add", llvm_type(buffer.dtype)

    def update() -> None:
        em.f.do(f"atomicrmw {operator} ptr {pointer}, {kind} {value} monotonic, align {alignment}")

    mask = em.access_mask(predicate, 1)
    if mask is None:
        update()
    else:
        em.when(mask, update)


def _is_own(em: ExprEmitter, buffer: Buffer, base: Expr, dtype: DType) -> bool:
    """Return whether all lanes, those left out by a mask too, are at a constant place of the function's stack: such vectors become
    registers, and nobody else sees what is written back as it was."""
    return isinstance(base, IntImm) and dtype.kind != "bool" and 0 <= base.value <= em.place(buffer).own - dtype.lanes


_LANE_BY_LANE = (Add, Sub, Mul, Min, Max, Select)
"""What makes each lane of the same lane of its operands, and never fails."""


def widen_masked_update(em: ExprEmitter, stmt: BufferStore, index: Expr) -> Expr:
    """The value that is stored under a predicate, sum = sum + a * b, reading all lanes of what it replaces where those that are
    left out are discarded again, and are the function's own: then the sum is a register."""
    base, stride = _split_ramp(index)
    predicate = stmt.predicate
    if (
        predicate is None
        or base is None
        or stride != 1
        or not _is_own(em, stmt.buffer, base, stmt.buffer.dtype.with_lanes(index.dtype.lanes))
    ):
        return stmt.value
    place, lanes = structural_key(index), structural_key(predicate)

    def whole(node: Expr) -> Expr:
        if isinstance(node, BufferLoad):
            same = (
                node.buffer is stmt.buffer
                and node.predicate is not None
                and structural_key(node.indices[-1]) == place
                and structural_key(node.predicate) == lanes
            )
            return replace(node, predicate=None) if same else node
        if isinstance(node, _LANE_BY_LANE) or isinstance(node, Call) and node.name in FUSED:
            return rebuild(node, [whole(child) for child in children(node)])
        return node

    return whole(stmt.value)


def _memory_mangled(dtype: DType) -> str:
    return f"v{dtype.lanes}i8" if dtype.kind == "bool" else mangle_type(dtype)


def _mask_type(dtype: DType) -> str:
    return llvm_type(BOOL.with_lanes(dtype.lanes))


def _load_bool(em: ExprEmitter, value: str, dtype: DType) -> str:
    """A bool is a byte in memory, and any byte but 0 is true."""
    return em.f.op(f"icmp ne {memory_type(dtype)} {value}, {zero_of_memory(dtype)}") if dtype.kind == "bool" else value


def _store_bool(em: ExprEmitter, value: str, dtype: DType) -> str:
    return em.f.op(f"zext {llvm_type(dtype)} {value} to {memory_type(dtype)}") if dtype.kind == "bool" else value


def zero_of_memory(dtype: DType) -> str:
    """The constant 0 of a dtype's type in memory."""
    return "0" if dtype.lanes == 1 else "zeroinitializer"


def _split_ramp(index: Expr) -> tuple[Expr | None, int | None]:
    """A vector index as (base, constant stride); (None, None) where it is no such ramp."""
    if isinstance(index, Ramp):
        return (index.base, index.stride.value) if isinstance(index.stride, IntImm) else (None, None)
    if isinstance(index, Broadcast):
        return index.value, 0
    if isinstance(index, (Add, Sub)):
        (base, stride), (other, other_stride) = _split_ramp(index.a), _split_ramp(index.b)
        if base is not None and other is not None and stride is not None and other_stride is not None:
            sign = 1 if isinstance(index, Add) else -1
            return type(index)(base, other), stride + sign * other_stride
    if isinstance(index, Mul):
        (base, stride), (other, other_stride) = _split_ramp(index.a), _split_ramp(index.b)
        if base is not None and isinstance(other, IntImm) and stride is not None and other_stride == 0:
            return Mul(base, other), stride * other.value
    return None, None


# Addresses


def _address(em: ExprEmitter, buffer: Buffer, index: Expr, offset: int, *, inbounds: bool) -> tuple[str, int]:
    """The pointer to element index + offset, and its alignment. inbounds: it is certainly accessed."""
    place = em.place(buffer)
    element = memory_type(buffer.dtype)
    if not em.facts.is_index(index):  # wraps: the sum must not be taken apart
        pointer = em.f.op(f"getelementptr {element}, ptr {place.pointer}, {_index_operand(em, index)}")
        constant, multiple, within = offset, 1, False
    else:
        terms, constant = split_constant(index)
        constant += offset
        pointer, multiple, within = _sum_address(em, place.pointer, element, terms, inbounds and constant >= 0)
    alignment = _alignment(place, buffer.dtype.bytes, multiple, constant)
    if constant:
        flags = "inbounds " if within else ""
        pointer = em.f.op(f"getelementptr {flags}{element}, ptr {pointer}, i64 {constant}")
    return pointer, alignment


def _sum_address(
    em: ExprEmitter,
    pointer: str,
    element: str,
    terms: list[tuple[bool, Expr]],
    inbounds: bool,
) -> tuple[str, int, bool]:
    """The address of the sum of `terms`, a number that divides the sum, and whether the address surely lies within."""
    multiple = 0
    not_negative = True
    for negative, term in terms:
        multiple = _gcd(multiple, em.facts.multiple(term))
        not_negative = not_negative and not negative and em.facts.not_negative(term)
    if not terms:
        return pointer, 0, inbounds
    kind = llvm_type(terms[0][1].dtype)
    total = ""
    for negative, term in terms:
        value = em.value(term)
        if total:
            total = em.f.op(f"{'sub' if negative else 'add'} nsw {kind} {total}, {value}")
        else:
            total = em.f.op(f"sub nsw {kind} 0, {value}") if negative else value
    # A partial sum that may be negative may lie outside of the buffer until the constant is added, and by LLVM's rules no
    # step that is "inbounds" may begin there.
    within = inbounds and not_negative
    flags = "inbounds nuw " if within else ""
    offset = _extend(em, total, terms[0][1].dtype, not_negative)
    return em.f.op(f"getelementptr {flags}{element}, ptr {pointer}, {offset}"), multiple, within


def _extend(em: ExprEmitter, value: str, dtype: DType, not_negative: bool) -> str:
    if dtype.bits == 64:
        return f"i64 {value}"
    return "i64 " + em.f.op(f"{'zext nneg' if not_negative else 'sext'} {llvm_type(dtype)} {value} to i64")


def _index_operand(em: ExprEmitter, index: Expr) -> str:
    """An index as getelementptr takes it: signed, of any width."""
    value, dtype = em.value(index), index.dtype
    if dtype.kind == "uint":
        wide = llvm_type(DType("int64").with_lanes(dtype.lanes))
        return f"{wide} " + (value if dtype.bits == 64 else em.f.op(f"zext {llvm_type(dtype)} {value} to {wide}"))
    return f"{llvm_type(dtype)} {value}"


def _gcd(a: int, b: int) -> int:
    while b:
        a, b = b, a % b
    return a


def _alignment(place: Place, element_bytes: int, multiple: int, constant: int) -> int:
    """The greatest power of two that surely divides the address, up to the buffer's own alignment."""
    distance = _gcd(place.alignment, element_bytes * _gcd(multiple, abs(constant)))
    return max(distance & -distance, 1)


def _addresses(em: ExprEmitter, buffer: Buffer, index: Expr, dtype: DType, *, inbounds: bool) -> tuple[str, str, int]:
    """A vector of pointers, its type, and the alignment of each."""
    flags = "inbounds " if inbounds and em.facts.is_index(index) else ""
    pointers = em.f.op(
        f"getelementptr {flags}{memory_type(buffer.dtype)}, ptr {em.place(buffer).pointer}, {_index_operand(em, index)}"
    )
    return pointers, f"<{dtype.lanes} x ptr>", buffer.dtype.bytes


# Accesses


def _load_lanes(em: ExprEmitter, buffer: Buffer, base: Expr, offset: int, dtype: DType) -> str:
    pointer, alignment = _address(em, buffer, base, offset, inbounds=True)
    return _load_bool(em, em.f.read(f"load {memory_type(dtype)}, ptr {pointer}, align {alignment}"), dtype)


def _store_lanes(em: ExprEmitter, buffer: Buffer, base: Expr, value: str, dtype: DType) -> None:
    pointer, alignment = _address(em, buffer, base, 0, inbounds=True)
    if buffer is em.streamed and dtype.lanes > 1:
        size = buffer.dtype.bytes * dtype.lanes
        alignment = max(alignment, min(size & -size, OWN_ALIGNMENT))  # the loop begins where a line does
        past = em.f.module.metadata("!{i32 1}")
        em.streams = True
        em.f.do(f"store {memory_type(dtype)} {value}, ptr {pointer}, align {alignment}, !nontemporal {past}")
        return
    em.f.do(f"store {memory_type(dtype)} {value}, ptr {pointer}, align {alignment}")


def _reverse(em: ExprEmitter, value: str, dtype: DType) -> str:
    memory = memory_type(dtype)
    return em.f.op(f"shufflevector {memory} {value}, {memory} poison, {shuffle_mask(range(dtype.lanes - 1, -1, -1))}")


def _strided_load(em: ExprEmitter, buffer: Buffer, base: Expr, stride: int, dtype: DType) -> str:
    """Elements base, base + stride ...: from as many whole vectors as the span has, the last ending at its last
    element, so that nothing outside of [first, last] is read."""
    lanes = dtype.lanes
    if stride == 0:
        return em.splat(_load_lanes(em, buffer, base, 0, dtype.element), dtype)
    if stride == 1:
        return _load_lanes(em, buffer, base, 0, dtype)
    span = (lanes - 1) * abs(stride) + 1
    first = 0 if stride > 0 else 1 - span
    starts = [min(part * lanes, span - lanes) for part in range(abs(stride))]
    wanted = [lane * abs(stride) for lane in range(lanes)]
    if stride < 0:
        wanted.reverse()
    result = _load_lanes(em, buffer, base, first + starts[0], dtype)
    if len(starts) == 1:
        kind = llvm_type(dtype)
        return em.f.op(f"shufflevector {kind} {result}, {kind} poison, {shuffle_mask(wanted)}")
    kind = llvm_type(dtype)
    for part, start in enumerate(starts[1:], 1):
        piece = _load_lanes(em, buffer, base, first + start, dtype)
        earlier = wanted if part == 1 else list(range(lanes))
        mask = [
            lanes + want - start if want >= part * lanes else have for want, have in zip(wanted, earlier, strict=True)
        ]
        # Lanes of later parts hold anything until their turn.
        mask = [m if m < 2 * lanes else 0 for m in mask]
        result = em.f.op(f"shufflevector {kind} {result}, {kind} {piece}, {shuffle_mask(mask)}")
    return result


def _pick_lanes(em: ExprEmitter, buffer: Buffer, picked: PickedLanes, dtype: DType) -> str:
    """Neighbours in one piece, of which lanes are."""
    pointer, alignment = _address(em, buffer, picked.base, 0, inbounds=True)
    kind = f"<{picked.count} x {memory_type(dtype.element)}>"
    read = em.f.read(f"load {kind}, ptr {pointer}, align {alignment}")
    chosen = em.f.op(f"shufflevector {kind} {read}, {kind} zeroinitializer, {shuffle_mask(picked.lanes)}")
    return _load_bool(em, chosen, dtype)


def _gather(em: ExprEmitter, buffer: Buffer, index: Expr, dtype: DType, mask: str | None) -> str:
    pointers, kind, alignment = _addresses(em, buffer, index, dtype, inbounds=mask is None)
    memory = memory_type(dtype)
    return _load_bool(
        em,
        em.f.read(
            f"call {memory} @llvm.masked.gather.{_memory_mangled(dtype)}.v{dtype.lanes}p0({kind} align {alignment} "
            f"{pointers}, {_mask_type(dtype)} {mask or 'splat (i1 true)'}, {memory} zeroinitializer)"
        ),
        dtype,
    )
