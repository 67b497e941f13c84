"""Laws of combiners: those of known forms, and that none is called proved which is not."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tilewright import te
from tilewright.base.errors import TilewrightError
from tilewright.ir.analysis.combiners import Law, Laws, laws_of
from tilewright.ir.analysis.combiners.application import Application
from tilewright.ir.dtype import DType
from tilewright.ir.expr import CommReducer

from tests.support import drawn
from tests.support.drawn_combiners import DTYPES, FORMS, drawn_combiner

NAMES = ("associative", "commutative", "repeatable", "idle")
P, R, U, X = Law.PROVED, Law.ROUNDED, Law.UNPROVED, Law.REFUTED


def combiner(name: str, *dtypes: str) -> CommReducer:
    form = next(form for form in FORMS if form.name == name)
    return form.reducer().combiner(tuple(map(DType, dtypes)), len(dtypes) > 1)


def laws(made: CommReducer) -> tuple[Law, ...]:
    found = laws_of(made)
    return tuple(getattr(found, name) for name in NAMES)


@pytest.mark.parametrize(
    ("name", "dtypes", "expected"),
    [
        ("sum", ("int32",), (P, P, P, P)),
        ("sum", ("float32",), (R, R, P, P)),
        ("product", ("uint8",), (P, P, P, P)),
        ("greatest", ("float64",), (P, P, P, P)),
        ("greatest by choice", ("int64",), (P, P, P, P)),
        ("greatest by choice", ("float32",), (R, R, P, P)),
        ("sum from one", ("int32",), (P, P, X, X)),
        ("sum from one", ("float16",), (R, R, X, X)),
        ("greatest from five", ("int8",), (P, P, P, P)),
        ("joined", ("int16",), (P, P, P, P)),
        ("joined", ("float32",), (R, R, R, R)),
        ("first not 0", ("int8",), (P, X, P, P)),
        ("first not 0", ("uint32",), (P, X, P, P)),
        ("last", ("int32",), (P, X, P, X)),
        ("first of equals", ("int32", "int32"), (P, X, P, P)),
        ("last of equals", ("int32", "int8"), (P, X, P, X)),
        ("place", ("int32", "int64"), (P, P, P, P)),
        ("place", ("int64", "float32"), (R, R, R, R)),
        ("count of greatest", ("int32", "int32"), (P, P, P, P)),
        ("extremes", ("int8", "float32"), (P, P, P, P)),
        ("sum and product", ("int32", "float32"), (R, R, P, P)),
    ],
)
def test_laws_of_known_forms(name: str, dtypes: tuple[str, ...], expected: tuple[Law, ...]) -> None:
    assert laws(combiner(name, *dtypes)) == expected


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "float32", "float16"])
@pytest.mark.parametrize("name", ["difference", "twice", "saturated"])
def test_no_partial_results_of_what_is_not_associative(name: str, dtype: str) -> None:
    """But unsigned saturating sums, of which nothing is below the bound."""
    found = laws_of(combiner(name, dtype))
    assert found.associative == X and " with " in found.association
    assert "not associative" in found.split_refusal(False, False)


def _pairs(begin: float) -> CommReducer:
    def joined(a: Any, b: Any) -> Any:
        most = te.max(a[0], b[0])
        return most, a[1] * te.exp(a[0] - most) + b[1] * te.exp(b[0] - most)

    reducer = te.comm_reducer(joined, lambda t, u: (te.const(begin, t), te.const(0, u)), "pairs")
    return reducer.combiner((DType("float32"), DType("float32")), True)


def test_log_sum_exp_pairs_are_associative_over_the_real_numbers() -> None:
    finite, infinite = laws_of(_pairs(-3e38)), laws_of(_pairs(-math.inf))
    assert finite.may_split(False) and not finite.split_refusal(False, True)
    assert infinite.may_split(False) and not infinite.split_refusal(False, False)
    assert "nan" in infinite.split_refusal(False, True)


def test_welfords_combiner_is_associative_where_its_counts_are_numbers() -> None:
    def joined(x: Any, y: Any) -> Any:
        count, delta = x[0] + y[0], y[1] - x[1]
        return count, x[1] + delta * y[0] / count, x[2] + y[2] + delta * delta * x[0] * y[0] / count

    reducer = te.comm_reducer(joined, lambda *kinds: tuple(te.const(0, kind) for kind in kinds), "welford")
    found = laws_of(reducer.combiner((DType("float32"),) * 3, True))
    assert found.may_split(False) and not found.is_free


def test_a_constant_among_the_terms_is_all_that_a_search_tries() -> None:
    """A count is a sum of ones, which alone is what max(count, 1) may be asked about."""

    def joined(x: Any, y: Any) -> Any:
        count = x[0] + y[0]
        return count, x[1] + (y[1] - x[1]) * y[0] / te.max(count, 1.0)

    reducer = te.comm_reducer(joined, lambda *kinds: tuple(te.const(0, kind) for kind in kinds), "mean")
    made = reducer.combiner((DType("float32"),) * 2, True)
    ones = (te.const(1.0, "float32"), te.placeholder((1,))[0])
    assert laws_of(made).associative == X
    assert laws_of(made, ones).associative == U


def test_every_element_has_laws_of_its_own() -> None:
    both = te.comm_reducer(
        lambda x, y: (x[0] + y[0], x[1] - y[1]), lambda t, u: (te.const(0, t), te.const(0, u)), "both"
    )
    found = laws_of(both.combiner((DType("int32"), DType("int32")), True))
    assert (found.associative, found.neutral) == (X, X)


def test_what_reads_more_than_its_operands_is_not_proved() -> None:
    n = te.var("n")
    shifted = te.comm_reducer(lambda x, y: te.max(x, y) + n, lambda t: te.const(0, t), "shifted")
    assert laws_of(shifted.combiner((DType("int32"),), False)).associative == U


# Drawn


def _breaks(made: CommReducer, rng: np.random.Generator) -> dict[str, bool]:
    """The laws that some drawn operands break, to the last bit."""
    apply = Application(made)
    dtypes = [var.dtype for var in made.lhs]

    def operands() -> list[np.ndarray[Any, Any]]:
        return [_values(rng, dtype) for dtype in dtypes]

    x, y, z = operands(), operands(), operands()
    first = [np.repeat(value, len(x[0])) for value in apply.identity()]
    reached = apply(first, x)
    return {
        "associative": not _same(apply(apply(x, y), z), apply(x, apply(y, z))),
        "commutative": not _same(apply(x, y), apply(y, x)),
        "neutral": not _same(apply(x, first), x),
        "repeatable": not _same(apply(reached, apply(first, y)), apply(reached, y)),
        "idle": not _same(apply(reached, first), reached) or not _same(apply(first, first), first),
    }


def _values(rng: np.random.Generator, dtype: DType) -> np.ndarray[Any, Any]:
    count = 300
    if dtype.is_float:
        pool = np.array([0.0, -0.0, 1, 2, -1, 0.5, 90, 1e3, math.inf, -math.inf, math.nan])
        return rng.choice(pool, count).astype(str(dtype))
    whole = rng.integers(dtype.least, dtype.greatest, count, str(dtype), endpoint=True)
    small = rng.integers(0, 6, count).astype(str(dtype))
    return np.where(rng.random(count) < 0.5, whole, small)


def _same(a: list[np.ndarray[Any, Any]], b: list[np.ndarray[Any, Any]]) -> bool:
    def bits(values: np.ndarray[Any, Any]) -> bytes:
        return np.where(values != values, np.zeros(1, values.dtype) + 77, values).tobytes()

    return all(bits(one) == bits(other) for one, other in zip(a, b, strict=True))


def test_no_law_is_called_proved_that_drawn_operands_break() -> None:
    for case in range(drawn.count(60, 5000)):
        rng = drawn.rng("laws", case)
        form = drawn_combiner(rng)
        dtypes = [DType(DTYPES[rng.integers(0, len(DTYPES))]) for _ in form.begin]
        try:
            made = form.reducer().combiner(tuple(dtypes), len(dtypes) > 1)
        except TilewrightError:  # an identity out of range
            continue
        found, broken = laws_of(made), _breaks(made, rng)
        wrong = [name for name, breaks in broken.items() if breaks and getattr(found, name) == Law.PROVED]
        assert not wrong, f"{form.name} over {dtypes}: {wrong} are called proved; {drawn.SEED}, {case}"


def test_proofs_by_calculation_hold_over_all_values_of_8_bits() -> None:
    from tilewright.ir.analysis.combiners import algebra, tables

    checks: tuple[Callable[..., Any], ...] = (algebra.laws_by_algebra, tables.laws_by_values)
    names = ("associative", "commutative", "neutral", "repeatable", "idle")
    for case in range(drawn.count(4, 300)):
        form = drawn_combiner(drawn.rng("8 bits", case))
        if len(form.begin) > 1 or abs(form.begin[0]("int8")) > 127:
            continue
        made = form.reducer().combiner((DType("int8"),), False)
        proved, (exact, _) = (check(made) for check in checks)
        for name, holds in zip(names, proved, strict=True):
            assert not holds or getattr(exact, name), f"{form.name}: {name} is not a law; {drawn.SEED}, {case}"


def test_laws_are_looked_up_once() -> None:
    from tilewright.ir.analysis.combiners import laws as module

    one, other = (combiner("saturated", "int32") for _ in range(2))
    first = laws_of(one)
    known = dict(module._KNOWN)
    assert isinstance(first, Laws) and laws_of(other) is first and known == module._KNOWN
