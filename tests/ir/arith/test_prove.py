"""Proofs under ranges and conditions, and symbolic bounds."""

from __future__ import annotations

import drawn
import numpy
import pytest
from arith_cases import evaluate
from tilewright.ir.analysis.bounds import symbolic_bounds
from tilewright.ir.arith import Analyzer, Interval, Modular
from tilewright.ir.dtype import DType
from tilewright.ir.expr import LT, Add, FloorDiv, FloorMod, Max, Min, Mul, Range, SizeVar, Sub, Var
from tilewright.ir.ops import cast, ceildiv, const, likely, logical_and, logical_not, logical_or, maximum, minimum
from tilewright.ir.structural import equal


def tiled() -> tuple[Analyzer, Var, Var, Var]:
    """n in tiles of 32: outer in [0, ceildiv(n, 32)), inner in [0, 32)."""
    n, outer, inner = SizeVar("n"), Var("outer"), Var("inner")
    analyzer = Analyzer()
    analyzer.bind(outer, Range(const(0), ceildiv(n, 32)))
    analyzer.bind(inner, Range(const(0), const(32)))
    return analyzer, n, outer, inner


def test_symbolic_range() -> None:
    n, i = SizeVar("n"), Var("i")
    analyzer = Analyzer()
    analyzer.bind(i, Range(const(0), n))
    assert analyzer.can_prove(i < n)
    assert analyzer.can_prove(i + 3 < n + 3)
    assert analyzer.can_prove(i * 4 + 3 < n * 4)
    assert not analyzer.can_prove(i + 1 < n)
    assert not analyzer.can_prove(n < 5)


def test_ranges_of_ranges() -> None:
    n, i, j = SizeVar("n"), Var("i"), Var("j")
    analyzer = Analyzer()
    analyzer.bind(i, Range(const(0), n))
    analyzer.bind(j, Range(i, n - i))
    assert analyzer.can_prove(j < n)
    assert analyzer.can_prove(j >= i)
    assert not analyzer.can_prove(j > i)


def test_tiles_reach_past_the_end_but_start_before_it() -> None:
    analyzer, n, outer, inner = tiled()
    assert analyzer.can_prove(outer * 32 < n)
    assert not analyzer.can_prove(outer * 32 + inner < n)
    assert analyzer.can_prove(outer * 32 + inner < n + 31)
    with analyzer.constraint(likely(outer * 32 + inner < n)):
        assert analyzer.can_prove(outer * 32 + inner < n)
        assert analyzer.can_prove(outer * 32 + inner + 1 <= n)
        assert analyzer.can_prove(inner < n)
        assert equal(analyzer.simplify(likely(outer * 32 + inner < n)), const(True))
    assert not analyzer.can_prove(outer * 32 + inner < n)


def test_tail_extent() -> None:
    analyzer, n, outer, _ = tiled()
    tail = minimum(n - outer * 32, 32)
    assert analyzer.can_prove(tail > 0)
    assert analyzer.can_prove(tail <= 32)
    assert analyzer.can_prove(outer * 32 + tail <= n)


def test_two_dimensions() -> None:
    n, m, i, j = SizeVar("n"), SizeVar("m"), Var("i"), Var("j")
    analyzer = Analyzer()
    analyzer.bind(i, Range(const(0), n))
    analyzer.bind(j, Range(const(0), m))
    assert analyzer.can_prove(i * m + j < n * m)
    assert analyzer.can_prove(i * m + j >= 0)
    assert not analyzer.can_prove(i * m + j < m)


def test_wider_offsets_share_facts() -> None:
    analyzer, n, outer, inner = tiled()
    with analyzer.constraint(outer * 32 + inner < n):
        assert analyzer.can_prove(cast(outer, "int64") * 32 + cast(inner, "int64") < cast(n, "int64"))


