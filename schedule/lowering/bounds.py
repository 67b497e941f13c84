"""Bound inference: which part of every operation is computed, and the ranges and values of all its axes.

Consumers come first. The region of a producer is, for every consumer, what the consumer reads while the loops inside the
attach point take their full range and the loops at or outside it stay at one point, thread-bound loops following the
scope of the producer's storage; the union over the consumers is boxed. Region and loops of one stage are then related
by the relations of its axes, as in TVM's InferBound: ranges pass down from the root axes to the leaves, values and spans
pass up.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import TypeAlias

from ...ir.accesses import reads_memory
from ...ir.analysis.regions import Span, SpanEvaluator, union
from ...ir.arith.analyzer import Analyzer
from ...ir.expr import Expr, FloorDiv, FloorMod, IfThenElse, IntImm, IterVar, Max, Min, Range, Select, Var
from ...ir.ops import cast, const, floormod, is_const, maximum
from ...ir.visit import post_order, substitute
from ...te.operation import Operation
from ..model.attributes import IterAttr
from ..model.relations import Fuse, Rebase, Split, pass_down_range, pass_up_value, spread_down, spread_up
from ..model.stage import Stage
from .computation import Bounds, Computation, Dataflow, Loop, StageBounds, default_scope, thread_rank
from .live_elements import fill_together
from .shared_loops import SharedLoops, check_extent
from .spans import axis_spans, fuse_indices, relax_span, root_spans

__all__ = ["infer_bounds", "plain_loop"]

_SCOPE_RANK = {"global": 0, "shared": 1, "swizzled": 1, "warp": 2, "local": 3}


def infer_bounds(dataflow: Dataflow, analyzer: Analyzer) -> Bounds:
    """The bounds of everything that is computed. `analyzer` learns the range of every loop variable."""
    bounds = Bounds(dataflow, analyzer, {})
    shared: SharedLoops = {}
    for computation in reversed(dataflow.computations):  # consumers first: they tell what is needed of their producers
        parent = computation.parent
        enclosing: tuple[Loop, ...] = ()
        if parent is not None:
            outer = bounds.of[parent]
            enclosing = outer.enclosing + outer.loops[: computation.place + 1]
        home = computation.home
        # what lies in a scan's memory has the scan's scope
        scope = bounds.of[home].scope if home is not None else computation.stage.scope or default_scope(enclosing)
        running = _while_running(bounds, computation, enclosing)
        region, circular = _region(bounds, computation, enclosing, scope, running)
        stage_bounds = bounds.of[computation] = _stage_bounds(
            computation, region, circular, enclosing, scope, shared, analyzer
        )
        stage_bounds.storage = {
            axis: _storage_extent(within, stage_bounds.domains[axis], enclosing, running)
            for axis, within in region.items()
        }
        stage_bounds.parts = {
            axis: bounds.of[scan].ranges[dim]
            for axis, (scan, dim) in computation.parts.items()
            if _is_in_step(computation, scan)
        }
    return bounds


def _while_running(bounds: Bounds, computation: Computation, enclosing: tuple[Loop, ...]) -> Analyzer:
    """An analyzer that knows what holds within these loops: axes of an extent that is not known, which a loop around was fused of,
    have elements, and what it was split by is positive (which part_checks asserts)."""
    around = {loop.axis for loop in enclosing if loop.var is not None}
    extents: list[Expr] = []
    parent = computation.parent
    while parent is not None and around:
        ranges = bounds.of[parent].ranges
        for relation in reversed(parent.stage.relations):
            if around.intersection(relation.children):
                around.update(relation.parents)
                extents += [
                    # an axis of a fused loop has elements, since the loop runs
                    ranges[axis].extent
                    for axis in relation.parents
                    if isinstance(relation, Fuse) and axis in ranges
                ]
                extents += (
                    [size for size in (relation.factor, relation.nparts) if size is not None]
                    if isinstance(relation, Split)
                    else []
                )
        parent = parent.parent
    # constants need no learning
    symbolic = [extent for extent in extents if not isinstance(extent, IntImm) and not reads_memory(extent)]
    within = bounds.analyzer.copy() if symbolic else bounds.analyzer
    for extent in symbolic:
        within.learn(extent >= 1)
    return within


def _is_in_step(computation: Computation, scan: Computation) -> bool:
    """Return whether it is computed in a step of the scan."""
    while computation.parent is not None and computation.parent is not scan:
        computation = computation.parent
    return computation.parent is scan


# The region of a producer


def _region(
    bounds: Bounds,
    computation: Computation,
    enclosing: tuple[Loop, ...],
    scope: str,
    running: Analyzer,
) -> tuple[dict[IterVar, Range], set[IterVar]]:
    """The part of each dimension that is computed, and the dimensions of which that is a range of positions. running: knows what
    holds within the loops around."""
    axes = dict.fromkeys(axis for dimensions in computation.op.dimensions for axis in dimensions)
    declared = {axis: axis.dom for axis in axes if axis.dom is not None}
    consumers = bounds.dataflow.consumers.get(computation.op, [])
    at_root = computation.is_output or computation.stage.is_tensorized  # nothing asks for a part of it
    if not consumers or computation.whole or (not enclosing and at_root):
        return declared, set()  # an intrinsic does all of its work or none: what is padded for it is computed whole
    unknown: set[IterVar] = set()
    wrapped: set[IterVar] = set()
    spans: dict[IterVar, list[Span]] = {axis: [] for axis in axes}
    # a circular dimension must serve every consumer
    turns = not computation.is_output and _may_turn(computation, enclosing) and all(map(_has_elements, consumers))
    for consumer in consumers:
        for axis, span, wraps in _find_read_spans(bounds, computation, consumer, enclosing, scope, turns):
            wrapped.update([axis] if wraps else ())
            if span is None:
                unknown.add(axis)
            else:
                spans[axis].append(span)
    region = {**declared}
    for together in computation.linked:  # these are computed over one range
        spans_read = [span for axis in together for span in spans[axis]]
        spans.update((axis, spans_read) for axis in together)
        if not unknown.isdisjoint(together):
            unknown.update(together)
    circular: set[IterVar] = set()
    whole: Container[IterVar] = (  # an intrinsic does all of its work, however little is read
        computation.op.whole_axes if computation.op.calls_intrinsic else _find_filled_axes(computation.stage)
    )
    if computation.linked:
        whole = {*axes}.difference(*computation.linked)
    for axis, spans_read in spans.items():
        if spans_read and axis not in unknown and axis not in whole:
            within = _round_to_box(union(spans_read, running), declared[axis], axis, enclosing, running)
            # a span that leaves the domain by positions stays circular only with a constant length
            leaves = axis in wrapped and not _is_in_domain(within, declared[axis], bounds.analyzer)
            # where it is computed once, lanes that were asked for by the declared extent have it
            lanes = (
                not enclosing
                and isinstance(declared[axis].extent, IntImm)
                and _needs_constant_extent(computation, axis)
            )
            if (leaves or lanes) and not isinstance(within.extent, IntImm):
                continue
            region[axis] = within
            circular.update([axis] if leaves else ())
    for axis, scan in computation.held.items():
        # of the scan's time one step is computed
        region[axis] = Range(cast(bounds.of[scan].values[scan.op.axis[0]], axis.dtype), const(1, axis.dtype))
    # parts of an output that together are not all of it would leave elements uncomputed
    if computation.is_output and (computation.held or not fill_together(region, declared, enclosing, bounds.analyzer)):
        return declared, set()
    return region, circular


def _has_elements(computation: Computation) -> bool:
    """Return whether it is an expression for each element that is computed by loops."""
    stage = computation.stage
    return bool(computation.op.values) and not any(
        stage.attr(axis).kind == "tensorized" for axis in stage.leaf_iter_vars
    )


def _needs_constant_extent(computation: Computation, axis: IterVar) -> bool:
    """Return whether a whole axis is vectorized or unrolled, which takes a constant extent."""
    return axis in computation.stage.leaf_iter_vars and computation.stage.attr(axis).kind in ("vectorized", "unrolled")


def _may_turn(computation: Computation, enclosing: tuple[Loop, ...]) -> bool:
    """Return whether dimensions of a computation may be circular."""
    return (
        bool(enclosing)
        and _has_elements(computation)
        and not (
            computation.linked
            or computation.held
            or computation.parts
            or computation.free
            or computation.home is not None
        )
    )


def _is_in_domain(within: Range, domain: Range, analyzer: Analyzer) -> bool:
    """Return whether a range is a part of a domain."""
    return (
        within is domain
        or analyzer.can_prove(within.begin >= domain.begin)  # identical ranges need no proof
        and analyzer.can_prove(within.begin + within.extent <= domain.begin + domain.extent)
    )


def _find_filled_axes(stage: Stage) -> set[IterVar]:
    """The axes that a tensor intrinsic runs along from end to end: it does all of its work, however little of it is read."""
    place = next((at for at, axis in enumerate(stage.leaf_iter_vars) if stage.attr(axis).kind == "tensorized"), None)
    intrinsic = stage.attr(stage.leaf_iter_vars[place]).intrinsic if place is not None else None
    if intrinsic is None:
        return set()
    counted = {relation.rebased: relation.parent for relation in stage.relations if isinstance(relation, Rebase)}
    mine = [axis for leaf in stage.leaf_iter_vars[place:] if (axis := counted.get(leaf, leaf)) in stage.op.axis]
    # an intrinsic's axes are the last ones, innermost last
    pairs = zip(reversed(mine), reversed(intrinsic.op.axis), strict=False)
    return {
        axis
        for axis, its in pairs
        if axis.dom is not None
        and its.dom is not None
        and isinstance(axis.dom.extent, IntImm)
        and isinstance(its.dom.extent, IntImm)
        and axis.dom.extent.value == its.dom.extent.value
    }


def _round_to_box(span: Span, domain: Range, axis: IterVar, enclosing: tuple[Loop, ...], analyzer: Analyzer) -> Range:
    """A span as the range that is computed: with a constant extent where one bounds it, and never larger than the domain."""
    low = cast(span.low, axis.dtype)
    extent = analyzer.simplify(cast(span.high, axis.dtype) - low + 1)
    if (
        not isinstance(extent, IntImm)  # a constant extent lets loops be unrolled and memory be in registers
        and span.width is not None
        and not _is_plain(extent)
        and not (enclosing and _triangular(domain, low, extent, span.width))
    ):
        if span.width > axis.dtype.greatest:  # of an index by a 64-bit symbol, into a dimension that counts in 32
            return domain
        extent = const(span.width, axis.dtype)
    if isinstance(extent, IntImm) and extent.value < 0:  # nothing is read: there is no negative number of iterations
        extent = const(0, axis.dtype)
    low = analyzer.simplify(low)
    # reads stay inside the domain, so a region of its size is the domain
    if _never_less(extent, domain.extent, analyzer) or (not enclosing and not (_is_plain(low) and _is_plain(extent))):
        return domain  # reads stay within the domain, so it always holds the region
    # memory of unknown size cannot be allocated at the loop
    if not isinstance(extent, IntImm) and _greatest(extent, enclosing, analyzer) is None:
        return domain
    return Range(low, extent)


def _triangular(domain: Range, low: Expr, extent: Expr, width: int) -> bool:
    """Return whether a region from the domain's begin on has an extent that changes, up to all of the domain, as it is for the
    triangular loops of tiles: i * 32 + 32, min(i * 32 + 32, n). Its greatest value would stand for the domain each time."""
    if (
        not is_const(domain.begin, 0)
        or not is_const(low, 0)
        # a maximum in the extent is another limit than the domain's end
        or any(isinstance(node, Max) for node in post_order(extent))
    ):
        return False
    whole = domain.extent
    if isinstance(whole, IntImm):
        return width >= whole.value
    return isinstance(extent, Min) and (extent.a is whole or extent.b is whole)


def _is_plain(extent: Expr) -> bool:
    """Return whether an extent is a sum, as of a triangular loop, which is better kept than replaced by its greatest value."""
    return not any(isinstance(node, (Min, Max, FloorDiv, FloorMod)) for node in post_order(extent))


def _never_less(a: Expr, b: Expr, analyzer: Analyzer) -> bool:
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        return a.value >= b.value
    return analyzer.can_prove(a >= b)


def _find_read_spans(
    bounds: Bounds,
    computation: Computation,
    consumer: Computation,
    enclosing: tuple[Loop, ...],
    scope: str,
    turns: bool,
) -> list[tuple[IterVar, Span | None, bool]]:
    """Return the elements that `consumer` reads of each dimension, in terms of the loops around the computation, and
    whether that is a span of positions, as it may be where the dimension `turns`."""
    reader = bounds.of[consumer]
    around = len(enclosing)
    relaxed = [  # loops inside of the attach point run whole, and so do threads that share the memory
        loop
        for at, loop in enumerate(reader.enclosing + reader.loops)
        if loop.var is not None and (at >= around or _is_shared(loop, scope))
    ]
    boxes = _take_spans(reader, relaxed, bounds.analyzer, False)
    reads: dict[IterVar, list[Expr]] = {}
    for tensor, dimensions in zip(computation.op.outputs, computation.op.dimensions, strict=True):
        for indices in consumer.reads.get(tensor, ()):
            for axis, index in zip(dimensions, indices, strict=True):
                reads.setdefault(axis, []).append(index)
    result: list[tuple[IterVar, Span | None, bool]] = []
    guarded: _Taken | None = None
    for axis, indices in reads.items():
        span, positions = _part_read(reader, boxes, axis, indices, bounds.analyzer, turns)
        if not computation.stage.is_tensorized and any(  # quotients and remainders gain by the guards of splits
            isinstance(node, (FloorDiv, FloorMod)) for node in post_order(*indices)
        ):
            guarded = guarded or _take_spans(reader, relaxed, bounds.analyzer, True)
            narrow = _part_read(reader, guarded, axis, indices, bounds.analyzer, turns)
            span, positions = narrow if _is_narrower(narrow[0], span) else (span, positions)
        if positions is not None:
            reader.positions.update(((axis, index), at) for index, at in zip(indices, positions, strict=True))
        result.append(
            (axis, None if span is None else relax_span(span, relaxed, bounds.analyzer), positions is not None)
        )  # the loops' ranges are put in last, so that equal terms cancel first
    return result


_Taken: TypeAlias = tuple[dict[IterVar, Span | None], dict[IterVar, Span | None], dict[Var, Span | None]]


def _take_spans(reader: StageBounds, relaxed: Sequence[Loop], analyzer: Analyzer, guarded: bool) -> _Taken:
    """Return the values of a reader's axes over these loops, those of its root axes, and the facts about both. guarded: without the
    iterations that guards of splits leave out, which tells more of quotients and remainders: 6 of 32 at a time, [6 i, 6 i + 6),
    cross no multiple of 32. What an intrinsic computes stays a box: it does all of its work."""
    every = axis_spans(reader, {loop.axis for loop in relaxed}, analyzer, guarded)
    spans = root_spans(reader, every, analyzer)
    return every, spans, {axis: span for axis, span in (every | spans).items() if span is not None}


def _part_read(
    reader: StageBounds,
    taken: _Taken,
    axis: IterVar,
    indices: Sequence[Expr],
    analyzer: Analyzer,
    turns: bool,
) -> tuple[Span | None, list[Expr] | None]:
    """Return the part of a dimension that indices read, None where that is not known, and their positions where the
    dimension `turns` and they have such."""
    every, spans, known = taken
    nodes = list(post_order(*indices))
    # one unknown axis makes every index with it unknown
    if any(node in spans and spans[node] is None for node in nodes if isinstance(node, IterVar)):
        return None, None
    extent = axis.dom.extent if axis.dom is not None else None
    # clamps and remainders have sharper bounds where axes are known to be inside
    if extent is not None and any(isinstance(node, _BROUGHT_IN) or node in reader.circular for node in nodes):
        within = SpanEvaluator(known, _while_reading(reader, spans, extent, analyzer))
        positions = within.positions(indices, extent, _remainders(reader)) if turns else None
        return within.hull(
            [fuse_indices(reader, index, every, analyzer) for index in positions or indices], extent
        ), positions
    evaluate = SpanEvaluator(known, analyzer)
    parts = [evaluate(fuse_indices(reader, index, every, analyzer)) for index in indices]
    spans_read = [part for part in parts if part is not None]
    # a single unknown part makes the union unknown
    return union(spans_read, analyzer) if len(spans_read) == len(parts) else None, None


def _is_narrower(span: Span | None, other: Span | None) -> bool:
    return (
        span is not None
        and span.width is not None
        and (other is None or other.width is None or span.width < other.width)
    )


_BROUGHT_IN = (Min, Max, Select, IfThenElse, FloorMod)
"""What may bring an index into its dimension."""


def _remainders(reader: StageBounds) -> dict[Var, Expr]:
    """The circular axes of a reader by what stands for their positions."""
    return {
        axis: floormod(position, cast(reader.domains[axis].extent, axis.dtype))
        for axis, position in reader.circular.items()
    }


def _while_reading(
    reader: StageBounds, spans: Mapping[IterVar, Span | None], extent: Expr, analyzer: Analyzer
) -> Analyzer:
    """An analyzer that knows what holds where anything is read of a dimension of this extent: it has elements, and the data axes
    of the reader are within their domains. So a clamp that only the iterations beyond those need is none."""
    within = analyzer.copy()
    extents = [extent]
    for axis in reader.computation.op.axis:
        span, domain = spans.get(axis), reader.domains[axis]
        # a circular axis stands for positions, which are not in the domain
        if span is not None and axis not in reader.circular and not reads_memory(domain.extent):
            extents.append(domain.extent)
            if not (isinstance(span.low, IntImm) and isinstance(domain.extent, IntImm)):
                within.learn(cast(span.low, axis.dtype) <= domain.begin + domain.extent - 1)
    for each in extents:
        if not isinstance(each, IntImm):
            within.learn(each >= 1)
    return within


def _is_shared(loop: Loop, scope: str) -> bool:
    """Return whether all iterations of a thread-bound loop share storage of this scope."""
    if not loop.thread:
        return False
    if scope == "warp" and loop.thread == "threadIdx.x":
        return True
    # shared memory is seen by all threads of a block, global memory by all blocks
    return _SCOPE_RANK.get(scope, 3) <= thread_rank(loop.thread)


# The bounds of one stage


def _stage_bounds(
    computation: Computation,
    region: dict[IterVar, Range],
    circular: set[IterVar],
    enclosing: tuple[Loop, ...],
    scope: str,
    shared: SharedLoops,
    analyzer: Analyzer,
) -> StageBounds:
    stage, op = computation.stage, computation.op
    roots = {**dict.fromkeys(op.axis, 1), **dict.fromkeys(op.reduce_axis, 2)}
    marks = spread_down(stage.relations, roots, lambda a, b: a | b)
    domains = {axis: axis.dom for axis in op.axis if axis.dom is not None} | computation.domains | computation.free
    # a domain that speaks of other axes is known once these have values
    dependent = [axis for axis in (*op.axis, *op.reduce_axis) if _find_roots(domains[axis], op)]
    ranges = {axis: region.get(axis, domains[axis]) for axis in (*op.axis, *computation.free) if axis not in dependent}
    ranges.update((axis, axis.dom) for axis in stage.leaf_iter_vars if axis.kind == "thread" and axis.dom is not None)
    bounds = StageBounds(computation, ranges, {}, (), enclosing, scope, {}, marks, domains)
    bounds.circular = {axis: IterVar(axis.name, axis.dtype) for axis in circular}
    bounds.ranges.update((axis, domains[axis]) for axis in op.reduce_axis if axis not in dependent)
    bound = {
        # a bound thread has the extent that was asked for
        axis: True
        for place, axis in enumerate(stage.leaf_iter_vars)
        if computation.attr(place).bind_thread is not None
    }
    keeps_factor = spread_up(stage.relations, bound, lambda a, b: a or b)
    _derive(bounds, keeps_factor, shared, analyzer)
    for axis in dependent:  # its loops lie within those of the axes it depends on: reorder and fuse see to that
        bounds.ranges[axis] = domains[axis] = _range_in_loops(domains[axis], bounds.values)
        # ranges of dependent axes need the values of the others: derive twice
        _derive(bounds, keeps_factor, shared, analyzer)
    return bounds


def _derive(bounds: StageBounds, keeps_factor: Mapping[IterVar, bool], shared: SharedLoops, analyzer: Analyzer) -> None:
    """Pass the ranges known so far down, make loops of the leaves that have got one, and pass their values up."""
    stage, loop_of = bounds.computation.stage, {loop.axis: loop for loop in bounds.loops}
    bounds.ranges.update(pass_down_range(stage.relations, bounds.ranges, keeps_factor))
    loops = [
        loop_of.get(axis) or _loop(bounds.computation, place, bounds.ranges[axis].extent, shared, analyzer)
        for place, axis in enumerate(stage.leaf_iter_vars)
        if axis in bounds.ranges
    ]
    bounds.loops = tuple(loops)
    bounds.offsets = pass_up_value(stage.relations, bounds.from_zero, {loop.axis: loop.value for loop in loops})


def _loop(computation: Computation, place: int, extent: Expr, shared: SharedLoops, analyzer: Analyzer) -> Loop:
    """The loop at a place among the leaves; where stages share it, all of theirs have one variable."""
    stage, attr = computation.stage, computation.attr(place)
    axis, is_shared = stage.leaf_iter_vars[place], place < computation.shared
    leader = computation.leader if is_shared and computation.leader is not None else computation
    extent = extent if isinstance(extent, IntImm) else analyzer.simplify(extent)
    twin = shared.get((leader, place)) if is_shared else None
    if twin is not None:  # loops of one variable must run equally often
        check_extent(computation, axis, extent, twin, analyzer)
        return Loop(axis, stage, extent, attr, twin.var, cast(twin.value, axis.dtype))
    named = leader.stage.leaf_iter_vars[place]
    # a loop of one iteration is no loop, unless a thread or a pragma is bound to it
    if is_const(extent, 1) and attr.bind_thread is None and not (attr.pragmas or attr.notes):
        loop = Loop(axis, stage, extent, attr, None, const(0, axis.dtype))
    else:
        var = Var(named.name, named.dtype)
        # data may say any extent, but none below 0
        within = (0, None) if reads_memory(extent) else Range(const(0, named.dtype), cast(extent, named.dtype))
        analyzer.bind(var, within)
        loop = Loop(axis, stage, extent, attr, var, cast(var, axis.dtype))
    if is_shared:
        shared[leader, place] = loop
    return loop


def plain_loop(stage: Stage, axis: IterVar, extent: Expr) -> Loop:
    """A serial loop over an axis that is not a leaf."""
    if is_const(extent, 1):
        return Loop(axis, stage, extent, IterAttr(), None, const(0, axis.dtype))
    var = Var(axis.name, axis.dtype)
    return Loop(axis, stage, extent, IterAttr(), var, var)


def _find_roots(domain: Range, op: Operation) -> list[IterVar]:
    """The axes of the operation that the domain of a reduce axis speaks of."""
    axes = {*op.axis, *op.reduce_axis}
    return [
        node
        for value in (domain.begin, domain.extent)
        if not isinstance(value, IntImm)
        for node in post_order(value)
        if isinstance(node, IterVar) and node in axes
    ]


def _range_in_loops(domain: Range, axes: Mapping[IterVar, Expr]) -> Range:
    values: dict[Var, Expr] = {**axes}
    return Range(substitute(domain.begin, values), substitute(domain.extent, values))


def _greatest(extent: Expr, enclosing: Sequence[Loop], analyzer: Analyzer) -> Expr | None:
    """Return a bound of the extent of a region in all iterations of the loops around."""
    span = relax_span(Span.point(extent), [loop for loop in enclosing if loop.var is not None], analyzer)
    return None if span is None else span.high


def _storage_extent(within: Range, domain: Range, enclosing: Sequence[Loop], analyzer: Analyzer) -> Expr:
    """Return the number of elements of a dimension that the storage of a region holds."""
    if isinstance(within.extent, IntImm):  # no bound needed: the size is constant
        return within.extent
    greatest = _greatest(within.extent, enclosing, analyzer)
    assert greatest is not None, "regions without a bound are widened to the domain"
    # Elements outside the domain are not computed, but they count where the region begins before it.
    if _never_less(greatest, domain.extent, analyzer) and _never_less(within.begin, domain.begin, analyzer):
        greatest = domain.extent
    return greatest if analyzer.can_prove(greatest >= 0) else maximum(greatest, 0)
