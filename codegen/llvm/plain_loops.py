"""Loops left scalar by a schedule that LLVM shall vectorize, and the number of lanes.

    for i in n:                                  for i in n:
        B[i] = A[i] * 2.0 + 1.0                      B[A[i]] = B[2 * i]
    plain: a register of lanes                   not plain: stays as it is

LLVM's own choice of a width compares two models of cost, and where they disagree a build of LLVM with assertions, such
as llvmlite's, ends the process. With one width given there is nothing to compare; loops that are not plain are closed to
its vectorizer, which would gather and scatter in them at best.

Where iterations touch no element of each other, though a buffer is stored to at one place and read at others, LLVM is told so: it
sees less of what indices may be, and would compare addresses.

    for j in n - k:
        a[i, k + 1 + j] = a[i, k + 1 + j] - a[i, k] * a[k, k + 1 + j]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...ir.analysis.dependence import Iterations, Meets
from ...ir.analysis.linear import linear, occurs
from ...ir.arith.interval import Interval
from ...ir.buffer import Buffer
from ...ir.expr import (
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryOp,
    BufferLoad,
    Call,
    Expr,
    IfThenElse,
    Let,
    Max,
    Min,
    Mul,
    Node,
    Range,
    Select,
    Sub,
    Var,
)
from ...ir.ops import const
from ...ir.passes.cpu.lane_races import lanes_are_independent
from ...ir.stmt import Allocate, Assert, BufferStore, Evaluate, For, If, LetStmt, While
from ...ir.structural import equal
from ...ir.visit import children, free_vars, post_order, walk

__all__ = ["are_independent", "plain_lanes"]

_NOT_PLAIN = (For, While, If, Allocate, Assert, Evaluate, IfThenElse, Let)
_OUTSIDE_CODE = (
    "call_extern",
    "call_pure_extern",
    "call_llvm_intrinsic",
    "access_ptr",
    "call_packed",
    "trace",
    "atomic_add",
)


def plain_lanes(loop: For, vector_bits: int, reassociates: bool, independent: Callable[[], bool]) -> int:
    """The lanes in which LLVM shall run `loop`, of stage "final"; 0 where it is not plain. reassociates: whether sums of floats may be
    added in another order. independent: whether its iterations touch no elements that others store to, asked where that is not seen at
    once.

    Plain are innermost loops without branches over scalars whose accesses are to neighbours or stay where they are, loads backwards
    too, and which read what they write in the same iteration only, or gather it in a way that LLVM knows: it tells the terminal of a
    loop that it was given a width for and cannot turn into vectors. A sum of floats is plain where it may be reassociated: a width,
    given, allows LLVM to do so. What it adds up may lie apart, since one addition waits longer for another than for an element.
    """
    if any(isinstance(node, _NOT_PLAIN) or isinstance(node, Expr) and node.dtype.lanes > 1 for node in walk(loop.body)):
        return 0  # at the first loop within: a deep nest is not walked once for each of its loops
    nodes = list(post_order(loop.body))
    if any(isinstance(node, Call) and node.name in _OUTSIDE_CODE for node in nodes):
        return 0
    accesses = [node for node in nodes if isinstance(node, (BufferLoad, BufferStore))]
    stored = {node.buffer: node.indices for node in accesses if isinstance(node, BufferStore)}
    iteration = Iterations(None, {}, constant={node.buffer for node in accesses} - stored.keys())
    elsewhere = False
    for access in accesses:
        index = access.indices[0]
        stride = _stride(index, loop.var)
        is_store = isinstance(access, BufferStore)
        if (
            access.predicate is not None
            or stride is None
            or stride not in (0, 1)
            and (is_store or stride != -1 and not reassociates)
        ):
            return 0
        # each sum of narrow floats is rounded: none that LLVM knows
        reassociable = reassociates and access.buffer.dtype.bits >= 32
        if is_store and stride == 0 and access.buffer.dtype.is_float and not reassociable:
            return 0
        if (
            access.buffer in stored
            and iteration.between(stored[access.buffer], access.indices).meets is not Meets.ALWAYS
        ):
            elsewhere = True
    if elsewhere and not independent():
        return 0
    if not _Recurrences(nodes, loop.var).known:
        return 0
    widest = max((access.buffer.dtype.bits for access in accesses), default=0)
    return max(vector_bits // max(widest, 8), 2) if widest else 0


def are_independent(loop: For, bounds: Callable[[Expr], Interval]) -> bool:
    """Return whether iterations of a loop of stage "final" store side by side, to elements that no other one touches. bounds: of what is
    known outside of the loop."""
    accesses = [node for node in walk(loop.body) if isinstance(node, BufferLoad | BufferStore)]
    if any(isinstance(node, BufferStore) and _stride(node.indices[0], loop.var) != 1 for node in accesses):
        return False
    used = {var for node in accesses for var in free_vars(node.indices[0])} | {*free_vars(loop.extent)}
    known = {var: bounds(var) for var in used if var is not loop.var}
    around = {
        var: Range(const(each.lo, var.dtype), const(each.hi - each.lo + 1, var.dtype))
        for var, each in known.items()
        if each.lo is not None and each.hi is not None
    }
    return lanes_are_independent(loop, around)


class _Recurrences:
    """Values that a loop accumulates at places that do not move, such as a sum. known: LLVM has a name for each of them; for none
    of which the steps on the way are stored too, as those of a running sum are."""

    def __init__(self, nodes: Sequence[Node], var: Var) -> None:
        self.values = {node.var: node.value for node in nodes if isinstance(node, LetStmt)}
        stores = [node for node in nodes if isinstance(node, BufferStore) and _stride(node.indices[0], var) == 0]
        loaded = {node.buffer for node in nodes if isinstance(node, BufferLoad)}
        self.carried = {store.buffer for store in stores} & loaded
        self._depends: dict[int, bool] = {}
        shown = any(
            isinstance(node, BufferStore)
            and node.buffer not in self.carried
            and any(map(self._looks_back, (node.value, *node.indices)))
            for node in nodes
        )
        kinds = {
            (store.buffer, self._kind(store.value, store.buffer)) for store in stores if store.buffer in self.carried
        }
        self.known = not shown and len(kinds) == len(self.carried) and all(kind for _, kind in kinds)

    def _kind(self, value: Expr, buffer: Buffer) -> str:
        """Return the kind of recurrence by which `value` follows from the content of `buffer`:

        "start" where it is just that, "" where LLVM has no name for it.
        """
        value = self._resolve(value)
        if isinstance(value, BufferLoad):
            return "start" if value.buffer is buffer else ""
        if isinstance(value, Select):
            return self._find_select_kind(value, buffer)
        if isinstance(value, Call) and value.name in _BITS:
            name, (a, b) = value.name, value.args
        elif isinstance(value, BinaryOp) and type(value) in _JOINS:
            name, a, b = _JOINS[type(value)], value.a, value.b
        else:
            return ""
        if self._looks_back(a) == self._looks_back(b) or isinstance(value, Sub) and self._looks_back(b):
            return ""
        return name if self._kind(a if self._looks_back(a) else b, buffer) in ("start", name) else ""

    def _find_select_kind(self, value: Select, buffer: Buffer) -> str:
        """Find the kind of a select: the greater or smaller one, or another step where a condition of this iteration holds."""
        kinds = self._kind(value.true_value, buffer), self._kind(value.false_value, buffer)
        if not self._looks_back(value.condition):
            step = kinds[0] if kinds[1] == "start" else kinds[1] if kinds[0] == "start" else ""
            return step if step != "start" else ""
        condition = self._resolve(value.condition)
        if not isinstance(condition, (LT, LE, GT, GE)) or "start" not in kinds:
            return ""
        other = self._resolve(value.false_value if kinds[0] == "start" else value.true_value)
        ends = [self._kind(end, buffer) == "start" for end in (condition.a, condition.b)]
        compared = self._resolve(condition.b if ends[0] else condition.a)
        return "extreme" if any(ends) and not self._looks_back(other) and equal(compared, other) else ""

    def _resolve(self, value: Expr) -> Expr:
        while isinstance(value, Var) and value in self.values:
            value = self.values[value]
        return value

    def _looks_back(self, value: Expr) -> bool:
        """Return whether it depends on what earlier iterations stored."""
        for node in post_order(value, done=self._depends):
            self._depends[id(node)] = (
                isinstance(node, BufferLoad)
                and node.buffer in self.carried
                or isinstance(node, Var)
                and node in self.values
                and self._looks_back(self.values[node])
                or any(self._depends[id(child)] for child in children(node))
            )
        return self._depends[id(value)]


_JOINS: dict[type[Expr], str] = {Add: "sum", Sub: "sum", Mul: "product", Min: "min", Max: "max", And: "all", NE: "odd"}
_BITS = ("bitwise_and", "bitwise_or", "bitwise_xor")
"""What gathers. An "or" of bools is none of LLVM's."""


def _stride(index: Expr, var: Var) -> int | None:
    """Return the distance in the buffer between the elements of neighbouring iterations; None where that varies."""
    form = linear(index)
    return None if occurs(var, form) else form.coefficient(var)
