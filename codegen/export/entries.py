"""The C functions of a kernel, as LLVM IR text: plain, checked and error.

    int32_t NAME(int64_t n, const float *A, float *C)              symbolic extents first
    int32_t NAME_checked(const DLTensor *A, const DLTensor *C)     the checks of a call from Python, by tw_check_NAME
    const char *NAME_error(int32_t status)

A function for GPUs has a stream as its first argument: of all of them, but _error. What a function of the library itself made, as
what maps a model's weights, comes before the extents.

They run on any processor of the architecture; code that needs more is called only once the processor is known to have it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from ...base.limits import BEYOND_MEMORY
from ...runtime.abi import ITEM_BYTES, Check, DLTensor, Flag, pack_status
from ...runtime.device import GPU_KINDS, HOST_KINDS
from ...runtime.signature import BufferParam, ScalarParam, Signature
from ..abi.arguments import RECORD_BYTES, record_offset
from ..abi.straight_line import StraightLine
from ..abi.stub import check_span, extent_value, integer_bounds, kernel_symbol, scalar_type, stub_symbols
from .cpu import ABSENT
from .error_function import error_text
from .names import entry_names
from .statuses import FAR_DATA, NULL_DATA, NULL_SHAPE, NULL_TENSOR, WRONG_PROCESSOR, overlap_texts

__all__ = ["carried_kinds", "entries_text"]

_CARRIED = {"bool": "i8", "float16": "i16"}
"""How scalars come from C where that is not the type that the kernel takes."""


def entries_text(
    signature: Signature,
    texts: Mapping[int, str],
    attributes: str,
    masks: Sequence[int],
    handles: Set[str] = frozenset(),
) -> str:
    """The three functions. texts: of every status. attributes: of functions that run on any processor. masks: of the features
    that each variant of the kernel needs; one of these has to be there. handles: parameters that come before the extents."""
    plain, checked, error = entry_names(signature.name)
    symbols = stub_symbols(signature.name)
    stream = ["ptr %stream"] if signature.on_stream else []
    taken = ["ptr" if isinstance(p, BufferParam) else scalar_type(p.dtype) for p in signature.params]
    kinds = ", ".join([*("ptr" for _ in stream), *taken, *("i64" for _ in signature.symbols)])
    declarations = [
        f"declare i32 @{kernel_symbol(signature.name)}({kinds})",
        f"declare i64 @{ABSENT}()",
        f"declare i32 @{symbols['check']}(ptr, ptr)",
        f"declare i32 @{symbols['run']}({', '.join(['ptr'] * (2 + len(stream)))})",
    ]  # C's order is its own: handles, extents, the rest
    carried = [f"{kind} %p{i}" for i, kind in enumerate(carried_kinds(signature))]
    extents = [f"i64 %n{k}" for k in range(len(signature.symbols))]
    first, rest = (
        [text for text, p in zip(carried, signature.params, strict=True) if (p.name in handles) == is_first]
        for is_first in (True, False)  # handles come first
    )
    return "\n".join(
        [
            *declarations,
            f"define i32 @{plain}({', '.join([*stream, *first, *extents, *rest])}) {attributes} {{",
            *_plain(signature, masks),
            "}",
            # straight on, as the check that it calls: optimising takes longer than it saves
            f"define i32 @{checked}({', '.join([*stream, *carried])}) noinline optnone {attributes} {{",
            *_emit_checked_entry(signature, masks),
            "}",
            error_text(error, texts, overlap_texts(signature), attributes),
        ]
    )


def carried_kinds(signature: Signature) -> list[str]:
    """The LLVM types by which C functions take the parameters; pointers for tensors."""
    return [
        "ptr" if isinstance(p, BufferParam) else _CARRIED.get(p.dtype) or scalar_type(p.dtype) for p in signature.params
    ]


def _finish(text: StraightLine) -> list[str]:
    """The way out with a status."""
    if text.exits:  # without exits the phi would have no edge
        text.start("fail")
        text.add("%status = phi i32 " + ", ".join(f"[ {status}, %{block} ]" for status, block in text.exits))
        text.add("ret i32 %status")
    return text.lines


def _ask_processor(text: StraightLine, masks: Sequence[int]) -> None:
    if not all(masks):  # some code runs anywhere
        return
    absent, refused = text.value(f"call i64 @{ABSENT}()"), "true"  # "true": refused where all of the variants are
    for mask in masks:
        if not any(other != mask and other & mask == other for other in masks):  # else that one's being there is enough
            refused = text.both(refused, text.compare("ne", "i64", text.value(f"and i64 {absent}, {mask}"), 0))
    text.leave_if(refused, "fail", WRONG_PROCESSOR)


# Plain


def _plain(signature: Signature, masks: Sequence[int]) -> list[str]:
    text = StraightLine()
    _ask_processor(text, masks)
    for k, symbol in enumerate(signature.symbols):  # the code relies on extents that are not negative
        at = signature.bindings[symbol.name]
        below = text.compare("slt", "i64", f"%n{k}", 0)
        text.leave_if(below, "fail", pack_status(Check.EXTENT, at.param, at.dim))
        if symbol.limit is not None:
            beyond = text.compare("sge", "i64", f"%n{k}", symbol.limit)
            text.leave_if(beyond, "fail", pack_status(Check.TOO_LARGE, at.param, at.dim))
    passed: list[str] = ["ptr %stream"] if signature.on_stream else []
    for i, param in enumerate(signature.params):
        if isinstance(param, BufferParam):
            passed.append(f"ptr %p{i}")
        else:
            _check_range(text, i, param)
            passed.append(f"{scalar_type(param.dtype)} {_fits_register(text, i, param.dtype)}")
    known = {symbol.name: f"%n{k}" for k, symbol in enumerate(signature.symbols)}
    known |= {
        p.name: _scalar_bits(text, i, p.dtype) for i, p in enumerate(signature.params) if isinstance(p, ScalarParam)
    }
    for i, param in signature.buffers:  # nothing is read of the tensors, but what the extents multiply to may not fit
        extents = [
            extent_value(text, extent, known, pack_status(Check.EXTENT, i, d)) for d, extent in enumerate(param.shape)
        ]
        check_span(text, i, ITEM_BYTES[param.dtype], extents)
    passed += [f"i64 %n{k}" for k in range(len(signature.symbols))]
    result = text.value(f"call i32 @{kernel_symbol(signature.name)}({', '.join(passed)})")
    text.add(f"ret i32 {result}")
    return _finish(text)


def _check_range(text: StraightLine, i: int, param: ScalarParam) -> None:
    """Compare an integer with the bounds that are tighter than its type's."""
    if param.least is None and param.greatest is None:
        return
    kind, sign = scalar_type(param.dtype), "s" if param.dtype.startswith("int") else "u"
    for how, bound in zip(("lt", "gt"), integer_bounds(param), strict=True):
        if bound is not None:
            text.leave_if(text.compare(sign + how, kind, f"%p{i}", bound), "fail", pack_status(Check.SCALAR_RANGE, i))


