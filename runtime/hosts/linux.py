"""Linux: affinities and control groups, futexes, files of /proc and /sys, libraries in memory.

Each of them may be missing (a container without /proc, a kernel before its time): then the answer is that of any system.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import signal
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

from .posix import Posix

__all__ = ["CACHES", "Linux", "unmodified_ranges"]

CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
"""The folder that describes the caches of a core, level by level."""
_WIPE_ON_FORK, _NO_RESERVE = 18, 0x4000
"""MADV_WIPEONFORK and MAP_NORESERVE, which the mmap module does not name everywhere."""
_SVE_LENGTH, _LENGTH_MASK, _END_WITH_PARENT = 51, 0xFFFF, 1
"""PR_SVE_GET_VL, whose answer is in bytes, PR_SVE_VL_LEN_MASK, and PR_SET_PDEATHSIG."""
_HWPROBE, _EXTENSIONS = 258, 4
"""The number of riscv_hwprobe (nothing before Linux 6.4), and its key of extensions beyond RV64GC's."""


class Linux(Posix):
    """Services of Linux."""

    waiting = "futex"

    def usable_cpus(self) -> int:
        """Count the CPUs of the affinity mask."""
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else super().usable_cpus()

    def cpu_quota(self) -> float | None:
        """Read the control group's quota."""
        unified, quota_file = Path("/sys/fs/cgroup/cpu.max"), Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us")
        try:
            if unified.exists():
                quota, period = unified.read_text().split()[:2]
            else:
                quota, period = quota_file.read_text(), quota_file.with_name("cpu.cfs_period_us").read_text()
            return float(quota) / float(period) if float(quota) > 0 else None  # -1 or "max": no quota
        except (OSError, ValueError):
            return None

    def cpu_model(self) -> str:
        """The name in /proc/cpuinfo; on Arm, which has none there, the designs of the cores by number."""
        told = _cpuinfo()
        name = re.search(r"^model name\s*:\s*(.*)$", told, re.MULTILINE)
        if name:
            return name[1].strip()
        pattern = r"^CPU implementer\s*:\s*(\w+)$(?s:.*?)^CPU part\s*:\s*(\w+)$"
        # the cores of a big.LITTLE system have several designs
        parts = sorted({f"{by} {part}" for by, part in re.findall(pattern, told, re.MULTILINE)})
        return f"{self.machine()} {', '.join(parts)}" if parts else super().cpu_model()

    def core_cache(self, level: int) -> int | None:
        """Read /sys. A cache that cores share is told whole, of which a virtual machine has a part that nobody tells."""
        for entry in sorted(CACHES.glob("index*")):
            try:
                kind, of, size = ((entry / name).read_text().strip() for name in ("type", "level", "size"))
            except OSError:
                continue
            if of == str(level) and kind in ("Data", "Unified") and size.endswith("K") and size[:-1].isdigit():
                return int(size[:-1]) << 10
        return None

    def processor_word(self, word: str) -> int | None:
        """Return an entry of the auxiliary vector, by its number, or riscv_hwprobe's extensions."""
        libc = ctypes.CDLL(None)
        if word.isdigit() and hasattr(libc, "getauxval"):
            ask = ctypes.CFUNCTYPE(ctypes.c_ulong, ctypes.c_ulong)(("getauxval", libc))
            return ask(int(word))
        if word == "hwprobe":
            pair = (ctypes.c_uint64 * 2)(_EXTENSIONS, 0)
            failed = libc.syscall(ctypes.c_long(_HWPROBE), pair, ctypes.c_size_t(1), ctypes.c_size_t(0), None, 0)
            return None if failed else pair[1]
        return None

    def sve_bits(self) -> int:
        """Ask prctl."""
        length = _sve_bytes()
        return (length & _LENGTH_MASK) * 8 if length > 0 else 0  # prctl says a negative number where there is no SVE

    def reserved_memory(self, size: int) -> mmap.mmap:
        """Map memory without a reserve for it."""
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE)

    def clear_in_children(self, page: mmap.mmap) -> None:
        """Advise the kernel, which before 4.14 does not take this."""
        with suppress(OSError):
            page.madvise(_WIPE_ON_FORK)

    def is_mapped(self, address: int) -> bool:
        """Read a byte of the process's memory as a file, which takes microseconds and cannot crash."""
        try:
            return len(_read_self(address, 1)) == 1
        except FileNotFoundError:
            return super().is_mapped(address)

    def read_memory(self, address: int, size: int) -> bytes:
        """Read the process's memory as a file, which cannot crash where nothing is mapped."""
        try:
            return _read_self(address, size)
        except FileNotFoundError:
            return super().read_memory(address, size)

    def release_memory(self, library: str) -> None:
        """Advise the kernel on mapped pages, and trim the heap."""
        libc = ctypes.CDLL(None)
        with suppress(OSError, AttributeError):
            libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
            # only pages that are as they are in the file can be read again
            for begin, end in unmodified_ranges(Path("/proc/self/smaps").read_text("utf-8", "replace"), library):
                libc.madvise(begin, end - begin, mmap.MADV_DONTNEED)
            libc.malloc_trim(0)

    def loaded_files(self, part: str) -> list[str]:
        """Read the list of mappings."""
        try:
            maps = Path("/proc/self/maps").read_text()
        except OSError:
            return []
        # a path may hold blanks
        paths = [line[line.index("/") :] for line in maps.splitlines() if part in line and "/" in line]
        return list(dict.fromkeys(path for path in paths if part in path))

    def load_copy(self, content: bytes, serial: int) -> ctypes.CDLL:
        """Load a file in memory. The loader knows libraries by the texts of their paths, and would take a descriptor that is used
        again for the copy before, so that each number spells the folder in its own way."""
        # each number is another text of the same folder
        spelled = "".join("/." if serial >> bit & 1 else "/" for bit in range(serial.bit_length()))
        folder = f"/proc/self/fd{spelled}"
        if not (hasattr(os, "memfd_create") and os.path.isdir(folder)):
            return super().load_copy(content, serial)
        with os.fdopen(os.memfd_create("library"), "wb") as copy:
            copy.write(content)
            copy.flush()  # the loader reads the file, not the buffer
            return ctypes.CDLL(f"{folder}/{copy.fileno()}")

    def process_space(self) -> str:
        """The namespace of process numbers, which containers have of their own."""
        try:
            return str(os.stat("/proc/self/ns/pid").st_ino)
        except OSError:
            return super().process_space()

    def end_with_parent(self) -> None:
        """Ask prctl for it."""
        libc = ctypes.CDLL(None)
        if hasattr(libc, "prctl"):
            libc.prctl(_END_WITH_PARENT, signal.SIGKILL, 0, 0, 0)


