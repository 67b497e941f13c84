"""The operating system that this process runs on: one module for each knows what it alone has."""

from __future__ import annotations

import sys
from functools import cache

from .host import Host
from .linux import Linux
from .macos import MacOS
from .windows import Windows

__all__ = ["Host", "host"]

_SYSTEMS = {"linux": Linux, "darwin": MacOS, "win32": Windows}


@cache
def host() -> Host:
    """The services of this process's system."""
    return _SYSTEMS.get(sys.platform, Host)()
