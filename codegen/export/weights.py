"""Parameters of a model in a file beside its library, mapped when they are opened.

The file has a page of its own before the parameters: at its byte 64 the digest of what belongs together. Where it is mapped, the
beginning of that page becomes a DLTensor of the whole, so that one handle serves plain functions, which take it for the memory,
and checked ones.
"""

from __future__ import annotations

from ...runtime.abi import DLTensor
from .companion import Companion

__all__ = ["HEADER_BYTES", "weights_companion", "weights_header"]

HEADER_BYTES = 4096
_MARK = b"TWWEIGHT"
_MARK_AT = 64
_SHAPE_AT = 56
_OPEN = 0o2004000
"""Linux's flags O_CLOEXEC and O_NONBLOCK: a pipe in the place of the weights is refused, and not waited for."""
_NOT_THERE, _NOT_THESE, _NOT_MAPPED = -2, -3, -4


def weights_header(digest: str) -> bytes:
    """The file's first page. digest: 64 hexadecimal figures."""
    return (bytes(_MARK_AT) + _MARK + bytes.fromhex(digest)).ljust(HEADER_BYTES, b"\0")


def weights_companion(library: str, parameter: str, size: int, digest: str) -> Companion:
    """net_open and net_close of a library. parameter: by which its functions take what is mapped. size: of the file, in bytes."""
    handle, opener, closer = f"{library}_weights", f"{library}_open", f"{library}_close"
    return Companion(
        functions={
            opener: f"/* Maps the file of weights, which is read where it lies, by all threads and processes together, and stays\n"
            f" * until it is closed. 0, or a status for {library}_error. */\n"
            f"int32_t {opener}(const char *path, {handle} **weights);\n",
            closer: f"/* Takes the weights away again, when no call reads them any more; NULL is nothing. */\n"
            f"void {closer}({handle} *weights);\n",
        },
        types={parameter: f"const {handle} *"},
        before=f"typedef struct {handle} {handle};    /* the model's parameters */\n",
        code=_opener_code(opener, size, _MARK + bytes.fromhex(digest)) + _closer_code(closer, size),
        statuses={
            _NOT_THERE: "the file of weights cannot be opened",
            _NOT_THESE: "the file does not hold the weights of this library",
            _NOT_MAPPED: "there is no room to map the weights",
        },
    )


def _opener_code(opener: str, size: int, mark: bytes) -> str:
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
