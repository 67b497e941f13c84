# pyright: reportPrivateUsage=false
"""Symbolic intervals: what values an index takes while some variables run over their ranges.

A Span is a box side, [low, high] with both ends included, in terms of the variables that stay fixed. `width` bounds the
number of values from above by a constant where one is known structurally: the extent of `clamp(i + r)` is at most that of
`r`, though `high - low` does not simplify to a number. Regions of producers are built from spans, so that the loops and
the storage of a producer have constant extents wherever a constant bound exists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ...base.dataclass import dataclass
from .. import expr as E
from ..arith.analyzer import Analyzer
from ..dtype import INT32, INT64
from ..expr import Expr, IntImm, Let, Max, Min, Var
from ..ops import cast, const, floordiv, floormod, integer_value, is_const, maximum, minimum, truncdiv
from ..visit import Rewriter, children, rebuild, substitute
from .choices import merge_choices
from .images import find_image, project

__all__ = ["Span", "SpanEvaluator", "difference_bound", "union"]


@dataclass(frozen=True, slots=True, eq=False)
class Span:
    """The integers from `low` to `high`. width: a constant that their number does not exceed; None if not known."""

    low: Expr
    high: Expr
    width: int | None

    @property
    def is_point(self) -> bool:
        return self.low is self.high

    @staticmethod
    def point(value: Expr) -> Span:
        """The one value."""
        return Span(value, value, 1)

    @staticmethod
    def of(begin: Expr, extent: Expr) -> Span:
        """The values of a loop."""
        if is_const(extent, 1):
            return Span.point(begin)
        return Span(begin, begin + extent - 1, integer_value(extent))

    def plus(self, other: Span) -> Span:
        """The sums of a value of each."""
        if self.is_point and other.is_point:
            return Span.point(self.low + other.low)
        return Span(self.low + other.low, self.high + other.high, _sum(self.width, other.width))

    def scale(self, factor: int) -> Span:
        """Return the span from factor times one end to factor times the other."""
        if self.is_point:
            return Span.point(self.low * factor)
        low, high = (self.low, self.high) if factor >= 0 else (self.high, self.low)
        return Span(low * factor, high * factor, (self.width - 1) * abs(factor) + 1 if self.width is not None else None)


_MADE = (E.Select, E.IfThenElse)
"""What an index is made by where a tensor is continued beyond its shape."""


class _Inside(Rewriter):
    """The ends of a window as they are where no window that it is made of has left its dimension. left: where one has."""

    def __init__(self) -> None:
        self.left: dict[Expr, None] = {}

    def Select(self, node: E.Select) -> Expr:
        self.left[node.condition] = None
        return self.visit(node.false_value)


class SpanEvaluator:
    """Spans of expressions, given the spans of variables (None: nothing is known of its values); a variable without one is
    fixed. One evaluator remembers what it has computed. The result is None where nothing is known (a value that was read from
    memory)."""

    def __init__(self, spans: Mapping[Var, Span | None], analyzer: Analyzer) -> None:
        self._spans = dict(spans)
        self._analyzer = analyzer
        self._known: dict[Expr, Span | None] = {}

    def __call__(self, value: Expr) -> Span | None:
        """The span of an integer expression, ends simplified."""
        span = self._visit(value)
        if span is None or isinstance(value, (IntImm, Var)):
            return span
        if span.is_point:
            return Span.point(self._analyzer.simplify(span.low))
        return Span(self._analyzer.simplify(span.low), self._analyzer.simplify(span.high), span.width)

    def hull(self, indices: Iterable[Expr], extent: Expr) -> Span | None:
        """The least span known to hold the values of all indices of a dimension of so many elements, in which they lie.

        Where some of them wrap around in it or are mirrored at its ends, that is done to the hull of what is wrapped.
        """
        read = list(indices)
        images = [find_image(index, extent, self._analyzer) if isinstance(index, _MADE) else None for index in read]
        kinds = {image.kind for image in images if image is not None}
        if len(kinds) == 1:
            read = [index if image is None else image.of for index, image in zip(read, images, strict=True)]
        spans = [span for index in read if (span := self(index)) is not None]
        if len(spans) < len(read):
            return None
        whole = union(spans, self._analyzer)
        if len(kinds) != 1:
            return whole
        return self._wrap(whole, extent) if "wrapped" in kinds else self._mirror(whole, extent)

    def positions(self, indices: Iterable[Expr], extent: Expr, remainders: Mapping[Var, Expr]) -> list[Expr] | None:
        """The indices of a dimension of so many elements as positions on a line, of which the dimension is a period: what they
        leave as remainders are the indices, and those that do not wrap around stay. None where none does, or one is mirrored.

        remainders: the variables that are remainders of positions themselves.
        """
        result: list[Expr] = []
        wraps = False
        for index in indices:
            image = find_image(index, extent, self._analyzer)
            if image is None:
                image = find_image(substitute(index, remainders), extent, self._analyzer)
            if image is not None and image.kind == "mirrored":
                return None
            position = None if image is None else project(substitute(image.of, remainders), extent, self._analyzer)
            if position is None or isinstance(index, E.FloorMod) and not self._is_wrapped(position, extent):
                result.append(index)
            else:
                wraps = True
                result.append(position)
        return result if wraps else None

    def _is_wrapped(self, position: Expr, extent: Expr) -> bool:
        """Return whether a remainder by an extent is not one that takes rows apart: these are whole, or more than two."""
        span = self._visit(position)
        if span is None or self._is_in_one_row(span, extent):
            return False
        first, last = self._analyzer.interval(span.low).lo, self._analyzer.interval(span.high).hi
        return not isinstance(extent, IntImm) or first is None or last is None or last - first < 2 * extent.value

    def _mirror(self, window: Span, extent: Expr) -> Span:
        """The image goes up and down by one step or none with each of the window, so that it is no longer: a window that does not
        lie far outside has it in the window that is moved into the dimension."""
        width, low, high = window.width, window.low, window.high
        if width is None or not (
            self._analyzer.can_prove(low >= -width) and self._analyzer.can_prove(high < extent + width)
        ):
            return Span.of(const(0, low.dtype), extent)
        first = self._analyzer.simplify(maximum(minimum(low, extent - width), 0))
        return Span(first, self._analyzer.simplify(minimum(first + (width - 1), extent - 1)), width)

    def _wrap(self, window: Span, extent: Expr) -> Span:
        """All of the dimension where the window leaves it, or was made of another that did so: one choice for a whole chain."""
        inside = _Inside()
        low, high = (self._analyzer.simplify(inside.visit(end)) for end in (window.low, window.high))
        leaves: Expr = E.Or(low < 0, high >= extent)
        for condition in inside.left:
            leaves = E.Or(condition, leaves)
        leaves = self._analyzer.simplify(leaves)
        if is_const(leaves):
            return Span.of(const(0, low.dtype), extent) if is_const(leaves, 1) else window
        first = maximum(E.Select(leaves, const(0, low.dtype), low), 0)  # seen not to be negative
        return Span(first, first + E.Select(leaves, extent - 1, self._analyzer.simplify(high - low)), None)

    def _visit(self, value: Expr) -> Span | None:
        if isinstance(value, IntImm):
            return Span(value, value, 1)
        if isinstance(value, Var):
            return self._spans[value] if value in self._spans else Span(value, value, 1)
        if value in self._known:
            return self._known[value]
        span = self._known[value] = self._compute(value)
        return span

    def _compute(self, value: Expr) -> Span | None:
        if isinstance(value, (E.BufferLoad, E.ProducerLoad, E.Reduce)):
            return None
        if isinstance(value, Let):
            bound = self._visit(value.value)
            if bound is None:
                return None
            self._spans[value.var] = bound
            return self._visit(value.body)
        below: list[Span | None] = []
        for child in children(value):
            below.append(self._visit(child))
        if all(span is not None and span.is_point for span in below):
            return Span.point(rebuild(value, [span.low for span in below if span is not None]))
        if isinstance(value, (E.Select, E.IfThenElse)) and value.dtype in (INT32, INT64):
            whole = merge_choices(value, self._analyzer)
            if whole is not None:
                return self._visit(whole)
        rule = _RULES.get(type(value))
        return rule(self, value, below) if rule is not None else None

    # Operators, on the spans of their operands

    def _add(self, value: Expr, below: list[Span | None]) -> Span | None:
        a, b = below
        return a.plus(b) if a and b else None

    def _subtract(self, value: Expr, below: list[Span | None]) -> Span | None:
        a, b = below
        return Span(a.low - b.high, a.high - b.low, _sum(a.width, b.width)) if a and b else None

    def _multiply(self, value: Expr, below: list[Span | None]) -> Span | None:
        a, b = below
        if a is None or b is None:
            return None
        if a.is_point:
            a, b = b, a
        if b.is_point:
            by = b.low
            if isinstance(by, IntImm):
                return a.scale(by.value)
            if self._analyzer.can_prove(by >= 0):
                return Span(a.low * by, a.high * by, None)
            if self._analyzer.can_prove(by <= 0):
                return Span(a.high * by, a.low * by, None)
        if self._not_negative(a.low) and self._not_negative(b.low):
            return Span(a.low * b.low, a.high * b.high, None)
        return None

    def _divide(self, value: Expr, below: list[Span | None]) -> Span | None:
        a, b = below
        if a is None or b is None or not b.is_point or not self._positive(b.low):
            return None
        if isinstance(value, E.TruncDiv) and not self._not_negative(a.low):
            return Span(truncdiv(a.low, b.low), truncdiv(a.high, b.low), None)
        if self._is_in_one_row(a, b.low):
            return Span.point(self._analyzer.simplify(floordiv(a.low, b.low)))
        low, high = (self._analyzer.simplify(floordiv(end, b.low)) for end in (a.low, a.high))
        width = (a.width - 2) // b.low.value + 2 if a.width is not None and isinstance(b.low, IntImm) else None
        return Span(low, high, width)

    def _modulo(self, value: Expr, below: list[Span | None]) -> Span | None:
        a, b = below
        if b is None or not b.is_point or not self._positive(b.low):
            return None
        by = b.low
        if isinstance(value, E.TruncMod) and (a is None or not self._not_negative(a.low)):
            return Span(1 - by, by - 1, 2 * by.value - 1 if isinstance(by, IntImm) else None)
        if a is not None and self._is_in_one_row(a, by):
            return Span(floormod(a.low, by), floormod(a.low, by) + (a.high - a.low), a.width)
        return Span(const(0, by.dtype), by - 1, integer_value(by))

    def _is_in_one_row(self, a: Span, by: Expr) -> bool:
        """Return whether a // by is one value for all of the span."""
        width = self._analyzer.simplify(a.high - a.low + 1)
        if isinstance(width, IntImm) and isinstance(by, IntImm) and width.value > 0:
            if width.value > by.value:
                return False
            if by.value % width.value == 0 and self._analyzer.can_prove(floormod(a.low, width).equal(0)):
                return True
        return self._analyzer.can_prove_equal(floordiv(a.low, by), floordiv(a.high, by))

    def _extremum(self, value: Expr, below: list[Span | None]) -> Span | None:
        a, b = below
        if a is None or b is None:
            return None
        pick = minimum if isinstance(value, Min) else maximum
        width = max(a.width, b.width) if a.width is not None and b.width is not None else None
        return Span(pick(a.low, b.low), pick(a.high, b.high), width)

    def _choose(self, value: Expr, below: list[Span | None]) -> Span | None:
        _, a, b = below
        return union([a, b], self._analyzer) if a and b else None

    def _convert(self, value: Expr, below: list[Span | None]) -> Span | None:
        (a,) = below
        source = children(value)[0]
        if not value.dtype.is_integer:
            return None
        if source.dtype.is_bool:
            return Span(const(0, value.dtype), const(1, value.dtype), 2)
        if a is None or not source.dtype.is_integer or value.dtype.bits < 32:
            return None
        return Span(cast(a.low, value.dtype), cast(a.high, value.dtype), a.width)

    def _call(self, value: Expr, below: list[Span | None]) -> Span | None:
        assert isinstance(value, E.Call)
        by = value.args[1] if len(value.args) == 2 else None
        if isinstance(by, IntImm) and by.value >= 0:
            if value.name == "bitwise_and":
                return Span(const(0, value.dtype), by, by.value + 1)
            if value.name in ("shift_left", "shift_right") and by.value < min(value.dtype.bits - 1, 31):
                factor = const(1 << by.value, value.dtype)
                operands = [below[0], Span.point(factor)]
                return self._multiply(value, operands) if value.name == "shift_left" else self._divide(value, operands)
        return None

    def _positive(self, value: Expr) -> bool:
        return value.value > 0 if isinstance(value, IntImm) else self._analyzer.can_prove(value > 0)

    def _not_negative(self, value: Expr) -> bool:
        return value.value >= 0 if isinstance(value, IntImm) else self._analyzer.can_prove(value >= 0)


