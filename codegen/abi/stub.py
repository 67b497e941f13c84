"""The way into a kernel, as LLVM IR text that is linked with the kernel's.

For a kernel NAME (the function `tw_kernel_NAME`) four things are written:

* `i32 tw_check_NAME(records, symbols)` compares the arguments with the signature, writes the free shape symbols and,
  after them, the tensors' total bytes. It is the one implementation of the checks: Python calls, `_checked` entries of
  exported libraries and the Python path below all use it.
* `i32 tw_run_NAME(records, symbols)` unpacks checked records and calls the kernel.
* `PyObject *tw_call_NAME(self, args, nargs, kwnames)`, for METH_FASTCALL | METH_KEYWORDS: reads numpy arrays and
  tw.Arrays in place, has torch's tensors describe themselves, takes Python's ints, floats and bools (see base/arguments.py), checks,
  runs. Whatever else it meets, errors included, it hands to `self`, a Python callable that looks at the arguments again with all
  the time in the world.
* `tw_python_NAME`, the table of what tw_call_NAME needs of the process (runtime.abi.CallTable).

Reading the array's public fields takes a third of the time of the buffer protocol, and needs no releasing: the caller
holds its arguments for the length of the call.
"""

from __future__ import annotations

import ctypes
import math
import re

from ...base.limits import BEYOND_MEMORY
from ...runtime.abi import (
    DLPACK_TYPES,
    GIL_THRESHOLD,
    ITEM_BITS,
    ITEM_BYTES,
    PACKED_TYPES,
    CallTable,
    Check,
    DLTensor,
    Flag,
    pack_status,
)
from ...runtime.signature import BufferParam, Extent, ScalarParam, Signature
from .arguments import RECORD_BYTES, process_word, read_scalar, read_tensor, record_offset
from .overlaps import SWEEP_TEXT, check_overlaps, overlap_text
from .straight_line import StraightLine

__all__ = [
    "check_span",
    "check_statuses",
    "extent_value",
    "integer_bounds",
    "kernel_symbol",
    "scalar_type",
    "stub_symbols",
    "stub_text",
]

_SCALAR_TYPES = {"bool": "i1", "float16": "half", "float32": "float", "float64": "double"}
"""Others are integers, as those floats are that are carried as their bits."""


def kernel_symbol(name: str) -> str:
    """The symbol of the kernel itself."""
    return _symbol("kernel", name)


def _symbol(role: str, name: str) -> str:
    # names of Python functions may hold characters that symbols cannot
    return f"tw_{role}_" + re.sub(r"[^A-Za-z0-9_]", "_", name)


_FEW_PARAMS = 8
"""Parameters up to which overlaps are looked for by code that LLVM does not optimise."""


def stub_symbols(name: str) -> dict[str, str]:
    """Symbols of the entries by role: call, check, run and python (the table)."""
    return {role: _symbol(role, name) for role in ("call", "check", "run", "python")}


def scalar_type(dtype: str) -> str:
    """The LLVM type by which the kernel takes a scalar."""
    return _SCALAR_TYPES.get(dtype) or f"i{ITEM_BYTES[dtype] * 8}"


def stub_text(signature: Signature) -> str:
    """The text of all entries for one kernel: a module of its own, to be linked with the kernel's."""
    kinds = ["ptr" if isinstance(p, BufferParam) else scalar_type(p.dtype) for p in signature.params]
    # a stream comes first, symbols last: the order in which kernels declare them
    kinds = [*(["ptr"] if signature.on_stream else []), *kinds, *["i64"] * len(signature.symbols)]
    declaration = f"declare i32 @{kernel_symbol(signature.name)}({', '.join(kinds)})\n"
    call = "" if signature.on_stream else _call_text(signature)  # Python calls kernels for GPUs by other ways
    check = _check_text(signature)
    # LLVM takes as long for the optimised loop as for a small kernel, and a few pairs take a nanosecond each without
    pairs = overlap_text(is_quick=len(signature.params) > _FEW_PARAMS)
    overlaps = (pairs, SWEEP_TEXT) if "@tw_is_disjoint" in check else (pairs,)
    return "\n".join((declaration, *overlaps, check, _run_text(signature), call))


_WIDE = {"+": "sadd", "-": "ssub", "*": "smul"}
"""LLVM's name of each operator that tells whether its result fits."""


def _emit_overflow_check(text: StraightLine, operation: str, a: str, b: str) -> tuple[str, str]:
    """(the result, whether it does not fit 64 bits)."""
    both = text.value(f"call {{ i64, i1 }} @llvm.{operation}.with.overflow.i64(i64 {a}, i64 {b})")
    value, lost = (text.value(f"extractvalue {{ i64, i1 }} {both}, {part}") for part in (0, 1))
    return value, lost


