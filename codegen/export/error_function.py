"""The C function that tells what statuses mean, as LLVM IR text.

    const char *NAME_error(int32_t status)

It searches a table, which LLVM compiles in no time, unlike a switch of a thousand cases. A text for each pair of arguments that may
overlap would make it grow with the square of their number: the text of a pair is put together when it is first asked for, and kept.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...runtime.abi import Check, pack_status
from .statuses import OverlapTexts

__all__ = ["error_text"]

_SEARCH_TEXT = f"""
; {{ the one made before, its status, 0, its text }}
%tw.text = type {{ ptr, i32, i32, [0 x i8] }}
declare ptr @malloc(i64)

define linkonce_odr hidden ptr @tw_copy_text(ptr %to, ptr %from) noinline nounwind {{
entry:
  br label %next
next:
  %at = phi i64 [ 0, %entry ], [ %at1, %next ]
  %from_at = getelementptr i8, ptr %from, i64 %at
  %byte = load i8, ptr %from_at
  %to_at = getelementptr i8, ptr %to, i64 %at
  store i8 %byte, ptr %to_at
  %at1 = add i64 %at, 1
  %last = icmp eq i8 %byte, 0
  br i1 %last, label %done, label %next
done:
  ret ptr %to_at
}}

; The text of a status, among rows of (status, place in `texts`); of a pair that overlaps, of at most `room` bytes, what stands at
; places[first][0] and at places[second][1].
define linkonce_odr hidden ptr @tw_status_text(
  i32 %status, ptr %texts, ptr %table, i32 %length, ptr %places, i32 %count, i64 %room, ptr %made
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
  %newest = load atomic ptr, ptr %made acquire, align 8
  br i1 %lacking, label %none, label %search
search:
  %node = phi ptr [ %newest, %look ], [ %older, %other ]
  %end = icmp eq ptr %node, null
  br i1 %end, label %make, label %compare
compare:
  %status_at = getelementptr %tw.text, ptr %node, i32 0, i32 1
  %its = load i32, ptr %status_at
  %same = icmp eq i32 %its, %status
  br i1 %same, label %found, label %other
other:
  %older = load ptr, ptr %node
  br label %search
found:
  %its_text = getelementptr %tw.text, ptr %node, i32 0, i32 3
  ret ptr %its_text
make:
  %size = add i64 %room, 16
  %new = call ptr @malloc(i64 %size)
  %failed = icmp eq ptr %new, null
  br i1 %failed, label %none, label %write
write:
  %new_status = getelementptr %tw.text, ptr %new, i32 0, i32 1
  store i32 %status, ptr %new_status
  %text = getelementptr %tw.text, ptr %new, i32 0, i32 3
  %head_text = getelementptr i8, ptr %texts, i32 %head
  %middle = call ptr @tw_copy_text(ptr %text, ptr %head_text)
  %tail_text = getelementptr i8, ptr %texts, i32 %tail
  %written = call ptr @tw_copy_text(ptr %middle, ptr %tail_text)
  br label %add
add:
  %before = phi ptr [ %newest, %write ], [ %now, %add ]
  store ptr %before, ptr %new
  %exchange = cmpxchg ptr %made, ptr %before, ptr %new acq_rel acquire
  %now = extractvalue {{ ptr, i1 }} %exchange, 0
  %added = extractvalue {{ ptr, i1 }} %exchange, 1
  br i1 %added, label %told, label %add
told:
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
            return -1
        data.extend(text.encode() + b"\0")
        return len(data) - len(text.encode()) - 1

    place("unknown status")  # stands first
    table = ", ".join(f"[2 x i32] [i32 {status}, i32 {place(text)}]" for status, text in texts.items())
    places = ", ".join(f"[2 x i32] [i32 {place(head)}, i32 {place(tail)}]" for head, tail in overlaps)
    halves = [max((len(half.encode()) for half in column if half), default=0) for column in zip(*overlaps, strict=True)]
    room = sum(halves) + 1
    escaped = "".join(chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:02X}" for byte in data)
    length, count = len(texts), len(overlaps)
    return "\n".join(
        [
            _SEARCH_TEXT,
            f'@{name}.texts = internal constant [{len(data)} x i8] c"{escaped}", align 1',
            f"@{name}.table = internal constant [{length} x [2 x i32]] [{table}]",
            f"@{name}.places = internal constant [{count} x [2 x i32]] [{places}]",
            f"@{name}.made = internal global ptr null",
            f"define ptr @{name}(i32 %status) {attributes} {{",
            f"  %text = call ptr @tw_status_text(i32 %status, ptr @{name}.texts, ptr @{name}.table, i32 {length},"
            f" ptr @{name}.places, i32 {count}, i64 {room}, ptr @{name}.made)",
            "  ret ptr %text",
            "}",
            "",
        ]
    )
