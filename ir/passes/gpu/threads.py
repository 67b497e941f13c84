"""Thread loops to hardware indices: one statement that every thread of the grid runs.

    for i in thread("blockIdx.x", 4):                       T: shared float32[64]
        T: shared float32[64]                               if threadIdx.x < 32:
        for j in thread("threadIdx.x", 32): T[j] = ...  →       T[threadIdx.x] = ...
        for j in thread("threadIdx.x", 64): C = T[63 - j]   C = T[63 - threadIdx.x]

A loop shorter than the kernel's extent of its tag keeps a guard. What no loop of a tag surrounds is done by every thread
where the memory is the thread's own, and by the first of them where it is shared. Memory of scope "warp" becomes shared
memory with a place for each warp, and global memory that is allocated within a kernel a workspace with a place for each
block. It stands after the reductions and virtual threads; the result has no serial meaning any more.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce

from ...arith.analyzer import Analyzer
from ...buffer import Buffer
from ...expr import GE, LT, BufferLoad, Call, Expr, IntImm, Node, Range, Var
from ...fragments import lanes_together
from ...ops import TRUE, cast, const, likely, logical_and, logical_not
from ...pointers import WRITES, pointed_buffer
from ...stmt import INDEPENDENT, Allocate, Attr, BufferStore, Evaluate, For, If, LoopKind, Stmt
from ...structural import Key, structural_key
from ...visit import rewrite, substitute, walk
from ..common.fresh_copy import Copier
from .bulk_copies import ONE_THREAD
from .errors import CrossBlock, DivergentBarrier, LocalAcrossThreads
from .hardware import BLOCK_TAGS, THREAD_TAGS, Hardware
from .privatization import OwnPart
from .warp_specialization import ALONE

__all__ = ["map_threads"]


def map_threads(
    body: Stmt, hardware: Hardware, analyzer: Analyzer, params: frozenset[Buffer]
) -> tuple[Stmt, list[Buffer]]:
    """(`body` in terms of the hardware's variables, the workspaces it needs).

    params: the buffers that other blocks see. Raises LocalAcrossThreads, CrossBlock, DivergentBarrier.
    """
    mapper = _Mapper(hardware, analyzer, params, _collect_loaded(body))
    done = mapper.visit(body)
    return _rebase_accesses(done, mapper.moved), [
        buffer for buffer, _ in mapper.moved.values() if buffer.scope == "global"
    ]


def _collect_loaded(body: Stmt) -> frozenset[Buffer]:
    return frozenset(node.buffer for node in walk(body) if isinstance(node, BufferLoad))


class _Mapper(Copier):
    """Copies with thread variables replaced. path: the tags of the thread loops around, with their variables."""

    def __init__(
        self, hardware: Hardware, analyzer: Analyzer, params: frozenset[Buffer], loaded: frozenset[Buffer]
    ) -> None:
        super().__init__({}, fresh=False)
        self.hardware, self.analyzer, self.params, self.loaded = hardware, analyzer, params, loaded
        self.path: list[For] = []
        self.around: list[Expr] = []
        """What holds where the current statement runs: conditions, and that each loop has an iteration."""
        self.depth: dict[Buffer, int] = {}
        self.uses: dict[Buffer, list[tuple[bool, dict[str, tuple[tuple[int, Key], ...]]]]] = {}
        self.moved: dict[Buffer, tuple[Buffer, tuple[Expr, ...]]] = {}
        self.alone = False
        """Whether the current statement is that of one thread."""

    def For(self, node: For) -> Stmt:
        if node.kind is not LoopKind.THREAD:
            self.analyzer.bind(node.var, Range(node.begin, node.extent))
            begin, extent = self.visit(node.begin), self.visit(node.extent)
            # an iteration of the loop is under way: both limits hold
            with self._where(LT(node.var, extent + begin), GE(node.var, begin)):
                return super().For(node)
        index = self.hardware.variables[node.thread]
        begin, extent = self.visit(node.begin), self.visit(node.extent)
        value = cast(index, node.var.dtype)
        self.values[node.var] = value + begin
        self.path.append(node)
        with self._where(LT(value, extent)):
            body = self.visit(node.body)
        if any(key == INDEPENDENT for key, _ in node.pragmas):
            body = Attr(INDEPENDENT, node.thread, TRUE, body)
        self.path.pop()
        whole = cast(self.hardware.extents[node.thread], extent.dtype)
        if self.analyzer.can_prove(extent >= whole):  # all threads of the tag have an iteration
            return body
        return If(likely(value < extent), body)

    def If(self, node: If) -> Stmt:
        condition = self.visit(node.condition)
        if isinstance(condition, IntImm):
            return super().If(node)
        with self._where(condition):
            then_body = self.visit(node.then_body)
        else_body = None
        if node.else_body is not None:
            with self._where(logical_not(condition)):
                else_body = self.visit(node.else_body)
        return If(condition, then_body, else_body)

    @contextmanager
    def _where(self, *conditions: Expr) -> Generator[None]:
        self.around += conditions
        yield
        del self.around[-len(conditions) :]

    def Allocate(self, node: Allocate) -> Stmt:
        scope = node.buffer.scope
        self.depth[node.buffer] = len(self.path)
        self.uses[node.buffer] = []
        if scope in ("local", "shared"):
            done = super().Allocate(node)
            own = (  # only local memory is divided among threads
                OwnPart(done, self.hardware, self.analyzer) if scope == "local" and isinstance(done, Allocate) else None
            )
            self._check_own(node.buffer, frozenset(own.divided) if own is not None else frozenset())
            return done if own is None else own.allocation()
        body = self.visit(node.body)
        self._check_own(node.buffer)
        buffer = self.buffers.get(node.buffer, node.buffer)
        # a warp's memory has a place for each warp, global memory one for each block
        tags = BLOCK_TAGS if scope == "global" else tuple(tag for tag in THREAD_TAGS if tag != "threadIdx.x")
        tags = tuple(tag for tag in reversed(tags) if tag in self.hardware.extents)
        places = tuple(self.hardware.variables[tag] for tag in tags)
        extents = tuple(self.hardware.extents[tag] for tag in tags)
        placed = replace(
            buffer, shape=(*extents, *buffer.shape), strides=(), scope="global" if scope == "global" else "shared"
        )
        self.moved[buffer] = (placed, places)
        return body if scope == "global" else Allocate(placed, body)

    def Attr(self, node: Attr) -> Stmt:
        """Return the statement for the first thread."""
        if node.key not in (ONE_THREAD, ALONE):
            return super().Attr(node)
        first = {
            self.hardware.variables[tag]: const(0, self.hardware.variables[tag].dtype)
            for tag in THREAD_TAGS
            if self.hardware.extent(tag) > 1
        }
        for inner in walk(node.body) if node.key == ONE_THREAD else ():
            pointed = pointed_buffer(inner)  # the first thread must come by where it writes for all
            if pointed is not None and pointed[1] & WRITES:
                self._check_first_thread(pointed[0], first)
        whole, self.alone = self.alone, True
        body = self.visit(node.body)
        self.alone = whole
        if node.key == ALONE:
            return body
        condition = reduce(logical_and, [var.equal(0) for var in first], TRUE)
        return If(condition, body)

    def BufferLoad(self, node: BufferLoad) -> Expr:
        self._note(node, stored=False)
        return super().BufferLoad(node)

    def BufferStore(self, node: BufferStore) -> Stmt:
        self._note(node, stored=True)
        done = super().BufferStore(node)
        # local memory is the thread's own: each stores
        return done if node.buffer.scope == "local" else self._run_once(done, node)

    def Evaluate(self, node: Evaluate) -> Stmt:
        """A call that writes memory which others see. All lanes of a warp make one that is theirs together."""
        done: Stmt = self.generic(node)
        for inner in walk(node) if not self.alone else ():  # under ALONE a condition tells the one thread already
            pointed = pointed_buffer(inner)
            if pointed is not None and pointed[1] & WRITES and pointed[0].scope != "local":
                assert isinstance(inner, Call) and isinstance(inner.args[0], BufferLoad)
                done = self._run_once(done, inner.args[0], together=lanes_together(node.value))
        return done

    def _run_once(self, stmt: Stmt, store: BufferStore | BufferLoad, together: int = 0) -> Stmt:
        """`stmt`, which writes memory that others see, done once: a thread that has no element of its own leaves it.
        together: how many lanes, of a warp or of four, do it together."""
        buffer = store.buffer
        inner = {node for index in store.indices for node in walk(index)}
        inside = self.path[
            self.depth.get(buffer, 0) :
        ]  # loops around the allocation do all of it, each of their threads
        around = {loop.thread for loop in inside} | {
            tag for tag, var in self.hardware.variables.items() if var in inner
        }
        if buffer.scope == "warp":  # each warp has a place of its own
            # threadIdx.x runs along the lanes of a warp, which share the place
            around.update(tag for tag in THREAD_TAGS if tag != "threadIdx.x")
        if together:
            around.update(self.hardware.lane_tags(together))
        unbound = [tag for tag in self.hardware.variables if tag not in around]
        missing = [tag for tag in unbound if tag in THREAD_TAGS and self.hardware.extent(tag) > 1]
        if buffer in self.params:
            blocks = [tag for tag in unbound if tag in BLOCK_TAGS]
            if blocks and buffer in self.loaded:  # another block's result may not be there yet
                raise CrossBlock(
                    f"cannot lower: {buffer.name} is computed outside of the loop that is bound to {blocks[0]}, "
                    "and read within it",
                    reason="blocks of one kernel run in no order and do not wait for each other",
                    fix=f"compute {buffer.name} at root, in a kernel of its own, or at a loop inside of the block loop",
                )
            missing = blocks + missing
        condition: Expr | None = None
        for tag in missing:
            first = self.hardware.variables[tag].equal(0)
            condition = first if condition is None else logical_and(condition, first)
        self._check_first_thread(
            buffer, {self.hardware.variables[tag]: const(0, self.hardware.variables[tag].dtype) for tag in missing}
        )
        return stmt if condition is None else If(condition, stmt)

    def _check_first_thread(self, buffer: Buffer, first: dict[Var, Expr]) -> None:
        """Check that the first thread runs the current statement where any of them does."""
        for condition in self.around:
            # a condition without the first thread's variables holds for it as for any
            if not any(node in first for node in walk(condition) if isinstance(node, Var)):
                continue
            with self.analyzer.constraint(condition):
                if self.analyzer.can_prove(substitute(condition, first)):
                    continue
            raise DivergentBarrier(
                f"cannot lower: {buffer.name}, in {buffer.scope} memory, is filled where not all threads that share it come by, "
                f"under `{condition}`",
                reason="one thread fills it for all, which then wait for each other",
                fix=f's[{buffer.name}].set_scope("local"), or compute it at a loop outside of the condition',
            )

    def _note(self, node: BufferLoad | BufferStore, stored: bool) -> None:
        """Remember which elements each thread, or block, of the loops inside of an allocation touches."""
        uses = self.uses.get(node.buffer)
        if uses is None:
            return
        keys: dict[str, tuple[tuple[int, Key], ...]] = {}
        for loop in self.path[self.depth[node.buffer] :]:
            # shared memory is one for all threads of the block
            if node.buffer.scope != "local" and loop.thread not in BLOCK_TAGS:
                continue
            used = [
                (dim, self.visit(index))
                for dim, index in enumerate(node.indices)
                if any(n is loop.var for n in walk(index))
            ]
            if used:
                keys[loop.thread] = tuple((dim, structural_key(index)) for dim, index in used)
        uses.append((stored, keys))

    def _check_own(self, buffer: Buffer, divided: frozenset[int] = frozenset()) -> None:
        """A thread finds in local memory, and a block in its own, only what it stored itself: each must touch the same
        elements in every access, but in the dimensions that are `divided` among the threads."""
        uses = self.uses[buffer]
        for tag in sorted({tag for stored, keys in uses if stored for tag in keys}):
            # every access names the same elements of the thread
            if len({tuple(key for key in keys.get(tag, ()) if key[0] not in divided) for _, keys in uses}) == 1:
                continue
            if buffer.scope != "local":
                raise CrossBlock(
                    f"cannot lower: {buffer.name}, in {buffer.scope} memory of a kernel, is filled by the blocks of {tag} together",
                    reason="each block has its own, and would find only what it stored itself",
                    fix=f"do not bind the loops of {buffer.name} to {tag}: the loop that it is computed at is that of its blocks",
                )
            raise LocalAcrossThreads(
                f"cannot lower: {buffer.name}, in local memory, is filled by the threads of {tag} together",
                reason="local memory belongs to one thread, which would find only what it stored itself",
                fix=f's[{buffer.name}].set_scope("shared"), or do not bind its loops to {tag}',
            )


def _rebase_accesses(body: Stmt, moved: dict[Buffer, tuple[Buffer, tuple[Expr, ...]]]) -> Stmt:
    """Accesses of memory that has a place for each block, or each warp, at the own place."""
    if not moved:
        return body

    def rule(node: Node) -> Node | None:
        if isinstance(node, (BufferLoad, BufferStore)) and node.buffer in moved:
            buffer, places = moved[node.buffer]
            return replace(node, buffer=buffer, indices=(*places, *node.indices))
        return None

    return rewrite(body, rule)
