"""Spans of index expressions against all values that they take, and where guards are and are not needed."""

from __future__ import annotations

from typing import Any

import drawn
import numpy as np
from arith_cases import evaluate, grid
from tilewright.ir import ops
from tilewright.ir.analysis.regions import Span, SpanEvaluator, difference_bound, union
from tilewright.ir.arith.analyzer import Analyzer
from tilewright.ir.expr import Expr, Range, Var
from tilewright.ir.ops import const


def draw_index(rng: np.random.Generator, variables: list[Var], depth: int) -> Expr:
    """An index expression such as programs have: sums, constant factors, divisions, clamps."""
    if depth == 0 or rng.random() < 0.15:
        return variables[rng.integers(len(variables))] if rng.random() < 0.8 else const(int(rng.integers(-4, 9)))
    a = draw_index(rng, variables, depth - 1)
    kind = rng.choice(
        ["+", "-", "*", "//", "%", "min", "max", "choose", "truncdiv", "truncmod", "&", ">>", "<<", "cast"]
    )
    number = int(rng.integers(1, 7))
    if kind in ("+", "-", "min", "max", "choose"):
        b = draw_index(rng, variables, depth - 1)
        if kind == "choose":
            return ops.select(a < b, a, b + number)
        return {"+": a + b, "-": a - b, "min": ops.minimum(a, b), "max": ops.maximum(a, b)}[str(kind)]
    if kind == "cast":
        return (a < number).astype("int32") if rng.random() < 0.5 else a.astype("int64").astype("int32")
    return {
        "*": a * (number - 3),
        "//": a // number,
        "%": a % number,
        "truncdiv": ops.truncdiv(a, number),
        "truncmod": ops.truncmod(a, number),
        "&": a & number,
        ">>": a >> (number % 4),
        "<<": a << (number % 4),
    }[str(kind)]


def test_a_span_holds_every_value_and_its_width_counts_them() -> None:
    known = 0
    cases = drawn.count(400, 20_000)
    for case in range(cases):
        rng = drawn.rng("spans", case)
        fixed, moving = [Var("p"), Var("q")], [Var("x"), Var("y")]
        extents = {var: int(rng.integers(1, 6)) for var in (*fixed, *moving)}
        index = draw_index(rng, [*fixed, *moving], 3)
        analyzer = Analyzer()
        for var, extent in extents.items():
            analyzer.bind(var, Range(const(0), const(extent)))
        span = SpanEvaluator({var: Span.of(const(0), const(extents[var])) for var in moving}, analyzer)(index)
        if span is None:
            continue
        known += 1
        points = grid({var: range(extent) for var, extent in extents.items()})
        values, low, high = (evaluate(one, points) for one in (index, span.low, span.high))
        assert (low <= values).all(), f"case {case} of seed {drawn.SEED}: {index} is not in {span}"
        assert (values <= high).all(), f"case {case} of seed {drawn.SEED}: {index} is not in {span}"
        if span.width is not None:
            assert (values - low < span.width).all(), f"case {case} of seed {drawn.SEED}: {index} exceeds {span}"
    assert known > cases // 2


def analyzer_with(**extents: int) -> tuple[Analyzer, dict[str, Var]]:
    analyzer, variables = Analyzer(), {name: Var(name) for name in extents}
    for name, extent in extents.items():
        analyzer.bind(variables[name], Range(const(0), const(extent)))
    return analyzer, variables


def test_the_width_of_a_clamped_window_is_that_of_the_window() -> None:
    analyzer, at = analyzer_with(block=100, r=5)
    clamped = ops.minimum(ops.maximum(at["block"] * 8 + at["r"] - 2, 0), 799)
    span = SpanEvaluator({at["r"]: Span.of(const(0), const(5))}, analyzer)(clamped)
    assert span is not None
    assert span.width == 5


def test_the_union_of_clamped_neighbours_is_as_wide_as_their_distance() -> None:
    analyzer, at = analyzer_with(i=100)
    points = [Span.point(ops.minimum(ops.maximum(at["i"] + d, 0), 99)) for d in (-2, 0, 1)]
    found = union(points, analyzer)
    assert found.width == 4
    assert str(found.low) == str(points[0].low)


def test_a_difference_is_bounded_where_terms_cancel_and_where_both_sides_are_clamped() -> None:
    analyzer, at = analyzer_with(i=1000)
    i: Any = at["i"]
    assert difference_bound(i * 3 + 7, i * 3, analyzer) == 7
    assert difference_bound(ops.maximum(i + 2, 0), ops.maximum(i - 1, 0), analyzer) == 3
    n = Var("n")
    assert difference_bound(ops.minimum(i + 2, n), ops.minimum(i, n), analyzer) == 2
    assert difference_bound(i + n, i, analyzer) is None


def test_a_row_of_a_fused_pair_is_one_point_of_the_outer_axis() -> None:
    analyzer, at = analyzer_with(block=6, lane=8)
    evaluate = SpanEvaluator({at["lane"]: Span.of(const(0), const(8))}, analyzer)
    fused = at["block"] * 8 + at["lane"]
    row, column = evaluate(fused // 16), evaluate(fused % 16)
    assert row is not None
    assert row.is_point
    assert column is not None
    assert column.width == 8
    crossing = evaluate(fused // 12)
    assert crossing is not None
    assert crossing.width == 2
