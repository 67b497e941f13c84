"""Blocks of a grid run in any order and never wait for each other: a serial loop around loops over blocks becomes a loop
in every block, so no iteration may read, in one block, what another block has stored.

    for t in T:                                        for t in T:
      for b in blockIdx.x:                               for b in blockIdx.x:
        S[t + 1, b * 64 + x] = f(S[t, b * 64 + x])         S[t + 1, b * 64 + x] = f(S[t, n - 1 - (b * 64 + x)])
    each block goes on with its own elements           refused: it would need a barrier of the whole grid

Two accesses are in one block where different blocks never meet in them, whatever the iterations and the threads; or where
they are at the same function of threads and blocks in each dimension in which the store depends on these at all: blocks
do not store to common elements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...base import dataclass, field, user_source
from ...ir.analysis.dependence import Iterations, Meets
from ...ir.buffer import Buffer
from ...ir.expr import BufferLoad, Call, Expr, IntImm, Range, Var
from ...ir.ops import is_const
from ...ir.pointers import WRITES, pointed_buffer
from ...ir.stmt import Allocate, BufferStore, Evaluate, For, Function, If, LetStmt, LoopKind, Stmt, While
from ...ir.structural import equal
from ...ir.visit import children, free_vars, post_order, substitute
from .errors import BlocksDepend

__all__ = ["check_grid_order"]


@dataclass(frozen=True)
class _Access:
    """Access of memory by a block.

    indices: with one variable for each thread tag, of `threads`. blocks: the tags of the loops over blocks around it,
    within the serial loop. ranges: of all loops around, within that.
    """

    buffer: Buffer
    indices: tuple[Expr, ...]
    blocks: frozenset[str]
    ranges: Mapping[Var, Range]
    threads: frozenset[Var]
    is_store: bool


@dataclass
class _Around:
    """Surroundings of a statement, as seen from a serial loop. renamed: loop variables on threads as those of their tags."""

    threads: dict[str, Var]
    renamed: dict[Var, Expr] = field(default_factory=dict[Var, Expr])
    blocks: frozenset[str] = frozenset()
    ranges: dict[Var, Range] = field(default_factory=dict[Var, Range])
    own: frozenset[Buffer] = frozenset()


def check_grid_order(function: Function) -> None:
    """Raise BlocksDepend. function: of stage "loops"."""
    stack: list[Stmt] = [function.body]
    while stack:
        stmt = stack.pop()
        if isinstance(stmt, For) and _is_block(stmt):
            inner = next((node for node in post_order(stmt.body) if isinstance(node, For) and _is_block(node)), None)
            if inner is None:
                continue
        if isinstance(stmt, For) and stmt.kind is not LoopKind.THREAD and _has_blocks(stmt.body):
            _check(function, stmt)
            continue
        stack.extend(child for child in children(stmt) if isinstance(child, Stmt))


def _is_block(loop: For) -> bool:
    return loop.kind is LoopKind.THREAD and loop.thread.startswith("blockIdx") and not is_const(loop.extent, 1)


def _has_blocks(stmt: Stmt) -> bool:
    return any(isinstance(node, For) and _is_block(node) for node in post_order(stmt))


def _check(function: Function, loop: For) -> None:
    accesses: list[_Access] = []
    _collect(loop.body, _Around({}), accesses)
    blocks = _Blocks(loop, accesses)
    stores = [access for access in accesses if access.is_store and access.blocks]
    for store in stores:
        for access in accesses:
            if access.buffer is store.buffer and access is not store and not blocks.is_met_by_one_block(store, access):
                name = store.buffer.name
                raise BlocksDepend(
                    f"cannot build {function.name} for a GPU: an iteration of '{loop.var.name}' depends on other blocks' work",
                    reason=f"blocks store {name}[{_show(store)}], and {'store' if access.is_store else 'read'} "
                    f"{name}[{_show(access)}] in the same loop, which is not proved to be their own",
                    called=user_source(),
                    fix=f"bind what is inside '{loop.var.name}' to threads of one block, or to blocks and "
                    "threads such that each goes on with its own elements",
                )


def _show(access: _Access) -> str:
    return ", ".join(map(str, access.indices))


def _collect(stmt: Stmt, around: _Around, accesses: list[_Access]) -> None:
    """The accesses of a statement to memory that blocks share."""
    if isinstance(stmt, Allocate):
        own = around.own | {stmt.buffer} if around.blocks or stmt.buffer.scope != "global" else around.own
        _collect(stmt.body, _Around(around.threads, around.renamed, around.blocks, around.ranges, own), accesses)
        return
    if isinstance(stmt, For):
        renamed, blocks, ranges = dict(around.renamed), around.blocks, dict(around.ranges)
        within = Range(substitute(stmt.begin, renamed), substitute(stmt.extent, renamed))
        if stmt.kind is LoopKind.THREAD:
            shared = around.threads.setdefault(stmt.thread, Var(stmt.thread, stmt.var.dtype))
            renamed[stmt.var] = shared
            ranges[shared] = within
            blocks = blocks | {stmt.thread} if stmt.thread.startswith("blockIdx") else blocks
        else:
            ranges[stmt.var] = within
        _reads((stmt.begin, stmt.extent), around, accesses)
        _collect(stmt.body, _Around(around.threads, renamed, blocks, ranges, around.own), accesses)
        return
    if isinstance(stmt, LetStmt):
        _reads((stmt.value,), around, accesses)
        value = substitute(stmt.value, around.renamed)
        _collect(
            stmt.body,
            _Around(around.threads, {**around.renamed, stmt.var: value}, around.blocks, around.ranges, around.own),
            accesses,
        )
        return
    if isinstance(stmt, BufferStore):
        _note(stmt.buffer, stmt.indices, True, around, accesses)
        _reads((stmt.value, *stmt.indices), around, accesses)
    elif isinstance(stmt, (Evaluate, If, While)):
        _reads((stmt.value if isinstance(stmt, Evaluate) else stmt.condition,), around, accesses)
    for child in children(stmt):
        if isinstance(child, Stmt):
            _collect(child, around, accesses)


def _reads(values: tuple[Expr, ...], around: _Around, accesses: list[_Access]) -> None:
    for value in values:
        for node in post_order(value):
            pointed = pointed_buffer(node)
            if isinstance(node, BufferLoad):
                _note(node.buffer, node.indices, False, around, accesses)
            elif (
                pointed is not None
                and pointed[1] & WRITES
                and isinstance(node, Call)
                and isinstance(node.args[0], BufferLoad)
            ):
                _note(pointed[0], node.args[0].indices, True, around, accesses)


def _note(buffer: Buffer, indices: tuple[Expr, ...], is_store: bool, around: _Around, accesses: list[_Access]) -> None:
    if buffer not in around.own:
        places = tuple(substitute(index, around.renamed) for index in indices)
        threads = frozenset(var for var in around.threads.values() if var in around.ranges)
        accesses.append(_Access(buffer, places, around.blocks, around.ranges, threads, is_store))


# Proofs


class _Blocks:
    """Facts about two iterations of a serial loop around blocks."""

    def __init__(self, loop: For, accesses: Sequence[_Access]) -> None:
        own: dict[Var, Range | None] = {loop.var: Range(loop.begin, loop.extent)}
        for access in accesses:
            own.update(
                {var: _covering(own[var], within) if var in own else within for var, within in access.ranges.items()}
            )
        threads = {var for access in accesses for var in access.threads}
        constant = {access.buffer for access in accesses} - {access.buffer for access in accesses if access.is_store}
        self.by_tag = {var.name: Iterations(var, own, constant=constant) for var in threads}
        self.of_threads = Iterations(
            None, {var: within for var, within in own.items() if var not in threads}, constant=constant
        )

    def is_met_by_one_block(self, store: _Access, access: _Access) -> bool:
        """Return whether an element of both is certainly met by one block alone."""
        if store.blocks != access.blocks:
            return False
        return self._same_function(store, access) or not any(
            self.by_tag[tag].between(store.indices, access.indices).carried for tag in store.blocks
        )

    def _same_function(self, store: _Access, access: _Access) -> bool:
        """Return whether both are at the same function of threads and blocks where the store depends on these at all."""
        return all(
            self.of_threads.between((a,), (b,)).meets is Meets.ALWAYS
            for a, b in zip(store.indices, access.indices, strict=True)
            if store.threads & {*free_vars(a)}
        )


def _covering(a: Range | None, b: Range) -> Range | None:
    """A range that holds both; None where that is not known."""
    if a is None or not is_const(a.begin, 0) or not is_const(b.begin, 0):
        return None
    if isinstance(a.extent, IntImm) and isinstance(b.extent, IntImm):
        return a if a.extent.value >= b.extent.value else b
    return a if equal(a.extent, b.extent) else None
