"""For which values of a variable a comparison holds: checked by trying all of them."""

from __future__ import annotations

import pytest
from tilewright import te
from tilewright.ir.analysis.solved_bound import solved_bound
from tilewright.ir.arith import Analyzer
from tilewright.ir.ops import floordiv, maximum
from tilewright.ir.visit import substitute

X, B, C = (te.var(name) for name in "xbc")


def holds(condition, **values: int) -> bool:
    known = {var: substitute(X * 0 + values[var.name], {}) for var in (X, B, C) if var.name in values}
    return bool(Analyzer().simplify(substitute(condition, known)).value)


@pytest.mark.parametrize("factor", [4, -4, 1, -7])
@pytest.mark.parametrize("compare", [lambda e: e < 17, lambda e: e <= 17, lambda e: e > 17, lambda e: e >= 17])
def test_bounds_hold_for_every_value_of_what_is_relaxed_and_are_the_last_that_do(factor: int, compare) -> None:
    analyzer = Analyzer()
    analyzer.bind(B, (1, 5))
    condition = compare(B * 3 + X * factor + 3)
    found = solved_bound(X, condition, analyzer, [B])
    assert found is not None
    low, high = found
    end = (low if low is not None else high).value
    inwards = 1 if low is not None else -1
    assert all(holds(condition, x=end + inwards * step, b=b) for step in range(9) for b in range(1, 6))
    assert not all(holds(condition, x=end - inwards, b=b) for b in range(1, 6)), "one further it does not hold for all"


def test_coefficients_may_be_symbols_of_known_sign() -> None:
    analyzer = Analyzer()
    analyzer.bind(C, (2, 9))
    assert solved_bound(X, X * C <= B, Analyzer()) is None, "the sign of c is not known"
    low, high = solved_bound(X, X * C <= B, analyzer) or (None, None)
    assert low is None and str(high) == str(floordiv(B, C))
    assert solved_bound(X, X * C <= B, analyzer, [C]) is None, "what is relaxed multiplies"


def test_equations_have_one_solution_or_none_that_is_known() -> None:
    low, high = solved_bound(X, (X * 5).equal(-10), Analyzer()) or (None, None)
    assert low is not None and low.value == -2 and high is not None and high.value == -2
    assert solved_bound(X, (X * 4).equal(B), Analyzer()) is None
    assert solved_bound(X, (X * 5).equal(-11), Analyzer()) is None


def test_what_is_no_linear_comparison_has_no_bound() -> None:
    for condition in (X + B, maximum(X, 5) < 3, X * 2 - X > B, X * X > 4, (X + B > 3).astype("int32") > C):
        assert solved_bound(X, condition, Analyzer()) is None
