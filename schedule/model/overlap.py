"""Storage of a stage that outlives an iteration of the loop at which it is computed."""

from __future__ import annotations

from ...base.dataclass import dataclass

__all__ = ["Overlap"]


@dataclass(frozen=True, slots=True)
class Overlap:
    """Storage that outlives an iteration.

    primitive: the one that says so; word: how errors call such storage. turns: places that take turns, which are filled so many
    less one iterations ahead; 0 for a ring. asynchronous: whether they are filled while the loop goes on, up to a wait. strict:
    whether it is an error where that cannot be. bulk: whether the copy engine fills them, by boxes. roles: whether warps
    of their own ask it; cluster: blocks that ask together for what all of them need.
    """

    primitive: str
    word: str
    turns: int = 0
    asynchronous: bool = False
    strict: bool = True
    bulk: bool = False
    roles: bool = False
    cluster: int = 1

    def __str__(self) -> str:
        return self.word
