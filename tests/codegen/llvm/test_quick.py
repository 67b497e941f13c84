"""Code that LLVM makes with little effort: the same bits in other instructions."""

from __future__ import annotations

import re

import numpy as np
from tilewright import te, topi
from tilewright.codegen.result import BuildOptions
from tilewright.codegen.target import Target
from tilewright.driver.build import build_with_options
from tilewright.driver.cache.key import build_key
from tilewright.driver.compile import BuildItem, Request
from tilewright.ir.text.parser import parse
from tilewright.tools.fuzz.guard import Guarded

AVX512 = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=skylake-avx512"


def test_quick_code_has_the_same_bits_and_is_kept_apart() -> None:
    n = te.size_var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: te.exp(A[i]) * A[i] + te.sqrt(te.abs(A[i])), name="B")
    s = te.create_schedule(B.op)
    _, inner = s[B].split(B.op.axis[0], factor=8)
    s[B].vectorize(inner)
    full, quick = (build_with_options(s, [A, B], "llvm", "main", BuildOptions(quick=quick)) for quick in (False, True))
    a = np.linspace(-3, 3, 131, dtype="float32")
    results = [np.empty_like(a) for _ in range(2)]
    for kernel, result in zip((full, quick), results, strict=True):
        kernel(a, result)
    assert results[0].tobytes() == results[1].tobytes()
    assert full.source("asm") != quick.source("asm")
    assert np.allclose(results[1], np.exp(a) * a + np.sqrt(abs(a)), rtol=1e-5)
    keys = {
        build_key(Request((BuildItem("main", s, [A, B]),), Target(), BuildOptions(quick=quick)))
        for quick in (False, True)
    }
    assert len(keys) == 2


def test_quick_code_of_a_window_that_may_be_short_is_made() -> None:
    """LLVM's quick way ended the process over a mask of the lanes that are left."""
    x = te.placeholder((3, 1, 3), name="x")
    y = topi.image.resize(x, (3, 40), "nearest", "CHW")
    made = build_with_options(topi.schedule(y, AVX512), [x, y], AVX512, "main", BuildOptions(quick=True))
    assert "vpermi2ps" in made.source("asm") or "vpermt2ps" in made.source("asm")


def test_quick_code_reads_an_element_and_not_what_lies_behind_it() -> None:
    A, C = (te.placeholder((3,), name=name) for name in "AC")
    B = te.compute((3,), lambda i: te.select(C[i] > 0, A[i], A[2 - i]), name="B")
    kernel = build_with_options(te.create_schedule(B.op), [A, C, B], "llvm", "main", BuildOptions(quick=True))
    a, c = np.arange(3, dtype="float32"), np.array([1, -1, 1], "float32")
    arrays = [
        Guarded(value, at_end=True, written=value is not a and value is not c)
        for value in (a, c, np.empty(3, "float32"))
    ]
    kernel(*(array.view for array in arrays))
    assert arrays[2].view.tolist() == [0, 1, 2]


def test_quick_code_has_no_masked_store_of_what_is_blended() -> None:
    """A blend by a mask of constants became a masked store, and that of a lone lane a store over the element behind it."""
    function = parse("""
        def main(A: bfloat16[9], B: out bfloat16[9]):
            L: local bfloat16[9]
            for i in vectorized(9):
                L[i] = A[i]
            for k in unrolled(8):
                for i in vectorized(9):
                    if k <= i:
                        L[i] = min(L[i], A[k + 1])
            for i in vectorized(9):
                B[i] = L[i]
    """)
    made = build_with_options(function, None, AVX512, "main", BuildOptions(quick=True)).source("asm")
    assert "vpmovdw" in made
    assert re.search(r"vpmovdw.*\(%rsp\) \{%k", made) is None
