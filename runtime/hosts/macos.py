"""macOS: sysctl, and the loader's list of images."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from .posix import Posix

__all__ = ["MacOS"]


class MacOS(Posix):
    """Services of macOS."""

    def cpu_model(self) -> str:
        """Ask sysctl."""
        return _ask_text("machdep.cpu.brand_string") or super().cpu_model()

    def core_cache(self, level: int) -> int | None:
        """Ask sysctl; of fast and slow cores the fast ones are meant."""
        name = {1: "l1dcachesize", 2: "l2cachesize"}.get(level, "l3cachesize")
        # machines with one kind of cores have no perflevel
        return _ask_number(f"hw.perflevel0.{name}") or _ask_number(f"hw.{name}")

    def processor_word(self, word: str) -> int | None:
        """Return a number of sysctl's; 0 for one that it does not know, as of features that came later."""
        kind, _, name = word.partition(".")
        return (_ask_number(name) or 0) if kind == "sysctl" else None

    def loaded_files(self, part: str) -> list[str]:
        """Read the loader's list."""
        libc = ctypes.CDLL(None)
        libc._dyld_get_image_name.restype = ctypes.c_char_p
        paths = [os.fsdecode(libc._dyld_get_image_name(at) or b"") for at in range(libc._dyld_image_count())]
        return [path for path in paths if part in path]

    def cache_home(self) -> Path | None:
        """Return ~/Library/Caches."""
        home = super().cache_home()
        return home and home.parent / "Library" / "Caches"


def _ask(name: str, most: int) -> bytes:
    """Bytes of sysctlbyname; none for a name that it does not know."""
    value, size = ctypes.create_string_buffer(most), ctypes.c_size_t(most)
    failed = ctypes.CDLL(None).sysctlbyname(name.encode(), value, ctypes.byref(size), None, ctypes.c_size_t(0))
    return b"" if failed else value.raw[: size.value]


def _ask_text(name: str) -> str:
    return _ask(name, 256).rstrip(b"\0").decode(errors="replace")


def _ask_number(name: str) -> int:
    return int.from_bytes(_ask(name, 8), "little")
