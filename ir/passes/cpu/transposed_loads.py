"""Loads down the columns of a matrix, side by side, become loads of its rows and a transposition in registers.

    B[0:4]   = T[Ramp(i, 32, 4)]                    rows = T[i : i + 4], T[i + 32 : i + 36], T[i + 64 : ...], T[i + 96 : ...]
    B[9:13]  = T[Ramp(i + 1, 32, 4)] + b      →     B[0:4]   = the first lanes of the rows
    B[18:22] = T[Ramp(i + 2, 32, 4)]                B[9:13]  = their second lanes, + b
    B[27:31] = T[Ramp(i + 3, 32, 4)]                ...

Alone, each would be a gather: as many loads as it has lanes. Together n of them take n loads and n log2(n) shuffles of two
vectors each, of which all but log2(lanes of 128 bits) rounds stay within 128 bits, where machines shuffle fastest. Where there are
fewer columns than lanes, rows are loaded as far as there are columns.

What is read of memory that the function has for itself may be read under no condition, also beyond what was written there:
columns of it are loaded together where each store has a guard of its own, or its last lanes are masked.

It stands after unroll, whose copies are the columns, and shared_windows, which has the strides that are small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ....base import dataclass, replace
from ...analysis.linear import expression, is_index, linear
from ...arith.linear import LinearForm
from ...buffer import Buffer
from ...contents import find_strides
from ...expr import Broadcast, BufferLoad, Expr, IntImm, Node, Ramp, Shuffle, Var
from ...ops import const
from ...stmt import Function, LetStmt, Seq, Stmt
from ...structural import Key
from ...visit import distinct, rewrite
from .shared_windows import WIDEST_STRIDE, active_lanes, sure_loads
from .store_runs import StoreRuns, find_store

__all__ = ["transposed_loads"]

CHUNK, WORD = 128, 32
"""Bits within which shuffles are cheap; and of an element, from which on lanes can be masked."""
FEWEST = 3
"""Columns from which on rows of fewer than a square has, masked, are loaded and turned rather than columns one by one."""


def transposed_loads(function: Function) -> Function:
    """`function` with columns that are loaded together through their rows."""
    # smaller strides are shared_windows', which reads fewer elements
    if all(stride <= WIDEST_STRIDE for stride in find_strides(function.body, BufferLoad)):
        return function
    return function.with_body(StoreRuns(_split_runs, guarded=True).visit(function.body))


@dataclass(frozen=True, slots=True)
class _Column:
    """A load of elements `at`, `at + stride` ... of its group. active: the lanes that are read."""

    load: BufferLoad
    base: Expr
    at: int
    stride: int
    active: frozenset[int]


def _split_runs(run: list[Stmt]) -> list[Stmt]:
    """Consecutive stores, those together of which none reads what one before it stores."""
    if all(stride <= WIDEST_STRIDE for statement in run for stride in find_strides(statement, BufferLoad)):
        return run
    parts: list[list[Stmt]] = [[]]
    stored: set[Buffer] = set()
    for statement in run:
        store = find_store(statement)
        # columns are loaded before the run, so none may be of what the run stores
        if stored and any(_is_stored_column(stored, node) for node in distinct(statement)):
            parts.append([])
            stored = set()
        parts[-1].append(statement)
        stored |= {store.buffer} if store is not None else set()
    return [statement for part in parts for statement in _transpose(part)]


def _is_stored_column(stored: set[Buffer], node: Node) -> bool:
    return isinstance(node, BufferLoad) and node.buffer in stored and _column(node) is not None


def _transpose(run: list[Stmt]) -> list[Stmt]:
    """Consecutive stores, with the columns in them loaded before, those that are needed together just before
    the first that needs them."""
    squares = list(_squares(run)) if len(run) > 1 else []  # one load alone is no square
    if not squares:
        return list(run)
    owner = {id(each.load): at for at, square in enumerate(squares) for column in square for each in column}
    first: dict[int, list[int]] = {}
    seen: set[int] = set()
    for place, statement in enumerate(run):
        for load in _loads(statement):
            square = owner.get(id(load))  # only the first user binds the vectors; later ones find them bound
            if square is not None and square not in seen:
                seen.add(square)
                first.setdefault(place, []).append(square)
    replacements: dict[int, Expr] = {}
    lets: dict[int, list[tuple[Var, Expr]]] = {}
    for place, here in first.items():
        for square in here:
            bound, columns = _columns(squares[square])
            lets.setdefault(place, []).extend(bound)
            replacements.update(columns)
    return _nest([rewrite(store, lambda node: replacements.get(id(node))) for store in run], lets)


def _nest(run: Sequence[Stmt], lets: dict[int, list[tuple[Var, Expr]]]) -> list[Stmt]:
    """The statements, those from a place on within what is bound there."""
    after: list[Stmt] = []
    for place in reversed(range(len(run))):
        after.insert(0, run[place])
        for var, value in reversed(lets.get(place, [])):
            after = [LetStmt(var, value, after[0] if len(after) == 1 else Seq(tuple(after)))]
    return after


def _loads(statement: Stmt) -> Iterator[BufferLoad]:
    """Return the loads that may be made before a store:

    what it loads whatever is chosen, and where it is guarded, what anybody may load.
    """
    store = find_store(statement)
    loads = sure_loads(store.value) if store is not None else iter(())
    # under a guard only memory of the function's own may be read early
    return loads if statement is store else filter(_is_free, loads)


def _is_free(load: BufferLoad) -> bool:
    """Return whether a load may be made under no condition, being of elements of the function's own memory, at places that are known."""
    (index, *more), extents = load.indices, load.buffer.shape
    if load.buffer.scope != "local" or more or len(extents) != 1 or not isinstance(index, Ramp):
        return False
    (extent,), first, stride = extents, index.base, index.stride
    if not (isinstance(extent, IntImm) and isinstance(first, IntImm) and isinstance(stride, IntImm)):
        return False
    return stride.value > 0 and first.value >= 0 and first.value + stride.value * (index.lanes - 1) < extent.value


