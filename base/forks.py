"""Hooks around forks of this process, where the system has them: elsewhere nothing forks.

Python calls what is registered when a fork begins: of a module that is loaded while the fork waits, it would call what comes after
alone. So it knows one pair of hooks, which calls all others, those of such a module included.
"""

from __future__ import annotations

import _thread
import os
from collections.abc import Callable

__all__ = ["register_fork_hooks", "register_fork_wait"]

Hook = Callable[[], object]
_pairs: list[tuple[Hook | None, Hook | None]] = []
_waits: list[Hook] = []
_begun: dict[int, list[Hook | None]] = {}
"""The hooks to call in the parent when the fork that a thread has begun is over."""


def register_fork_hooks(
    *, before: Hook | None = None, in_parent: Hook | None = None, in_child: Hook | None = None
) -> None:
    """Have these called around every fork from now on: before it, and after it in the parent and in the child."""
    if before or in_parent:
        _pairs.append((before, in_parent))
    if in_child and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=in_child)


def register_fork_wait(wait: Hook) -> None:
    """Have this called before every fork, and again where hooks that came meanwhile were called after it."""
    _waits.append(wait)


def _begin_fork() -> None:
    called = _begun.setdefault(_thread.get_ident(), [])
    while True:
        for before, in_parent in _pairs[len(called) :]:
            if before:
                before()
            called.append(in_parent)
        for wait in _waits:
            wait()
        if len(called) == len(_pairs):
            return


def _end_fork() -> None:
    for in_parent in reversed(_begun.pop(_thread.get_ident(), [])):
        if in_parent:
            in_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_begin_fork, after_in_parent=_end_fork, after_in_child=_begun.clear)