# The check


def check_statuses(signature: Signature) -> tuple[int, ...]:
    """Every status that the check of a signature can give, but for 0 and those of pairs of arguments (Check.OVERLAP)."""
    # the exits of the text itself, so that a test of statuses cannot miss one
    return tuple(sorted({status for status, _ in _check_body(signature).exits}))


def _check_text(signature: Signature) -> str:
    name = _symbol("check", signature.name)
    return _function(f"i32 @{name}(ptr noalias readonly %args, ptr noalias %symbols) nounwind", _check_body(signature))


def _check_body(signature: Signature) -> StraightLine:
    text = StraightLine()
    known = {p.name: _check_scalar(text, i, p) for i, p in enumerate(signature.params) if isinstance(p, ScalarParam)}
    extents = {i: _check_buffer(text, i, p) for i, p in signature.buffers}
    ranges = {i: _check_layout(text, i, p, extents[i]) for i, p in signature.buffers}
    # symbols before extents: a symbolic extent is compared with the value that its symbol was given
    _bind_symbols(text, signature, extents, known)
    _check_extents(text, signature, extents, known)
    check_overlaps(text, [i for i, p in signature.buffers if p.is_output], {i: span[:2] for i, span in ranges.items()})
    total = "0"  # the total decides whether the interpreter's lock is released
    for _, _, size in ranges.values():
        total = text.value(f"add i64 {total}, {size}")
    for k, symbol in enumerate(signature.symbols):
        text.store("i64", known[symbol.name], "%symbols", 8 * k)
    text.store("i64", total, "%symbols", 8 * len(signature.symbols))
    text.add("ret i32 0")  # 0 where nothing was wrong
    if text.exits:
        text.start("fail")
        text.add("%status = phi i32 " + ", ".join(f"[ {status}, %{block} ]" for status, block in text.exits))
        text.add("ret i32 %status")
    return text


def _function(head: str, text: StraightLine) -> str:
    """A whole function. It is straight-line code in SSA form already: optimising it would take three times as long as
    optimising a small kernel does, and the call would be no faster."""
    return f"define {head} noinline optnone {{\n" + "\n".join(text.lines) + "\n}\n"


def integer_bounds(param: ScalarParam) -> tuple[int | None, int | None]:
    """The least and greatest value to compare an int64 with; None where the type cannot exceed it."""
    bits = ITEM_BITS[param.dtype]
    signed = param.dtype.startswith("int")
    # the range of the type itself
    least, greatest = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    lower = least if param.least is None else max(least, param.least)
    upper = greatest if param.greatest is None else min(greatest, param.greatest)
    if bits == 64:
        # an int64 cannot lie outside of the range, so that no comparison is needed
        return (None if lower == least else lower), (None if upper == greatest else upper)
    return lower, upper


def _check_scalar(text: StraightLine, i: int, param: ScalarParam) -> str:
    """Compare an integer with its range; returns its value as i64 (floats and bools are of no use as extents)."""
    value = text.load("i64", "%args", record_offset(i, "data"))
    if not param.dtype.startswith(("int", "uint")):
        return value
    sign = "u" if param.dtype == "uint64" else "s"  # the value was read as 64 bits: uint64 is compared without sign
    for how, bound in zip(("lt", "gt"), integer_bounds(param), strict=True):
        if bound is not None:
            wrong = text.compare(sign + how, "i64", value, bound)
            text.leave_if(wrong, "fail", pack_status(Check.SCALAR_RANGE, i))
    return value


def _check_buffer(text: StraightLine, i: int, param: BufferParam) -> list[str]:
    """Device, dtype, rank and writability; returns the extents that the argument has."""
    flags = text.load("i32", "%args", record_offset(i, "flags"))
    refused = text.compare("ne", "i32", text.value(f"and i32 {flags}, {int(Flag.FOREIGN_DEVICE)}"), 0)
    text.leave_if(refused, "fail", pack_status(Check.DEVICE, i))
    dtype = text.load("i32", "%args", record_offset(i, "dtype"))
    # code, bits and lanes are compared as one word
    text.leave_if(text.compare("ne", "i32", dtype, DLPACK_TYPES[param.dtype]), "fail", pack_status(Check.DTYPE, i))
    ndim = text.load("i32", "%args", record_offset(i, "ndim"))
    # rank before shape: fewer extents than expected must not be read past
    text.leave_if(text.compare("ne", "i32", ndim, len(param.shape)), "fail", pack_status(Check.RANK, i))
    if param.is_output:
        refused = text.compare("ne", "i32", text.value(f"and i32 {flags}, {int(Flag.READ_ONLY)}"), 0)
        text.leave_if(refused, "fail", pack_status(Check.READ_ONLY, i))
    shape = text.load("ptr", "%args", record_offset(i, "shape")) if param.shape else ""
    extents = [text.load("i64", shape, 8 * d) for d in range(len(param.shape))]
    for d, extent in enumerate(param.shape):
        if isinstance(extent, int):
            text.leave_if(text.compare("ne", "i64", extents[d], extent), "fail", pack_status(Check.SHAPE, i, d))
    # a fixed extent was compared: as a constant it folds in what follows
    return [str(e) if isinstance(e, int) else extents[d] for d, e in enumerate(param.shape)]