def _fits_register(text: StraightLine, i: int, dtype: str) -> str:
    if dtype == "bool":
        return text.compare("ne", "i8", f"%p{i}", 0)  # bits are the carrier: C passes no half
    return text.value(f"bitcast i16 %p{i} to {scalar_type(dtype)}") if dtype in _CARRIED else f"%p{i}"


# Checked


def _emit_checked_entry(signature: Signature, masks: Sequence[int]) -> list[str]:
    text = StraightLine()
    text.add(f"%records = alloca [{max(len(signature.params), 1) * RECORD_BYTES} x i8], align 16")
    text.add(f"%symbols = alloca [{len(signature.symbols) + 1} x i64], align 16")
    _ask_processor(text, masks)
    for i, param in enumerate(signature.params):
        if isinstance(param, BufferParam):
            _read_tensor(text, i, param, on_gpu=signature.on_stream)
        else:
            text.store("i64", _scalar_bits(text, i, param.dtype), "%records", record_offset(i, "data"))
    for i, param in signature.buffers:
        _check_nulls(text, i, param)
    symbols = stub_symbols(signature.name)
    status = text.value(f"call i32 @{symbols['check']}(ptr %records, ptr %symbols)")  # checks are done here alone
    refused = text.compare("ne", "i32", status, 0)
    block, sound = text.block, text.label("b")
    text.add(f"br i1 {refused}, label %fail, label %{sound}")
    text.start(sound)
    result = text.value(
        f"call i32 @{symbols['run']}(ptr %records, ptr %symbols{', ptr %stream' if signature.on_stream else ''})"
    )
    text.add(f"ret i32 {result}")
    text.start("fail")
    # the status of the check, and those of the exits before it
    ways = [f"[ {status}, %{block} ]", *(f"[ {number}, %{at} ]" for number, at in text.exits)]
    text.add("%status = phi i32 " + ", ".join(ways))
    text.add("ret i32 %status")
    return text.lines


