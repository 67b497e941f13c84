"""Allocation places, and the sharing of memory between buffers.

    for i in 64:                                   T: float32[4096]
        T: float32[4096]                           for i in 64:
        S1(T)                               →          S1(T)
        U: float32[4096]                               S2(T in U's place)
        S2(U)

An allocation whose size does not vary moves out of serial loops, to the function's top or to the body of the nearest
parallel loop, so that it is made once and not in each iteration. Of two larger allocations of one place, type and
scope whose contents are never needed at the same time, the later one uses the memory of the earlier.

It stands after unroll, when every allocation there will be is there, and after flatten: sizes are one number.
"""

from __future__ import annotations

from collections.abc import Iterable

from ....base import dataclass, field, replace
from ...buffer import Buffer
from ...expr import BufferLoad, Expr, IntImm, Node
from ...stmt import Allocate, Attr, BufferStore, For, Function, If, LetStmt, LoopKind, Stmt, While
from ...structural import structural_key
from ...visit import Rewriter, children, distinct, rebuild, rewrite

__all__ = ["MIN_SHARED_BYTES", "plan_storage"]

MIN_SHARED_BYTES = 8192
"""Smaller allocations live in registers or on the stack, where sharing would only keep them from being promoted."""
STACK_BYTES = 16384
"""Where small allocations are more than this together, they no longer all live on the stack, and share as well."""


def plan_storage(function: Function, share: bool = True) -> Function:
    """`function` with its allocations placed and, where `share`, in each other's memory."""
    return function.with_body(_place(function.body, share))


@dataclass(slots=True)
class _Placed:
    """A buffer that moved to a place: `first` and `last` number the statements between which its content is needed."""

    buffer: Buffer
    first: int = -1
    last: int = -1


@dataclass(slots=True)
class _Open:
    """An Allocate, or a loop, that encloses where the walk stands. began: the number of its first statement."""

    node: Node
    began: int
    touched: set[Buffer] = field(default_factory=set[Buffer])


class _Lifetimes:
    """The interval of each allocation below a place, by the numbers of statements in program order.

    A buffer that lives longer than a loop needs its content throughout the loop; one that is allocated within it
    begins anew in each iteration."""

    def __init__(self, body: Stmt) -> None:
        self.found: dict[Buffer, _Placed] = {}
        self.clock = 0
        self._loops: list[_Open] = []
        self._depth: dict[Buffer, int] = {}
        self._walk(body)

    def _walk(self, body: Stmt) -> None:
        stack: list[tuple[Stmt, bool]] = [(body, False)]
        while stack:
            node, leaving = stack.pop()
            if leaving:
                self._leave()
                continue
            self.clock += 1  # numbers are of statements in program order, loops included
            if isinstance(node, Allocate):
                self.found[node.buffer] = _Placed(node.buffer)
                self._depth[node.buffer] = len(self._loops)
            elif isinstance(node, (For, While)):
                self._loops.append(_Open(node, self.clock))
                stack.append((node, True))
            elif isinstance(node, BufferStore) and node.buffer in self.found:
                self._touch(node.buffer)  # a store is a use: it begins a lifetime
            below = children(node)
            if self.found:
                self._read(each for each in below if isinstance(each, Expr))
            stack += [(child, False) for child in reversed(below) if isinstance(child, Stmt)]

    def _read(self, values: Iterable[Expr]) -> None:
        """Return the loads of a statement's expressions, which may share operands."""
        for node in distinct(*values):
            if type(node) is BufferLoad and node.buffer in self.found:
                self._touch(node.buffer)

    def _touch(self, buffer: Buffer) -> None:
        outside = self._loops[self._depth[buffer] :]
        # used in a loop inside of its allocation, it must survive the whole loop
        began = outside[0].began if outside else self.clock
        placed = self.found[buffer]
        placed.first = began if placed.first < 0 else min(placed.first, began)
        placed.last = max(placed.last, self.clock)
        if outside:
            outside[0].touched.add(buffer)

    def _leave(self) -> None:
        loop = self._loops.pop()
        for buffer in loop.touched:  # what an iteration reads the last one may have written
            self.found[buffer].last = max(self.found[buffer].last, self.clock)


