"""The process's own threads under parallel loops, as LLVM IR text: they wait awake for a moment, then asleep.

    void tw_pool_run(ptr function, ptr job, i32 team, i32 unplaced)

calls `function(job)` on the calling thread and on up to team - 1 others, and returns when all who began have ended; on more, where
these share CPUs with other work (codegen.abi.placement, which also says which CPUs threads run on, unless `unplaced`). It is
GOMP_parallel's signature, so that either may stand under tw_parallel_for, and `i32 tw_pool_number()` is omp_get_thread_num's.
Unlike OpenMP, it waits for nobody who has not begun: where other work keeps the CPUs, the caller does the whole job by itself
rather than wait for a thread that is not let in. So `function` has to take what is left of the job until nothing is.

A job is offered in a slot, a cache line whose state is one word: OWNED from when a caller takes the slot until it gives it back,
OPEN while others may join, the number of those who have, and ASLEEP where the owner sleeps until the last of them leaves. To join
is a compare-and-swap that finds the slot open; whoever has joined keeps the slot from being used again. Several threads may offer
jobs at once.

Threads without a job watch a counter, the epoch, which each offer increments. Nobody misses an offer: a thread reads the epoch,
then looks through the slots, and goes to sleep only if the epoch is still what it read; it counts itself among the
sleepers before, and whoever offers increments the epoch before it asks whether anybody sleeps. A futex (Franke, Russell and
Kirkwood 2002) compares and queues in one step, as does a condition under its mutex. What the system does is `tw_system_...`, in
three modules: codegen.abi.linux by futexes, codegen.abi.posix by conditions, codegen.abi.windows by WaitOnAddress.

Reserves wait for the epoch too, always asleep and not counted: one that misses an offer is not missed. They join what names them in
the slot (`spare`), which its owner writes before it wakes them. An owner who waits for those inside sleeps for 0.1 ms, then longer,
up to 4 ms, to see whether one of them is stuck; the wake-up by the last who leaves does not depend on it.

Threads are made when they are first wanted, take no signals, and end with the process. A child has none: nobody calls this there.
"""

from __future__ import annotations

import re

from .linux import CALLS, LINUX_TEXT, NUMBERS
from .placement import PLACEMENT_TEXT, RESERVES
from .posix import POSIX_TEXT, POSIX_THREADS_TEXT, UNPLACED_TEXT, find_numbers
from .windows import WINDOWS_TEXT

__all__ = ["POOL_NUMBER", "POOL_RUN", "pool_text"]

POOL_RUN, POOL_NUMBER = "tw_pool_run", "tw_pool_number"
_PAUSE = {
    # the processor's hint that this is a loop of waiting
    "x86_64": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "aarch64": ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"),  # 1 is YIELD
}
_AWAKE_NS = 50_000
"""How long a thread waits awake: a few times what it takes to be woken, so that loops that follow one another find all awake,
and little where others want the CPU."""
_SLOTS = 8  # how many threads can offer jobs at once; more run theirs alone

