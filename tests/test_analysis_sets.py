"""Linear forms, bounds, regions and structural keys of drawn expressions, against their values at every point."""

from __future__ import annotations

from typing import Any

import drawn
import numpy
import pytest
from arith_cases import evaluate
from tilewright.ir import expr as E
from tilewright.ir.analysis.bounds import IntervalEvaluator
from tilewright.ir.analysis.linear import atom_of, expression, is_index, linear, merge_divisions, occurs, terms
from tilewright.ir.analysis.regions import Span, SpanEvaluator, union
from tilewright.ir.arith.analyzer import Analyzer
from tilewright.ir.arith.interval import EVERYTHING, Interval
from tilewright.ir.arith.linear import LinearForm
from tilewright.ir.buffer import Buffer
from tilewright.ir.dtype import FLOAT32, INT32, INT64, DType
from tilewright.ir.ops import cast, const
from tilewright.ir.structural import StructuralKey, constructor_key, equal, structural_key
from tilewright.ir.visit import post_order, rewrite

CASES = range(drawn.count(150, 5000))
KINDS = (E.Add, E.Sub, E.Mul, E.FloorDiv, E.FloorMod, E.Min, E.Max, E.Add, E.Sub, E.Add)


class Drawn:
    """Variables of small ranges, 1- and 0-extents and odd widths among them, and an expression over them."""

    def __init__(self, name: str, case: int, dtype: DType = INT32, depth: int = 4) -> None:
        self.rng = drawn.rng(name, case)
        self.dtype = dtype
        self.variables = [E.Var(letter, dtype) for letter in "ijk"]
        self.extents = [int(self.rng.choice([1, 2, 3, 5, 8])) for _ in self.variables]
        low = -3 if dtype.kind == "int" else 0
        self.begins = [int(self.rng.integers(low, 4)) for _ in self.variables]
        self.expr = self.draw(depth)
        ranges = (numpy.arange(begin, begin + extent) for begin, extent in zip(self.begins, self.extents, strict=True))
        grids = numpy.meshgrid(*ranges)
        self.env = {var: values.reshape(-1) for var, values in zip(self.variables, grids, strict=True)}

    def draw(self, depth: int) -> E.Expr:
        if depth == 0 or self.rng.random() < 0.1:
            if self.rng.random() < 0.3:
                return const(int(self.rng.integers(0 if self.dtype.kind == "uint" else -5, 9)), self.dtype)
            return self.variables[int(self.rng.integers(3))]
        kind = KINDS[int(self.rng.integers(len(KINDS)))]
        by_number = kind in (E.FloorDiv, E.FloorMod) or kind is E.Mul and self.rng.random() < 0.8
        right = const(int(self.rng.integers(1, 7)), self.dtype) if by_number else self.draw(depth - 1)
        return kind(self.draw(depth - 1), right)

    def values(self, expr: E.Expr, wraps: bool = False) -> Any:
        return evaluate(expr, self.env, wraps)


# Linear forms


@pytest.mark.parametrize("case", CASES)
def test_a_form_is_its_expression(case: int) -> None:
    sample = Drawn("linear", case)
    form = linear(sample.expr)
    assert (sample.values(expression(form, INT64)) == sample.values(sample.expr)).all(), str(sample.expr)
    total = sum((factor * sample.values(atom) for atom, factor in terms(form)), form.const + 0 * sample.values(sample.expr))
    assert (total == sample.values(sample.expr)).all(), f"{sample.expr}: {form}"
    assert all(form.coeffs.values())
    other = sample.draw(3)
    factor = int(sample.rng.integers(-4, 5))
    both = form.plus(linear(other), factor)
    assert (sample.values(expression(both, INT64)) == sample.values(sample.expr) + factor * sample.values(other)).all()
    assert form.plus(linear(sample.expr), -1).is_const
    assert form.scaled(0).key == frozenset()


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("case", range(drawn.count(40, 2000)))
def test_a_form_wraps_as_its_expression_does(case: int, dtype: str) -> None:
    sample = Drawn("linear wraps", case, DType(dtype), depth=3)
    huge = const(DType(dtype).greatest - int(sample.rng.integers(5)), dtype)
    expr = E.Add(E.Mul(sample.expr, huge), E.Sub(sample.variables[0], huge))
    if dtype == "int64":  # in numpy's int64, where everything wraps
        with numpy.errstate(over="ignore"):
            assert (sample.values(expression(linear(expr), INT64)) == sample.values(expr)).all()
    else:
        assert (sample.values(expression(linear(expr), INT32), wraps=True) == sample.values(expr, wraps=True)).all()


@pytest.mark.parametrize("case", CASES)
def test_replacing_a_variable_replaces_it_in_the_terms(case: int) -> None:
    sample = Drawn("linear replaced", case)
    form, var, value = linear(sample.expr), sample.variables[0], sample.draw(2)
    if occurs(var, form):
        assert any(node is var for atom, _ in terms(form.without(var)) for node in post_order(atom))
        return
    replaced = rewrite(sample.expr, lambda node: value if node is var else None)
    assert (sample.values(expression(form.replaced(var, linear(value)), INT64)) == sample.values(replaced)).all()
    assert form.coefficient(var) == (sample.values(rewrite(sample.expr, lambda node: var + 1 if node is var else None))
                                     - sample.values(sample.expr))[0]


