"""tw_parallel_for: the threads under parallel loops, as LLVM IR text.

    i32 tw_parallel_for(ptr body, ptr context, i32 limit)

shares a loop among threads: it chooses a number of tasks, at most `limit`, calls `i32 body(i32 task, i32 tasks, ptr
context)` once for each, and returns the status of the first task that failed, or 0. Serially there is one task.

There are a few tasks for each thread. A thread does its own first, in order, so that a loop which is run again finds
its data in the same cache; then it takes over what slower threads have not begun. (The distributed counters of work
stealing, Blumofe and Leiserson 1999, without their deques: all tasks are known from the start.)

The variable `tw_threads` points to the process's runtime.threads.ThreadState; null, as it is until someone fills it,
means serial. After the pointer stand the pool's two functions, for whoever makes them known; null where there is no pool.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm

from ...runtime.critical_section import run_in_turn
from ...runtime.hosts import host
from ...runtime.threads import ThreadState, join_threads
from .pool import POOL_NUMBER, POOL_RUN, pool_text

__all__ = ["PARALLEL_FOR", "parallel_for_address", "parallel_text"]

PARALLEL_FOR = "tw_parallel_for"
_TASKS_PER_THREAD = 4  # enough to even out threads of unequal speed, few enough that taking one costs little
_LINE_BYTES = 64  # a cache line, so that counters of two threads do not share one

_TEXT = """
@tw_threads = global { ptr, ptr, ptr } { ptr null, FUNCTIONS }

define i32 @NAME(ptr %body, ptr %context, i32 %limit) {
entry:
  %state = load ptr, ptr @tw_threads
  %none = icmp eq ptr %state, null
  br i1 %none, label %serial, label %look
look:
  %count_at = getelementptr i8, ptr %state, i64 COUNT
  %count = load i32, ptr %count_at
  %parallel_at = getelementptr i8, ptr %state, i64 PARALLEL
  %parallel = load ptr, ptr %parallel_at
  %team = call i32 @llvm.smin.i32(i32 %count, i32 %limit)
  %missing = icmp eq ptr %parallel, null
  %alone = icmp slt i32 %team, 2
  %no = or i1 %missing, %alone
  br i1 %no, label %serial, label %fork
serial:
  %empty = icmp slt i32 %limit, 1
  br i1 %empty, label %done, label %once
once:
  %only = call i32 %body(i32 0, i32 1, ptr %context)
  ret i32 %only
done:
  ret i32 0
fork:
  %number_at = getelementptr i8, ptr %state, i64 THREAD_NUMBER
  %number = load ptr, ptr %number_at
  %unplaced_at = getelementptr i8, ptr %state, i64 UNPLACED
  %unplaced = load i32, ptr %unplaced_at
  %status = call i32 @tw_share(ptr %body, ptr %context, i32 %limit, i32 %team, ptr %parallel, ptr %number, i32 %unplaced)
  ret i32 %status
}
"""

_SHARING = """
; { body, context, tasks, team, share, status }, one counter a thread, each on a cache line of its own, thread's number
%tw.job = type { ptr, ptr, i32, i32, i32, i32, ptr, ptr }

declare i32 @llvm.smin.i32(i32, i32)

; parallel: GOMP_parallel; number: omp_get_thread_num; team: how many threads, at least 2; flags: the last argument of `parallel`
define internal i32 @tw_share(ptr %body, ptr %context, i32 %limit, i32 %team, ptr %parallel, ptr %number, i32 %flags) nounwind {
entry:
  %many = mul i32 %team, TASKS_PER_THREAD
  %tasks = call i32 @llvm.smin.i32(i32 %many, i32 %limit)
  %up = add i32 %tasks, %team
  %up1 = sub i32 %up, 1
  %share = udiv i32 %up1, %team
  %counters = alloca [LINE_BYTES x i8], i32 %team, align LINE_BYTES
  %team64 = zext i32 %team to i64
  %bytes = mul i64 %team64, LINE_BYTES
  call void @llvm.memset.p0.i64(ptr %counters, i8 0, i64 %bytes, i1 false)
  %job = alloca %tw.job
  %0 = insertvalue %tw.job zeroinitializer, ptr %body, 0
  %1 = insertvalue %tw.job %0, ptr %context, 1
  %2 = insertvalue %tw.job %1, i32 %tasks, 2
  %3 = insertvalue %tw.job %2, i32 %team, 3
  %4 = insertvalue %tw.job %3, i32 %share, 4
  %5 = insertvalue %tw.job %4, ptr %counters, 6
  %6 = insertvalue %tw.job %5, ptr %number, 7
  store %tw.job %6, ptr %job
  call void %parallel(ptr @tw_parallel_worker, ptr %job, i32 %team, i32 %flags)
  %status_at = getelementptr %tw.job, ptr %job, i32 0, i32 5
  %status = load atomic i32, ptr %status_at acquire, align 4
  ret i32 %status
}

