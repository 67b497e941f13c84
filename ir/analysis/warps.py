"""Accesses of the threads of one warp together: sectors of global memory, and passes through the banks of shared memory.

    for touch in touches(kernel):           # the outermost loop of a kernel, of stage "loops"
        print(touch.array.name, touch.passes, touch.least, touch.apart)        # A 32 4 8

The addresses of two warps are computed one by one: of the second of a block at half of the grid, in the middle of each loop around,
and of one at a third, where loops begin; at odd numbers, which show what does not begin where sectors do. Global memory comes in
sectors of 32 bytes; shared memory has 32 banks of 4 bytes, and a pass takes 32 lanes of up to 4 bytes, 16 of 8 or 8 of 16. What
neighbours of a vectorized loop touch side by side counts as one access. Conditions that hold for no thread there hide what stands
under them; an index that is read from memory may be any.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from ...base import dataclass, field
from .. import expr
from ..buffer import Buffer
from ..expr import BufferLoad, Call, Cast, Expr, IfThenElse, IntImm, ProducerLoad, Select, Var
from ..fragments import WARPGROUP_LANES
from ..ops import integer_value
from ..stmt import Allocate, BufferStore, Evaluate, For, Function, If, LetStmt, LoopKind, Stmt
from ..visit import children, post_order, statements, walk
from .footprint import Array

__all__ = [
    "BANKS",
    "LINE",
    "SECTOR",
    "WARP",
    "WIDEST",
    "WORD",
    "Block",
    "Touch",
    "collect_kernels",
    "count_transactions",
    "find_block",
    "touches",
]

WARP, SECTOR, BANKS, WORD, WIDEST = 32, 32, 32, 4, 16
"""Threads of a warp; bytes of a sector; banks of shared memory, bytes of one; bytes that a thread moves at once."""
LINE = BANKS * WORD
"""Bytes of shared memory in different banks; and that the first cache keeps together."""
_PARTS = (2, 3)
"""At a half and at a third: where the grid is looked at."""
Lanes = np.ndarray[Any, Any]
"""Of each value of the vectorized loop, along the first dimension, and of each thread, along the second."""
Known = Mapping[Var, Lanes | None]
"""None: what data decide."""

_OPERATORS: Mapping[type[Expr], Callable[[Any, Any], Any]] = {
    expr.Add: np.add,
    expr.Sub: np.subtract,
    expr.Mul: np.multiply,
    expr.Min: np.minimum,
    expr.Max: np.maximum,
    expr.LT: np.less,
    expr.LE: np.less_equal,
    expr.GT: np.greater,
    expr.GE: np.greater_equal,
    expr.EQ: np.equal,
    expr.NE: np.not_equal,
    expr.And: np.logical_and,
    expr.Or: np.logical_or,
}
_QUOTIENTS: Mapping[type[Expr], Callable[[Any, Any], Any]] = {
    expr.FloorDiv: np.floor_divide,
    expr.FloorMod: np.mod,
    expr.TruncMod: np.fmod,
    expr.TruncDiv: lambda a, b: np.trunc(a / b).astype(np.int64),
}
_BITS: Mapping[str, Callable[[Any, Any], Any]] = {
    "bitwise_xor": np.bitwise_xor,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "shift_left": np.left_shift,
    "shift_right": np.right_shift,
}


@dataclass(frozen=True)
class Touch:
    """The loads, or stores, of one place in a program. passes: sectors, or passes through the banks, of one warp; least: as many as
    the bytes need in the best order; both 0 where data decide. apart: how many elements lie between what neighbouring threads
    touch, mostly."""

    array: Array
    stored: bool
    passes: int
    least: int
    apart: int

    @property
    def by_data(self) -> bool:
        """Return whether data decide what is touched."""
        return not self.passes


def collect_kernels(function: Function) -> list[For]:
    """The outermost loops of a program that threads run, in their order; of what is there for one target, that of GPUs."""
    kernels: list[For] = []
    stack: list[Stmt] = [function.body]
    while stack:
        stmt = stack.pop()
        if isinstance(stmt, For) and any(isinstance(node, For) and node.kind is LoopKind.THREAD for node in walk(stmt)):
            kernels.append(stmt)
        elif isinstance(stmt, If) and _is_call(stmt.condition, "target_has"):
            stack.append(stmt.then_body)
        else:
            stack.extend(child for child in reversed(children(stmt)) if isinstance(child, Stmt))
    return kernels


@dataclass(frozen=True)
class Block:
    """Block of threads of a kernel. threads: of a block, by their tags; shared: bytes of its shared memory, as if all arrays lived at once;
    registers: how many of 32 bits hold the arrays of a thread that are needed at once."""

    threads: Mapping[str, int]
    shared: int
    registers: float


def find_block(kernel: For) -> Block:
    """The block of a kernel, whose outermost loop is given."""
    threads: dict[str, int] = {}
    shared, arrays, at = 0, dict[Buffer, _Array](), 0
    own: dict[Var, int] = {}
    virtual: dict[Var, int] = {}
    stack: list[Stmt] = [kernel]
    while stack:
        stmt = stack.pop()
        if isinstance(stmt, For) and stmt.kind is LoopKind.THREAD and isinstance(stmt.extent, IntImm):
            if stmt.thread == "vthread":
                virtual[stmt.var] = stmt.extent.value
            elif stmt.thread.startswith("threadIdx"):
                threads[stmt.thread] = max(stmt.extent.value, threads.get(stmt.thread, 1))
                own[stmt.var] = stmt.extent.value
        elif isinstance(stmt, Allocate):
            size = prod(_shape(stmt.buffer) or (0,)) * stmt.buffer.dtype.bytes
            shared += size if stmt.buffer.scope == "shared" else 0
            scope = stmt.buffer.scope
            of = 1 if scope == "local" else WARP if scope.startswith("mma") else 0
            if scope.startswith("wgmma"):
                of = _count_sharers(stmt.body, bool(own))
            arrays.update({stmt.buffer: _Array(size / WORD / of)} if of else {})
        elif isinstance(stmt, BufferStore):
            at += 1
            loaded = [
                arrays[node.buffer]
                for node in post_order(stmt.value)
                if isinstance(node, BufferLoad) and node.buffer in arrays
            ]
            for each in loaded:
                each.last = at
            if stmt.buffer in arrays:
                arrays[stmt.buffer].store(stmt, own, virtual, loaded, at)
        stack.extend(child for child in reversed(children(stmt)) if isinstance(child, Stmt))
    alive = (
        sum(each.size(virtual) for each in arrays.values() if each.first <= now < max(each.last, each.first + 1))
        for now in {each.first for each in arrays.values()}
    )
    if "threadIdx.x" not in threads and any(each.scope.startswith("wgmma") for each in arrays):
        threads["threadIdx.x"] = WARPGROUP_LANES  # their instructions have them, though no loop is bound to them
    return Block(threads, shared, max(alive, default=0))


def _count_sharers(body: Stmt, is_own: bool) -> int:
    """Count the threads among which sums of warpgroups are divided: four warps; of memory that no loop over threads stands around, all
    groups that have rows of it."""
    extents = {
        loop.thread: integer_value(loop.extent, 1)
        for loop in statements(body)
        if isinstance(loop, For) and loop.thread.startswith("threadIdx") and not is_own
    }
    return prod({**extents, "threadIdx.x": WARPGROUP_LANES}.values())


@dataclass
class _Array:
    """Array of a thread. registers: that hold it; among: how many threads share it, where each has its part. first, last: the statements
    between which it holds what is needed, by their numbers: the last one may give its registers to what it stores. virtual: the
    virtual threads that have others in it."""

    registers: float
    among: int = 1
    first: int = 0
    last: int = 0
    virtual: set[Var] = field(default_factory=set[Var])

    def store(
        self,
        stmt: BufferStore,
        own: Mapping[Var, int],
        virtual: Mapping[Var, int],
        loaded: Sequence[_Array],
        at: int,
    ) -> None:
        self.first = self.first or at
        self.among = max(
            self.among,
            prod(
                extent for index, extent in zip(stmt.indices, _shape(stmt.buffer) or (), strict=False) if index in own
            ),
        )
        self.virtual.update(node for node in post_order(stmt.value) if isinstance(node, Var) and node in virtual)
        self.virtual.update(*(each.virtual for each in loaded))

    def size(self, virtual: Mapping[Var, int]) -> float:
        """Return the size in registers."""
        return self.registers / self.among * prod(virtual[var] for var in self.virtual)


def touches(kernel: For) -> Iterator[Touch]:
    """Return the accesses of each place of a kernel, whose outermost loop is given. Places whose addresses depend on sizes that a call
    decides are left out."""
    threads = find_block(kernel).threads
    lane, lanes = np.arange(WARP)[None, :], dict[str, Lanes]()
    lane = lane + (WARP if prod(threads.values()) >= 2 * WARP else 0)
    for axis in "xyz":
        extent = threads.get(f"threadIdx.{axis}", 1)
        lanes[f"threadIdx.{axis}"] = lane % extent
        lane = lane // extent
    stack: list[tuple[Stmt, Known, Lanes, int]] = [(kernel, {}, lane == 0, part) for part in _PARTS]
    while stack:
        stmt, known, active, at_part = stack.pop()
        if isinstance(stmt, For):
            at = lanes.get(stmt.thread) if stmt.kind is LoopKind.THREAD else None
            known = {**known, stmt.var: _evaluate_lanes(stmt, known, at_part) if at is None else at}
        elif isinstance(stmt, LetStmt):
            value = _value(stmt.value, known)
            known = {**known, stmt.var: value} if value is not None or _depends_on_data(stmt.value, known) else known
        elif isinstance(stmt, If):
            inside, outside = _split_threads(stmt.condition, known, active)
            stack.extend(
                (body, known, part, at_part)
                for body, part in ((stmt.else_body, outside), (stmt.then_body, inside))
                if body is not None and part.any()
            )
            continue
        elif isinstance(stmt, BufferStore):
            yield from _walk_touches(stmt.buffer, stmt.indices, True, known, active)
        for value in (child for child in children(stmt) if isinstance(child, Expr)):
            if isinstance(stmt, (BufferStore, LetStmt, Evaluate)):
                yield from _loads(value, known, active)
        stack.extend((child, known, active, at_part) for child in reversed(children(stmt)) if isinstance(child, Stmt))


def _depends_on_data(value: Expr, known: Known) -> bool:
    return any(
        isinstance(node, (BufferLoad, ProducerLoad)) or isinstance(node, Var) and node in known and known[node] is None
        for node in post_order(value)
    )


def _evaluate_lanes(loop: For, known: Known, part: int) -> Lanes | None:
    """The value of a loop's variable that is looked at, at this part of its run; of a vectorized one, all of them."""
    begin, extent = (_value(each, known) for each in (loop.begin, loop.extent))
    if begin is None and _depends_on_data(loop.begin, known):
        return None
    first = begin if begin is not None else np.zeros((1, 1), np.int64)
    if loop.kind is LoopKind.VECTORIZED and isinstance(loop.extent, IntImm):
        return first + np.arange(loop.extent.value)[:, None]
    if extent is None or loop.thread == "vthread" or not loop.thread and part != _PARTS[0]:
        return first
    return first + np.maximum(np.minimum(extent // part | 1, extent - 1), 0)


def _split_threads(condition: Expr, known: Known, active: Lanes) -> tuple[Lanes, Lanes]:
    """The threads for which a condition holds, and those for which it does not; where that is not known, all of them on both
    sides."""
    held = _value(condition, known)
    return (active, active) if held is None else (active & held.astype(bool), active & ~held.astype(bool))


def _value(value: Expr, known: Known) -> Lanes | None:
    """An integer for all threads; None where it cannot be computed."""
    values: dict[int, Lanes | None] = {}
    for node in post_order(value):
        parts = [values[id(child)] for child in children(node)]
        operands = [part for part in parts if part is not None]
        values[id(node)] = _operation(node, operands, known) if len(operands) == len(parts) else None
    return values[id(value)]


def _operation(node: Expr, operands: list[Lanes], known: Known) -> Lanes | None:
    if isinstance(node, Var):
        return known.get(node)
    if isinstance(node, IntImm):
        return np.full((1, 1), node.value, np.int64)
    if type(node) in _OPERATORS:
        return _OPERATORS[type(node)](*operands)
    if type(node) in _QUOTIENTS:
        return _QUOTIENTS[type(node)](operands[0], operands[1]) if operands[1].all() else None
    if isinstance(node, expr.Not):
        return ~operands[0].astype(bool)
    if isinstance(node, (IfThenElse, Select)):
        return np.where(*operands)
    if isinstance(node, Cast) and node.dtype.is_integer and node.value.dtype.is_integer or _is_call(node, "likely"):
        return operands[0]
    return _BITS[node.name](*operands) if isinstance(node, Call) and node.name in _BITS else None


def _is_call(node: Expr, name: str) -> bool:
    return isinstance(node, Call) and node.name == name


def _loads(value: Expr, known: Known, active: Lanes) -> Iterator[Touch]:
    """Return the loads of an expression, each side of a choice by the threads that take it."""
    stack = [(value, active)]
    while stack:
        node, own = stack.pop()
        if isinstance(node, IfThenElse):
            inside, outside = _split_threads(node.condition, known, own)
            parts = [(node.false_value, outside), (node.true_value, inside), (node.condition, own)]
            stack.extend((part, under) for part, under in parts if under.any())
            continue
        if isinstance(node, (BufferLoad, ProducerLoad)):
            yield from _walk_touches(
                node.buffer if isinstance(node, BufferLoad) else node.producer, node.indices, False, known, own
            )
        stack.extend((child, own) for child in children(node))


def _walk_touches(
    array: Array, indices: tuple[Expr, ...], stored: bool, known: Known, active: Lanes
) -> Iterator[Touch]:
    shape, values = _shape(array), [_value(index, known) for index in indices]
    scope = array.scope if isinstance(array, Buffer) else "global"
    if scope not in ("global", "shared") or shape is None:
        return
    if any(value is None for value in values):
        if any(_depends_on_data(index, known) for index in indices):
            yield Touch(array, stored, 0, 0, 0)
        return
    place: Lanes = np.zeros((1, WARP), np.int64)
    for value, stride in zip(values, _strides(array, shape), strict=True):
        assert value is not None
        place = place + value * stride
    at, own = np.broadcast_arrays(place, active)
    neighbours = np.diff(at[0][own[0]])
    apart = int(np.bincount(np.abs(neighbours)).argmax()) if neighbours.size else 0
    passes = least = 0
    for begins, there, size in _accesses(at, own, array.dtype.bytes):
        more = _sectors(begins[there], size) if scope == "global" else _bank_passes(begins, there, size)
        passes, least = passes + more[0], least + more[1]
    if passes:
        yield Touch(array, stored, passes, least, apart)


def _accesses(at: Lanes, own: Lanes, item: int) -> Iterator[tuple[Lanes, Lanes, int]]:
    """The instructions for the places of a vectorized loop, each of which is touched once: addresses, which threads, bytes of each."""
    rows = [row for row in np.argsort(at[:, 0], kind="stable") if own[row].any()]
    rows = [row for before, row in zip([-1, *rows], rows, strict=False) if before < 0 or (at[row] != at[before]).any()]
    places, count = at[rows], len(rows)
    together = next(
        each
        for each in range(count, 0, -1)
        if count % each == 0 and each * item <= max(WIDEST, item) and _is_vector(places.reshape(-1, each, WARP))
    )
    for row in range(0, count, together):
        yield places[row] * item, own[rows[row]], together * item


def _is_vector(at: Lanes) -> bool:
    """Return whether what stands along the second dimension lies side by side, and begins where as much does."""
    together: int = at.shape[1]
    beside: Lanes = at[:, :1] + np.arange(together)[:, None]
    return together == 1 or np.array_equal(at, beside) and not np.any(at[:, 0] % together)


def count_transactions(begins: Sequence[int], size: int, is_shared: bool) -> int:
    """Sectors of global memory, or passes through the banks of shared memory, of an access of `size` bytes by the threads of a
    warp at these addresses."""
    if not is_shared:
        return len({sector for begin in begins for sector in range(begin // SECTOR, (begin + size - 1) // SECTOR + 1)})
    at_once, passes = min(WARP, max(WARP * WORD // size, 1)), 0
    for first in range(0, len(begins), at_once):
        some = begins[first : first + at_once]
        words = {(begin + byte) // WORD for begin in some for byte in range(0, size, WORD)}
        passes += max(Counter(word % BANKS for word in words).values(), default=0)
    return passes


def _sectors(begins: Lanes, size: int) -> tuple[int, int]:
    """Sectors of one access, and how few its bytes need."""
    begins = np.unique(begins)
    sectors = np.unique(np.concatenate([begins // SECTOR, (begins + size - 1) // SECTOR]))
    return len(sectors), -(-len(begins) * size // SECTOR)


def _bank_passes(begins: Lanes, there: Lanes, size: int) -> tuple[int, int]:
    """Passes of one access through the banks, and how few its words need."""
    at_once, passes, least = min(WARP, WARP * WORD // size), 0, 0
    for first in range(0, WARP, at_once):
        some = begins[first : first + at_once][there[first : first + at_once]]
        words = np.unique((some[:, None] + np.arange(0, size, WORD)) // WORD)
        if words.size:
            passes += int(np.bincount(words % BANKS).max())
            least += -(-len(words) // BANKS)
    return passes, least


def _shape(array: Array) -> tuple[int, ...] | None:
    """Return the extents as numbers; None where a call decides them."""
    shape = [extent.value for extent in array.shape if isinstance(extent, IntImm)]
    return tuple(shape) if len(shape) == len(array.shape) else None


def _strides(array: Array, shape: tuple[int, ...]) -> list[int]:
    said = [stride.value for stride in array.strides if isinstance(stride, IntImm)] if isinstance(array, Buffer) else []
    return said if said else [prod(shape[at + 1 :]) for at in range(len(shape))]
