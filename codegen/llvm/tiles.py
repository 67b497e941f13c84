"""Functions around the tile registers of x86's AMX, which LLVM gets as text of ours: a tile of sums of products of bytes.

    int32_t tw_tile_dot_i8i8(const int8_t *a, int64_t row, const int8_t *b, int64_t panel, int32_t *c, int64_t line, int64_t steps)

    c[i, j] = sum over k of a[i, k] * b[j / 16, k / 4, j % 16, k % 4]        i, j in 32; k in 64 * steps

row, panel and line are the bytes from one i to the next in a, from 16 j to the next 16 in b, and from one i to the next in c. Two
times two tiles of 16 x 16 sums stay in registers; each of the other four registers is read by two of them. It returns 0, or 1 and
does nothing where the system does not let the process use the registers: Linux gives them on request (arch_prctl
ARCH_REQ_XCOMP_PERM), once for all threads. (Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 18.)
"""

from __future__ import annotations

from collections.abc import Iterable

from ..target import Target

__all__ = ["tile_functions"]

_PREFIX = "tw_tile_dot_"
_SIGNS = {"i8i8": "ssd", "i8u8": "sud", "u8i8": "usd", "u8u8": "uud"}
"""What the instruction is called, by the types of a and b."""
_ARCH_PRCTL, _REQUEST, _TILES = 158, 0x1023, 18
"""Linux's number of the call on x86-64, what is asked of it, and of which part of a thread's state."""
_CONFIGURATION = bytes([1, *[0] * 15, *[64, 0] * 8, *[0] * 16, *[16] * 8, *[0] * 8])
"""Palette 1: eight registers of 16 rows of 64 bytes."""


def tile_functions(called: Iterable[str], target: Target) -> list[str]:
    """LLVM IR of those of the functions that are among these names, for a target."""
    known = [name for name in called if name.startswith(_PREFIX) and name.removeprefix(_PREFIX) in _SIGNS]
    return [_text(name, "linux" in target.llvm_triple) for name in known]


def _text(name: str, can_ask: bool) -> str:
    """LLVM IR that asks the system for tile registers.

    can_ask: whether the system is one that gives the registers on request.
    """
    if not can_ask:
        return f"define linkonce_odr hidden i32 @{name}({_PARAMETERS}) {{\n  ret i32 1\n}}\n"
    instruction = "tdpb" + _SIGNS[name.removeprefix(_PREFIX)]
    bytes_of = "".join(f"\\{byte:02X}" for byte in _CONFIGURATION)
    return _TEXT.format(
        name=name,
        parameters=_PARAMETERS,
        instruction=instruction,
        configuration=bytes_of,
        call=f"i64 {_ARCH_PRCTL}, i64 {_REQUEST}, i64 {_TILES}",
    )


_PARAMETERS = "ptr %a, i64 %row, ptr %b, i64 %panel, ptr %c, i64 %line, i64 %steps"
_TEXT = """
@{name}_asked = internal global i32 0
@{name}_configuration = internal constant [64 x i8] c"{configuration}", align 64

define linkonce_odr hidden i32 @{name}({parameters}) #0 {{
entry:
  %state = load atomic i32, ptr @{name}_asked monotonic, align 4
  %known = icmp ne i32 %state, 0
  br i1 %known, label %asked, label %ask
ask:
  %said = call i64 (i64, ...) @syscall({call})
  %given = icmp eq i64 %said, 0
  %new = select i1 %given, i32 1, i32 2
  store atomic i32 %new, ptr @{name}_asked monotonic, align 4
  br label %asked
asked:
  %now = phi i32 [ %state, %entry ], [ %new, %ask ]
  %may = icmp eq i32 %now, 1
  br i1 %may, label %begin, label %refused
refused:
  ret i32 1
begin:
  call void @llvm.x86.ldtilecfg(ptr @{name}_configuration)
  call void @llvm.x86.tilezero(i8 0)
  call void @llvm.x86.tilezero(i8 1)
  call void @llvm.x86.tilezero(i8 2)
  call void @llvm.x86.tilezero(i8 3)
  %rows = shl i64 %row, 4
  br label %loop
loop:
  %step = phi i64 [ 0, %begin ], [ %following, %loop ]
  %term = shl i64 %step, 6
  %place = shl i64 %step, 10
  %a.0 = getelementptr i8, ptr %a, i64 %term
  %a.1 = getelementptr i8, ptr %a.0, i64 %rows
  %b.0 = getelementptr i8, ptr %b, i64 %place
  %b.1 = getelementptr i8, ptr %b.0, i64 %panel
  call void @llvm.x86.tileloadd64(i8 4, ptr %a.0, i64 %row)
  call void @llvm.x86.tileloadd64(i8 6, ptr %b.0, i64 64)
  call void @llvm.x86.{instruction}(i8 0, i8 4, i8 6)
  call void @llvm.x86.tileloadd64(i8 7, ptr %b.1, i64 64)
  call void @llvm.x86.{instruction}(i8 1, i8 4, i8 7)
  call void @llvm.x86.tileloadd64(i8 5, ptr %a.1, i64 %row)
  call void @llvm.x86.{instruction}(i8 2, i8 5, i8 6)
  call void @llvm.x86.{instruction}(i8 3, i8 5, i8 7)
  %following = add nuw i64 %step, 1
  %more = icmp ult i64 %following, %steps
  br i1 %more, label %loop, label %end
end:
  %lines = shl i64 %line, 4
  %c.1 = getelementptr i8, ptr %c, i64 64
  %c.2 = getelementptr i8, ptr %c, i64 %lines
  %c.3 = getelementptr i8, ptr %c.2, i64 64
  call void @llvm.x86.tilestored64(i8 0, ptr %c, i64 %line)
  call void @llvm.x86.tilestored64(i8 1, ptr %c.1, i64 %line)
  call void @llvm.x86.tilestored64(i8 2, ptr %c.2, i64 %line)
  call void @llvm.x86.tilestored64(i8 3, ptr %c.3, i64 %line)
  call void @llvm.x86.tilerelease()
  ret i32 0
}}
declare i64 @syscall(i64, ...)
attributes #0 = {{ noinline nounwind "target-features"="+amx-tile,+amx-int8" }}
"""
