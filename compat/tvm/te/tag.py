"""tvm.te.tag."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from ....te import tag_scope as _tag_scope
from ....te.tag import current_tag
from ..topi.tag import BROADCAST, COMM_REDUCE, COMM_REDUCE_IDX, ELEMWISE, INJECTIVE

__all__ = ["BROADCAST", "COMM_REDUCE", "COMM_REDUCE_IDX", "ELEMWISE", "INJECTIVE", "tag_scope"]


@contextmanager
def tag_scope(tag: str) -> Generator[None]:
    """Open a scope as te.tag_scope does, within no other. Raises ValueError there."""
    if current_tag():
        raise ValueError(f"tag_scope({tag!r}) lies in tag_scope({current_tag()!r}); one scope may not lie in another")
    with _tag_scope(tag):
        yield
