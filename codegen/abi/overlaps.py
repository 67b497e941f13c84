"""The search for an output that shares memory with another argument, as LLVM IR text: a loop over a table of spans.

Code that compares each pair by itself grows with the square of the outputs, and the time that LLVM takes for it with the cube.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...runtime.abi import Check, pack_status
from .straight_line import StraightLine

__all__ = ["OVERLAP_TEXT", "check_overlaps"]

_SPAN = "{ i64, i64, i32 }"
"""The first byte, the one behind the last, and the argument's position."""

OVERLAP_TEXT = f"""
declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.umin.i64(i64, i64)

; The status for the first two spans that share a byte, of which the first is one of the `outputs` that come first; else 0.
define linkonce_odr hidden i32 @tw_find_overlap(ptr noalias readonly %spans, i64 %outputs, i64 %count) noinline nounwind {{
entry:
  %none = icmp eq i64 %outputs, 0
  br i1 %none, label %sound, label %output
output:
  %i = phi i64 [ 0, %entry ], [ %next, %following ]
  %next = add i64 %i, 1
  %written = getelementptr {_SPAN}, ptr %spans, i64 %i
  %begin = load i64, ptr %written
  %end_at = getelementptr {_SPAN}, ptr %written, i64 0, i32 1
  %end = load i64, ptr %end_at
  br label %test
test:
  %j = phi i64 [ %next, %output ], [ %j1, %compare ]
  %left = icmp ult i64 %j, %count
  br i1 %left, label %compare, label %following
compare:
  %other = getelementptr {_SPAN}, ptr %spans, i64 %j
  %other_begin = load i64, ptr %other
  %other_end_at = getelementptr {_SPAN}, ptr %other, i64 0, i32 1
  %other_end = load i64, ptr %other_end_at
  %later = call i64 @llvm.umax.i64(i64 %begin, i64 %other_begin)
  %sooner = call i64 @llvm.umin.i64(i64 %end, i64 %other_end)
  %shared = icmp ult i64 %later, %sooner  ; never, where one of them is empty
  %j1 = add i64 %j, 1
  br i1 %shared, label %found, label %test
following:
  %more = icmp ult i64 %next, %outputs
  br i1 %more, label %output, label %sound
found:
  %first_at = getelementptr {_SPAN}, ptr %written, i64 0, i32 2
  %first = load i32, ptr %first_at
  %second_at = getelementptr {_SPAN}, ptr %other, i64 0, i32 2
  %second = load i32, ptr %second_at
  %high = shl i32 %first, 12
  %both = or i32 %high, %second
  %status = add i32 %both, {pack_status(Check.OVERLAP, 0)}
  ret i32 %status
sound:
  ret i32 0
}}
"""


def check_overlaps(text: StraightLine, outputs: Sequence[int], spans: Mapping[int, tuple[str, str]]) -> None:
    """Leave where an output shares a byte with another argument. spans: (begin, end) by the argument's position."""
    if not outputs or len(spans) < 2:  # a kernel without outputs writes nothing, and one argument overlaps only itself
        return
    table = text.emit_at_entry(f"alloca [{len(spans)} x {_SPAN}]")
    # outputs first: the loop compares each of them with all that follow
    for place, i in enumerate([*outputs, *(each for each in spans if each not in set(outputs))]):
        for part, value in enumerate(spans[i]):
            text.store("i64", value, table, 24 * place + 8 * part)  # 24 bytes is the size of a span with its padding
        text.store("i32", str(i), table, 24 * place + 16)
    status = text.value(f"call i32 @tw_find_overlap(ptr {table}, i64 {len(outputs)}, i64 {len(spans)})")
    shared, following = text.label("overlap"), text.label("b")
    text.add(f"br i1 {text.compare('eq', 'i32', status, 0)}, label %{following}, label %{shared}")
    text.start(shared)
    text.add(f"ret i32 {status}")
    text.start(following)