def _read_tensor(text: StraightLine, i: int, param: BufferParam, *, on_gpu: bool) -> None:
    """The record of a DLTensor."""
    tensor = f"%p{i}"
    text.leave_if(text.compare("eq", "ptr", tensor, "null"), "fail", pack_status(Check.NULL, i, NULL_TENSOR))
    base = text.load("i64", tensor, DLTensor.data.offset)
    device = text.load("i32", tensor, DLTensor.device_type.offset)
    shape = text.load("ptr", tensor, DLTensor.shape.offset)
    foreign = "true"
    for kind in GPU_KINDS if on_gpu else HOST_KINDS:  # several kinds are memory that this code may read
        foreign = text.both(foreign, text.compare("ne", "i32", device, kind))
    fields = {
        "data": ("i64", text.value(f"add i64 {base}, {text.load('i64', tensor, DLTensor.byte_offset.offset)}")),
        "shape": ("ptr", shape),
        "strides": ("ptr", text.load("ptr", tensor, DLTensor.strides.offset)),
        "unit": ("i64", str(ITEM_BYTES[param.dtype])),  # DLPack counts strides in elements
        "dtype": ("i32", text.load("i32", tensor, DLTensor.dtype.offset)),
        "ndim": ("i32", text.load("i32", tensor, DLTensor.ndim.offset)),
        "flags": ("i32", text.value(f"select i1 {foreign}, i32 {int(Flag.FOREIGN_DEVICE)}, i32 0")),
    }
    for field, (kind, value) in fields.items():
        text.store(kind, value, "%records", record_offset(i, field))


def _check_nulls(text: StraightLine, i: int, param: BufferParam) -> None:
    """Return what no tensor of Python's can have, and tw_check therefore does not ask: no shape, elements without memory. Where the rank
    is wrong, there is nothing more to look at."""
    rank, tensor = len(param.shape), f"%p{i}"
    known, after = text.label("ranked"), text.label("next")
    ndim = text.load("i32", tensor, DLTensor.ndim.offset)
    # the check reports a wrong rank, this reads extents that are there
    text.add(f"br i1 {text.compare('eq', 'i32', ndim, rank)}, label %{known}, label %{after}")
    text.start(known)
    filled = "true"
    if rank:
        shape = text.load("ptr", tensor, DLTensor.shape.offset)
        text.leave_if(text.compare("eq", "ptr", shape, "null"), "fail", pack_status(Check.NULL, i, NULL_SHAPE))
        for d in range(rank):
            filled = text.both(filled, text.compare("ne", "i64", text.load("i64", shape, 8 * d), 0))
    nowhere = text.compare("eq", "i64", text.load("i64", tensor, DLTensor.data.offset), 0)
    text.leave_if(text.both(nowhere, filled), "fail", pack_status(Check.NULL, i, NULL_DATA))
    # a byte offset beyond all memory would wrap around to a sound address
    far = text.compare("uge", "i64", text.load("i64", tensor, DLTensor.byte_offset.offset), BEYOND_MEMORY)
    text.leave_if(text.both(far, filled), "fail", pack_status(Check.NULL, i, FAR_DATA))
    text.add(f"br label %{after}")
    text.start(after)


def _scalar_bits(text: StraightLine, i: int, dtype: str) -> str:
    """64 bits that hold a scalar as an ArgumentRecord does."""
    if dtype == "int64" or dtype == "uint64":
        return f"%p{i}"
    if dtype in ("float32", "float64"):
        double = text.value(f"fpext float %p{i} to double") if dtype == "float32" else f"%p{i}"
        return text.value(f"bitcast double {double} to i64")
    value = f"%p{i}"
    if dtype == "bool":
        value = text.value(f"zext i1 {text.compare('ne', 'i8', value, 0)} to i8")
    kind = _CARRIED.get(dtype) or scalar_type(dtype)
    return text.value(f"{'sext' if dtype.startswith('int') else 'zext'} {kind} {value} to i64")