_RULES: dict[type[Expr], Callable[[SpanEvaluator, Expr, list[Span | None]], Span | None]] = {
    E.Add: SpanEvaluator._add,
    E.Sub: SpanEvaluator._subtract,
    E.Mul: SpanEvaluator._multiply,
    E.FloorDiv: SpanEvaluator._divide,
    E.TruncDiv: SpanEvaluator._divide,
    E.FloorMod: SpanEvaluator._modulo,
    E.TruncMod: SpanEvaluator._modulo,
    Min: SpanEvaluator._extremum,
    Max: SpanEvaluator._extremum,
    E.Select: SpanEvaluator._choose,
    E.IfThenElse: SpanEvaluator._choose,
    E.Cast: SpanEvaluator._convert,
    E.Call: SpanEvaluator._call,
}


def _sum(a: int | None, b: int | None) -> int | None:
    return a + b - 1 if a is not None and b is not None else None


def difference_bound(a: Expr, b: Expr, analyzer: Analyzer) -> int | None:
    """A constant that a - b never exceeds, or None.

    Minima and maxima are taken apart, also those that something is added to, and paired where both sides have one, because
    clamping is monotone and never widens a distance: clamp(x + 1) - clamp(x) is at most 1. Of nested ones, each pair of parts
    is compared once, and only so many pairs are.
    """
    return _Distances(analyzer).most(a, b)


