"""Powers of 2 that may be 0 where they are tiny."""

from __future__ import annotations

import numpy as np
import tilewright as tw
from tilewright import te
from tilewright.ir.passes.gpu.flushed_powers import flush_powers
from tilewright.ir.text.parser import parse

TEXT = """@attrs(stage="loops")
def main(A: float32[8], B: float64[8], C: out float32[8], D: out float64[8]):
    for i in 8 with flush_powers={asked}:
        for j in unrolled(4):
            C[i] = exp2(A[j] + exp2(A[i])) + exp(A[i])
            D[i] = exp2(B[i] * 3.0 - B[j])
            C[i] = exp2(A[i] * 3.0 - A[j])
"""


def test_those_of_float32_in_loops_with_the_pragma_are_replaced() -> None:
    text = str(flush_powers(parse(TEXT.replace("{asked}", "1"))))
    assert text.count("tw_flushed_exp2") == 3 and "exp2(B[i] * 3.0 - B[j])" in text and "exp(A[i])" in text
    assert "fma(A[i], 3.0, A[j] * -1.0)" in text, "rounded once"
    plain = parse(TEXT.replace("{asked}", "0"))
    assert str(flush_powers(plain)) == str(plain)


def test_all_but_the_smallest_are_as_they_were() -> None:
    A = te.placeholder((64,), name="A")
    B = te.compute((64,), lambda i: te.exp2(A[i]), name="B")
    x = np.linspace(-150, 3, 64).astype("float32")
    x[:4] = -np.inf, np.inf, np.nan, -126
    found = []
    for flushed in (False, True):
        s = te.create_schedule(B.op)
        outer, inner = s[B].split(B.op.axis[0], factor=4)
        s[B].bind(outer, te.thread_axis("threadIdx.x"))
        if flushed:
            s[B].pragma(inner, "flush_powers")
        found.append(np.empty(64, "float32"))
        tw.build(s, [A, B], target="cuda -emulate")(x, found[-1])
        assert s.is_exact if not flushed else "below 2**-126" in str(s.is_exact)
    np.testing.assert_array_equal(found[1], np.where(found[0] < 2.0**-126, 0, found[0]))
    assert (found[1] == 0).sum() > (found[0] == 0).sum()