_TEXT = """
; state, team, function, job, spare: a cache line
%tw.slot = type { i32, i32, ptr, ptr, i32, [36 x i8] }

@tw_slots = internal global [SLOTS x %tw.slot] zeroinitializer, align 64
@tw_epoch = internal global [16 x i32] zeroinitializer, align 64
@tw_sleepers = internal global [16 x i32] zeroinitializer, align 64
@tw_made = internal global i32 0

declare i32 @llvm.umin.i32(i32, i32)
declare i64 @llvm.umin.i64(i64, i64)
DECLARE_PAUSE

define i32 @tw_pool_number() nounwind {
  %self = call ptr @tw_system_own()
  %wide = ptrtoint ptr %self to i64
  %number = trunc i64 %wide to i32
  ret i32 %number
}

; Wait awake, for a while: as long as the word has a value, or, where `until`, as long as it has another. Whether it came to that.
define internal i1 @tw_watch(ptr %word, i32 %value, i1 %until, i64 %patience) nounwind {
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
  %now = call i64 @tw_system_time()
  %first = icmp eq i64 %begin, 0
  %start = select i1 %first, i64 %now, i64 %begin
  %waited = sub i64 %now, %start
  %tired = icmp ugt i64 %waited, %patience
  br i1 %tired, label %out, label %some
out:
  ret i1 %come
}

; Do the slot's job, which this thread has joined, and leave. All that there was is taken then: nobody else need join.
define internal void @tw_help(ptr %slot, ptr %record) nounwind {
entry:
  %function_at = getelementptr %tw.slot, ptr %slot, i32 0, i32 2
  %function = load ptr, ptr %function_at
  %job_at = getelementptr %tw.slot, ptr %slot, i32 0, i32 3
  %job = load ptr, ptr %job_at
  %inside_at = getelementptr %tw.record, ptr %record, i32 0, i32 2
  store atomic ptr %slot, ptr %inside_at monotonic, align 8
  call void %function(ptr %job)
  store atomic ptr null, ptr %inside_at monotonic, align 8
  %closed = atomicrmw and ptr %slot, i32 NOT_OPEN acq_rel
  %left = atomicrmw sub ptr %slot, i32 1 acq_rel
  %last = icmp eq i32 %left, LAST_AND_ASLEEP
  br i1 %last, label %wake, label %done
wake:
  call void @tw_system_wake(ptr %slot, i32 1, i32 -1)
  br label %done
done:
  ret void
}

; Thread `number`, or a reserve of its, in the role 1 or more: 16 bits each.
define internal ptr @tw_worker(ptr %number_and_role) nounwind {
entry:
  %wide = ptrtoint ptr %number_and_role to i64
  %both = trunc i64 %wide to i32
  %index = and i32 %both, 65535
  %role = lshr i32 %both, 16
  %index64 = zext i32 %index to i64
  %self = inttoptr i64 %index64 to ptr
  call void @tw_system_set_own(ptr %self)
  %record = call ptr @tw_record(i32 %index, i32 %role)
  %nobody = icmp eq ptr %record, @tw_records
  %id = call i32 @tw_system_thread()
  %known = select i1 %nobody, i32 0, i32 %id
  store atomic i32 %known, ptr %record monotonic, align 4
  %reserve = icmp ne i32 %role, 0
  %before_it = sub i32 %index, 1
  %turn = urem i32 %before_it, 31
  %own_bit = shl i32 2, %turn
  %bit = select i1 %reserve, i32 1, i32 %own_bit
  %team_place = select i1 %reserve, i64 SPARE_AT, i64 TEAM_AT
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
  %team_at = getelementptr i8, ptr %slot, i64 %team_place
  %team = load atomic i32, ptr %team_at monotonic, align 4
  %mine = icmp ult i32 %index, %team
  br i1 %mine, label %join, label %next
join:
  %more = add i32 %state, 1
  %joining = cmpxchg ptr %slot, i32 %state, i32 %more acq_rel monotonic
  %joined = extractvalue { i32, i1 } %joining, 1
  br i1 %joined, label %help, label %look
help:
  call void @tw_help(ptr %slot, ptr %record)
  br label %begin
next:
  %at1 = add i32 %at, 1
  %rest = icmp ult i32 %at1, SLOTS
  br i1 %rest, label %slots, label %none
none:
  br i1 %reserve, label %rest_now, label %watch
rest_now:
  call void @tw_system_wait(ptr @tw_epoch, i32 %epoch, i32 %bit)
  br label %begin
watch:
  %offered = call i1 @tw_watch(ptr @tw_epoch, i32 %epoch, i1 false, i64 AWAKE_NS)
  br i1 %offered, label %begin, label %sleep
sleep:
  %before = atomicrmw add ptr @tw_sleepers, i32 1 seq_cst
  call void @tw_system_wait(ptr @tw_epoch, i32 %epoch, i32 %bit)
  %after = atomicrmw sub ptr @tw_sleepers, i32 1 seq_cst
  br label %begin
}

; Have threads of the numbers up to `wanted`, as far as the system gives them: their reserves in so many roles, or, for 0, themselves.
define internal void @tw_grow(ptr %counter, i32 %wanted, i32 %roles) noinline nounwind {
entry:
  %first = icmp ne i32 %roles, 0
  %from = zext i1 %first to i32
  br label %look
look:
  %have = load atomic i32, ptr %counter monotonic, align 4
  %lacking = icmp ult i32 %have, %wanted
  br i1 %lacking, label %claim, label %done
claim:
  %number = add i32 %have, 1
  %claiming = cmpxchg ptr %counter, i32 %have, i32 %number monotonic monotonic
  %claimed = extractvalue { i32, i1 } %claiming, 1
  br i1 %claimed, label %make, label %look
make:
  %role = phi i32 [ %from, %claim ], [ %next_role, %next ]
  %high = shl i32 %role, 16
  %both = or i32 %high, %number
  %wide = zext i32 %both to i64
  %self = inttoptr i64 %wide to ptr
  %made = call i1 @tw_system_start(ptr @tw_worker, ptr %self)
  br i1 %made, label %next, label %done
next:
  %next_role = add i32 %role, 1
  %more_roles = icmp ule i32 %next_role, %roles
  br i1 %more_roles, label %make, label %look
done:
  ret void
}

define void @tw_pool_run(ptr %function, ptr %job, i32 %team, i32 %unplaced) nounwind {
entry:
  call void @tw_system_once()
  %self = call i32 @tw_pool_number()
  %nested = icmp ne i32 %self, 0
  %child = call i1 @tw_system_is_child()
  %single = or i1 %nested, %child
  br i1 %single, label %alone, label %crew
crew:
  %others = sub i32 %team, 1
  %have = load atomic i32, ptr @tw_made monotonic, align 4
  %few = icmp ult i32 %have, %others
  br i1 %few, label %grow, label %slots
grow:
  call void @tw_grow(ptr @tw_made, i32 %others, i32 0)
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
  %spare_at = getelementptr %tw.slot, ptr %slot, i32 0, i32 4
  store atomic i32 0, ptr %spare_at monotonic, align 4
  store atomic i32 OPEN_AND_OWNED, ptr %slot release, align 4
  %epoch = atomicrmw add ptr @tw_epoch, i32 1 seq_cst
  %sleepers = load atomic i32, ptr @tw_sleepers seq_cst, align 4
  %asleep = icmp ne i32 %sleepers, 0
  %every = and i32 %epoch, 255
  %again = icmp eq i32 %every, 255
  %loose_flag = load atomic i32, ptr @tw_loose monotonic, align 4
  %loose = icmp ne i32 %loose_flag, 0
  %begin = or i1 %asleep, %loose
  %see = or i1 %begin, %again
  br i1 %see, label %place, label %work
place:
  %anywhere = icmp ne i32 %unplaced, 0
  br i1 %anywhere, label %wake, label %apart
apart:
  %placed = call i32 @tw_place(i32 %team)
  %given = select i1 %begin, i32 %placed, i32 0
  store atomic i32 %given, ptr %spare_at monotonic, align 4
  br label %wake
wake:
  %spare = phi i32 [ 0, %place ], [ %given, %apart ]
  %small = icmp ult i32 %team, 32
  %amount = and i32 %team, 31
  %power = shl i32 1, %amount
  %below = sub i32 %power, 2
  %team_bits = select i1 %small, i32 %below, i32 -2
  %reserved = icmp ne i32 %spare, 0
  %reserve_bit = zext i1 %reserved to i32
  %who = or i32 %team_bits, %reserve_bit
  call void @tw_system_wake(ptr @tw_epoch, i32 EVERYBODY, i32 %who)
  br label %work
work:
  call void %function(ptr %job)
  %closed = atomicrmw and ptr %slot, i32 NOT_OPEN acq_rel
  %inside = and i32 %closed, COUNT
  %nobody = icmp eq i32 %inside, 0
  br i1 %nobody, label %leave, label %wait
wait:
  call void @tw_wait_for_zero(ptr %slot, i32 %unplaced)
  br label %leave
leave:
  store atomic i32 0, ptr %slot release, align 4
  ret void
}
"""

