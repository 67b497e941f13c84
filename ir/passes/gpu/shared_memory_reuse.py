"""Shared memory whose contents are needed one after the other is one memory.

    A, B: a pipeline's buffers        for k: .. A, B ..                       for k: .. A, B ..
    C: the tile of the result         C[..] = sums                →           barrier
                                      .. = C[..]                              C[..] = sums               # where A and B were
                                                                              .. = C[..]

What a block does is looked at as straight lines of statements, one for each way through conditions that all threads share; a loop
is one statement. Two buffers lie in one place where on every line the last statement that touches the one comes before a barrier,
and that before the first that touches the other. `separate` puts barriers where larger buffers are without; it stands before
insert_barriers, which then needs none there. `allocate_shared` decides when every barrier is there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations

from ...buffer import Buffer
from ...dtype import INT32
from ...expr import BufferLoad, Call, Expr, IntImm, StringImm, Var
from ...stmt import Allocate, Attr, BufferStore, Evaluate, For, Function, If, LoopKind, Seq, Stmt
from ...visit import rewrite, seq, statements, walk
from .barriers import BARRIER, is_barrier
from .hardware import THREAD_TAGS

__all__ = ["separate", "allocate_shared"]

_LARGE = 2048
"""Bytes from which on a buffer is worth a barrier."""
_LINES = 8
"""Ways through conditions, at most; where there are more, what branches is one statement."""
_GRANULE = 16


def separate(function: Function) -> Function:
    """`function`, the body of a kernel, with a barrier where larger buffers of shared memory have been used for the last time and
    others are used for the first."""
    before: set[int] = set()
    for line in _lines(function.body, _shared_by_all(function)):
        spans = _spans(line)
        large = {buffer for buffer in spans if _bytes(buffer) >= _LARGE}
        for first, second in permutations(large, 2):
            end, begin = spans[first][1], spans[second][0]
            # one barrier serves all pairs that it lies between
            if end < begin and not any(is_barrier(stmt) or id(stmt) in before for stmt in line[end + 1 : begin + 1]):
                before.add(id(line[begin]))
    if not before:
        return function
    barrier = Evaluate(Call("call_extern", (StringImm(BARRIER),), INT32))
    return function.with_body(
        rewrite(
            function.body, lambda node: seq(barrier, node) if isinstance(node, Stmt) and id(node) in before else None
        )
    )


def allocate_shared(function: Function, least: int = _GRANULE) -> tuple[Mapping[Buffer, int], int]:
    """Return the offset of each buffer of a kernel's shared memory, in bytes, and how many there are: in each other's place as far as they
    are needed one after the other. least: what each begins at a multiple of."""
    buffers = [
        node.buffer
        for node in statements(function.body)
        if isinstance(node, Allocate) and node.buffer.scope == "shared"
    ]
    lines = [(line, _spans(line)) for line in _lines(function.body, _shared_by_all(function))]
    large = [
        buffer for buffer in buffers if _bytes(buffer) >= _LARGE
    ]  # what is small may be no data: barriers in memory, say
    # on every way through the block the two must be apart
    apart = {pair for pair in permutations(large, 2) if all(_are_disjoint(*line, *pair) for line in lines)}
    places: dict[Buffer, int] = {}
    for buffer in buffers:
        taken = sorted(
            (place, place + _round_up(other)) for other, place in places.items() if (buffer, other) not in apart
        )
        place = 0
        for begin, end in taken:
            if place + _round_up(buffer) <= begin:
                break
            # each buffer begins where its own alignment lets it
            place = max(place, end + -end % max(buffer.alignment, least))
        places[buffer] = place
    return places, max((place + _round_up(buffer) for buffer, place in places.items()), default=0)


def _bytes(buffer: Buffer) -> int:
    extent = buffer.shape[0] if len(buffer.shape) == 1 else None
    if isinstance(extent, IntImm):
        return extent.value * buffer.dtype.bytes
    sizes = [each.value for each in buffer.shape if isinstance(each, IntImm)]
    total = buffer.dtype.bytes
    for size in sizes:
        total *= size
    return total


def _round_up(buffer: Buffer) -> int:
    return -(-max(_bytes(buffer), 1) // _GRANULE) * _GRANULE


def _shared_by_all(function: Function) -> set[Var]:
    """Variables that have one value for all threads of a block."""
    blocks = {
        node.var
        for node in statements(function.body)
        if isinstance(node, For) and node.kind is LoopKind.THREAD and node.thread not in THREAD_TAGS
    }
    return blocks | {param for param in function.params if isinstance(param, Var)}


def _is_uniform(condition: Expr, known: set[Var]) -> bool:
    return not any(
        isinstance(node, BufferLoad)
        or (isinstance(node, Var) and node not in known)
        or (isinstance(node, Call) and node.name == "call_extern")
        for node in walk(condition)
    )


def _lines(stmt: Stmt, known: set[Var]) -> list[list[Stmt]]:
    """The straight lines of a statement. known: variables that are the same for all threads."""
    if isinstance(stmt, Seq):
        lines: list[list[Stmt]] = [[]]
        for part in stmt.body:
            more = _lines(part, known)
            # too many ways: the branching part counts as one statement, which is safe
            more = more if len(more) * len(lines) <= _LINES else [[part]]
            lines = [[*line, *rest] for line in lines for rest in more]
        return lines
    if isinstance(stmt, Allocate) or (isinstance(stmt, For) and stmt.kind is LoopKind.THREAD):
        return _lines(stmt.body, known)
    if isinstance(stmt, Attr) and not _collect_accessed(stmt.value):
        return _lines(stmt.body, known)
    # threads that take different branches are on both lines at once
    if isinstance(stmt, If) and _is_uniform(stmt.condition, known):
        return [
            *_lines(stmt.then_body, known),
            *(_lines(stmt.else_body, known) if stmt.else_body is not None else [[]]),
        ]
    return [[stmt]]


def _collect_accessed(node: Stmt | Expr) -> set[Buffer]:
    return {
        each.buffer
        for each in walk(node)
        if isinstance(each, (BufferLoad, BufferStore)) and each.buffer.scope == "shared"
    }


def _spans(line: Sequence[Stmt]) -> dict[Buffer, tuple[int, int]]:
    """The first and the last statement that touches each buffer."""
    spans: dict[Buffer, tuple[int, int]] = {}
    for at, stmt in enumerate(line):
        for buffer in _collect_accessed(stmt):
            spans[buffer] = spans.get(buffer, (at, at))[0], at
    return spans


def _are_disjoint(line: Sequence[Stmt], spans: Mapping[Buffer, tuple[int, int]], a: Buffer, b: Buffer) -> bool:
    """Return whether a barrier stands between the last use of the one and the first of the other. spans: of the line."""
    if a not in spans or b not in spans:  # a buffer that a line does not touch conflicts with nobody on it
        return True
    (begin, end), (start, stop) = spans[a], spans[b]
    between = line[end + 1 : start] if end < start else line[stop + 1 : begin]
    return (end < start or stop < begin) and any(map(is_barrier, between))