def _check_layout(text: StraightLine, i: int, param: BufferParam, extents: list[str]) -> tuple[str, str, str]:
    """Strides and alignment, which nobody asks of an empty tensor; returns (begin, end, bytes) of the memory."""
    data = text.load("i64", "%args", record_offset(i, "data"))
    item = ITEM_BYTES[param.dtype]  # the last dimension's stride, in bytes
    check_span(text, i, item, extents)
    inner = [str(item)]
    for extent in reversed(extents):
        inner.append(text.value(f"mul i64 {inner[-1]}, {extent}"))
    size = inner.pop()  # what is left at the end is the whole size
    if param.dtype in PACKED_TYPES:  # in bytes, two elements each
        size = text.value(f"lshr i64 {text.value(f'add i64 {size}, 1')}, 1")
    filled = text.compare("ne", "i64", size, 0)
    aligned = max(item, param.alignment)
    if aligned > 1:
        odd = text.compare("ne", "i64", text.value(f"and i64 {data}, {aligned - 1}"), 0)
        # a pointer of an empty tensor may be anything
        text.leave_if(text.both(odd, filled), "fail", pack_status(Check.ALIGNMENT, i))
    if extents:
        _check_strides(text, i, extents, inner[::-1], filled)
    return data, text.value(f"add i64 {data}, {size}"), size  # begin and end of the memory, for the search for overlaps


def check_span(text: StraightLine, i: int, item: int, extents: list[str]) -> None:
    """Refuse extents below 0, and those that multiply to more bytes than memory has, 0 left out as numpy does: what is computed of
    them from here on fits 64 bits."""
    # 0 left out: another extent beside it must not be unbounded
    known = item * math.prod(int(extent) for extent in extents if extent.isdecimal() and extent != "0")
    span = str(known)
    for d, extent in enumerate(extents):
        if extent.isdecimal():
            continue
        none = text.compare("eq", "i64", extent, 0)
        factor = text.value(f"select i1 {none}, i64 1, i64 {extent}")  # a factor of 0 would hide what follows
        span, lost = _emit_overflow_check(text, "umul", span, factor)  # an extent below 0 is a factor of 2^63 and more
        beyond = text.compare("uge", "i64", span, BEYOND_MEMORY)
        text.leave_if(text.either(lost, beyond), "fail", pack_status(Check.EXTENT, i, d))


def _check_strides(text: StraightLine, i: int, extents: list[str], expected: list[str], filled: str) -> None:
    strides = text.load("ptr", "%args", record_offset(i, "strides"))
    unit = text.load("i64", "%args", record_offset(i, "unit"))
    given, done = text.label("strides"), text.label("compact")
    # null strides mean compact, as DLPack has it
    text.add(f"br i1 {text.compare('eq', 'ptr', strides, 'null')}, label %{done}, label %{given}")
    text.start(given)
    for d, (extent, stride) in enumerate(zip(extents, expected, strict=True)):
        if extent in ("0", "1"):
            continue  # a stride along one element or none is never used
        actual, lost = _emit_overflow_check(text, "smul", text.load("i64", strides, 8 * d), unit)
        other = text.either(lost, text.compare("ne", "i64", actual, stride))
        wrong = text.both(other, text.compare("ne", "i64", extent, 1))  # an extent of 1 that is known only at run time
        text.leave_if(text.both(wrong, filled), "fail", pack_status(Check.STRIDE, i, d))
    text.add(f"br label %{done}")
    text.start(done)


