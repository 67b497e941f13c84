"""Strided vector loads that interleave read whole vectors once, and pick their lanes from them.

    T[0:16] = A[Ramp(i, 2, 16)] * v                   T[0:16] = shuffle(A[i : i + 16], A[i + 16 : i + 32], [0, 2, 4 ...]) * v
    T[0:16] = T[0:16] + A[Ramp(i + 1, 2, 16)] * w  →  T[0:16] = T[0:16] + shuffle(the same two, [1, 3, 5 ...]) * w

A load by itself may read no further than its last element, so two that interleave would read four vectors, and a masked
one would be a gather. Together they read what lies between the first and the last element of any of them, which is within
the buffer. A load under a constant mask joins in: what no load of the group wants stays masked.

It stands after unroll, when what an unrolled loop reads is one run of statements, and while loads are still expressions.
"""

from __future__ import annotations

from collections.abc import Iterator

from ....base.dataclass import dataclass
from ...analysis.linear import expression, is_index, linear
from ...arith.linear import LinearForm
from ...buffer import Buffer
from ...contents import require_any
from ...expr import (
    And,
    Broadcast,
    BufferLoad,
    CompareOp,
    Expr,
    IfThenElse,
    IntImm,
    Let,
    Node,
    Not,
    Or,
    Ramp,
    Select,
    Shuffle,
)
from ...ops import const, fold_binary
from ...stmt import BufferStore, Function, Stmt
from ...structural import Key
from ...visit import children, rewrite
from .store_runs import StoreRuns

__all__ = ["WIDEST_STRIDE", "active_lanes", "shared_windows", "sure_loads"]

WIDEST_STRIDE = 4
"""Beyond, most of what the vectors hold is thrown away."""


@require_any(*((BufferLoad, stride) for stride in range(2, WIDEST_STRIDE + 1)))
def shared_windows(function: Function) -> Function:
    """`function` with its interleaving strided loads through vectors that they share."""
    return function.with_body(StoreRuns(_share_loads).visit(function.body))


@dataclass(frozen=True, slots=True)
class _Strided:
    """A load of elements `at`, `at + stride` ... of its group, those whose lane is in `active` (None: all)."""

    load: BufferLoad
    base: Expr
    at: int
    stride: int
    active: frozenset[int] | None

    @property
    def lanes(self) -> int:
        return self.load.dtype.lanes

    def elements(self) -> list[int]:
        """Return the elements that it reads."""
        lanes = range(self.lanes) if self.active is None else sorted(self.active)
        return [self.at + lane * self.stride for lane in lanes]


def _share_loads(run: list[Stmt]) -> list[Stmt]:
    """Consecutive stores, with the loads in them grouped."""
    stores = [store for store in run if isinstance(store, BufferStore)]
    # a load after a store of its buffer may read what was stored; a single store loads first
    stored = {store.buffer for store in stores} if len(stores) > 1 else set[Buffer]()
    groups: dict[Key, list[_Strided]] = {}
    for store in stores:
        for load in sure_loads(store.value):
            if load.buffer not in stored:
                _enter(groups, load)
    replacements: dict[int, Expr] = {}
    for group in groups.values():
        for cluster in _clusters(group):
            # a lone load without a mask reads no further than it must
            if len(cluster) > 1 or cluster[0].active is not None:
                replacements.update(_windows(cluster))
    if not replacements:
        return run

    def rule(node: Node) -> Node | None:
        return replacements.get(id(node))

    return [rewrite(store, rule) for store in run]


def sure_loads(value: Expr) -> Iterator[BufferLoad]:
    """The loads in a value that are made whatever is chosen, and that mention nothing bound within."""
    stack: list[Node] = [value]
    while stack:
        node = stack.pop()
        if isinstance(node, BufferLoad):
            yield node
            stack += node.indices  # a table of places is read as surely
        elif isinstance(node, IfThenElse):  # a branch that is not chosen may not be read
            stack.append(node.condition)
        elif not isinstance(node, Let):
            stack += children(node)


def _enter(groups: dict[Key, list[_Strided]], load: BufferLoad) -> None:
    """Put a load to those of its buffer whose first elements are constants apart, with one stride and number of lanes."""
    index = load.indices[0] if len(load.indices) == 1 else None
    if not isinstance(index, Ramp) or not isinstance(index.stride, IntImm) or not is_index(index.base):
        return
    stride, lanes = index.stride.value, load.dtype.lanes
    # bools have no lanes of bytes to shuffle; other numbers of lanes have no cheap shuffles
    if not 2 <= stride <= WIDEST_STRIDE or lanes & (lanes - 1) or load.dtype.kind == "bool":
        return
    active = None if load.predicate is None else active_lanes(load.predicate)
    if load.predicate is not None and not active:  # a mask that the call decides could leave any lane out
        return
    form = linear(index.base)  # constant distances make one group, whatever the symbols are
    key = (load.buffer, stride, lanes, form.key)
    member = _Strided(load, expression(LinearForm(form.coeffs), index.base.dtype), form.const, stride, active)
    groups.setdefault(key, []).append(member)


