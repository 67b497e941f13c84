"""A fuzzer: random programs under random schedules, each refused by a typed error or right, to the byte it may touch.

`tilewright fuzz` runs it. Every primitive either raises a typed error and changes nothing, or is taken; then lowering
either raises a typed error, or the kernel does what the interpreter's run of the unscheduled program and numpy do, on arrays
between pages that may not be touched.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...views.sparse import sparse
    from .oracle import Failure, Options, check
    from .program import Program
    from .programs import drawn_program

__all__ = ["Failure", "Options", "Program", "check", "drawn_program", "sparse"]

_WHERE = {
    "Program": "program",
    "Failure": "oracle",
    "Options": "oracle",
    "check": "oracle",
    "drawn_program": "programs",
    "sparse": "sparse",
}


def __getattr__(name: str) -> Any:
    if name in _WHERE:  # when it is asked for: the command line starts faster so
        return getattr(import_module(f".{_WHERE[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
