"""CPU threads: how many, and who has them: on Linux, macOS and Windows the process's own pool, which generated code brings
(codegen.abi.pool), else an OpenMP library.

Generated code reads one record, `ThreadState`. Its page is wiped in a forked child (threads do not survive a fork, and waiting
for them would hang), and all zeros mean: run parallel loops serially.

OMP_PROC_BIND=false leaves it to the system which CPUs the pool's threads run on.

TILEWRIGHT_THREADS=openmp takes OpenMP's threads where the pool would be taken. They wait awake for milliseconds, which is a CPU
taken from everybody else, and from each other where there are more of them than CPUs.
"""

from __future__ import annotations

import ctypes
import importlib.util
import math
import mmap
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from ..base import dataclass, user_source
from ..base.environment import read_choice
from ..base.forks import register_fork_hooks
from .errors import WrongThreadCount
from .hosts import host

__all__ = [
    "VARIABLE",
    "ThreadState",
    "available_cpus",
    "describe",
    "join_threads",
    "num_threads",
    "openmp_library",
    "set_num_threads",
    "state_address",
]

VARIABLE = "TILEWRIGHT_THREADS"
_POOL_MACHINES = ("x86_64", "aarch64", "riscv64")


class ThreadState(ctypes.Structure):
    """State that tw_parallel_for reads. Null functions: no threads here, or not yet, or not any more. unplaced: not 0 where the pool leaves
    CPUs to the system (codegen.abi.placement); always 0 with OpenMP, which would take it for a policy."""

    _fields_ = (
        ("count", ctypes.c_int32),
        ("unplaced", ctypes.c_int32),
        ("parallel", ctypes.c_void_p),
        ("thread_number", ctypes.c_void_p),
    )


class _Variable(ctypes.Structure):
    """tw_threads of codegen.abi.parallel."""

    _fields_ = (("state", ctypes.c_void_p), ("run", ctypes.c_void_p), ("number", ctypes.c_void_p))


@dataclass(frozen=True)
class _Threads:
    """The process's threads. page: of the record. library: the OpenMP library in use. has_pool: whether the pool is, once somebody
    brings it. process: whose they are, by number."""

    state: ThreadState
    page: mmap.mmap
    library: str | None
    has_pool: bool
    process: int


_known: dict[str, _Threads] = {}


def _threads() -> _Threads:
    """Made on first use. Of two threads that come at once the first to end is heard."""
    return _known.get("threads") or _known.setdefault("threads", _make_pool())


def _make_pool() -> _Threads:
    page = host().private_memory(mmap.PAGESIZE)
    host().clear_in_children(page)
    state = ThreadState.from_buffer(page)
    # A kernel before 4.14 clears no page: forks by Python are seen all the same.
    register_fork_hooks(in_child=lambda: ctypes.memset(ctypes.addressof(state), 0, ctypes.sizeof(state)))
    cpus, own = available_cpus(), _may_have_pool()
    openmp = _find_openmp(_loaded_libraries()) if own else _find_openmp(_all_libraries())
    if openmp is not None:
        # Under OMP_PROC_BIND the library has pinned this thread by now, but knows what there was before.
        bound, cpus = cpus, max(cpus, _limit_by_quota(openmp[1].omp_get_num_procs()))
        own = own and cpus == bound  # our threads would be pinned like this one; OpenMP's are not
    if openmp is not None and not own:
        state.parallel = _address(openmp[1], "GOMP_parallel")
        state.thread_number = _address(openmp[1], "omp_get_thread_num")
    state.count = _default_threads(cpus)
    state.unplaced = int(own and os.environ.get("OMP_PROC_BIND", "").strip().lower() == "false")
    return _Threads(state, page, None if own or openmp is None else openmp[0], own, os.getpid())


def _may_have_pool() -> bool:
    """Return whether the pool is what is wanted, and works on this machine."""
    here = host().waiting and sys.maxsize > 1 << 32 and host().machine() in _POOL_MACHINES
    return bool(here) and read_choice(VARIABLE, "openmp") != "openmp"


