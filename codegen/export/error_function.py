"""The C function that tells what statuses mean, as LLVM IR text.

    const char *NAME_error(int32_t status)

It searches a table, which LLVM compiles in no time, unlike a switch of a thousand cases. A text for each pair of arguments that may
overlap would make it grow with the square of their number: the text of a pair is put together when it is asked for, in zeroed memory
that takes no place in the file.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...runtime.abi import Check, pack_status
from .statuses import OverlapTexts

__all__ = ["error_text"]

_SEARCH_TEXT = f"""
define linkonce_odr hidden ptr @tw_copy_text(ptr %to, ptr %from) noinline nounwind {{
entry:
  br label %next
next:
  %at = phi i64 [ 0, %entry ], [ %at1, %next ]
  %from_at = getelementptr i8, ptr %from, i64 %at
  %byte = load i8, ptr %from_at
  %to_at = getelementptr i8, ptr %to, i64 %at
  store atomic i8 %byte, ptr %to_at unordered, align 1
  %at1 = add i64 %at, 1
  %last = icmp eq i8 %byte, 0
  br i1 %last, label %done, label %next
done:
  ret ptr %to_at
}}

; The text of a status, among rows of (status, place in `texts`); of a pair that overlaps, of at most `room` bytes, what stands at
; places[first][0] and at places[second][1]. Each pair has a slot: threads that write it at a time write the same bytes.
define linkonce_odr hidden ptr @tw_status_text(
  i32 %status, ptr %texts, ptr %table, i32 %length, ptr %places, i32 %count, i64 %room, ptr %slots
) noinline nounwind {{
entry:
  br label %each
each:
  %row = phi i32 [ 0, %entry ], [ %row1, %next ]
  %inside = icmp ult i32 %row, %length
  br i1 %inside, label %test, label %pairs
test:
  %row_at = getelementptr [2 x i32], ptr %table, i32 %row
  %row_status = load i32, ptr %row_at
  %hit = icmp eq i32 %row_status, %status
  %row1 = add i32 %row, 1
  br i1 %hit, label %told_already, label %next
next:
  br label %each
told_already:
  %where_at = getelementptr [2 x i32], ptr %table, i32 %row, i32 1
  %where = load i32, ptr %where_at
  %its_own = getelementptr i8, ptr %texts, i32 %where
  ret ptr %its_own
pairs:
  %pair = sub i32 %status, {pack_status(Check.OVERLAP, 0)}
  %first = lshr i32 %pair, 12
  %second = and i32 %pair, 4095
  %one = icmp ult i32 %first, %count
  %two = icmp ult i32 %second, %count
  %known = and i1 %one, %two
  br i1 %known, label %look, label %none
look:
  %head_at = getelementptr [2 x i32], ptr %places, i32 %first, i32 0
  %head = load i32, ptr %head_at
  %tail_at = getelementptr [2 x i32], ptr %places, i32 %second, i32 1
  %tail = load i32, ptr %tail_at
  %either = or i32 %head, %tail
  %lacking = icmp slt i32 %either, 0
  br i1 %lacking, label %none, label %write
write:
  %row_of_slots = mul i32 %first, %count
  %slot = add i32 %row_of_slots, %second
  %slots_before = zext i32 %slot to i64
  %offset = mul i64 %slots_before, %room
  %text = getelementptr i8, ptr %slots, i64 %offset
  %head_text = getelementptr i8, ptr %texts, i32 %head
  %middle = call ptr @tw_copy_text(ptr %text, ptr %head_text)
  %tail_text = getelementptr i8, ptr %texts, i32 %tail
  %written = call ptr @tw_copy_text(ptr %middle, ptr %tail_text)
  ret ptr %text
none:
  ret ptr %texts
}}
"""


def error_text(name: str, texts: Mapping[int, str], overlaps: OverlapTexts, attributes: str) -> str:
    """The function that tells what statuses mean: those of `texts`, and of two arguments that overlap.

    All texts are one constant: LLVM places many in an order that is not the same each time."""
    data = bytearray()

    def place(text: str | None) -> int:
        if text is None:
            return -1  # a missing half: the pair cannot overlap
        data.extend(text.encode() + b"\0")
        return len(data) - len(text.encode()) - 1

    place("unknown status")  # stands first
    table = ", ".join(f"[2 x i32] [i32 {status}, i32 {place(text)}]" for status, text in texts.items())
    places = ", ".join(f"[2 x i32] [i32 {place(head)}, i32 {place(tail)}]" for head, tail in overlaps)
    # the longest first half and the longest second
    halves = [max((len(half.encode()) for half in column if half), default=0) for column in zip(*overlaps, strict=True)]
    room = sum(halves) + 1  # and the zero byte
    escaped = "".join(chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:02X}" for byte in data)
    length, count = len(texts), len(overlaps)
    return "\n".join(
        [
            _SEARCH_TEXT,
            # align 1: texts need none, and gaps would grow the file
            f'@{name}.texts = internal constant [{len(data)} x i8] c"{escaped}", align 1',
            f"@{name}.table = internal constant [{length} x [2 x i32]] [{table}]",
            f"@{name}.places = internal constant [{count} x [2 x i32]] [{places}]",
            # zeroinitializer takes no place in the file
            f"@{name}.slots = internal global [{count * count * room} x i8] zeroinitializer, align 1",
            f"define ptr @{name}(i32 %status) {attributes} {{",
            f"  %text = call ptr @tw_status_text(i32 %status, ptr @{name}.texts, ptr @{name}.table, i32 {length},"
            f" ptr @{name}.places, i32 {count}, i64 {room}, ptr @{name}.slots)",
            "  ret ptr %text",
            "}",
            "",
        ]
    )