def test_quotient_and_remainder_of_one_dividend_are_it_again() -> None:
    i, j = E.Var("i"), E.Var("j")
    whole = i * 8 + j
    form = linear((whole // 16) * 48 + (whole % 16) * 3)
    assert form.coefficient(i) == 24 and form.coefficient(j) == 3 and len(form.coeffs) == 2
    assert linear((i // 4 // 4) * 16 + (i // 4) % 4 * 4).key == frozenset({(atom_of(i // 4), 4)})
    assert len(linear((whole // 16) * 15 + whole % 16).coeffs) == 2
    apart = LinearForm({atom_of(E.FloorDiv(i * 16 + j, const(3))): 3, atom_of(E.FloorMod(i + j, const(3))): 1})
    assert merge_divisions(apart).key == linear(i * 16 + j).key


def test_casts_of_loaded_values_stay_closed() -> None:
    i = E.Var("i")
    buffer = Buffer("A", (const(8),), INT32)
    loaded = E.Cast(E.Add(E.BufferLoad(buffer, (i,)), i), INT64)
    assert not is_index(loaded) and linear(loaded).coefficient(i) == 0
    assert linear(cast(i + 1, INT64)).coefficient(i) == 1
    assert linear(cast(i + 1, INT64), widen=False).coefficient(i) == 0
    assert not is_index(E.Var("x", DType("int8"))) and not is_index(E.Var("x", DType("uint32")))


def test_a_form_with_an_expression_for_its_constant() -> None:
    n, y, k = E.Var("n"), E.Var("y"), E.Var("k")
    form = LinearForm({y: 2, k: 1}, n * 1)
    solved = form.replaced(k, LinearForm({y: -2}, n + 1))
    assert solved.is_const and equal(solved.const, n + (n + 1))


# Bounds


@pytest.mark.parametrize("dtype", ["int32", "int64", "int8", "uint8", "uint32", "int16"])
@pytest.mark.parametrize("case", range(drawn.count(60, 3000)))
def test_intervals_hold_every_value(case: int, dtype: str) -> None:
    sample = Drawn("intervals " + dtype, case, DType(dtype))
    ranges = {var: Interval(begin, begin + extent - 1)
              for var, begin, extent in zip(sample.variables, sample.begins, sample.extents, strict=True)}
    interval = IntervalEvaluator(ranges.__getitem__)(sample.expr)
    values = sample.values(sample.expr, wraps=True)
    assert interval.lo is None or interval.lo <= values.min(), f"{sample.expr} in {interval}, {ranges}"
    assert interval.hi is None or values.max() <= interval.hi, f"{sample.expr} in {interval}, {ranges}"
    if is_index(sample.expr):
        assert interval != EVERYTHING


def test_narrow_sums_may_wrap_and_index_arithmetic_does_not() -> None:
    byte, index = E.Var("b", DType("uint8")), E.Var("i")
    evaluator = IntervalEvaluator(lambda var: Interval(0, 200))
    assert evaluator(byte - const(1, "uint8")) == EVERYTHING
    assert evaluator(byte // const(8, "uint8")) == Interval(0, 25)
    assert evaluator(index - 1) == Interval(-1, 199)
    assert evaluator(E.Ramp(index, const(-2), 4)) == Interval(-6, 200)
    assert evaluator(E.Broadcast(index, 4)) == Interval(0, 200)


# Regions


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


# Keys


@pytest.mark.parametrize("case", CASES)
def test_keys_are_equal_where_expressions_are(case: int) -> None:
    sample = Drawn("keys", case, depth=3)
    copy = rewrite(sample.expr, lambda node: type(node)(node.a, node.b) if isinstance(node, E.BinaryOp) else None)
    assert structural_key(copy) == structural_key(sample.expr) and StructuralKey(copy) == StructuralKey(sample.expr)
    assert hash(StructuralKey(copy)) == hash(StructuralKey(sample.expr))
    other = sample.draw(3)
    assert bool(structural_key(sample.expr) == structural_key(other)) == equal(sample.expr, other)
    renamed = rewrite(sample.expr, lambda node: E.Var("i") if node is sample.variables[0] else None)
    assert bool(structural_key(renamed) == structural_key(sample.expr)) == (renamed is sample.expr)


def test_keys_tell_what_nodes_say_besides_their_operands() -> None:
    x, buffer, other = E.Var("x", FLOAT32), Buffer("A", (const(8),), FLOAT32), Buffer("A", (const(8),), FLOAT32)
    i, holds = const(0), E.LT(const(0), const(1))
    apart: list[E.Expr] = [
        x, E.Cast(x, INT32), E.Cast(x, INT64), E.Call("exp", (x,), FLOAT32), E.Call("log", (x,), FLOAT32), E.Broadcast(x, 4),
        E.Broadcast(x, 8), E.Ramp(i, const(1), 4), E.Ramp(i, const(1), 8), E.BufferLoad(buffer, (i,)), E.BufferLoad(other, (i,)),
        E.BufferLoad(buffer, (i,), holds), E.FloatImm(0.0), E.FloatImm(-0.0), E.FloatImm(float("nan")), const(1), const(1, INT64),
        const(True), E.Shuffle((E.Broadcast(x, 4),), (0, 1)), E.Shuffle((E.Broadcast(x, 4),), (1, 0)), E.StringImm("x"),
        E.Select(holds, x, x), E.IfThenElse(holds, x, x), E.Not(holds),
    ]
    assert len({structural_key(expr) for expr in apart}) == len(apart)
    assert structural_key(E.FloatImm(float("nan"))) == structural_key(E.FloatImm(-float("nan")))
    assert constructor_key(E.Add(x, x)) == constructor_key(E.Add(x, x)) != constructor_key(E.Sub(x, x))
    assert constructor_key(E.Add(E.Add(x, x), x)) != constructor_key(E.Add(E.Add(x, x), x))  # the operands are two objects
