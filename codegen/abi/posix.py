"""Any POSIX system under the pool of threads (codegen.abi.pool), as LLVM IR text: waiting by a mutex and two conditions.

The word is compared under the mutex, and whoever wakes takes the mutex after the word has changed: a wake-up comes before the comparison,
which fails then, or after the thread is queued. `bits` and counts are not looked at: all that wait for a word's kind wake, look, and sleep
again, as they would after any wake-up without a reason. Nobody tells which CPU a thread runs on, so that no thread is placed.

A child that C code has forked has the memory and no threads, and perhaps a mutex that nobody will give back: it is known by its
number, and runs its loops alone.
"""

from __future__ import annotations

__all__ = ["POSIX_TEXT", "POSIX_THREADS_TEXT", "UNPLACED_TEXT", "find_numbers"]

_NUMBERS = {
    # what PTHREAD_ONCE_INIT begins with, SIG_SETMASK, CLOCK_MONOTONIC
    "linux": {"ONCE_INIT": 0, "SET_MASK": 2, "MONOTONIC": 1},
    "darwin": {"ONCE_INIT": 0x30B1BCBA, "SET_MASK": 3, "MONOTONIC": 6},
    "macosx": {"ONCE_INIT": 0x30B1BCBA, "SET_MASK": 3, "MONOTONIC": 6},
}


def find_numbers(system: str) -> dict[str, int] | None:
    """Constants of a system's C library, by LLVM's name for the system, which may end in a version; None where they are not known."""
    return next((numbers for name, numbers in _NUMBERS.items() if system.startswith(name)), None)


POSIX_TEXT = """
declare i32 @clock_gettime(i32, ptr) nounwind
declare i32 @getpid() nounwind
declare i32 @pthread_mutex_init(ptr, ptr) nounwind
declare i32 @pthread_mutex_lock(ptr) nounwind
declare i32 @pthread_mutex_unlock(ptr) nounwind
declare i32 @pthread_cond_init(ptr, ptr) nounwind
declare i32 @pthread_cond_wait(ptr, ptr) nounwind
declare i32 @pthread_cond_timedwait(ptr, ptr, ptr) nounwind
declare i32 @pthread_cond_broadcast(ptr) nounwind

; more than any C library's mutex and conditions have; the conditions are for the epoch, and for slots
@tw_mutex = internal global [16 x i64] zeroinitializer, align 64
@tw_conditions = internal global [2 x [16 x i64]] zeroinitializer, align 64
@tw_owner = internal global i32 0

define internal void @tw_system_begin() nounwind {
  %mutex = call i32 @pthread_mutex_init(ptr @tw_mutex, ptr null)
  %slots = getelementptr [16 x i64], ptr @tw_conditions, i64 1
  %one = call i32 @pthread_cond_init(ptr @tw_conditions, ptr null)
  %other = call i32 @pthread_cond_init(ptr %slots, ptr null)
  %process = call i32 @getpid()
  store i32 %process, ptr @tw_owner
  ret void
}

define internal i1 @tw_system_is_child() nounwind {
  %owner = load i32, ptr @tw_owner
  %process = call i32 @getpid()
  %child = icmp ne i32 %process, %owner
  ret i1 %child
}

define internal ptr @tw_condition(ptr %word) nounwind {
  %is_slot = icmp ne ptr %word, @tw_epoch
  %at = zext i1 %is_slot to i64
  %condition = getelementptr [16 x i64], ptr @tw_conditions, i64 %at
  ret ptr %condition
}

; Wait while the word has this value, no longer than { seconds, nanoseconds }, or for as long as need be where that is null.
define internal void @tw_system_wait_for(ptr %word, i32 %value, ptr %time) nounwind {
entry:
  %end = alloca { i64, i64 }
  %condition = call ptr @tw_condition(ptr %word)
  %locked = call i32 @pthread_mutex_lock(ptr @tw_mutex)
  %now = load atomic i32, ptr %word seq_cst, align 4
  %same = icmp eq i32 %now, %value
  br i1 %same, label %wait, label %done
wait:
  %for_ever = icmp eq ptr %time, null
  br i1 %for_ever, label %long, label %short
long:
  %woken = call i32 @pthread_cond_wait(ptr %condition, ptr @tw_mutex)
  br label %done
short:
  ; a condition's end is by the clock of the day, number 0
  %asked = call i32 @clock_gettime(i32 0, ptr %end)
  %begin = load { i64, i64 }, ptr %end
  %length = load { i64, i64 }, ptr %time
  %seconds = extractvalue { i64, i64 } %begin, 0
  %more_seconds = extractvalue { i64, i64 } %length, 0
  %nanos = extractvalue { i64, i64 } %begin, 1
  %more_nanos = extractvalue { i64, i64 } %length, 1
  %sum = add i64 %nanos, %more_nanos
  %carry = udiv i64 %sum, 1000000000
  %rest = urem i64 %sum, 1000000000
  %whole = add i64 %seconds, %more_seconds
  %last = add i64 %whole, %carry
  %first_set = insertvalue { i64, i64 } poison, i64 %last, 0
  %both_set = insertvalue { i64, i64 } %first_set, i64 %rest, 1
  store { i64, i64 } %both_set, ptr %end
  %ended = call i32 @pthread_cond_timedwait(ptr %condition, ptr @tw_mutex, ptr %end)
  br label %done
done:
  %unlocked = call i32 @pthread_mutex_unlock(ptr @tw_mutex)
  ret void
}

; Wake all that wait for a word of this kind.
define internal void @tw_system_wake(ptr %word, i32 %count, i32 %bits) nounwind {
  %condition = call ptr @tw_condition(ptr %word)
  %locked = call i32 @pthread_mutex_lock(ptr @tw_mutex)
  %woken = call i32 @pthread_cond_broadcast(ptr %condition)
  %unlocked = call i32 @pthread_mutex_unlock(ptr @tw_mutex)
  ret void
}

; Nanoseconds of a clock that never goes back.
define internal i64 @tw_system_time() nounwind {
  %time = alloca { i64, i64 }
  %done = call i32 @clock_gettime(i32 MONOTONIC, ptr %time)
  %pair = load { i64, i64 }, ptr %time
  %seconds = extractvalue { i64, i64 } %pair, 0
  %rest = extractvalue { i64, i64 } %pair, 1
  %scaled = mul i64 %seconds, 1000000000
  %now = add i64 %scaled, %rest
  ret i64 %now
}
"""