_NUMBERED = 64
"""Numbers up to which threads have a record. Those beyond are placed by the system alone."""
# flags above the count in one word, so that one compare-and-swap sees all
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
    "EVERYBODY": (1 << 31) - 1,  # FUTEX_WAKE takes a signed count
    "TEAM_AT": 4,  # offsets within %tw.slot
    "SPARE_AT": 24,
    "LOOK_NS": 20_000,  # how long to look at the slot between two looks at CPU time
    "LOOKS": 25,  # 25 of 20 us: half a millisecond, before it sleeps
    "FIRST_NS": 100_000,
    "LAST_NS": 4_000_000,
    "STILL_NS": 5_000,  # less CPU time than this in LOOK_NS counts as standing still
    "RECORDS": 4 * _NUMBERED,
    "NUMBERS": _NUMBERED,  # threads with a record
    "RESERVES": RESERVES,
    "RESERVED_TEAM": 16,  # larger teams have no reserves
}


def pool_text(architecture: str, system: str, *, conditions: bool = False) -> str:
    """tw_pool_run and tw_pool_number, for a module of LLVM IR; empty where they are not known of the machine, by LLVM's names.
    conditions: wait by a mutex and conditions on Linux, too."""
    declared, done = _PAUSE.get(architecture, ("", ""))
    if architecture not in CALLS:
        return ""
    if system == "linux" and not conditions:
        waiting, numbers = LINUX_TEXT + POSIX_THREADS_TEXT, NUMBERS | CALLS[architecture]
    elif system.startswith("win"):  # a name may end in a version
        waiting, numbers = WINDOWS_TEXT + UNPLACED_TEXT, {}
    else:
        waiting, numbers = POSIX_TEXT + POSIX_THREADS_TEXT + UNPLACED_TEXT, find_numbers(system)
    if numbers is None:
        return ""
    words = {
        **{name: str(number) for name, number in (_NUMBERS | numbers).items()},
        "DECLARE_PAUSE": declared,
        "DO_PAUSE": done,
    }
    # whole words, in one pass: a number that is put in is not looked at again
    return re.sub(r"\b(?:" + "|".join(words) + r")\b", lambda word: words[word[0]], waiting + PLACEMENT_TEXT + _TEXT)
