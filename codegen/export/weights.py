"""Parameters of a model in a file beside its library, mapped when they are opened, and read once then to see that they are whole.

The file has a page of its own before the parameters: at its byte 64 the digest of what belongs together. Where it is mapped, the
beginning of that page becomes a DLTensor of the whole, so that one handle serves plain functions, which take it for the memory,
and checked ones.

The checksum is of what follows that page, in words of 64 bits: word k goes into lane k % LANES, `lane = rotate(lane ^ word, 31) * P`, and
the lanes into one at the end, `sum = rotate(sum ^ lane, 31) * P + Q`, after xxHash64's stripes (github.com/Cyan4973/xxHash,
doc/xxhash_spec.md), with more lanes, so that numpy is quick enough too. Each step is one to one in each of its operands: whatever
changes within one word is found for sure, anything else but for one case in 2^64. It finds damage, not malice.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ...runtime.abi import DLTensor
from .companion import Companion

__all__ = ["HEADER_BYTES", "checksum_words", "weights_companion", "weights_header"]

HEADER_BYTES = 4096
_MARK = b"TWWEIGHT"
_MARK_AT = 64
_SHAPE_AT = 56
_OPEN = 0o2004000
"""Linux's flags O_CLOEXEC and O_NONBLOCK: a pipe in the place of the weights is refused, and not waited for."""
_NOT_THERE, _NOT_THESE, _NOT_MAPPED, _NOT_WHOLE = -2, -3, -4, -5
_LANES = 1024
_P, _Q = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F
"""xxHash64's primes."""


def weights_header(digest: str) -> bytes:
    """The file's first page. digest: 64 hexadecimal figures."""
    return (bytes(_MARK_AT) + _MARK + bytes.fromhex(digest)).ljust(HEADER_BYTES, b"\0")


