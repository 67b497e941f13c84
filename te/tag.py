"""Tags: a word put on every operation that is made within a scope, for schedules to find them by; and the tags of our own
operators, which rules know."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["AlgorithmTag", "current_tag", "tag_scope"]

_CURRENT: ContextVar[str] = ContextVar("tag", default="")


class AlgorithmTag(str):
    """The tag of an operator of ours, by which a rule knows the algorithm: te.compute puts the word into `tag`, where anybody reads
    it, and into `algorithm`, where rules look. A word that a user writes, though it be the same, is in `tag` alone."""

    __slots__ = ()

    def part(self, name: str) -> AlgorithmTag:
        """The tag of another operation of the operator than its last."""
        return AlgorithmTag(f"{self}.{name}")


@contextmanager
def tag_scope(tag: str) -> Generator[None]:
    """Open a scope of tags. Within it (`with te.tag_scope("conv"):`), or within a function that it decorates, operations made without a tag
    of their own get this one. The innermost scope counts. Raises nothing."""
    token = _CURRENT.set(tag)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def current_tag() -> str:
    """The tag of the innermost scope, or ""."""
    return _CURRENT.get()
