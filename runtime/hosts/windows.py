"""Windows: no forks, no rights of files as chmod has them, handles in the place of signals."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .host import Host

if TYPE_CHECKING:
    import subprocess

__all__ = ["Windows"]

_LIMITED_QUERY, _STILL_ACTIVE = 0x1000, 259
"""PROCESS_QUERY_LIMITED_INFORMATION, and the exit status of a process that has not ended."""


class Windows(Host):
    """Services of Windows."""

    waiting = "addresses"

    def processor_word(self, word: str) -> int | None:
        """Ask IsProcessorFeaturePresent."""
        kind, _, number = word.partition(".")
        return _kernel().IsProcessorFeaturePresent(int(number)) if kind == "feature" else None

    def library_base(self, library: ctypes.CDLL, function: str) -> int:
        """Return the library's handle, which is its address."""
        getattr(library, function)
        return library._handle

    def is_alive(self, process: int) -> bool:
        """Ask for a handle: os.kill would end the process."""
        kernel = _kernel()
        kernel.OpenProcess.restype = ctypes.c_void_p
        handle, status = ctypes.c_void_p(kernel.OpenProcess(_LIMITED_QUERY, False, process)), ctypes.c_ulong()
        if not handle:  # no handle: the process is gone, or of no interest
            return False
        known = kernel.GetExitCodeProcess(handle, ctypes.byref(status))
        kernel.CloseHandle(handle)
        return not known or status.value == _STILL_ACTIVE

    def end_process(self, process: subprocess.Popen[Any]) -> None:
        """End it with all that it has started."""
        import subprocess  # late: it takes longer than any module of ours

        subprocess.run(["taskkill", "/F", "/T", "/PID", str(process.pid)], capture_output=True, check=False)
        super().end_process(process)

    def cache_home(self) -> Path | None:
        """Return %LOCALAPPDATA%."""
        local = Path(os.environ.get("LOCALAPPDATA", ""))
        return local if local.is_absolute() else None

    def is_private(self, state: os.stat_result, others: int) -> bool:
        """Trust the user's folder, in which it lies: the mode says nothing here."""
        return True


def _kernel() -> Any:
    return vars(ctypes)["windll"].kernel32