def _clusters(group: list[_Strided]) -> list[list[_Strided]]:
    """The loads of a group by where they lie, those together that reach into each other, each in order."""
    clusters: list[list[_Strided]] = []
    end = 0
    for member in sorted(group, key=lambda member: member.elements()[0]):
        elements = member.elements()
        if not clusters or elements[0] > end:  # a gap between loads is not read: it might be outside of the buffer
            clusters.append([])
            end = elements[-1]
        clusters[-1].append(member)
        end = max(end, elements[-1])
    return clusters


def _windows(cluster: list[_Strided]) -> dict[int, Expr]:
    """Return the replacement of each load of a cluster, by the load's identity."""
    wanted = [element for member in cluster for element in member.elements()]
    first, last = min(wanted), max(wanted)
    replacements: dict[int, Expr] = {}
    windows: list[int] = []
    for member in cluster:
        lanes, elements = member.lanes, member.elements()
        # windows of the member before serve this one too where they hold its elements
        if not all(any(start <= element < start + lanes for start in windows) for element in elements):
            windows = _own_windows(elements, lanes, last)
        replacements[id(member.load)] = _pick_lanes(member, windows, first, last)
    return replacements


def _own_windows(elements: list[int], lanes: int, last: int) -> list[int]:
    """Return the begins of the vectors that hold a load's elements; none ends beyond `last` if there is room before it."""
    starts: list[int] = []
    for element in elements:
        if not starts or element >= starts[-1] + lanes:
            start = element
            # the last window is moved back rather than beyond the last element
            if start + lanes > last + 1 and starts and last + 1 - lanes > starts[-1]:
                start = last + 1 - lanes
            starts.append(start)
    return starts


def _pick_lanes(member: _Strided, windows: list[int], first: int, last: int) -> Expr:
    lanes = member.lanes
    used: list[int] = []
    places: list[int] = []
    for lane in range(lanes):
        element = member.at + lane * member.stride
        start = next((start for start in windows if start <= element < start + lanes), None)
        if start is None or member.active is not None and lane not in member.active:
            places.append(0)  # the lane is masked below: any element will do
            continue
        if start not in used:
            used.append(start)
        places.append(used.index(start) * lanes + element - start)
    value: Expr = Shuffle(tuple(_window(member, start, first, last) for start in used), tuple(places))
    if member.load.predicate is None:
        return value
    return Select(member.load.predicate, value, Broadcast(const(0, member.load.dtype.element), lanes))


def _window(member: _Strided, start: int, first: int, last: int) -> Expr:
    """The elements from `start` on, those from `first` to `last`."""
    lanes, dtype = member.lanes, member.base.dtype
    index = Ramp(member.base + const(start, dtype), const(1, dtype), lanes)
    if first <= start and start + lanes <= last + 1:  # a whole vector within what is read anyway needs no mask
        return BufferLoad(member.load.buffer, (index,))
    lane = Ramp(const(start, dtype), const(1, dtype), lanes)
    inside = And(lane >= Broadcast(const(first, dtype), lanes), lane <= Broadcast(const(last, dtype), lanes))
    return BufferLoad(member.load.buffer, (index,), inside)


# Constant masks


def active_lanes(predicate: Expr) -> frozenset[int] | None:
    """The lanes of a constant mask; None of one that is not known."""
    values = _lanes(predicate)
    return None if values is None else frozenset(lane for lane, value in enumerate(values) if value)


def _lanes(expr: Expr) -> list[int] | None:
    """The values of the lanes of an integer or boolean vector, if they are constants."""
    if isinstance(expr, Ramp):
        if isinstance(expr.base, IntImm) and isinstance(expr.stride, IntImm):
            return [expr.base.value + lane * expr.stride.value for lane in range(expr.lanes)]
        return None
    if isinstance(expr, Broadcast):
        return [expr.value.value] * expr.lanes if isinstance(expr.value, IntImm) else None
    if isinstance(expr, Not):
        inner = _lanes(expr.value)
        return None if inner is None else [1 - value for value in inner]
    if isinstance(expr, (And, Or, CompareOp)):
        a, b = _lanes(expr.a), _lanes(expr.b)
        if a is None or b is None:
            return None
        pairs = zip(a, b, strict=True)
        if isinstance(expr, CompareOp):
            kind, element = type(expr), expr.a.dtype.element
            folded = [fold_binary(kind, const(x, element), const(y, element)) for x, y in pairs]
            return [value.value for value in folded if isinstance(value, IntImm)] if None not in folded else None
        return [x & y if isinstance(expr, And) else x | y for x, y in pairs]
    return None