def _squares(run: list[Stmt]) -> Iterator[list[list[_Column]]]:
    """Yield as many columns side by side as each has lanes, or those that are left; for each column all the loads of it."""
    groups: dict[Key, dict[int, list[_Column]]] = {}
    for statement in run:
        for load in _loads(statement):
            entry = _column(load)
            if entry is not None:
                key, column = entry
                groups.setdefault(key, {}).setdefault(column.at, []).append(column)
    for columns in groups.values():
        dtype = next(iter(columns.values()))[0].load.dtype
        for at in sorted(columns):
            # the run of neighbouring columns ends at the first that is missing
            count = next((more for more in range(dtype.lanes) if at + more not in columns), dtype.lanes)
            # fewer columns still pay where a gather would take as many loads as lanes
            if count == dtype.lanes or count >= FEWEST and dtype.lanes * dtype.bits > CHUNK and dtype.bits >= WORD:
                yield [columns.pop(at + more) for more in range(count)]


def _column(load: BufferLoad) -> tuple[Key, _Column] | None:
    index = load.indices[0] if len(load.indices) == 1 else None
    if not isinstance(index, Ramp) or not isinstance(index.stride, IntImm) or not is_index(index.base):
        return None
    stride, lanes, bits = index.stride.value, load.dtype.lanes, load.dtype.bits
    if (
        stride <= max(WIDEST_STRIDE, lanes - 1)  # closer columns interleave, and narrow lanes cannot be masked
        or lanes & (lanes - 1)
        or lanes * bits < CHUNK
        or bits < WORD
        and not _is_free(load)
    ):
        return None
    # what may be read freely needs no mask, also where the load has one
    active = frozenset(range(lanes)) if load.predicate is None or _is_free(load) else active_lanes(load.predicate)
    if not active:
        return None
    form = linear(index.base)
    key = (load.buffer, stride, lanes, active, form.key)
    return key, _Column(load, expression(LinearForm(form.coeffs), index.base.dtype), form.const, stride, active)


