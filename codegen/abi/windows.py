"""Windows under the pool of threads (codegen.abi.pool), as LLVM IR text: WaitOnAddress, and threads that CreateThread makes.

WaitOnAddress compares the word and queues the thread in one step, as a futex does, and wakes it with all others that wait for the
word: `bits` and counts are not looked at. It is there from Windows 8 on, in KernelBase.dll. No process is forked.
"""

from __future__ import annotations

__all__ = ["WINDOWS_TEXT"]

WINDOWS_TEXT = """
declare i32 @InitOnceExecuteOnce(ptr, ptr, ptr, ptr) nounwind
declare i32 @TlsAlloc() nounwind
declare ptr @TlsGetValue(i32) nounwind
declare i32 @TlsSetValue(i32, ptr) nounwind
declare ptr @CreateThread(ptr, i64, ptr, ptr, i32, ptr) nounwind
declare i32 @CloseHandle(ptr) nounwind
declare i32 @WaitOnAddress(ptr, ptr, i64, i32) nounwind
declare void @WakeByAddressAll(ptr) nounwind
declare i32 @QueryPerformanceCounter(ptr) nounwind
declare i32 @QueryPerformanceFrequency(ptr) nounwind

; INIT_ONCE_STATIC_INIT is null
@tw_once = internal global ptr null
@tw_key = internal global i32 0
@tw_ticks = internal global i64 1

define internal i32 @tw_begin(ptr %once, ptr %parameter, ptr %context) nounwind {
  %key = call i32 @TlsAlloc()
  store i32 %key, ptr @tw_key
  %told = call i32 @QueryPerformanceFrequency(ptr @tw_ticks)
  ret i32 1
}

; Make what the pool needs of the system, the first time.
define internal void @tw_system_once() nounwind {
  %done = call i32 @InitOnceExecuteOnce(ptr @tw_once, ptr @tw_begin, ptr null, ptr null)
  ret void
}

define internal i1 @tw_system_is_child() nounwind {
  ret i1 false
}

; What a thread keeps for itself: its number in the pool; null of all other threads.
define internal ptr @tw_system_own() nounwind {
  %key = load i32, ptr @tw_key
  %own = call ptr @TlsGetValue(i32 %key)
  ret ptr %own
}

define internal void @tw_system_set_own(ptr %own) nounwind {
  %key = load i32, ptr @tw_key
  %done = call i32 @TlsSetValue(i32 %key, ptr %own)
  ret void
}

; Start a thread; whether there is one. The worker never returns, so that it may return anything.
define internal i1 @tw_system_start(ptr %worker, ptr %argument) nounwind {
  %thread = call ptr @CreateThread(ptr null, i64 0, ptr %worker, ptr %argument, i32 0, ptr null)
  %made = icmp ne ptr %thread, null
  br i1 %made, label %detach, label %done
detach:
  %closed = call i32 @CloseHandle(ptr %thread)
  br label %done
done:
  ret i1 %made
}

; Wait while the word has this value, no longer than { seconds, nanoseconds }, or for as long as need be where that is null.
define internal void @tw_system_wait_for(ptr %word, i32 %value, ptr %time) nounwind {
entry:
  %compared = alloca i32
  store i32 %value, ptr %compared
  %for_ever = icmp eq ptr %time, null
  br i1 %for_ever, label %wait, label %short
short:
  %length = load { i64, i64 }, ptr %time
  %seconds = extractvalue { i64, i64 } %length, 0
  %nanos = extractvalue { i64, i64 } %length, 1
  %whole = mul i64 %seconds, 1000
  %up = add i64 %nanos, 999999
  %rest = udiv i64 %up, 1000000
  %sum = add i64 %whole, %rest
  %milliseconds = trunc i64 %sum to i32
  br label %wait
wait:
  ; -1 is INFINITE
  %limit = phi i32 [ -1, %entry ], [ %milliseconds, %short ]
  %woken = call i32 @WaitOnAddress(ptr %word, ptr %compared, i64 4, i32 %limit)
  ret void
}

; Wake all that wait for the word.
define internal void @tw_system_wake(ptr %word, i32 %count, i32 %bits) nounwind {
  call void @WakeByAddressAll(ptr %word)
  ret void
}

; Nanoseconds of a clock that never goes back.
define internal i64 @tw_system_time() nounwind {
  %counter = alloca i64
  %done = call i32 @QueryPerformanceCounter(ptr %counter)
  %count = load i64, ptr %counter
  %ticks = load i64, ptr @tw_ticks
  %seconds = udiv i64 %count, %ticks
  %rest = urem i64 %count, %ticks
  %whole = mul i64 %seconds, 1000000000
  %scaled = mul i64 %rest, 1000000000
  %part = udiv i64 %scaled, %ticks
  %now = add i64 %whole, %part
  ret i64 %now
}
"""
