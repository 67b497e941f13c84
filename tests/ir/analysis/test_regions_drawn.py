"""Spans of drawn expressions, against their values at every point."""

from __future__ import annotations

import numpy
import pytest
from drawn_index import CASES, Drawn
from tilewright.ir import expr as E
from tilewright.ir.analysis.regions import Span, SpanEvaluator, union
from tilewright.ir.arith.analyzer import Analyzer
from tilewright.ir.ops import const
from tilewright.ir.structural import equal


@pytest.mark.parametrize("case", CASES)
def test_a_span_holds_every_value_and_counts_enough(case: int) -> None:
    sample = Drawn("spans", case)
    fixed = sample.variables[0]
    analyzer = Analyzer()
    spans: dict[E.Var, Span] = {}
    for var, begin, extent in zip(sample.variables, sample.begins, sample.extents, strict=True):
        analyzer.bind(var, (begin, begin + extent - 1))
        if var is not fixed:
            spans[var] = Span.of(const(begin), const(extent))
    span = SpanEvaluator(spans, analyzer)(sample.expr)
    if span is None:
        return
    values, low, high = (sample.values(value) for value in (sample.expr, span.low, span.high))
    assert (low <= values).all() and (values <= high).all(), f"{sample.expr}: {span}"
    for value in numpy.unique(sample.env[fixed]):
        inside = sample.env[fixed] == value
        assert len({int(end) for end in low[inside]}) == 1, f"{span.low} moves"
        assert span.width is None or (high - low)[inside].max() + 1 >= len(numpy.unique(values[inside]))
        assert span.width is None or span.width >= len(numpy.unique(values[inside])), f"{sample.expr}: {span}"


def test_the_union_of_spans_holds_both() -> None:
    n = E.Var("n")
    whole = union([Span(n, n + 3, 4), Span(n + 2, n + 9, 8)], Analyzer())
    assert equal(whole.low, n) and equal(whole.high, n + 9) and whole.width == 10
    assert Span.of(const(0), const(1)).is_point and not Span.of(const(0), const(0)).is_point
