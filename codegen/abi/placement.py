"""CPUs of the pool's threads (codegen.abi.pool), as LLVM IR text: apart from their caller, and not stuck behind others.

A scheduler places a thread that is woken near its waker: after a pause, and on a virtual machine whose other CPUs have halted, on
the waker's own CPU, where the two take turns. So a caller that is about to wake threads sets their affinity masks before: its own
mask without the CPU that it runs on (`tw_place`). Nothing is changed of the caller. Where its mask is one CPU, that of the process's
first thread counts; where this is the same one, nobody is placed. Masks are read at each wake, and at every 256th offer to threads
that are awake, so that a change is followed; one that a thread has already is not set again (a hash of it is kept).

Workers of other libraries spin after their work, for 5 to 30 ms, on the CPUs that ours are woken on, and each of two threads on a CPU
has half of it. Two remedies, neither of which waits for anybody:
- Where a team has all CPUs of the mask, each of the first threads has reserves (`RESERVES`), which take part in jobs that
  begin with a wake and never wait awake. Four of five threads on a CPU are then the job's.
- Whoever has offered a job and finds it all taken waits for those inside (`tw_wait_for_zero`). One whose CPU time stands still for
  20 us is queued behind somebody: it is brought to the CPU of the owner (`tw_pull`), who goes to sleep, and may then run on any CPU of
  the mask until the next offer, which places it again (`tw_loose`), asleep or not.

All of this is advice to the scheduler: each system call may fail, and whatever a thread reads here of another may be old.
"""

from __future__ import annotations

__all__ = ["PLACEMENT_TEXT", "RESERVES"]

RESERVES = 3
"""For each of the first threads. In turns with an operator of torch, a product that one thread does in 11 ms takes 8 without, 7.2
with two and 6.6 with three, on two CPUs and scheduler ticks of 4 ms; beside numpy 7.5, 6.2 and 6.0."""