def checksum_words(parts: Iterable[bytes | memoryview]) -> int:
    """The checksum of what follows the first page, in parts of any sizes; the last word is filled up with zeros."""
    lanes, rest = np.zeros(_LANES, np.uint64), b""
    block = 8 * _LANES
    for part in parts:
        data = memoryview(part).cast("B")
        if rest:
            begin = min(block - len(rest), len(data))
            rest, data = rest + data[:begin], data[begin:]
            if len(rest) < block:
                continue
            _mix(lanes, np.frombuffer(rest, np.uint64))
        whole = len(data) - len(data) % block
        for words in np.frombuffer(data[:whole], np.uint64).reshape(-1, _LANES):
            _mix(lanes, words)
        rest = bytes(data[whole:])
    last = np.frombuffer(rest.ljust(-(-len(rest) // 8) * 8, b"\0"), np.uint64)
    _mix(lanes[: len(last)], last)
    total, mask = 0, (1 << 64) - 1
    for lane in lanes.tolist():
        mixed = total ^ lane
        total = ((mixed << 31 & mask | mixed >> 33) * _P + _Q) & mask
    return total


def _mix(
    lanes: np.ndarray[tuple[int], np.dtype[np.uint64]], words: np.ndarray[tuple[int], np.dtype[np.uint64]]
) -> None:
    mixed = lanes ^ words
    np.right_shift(mixed, 33, out=lanes)
    mixed <<= np.uint64(31)
    lanes |= mixed
    lanes *= np.uint64(_P)


def weights_companion(library: str, parameter: str, size: int, digest: str, checksum: int) -> Companion:
    """net_open and its like of a library. parameter: by which its functions take what is mapped. size: of the file, in bytes.
    checksum: of what follows its first page."""
    handle, name = f"{library}_weights", library
    return Companion(
        functions={
            f"{name}_open": f"/* Maps the file of weights, which is read where it lies, by all threads and processes together, and stays\n"
            f" * until it is closed, and reads all of it once, to see that it is as it was written. 0, or a status for\n"
            f" * {name}_error. The file must not change while it is mapped: put another in its place by renaming it. */\n"
            f"int32_t {name}_open(const char *path, {handle} **weights);\n",
            f"{name}_open_unverified": "/* The same, of which nothing is read but what calls need: what changed gives other results. */\n"
            f"int32_t {name}_open_unverified(const char *path, {handle} **weights);\n",
            f"{name}_verify": f"/* Reads all weights once: 0 where they are as they were written, or a status for {name}_error. */\n"
            f"int32_t {name}_verify(const {handle} *weights);\n",
            f"{name}_close": f"/* Takes the weights away again, when no call reads them any more; NULL is nothing. */\n"
            f"void {name}_close({handle} *weights);\n",
        },
        types={parameter: f"const {handle} *"},
        before=f"typedef struct {handle} {handle};    /* the model's parameters */\n",
        code=_mapper_code(f"{name}_open_unverified", size, _MARK + bytes.fromhex(digest))
        + _verifier_code(f"{name}_verify", size, checksum)
        + _opener_code(name)
        + _closer_code(f"{name}_close", size),
        statuses={
            _NOT_THERE: "the file of weights cannot be opened",
            _NOT_THESE: "the file does not hold the weights of this library",
            _NOT_MAPPED: "there is no room to map the weights",
            _NOT_WHOLE: "the weights are not as they were written: the file has changed",
        },
    )


def _opener_code(name: str) -> str:
    """LLVM IR of what maps the file and reads it."""
    return f"""
define i32 @{name}_open(ptr %path, ptr %weights) nounwind {{
  %mapped = call i32 @{name}_open_unverified(ptr %path, ptr %weights)
  %refused = icmp ne i32 %mapped, 0
  br i1 %refused, label %done, label %read
read:
  %map = load ptr, ptr %weights, align 8
  %found = call i32 @{name}_verify(ptr %map)
  %whole = icmp eq i32 %found, 0
  br i1 %whole, label %done, label %damaged
damaged:
  call void @{name}_close(ptr %map)
  store ptr null, ptr %weights, align 8
  br label %done
done:
  %status = phi i32 [ %mapped, %0 ], [ 0, %read ], [ %found, %damaged ]
  ret i32 %status
}}
"""


def _verifier_code(verifier: str, size: int, checksum: int) -> str:
    """LLVM IR of what compares the checksum."""
    return f"""
define i32 @{verifier}(ptr %weights) nounwind {{
entry:
  %lanes = alloca [{_LANES} x i64], align 64
  %none = icmp eq ptr %weights, null
  br i1 %none, label %nothing, label %begin
begin:
  call void @llvm.memset.p0.i64(ptr align 64 %lanes, i8 0, i64 {8 * _LANES}, i1 false)
  %words = getelementptr i8, ptr %weights, i64 {HEADER_BYTES}
  br label %word
word:
  %k = phi i64 [ 0, %begin ], [ %next, %mix ]
  %more = icmp ult i64 %k, {-(-(size - HEADER_BYTES) // 8)}
  br i1 %more, label %mix, label %fold
mix:
  %number = and i64 %k, {_LANES - 1}
  %place = getelementptr i64, ptr %lanes, i64 %number
  %from = getelementptr i64, ptr %words, i64 %k
  %given = load i64, ptr %from, align 8
  %lane = load i64, ptr %place, align 8
  %met = xor i64 %lane, %given
  %turned = call i64 @llvm.fshl.i64(i64 %met, i64 %met, i64 31)
  %mixed = mul i64 %turned, {_wrap_signed(_P)}
  store i64 %mixed, ptr %place, align 8
  %next = add i64 %k, 1
  br label %word
fold:
  %at = phi i64 [ 0, %word ], [ %after, %fold ]
  %total = phi i64 [ 0, %word ], [ %last, %fold ]
  %source = getelementptr i64, ptr %lanes, i64 %at
  %value = load i64, ptr %source, align 8
  %joined = xor i64 %total, %value
  %rotated = call i64 @llvm.fshl.i64(i64 %joined, i64 %joined, i64 31)
  %times = mul i64 %rotated, {_wrap_signed(_P)}
  %last = add i64 %times, {_wrap_signed(_Q)}
  %after = add i64 %at, 1
  %again = icmp ult i64 %after, {_LANES}
  br i1 %again, label %fold, label %done
done:
  %same = icmp eq i64 %last, {_wrap_signed(checksum)}
  %status = select i1 %same, i32 0, i32 {_NOT_WHOLE}
  ret i32 %status
nothing:
  ret i32 {_NOT_THESE}
}}
"""


def _wrap_signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


def _mapper_code(opener: str, size: int, mark: bytes) -> str:
    """LLVM IR of what maps the file."""
    escaped = "".join(f"\\{byte:02X}" for byte in mark)
    fields = {
        "data": "i64 %address",
        "device_type": "i32 1",
        "ndim": "i32 1",
        "dtype": "i32 67585",
        "shape": "ptr %shape",
        "strides": "ptr null",
        "byte_offset": "i64 0",
    }
    stores = "\n".join(
        f"  %at_{name} = getelementptr i8, ptr %map, i64 {getattr(DLTensor, name).offset}\n"
        f"  store {value}, ptr %at_{name}, align 4"
        for name, value in fields.items()
    )
    return f"""
declare i32 @open(ptr, i32, ...)
declare i32 @close(i32)
declare i64 @lseek(i32, i64, i32)
declare ptr @mmap(ptr, i64, i32, i32, i32, i64)
declare i32 @mprotect(ptr, i64, i32)
declare i32 @munmap(ptr, i64)
declare i32 @memcmp(ptr, ptr, i64)

@{opener}.mark = internal constant [{len(mark)} x i8] c"{escaped}"

define i32 @{opener}(ptr %path, ptr %weights) nounwind {{
entry:
  %file = call i32 (ptr, i32, ...) @open(ptr %path, i32 {_OPEN})
  %absent = icmp slt i32 %file, 0
  br i1 %absent, label %done, label %there
there:
  %length = call i64 @lseek(i32 %file, i64 0, i32 2)
  %long = icmp eq i64 %length, {size}
  br i1 %long, label %sized, label %leave
sized:
  %map = call ptr @mmap(ptr null, i64 {size}, i32 3, i32 2, i32 %file, i64 0)
  %address = ptrtoint ptr %map to i64
  %failed = icmp eq i64 %address, -1
  br i1 %failed, label %leave, label %mapped
mapped:
  %begin = getelementptr i8, ptr %map, i64 {_MARK_AT}
  %other = call i32 @memcmp(ptr %begin, ptr @{opener}.mark, i64 {len(mark)})
  %same = icmp eq i32 %other, 0
  br i1 %same, label %ours, label %foreign
foreign:
  %gone = call i32 @munmap(ptr %map, i64 {size})
  br label %leave
ours:
  %shape = getelementptr i8, ptr %map, i64 {_SHAPE_AT}
  store i64 {size}, ptr %shape, align 8
{stores}
  %kept = call i32 @mprotect(ptr %map, i64 {size}, i32 1)
  store ptr %map, ptr %weights, align 8
  br label %leave
leave:
  %status = phi i32 [ {_NOT_THESE}, %there ], [ {_NOT_MAPPED}, %sized ], [ {_NOT_THESE}, %foreign ], [ 0, %ours ]
  %closed = call i32 @close(i32 %file)
  br label %done
done:
  %result = phi i32 [ {_NOT_THERE}, %entry ], [ %status, %leave ]
  ret i32 %result
}}
"""


def _closer_code(closer: str, size: int) -> str:
    """LLVM IR of what takes it away."""
    return f"""
define void @{closer}(ptr %weights) nounwind {{
  %none = icmp eq ptr %weights, null
  br i1 %none, label %done, label %take
take:
  %gone = call i32 @munmap(ptr %weights, i64 {size})
  br label %done
done:
  ret void
}}
"""
