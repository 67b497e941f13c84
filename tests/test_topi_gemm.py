"""Products of matrices: against numpy, in every form, by their schedules."""

from __future__ import annotations

import drawn
import numpy
import pytest
import tilewright as tw
from tilewright import te, topi
from tilewright.topi.errors import BadOperand

UNIT = 2.0**-24


def within_bound(found, a, b, extra=0.0):
    """Whether each element lies within (k + 1) u |a||b| of the product in float64."""
    exact = a.astype("float64") @ b.astype("float64")
    bound = (a.shape[-1] + 1) * UNIT * (abs(a).astype("float64") @ abs(b).astype("float64")) + extra
    return bool((abs(found - exact) <= bound).all())


def run(m, k, n, transpose_a=False, transpose_b=False, seed=0):
    rng = numpy.random.default_rng(seed)
    a, b = (rng.standard_normal(shape).astype("float32") for shape in ((m, k), (k, n)))
    A = te.placeholder((k, m) if transpose_a else (m, k), name="A")
    B = te.placeholder((n, k) if transpose_b else (k, n), name="B")
    C = topi.matmul(A, B, transpose_a, transpose_b)
    f = tw.build(topi.schedule(C), [A, B, C])
    c = numpy.full((m, n), numpy.nan, "float32")
    f(numpy.ascontiguousarray(a.T) if transpose_a else a, numpy.ascontiguousarray(b.T) if transpose_b else b, c)
    return within_bound(c, a, b)


@pytest.mark.parametrize("transposes", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 1, 3), (7, 13, 17), (64, 64, 64), (1, 100, 67), (67, 100, 1), (300, 70, 130), (37, 4096, 52)])
def test_matmul(shape, transposes):
    assert run(*shape, *transposes)


def test_sizes_as_they_come():
    for case in range(drawn.count(12, 400)):
        rng = drawn.rng("gemm", case)
        m, k, n = (int(rng.choice([1, 2, 3, 6, 7, 16, 31, 48, 65, 97, 129, 260, 300])) for _ in range(3))
        assert run(m, k, n, bool(rng.integers(2)), bool(rng.integers(2)), case), (m, k, n)
