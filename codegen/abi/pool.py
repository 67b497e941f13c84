"""The process's own threads under parallel loops, as LLVM IR text: they wait awake for a moment, then asleep.

    void tw_pool_run(ptr function, ptr job, i32 team, i32 unused)

calls `function(job)` on the calling thread and on up to team - 1 others, and returns when all who began have ended. It is
GOMP_parallel's signature, so that either may stand under tw_parallel_for, and `i32 tw_pool_number()` is omp_get_thread_num's.
Unlike OpenMP, it waits for nobody who has not begun: where other work keeps the CPUs, the caller does the whole job by itself
rather than wait for a thread that is not let in. So `function` has to take what is left of the job until nothing is.

A job is offered in a slot, a cache line whose state is one word: OWNED from when a caller takes the slot until it gives it back,
OPEN while others may join, the number of those who have, and ASLEEP where the owner sleeps until the last of them leaves. To join
is a compare-and-swap that finds the slot open; whoever has joined keeps the slot from being used again. Several threads may offer
jobs at once.

Threads without a job watch a counter, the epoch, which each offer increments. Nobody misses an offer: a thread reads the epoch,
then looks through the slots, and goes to sleep by a futex only if the epoch is still what it read; it counts itself among the
sleepers before, and whoever offers increments the epoch before it asks whether anybody sleeps. A futex (Franke, Russell and
Kirkwood 2002) compares and queues in one step.

Threads are made when they are first wanted, take no signals, and end with the process. A child has none: nobody calls this there.
"""

from __future__ import annotations

import re

__all__ = ["POOL_NUMBER", "POOL_RUN", "has_pool", "pool_text"]

POOL_RUN, POOL_NUMBER = "tw_pool_run", "tw_pool_number"
_FUTEX = {"x86_64": 202, "aarch64": 98, "riscv64": 98}
"""The number of the system call by architecture, on Linux."""
_PAUSE = {
    "x86_64": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "aarch64": ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"),
}
_AWAKE_NS = 50_000
"""How long a thread waits awake: a few times what it takes to be woken, so that loops that follow one another find all awake,
and little where others want the CPU."""
_SLOTS = 8