@cache
def _cpuinfo() -> str:
    try:
        return Path("/proc/cpuinfo").read_text()
    except OSError:
        return ""


@cache
def _sve_bytes() -> int:
    libc = ctypes.CDLL(None)
    return libc.prctl(_SVE_LENGTH, 0, 0, 0, 0) if hasattr(libc, "prctl") else 0


def _read_self(address: int, size: int) -> bytes:
    """Return the process's bytes at an address; none where nothing is. Raises FileNotFoundError where the system has no such file."""
    try:
        memory = os.open("/proc/self/mem", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise FileNotFoundError from error
    with os.fdopen(memory, "rb", buffering=0) as memory:
        try:
            memory.seek(address)
            return memory.read(size)
        except (OSError, ValueError, OverflowError):  # an unmapped address is an error of the read, and no fault
            return b""


_MAPPING = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) ([-r][-w][-x][ps]) .{8,16} \S+ \d+ +(\S.*)?$", re.MULTILINE)
_CHANGED = re.compile(r"^(?:Private_Dirty|Anonymous): +([1-9]\d*) kB$", re.MULTILINE)


def unmodified_ranges(maps: str, library: str) -> Iterator[tuple[int, int]]:
    """Return the ranges where a library's file is mapped as it is: no page can be written, or was changed when it was loaded."""
    found = list(_MAPPING.finditer(maps))
    for each, following in zip(found, [*(later.start() for later in found[1:]), len(maps)], strict=True):
        begin, end, rights, path = each.groups()
        if (
            path
            and path.endswith(f"/{library}")
            and "w" not in rights  # a changed page would be lost
            and not _CHANGED.search(maps, each.end(), following)
        ):
            yield int(begin, 16), int(end, 16)
