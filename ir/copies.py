"""Copies that a GPU does while threads go on: begun, put together in groups, waited for.

    attr("asynchronous_copy", ..):  S[i] = A[j]        begun
    tw_copies_commit()                                 what was begun since the last one is a group
    tw_copies_wait(n)                                  all groups of this thread are there but for the last n

Targets that have them not store at once, where such a statement stands; what the program means is the same.
"""

from __future__ import annotations

from .dtype import BOOL, INT32
from .expr import Call, Node, StringImm
from .ops import const
from .stmt import Attr, Evaluate, If, Stmt

__all__ = ["ASYNCHRONOUS", "FEATURE", "WAIT", "asynchronous", "commit", "is_commit", "is_wait",
           "wait"]

ASYNCHRONOUS = "asynchronous_copy"
"""The key of an Attr whose stores to shared memory need not be done before the wait."""
FEATURE = "asynchronous_copies"
"""What te.target_has is asked for."""
COMMIT, WAIT = "tw_copies_commit", "tw_copies_wait"


def asynchronous(copies: Stmt) -> Stmt:
    """Statements that may be done up to the wait for them."""
    return Attr(ASYNCHRONOUS, "", const(1), copies)


def commit() -> Stmt:
    """Ends a group."""
    return _called(COMMIT)


def wait(groups: int) -> Stmt:
    """Goes on once all but so many of the last groups are there."""
    return _called(WAIT, groups)


def is_commit(node: Node) -> bool:
    """Whether this ends a group."""
    return _calls(node, COMMIT)


def is_wait(node: Node) -> bool:
    """Whether this waits for groups."""
    return _calls(node, WAIT)


def _calls(node: Node, function: str) -> bool:
    call = node.value if isinstance(node, Evaluate) else None
    name = call.args[0] if isinstance(call, Call) and call.name == "call_extern" else None
    return isinstance(name, StringImm) and name.value == function


def _called(name: str, *numbers: int) -> Stmt:
    call = Call("call_extern", (StringImm(name), *map(const, numbers)), INT32)
    return If(Call("target_has", (StringImm(FEATURE),), BOOL), Evaluate(call))