@dataclass(frozen=True, slots=True, eq=False)
class _Extremum:
    kind: type[Min] | type[Max]
    a: Expr
    b: Expr


def _match_extremum(x: Expr) -> _Extremum | None:
    """min(p, q) + c as min(p + c, q + c); c - min(p, q) as max(c - p, c - q)."""
    if isinstance(x, (Min, Max)):
        return _Extremum(type(x), x.a, x.b)
    if isinstance(x, E.Mul) and isinstance(x.b, IntImm) and x.b.value > 0:
        inner = _match_extremum(x.a)
        return None if inner is None else _Extremum(inner.kind, E.Mul(inner.a, x.b), E.Mul(inner.b, x.b))
    if not isinstance(x, (E.Add, E.Sub)):
        return None
    inner, make = _match_extremum(x.a), type(x)
    if inner is not None:
        return _Extremum(inner.kind, make(inner.a, x.b), make(inner.b, x.b))
    inner = _match_extremum(x.b)
    if inner is None:
        return None
    kind = inner.kind if isinstance(x, E.Add) else Max if inner.kind is Min else Min
    return _Extremum(kind, make(x.a, inner.a), make(x.a, inner.b))


_MOST_PAIRS = 200
"""Pairs that one question compares; a bound from fewer is a bound still."""


