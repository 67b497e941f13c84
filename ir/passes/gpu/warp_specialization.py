"""Warps with roles (sm_90a): four of their own ask the copy engine for what all others compute with.

                                                 barriers of both kinds made; barrier of all threads
    for t in n:                                  if threads that compute:                  else, the first of four more warps:
      attr("bulk_copy", t % 3): S[t % 3] = ..      more registers                            fewer registers
      tw_bulk_wait(t % 3)                   →      for t in n:                               for t in n:
      ... S[t % 3] ...                               tw_bulk_ready(&barriers[t % 3])           tw_bulk_ready(&empty[t % 3])
    C = ..                                           ... S[t % 3] ...                          tw_bulk_expect(&barriers[t % 3], ..)
                                                     tw_bulk_release(&empty[t % 3])            tw_bulk_copy_2(..)
                                                   C = ..

The program of the producer is what stands around its copies: loops, conditions, and nothing else. Barriers of those that compute
are barriers of as many threads. Registers change hands (setmaxnreg) where a multiprocessor has fewer than all would like.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ....base.errors import user_source
from ...buffer import Buffer
from ...copies import BULK_BOX, BULK_CALLS, BULK_PIPELINE, ROLES, called
from ...dtype import BOOL, INT32
from ...expr import Call, Expr, StringImm
from ...fragments import WARPGROUP_LANES
from ...ops import const
from ...pointers import WRITES, pointed_buffer
from ...stmt import Allocate, Attr, Evaluate, For, Function, If, LetStmt, LoopKind, Seq, Stmt
from ...visit import rebuild, rewrite, seq, statements, walk
from ..common.fresh_copy import fresh_copy
from .barriers import COMPUTES, is_barrier
from .errors import CannotCopyInBulk
from .hardware import MAX_THREADS, THREAD_TAGS, Hardware

__all__ = [
    "ALONE",
    "MORE_REGISTERS",
    "specialize_warps",
    "check_producer",
    "has_producer",
    "name_barriers",
    "add_producer",
]

ALONE = "alone"
"""The key of an Attr whose statements one thread runs, which conditions around tell."""
MORE_REGISTERS = "tw_more_registers"
REGISTERS, PRODUCER_REGISTERS, MOST_REGISTERS = 65536, 40, 240
"""Of a multiprocessor; of a thread that only asks for copies; that a thread may ask for."""


def has_producer(body: Stmt) -> bool:
    """Return whether a kernel's copies are those of warps of their own."""
    return any(
        isinstance(node, Attr) and node.key == BULK_PIPELINE and node.subject == ROLES for node in statements(body)
    )


def check_producer(hardware: Hardware, subjects: Sequence[object]) -> None:
    """Check that all pipelines of a kernel are filled alike, by four warps beside whole groups of four. Raises CannotCopyInBulk."""
    reason = ""
    # one program for the producer: pipelines with and without do not mix
    if any(subject != ROLES for subject in subjects):
        reason = "another pipeline of the kernel has no warps of its own"
    # setmaxnreg and products count whole groups of four warps
    elif hardware.threads % WARPGROUP_LANES or _extra(hardware) is None:
        reason = f"a block of {hardware.threads} threads is not of whole groups of four warps"
    elif hardware.threads + WARPGROUP_LANES > MAX_THREADS:
        reason = f"{hardware.threads} threads and four more warps are more than a block has"
    if reason:
        raise CannotCopyInBulk(
            "cannot build: a pipeline is to have warps of its own",
            reason=reason,
            called=user_source(),
            allowed=f"blocks of {WARPGROUP_LANES} to {MAX_THREADS - WARPGROUP_LANES} threads, of whole groups",
            fix='pipeline(stages, by="tma"), without warp_specialize',
        )


def _extra(hardware: Hardware) -> tuple[str, int] | None:
    """The thread axis along which four warps are added, and by how much it grows."""
    below = 1
    for tag in THREAD_TAGS:
        beyond = hardware.threads // below // hardware.extent(tag)
        # added along the last axis, so that the numbers of the others stay
        if beyond == 1 and WARPGROUP_LANES % below == 0 and tag in hardware.extents:
            return tag, WARPGROUP_LANES // below
        below *= hardware.extent(tag)
    return None


def add_producer(hardware: Hardware, body: Stmt) -> Hardware:
    """The threads of a kernel's launch: four warps more than those that compute, where these have roles."""
    if not any(isinstance(node, If) and is_role(node.condition) for node in statements(body)):
        return hardware
    extra = _extra(hardware)
    assert extra is not None, "checked before"
    tag, more = extra
    return replace(hardware, extents={**hardware.extents, tag: const(hardware.extent(tag) + more)})


