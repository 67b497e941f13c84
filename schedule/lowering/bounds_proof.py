"""Proof that every needed iteration of a program reads and writes inside its tensors, as far as no data decides that.

Judged on the operations as they were declared, so that no schedule makes a program illegal. What is needed of an operation is
found from the outputs backwards, a box of its axes: what nobody needs may read what it likes, since it is not computed. An
index is proved to stay inside; or, its range being constant, tried out here; or tried out when the kernel is called:

    B[i] = A[i * i] for i in n       if not (n < 1 or (n - 1) * (n - 1) < m): for i in n: assert 0 <= i * i and i * i < m

The loop runs only where the ends alone do not show it. A schedule may compute more than is needed, such as what is left over of a
tile: reads of an operation that is not needed whole are guarded.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

from ...base import dataclass, field
from ...ir.analysis.access_context import LAZY, Access, convert_to_logic, depends_on_data, walk_accesses
from ...ir.analysis.bounds import symbolic_bounds
from ...ir.arith.analyzer import Analyzer
from ...ir.expr import (
    And,
    Broadcast,
    BufferLoad,
    Call,
    Expr,
    IfThenElse,
    IntImm,
    IterVar,
    Or,
    Producer,
    ProducerLoad,
    Ramp,
    Range,
    Select,
    Var,
)
from ...ir.ops import FALSE, TRUE, cast, conjunction, const, if_then_else, likely, logical_not, maximum, minimum
from ...ir.pointers import pointed_buffer
from ...ir.stmt import BufferStore, Stmt
from ...ir.visit import children, free_vars, post_order, rebuild, rewrite, walk
from ...te.operation import Operation, producers_first
from ...te.tensor import Tensor
from ..model.stage import Stage
from .bounds_check import Trial, is_proved
from .sizes import size_checks

__all__ = ["Judgement", "guard_reads", "order_evaluation", "judge"]

Box = dict[Var, Range]


@dataclass(frozen=True, slots=True)
class Judgement:
    """Result of the bounds proof.

    checks: what a call has to try out before anything else. partial: the operations that would leave their inputs if all of
    them was computed. declared: all operations that were judged. states: of their scans.
    """

    checks: tuple[Stmt, ...] = ()
    partial: frozenset[Operation] = frozenset()
    declared: frozenset[Operation] = frozenset()
    states: frozenset[Producer] = frozenset()

    def partial_now(self, stages: Sequence[Stage]) -> set[Operation]:
        """The operations, as they are scheduled, of which more may be computed than is needed, and that would read outside then:
        the partial ones, and what was cut out of them."""
        partial: set[Operation] = set()
        readers: dict[Operation, list[Operation]] = {}
        for stage in reversed(stages):
            op, declared = stage.op, stage.origin_op
            if (  # what was made of a partial operation reads where it reads
                declared in self.partial
                or declared not in self.declared
                and not partial.isdisjoint(readers.get(op, ()))
            ):
                partial.add(op)
            for tensor in op.input_tensors:
                readers.setdefault(tensor.op, []).append(op)
        return partial if self.partial else set()


def judge(outputs: Iterable[Operation]) -> Judgement:
    """The judgement on the program that computes `outputs`.

    Raises IndexOutOfRange (TW0114) where a needed iteration certainly leaves what it reads or writes.
    """
    return _judge(tuple(dict.fromkeys(outputs)))


@lru_cache(maxsize=4)  # of the schedules of one program that follow each other
def _judge(outputs: tuple[Operation, ...]) -> Judgement:
    order = [op for op in producers_first(outputs) if not op.is_given]
    doubtful = [op for op in order if _doubts(op)]
    checks = size_checks(order)
    lookups = [op for op in order if _looks_up(op)]
    if not doubtful and not lookups:  # most programs prove themselves, and need no boxes
        return Judgement(tuple(checks.values()))
    boxes = _boxes(order, outputs)
    states = frozenset[Producer](state for op in order for state in op.own_placeholders)
    for op in doubtful:
        analyzer = _analyzer(op)
        for access, dimension in _find_unproved(op, analyzer, boxes[op]):
            # the scan knows which steps there are
            if dimension == 0 and isinstance(access.node, ProducerLoad) and access.node.producer in states:
                continue  # which steps may be read is the scan's to judge
            check = Trial(op, access, dimension, analyzer).check()
            if check is not None:
                checks.setdefault(str(check), check)
    for op in lookups:
        analyzer = _analyzer(op)
        for access, dimension in _find_unconditional(op, analyzer, boxes[op]):
            check = Trial(op, access, dimension, analyzer).check()
            if check is not None:
                checks.setdefault(str(check), check)
    # an operation with a box is needed in part, so a schedule may compute more of it
    return Judgement(tuple(checks.values()), frozenset(op for op in doubtful if boxes[op]), frozenset(order), states)


def guard_reads(op: Operation, values: Sequence[Any], states: Container[Producer] = ()) -> tuple[Any, ...]:
    """`values` of an operation with a guard for each read that leaves its tensor somewhere in the operation's domain. states: of
    scans, which judge themselves which steps are read."""
    doubts = {
        id(node): [at for at in dimensions if at or node.producer not in states] for node, dimensions in _doubts(op)
    }
    if not any(doubts.values()):  # nothing in doubt: the values stay the same objects
        return tuple(values)
    found: dict[int, Any] = {}
    for original in post_order(*values):
        node = found[id(original)] = rebuild(original, [found[id(child)] for child in children(original)])
        if doubts.get(id(original)):
            places = [(node.indices[at], node.producer.shape[at]) for at in doubts[id(original)]]
            inside = conjunction(*(part for index, extent in places for part in (index >= 0, index < extent)))
            # beyond the needed part any value will do
            found[id(original)] = if_then_else(likely(inside), node, const(0, node.dtype))
    return tuple(found[id(value)] for value in values)


def order_evaluation(op: Operation, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """`values` of an operation, evaluated from left to right where the first operand of an `and` or an `or` guards a read in the
    second: both may be evaluated otherwise.

        i >= 1 and A[i - 1] > 0      →      if_then_else(i >= 1, A[i - 1] > 0, False)
    """
    late = _read_late(op)
    if not late:
        return values
    found: dict[int, Any] = {}
    reads: dict[int, bool] = {}
    for original in post_order(*values):
        below = children(original)
        node = rebuild(original, [found[id(child)] for child in below])
        reads[id(original)] = id(original) in late or any(reads[id(child)] for child in below)
        # what the first operand guards must not be read when it is false
        if isinstance(original, (And, Or)) and reads[id(original.b)]:
            node = IfThenElse(node.a, node.b, FALSE) if isinstance(original, And) else IfThenElse(node.a, TRUE, node.b)
        found[id(original)] = node
    return tuple(found[id(value)] for value in values)


# Doubts

Doubt = tuple[ProducerLoad, tuple[int, ...]]
_known_doubts: WeakKeyDictionary[Operation, tuple[Doubt, ...]] = WeakKeyDictionary()


def _doubts(op: Operation) -> tuple[Doubt, ...]:
    """The reads (of a script also the writes) that are not proved to stay inside over all of an operation's domain, and in which
    dimensions."""
    doubts = _known_doubts.get(op)  # proofs are the slow part of lowering: an operation is judged once
    if doubts is None:
        found: dict[Any, list[int]] = {}
        for access, dimension in _find_unproved(op, _analyzer(op), {}):
            found.setdefault(access.node, []).append(dimension)
        doubts = _known_doubts[op] = tuple((node, tuple(dimensions)) for node, dimensions in found.items())
    return doubts


_known_late: WeakKeyDictionary[Operation, dict[int, Expr]] = WeakKeyDictionary()


def _read_late(op: Operation) -> dict[int, Expr]:
    """The reads, by identity, that the first operand of an `and` or an `or` guards."""
    late = _known_late.get(op)
    if late is None:
        late = {}
        # without `and` and `or` nothing is guarded that way
        if any(isinstance(node, (And, Or)) for part in op.parts for node in post_order(part)):
            unproved = {id(node) for node, _ in _doubts(op)}
            for access, _ in _find_unproved(op, _analyzer(op), {}, (IfThenElse, Select)):
                if isinstance(access.node, (ProducerLoad, BufferLoad)) and id(access.node) not in unproved:
                    late[id(access.node)] = access.node
        _known_late[op] = late
    return late


def _analyzer(op: Operation) -> Analyzer:
    """Return an analyzer with the facts about the symbols: extents are not negative."""
    analyzer = Analyzer()
    for tensor in (*op.input_tensors, *op.outputs):
        for extent in tensor.shape:
            if isinstance(extent, Var):
                analyzer.bind(extent, (0, None))
    return analyzer


def _find_unproved(
    op: Operation,
    analyzer: Analyzer,
    box: Box,
    choices: tuple[type[Expr], ...] = LAZY,
) -> Iterable[tuple[Access, int]]:
    """The accesses whose place no data decides and which are not proved to stay inside, with the dimension. `analyzer` knows what
    stands around them. choices: what guards a read."""
    if not (op.takes_definitions or op.is_judged):  # outside code answers for what it touches
        return
    statement = op.statement()
    pointed = (
        {id(node.args[0]) for node in walk(statement) if isinstance(node, Call) and pointed_buffer(node)}
        if op.is_judged
        else ()
    )
    for access in walk_accesses(statement, analyzer, box, choices):
        if op.values and not isinstance(access.node, ProducerLoad):
            continue  # the element that is computed
        if id(access.node) in pointed:
            continue  # an address, which outside code answers for
        for dimension, (index, extent) in enumerate(zip(access.indices, access.shape, strict=True)):
            if (
                _is_full(index, extent, box)
                or depends_on_data(index, access.data)  # data are judged when the kernel runs, or by bounds_check
                or is_proved(analyzer, index, extent)
            ):
                continue
            # each branch of a choice is an index with a condition of its own
            for chosen, condition in [way for end in _ends_of_lanes(index) for way in _ways(end)]:
                with analyzer.constraint(condition):
                    if not is_proved(analyzer, chosen, extent):
                        yield (access if chosen is index else access.at(dimension, chosen, condition)), dimension


def _looks_up(op: Operation) -> bool:
    """Return whether an operation reads or writes at places that are data."""
    return op.takes_definitions and any(
        isinstance(node, (ProducerLoad, BufferLoad, BufferStore)) and any(map(depends_on_data, node.indices))
        for part in op.parts
        for node in walk(part)
    )


def _find_unconditional(op: Operation, analyzer: Analyzer, box: Box) -> Iterable[tuple[Access, int]]:
    """The accesses at places that are data, though no data decides that there is one, to a dimension that may have no elements:
    wherever they are meant to go, it is outside. As accesses to the first element, with the dimension."""
    for access in walk_accesses(op.statement(), analyzer, box):
        if any(  # data decide whether the access happens: then nothing certain is wrong
            around.depends_on_data
            or around.condition is not None
            and (around.condition is TRUE or depends_on_data(around.condition, access.data))
            for around in access.around
        ):
            continue
        for dimension, (index, extent) in enumerate(zip(access.indices, access.shape, strict=True)):
            if (
                depends_on_data(index, access.data)
                and not depends_on_data(extent, access.data)  # memory of the program's own, counted out by itself
                and not analyzer.can_prove(extent > 0)
            ):  # an extent that may be 0 leaves no element to look up
                yield access.at(dimension, const(0, index.dtype), TRUE), dimension


def _is_full(index: Expr, extent: Expr, box: Box) -> bool:
    """Return whether this is a loop over just that dimension, as most indices are."""
    dom = index.dom if isinstance(index, IterVar) else None
    return (
        dom is not None
        and isinstance(dom.begin, IntImm)
        and dom.begin.value == 0
        and index not in box
        and (
            dom.extent is extent
            or isinstance(dom.extent, IntImm)
            and isinstance(extent, IntImm)
            and dom.extent.value <= extent.value
        )
    )


def _ends_of_lanes(index: Expr) -> list[Expr]:
    """The first and the last of the elements that lanes access; of an index of one element itself."""
    if not isinstance(index, Ramp):
        return [index.value if isinstance(index, Broadcast) else index]
    return [index.base, index.base + index.stride * (index.lanes - 1)]


_MOST_WAYS = 8
"""Indices that are told apart in one that is made of choices."""


def _ways(index: Expr, under: Expr = TRUE, most: int = _MOST_WAYS) -> list[tuple[Expr, Expr]]:
    """Return the alternatives of an index, without its choices, each with its condition: (i - 1) % n, where i - 1 < 0 or n <= i - 1."""
    choice = next((node for node in post_order(index) if isinstance(node, (IfThenElse, Select))), None)
    if choice is None or most == 1:  # splitting choices further would double the cases
        return [(index, under)]
    condition = convert_to_logic(choice.condition)
    ways: list[tuple[Expr, Expr]] = []
    for arm, holds in ((choice.true_value, condition), (choice.false_value, logical_not(condition))):
        chosen = rewrite(index, lambda node, arm=arm: arm if node is choice else None)
        ways += _ways(chosen, conjunction(under, holds), most // 2)
    return ways


# What is needed


@dataclass(slots=True)
class _Need:
    """Needed part of an operation: for each axis the first and the last value; absent: nothing is known to be left out."""

    ends: dict[Var, tuple[Expr, Expr]] = field(default_factory=dict[Var, tuple[Expr, Expr]])
    whole: set[Var] = field(default_factory=set[Var])


def _boxes(order: Sequence[Operation], outputs: Sequence[Operation]) -> dict[Operation, Box]:
    """The values that each axis has to take, where those may be fewer than all. order: producers first."""
    needs: dict[Operation, _Need] = {op: _Need() for op in order}
    boxes: dict[Operation, Box] = {}
    for op in outputs:
        needs[op].whole.update(axis for axis in op.axis)  # an output is wanted whole
    for op in reversed(order):  # readers before what they read
        analyzer = _analyzer(op)
        box = boxes[op] = _box(op, needs[op], analyzer)
        if not op.takes_definitions:
            for tensor, ends in op.input_parts:
                _note(needs, tensor, ends, analyzer)
        else:
            for access in walk_accesses(op.statement(), analyzer, box):
                tensor = access.node.producer if isinstance(access.node, ProducerLoad) else None
                if isinstance(tensor, Tensor) and tensor.op in needs:
                    _note(needs, tensor, [_ends(access, index, analyzer) for index in access.indices], analyzer)
    return boxes


def _ends(access: Access, index: Expr, analyzer: Analyzer) -> tuple[Expr, Expr] | None:
    """The first and the last value of an index; None where nothing is known."""
    if depends_on_data(index, access.data):
        return None
    loops = {around.var for around in access.around if around.var is not None}
    known = analyzer.interval(index)
    low, high = symbolic_bounds(analyzer, index, loops)
    # the interval may be sharper than the symbolic bound, or the other way
    if known.lo is not None and not (isinstance(low, IntImm) and low.value > known.lo):
        low = const(known.lo, index.dtype) if low is None or isinstance(low, IntImm) else low
    if known.hi is not None and not (isinstance(high, IntImm) and high.value < known.hi):
        high = const(known.hi, index.dtype) if high is None or isinstance(high, IntImm) else high
    # a bound that speaks of loops inside is no bound outside
    if low is None or high is None or not loops.isdisjoint((*free_vars(low), *free_vars(high))):
        return None
    return low, high


def _note(
    needs: Mapping[Operation, _Need], tensor: Tensor, read: Sequence[tuple[Expr, Expr] | None], analyzer: Analyzer
) -> None:
    """Take in that a part of a tensor is read: of each dimension the first and the last index."""
    need = needs.get(tensor.op)
    if need is None:
        return
    for axis, ends in zip(tensor.op.dimensions[tensor.value_index], read, strict=True):
        if ends is None:
            need.whole.add(axis)
        elif axis not in need.ends:
            need.ends[axis] = ends
        else:
            low, high = need.ends[axis]
            need.ends[axis] = (
                low
                if analyzer.can_prove(low <= ends[0])
                else ends[0]
                if analyzer.can_prove(ends[0] <= low)
                else minimum(low, ends[0]),
                high
                if analyzer.can_prove(high >= ends[1])
                else ends[1]
                if analyzer.can_prove(ends[1] >= high)
                else maximum(high, ends[1]),
            )


def _box(op: Operation, need: _Need, analyzer: Analyzer) -> Box:
    """Return the box of an operation, computed element by element, that is needed, within its domain."""
    box: Box = {}
    for axis in op.axis if op.values else ():
        dom = axis.dom
        if dom is None or axis in need.whole or axis not in need.ends:  # needed whole: no box is needed
            continue
        low, high = (cast(end, axis.dtype) for end in need.ends[axis])
        begins, ends = analyzer.can_prove(low <= dom.begin), analyzer.can_prove(high >= dom.begin + dom.extent - 1)
        if begins and ends:  # the box is the domain: nothing is left out
            continue
        low = dom.begin if begins else low if analyzer.can_prove(low >= dom.begin) else maximum(low, dom.begin)
        last = dom.begin + dom.extent - 1
        high = last if ends else high if analyzer.can_prove(high <= last) else minimum(high, last)
        box[axis] = Range(low, analyzer.simplify(high - low + 1))
    return box