def _bind_symbols(
    text: StraightLine, signature: Signature, extents: dict[int, list[str]], known: dict[str, str]
) -> None:
    for symbol in signature.symbols:
        binding = signature.bindings[symbol.name]
        value = extents[binding.param][binding.dim]
        for operator, number in binding.steps:
            value = text.value(f"{ {'+': 'add', '-': 'sub', '//': 'sdiv'}[operator] } i64 {value}, {number}")
        if binding.steps:
            text.leave_if(
                # such as n - 1 of an extent of 0
                text.compare("slt", "i64", value, 0),
                "fail",
                pack_status(Check.SYMBOL, binding.param, binding.dim),
            )
        if symbol.limit is not None:
            text.leave_if(
                text.compare("sge", "i64", value, symbol.limit),  # indices of 32 bits in the code
                "fail",
                pack_status(Check.TOO_LARGE, binding.param, binding.dim),
            )
        known[symbol.name] = value


def _check_extents(
    text: StraightLine, signature: Signature, extents: dict[int, list[str]], known: dict[str, str]
) -> None:
    """Compare every symbolic extent with what its symbols say."""
    for i, param in signature.buffers:
        for d, extent in enumerate(param.shape):
            if isinstance(extent, int):
                continue
            expected = extent_value(text, extent, known, pack_status(Check.SYMBOL, i, d))
            # equal texts are the same value, as where a symbol is bound by this very extent
            if expected != extents[i][d]:
                wrong = text.compare("ne", "i64", extents[i][d], expected)
                text.leave_if(wrong, "fail", pack_status(Check.SYMBOL, i, d))


def extent_value(text: StraightLine, extent: Extent, known: dict[str, str], overflow: int) -> str:
    """The value of an extent. overflow: the status where it does not fit 64 bits."""
    if isinstance(extent, int):
        return str(extent)
    if isinstance(extent, str):
        return known[extent]
    operator, left, right = extent
    a, b = extent_value(text, left, known, overflow), extent_value(text, right, known, overflow)
    if operator in _WIDE:
        value, lost = _emit_overflow_check(text, _WIDE[operator], a, b)  # only + - * can exceed 64 bits
        text.leave_if(lost, "fail", overflow)
        return value
    if operator in ("min", "max"):
        chosen = text.compare("slt" if operator == "min" else "sgt", "i64", a, b)
        return text.value(f"select i1 {chosen}, i64 {a}, i64 {b}")
    return _floor_division(text, operator, a, b)


def _floor_division(text: StraightLine, operator: str, a: str, b: str) -> str:
    """a // b or a % b rounded towards minus infinity, 0 where b is 0; the least a // -1 is itself: the processor would stop."""
    zero = text.compare("eq", "i64", b, 0)
    least = text.both(text.compare("eq", "i64", a, -(1 << 63)), text.compare("eq", "i64", b, -1))
    # sdiv by 0 or of the least integer by -1 is a trap on x86
    divisor = text.value(f"select i1 {text.either(zero, least)}, i64 1, i64 {b}")
    remainder = text.value(f"srem i64 {a}, {divisor}")
    # floor differs from truncation where remainder and divisor have unlike signs
    signs = text.compare("slt", "i64", text.value(f"xor i64 {remainder}, {divisor}"), 0)
    below = text.both(signs, text.compare("ne", "i64", remainder, 0))
    if operator == "%":
        result = text.value(f"select i1 {below}, i64 {text.value(f'add i64 {remainder}, {divisor}')}, i64 {remainder}")
    else:
        quotient = text.value(f"sdiv i64 {a}, {divisor}")
        result = text.value(f"sub i64 {quotient}, {text.value(f'zext i1 {below} to i64')}")
    return text.value(f"select i1 {zero}, i64 0, i64 {result}")


# Running


def _run_text(signature: Signature) -> str:
    text = StraightLine()
    stream = ", ptr %stream" if signature.on_stream else ""
    passed: list[str] = ["ptr %stream"] if stream else []
    for i, param in enumerate(signature.params):
        if isinstance(param, BufferParam):
            passed.append("ptr " + text.load("ptr", "%args", record_offset(i, "data")))
        else:
            passed.append(f"{scalar_type(param.dtype)} {_scalar_value(text, i, param.dtype)}")
    passed += ["i64 " + text.load("i64", "%symbols", 8 * k) for k in range(len(signature.symbols))]
    status = text.value(f"call i32 @{kernel_symbol(signature.name)}({', '.join(passed)})")
    text.add(f"ret i32 {status}")
    return _function(
        f"i32 @{_symbol('run', signature.name)}(ptr readonly %args, ptr readonly %symbols{stream}) nounwind", text
    )


