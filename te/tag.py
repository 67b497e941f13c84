"""Tags: a word put on every operation that is made within a scope, for schedules to find them by."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["current_tag", "tag_scope"]

_CURRENT: ContextVar[str] = ContextVar("tag", default="")


@contextmanager
def tag_scope(tag: str) -> Generator[None]:
    """Within it (`with te.tag_scope("conv"):`), or within a function that it decorates, operations made without a tag
    of their own get this one. The innermost scope counts. Raises nothing."""
    token = _CURRENT.set(tag)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def current_tag() -> str:
    """The tag of the innermost scope, or ""."""
    return _CURRENT.get()
