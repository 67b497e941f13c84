"""Reassociation: loops that may add in any order, cut for lanes; and independent ones of any length likewise.

    for k in n: t += x[k]      →      for k in n // 64 * 64: t += x[k]        # reassociate=64: four vectors of 16 lanes a step
                                      for k in the next n // 16 % 4 * 16: ... # reassociate=16
                                      for k in the next n // 4 % 4 * 4: ...   # reassociate=4
                                      for k in the last n % 4: ...

    for j in n: a[i, j] -= b * a[k, j]    →    the same with independent=64, 16, 4

LLVM makes the lanes, and adds them up at the end of each loop. Of a loop that it cuts itself it leaves up to 63 iterations one by one,
which is most of a short one.

It stands after scalar promotion, since a sum in memory that the loop reads elsewhere is none for LLVM, and before flatten.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...analysis.lane_strides import neighbour_distance
from ...contents import require_any
from ...expr import Add, BufferLoad, Expr, FloorDiv, IntImm, Max, Mul, Sub, Var
from ...ops import const, is_const
from ...stmt import INDEPENDENT, BufferStore, For, Function, LoopKind, Stmt
from ...visit import rewrite_statements, seq, walk
from ..common.fresh_copy import fold, fresh_copy

__all__ = ["REASSOCIATE", "cut_sums"]

REASSOCIATE = "reassociate"
"""The pragma: what a loop adds up is added in any order. Its value, once the loop is cut: in as many lanes at a time."""
CHAINS = 4
"""Vectors of sums at a time: an addition waits about as many cycles for the one before."""
FEWEST = 4
"""Lanes of the last loop of vectors."""
GATHERED = 2
"""Steps that adding up the lanes of a loop takes."""


@require_any(REASSOCIATE, INDEPENDENT)
def cut_sums(function: Function, vector_bits: int) -> Function:
    """`function` with such loops cut."""

    def rule(node: Stmt) -> Stmt | None:
        if not isinstance(node, For) or not node.pragmas:
            return None
        if any(key == REASSOCIATE for key, _ in node.pragmas):
            return _cut(node, REASSOCIATE, vector_bits)
        if any(key == INDEPENDENT for key, _ in node.pragmas) and _lies_side_by_side(node):
            return _cut(node, INDEPENDENT, vector_bits)
        return None

    return function.with_body(rewrite_statements(function.body, rule))


def _lies_side_by_side(loop: For) -> bool:
    """Return whether neighbouring iterations of a loop of any length touch neighbours, or what stays where it is."""
    accesses = [node for node in walk(loop.body) if isinstance(node, BufferLoad | BufferStore)]
    return not isinstance(loop.extent, IntImm) and all(
        neighbour_distance(node.indices, loop.var) in ((1,) if isinstance(node, BufferStore) else (-1, 0, 1))
        for node in accesses
    )


def _widths(extent: Expr, lanes: int) -> Sequence[int]:
    """The lanes of each loop that a loop is cut into. One loop is enough where its lanes divide a short constant extent: each has
    lanes of its own to add up."""
    several = tuple(dict.fromkeys((lanes * CHAINS, lanes, min(FEWEST, lanes), 1)))
    if not isinstance(extent, IntImm):
        return several
    steps, rest = list[int](), extent.value
    for count in several:
        steps.append(rest // count)
        rest %= count
    cost = sum(step + GATHERED for step in steps if step)
    whole = next((count for count in (lanes >> at for at in range(lanes.bit_length())) if not extent.value % count), 1)
    return (whole,) if whole >= FEWEST and extent.value // whole + GATHERED < cost else several


def _cut(loop: For, pragma: str, vector_bits: int) -> Stmt:
    """A loop in lanes, as many as there are numbers in a vector of what it touches."""
    wanted = any(key == pragma and not is_const(value, 0) for key, value in loop.pragmas)
    others = tuple(pair for pair in loop.pragmas if pair[0] != pragma)
    plain = replace(loop, pragmas=others)
    nodes = list(walk(loop.body))
    if not wanted or loop.kind is not LoopKind.SERIAL or any(isinstance(node, For) for node in nodes):
        return plain
    bits = max((node.buffer.dtype.bits for node in nodes if isinstance(node, BufferLoad | BufferStore)), default=64)
    lanes = max(vector_bits // max(bits, 8), 2)
    extent = loop.extent if isinstance(loop.extent, IntImm) else Max(loop.extent, const(0, loop.extent.dtype))
    parts, done = list[Stmt](), const(0, extent.dtype)
    for count in _widths(extent, lanes):
        by = const(count, extent.dtype)
        until = fold(Mul, fold(FloorDiv, extent, by), by)
        var = Var(loop.var.name, loop.var.dtype)
        pragmas = ((pragma, by), *others) if count > 1 else others
        part = replace(
            plain,
            var=var,
            begin=fold(Add, loop.begin, done),
            extent=fold(Sub, until, done),
            body=fresh_copy(loop.body, {loop.var: var}),
            pragmas=pragmas,
        )
        if not is_const(part.extent, 0):
            parts.append(part)
        done = until
    return seq(*parts)