_TEXT = """
%tw.slot = type { i32, i32, ptr, ptr, [40 x i8] }  ; state, team, function, job: a cache line

@tw_slots = internal global [SLOTS x %tw.slot] zeroinitializer, align 64
@tw_epoch = internal global [16 x i32] zeroinitializer, align 64
@tw_sleepers = internal global [16 x i32] zeroinitializer, align 64
@tw_made = internal global i32 0
@tw_once = internal global i32 0
@tw_key = internal global i32 0

declare i64 @syscall(i64, ...) nounwind
declare i32 @clock_gettime(i32, ptr) nounwind
declare i32 @pthread_create(ptr, ptr, ptr, ptr) nounwind
declare i32 @pthread_detach(i64) nounwind
declare i32 @pthread_once(ptr, ptr) nounwind
declare i32 @pthread_key_create(ptr, ptr) nounwind
declare ptr @pthread_getspecific(i32) nounwind
declare i32 @pthread_setspecific(i32, ptr) nounwind
declare i32 @pthread_sigmask(i32, ptr, ptr) nounwind
declare i32 @sigfillset(ptr) nounwind
DECLARE_PAUSE

; Wait while the word has this value, or wake so many; `bits`: for which of those who wait.
define internal void @tw_futex(ptr %word, i64 %operation, i32 %value, i32 %bits) nounwind {
  %wide = zext i32 %value to i64
  %mask = zext i32 %bits to i64
  %done = call i64 (i64, ...) @syscall(i64 FUTEX, ptr %word, i64 %operation, i64 %wide, ptr null, ptr null, i64 %mask)
  ret void
}

define internal void @tw_make_key() nounwind {
  %made = call i32 @pthread_key_create(ptr @tw_key, ptr null)
  ret void
}

define i32 @tw_pool_number() nounwind {
  %key = load i32, ptr @tw_key
  %self = call ptr @pthread_getspecific(i32 %key)
  %wide = ptrtoint ptr %self to i64
  %number = trunc i64 %wide to i32
  ret i32 %number
}

define internal i64 @tw_now() nounwind {
  %time = alloca { i64, i64 }
  %done = call i32 @clock_gettime(i32 1, ptr %time)
  %seconds = load i64, ptr %time
  %rest_at = getelementptr i8, ptr %time, i64 8
  %rest = load i64, ptr %rest_at
  %scaled = mul i64 %seconds, 1000000000
  %now = add i64 %scaled, %rest
  ret i64 %now
}

; Wait awake, for a while: as long as the word has a value, or, where `until`, as long as it has another. Whether it came to that.
define internal i1 @tw_watch(ptr %word, i32 %value, i1 %until) nounwind {
entry:
  br label %some
some:
  %begin = phi i64 [ 0, %entry ], [ %start, %look ]
  br label %spin
spin:
  %round = phi i32 [ 0, %some ], [ %next, %again ]
  %seen = load atomic i32, ptr %word acquire, align 4
  %equal = icmp eq i32 %seen, %value
  %come = icmp eq i1 %equal, %until
  br i1 %come, label %out, label %again
again:
  DO_PAUSE
  %next = add i32 %round, 1
  %more = icmp ult i32 %next, 32
  br i1 %more, label %spin, label %look
look:
  %now = call i64 @tw_now()
  %first = icmp eq i64 %begin, 0
  %start = select i1 %first, i64 %now, i64 %begin
  %waited = sub i64 %now, %start
  %tired = icmp ugt i64 %waited, AWAKE_NS
  br i1 %tired, label %out, label %some
out:
  ret i1 %come
}

; Do the slot's job, which this thread has joined, and leave. All that there was is taken then: nobody else need join.
define internal void @tw_help(ptr %slot) nounwind {
entry:
  %function_at = getelementptr %tw.slot, ptr %slot, i32 0, i32 2
  %function = load ptr, ptr %function_at
  %job_at = getelementptr %tw.slot, ptr %slot, i32 0, i32 3
  %job = load ptr, ptr %job_at
  call void %function(ptr %job)
  %closed = atomicrmw and ptr %slot, i32 NOT_OPEN acq_rel
  %left = atomicrmw sub ptr %slot, i32 1 acq_rel
  %last = icmp eq i32 %left, LAST_AND_ASLEEP
  br i1 %last, label %wake, label %done
wake:
  call void @tw_futex(ptr %slot, i64 WAKE, i32 1, i32 -1)
  br label %done
done:
  ret void
}

define internal ptr @tw_worker(ptr %self) nounwind {
entry:
  %key = load i32, ptr @tw_key
  %set = call i32 @pthread_setspecific(i32 %key, ptr %self)
  %wide = ptrtoint ptr %self to i64
  %index = trunc i64 %wide to i32
  %turn = and i32 %index, 31
  %bit = shl i32 1, %turn
  br label %begin
begin:
  %epoch = load atomic i32, ptr @tw_epoch seq_cst, align 4
  br label %slots
slots:
  %at = phi i32 [ 0, %begin ], [ %at1, %next ]
  %slot = getelementptr %tw.slot, ptr @tw_slots, i32 %at
  br label %look
look:
  %state = load atomic i32, ptr %slot acquire, align 4
  %open = and i32 %state, OPEN
  %is_open = icmp ne i32 %open, 0
  br i1 %is_open, label %fit, label %next
fit:
  %team_at = getelementptr %tw.slot, ptr %slot, i32 0, i32 1
  %team = load atomic i32, ptr %team_at monotonic, align 4
  %mine = icmp ult i32 %index, %team
  br i1 %mine, label %join, label %next
join:
  %more = add i32 %state, 1
  %joining = cmpxchg ptr %slot, i32 %state, i32 %more acq_rel monotonic
  %joined = extractvalue { i32, i1 } %joining, 1
  br i1 %joined, label %help, label %look
help:
  call void @tw_help(ptr %slot)
  br label %begin
next:
  %at1 = add i32 %at, 1
  %rest = icmp ult i32 %at1, SLOTS
  br i1 %rest, label %slots, label %watch
watch:
  %offered = call i1 @tw_watch(ptr @tw_epoch, i32 %epoch, i1 false)
  br i1 %offered, label %begin, label %sleep
sleep:
  %before = atomicrmw add ptr @tw_sleepers, i32 1 seq_cst
  call void @tw_futex(ptr @tw_epoch, i64 WAIT, i32 %epoch, i32 %bit)
  %after = atomicrmw sub ptr @tw_sleepers, i32 1 seq_cst
  br label %begin
}

; Have `wanted` threads beside callers, as far as the system gives them.
define internal void @tw_grow(i32 %wanted) noinline nounwind {
entry:
  %all = alloca [32 x i64], align 8
  %old = alloca [32 x i64], align 8
  %thread = alloca i64
  br label %look
look:
  %have = load atomic i32, ptr @tw_made monotonic, align 4
  %lacking = icmp ult i32 %have, %wanted
  br i1 %lacking, label %claim, label %done
claim:
  %number = add i32 %have, 1
  %claiming = cmpxchg ptr @tw_made, i32 %have, i32 %number monotonic monotonic
  %claimed = extractvalue { i32, i1 } %claiming, 1
  br i1 %claimed, label %make, label %look
make:
  %filled = call i32 @sigfillset(ptr %all)
  %masked = call i32 @pthread_sigmask(i32 2, ptr %all, ptr %old)
  %wide = zext i32 %number to i64
  %self = inttoptr i64 %wide to ptr
  %failed = call i32 @pthread_create(ptr %thread, ptr null, ptr @tw_worker, ptr %self)
  %restored = call i32 @pthread_sigmask(i32 2, ptr %old, ptr null)
  %made = icmp eq i32 %failed, 0
  br i1 %made, label %detach, label %done
detach:
  %id = load i64, ptr %thread
  %detached = call i32 @pthread_detach(i64 %id)
  br label %look
done:
  ret void
}

define void @tw_pool_run(ptr %function, ptr %job, i32 %team, i32 %unused) nounwind {
entry:
  %keyed = call i32 @pthread_once(ptr @tw_once, ptr @tw_make_key)
  %self = call i32 @tw_pool_number()
  %nested = icmp ne i32 %self, 0
  br i1 %nested, label %alone, label %crew
crew:
  %others = sub i32 %team, 1
  %have = load atomic i32, ptr @tw_made monotonic, align 4
  %few = icmp ult i32 %have, %others
  br i1 %few, label %grow, label %slots
grow:
  call void @tw_grow(i32 %others)
  br label %slots
slots:
  %at = phi i32 [ 0, %crew ], [ 0, %grow ], [ %at1, %taken ]
  %slot = getelementptr %tw.slot, ptr @tw_slots, i32 %at
  %seen = load atomic i32, ptr %slot monotonic, align 4
  %free = icmp eq i32 %seen, 0
  br i1 %free, label %claim, label %taken
claim:
  %claiming = cmpxchg ptr %slot, i32 0, i32 OWNED acquire monotonic
  %claimed = extractvalue { i32, i1 } %claiming, 1
  br i1 %claimed, label %offer, label %taken
taken:
  %at1 = add i32 %at, 1
  %rest = icmp ult i32 %at1, SLOTS
  br i1 %rest, label %slots, label %alone
alone:
  call void %function(ptr %job)
  ret void
offer:
  %team_at = getelementptr %tw.slot, ptr %slot, i32 0, i32 1
  store atomic i32 %team, ptr %team_at monotonic, align 4
  %function_at = getelementptr %tw.slot, ptr %slot, i32 0, i32 2
  store ptr %function, ptr %function_at
  %job_at = getelementptr %tw.slot, ptr %slot, i32 0, i32 3
  store ptr %job, ptr %job_at
  store atomic i32 OPEN_AND_OWNED, ptr %slot release, align 4
  %epoch = atomicrmw add ptr @tw_epoch, i32 1 seq_cst
  %sleepers = load atomic i32, ptr @tw_sleepers seq_cst, align 4
  %asleep = icmp ne i32 %sleepers, 0
  br i1 %asleep, label %wake, label %work
wake:
  %small = icmp ult i32 %team, 32
  %amount = and i32 %team, 31
  %power = shl i32 1, %amount
  %below = sub i32 %power, 2
  %who = select i1 %small, i32 %below, i32 -1
  call void @tw_futex(ptr @tw_epoch, i64 WAKE, i32 %others, i32 %who)
  br label %work
work:
  call void %function(ptr %job)
  %closed = atomicrmw and ptr %slot, i32 NOT_OPEN acq_rel
  %inside = and i32 %closed, COUNT
  %nobody = icmp eq i32 %inside, 0
  br i1 %nobody, label %leave, label %wait
wait:
  call void @tw_wait_for_zero(ptr %slot)
  br label %leave
leave:
  store atomic i32 0, ptr %slot release, align 4
  ret void
}

; Until those who have joined have left.
define internal void @tw_wait_for_zero(ptr %slot) nounwind {
entry:
  %soon = call i1 @tw_watch(ptr %slot, i32 OWNED, i1 true)
  br i1 %soon, label %out, label %look
look:
  %state = load atomic i32, ptr %slot acquire, align 4
  %inside = and i32 %state, COUNT
  %empty = icmp eq i32 %inside, 0
  br i1 %empty, label %out, label %say
say:
  %told = or i32 %state, ASLEEP
  %saying = cmpxchg ptr %slot, i32 %state, i32 %told acq_rel monotonic
  %said = extractvalue { i32, i1 } %saying, 1
  br i1 %said, label %sleep, label %look
sleep:
  call void @tw_futex(ptr %slot, i64 WAIT, i32 %told, i32 -1)
  br label %look
out:
  ret void
}
"""

