"""Factors of warpgroups' products in TF32, rounded where they are stored."""

from __future__ import annotations

import pytest
import tilewright as tw
from tilewright.base.errors import CudaError
from tilewright.ir.passes.gpu.rounded_factors import round_factors
from tilewright.ir.text.parser import parse
from tilewright.ir.tf32 import unwrap_tf32
from tilewright.ir.visit import stores
from warpgroups import TARGET, wgmma_matmul

TEXT = """@attrs(stage="loops")
def main(A: float32[8, 32], C: out float32[64, 8]):
    W: global float32[8, 32]
    for i in 8:
        for k in 32:
            W[i, k] = A[i, k]
    S: swizzled float32[8, 32]
    c: wgmma_c float32[64, 8]
    for i in 8:
        for k in 32:
            S[i, k] = W[i, k]
    call_extern(int32, "tw_wgmma_float32_8", access_ptr(handle, c[0, 0], 0, 3), access_ptr(handle, S[0, 0], 0, 1))
    C[0, 0] = {read}
"""


@pytest.mark.parametrize(("read", "where"), [("A[0, 0]", "W"), ("W[0, 0]", "S")])
def test_workspaces_are_rounded_that_only_factors_are_copied_from(read: str, where: str) -> None:
    done = round_factors(parse(TEXT.replace("{read}", read)))
    rounded = {store.buffer.name for store in stores(done.body) if unwrap_tf32(store.value) is not store.value}
    assert rounded == {where}
    assert round_factors(done) is done


def test_what_something_else_reads_is_refused() -> None:
    with pytest.raises(CudaError, match=r"TW0840.*S is multiplied as TF32, and read by something else"):
        round_factors(parse(TEXT.replace("{read}", "S[0, 0]")))


def test_the_copy_engine_does_not_round() -> None:
    program = wgmma_matmul(64, 64, 96, ("mk", "nk"), (64, 64, 32), dtype="float32", bulk=True)
    with pytest.raises(CudaError, match=r"(?s)TW0841.*without rounding it"):
        tw.build(program.schedule, program.args, target=TARGET)
