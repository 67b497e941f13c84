"""The parts that Linux and macOS have in common: threads that wait, groups of processes, and limits."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

from .host import Host

if TYPE_CHECKING:
    import subprocess

__all__ = ["Posix"]


class Posix(Host):
    """A system with threads as C programs make them, process groups and resource limits."""

    waiting = "conditions"

    def end_process(self, process: subprocess.Popen[Any]) -> None:
        """End its whole group: it is not waited for yet, so the number is still its own."""
        os.killpg(process.pid, signal.SIGKILL)

    def is_killed(self, status: int) -> bool:
        """Compare it with the number of SIGKILL."""
        return status == -signal.SIGKILL

    def limit_process(self, memory: int, file: int) -> None:
        """Set the limits of this process."""
        import resource

        for limit, most in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, file)):
            resource.setrlimit(limit, (most, most))
