"""Linear forms of drawn expressions, against their values at every point."""

from __future__ import annotations

import drawn
import numpy
import pytest
from drawn_index import CASES, Drawn
from tilewright.ir import expr as E
from tilewright.ir.analysis.linear import atom_key, expression, is_index, linear, merge_divisions, occurs, terms
from tilewright.ir.arith.analyzer import Analyzer
from tilewright.ir.arith.linear import LinearForm
from tilewright.ir.buffer import Buffer
from tilewright.ir.dtype import INT32, INT64, DType
from tilewright.ir.ops import cast, const
from tilewright.ir.structural import equal
from tilewright.ir.visit import post_order, rewrite


@pytest.mark.parametrize("case", CASES)
def test_a_form_is_its_expression(case: int) -> None:
    sample = Drawn("linear", case)
    form = linear(sample.expr)
    assert (sample.values(expression(form, INT64)) == sample.values(sample.expr)).all(), str(sample.expr)
    total = sum(
        (factor * sample.values(atom) for atom, factor in terms(form)), form.const + 0 * sample.values(sample.expr)
    )
    assert (total == sample.values(sample.expr)).all(), f"{sample.expr}: {form}"
    assert all(form.coeffs.values())
    other = sample.draw(3)
    factor = int(sample.rng.integers(-4, 5))
    both = form.plus(linear(other), factor)
    assert (sample.values(expression(both, INT64)) == sample.values(sample.expr) + factor * sample.values(other)).all()
    assert form.plus(linear(sample.expr), -1).is_const
    assert form.scale(0).key == frozenset()


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
    assert (
        form.coefficient(var)
        == (
            sample.values(rewrite(sample.expr, lambda node: var + 1 if node is var else None))
            - sample.values(sample.expr)
        )[0]
    )


def test_quotient_and_remainder_of_one_dividend_are_it_again() -> None:
    i, j = E.Var("i"), E.Var("j")
    whole = i * 8 + j
    form = linear((whole // 16) * 48 + (whole % 16) * 3)
    assert form.coefficient(i) == 24 and form.coefficient(j) == 3 and len(form.coeffs) == 2
    assert linear((i // 4 // 4) * 16 + (i // 4) % 4 * 4).key == frozenset({(atom_key(i // 4), 4)})
    assert len(linear((whole // 16) * 15 + whole % 16).coeffs) == 2
    apart = LinearForm({atom_key(E.FloorDiv(i * 16 + j, const(3))): 3, atom_key(E.FloorMod(i + j, const(3))): 1})
    assert merge_divisions(apart).key == linear(i * 16 + j).key


@pytest.mark.parametrize("shift", [0, 1, 2, 7, 8, 9, 16, 26, 27, 131])
def test_digits_of_a_shifted_number_are_it_again_as_simplifying_leaves_them(shift: int) -> None:
    """(x + 16) // 3 % 3 becomes ((x + 1) // 3 + 2) % 3, and (x + 16) // 9 becomes (x + 7) // 9 + 1."""
    x, analyzer = E.Var("x"), Analyzer()
    analyzer.bind(x, E.Range(const(0), const(16)))
    digits = [analyzer.simplify(each) for each in ((x + shift) // 9, (x + shift) // 3 % 3, (x + shift) % 3)]
    assert linear(digits[0] * 9 + digits[1] * 3 + digits[2]).key == linear(x + shift).key
    assert linear(digits[0] * 9 + digits[1] * 4 + digits[2]).coefficient(x) == 0


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