PLACEMENT_TEXT = """
; { thread's number to the system, hash of its mask, slot that it works in, its CPU time when last asked }, a cache line.
; Of thread n the line 4 n, of its reserves those that follow. Lines 0 to 3 are nobody's.
%tw.record = type { i32, i32, ptr, i64, [40 x i8] }

@tw_records = internal global [RECORDS x %tw.record] zeroinitializer, align 64
@tw_reserved = internal global i32 0
; Whether somebody was brought to an owner's CPU since all were placed.
@tw_loose = internal global i32 0

declare i64 @llvm.ctpop.i64(i64)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define internal ptr @tw_record(i32 %number, i32 %role) nounwind {
  %few = icmp ult i32 %number, NUMBERS
  %line = mul i32 %number, 4
  %place = add i32 %line, %role
  %known = select i1 %few, i32 %place, i32 0
  %record = getelementptr %tw.record, ptr @tw_records, i32 %known
  ret ptr %record
}

; A word of a mask's hash, and how many CPUs it has.
define internal { i64, i64 } @tw_look_at_mask(ptr %mask) nounwind {
entry:
  br label %words
words:
  %at = phi i64 [ 0, %entry ], [ %at1, %words ]
  %hash = phi i64 [ 1, %entry ], [ %hash1, %words ]
  %cpus = phi i64 [ 0, %entry ], [ %cpus1, %words ]
  %word_at = getelementptr i64, ptr %mask, i64 %at
  %word = load i64, ptr %word_at
  %mixed = xor i64 %hash, %word
  %spread = mul i64 %mixed, -7046029254386353131
  %high = lshr i64 %spread, 29
  %hash1 = xor i64 %spread, %high
  %some = call i64 @llvm.ctpop.i64(i64 %word)
  %cpus1 = add i64 %cpus, %some
  %at1 = add i64 %at, 1
  %more = icmp ult i64 %at1, 16
  br i1 %more, label %words, label %done
done:
  %pair = insertvalue { i64, i64 } poison, i64 %hash1, 0
  %both = insertvalue { i64, i64 } %pair, i64 %cpus1, 1
  ret { i64, i64 } %both
}

; The mask that is this thread's to use, without the CPU that it runs on, and this CPU; -1 where nothing is left or known.
define internal i32 @tw_other_cpus(ptr %mask) nounwind {
entry:
  %cpu = call i32 @tw_system_cpu()
  %known = icmp ult i32 %cpu, 1024
  br i1 %known, label %read, label %none
read:
  %thread = phi i32 [ 0, %entry ], [ %first, %next ]
  call void @llvm.memset.p0.i64(ptr %mask, i8 0, i64 128, i1 false)
  %failed = call i32 @tw_system_mask(i32 %thread, ptr %mask)
  %byte = lshr i32 %cpu, 3
  %byte_at = getelementptr i8, ptr %mask, i32 %byte
  %old = load i8, ptr %byte_at
  %turn = and i32 %cpu, 7
  %bit = shl i32 1, %turn
  %keep32 = xor i32 %bit, 255
  %keep = trunc i32 %keep32 to i8
  %new = and i8 %old, %keep
  store i8 %new, ptr %byte_at
  %seen = call { i64, i64 } @tw_look_at_mask(ptr %mask)
  %cpus = extractvalue { i64, i64 } %seen, 1
  %some = icmp ne i64 %cpus, 0
  %read_well = icmp eq i32 %failed, 0
  %good = and i1 %some, %read_well
  br i1 %good, label %found, label %next
next:
  %first = call i32 @tw_system_first_thread()
  %again = icmp eq i32 %thread, 0
  br i1 %again, label %read, label %none
found:
  ret i32 %cpu
none:
  ret i32 -1
}

; Keep threads who work for nobody off the caller's CPU. The number of the team whose reserves shall take part: all of it, or 0.
define internal i32 @tw_place(i32 %team) noinline nounwind {
entry:
  %mask = alloca [16 x i64], align 8
  %cpu = call i32 @tw_other_cpus(ptr %mask)
  %known = icmp sge i32 %cpu, 0
  br i1 %known, label %look, label %none
look:
  %seen = call { i64, i64 } @tw_look_at_mask(ptr %mask)
  %hash64 = extractvalue { i64, i64 } %seen, 0
  %hash32 = trunc i64 %hash64 to i32
  %hash = or i32 %hash32, 1
  %cpus = extractvalue { i64, i64 } %seen, 1
  %team64 = zext i32 %team to i64
  %all = icmp ugt i64 %team64, %cpus
  %small = icmp ule i32 %team, RESERVED_TEAM
  %reserved = and i1 %all, %small
  %spare = select i1 %reserved, i32 %team, i32 0
  br i1 %reserved, label %ready, label %records
ready:
  %wanted = sub i32 %team, 1
  call void @tw_grow(ptr @tw_reserved, i32 %wanted, i32 RESERVES)
  br label %records
records:
  store atomic i32 0, ptr @tw_loose monotonic, align 4
  %few = call i32 @llvm.umin.i32(i32 %team, i32 NUMBERS)
  %end = mul i32 %few, 4
  br label %each
each:
  %at = phi i32 [ 4, %records ], [ %at1, %next ]
  %record = getelementptr %tw.record, ptr @tw_records, i32 %at
  %id = load atomic i32, ptr %record monotonic, align 4
  %there = icmp ne i32 %id, 0
  %hash_at = getelementptr %tw.record, ptr %record, i32 0, i32 1
  %has = load atomic i32, ptr %hash_at monotonic, align 4
  %other = icmp ne i32 %has, %hash
  %inside_at = getelementptr %tw.record, ptr %record, i32 0, i32 2
  %inside = load atomic ptr, ptr %inside_at monotonic, align 8
  %idle = icmp eq ptr %inside, null
  %wrong = and i1 %there, %other
  %move = and i1 %wrong, %idle
  br i1 %move, label %set, label %next
set:
  store atomic i32 %hash, ptr %hash_at monotonic, align 4
  call void @tw_system_set_mask(i32 %id, ptr %mask)
  br label %next
next:
  %at1 = add i32 %at, 1
  %more = icmp ult i32 %at1, %end
  br i1 %more, label %each, label %done
done:
  ret i32 %spare
none:
  ret i32 0
}

; Of those inside the slot, remember how much CPU time they have had; or, where that stands still since, bring them here: whether any.
define internal i1 @tw_pull(ptr %slot, i1 %remember) noinline nounwind {
entry:
  %mask = alloca [16 x i64], align 8
  %here = alloca [16 x i64], align 8
  %time = alloca { i64, i64 }
  %cpu = call i32 @tw_other_cpus(ptr %mask)
  %known = icmp sge i32 %cpu, 0
  br i1 %known, label %masks, label %done
masks:
  call void @llvm.memset.p0.i64(ptr %here, i8 0, i64 128, i1 false)
  %byte = lshr i32 %cpu, 3
  %turn = and i32 %cpu, 7
  %bit32 = shl i32 1, %turn
  %bit = trunc i32 %bit32 to i8
  %here_at = getelementptr i8, ptr %here, i32 %byte
  store i8 %bit, ptr %here_at
  %mask_at = getelementptr i8, ptr %mask, i32 %byte
  %others = load i8, ptr %mask_at
  %all = or i8 %others, %bit
  store i8 %all, ptr %mask_at
  %made = load atomic i32, ptr @tw_made monotonic, align 4
  %numbers = add i32 %made, 1
  %few = call i32 @llvm.umin.i32(i32 %numbers, i32 NUMBERS)
  %end = mul i32 %few, 4
  br label %each
each:
  %at = phi i32 [ 4, %masks ], [ %at1, %next ]
  %sum = phi i1 [ false, %masks ], [ %any, %next ]
  %record = getelementptr %tw.record, ptr @tw_records, i32 %at
  %inside_at = getelementptr %tw.record, ptr %record, i32 0, i32 2
  %inside = load atomic ptr, ptr %inside_at monotonic, align 8
  %ours = icmp eq ptr %inside, %slot
  br i1 %ours, label %ask, label %next
ask:
  %id = load atomic i32, ptr %record monotonic, align 4
  %now = call i64 @tw_system_thread_time(i32 %id)
  %used_at = getelementptr %tw.record, ptr %record, i32 0, i32 3
  %before = load atomic i64, ptr %used_at monotonic, align 8
  store atomic i64 %now, ptr %used_at monotonic, align 8
  %used = sub i64 %now, %before
  %still = icmp ult i64 %used, STILL_NS
  %later = select i1 %remember, i1 false, i1 %still
  %there = icmp ne i32 %id, 0  ; which would be this thread itself
  %stuck = and i1 %later, %there
  br i1 %stuck, label %bring, label %next
bring:
  store atomic i32 1, ptr @tw_loose monotonic, align 4
  call void @tw_system_set_mask(i32 %id, ptr %here)
  call void @tw_system_set_mask(i32 %id, ptr %mask)
  %hash_at = getelementptr %tw.record, ptr %record, i32 0, i32 1
  store atomic i32 0, ptr %hash_at monotonic, align 4
  br label %next
next:
  %any = phi i1 [ %sum, %each ], [ %sum, %ask ], [ true, %bring ]
  %at1 = add i32 %at, 1
  %more = icmp ult i32 %at1, %end
  br i1 %more, label %each, label %done
done:
  %result = phi i1 [ false, %entry ], [ %any, %next ]
  ret i1 %result
}

; Until those who have joined have left; whoever is stuck is brought here meanwhile.
define internal void @tw_wait_for_zero(ptr %slot, i32 %unplaced) nounwind {
entry:
  %time = alloca { i64, i64 }
  %rest_at = getelementptr i8, ptr %time, i64 8
  store i64 0, ptr %time
  %soon = call i1 @tw_watch(ptr %slot, i32 OWNED, i1 true, i64 AWAKE_NS)
  %free = icmp ne i32 %unplaced, 0
  br i1 %soon, label %out, label %round
round:
  %patience = phi i64 [ FIRST_NS, %entry ], [ %longer, %next ]
  %looks = phi i32 [ LOOKS, %entry ], [ 1, %next ]
  br i1 %free, label %look, label %ask
ask:
  %asked = call i1 @tw_pull(ptr %slot, i1 true)
  br label %watch
watch:
  %left = phi i32 [ %looks, %ask ], [ %fewer, %pull ]
  %seen = load atomic i32, ptr %slot acquire, align 4
  %flag = and i32 %seen, ASLEEP
  %nobody = or i32 %flag, OWNED
  %now = call i1 @tw_watch(ptr %slot, i32 %nobody, i1 true, i64 LOOK_NS)
  br i1 %now, label %out, label %pull
pull:
  %brought = call i1 @tw_pull(ptr %slot, i1 false)
  %fewer = sub i32 %left, 1
  %last = icmp eq i32 %fewer, 0
  %yield = or i1 %brought, %last
  br i1 %yield, label %look, label %watch
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
  store i64 %patience, ptr %rest_at
  %limit = select i1 %free, ptr null, ptr %time
  call void @tw_system_wait_for(ptr %slot, i32 %told, ptr %limit)
  br label %next
next:
  %twice = shl i64 %patience, 1
  %longer = call i64 @llvm.umin.i64(i64 %twice, i64 LAST_NS)
  br label %round
out:
  ret void
}
"""