def _scalar_value(text: StraightLine, i: int, dtype: str) -> str:
    """The scalar in the type that the kernel takes, from its record's 64 bits."""
    bits = text.load("i64", "%args", record_offset(i, "data"))
    kind = scalar_type(dtype)
    if kind == "half":
        return text.value(f"bitcast i16 {text.value(f'trunc i64 {bits} to i16')} to {kind}")
    if kind in ("float", "double"):  # records hold every float as a double
        double = text.value(f"bitcast i64 {bits} to double")
        return double if kind == "double" else text.value(f"fptrunc double {double} to float")
    return bits if kind == "i64" else text.value(f"trunc i64 {bits} to {kind}")


# Python's call


def _call_text(signature: Signature) -> str:
    text, name, count = StraightLine(), signature.name, len(signature.params)
    table = _symbol("python", name)
    text.add(f"%records = alloca [{max(count, 1) * RECORD_BYTES} x i8], align 16")
    text.add(f"%symbols = alloca [{len(signature.symbols) + 1} x i64], align 16")
    text.add("%overflow = alloca i32")
    # room for what the type's function fills in
    text.add(f"%described = alloca [{ctypes.sizeof(DLTensor)} x i8], align 16")
    # missing or further arguments: the Python path binds them or says what is wrong
    text.leave_if(text.compare("ne", "i64", "%nargs", count), "slow")
    text.leave_if(text.compare("ne", "ptr", "%kwnames", "null"), "slow")
    for i, param in enumerate(signature.params):
        given = text.load("ptr", "%args", 8 * i)
        if isinstance(param, BufferParam):
            read_tensor(text, table, i, param, given)
        else:
            read_scalar(text, table, i, param, given)
    status = text.value(f"call i32 @{_symbol('check', name)}(ptr %records, ptr %symbols)")
    text.leave_if(text.compare("ne", "i32", status, 0), "slow")
    _run_kernel(text, signature)
    text.start("unclear")
    text.add(f"call void {process_word(text, table, 'clear_error')}()")  # the Python path will raise its own
    text.add("br label %slow")
    text.start("slow")
    call = process_word(text, table, "vectorcall")
    result = text.value(f"call ptr {call}(ptr %self, ptr %args, i64 %nargs, ptr %kwnames)")
    text.add(f"ret ptr {result}")
    strings = (  # 7 and 2 count the zero byte
        f'@{_symbol("failed", name)} = private constant [7 x i8] c"failed\\00"\n'
        f'@{_symbol("format", name)} = private constant [2 x i8] c"i\\00"\n'
    )
    words = f"@{table} = global [{len(CallTable._fields_)} x ptr] zeroinitializer\n"
    head = f"ptr @{_symbol('call', name)}(ptr %self, ptr %args, i64 %nargs, ptr %kwnames)"
    return words + strings + _function(head, text)


def _run_kernel(text: StraightLine, signature: Signature) -> None:
    """Run, without the interpreter's lock where that pays, and return None or let `self.failed` raise."""
    name, table = signature.name, _symbol("python", signature.name)
    run = f"call i32 @{_symbol('run', name)}(ptr %records, ptr %symbols)"
    if signature.long_running:
        text.add("br label %free")  # such a kernel releases the lock, however small its arguments are
    else:
        total = text.load("i64", "%symbols", 8 * len(signature.symbols))
        large = text.compare("sge", "i64", total, GIL_THRESHOLD)  # below, releasing the lock takes longer than it frees
        text.add(f"br i1 {large}, label %free, label %locked")
    text.start("free")
    state = text.value(f"call ptr {process_word(text, table, 'save_thread')}()")
    text.add(f"%free_status = {run}")
    text.add(f"call void {process_word(text, table, 'restore_thread')}(ptr {state})")
    text.add("br label %ran")
    if not signature.long_running:
        text.start("locked")
        text.add(f"%locked_status = {run}")
        text.add("br label %ran")
    text.start("ran")
    locked = "" if signature.long_running else ", [ %locked_status, %locked ]"
    text.add(f"%status = phi i32 [ %free_status, %free ]{locked}")
    text.leave_if(text.compare("ne", "i32", "%status", 0), "failed")
    none = process_word(text, table, "none")
    text.add(f"call void {process_word(text, table, 'incref')}(ptr {none})")
    text.add(f"ret ptr {none}")
    text.start("failed")
    call = process_word(text, table, "call_method")  # only the Python object knows what a status means
    error = text.value(
        f"call ptr (ptr, ptr, ptr, ...) {call}(ptr %self, ptr @{_symbol('failed', name)}, "
        f"ptr @{_symbol('format', name)}, i32 %status)"
    )
    text.add(f"ret ptr {error}")
