"""Release of memory that building leaves behind: the pages of LLVM's code, and freed blocks.

Loading LLVM's library runs through a half of its 80 MB of code, and compiling through most of it. The pages are in the memory of
the process from then on, although they are read from the library's file, at no more than a page fault, whenever they are run.
"""

from __future__ import annotations

import ctypes
import mmap
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

__all__ = ["release_memory"]

_LIBRARY = "libllvmlite.so"
_MAPPING = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) ([-r][-w][-x][ps]) .{8,16} \S+ \d+ +(\S.*)?$", re.MULTILINE)
_CHANGED = re.compile(r"^(?:Private_Dirty|Anonymous): +([1-9]\d*) kB$", re.MULTILINE)


def release_memory() -> None:
    """Give the system back what this process holds of LLVM's code, and what was freed and kept for later. Where the system
    has no way to ask for that, nothing happens."""
    libc = ctypes.CDLL(None)
    with suppress(OSError, AttributeError):
        libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        for begin, end in _unmodified_ranges(Path("/proc/self/smaps").read_text("utf-8", "replace"), _LIBRARY):
            libc.madvise(begin, end - begin, mmap.MADV_DONTNEED)
        libc.malloc_trim(0)


def _unmodified_ranges(maps: str, library: str) -> Iterator[tuple[int, int]]:
    """Return the ranges where a library's file is mapped as it is: no page can be written, or was changed when it was loaded."""
    found = list(_MAPPING.finditer(maps))
    for each, following in zip(found, [*(later.start() for later in found[1:]), len(maps)], strict=True):
        begin, end, rights, path = each.groups()
        if (
            path
            and path.endswith(f"/{library}")
            and "w" not in rights
            and not _CHANGED.search(maps, each.end(), following)
        ):
            yield int(begin, 16), int(end, 16)