_OPEN, _ASLEEP, _OWNED = -1 << 31, 1 << 30, 1 << 29
_NUMBERS = {
    "OPEN": _OPEN,
    "NOT_OPEN": ~_OPEN,
    "OPEN_AND_OWNED": _OPEN | _OWNED,
    "OWNED": _OWNED,
    "ASLEEP": _ASLEEP,
    "COUNT": _OWNED - 1,
    "LAST_AND_ASLEEP": _OWNED | _ASLEEP | 1,
    "SLOTS": _SLOTS,
    "AWAKE_NS": _AWAKE_NS,
    "WAIT": 9 + 128,
    "WAKE": 10 + 128,  # FUTEX_WAIT_BITSET and FUTEX_WAKE_BITSET, for threads of one process
}


def pool_text(architecture: str, system: str) -> str:
    """tw_pool_run and tw_pool_number, for a module of LLVM IR; empty where there are no futexes."""
    if not has_pool(architecture, system):
        return ""
    declared, done = _PAUSE.get(architecture, ("", ""))
    words = {
        **{name: str(number) for name, number in _NUMBERS.items()},
        "FUTEX": str(_FUTEX[architecture]),
        "DECLARE_PAUSE": declared,
        "DO_PAUSE": done,
    }
    return re.sub(r"\b(?:" + "|".join(words) + r")\b", lambda word: words[word[0]], _TEXT)


def has_pool(architecture: str, system: str) -> bool:
    """Whether pool_text has something for a machine by LLVM's names."""
    return system == "linux" and architecture in _FUTEX