class _Distances:
    """See difference_bound; what one question has found serves the next."""

    def __init__(self, analyzer: Analyzer) -> None:
        self.analyzer = analyzer
        self.limit = 0
        self.known: dict[tuple[int, int], int | None] = {}
        self.parts: dict[Expr, _Extremum | None] = {}

    def most(self, a: Expr, b: Expr) -> int | None:
        """A constant that a - b never exceeds, or None."""
        self.limit = len(self.known) + _MOST_PAIRS
        return self._find_bound(self.analyzer.simplify(a), self.analyzer.simplify(b))

    def is_at_most(self, a: Expr, b: Expr) -> bool:
        """Return whether a <= b is proved."""
        above = self.most(a, b)
        return above is not None and above <= 0

    def _find_bound(self, a: Expr, b: Expr) -> int | None:
        key = id(a), id(b)  # parts of what is asked, simplified, so that the analyzer keeps them as one object each
        if key not in self.known:
            if len(self.known) >= self.limit:
                return None
            self.known[key] = None
            self.known[key] = self._bound(a, b)
        return self.known[key]

    def _bound(self, a: Expr, b: Expr) -> int | None:
        difference = self.analyzer.simplify(a - b)
        if isinstance(difference, IntImm):
            return difference.value
        bounds: list[int | None] = []
        left, right = self._extremum(a), self._extremum(b)
        if left is not None and right is not None and left.kind is right.kind:
            bounds.append(self._bound_extremum([(left.a, right.a), (left.b, right.b)], all_needed=True))
        if left is not None:
            bounds.append(self._bound_extremum([(left.a, b), (left.b, b)], all_needed=left.kind is Max))
        if right is not None:
            bounds.append(self._bound_extremum([(a, right.a), (a, right.b)], all_needed=right.kind is Min))
        known = [bound for bound in bounds if bound is not None]
        if known:
            return min(known)
        most = self.analyzer.interval(difference).hi
        return 0 if most is None and self.analyzer.can_prove(difference <= 0) else most

    def _extremum(self, x: Expr) -> _Extremum | None:
        """A minimum or maximum, what is added to it brought within."""
        if x not in self.parts:
            extremum = _match_extremum(x)
            if extremum is not None and not isinstance(x, (Min, Max)):
                a, b = self.analyzer.simplify(extremum.a), self.analyzer.simplify(extremum.b)
                extremum = _Extremum(extremum.kind, a, b)
            self.parts[x] = extremum
        return self.parts[x]

    def _bound_extremum(self, pairs: list[tuple[Expr, Expr]], all_needed: bool) -> int | None:
        """The greatest of the pairs' bounds, all of which are needed; or the least of those that are known."""
        bounds = [self._find_bound(x, y) for x, y in pairs]
        known = [bound for bound in bounds if bound is not None]
        if not known or (all_needed and len(known) < len(bounds)):
            return None
        return max(known) if all_needed else min(known)


def union(spans: Iterable[Span], analyzer: Analyzer) -> Span:
    """The least span known to hold all of `spans`."""
    result: Span | None = None
    distances = _Distances(analyzer)
    for span in spans:
        if result is None:
            result = span
        elif span.low is not result.low or span.high is not result.high:
            low = (
                span.low
                if distances.is_at_most(span.low, result.low)
                else (result.low if distances.is_at_most(result.low, span.low) else minimum(result.low, span.low))
            )
            high = (
                result.high
                if distances.is_at_most(span.high, result.high)
                else (span.high if distances.is_at_most(result.high, span.high) else maximum(result.high, span.high))
            )
            distance = distances.most(high, low)
            result = Span(low, high, distance + 1 if distance is not None else None)
    assert result is not None, "a union of nothing"
    return result
