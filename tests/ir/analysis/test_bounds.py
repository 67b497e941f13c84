"""Intervals of drawn expressions, against their values at every point."""

from __future__ import annotations

import drawn
import pytest
from drawn_index import Drawn
from tilewright.ir import expr as E
from tilewright.ir.analysis.bounds import IntervalEvaluator
from tilewright.ir.analysis.linear import is_index
from tilewright.ir.arith.interval import EVERYTHING, Interval
from tilewright.ir.dtype import DType
from tilewright.ir.ops import const


@pytest.mark.parametrize("dtype", ["int32", "int64", "int8", "uint8", "uint32", "int16"])
@pytest.mark.parametrize("case", range(drawn.count(60, 3000)))
def test_intervals_hold_every_value(case: int, dtype: str) -> None:
    sample = Drawn("intervals " + dtype, case, DType(dtype))
    ranges = {
        var: Interval(begin, begin + extent - 1)
        for var, begin, extent in zip(sample.variables, sample.begins, sample.extents, strict=True)
    }
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
    assert evaluator(E.Cast(byte, DType("int8"))) == EVERYTHING
    assert evaluator(E.Cast(byte // const(8, "uint8"), DType("int8"))) == Interval(0, 25)
    assert evaluator(byte // const(8, "uint8")) == Interval(0, 25)
    assert evaluator(index - 1) == Interval(-1, 199)
    assert evaluator(E.Ramp(index, const(-2), 4)) == Interval(-6, 200)
    assert evaluator(E.Broadcast(index, 4)) == Interval(0, 200)