def test_capped_symbols_multiply() -> None:
    """A limit on a symbol (below 2^30) is no evidence that its products overflow."""
    n, m, i, j = SizeVar("n"), SizeVar("m"), Var("i"), Var("j")
    analyzer = Analyzer()
    analyzer.bind(n, (0, (1 << 30) - 1))
    analyzer.bind(m, (0, (1 << 30) - 1))
    analyzer.bind(i, Range(const(0), n * 4))
    analyzer.bind(j, Range(const(0), m))
    assert analyzer.can_prove(i < n * 4)
    assert equal(analyzer.simplify((i * m + j) // m), i)


def test_small_ranges_show_overflow() -> None:
    i = Var("i")
    analyzer = Analyzer()
    analyzer.bind(i, (0, 100_000))
    product = i * 100_000
    assert analyzer.interval(product) == Interval(-(1 << 31), (1 << 31) - 1)
    assert equal(analyzer.simplify(product // 100_000), product // 100_000)
    assert analyzer.interval(cast(i, "int64") * 100_000) == Interval(0, 10**10)


def test_remainders() -> None:
    n = Var("n")
    analyzer = Analyzer()
    assert analyzer.modular(n * 8 + 3) == Modular(8, 3)
    with analyzer.constraint((n % 4).equal(0)):
        assert equal(analyzer.simplify(n % 4), const(0))
        assert equal(analyzer.simplify(n // 4 * 4), n)
        assert equal(analyzer.simplify((n + 2) % 4), const(2))
        assert analyzer.modular(n * 2) == Modular(8, 0)
    assert not analyzer.can_prove((n % 4).equal(0))


def test_conditions_of_every_shape() -> None:
    n, m = Var("n"), Var("m")
    analyzer = Analyzer()
    with analyzer.constraint(logical_and(n >= 3, logical_not(logical_or(n >= 10, m != n)))):
        assert analyzer.interval(n) == Interval(3, 9)
        assert analyzer.can_prove_equal(m, n)
        assert analyzer.can_prove(logical_or(n < 0, m + n >= 6))
    with analyzer.constraint(n != 0):
        assert equal(analyzer.simplify(n // n), const(1))
        with analyzer.constraint(n >= 0):
            assert analyzer.can_prove(n >= 1)


def test_values() -> None:
    n, half = SizeVar("n"), Var("half")
    analyzer = Analyzer()
    analyzer.bind(half, n // 2)
    assert analyzer.can_prove(half * 2 <= n)
    assert analyzer.can_prove_equal(half + 1, n // 2 + 1)


def test_binding_again_replaces() -> None:
    i = Var("i")
    analyzer = Analyzer()
    analyzer.bind(i, (0, 3))
    assert analyzer.can_prove(i < 4)
    analyzer.bind(i, (0, 7))
    assert not analyzer.can_prove(i < 4)
    other = analyzer.copy()
    other.bind(i, (0, 1))
    assert other.can_prove(i < 2)
    assert not analyzer.can_prove(i < 2)


def test_symbolic_bounds_of_a_tile() -> None:
    i, j, n = Var("i"), Var("j"), SizeVar("n")
    analyzer = Analyzer()
    analyzer.bind(j, Range(const(0), const(32)))
    lo, hi = symbolic_bounds(analyzer, i * 32 + j, {j})
    assert lo is not None
    assert hi is not None
    assert equal(lo, i * 32)
    assert equal(hi, i * 32 + 31)
    assert [str(end) for end in symbolic_bounds(analyzer, minimum(n, j + 8), {j})] == ["min(n, 8)", "min(n, 39)"]
    assert equal(symbolic_bounds(analyzer, (i * 32 + j) // 8, {j})[1], i * 4 + 3)
    assert equal(symbolic_bounds(analyzer, (i * 32 + j) % 32, {j})[1], const(31))
    assert equal(symbolic_bounds(analyzer, maximum(i - j, 0), {j})[0], maximum(i - 31, 0))


@pytest.mark.parametrize("case", range(drawn.count(100, 4000)))
def test_symbolic_bounds_by_brute_force(case: int) -> None:
    """The ends hold for every point, speak of the other variables alone, and are reached by linear expressions."""
    rng = drawn.rng("arith-symbolic", case)
    n, m, i, j = SizeVar("n"), Var("m"), Var("i"), Var("j")
    analyzer = Analyzer()
    analyzer.bind(i, Range(m, n + 1))
    analyzer.bind(j, Range(const(0), i - m + 1) if case % 2 else Range(const(-1), const(4)))
    points = numpy.array(
        [
            (a, b, c, d)
            for a in range(5)
            for b in range(-2, 3)
            for c in range(b, b + a + 1)
            for d in (range(c - b + 1) if case % 2 else range(-1, 3))
        ]
    )
    env = {var: points[:, at] for at, var in enumerate((n, m, i, j))}

    def drawn_expr(depth: int):
        if depth == 0:
            return (n, m, i, j, i, j, const(int(rng.integers(-4, 5))))[int(rng.integers(7))]
        kind = (Add, Sub, Mul, FloorDiv, FloorMod, Min, Max, Add, Sub)[int(rng.integers(9))]
        by_number = kind in (FloorDiv, FloorMod) or (kind is Mul and rng.random() < 0.6)
        return kind(drawn_expr(depth - 1), const(int(rng.integers(1, 6))) if by_number else drawn_expr(depth - 1))

    expr = drawn_expr(3)
    values = evaluate(expr, env, wraps=False)
    form = analyzer.linear(expr)
    linear = form is not None and all(isinstance(atom, Var) for atom in form.coeffs)
    outer = points[:, 0] * 100 + points[:, 1]
    ends = symbolic_bounds(analyzer, expr, {i, j})
    for end, worst, name in zip(ends, (numpy.min, numpy.max), ("least", "greatest"), strict=True):
        assert end is not None or not linear
        if end is None:
            continue
        held = evaluate(end, env, wraps=False)
        for at in numpy.unique(outer):
            inside = outer == at
            reached, bound = worst(values[inside]), held[inside]
            assert (bound == bound[0]).all(), f"{name} of {expr}: {end} moves"
            assert (bound[0] <= reached) if worst is numpy.min else (bound[0] >= reached), (
                f"{name} of {expr} is not {end}"
            )
            assert not linear or bound[0] == reached, f"{name} of {expr}: {end} is not reached"


@pytest.mark.parametrize("case", range(drawn.count(100, 4000)))
def test_nothing_false_is_proved(case: int) -> None:
    """Comparisons of linear expressions over symbolic ranges under drawn conditions, against brute force."""
    rng = drawn.rng("arith-prove", case)
    n, i, j = SizeVar("n"), Var("i"), Var("j")
    analyzer = Analyzer()
    analyzer.bind(i, Range(const(0), n))
    analyzer.bind(j, Range(const(0), const(4)))
    points = numpy.array([(a, b, d) for a in range(12) for b in range(a) for d in range(4)])
    env = {var: points[:, at] for at, var in enumerate((n, i, j))}

    def side():
        terms = [i * int(rng.integers(-2, 5)), j * int(rng.integers(-2, 5)), n * int(rng.integers(-1, 3))]
        terms.append(const(int(rng.integers(-3, 4))))
        if rng.random() < 0.4:
            terms.append(minimum(n - i, int(rng.integers(1, 5))))
        if rng.random() < 0.4:
            terms.append((n + int(rng.integers(0, 4))) // int(rng.integers(1, 5)) * int(rng.integers(-1, 3)))
        total = terms[0]
        for term in terms[1:]:
            total = Add(total, term)
        return total

    fact, goal = LT(side(), side()), LT(side(), side())
    holds = evaluate(fact, env, wraps=False) != 0
    truth = evaluate(goal, env, wraps=False) != 0
    assert not analyzer.can_prove(goal) or truth.all(), str(goal)
    with analyzer.constraint(fact):
        assert not analyzer.can_prove(goal) or truth[holds].all(), (str(fact), str(goal))


def test_unsigned_never_below_zero() -> None:
    u = Var("u", DType("uint8"))
    assert Analyzer().interval(u + 1) == Interval(0, 255)
    assert Analyzer().can_prove(cast(u, "int32") + 1 > 0)
    assert not Analyzer().can_prove(u + 1 > 0)