def specialize_warps(hardware: Hardware, consumer: Stmt, producer: Stmt) -> tuple[Stmt, list[Buffer]]:
    """(the program of both, memory that copies go to). producer: with all that the others do, which is left out."""
    threads = hardware.threads
    targets = [
        pointed_buffer(each) for node in walk(producer) if called(node).startswith(BULK_BOX) for each in walk(node)
    ]
    places = list(dict.fromkeys(target[0] for target in targets if target is not None and target[1] & WRITES))
    alone = fresh_copy(_only_copies(producer, places) or Seq(()), {})
    served = If(_asks("tw_leads", threads), alone)
    at_entry = (
        REGISTERS // (threads + WARPGROUP_LANES) // 8 * 8
    )  # what is exchanged are the registers of a block's launch
    held = at_entry * (threads + WARPGROUP_LANES)
    share = (held - WARPGROUP_LANES * PRODUCER_REGISTERS) // threads // 8 * 8
    computed: list[Stmt] = []
    asked: list[Stmt] = []
    if threads > WARPGROUP_LANES and share > at_entry:  # one group alone has as many registers as it can use
        computed.append(_evaluate(MORE_REGISTERS, min(share, MOST_REGISTERS)))
        # what the asking warps give up the computing ones get
        asked.append(_evaluate("tw_fewer_registers", PRODUCER_REGISTERS))
    return If(
        _asks(COMPUTES, threads),
        seq(*computed, _extract_allocations(consumer, places)),
        Attr(ALONE, "", const(1), seq(*asked, served)),
    ), places


def _asks(name: str, threads: int) -> Call:
    return Call("call_extern", (StringImm(name), const(threads)), BOOL)


def _evaluate(name: str, *numbers: int) -> Stmt:
    return Evaluate(Call("call_extern", (StringImm(name), *map(const, numbers)), INT32))


def is_role(condition: Expr) -> bool:
    """Return whether a condition tells threads that compute from those that do not."""
    return isinstance(condition, Call) and any(
        isinstance(arg, StringImm) and arg.value == COMPUTES for arg in condition.args
    )


def _extract_allocations(body: Stmt, places: Sequence[Buffer]) -> Stmt:
    """`body` with the memory of copies allocated outside."""
    return rewrite(body, lambda node: node.body if isinstance(node, Allocate) and node.buffer in places else None)


def _only_copies(stmt: Stmt, places: Sequence[Buffer]) -> Stmt | None:
    """Return the statements that ask for copies, with those around them; None where nothing does. A thread's index is that of any."""
    if isinstance(stmt, Evaluate):
        return stmt if called(stmt).startswith(BULK_CALLS) else None
    if isinstance(stmt, Seq):
        kept = [part for part in (_only_copies(part, places) for part in stmt.body) if part is not None]
        return seq(*kept) if kept else None
    if isinstance(stmt, If):
        then = _only_copies(stmt.then_body, places)
        other = None if stmt.else_body is None else _only_copies(stmt.else_body, places)
        return If(stmt.condition, then or Seq(()), other) if then is not None or other is not None else None
    body = _only_copies(stmt.body, places) if isinstance(stmt, (For, LetStmt, Allocate, Attr)) else None
    if body is None or isinstance(stmt, Allocate):  # memory is allocated outside of both programs
        return body
    # one thread asks, and its index is as good as any other's
    if isinstance(stmt, For) and stmt.kind is LoopKind.THREAD and stmt.thread in THREAD_TAGS:
        return fresh_copy(body, {stmt.var: stmt.begin})
    return rebuild(stmt, [*_values(stmt), body])


def _values(stmt: Stmt) -> list[Expr]:
    if isinstance(stmt, For):
        return [stmt.begin, stmt.extent]
    return [stmt.value] if isinstance(stmt, (LetStmt, Attr)) else []


def name_barriers(function: Function, hardware: Hardware) -> Function:
    """`function` with the barriers of those that compute as barriers of so many threads."""
    named = _evaluate("tw_barrier_of", hardware.threads)

    def rule(node: Stmt) -> Stmt | None:
        if not isinstance(node, If) or not is_role(node.condition):
            return None
        return If(
            node.condition, rewrite(node.then_body, lambda inner: named if is_barrier(inner) else None), node.else_body
        )

    return function.with_body(rewrite(function.body, rule))
