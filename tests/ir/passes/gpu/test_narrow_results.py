"""Results of tensor cores in shared memory, in the dtype that is stored."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import tilewright as tw
from ml_dtypes import bfloat16
from tilewright import te, topi
from tilewright.autoschedule.plan import Candidate
from tilewright.autoschedule.scheduler import schedule
from tilewright.ir.passes.gpu.narrow_results import narrow_results
from tilewright.ir.text.parser import parse

TEXT = """@attrs(stage="loops")
def main(C: out float16[8], D: out float32[8]):
    S: shared float32[8]
    c: local float32[8]
    call_extern(int32, "tw_mma_store", access_ptr(handle, S[0], 0, 2), access_ptr(handle, c[0], 0, 1), 8, 1)
    for i in 8:
        C[i] = {read}
"""


def test_all_that_read_it_must_convert_it_to_one_dtype() -> None:
    text = str(narrow_results(parse(TEXT.replace("{read}", "float16(S[i])"))))
    assert "S: shared float16[8]" in text and "tw_mma_store_float16" in text and "C[i] = S[i]" in text
    for read in (
        "float16(S[i] * 2.0)",
        "float16(bfloat16(S[i])) + float16(S[i])",
        "float16(S[i]) + float16(S[i] + 1.0)",
    ):
        plain = parse(TEXT.replace("{read}", read))
        assert str(narrow_results(plain)) == str(plain)


def test_what_else_stores_keeps_it_wide() -> None:
    text = TEXT.replace("{read}", "float16(S[i])").replace("    for i", "    S[0] = 1.0\n    for i")
    assert str(narrow_results(parse(text))) == str(parse(text))


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_the_bits_are_those_of_a_conversion_at_the_store(arch: str, kind: str) -> None:
    """A product that is converted before it is stored, and one that is doubled before it is: of half of the numbers."""
    A, B = te.placeholder((72, 64), kind, name="A"), te.placeholder((64, 136), kind, name="B")
    rng = np.random.default_rng(4)
    target = f"cuda -emulate -arch={arch}"

    def cores(ways: Sequence[Candidate]) -> int:
        own = [at for at, way in enumerate(ways) if way.description.startswith(("tensor cores", "warpgroups"))]
        return int(rng.choice(own)) if own else 0

    sums = topi.matmul(A, B, out_dtype="float32")
    wide = te.compute(sums.shape, lambda *i: (sums[i] * 0.5).astype(kind) * 2)
    dtype = {"float16": np.dtype("float16"), "bfloat16": np.dtype(bfloat16)}[kind]
    arrays = [rng.integers(-8, 9, (int(t.shape[0]), int(t.shape[1]))).astype(dtype) for t in (A, B)]
    found = []
    for output in (topi.matmul(A, B), wide):
        s = schedule([output], target, chooser=lambda _, ways: cores(ways))
        kernel = tw.build(s, [A, B, output], target=target)
        assert ("mma_store_" in kernel.source("cuda")) == (output is not wide)
        found.append(np.zeros((72, 136), arrays[0].dtype))
        kernel(*arrays, found[-1])
    np.testing.assert_array_equal(*(each.astype("float32") for each in found))
