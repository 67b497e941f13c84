"""tw_parallel_for of exported libraries: by OpenMP, by a function that the application supplies, or serial.

A library that Python has loaded shares its loops by the process's own threads (runtime.threads), as kernels that were
built there do, unless it is for one thread: tw.load points PROCESS_THREADS at them, and takes the pool from the first library
that has it.
"""

from __future__ import annotations

from ...base.errors import user_source
from ..abi.parallel import PARALLEL_FOR, parallel_text
from ..abi.pool import pool_text
from .errors import UnknownThreads

__all__ = ["PROCESS_THREADS", "THREADS", "check_threads", "hook_name", "threads_text"]

PROCESS_THREADS = "tw_threads"
"""A variable that begins with the address of the process's runtime.threads.ThreadState; null outside of Python."""
_IN_PYTHON = "tw_parallel_for_in_python"

THREADS = {
    "openmp": "OpenMP's threads, by libgomp",
    "none": "one thread",
    "hook": "a function that the application supplies",
}


def check_threads(threads: str) -> None:
    """Raise UnknownThreads for a way that there is not."""
    if threads not in list(THREADS):  # whatever was given: it may have no hash
        from difflib import get_close_matches  # late: only a mistake needs it

        close = get_close_matches(str(threads), THREADS, 1, 0.3)
        raise UnknownThreads(
            f"cannot export with threads={threads!r}",
            called=user_source(),
            allowed="; ".join(f"{name!r} ({meaning})" for name, meaning in THREADS.items()),
            fix=f'threads="{close[0] if close else "openmp"}"',
        )


def hook_name(library: str) -> str:
    """The C function by which an application says threading of parallel loops."""
    return f"{library}_set_parallel_for"


_SERIAL = """
  %empty = icmp slt i32 %limit, 1
  br i1 %empty, label %done, label %once
once:
  %only = call i32 %body(i32 0, i32 1, ptr %context)
  ret i32 %only
done:
  ret i32 0
"""

_ASK_PYTHON = f"""
  %process = load atomic ptr, ptr @{PROCESS_THREADS} acquire, align 8
  %outside = icmp eq ptr %process, null
  br i1 %outside, label %alone_here, label %in_python
in_python:
  %shared = call i32 @{_IN_PYTHON}(ptr %body, ptr %context, i32 %limit)
  ret i32 %shared
alone_here:"""

_NONE = f"""
@{PROCESS_THREADS} = global ptr null

define i32 @{PARALLEL_FOR}(ptr %body, ptr %context, i32 %limit) nounwind {{
{_SERIAL}}}
"""

_HOOK = f"""
@tw_hook = internal global ptr null

define void @SETTER(ptr %function) nounwind {{
  store atomic ptr %function, ptr @tw_hook release, align 8
  ret void
}}

define i32 @{PARALLEL_FOR}(ptr %body, ptr %context, i32 %limit) nounwind {{
entry:
ASK_PYTHON
  %hook = load atomic ptr, ptr @tw_hook acquire, align 8
  %unset = icmp eq ptr %hook, null
  br i1 %unset, label %serial, label %hooked
hooked:
  %status = call i32 %hook(ptr %body, ptr %context, i32 %limit)
  ret i32 %status
serial:{_SERIAL}}}
"""

# OpenMP's threads do not survive a fork, and waiting for them would hang: a child runs serially.
_OPENMP = f"""
@tw_process = internal global i32 0

declare i32 @getpid() nounwind
declare i32 @omp_get_max_threads() nounwind
declare i32 @omp_in_parallel() nounwind
declare i32 @omp_get_thread_num() nounwind
declare void @GOMP_parallel(ptr, ptr, i32, i32) nounwind

define i32 @{PARALLEL_FOR}(ptr %body, ptr %context, i32 %limit) nounwind {{
entry:
ASK_PYTHON
  %few = icmp slt i32 %limit, 2
  br i1 %few, label %serial, label %look
look:
  %self = call i32 @getpid()
  %first = cmpxchg ptr @tw_process, i32 0, i32 %self monotonic monotonic
  %owner = extractvalue {{ i32, i1 }} %first, 0
  %new = extractvalue {{ i32, i1 }} %first, 1
  %same = icmp eq i32 %owner, %self
  %ours = or i1 %new, %same
  br i1 %ours, label %ask, label %serial
ask:
  %within = call i32 @omp_in_parallel()
  %most = call i32 @omp_get_max_threads()
  %outermost = icmp eq i32 %within, 0
  %count = select i1 %outermost, i32 %most, i32 1
  %team = call i32 @llvm.smin.i32(i32 %count, i32 %limit)
  %alone = icmp slt i32 %team, 2
  br i1 %alone, label %serial, label %fork
fork:
  %status = call i32 @tw_share(ptr %body, ptr %context, i32 %limit, i32 %team, ptr @GOMP_parallel, ptr @omp_get_thread_num,
    i32 0)
  ret i32 %status
serial:{_SERIAL}}}
"""


def threads_text(threads: str, library: str, machine: tuple[str, str], *, for_python: bool) -> str:
    """tw_parallel_for, and what it stands on, as LLVM IR. machine: its architecture and system. for_python: whether Python can
    load the library."""
    text = {"none": _NONE, "openmp": _OPENMP, "hook": _HOOK.replace("SETTER", hook_name(library))}[threads]
    text = text.replace("ASK_PYTHON", _ASK_PYTHON if for_python else "")
    # one thread needs neither pool nor tasks
    return text if threads == "none" else parallel_text(_IN_PYTHON, pool_text(*machine) if for_python else "") + text
