"""Bound inference: which part of every operation is computed, and the ranges and values of all its axes.

Consumers come first. The region of a producer is, for every consumer, what the consumer reads while the loops inside the
attach point take their full range and the loops at or outside it stay at one point, thread-bound loops following the
scope of the producer's storage; the union over the consumers is boxed. Region and loops of one stage are then related
by the relations of its axes, as in TVM's InferBound: ranges pass down from the root axes to the leaves, values and spans
pass up.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ...ir.accesses import reads_memory
from ...ir.analysis.regions import Span, SpanEvaluator, union
from ...ir.arith.analyzer import Analyzer
from ...ir.expr import Expr, FloorDiv, FloorMod, IfThenElse, IntImm, IterVar, Max, Min, Range, Select, Var
from ...ir.ops import all_of, cast, const, floordiv, floormod, if_then_else, is_const, maximum
from ...ir.visit import post_order, substitute
from ...te.operation import Operation
from ...te.tensor import Tensor
from ..model.attributes import IterAttr
from ..model.relations import Fuse, Rebase, Relation, Split, pass_down_range, pass_up_value, shifted, spread_down, spread_up
from ..model.stage import Stage
from .computation import Computation, Dataflow

__all__ = ["Bounds", "Loop", "StageBounds", "default_scope", "infer_bounds", "plain_loop",
           "span_over", "spans_within", "thread_rank"]

_SCOPE_RANK = {"global": 0, "shared": 1, "warp": 2, "local": 3}


@dataclass(frozen=True, slots=True, eq=False)
class Loop:
    """One leaf axis as a loop from 0. value: of the axis, which is `var`, or 0 where the loop has vanished (var None)."""

    axis: IterVar
    stage: Stage
    extent: Expr
    attr: IterAttr
    var: Var | None
    value: Expr

    @property
    def thread(self) -> str:
        """The tag of the thread axis that it is bound to; empty for none."""
        return self.attr.bind_thread.thread_tag if self.attr.bind_thread is not None else ""


def _no_conditions(_: dict[IterVar, Expr]) -> list[Expr]:
    return []


@dataclass(slots=True, eq=False)
class StageBounds:
    """What is known of one computation.

    ranges: of every axis, in terms of loop variables around and of its own. offsets: every axis counted from the begin of
    its range, in terms of the own loop variables. loops: the leaves in order; enclosing: the loops around, outermost
    first. scope: of the storage. storage: its extent in each dimension, which bounds that of the region for the life of it.
    marks: 1 on what derives from data axes, 2 on what derives from reduce axes, 3 on both.
    """

    computation: Computation
    ranges: dict[IterVar, Range]
    offsets: dict[IterVar, Expr]
    loops: tuple[Loop, ...]
    enclosing: tuple[Loop, ...]
    scope: str
    storage: dict[IterVar, Expr]
    marks: dict[IterVar, int]
    domains: dict[IterVar, Range] = field(default_factory=dict[IterVar, Range])
    """The declared domain of each root axis, in terms of loop variables."""
    parts: dict[IterVar, Range] = field(default_factory=dict[IterVar, Range])
    """What is needed of a dimension at most, where that may be less than what its loops run over: the states of a recurrence hold
    no more."""
    circular: dict[IterVar, IterVar] = field(default_factory=dict[IterVar, IterVar])
    """The dimensions whose region goes around: what their loops run over are positions on a line, whose remainders by the extent
    are the axis; and what stands for the position."""
    positions: dict[tuple[IterVar, Expr], Expr] = field(default_factory=dict[tuple[IterVar, Expr], Expr])
    """Where it reads a circular dimension of another one at an index: the position that this is of."""
    fresh: Callable[[dict[IterVar, Expr]], list[Expr]] = _no_conditions
    """The conditions, given offsets, that hold of the elements that no iteration before has computed."""

    def storage_shape(self, tensor: Tensor) -> tuple[Expr, ...]:
        """The shape of the storage of one of the outputs."""
        return tuple(self.storage[axis] for axis in self.computation.op.dimensions[tensor.value_index])

    @property
    def values(self) -> dict[IterVar, Expr]:
        """The value of every axis, in terms of loop variables."""
        return {axis: self.value(axis, offset) for axis, offset in self.offsets.items()}

    def value(self, axis: IterVar, offset: Expr) -> Expr:
        """The value of an axis that is so far from the begin of its range."""
        position = shifted(offset, self.ranges[axis], axis)
        if axis not in self.circular:
            return position
        extent = cast(self.domains[axis].extent, axis.dtype)
        return if_then_else(all_of(position >= 0, position < extent), position, floormod(position, extent))

    @property
    def from_zero(self) -> dict[IterVar, Range]:
        """The ranges of all axes, moved to begin at 0."""
        return {axis: Range(const(0, within.begin.dtype), within.extent) for axis, within in self.ranges.items()}

    @property
    def first_reduce_loop(self) -> int:
        """The index of the first loop related to a reduce axis; the number of loops where there is none."""
        return next((at for at, loop in enumerate(self.loops) if self.marks.get(loop.axis, 0) & 2), len(self.loops))


@dataclass(slots=True, eq=False)
class Bounds:
    """The bounds of every computation. analyzer: knows the range of every loop variable."""

    dataflow: Dataflow
    analyzer: Analyzer
    of: dict[Computation, StageBounds]


def thread_rank(tag: str) -> int:
    """How wide a thread axis is: 0 for blocks, 1 for threads within a block (and virtual ones)."""
    return 0 if tag.startswith("blockIdx") else 1


def default_scope(enclosing: Iterable[Loop]) -> str:
    """Without threads around global, under blocks shared, under threads local."""
    rank = max((thread_rank(loop.thread) for loop in enclosing if loop.thread), default=-1)
    return ("global", "shared", "local")[rank + 1]


def infer_bounds(dataflow: Dataflow, analyzer: Analyzer) -> Bounds:
    """The bounds of everything that is computed. `analyzer` learns the range of every loop variable."""
    bounds = Bounds(dataflow, analyzer, {})
    for computation in reversed(dataflow.computations):
        parent = computation.parent
        enclosing: tuple[Loop, ...] = ()
        if parent is not None:
            outer = bounds.of[parent]
            enclosing = outer.enclosing + outer.loops[: computation.place + 1]
        home = computation.home
        scope = bounds.of[home].scope if home is not None else computation.stage.scope or default_scope(enclosing)
        region, circular = _region(bounds, computation, enclosing, scope)
        stage_bounds = bounds.of[computation] = _stage_bounds(computation, region, circular, enclosing, scope, analyzer)
        stage_bounds.parts = {axis: bounds.of[scan].ranges[dim] for axis, (scan, dim) in computation.parts.items()
                       if _inside(computation, scan)}
    return bounds


def _inside(computation: Computation, scan: Computation) -> bool:
    """Whether it is computed in a step of the scan."""
    while computation.parent is not None and computation.parent is not scan:
        computation = computation.parent
    return computation.parent is scan


# The region of a producer


def _region(
    bounds: Bounds, computation: Computation, enclosing: tuple[Loop, ...], scope: str,
) -> tuple[dict[IterVar, Range], set[IterVar]]:
    """The part of each dimension that is computed, and the dimensions of which that is a range of positions."""
    axes = dict.fromkeys(axis for dimensions in computation.op.dimensions for axis in dimensions)
    declared = {axis: axis.dom for axis in axes if axis.dom is not None}
    consumers = bounds.dataflow.consumers.get(computation.op, [])
    if computation.is_output or not consumers or computation.whole or (not enclosing and computation.stage.is_tensorized):
        return declared, set()  # an intrinsic does all of its work or none: what is padded for it is computed whole
    unknown: set[IterVar] = set()
    wrapped: set[IterVar] = set()
    spans: dict[IterVar, list[Span]] = {axis: [] for axis in axes}
    turns = _may_turn(computation, enclosing) and all(map(_has_elements, consumers))
    for consumer in consumers:
        for axis, span, wraps in _read_by(bounds, computation, consumer, enclosing, scope, turns):
            wrapped.update([axis] if wraps else ())
            if span is None:
                unknown.add(axis)
            else:
                spans[axis].append(span)
    region = declared
    for together in computation.linked:  # these are computed over one range
        spans_read = [span for axis in together for span in spans[axis]]
        spans.update((axis, spans_read) for axis in together)
        if not unknown.isdisjoint(together):
            unknown.update(together)
    circular: set[IterVar] = set()
    whole: Container[IterVar] = computation.op.whole_axes if computation.op.calls_intrinsic else _filled(computation.stage)
    if computation.linked:
        whole = {*axes}.difference(*computation.linked)
    for axis, spans_read in spans.items():
        if spans_read and axis not in unknown and axis not in whole:
            within = _boxed(union(spans_read, bounds.analyzer), declared[axis], axis, enclosing, bounds.analyzer)
            leaves = axis in wrapped and not _lies_in(within, declared[axis], bounds.analyzer)
            if leaves and not isinstance(within.extent, IntImm):
                continue
            region[axis] = within
            circular.update([axis] if leaves else ())
    for axis, scan in computation.held.items():
        region[axis] = Range(cast(bounds.of[scan].values[scan.op.axis[0]], axis.dtype), const(1, axis.dtype))
    return region, circular


def _has_elements(computation: Computation) -> bool:
    """Whether it is an expression for each element that is computed by loops."""
    stage = computation.stage
    return bool(computation.op.values) and not any(stage.attr(axis).kind == "tensorized" for axis in stage.leaf_iter_vars)


def _may_turn(computation: Computation, enclosing: tuple[Loop, ...]) -> bool:
    """Whether dimensions of a computation may be circular."""
    return bool(enclosing) and _has_elements(computation) and not (
        computation.linked or computation.held or computation.parts or computation.free or computation.home is not None)


def _lies_in(within: Range, domain: Range, analyzer: Analyzer) -> bool:
    """Whether a range is a part of a domain."""
    return within is domain or analyzer.can_prove(within.begin >= domain.begin) and analyzer.can_prove(
        within.begin + within.extent <= domain.begin + domain.extent)


def _filled(stage: Stage) -> set[IterVar]:
    """The axes that a tensor intrinsic runs along from end to end: it does all of its work, however little of it is read."""
    place = next((at for at, axis in enumerate(stage.leaf_iter_vars) if stage.attr(axis).kind == "tensorized"), None)
    intrinsic = stage.attr(stage.leaf_iter_vars[place]).intrinsic if place is not None else None
    if intrinsic is None:
        return set()
    counted = {relation.rebased: relation.parent for relation in stage.relations if isinstance(relation, Rebase)}
    mine = [axis for leaf in stage.leaf_iter_vars[place:] if (axis := counted.get(leaf, leaf)) in stage.op.axis]
    pairs = zip(reversed(mine), reversed(intrinsic.op.axis), strict=False)
    return {axis for axis, its in pairs if axis.dom is not None and its.dom is not None
            and isinstance(axis.dom.extent, IntImm) and isinstance(its.dom.extent, IntImm)
            and axis.dom.extent.value == its.dom.extent.value}


def _boxed(span: Span, domain: Range, axis: IterVar, enclosing: tuple[Loop, ...], analyzer: Analyzer) -> Range:
    """A span as the range that is computed: with a constant extent where one bounds it, and never larger than the domain."""
    low = cast(span.low, axis.dtype)
    extent = analyzer.simplify(cast(span.high, axis.dtype) - low + 1)
    if not isinstance(extent, IntImm) and span.width is not None and not _is_plain(extent) and not (
            enclosing and _triangular(domain, low, extent, span.width)):
        if span.width > axis.dtype.greatest:  # of an index by a 64-bit symbol, into a dimension that counts in 32
            return domain
        extent = const(span.width, axis.dtype)
    if isinstance(extent, IntImm) and extent.value < 0:
        extent = const(0, axis.dtype)
    low = analyzer.simplify(low)
    if _never_less(extent, domain.extent, analyzer) or (not enclosing and not (_is_plain(low) and _is_plain(extent))):
        return domain  # reads stay within the domain, so it always holds the region
    if not isinstance(extent, IntImm) and _greatest(extent, enclosing, analyzer) is None:
        return domain
    return Range(low, extent)


def _triangular(domain: Range, low: Expr, extent: Expr, width: int) -> bool:
    """Whether a region from the domain's begin on has an extent that changes, up to all of the domain, as it is for the
    triangular loops of tiles: i * 32 + 32, min(i * 32 + 32, n). Its greatest value would stand for the domain each time."""
    if not is_const(domain.begin, 0) or not is_const(low, 0) or any(isinstance(node, Max) for node in post_order(extent)):
        return False
    whole = domain.extent
    if isinstance(whole, IntImm):
        return width >= whole.value
    return isinstance(extent, Min) and (extent.a is whole or extent.b is whole)


def _is_plain(extent: Expr) -> bool:
    """Whether an extent is a sum, as of a triangular loop, which is better kept than replaced by its greatest value."""
    return not any(isinstance(node, (Min, Max, FloorDiv, FloorMod)) for node in post_order(extent))


def _never_less(a: Expr, b: Expr, analyzer: Analyzer) -> bool:
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        return a.value >= b.value
    return analyzer.can_prove(a >= b)


def _read_by(
    bounds: Bounds, computation: Computation, consumer: Computation, enclosing: tuple[Loop, ...], scope: str, turns: bool,
) -> list[tuple[IterVar, Span | None, bool]]:
    """What `consumer` reads of each dimension, in terms of the loops around the computation, and whether that is a span of
    positions, as it may be where the dimension `turns`."""
    reader = bounds.of[consumer]
    around = len(enclosing)
    relaxed = [loop for at, loop in enumerate(reader.enclosing + reader.loops)
               if loop.var is not None and (at >= around or _shared_over(loop, scope))]
    every = _spans(reader, {loop.axis for loop in relaxed}, bounds.analyzer)
    spans = _of_roots(reader, every, bounds.analyzer)
    known: dict[Var, Span | None] = {axis: span for axis, span in (every | spans).items() if span is not None}
    evaluate = SpanEvaluator(known, bounds.analyzer)
    unknown = {axis for axis, span in spans.items() if span is None}
    reads: dict[IterVar, list[Expr]] = {}
    for tensor, dimensions in zip(computation.op.outputs, computation.op.dimensions, strict=True):
        for indices in consumer.reads.get(tensor, ()):
            for axis, index in zip(dimensions, indices, strict=True):
                reads.setdefault(axis, []).append(index)
    result: list[tuple[IterVar, Span | None, bool]] = []
    for axis, indices in reads.items():
        span: Span | None = None
        wraps = False
        nodes = list(post_order(*indices))
        if unknown.isdisjoint(node for node in nodes if isinstance(node, IterVar)):
            extent = axis.dom.extent if axis.dom is not None else None
            if extent is not None and any(
                    isinstance(node, _BROUGHT_IN) or node in reader.circular for node in nodes):
                within = SpanEvaluator(known, _while_reading(reader, spans, extent, bounds.analyzer))
                positions = within.positions(indices, extent, _remainders(reader)) if turns else None
                if positions is not None:
                    wraps = True
                    reader.positions.update(((axis, index), at) for index, at in zip(indices, positions, strict=True))
                    indices = positions
                span = within.hull([_of_fused(reader, index, every, bounds.analyzer) for index in indices], extent)
            else:
                parts = [evaluate(_of_fused(reader, index, every, bounds.analyzer)) for index in indices]
                spans_read = [part for part in parts if part is not None]
                span = union(spans_read, bounds.analyzer) if len(spans_read) == len(parts) else None
        result.append((axis, None if span is None else _relaxed(span, relaxed, bounds.analyzer), wraps))
    return result


_BROUGHT_IN = (Min, Max, Select, IfThenElse, FloorMod)
"""What may bring an index into its dimension."""


def _remainders(reader: StageBounds) -> dict[Var, Expr]:
    """The circular axes of a reader by what stands for their positions."""
    return {axis: floormod(position, cast(reader.domains[axis].extent, axis.dtype)) for axis, position in reader.circular.items()}


def _while_reading(reader: StageBounds, spans: Mapping[IterVar, Span | None], extent: Expr, analyzer: Analyzer) -> Analyzer:
    """An analyzer that knows what holds where anything is read of a dimension of this extent: it has elements, and the data axes
    of the reader are within their domains. So a clamp that only the iterations beyond those need is none."""
    within = analyzer.copy()
    extents = [extent]
    for axis in reader.computation.op.axis:
        span, domain = spans.get(axis), reader.domains[axis]
        if span is not None and axis not in reader.circular and not reads_memory(domain.extent):
            extents.append(domain.extent)
            if not (isinstance(span.low, IntImm) and isinstance(domain.extent, IntImm)):
                within.learn(cast(span.low, axis.dtype) <= domain.begin + domain.extent - 1)
    for each in extents:
        if not isinstance(each, IntImm):
            within.learn(each >= 1)
    return within


def span_over(reader: StageBounds, index: Expr, analyzer: Analyzer) -> Span | None:
    """What an index takes over all loops of its stage, in terms of the loops around; None where that is not known."""
    relaxed = [loop for loop in reader.loops if loop.var is not None]
    spans = _root_spans(reader, {loop.axis for loop in relaxed}, analyzer)
    if any(node in spans and spans[node] is None for node in post_order(index) if isinstance(node, IterVar)):
        return None
    span = SpanEvaluator({axis: span for axis, span in spans.items() if span is not None}, analyzer)(index)
    return None if span is None else _relaxed(span, relaxed, analyzer)


def spans_within(
    reader: StageBounds, loop: Loop, reads: Iterable[tuple[Expr, ...]], analyzer: Analyzer,
) -> list[Span | None]:
    """What one iteration of `loop`, one of the reader's own, reads of each dimension of a tensor, given the indices at which
    it is read (none: an empty list); None where that is not known."""
    inside = reader.loops[reader.loops.index(loop) + 1 :]
    relaxed = [other for other in inside if other.var is not None]
    spans = _root_spans(reader, {other.axis for other in relaxed}, analyzer)
    evaluate = SpanEvaluator({axis: span for axis, span in spans.items() if span is not None}, analyzer)
    unknown = {axis for axis, span in spans.items() if span is None}
    result: list[Span | None] = []
    for indices in zip(*reads, strict=True):
        parts = [None if any(node in unknown for node in post_order(index)) else evaluate(index) for index in indices]
        known = [part for part in parts if part is not None]
        result.append(_relaxed(union(known, analyzer), relaxed, analyzer) if len(known) == len(parts) else None)
    return result


def _shared_over(loop: Loop, scope: str) -> bool:
    """Whether all iterations of a thread-bound loop share storage of this scope."""
    if not loop.thread:
        return False
    if scope == "warp" and loop.thread == "threadIdx.x":
        return True
    return _SCOPE_RANK.get(scope, 3) <= thread_rank(loop.thread)


def _relaxed(span: Span, loops: Sequence[Loop], analyzer: Analyzer) -> Span | None:
    """A span over all iterations of `loops` (outermost first), whose ranges may depend on loops further out; None where
    it is not known."""
    for loop in reversed(loops):
        if not any(node is loop.var for end in (span.low, span.high) for node in post_order(end)):
            continue
        assert loop.var is not None
        evaluate = SpanEvaluator({loop.var: Span.of(const(0, loop.var.dtype), loop.extent)}, analyzer)
        low, high = evaluate(span.low), evaluate(span.high)
        if low is None or high is None:
            return None
        # Every member is some low end plus less than the width that the span had.
        width = low.width + span.width - 1 if low.width is not None and span.width is not None else None
        span = Span(low.low, high.high, width)
    return span


def _of_fused(reader: StageBounds, index: Expr, spans: Mapping[IterVar, Span | None], analyzer: Analyzer) -> Expr:
    """An index of several axes that were fused, i * (extent of j) + j, as one of the loop over both: what part of that loop
    reads is less than the parts of i and of j together hold. Any other index stays."""
    if isinstance(index, (IntImm, Var)):
        return index
    axes = {node for node in post_order(index) if isinstance(node, IterVar)}
    for relation in reader.computation.stage.relations:
        if not isinstance(relation, Fuse) or not axes.issuperset(relation.parents) or spans.get(relation.fused) is None:
            continue
        values = relation.values_up({relation.fused: relation.fused}, reader.ranges)
        fused = analyzer.simplify(substitute(index, {**values}))
        nodes = list(post_order(fused))
        if not any(isinstance(node, (FloorDiv, FloorMod)) and relation.fused in post_order(node) for node in nodes):
            index, axes = fused, {node for node in nodes if isinstance(node, IterVar)}
    return index


def _root_spans(reader: StageBounds, relaxed: set[IterVar], analyzer: Analyzer) -> dict[IterVar, Span | None]:
    """What each axis of a stage takes while its loops in `relaxed` run and the others stand still; None: not known."""
    return _of_roots(reader, _spans(reader, relaxed, analyzer), analyzer)


def _of_roots(reader: StageBounds, spans: Mapping[IterVar, Span | None], analyzer: Analyzer) -> dict[IterVar, Span | None]:
    """The spans of the root axes, as values; where these are circular, of their positions too."""
    roots = {axis: _shifted_span(spans.get(axis), reader.ranges[axis], axis) for axis in reader.domains}
    for axis, position in reader.circular.items():
        extent = cast(reader.domains[axis].extent, axis.dtype)
        roots[position] = roots[axis]
        with analyzer.constraint(extent >= 1):
            roots[axis] = SpanEvaluator({position: roots[axis]}, analyzer)(floormod(position, extent))
    return roots


def _spans(reader: StageBounds, relaxed: set[IterVar], analyzer: Analyzer) -> dict[IterVar, Span | None]:
    """Of every axis, counted from the begin of its range."""
    spans: dict[IterVar, Span | None] = {
        axis: Span.of(const(0, axis.dtype), reader.ranges[axis].extent) for axis in reader.computation.free}
    full: set[IterVar] = set()
    for loop in reader.loops:
        if loop.axis in relaxed or loop.var is None:
            full.add(loop.axis)
            spans[loop.axis] = None if reads_memory(loop.extent) else Span.of(const(0, loop.axis.dtype), loop.extent)
        else:
            spans[loop.axis] = Span.point(loop.value)
    for relation in reversed(reader.computation.stage.relations):
        if not all(child in spans for child in relation.children):
            continue
        whole = all(child in full for child in relation.children)
        parts = [spans.get(axis) for axis in (*relation.children, *relation.uses)]
        for parent in relation.parents:
            within = reader.ranges[parent]
            if whole:
                full.add(parent)
                spans[parent] = None if reads_memory(within.extent) else Span.of(const(0, parent.dtype), within.extent)
            elif any(part is None for part in parts):
                spans[parent] = None
            else:
                spans[parent] = _passed_up(relation, parent, [part for part in parts if part is not None], reader, analyzer)
    return spans


def _passed_up(
    relation: Relation, parent: IterVar, parts: list[Span], reader: StageBounds, analyzer: Analyzer,
) -> Span | None:
    """The span of an axis, counted from the begin of its range, from those of the axes that a relation made of it."""
    if isinstance(relation, Split):
        outer, inner = parts
        extent = reader.ranges[relation.inner].extent
        if outer.is_point and inner.is_point:
            return Span.point(outer.low * extent + inner.low)
        width = None
        if isinstance(extent, IntImm) and outer.width is not None and inner.width is not None:
            width = (outer.width - 1) * extent.value + inner.width
        return Span(outer.low * extent + inner.low, outer.high * extent + inner.high, width)
    if isinstance(relation, Fuse):
        extent = reader.ranges[relation.inner].extent
        fused = Var("fused", relation.fused.dtype)
        span = SpanEvaluator({fused: parts[0]}, analyzer)((floordiv if parent is relation.outer else floormod)(fused, extent))
        if span is None:
            return None
        low = cast(span.low, parent.dtype)
        return Span.point(low) if span.is_point else Span(low, cast(span.high, parent.dtype), span.width)
    if isinstance(relation, Rebase):
        return parts[0]
    known: dict[IterVar, Span] = dict(zip((*relation.children, *relation.uses), parts, strict=True))
    value = relation.values_up({axis: axis for axis in known}, reader.from_zero)[parent]
    return SpanEvaluator({**known}, analyzer)(value)


def _shifted_span(span: Span | None, within: Range, axis: IterVar) -> Span | None:
    """From a span counted from the begin of the range to one of values."""
    if span is None or reads_memory(within.begin):
        return None
    low = shifted(span.low, within, axis)
    return Span.point(low) if span.is_point else Span(low, shifted(span.high, within, axis), span.width)


# The bounds of one stage


def _stage_bounds(
    computation: Computation, region: dict[IterVar, Range], circular: set[IterVar], enclosing: tuple[Loop, ...], scope: str,
    analyzer: Analyzer,
) -> StageBounds:
    stage, op = computation.stage, computation.op
    roots = {**dict.fromkeys(op.axis, 1), **dict.fromkeys(op.reduce_axis, 2)}
    marks = spread_down(stage.relations, roots, lambda a, b: a | b)
    domains = {axis: axis.dom for axis in op.axis if axis.dom is not None} | computation.domains | computation.free
    dependent = [axis for axis in (*op.axis, *op.reduce_axis) if _roots_in(domains[axis], op)]
    ranges = {axis: region.get(axis, domains[axis]) for axis in (*op.axis, *computation.free) if axis not in dependent}
    ranges.update((axis, axis.dom) for axis in stage.leaf_iter_vars if axis.kind == "thread" and axis.dom is not None)
    bounds = StageBounds(computation, ranges, {}, (), enclosing, scope, {}, marks, domains)
    bounds.circular = {axis: IterVar(axis.name, axis.dtype) for axis in circular}
    bounds.ranges.update((axis, domains[axis]) for axis in op.reduce_axis if axis not in dependent)
    bound = {axis: True for axis in stage.leaf_iter_vars if stage.attr(axis).bind_thread is not None}
    keeps_factor = spread_up(stage.relations, bound, lambda a, b: a or b)
    _derive(bounds, keeps_factor, analyzer)
    for axis in dependent:  # its loops lie within those of the axes it depends on: reorder and fuse see to that
        bounds.ranges[axis] = domains[axis] = _in_loops(domains[axis], bounds.values)
        _derive(bounds, keeps_factor, analyzer)
    bounds.storage = {axis: _storage_extent(within, domains[axis], enclosing, analyzer) for axis, within in region.items()}
    return bounds


def _derive(bounds: StageBounds, keeps_factor: Mapping[IterVar, bool], analyzer: Analyzer) -> None:
    """Pass the ranges known so far down, make loops of the leaves that have got one, and pass their values up."""
    stage, loop_of = bounds.computation.stage, {loop.axis: loop for loop in bounds.loops}
    bounds.ranges.update(pass_down_range(stage.relations, bounds.ranges, keeps_factor))
    loops = [loop_of.get(axis) or _loop(stage, axis, bounds.ranges[axis].extent, analyzer)
             for axis in stage.leaf_iter_vars if axis in bounds.ranges]
    bounds.loops = tuple(loops)
    bounds.offsets = pass_up_value(stage.relations, bounds.from_zero, {loop.axis: loop.value for loop in loops})


def _loop(stage: Stage, axis: IterVar, extent: Expr, analyzer: Analyzer) -> Loop:
    attr = stage.attr(axis)
    extent = extent if isinstance(extent, IntImm) else analyzer.simplify(extent)
    if is_const(extent, 1) and attr.bind_thread is None and not (attr.pragmas or attr.notes):
        return Loop(axis, stage, extent, attr, None, const(0, axis.dtype))
    var = Var(axis.name, axis.dtype)
    within = (0, None) if reads_memory(extent) else Range(const(0, axis.dtype), cast(extent, axis.dtype))
    analyzer.bind(var, within)
    return Loop(axis, stage, extent, attr, var, var)


def plain_loop(stage: Stage, axis: IterVar, extent: Expr) -> Loop:
    """A serial loop over an axis that is no leaf."""
    if is_const(extent, 1):
        return Loop(axis, stage, extent, IterAttr(), None, const(0, axis.dtype))
    var = Var(axis.name, axis.dtype)
    return Loop(axis, stage, extent, IterAttr(), var, var)


def _roots_in(domain: Range, op: Operation) -> list[IterVar]:
    """The axes of the operation that the domain of a reduce axis speaks of."""
    axes = {*op.axis, *op.reduce_axis}
    return [node for value in (domain.begin, domain.extent) if not isinstance(value, IntImm)
            for node in post_order(value) if isinstance(node, IterVar) and node in axes]


def _in_loops(domain: Range, axes: Mapping[IterVar, Expr]) -> Range:
    values: dict[Var, Expr] = {**axes}
    return Range(substitute(domain.begin, values), substitute(domain.extent, values))


def _greatest(extent: Expr, enclosing: Sequence[Loop], analyzer: Analyzer) -> Expr | None:
    """What bounds the extent of a region in all iterations of the loops around."""
    span = _relaxed(Span.point(extent), [loop for loop in enclosing if loop.var is not None], analyzer)
    return None if span is None else span.high


def _storage_extent(within: Range, domain: Range, enclosing: Sequence[Loop], analyzer: Analyzer) -> Expr:
    """How many elements of a dimension the storage of a region holds."""
    if isinstance(within.extent, IntImm):
        return within.extent
    greatest = _greatest(within.extent, enclosing, analyzer)
    assert greatest is not None, "regions without a bound are widened to the domain"
    # Elements outside the domain are not computed, but they count where the region begins before it.
    if _never_less(greatest, domain.extent, analyzer) and _never_less(within.begin, domain.begin, analyzer):
        greatest = domain.extent
    return greatest if analyzer.can_prove(greatest >= 0) else maximum(greatest, 0)