def _place(body: Stmt, share: bool) -> Stmt:
    """`body`, which is a function's or a parallel loop's, with what may be allocated at its top allocated there."""
    mover = _Mover(share)
    inside = mover.visit(body)
    homes = _share(mover.moved, body) if share else {}
    if homes:
        inside = _rename(inside, homes)
    for buffer in reversed(mover.moved):
        if buffer not in homes:
            inside = Allocate(buffer, inside)
    return inside


def _share(moved: list[Buffer], body: Stmt) -> dict[Buffer, Buffer]:
    """Choose for each of the later buffers, which `body` allocates, the buffer whose memory it shares."""
    homes: dict[Buffer, Buffer] = {}
    residents: dict[Buffer, list[_Placed]] = {}
    sizes = [_bytes(buffer) or 0 for buffer in moved]
    # beyond STACK_BYTES small ones leave the stack too, and share
    least = MIN_SHARED_BYTES if sum(size for size in sizes if size < MIN_SHARED_BYTES) <= STACK_BYTES else 0
    sharing = [buffer for buffer in moved if buffer.data is None and not _is_less(buffer, least)]
    if len(sharing) < 2:  # one buffer has nobody to share with
        return homes
    found = _Lifetimes(body).found
    for buffer in sorted(sharing, key=lambda buffer: -(_bytes(buffer) or 0)):  # the largest make the homes
        placed = found[buffer]
        for home, tenants in residents.items():
            if _fits(buffer, home) and all(_are_disjoint(placed, tenant) for tenant in tenants):
                homes[buffer] = home
                tenants.append(placed)
                break
        else:
            residents[buffer] = [placed]
    return homes


def _is_less(buffer: Buffer, least: int) -> bool:
    size = _bytes(buffer)
    return size is not None and size < least


def _are_disjoint(a: _Placed, b: _Placed) -> bool:
    # a buffer that is never touched conflicts with nobody
    return a.first < 0 or b.first < 0 or a.last < b.first or b.last < a.first


def _bytes(buffer: Buffer) -> int | None:
    extent = buffer.shape[0]
    return extent.value * buffer.dtype.bytes if isinstance(extent, IntImm) else None


def _fits(buffer: Buffer, home: Buffer) -> bool:
    # the home stands in for the buffer in every access, so its type and scope must be the same
    if (buffer.dtype, buffer.scope) != (home.dtype, home.scope) or buffer.alignment > home.alignment:
        return False
    mine, its = _bytes(buffer), _bytes(home)
    if mine is None or its is None:
        # symbolic sizes are comparable only by structure
        return structural_key(buffer.shape[0]) == structural_key(home.shape[0])
    return mine <= its


class _Mover(Rewriter):
    """Take allocations out, down to the parallel loops, whose bodies are places of their own."""

    def __init__(self, share: bool) -> None:
        self.share = share
        self.moved: list[Buffer] = []
        self.nested = 0
        """Statements between the place and where the walk stands that may not run."""

    def For(self, node: For) -> Stmt:
        if node.kind is LoopKind.PARALLEL:
            # threads need memory each: it is allocated in the body of their loop
            return rebuild(node, [node.begin, node.extent, _place(node.body, self.share)])
        return self._nest(node)

    def _nest(self, node: For | While | If | LetStmt) -> Stmt:
        self.nested += 1
        rewritten = self.generic(node)
        self.nested -= 1
        return rewritten

    While = If = LetStmt = _nest

    def Allocate(self, node: Allocate) -> Stmt:
        # a size that varies may be known, or not be negative, only where the allocation stands
        if node.buffer.data is None and (isinstance(node.buffer.shape[0], IntImm) or not self.nested):
            self.moved.append(node.buffer)
            return self.visit(node.body)
        return rebuild(node, [self.visit(node.body)])


def _rename(body: Stmt, homes: dict[Buffer, Buffer]) -> Stmt:
    def rule(node: Node) -> Node | None:
        if isinstance(node, (BufferLoad, BufferStore)) and node.buffer in homes:
            return replace(node, buffer=homes[node.buffer])
        if isinstance(node, Attr) and isinstance(node.subject, Buffer) and node.subject in homes:
            return replace(node, subject=homes[node.subject])
        return None

    return rewrite(body, rule)
