"""Signed integers that wrap, as C compilers vectorize their sums and products."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi

pytestmark = pytest.mark.skipif(not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="no C compiler")


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint32", "uint64"])
@pytest.mark.parametrize("width", [2, 4, 8])
def test_partial_results_of_integers_are_right(dtype: str, width: int) -> None:
    """gcc 12 vectorizes two partial sums, of values that were converted to unsigned and back, and adds up half of them."""
    A = te.placeholder((4 * width,), dtype, name="A")
    kernels: dict[str, tuple[te.Schedule, list[te.Tensor]]] = {}
    for name, combine in (("sum", te.sum), ("prod", te.prod)):
        k = te.reduce_axis((0, 4 * width), "k")
        C = te.compute((), lambda k=k, combine=combine: combine(A[k], axis=k), name="C")
        s = te.create_schedule(C.op)
        _, inner = s[C].split(k, factor=width)
        partial = s.rfactor(C, inner)
        s[partial].reorder(s[partial].op.reduce_axis[0], s[partial].op.axis[0])
        kernels[name] = (s, [A, C])
    module = tw.build(kernels, target="c")
    rng = np.random.default_rng(7)
    for given in (
        rng.integers(-9, 10, 4 * width).astype(dtype),
        rng.integers(0, 255, (4 * width, 8), "u1").view(dtype),
    ):
        given = np.ascontiguousarray(given.reshape(4 * width, -1)[:, 0])
        for name, reduce in (("sum", np.add.reduce), ("prod", np.multiply.reduce)):
            result = np.zeros((), dtype)
            module[name](given, result)
            assert result == reduce(given, dtype=dtype), (name, given)


def test_a_sum_of_a_transposed_tensor_is_right() -> None:
    A = te.placeholder((16,), "int64", name="A")
    kernel = tw.build([A, topi.sum(topi.transpose(A, [0]), axis=0)], target="c")
    given, result = np.array([3, 1, 0, -2, -2, -4, -4, -4, -3, 3, 1, 4, 0, 1, 4, 2]), np.zeros((), np.int64)
    kernel(given, result)
    assert result == 0


@pytest.mark.parametrize("options", [[], ["-fwrapv", "-DTW_WRAPV"]])
def test_signed_sums_wrap_with_and_without_the_options(tmp_path: Path, options: list[str]) -> None:
    A = te.placeholder((4,), "int32", name="A")
    kernel = tw.build([A, te.compute((4,), lambda i: (A[i] + 1) * 2 - A[i], name="B")], target="c", name="wrap")
    kernel.export(tmp_path / "wrap.c", threads="none")
    (tmp_path / "main.c").write_text(
        '#include "wrap.h"\n#include <stdio.h>\nint main(void) { int32_t a[4] = {INT32_MAX, INT32_MIN, -1, 5}, b[4];\n'
        'wrap(a, b); printf("%d %d %d %d", b[0], b[1], b[2], b[3]); return 0; }\n'
    )
    program = str(tmp_path / "program")
    sources = [str(tmp_path / "main.c"), str(tmp_path / "wrap.c")]
    checks = [] if options else ["-fsanitize=undefined", "-fno-sanitize-recover"]
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))))
    subprocess.run([compiler, "-O2", *options, *checks, "-o", program, *sources, "-lm"], check=True)
    a = np.array([2**31 - 1, -(2**31), -1, 5], np.int32)
    with np.errstate(over="ignore"):
        expected = (a + np.int32(1)) * np.int32(2) - a
    told = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    assert told == " ".join(map(str, expected))
