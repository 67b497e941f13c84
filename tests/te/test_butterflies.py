"""Transforms of a few numbers, written out, against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tilewright.ir.dtype import FLOAT64
from tilewright.ir.expr import Add, Call, FloatImm, Mul, Sub, Var
from tilewright.te.butterflies import transform


def value_of(expr: Any, values: dict[Any, float]) -> float:
    if isinstance(expr, FloatImm):
        return expr.value
    if isinstance(expr, Var):
        return values[expr]
    if isinstance(expr, Call):
        a, b, c = (value_of(each, values) for each in expr.args)
        return c + a * b
    a, b = value_of(expr.a, values), value_of(expr.b, values)
    return {Add: a + b, Sub: a - b, Mul: a * b}[type(expr)]


@pytest.mark.parametrize("sign", [-1, 1])
def test_every_length(sign: int) -> None:
    rng = np.random.default_rng(0)
    for n in range(1, 33):
        z = rng.standard_normal(n) + 1j * rng.standard_normal(n)
        values: dict[Any, float] = {}

        def bind(expr: Any, values: dict[Any, float] = values) -> Any:
            var = Var(f"t{len(values)}", FLOAT64)
            values[var] = value_of(expr, values)
            return var

        given = [(FloatImm(float(each.real), FLOAT64), FloatImm(float(each.imag), FLOAT64)) for each in z]
        got = [complex(*(value_of(part, values) for part in each)) for each in transform(given, sign, bind)]
        np.testing.assert_allclose(got, np.fft.fft(z) if sign < 0 else np.fft.ifft(z) * n, atol=1e-12)
        assert len(values) <= 12 * n * max(n.bit_length(), 1) or n in (17, 19, 23, 29, 31)
