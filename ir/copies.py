"""Copies that a GPU does while threads go on: begun, put together in groups, waited for.

    attr("asynchronous_copy", ..):  S[i] = A[j]        begun
    tw_copies_commit()                                 what was begun since the last one is a group
    tw_copies_wait(n)                                  all groups of this thread are there but for the last n

Or boxes of a tensor that one thread asks the copy engine for, each place of the memory that they go to with a barrier of its own:

    attr("bulk_pipeline", .., places):                 around the loop and what it begins before its first iteration
      attr("bulk_copy", .., place):  S[place, i] = A[j]    begun
      tw_bulk_wait(place)                              what was begun there last has come

Targets that have them not store at once, where such a statement stands; what the program means is the same.
"""

from __future__ import annotations

from .dtype import BOOL, INT32
from .expr import Call, Expr, Node, StringImm
from .ops import const
from .stmt import Attr, Evaluate, If, Stmt

__all__ = [
    "ASYNCHRONOUS",
    "BULK_BOX",
    "BULK_CALLS",
    "BULK_COPY",
    "BULK_EXPECT",
    "BULK_FEATURE",
    "BULK_OUT",
    "BULK_PIPELINE",
    "BULK_STORE",
    "BULK_WAIT",
    "CLUSTER",
    "FEATURE",
    "ROLES",
    "WAIT",
    "asynchronous",
    "bulk_copy",
    "bulk_pipeline",
    "bulk_wait",
    "called",
    "commit",
    "is_bulk_wait",
    "is_commit",
    "is_wait",
    "wait",
]

ASYNCHRONOUS = "asynchronous_copy"
"""The key of an Attr whose stores to shared memory need not be done before the wait."""
FEATURE = "asynchronous_copies"
"""What te.target_has is asked for."""
COMMIT, WAIT = "tw_copies_commit", "tw_copies_wait"
BULK_COPY, BULK_PIPELINE, BULK_FEATURE = "bulk_copy", "bulk_pipeline", "bulk_copies"
"""As ASYNCHRONOUS and FEATURE, of copies by the copy engine; and the key of an Attr around all that waits for each other."""
ROLES = "roles"
"""The subject of that Attr where warps of their own fill the places."""
CLUSTER = "cluster"
"""The key of an Attr around that, where so many blocks beside each other share what they all copy."""
BULK_CALLS, BULK_BOX, BULK_EXPECT, BULK_WAIT = "tw_bulk_", "tw_bulk_copy_", "tw_bulk_expect", "tw_bulk_wait"
"""How the names of the copy engine's device functions begin, and of what copies; what says how much will come; what waits."""
BULK_STORE, BULK_OUT = "bulk_store", "tw_bulk_store_"
"""The pragma of loops that the copy engine may do instead, from shared memory to a tensor; and how the names of its device functions
begin."""


def asynchronous(copies: Stmt) -> Stmt:
    """Statements that may be done up to the wait for them."""
    return Attr(ASYNCHRONOUS, "", const(1), copies)


def commit() -> Stmt:
    """Ends a group."""
    return _emit_call(COMMIT)


def wait(groups: int) -> Stmt:
    """Goes on once all but so many of the last groups are there."""
    return _emit_call(WAIT, groups)


def is_commit(node: Node) -> bool:
    """Return whether this ends a group."""
    return _calls(node, COMMIT)


def is_wait(node: Node) -> bool:
    """Return whether this waits for groups."""
    return _calls(node, WAIT)


def bulk_copy(copies: Stmt, place: Expr) -> Stmt:
    """Statements that fill a place, and may be done up to the wait for it."""
    return Attr(BULK_COPY, "", place, copies)


def bulk_wait(place: Expr) -> Stmt:
    """Goes on once what was last begun for a place is there."""
    return _where(BULK_FEATURE, Call("call_extern", (StringImm(BULK_WAIT), place), INT32))


def bulk_pipeline(places: int, body: Stmt, roles: bool = False, cluster: int = 1) -> Stmt:
    """Statements whose bulk copies and waits are of the same places. roles: whether warps of their own do the copies, in the loop
    in which they are waited for. cluster: blocks beside each other that copy together what they all need."""
    done = Attr(BULK_PIPELINE, ROLES if roles else "", const(places), body)
    return Attr(CLUSTER, "", const(cluster), done) if cluster > 1 else done


def is_bulk_wait(node: Node) -> bool:
    """Return whether this waits for a place."""
    return called(node) == BULK_WAIT


def called(node: Node) -> str:
    """The device function that a statement calls; empty for others."""
    call = node.value if isinstance(node, Evaluate) else None
    name = call.args[0] if isinstance(call, Call) and call.name == "call_extern" else None
    return name.value if isinstance(name, StringImm) else ""


def _calls(node: Node, function: str) -> bool:
    return called(node) == function


def _emit_call(name: str, *numbers: int) -> Stmt:
    return _where(FEATURE, Call("call_extern", (StringImm(name), *map(const, numbers)), INT32))


def _where(feature: str, call: Call) -> Stmt:
    return If(Call("target_has", (StringImm(feature),), BOOL), Evaluate(call))
