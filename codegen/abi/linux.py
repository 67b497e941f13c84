"""Linux under the pool of threads (codegen.abi.pool), as LLVM IR text: waiting, the numbers and clocks of threads, their CPUs.

codegen.abi.posix and codegen.abi.windows have these functions for other systems.
"""

from __future__ import annotations

__all__ = ["CALLS", "LINUX_TEXT", "NUMBERS"]

CALLS = {
    "x86_64": {"FUTEX": 202, "GETTID": 186, "GETPID": 39},  # from asm/unistd_64.h
    # aarch64 and riscv64 share the generic table, asm-generic/unistd.h
    "aarch64": {"FUTEX": 98, "GETTID": 178, "GETPID": 172},
    "riscv64": {"FUTEX": 98, "GETTID": 178, "GETPID": 172},
}
"""Numbers of system calls, by architecture."""
NUMBERS = {
    "WAIT_BITS": 9 + 128,  # 128 is FUTEX_PRIVATE_FLAG
    "WAKE_BITS": 10 + 128,  # FUTEX_WAIT_BITSET and FUTEX_WAKE_BITSET, for threads of one process
    "WAIT_TIME": 0 + 128,  # FUTEX_WAIT, whose time is counted from now
    "THREAD_CPUTIME": 6,  # CPUCLOCK_PERTHREAD_MASK | CPUCLOCK_SCHED, below a thread's number, negated
    "MONOTONIC": 1,  # CLOCK_MONOTONIC, from time.h
    "ONCE_INIT": 0,
    "SET_MASK": 2,  # SIG_SETMASK
}

LINUX_TEXT = """
declare i64 @syscall(i64, ...) nounwind
declare i32 @clock_gettime(i32, ptr) nounwind
declare i32 @sched_getcpu() nounwind
declare i32 @sched_getaffinity(i32, i64, ptr) nounwind
declare i32 @sched_setaffinity(i32, i64, ptr) nounwind

define internal void @tw_system_begin() nounwind {
  ret void
}

; The kernel has cleared the record of threads in a child (runtime.threads), which runs its loops alone.
define internal i1 @tw_system_is_child() nounwind {
  ret i1 false
}

; Wait while the word has this value; `bits`: who of those that wait this is.
define internal void @tw_system_wait(ptr %word, i32 %value, i32 %bits) nounwind {
  %wide = zext i32 %value to i64
  %mask = zext i32 %bits to i64
  %done = call i64 (i64, ...) @syscall(i64 FUTEX, ptr %word, i64 WAIT_BITS, i64 %wide, ptr null, ptr null, i64 %mask)
  ret void
}

; The same, no longer than { seconds, nanoseconds }, or for as long as need be where that is null.
define internal void @tw_system_wait_for(ptr %word, i32 %value, ptr %time) nounwind {
  %wide = zext i32 %value to i64
  %done = call i64 (i64, ...) @syscall(i64 FUTEX, ptr %word, i64 WAIT_TIME, i64 %wide, ptr %time)
  ret void
}

; Wake so many of those that wait and are among `bits`.
define internal void @tw_system_wake(ptr %word, i32 %count, i32 %bits) nounwind {
  %wide = zext i32 %count to i64
  %mask = zext i32 %bits to i64
  %done = call i64 (i64, ...) @syscall(i64 FUTEX, ptr %word, i64 WAKE_BITS, i64 %wide, ptr null, ptr null, i64 %mask)
  ret void
}

; This thread's number, never 0.
define internal i32 @tw_system_thread() nounwind {
  %wide = call i64 (i64, ...) @syscall(i64 GETTID)
  %number = trunc i64 %wide to i32
  ret i32 %number
}

; The number of the process's first thread.
define internal i32 @tw_system_first_thread() nounwind {
  %wide = call i64 (i64, ...) @syscall(i64 GETPID)
  %number = trunc i64 %wide to i32
  ret i32 %number
}

define internal i64 @tw_system_clock(i32 %clock) nounwind {
  %time = alloca { i64, i64 }
  %done = call i32 @clock_gettime(i32 %clock, ptr %time)
  %seconds = load i64, ptr %time
  %rest_at = getelementptr i8, ptr %time, i64 8
  %rest = load i64, ptr %rest_at
  %scaled = mul i64 %seconds, 1000000000
  %now = add i64 %scaled, %rest
  ret i64 %now
}

; Nanoseconds of a clock that never goes back.
define internal i64 @tw_system_time() nounwind {
  %now = call i64 @tw_system_clock(i32 MONOTONIC)
  ret i64 %now
}

; Nanoseconds that a thread has had a CPU for.
define internal i64 @tw_system_thread_time(i32 %thread) nounwind {
  %negative = xor i32 %thread, -1
  %shifted = shl i32 %negative, 3
  %clock = or i32 %shifted, THREAD_CPUTIME
  %now = call i64 @tw_system_clock(i32 %clock)
  ret i64 %now
}

; The CPU that this thread runs on; -1 where that is not known.
define internal i32 @tw_system_cpu() nounwind {
  %cpu = call i32 @sched_getcpu()
  ret i32 %cpu
}

; A thread's mask of 1024 CPUs (0: of this thread): read, and whether that failed; and set, as advice.
define internal i32 @tw_system_mask(i32 %thread, ptr %mask) nounwind {
  %failed = call i32 @sched_getaffinity(i32 %thread, i64 128, ptr %mask)
  ret i32 %failed
}

define internal void @tw_system_set_mask(i32 %thread, ptr %mask) nounwind {
  %failed = call i32 @sched_setaffinity(i32 %thread, i64 128, ptr %mask)
  ret void
}
"""
