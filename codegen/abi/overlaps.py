"""The search for an output that shares memory with another argument, as LLVM IR text: a loop over a table of spans.

Code that compares each pair by itself grows with the square of the outputs, and the time that LLVM takes for it with the cube. Of many
arguments the spans are sorted by their beginnings first (D. Shell, CACM 2, 1959), and one walk over them tells whether there is such a
pair: pairs are compared one by one to name the first of them alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...runtime.abi import Check, pack_status
from .straight_line import StraightLine

__all__ = ["SWEEP_TEXT", "check_overlaps", "overlap_text"]

_SPAN = "{ i64, i64, i32 }"
"""The first byte, the one behind the last, and the argument's position."""

_SORTED = "{ i64, i64, i1 }"
"""The first byte, the one behind the last, and whether it is written."""

_MOST_PAIRS = 512
"""Pairs that are compared one by one, in less than a microsecond."""

_OVERLAP_TEXT = f"""
declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.umin.i64(i64, i64)

; The status for the first two spans that share a byte, of which the first is one of the `outputs` that come first; else 0.
define linkonce_odr hidden i32 @tw_find_overlap(ptr noalias readonly %spans, i64 %outputs, i64 %count) noinline EFFORT nounwind {{
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


def overlap_text(is_quick: bool) -> str:
    """LLVM IR of the function that compares spans pair by pair. is_quick: as quick code, for which LLVM takes its time."""
    return _OVERLAP_TEXT.replace("EFFORT ", "" if is_quick else "optnone ")


SWEEP_TEXT = f"""
; Whether no output shares a byte with another span, of which a copy is sorted into `sorted`.
define linkonce_odr hidden i1 @tw_is_disjoint(
  ptr noalias readonly %spans, i64 %outputs, i64 %count, ptr noalias %sorted
) noinline nounwind {{
entry:
  br label %copy
copy:
  %i = phi i64 [ 0, %entry ], [ %i1, %take ]
  %n = phi i64 [ 0, %entry ], [ %n1, %take ]  ; those with elements
  %left = icmp ult i64 %i, %count
  br i1 %left, label %take, label %gaps
take:
  %from = getelementptr {_SPAN}, ptr %spans, i64 %i
  %begin = load i64, ptr %from
  %end_at = getelementptr {_SPAN}, ptr %from, i64 0, i32 1
  %end = load i64, ptr %end_at
  %written = icmp ult i64 %i, %outputs
  %half = insertvalue {_SORTED} poison, i64 %begin, 0
  %most = insertvalue {_SORTED} %half, i64 %end, 1
  %whole = insertvalue {_SORTED} %most, i1 %written, 2
  %to = getelementptr {_SORTED}, ptr %sorted, i64 %n
  store {_SORTED} %whole, ptr %to
  %full = icmp ult i64 %begin, %end
  %one = zext i1 %full to i64
  %n1 = add i64 %n, %one
  %i1 = add i64 %i, 1
  br label %copy
gaps:
  %gap = phi i64 [ %n, %copy ], [ %step, %pass ]
  %five = mul i64 %gap, 5
  %part = udiv i64 %five, 11
  %several = icmp ugt i64 %gap, 1
  %least = zext i1 %several to i64
  %step = call i64 @llvm.umax.i64(i64 %part, i64 %least)
  %unsorted = icmp ne i64 %step, 0
  br i1 %unsorted, label %pass, label %sweep
pass:
  %k = phi i64 [ %step, %gaps ], [ %k1, %place ]
  %k1 = add i64 %k, 1
  %inside = icmp ult i64 %k, %n
  br i1 %inside, label %pick, label %gaps
pick:
  %picked_at = getelementptr {_SORTED}, ptr %sorted, i64 %k
  %picked = load {_SORTED}, ptr %picked_at
  %key = extractvalue {_SORTED} %picked, 0
  br label %shift
shift:
  %j = phi i64 [ %k, %pick ], [ %back, %move ]
  %j_at = getelementptr {_SORTED}, ptr %sorted, i64 %j
  %far = icmp uge i64 %j, %step
  br i1 %far, label %look, label %place
look:
  %back = sub i64 %j, %step
  %back_at = getelementptr {_SORTED}, ptr %sorted, i64 %back
  %before = load {_SORTED}, ptr %back_at
  %before_key = extractvalue {_SORTED} %before, 0
  %above = icmp ugt i64 %before_key, %key
  br i1 %above, label %move, label %place
move:
  store {_SORTED} %before, ptr %j_at
  br label %shift
place:
  store {_SORTED} %picked, ptr %j_at
  br label %pass
sweep:
  %s = phi i64 [ 0, %gaps ], [ %s1, %test ]
  %reached = phi i64 [ 0, %gaps ], [ %reached1, %test ]  ; by any of those before, and by outputs
  %reached_out = phi i64 [ 0, %gaps ], [ %reached_out1, %test ]
  %unseen = icmp ult i64 %s, %n
  br i1 %unseen, label %test, label %disjoint
test:
  %s1 = add i64 %s, 1
  %s_at = getelementptr {_SORTED}, ptr %sorted, i64 %s
  %span = load {_SORTED}, ptr %s_at
  %span_begin = extractvalue {_SORTED} %span, 0
  %span_end = extractvalue {_SORTED} %span, 1
  %span_written = extractvalue {_SORTED} %span, 2
  %limit = select i1 %span_written, i64 %reached, i64 %reached_out
  %reached1 = call i64 @llvm.umax.i64(i64 %reached, i64 %span_end)
  %end_out = select i1 %span_written, i64 %span_end, i64 0
  %reached_out1 = call i64 @llvm.umax.i64(i64 %reached_out, i64 %end_out)
  %shared = icmp ult i64 %span_begin, %limit
  br i1 %shared, label %overlap, label %sweep
disjoint:
  ret i1 true
overlap:
  ret i1 false
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
    shared, following = text.label("overlap"), text.label("b")
    if len(outputs) * len(spans) > _MOST_PAIRS:
        room, pairs = text.emit_at_entry(f"alloca [{len(spans)} x {_SORTED}]"), text.label("pairs")
        counts = f"i64 {len(outputs)}, i64 {len(spans)}"
        disjoint = text.value(f"call i1 @tw_is_disjoint(ptr {table}, {counts}, ptr {room})")
        text.add(f"br i1 {disjoint}, label %{following}, label %{pairs}")
        text.start(pairs)
    status = text.value(f"call i32 @tw_find_overlap(ptr {table}, i64 {len(outputs)}, i64 {len(spans)})")
    text.add(f"br i1 {text.compare('eq', 'i32', status, 0)}, label %{following}, label %{shared}")
    text.start(shared)
    text.add(f"ret i32 {status}")
    text.start(following)
