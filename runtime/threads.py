"""CPU threads: how many, and the OpenMP library that has them.

Generated code reads one record, `ThreadState`. Its page is wiped in a forked child (OpenMP's threads do not survive a
fork, and waiting for them would hang), and all zeros mean: run parallel loops serially.
"""

from __future__ import annotations

import ctypes
import importlib.util
import math
import mmap
import os
import re
import threading
from contextlib import suppress
from pathlib import Path

from ..errors import user_source
from .errors import WrongThreadCount

__all__ = ["ThreadState", "available_cpus", "describe", "num_threads", "openmp_library", "set_num_threads",
           "state_address"]

_WIPE_ON_FORK = 18
"""Linux's MADV_WIPEONFORK, which the mmap module does not name."""


class ThreadState(ctypes.Structure):
    """What tw_parallel_for reads. Null functions: no OpenMP here, or not any more."""

    _fields_ = (
        ("count", ctypes.c_int32), ("reserved", ctypes.c_int32), ("parallel", ctypes.c_void_p),
        ("thread_number", ctypes.c_void_p),
    )


_page: mmap.mmap | None = None
_state: ThreadState | None = None
_library: str | None = None
_lock = threading.Lock()


def _shared_state() -> ThreadState:
    """The record, made on first use."""
    global _page, _state, _library
    with _lock:
        if _state is not None:
            return _state
        _page = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        with suppress(OSError):        # kernels before 4.14; forks by Python are seen below all the same
            _page.madvise(_WIPE_ON_FORK)
        state = ThreadState.from_buffer(_page)
        os.register_at_fork(after_in_child=lambda: ctypes.memset(ctypes.addressof(state), 0, ctypes.sizeof(state)))
        cpus, openmp = available_cpus(), _find_openmp()
        if openmp is not None:
            _library, library = openmp
            # Under OMP_PROC_BIND the library has pinned this thread by now, but knows what there was before.
            cpus = max(cpus, _within_quota(library.omp_get_num_procs()))
            state.parallel = _address(library, "GOMP_parallel")
            state.thread_number = _address(library, "omp_get_thread_num")
        state.count = _default_threads(cpus)
        _state = state
        return state


def _address(library: ctypes.CDLL, function: str) -> int | None:
    return ctypes.cast(getattr(library, function), ctypes.c_void_p).value


def state_address() -> int:
    """Where generated code finds the ThreadState."""
    return ctypes.addressof(_shared_state())


def openmp_library() -> str | None:
    """The path or name of the OpenMP library in use; None where there is none, and parallel loops run serially."""
    _shared_state()
    return _library


def num_threads() -> int:
    """How many threads parallel loops use, from 1 on: 1 where there is no OpenMP, and in a forked child. Raises nothing."""
    state = _shared_state()
    return max(1, state.count) if state.parallel else 1


def set_num_threads(count: int) -> None:
    """Use this many threads from the next call of a kernel on, in the whole process. Raises WrongThreadCount (TW0523) below 1,
    beyond 1024, or for what is no integer."""
    if type(count) is not int or not 1 <= count <= 1024:
        raise WrongThreadCount(f"cannot run on {count!r} threads", called=user_source(), allowed="1 to 1024",
                               fix="tw.set_num_threads(1) runs serially")
    _shared_state().count = count


def describe() -> tuple[bool, str]:
    """(whether parallel loops run in parallel, how many threads they use and by which library), for people."""
    library = openmp_library()
    if library is None:
        return False, "no OpenMP library found; parallel loops run serially"
    count, cpus = num_threads(), available_cpus()
    return True, f"{count} thread{'s' if count > 1 else ''} by {library}; {cpus} CPU{'s' if cpus > 1 else ''} to use"


def available_cpus() -> int:
    """CPUs that this process may use: its affinity mask, cut to its control group's quota."""
    return _within_quota(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


def _within_quota(cpus: int) -> int:
    quota = _cgroup_quota()
    return max(1, cpus if quota is None else min(cpus, math.ceil(quota)))


def _default_threads(cpus: int) -> int:
    """OMP_NUM_THREADS (the outermost level's number) where it is set, but never more than there are CPUs."""
    match = re.match(r"\s*(\d+)", os.environ.get("OMP_NUM_THREADS", ""))
    wanted = int(match[1]) if match else 0
    return min(wanted, cpus) if wanted > 0 else cpus


def _cgroup_quota() -> float | None:
    """CPUs' worth of time that the control group grants; None where it sets no limit."""
    unified, quota_file = Path("/sys/fs/cgroup/cpu.max"), Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us")
    try:
        if unified.exists():
            quota, period = unified.read_text().split()[:2]
        else:
            quota, period = quota_file.read_text(), quota_file.with_name("cpu.cfs_period_us").read_text()
        return float(quota) / float(period) if float(quota) > 0 else None
    except (OSError, ValueError):
        return None


def _find_openmp() -> tuple[str, ctypes.CDLL] | None:
    """A library with GOMP_parallel: one that is loaded already (two pools would fight for the CPUs), else the
    system's, else the one in xgboost's wheel."""
    for path in (*_loaded_libraries(), "libgomp.so.1", *_shipped_libraries()):
        try:
            library = ctypes.CDLL(path)
            if all(hasattr(library, name) for name in ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_procs")):
                return path, library
        except OSError:
            continue
    return None


def _loaded_libraries() -> list[str]:
    try:
        maps = Path("/proc/self/maps").read_text()
    except OSError:
        return []
    return list(dict.fromkeys(re.findall(r"(/\S*/lib(?:gomp|omp|iomp5)\b[^/\s]*)$", maps, re.MULTILINE)))


def _shipped_libraries() -> list[str]:
    spec = importlib.util.find_spec("xgboost")
    if spec is None or spec.origin is None:
        return []
    site = Path(spec.origin).parent.parent
    folders = (site / "xgboost.libs", site / "xgboost_cpu.libs")
    return [str(path) for folder in folders for path in sorted(folder.glob("*gomp*"))]