define internal void @tw_parallel_worker(ptr %job) {
entry:
  %loaded = load %tw.job, ptr %job
  %number = extractvalue %tw.job %loaded, 7
  %self = call i32 %number()
  %body = extractvalue %tw.job %loaded, 0
  %context = extractvalue %tw.job %loaded, 1
  %tasks = extractvalue %tw.job %loaded, 2
  %team = extractvalue %tw.job %loaded, 3
  %share = extractvalue %tw.job %loaded, 4
  %counters = extractvalue %tw.job %loaded, 6
  %status_at = getelementptr %tw.job, ptr %job, i32 0, i32 5
  br label %owners
owners:
  %visited = phi i32 [ 0, %entry ], [ %visited1, %next_owner ]
  %finished = icmp uge i32 %visited, %team
  br i1 %finished, label %done, label %choose
choose:
  %raw = add i32 %self, %visited
  %owner = urem i32 %raw, %team
  %owner64 = zext i32 %owner to i64
  %counter = getelementptr [LINE_BYTES x i8], ptr %counters, i64 %owner64
  %base = mul i32 %owner, %share
  br label %take
take:
  %taken = atomicrmw add ptr %counter, i32 1 monotonic
  %task = add i32 %base, %taken
  %owned = icmp ult i32 %taken, %share
  %exists = icmp ult i32 %task, %tasks
  %run = and i1 %owned, %exists
  br i1 %run, label %work, label %next_owner
work:
  %status = call i32 %body(i32 %task, i32 %tasks, ptr %context)
  %bad = icmp ne i32 %status, 0
  br i1 %bad, label %report, label %take
report:
  %old = cmpxchg ptr %status_at, i32 0, i32 %status acq_rel monotonic
  br label %take
next_owner:
  %visited1 = add i32 %visited, 1
  br label %owners
done:
  ret void
}
"""


def _sharing_text() -> str:
    """The text of tw_share, which runs a loop on a team of threads that is known to be there."""
    return _SHARING.replace("TASKS_PER_THREAD", str(_TASKS_PER_THREAD)).replace("LINE_BYTES", str(_LINE_BYTES))


def parallel_text(name: str = PARALLEL_FOR, pool: str = "") -> str:
    """The text of tw_parallel_for (under another name, where that one is taken), a module of its own, with the text of the pool if
    there is one."""
    # without a pool, the environment has to fill in OpenMP's functions
    functions = (f"ptr @{POOL_RUN}", f"ptr @{POOL_NUMBER}") if pool else ("ptr null", "ptr null")
    text = _TEXT.replace("@NAME", f"@{name}").replace("FUNCTIONS", ", ".join(functions)) + _sharing_text() + pool
    for field in ("PARALLEL", "COUNT", "THREAD_NUMBER", "UNPLACED"):
        text = text.replace(f"i64 {field}", f"i64 {getattr(ThreadState, field.lower()).offset}")
    return text


_compiled: tuple[int, Any] | None = None


def parallel_for_address() -> int:  # a global, since the code that calls it may outlive whoever asked first
    """The address of tw_parallel_for in this process. Compiled on the first use, and there to stay."""
    if _compiled is None:
        _compile()
    assert _compiled is not None
    return _compiled[0]


@run_in_turn
def _compile() -> None:
    global _compiled
    if _compiled is not None:  # by another thread meanwhile
        return
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    # LLVM's names of architecture and system, which pool_text is keyed by
    here = llvm.get_triple_parts(llvm.get_process_triple())
    pool = pool_text(here.Arch, here.OS, conditions=host().waiting == "conditions")
    jit = llvm.create_lljit_compiler(llvm.Target.from_default_triple().create_target_machine(opt=2))
    builder = llvm.JITLibraryBuilder().add_ir(parallel_text(pool=pool))
    builder.export_symbol(PARALLEL_FOR).export_symbol("tw_threads")
    tracker = builder.add_current_process().link(jit, PARALLEL_FOR)  # the process for pthread and the C library
    join_threads(tracker["tw_threads"])  # fills in ThreadState, before any kernel can call it
    _compiled = tracker[PARALLEL_FOR], (jit, tracker)
