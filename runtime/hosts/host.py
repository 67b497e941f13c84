"""The services of an operating system, by what every CPython has: what a system does not have is answered here.

A system's own module overrides what it does better (linux, macos, windows). Nothing else asks which system it is, or uses what one
of them alone has: `tests/runtime/hosts/test_hosts.py` holds that.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import subprocess

__all__ = ["Host"]

_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}


class _SymbolInfo(ctypes.Structure):
    """The C library's Dl_info."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


class Host:
    """A system of which nothing is known: one address space, no forks that are seen, files and processes as Python has them."""

    waiting = ""
    """By "futex", "conditions" or "addresses" the pool of threads (codegen.abi.pool) waits; where it is empty, loops run by OpenMP's
    threads, or serially."""

    # The processor

    def machine(self) -> str:
        """The architecture by Linux's name: x86_64, aarch64, riscv64."""
        name = platform.machine().lower()
        return _MACHINES.get(name, name)

    def usable_cpus(self) -> int:
        """CPUs that this process may run on."""
        return os.cpu_count() or 1

    def cpu_quota(self) -> float | None:
        """CPUs' worth of time that this process is granted; None where nothing limits it."""
        return None

    def cpu_model(self) -> str:
        """The processor as its maker calls it."""
        return platform.processor() or platform.machine()

    def core_cache(self, level: int) -> int | None:
        """Bytes of a core's own data cache; None where nobody tells."""
        return None

    def processor_word(self, word: str) -> int | None:
        """A word in which the system tells what the processor has, by the names of codegen.processor_facts; None where it does not."""
        return None

    def sve_bits(self) -> int:
        """The bits of this process's SVE registers; 0 where there are none."""
        return 0

    # Memory

    def private_memory(self, size: int) -> mmap.mmap:
        """Zeroed memory that a forked child has a copy of."""
        if hasattr(mmap, "MAP_PRIVATE"):
            return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        return mmap.mmap(-1, size)

    def reserved_memory(self, size: int) -> mmap.mmap:
        """Zeroed memory that is there once it is touched, as far as the system lets a process have more than there is."""
        return self.private_memory(size)

    def clear_in_children(self, page: mmap.mmap) -> None:
        """Have a page of private_memory zeroed in forked children, whoever forks."""

    def is_mapped(self, address: int) -> bool:
        """Return whether there is memory at an address; True where the system cannot tell."""
        return True

    def read_memory(self, address: int, size: int) -> bytes:
        """The bytes at an address that should be there; none where the system can tell that they are not."""
        return ctypes.string_at(address, size)

    def release_memory(self, library: str) -> None:
        """Give the system back the unchanged pages of a library's file, and what was freed and kept for later.

        Loading LLVM's library runs through a half of its 80 MB of code, and compiling through most of it. The pages are in the memory
        of the process from then on, although they are read from the file, at no more than a page fault, whenever they are run."""

    # Shared libraries

    def loaded_files(self, part: str) -> list[str]:
        """Paths of files that this process has mapped, whose names contain `part`; none where the system does not tell."""
        return []

    def load_for_all(self, path: str) -> ctypes.CDLL:
        """Load a library whose functions others find by their names. Raises OSError."""
        return ctypes.CDLL(path, getattr(ctypes, "RTLD_GLOBAL", 0))

    def load_copy(self, content: bytes, serial: int) -> ctypes.CDLL:
        """A library loaded from a copy of its file. serial: a number for each. Raises OSError."""
        descriptor, path = tempfile.mkstemp(prefix=f"tilewright-library-{serial}-")
        with os.fdopen(descriptor, "wb") as copy:
            copy.write(content)
        try:
            return ctypes.CDLL(path)
        finally:
            with suppress(OSError):  # systems that keep the files of loaded libraries keep this one
                os.unlink(path)

    def library_base(self, library: ctypes.CDLL, function: str) -> int:
        """Return where a library lies in memory, by one of its functions. Raises AttributeError."""
        info = _SymbolInfo()
        ctypes.CDLL(None).dladdr(ctypes.cast(getattr(library, function), ctypes.c_void_p), ctypes.byref(info))
        return info.base or 0

    # Processes

    def process_space(self) -> str:
        """The numbering of processes that this one belongs to."""
        return "0"

    def is_alive(self, process: int) -> bool:
        """Return whether a process of this numbering, any user's, has not ended."""
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return False
        except (PermissionError, OverflowError):  # a process of somebody else's is alive
            return True
        return True

    def end_process(self, process: subprocess.Popen[Any]) -> None:
        """End a process that has a session of its own and was not waited for yet, and all that it has started. Raises OSError."""
        process.kill()

    def is_killed(self, status: int) -> bool:
        """Return whether an exit status is that of end_process."""
        return False

    def end_with_parent(self) -> None:
        """Have this process ended when its parent ends, where the system does that."""

    def limit_process(self, memory: int, file: int) -> None:
        """Limit this process to bytes of memory and of a file, and let it leave no core; where the system does that."""

    # Files

    def cache_home(self) -> Path | None:
        """The user's folder for what programs can make again; None for a user who has none."""
        home = Path(os.environ.get("HOME") or os.path.expanduser("~"))
        return home / ".cache" if home.is_absolute() else None

    def is_private(self, state: os.stat_result, others: int) -> bool:
        """Return whether a file or folder is this user's, and nobody else has the rights `others` (as of chmod) to it."""
        return self.is_own(state) and not stat.S_IMODE(state.st_mode) & others

    def is_own(self, state: os.stat_result) -> bool:
        """Return whether a file or folder belongs to this user."""
        return not hasattr(os, "geteuid") or state.st_uid == os.geteuid()
