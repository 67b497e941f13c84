"""Choices that are clamps, against their values at every point."""

from __future__ import annotations

import drawn
import numpy
import pytest
from arith_cases import evaluate
from tilewright.ir import expr as E
from tilewright.ir.analysis.choices import merge_choices
from tilewright.ir.analysis.regions import Span, SpanEvaluator
from tilewright.ir.arith.analyzer import Analyzer
from tilewright.ir.ops import const, convert

i, n = E.Var("i"), E.SizeVar("n")
"""An index, and an extent that is at least 1."""


def knowing() -> Analyzer:
    analyzer = Analyzer()
    analyzer.learn(n >= 1)
    return analyzer


@pytest.mark.parametrize(
    "choice, expected",
    [
        (E.Select(i < 0, const(0), i), E.Max(i, const(0))),
        (E.Select(i >= n, n - 1, i), E.Min(i, n - 1)),
        (E.Select(n <= i, n - 1, i), E.Min(i, n - 1)),
        (E.IfThenElse(i > 0, i - 1, const(0)), E.Max(i - 1, const(0))),
        (E.Select(i < 4, i // 2, i // 2), i // 2),
        (E.Select(E.And(i >= 0, i < n), i, i % n), i % n),
    ],
)
def test_choices_by_comparison_are_extrema(choice: E.Select | E.IfThenElse, expected: E.Expr) -> None:
    analyzer = knowing()
    whole = merge_choices(choice, analyzer)
    assert whole is not None
    assert analyzer.can_prove_equal(whole, expected), f"{whole} is not {expected}"


@pytest.mark.parametrize(
    "choice",
    [
        E.Select(i < 0, const(5), i),
        E.Select(i < 0, i, const(0) - i),
        E.Select(i.equal(3), const(0), i),
        E.Select(i < n, i, n + 1),
        E.Select(i < 0, n - 1, i),
    ],
)
def test_other_choices_are_left(choice: E.Select) -> None:
    assert merge_choices(choice, knowing()) is None


@pytest.mark.parametrize("case", range(drawn.count(150, 6000)))
def test_what_is_merged_has_the_same_values_and_its_span_holds_them(case: int) -> None:
    rng = drawn.rng("choices", case)

    def bound() -> E.Expr:
        return (const(int(rng.integers(-3, 5))), n - 1, n, const(0))[int(rng.integers(4))]

    def index(depth: int) -> E.Expr:
        x = i + int(rng.integers(-2, 3))
        if not depth:
            return (x, x, bound())[int(rng.integers(3))]
        kind = int(rng.integers(6))
        if kind < 2:
            return (E.Min, E.Max)[kind](index(depth - 1), bound())
        compare = (E.LT, E.LE, E.GT, E.GE)[int(rng.integers(4))]
        a, b = (x, bound()) if rng.random() < 0.7 else (bound(), x)
        arms = [index(depth - 1), bound()] if rng.random() < 0.7 else [index(depth - 1), index(depth - 1)]
        if rng.random() < 0.5:
            arms.reverse()
        return (E.Select, E.IfThenElse)[int(rng.integers(2))](compare(a, b), *arms)

    value = index(2)
    analyzer = knowing()
    points = numpy.array([(a, b) for a in range(-6, 9) for b in range(1, 6)])
    env = {i: points[:, 0], n: points[:, 1]}
    if isinstance(value, (E.Select, E.IfThenElse)) and (whole := merge_choices(value, analyzer)) is not None:
        assert (evaluate(whole, env) == evaluate(value, env)).all(), f"{value} is not {whole}"
    low = E.Var("low")
    span = SpanEvaluator({i: Span(low, low + 2, 3)}, analyzer)(convert(value))
    if span is None:
        return
    values = numpy.array([evaluate(value, {i: env[i] + step, n: env[n]}) for step in range(3)])
    least, greatest = (evaluate(end, {low: env[i], n: env[n]}) for end in (span.low, span.high))
    assert (least <= values.min(axis=0)).all() and (values.max(axis=0) <= greatest).all(), f"{value} in {span}"
    assert span.width is None or (greatest - least < span.width).all(), f"{value} in {span}"