UNPLACED_TEXT = """
; Wait while the word has this value: a wake-up is for all that do.
define internal void @tw_system_wait(ptr %word, i32 %value, i32 %bits) nounwind {
  call void @tw_system_wait_for(ptr %word, i32 %value, ptr null)
  ret void
}

; Threads have no numbers by which somebody else could move them.
define internal i32 @tw_system_thread() nounwind {
  ret i32 1
}

define internal i32 @tw_system_first_thread() nounwind {
  ret i32 1
}

define internal i64 @tw_system_thread_time(i32 %thread) nounwind {
  ret i64 0
}

define internal i32 @tw_system_cpu() nounwind {
  ret i32 -1
}

define internal i32 @tw_system_mask(i32 %thread, ptr %mask) nounwind {
  ret i32 1
}

define internal void @tw_system_set_mask(i32 %thread, ptr %mask) nounwind {
  ret void
}
"""
"""Waiting, and threads, on a system that tells no threads apart and has no masks of CPUs."""

POSIX_THREADS_TEXT = """
declare i32 @pthread_create(ptr, ptr, ptr, ptr) nounwind
declare i32 @pthread_detach(i64) nounwind
declare i32 @pthread_once(ptr, ptr) nounwind
declare i32 @pthread_key_create(ptr, ptr) nounwind
declare ptr @pthread_getspecific(i64) nounwind
declare i32 @pthread_setspecific(i64, ptr) nounwind
declare i32 @pthread_sigmask(i32, ptr, ptr) nounwind
declare i32 @sigfillset(ptr) nounwind

; as large as the largest of the C libraries that are known
@tw_once = internal global [2 x i64] [ i64 ONCE_INIT, i64 0 ]
@tw_key = internal global i64 0

define internal void @tw_begin() nounwind {
  call void @tw_system_begin()
  %made = call i32 @pthread_key_create(ptr @tw_key, ptr null)
  ret void
}

; Make what the pool needs of the system, the first time.
define internal void @tw_system_once() nounwind {
  %done = call i32 @pthread_once(ptr @tw_once, ptr @tw_begin)
  ret void
}

; What a thread keeps for itself: its number in the pool; null of all other threads.
define internal ptr @tw_system_own() nounwind {
  %key = load i64, ptr @tw_key
  %own = call ptr @pthread_getspecific(i64 %key)
  ret ptr %own
}

define internal void @tw_system_set_own(ptr %own) nounwind {
  %key = load i64, ptr @tw_key
  %failed = call i32 @pthread_setspecific(i64 %key, ptr %own)
  ret void
}

; Start a thread that takes no signals; whether there is one.
define internal i1 @tw_system_start(ptr %worker, ptr %argument) nounwind {
entry:
  %all = alloca [32 x i64], align 8
  %old = alloca [32 x i64], align 8
  %thread = alloca i64
  %filled = call i32 @sigfillset(ptr %all)
  %masked = call i32 @pthread_sigmask(i32 SET_MASK, ptr %all, ptr %old)
  %failed = call i32 @pthread_create(ptr %thread, ptr null, ptr %worker, ptr %argument)
  %restored = call i32 @pthread_sigmask(i32 SET_MASK, ptr %old, ptr null)
  %made = icmp eq i32 %failed, 0
  br i1 %made, label %detach, label %done
detach:
  %id = load i64, ptr %thread
  %detached = call i32 @pthread_detach(i64 %id)
  br label %done
done:
  ret i1 %made
}
"""
"""Threads on Linux and other POSIX systems."""