def _columns(square: list[list[_Column]]) -> tuple[list[tuple[Var, Expr]], dict[int, Expr]]:
    """Return the vectors to bind, and the one that stands in place of each load, by the load's identity."""
    column = square[0][0]
    load, dtype = column.load, column.base.dtype
    bound: list[tuple[Var, Expr]] = []

    def bind(value: Expr) -> Expr:
        bound.append((Var(f"square{len(bound)}", value.dtype), value))
        return bound[-1][0]

    rows: list[Expr] = []
    lanes, places = load.dtype.lanes, Ramp(const(0), const(1), load.dtype.lanes)
    # rows are loaded as far as there are columns: beyond may be another buffer
    inside = None if len(square) == lanes else places < Broadcast(const(len(square)), lanes)
    for lane in range(lanes):
        if lane in column.active:
            start = column.base + const(column.at + lane * column.stride, dtype)
            rows.append(bind(replace(load, indices=(Ramp(start, const(1, dtype), lanes),), predicate=inside)))
        else:
            rows.append(const(0, load.dtype))  # a lane that nobody reads is zero, so that the shuffles stay whole
    values = _Transposition(bind, load.dtype.bits).of(rows)
    return bound, {id(each.load): value for column, value in zip(square, values, strict=False) for each in column}


@dataclass(frozen=True, slots=True)
class _Transposition:
    """Shuffles of two vectors at a time. bind: names a value that is used more than once."""

    bind: Callable[[Expr], Expr]
    bits: int

    def of(self, rows: list[Expr]) -> list[Expr]:
        """The columns of a square of vectors: within chunks, then of chunks."""
        lanes, chunk = len(rows), CHUNK // self.bits
        # rounds within 128 bits are the cheap ones, so most of the work is done there
        within = [self._arrange_vectors(rows[at : at + chunk], chunk) for at in range(0, lanes, chunk)]
        columns: list[Expr | None] = [None] * lanes
        for place in range(chunk):
            for quarter, column in enumerate(self._chunks([group[place] for group in within], chunk)):
                columns[quarter * chunk + place] = column
        return [each for each in columns if each is not None]

    def _arrange_vectors(self, rows: list[Expr], chunk: int) -> list[Expr]:
        """Vector p: element p of every chunk of the first row, of the second ..., chunk by chunk."""
        half = len(rows) // 2
        if not half:
            return rows
        pairs = zip(self._arrange_vectors(rows[:half], chunk), self._arrange_vectors(rows[half:], chunk), strict=True)
        return [self._interleave(a, b, half, chunk, part) for a, b in pairs for part in (0, 1)]

    def _interleave(self, a: Expr, b: Expr, size: int, chunk: int, part: int) -> Expr:
        """Pieces of `size` elements from the low (part 0) or high half of each chunk of a and b, in turn."""
        lanes = a.dtype.lanes
        picked: list[int] = []
        for start in range(0, lanes, chunk):
            for piece in range(start + part * chunk // 2, start + (part + 1) * chunk // 2, size):
                picked += [*range(piece, piece + size), *range(lanes + piece, lanes + piece + size)]
        return self.bind(Shuffle((a, b), tuple(picked)))

    def _chunks(self, vectors: list[Expr], chunk: int) -> list[Expr]:
        """Vector q: chunk q of each vector."""
        if len(vectors) == 1:
            return vectors
        lanes = vectors[0].dtype.lanes
        sides: list[list[Expr]] = []
        for odd in (0, 1):
            picked = [
                element for start in range(odd * chunk, 2 * lanes, 2 * chunk) for element in range(start, start + chunk)
            ]
            pairs = zip(vectors[::2], vectors[1::2], strict=True)
            sides.append(self._chunks([self.bind(Shuffle(pair, tuple(picked))) for pair in pairs], chunk))
        return [column for both in zip(*sides, strict=True) for column in both]