def join_threads(variable: int) -> None:
    """Code that stays loaded shares its loops by this process's threads from now on. variable: the address of its tw_threads.

    The first code that has the pool brings it to all; none does in a forked child, which runs loops serially."""
    threads, theirs = _threads(), _Variable.from_address(variable)
    if threads.has_pool and theirs.run and not threads.state.parallel and threads.process == os.getpid():
        threads.state.thread_number = theirs.number
        threads.state.parallel = theirs.run
    theirs.state = ctypes.addressof(threads.state)


def _address(library: ctypes.CDLL, function: str) -> int | None:
    return ctypes.cast(getattr(library, function), ctypes.c_void_p).value


def state_address() -> int:
    """Return where generated code finds the ThreadState."""
    return ctypes.addressof(_threads().state)


def openmp_library() -> str | None:
    """The path or name of the OpenMP library in use; None where loops run by the pool, or serially."""
    return _threads().library


def num_threads() -> int:
    """Return how many threads parallel loops use, from 1 on: 1 where there is neither pool nor OpenMP, and in a forked child. Raises
    nothing."""
    threads = _threads()
    return max(1, threads.state.count) if threads.has_pool or threads.state.parallel else 1


def set_num_threads(count: int) -> None:
    """Use this many threads from the next call of a kernel on, in the whole process. Raises WrongThreadCount (TW0523) below 1,
    beyond 1024, or for what is no integer."""
    if type(count) is not int or not 1 <= count <= 1024:
        raise WrongThreadCount(
            f"cannot run on {count!r} threads",
            called=user_source(),
            allowed="1 to 1024",
            fix="tw.set_num_threads(1) runs serially",
        )
    _threads().state.count = count


def describe() -> tuple[bool, str]:
    """(whether parallel loops run in parallel, how many threads they use and whose), for people."""
    threads = _threads()
    if not threads.has_pool and threads.library is None:
        return False, "no OpenMP library found; parallel loops run serially"
    count, cpus, whose = (
        num_threads(),
        available_cpus(),
        "tilewright's own pool" if threads.has_pool else threads.library,
    )
    return True, f"{count} thread{'s' if count > 1 else ''} by {whose}; {cpus} CPU{'s' if cpus > 1 else ''} to use"


def available_cpus() -> int:
    """CPUs that this process may use: its affinity mask, cut to its control group's quota."""
    return _limit_by_quota(host().usable_cpus())


def _limit_by_quota(cpus: int) -> int:
    quota = host().cpu_quota()
    return max(1, cpus if quota is None else min(cpus, math.ceil(quota)))


def _default_threads(cpus: int) -> int:
    """OMP_NUM_THREADS (the outermost level's number) where it is set, but never more than there are CPUs."""
    match = re.match(r"\s*(\d+)", os.environ.get("OMP_NUM_THREADS", ""))
    wanted = int(match[1]) if match else 0
    return min(wanted, cpus) if wanted > 0 else cpus


def _all_libraries() -> list[str]:
    """Return where OpenMP may be: what is loaded already (two pools would fight for the CPUs), else the system's, else the one in
    xgboost's wheel."""
    return [*_loaded_libraries(), "libgomp.so.1", *_shipped_libraries()]


def _find_openmp(paths: Sequence[str]) -> tuple[str, ctypes.CDLL] | None:
    """The first library with GOMP_parallel, and which it is."""
    for path in paths:
        try:
            library = ctypes.CDLL(path)
            if all(hasattr(library, name) for name in ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_procs")):
                return path, library
        except OSError:
            continue
    return None


def _loaded_libraries() -> list[str]:
    return [path for path in host().loaded_files("omp") if re.search(r"/lib(?:gomp|omp|iomp5)\b[^/\s]*$", path)]


def _shipped_libraries() -> list[str]:
    spec = importlib.util.find_spec("xgboost")
    if spec is None or spec.origin is None:
        return []
    site = Path(spec.origin).parent.parent
    folders = (site / "xgboost.libs", site / "xgboost_cpu.libs")
    return [str(path) for folder in folders for path in sorted(folder.glob("*gomp*"))]
