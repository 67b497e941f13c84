"""Values of the axes of a stage while some of its loops run and the others stand still: spans pass up from the leaves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ...ir.accesses import reads_memory
from ...ir.analysis.regions import Span, SpanEvaluator, union
from ...ir.arith.analyzer import Analyzer
from ...ir.expr import Expr, FloorDiv, FloorMod, IntImm, IterVar, Range, Var
from ...ir.ops import cast, const, floordiv, floormod, minimum
from ...ir.visit import distinct, post_order, substitute
from ..model.relations import Fuse, Rebase, Relation, Split, add_offset
from .computation import Loop, StageBounds

__all__ = ["axis_spans", "fuse_indices", "relax_span", "root_spans", "find_span", "find_read_spans"]


def find_span(reader: StageBounds, index: Expr, analyzer: Analyzer) -> Span | None:
    """Return the span of an index over all loops of its stage, in terms of the loops around; None where that is not known."""
    relaxed = [loop for loop in reader.loops if loop.var is not None]
    spans = root_spans(reader, axis_spans(reader, {loop.axis for loop in relaxed}, analyzer), analyzer)
    # one unknown axis makes the index unknown
    if any(node in spans and spans[node] is None for node in post_order(index) if isinstance(node, IterVar)):
        return None
    span = SpanEvaluator({axis: span for axis, span in spans.items() if span is not None}, analyzer)(index)
    return None if span is None else relax_span(span, relaxed, analyzer)


def find_read_spans(
    reader: StageBounds,
    loop: Loop,
    reads: Iterable[tuple[Expr, ...]],
    analyzer: Analyzer,
) -> list[Span | None]:
    """Return the span of each dimension of a tensor that one iteration of `loop`, one of the reader's own, reads, given
    the indices at which it is read (none: an empty list); None where that is not known."""
    inside = reader.loops[reader.loops.index(loop) + 1 :]
    relaxed = [other for other in inside if other.var is not None]
    spans = root_spans(reader, axis_spans(reader, {other.axis for other in relaxed}, analyzer), analyzer)
    evaluate = SpanEvaluator({axis: span for axis, span in spans.items() if span is not None}, analyzer)
    unknown = {axis for axis, span in spans.items() if span is None}
    result: list[Span | None] = []
    for indices in zip(*reads, strict=True):
        parts = [None if any(node in unknown for node in post_order(index)) else evaluate(index) for index in indices]
        known = [part for part in parts if part is not None]
        result.append(relax_span(union(known, analyzer), relaxed, analyzer) if len(known) == len(parts) else None)
    return result


def relax_span(span: Span, loops: Sequence[Loop], analyzer: Analyzer) -> Span | None:
    """A span over all iterations of `loops` (outermost first), whose ranges may depend on loops further out; None where
    it is not known."""
    for loop in reversed(loops):
        # the loop does not move the span
        if not any(node is loop.var for end in (span.low, span.high) for node in distinct(end)):
            continue
        assert loop.var is not None
        evaluate = SpanEvaluator({loop.var: Span.of(const(0, loop.var.dtype), loop.extent)}, analyzer)
        low, high = evaluate(span.low), evaluate(span.high)
        if low is None or high is None:
            return None
        # Every member is some low end plus less than the width that the span had.
        # widths add up, but for the element that both count
        width = low.width + span.width - 1 if low.width is not None and span.width is not None else None
        span = Span(low.low, high.high, width)
    return span


def fuse_indices(reader: StageBounds, index: Expr, spans: Mapping[IterVar, Span | None], analyzer: Analyzer) -> Expr:
    """An index of several axes that were fused, i * (extent of j) + j, as one of the loop over both: what part of that loop
    reads is less than the parts of i and of j together hold. Any other index stays."""
    if isinstance(index, (IntImm, Var)):
        return index
    axes = {node for node in post_order(index) if isinstance(node, IterVar)}
    for relation in reader.computation.stage.relations:
        # only an index over all axes of a fusion can be one over the fused loop
        if not isinstance(relation, Fuse) or not axes.issuperset(relation.parents) or spans.get(relation.fused) is None:
            continue
        values = relation.values_up({relation.fused: relation.fused}, reader.ranges)
        fused = analyzer.simplify(substitute(index, {**values}))
        nodes = list(post_order(fused))
        # an index that keeps quotients would not be simpler
        if not any(isinstance(node, (FloorDiv, FloorMod)) and relation.fused in post_order(node) for node in nodes):
            index, axes = fused, {node for node in nodes if isinstance(node, IterVar)}
    return index


def root_spans(
    reader: StageBounds, spans: Mapping[IterVar, Span | None], analyzer: Analyzer
) -> dict[IterVar, Span | None]:
    """The spans of the root axes, as values; where these are circular, of their positions too."""
    roots = {axis: _shifted_span(spans.get(axis), reader.ranges[axis], axis) for axis in reader.domains}
    for axis, position in reader.circular.items():
        extent = cast(reader.domains[axis].extent, axis.dtype)
        roots[position] = roots[axis]
        with analyzer.constraint(extent >= 1):  # a remainder is defined only where there are elements
            roots[axis] = SpanEvaluator({position: roots[axis]}, analyzer)(floormod(position, extent))
    return roots


def axis_spans(
    reader: StageBounds,
    relaxed: set[IterVar],
    analyzer: Analyzer,
    within_splits: bool = False,
) -> dict[IterVar, Span | None]:
    """Spans of every axis, counted from the begin of its range. within_splits: whether they end where the guards of splits do that leave
    something over; else they are whole boxes, which are simpler."""
    spans: dict[IterVar, Span | None] = {
        axis: Span.of(const(0, axis.dtype), reader.ranges[axis].extent) for axis in reader.computation.free
    }
    full: set[IterVar] = set()
    for loop in reader.loops:
        if loop.axis in relaxed or loop.var is None:
            full.add(loop.axis)
            # a loop of unknown length takes unknown values
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
            if whole:  # all children run whole, so the parent does: no arithmetic needed
                full.add(parent)
                spans[parent] = None if reads_memory(within.extent) else Span.of(const(0, parent.dtype), within.extent)
            elif any(part is None for part in parts):  # what a relation makes of something unknown is unknown
                spans[parent] = None
            else:
                span = _passed_up(relation, parent, [part for part in parts if part is not None], reader, analyzer)
                if within_splits and span is not None and isinstance(relation, Split):
                    span = _guard_span(span, within.extent, analyzer)
                spans[parent] = span
    return spans


def _passed_up(
    relation: Relation,
    parent: IterVar,
    parts: list[Span],
    reader: StageBounds,
    analyzer: Analyzer,
) -> Span | None:
    """The span of an axis, counted from the begin of its range, from those of the axes that a relation made of it."""
    if isinstance(relation, Split):
        outer, inner = parts
        extent = reader.ranges[relation.inner].extent
        if outer.is_point and inner.is_point:  # two points are one element, exactly
            return Span.point(outer.low * extent + inner.low)
        width = None
        if isinstance(extent, IntImm) and outer.width is not None and inner.width is not None:
            width = (outer.width - 1) * extent.value + inner.width
        return Span(outer.low * extent + inner.low, outer.high * extent + inner.high, width)
    if isinstance(relation, Fuse):
        extent = reader.ranges[relation.inner].extent
        fused = Var("fused", relation.fused.dtype)
        part = (floordiv if parent is relation.outer else floormod)(fused, extent)
        with analyzer.constraint(extent >= 1):  # without elements there is no iteration
            span = SpanEvaluator({fused: parts[0]}, analyzer)(part)
            if span is None:
                return None
            if (
                parent is relation.inner
                and not span.is_point
                and analyzer.can_prove_equal(span.high - span.low + 1, extent)
            ):  # the remainder takes all of its values
                return Span.of(const(0, parent.dtype), extent)
        low = cast(span.low, parent.dtype)
        return Span.point(low) if span.is_point else Span(low, cast(span.high, parent.dtype), span.width)
    if isinstance(relation, Rebase):
        return parts[0]
    known: dict[IterVar, Span] = dict(zip((*relation.children, *relation.uses), parts, strict=True))
    value = relation.values_up({axis: axis for axis in known}, reader.from_zero)[parent]
    return SpanEvaluator({**known}, analyzer)(value)


def _guard_span(span: Span, extent: Expr, analyzer: Analyzer) -> Span:
    """A span of an axis that was split, without the iterations that the split's guard leaves out."""
    last = cast(extent - 1, span.high.dtype)
    # no iteration is beyond the guard, or the width must stay constant
    if span.is_point or span.width is None or analyzer.can_prove(span.high <= last):
        return span
    return Span(span.low, minimum(span.high, last), span.width)


def _shifted_span(span: Span | None, within: Range, axis: IterVar) -> Span | None:
    """Convert a span counted from the begin of the range to one of values."""
    if span is None or reads_memory(within.begin):  # data decide where the range begins
        return None
    low = add_offset(span.low, within, axis)
    return Span.point(low) if span.is_point else Span(low, add_offset(span.high, within, axis), span.width)
